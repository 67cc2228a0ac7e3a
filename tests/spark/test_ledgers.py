"""Limits and splits, by the entries that lie between two positions."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.spark.ledgers import Ledger, Ledgers
from pulsar_actors.spark.position import EARLIEST, Position

LEDGERS = Ledgers([Ledger(3, 10, 1000), Ledger(7, 0, 0), Ledger(8, 5, 5000), Ledger(9, 0, 0)], 2.0)
END = Position(9, 0)


def test_entries_are_counted_over_all_ledgers() -> None:
    assert LEDGERS.entries(EARLIEST, END) == 15
    assert LEDGERS.entries(Position(3, 4), Position(8, 2)) == 8
    assert LEDGERS.entries(Position(3, 4, 2), Position(3, 4, 5)) == 1
    assert LEDGERS.entries(Position(3, 10), Position(8, 0)) == 0


def test_messages_and_bytes_are_estimated_by_the_entries() -> None:
    assert LEDGERS.messages(EARLIEST, END) == 30
    assert LEDGERS.size(Position(3, 9), Position(8, 1)) == 100 + 1000


def test_a_limit_ends_where_so_many_have_been() -> None:
    assert LEDGERS.after_messages(EARLIEST, END, 8) == Position(3, 4)
    assert LEDGERS.after_messages(Position(3, 8), END, 8) == Position(8, 2)
    assert LEDGERS.after_messages(EARLIEST, END, 1000) == END
    assert LEDGERS.after_bytes(EARLIEST, END, 2500) == Position(8, 1)


def test_a_limit_lets_one_entry_through_at_least() -> None:
    assert LEDGERS.after_messages(EARLIEST, END, 1) == Position(3, 1)
    assert LEDGERS.after_bytes(Position(8, 0), END, 1) == Position(8, 1)


spans = st.lists(st.builds(Ledger, st.just(0), st.integers(0, 20), st.just(0)), min_size=1, max_size=6).map(
    lambda some: Ledgers([one._replace(ledger_id=number) for number, one in enumerate(some)], 1.0)
)


@given(spans, st.integers(1, 50), st.data())
def test_the_parts_of_a_span_meet_and_are_about_as_large(ledgers: Ledgers, parts: int, data: st.DataObject) -> None:
    def position() -> Position:
        ledger = data.draw(st.sampled_from(ledgers.ledgers))
        return Position(ledger.ledger_id, data.draw(st.integers(0, ledger.entries)))

    start, end = sorted((position(), position()))
    cuts = ledgers.split(start, end, parts)
    if start == end:
        assert cuts == []
        return
    assert (cuts[0][0], cuts[-1][1]) == (start, end)
    assert all(one[1] == other[0] for one, other in pairwise(cuts))
    sizes = [ledgers.entries(*cut) for cut in cuts]
    assert sum(sizes) == ledgers.entries(start, end)
    assert len(cuts) <= parts
    assert max(sizes) - min(sizes) <= 1
