"""Ports for servers that are told where to listen, and begin to only later."""

import contextlib
import random
import socket

BELOW_EPHEMERAL = range(20_000, 30_000)
"""The system gives none of these to who takes any port: a test that runs meanwhile would hear what is not for it."""

_UNSEEDED = random.SystemRandom()
"""The other one begins anew with each test, and would give ports again whose servers have yet to listen."""


def free_ports(count: int) -> list[int]:
    """Find ports where nobody listens."""
    found: list[int] = []
    for port in _UNSEEDED.sample(BELOW_EPHEMERAL, len(BELOW_EPHEMERAL)):
        if len(found) == count:
            break
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found
