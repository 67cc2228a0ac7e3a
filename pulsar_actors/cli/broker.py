"""`broker`: run the embedded broker until Ctrl-C, for development without a Pulsar installation."""

import sys
import threading
from argparse import ArgumentParser, Namespace
from typing import Final

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.cli.command import Command
from pulsar_actors.cli.whole_number import whole_number
from pulsar_actors.exceptions import InvalidArgument

PORT: Final = 6650
WEB_PORT: Final = 8080
_LAST_PORT = 65_535


def run(arguments: Namespace) -> int:
    """Serve until Ctrl-C; an address or a port that cannot be had is status 1."""
    try:
        settings = Settings(deduplication=arguments.deduplication)
        with EmbeddedBroker(arguments.host, arguments.port, arguments.web_port, settings=settings) as broker:
            print(f"service URL  {broker.service_url}")
            print(f"web URL      {broker.web_url}")
            print("ready; everything is kept in memory, and Ctrl-C ends it", flush=True)
            wait_for_ever()
    except (OSError, InvalidArgument) as fault:
        print(getattr(fault, "strerror", fault), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped")
    return 0


def wait_for_ever() -> None:
    """Wait for Ctrl-C, which raises KeyboardInterrupt here."""
    threading.Event().wait()


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    port = whole_number(0, _LAST_PORT)
    parser.add_argument(
        "--port", type=port, default=PORT, help="for clients (default: %(default)s; 0 takes a free one)"
    )
    parser.add_argument(
        "--web-port",
        type=port,
        default=WEB_PORT,
        help="for HTTP lookups and the admin calls (default: %(default)s; 0 takes a free one)",
    )
    parser.add_argument(
        "--deduplication",
        action="store_true",
        help="store only once what a producer sends twice (default: as set over HTTP, by namespace or topic)",
    )


BROKER: Final = Command(
    name="broker",
    summary="Run a Pulsar broker in memory, for development: any Pulsar client can talk to it.",
    configure=configure,
    run=run,
)
"""It says "ready" when both ports listen."""
