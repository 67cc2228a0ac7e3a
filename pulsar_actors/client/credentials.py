"""Providers of credentials: tokens, passwords, certificates.

A provider returns the name of a method and its data. Some providers call a web server, which must have a certificate
that the client trusts; the caller sets the trusted certificates. They are a context variable and not an argument,
because a user's own `fetch`, which may call one of these providers, has no such argument.

This module also checks arguments that are secrets, or that may be a secret by mistake: the error does not quote the
argument.
"""

import contextlib
import json
import os
from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, cast, runtime_checkable
from urllib.parse import unquote, urlsplit

from pulsar_actors.client.validation import is_text
from pulsar_actors.exceptions import ErrorGettingAuthenticationData, InvalidArgument, InvalidUrl

__all__ = [
    "TOKEN",
    "BasicProvider",
    "CachingProvider",
    "CertificateProvider",
    "Provider",
    "TokenProvider",
    "basic_from_params",
    "certificate_from_params",
    "credentials_error",
    "http_url",
    "json_object",
    "new_basic_provider",
    "path_of_file_url",
    "secret_path",
    "secret_text",
    "token_data",
    "token_from_params",
    "trusted_certificates",
    "trusting",
]


_TRUSTED: ContextVar[str | None] = ContextVar("trusted certificates", default=None)


class Provider(Protocol):
    """Gives the credentials of one method."""

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:
        """Return the method's name and its data; `challenge` is the broker's, None at first. It may block."""
        ...

    @property
    def tls_certificate(self) -> tuple[str, str] | None:
        """The paths of the certificate and the key that connections show, if they show one."""
        ...


@runtime_checkable
class CachingProvider(Provider, Protocol):
    """A provider that caches credentials."""

    def judged(self, *, accepted: bool) -> None:
        """Note whether a broker has accepted the credentials. It must not block."""
        ...


@contextlib.contextmanager
def trusting(trust_certs_file: str | None) -> Generator[None, None, None]:
    """Let providers that are called in the block trust the certificates in this file, instead of the usual ones."""
    token = _TRUSTED.set(trust_certs_file)
    try:
        yield
    finally:
        _TRUSTED.reset(token)


def trusted_certificates() -> str | None:
    """Return the file of certificates to trust; None for the usual ones."""
    return _TRUSTED.get()


def secret_text(name: str, value: object) -> str:
    """Check text that is not blank."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} takes a str, got an object of type {type(value).__name__}")
    if not value.strip() or not is_text(value):
        raise InvalidArgument(f"{name} takes Unicode text that is not blank (what it got is not repeated here)")
    return value


def http_url(name: str, value: object) -> str:
    """Check the URL of a web service, and return it without a slash at its end."""
    from pulsar_actors.runtime.http_client import endpoint_of  # noqa: PLC0415 - few programs need it

    url = secret_text(name, value).rstrip("/")
    try:
        endpoint_of(url)
    except InvalidUrl as fault:
        wrong = str(fault)
    else:
        return url
    raise InvalidArgument(f"{name}: {wrong}")


def secret_path(name: str, value: object) -> str:
    """Check the path of a file. The user may have given the content instead, so an error does not quote it."""
    path = secret_text(name, value)
    if "\0" in path:
        raise InvalidArgument(f"{name} takes the path of a file, without NUL characters (it is not repeated here)")
    return path


def credentials_error(why: str) -> ErrorGettingAuthenticationData:
    """Make the error for credentials that cannot be fetched."""
    return ErrorGettingAuthenticationData("AuthenticationError", why)


def path_of_file_url(url: str) -> str:
    """Return the path of `file:///a/path`, `file:/a/path` or `file:a/path`, as in Pulsar's configuration files."""
    return secret_path("file:", unquote(urlsplit(url).path))


TOKEN: Final = "token"  # noqa: S105 - the method's name


@dataclass(frozen=True, slots=True, repr=False)
class TokenProvider:
    """Provides a token: a text, or a callable that returns it."""

    token: str | Callable[[], str | bytes]
    tls_certificate: None = None

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:  # noqa: ARG002 - a token answers any challenge
        """Return the token as it is now."""
        if callable(self.token):
            return TOKEN, token_data("the callable", self.token())
        return TOKEN, token_data("the argument", self.token)


@dataclass(frozen=True, slots=True)
class _FromFile:
    """A token in a file, which is read each time, since it may be replaced."""

    path: str

    def __call__(self) -> str:
        try:
            return Path(self.path).read_text(encoding="utf-8")
        except (OSError, ValueError) as fault:
            why = fault.strerror if isinstance(fault, OSError) else "it is not text"
        raise credentials_error(
            f"the token's file {self.path!r}: {why}"
        )  # raised after the handler: the handled error holds the text, which may be secret


@dataclass(frozen=True, slots=True)
class _FromEnvironment:
    name: str

    def __call__(self) -> str:
        token = os.environ.get(self.name)
        if token is None:
            raise credentials_error(f"the token's variable {self.name!r} is not set")
        return token


def token_from_params(parameters: str) -> TokenProvider:
    """Make a provider of `token:TEXT`, `file:///PATH`, `file:PATH`, `env:VARIABLE`, or the bare text."""
    kind, _, rest = parameters.partition(":")
    if kind == "file":
        return TokenProvider(_FromFile(path_of_file_url(parameters)))
    if kind == "env":
        return TokenProvider(_FromEnvironment(secret_text("env:", rest)))
    return TokenProvider(secret_text("token", rest if kind == "token" else parameters))


def token_data(who: str, token: object) -> bytes:
    """Check a token, and encode it. Bytes are its text, as in the official client."""
    if isinstance(token, bytes):
        token = token.decode(errors="surrogateescape")
    if not isinstance(token, str):
        raise credentials_error(f"asked for a token, {who} gave an object of type {type(token).__name__}")
    if not token.strip() or not is_text(token):
        raise credentials_error(f"asked for a token, {who} gave text that is blank or not Unicode")
    return token.strip().encode()


def json_object(name: str, given: object) -> dict[str, object]:
    """Parse the text of a JSON object."""
    text = secret_text(name, given)
    try:
        fields: object = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):  # after the handler: the handled error holds the text, which may be secret
        raise InvalidArgument(f"{name} takes a JSON object (what it got is not repeated here)")
    return cast("dict[str, object]", fields)


@dataclass(frozen=True, slots=True, repr=False)
class BasicProvider:
    """Provides a user name and a password, joined by a colon."""

    method: str
    data: bytes
    tls_certificate: None = None

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:  # noqa: ARG002 - a password answers any challenge
        """Return the name and the password."""
        return self.method, self.data


def new_basic_provider(username: object, password: object, method: object) -> BasicProvider:
    """Check the user name, the password and the method, and make a provider."""
    name = secret_text("username", username)
    data = f"{name}:{secret_text('password', password)}".encode()
    if ":" in name:
        raise InvalidArgument("username takes no ':', for that is where the password begins")
    return BasicProvider(secret_text("method", method), data)


def basic_from_params(name: str, parameters: object) -> BasicProvider:
    """Read `{"username": "...", "password": "...", "method": "basic"}`; Java calls the name `userId`."""
    fields = json_object(name, parameters)
    username = fields.get("username", fields.get("userId"))
    return new_basic_provider(username, fields.get("password"), fields.get("method", "basic"))


@dataclass(frozen=True, slots=True)
class CertificateProvider:
    """Provides a certificate, which the connection shows in the TLS handshake. CONNECT has only the method's name."""

    tls_certificate: tuple[str, str]

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:  # noqa: ARG002 - there is no data
        """Return the method's name, without data."""
        return "tls", b""


def certificate_from_params(parameters: str) -> CertificateProvider:
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
