"""Tokens: the text of one, or what gives it whenever one is needed."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pulsar_actors.client.arguments import is_text
from pulsar_actors.client.credentials.file_url import path_of
from pulsar_actors.client.credentials.secret_arguments import none_had, secret_text

__all__ = ["TOKEN", "TokenProvider", "token_data", "token_named"]

TOKEN: Final = "token"  # noqa: S105 - the method's name


@dataclass(frozen=True, slots=True, repr=False)
class TokenProvider:
    """A token: the text of it, or a callable that gives it."""

    token: str | Callable[[], str]
    tls_certificate: None = None

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:  # noqa: ARG002 - a token answers any
        """Give the token as it is now."""
        if callable(self.token):
            return TOKEN, token_data("the callable", self.token())
        return TOKEN, token_data("the argument", self.token)


@dataclass(frozen=True, slots=True)
class _FromFile:
    """A token that is read anew each time, for whoever put it there may put another one."""

    path: str

    def __call__(self) -> str:
        try:
            return Path(self.path).read_text(encoding="utf-8")
        except (OSError, ValueError) as fault:
            why = fault.strerror if isinstance(fault, OSError) else "it is not text"
        raise none_had(
            f"the token's file {self.path!r}: {why}"
        )  # out here, for that error holds what it could not read


@dataclass(frozen=True, slots=True)
class _FromEnvironment:
    name: str

    def __call__(self) -> str:
        token = os.environ.get(self.name)
        if token is None:
            raise none_had(f"the token's variable {self.name!r} is not set")
        return token


def token_named(parameters: str) -> TokenProvider:
    """Make it of `token:TEXT`, `file:///PATH`, `file:PATH`, `env:VARIABLE`, or the bare text."""
    kind, _, rest = parameters.partition(":")
    if kind == "file":
        return TokenProvider(_FromFile(path_of(parameters)))
    if kind == "env":
        return TokenProvider(_FromEnvironment(secret_text("env:", rest)))
    return TokenProvider(secret_text("token", rest if kind == "token" else parameters))


def token_data(who: str, token: object) -> bytes:
    """Check what was given for a token."""
    if not isinstance(token, str):
        raise none_had(f"asked for a token, {who} gave an object of type {type(token).__name__}")
    if not token.strip() or not is_text(token):
        raise none_had(f"asked for a token, {who} gave text that is blank or not Unicode")
    return token.strip().encode()
