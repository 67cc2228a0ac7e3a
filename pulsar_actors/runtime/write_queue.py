"""What is to be written, in order, and no more of it in memory than a socket can be busy with.

A parcel is one thing to write, and makes its buffers only when it is about to be written. While the peer does not read,
parcels wait here as what they were given as. What a producer sends is a parcel that looks whether anybody still waits
for it: if a send has timed out meanwhile, there is nothing left to write, and its payload is not kept alive by a
connection that stands still. So a stalled peer costs what is pending, which producers bound, and one parcel more.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from pulsar_actors.runtime.loop import MOST_BUFFERS, Buffer

ENOUGH_BYTES = 512 * 1024
"""To be made ready at once: more than a socket takes."""


class Parcel(Protocol):
    """One thing to write."""

    def buffers(self) -> Sequence[Buffer]:
        """Give its bytes, now that it is their turn; nothing if it is not to be written any longer."""
        ...


class Bytes:
    """A parcel that was ready from the start."""

    __slots__ = ("_bytes",)

    def __init__(self, data: Buffer) -> None:
        self._bytes = data

    def buffers(self) -> Sequence[Buffer]:
        """Give them."""
        return (self._bytes,)


class WriteQueue:
    """The parcels of one connection, and the buffers of those whose turn has come."""

    __slots__ = ("_parcels", "_ready", "_ready_bytes")

    def __init__(self) -> None:
        self._parcels: deque[Parcel] = deque()
        self._ready: list[Buffer] = []
        self._ready_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._ready or self._parcels)

    @property
    def ready_bytes(self) -> int:
        """Count the bytes that wait as bytes."""
        return self._ready_bytes

    def add(self, parcels: Iterable[Parcel]) -> None:
        """Put them at the end."""
        self._parcels.extend(parcels)

    def next_buffers(self) -> Sequence[Buffer]:
        """Give what is to be written next; `wrote` tells how much of it was. The caller changes nothing in it."""
        parcels, ready = self._parcels, self._ready
        while parcels and self._ready_bytes < ENOUGH_BYTES and len(ready) < MOST_BUFFERS:
            for buffer in parcels.popleft().buffers():
                size = buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
                if size:
                    ready.append(buffer)
                    self._ready_bytes += size
        return ready

    def wrote(self, size: int) -> None:
        """Drop what was written."""
        self._ready_bytes -= size
        done = 0
        for buffer in self._ready:
            length = buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
            if size < length:
                break
            size -= length
            done += 1
        del self._ready[:done]
        if size:
            self._ready[0] = memoryview(self._ready[0]).cast("B")[size:]

    def clear(self) -> None:
        """Drop everything."""
        self._parcels.clear()
        self._ready.clear()
        self._ready_bytes = 0
