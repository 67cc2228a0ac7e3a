import threading
import time

import pytest

from pulsar_actors.cli.perf.pace import AT_ONCE, Pace


@pytest.fixture
def over() -> threading.Event:
    return threading.Event()


def test_without_a_rate_messages_are_always_due(over: threading.Event) -> None:
    pace = Pace(0, None, over)
    pace.begin()
    assert [pace.next() for _ in range(3)] == [AT_ONCE] * 3


def test_the_limit_is_kept_to_the_message(over: threading.Event) -> None:
    pace = Pace(0, AT_ONCE + 1, over)
    pace.begin()
    assert [pace.next() for _ in range(4)] == [AT_ONCE, 1, 0, 0]


def test_none_leaves_before_it_is_due_and_all_that_are_due_leave(over: threading.Event) -> None:
    pace = Pace(1000, 100, over)
    pace.begin()
    sent = 0
    while count := pace.next():
        sent += count
        assert time.perf_counter() >= pace.due_at(sent - 1)
    assert sent == 100


def test_who_fell_behind_catches_up_and_knows_when_they_were_due(over: threading.Event) -> None:
    pace = Pace(1000, None, over)
    pace.begin()
    pace.start -= 0.05
    assert 50 <= pace.next() <= AT_ONCE
    assert pace.due_at(50) - pace.due_at(0) == pytest.approx(0.05)


def test_a_run_that_is_over_ends_who_waits(over: threading.Event) -> None:
    pace = Pace(0.001, None, over)
    pace.begin()
    assert pace.next() == 1  # the first is due at once
    threading.Timer(0.05, over.set).start()
    began = time.perf_counter()
    assert pace.next() == 0
    assert time.perf_counter() - began < 30


def test_who_wants_one_at_a_time_gets_one(over: threading.Event) -> None:
    pace = Pace(0, 2, over)
    pace.begin()
    assert [pace.next(1) for _ in range(3)] == [1, 1, 0]
