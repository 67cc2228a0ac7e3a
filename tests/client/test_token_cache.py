import itertools
import threading
from collections.abc import Callable

import pytest

from pulsar_actors.client import token_cache
from pulsar_actors.client.token_cache import GrantedToken, TokenCache
from pulsar_actors.exceptions import ErrorGettingAuthenticationData
from tests.support.life import SOON, InThread, run_program, until


class Clocks:
    """Both clocks, in a test's hands."""

    def __init__(self) -> None:
        self.monotonic, self.calendar = 100.0, 1_700_000_000.0

    def __call__(self) -> tuple[float, float]:
        return self.monotonic, self.calendar

    def go_on(self, seconds: float) -> None:
        self.monotonic += seconds
        self.calendar += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr(token_cache, "_clocks", clocks)
    return clocks


class Granting:
    """Grants `1`, `2` and so on; or fails, while it is told to."""

    def __init__(self, lifetime: float = 100.0) -> None:
        self._numbers = itertools.count(1)
        self._lifetime = lifetime
        self.fails_with: Exception | None = None
        self.granted = 0

    def __call__(self) -> GrantedToken:
        self.granted += 1
        number = next(self._numbers)
        if self.fails_with is not None:
            raise self.fails_with
        return GrantedToken(b"%d" % number, self._lifetime)


def refused() -> Exception:
    return ErrorGettingAuthenticationData("AuthenticationError", "no")


@pytest.mark.parametrize(("age", "token"), [(0.0, b"1"), (89.9, b"1"), (90.1, b"2"), (1000.0, b"2")])
def test_a_token_is_kept_for_nine_tenths_of_its_life(clocks: Clocks, age: float, token: bytes) -> None:
    cache, grant = TokenCache(), Granting()
    cache.token(grant, challenged=False)
    clocks.go_on(age)
    assert cache.token(grant, challenged=False) == token


@pytest.mark.parametrize(("age", "token"), [(4.9, b"1"), (5.1, b"2")])
def test_a_challenge_is_answered_with_what_was_fetched_just_now_or_a_new_one(
    clocks: Clocks, age: float, token: bytes
) -> None:
    cache, grant = TokenCache(), Granting()
    cache.token(grant, challenged=False)
    clocks.go_on(age)
    assert cache.token(grant, challenged=True) == token


@pytest.mark.parametrize("clock", ["monotonic", "calendar"])
def test_the_clock_that_has_gone_further_counts(clocks: Clocks, clock: str) -> None:
    cache, grant = TokenCache(), Granting()
    cache.token(grant, challenged=False)
    setattr(clocks, clock, getattr(clocks, clock) + 95.0)
    other = {"monotonic": "calendar", "calendar": "monotonic"}[clock]
    setattr(clocks, other, getattr(clocks, other) - 1_000_000.0)
    assert cache.token(grant, challenged=False) == b"2"


def test_while_an_old_token_is_good_it_serves_when_no_new_one_can_be_had(
    clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    cache, grant = TokenCache(), Granting()
    cache.token(grant, challenged=False)
    grant.fails_with = refused()
    clocks.go_on(95.0)
    assert cache.token(grant, challenged=False) == b"1"
    assert "the one before goes on serving" in caplog.text
    with pytest.raises(ErrorGettingAuthenticationData):
        cache.token(grant, challenged=True)  # the broker says that it is over
    clocks.go_on(10.0)
    with pytest.raises(ErrorGettingAuthenticationData):
        cache.token(grant, challenged=False)
    grant.fails_with = None
    assert cache.token(grant, challenged=False) == b"5"


def test_a_refused_token_is_asked_for_anew_once_for_the_next_who_asks(clocks: Clocks) -> None:
    cache, grant = TokenCache(), Granting()
    assert cache.token(grant, challenged=False) == b"1"
    cache.judged(accepted=False)
    cache.judged(accepted=False)
    assert cache.token(grant, challenged=False) == b"2"
    for _ in range(3):
        cache.judged(accepted=False)
        assert cache.token(grant, challenged=False) == b"2"
    clocks.go_on(90.1)
    assert cache.token(grant, challenged=False) == b"3"
    cache.judged(accepted=False)
    assert cache.token(grant, challenged=False) == b"4"


def test_a_token_that_was_accepted_since_is_asked_for_anew_again_when_it_is_refused(clocks: Clocks) -> None:
    cache, grant = TokenCache(), Granting()
    cache.judged(accepted=False)
    for token in (b"1", b"2", b"3"):
        assert cache.token(grant, challenged=False) == token
        cache.judged(accepted=True)
        clocks.go_on(1.0)
        assert cache.token(grant, challenged=False) == token
        cache.judged(accepted=False)


def test_a_refused_token_does_not_serve_when_no_other_can_be_had(clocks: Clocks) -> None:
    cache, grant = TokenCache(), Granting()
    cache.token(grant, challenged=False)
    cache.judged(accepted=False)
    grant.fails_with = refused()
    with pytest.raises(ErrorGettingAuthenticationData):
        cache.token(grant, challenged=False)
    grant.fails_with = None
    assert cache.token(grant, challenged=False) == b"3"


class Held:
    """A grant that waits until it is let go."""

    def __init__(self, grant: Callable[[], GrantedToken]) -> None:
        self._grant = grant
        self.entered = 0
        self.go = threading.Event()

    def __call__(self) -> GrantedToken:
        self.entered += 1
        assert self.go.wait(SOON)
        return self._grant()


def ask_at_once(count: int, cache: TokenCache, held: Held) -> list[InThread]:
    asking = [InThread(lambda: cache.token(held, challenged=False)) for _ in range(count)]
    until(lambda: all(one.waits() for one in asking))
    held.go.set()
    return asking


def test_a_thousand_who_ask_at_once_make_one_fetch() -> None:
    held = Held(Granting())
    assert {one.result() for one in ask_at_once(1000, TokenCache(), held)} == {b"1"}
    assert held.entered == 1


def test_those_who_wait_for_a_fetch_get_its_error_each_one_of_their_own() -> None:
    grant = Granting()
    grant.fails_with = refused()
    held = Held(grant)
    errors = [one.error() for one in ask_at_once(5, TokenCache(), held)]
    assert {str(error) for error in errors} == {"AuthenticationError: no"}
    assert len({id(error) for error in errors}) == 5
    assert held.entered == 1


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_fetch_that_is_broken_off_is_over_for_those_who_wait(end: type[BaseException]) -> None:
    def broken_off() -> GrantedToken:
        raise end

    cache = TokenCache()
    errors = [one.error() for one in ask_at_once(2, cache, Held(broken_off))]
    assert sorted(type(error).__name__ for error in errors) == sorted([end.__name__, "ErrorGettingAuthenticationData"])
    assert cache.token(Granting(), challenged=False) == b"1"


def test_a_fetch_that_never_ends_is_waited_for_so_long_and_then_another_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "_FETCH_TIMEOUT", 0.2)
    cache, held = TokenCache(), Held(Granting())
    leader = InThread(lambda: cache.token(held, challenged=False))
    until(lambda: held.entered)
    waiting = InThread(lambda: cache.token(held, challenged=False))
    assert "no token could be had within 0.2 s" in str(waiting.error())
    until(lambda: cache.token(Granting(), challenged=False) == b"1")
    held.go.set()
    assert leader.result() == b"1"


def test_a_forked_child_does_not_wait_for_a_fetch_of_its_parent() -> None:
    ran = run_program("""
        import os, threading, warnings
        from pulsar_actors.client.token_cache import GrantedToken, TokenCache

        def held():
            entered.set()
            go.wait()
            return GrantedToken(b"the parent's", 60.0)

        cache, entered, go = TokenCache(), threading.Event(), threading.Event()
        parent = threading.Thread(target=lambda: print(cache.token(held, challenged=False)))
        parent.start()
        entered.wait()
        cache._lock.acquire()  # as if the fork had come at that moment
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            print(cache.token(lambda: GrantedToken(b"the child's", 60.0), challenged=False), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        cache._lock.release()
        go.set()
        parent.join()
    """)
    assert (ran.out, ran.err) == ('b"the child\'s"\nb"the parent\'s"\n', "")


def test_a_grant_does_not_show_its_token() -> None:
    assert repr(GrantedToken(b"open-sesame", 5.0)) == "GrantedToken(lifetime=5)"
