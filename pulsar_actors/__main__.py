"""`python -m pulsar_actors COMMAND`: each command has a file of its own in `cli`."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Final

from pulsar_actors.cli.broker import BROKER
from pulsar_actors.cli.command import Command
from pulsar_actors.cli.demo import DEMO
from pulsar_actors.cli.statecharts import STATECHARTS
from pulsar_actors.version import __version__

COMMANDS: Final[tuple[Command, ...]] = (BROKER, DEMO, STATECHARTS)


def main(arguments: Sequence[str]) -> int:
    """Run one command and give its exit status; without a command, say which there are."""
    parser = ArgumentParser(prog="python -m pulsar_actors", description="Tools of the pulsar_actors package.")
    parser.add_argument("--version", action="version", version=f"pulsar_actors {__version__}")
    group = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    parsers: dict[str | None, ArgumentParser] = {None: parser}
    for command in COMMANDS:
        parsers[command.name] = group.add_parser(command.name, help=command.summary, description=command.summary)
        command.configure(parsers[command.name])
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:  # by the parser whose usage helps
        parsers[parsed.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    for command in COMMANDS:
        if command.name == parsed.command:
            return command.run(parsed)
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
