"""Who the client says it is.

An `Authentication` gives the name of a method and the data that goes with it: for the first CONNECT of every
connection, and again whenever a broker challenges, since credentials run out. It is asked on a thread of its own, never
on a loop, so it may read files and call services. To bring a method of your own, make a subclass with a `fetch`.

Secrets are in what `fetch` gives and nowhere else: in no `repr`, no text of an error, no log. Pickling takes along what
the object was made of: a path, the name of a variable or an importable callable stays a reference; only a literal
token, or a literal password, is in its own pickle.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from pulsar_actors.client.arguments import is_text
from pulsar_actors.exceptions import ErrorGettingAuthenticationData, InvalidArgument, OperationNotSupported

__all__ = ["Authentication", "AuthenticationBasic", "AuthenticationTLS", "AuthenticationToken"]

_JAVA = "org.apache.pulsar.client.impl.auth.authentication"


class Authentication:
    """Credentials by the name of their method, or the base of your own.

    `Authentication("token", "token:eyJh...")` is what configuration files of Pulsar say; `tls` and `basic` work as
    well, and so do the names of the Java client's classes.
    """

    def __init__(self, dynamicLibPath: str, authParamsString: str) -> None:  # noqa: N803 - the official names
        self._named = _named(_secret_text("dynamicLibPath", dynamicLibPath), authParamsString)

    def fetch(self, challenge: bytes | None = None) -> tuple[str, bytes]:
        """Give the method's name and its data; `challenge` is what the broker sent, None at first. It may block."""
        return self._named.fetch(challenge)

    @property
    def tls_certificate(self) -> tuple[str, str] | None:
        """The paths of the certificate and the key that connections show, if they show one."""
        named: Authentication | None = getattr(self, "_named", None)  # a subclass may have none
        return named.tls_certificate if named else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class AuthenticationToken(Authentication):
    """A token: the text of it, or a callable that gives it, which is asked anew for each connection."""

    def __init__(self, token: str | Callable[[], str]) -> None:
        self._token = token if callable(token) else _secret_text("token", token)

    def fetch(self, challenge: bytes | None = None) -> tuple[str, bytes]:  # noqa: ARG002 - a token answers any
        """Give the token as it is now."""
        return "token", _token_data(self._token() if callable(self._token) else self._token)


class AuthenticationBasic(Authentication):
    """A user name and a password; or both, and the method's name, as JSON."""

    def __init__(
        self,
        username: str | None = None,
        password: str | None = None,
        method: str = "basic",
        auth_params_string: str | None = None,
    ) -> None:
        if auth_params_string is not None:
            fields = _json("auth_params_string", auth_params_string)
            username, password, method = fields.get("username"), fields.get("password"), fields.get("method", "basic")
        self._username = _secret_text("username", username)
        self._password = _secret_text("password", password)
        self._method = _secret_text("method", method)
        if ":" in self._username:
            raise InvalidArgument("username takes no ':', for that is where the password begins")

    def fetch(self, challenge: bytes | None = None) -> tuple[str, bytes]:  # noqa: ARG002 - a password answers any
        """Give the name and the password."""
        return self._method, f"{self._username}:{self._password}".encode()


class AuthenticationTLS(Authentication):
    """A certificate, which the connection itself shows while it is made: nothing follows it in CONNECT."""

    def __init__(self, certificate_path: str, private_key_path: str) -> None:
        self._paths = (
            _secret_text("certificate_path", certificate_path),
            _secret_text("private_key_path", private_key_path),
        )

    def fetch(self, challenge: bytes | None = None) -> tuple[str, bytes]:  # noqa: ARG002 - there is nothing to add
        """Give the method's name alone."""
        return "tls", b""

    @property
    def tls_certificate(self) -> tuple[str, str]:
        """The paths of the certificate and its key."""
        return self._paths


@dataclass(frozen=True, slots=True)
class _FromFile:
    """A token that is read anew each time, for whoever put it there may put another one."""

    path: str

    def __call__(self) -> str:
        try:
            return Path(self.path).read_text(encoding="utf-8")
        except OSError as fault:
            why = fault.strerror
        except UnicodeDecodeError:
            why = "it is not text"
        raise _none_had(
            f"the token's file {self.path!r}: {why}"
        )  # out here, for that error holds what it could not read


@dataclass(frozen=True, slots=True)
class _FromEnvironment:
    name: str

    def __call__(self) -> str:
        token = os.environ.get(self.name)
        if token is None:
            raise _none_had(f"the token's variable {self.name!r} is not set")
        return token


def _token_data(token: object) -> bytes:
    if not isinstance(token, str):
        raise _none_had(f"asked for a token, the callable gave an object of type {type(token).__name__}")
    if not token.strip() or not is_text(token):
        raise _none_had("asked for a token, the callable gave text that is blank or not Unicode")
    return token.strip().encode()


def _none_had(why: str) -> ErrorGettingAuthenticationData:
    return ErrorGettingAuthenticationData("AuthenticationError", why)


def _secret_text(name: str, value: object) -> str:
    """Take text that is not empty, and never repeat it."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} takes a str, got an object of type {type(value).__name__}")
    if not value.strip() or not is_text(value):
        raise InvalidArgument(f"{name} takes Unicode text that is not blank (what it got is not repeated here)")
    return value


def _named(method: str, parameters: str) -> Authentication:
    """Make the authentication that a configuration file names."""
    name = method.lower().removeprefix(_JAVA)
    maker = _NAMED.get(name)
    if maker is not None:
        return maker(_secret_text("authParamsString", parameters))
    if name in _LATER:
        raise OperationNotSupported(f"this version has no authentication by {name}")
    raise InvalidArgument(f"dynamicLibPath takes one of {', '.join(_NAMED)}; what it got may be the secret")


def _token(parameters: str) -> AuthenticationToken:
    kind, _, rest = parameters.partition(":")
    if kind == "file":
        return AuthenticationToken(_FromFile(unquote(urlsplit(parameters).path)))
    if kind == "env":
        return AuthenticationToken(_FromEnvironment(rest))
    return AuthenticationToken(rest if kind == "token" else parameters)


def _tls(parameters: str) -> AuthenticationTLS:
    """Read `tlsCertFile:PATH,tlsKeyFile:PATH`, or the same as JSON."""
    if parameters.lstrip().startswith("{"):
        fields = _json("authParamsString", parameters)
    else:
        parts = [part.strip().partition(":") for part in parameters.split(",")]
        fields = {name: value for name, _, value in parts}
    return AuthenticationTLS(fields.get("tlsCertFile", ""), fields.get("tlsKeyFile", ""))


def _basic(parameters: str) -> AuthenticationBasic:
    return AuthenticationBasic(auth_params_string=parameters)


def _json(name: str, given: object) -> dict[str, str]:
    try:
        fields: object = json.loads(_secret_text(name, given))
    except json.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise InvalidArgument(f"{name} takes a JSON object (what it got is not repeated here)") from None
    return cast("dict[str, str]", fields)


_NAMED: dict[str, Callable[[str], Authentication]] = {"token": _token, "tls": _tls, "basic": _basic}
_LATER = ("oauth2", "oauth2token", "athenz")
