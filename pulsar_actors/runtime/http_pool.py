"""The connections of `Http`, by urllib3: nothing else imports it, and nothing imports this before it is needed.

A timeout of a socket begins anew with every byte, so a server that sends one byte now and then would be read for ever.
Here each read is given what is left of the time for the whole answer.
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
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
)

from pulsar_actors.exceptions import CertificateRefused, ConnectError
from pulsar_actors.runtime.http import Answer, Question, endpoint_of
from pulsar_actors.runtime.tls import fault_of

_DEADLINE: ContextVar[float] = ContextVar("deadline")  # of the question that this thread asks
_CHUNK: Final = 64 * 1024
_NOT_TLS: Final = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"}


class _InTime(io.RawIOBase):
    """What comes from a socket until the deadline."""

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


class _Readable:
    """A socket, to somebody who makes a file of it."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_InTime(self._source, _DEADLINE.get()))


class _Response(HTTPResponse):
    def __init__(self, sock: socket.socket, *rest: Any, **named: Any) -> None:  # noqa: ANN401 - handed on
        super().__init__(_Readable(sock), *rest, **named)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - it makes a file of it

    def begin(self) -> None:
        """Read the headers, and forget what was wrong with them: urllib3 would log that, and a token may be in it."""
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
        """Connect, without the warning about a certificate that is not checked: our log has one, once a client."""
        if conn.is_closed:
            conn.connect()


class HttpPool:
    """Connections to any servers, all with one TLS context."""

    __slots__ = ("_manager",)

    def __init__(self, context: ssl.SSLContext | None) -> None:
        secure: dict[str, Any] = {}
        if context is not None:
            secure = {"ssl_context": context, "assert_hostname": None if context.check_hostname else False}
        self._manager = PoolManager(**secure)
        classes: dict[str, Any] = {"http": _Pool, "https": _SecurePool}
        self._manager.pool_classes_by_scheme = classes

    def ask(self, question: Question) -> Answer:
        """Ask it, and read the whole answer."""
        answer = self._answer_or_fault(question)
        if isinstance(answer, Answer):
            return answer
        raise answer  # out here: what the library raised holds the question, and that a secret

    def close(self) -> None:
        """Close those that are idle."""
        self._manager.clear()

    def _answer_or_fault(self, question: Question) -> Answer | ConnectError:
        deadline = time.monotonic() + question.timeout
        token = _DEADLINE.set(deadline)
        response: BaseHTTPResponse | None = None
        try:
            response = self._manager.request(
                question.method,
                question.url,
                headers={"Accept-Encoding": "identity", **question.headers},
                body=question.body,
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
                timeout=Timeout(total=question.timeout),
            )
            return _read(response, question)
        except (HTTPError, HTTPException, OSError, ValueError) as fault:
            return _fault(question, fault, was_asked=response is not None)
        finally:
            _DEADLINE.reset(token)


def _read(response: BaseHTTPResponse, question: Question) -> Answer | ConnectError:
    body = bytearray()
    try:
        while piece := response.read(_CHUNK):
            body += piece
            if len(body) > question.most_bytes:
                response.close()
                return ConnectError(f"{_host(question)} gives an answer of more than {question.most_bytes:,} bytes")
    except BaseException:
        response.close()
        raise
    response.release_conn()
    return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, bytes(body))


def _fault(question: Question, fault: Exception, *, was_asked: bool) -> ConnectError:
    """Say what went wrong, in words of our own."""
    host = _host(question)
    broken = next((one for one in (fault, *fault.args) if isinstance(one, ssl.SSLError)), None)
    if isinstance(broken, ssl.SSLCertVerificationError):
        return CertificateRefused(f"no connection to {host}: {fault_of(broken, endpoint_of(question.url)[1])}")
    if broken is not None:
        hint = ": does this port speak TLS?" if broken.reason in _NOT_TLS else ""
        return ConnectError(f"no connection to {host}: {fault_of(broken, None)}{hint}")
    if isinstance(fault, NewConnectionError):
        cause = fault.__cause__
        why = "its name is not known" if isinstance(fault, NameResolutionError) else "no connection can be made"
        return ConnectError(f"no connection to {host}: {(isinstance(cause, OSError) and cause.strerror) or why}")
    if isinstance(fault, (TimeoutError, ConnectTimeoutError, ReadTimeoutError)):
        return ConnectError(f"no answer of {host} within {question.timeout:g} s")
    if isinstance(fault, ValueError) and not was_asked:
        return ConnectError(f"{host} was not asked: a header or the URL has characters that HTTP cannot carry")
    return ConnectError(f"no answer of {host}: the connection was lost, or what came is no HTTP")


def _host(question: Question) -> str:
    _, host, port = endpoint_of(question.url)
    return f"{host}:{port}"
