"""What a command of `python -m pulsar_actors` is made of."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any, NamedTuple


class Command(NamedTuple):
    """One command: `configure` declares its arguments, `run` gives its exit status."""

    name: str
    summary: str
    configure: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]

    def add_to(self, commands: Any) -> None:  # noqa: ANN401 - of a class that argparse keeps to itself
        """Add it to what `add_subparsers` gave: what is parsed has its `run`, and its `parser`, whose usage helps."""
        parser = commands.add_parser(self.name, help=self.summary, description=self.summary)
        parser.set_defaults(run=self.run, parser=parser)
        self.configure(parser)
