"""Received messages.

A program receives hundreds of thousands of messages a second, and most programs read only the payload. So a message is
four references: the payload, its own metadata if it came in a batch, its opened entry, and its batch index. Everything
else is decoded on request, and again on the next request: keep what you need often.

In a batch each message has its own metadata, such as the key and the properties, and the same fields of the entry are
ignored. The producer, the publish time and the schema are fields of the entry.
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pulsar_actors.client.enums import CompressionType
from pulsar_actors.client.message_id import MessageId, new_message_id
from pulsar_actors.client.schema import BYTES
from pulsar_actors.client.validation import instance_of, whole_number
from pulsar_actors.compiling import Given, mypyc_attr
from pulsar_actors.exceptions import CryptoError
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.schema_versions import SchemaVersions, StoredSchema
from pulsar_actors.wire.batch import LazyMetadata, metadata_of, split_columns
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.protobuf import BytesLike, readable
from pulsar_actors.wire.PulsarApi_pb2 import BrokerEntryMetadata, MessageMetadata, SingleMessageMetadata

if TYPE_CHECKING:
    from pulsar_actors.runtime.opened_entry import DecodeMessage

__all__ = [
    "EncryptionContext",
    "EncryptionKey",
    "Message",
    "MessageBatch",
    "MessageEntry",
    "ack_key_of",
    "by_entry",
    "data_key_of",
    "forwarded_metadata_of",
    "is_undecryptable",
    "key_of",
    "new_messages",
    "stored_entry_of",
    "table_update_of",
    "unknown_schema_of",
    "written_schema_of",
]


class EncryptionKey(NamedTuple):
    """A key that the data key of a message was encrypted with: its name, the encrypted data key, and its metadata."""

    key: str
    value: bytes
    metadata: Mapping[str, str]

    def __repr__(self) -> str:
        return f"EncryptionKey(key={self.key}, value_len={len(self.value)}, metadata={self.metadata})"


class EncryptionContext:
    """The encryption of a message, and its compression before that.

    With `crypto_failure_action=CONSUME` messages are delivered as they were stored, and a program may decrypt them with
    the fields of this object.
    """

    __slots__ = ("_failed", "_metadata")

    def __init__(self, metadata: MessageMetadata, *, failed: bool) -> None:
        self._metadata = readable(metadata)
        self._failed = failed

    def keys(self) -> list[EncryptionKey]:
        """Return the keys with which the message can be decrypted."""
        return [
            EncryptionKey(one.key, one.value, {pair.key: pair.value for pair in one.metadata})
            for one in self._metadata.encryption_keys
        ]

    def param(self) -> bytes:
        """Return the parameter of the algorithm: its initialisation vector."""
        return self._metadata.encryption_param

    def algorithm(self) -> str:
        """Return the name of the algorithm, as the producer wrote it."""
        return self._metadata.encryption_algo

    def compression_type(self) -> CompressionType:
        """Return the compression of the payload before it was encrypted."""
        return CompressionType(self._metadata.compression)

    def uncompressed_message_size(self) -> int:
        """Return the payload's size before it was compressed, or 0 if it was not."""
        return self._metadata.uncompressed_size if self._metadata.compression else 0

    def batch_size(self) -> int:
        """Return the number of messages in the payload, or -1 if it is no batch."""
        return self._metadata.num_messages_in_batch if self._metadata.HasField("num_messages_in_batch") else -1

    def is_decryption_failed(self) -> bool:
        """Return whether no key decrypts the payload, which is still encrypted."""
        return self._failed

    def __repr__(self) -> str:
        return (
            f"EncryptionContext(algorithm={self.algorithm()}, compression_type={self.compression_type().name}, "
            f"uncompressed_message_size={self.uncompressed_message_size()}, "
            f"is_decryption_failed={self.is_decryption_failed()}, keys={self.keys()})"
        )


class MessageEntry(Protocol):
    """The data that the messages of one entry share.

    It is an opened entry, or has the few known fields of another entry.
    """

    @property
    def message_id(self) -> WireMessageId:
        """The id of the entry."""
        ...

    @property
    def metadata(self) -> MessageMetadata:
        """The producer's metadata."""
        ...

    @property
    def broker_metadata(self) -> BrokerEntryMetadata | None:
        """The broker's metadata, if the broker sends it."""
        ...

    @property
    def redelivery_count(self) -> int:
        """The number of times that the broker has delivered the entry before."""
        ...

    @property
    def size(self) -> int:
        """The number of messages in the batch, 0 if it is none."""
        ...

    @property
    def topic(self) -> str:
        """The topic, or the partition, of the entry."""
        ...

    @property
    def generation(self) -> Generation:
        """The generation in which the entry was opened. It decides if acknowledgements still count."""
        ...

    @property
    def decode(self) -> "DecodeMessage":
        """Decodes the value of a message by the schema of its consumer."""
        ...

    @property
    def data_key(self) -> object:
        """The data key with which the entry was decrypted, or None."""
        ...

    @property
    def is_undecryptable(self) -> bool:
        """True if no key decrypts the entry, whose payload is as it was stored."""
        ...

    @property
    def schemas(self) -> SchemaVersions | None:
        """The schemas of topics by version; None for an entry that no consumer received."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)
class Message:
    """A received message."""

    __slots__ = ("_index", "_opened", "_payload", "_stored")

    _index: Any  # an int; mypyc would take it apart, and make a new one for each acknowledgement
    _opened: MessageEntry
    _payload: bytes
    _stored: LazyMetadata | None

    def data(self) -> bytes:
        """Return the payload; empty if there is none."""
        return self._payload

    def value(self) -> object:
        """Return the payload decoded by the consumer's schema; without a schema, the payload.

        It is decoded on each call. A schema that needs the one that the producer used asks a broker for it, once for
        each version: only that call waits. `data()` works whether the payload can be decoded or not.
        """
        return self._opened.decode(self)

    def properties(self) -> dict[str, str]:
        """Return the properties that the producer set, by name."""
        pairs: Any = self._own().properties
        found = {pair.key: pair.value for pair in pairs}
        for key, value in found.items():  # `readable` would look at all other texts of the metadata as well
            if not (isinstance(key, str) and isinstance(value, str)):
                return {pair.key: pair.value for pair in readable(self._own()).properties}
        return found

    def partition_key(self) -> str:
        """Return the key that chose the partition; empty if there is none. Keys of bytes are returned in base 64."""
        key = _written_key(self._own())
        return key if isinstance(key, str) else readable(self._own()).partition_key  # see `readable`

    def ordering_key(self) -> str:
        """Return the key that chooses the KeyShared consumer if it is not the partition key; empty if there is none."""
        return self._own().ordering_key.decode(errors="replace")

    def publish_timestamp(self) -> int:
        """Return the time at which the producer sent the message, in milliseconds since 1970 by its clock."""
        return self._opened.metadata.publish_time

    def event_timestamp(self) -> int:
        """Return the event time that the producer set, in milliseconds since 1970; 0 if it set none."""
        return self._own().event_time

    def message_id(self) -> MessageId:
        """Return the id of the message, for acknowledging and seeking."""
        entry = self._opened
        if self._stored is None:
            return new_message_id(entry.message_id, entry.topic)
        message_id = entry.message_id.in_batch(self._index, entry.size)
        return new_message_id(message_id, entry.topic)

    def topic_name(self) -> str:
        """Return the topic of the message; of a partitioned topic, the partition."""
        return self._opened.topic

    def redelivery_count(self) -> int:
        """Return the number of deliveries before this one. Only Shared and KeyShared subscriptions count them."""
        return self._opened.redelivery_count

    def schema_version(self) -> str:
        """Return the version of the topic's schema that the producer used; empty if there is none.

        The version is bytes, which are decoded as Latin-1: `.encode("latin-1")` gives them back.
        """
        return self._opened.metadata.schema_version.decode("latin-1")

    def producer_name(self) -> str:
        """Return the name of the producer."""
        return readable(self._opened.metadata).producer_name

    def has_null_value(self) -> bool:
        """Return whether the content was None, which deletes the key on a compacted topic."""
        return self._own().null_value

    def encryption_context(self) -> EncryptionContext | None:
        """Return the encryption of the message, or None if it was not encrypted."""
        metadata = self._opened.metadata
        if not metadata.encryption_keys:
            return None
        return EncryptionContext(metadata, failed=self._opened.is_undecryptable)

    def broker_publish_timestamp(self) -> int | None:
        """Return the time at which the broker got the message, in milliseconds since 1970 by its clock, or None.

        Brokers send this time, and the index, only if they are configured to expose their entry metadata.
        """
        broker = self._opened.broker_metadata
        return broker.broker_timestamp if broker is not None and broker.HasField("broker_timestamp") else None

    def index(self) -> int | None:
        """Return the number of messages in the topic before this one, or None if the broker does not send it."""
        broker = self._opened.broker_metadata
        if broker is None or not broker.HasField("index"):
            return None
        return broker.index if self._stored is None else broker.index - self._opened.size + self._index + 1

    def replicated_from(self) -> str:
        """Return the cluster that the message was replicated from, or an empty name."""
        return readable(self._opened.metadata).replicated_from

    def __copy__(self) -> "Message":
        return self  # it never changes

    def __deepcopy__(self, _: object) -> "Message":
        return self

    def __reduce__(self) -> Any:  # noqa: ANN401 - it never returns
        raise TypeError(
            "a Message belongs to its consumer and cannot be pickled: pickle what you need of it, such as data(), "
            "properties() and message_id(), by which the consumer acknowledges"
        )

    def __repr__(self) -> str:
        return f"<Message {self.message_id()} of {self.topic_name()}: {len(self._payload):,} bytes{self._excerpt()}>"

    def _excerpt(self) -> str:
        """Show the start of the payload, unless it was sent encrypted: then it is for few eyes."""
        return ", encrypted" if self._opened.metadata.encryption_keys else f" {excerpt(bytes(self._payload[:_SHOWN]))}"

    def _own(self) -> SingleMessageMetadata | MessageMetadata:
        """Return the metadata of this message: its own in a batch, or that of the entry."""
        return self._opened.metadata if self._stored is None else metadata_of(self._stored)


_SHOWN = 40  # the number of payload bytes in `repr`


def new_messages(
    stored: Sequence[LazyMetadata | None], payloads: Sequence[bytes], opened: MessageEntry, indexes: Sequence[Any]
) -> list[Message]:
    """Make the messages of an entry. Filling each here takes less time than an `__init__`, which Python would call."""
    # This is a function, like those below, so that the class has only the public names of the official client's class.
    messages: list[Message] = []
    for metadata, payload, index in zip(stored, payloads, indexes):  # noqa: B905 - mypyc knows it without `strict`
        message = Message()
        message._payload = payload  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        message._stored = metadata  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        message._opened = opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        message._index = index  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        messages.append(message)
    return messages


def ack_key_of(message: Message) -> tuple[WireMessageId, Generation, str]:
    """Return the values that an acknowledgement needs: the id, the generation and the topic."""
    opened, index = message._opened, message._index  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if message._stored is None:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return opened.message_id, opened.generation, opened.topic
    return opened.message_id.in_batch(index, opened.size), opened.generation, opened.topic


def by_entry(messages: Sequence[Message]) -> list[tuple[MessageEntry, list[int]]]:
    """Group messages that follow each other and are of one entry: return the entry and the batch indexes of each group.

    A batch that is complete takes one step.
    """
    entries = [message._opened for message in messages]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    indexes = [message._index for message in messages]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    groups: list[tuple[MessageEntry, list[int]]] = []
    start = 0
    while start < len(entries):
        entry = entries[start]
        whole = entries[start : start + max(1, entry.size)]
        size = len(whole)
        if whole.count(entry) < size:
            size = next(at for at, other in enumerate(whole) if other is not entry)
        groups.append((entry, indexes[start : start + size]))
        start += size
    return groups


def is_undecryptable(message: Message) -> bool:
    """Return whether a message is delivered as it was stored, encrypted."""
    return message._opened.is_undecryptable  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def stored_entry_of(message: Message) -> MessageEntry:
    """Return the entry of a message."""
    return message._opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def data_key_of(message: Message) -> object:
    """Return the data key that a letter is to be encrypted with, None if the message was not encrypted.

    Raise CryptoError if the message is still encrypted: as a letter it could not be decrypted by anyone.
    """
    opened = message._opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if opened.is_undecryptable:
        raise CryptoError("a message that cannot be decrypted is not sent to another topic")
    return opened.data_key


def forwarded_metadata_of(message: Message) -> SingleMessageMetadata:
    """Return the metadata that a message keeps when it is sent to another topic: keys, event time, and the null flag.

    The keys are bytes here. The methods `partition_key` and `ordering_key` decode them, which may lose bytes.
    """
    own = readable(message._own())  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    kept = SingleMessageMetadata()
    if own.HasField("partition_key"):
        kept.partition_key = own.partition_key
    if own.partition_key_b64_encoded:  # also of an empty key
        kept.partition_key_b64_encoded = True
    if own.null_partition_key:
        kept.null_partition_key = True
    if own.HasField("ordering_key"):
        kept.ordering_key = own.ordering_key
    if own.HasField("event_time"):
        kept.event_time = own.event_time
    kept.null_value = own.null_value
    return kept


def written_schema_of(message: Message) -> StoredSchema | None:
    """Return the schema that the producer of a message used. A broker is asked for each version once.

    None if the message has no schema version, or did not come from a consumer.
    """
    entry = message._opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    version, schemas = entry.metadata.schema_version, entry.schemas
    return schemas.get(entry.topic, version) if version and schemas is not None else None


def unknown_schema_of(message: Message) -> tuple[SchemaVersions, str, bytes] | None:
    """Return the schemas, the topic and the version to ask for, if `written_schema_of` would ask a broker."""
    entry = message._opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    version, schemas = entry.metadata.schema_version, entry.schemas
    if not version or schemas is None or schemas.knows(entry.topic, version):
        return None
    return schemas, entry.topic, version


def _written_key(metadata: Any) -> object:  # noqa: ANN401 - the key may be bytes, which its type does not say
    """Return the partition key as protobuf has it: as bytes, if it is no text."""
    return metadata.partition_key


def key_of(message: Message) -> bytes | None:
    """Return the key as it was given, decoded if it travels in base 64; None if the message has none.

    Raise ValueError if it should be in base 64 and is not.
    """
    own = message._own()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if own.null_partition_key or not (own.partition_key_b64_encoded or own.HasField("partition_key")):
        return None
    key = _written_key(own)
    if not isinstance(key, str):
        key = readable(own).partition_key
    return b64decode(key, validate=True) if own.partition_key_b64_encoded else key.encode()


def table_update_of(message: Message) -> tuple[str | None, bool]:
    """Return what a message is to a table view: its key, None if it has none, and whether it deletes the key."""
    own = message._own()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    key = _written_key(own)
    if not key and not own.HasField("partition_key"):
        return None, False
    is_deletion = not len(message._payload)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return key if isinstance(key, str) else message.partition_key(), is_deletion


_message_id = instance_of(MessageId)
_batch_size = whole_number(1)


_NO_METADATA = MessageMetadata()
_NO_GENERATION = Generation()


class _ParsedEntry:
    """An entry that was not received by a consumer. Few of its fields are known."""

    def __init__(self, message_id: WireMessageId, size: int, topic: str) -> None:
        self.message_id = message_id
        self.size = size
        self.topic = topic
        self.metadata = _NO_METADATA
        self.broker_metadata = None
        self.data_key = None
        self.is_undecryptable = False
        self.redelivery_count = 0
        self.generation = _NO_GENERATION
        self.schemas = None
        self.decode: DecodeMessage = BYTES.decode_message


class MessageBatch:
    """Splits the uncompressed payload of a batch that was not received by a consumer, but by a function or from a dump.

    `MessageBatch().with_message_id(id_of_the_entry).parse_from(payload, number_of_messages)`
    """

    __slots__ = ("_message_id",)

    def __init__(self) -> None:
        self._message_id = MessageId()

    def with_message_id(self, msg_id: Given[MessageId]) -> "MessageBatch":
        """Set the id of the entry, for the ids of the messages."""
        _message_id("msg_id", msg_id)
        self._message_id = msg_id
        return self

    def parse_from(self, data: Given[BytesLike], size: Given[int]) -> list[Message]:
        """Split the payload into `size` messages. Raise MalformedBatch if it has more or fewer."""
        _batch_size("size", size)
        entry = _ParsedEntry(self._message_id.wire, size, self._message_id.topic_name() or "")
        stored, payloads, _ = split_columns(data, size)
        return new_messages(stored, payloads, entry, range(size))
