import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.turns import Turn, Turns


def test_so_many_begin_at_once_some_wait_and_the_rest_are_turned_away() -> None:
    turns: Turns[int] = Turns(2, 4)
    assert [turns.take(number) for number in range(6)] == [
        *[Turn.NOW] * 2,
        *[Turn.LATER] * 2,
        *[Turn.NEVER] * 2,
    ]


def test_those_in_line_begin_in_the_order_in_which_they_came() -> None:
    turns: Turns[str] = Turns(1, 4)
    for name in "abcd":
        turns.take(name)
    assert [turns.give_back() for _ in range(4)] == ["b", "c", "d", None]
    assert turns.take("e") is Turn.NOW


def test_in_all_there_may_be_as_many_as_in_other_clients() -> None:
    turns: Turns[int] = Turns(5_000)
    answers = [turns.take(number) for number in range(50_001)]
    assert [answers.count(turn) for turn in Turn] == [5_000, 45_000, 1]


@pytest.mark.parametrize(("limit", "together"), [(0, 10), (-1, 10), (11, 10)])
def test_a_limit_that_lets_nobody_through_is_refused(limit: int, together: int) -> None:
    with pytest.raises(InvalidArgument, match=f"not {limit}"):
        Turns(limit, together)


@given(st.lists(st.booleans()), st.integers(1, 3), st.integers(0, 3))
def test_never_do_more_begin_than_may_and_nobody_waits_in_vain(steps: list[bool], limit: int, line: int) -> None:
    turns: Turns[int] = Turns(limit, limit + line)
    running, waiting = 0, list[int]()
    for number, takes in enumerate(steps):
        if takes:
            turn = turns.take(number)
            expected = Turn.NOW if running < limit else Turn.LATER if len(waiting) < line else Turn.NEVER
            assert turn is expected
            running += turn is Turn.NOW
            waiting += [number] if turn is Turn.LATER else []
        elif running:
            following = turns.give_back()
            assert following == (waiting.pop(0) if waiting else None)
            running -= following is None
