from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.runtime.simulated.agenda import Agenda, Lane


def run(agenda: Agenda) -> list[float]:
    """Let everything happen, and give the times at which it did."""
    times: list[float] = []
    while agenda.has_ready() or agenda.advance(1e9):
        _, function, argument = agenda.take()
        function(argument)
        times.append(agenda.now)
    return times


@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.floats(-1.0, 10.0)))),
)
def test_a_lane_keeps_its_order_and_the_clock_never_goes_back(seed: int, plan: list[tuple[int, float | None]]) -> None:
    agenda = Agenda(seed)
    lanes = [Lane(str(number)) for number in range(4)]
    done: list[tuple[int, int]] = []
    for number, (lane, due) in enumerate(plan):
        if due is None:
            agenda.add(lanes[lane], done.append, (lane, number))
        else:
            agenda.at(due, lanes[lane], done.append, (lane, number))
    times = run(agenda)
    assert times == sorted(times)
    assert sorted(number for _, number in done) == list(range(len(plan)))
    for lane in range(4):
        expected = [
            (max(0.0, due or 0.0), due is not None, number) for number, (at, due) in enumerate(plan) if at == lane
        ]
        assert [number for at, number in done if at == lane] == [number for _, _, number in sorted(expected)]
    assert agenda.is_empty()


def orders_of_two_lanes(take: int) -> set[tuple[Any, ...]]:
    orders: set[tuple[Any, ...]] = set()
    for seed in range(200):
        agenda = Agenda(seed)
        done: list[str] = []
        for lane in (Lane("a"), Lane("b")):
            for _ in range(take):
                agenda.add(lane, done.append, lane.name)
        run(agenda)
        orders.add(tuple(done))
    return orders


def test_between_lanes_every_order_happens() -> None:
    assert len(orders_of_two_lanes(2)) == 6


def test_the_same_seed_gives_the_same_order() -> None:
    assert orders_of_two_lanes(4) == orders_of_two_lanes(4)


def test_a_closed_lane_forgets_what_waits_and_takes_nothing_and_the_clock_does_not_move_for_it() -> None:
    agenda = Agenda(0)
    lane, other = Lane("closed"), Lane("other")
    done: list[str] = []
    agenda.add(lane, done.append, "ready")
    agenda.at(5.0, lane, done.append, "later")
    agenda.close(lane)
    agenda.close(other)
    agenda.add(lane, done.append, "too late")
    assert agenda.is_empty()
    assert run(agenda) == []
    assert done == []
    assert agenda.now == 0.0


def test_time_does_not_pass_beyond_the_limit_and_infinity_is_never_due() -> None:
    agenda = Agenda(0)
    lane = Lane("a")
    agenda.at(5.0, lane, print, None)
    agenda.at(float("inf"), lane, print, None)
    assert not agenda.advance(4.9)
    assert agenda.now == 0.0
    assert agenda.advance(5.0)
    agenda.take()
    assert agenda.is_empty()


def test_one_lane_can_be_preferred() -> None:
    agenda = Agenda(0)
    first, second = Lane("first"), Lane("second")
    for lane in (first, second, second):
        agenda.add(lane, print, lane.name)
    assert agenda.take_from(second) == (second, print, "second")
    assert agenda.take_from(second) == (second, print, "second")
    assert agenda.take() == (first, print, "first")
    assert not agenda.has_ready()
