"""What connections need of the world, by the client's options: credentials, and how to agree on TLS."""

import ssl
import threading

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.runtime.connection_actor import Entrance
from pulsar_actors.runtime.tls_contexts import client_context


def entrance(options: ClientOptions) -> Entrance:
    """Make it. Both parts may block, and are called off the loop."""
    authentication = options.authentication

    def fetch(challenge: bytes | None) -> tuple[str, bytes]:
        return ("none", b"") if authentication is None else authentication.fetch(challenge)

    return Entrance(fetch, _ContextMaker(options))


class _ContextMaker:
    """Makes the TLS context once, for all connections of a client."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._made: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def __call__(self) -> ssl.SSLContext:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def _make(self) -> ssl.SSLContext:
        options = self._options
        certificate, key = options.tls_certificate_file_path, options.tls_private_key_file_path
        shown = None if options.authentication is None else options.authentication.tls_certificate
        if shown is not None:
            certificate, key = shown
        return client_context(
            options.tls_trust_certs_file_path,
            allow_insecure=options.tls_allow_insecure_connection,
            validate_hostname=options.tls_validate_hostname,
            certificate_file=certificate,
            private_key_file=key,
        )
