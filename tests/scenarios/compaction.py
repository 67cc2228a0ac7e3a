"""Compaction, which the embedded broker has not: of what was stored before, the last value of each key is left.

It is as in Pulsar. Who reads the compacted topic gets an entry as it is left, with the same id: in a batch, messages
that are gone are marked so; of other entries nothing comes. Messages without a key, and deletions, are gone as well.
The topic's last message is that of what is left, unless something came after the compaction.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any
from unittest import mock

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.model.entry import EARLIEST_POSITION, Position, StoredEntry
from pulsar_actors.broker.model.managed_ledger import ManagedLedger
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.wire.batch import encode_batch, metadata_of, split_batch
from pulsar_actors.wire.compression import NONE, decompress
from pulsar_actors.wire.entries import decode_entry, encode_entry
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata, SingleMessageMetadata
from tests.scenarios.scene import NAMESPACE, Scene

GONE = SingleMessageMetadata(payload_size=0, compacted_out=True)
NUMBER = "number"
Place = tuple[int, int]
"""The offset of an entry, and the index of a message in it."""


class CompactedLedger:
    """The entries of a topic, as those see them who read what compaction has left."""

    def __init__(self, ledger: ManagedLedger) -> None:
        self._ledger = ledger
        self._left: list[StoredEntry] = []
        self.left: set[Place] = set()
        """The messages that are left of those that were compacted."""
        self.gone: set[int] = set()
        """The numbers of the others: each message has one in its properties."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def entry(self, offset: int) -> StoredEntry:
        return self._left[offset] if offset < len(self._left) else self._ledger.entry(offset)

    @property
    def last_message(self) -> tuple[Position, int]:
        """The last message, if something is there that was not compacted; or the last of those that are left."""
        if self._ledger.end > len(self._left):
            return self._ledger.last_message
        offset, index = max(self.left, default=(-1, -1))
        if offset < 0:
            return EARLIEST_POSITION, -1
        entry = self._left[offset]
        return entry.position, index if entry.messages > 1 else -1

    def compact(self) -> None:
        """Leave the last value of each key."""
        assert not self._ledger.base
        last: dict[str, Place] = {}
        numbers: dict[Place, int] = {}
        for offset in range(self._ledger.end):
            for index, (metadata, payload) in enumerate(messages_of(self._ledger.entry(offset))):
                numbers[offset, index] = number_of(metadata)
                if not metadata.HasField("partition_key"):
                    continue
                last.pop(metadata.partition_key, None)
                if payload:
                    last[metadata.partition_key] = (offset, index)
        self.left = set(last.values())
        self.gone = {number for place, number in numbers.items() if place not in self.left}
        self._left = [self._left_of(self._ledger.entry(offset)) for offset in range(self._ledger.end)]

    def _left_of(self, entry: StoredEntry) -> StoredEntry:
        remaining = copy(entry)
        kept = [(entry.offset, index) in self.left for index in range(entry.messages)]
        remaining.is_hidden = entry.is_hidden or not any(kept)
        if entry.is_batch:
            metadata = MessageMetadata()
            metadata.CopyFrom(decode_entry(entry.data).metadata)
            metadata.ClearField("compression")
            metadata.ClearField("uncompressed_size")
            metadata.compacted_batch_indexes.extend(index for index, is_kept in enumerate(kept) if is_kept)
            messages = zip(kept, messages_of(entry), strict=True)
            payload = encode_batch(message if is_kept else (GONE, b"") for is_kept, message in messages)
            remaining.data = b"".join(encode_entry(metadata, payload))
        return remaining


def messages_of(stored: StoredEntry) -> list[tuple[Any, bytes]]:
    """Return the metadata and the payload of each message of an entry."""
    entry = decode_entry(stored.data)
    payload = entry.payload
    if entry.metadata.compression != NONE:
        payload = memoryview(decompress(entry.metadata.compression, payload, entry.metadata.uncompressed_size, 1 << 20))
    if not stored.is_batch:
        return [(entry.metadata, bytes(payload))]
    return [(metadata_of(metadata), bytes(each)) for metadata, each in split_batch(payload, stored.messages)]


def number_of(metadata: Any) -> int:
    """Return the number of a message; -1 if it has none."""
    return next((int(pair.value) for pair in metadata.properties if pair.key == NUMBER), -1)


class Compaction:
    """What compaction has left of the topics of a scene."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._ledgers: dict[str, CompactedLedger] = {}

    def of(self, topic: Topic) -> CompactedLedger:
        return self._ledgers.setdefault(str(topic.name), CompactedLedger(topic.managed_ledger))

    def compact_all(self, broker: Broker) -> None:
        """Compact all topics. Called on the broker's loop."""
        self._scene.troubled["compaction"] += 1
        self._scene.world.note("TROUBLE compaction")
        for topic in broker.cluster.namespace(NAMESPACE).topics.values():
            self.of(topic).compact()

    def gone(self, name: str) -> set[int]:
        """Return the numbers of the messages of a topic that were compacted away."""
        ledger = self._ledgers.get(name)
        return set() if ledger is None else ledger.gone


@contextmanager
def compaction(scene: Scene) -> Iterator[Compaction]:
    """Let the broker compact."""
    compacting, subscribe = Compaction(scene), Topic.subscribe

    def subscribe_compacted(topic: Topic, request: Any, link: Any) -> Any:
        consumer = subscribe(topic, request, link)
        if request.read_compacted:
            cursor = topic.subscriptions[request.subscription].cursor
            cursor.managed_ledger = compacting.of(topic)  # type: ignore[assignment]
        return consumer

    with mock.patch.object(Topic, "subscribe", subscribe_compacted):
        yield compacting
