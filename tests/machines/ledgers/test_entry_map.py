from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.machines.ledgers.entry_map import SLACK, EntryMap

KEYS = st.tuples(st.integers(0, 2), st.integers(0, 3))
STEPS = st.lists(st.tuples(st.sampled_from(["put", "pop", "pop_up_to", "get", "turn", "clear"]), KEYS), max_size=40)


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
            case "turn":
                entries.turn()
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
    entries.turn()
    assert entries.get((1, 1)) == 1
    entries.turn()
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
