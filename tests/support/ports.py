"""Free ports for servers that must be told their port before they start."""

import contextlib
import random
import socket

BELOW_EPHEMERAL = range(20_000, 30_000)
"""The range of the ports.

The system gives none of them to a program that asks for any port, such as a test beside this one.
"""

_UNSEEDED = random.SystemRandom()
"""A generator with a seed of its own.

The shared one is seeded again for each test, and would return the same ports again.
"""


def free_ports(count: int) -> list[int]:
    """Return ports where no server listens."""
    found: list[int] = []
    for port in _UNSEEDED.sample(BELOW_EPHEMERAL, len(BELOW_EPHEMERAL)):
        if len(found) == count:
            break
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found
