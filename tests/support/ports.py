"""Free ports for servers that must be told their port before they start, or that start again on the same one.

Such a port is free for a while, in which nobody else may take it. So the ports are below those that the system gives to
a program that asks for any port, and each process that runs tests has some for itself.
"""

import contextlib
import random
import socket
from collections.abc import Iterator
from itertools import cycle

BELOW_EPHEMERAL = range(20_000, 30_000)
OF_A_PROCESS = 250

_UNSEEDED = random.SystemRandom()
"""A generator with a seed of its own: the shared one is seeded again for each test."""


def _own_ports() -> Iterator[int]:
    """Return the ports of this process, in turn. That they are taken is told by a port for UDP, which stays open."""
    firsts = BELOW_EPHEMERAL[::OF_A_PROCESS]
    for first in _UNSEEDED.sample(firsts, len(firsts)):
        with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as sign:
            sign.bind(("127.0.0.1", first))
            sign.detach()
            return cycle(range(first, first + OF_A_PROCESS))
    raise RuntimeError(f"more than {len(firsts)} processes run tests")


_PORTS = _own_ports()  # once, since some tests count open files


def free_ports(count: int) -> list[int]:
    """Return ports where no server listens."""
    found: list[int] = []
    while len(found) < count:
        port = next(_PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found
