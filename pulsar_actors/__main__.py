"""`pulsar-actors COMMAND`, or `python -m pulsar_actors COMMAND`: each command has a file of its own in `cli`."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Final

from pulsar_actors.cli.broker import BROKER
from pulsar_actors.cli.check_imports import CHECK_IMPORTS
from pulsar_actors.cli.command import Command, status_of
from pulsar_actors.cli.consume import CONSUME
from pulsar_actors.cli.demo import DEMO
from pulsar_actors.cli.explain.command import EXPLAIN
from pulsar_actors.cli.perf import PERF
from pulsar_actors.cli.produce import PRODUCE
from pulsar_actors.cli.statecharts.command import STATECHARTS
from pulsar_actors.cli.topics import TOPICS
from pulsar_actors.version import __version__

COMMANDS: Final[tuple[Command, ...]] = (
    BROKER,
    CHECK_IMPORTS,
    CONSUME,
    DEMO,
    EXPLAIN,
    PERF,
    PRODUCE,
    STATECHARTS,
    TOPICS,
)


def main(arguments: Sequence[str], program: str = "python -m pulsar_actors") -> int:
    """Run one command and return its exit status. Without a command, list the commands."""
    parser = ArgumentParser(prog=program, description="Tools of the pulsar_actors package.")
    parser.add_argument("--version", action="version", version=f"pulsar_actors {__version__}")
    group = parser.add_subparsers(title="commands", metavar="COMMAND")
    parser.set_defaults(run=None, parser=parser)
    for command in COMMANDS:
        command.add_to(group)
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:  # reported by the parser whose usage text helps
        parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if parsed.run is None:
        parsed.parser.print_help()
        return 0
    return status_of(parsed)


def script() -> int:
    """Run what the command line of the installed script says."""
    return main(sys.argv[1:], "pulsar-actors")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
