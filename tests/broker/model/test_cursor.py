from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.managed_ledger import ManagedLedger
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata


def log_of(size: int, messages: int = 4) -> ManagedLedger:
    log = ManagedLedger(count(1).__next__)
    for _ in range(size):
        fields = {"producer_name": "p", "sequence_id": 0, "publish_time": 1, "num_messages_in_batch": messages}
        log.append(StoredEntry(b"x", MessageMetadata(**fields), "p", 0))
    return log


def read_all(cursor: Cursor) -> list[int]:
    return [entry.offset for entry in iter(cursor.next, None)]


def test_reading_ends_after_the_last_even_if_that_is_acknowledged() -> None:
    cursor = Cursor(log_of(2), 0)
    cursor.acknowledge(cursor.managed_ledger.entry(1), None)
    assert read_all(cursor) == [0]
    assert cursor.read_offset == 2


def test_the_mark_moves_over_what_has_no_gap() -> None:
    cursor = Cursor(log_of(5), 0)
    for offset in (1, 2, 4):
        cursor.acknowledge(cursor.managed_ledger.entry(offset), None)
    assert cursor.mark_delete == -1
    assert cursor.mark_delete_position == (1, -1)
    assert cursor.ranges() == [(1, 2), (4, 4)]
    cursor.acknowledge(cursor.managed_ledger.entry(0), None)
    assert cursor.mark_delete_position == (1, 2)
    assert cursor.ranges() == [(4, 4)]


def test_a_batch_is_acknowledged_when_all_its_messages_are() -> None:
    cursor = Cursor(log_of(1), 0)
    entry = cursor.managed_ledger.entry(0)
    cursor.acknowledge(entry, 0b1110)
    cursor.acknowledge(entry, 0b1011)
    assert cursor.batch_ack_sets == {0: 0b1010}
    assert cursor.remaining(entry) == 2
    cursor.acknowledge(entry, 0b0101)
    assert (cursor.mark_delete, cursor.remaining(entry), cursor.batch_ack_sets) == (0, 0, {})


def test_bits_beyond_the_batch_mean_nothing() -> None:
    cursor = Cursor(log_of(1), 0)
    cursor.acknowledge(cursor.managed_ledger.entry(0), -1 & (0xFF << 4))
    assert cursor.backlog() == 0


def test_a_batch_that_claims_two_thousand_million_messages_costs_no_memory() -> None:
    cursor = Cursor(log_of(1, messages=2**31 - 1), 0)
    cursor.acknowledge(cursor.managed_ledger.entry(0), 0b1010)
    assert cursor.batch_ack_sets == {0: 0b1010}


def test_acknowledging_all_before_takes_parts_and_gaps_along() -> None:
    cursor = Cursor(log_of(6), 0)
    cursor.acknowledge(cursor.managed_ledger.entry(1), 0b1)
    for offset in (2, 4):
        cursor.acknowledge(cursor.managed_ledger.entry(offset), None)
    cursor.acknowledge_before(4)
    assert (cursor.mark_delete, cursor.batch_ack_sets, cursor.ranges(), cursor.read_offset) == (4, {}, [], 4)
    cursor.acknowledge_before(2)
    assert cursor.mark_delete == 4


def test_passing_a_few_entries_touches_none_of_the_many_gaps_behind_them() -> None:
    cursor = Cursor(log_of(100), 0)
    for offset in range(1, 100, 2):
        cursor.acknowledge(cursor.managed_ledger.entry(offset), None)
    cursor.acknowledge_before(4)
    assert (cursor.mark_delete, len(cursor.ranges()), cursor.backlog()) == (3, 48, 48)


def test_a_reset_forgets_what_was_acknowledged_after_it() -> None:
    cursor = Cursor(log_of(5), 0)
    cursor.acknowledge_before(3)
    cursor.acknowledge(cursor.managed_ledger.entry(4), None)
    cursor.reset(1, 0b1100)
    assert read_all(cursor) == [1, 2, 3, 4]
    assert cursor.remaining(cursor.managed_ledger.entry(1)) == 2


def test_the_oldest_that_are_not_acknowledged_are_listed() -> None:
    cursor = Cursor(log_of(5), 0)
    cursor.acknowledge(cursor.managed_ledger.entry(1), None)
    assert [entry.offset for entry in cursor.unacknowledged(2)] == [0, 2]
    assert [entry.offset for entry in cursor.unacknowledged(9)] == [0, 2, 3, 4]


def test_what_was_dropped_counts_as_acknowledged() -> None:
    cursor = Cursor(log_of(5), 0)
    cursor.managed_ledger.trim(2, 0)
    assert cursor.backlog() == 3
    assert read_all(cursor) == [2, 3, 4]
    late = Cursor(cursor.managed_ledger, 0)
    assert read_all(late) == [2, 3, 4]
    assert late.mark_delete == 1


@given(st.lists(st.tuples(st.sampled_from(["one", "before", "part"]), st.integers(0, 9)), max_size=30))
def test_a_cursor_agrees_with_a_set_of_what_is_left(steps: list[tuple[str, int]]) -> None:
    cursor = Cursor(log_of(10, messages=2), 0)
    left = {(offset, bit) for offset in range(10) for bit in range(2)}
    for step, offset in steps:
        if step == "before":
            cursor.acknowledge_before(offset)
            left = {each for each in left if each[0] >= offset}
        else:
            cursor.acknowledge(cursor.managed_ledger.entry(offset), None if step == "one" else 0b10)
            left -= {(offset, 0)} if step == "part" else {(offset, 0), (offset, 1)}
    assert cursor.backlog() == len({offset for offset, _ in left})
    assert sum(cursor.remaining(cursor.managed_ledger.entry(offset)) for offset in range(10)) == len(left)
    assert cursor.mark_delete == min((offset for offset, _ in left), default=10) - 1
    cursor.rewind()
    assert read_all(cursor) == sorted({offset for offset, _ in left})
