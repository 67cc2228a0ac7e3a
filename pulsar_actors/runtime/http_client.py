"""An HTTP client: one request and one response, with a time limit and a size limit.

It blocks, so actors call it through `run_blocking`. Connections are kept for the next request. `make_context` is called
for the first `https` URL; TLS uses the context that it returns. A connection that is not open within
`connection_timeout` raises ConnectTimeout, if the request has that long.

Much that HTTP libraries do by themselves is left out on purpose. A redirect is not followed, but returned to the
caller: so credentials do not follow it. No proxy, cookie or password is taken from the environment or from files: a
request goes to the host of its URL. No response is decompressed, because a small one could become a huge one.

Errors name the host and the port. The path, the headers and the body may have secrets, so they are in no error. The
library is imported with the first request, since most clients send none.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pulsar_actors.exceptions import InvalidUrl
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import excerpt

__all__ = ["HttpClient", "HttpRequest", "HttpResponse", "endpoint_of"]


if TYPE_CHECKING:
    import ssl


MOST_AT_ONCE: Final = 8
"""The most lookups that are sent at once. So many connections to a host are kept."""

_PORTS: Final = {"http": 80, "https": 443}
_NO_HEADERS: Final[Mapping[str, str]] = {}


class HttpResponse(NamedTuple):
    """A server's response. The names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        """Return a description without the parts that may be secret."""
        return f"HttpResponse(status={self.status}, {len(self.body):,} bytes)"


class HttpRequest(NamedTuple):
    """A request, with the seconds that its response may take, and the bytes that it may have."""

    url: str
    timeout: float
    method: str = "GET"
    headers: Mapping[str, str] = _NO_HEADERS
    body: bytes | None = None
    most_bytes: int = 1 << 20

    def __repr__(self) -> str:
        """Return a description without the parts that may be secret."""
        return f"HttpRequest(method={self.method!r}, timeout={self.timeout:g})"


class HttpConnections(Protocol):
    """Connections to servers: an `HttpPool`, whose module is loaded with the first request."""

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; see `HttpClient.send`."""
        ...

    def close(self) -> None:
        """Close idle connections."""
        ...


class HttpClient:
    """Sends requests, from any thread, over connections that it keeps."""

    __slots__ = ("_connection_timeout", "_make_context", "_pools")

    def __init__(self, make_context: "Callable[[], ssl.SSLContext]", connection_timeout: float | None = None) -> None:
        self._make_context = make_context
        self._connection_timeout = connection_timeout
        self._pools: dict[str, HttpConnections] = {}

    def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response, whatever its status.

        Raises CertificateRefused if the server is not trusted, and ConnectError if there is no response, or none in
        time, or one of more bytes than allowed.
        """
        scheme, _, _ = endpoint_of(request.url)
        return self._pool(scheme).send(request)

    def close(self) -> None:
        """Close idle connections. Further requests open new ones."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.close()

    def _pool(self, scheme: str) -> HttpConnections:
        pool = self._pools.get(scheme)
        if pool is None:
            context = self._make_context() if scheme == "https" else None
            make: Any = import_module("pulsar_actors.runtime.http_pool").HttpPool
            pool = self._pools.setdefault(scheme, cast("HttpConnections", make(context, self._connection_timeout)))
        return pool


def endpoint_of(url: str) -> tuple[str, str, int]:
    """Return the scheme, the host and the port of a URL."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - few programs need it

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if parts.scheme not in _PORTS or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidUrl(f"a URL of HTTP is http://host/path or https://host/path, got one of {excerpt(url[:8])}...")
    if parts.username is not None or parts.password is not None:
        raise InvalidUrl("a URL of HTTP takes no user name and no password (what it got is not repeated here)")
    return parts.scheme, host, port if port is not None else _PORTS[parts.scheme]
