from itertools import count
from typing import Any

import pytest

from pulsar_actors.broker.model.entry import EARLIEST_POSITION, LATEST_POSITION, Position, StoredEntry
from pulsar_actors.broker.model.managed_ledger import ManagedLedger
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata


def entry(data: bytes = b"x", *, published: int = 1, messages: int | None = None) -> StoredEntry:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=published)
    if messages is not None:
        metadata.num_messages_in_batch = messages
    return StoredEntry(data, metadata, "p", 0)


def log_of(*ledgers: int) -> ManagedLedger:
    """A log with so many entries in each ledger; the ledgers are 10, 11, ..."""
    log = ManagedLedger(count(10).__next__)
    for number, size in enumerate(ledgers):
        if number:
            log.roll()
        for at in range(size):
            log.append(entry(b"%d-%d" % (number, at), published=log.end * 10))
    return log


def test_entries_are_numbered_from_0_in_each_ledger() -> None:
    log = log_of(2, 1)
    assert [log.entry(offset).position for offset in range(3)] == [(10, 0), (10, 1), (11, 0)]
    assert log.ledgers == [(10, 2), (11, 1)]


def test_the_last_position_is_before_the_first_entry_or_that_of_the_last_whatever_ledger_is_open() -> None:
    assert log_of(0).last_position == (10, -1)
    assert log_of(2, 0).last_position == (10, 1)


def test_a_ledger_without_entries_is_forgotten() -> None:
    log = log_of(2, 0, 0, 1)
    assert log.ledgers == [(10, 2), (13, 1)]


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        (EARLIEST_POSITION, 0),
        ((9, 7), 0),
        ((10, -1), 0),
        ((10, 0), 0),
        ((10, 1), 1),
        ((10, 2), 2),
        ((10, 99), 2),
        ((11, 0), 2),
        ((11, 2), 4),
        ((11, 3), 5),
        ((12, 0), 5),
        (LATEST_POSITION, 5),
    ],
)
def test_a_position_leads_to_the_first_entry_at_it_or_after(position: tuple[int, int], offset: int) -> None:
    assert log_of(2, 3).first_from(Position(*position)) == offset


def test_only_what_is_there_is_found() -> None:
    log = log_of(2, 3)
    assert log.find(Position(11, 2)) == 4
    assert [
        log.find(Position(*each)) for each in [(10, 2), (11, 3), (9, 0), (10, -1), EARLIEST_POSITION, LATEST_POSITION]
    ] == [None] * 6


@pytest.mark.parametrize(("time", "offset"), [(0, 0), (1, 1), (10, 1), (11, 2), (40, 4), (41, 5)])
def test_a_time_leads_to_the_first_entry_published_then_or_later(time: int, offset: int) -> None:
    assert log_of(5).first_since(time) == offset


def test_the_index_of_an_entry_counts_messages() -> None:
    log = log_of(0)
    for messages in (3, None, 2):
        log.append(entry(messages=messages))
    assert [log.entry(offset).index for offset in range(3)] == [2, 3, 5]


def test_the_last_message_of_a_batch_has_an_index() -> None:
    assert log_of(0).last_message == (EARLIEST_POSITION, -1)
    log = log_of(1)
    assert log.last_message == ((10, 0), -1)
    log.append(entry(messages=3))
    assert log.last_message == ((10, 1), 2)


def test_what_is_needed_is_never_dropped() -> None:
    log = log_of(3)
    log.trim(1, 0)
    assert (log.base, log.end) == (1, 3)
    assert log.entry(1).data == b"0-1"


def test_the_oldest_go_until_little_enough_is_left() -> None:
    log = log_of(4)
    log.trim(4, 6)
    assert (log.base, log.size, log.unneeded_bytes) == (2, 6, 6)


def test_what_is_needed_again_is_kept() -> None:
    log = log_of(4)
    log.trim(3, 100)
    log.trim(1, 2)
    assert log.base == 1
    log.trim(1, 3)
    assert log.unneeded_bytes == 0


def test_positions_stay_when_entries_are_dropped() -> None:
    log = log_of(2, 2)
    log.trim(3, 0)
    assert log.find(Position(11, 1)) == 3
    assert log.find(Position(10, 1)) is None
    assert log.first_from(Position(10, 0)) == log.base == 3
    assert log.size_from(0) == log.size == 3


def test_bytes_are_added_up_of_what_is_left() -> None:
    log = log_of(2, 2)
    whole = log.size
    log.trim(1, 0)
    first, second = log.size_from(0, 2), log.size_from(2, 2)
    assert 0 < first < second
    assert first + second == log.size_from(0) == log.size < whole
    assert log.size_from(0, 1) == 0


def keyed_entry(**fields: Any) -> StoredEntry:
    known = {"producer_name": "p", "sequence_id": 7, "publish_time": 1, **fields}
    return StoredEntry(b"data", MessageMetadata(**known), "p", 99)


@pytest.mark.parametrize(
    ("fields", "same_as"),
    [
        ({"partition_key": "k", "ordering_key": b"o"}, {"partition_key": "o"}),
        ({"partition_key": "azE=", "partition_key_b64_encoded": True}, {"partition_key": "k1"}),
        ({"partition_key": "?", "partition_key_b64_encoded": True}, {"partition_key": "?"}),
        ({}, {"partition_key": "p-7"}),
        ({"partition_key": ""}, {"ordering_key": b""}),
    ],
)
def test_the_hash_is_of_the_ordering_key_else_the_key_else_the_producer(
    fields: dict[str, Any], same_as: dict[str, Any]
) -> None:
    assert keyed_entry(**fields).key_hash == keyed_entry(**same_as).key_hash


def test_the_hash_is_of_the_producer_in_the_metadata() -> None:
    assert keyed_entry(producer_name="q").key_hash == keyed_entry(partition_key="q-7").key_hash


def test_a_producer_name_that_is_not_utf8_is_a_text_all_the_same() -> None:
    metadata = MessageMetadata.FromString(
        MessageMetadata(producer_name="@", sequence_id=7, publish_time=1).SerializeToString().replace(b"@", b"\xff")
    )
    assert StoredEntry(b"", metadata, "p", 0).producer_name == "\ufffd"


def test_a_key_that_is_not_utf8_is_hashed_as_the_bytes_it_is() -> None:
    metadata = MessageMetadata.FromString(
        MessageMetadata(producer_name="p", sequence_id=7, publish_time=1, partition_key="@")
        .SerializeToString()
        .replace(b"@", b"\xff")
    )
    assert StoredEntry(b"", metadata, "p", 0).key_hash == keyed_entry(ordering_key=b"\xff").key_hash


def test_a_hash_has_31_bits() -> None:
    assert all(0 <= keyed_entry(partition_key=str(number)).key_hash < 2**31 for number in range(100))


def test_a_batch_of_one_is_told_from_a_plain_message_and_an_absurd_number_counts_as_one() -> None:
    assert (keyed_entry().is_batch, keyed_entry().messages) == (False, 1)
    batches = [keyed_entry(num_messages_in_batch=claim) for claim in (1, 0, -5)]
    assert (batches[0].is_batch, [each.messages for each in batches]) == (True, [1, 1, 1])


def test_the_last_chunk_is_known() -> None:
    fields = {"uuid": "u", "num_chunks_from_msg": 3}
    assert [keyed_entry(chunk_id=chunk, **fields).is_last_chunk for chunk in range(3)] == [False, False, True]
    assert keyed_entry().chunk_of is None
