"""Frames: the stream of bytes cut into commands.

A frame is a total size (4 bytes, big-endian, counting what comes after it), a command size (4 bytes), the command, and
in SEND and MESSAGE an entry. The smallest frame is therefore eight bytes long.

`FrameReader` takes the pieces that a socket gives. A frame that lies whole inside one piece is sliced out of it. Only a
frame that is split is collected in a buffer, into which each of its bytes is copied once, and which the complete frame
then keeps. A size is checked as soon as it is readable, before anything is kept for it: a peer that claims four
gigabytes is refused after four bytes. After an invalid size the start of the next frame is unknown, so the stream
cannot be read any further.
"""

import struct
from typing import NamedTuple

from google.protobuf.message import Message

from pulsar_actors.wire.commands import CARRIERS, serialise_command
from pulsar_actors.wire.errors import CommandOverrun, EncodeError, FrameError, FrameTooLarge, FrameTooSmall
from pulsar_actors.wire.protobuf import BytesLike, as_bytes

__all__ = [
    "DEFAULT_FRAME_LIMIT",
    "DEFAULT_MAX_MESSAGE_SIZE",
    "Frame",
    "FrameReader",
    "encode_payload_command",
    "frame_limit",
    "message_limit",
]


DEFAULT_MAX_MESSAGE_SIZE = 5 * 1024 * 1024

_PADDING = 10 * 1024
_SIZES = struct.Struct(">II")
_TOTAL = struct.Struct(">I")
_HTTP = int.from_bytes(b"HTTP", "big")
_LARGEST_TOTAL = 2**32 - 1
_NO_REST = memoryview(b"")


def message_limit(max_message_size: int) -> int:
    """Return the largest size of a message; a broker that announces none, or 0 or less, means the default."""
    return max_message_size if max_message_size > 0 else DEFAULT_MAX_MESSAGE_SIZE


def frame_limit(max_message_size: int) -> int:
    """Return the largest total size of a frame: the largest message, plus room for its command and metadata."""
    return message_limit(max_message_size) + _PADDING


DEFAULT_FRAME_LIMIT = frame_limit(DEFAULT_MAX_MESSAGE_SIZE)
"""The limit until CONNECTED names another `max_message_size`."""


class Frame(NamedTuple):
    """One frame: its serialised BaseCommand, and the entry that follows it (empty in most commands)."""

    command: bytes
    rest: memoryview


class FrameReader:
    """Cuts one connection's stream into frames.

    `limit` may be changed at any time and applies from the next `feed`.

    A frame's `rest` is a view of a copy, not of the piece that it came in. Entries wait in a receiver queue, and a view
    would keep the whole piece in memory, which takes almost twice as much. The copy costs little.
    """

    __slots__ = ("_fault", "_passed", "_pending", "frames_before_fault", "limit")

    def __init__(self, limit: int = DEFAULT_FRAME_LIMIT) -> None:
        self.limit = limit
        self.frames_before_fault: list[Frame] = []
        self._pending = bytearray()  # an incomplete frame
        self._passed = 0  # bytes of the stream before `_pending`
        self._fault: FrameError | None = None

    def feed(self, data: BytesLike) -> list[Frame]:
        """Take bytes from the socket and return the frames that are complete now, in order.

        Anything but `bytes` is copied first, since its owner may change it.

        An invalid size raises FrameTooSmall, FrameTooLarge or CommandOverrun, now and at every later call; the complete
        frames that this call found before it are in `frames_before_fault`.
        """
        data = as_bytes(data)
        if self._fault is not None:
            self.frames_before_fault = []
            raise self._fault.with_traceback(None)
        frames: list[Frame] = []
        try:
            start = self._complete_pending(data, frames) if self._pending else 0
            self._cut(data, start, frames)
        except FrameError as fault:
            self._fault = fault
            self._pending = bytearray()
            self.frames_before_fault = frames
            raise
        return frames

    def _cut(self, data: bytes, start: int, frames: list[Frame]) -> None:
        """Slice the complete frames out of the piece, and keep what is left for the next one."""
        view = memoryview(data)
        size = len(data)
        limit = self.limit
        at = start
        while size - at >= _SIZES.size:
            total, command_size = _SIZES.unpack_from(data, at)
            if total > limit or command_size > total - _TOTAL.size:
                break
            end = at + _TOTAL.size + total
            if end > size:
                break
            middle = at + _SIZES.size + command_size
            rest = memoryview(data[middle:end]) if end > middle else _NO_REST
            frames.append(Frame(data[at + _SIZES.size : middle], rest))
            at = end
        self._passed += at - start
        if at < size:
            self._end_of_frame(view[at : at + _SIZES.size])  # raises before anything is kept
            self._pending = bytearray(view[at:])

    def _complete_pending(self, data: bytes, frames: list[Frame]) -> int:
        """Complete the pending frame as far as possible; return where the next frame begins in the piece."""
        pending, view = self._pending, memoryview(data)
        at = 0
        while at < len(data) and len(pending) < (end := self._end_of_frame(pending)):
            part = view[at : at + end - len(pending)]
            pending += part
            at += len(part)
        if len(pending) == self._end_of_frame(pending):
            frame = memoryview(pending).toreadonly()
            middle = _SIZES.size + _SIZES.unpack_from(pending)[1]
            frames.append(Frame(bytes(frame[_SIZES.size : middle]), frame[middle:]))
            self._pending = bytearray()
            self._passed += len(frame)
        return at

    def _end_of_frame(self, start: bytearray | memoryview) -> int:
        """Return the length of the frame that begins like this, as far as it is known; raise for an invalid size."""
        if len(start) < _TOTAL.size:
            return _TOTAL.size
        total: int = _TOTAL.unpack_from(start)[0]
        if total < _TOTAL.size:
            what = f"a frame of {total} bytes has no room for the size of its command, which takes {_TOTAL.size}"
            raise FrameTooSmall(what, self._passed, total)
        if total > self.limit:
            what = f"a frame of {total:,} bytes is over the limit of {self.limit:,}"
            if total == _HTTP and not self._passed:
                what = "the answer is one of HTTP: this port is for the web, and pulsar:// takes the one for clients"
            raise FrameTooLarge(what, self._passed, total)
        if len(start) < _SIZES.size:
            return _SIZES.size
        command_size: int = _SIZES.unpack_from(start)[1]
        if command_size > total - _TOTAL.size:
            what = f"a command of {command_size:,} bytes does not fit in its frame of {total:,}"
            raise CommandOverrun(what, self._passed + _TOTAL.size, command_size)
        return _TOTAL.size + total


def encode_payload_command(command: Message, *entry: bytes | memoryview) -> list[bytes | memoryview]:
    """Write SEND or MESSAGE with its entry, as buffers for one gathered write; the entry is not copied.

    The entry is the buffers of `encode_entry`, or the bytes that an `Entry` was read from.
    """
    if type(command) not in CARRIERS:
        raise EncodeError(f"{type(command).__name__} carries no entry: `encode_command`", 0, 0)
    body = serialise_command(command)
    total = _TOTAL.size + len(body) + sum(map(_size, entry))
    if total > _LARGEST_TOTAL:
        raise EncodeError(f"a frame of {total:,} bytes is over what its size field can say", 0, total)
    return [_SIZES.pack(total, len(body)) + body, *entry]


def _size(buffer: bytes | memoryview) -> int:
    """Return the size in bytes, whatever items a view counts."""
    if type(buffer) is bytes:
        return len(buffer)
    try:
        return memoryview(buffer).nbytes
    except TypeError as fault:
        raise EncodeError(f"an entry is bytes or a view of them, not {type(buffer).__name__}", 0, 0) from fault
