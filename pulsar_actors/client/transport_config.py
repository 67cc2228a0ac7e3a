"""The access of connections to a service, made from the client's options: credentials and TLS."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.validation import LARGEST_TEXTS, is_text
from pulsar_actors.runtime.connection_actor import Credentials, ServiceAccess
from pulsar_actors.runtime.http_client import HttpClient
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.tls_config import Certificate
from pulsar_actors.wire.service_url import ServiceUrl

if TYPE_CHECKING:
    import ssl


def usable_service_access(options: ClientOptions) -> ServiceAccess:
    """Make the access of a client to its service. Raise if TLS is needed, and one of its files cannot be used."""
    access = service_access(options)
    if ServiceUrl.parse(str(options.service_url)).is_tls:
        access.make_context()  # here, in the call that names the file
    return access


def service_access(options: ClientOptions) -> ServiceAccess:
    """Make the access of a client to its service. Its functions may block, and are called off the loop."""
    authentication = options.authentication
    fetch = _fetch_nothing if authentication is None else _fetcher(authentication, options.tls_trust_certs_file_path)

    def report_verdict(accepted: bool) -> None:
        try:
            if authentication is not None:
                authentication.judged(accepted=accepted)
        except BaseException as raised:  # noqa: BLE001 - user code may raise anything; its text may be a secret
            LOG.warning("%r failed to hear of what a broker says of it: %s", authentication, type(raised).__name__)

    make_context = _TlsContextCache(options)
    return ServiceAccess(
        fetch, make_context, HttpClient(make_context, options.connection_timeout_ms / 1000), report_verdict
    )


def _fetcher(authentication: Authentication, trusted: str | None) -> Callable[[bytes | None], Credentials]:
    """Return the function that fetches credentials."""
    from pulsar_actors.client.credentials import trusting  # noqa: PLC0415 - many programs need none

    def fetch(challenge: bytes | None) -> Credentials:
        with trusting(trusted):
            return _checked(authentication.fetch(challenge))

    return fetch


def _fetch_nothing(_: bytes | None) -> Credentials:
    return "none", b""


def _checked(fetched: object) -> Credentials:
    """Check the result of `fetch`, which may be user code."""
    from pulsar_actors.client.credentials import credentials_error  # noqa: PLC0415 - many programs need none

    match fetched:
        case (str() as method, bytes() as data) if is_text(method):
            size = len(method) + len(data)
            if size > LARGEST_TEXTS:
                raise credentials_error(f"no broker takes credentials of {size:,} bytes")
            return method, data
        case _:
            raise credentials_error(
                f"fetch gives a str and bytes, the method's name and its data, not {_type_outline(fetched)}"
            )


def _type_outline(fetched: object) -> str:
    """Describe a value by its types, because the value may be a secret."""
    if not isinstance(fetched, tuple):
        return f"an object of type {type(fetched).__name__}"
    parts = cast("tuple[object, ...]", fetched)
    return f"a tuple of {', '.join(type(part).__name__ for part in parts[:3]) or 'nothing'}"


class _TlsContextCache:
    """Makes the TLS context for all connections of a client, and another when one of its files has changed.

    Certificates are renewed by replacing files; later connections use the new ones.
    """

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._certificate = _client_certificate(options)
        named = (options.tls_trust_certs_file_path, *(self._certificate or ())[:2])
        self._files = [file for file in named if file is not None]
        self._made: ssl.SSLContext | None = None
        self._made_of_files: list[object] = []
        self._lock = threading.Lock()

    def __call__(self) -> "ssl.SSLContext":
        with self._lock:
            files = [_file_version(file) for file in self._files]
            if self._made is None or files != self._made_of_files:
                self._made = self._make()
                self._made_of_files = files
            return self._made

    def _make(self) -> "ssl.SSLContext":
        from pulsar_actors.runtime.tls import client_context  # noqa: PLC0415 - loaded where TLS is spoken

        options = self._options
        return client_context(
            options.tls_trust_certs_file_path,
            allow_insecure=options.tls_allow_insecure_connection,
            validate_hostname=options.tls_validate_hostname,
            show=self._certificate,
        )


def _file_version(file: str) -> object:
    """Return a value that changes with a file; None if there is no such file, which is reported when it is read."""
    from pathlib import Path  # noqa: PLC0415 - many programs name no file

    try:
        seen = Path(file).stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def _client_certificate(options: ClientOptions) -> Certificate | None:
    """Return the certificate to show. The authentication's takes precedence over the client's."""
    by_authentication = None if options.authentication is None else options.authentication.tls_certificate
    if by_authentication is not None:
        return Certificate(*by_authentication, "certificate_path", "private_key_path")
    if options.tls_certificate_file_path is not None:
        return Certificate(options.tls_certificate_file_path, options.tls_private_key_file_path)
    return None
