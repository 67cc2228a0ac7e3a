import pytest

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.start_message_id import StartMessageId, SubscribeStart, seek_command
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId


def at(entry: int, index: int = -1) -> MessageId:
    return MessageId(1, entry, -1, index, 0 if index < 0 else 10)


def reader(message_id: MessageId | None, *, inclusive: bool = False) -> StartMessageId:
    return StartMessageId(message_id, inclusive=inclusive, durable=False)


def test_a_durable_subscription_leaves_its_place_to_the_broker() -> None:
    start = StartMessageId(at(5))
    start.opened(at(7))
    assert start.subscribe(0) == SubscribeStart(None)
    assert StartMessageId().subscribe(0) == SubscribeStart(None)
    assert not StartMessageId().is_before((1, 0))
    assert StartMessageId().first_wanted((1, 0), 3) == 0


@pytest.mark.parametrize(
    ("inclusive", "start", "named", "first"),
    [
        (False, at(5), at(5), 3),
        (True, at(5), MessageId(1, 5, -1, 0), 0),
        (False, at(5, 1), at(5, 1), 2),
        (True, at(5, 1), at(5, 1), 1),
        (False, at(5, 9), at(5, 9), 3),
        (True, at(5, 9), at(5, 9), 3),
    ],
)
def test_only_what_is_before_the_start_is_left_out(
    *,
    inclusive: bool,
    start: MessageId,
    named: MessageId,
    first: int,
) -> None:
    position = reader(start, inclusive=inclusive)
    assert position.subscribe(0) == SubscribeStart(named)
    assert [position.first_wanted((1, entry), 3) for entry in (4, 5, 6)] == [0, first, 0]
    assert [position.is_before((1, entry)) for entry in (4, 5, 6)] == [False, not inclusive, False]


@pytest.mark.parametrize("end", [EARLIEST, LATEST])
def test_nothing_is_before_an_end_of_the_topic(end: MessageId) -> None:
    position = reader(end, inclusive=True)
    assert position.subscribe(0) == SubscribeStart(end)
    assert not position.is_before((1, 0))


@pytest.mark.parametrize("inclusive", [False, True])
def test_the_end_of_a_topic_stays_where_it_was_once_that_is_known(*, inclusive: bool) -> None:
    position = reader(LATEST, inclusive=inclusive)
    assert position.has_unresolved_latest
    position.resolve_latest(at(4))
    position.resolve_latest(at(9))
    assert not position.has_unresolved_latest
    assert position.subscribe(0) == SubscribeStart(at(4))
    assert [position.is_before((1, entry)) for entry in (3, 4, 5)] == [False, True, False]
    position.sought(LATEST)
    assert position.has_unresolved_latest
    position.sought_time(0)
    assert not position.has_unresolved_latest


def test_a_start_that_is_known_is_not_moved() -> None:
    position, durable = reader(at(2)), StartMessageId(LATEST)
    for each in (position, durable):
        assert not each.has_unresolved_latest
        each.resolve_latest(at(9))
    assert position.subscribe(0) == SubscribeStart(at(2))
    assert durable.subscribe(0) == SubscribeStart(None)


def test_a_reader_resumes_after_the_last_entry_it_opened() -> None:
    position = reader(at(5, 3), inclusive=True)
    position.opened(at(5, 3))
    assert position.first_wanted((1, 5), 10) == 3, "the batch is being handed out"
    position.opened(at(8, 2))
    assert position.subscribe(0) == SubscribeStart(at(8))
    assert position.first_wanted((1, 8), 10) == 10
    assert not position.is_before((1, 9))


def test_a_seek_replaces_what_was_opened() -> None:
    position = reader(EARLIEST)
    position.opened(at(8))
    position.sought(at(2, 4))
    assert position.subscribe(0) == SubscribeStart(at(2, 4))
    assert position.first_wanted((1, 2), 10) == 5


def test_a_durable_consumer_leaves_out_what_is_before_a_seek_in_its_batch() -> None:
    position = StartMessageId(inclusive=True)
    position.sought(at(2, 4))
    assert position.first_wanted((1, 2), 10) == 4


def test_a_seek_to_a_time_goes_back_that_far() -> None:
    position = reader(at(5))
    position.sought_time(10_000)
    assert not position.is_before((1, 5))
    position.note_position()
    assert position.subscribe(12_500) == SubscribeStart(EARLIEST)  # where the broker has put it
    assert not position.is_rough
    assert position.subscribe(12_500) == SubscribeStart(EARLIEST, 3)
    assert position.is_rough
    assert position.subscribe(9_000) == SubscribeStart(LATEST)
    position.opened(at(6))
    assert position.subscribe(99_000) == SubscribeStart(at(6))
    assert not position.is_rough


def test_what_was_opened_since_a_seek_to_a_time_is_where_to_go_on_however_the_seek_ended() -> None:
    position = reader(at(5))
    position.sought_time(10_000)
    position.opened(at(6))
    assert position.subscribe(12_500) == SubscribeStart(at(6))
    assert position.subscribe(12_500) == SubscribeStart(at(6))


def test_an_inclusive_start_at_a_chunked_message_begins_with_its_first_chunk() -> None:
    chunked = MessageId(1, 9, first_chunk=at(4))
    assert reader(chunked, inclusive=True).subscribe(0) == SubscribeStart(MessageId(1, 4, -1, 0))
    position = reader(chunked)
    position.subscribe(0)
    assert position.is_before((1, 9))
    assert not position.is_before((1, 4))


def test_a_start_inside_the_largest_batch_is_found_without_looking_at_its_messages() -> None:
    assert reader(at(5)).first_wanted((1, 5), 2**31 - 1) == 2**31 - 1
    assert reader(at(5, 3)).first_wanted((1, 5), 2**31 - 1) == 4


@pytest.mark.parametrize("start", [MessageId(2**63, 0), MessageId(1, 5, -1, 2**31), MessageId(1, 5, 2**31)])
def test_a_start_that_can_not_be_said_is_refused_when_it_is_given(start: MessageId) -> None:
    for nested in (start, MessageId(1, 9, first_chunk=start)):
        with pytest.raises(InvalidArgument, match="no message to start at"):
            reader(nested)


def test_a_subscription_that_was_moved_back_delivers_the_entry_of_the_old_start_too() -> None:
    position = reader(at(5, 3))
    position.note_arrival((1, 5))
    assert position.first_wanted((1, 5), 10) == 4
    position.note_arrival((1, 4))
    assert position.first_wanted((1, 5), 10) == 0
    whole = reader(at(5))
    whole.note_arrival((1, 4))
    assert not whole.is_before((1, 5))


def test_after_a_reconnect_or_a_seek_there_is_a_start_again() -> None:
    position = reader(at(5))
    position.note_arrival((1, 4))
    position.opened(at(7))
    position.subscribe(0)
    assert position.is_before((1, 7))
    position.note_arrival((1, 6))
    position.sought(at(9))
    assert position.is_before((1, 9))


def test_messages_before_the_end_of_the_topic_move_nothing_back() -> None:
    position = reader(LATEST)
    position.note_arrival((1, 4))
    assert not position.is_before((1, 5))
    position.opened(at(5))
    position.subscribe(0)
    assert position.is_before((1, 5))


def test_what_was_opened_before_an_unread_message_in_chunks_does_not_look_like_a_move_back() -> None:
    position = reader(at(2))
    position.opened(at(7), unread_from=(1, 5))
    position.subscribe(0)
    position.note_arrival((1, 5))
    assert position.is_before((1, 6))
    assert position.is_before((1, 7))


@pytest.mark.parametrize("begins", [EARLIEST, MessageId(1, 9, first_chunk=at(4))])
def test_a_start_after_a_chunked_message_leaves_it_out_and_what_ended_between_its_chunks(begins: MessageId) -> None:
    position = reader(begins)
    if begins == EARLIEST:
        position.sought(MessageId(1, 9, first_chunk=at(4)))
    assert position.subscribe(0) == SubscribeStart(MessageId(1, 4, -1, 0)), "messages may begin between its chunks"
    position.note_arrival((1, 4))
    assert [position.is_before((1, entry)) for entry in (5, 9, 10)] == [True, True, False]
    assert position.first_wanted((1, 6), 3) == 3
    assert not position.leaves(at(9), (1, 4), None), "nothing is left behind the message"
    assert position.leaves(at(10), (1, 4), None)
    inclusive = StartMessageId(inclusive=True)
    inclusive.sought(MessageId(1, 9, first_chunk=at(4)))
    assert not inclusive.is_before((1, 9))


def test_what_a_durable_consumer_opened_does_not_bring_back_what_is_before_a_seek() -> None:
    start = StartMessageId()
    start.sought(MessageId(1, 9, first_chunk=at(4)))
    start.opened(at(12))
    start.subscribe(0)
    start.note_arrival((1, 4))
    assert start.is_before((1, 9))


NOTHING = MessageId(-1, -1)
"""What a broker says of the last message of an empty topic."""


@pytest.mark.parametrize("start", [EARLIEST, LATEST, at(5), None])
def test_an_empty_topic_leaves_nothing_to_read(start: MessageId | None) -> None:
    assert not reader(start, inclusive=True).leaves(NOTHING, None, None)


@pytest.mark.parametrize(("last", "left"), [(at(6), False), (at(7), False), (at(7, 3), False), (at(8), True)])
def test_what_was_opened_counts_before_any_start(last: MessageId, *, left: bool) -> None:
    assert reader(EARLIEST).leaves(last, at(7).position, None) is left


@pytest.mark.parametrize(
    ("start", "inclusive", "last", "left"),
    [
        (EARLIEST, False, at(0), True),
        (at(5), False, at(5), False),
        (at(5), False, at(6), True),
        (at(5), True, at(5), True),
        (at(5), True, at(4), False),
        (at(5, 2), False, at(5, 2), False),
        (at(5, 2), False, at(5, 3), True),
        (at(5, 2), True, at(5, 2), True),
        (at(5, 2), True, at(5, 1), False),
    ],
)
def test_before_anything_was_opened_the_start_says_what_is_left(
    start: MessageId, last: MessageId, *, inclusive: bool, left: bool
) -> None:
    assert reader(start, inclusive=inclusive).leaves(last, None, None) is left


@pytest.mark.parametrize("start", [LATEST, None], ids=["latest", "a time"])
@pytest.mark.parametrize(("acknowledged", "left"), [(None, False), (at(4), True), (at(5), False)])
def test_from_a_time_or_the_end_on_the_broker_says_where_it_began(
    start: MessageId | None, acknowledged: MessageId | None, *, left: bool
) -> None:
    position = reader(start)
    if start is None:
        position.sought_time(1)
    assert position.leaves(at(5), None, acknowledged) is left


def test_a_topic_that_is_not_stored_has_no_place_to_start_at_but_its_end() -> None:
    """All its messages have the id (0, 0), that of a seek as well as those to come."""
    start = StartMessageId(EARLIEST, durable=False, persistent=False)
    assert start.subscribe(0) == SubscribeStart(LATEST)
    start.sought(MessageId(0, 0))
    assert start.subscribe(0) == SubscribeStart(LATEST)
    start.note_arrival((0, 0))
    assert not start.is_before((0, 0))
    assert start.first_wanted((0, 0), 3) == 0


MINUS_ONE = 2**64 - 1


@pytest.mark.parametrize(
    ("target", "place"),
    [
        (MessageId(3, 4), (3, 4)),
        (MessageId(3, 4, 2, 0, 5), (3, 4)),
        (MessageId(3, 9, first_chunk=MessageId(3, 4)), (3, 4)),
        (EARLIEST, (MINUS_ONE, MINUS_ONE)),
        (LATEST, (2**63 - 1, 2**63 - 1)),
    ],
)
def test_a_message_is_sought_by_the_entry_where_it_begins(target: MessageId, place: tuple[int, int]) -> None:
    command = seek_command(7, target, 1000)
    assert (command.consumer_id, command.message_id.ledgerId, command.message_id.entryId) == (7, *place)
    assert not command.message_id.ack_set
    assert not command.HasField("message_publish_time")


@pytest.mark.parametrize(("index", "wanted"), [(1, [0b110]), (2, [0b100])])
def test_inside_a_batch_the_messages_from_there_on_are_wanted(index: int, wanted: list[int]) -> None:
    assert list(seek_command(7, MessageId(3, 4, -1, index, 3), 1000).message_id.ack_set) == wanted


@pytest.mark.parametrize("size", [11, 2**31 - 1, 2**40])
def test_a_batch_that_can_not_be_is_sought_whole(size: int) -> None:
    assert not seek_command(7, MessageId(3, 4, -1, 1, size), 10).message_id.ack_set


@pytest.mark.parametrize("milliseconds", [0, 1_700_000_000_000, 2**64 - 1])
def test_a_time_is_sought_by_itself(milliseconds: int) -> None:
    command = seek_command(7, milliseconds, 1000)
    assert command.message_publish_time == milliseconds
    assert not command.HasField("message_id")


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        (EARLIEST, SubscribeStart(EARLIEST)),
        (LATEST, SubscribeStart(LATEST)),
        (5000, SubscribeStart(EARLIEST, 2)),
        (at(5), SubscribeStart(EARLIEST)),
        (MessageId(1, 5, first_chunk=at(3)), SubscribeStart(EARLIEST)),
    ],
    ids=["earliest", "latest", "a time", "a message", "a chunked message"],
)
@pytest.mark.parametrize("is_sought", [False, True])
def test_in_another_cluster_it_is_where_the_user_has_asked_for(
    *, is_sought: bool, asked: MessageId | int, there: SubscribeStart
) -> None:
    start = reader(EARLIEST if is_sought or isinstance(asked, int) else asked)
    if isinstance(asked, int):
        start.sought_time(asked)
    elif is_sought:
        start.sought(asked)
    start.subscribe(7000)
    start.accepted()
    start.resolve_latest(at(4))
    start.opened(at(7), unread_from=(1, 6))
    start.subscribe(7000)
    start.leave_cluster()
    assert start.subscribe(7000) == there
    assert start.has_unresolved_latest == (asked == LATEST)
    assert not start.is_before((1, 6))


def test_a_message_that_no_broker_has_accepted_may_be_of_the_new_cluster() -> None:
    start = reader(at(5))
    start.subscribe(0)
    start.leave_cluster()
    assert start.subscribe(0) == SubscribeStart(at(5))
