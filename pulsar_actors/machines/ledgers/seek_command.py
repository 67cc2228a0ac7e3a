"""What SEEK says of the place to go to.

A place is a time, or a message. The broker goes to entries: of a batch, the set says which of its messages are still
wanted; of a message that came in chunks, the first chunk is where it begins.
"""

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers import ack_set
from pulsar_actors.wire.errors import EncodeError
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandSeek, MessageIdData

LAST_MS = 2**64 - 1


def impossible(target: MessageId | int) -> InvalidArgument | None:
    """Tell what is wrong with a place that cannot be said."""
    if isinstance(target, int):
        problem = f"a time to seek to is in milliseconds since 1970, from 0 to 2^64 - 1, not {target}"
        return None if 0 <= target <= LAST_MS else InvalidArgument(problem)
    try:
        _entry(target)
    except EncodeError as error:
        return InvalidArgument(f"no message to seek to: {error.what}")
    return None


def seek_command(consumer_id: int, target: MessageId | int, largest_batch: int) -> CommandSeek:
    """Write SEEK to a message, or to wall-clock ms; an entry has at most `largest_batch` messages."""
    if isinstance(target, int):
        return CommandSeek(consumer_id=consumer_id, message_publish_time=target)
    command = CommandSeek(consumer_id=consumer_id, message_id=_entry(target))
    command.message_id.ack_set.extend(_wanted(target, largest_batch))
    return command


def _entry(target: MessageId) -> MessageIdData:
    return (target.first_chunk or target).entry.to_data()


def _wanted(target: MessageId, largest_batch: int) -> list[int]:
    """Give the set of messages to deliver of the entry: of one without a batch, or with an impossible one, all."""
    if not 0 < target.batch_index < target.batch_size <= largest_batch:
        return []
    return ack_set.to_words(ack_set.starting_at(target.batch_size, target.batch_index))
