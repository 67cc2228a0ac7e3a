from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.machines.ledgers.deadlines import Deadlines

KEYS = st.tuples(st.integers(0, 2), st.integers(0, 3))
PUTS = st.lists(st.tuples(KEYS, st.integers(0, 800).map(lambda eighths: eighths / 8)), max_size=30)


@given(PUTS)
def test_nothing_is_due_early_and_nothing_more_than_a_width_late(puts: list[tuple[tuple[int, int], float]]) -> None:
    deadlines = Deadlines(2.0)
    for key, due in puts:
        deadlines.put(key, due)
    expected = dict(puts)
    seen: dict[tuple[int, int], float] = {}
    while (now := deadlines.next_due()) is not None:
        taken = deadlines.take_due(now)
        assert taken, "the timer fired for nothing"
        seen.update(dict.fromkeys(taken, now))
    assert seen.keys() == expected.keys()
    for key, at in seen.items():
        assert expected[key] <= at <= expected[key] + 2.0


def test_what_is_discarded_is_never_due() -> None:
    deadlines = Deadlines(1.0)
    for entry in range(4):
        deadlines.put((1, entry), 5.0)
    deadlines.discard((1, 3))
    deadlines.discard((9, 9))
    deadlines.discard_up_to((1, 1))
    assert deadlines.take_due(5.0) == [(1, 2)]
    assert deadlines.next_due() is None


def test_a_bucket_that_became_empty_wakes_nobody() -> None:
    deadlines = Deadlines(1.0)
    deadlines.put((1, 1), 5.0)
    deadlines.put((1, 1), 7.0)
    assert deadlines.next_due() == 7.0
    deadlines.clear()
    assert deadlines.next_due() is None
    assert deadlines.take_due(99.0) == []
