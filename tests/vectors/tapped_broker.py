"""A real broker that sends its clients by way of a recorder.

It has two doors: its own clients (of system topics and transactions) use one, and a client that comes in by the other
is told by every lookup to come back to `tap`, the port where the recorder stands. How a broker is fetched and run is
in `tests/real_broker/`.
"""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.admin import Admin
from tests.support.jars import VERSION, jars, tool
from tests.support.ports import free_ports
from tests.support.standalone import Standalone

__all__ = ["VERSION", "Broker", "jars", "running_broker", "tool"]

DOORS = """
bindAddresses=tap:pulsar://127.0.0.1:{outer}
advertisedListeners=inner:{inner},tap:pulsar://127.0.0.1:{tap}
internalListenerName=inner
"""


class Broker(NamedTuple):
    outer: int  # the port a recorder forwards to
    admin: Admin


@contextmanager
def running_broker(tap: int, settings: str = "") -> Generator[Broker, None, None]:
    """Start a broker, with these lines added to its configuration, and stop it at the end."""
    (outer,) = free_ports(1)
    with tempfile.TemporaryDirectory() as scratch:
        standalone = Standalone(Path(scratch))
        standalone.configure(DOORS.format(outer=outer, inner=standalone.service_url, tap=tap) + settings)
        standalone.start()
        try:
            yield Broker(outer, standalone.admin)
        finally:
            standalone.kill()
