"""One token for everybody who asks, and one fetch of it at a time.

A token is kept for nine tenths of its life, so that none runs out on its way to a broker; then the next who asks has it
fetched anew. Whoever asks meanwhile waits for that same fetch and gets what comes of it, an error too: a thousand
connections make one request. If the fetch fails while the old token is still good, it goes on serving.

A broker that challenges says that a token is over. Then only one that was fetched within the last seconds will do,
which is on behalf of some other connection that was challenged as well.

A broker that refuses a token may do so for good reason, before its time: keys are changed, clients are locked out and
let in again. So the next who asks has another one fetched. If that is refused as well, another token is no help, and it
is kept like any other: an issuer is not to be asked at every try of every connection.

Two clocks count, and the one that has gone further counts: that of the calendar may be set wrong, or be set right, and
the other stands still while the machine sleeps. A token without a lifetime, or with one that makes no sense, serves
those who asked for it and nobody else.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Final, NamedTuple

from pulsar_actors.client.anew import anew
from pulsar_actors.client.credentials.secret_arguments import none_had
from pulsar_actors.runtime.log import LOG

__all__ = ["Granted", "TokenCache"]

_FRESH_PART: Final = 0.9
_JUST_NOW: Final = 5.0
_LONGEST_FETCH: Final = 30.0


class Granted(NamedTuple):
    """A token, and for how many seconds it is good; 0 if nobody knows."""

    token: bytes
    lifetime: float

    def __repr__(self) -> str:
        """Keep the token out of it."""
        return f"Granted(lifetime={self.lifetime:g})"


class _Kept:
    """A token. One that was fetched in the place of a refused one is kept if it is refused, unless it was accepted."""

    __slots__ = ("_began", "_lifetime", "is_refused", "may_be_refused", "token")

    def __init__(self, granted: Granted, *, may_be_refused: bool) -> None:
        self.token = granted.token
        self.may_be_refused = may_be_refused
        self.is_refused = False
        self._lifetime = granted.lifetime
        self._began = _clocks()

    def age(self) -> float:
        return max(now - began for now, began in zip(_clocks(), self._began, strict=True))

    def is_fresh(self, *, challenged: bool) -> bool:
        age = self.age()
        return not self.is_refused and age < self._lifetime * _FRESH_PART and (not challenged or age < _JUST_NOW)

    def is_good(self) -> bool:
        return not self.is_refused and self.age() < self._lifetime

    def judge(self, *, accepted: bool) -> None:
        if accepted:
            self.may_be_refused = True
        elif self.may_be_refused:
            self.is_refused = True


class _Flight:
    """A fetch on its way, and the future of those who wait for it."""

    __slots__ = ("_began", "outcome")

    def __init__(self) -> None:
        self.outcome: Future[bytes] = Future()
        self._began = time.monotonic()

    def is_stuck(self) -> bool:
        return time.monotonic() - self._began > _LONGEST_FETCH


class TokenCache:
    """Keeps a token. A pickle of it is an empty one, and so is the copy in a forked child."""

    __slots__ = ("_flight", "_kept", "_lock", "_process")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flight: _Flight | None = None
        self._kept: _Kept | None = None
        self._process = os.getpid()

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[()]]:
        """Take nothing along."""
        return TokenCache, ()

    def token(self, fetch: Callable[[], Granted], *, challenged: bool) -> bytes:
        """Give a token that is good now, by fetching one if need be."""
        if self._process != os.getpid():  # the lock was copied as it was, and the thread that had it was not
            TokenCache.__init__(self)
        with self._lock:
            kept, flight = self._kept, self._flight
            if kept is not None and kept.is_fresh(challenged=challenged):
                return kept.token
            joins = flight is not None and not flight.is_stuck()
            if flight is None or not joins:
                flight = self._flight = _Flight()
        if joins:
            return _outcome(flight)
        return self._fetch(fetch, flight, kept, challenged=challenged)

    def judged(self, *, accepted: bool) -> None:
        """Hear whether a broker has accepted a token."""
        if self._process != os.getpid():
            return  # it was the parent's
        with self._lock:
            if self._kept is not None:
                self._kept.judge(accepted=accepted)

    def _fetch(self, fetch: Callable[[], Granted], flight: _Flight, before: _Kept | None, *, challenged: bool) -> bytes:
        fault: Exception = none_had("the fetch of a token was broken off")
        kept: _Kept | None = None
        try:
            kept = _Kept(fetch(), may_be_refused=before is None or not before.is_refused)
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
            self._land(flight, kept, fault)

    def _land(self, flight: _Flight, kept: _Kept | None, fault: Exception) -> None:
        """Tell those who wait."""
        with self._lock:
            self._kept = kept or self._kept
            if self._flight is flight:
                self._flight = None
        if kept is None:
            flight.outcome.set_exception(fault)
        else:
            flight.outcome.set_result(kept.token)


def _outcome(flight: _Flight) -> bytes:
    try:
        fault = flight.outcome.exception(_LONGEST_FETCH)
    except NotYet:
        raise none_had(f"no token could be had within {_LONGEST_FETCH:g} s") from None
    if isinstance(fault, Exception):
        raise anew(fault)
    return flight.outcome.result()


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()
