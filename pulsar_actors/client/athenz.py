"""Athenz: a token service gives role tokens to a service that proves who it is.

The service proves it with a principal token, which it signs with its private key, or with a certificate in the TLS
handshake (`x509CertChain`). Brokers get the role token. The settings are those of the official client and of Java's,
with their names. The request is that of the Java client: `tests/real_broker/test_athenz.py` has Athenz's own code
verify the signature.

A role token is kept for ninety minutes, as in the Java client, or for nine tenths of its lifetime if that is shorter.
The key is read whenever a token is needed, so its file can be replaced without a restart. `cryptography` signs.
"""

import base64
import json
import re
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

from pulsar_actors.client.credentials import (
    credentials_error,
    http_url,
    json_object,
    path_of_file_url,
    secret_text,
    token_data,
    trusted_certificates,
)
from pulsar_actors.client.token_cache import GrantedToken, TokenCache
from pulsar_actors.client.validation import is_text
from pulsar_actors.exceptions import ConnectError, InvalidArgument, OperationNotSupported
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.http_client import HttpClient, HttpRequest, HttpResponse
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.tls import client_context
from pulsar_actors.runtime.tls_config import Certificate
from pulsar_actors.wire.errors import excerpt

__all__ = ["AthenzProvider", "Identity", "TokenService", "athenz_from_params"]


METHOD: Final = "athenz"
_PRINCIPAL_HEADER: Final = "Athenz-Principal-Auth"
_ROLE_HEADER: Final = "Athenz-Role-Auth"
_PEM: Final = "data:application/x-pem-file;base64,"
_MOST_BYTES: Final = 1 << 20
_SECONDS: Final = 10.0
_PRINCIPAL_SECONDS: Final = 3600
_LEAST_SECONDS, _MOST_SECONDS = 7200, 86_400
"""The lifetimes that are asked for, as by the other clients."""
_KEPT_SECONDS: Final = 6000.0
"""Nine tenths of it are ninety minutes."""
_OK: Final = 200
_NAME: Final = re.compile(r"[\w.*-]+", re.ASCII)

KeySource = Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class _KeyFile:
    path: str

    def __call__(self) -> bytes:
        try:
            with Path(self.path).open("rb") as file:
                return file.read(_MOST_BYTES)
        except (OSError, ValueError) as fault:
            why = (fault.strerror if isinstance(fault, OSError) else "") or "its name cannot be used"
        raise credentials_error(f"the privateKey's file {self.path!r} cannot be read: {why}")


@dataclass(frozen=True, slots=True, repr=False)
class _FixedKey:
    pem: bytes

    def __call__(self) -> bytes:
        return self.pem


class Identity(NamedTuple):
    """A service, and the key that signs for it."""

    domain: str
    service: str
    key_id: str
    key: KeySource

    def principal_token(self, now: float) -> str:
        """Return a token that says who asks, signed. It is valid for an hour, so it is a secret."""
        unsigned = (
            f"v=S1;d={self.domain};n={self.service};h={socket.gethostname()};a={secrets.token_hex(8)}"
            f";t={int(now)};e={int(now) + _PRINCIPAL_SECONDS};k={self.key_id}"
        )
        return f"{unsigned};s={_letters_of(_signed(unsigned.encode(), self.key()))}"


def _letters_of(signature: bytes) -> str:
    """Write a signature in Yahoo's base 64, which has no letters that headers and URLs use."""
    return base64.b64encode(signature, altchars=b"._").decode().replace("=", "-")


def _signed(text: bytes, pem: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - few programs sign
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        key = load_pem_private_key(pem, None)
    except Exception:  # noqa: BLE001 - of many kinds, and a text may quote the key
        key = None
    match key:
        case rsa.RSAPrivateKey():
            return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
        case ec.EllipticCurvePrivateKey():
            return key.sign(text, ec.ECDSA(hashes.SHA256()))
        case _:
            raise credentials_error("the privateKey is no RSA or EC key in PEM without a password")


class TokenService(NamedTuple):
    """Athenz's token service (ZTS), and how to prove who asks: one of `identity` and `certificate` is given."""

    url: str
    provider_domain: str
    principal_header: str
    identity: Identity | None
    certificate: Certificate | None
    trust_file: str | None

    def grant(self, trust_certs_file: str | None) -> GrantedToken:
        """Fetch a role token."""
        headers = {"Accept": "application/json"}
        proof = None
        if self.identity is not None:
            if self.url.startswith("http:"):
                LOG.warning("Athenz's token service is asked over http: anybody on the way can read its tokens")
            proof = headers[self.principal_header] = self.identity.principal_token(time.time())
        lifetime = f"minExpiryTime={_LEAST_SECONDS}&maxExpiryTime={_MOST_SECONDS}"
        url = f"{self.url}/zts/v1/domain/{quote(self.provider_domain)}/token?{lifetime}"
        trusted = self.trust_file or trust_certs_file
        with closing(HttpClient(lambda: client_context(trusted, show=self.certificate))) as http:
            why = ""
            try:
                response = http.send(HttpRequest(url, _SECONDS, headers=headers))
            except (ConnectError, InvalidArgument) as error:
                why = f"cannot be asked: {error}"
                response = HttpResponse(0, {}, b"")
        fields = _json_fields(response)
        if response.status == _OK and "token" in fields:
            return _token_in(fields)
        raise credentials_error(
            f"Athenz's token service, {excerpt(self.url)}, {why or _refusal(response, fields, proof)}"
        )


def _json_fields(response: HttpResponse) -> Mapping[str, object]:
    try:
        fields: object = json.loads(response.body)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", fields) if isinstance(fields, dict) else {}


def _refusal(response: HttpResponse, fields: Mapping[str, object], proof: str | None) -> str:
    """Describe a response without a token; it may repeat what was sent."""
    if response.status == _OK:
        return "gives an answer without a token"
    words = fields.get("message")
    if not is_text(words) or not words or (proof is not None and proof.rpartition(";s=")[2] in str(words)):
        return f"answers HTTP {response.status}"
    return f"answers HTTP {response.status}: {excerpt(str(words))}"


def _token_in(fields: Mapping[str, object]) -> GrantedToken:
    ends = fields.get("expiryTime")
    lifetime = ends - time.time() if isinstance(ends, (int, float)) and not isinstance(ends, bool) else 0.0
    return GrantedToken(token_data("Athenz's token service", fields["token"]), min(max(0.0, lifetime), _KEPT_SECONDS))


@dataclass(frozen=True, slots=True, repr=False)
class AthenzProvider:
    """Fetches role tokens from a token service, and caches each while it is valid."""

    service: TokenService
    tls_certificate: None = None  # a certificate is shown to the token service, not to brokers
    _cache: TokenCache = field(default_factory=TokenCache, compare=False)

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:
        """Return the cached token. Fetch another if it is about to expire or the broker challenges."""
        trusted = trusted_certificates()
        return METHOD, self._cache.token(lambda: self.service.grant(trusted), challenged=challenge is not None)

    def judged(self, *, accepted: bool) -> None:
        """Note whether a broker has accepted the token: a refused token is not used again."""
        self._cache.judged(accepted=accepted)


def athenz_from_params(name: str, parameters: object) -> AthenzProvider:
    """Make a provider from the settings. Those that only tune Java's cache are ignored."""
    given = {
        setting: value for setting, value in json_object(name, parameters).items() if value is not None and value != ""
    }
    for setting in ("ztsProxyUrl", "athenzConfPath"):
        if setting in given:
            raise OperationNotSupported(f"{setting} of Athenz is not supported: ztsUrl is asked without a proxy")
    if given.get("roleHeader", _ROLE_HEADER) != _ROLE_HEADER:
        raise OperationNotSupported(f"roleHeader of Athenz takes {_ROLE_HEADER}, which it is without the setting")
    header = _matching("principalHeader", given.get("principalHeader", _PRINCIPAL_HEADER))
    with_certificate = "x509CertChain" in given
    return AthenzProvider(
        TokenService(
            http_url("ztsUrl", given.get("ztsUrl")),
            _matching("providerDomain", given.get("providerDomain")),
            header,
            None if with_certificate else _identity(given),
            _certificate(given) if with_certificate else None,
            _path("caCert", given["caCert"]) if "caCert" in given else None,
        )
    )


def _identity(given: Mapping[str, object]) -> Identity:
    if find_spec("cryptography") is None:
        raise OperationNotSupported("Athenz needs cryptography: pip install 'pulsar-actors[encryption]'")
    return Identity(
        _matching("tenantDomain", given.get("tenantDomain")).lower(),
        _matching("tenantService", given.get("tenantService")).lower(),
        _matching("keyId", given.get("keyId", "0")).lower(),
        _key_source(given.get("privateKey", given.get("privateKeyPath"))),
    )


def _certificate(given: Mapping[str, object]) -> Certificate:
    chain, key = "x509CertChain", "privateKey"
    return Certificate(_path(chain, given.get(chain)), _path(key, given.get(key)), chain, key)


def _key_source(given: object) -> KeySource:
    text = secret_text("privateKey", given)
    if not text.startswith(_PEM):
        return _KeyFile(_path("privateKey", text))
    try:
        pem = base64.b64decode(text.removeprefix(_PEM), validate=True)
    except ValueError:
        pem = b""
    if not pem:  # after the handler: the handled error may have the key
        raise InvalidArgument(f"privateKey takes base 64 after {_PEM} (what it got is not repeated here)")
    return _FixedKey(pem)


def _path(setting: str, given: object) -> str:
    text = secret_text(setting, given)
    if not text.startswith("file:"):
        kinds = "file:///a/path" + (f" or {_PEM}..." if setting == "privateKey" else "")
        raise InvalidArgument(f"{setting} takes {kinds} (what it got is not repeated here)")
    return path_of_file_url(text)


def _matching(setting: str, given: object) -> str:
    """Check a name that stands in the token, a URL or a header."""
    text = secret_text(setting, given)
    if not _NAME.fullmatch(text):
        raise InvalidArgument(f"{setting} takes letters, digits, and . _ - * (what it got is not repeated here)")
    return text
