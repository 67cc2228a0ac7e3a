from itertools import count

import pytest

from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.log import Log
from pulsar_actors.broker.model.position import EARLIEST, LATEST, Position
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata


def entry(data: bytes = b"x", *, published: int = 1, messages: int | None = None) -> StoredEntry:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=published)
    if messages is not None:
        metadata.num_messages_in_batch = messages
    return StoredEntry(data, metadata, "p", 0)


def log_of(*ledgers: int) -> Log:
    """A log with so many entries in each ledger; the ledgers are 10, 11, ..."""
    log = Log(count(10).__next__)
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


def test_the_last_position_of_an_empty_log_is_before_its_first() -> None:
    assert log_of(0).last_position == (10, -1)


def test_the_last_position_stays_when_a_ledger_is_opened() -> None:
    assert log_of(2, 0).last_position == (10, 1)


def test_a_ledger_without_entries_is_forgotten() -> None:
    log = log_of(2, 0, 0, 1)
    assert log.ledgers == [(10, 2), (13, 1)]


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        (EARLIEST, 0),
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
        (LATEST, 5),
    ],
)
def test_a_position_leads_to_the_first_entry_at_it_or_after(position: tuple[int, int], offset: int) -> None:
    assert log_of(2, 3).first_from(Position(*position)) == offset


def test_only_what_is_there_is_found() -> None:
    log = log_of(2, 3)
    assert log.find(Position(11, 2)) == 4
    assert [log.find(Position(*each)) for each in [(10, 2), (11, 3), (9, 0), (10, -1), EARLIEST, LATEST]] == [None] * 6


@pytest.mark.parametrize(("time", "offset"), [(0, 0), (1, 1), (10, 1), (11, 2), (40, 4), (41, 5)])
def test_a_time_leads_to_the_first_entry_published_then_or_later(time: int, offset: int) -> None:
    assert log_of(5).first_since(time) == offset


def test_the_index_of_an_entry_counts_messages() -> None:
    log = log_of(0)
    for messages in (3, None, 2):
        log.append(entry(messages=messages))
    assert [log.entry(offset).index for offset in range(3)] == [2, 3, 5]


def test_the_last_message_of_a_batch_has_an_index() -> None:
    log = log_of(1)
    assert log.last_message == ((10, 0), -1)
    log.append(entry(messages=3))
    assert log.last_message == ((10, 1), 2)


def test_an_empty_log_has_no_last_message() -> None:
    assert log_of(0).last_message == (EARLIEST, -1)


def test_what_is_needed_is_never_dropped() -> None:
    log = log_of(3)
    log.trim(1, 0)
    assert (log.base, log.end) == (1, 3)
    assert log.entry(1).data == b"0-1"


def test_the_oldest_go_until_little_enough_is_left() -> None:
    log = log_of(4)
    log.trim(4, 6)
    assert (log.base, log.size, log.unneeded) == (2, 6, 6)


def test_what_is_needed_again_is_kept() -> None:
    log = log_of(4)
    log.trim(3, 100)
    log.trim(1, 2)
    assert log.base == 1
    log.trim(1, 3)
    assert log.unneeded == 0


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
