"""The connections of an `HttpClient`, made with urllib3. No other module imports it, because it is slow to load.

A socket's timeout starts again with every byte, so a server that sends a byte now and then could hold up a request for
ever. Here the timeout of each read is the time left for the whole response.
"""

import io
import socket
import ssl
import time
from contextvars import ContextVar
from http.client import HTTPException, HTTPResponse
from typing import Any, Final

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, PoolManager, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError, ReadTimeoutError

from pulsar_actors.exceptions import CertificateRefused, ConnectError, ConnectTimeout
from pulsar_actors.runtime.http_client import MOST_AT_ONCE, HttpRequest, HttpResponse, endpoint_of
from pulsar_actors.runtime.tls import describe_tls_error

_DEADLINE: ContextVar[float] = ContextVar("deadline")  # the deadline of the request that this thread sends
_CHUNK: Final = 64 * 1024
_NOT_TLS: Final = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"}


class _ReadInTime(io.RawIOBase):
    """Reads a socket until the deadline."""

    def __init__(self, source: socket.socket, deadline: float) -> None:
        self._socket = source
        self._bytes = source.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:  # noqa: ANN401 - as the class above it says
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._bytes.readinto(buffer)

    def close(self) -> None:
        self._bytes.close()
        super().close()


class _Makefile:
    """A socket, for `makefile` only."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_ReadInTime(self._source, _DEADLINE.get()))


class _Response(HTTPResponse):
    def __init__(self, sock: socket.socket, *rest: Any, **named: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(_Makefile(sock), *rest, **named)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - only `makefile` is called

    def begin(self) -> None:
        """Read the headers, and drop the defects found in them: urllib3 would log these, and with them secrets."""
        super().begin()
        self.msg.defects = []
        self.msg.set_payload("")


class _Connection(HTTPConnection):
    response_class = _Response


class _SecureConnection(HTTPSConnection):
    response_class = _Response


class _Pool(HTTPConnectionPool):
    ConnectionCls: Any = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls: Any = _SecureConnection

    def _validate_conn(self, conn: Any) -> None:  # noqa: ANN401 - as the class above it says
        """Connect without urllib3's warning about an unchecked certificate: this package logs one for each client.

        TLS that is not agreed in time counts as no connection. To urllib3 it is an answer that did not come.
        """
        if conn.is_closed:
            try:
                conn.connect()
            except TimeoutError as late:
                raise ConnectTimeoutError("TLS was not agreed in time") from late


class HttpPool:
    """Connections to any servers, all with one TLS context. Each has so many seconds to open, or all of its request."""

    __slots__ = ("_connection_timeout", "_manager")

    def __init__(self, context: ssl.SSLContext | None, connection_timeout: float | None) -> None:
        self._connection_timeout = connection_timeout
        secure: dict[str, Any] = {}
        if context is not None:
            secure = {"ssl_context": context, "assert_hostname": None if context.check_hostname else False}
        self._manager = PoolManager(maxsize=MOST_AT_ONCE, **secure)
        classes: dict[str, Any] = {"http": _Pool, "https": _SecurePool}
        self._manager.pool_classes_by_scheme = classes

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request, and read the whole response."""
        response = self._response_or_error(request)
        if isinstance(response, HttpResponse):
            return response
        raise response  # raised here, because the library's exceptions hold the request, and so secrets

    def close(self) -> None:
        """Close idle connections."""
        self._manager.clear()

    def _response_or_error(self, request: HttpRequest) -> HttpResponse | ConnectError:
        deadline = time.monotonic() + request.timeout
        token = _DEADLINE.set(deadline)
        response: BaseHTTPResponse | None = None
        try:
            response = self._manager.request(
                request.method,
                request.url,
                headers={"Accept-Encoding": "identity", **request.headers},
                body=request.body,
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
                timeout=Timeout(connect=self._connection_timeout, total=request.timeout),
            )
            return _read(response, request)
        except (HTTPError, HTTPException, OSError, ValueError) as fault:
            return self._silence(request, fault) or _fault(request, fault, was_asked=response is not None)
        finally:
            _DEADLINE.reset(token)

    def _silence(self, request: HttpRequest, fault: Exception) -> ConnectTimeout | None:
        """Return the error of a host that has let the time for a connection pass; None if it is another fault."""
        seconds = self._connection_timeout
        if isinstance(fault, ConnectTimeoutError) and seconds is not None and seconds <= request.timeout:
            return ConnectTimeout(f"no connection to {_host(request)} within {seconds:g} s")
        return None


def _read(response: BaseHTTPResponse, request: HttpRequest) -> HttpResponse | ConnectError:
    body = bytearray()
    try:
        while piece := response.read(_CHUNK):
            body += piece
            if len(body) > request.most_bytes:
                response.close()
                return ConnectError(f"{_host(request)} gives an answer of more than {request.most_bytes:,} bytes")
    except BaseException:
        response.close()
        raise
    response.release_conn()
    return HttpResponse(response.status, {name.lower(): value for name, value in response.headers.items()}, bytes(body))


def _fault(request: HttpRequest, fault: Exception, *, was_asked: bool) -> ConnectError:
    """Make an error without any part of the request but its host."""
    host = _host(request)
    broken = next((one for one in (fault, *fault.args) if isinstance(one, ssl.SSLError)), None)
    if isinstance(broken, ssl.SSLCertVerificationError):
        return CertificateRefused(f"no connection to {host}: {describe_tls_error(broken, endpoint_of(request.url)[1])}")
    if broken is not None:
        hint = ": does this port speak TLS?" if broken.reason in _NOT_TLS else ""
        return ConnectError(f"no connection to {host}: {describe_tls_error(broken, None)}{hint}")
    if isinstance(fault, NewConnectionError):
        cause = fault.__cause__
        why = "its name is not known" if isinstance(fault, NameResolutionError) else "no connection can be made"
        return ConnectError(f"no connection to {host}: {(isinstance(cause, OSError) and cause.strerror) or why}")
    if isinstance(fault, (TimeoutError, ConnectTimeoutError, ReadTimeoutError)):
        return ConnectError(f"no answer of {host} within {request.timeout:g} s")
    if isinstance(fault, ValueError) and not was_asked:
        return ConnectError(f"{host} was not asked: a header or the URL has characters that HTTP cannot carry")
    return ConnectError(f"no answer of {host}: the connection was lost, or what came is no HTTP")


def _host(request: HttpRequest) -> str:
    _, host, port = endpoint_of(request.url)
    return f"{host}:{port}"
