"""OAuth2 client credentials: an issuer gives tokens to a client for its id and secret.

Brokers treat such a token like any other. With `tls_client_auth` the client shows the issuer a certificate instead of a
secret. Settings can have the official client's names or those of Java's configuration files.

The issuer is a web server. Its metadata (`/.well-known/openid-configuration`) names the token endpoint, which takes a
form. The issuer's certificate and host name are always checked, even if the client accepts any certificate of a broker:
a stolen token expires, a stolen secret does not. For the same reason no redirect is followed, and an `https` issuer may
not name an `http` endpoint. Errors quote the issuer's answer, unless it contains the secret.

The id and the secret are in a file, in a `data:` URL, or given directly. A file is read whenever a token is needed, so
it can be replaced without a restart.
"""

import base64
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote, unquote, unquote_plus, urlencode

from pulsar_actors.client.credentials import (
    TOKEN,
    credentials_error,
    http_url,
    json_object,
    path_of_file_url,
    secret_path,
    secret_text,
    token_data,
    trusted_certificates,
)
from pulsar_actors.client.token_cache import GrantedToken, TokenCache
from pulsar_actors.client.validation import is_text
from pulsar_actors.exceptions import ConnectError, ErrorGettingAuthenticationData, InvalidArgument, InvalidUrl
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.http_client import HttpClient, HttpRequest, HttpResponse, endpoint_of
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.tls import client_context
from pulsar_actors.runtime.tls_config import Certificate
from pulsar_actors.wire.errors import excerpt

__all__ = ["Issuer", "Key", "KeyFile", "KeySource", "Oauth2Provider", "key_source", "oauth2_from_params"]


_DATA: Final = "data:application/json;base64,"
_MOST_BYTES: Final = 1 << 20
_LEAKED_LETTERS: Final = 8
"""So many consecutive letters of a secret count as a leak, because an answer may quote only a part of it."""


class Key(NamedTuple):
    """The client's id and secret; with a certificate there is no secret."""

    client_id: str
    client_secret: str | None

    def __repr__(self) -> str:
        """Leave out the secret."""
        return f"Key(client_id={self.client_id!r})"

    def is_leaked_in(self, words: str) -> bool:
        """Return whether a text has the secret or a part of it, plain or form-encoded."""
        secret = (self.client_secret or "").casefold()
        parts = {secret[at : at + _LEAKED_LETTERS] for at in range(max(1, len(secret) - _LEAKED_LETTERS + 1))} - {""}
        forms = [form.casefold() for form in (words, unquote(words), unquote_plus(words))]
        return any(part in form for form in forms for part in parts)


KeySource = Callable[[], Key]


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file with `client_id` and `client_secret` as JSON."""

    path: str
    needs_secret: bool

    def __call__(self) -> Key:
        """Read the file."""
        why = ""
        content = b""
        try:
            with Path(self.path).open("rb") as file:
                content = file.read(_MOST_BYTES)
        except (OSError, ValueError) as fault:
            why = (fault.strerror if isinstance(fault, OSError) else "") or "its name cannot be used"
        if why:
            raise credentials_error(f"the private_key's file {self.path!r} cannot be read: {why}")
        key = _read_key(content, needs_secret=self.needs_secret)
        if isinstance(key, str):
            raise credentials_error(f"the private_key's file {self.path!r} {key}")
        return key


@dataclass(frozen=True, slots=True, repr=False)
class _FixedKey:
    key: Key

    def __call__(self) -> Key:
        return self.key


def key_source(private_key: object, client_id: object, client_secret: object, *, needs_secret: bool) -> KeySource:
    """Make a key source from these settings; `private_key` takes precedence."""
    if private_key is None and client_id is None and client_secret is None:
        raise InvalidArgument(
            "auth_params_string has no credentials: it takes private_key, or client_id and client_secret"
        )
    if private_key is None:
        secret = secret_text("client_secret", client_secret) if needs_secret else None
        return _FixedKey(Key(secret_text("client_id", client_id), secret))
    url = secret_text("private_key", private_key)
    if url.startswith("file:"):
        return KeyFile(path_of_file_url(url), needs_secret)
    start = url.lstrip().lower()
    if not start.startswith(("data:", "{")):  # a key that is given instead of a path must not be in an error
        return KeyFile(url, needs_secret)
    if not start.startswith(_DATA):
        raise InvalidArgument(f"private_key takes a path, file:... or {_DATA}... (what it got is not repeated here)")
    key = _read_key(_from_base64(url.strip()[len(_DATA) :]), needs_secret=needs_secret)
    if isinstance(key, str):
        raise InvalidArgument(f"private_key, the data in it, {key}")
    return _FixedKey(key)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _read_key(content: bytes, *, needs_secret: bool) -> Key | str:
    """Return the key, or what is wrong with the text."""
    try:
        fields: object = json.loads(content)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return "is not a JSON object"
    given = cast("dict[str, object]", fields)
    client_id, secret = given.get("client_id"), given.get("client_secret")
    if not is_text(client_id) or not client_id:
        return "has no client_id"
    if not needs_secret:
        return Key(cast("str", client_id), None)
    if not is_text(secret) or not secret:
        return "has no client_secret"
    return Key(cast("str", client_id), cast("str", secret))


_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_GRANT: Final = "client_credentials"
_SECONDS: Final = 10.0
"""The timeout in seconds of both requests together."""
_OK: Final = 200
_REDIRECTS: Final = range(300, 400)
_LONGEST_LIFE: Final = 10.0**9
_CODE: Final = re.compile(r"[\w.-]{1,64}")


class Issuer(NamedTuple):
    """The issuer of tokens, and the settings of requests to it."""

    url: str
    audience: str | None
    scope: str | None
    certificate: Certificate | None

    def grant(self, key: Key, trust_certs_file: str | None) -> GrantedToken:
        """Fetch a token from the issuer."""
        deadline = time.monotonic() + _SECONDS
        with closing(HttpClient(lambda: client_context(trust_certs_file, show=self.certificate))) as http:
            url = self._endpoint(self._send(http, HttpRequest(self.url + _WELL_KNOWN, _SECONDS), key), key)
            headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
            left = max(0.1, deadline - time.monotonic())
            return _token_in(self._send(http, HttpRequest(url, left, "POST", headers, self._form(key)), key))

    def _form(self, key: Key) -> bytes:
        fields = {
            "grant_type": _GRANT,
            "client_id": key.client_id,
            "client_secret": key.client_secret,
            "audience": self.audience,
            "scope": self.scope,
        }
        return urlencode({name: value for name, value in fields.items() if value is not None}, quote_via=quote).encode()

    def _endpoint(self, metadata: Mapping[str, object], key: Key) -> str:
        """Return the token endpoint."""
        url = metadata.get("token_endpoint")
        try:
            scheme = endpoint_of(url)[0] if isinstance(url, str) else None
        except InvalidUrl:
            scheme = None
        if not isinstance(url, str) or scheme is None:
            raise self._failed("does not say where it gives tokens: its token_endpoint is no URL of http or https")
        if scheme == "http":
            if self.url.startswith("https:"):
                raise self._failed("is asked over https and gives tokens over http, where anybody can read along")
            if key.client_secret is not None:
                LOG.warning("the issuer of tokens is asked over http: anybody on the way can read the client's secret")
        return url

    def _send(self, http: HttpClient, request: HttpRequest, key: Key) -> Mapping[str, object]:
        """Send a request, and return the JSON object of the response."""
        try:
            response = http.send(request)
        except (ConnectError, InvalidArgument) as error:
            why = f"cannot be asked: {error}"
        else:
            fields = _json_fields(response)
            if response.status == _OK and fields is not None:
                return fields
            why = _refusal_text(response, fields or {}, key)
        raise self._failed(why)

    def _failed(self, what: str) -> ErrorGettingAuthenticationData:
        return credentials_error(f"the issuer of tokens, {excerpt(self.url)}, {what}")


def _json_fields(response: HttpResponse) -> Mapping[str, object] | None:
    try:
        fields: object = json.loads(response.body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", fields) if isinstance(fields, dict) else None


def _refusal_text(response: HttpResponse, fields: Mapping[str, object], key: Key) -> str:
    """Describe a response without a token."""
    if response.status == _OK:
        return "gives an answer that is not a JSON object"
    if response.status in _REDIRECTS:
        return f"redirects (HTTP {response.status}), which is not followed: name the address it redirects to"
    words = [str(value) for value in (fields.get("error"), fields.get("error_description")) if is_text(value) and value]
    if any(key.is_leaked_in(word) for word in words):
        return f"answers HTTP {response.status}, and repeats the secret"
    refusal = ": ".join(word if _CODE.fullmatch(word) else excerpt(word) for word in words)
    return f"answers HTTP {response.status}" + (f", {refusal}" if refusal else "")


def _token_in(fields: Mapping[str, object]) -> GrantedToken:
    return GrantedToken(token_data("the issuer", fields.get("access_token")), _lifetime(fields.get("expires_in")))


def _lifetime(given: object) -> float:
    """Parse a lifetime, which some issuers write as text; 0 if it is invalid."""
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        return 0.0
    try:
        seconds = float(given)
    except (ValueError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), _LONGEST_LIFE) if math.isfinite(seconds) else 0.0


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
"""Settings by the official client's names, and Java's."""


@dataclass(frozen=True, slots=True, repr=False)
class Oauth2Provider:
    """Fetches tokens from an issuer, and caches each while it is valid."""

    issuer: Issuer
    key: KeySource
    tls_certificate: None = None  # a certificate is shown to the issuer, not to brokers
    _cache: TokenCache = field(default_factory=TokenCache, compare=False)

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:
        """Return the cached token. Fetch another if it is about to expire or the broker challenges."""
        trusted = trusted_certificates()
        token = self._cache.token(lambda: self.issuer.grant(self.key(), trusted), challenged=challenge is not None)
        return TOKEN, token

    def judged(self, *, accepted: bool) -> None:
        """Note whether a broker has accepted the token: a refused token is not used again."""
        self._cache.judged(accepted=accepted)


def oauth2_from_params(name: str, parameters: object) -> Oauth2Provider:
    """Make a provider from the settings; unknown ones are ignored."""
    given = json_object(name, parameters)
    fields = {ours: given.get(ours, given.get(java)) for ours, java in _NAMES.items()}
    fields = {setting: None if value == "" else value for setting, value in fields.items()}
    _one_of("type", fields["type"], (_TYPE,))
    method = _one_of("tokenEndpointAuthMethod", fields["token_endpoint_auth_method"], _METHODS)
    with_certificate = method == _WITH_CERTIFICATE
    issuer = Issuer(
        http_url("issuer_url", fields["issuer_url"]),
        _optional("audience", fields["audience"]),
        _optional("scope", fields["scope"]),
        _certificate(fields, is_needed=with_certificate),
    )
    key = key_source(
        fields["private_key"], fields["client_id"], fields["client_secret"], needs_secret=not with_certificate
    )
    return Oauth2Provider(issuer, key)


def _certificate(fields: Mapping[str, object], *, is_needed: bool) -> Certificate | None:
    """Return the certificate to show to the issuer. Both paths must be given, or neither if none is needed."""
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
