"""A command of `python -m pulsar_actors`, and helpers for commands."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any, Final

from pulsar_actors.named_tuple import NamedTuple

INTERRUPTED: Final = 130
"""The exit status of a program that Ctrl-C has ended, as shells report it."""


class Command(NamedTuple):
    """One command: `configure` declares its arguments, `run` returns its exit status."""

    name: str
    summary: str
    configure: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]

    def add_to(self, commands: Any) -> None:  # noqa: ANN401 - of a class private to argparse
        """Add the command to the result of `add_subparsers`. Parsed arguments have its `run` and its `parser`."""
        parser = commands.add_parser(self.name, help=self.summary, description=self.summary)
        parser.set_defaults(run=self.run, parser=parser)
        self.configure(parser)


def integer_argument(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers in a range, for `add_argument(type=...)`; the range is in its error."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
            raise ArgumentTypeError(f"takes a whole number from {least:,} to {most:,}, got {text!r}")
        return int(text)

    return parse
