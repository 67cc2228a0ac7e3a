"""JSON Web Tokens with which clients connect, for a limited time or without a limit.

A token is signed with HS256: three parts in base64url, joined by dots. The first names the signature algorithm. The
second has the subject (`sub`) and the expiry (`exp`, in seconds since 1970). The third is the signature of both, made
with a secret that issuer and broker share. Pulsar supports more algorithms; HS256 needs no library.

    tokens = Tokens(b"a secret of thirty-two bytes or more")
    with EmbeddedBroker(tokens=tokens) as broker:
        client = Client(broker.service_url, AuthenticationToken(tokens.issue("me", lifetime_seconds=60)))
"""

import base64
import binascii
import hmac
import json
import math
import time
from hashlib import sha256
from typing import Any, cast

from pulsar_actors.exceptions import InvalidArgument, PulsarException
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import excerpt

__all__ = ["Identity", "TokenRefused", "Tokens"]


_PARTS = 3


class TokenRefused(PulsarException):
    """The token is invalid. The text says why, and does not quote the token."""


class Identity(NamedTuple):
    """The subject of the credentials, and their expiry in milliseconds since 1970; None: never."""

    subject: str
    expires_at_ms: int | None


class Tokens:
    """Issues and checks the tokens of one secret, which its `repr` does not show."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or not secret:  # pyright: ignore[reportUnnecessaryIsInstance] - a str is the usual slip
            raise InvalidArgument(f"secret is the bytes of a key, at least one, not a {type(secret).__name__}")
        self._secret = secret

    def issue(self, subject: str, *, lifetime_seconds: float | None = None) -> str:
        """Issue a token for a subject. It expires after so many seconds, or never."""
        claims: dict[str, Any] = {"sub": subject}
        if lifetime_seconds is not None:
            claims["exp"] = time.time() + lifetime_seconds
        signed = f"{_encode_json({'alg': 'HS256', 'typ': 'JWT'})}.{_encode_json(claims)}"
        return f"{signed}.{_encode(self._sign(signed))}"

    def check(self, token: str, now_ms: int) -> Identity:
        """Return the identity of a token. Raise TokenRefused if the token is invalid."""
        signed, _, signature = token.rpartition(".")
        if token.count(".") != _PARTS - 1:
            raise TokenRefused(f"a token has {_PARTS} parts, joined by dots, and this one {token.count('.') + 1}")
        head, claims = map(_decode_json, signed.split("."))
        if head.get("alg") != "HS256":
            raise TokenRefused(f"tokens are signed with HS256 here, and this one with {excerpt(head.get('alg'))}")
        if not hmac.compare_digest(_decode(signature), self._sign(signed)):
            raise TokenRefused("the token is signed with another secret")
        return _identity(claims, now_ms)

    def _sign(self, signed: str) -> bytes:
        return hmac.new(self._secret, signed.encode(), sha256).digest()


def _identity(claims: dict[str, Any], now_ms: int) -> Identity:
    subject, expires = claims.get("sub"), claims.get("exp")
    if not isinstance(subject, str) or not subject:
        raise TokenRefused(f"the token has no subject: its sub is {excerpt(subject)}")
    if expires is None:
        return Identity(subject, None)
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not math.isfinite(expires):
        raise TokenRefused(f"the token's exp is {excerpt(expires)}, and not a time")
    expires_at_ms = int(expires * 1000)
    if expires_at_ms <= now_ms:
        raise TokenRefused(f"the token ended {(now_ms - expires_at_ms) / 1000:.1f} s ago")
    return Identity(subject, expires_at_ms)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _encode_json(value: dict[str, Any]) -> str:
    return _encode(json.dumps(value, separators=(",", ":")).encode())


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as fault:
        raise TokenRefused("a part of the token is not base64url") from fault


def _decode_json(text: str) -> dict[str, Any]:
    try:
        value: object = json.loads(_decode(text))
    except (ValueError, RecursionError) as fault:
        raise TokenRefused("a part of the token is not JSON") from fault
    if not isinstance(value, dict):
        raise TokenRefused("a part of the token is not a JSON object")
    return cast("dict[str, Any]", value)
