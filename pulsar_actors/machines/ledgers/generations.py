"""Which past a report belongs to.

The caller's thread and the consumer's actor talk past each other for moments at a time: the caller may report "these
were handed out" while the actor has just lost its connection, asked for everything again, or gone elsewhere by a seek.
So whatever is handed over carries a generation, three counters that only grow, and each kind of report asks its own
question of it:

- permits belong to one connection, and to the queue as it was: everything must match;
- opened batches outlive a connection, but not a redeliver-all or a seek, which bring their messages again;
- acknowledgements outlive a redeliver-all too, for the message was processed; only a seek makes them void.
"""

from typing import NamedTuple


class Generation(NamedTuple):
    """The connection, the redelivery epoch and the seek that something was handed over in."""

    connection: int = 0
    epoch: int = 0
    seek: int = 0

    def attached_to(self, connection: int) -> "Generation":
        """Begin the generation of a new connection."""
        return self._replace(connection=connection)

    def redelivered_to(self, epoch: int) -> "Generation":
        """Begin the generation in which the broker sends everything unacknowledged again."""
        return self._replace(epoch=epoch)

    def sought(self) -> "Generation":
        """Begin the generation after a seek."""
        return self._replace(seek=self.seek + 1)

    def still_delivers(self, now: "Generation") -> bool:
        """Tell whether messages opened in this generation may be handed out in that one."""
        return self.epoch == now.epoch and self.seek == now.seek

    def still_acknowledges(self, now: "Generation") -> bool:
        """Tell whether acknowledgements of messages of this generation count in that one."""
        return self.seek == now.seek
