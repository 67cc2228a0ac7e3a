"""How many bytes the producers of one client may have on their way, all together.

Only what is sent counts: what a consumer holds is bounded by its receiver queue. The limit may be passed by the message
that reaches it, as in the other clients. A strict one would keep a large message out for as long as others find room
for small ones, and for ever if it is larger than the limit.

Several threads take and free. Whoever shares a ledger among them does so under one lock.
"""

from pulsar_actors.exceptions import InternalError, InvalidArgument


class MemoryLimit:
    """One limit, and how much of it is in use."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        if limit <= 0:
            raise InvalidArgument(f"a limit of memory is a positive number of bytes: got {limit}")
        self.limit = limit
        self.used = 0

    @property
    def has_room(self) -> bool:
        """Whether a message may be taken now, whatever its size."""
        return self.used < self.limit

    def take(self, size: int) -> bool:
        """Take so many bytes, if there is room."""
        if not self.has_room:
            return False
        self.used += size
        return True

    def free(self, size: int) -> bool:
        """Give back; tell whether there is room again where there was none."""
        if size > self.used:
            raise InternalError(f"{size} bytes freed where only {self.used} are taken: something ended twice")
        was_full = not self.has_room
        self.used -= size
        return was_full and self.has_room
