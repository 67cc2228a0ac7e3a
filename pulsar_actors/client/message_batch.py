"""A batch that came some other way than through a consumer, such as from a function or a dump of a topic."""

from dataclasses import dataclass

from pulsar_actors.client.arguments import instance_of, whole_number
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.schema import BYTES
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.wire.batch import split_batch
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.octets import Octets
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata

__all__ = ["MessageBatch"]

_id = instance_of(MessageId)
_size = whole_number(1)


@dataclass(frozen=True, slots=True)
class _Entry:
    """The little that is known of an entry that nobody received."""

    message_id: WireMessageId
    size: int
    topic: str
    metadata = MessageMetadata()
    broker_metadata = None
    redelivery_count = 0
    generation = Generation()
    decode = staticmethod(BYTES.decode)


class MessageBatch:
    """Splits the payload of a batch, already inflated, into its messages.

    `MessageBatch().with_message_id(id_of_the_entry).parse_from(payload, number_of_messages)`
    """

    __slots__ = ("_message_id",)

    def __init__(self) -> None:
        self._message_id = MessageId()

    def with_message_id(self, msg_id: MessageId) -> "MessageBatch":
        """Say which entry it is, for the ids of the messages."""
        _id("msg_id", msg_id)
        self._message_id = msg_id
        return self

    def parse_from(self, data: Octets, size: int) -> list[Message]:
        """Split the payload into `size` messages; MalformedBatch says that it is more or fewer."""
        _size("size", size)
        entry = _Entry(self._message_id.wire, size, self._message_id.topic_name() or "")
        singles = split_batch(data, size)
        return [Message(payload, stored, entry, index) for index, (stored, payload) in enumerate(singles)]
