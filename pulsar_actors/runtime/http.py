"""HTTP, as far as a client of Pulsar needs it: one question, one answer, in time and of bounded size.

It blocks, so it is asked on a helper's thread and never on a loop. Connections are kept for the next question; TLS is
agreed as the context says that it is made with, once the first `https` URL is asked for.

Much that HTTP libraries do unasked is left out on purpose. A redirect is an answer like any other, for whoever asks to
judge: credentials do not follow it by themselves. No proxy, no cookie and no password is taken from the environment or
from files: what is sent goes where the URL says. No answer is inflated, for a small one could become a huge one.

What goes wrong is said with the host and the port; the path, the headers and the body may carry secrets, and are in no
text. The library is imported with the first question, for most clients never ask one.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

from pulsar_actors.exceptions import InvalidUrl
from pulsar_actors.wire.excerpt import excerpt

if TYPE_CHECKING:
    import ssl

__all__ = ["Answer", "Http", "Question", "endpoint_of"]

_PORTS: Final = {"http": 80, "https": 443}
_NO_HEADERS: Final[Mapping[str, str]] = {}


class Answer(NamedTuple):
    """What a server said. The names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        """Say nothing of what may be secret."""
        return f"Answer(status={self.status}, {len(self.body):,} bytes)"


class Question(NamedTuple):
    """What is asked, and how many seconds an answer may take, and how many bytes it may have."""

    url: str
    timeout: float
    method: str = "GET"
    headers: Mapping[str, str] = _NO_HEADERS
    body: bytes | None = None
    most_bytes: int = 1 << 20

    def __repr__(self) -> str:
        """Say nothing of what may be secret."""
        return f"Question(method={self.method!r}, timeout={self.timeout:g})"


class Pool(Protocol):
    """Connections that are kept."""

    def ask(self, question: Question) -> Answer:
        """Ask it; see `Http.ask`."""
        ...

    def close(self) -> None:
        """Close those that are idle."""
        ...


class Http:
    """Asks servers, from any thread, over connections that it keeps."""

    __slots__ = ("_make_context", "_pools")

    def __init__(self, make_context: "Callable[[], ssl.SSLContext]") -> None:
        self._make_context = make_context
        self._pools: dict[str, Pool] = {}

    def ask(self, question: Question) -> Answer:
        """Give the answer, whatever its status.

        Raises CertificateRefused where the server is not to be trusted, and ConnectError where there is no answer: none
        in time, none at all, or one of more bytes than allowed.
        """
        scheme, _, _ = endpoint_of(question.url)
        return self._pool(scheme).ask(question)

    def close(self) -> None:
        """Close the connections that are kept; it can be asked on."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.close()

    def _pool(self, scheme: str) -> Pool:
        pool = self._pools.get(scheme)
        if pool is None:
            context = self._make_context() if scheme == "https" else None
            make: Any = import_module("pulsar_actors.runtime.http_pool").HttpPool
            pool = self._pools.setdefault(scheme, cast("Pool", make(context)))
        return pool


def endpoint_of(url: str) -> tuple[str, str, int]:
    """Give the scheme, the host and the port of a URL that can be asked."""
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
