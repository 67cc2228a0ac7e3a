"""A body in chunks: each has its size in hexadecimal on a line before it, and one of size zero ends the body.

What the lines say beside the size, and the headers that may follow the last chunk, mean nothing here and are dropped;
but headers they must be, or a request behind the body could be taken for a part of it. The sizes are checked before
anything is kept for them.
"""

import re
from typing import Final

from pulsar_actors.broker.web.head import HEADER
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.wire.excerpt import excerpt

__all__ = ["MAX_BODY", "ChunkedBody", "refuse_larger"]

MAX_BODY: Final = 1024 * 1024

_MAX_LINE = 4 * 1024
_MAX_TRAILERS = 64
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?")


def refuse_larger(size: int) -> None:
    """Refuse a body that has grown over the limit, or says that it will."""
    if size > MAX_BODY:
        raise HttpRefusal(413, f"a body of {size:,} bytes is over the limit of {MAX_BODY:,}")


class ChunkedBody:
    """Takes the chunks of one body off the front of a buffer, as they come."""

    __slots__ = ("_left", "_trailers", "body")

    def __init__(self) -> None:
        self.body = bytearray()
        self._left = 0  # of the chunk that is being read, the line end behind it included
        self._trailers = -1  # how many lines came after the last chunk; none may come yet while it is -1

    def take(self, buffer: bytearray) -> bool:
        """Take what there is, and tell whether the body is whole."""
        while True:
            if self._left:
                if not self._take_data(buffer):
                    return False
                continue
            line = _line(buffer)
            if line is None:
                return False
            if self._trailers < 0:
                self._begin(line)
            elif not line:
                return True
            else:
                self._pass_trailer(line)

    def _begin(self, line: bytes) -> None:
        """Begin a chunk with the line that has its size."""
        match = _SIZE.fullmatch(line)
        if match is None:
            raise HttpRefusal(400, f"a chunk begins with its size in hexadecimal, not with {excerpt(line)}")
        size = int(match[1], 16)
        if size == 0:
            self._trailers = 0
            return
        refuse_larger(len(self.body) + size)
        self._left = size + 2

    def _pass_trailer(self, line: bytes) -> None:
        """Look at a line behind the last chunk."""
        if HEADER.fullmatch(line.decode("latin-1")) is None:
            raise HttpRefusal(400, f"what follows the last chunk are headers, and {excerpt(line)} is none")
        self._trailers += 1
        if self._trailers > _MAX_TRAILERS:
            raise HttpRefusal(431, f"more than {_MAX_TRAILERS} lines follow the last chunk")

    def _take_data(self, buffer: bytearray) -> bool:
        """Take of the chunk what has come; tell whether that was the rest of it."""
        if self._left > 2:  # noqa: PLR2004 - the line end
            part = buffer[: self._left - 2]
            self.body += part
            self._left -= len(part)
            del buffer[: len(part)]
        if self._left > 2 or len(buffer) < 2:  # noqa: PLR2004 - the same
            return False
        if not buffer.startswith(b"\r\n"):
            raise HttpRefusal(400, "a chunk is longer than its size says")
        del buffer[:2]
        self._left = 0
        return True


def _line(buffer: bytearray) -> bytes | None:
    """Take one line off the buffer, if it is there whole."""
    end = buffer.find(b"\r\n", 0, _MAX_LINE)
    if end < 0:
        if len(buffer) >= _MAX_LINE:
            raise HttpRefusal(400, f"a line between chunks is longer than {_MAX_LINE:,} bytes")
        return None
    line = bytes(buffer[:end])
    del buffer[: end + 2]
    return line
