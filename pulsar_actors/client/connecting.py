"""What connections need of the world, by the client's options: credentials, and how to agree on TLS."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pulsar_actors.client.arguments import LARGEST_TEXTS, is_text
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.credentials.provider import trusting
from pulsar_actors.client.credentials.secret_arguments import none_had
from pulsar_actors.runtime.connection_actor import Credentials, Entrance
from pulsar_actors.runtime.http import Http
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.tls_certificate import Certificate

if TYPE_CHECKING:
    import ssl


def entrance(options: ClientOptions) -> Entrance:
    """Make it. Its parts may block, and are called off the loop."""
    authentication, trusted = options.authentication, options.tls_trust_certs_file_path

    def fetch(challenge: bytes | None) -> Credentials:
        if authentication is None:
            return "none", b""
        with trusting(trusted):
            return _checked(authentication.fetch(challenge))

    def judge(accepted: bool) -> None:
        try:
            if authentication is not None:
                authentication.judged(accepted=accepted)
        except BaseException as raised:  # noqa: BLE001 - a user's own may raise anything; its text may be a secret
            LOG.warning("%r failed to hear of what a broker says of it: %s", authentication, type(raised).__name__)

    make_context = _ContextMaker(options)
    return Entrance(fetch, make_context, Http(make_context), judge)


def _checked(fetched: object) -> Credentials:
    """Take what `fetch` promises; a user's own may give anything."""
    match fetched:
        case (str() as method, bytes() as data) if is_text(method):
            size = len(method) + len(data)
            if size > LARGEST_TEXTS:
                raise none_had(f"no broker takes credentials of {size:,} bytes")
            return method, data
        case _:
            raise none_had(f"fetch gives a str and bytes, the method's name and its data, not {_outline(fetched)}")


def _outline(fetched: object) -> str:
    """Name the types of it: what it is may be a secret."""
    if not isinstance(fetched, tuple):
        return f"an object of type {type(fetched).__name__}"
    parts = cast("tuple[object, ...]", fetched)
    return f"a tuple of {', '.join(type(part).__name__ for part in parts[:3]) or 'nothing'}"


class _ContextMaker:
    """Makes the TLS context for all connections of a client, and again when a file that it rests on has changed.

    Certificates are renewed by putting others in their place, so who connects after that is to show the new one.
    """

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._show = _shown(options)
        named = (options.tls_trust_certs_file_path, *(self._show or ())[:2])
        self._files = [file for file in named if file is not None]
        self._made: ssl.SSLContext | None = None
        self._made_of: list[object] = []
        self._lock = threading.Lock()

    def __call__(self) -> "ssl.SSLContext":
        with self._lock:
            files = [_version(file) for file in self._files]
            if self._made is None or files != self._made_of:
                self._made = self._make()
                self._made_of = files
            return self._made

    def _make(self) -> "ssl.SSLContext":
        from pulsar_actors.runtime.tls_contexts import client_context  # noqa: PLC0415 - loaded where TLS is spoken

        options = self._options
        return client_context(
            options.tls_trust_certs_file_path,
            allow_insecure=options.tls_allow_insecure_connection,
            validate_hostname=options.tls_validate_hostname,
            show=self._show,
        )


def _version(file: str) -> object:
    """Give what changes with a file's content; None where it cannot be seen, which whoever reads it will say."""
    try:
        seen = Path(file).stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def _shown(options: ClientOptions) -> Certificate | None:
    """Give the certificate to show: the authentication's own goes before the client's."""
    by_authentication = None if options.authentication is None else options.authentication.tls_certificate
    if by_authentication is not None:
        return Certificate(*by_authentication, "certificate_path", "private_key_path")
    if options.tls_certificate_file_path is not None:
        return Certificate(options.tls_certificate_file_path, options.tls_private_key_file_path)
    return None
