"""The `MessageId` of the public API: the position of a message, and its topic.

It wraps `wire.message_id.MessageId` and has the official client's methods. Order, equality and hash are the wire's:
ledger, entry, batch index, partition. The topic is not compared, as in the official client. An id can be kept as bytes,
which every Pulsar client reads, or pickled, topic included.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from pulsar_actors.client.validation import optional, whole_number
from pulsar_actors.client.validation import topic as topic_name
from pulsar_actors.compiling import Given, mypyc_attr
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.errors import MalformedMessageId
from pulsar_actors.wire.message_id import EARLIEST, LATEST
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.protobuf import BytesLike

__all__ = ["MessageId", "ids_of_batch", "new_message_id"]


_index = whole_number(-1)
_id = whole_number(-1, 2**63 - 1)
_topic = optional(topic_name)


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)
class MessageId:
    """The id of one message. -1 stands for none: no partition, no batch.

    An id that is made of these four numbers lacks the size of its batch. To acknowledge it, use the consumer that has
    received the message, before all of the batch is acknowledged; otherwise `acknowledge` raises InvalidArgument. What
    `serialize` returns has the size.
    """

    __slots__ = ("_batch", "_index", "_topic", "_wire")

    earliest: ClassVar["MessageId"]
    """Before the first message of a topic."""
    latest: ClassVar["MessageId"]
    """After the last message of a topic."""

    _batch: WireMessageId
    _index: int
    _topic: str | None
    _wire: WireMessageId | None

    def __init__(
        self,
        partition: Given[int] = -1,
        ledger_id: Given[int] = -1,
        entry_id: Given[int] = -1,
        batch_index: Given[int] = -1,
    ) -> None:
        _index("partition", partition)
        _id("ledger_id", ledger_id)
        _id("entry_id", entry_id)
        _index("batch_index", batch_index)
        self._wire = WireMessageId(ledger_id, entry_id, partition, batch_index)
        self._topic = None

    @staticmethod
    def wrap(msg_id: "Given[MessageId]") -> "MessageId":
        """Return the id itself: programs for the official client wrap what its `send` returns."""
        if not isinstance(msg_id, MessageId):  # pyright: ignore[reportUnnecessaryIsInstance] # of a caller without types
            raise TypeError(f"msg_id must be a MessageId, not {type(msg_id).__name__}")
        return msg_id

    @property
    def wire(self) -> WireMessageId:
        """The id as the protocol has it. It is made on request: of a million sent messages, few ids are used."""
        wire = self._wire
        if wire is None:
            self._wire = wire = self._batch._replace(batch_index=self._index)
        return wire

    def __reduce__(self) -> Any:  # noqa: ANN401 - what pickle and copy take
        return _restored, (type(self), self.wire, self._topic), getattr(self, "__dict__", None)

    def ledger_id(self) -> int:
        """Return the ledger that the message is stored in."""
        return self.wire.ledger_id

    def entry_id(self) -> int:
        """Return the entry of that ledger."""
        return self.wire.entry_id

    def batch_index(self) -> int:
        """Return the index in the entry's batch, or -1 if the entry is no batch."""
        return self.wire.batch_index

    def partition(self) -> int:
        """Return the number of the topic's partition, or -1."""
        return self.wire.partition

    def topic_name(self) -> str | None:
        """Return the topic, or None if it is not known: bytes do not contain it."""
        return self._topic

    def serialize(self) -> bytes:
        """Return the id as bytes, which any Pulsar client can read."""
        return self.wire.serialize()

    @staticmethod
    def deserialize(message_id_bytes: Given[BytesLike], topic: Given[str | None] = None) -> "MessageId":
        """Read the bytes of `serialize`, of this or another client.

        A consumer of several topics needs the topic as well.
        """
        _topic("topic", topic)
        try:
            return new_message_id(WireMessageId.deserialize(message_id_bytes), topic)
        except MalformedMessageId as fault:
            raise InvalidArgument(f"message_id_bytes takes what serialize() gave: {fault}") from fault

    def __str__(self) -> str:
        return str(self.wire)

    def __repr__(self) -> str:
        ledger_id, entry_id, partition, batch_index, *_ = tuple(self.wire)
        return f"MessageId({partition=}, {ledger_id=}, {entry_id=}, {batch_index=})"

    def __hash__(self) -> int:
        return hash(self.wire)

    def __eq__(self, other: object) -> bool:
        return self.wire == other.wire if isinstance(other, MessageId) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.wire < other.wire if isinstance(other, MessageId) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.wire <= other.wire if isinstance(other, MessageId) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.wire > other.wire if isinstance(other, MessageId) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.wire >= other.wire if isinstance(other, MessageId) else NotImplemented


# These are functions, so that the class has only the public names of the official client's class.


def new_message_id(message_id: WireMessageId, topic: str | None = None) -> MessageId:
    """Make the public id of an id of the wire."""
    made = MessageId.__new__(MessageId)
    made._wire = message_id  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    made._topic = topic  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return made


def _restored(kind: type[MessageId], message_id: WireMessageId, topic: str | None) -> MessageId:
    """Make an id again from its pickle."""
    made = kind.__new__(kind)
    made._wire = message_id  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    made._topic = topic  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return made


MessageId.earliest = new_message_id(EARLIEST)
MessageId.latest = new_message_id(LATEST)


def ids_of_batch(entry: WireMessageId, topic: str) -> Iterator[MessageId]:
    """Yield the ids of the messages of an entry that is a batch of `batch_size`, in order."""
    new, kind = MessageId.__new__, MessageId
    for index in range(entry.batch_size):
        made = new(kind)
        made._wire = None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        made._topic = topic  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        made._batch = entry  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        made._index = index  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        yield made
