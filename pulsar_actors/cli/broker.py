"""`broker`: run the embedded broker until Ctrl-C, for development without a Pulsar installation."""

import sys
import threading
from argparse import ArgumentParser, Namespace
from typing import Final

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.cli.command import Command
from pulsar_actors.exceptions import InvalidArgument

PORT: Final = 6650
WEB_PORT: Final = 8080


def run(arguments: Namespace) -> int:
    """Serve until Ctrl-C; a port that cannot be had is status 1."""
    try:
        broker = EmbeddedBroker(arguments.host, arguments.port, arguments.web_port)
        with broker:
            print(f"service URL  {broker.service_url}")
            print(f"web URL      {broker.web_url}")
            print("ready; everything is kept in memory, and Ctrl-C ends it", flush=True)
            wait_for_ever()
    except (OSError, InvalidArgument) as fault:
        print(fault.strerror if isinstance(fault, OSError) else fault, file=sys.stderr)
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
    parser.add_argument("--port", type=int, default=PORT, help="for clients (default: %(default)s; 0 takes a free one)")
    parser.add_argument(
        "--web-port",
        type=int,
        default=WEB_PORT,
        help="for HTTP lookups and the admin calls (default: %(default)s; 0 takes a free one)",
    )


BROKER: Final = Command(
    name="broker",
    summary="Run a Pulsar broker in memory, for development: any Pulsar client can talk to it.",
    configure=configure,
    run=run,
)
"""It says "ready" when both ports listen."""
