"""Which connections there are, to be shared, and which of them have not been asked for in a while.

A connection is found by its key: the broker it leads to, the address that is dialled for it, and a slot, for there may
be several to one broker. One that nobody was sent to for `idle_after` is taken out and asked to end; if somebody uses
it still, it is put back for as long again. Meanwhile somebody may have needed one, and made another under its key: then
the old one stays out, known but not found any longer, and is asked again.
"""

from typing import Generic, TypeVar

Key = tuple[str, ...]
C = TypeVar("C")


class ConnectionPool(Generic[C]):
    """The connections of one client. Times are monotonic seconds."""

    __slots__ = ("_by_key", "_idle_after", "_known")

    def __init__(self, idle_after: float) -> None:
        self._idle_after = idle_after
        self._by_key: dict[Key, C] = {}
        self._known: dict[C, tuple[Key, float]] = {}  # and when it was last asked for

    def find(self, key: Key, now: float) -> C | None:
        """Find a connection, to send somebody to it."""
        found = self._by_key.get(key)
        if found is not None:
            self._known[found] = (key, now)
        return found

    def add(self, key: Key, connection: C, now: float) -> None:
        """Add one that was just made."""
        self._by_key[key] = connection
        self._known[connection] = (key, now)

    def remove(self, connection: C) -> None:
        """Forget one that has ended."""
        key, _ = self._known.pop(connection, ((), 0.0))
        if self._by_key.get(key) == connection:
            del self._by_key[key]

    def take_idle(self, now: float) -> list[C]:
        """Give those that nobody has asked for in a while; they are not found any longer."""
        idle = [one for one, (_, used) in self._known.items() if used + self._idle_after <= now]
        for connection in idle:
            key, _ = self._known[connection]
            self._known[connection] = (key, now)
            if self._by_key.get(key) == connection:
                del self._by_key[key]
        return idle

    def put_back(self, connection: C) -> None:
        """Have it found again, unless another has taken its place."""
        if connection in self._known:
            self._by_key.setdefault(self._known[connection][0], connection)
