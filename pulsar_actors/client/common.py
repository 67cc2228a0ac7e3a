"""What all that a client makes is told alike, whatever its own options."""

from typing import NamedTuple

from pulsar_actors.machines.ledgers.backoff import Backoff
from pulsar_actors.runtime.loop import Loop


class Common(NamedTuple):
    """What all producers and consumers of a client are told. Times are in seconds."""

    operation_timeout: float
    tls: bool
    first_backoff: float
    longest_backoff: float

    def backoff(self, loop: Loop) -> Backoff:
        """Make the pauses of one producer or consumer."""
        return Backoff(loop.chance, self.first_backoff, self.longest_backoff)
