import pytest

from pulsar_actors.machines.start_position import StartAt, StartPosition
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId


def at(entry: int, index: int = -1) -> MessageId:
    return MessageId(1, entry, -1, index, 0 if index < 0 else 10)


def reader(message_id: MessageId | None, *, inclusive: bool = False) -> StartPosition:
    return StartPosition(message_id, inclusive=inclusive, durable=False)


def test_a_durable_subscription_leaves_its_place_to_the_broker() -> None:
    start = StartPosition(at(5))
    start.opened(at(7))
    assert start.subscribe(0) == StartAt(None)
    assert StartPosition().subscribe(0) == StartAt(None)
    assert not StartPosition().is_before(at(0))


@pytest.mark.parametrize(
    ("inclusive", "start", "named", "left_out"),
    [
        (False, at(5), at(5), [True, True, True]),
        (True, at(5), MessageId(1, 5, -1, 0), [False, False, False]),
        (False, at(5, 1), at(5, 1), [True, True, False]),
        (True, at(5, 1), at(5, 1), [True, False, False]),
    ],
)
def test_only_what_is_before_the_start_is_left_out(
    *,
    inclusive: bool,
    start: MessageId,
    named: MessageId,
    left_out: list[bool],
) -> None:
    position = reader(start, inclusive=inclusive)
    assert position.subscribe(0) == StartAt(named)
    assert [position.is_before(at(5, index)) for index in (0, 1, 2)] == left_out
    assert not position.is_before(at(4))
    assert not position.is_before(at(6))
    assert position.is_before(at(5)) is not inclusive


@pytest.mark.parametrize("end", [EARLIEST, LATEST])
def test_nothing_is_before_an_end_of_the_topic(end: MessageId) -> None:
    position = reader(end, inclusive=True)
    assert position.subscribe(0) == StartAt(end)
    assert not position.is_before(at(0))


def test_a_reader_resumes_after_the_last_entry_it_opened() -> None:
    position = reader(at(5, 3), inclusive=True)
    position.opened(at(5, 3))
    assert not position.is_before(at(5, 4)), "the batch is being handed out"
    position.opened(at(8, 2))
    assert position.subscribe(0) == StartAt(at(8))
    assert position.is_before(at(8, 9))
    assert not position.is_before(at(9))


def test_a_seek_replaces_what_was_opened() -> None:
    position = reader(EARLIEST)
    position.opened(at(8))
    position.sought(at(2, 4))
    assert position.subscribe(0) == StartAt(at(2, 4))
    assert position.is_before(at(2, 4))
    assert not position.is_before(at(2, 5))


def test_a_durable_consumer_leaves_out_what_is_before_a_seek_in_its_batch() -> None:
    position = StartPosition(inclusive=True)
    position.sought(at(2, 4))
    assert [position.is_before(at(2, index)) for index in (3, 4)] == [True, False]


def test_a_seek_to_a_time_goes_back_that_far() -> None:
    position = reader(at(5))
    position.sought_time(10_000)
    assert not position.is_before(at(5))
    assert position.subscribe(12_500) == StartAt(EARLIEST, 3)
    assert position.subscribe(9_000) == StartAt(LATEST)
    position.opened(at(6))
    assert position.subscribe(99_000) == StartAt(at(6))


def test_an_inclusive_start_at_a_chunked_message_begins_with_its_first_chunk() -> None:
    chunked = MessageId(1, 9, first_chunk=at(4))
    assert reader(chunked, inclusive=True).subscribe(0) == StartAt(MessageId(1, 4, -1, 0))
    position = reader(chunked)
    position.subscribe(0)
    assert position.is_before(at(9))
    assert not position.is_before(at(4))
