"""The cache of a token that all connections of a client share.

A token is kept for nine tenths of its lifetime, so that it does not expire on its way to a broker. The next caller
after that fetches another. Callers that come meanwhile wait for that fetch and get its outcome, even an error: so a
thousand connections make one request. If the fetch fails while the old token is still valid, the old token is used.

A broker challenges when a token has expired. Then the cached token is returned only if it was fetched within the last
seconds, for another connection that was challenged.

A broker may refuse a token that has not expired, for example after a change of keys. Then the next caller fetches
another. If that is refused as well, a new token does not help, and it is kept like any other: otherwise the issuer
would get a request for each attempt of each connection.

The age of a token is measured by two clocks, and the larger value counts: the wall clock may be wrong, or be corrected,
and the monotonic clock stops while the machine sleeps. A token without a usable `expires_in` is not cached: only the
callers that waited for its fetch get it.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Final

from pulsar_actors.client.credentials import credentials_error
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.future import copy_error
from pulsar_actors.runtime.log import LOG

__all__ = ["GrantedToken", "TokenCache"]


_FRESH_FRACTION: Final = 0.9
_RECENT_SECONDS: Final = 5.0
_FETCH_TIMEOUT: Final = 30.0


class GrantedToken(NamedTuple):
    """A token, and the seconds for which it is valid; 0 if that is not known."""

    token: bytes
    lifetime: float

    def __repr__(self) -> str:
        """Leave out the token."""
        return f"GrantedToken(lifetime={self.lifetime:g})"


class _CachedToken:
    """A token. If it replaced a refused one and is refused, too, it is kept, unless a broker has accepted it before."""

    __slots__ = ("_began", "_lifetime", "is_refused", "may_be_refused", "token")

    def __init__(self, granted: GrantedToken, *, may_be_refused: bool) -> None:
        self.token = granted.token
        self.may_be_refused = may_be_refused
        self.is_refused = False
        self._lifetime = granted.lifetime
        self._began = _clocks()

    def age(self) -> float:
        return max(now - began for now, began in zip(_clocks(), self._began, strict=True))

    def is_fresh(self, *, challenged: bool) -> bool:
        age = self.age()
        return (
            not self.is_refused and age < self._lifetime * _FRESH_FRACTION and (not challenged or age < _RECENT_SECONDS)
        )

    def is_good(self) -> bool:
        return not self.is_refused and self.age() < self._lifetime

    def note_verdict(self, *, accepted: bool) -> None:
        if accepted:
            self.may_be_refused = True
        elif self.may_be_refused:
            self.is_refused = True


class _TokenFetch:
    """A running fetch, and the future for callers that wait for it."""

    __slots__ = ("_began", "outcome")

    def __init__(self) -> None:
        self.outcome: Future[bytes] = Future()
        self._began = time.monotonic()

    def is_stuck(self) -> bool:
        return time.monotonic() - self._began > _FETCH_TIMEOUT


class TokenCache:
    """Caches a token. Its pickle is empty, and so is the copy in a forked child."""

    __slots__ = ("_kept", "_lock", "_ongoing", "_process")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ongoing: _TokenFetch | None = None
        self._kept: _CachedToken | None = None
        self._process = os.getpid()

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[()]]:
        """Pickle an empty cache."""
        return TokenCache, ()

    def token(self, fetch: Callable[[], GrantedToken], *, challenged: bool) -> bytes:
        """Return a valid token; fetch one if necessary."""
        if self._process != os.getpid():  # in a forked child, the lock may be locked for ever
            TokenCache.__init__(self)
        with self._lock:
            kept, ongoing = self._kept, self._ongoing
            if kept is not None and kept.is_fresh(challenged=challenged):
                return kept.token
            joins = ongoing is not None and not ongoing.is_stuck()
            if ongoing is None or not joins:
                ongoing = self._ongoing = _TokenFetch()
        if joins:
            return _outcome(ongoing)
        return self._fetch(fetch, ongoing, kept, challenged=challenged)

    def judged(self, *, accepted: bool) -> None:
        """Note whether a broker has accepted the token."""
        if self._process != os.getpid():
            return  # the token belongs to the parent process
        with self._lock:
            if self._kept is not None:
                self._kept.note_verdict(accepted=accepted)

    def _fetch(
        self, fetch: Callable[[], GrantedToken], ongoing: _TokenFetch, before: _CachedToken | None, *, challenged: bool
    ) -> bytes:
        fault: Exception = credentials_error("the fetch of a token was broken off")
        kept: _CachedToken | None = None
        try:
            kept = _CachedToken(fetch(), may_be_refused=before is None or not before.is_refused)
        except Exception as error:
            if before is None or challenged or not before.is_good():
                fault = error
                raise
            LOG.warning("no new token could be had, and the one before goes on serving until it ends: %s", error)
            kept = before
            return kept.token
        else:
            return kept.token
        finally:
            self._finish_fetch(ongoing, kept, fault)

    def _finish_fetch(self, ongoing: _TokenFetch, kept: _CachedToken | None, fault: Exception) -> None:
        """Complete the future for callers that wait."""
        with self._lock:
            self._kept = kept or self._kept
            if self._ongoing is ongoing:
                self._ongoing = None
        if kept is None:
            ongoing.outcome.set_exception(fault)
        else:
            ongoing.outcome.set_result(kept.token)


def _outcome(ongoing: _TokenFetch) -> bytes:
    try:
        fault = ongoing.outcome.exception(_FETCH_TIMEOUT)
    except NotYet:
        raise credentials_error(f"no token could be had within {_FETCH_TIMEOUT:g} s") from None
    if isinstance(fault, Exception):
        raise copy_error(fault)
    return ongoing.outcome.result()


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()
