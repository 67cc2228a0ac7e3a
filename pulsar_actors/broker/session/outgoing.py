"""What is on its way to a client: a queue before the transport.

Whatever is said in one turn of the loop leaves in one write, at the turn's end; so a receipt for each of a hundred
messages is one system call and not a hundred. What the socket does not take waits here until it has room again. A queue
that is long says that it has no room: then no more messages are put into it until it is empty, while answers go on.
"""

from collections import deque
from collections.abc import Callable, Sequence

from pulsar_actors.runtime.loop import Buffer, Loop, Transport

__all__ = ["Outgoing"]

_ENOUGH_BYTES = 1024 * 1024
_TOO_MANY_BYTES = 64 * 1024 * 1024
"""Only answers to a client that asks and asks, and reads nothing, can come to so much."""

_MOST_BUFFERS = 256
"""Handed to the transport at once: a write takes few at a time, and to copy the whole queue would be quadratic."""


class Outgoing:
    """The queue of one connection. `has_room_again` is called when there is room, after there was none."""

    __slots__ = (
        "_buffers",
        "_bytes",
        "_ending",
        "_has_room_again",
        "_loop",
        "_promised",
        "_refused",
        "_transport",
    )

    def __init__(self, loop: Loop, transport: Transport, has_room_again: Callable[[], None]) -> None:
        self._loop = loop
        self._transport = transport
        self._has_room_again = has_room_again
        self._buffers: deque[Buffer] = deque()
        self._bytes = 0
        self._promised = False  # a flush is posted, or the transport will say when it has room
        self._refused = False  # somebody was told that there is no room
        self._ending = False

    def has_room(self) -> bool:
        """Tell whether messages may be put here; if not, `has_room_again` will be called."""
        if self._bytes < _ENOUGH_BYTES:
            return True
        self._refused = True
        return False

    def is_overfull(self) -> bool:
        """Tell whether the client leaves its answers unread."""
        return self._bytes > _TOO_MANY_BYTES

    def put(self, buffers: Sequence[Buffer]) -> None:
        """Queue them, to leave at the end of this turn."""
        self._buffers.extend(buffers)
        for buffer in buffers:
            self._bytes += len(buffer)
        if not self._promised:
            self._promised = True
            self._loop.post(self._flush, None)

    def writable(self) -> None:
        """Go on, now that there is room."""
        self._flush(None)

    def close_when_sent(self) -> None:
        """Close the transport as soon as everything has left."""
        self._ending = True
        self.put(())

    def close(self) -> None:
        """Close the transport at once; what has not left never will."""
        self._refused = self._ending = False
        self._buffers.clear()
        self._transport.close()

    def _flush(self, _: None) -> None:
        self._promised = False
        while self._buffers:
            if not self._write():
                self._promised = True
                self._transport.await_room()
                return
        if self._ending:
            self.close()
        elif self._refused:
            self._refused = False
            self._has_room_again()

    def _write(self) -> bool:
        """Write the front of the queue; tell whether all of that has left."""
        queue = self._buffers
        batch = [queue.popleft() for _ in range(min(len(queue), _MOST_BUFFERS))]
        taken = self._transport.send(batch)
        self._bytes -= taken
        for index, buffer in enumerate(batch):
            size = len(buffer)
            if taken < size:
                queue.extendleft(reversed(batch[index + 1 :]))
                queue.appendleft(memoryview(buffer)[taken:])
                return False
            taken -= size
        return True
