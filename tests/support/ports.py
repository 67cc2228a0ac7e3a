"""Free ports for servers that must be told their port before they start, or that start again on the same one."""

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
    """Return ports where no server listens. Nobody else gets them from here while this process lives.

    The port of the same number for UDP, which no test uses, is held as a sign for other processes.
    """
    found: list[int] = []
    for port in _UNSEEDED.sample(BELOW_EPHEMERAL, len(BELOW_EPHEMERAL)):
        if len(found) == count:
            break
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            with socket.socket(type=socket.SOCK_DGRAM) as sign:
                sign.bind(("127.0.0.1", port))
                sign.detach()
            found.append(port)
    return found
