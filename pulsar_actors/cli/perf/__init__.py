"""`perf`: measurements of this client together with a broker and a network, each a subcommand in a file of its own."""

from argparse import ArgumentParser, Namespace
from typing import Final

from pulsar_actors.cli.command import Command
from pulsar_actors.cli.perf.consume import CONSUME
from pulsar_actors.cli.perf.echo import ECHO
from pulsar_actors.cli.perf.latency import LATENCY
from pulsar_actors.cli.perf.produce import PRODUCE

MEASUREMENTS: Final[tuple[Command, ...]] = (PRODUCE, CONSUME, LATENCY, ECHO)


def configure(parser: ArgumentParser) -> None:
    """Declare the measurements."""
    commands = parser.add_subparsers(title="measurements", metavar="MEASUREMENT")
    for each in MEASUREMENTS:
        each.add_to(commands)


def run(arguments: Namespace) -> int:
    """List the measurements, if none was named."""
    arguments.parser.print_help()
    return 0


PERF: Final = Command(
    name="perf",
    summary="Measure how fast messages go out, come in, and go through; with the arguments of pulsar-perf.",
    configure=configure,
    run=run,
)
