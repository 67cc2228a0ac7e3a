"""Frames: how a stream of bytes falls into commands.

A frame is a total size (4 bytes, big-endian, counting what comes after it), a command size (4 bytes), the command, and
for some commands a rest: the entry that SEND and MESSAGE carry. The smallest frame is therefore eight bytes long.

`FrameReader` takes the pieces a socket gives and cuts them at frame ends. A frame that lies whole inside one piece is
sliced out of it; only one that is split waits in a buffer of its own, into which each of its bytes is copied once and
which the finished frame then keeps. A size is checked as soon as it is readable, before anything is kept for it: a
peer that claims four gigabytes is refused after four bytes. Where a frame's sizes make no sense nobody can say where
the next one begins, so such a fault ends the stream.
"""

import struct
from typing import NamedTuple

from google.protobuf.message import Message

from pulsar_actors.wire.commands import CARRIERS, serialise_command
from pulsar_actors.wire.errors import CommandOverrun, EncodeError, FrameError, FrameTooLarge, FrameTooSmall
from pulsar_actors.wire.octets import Octets, octets

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
    """Give the largest size of a message: a broker that names none, or none above nothing, means the usual one."""
    return max_message_size if max_message_size > 0 else DEFAULT_MAX_MESSAGE_SIZE


def frame_limit(max_message_size: int) -> int:
    """Give the largest total size of a frame: a message of the largest size, and room for its command and metadata."""
    return message_limit(max_message_size) + _PADDING


DEFAULT_FRAME_LIMIT = frame_limit(DEFAULT_MAX_MESSAGE_SIZE)
"""The limit until CONNECTED names another `max_message_size`."""


class Frame(NamedTuple):
    """One frame: its serialised BaseCommand, and all that follows it (nothing, in a simple command)."""

    command: bytes
    rest: memoryview


class FrameReader:
    """Cuts one connection's stream into frames.

    `limit` may be changed at any time and applies from the next `feed`.

    A frame's `rest` is a view of bytes of its own, not of the piece that it came in: entries wait for their consumer,
    and would keep whole pieces waiting with them, which comes to almost twice the memory. The copy costs little.
    """

    __slots__ = ("_fault", "_passed", "_pending", "frames_before_fault", "limit")

    def __init__(self, limit: int = DEFAULT_FRAME_LIMIT) -> None:
        self.limit = limit
        self.frames_before_fault: list[Frame] = []
        self._pending = bytearray()  # a frame of which only a part has come
        self._passed = 0  # bytes of the stream before `_pending`
        self._fault: FrameError | None = None

    def feed(self, data: Octets) -> list[Frame]:
        """Take what the socket gave and return the frames that are whole now, in order.

        `bytes` are cut where they lie. Anything else is copied first (`octets.py`), since its owner may change it.

        A size that makes no sense raises FrameTooSmall, FrameTooLarge or CommandOverrun, now and at every later call;
        the whole frames that this very call found ahead of it are in `frames_before_fault`.
        """
        data = octets(data)
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
        """Slice the whole frames out of the piece, and keep what is left for the next one."""
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
            self._end_of_frame(view[at : at + _SIZES.size])  # a fault is found before anything is kept
            self._pending = bytearray(view[at:])

    def _complete_pending(self, data: bytes, frames: list[Frame]) -> int:
        """Add to the pending frame the bytes that belong to it; return where the next frame begins in the piece."""
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
        """Tell how long the frame that begins so is, as far as its sizes are there; refuse senseless ones."""
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
    """Write SEND or MESSAGE with its entry: buffers for one gathered write, none of them copied.

    The entry comes as the buffers that `encode_entry` gave or as the bytes an `Entry` was read from.
    """
    if type(command) not in CARRIERS:
        raise EncodeError(f"{type(command).__name__} carries no entry: `encode_command`", 0, 0)
    body = serialise_command(command)
    total = _TOTAL.size + len(body) + sum(map(_size, entry))
    if total > _LARGEST_TOTAL:
        raise EncodeError(f"a frame of {total:,} bytes is over what its size field can say", 0, total)
    return [_SIZES.pack(total, len(body)) + body, *entry]


def _size(buffer: bytes | memoryview) -> int:
    """Count the bytes, whatever items a view counts."""
    if type(buffer) is bytes:
        return len(buffer)
    try:
        return memoryview(buffer).nbytes
    except TypeError as fault:
        raise EncodeError(f"an entry is bytes or a view of them, not {type(buffer).__name__}", 0, 0) from fault
