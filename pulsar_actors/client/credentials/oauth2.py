"""OAuth2 client credentials: an issuer gives tokens to whoever shows the client's id and secret.

To brokers it is a token like any other. With `tls_client_auth` the issuer is shown a certificate in the secret's place.
Java's configuration files write the names of the settings in another manner; both are taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pulsar_actors.client.credentials.issuer import Issuer
from pulsar_actors.client.credentials.json_object import json_object
from pulsar_actors.client.credentials.key_file import KeySource, key_source
from pulsar_actors.client.credentials.provider import trusted_certificates
from pulsar_actors.client.credentials.secret_arguments import secret_path, secret_text
from pulsar_actors.client.credentials.token import TOKEN
from pulsar_actors.client.credentials.token_cache import TokenCache
from pulsar_actors.exceptions import InvalidArgument, InvalidUrl
from pulsar_actors.runtime.http import endpoint_of
from pulsar_actors.runtime.tls_certificate import Certificate

__all__ = ["Oauth2Provider", "oauth2_named"]

_TYPE: Final = "client_credentials"
_WITH_CERTIFICATE: Final = "tls_client_auth"
_METHODS: Final = ("client_secret_post", _WITH_CERTIFICATE)
_NAMES: Final = {
    "type": "type",
    "issuer_url": "issuerUrl",
    "private_key": "privateKey",
    "client_id": "clientId",
    "client_secret": "clientSecret",
    "audience": "audience",
    "scope": "scope",
    "token_endpoint_auth_method": "tokenEndpointAuthMethod",
    "tls_cert_file": "tlsCertFile",
    "tls_key_file": "tlsKeyFile",
}
"""Each setting as the official client writes it, and as Java does; of one, the official client takes Java's name."""


@dataclass(frozen=True, slots=True, repr=False)
class Oauth2Provider:
    """Has tokens of an issuer, and keeps each for as long as it is good."""

    issuer: Issuer
    key: KeySource
    tls_certificate: None = None  # the issuer is shown one, and not the broker
    _cache: TokenCache = field(default_factory=TokenCache, compare=False)

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:
        """Give the token that is kept, or another one if it is nearly over, or if the broker says that it is."""
        trusted = trusted_certificates()
        token = self._cache.token(lambda: self.issuer.grant(self.key(), trusted), challenged=challenge is not None)
        return TOKEN, token

    def judged(self, *, accepted: bool) -> None:
        """Do not show a refused token again."""
        self._cache.judged(accepted=accepted)


def oauth2_named(name: str, parameters: object) -> Oauth2Provider:
    """Read the settings; what else is among them is nobody's business."""
    given = json_object(name, parameters)
    fields = {ours: given.get(ours, given.get(java)) for ours, java in _NAMES.items()}
    fields = {setting: None if value == "" else value for setting, value in fields.items()}
    _one_of("type", fields["type"], (_TYPE,))
    method = _one_of("tokenEndpointAuthMethod", fields["token_endpoint_auth_method"], _METHODS)
    with_certificate = method == _WITH_CERTIFICATE
    issuer = Issuer(
        _issuer_url(fields["issuer_url"]),
        _optional("audience", fields["audience"]),
        _optional("scope", fields["scope"]),
        _certificate(fields, is_needed=with_certificate),
    )
    key = key_source(
        fields["private_key"], fields["client_id"], fields["client_secret"], needs_secret=not with_certificate
    )
    return Oauth2Provider(issuer, key)


def _issuer_url(given: object) -> str:
    url = secret_text("issuer_url", given).rstrip("/")
    try:
        endpoint_of(url)
    except InvalidUrl as fault:
        wrong = str(fault)
    else:
        return url
    raise InvalidArgument(f"issuer_url: {wrong}")


def _certificate(fields: Mapping[str, object], *, is_needed: bool) -> Certificate | None:
    """Take both paths, or neither unless a certificate is what the issuer is to know the client by."""
    options = ("tls_cert_file", "tls_key_file")
    if not is_needed and all(fields[option] is None for option in options):
        return None
    file, key_file = (secret_path(option, fields[option]) for option in options)
    return Certificate(file, key_file, *options)


def _optional(name: str, given: object) -> str | None:
    return None if given is None else secret_text(name, given)


def _one_of(name: str, given: object, known: tuple[str, ...]) -> object:
    if given is not None and given not in known:
        raise InvalidArgument(f"{name} takes {' or '.join(known)} (what it got is not repeated here)")
    return given
