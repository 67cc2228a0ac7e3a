"""Authentication of clients: by a token, by a name with its password, or by a certificate that is shown over TLS.

Both protocols ask here. Over HTTP a token or a password is in the header `Authorization`.
"""

import hmac
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pulsar_actors.broker.session.session import SessionContext
from pulsar_actors.broker.tokens import Identity, TokenRefused

CertificateName: TypeAlias = Callable[[], str | None]
"""Returns the name in the certificate that the client has shown; None if there is none."""


def identify(context: SessionContext, method: str, data: bytes, certificate_name: CertificateName) -> Identity | None:
    """Find the owner of the credentials; None if the broker requires none. Raise TokenRefused."""
    if context.tokens is None and context.passwords is None and not context.certificates:
        return None
    if method == "basic" and context.passwords is not None:
        return _identity_of_password(context.passwords, data)
    if method == "tls" and context.certificates:
        return _identity_of_certificate(certificate_name())
    if context.tokens is None or method != "token":
        came_with = "nothing" if method in {"", "none"} else method
        raise TokenRefused(f"this broker wants {_accepted_credentials(context)}, and the client came with {came_with}")
    return context.tokens.check(data.decode(errors="replace"), context.loop.wall_clock_ms())


def credentials_in(authorization: str) -> tuple[str, bytes]:
    """Return the method and the data of the header; none if it has neither a token nor a password."""
    scheme, _, given = authorization.strip().partition(" ")
    match scheme.lower():
        case "bearer":
            return "token", given.strip().encode()
        case "basic":
            try:
                return "basic", b64decode(given, validate=True)
            except ValueError:
                return "basic", b""
        case _:
            return "", b""


def _accepted_credentials(context: SessionContext) -> str:
    known = (
        ("a token", context.tokens is not None),
        ("a password", context.passwords is not None),
        ("a certificate", context.certificates),
    )
    return " or ".join(what for what, is_known in known if is_known)


def _identity_of_password(passwords: Mapping[str, str], data: bytes) -> Identity:
    name, _, password = data.decode(errors="replace").partition(":")
    if not hmac.compare_digest(passwords.get(name, "").encode(), password.encode()) or name not in passwords:
        raise TokenRefused("there is no such name, or it has another password")
    return Identity(name, None)


def _identity_of_certificate(name: str | None) -> Identity:
    if name is None:
        raise TokenRefused("the client showed no certificate that names it")
    return Identity(name, None)
