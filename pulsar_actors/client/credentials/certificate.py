"""A certificate, which the connection itself shows while it is made: nothing follows it in CONNECT."""

from dataclasses import dataclass

from pulsar_actors.client.credentials.json_object import json_object
from pulsar_actors.client.credentials.secret_arguments import secret_path

__all__ = ["CertificateProvider", "certificate_named"]


@dataclass(frozen=True, slots=True)
class CertificateProvider:
    """The paths of the certificate and its key."""

    tls_certificate: tuple[str, str]

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:  # noqa: ARG002 - there is nothing to add
        """Give the method's name alone."""
        return "tls", b""


def certificate_named(parameters: str) -> CertificateProvider:
    """Read `tlsCertFile:PATH,tlsKeyFile:PATH`, or the same as JSON."""
    fields: dict[str, object]
    if parameters.lstrip().startswith("{"):
        fields = json_object("authParamsString", parameters)
    else:
        parts = [part.strip().partition(":") for part in parameters.split(",")]
        fields = {name: value for name, _, value in parts}
    return CertificateProvider(
        (
            secret_path("tlsCertFile", fields.get("tlsCertFile", "")),
            secret_path("tlsKeyFile", fields.get("tlsKeyFile", "")),
        )
    )
