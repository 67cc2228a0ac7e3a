"""Which certificate to show; apart from TLS itself, which is loaded only where it is spoken."""

from typing import NamedTuple


class Certificate(NamedTuple):
    """What is shown to the other side: the paths of a certificate and its key, and the names of the options for them.

    Without a path for it, the key is in the certificate's file.
    """

    file: str
    key_file: str | None
    option: str = "tls_certificate_file_path"
    key_option: str = "tls_private_key_file_path"
