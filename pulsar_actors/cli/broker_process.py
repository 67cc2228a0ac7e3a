"""An embedded broker in a process of its own, for as long as whoever started it is there.

Beside a client in one process, each of the two would wait for the other's turn with the interpreter; apart, what is
measured of the client is the client's. The child says its service URL on its standard output and serves until its
standard input ends, which it also does if the parent is killed: so it never stays behind. It has a session of its own,
for Ctrl-C is the parent's business.
"""

import subprocess
import sys
from types import TracebackType
from typing import Final

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings

_COMMAND: Final = (sys.executable, "-c", "from pulsar_actors.cli.broker_process import serve; serve()")
_STOP_SECONDS = 10.0


class BrokerProcess:
    """The parent's side: a broker, as long as the `with` block. What is published twice, it stores once."""

    def __init__(self) -> None:
        self.service_url = ""

    def __enter__(self) -> "BrokerProcess":
        self._process = subprocess.Popen(  # noqa: S603 - our own words
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
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
            self._process.communicate(timeout=_STOP_SECONDS)  # it closes the pipes
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def serve() -> None:
    """Serve until the standard input ends: the child's side."""
    with EmbeddedBroker(settings=Settings(deduplication=True)) as broker:
        print(broker.service_url, flush=True)
        sys.stdin.read()
