"""A producer that is connected to a topic, or waits for it."""

from typing import Any, Protocol

from pulsar_actors.broker.model.links import Address, ProducerLink
from pulsar_actors.broker.model.position import Position
from pulsar_actors.broker.model.requests import ProducerRequest
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata


class Publishing(Protocol):
    """The topic, as its producers see it."""

    def store(
        self, producer: "Producer", data: bytes, metadata: MessageMetadata, first_sequence: int, last_sequence: int
    ) -> Position:
        """Store an entry and dispatch it."""
        ...

    def remove_producer(self, producer: "Producer") -> None:
        """Let the producer go."""
        ...

    def stats_of(self, producer: "Producer") -> dict[str, Any]:
        """Give the statistics of one producer."""
        ...


class Producer:
    """One producer. Made by `Topic.add_producer`.

    `last_sequence_id` is the highest of this name that the topic has, -1 for none; it is only known where deduplication
    is on. `ready` is false while it waits for the topic to be free (WaitForExclusive). `schema_version` is as on the
    wire, and None for a producer without a schema.
    """

    __slots__ = (
        "_topic",
        "bytes_in",
        "chunks_in",
        "connected",
        "connected_ms",
        "last_sequence_id",
        "link",
        "messages_in",
        "name",
        "ready",
        "request",
        "schema_version",
        "topic_epoch",
    )

    def __init__(self, request: ProducerRequest, link: ProducerLink, topic: Publishing, name: str, now_ms: int) -> None:
        self.request = request
        self.link = link
        self.name = name
        self.connected = True
        self.ready = True
        self.last_sequence_id = -1
        self.topic_epoch = request.topic_epoch
        self.schema_version: bytes | None = None
        self.connected_ms = now_ms
        self.messages_in = self.bytes_in = self.chunks_in = 0
        self._topic = topic

    def publish(
        self, data: bytes, metadata: MessageMetadata, *, sequence_id: int, highest_sequence_id: int
    ) -> Position:
        """Store an entry and dispatch it; EARLIEST says that it was dropped as a duplicate, Refusal why it was refused.

        Sequence ids are those of the command; a highest one below the other counts as absent. The caller has checked
        the checksum.
        """
        return self._topic.store(self, data, metadata, sequence_id, max(sequence_id, highest_sequence_id))

    def stats(self) -> dict[str, Any]:
        """Give what the statistics of a topic say of it, under Pulsar's names."""
        return self._topic.stats_of(self)

    def is_successor_of(self, other: "Producer") -> bool:
        """Tell whether it is the same producer of the same connection once more."""
        mine, theirs = self.request, other.request
        return (
            mine.connection == theirs.connection
            and mine.producer_id == theirs.producer_id
            and mine.epoch > theirs.epoch
        )

    def close(self) -> None:
        """Let it go, at its own wish or because its connection ended. Doing it again does nothing."""
        if self.connected:
            self.connected = False
            self._topic.remove_producer(self)

    def dismiss(self, moved_to: Address | None) -> None:
        """Let it go, and tell it."""
        self.close()
        self.link.closed(moved_to)
