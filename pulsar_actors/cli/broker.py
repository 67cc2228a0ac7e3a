"""`broker`: runs the embedded broker until Ctrl-C, for development without a Pulsar installation.

`BrokerProcess` is an embedded broker in a child process, for the demo and for measurements: in one process, client and
broker would compete for the interpreter lock. The child prints its service URL and runs until its standard input ends,
which also happens when the parent is killed. It has its own process session, so that Ctrl-C reaches only the parent.
"""

import subprocess
import sys
import threading
from argparse import ArgumentParser, Namespace
from types import TracebackType
from typing import Final

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.cli.command import Command, integer_argument
from pulsar_actors.exceptions import InvalidArgument

PORT: Final = 6650
WEB_PORT: Final = 8080
_LAST_PORT = 65_535


def run(arguments: Namespace) -> int:
    """Serve until Ctrl-C; the exit status is 1 if the address or a port is not available."""
    try:
        settings = Settings(deduplication=arguments.deduplication)
        with EmbeddedBroker(arguments.host, arguments.port, arguments.web_port, settings=settings) as broker:
            print(f"service URL  {broker.service_url}")
            print(f"web URL      {broker.web_url}")
            print("ready; everything is kept in memory, and Ctrl-C ends it", flush=True)
            wait_for_ctrl_c()
    except (OSError, InvalidArgument) as fault:
        print(getattr(fault, "strerror", fault), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped")
    return 0


def wait_for_ctrl_c() -> None:
    """Wait for Ctrl-C, which raises KeyboardInterrupt."""
    threading.Event().wait()


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    port = integer_argument(0, _LAST_PORT)
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


_CHILD_COMMAND: Final = (
    sys.executable,
    "-c",
    "from pulsar_actors.cli.broker import serve_until_stdin_ends; serve_until_stdin_ends()",
)
_STOP_SECONDS = 10.0


class BrokerProcess:
    """A broker in a child process, for the duration of a `with` block. Its topics have deduplication on."""

    def __init__(self) -> None:
        self.service_url = ""

    def __enter__(self) -> "BrokerProcess":
        self._process = subprocess.Popen(  # noqa: S603 - a fixed command
            _CHILD_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self.service_url = self._process.stdout.readline().strip()
        if not self.service_url:
            self._end()
            raise OSError("the embedded broker did not start; what it said is above")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        try:
            self._process.communicate(timeout=_STOP_SECONDS)  # which closes the pipes
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def serve_until_stdin_ends() -> None:
    """Serve until the standard input ends: the main function of the child."""
    with EmbeddedBroker(settings=Settings(deduplication=True)) as broker:
        print(broker.service_url, flush=True)
        sys.stdin.read()
