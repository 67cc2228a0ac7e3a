"""`explain`: the command that makes a page of a saved history."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from pulsar_actors.cli.command import Command
from pulsar_actors.exceptions import InvalidArgument


def run(arguments: Namespace) -> int:
    """Make the page, and say where it is."""
    from pulsar_actors.cli.explain.page import html_page  # noqa: PLC0415 - the charts are loaded for it
    from pulsar_actors.client.history import History  # noqa: PLC0415 - the same

    source: Path = arguments.history
    target: Path = arguments.output or source.with_suffix(".html")
    try:
        history = History.load(source)
        if not history:
            raise InvalidArgument(f"{str(source)!r} is an empty history")  # noqa: TRY301 - told as what else is wrong
        target.write_text(html_page(history), encoding="utf-8")
    except InvalidArgument as fault:
        print(f"explain: {fault}", file=sys.stderr)
        return 1
    except OSError as fault:
        print(f"explain: {str(fault.filename)!r}: {fault.strerror}", file=sys.stderr)
        return 1
    print(f"{target}: {len(history)} changes of {len({change.actor for change in history})} actors")
    return 0


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("history", type=Path, metavar="FILE", help="what `client.history().save(FILE)` has written")
    parser.add_argument("--output", type=Path, metavar="PAGE", help="the page to write, by default FILE with .html")


EXPLAIN: Final = Command(
    name="explain",
    summary="Make a page of a saved history: a sequence diagram, what failed, and what the names mean.",
    configure=configure,
    run=run,
)
