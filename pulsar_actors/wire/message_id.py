"""Message ids: the ledger, the entry, and in a batch the index of one message.

A topic is a list of ledgers, a ledger is a list of entries, and an entry holds one message or a batch of them. So the
order of ids is (ledger, entry, batch index). The partition comes last: it names the topic in which the three count.
Equality and hash use these four. Two more fields do not tell messages apart, as in the C++ and Java clients: the size
of the batch, and for a chunked message the id of its first chunk, at which a seek must begin.

-1 stands for "none": no partition, no batch. `EARLIEST` is all -1 and sorts before every real id, `LATEST` has the
greatest ledger and entry and sorts after. The id of a first chunk has no `first_chunk` itself: if one is given, it is
ignored in reading and in writing.

`serialize` writes a plain `MessageIdData`, as every client does: fields that are "none" are left out.

An id is a named tuple for speed: a frozen dataclass takes three times as long to create. It has comparisons of its own,
as described above.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Optional

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import EncodeError, MalformedMessageId, excerpt
from pulsar_actors.wire.protobuf import UNREADABLE, BytesLike, as_bytes, signed, unsigned
from pulsar_actors.wire.PulsarApi_pb2 import MessageIdData

_LARGEST = 2**63 - 1
"""The largest ledger or entry that is not negative: 2^64 - 1 on the wire is -1."""


class MessageId(NamedTuple):
    """The id of one message."""

    ledger_id: int
    entry_id: int
    partition: int = -1
    batch_index: int = -1
    batch_size: int = 0
    first_chunk: Optional["MessageId"] = None

    @property
    def position(self) -> tuple[int, int]:
        """The ledger and the entry: the unit that the broker stores and acknowledges."""
        return (self.ledger_id, self.entry_id)

    @property
    def entry(self) -> "MessageId":
        """The id of the entry, the same for every message of a batch."""
        return MessageId(self.ledger_id, self.entry_id, self.partition)

    def in_batch(self, index: int, size: int) -> "MessageId":
        """Return the id of a message of this entry, which is a batch. `_replace` would take three times as long."""
        ledger_id, entry_id, partition, _, _, first_chunk = self
        return new_entry_id((ledger_id, entry_id, partition, index, size, first_chunk))

    @classmethod
    def from_data(cls, data: MessageIdData) -> "MessageId":
        """Read the id of a command."""
        message_id = _plain_id(data)
        if data.HasField("first_chunk_message_id"):
            return message_id._replace(first_chunk=_plain_id(data.first_chunk_message_id))
        return message_id

    @classmethod
    def entry_of(cls, data: MessageIdData) -> "MessageId":
        """Read the id of the entry only, which is all that a delivery needs."""
        return new_entry_id((*position_of(data), data.partition, -1, 0, None))

    def to_data(self) -> MessageIdData:
        """Write the id for a command."""
        try:
            data = _plain_data(self)
            if self.first_chunk is not None:
                data.first_chunk_message_id.CopyFrom(_plain_data(self.first_chunk))
        except (AttributeError, TypeError, ValueError) as error:
            raise EncodeError(f"{excerpt(self)} does not fit the fields of a message id", 0, 0) from error
        return data

    @classmethod
    def deserialize(cls, data: BytesLike) -> "MessageId":
        """Read an id that `serialize` wrote, of this or another client."""
        try:
            parsed = MessageIdData.FromString(as_bytes(data))
        except (*UNREADABLE, TypeError) as error:
            what = f"not a serialised message id: {error}"
            raise MalformedMessageId(what, 0, len(data) if isinstance(data, bytes) else 0) from error
        if not parsed.IsInitialized():
            raise MalformedMessageId("a serialised message id without its ledger or its entry", 0, len(data))
        return cls.from_data(parsed)

    def serialize(self) -> bytes:
        """Write the id as bytes that every Pulsar client can read."""
        return self.to_data().SerializeToString()

    def __str__(self) -> str:
        position_text = f"({self.ledger_id},{self.entry_id},{self.partition},{self.batch_index})"
        return position_text if self.first_chunk is None else f"{self.first_chunk};{position_text}"

    def __hash__(self) -> int:
        return hash(_sort_key(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageId) and _sort_key(self) == _sort_key(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: object) -> bool:
        return _sort_key(self) < _sort_key(other)

    def __le__(self, other: object) -> bool:
        return _sort_key(self) <= _sort_key(other)

    def __gt__(self, other: object) -> bool:
        return _sort_key(self) > _sort_key(other)

    def __ge__(self, other: object) -> bool:
        return _sort_key(self) >= _sort_key(other)


_tuple: Any = tuple
new_entry_id: Callable[[tuple[int, int, int, int, int, MessageId | None]], MessageId] = partial(
    _tuple.__new__, MessageId
)
"""Makes a MessageId from a tuple of all fields, in half of the time."""


def position_of(data: MessageIdData) -> tuple[int, int]:
    """Read the ledger and the entry of an id."""
    ledger_id, entry_id = data.ledgerId, data.entryId
    if ledger_id > _LARGEST or entry_id > _LARGEST:
        return signed(ledger_id), signed(entry_id)
    return ledger_id, entry_id


def _plain_id(data: MessageIdData) -> MessageId:
    """Read the id without the first chunk."""
    return MessageId(*position_of(data), data.partition, data.batch_index, data.batch_size)


def _plain_data(message_id: MessageId) -> MessageIdData:
    """Write the id without the first chunk."""
    return MessageIdData(
        ledgerId=unsigned(message_id.ledger_id),
        entryId=unsigned(message_id.entry_id),
        partition=None if message_id.partition == -1 else message_id.partition,
        batch_index=None if message_id.batch_index == -1 else message_id.batch_index,
        batch_size=message_id.batch_size or None,
    )


def _sort_key(value: object) -> tuple[int, int, int, int]:
    if isinstance(value, MessageId):
        return (value.ledger_id, value.entry_id, value.batch_index, value.partition)
    raise TypeError(f"a MessageId can only be compared with another MessageId, not with {type(value).__name__}")


EARLIEST = MessageId(-1, -1)
LATEST = MessageId(2**63 - 1, 2**63 - 1)
