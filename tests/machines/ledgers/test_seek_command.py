import pytest

from pulsar_actors.machines.ledgers.seek_command import impossible, seek_command
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId

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
    assert impossible(target) is None
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
    assert impossible(milliseconds) is None
    command = seek_command(7, milliseconds, 1000)
    assert command.message_publish_time == milliseconds
    assert not command.HasField("message_id")


@pytest.mark.parametrize("target", [-1, 2**64, MessageId(2**63, 0), MessageId(0, -(2**63) - 1)])
def test_a_place_that_can_not_be_said_is_refused(target: MessageId | int) -> None:
    assert "to seek to" in str(impossible(target))
