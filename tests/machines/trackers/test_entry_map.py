from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.machines.trackers.entry_map import SLACK, Deadlines, EntryMap, Generation

KEYS = st.tuples(st.integers(0, 2), st.integers(0, 3))
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "pop", "pop_up_to", "get", "drop_unused", "clear"]), KEYS), max_size=40
)


@given(STEPS)
def test_it_does_what_a_dict_does(steps: list[tuple[str, tuple[int, int]]]) -> None:
    entries: EntryMap[int] = EntryMap()
    expected: dict[tuple[int, int], int] = {}
    touched: set[tuple[int, int]] = set()
    for value, (step, key) in enumerate(steps):
        touched |= {key} if step in ("put", "pop", "get") else set()
        match step:
            case "put":
                entries.put(key, value)
                expected[key] = value
            case "pop":
                assert entries.pop(key) == expected.pop(key, None)
            case "pop_up_to":
                lower = {one: expected.pop(one) for one in sorted(expected) if one <= key}
                assert entries.pop_up_to(key) == list(lower.items())
            case "get":
                assert entries.get(key) == expected.get(key)
            case "drop_unused":
                entries.drop_unused()
                expected = {one: expected[one] for one in expected if one in touched}
                touched.clear()
            case _:
                entries.clear()
                expected.clear()
    assert {key: entries.get(key) for key in expected} == expected
    assert dict(entries.pop_up_to((9, 9))) == expected


def test_what_nobody_asked_for_between_two_turns_is_dropped() -> None:
    entries: EntryMap[int] = EntryMap()
    entries.put((1, 0), 0)
    entries.put((1, 1), 1)
    entries.drop_unused()
    assert entries.get((1, 1)) == 1
    entries.drop_unused()
    assert entries.pop_up_to((9, 9)) == [((1, 1), 1)]


def test_nothing_is_kept_of_what_was_taken_out_one_by_one() -> None:
    entries: EntryMap[int] = EntryMap()
    entries.put((0, 0), 0)
    for entry in range(1, 10_000):
        entries.put((1, entry), entry)
        entries.pop((1, entry))
    assert len(entries._heap) <= 2 + SLACK + 1


def test_what_stays_is_not_looked_at() -> None:
    entries: EntryMap[int] = EntryMap()
    for entry in range(1000):
        entries.put((1, entry), entry)
    looked_at: list[Any] = []

    class Last(tuple[int, int]):
        __slots__ = ()

        def __ge__(self, other: Any) -> bool:
            looked_at.append(other)
            return tuple(self) >= other

    assert entries.pop_up_to(Last((1, 2))) == [((1, 0), 0), ((1, 1), 1), ((1, 2), 2)]
    assert len(looked_at) == 4


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


def test_opened_messages_and_acks_outlive_a_connection() -> None:
    now = Generation().attached_to(1)
    assert Generation() != now
    assert Generation().still_delivers(now)
    assert Generation().still_acknowledges(now)


def test_a_connection_on_which_the_broker_sends_them_again_voids_opened_messages_but_no_acks() -> None:
    now = Generation().attached_to(1, broker_resends=True)
    assert not Generation().still_delivers(now)
    assert now.still_delivers(now.attached_to(2))
    assert Generation().still_acknowledges(now)


def test_a_redelivery_of_everything_voids_opened_messages_but_no_acks() -> None:
    now = Generation().redelivered_to(3)
    assert now.epoch == 3
    assert not Generation().still_delivers(now)
    assert Generation().still_acknowledges(now)


def test_a_seek_voids_both() -> None:
    now = Generation().sought()
    assert not Generation().still_delivers(now)
    assert not Generation().still_acknowledges(now)
