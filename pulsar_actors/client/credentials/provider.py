"""What gives credentials, and for whom.

A provider gives the name of a method and the data that goes with it. Some have to ask a web server; it is to be trusted
as the client trusts its brokers, so whoever asks says which certificates that client trusts. That travels beside the
call rather than in it: a user's own `fetch`, which may well call one of ours, takes the challenge and nothing else.
"""

import contextlib
from collections.abc import Generator
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

__all__ = ["Keeper", "Provider", "trusted_certificates", "trusting"]

_TRUSTED: ContextVar[str | None] = ContextVar("trusted certificates", default=None)


class Provider(Protocol):
    """One way of saying who one is."""

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:
        """Give the method's name and its data; `challenge` is what the broker sent, None at first. It may block."""
        ...

    @property
    def tls_certificate(self) -> tuple[str, str] | None:
        """The paths of the certificate and the key that connections show, if they show one."""
        ...


@runtime_checkable
class Keeper(Provider, Protocol):
    """A provider that keeps what it gives."""

    def judged(self, *, accepted: bool) -> None:
        """Hear whether a broker has accepted it. It must not block."""
        ...


@contextlib.contextmanager
def trusting(trust_certs_file: str | None) -> Generator[None, None, None]:
    """Have whoever fetches credentials within the block trust the certificates in this file, instead of the usual."""
    token = _TRUSTED.set(trust_certs_file)
    try:
        yield
    finally:
        _TRUSTED.reset(token)


def trusted_certificates() -> str | None:
    """Give the file of whoever fetches credentials; None for the usual ones."""
    return _TRUSTED.get()
