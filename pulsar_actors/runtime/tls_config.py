"""The certificate to show, and the errors of TLS. They are not in `tls.py`, which is loaded only if TLS is used."""

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.named_tuple import NamedTuple


class Certificate(NamedTuple):
    """The paths of a certificate and its key, and the names of the options for them.

    Without `key_file`, the key is in the certificate's file.
    """

    file: str
    key_file: str | None
    option: str = "tls_certificate_file_path"
    key_option: str = "tls_private_key_file_path"


class TlsFailed(PulsarException):
    """The TLS stream is broken, or was refused. The text says why, and what can be done."""


class PeerDistrusted(TlsFailed):
    """The peer's certificate was refused."""
