"""One HTTP connection of the broker: h11 reads the requests, and a function answers them in order.

The model answers at once, so a request never waits for the answer to another one; an answer waits only for the socket.
While an answer waits, `WebConnection` passes no further bytes to h11. The connection of a client that sends and never
reads answers ends when `MAX_UNREAD` bytes wait.

A request that cannot be read is answered with the reason, and the connection ends a little later: closing a socket with
unread bytes resets it, and the client would never see the reason. Until then, incoming bytes are dropped.

A connection without incoming bytes for `IDLE_SECONDS` is closed. So is one whose request is not complete, or whose
answer is not taken, after `EXCHANGE_SECONDS`: a client that sends a byte now and then must not hold it for ever.

Pulsar answers most requests with JSON, and changes with 204 and no body. This broker answers a refused request with
`{"reason": …}`. JSON is written without spaces, as Pulsar writes it.
"""

import json
import re
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import h11

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.loop import Buffer, Loop, Transport
from pulsar_actors.wire.errors import excerpt

__all__ = [
    "EMPTY_OK",
    "EXCHANGE_SECONDS",
    "IDLE_SECONDS",
    "LINGER_SECONDS",
    "MAX_BODY",
    "MAX_HEAD",
    "MAX_UNREAD",
    "NO_CONTENT",
    "Headers",
    "HttpRefusal",
    "Request",
    "Response",
    "WebConnection",
    "json_response",
    "refusal_response",
]

MAX_HEAD: Final = 32 * 1024
MAX_BODY: Final = 1024 * 1024
MAX_UNREAD: Final = 2 * MAX_BODY
IDLE_SECONDS: Final = 30.0
EXCHANGE_SECONDS: Final = 60.0
LINGER_SECONDS: Final = 2.0

_ORIGIN = re.compile(r"https?://[^/?#]+", re.IGNORECASE)
_UNFIT_IN_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")

Headers = tuple[tuple[str, str], ...]


class Request(NamedTuple):
    """One whole request. Header names are in lower case, and the values of repeated headers joined with commas."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Response(NamedTuple):
    """One answer."""

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Headers = ()


NO_CONTENT: Final = Response(204)
EMPTY_OK: Final = Response(200)
"""Pulsar's answer if a policy is not set."""


def json_response(value: object, status: int = 200) -> Response:
    """Answer with a value."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Response(status, body.encode("utf-8", "replace"), "application/json")


def refusal_response(status: int, reason: str, headers: Headers = ()) -> Response:
    """Answer with a reason."""
    return json_response({"reason": reason}, status)._replace(headers=headers)


class HttpRefusal(Exception):
    """Ends the handling of a request with this status and this reason."""

    def __init__(self, status: int, reason: str, headers: Headers = ()) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason
        self.headers = headers


class WebConnection:
    """The owner of one accepted transport."""

    __slots__ = (
        "_answer",
        "_body",
        "_busy_since",
        "_closed",
        "_ending",
        "_head",
        "_http",
        "_last_activity",
        "_lingering",
        "_loop",
        "_on_closed",
        "_transport",
        "_unread",
        "_unsent",
    )

    def __init__(
        self,
        loop: Loop,
        transport: Transport,
        answer: Callable[[Request], Response],
        on_closed: Callable[["WebConnection"], object],
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._answer = answer
        self._on_closed = on_closed
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._head: h11.Request | None = None  # the head of the request whose body is being read
        self._body = bytearray()
        self._unread = bytearray()  # bytes that are not passed to h11 yet
        self._unsent: list[Buffer] = []
        self._ending = False  # no further request is answered
        self._lingering = False  # incoming bytes are dropped
        self._closed = False
        self._last_activity = loop.now()
        self._busy_since: float | None = None  # since when the client owes the rest of a request, or takes an answer
        loop.later(IDLE_SECONDS, self._check_idle, None)

    def opened(self) -> None:
        """Do nothing: an accepted connection is open from the start."""

    def received(self, data: bytes) -> None:
        """Answer the requests that are complete."""
        self._last_activity = self._loop.now()
        if self._busy_since is None:
            self._busy_since = self._last_activity
        if self._ending:
            return
        self._unread += data
        if len(self._unread) > MAX_UNREAD:
            self.close()
        else:
            self._answer_requests()

    def writable(self) -> None:
        """Send more of the answer, then continue reading."""
        self._last_activity = self._loop.now()
        self._flush()
        self._answer_requests()

    def lost(self, reason: str) -> None:  # noqa: ARG002 - a client may disconnect at any time
        """Forget the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection now and drop unsent answers; a second call does nothing."""
        if not self._closed:
            self._closed = self._ending = True
            self._unsent.clear()
            self._transport.close()
            self._on_closed(self)

    def _answer_requests(self) -> None:
        while not (self._unsent or self._ending):
            try:
                wants_more = self._read_event()
            except h11.RemoteProtocolError as fault:
                self._refuse(HttpRefusal(fault.error_status_hint, str(fault)))
            except HttpRefusal as refusal:
                self._refuse(refusal)
            else:
                if wants_more:
                    return

    def _read_event(self) -> bool:
        """Handle h11's next event. True if the request needs bytes that have not come yet."""
        http = self._http
        event = http.next_event()
        if isinstance(event, h11.Request):
            self._head = event
            _check_head(event)
        elif isinstance(event, h11.Data):
            self._body += event.data
            _check_body_size(len(self._body))
        elif isinstance(event, h11.EndOfMessage):
            self._answer_request()
        elif self._unread:
            http.receive_data(bytes(self._unread))
            self._unread.clear()
        elif http.they_are_waiting_for_100_continue:
            self._send([http.send(h11.InformationalResponse(status_code=100, headers=[], reason="Continue")) or b""])
        else:
            return True
        return False

    def _answer_request(self) -> None:
        head, body = self._head, bytes(self._body)
        assert head is not None  # noqa: S101 - h11 gives the end of a request after its beginning
        self._body.clear()
        headers: dict[str, str] = {}
        for raw_name, raw_value in head.headers:
            name, value = raw_name.decode(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        request = Request(head.method.decode(), _path_and_query(head.target.decode()), headers, body)
        self._send_response(self._answer(request))
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()

    def _refuse(self, refusal: HttpRefusal) -> None:
        self._lingering = True
        self._loop.later(LINGER_SECONDS, self._stop_lingering, None)
        response = refusal_response(refusal.status, refusal.reason, (("Connection", "close"), *refusal.headers))
        self._send_response(response)

    def _send_response(self, response: Response) -> None:
        http = self._http
        has_body = bool(response.body) and (self._head is None or self._head.method != b"HEAD")
        self._head = None
        head = h11.Response(
            status_code=response.status,
            headers=_encode_headers(response, self._loop.wall_clock_ms()),
            reason=HTTPStatus(response.status).phrase,
        )
        buffers = [http.send(head)]
        if has_body:
            buffers.append(http.send(h11.Data(data=response.body)))
        http.send(h11.EndOfMessage())
        self._ending = http.our_state is not h11.DONE
        self._send([buffer for buffer in buffers if buffer])

    def _send(self, buffers: list[Buffer]) -> None:
        self._unsent = buffers
        self._flush()

    def _flush(self) -> None:
        taken = self._transport.send(self._unsent)
        while self._unsent and taken >= len(self._unsent[0]):
            taken -= len(self._unsent.pop(0))
        if self._unsent:
            self._unsent[0] = memoryview(self._unsent[0])[taken:]
            self._transport.await_room()
        elif self._ending and not self._lingering:
            self.close()
        else:
            has_more = bool(self._unread or self._http.trailing_data[0])
            self._busy_since = self._loop.now() if has_more else None

    def _stop_lingering(self, _: None) -> None:
        self.close()

    def _check_idle(self, _: None) -> None:
        if self._closed:
            return
        ends = self._last_activity + IDLE_SECONDS
        if self._busy_since is not None:
            ends = min(ends, self._busy_since + EXCHANGE_SECONDS)
        left = ends - self._loop.now()
        if left > 0:
            self._loop.later(left, self._check_idle, None)
        else:
            self.close()


def _check_head(head: h11.Request) -> None:
    """Refuse requests that h11 accepts: another major version, a length besides chunks, and a body over the limit.

    A request with a length and chunks has two ends, and a proxy may use another one than this server.
    """
    if not head.http_version.startswith(b"1."):
        version = head.http_version.decode()
        raise HttpRefusal(505, f"this server speaks HTTP/1.1 and HTTP/1.0, not HTTP/{version}")
    headers = dict(head.headers)
    length = headers.get(b"content-length")
    if length is not None:
        if b"transfer-encoding" in headers:
            raise HttpRefusal(400, "a request has a Content-Length or a Transfer-Encoding, not both")
        _check_body_size(int(length))


def _path_and_query(target: str) -> str:
    """Remove the origin that a request to a proxy begins with. Servers must accept that form, too."""
    origin = _ORIGIN.match(target)
    if origin is not None:
        target = f"/{target[origin.end() :].removeprefix('/')}"
    if not target.startswith("/"):
        raise HttpRefusal(400, f"the target of a request begins with '/', and {excerpt(target)} does not")
    return target


def _check_body_size(size: int) -> None:
    if size > MAX_BODY:
        raise HttpRefusal(413, f"a body of {size:,} bytes is over the limit of {MAX_BODY:,}")


def _encode_headers(response: Response, now_ms: int) -> list[tuple[bytes, bytes]]:
    headers = [("Date", formatdate(now_ms / 1000, usegmt=True))]
    if response.content_type:
        headers.append(("Content-Type", response.content_type))
    if response.status != HTTPStatus.NO_CONTENT:
        headers.append(("Content-Length", str(len(response.body))))
    headers += response.headers
    return [(name.encode(), _fit_header(value).encode("latin-1")) for name, value in headers]


def _fit_header(value: str) -> str:
    """Blank out characters that are not Latin-1 and line ends: a user's text must not be able to add headers."""
    return _UNFIT_IN_HEADER.sub(" ", value).strip(" \t")
