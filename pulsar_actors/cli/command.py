"""A command of `python -m pulsar_actors`, and helpers for commands."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any, Final

from pulsar_actors.cli.terminal import drop_output
from pulsar_actors.exceptions import BrokerRefusal
from pulsar_actors.named_tuple import NamedTuple

INTERRUPTED: Final = 130
"""The exit status of a program that Ctrl-C has ended, as shells report it."""

OUTPUT_GONE: Final = 141
"""That of a program whose output nobody reads any more, as in `| head -1`, as shells report it."""


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


def status_of(arguments: Namespace) -> int:
    """Run the command of parsed arguments, and return its exit status."""
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return OUTPUT_GONE
    return status


def reason_of(fault: Exception) -> str:
    """Return the text of an error after its kind. That of a broker's refusal begins with the kind itself."""
    tells_its_kind = isinstance(fault, BrokerRefusal) and fault.code
    return str(fault) if tells_its_kind else f"{type(fault).__name__}: {fault}"


def integer_argument(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers in a range, for `add_argument(type=...)`; the range is in its error."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
            raise ArgumentTypeError(f"takes a whole number from {least:,} to {most:,}, got {text!r}")
        return int(text)

    return parse
