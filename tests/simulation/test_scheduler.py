import logging
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.simulation.scheduler import Dice, History, Scheduler, TaskQueue, TasksFailed, label
from pulsar_actors.simulation.world import World


def run(scheduler: Scheduler) -> list[float]:
    """Let everything happen, and give the times at which it did."""
    times: list[float] = []
    while scheduler.has_ready() or scheduler.advance(1e9):
        _, function, argument = scheduler.take()
        function(argument)
        times.append(scheduler.now)
    return times


@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.floats(-1.0, 10.0)))),
)
def test_a_lane_keeps_its_order_and_the_clock_never_goes_back(seed: int, plan: list[tuple[int, float | None]]) -> None:
    scheduler = Scheduler(seed)
    lanes = [TaskQueue(str(number)) for number in range(4)]
    done: list[tuple[int, int]] = []
    for number, (queue, due) in enumerate(plan):
        if due is None:
            scheduler.add(lanes[queue], done.append, (queue, number))
        else:
            scheduler.at(due, lanes[queue], done.append, (queue, number))
    times = run(scheduler)
    assert times == sorted(times)
    assert sorted(number for _, number in done) == list(range(len(plan)))
    for queue in range(4):
        expected = [
            (max(0.0, due or 0.0), due is not None, number) for number, (at, due) in enumerate(plan) if at == queue
        ]
        assert [number for at, number in done if at == queue] == [number for _, _, number in sorted(expected)]
    assert scheduler.is_empty()


def test_a_closed_lane_forgets_what_waits_and_takes_nothing_and_the_clock_does_not_move_for_it() -> None:
    scheduler = Scheduler(0)
    queue, other = TaskQueue("closed"), TaskQueue("other")
    done: list[str] = []
    scheduler.add(queue, done.append, "ready")
    scheduler.at(5.0, queue, done.append, "later")
    scheduler.close(queue)
    scheduler.close(other)
    scheduler.add(queue, done.append, "too late")
    assert scheduler.is_empty()
    assert run(scheduler) == []
    assert done == []
    assert scheduler.now == 0.0


def test_time_does_not_pass_beyond_the_limit_and_infinity_is_never_due() -> None:
    scheduler = Scheduler(0)
    queue = TaskQueue("a")
    scheduler.at(5.0, queue, print, None)
    scheduler.at(float("inf"), queue, print, None)
    assert not scheduler.advance(4.9)
    assert scheduler.now == 0.0
    assert scheduler.advance(5.0)
    scheduler.take()
    assert scheduler.is_empty()


def test_one_lane_can_be_preferred() -> None:
    scheduler = Scheduler(0)
    first, second = TaskQueue("first"), TaskQueue("second")
    for queue in (first, second, second):
        scheduler.add(queue, print, queue.name)
    assert scheduler.take_from(second) == (second, print, "second")
    assert scheduler.take_from(second) == (second, print, "second")
    assert scheduler.take() == (first, print, "first")
    assert not scheduler.has_ready()


FIRST = [0.7583787869903306, 0.7901987061759167, 0.2960774267984526]  # as Python 3.10 gives them


def test_a_seed_and_a_use_give_the_same_numbers_on_every_python() -> None:
    dice = Dice(17, "network")
    assert [dice.chance() for _ in range(3)] == FIRST
    assert [Dice(17, "network").below(100) for _ in range(2)] == [int(FIRST[0] * 100)] * 2


def test_another_seed_or_another_use_gives_other_numbers() -> None:
    assert len({Dice(seed, use).chance() for seed in range(10) for use in ("order", "network")}) == 20


def test_what_is_impossible_never_happens_and_costs_no_draw_and_what_is_certain_always_does() -> None:
    dice, same = Dice(2, "any"), Dice(2, "any")
    assert not any(dice.happens(0.0) for _ in range(100))
    assert dice.chance() == same.chance()
    assert all(dice.happens(1.0) for _ in range(100))


def test_lines_have_the_time_the_place_and_what_happened() -> None:
    history = History()
    history.add(0.0, "client", "first")
    history.add(1.25, "broker", "second")
    assert [line.split() for line in history.lines()] == [
        ["0.000000", "client", "first"],
        ["1.250000", "broker", "second"],
    ]
    assert history.lines(1) == history.lines()[1:]
    assert len(history) == 2


def test_a_label_has_no_address_in_it() -> None:
    labels = [
        label(function)
        for function in (print, History().add, partial(print), test_lines_have_the_time_the_place_and_what_happened)
    ]
    assert labels == ["print", "History.add", "partial", "test_lines_have_the_time_the_place_and_what_happened"]


LOG = logging.getLogger("pulsar_actors")


def test_what_the_package_logs_is_in_the_history_without_addresses() -> None:
    with World(0) as world:
        LOG.warning("something odd about <thing at %s>", "0x7f0011aa")
    assert any("WARNING: something odd about <thing at 0x…>" in line for line in world.history.lines())


def test_an_error_with_a_traceback_fails_the_run_and_one_without_does_not() -> None:
    with World(0) as world:
        LOG.error("no traceback")
    assert not world.failures
    with pytest.raises(TasksFailed, match="planted"), World(0):
        LOG.error("an actor has died", exc_info=ValueError("planted"))


def test_a_closed_world_reads_no_log() -> None:
    before = list(LOG.handlers)
    with World(0) as world:
        assert LOG.handlers != before
    length = len(world.history)
    LOG.warning("afterwards")
    assert LOG.handlers == before
    assert len(world.history) == length
