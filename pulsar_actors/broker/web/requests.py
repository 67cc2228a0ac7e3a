"""A connection's stream of bytes, cut into requests.

Bytes go in with `feed`, requests are taken out with `take`, one at a time: a client may send the next ones before the
first is answered, and they wait here. What cannot be read raises an HttpRefusal, after which nobody can say where the
next request begins: the answer is sent, and the connection ends.

A client that announces a large body may wait to be told to go on. `take` gives CONTINUE for that, once, and only when
the head alone is no reason to refuse.
"""

from enum import Enum
from typing import Final, NamedTuple

from pulsar_actors.broker.web.chunked import MAX_BODY, ChunkedBody, refuse_larger
from pulsar_actors.broker.web.head import CHUNKED, MAX_HEAD, Head, read_head
from pulsar_actors.broker.web.refusals import HttpRefusal

__all__ = ["MAX_HELD", "Progress", "Request", "RequestReader"]

MAX_HELD: Final = MAX_HEAD + 2 * MAX_BODY
"""What may wait in the reader: a request, whose chunks take more room than what is in them, and part of the next."""

_END = b"\r\n\r\n"


class Request(NamedTuple):
    """One whole request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    keeps_alive: bool


class Progress(Enum):
    """What there may be instead of a request."""

    WAIT = "Nothing, until more has come."
    CONTINUE = "The client waits to be told to send the body."


class RequestReader:
    """Cuts one connection's stream."""

    __slots__ = ("_buffer", "_chunks", "_head", "_searched")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: Head | None = None
        self._chunks: ChunkedBody | None = None
        self._searched = 0  # bytes in which no head ends

    @property
    def held(self) -> int:
        """Count the bytes that wait."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take what the socket gave."""
        self._buffer += data

    def take(self) -> Request | Progress:
        """Give the next request, if it is there."""
        head = self._head
        if head is None:
            head = self._take_head()
            if head is None:
                return Progress.WAIT
            refuse_larger(head.length)
            self._head = head
            self._chunks = ChunkedBody() if head.length == CHUNKED else None
            if head.expects_continue and not self._buffer and head.length:
                return Progress.CONTINUE
        body = self._take_body(head)
        if body is None:
            return Progress.WAIT
        self._head = None
        return Request(head.method, head.target, head.headers, body, head.keeps_alive)

    def _take_head(self) -> Head | None:
        buffer = self._buffer
        while buffer.startswith(b"\r\n"):  # some clients end a body with an empty line too many
            del buffer[:2]
        end = buffer.find(_END, self._searched, MAX_HEAD)
        if end < 0:
            if len(buffer) >= MAX_HEAD:
                raise HttpRefusal(431, f"the head of a request is over the limit of {MAX_HEAD:,} bytes")
            self._searched = max(0, len(buffer) - len(_END) + 1)
            return None
        data = bytes(buffer[:end])
        del buffer[: end + len(_END)]
        self._searched = 0
        return read_head(data)

    def _take_body(self, head: Head) -> bytes | None:
        buffer = self._buffer
        if self._chunks is not None:
            return bytes(self._chunks.body) if self._chunks.take(buffer) else None
        if len(buffer) < head.length:
            return None
        body = bytes(buffer[: head.length])
        del buffer[: head.length]
        return body
