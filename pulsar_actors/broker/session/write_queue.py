"""The queue of bytes on their way to a client, before the transport.

All bytes that are queued during one turn of the loop are written together at the turn's end: the receipts for a hundred
messages need one system call, not a hundred. Bytes that the socket does not take wait here. A long queue has no room:
then no more messages are queued until it is empty, but answers still are.
"""

from collections import deque
from collections.abc import Callable, Sequence

from pulsar_actors.runtime.loop import Buffer, Loop, Transport

__all__ = ["SessionWriteQueue"]


_ROOM_BYTES = 1024 * 1024
_OVERFULL_BYTES = 64 * 1024 * 1024
"""The queue gets so long only if a client sends requests and reads no answers."""

_MAX_BUFFERS_AT_ONCE = 256
"""The most buffers in one write: a socket takes few, and copying the whole queue each time would be quadratic."""


class SessionWriteQueue:
    """The queue of one connection. `has_room_again` is called when there is room, after there was none."""

    __slots__ = (
        "_buffers",
        "_bytes",
        "_ending",
        "_flush_scheduled",
        "_has_room_again",
        "_loop",
        "_room_wanted",
        "_transport",
    )

    def __init__(self, loop: Loop, transport: Transport, has_room_again: Callable[[], None]) -> None:
        self._loop = loop
        self._transport = transport
        self._has_room_again = has_room_again
        self._buffers: deque[Buffer] = deque()
        self._bytes = 0
        self._flush_scheduled = False  # a flush is posted, or the transport will call `writable`
        self._room_wanted = False  # `has_room` was False since the queue was last empty
        self._ending = False

    def has_room(self) -> bool:
        """Return whether messages may be put in; if not, `has_room_again` will be called."""
        if self._bytes < _ROOM_BYTES:
            return True
        self._room_wanted = True
        return False

    def is_overfull(self) -> bool:
        """Return whether the client has left far too many answers unread."""
        return self._bytes > _OVERFULL_BYTES

    def put(self, buffers: Sequence[Buffer]) -> None:
        """Queue buffers, to be written at the end of this turn."""
        self._buffers.extend(buffers)
        for buffer in buffers:
            self._bytes += len(buffer)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.post(self._flush, None)

    def writable(self) -> None:
        """Write more: the transport takes bytes again."""
        self._flush(None)

    def close_when_sent(self) -> None:
        """Close the transport as soon as everything is written."""
        self._ending = True
        self.put(())

    def close(self) -> None:
        """Close the transport at once, and drop the queue."""
        self._room_wanted = self._ending = False
        self._buffers.clear()
        self._transport.close()

    def _flush(self, _: None) -> None:
        self._flush_scheduled = False
        while self._buffers:
            if not self._write():
                self._flush_scheduled = True
                self._transport.await_room()
                return
        if self._ending:
            self.close()
        elif self._room_wanted:
            self._room_wanted = False
            self._has_room_again()

    def _write(self) -> bool:
        """Write the front of the queue, and return whether all of it was written."""
        queue = self._buffers
        batch = [queue.popleft() for _ in range(min(len(queue), _MAX_BUFFERS_AT_ONCE))]
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
