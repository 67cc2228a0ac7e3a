"""A received message.

Hundreds of thousands of these are made in a second, and most programs read the payload and nothing else. So a message
is four references: the payload, its own metadata where it came in a batch, what all messages of its entry share, and
its place in the batch. Everything else is worked out when asked for, and again when asked again: keep what you need
often.

In a batch the key, the properties and the like are each message's own, and what the entry says of them does not count;
the producer, the time of publishing and the schema are the entry's.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from pulsar_actors.client.encryption_context import EncryptionContext
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.wire.batch import Stored, metadata_of
from pulsar_actors.wire.excerpt import excerpt
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.octets import Octets
from pulsar_actors.wire.PulsarApi_pb2 import BrokerEntryMetadata, MessageMetadata, SingleMessageMetadata
from pulsar_actors.wire.strings import readable

__all__ = ["Message", "OpenedEntry", "messages_of", "place_of", "traits_of"]


class OpenedEntry(Protocol):
    """What the messages of one entry share."""

    @property
    def message_id(self) -> WireMessageId:
        """The id of the entry."""
        ...

    @property
    def metadata(self) -> MessageMetadata:
        """What the producer wrote about the entry."""
        ...

    @property
    def broker_metadata(self) -> BrokerEntryMetadata | None:
        """What the broker wrote about it, if it tells."""
        ...

    @property
    def redelivery_count(self) -> int:
        """How often the broker sent it before."""
        ...

    @property
    def size(self) -> int:
        """The number of messages in the batch, 0 if it is none."""
        ...

    @property
    def topic(self) -> str:
        """The topic, or the partition, that it came from."""
        ...

    @property
    def generation(self) -> Generation:
        """The past that it belongs to: what acknowledgements of it are held against."""
        ...

    @property
    def decode(self) -> Callable[[bytes], object]:
        """What makes a value of a payload."""
        ...


class Message:
    """A message, as `receive` gives it and listeners are handed it."""

    __slots__ = ("_index", "_opened", "_payload", "_stored")

    def __init__(
        self,
        payload: Octets,
        stored: Stored | None,
        opened: OpenedEntry,
        index: int,
    ) -> None:
        self._payload = payload
        self._stored = stored
        self._opened = opened
        self._index = index

    def data(self) -> bytes:
        """Return the payload; empty where there is none."""
        payload = self._payload
        return payload if isinstance(payload, bytes) else bytes(payload)

    def value(self) -> object:
        """Return what the consumer's schema makes of the payload; without a schema, the payload."""
        return self._opened.decode(self.data())

    def properties(self) -> dict[str, str]:
        """Return what the producer attached to the message, by name."""
        return {pair.key: pair.value for pair in readable(self._own()).properties}

    def partition_key(self) -> str:
        """Return the key that chose the partition; empty where there is none. Keys of bytes come in base 64."""
        return readable(self._own()).partition_key

    def ordering_key(self) -> str:
        """Return the key that KeyShared consumers are chosen by, where it is not the partition key; or an empty one."""
        return self._own().ordering_key.decode(errors="replace")

    def publish_timestamp(self) -> int:
        """Return when the producer sent it, in milliseconds since 1970 by the producer's clock."""
        return self._opened.metadata.publish_time

    def event_timestamp(self) -> int:
        """Return when it happened, in milliseconds since 1970, as the producer said; 0 if it did not."""
        return self._own().event_time

    def message_id(self) -> MessageId:
        """Return where the message is: what acknowledging and seeking go by."""
        entry = self._opened
        if self._stored is None:
            return MessageId.wrap(entry.message_id, entry.topic)
        place = entry.message_id._replace(batch_index=self._index, batch_size=entry.size)
        return MessageId.wrap(place, entry.topic)

    def topic_name(self) -> str:
        """Return the topic that it came from; of a partitioned one, the partition."""
        return self._opened.topic

    def redelivery_count(self) -> int:
        """Return how often the broker has delivered it before; it counts for Shared and KeyShared subscriptions."""
        return self._opened.redelivery_count

    def schema_version(self) -> str:
        """Return the version of the topic's schema that it was written with, or an empty one.

        It is bytes by nature, each of which becomes the character of its number: `.encode("latin-1")` gives them back.
        """
        return self._opened.metadata.schema_version.decode("latin-1")

    def producer_name(self) -> str:
        """Return the name of the producer that sent it."""
        return readable(self._opened.metadata).producer_name

    def has_null_value(self) -> bool:
        """Tell whether it was sent with None for its content: on a compacted topic, the deletion of its key."""
        return self._own().null_value

    def encryption_context(self) -> EncryptionContext | None:
        """Return how it was encrypted, or None if it was not."""
        metadata = self._opened.metadata
        return EncryptionContext(metadata) if metadata.encryption_keys else None

    def broker_publish_timestamp(self) -> int | None:
        """Return when the broker got it, in milliseconds since 1970 by the broker's clock; None if it does not tell.

        Brokers tell this, and the index, if they are set up to expose their entry metadata.
        """
        broker = self._opened.broker_metadata
        return broker.broker_timestamp if broker is not None and broker.HasField("broker_timestamp") else None

    def index(self) -> int | None:
        """Return how many messages the topic had before this one; None if the broker does not tell."""
        broker = self._opened.broker_metadata
        if broker is None or not broker.HasField("index"):
            return None
        return broker.index if self._stored is None else broker.index - self._opened.size + self._index + 1

    def replicated_from(self) -> str:
        """Return the cluster that it was published in, if it came from another one; otherwise an empty name."""
        return readable(self._opened.metadata).replicated_from

    def __repr__(self) -> str:
        return f"<Message {self.message_id()} of {self.topic_name()}: {len(self._payload):,} bytes {self._excerpt()}>"

    def _excerpt(self) -> str:
        return excerpt(bytes(self._payload[:_SHOWN]))

    def _own(self) -> SingleMessageMetadata | MessageMetadata:
        """Give the metadata that is about this message alone."""
        return self._opened.metadata if self._stored is None else metadata_of(self._stored)


_SHOWN = 40  # bytes of the payload


def messages_of(
    stored: Sequence[Stored | None], payloads: Sequence[Octets], opened: OpenedEntry, indexes: Sequence[int]
) -> list[Message]:
    """Make messages of an entry, in less time than a call for each would take."""
    # A function, as those below are, for users are to find nothing in the class that the official one lacks.
    new, messages = object.__new__, list[Message]()
    for metadata, payload, index in zip(stored, payloads, indexes, strict=True):
        message = new(Message)
        message._payload = payload  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        message._stored = metadata  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        message._opened = opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        message._index = index  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        messages.append(message)
    return messages


def place_of(message: Message) -> tuple[WireMessageId, Generation, str]:
    """Give what acknowledging goes by: the id, the past that the message belongs to, and the topic."""
    opened, index = message._opened, message._index  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if message._stored is None:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return opened.message_id, opened.generation, opened.topic
    return opened.message_id._replace(batch_index=index, batch_size=opened.size), opened.generation, opened.topic


def traits_of(message: Message) -> SingleMessageMetadata:
    """Give what a message keeps that is sent on, as its producer wrote it: its keys, its time, and whether it is null.

    Keys are bytes by nature, of which `partition_key` and `ordering_key` give no more than can be read.
    """
    own = readable(message._own())  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    traits = SingleMessageMetadata()
    if own.HasField("partition_key"):
        traits.partition_key = own.partition_key
        traits.partition_key_b64_encoded = own.partition_key_b64_encoded
    if own.HasField("ordering_key"):
        traits.ordering_key = own.ordering_key
    if own.HasField("event_time"):
        traits.event_time = own.event_time
    traits.null_value = own.null_value
    return traits
