"""Opening an entry: verify it, inflate it, split it.

The thread that uses the messages does this, not the loop; but for those that a future waits for, and for dead letters.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pulsar_actors.machines.entry_intake import Delivery
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.wire.batch import Stored, is_batch, metadata_of, split_columns
from pulsar_actors.wire.compression import ZSTD, decompress
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.octets import Octets
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata

MOST_SQUEEZED = 1032
"""How far ZLIB squeezes at best, LZ4 and SNAPPY less..."""

MOST_SQUEEZED_BY_ZSTD = 32 * 1024
"""...and ZSTD, which has four bytes for a block of 128 KiB."""

LARGEST = 2**30
"""In bytes. What is said to inflate to more is refused; so is what no codec can have squeezed so far."""

_PLACES: Final = tuple(range(1000))

Decode = Callable[[bytes], object]
Make = Callable[[Sequence[Stored | None], Sequence[Octets], "Opened", Sequence[int]], list[Any]]
"""Makes messages of one entry: of their own metadata, if they came in a batch, their payloads, what they share, and
their places there."""


class Opened:
    """What the messages of one entry have in common. `size` is that of the batch, 0 if it is none.

    `acknowledged` has the places of messages whose acknowledgement was left here, and not taken out yet; `is_left` says
    that somebody will (`ack_box.py`).
    """

    __slots__ = (
        "_decode", "acknowledged", "broker_metadata", "generation", "is_left", "message_id", "metadata",
        "redelivery_count", "size", "topic",
    )  # fmt: skip

    def __init__(self, delivery: Delivery, generation: Generation, topic: str, decode: Decode) -> None:
        entry = delivery.entry
        self.message_id: MessageId = delivery.message_id
        self.metadata: MessageMetadata = entry.metadata
        self.broker_metadata = entry.broker_metadata
        self.redelivery_count = delivery.redelivery_count
        self.size = entry.metadata.num_messages_in_batch if is_batch(entry.metadata) else 0
        self.generation = generation
        self.topic = topic
        self._decode = decode
        self.acknowledged: list[int] = []
        self.is_left = False

    def decode(self, payload: bytes) -> object:
        """Make a value of a payload, as the schema does."""
        return self._decode(payload)

    def id_of(self, index: int) -> MessageId:
        """Give the id of one of the messages."""
        return self.message_id._replace(batch_index=index, batch_size=self.size) if self.size else self.message_id


class Contents(NamedTuple):
    """The messages of an entry that are to be handed out: what `Make` takes, and how many there are beside them."""

    stored: Sequence[Stored | None]
    payloads: Sequence[Octets]
    entry: Opened
    indexes: Sequence[int]
    left_out: int = 0


def open_entry(delivery: Delivery, opened: Opened, limit: int, *, compacted: bool) -> Contents:
    """Give the messages of an entry; an EntryError says that it is corrupt, and then there are none."""
    payload = _inflated(delivery, limit)
    if not opened.size:
        return Contents([None], [payload], opened, [0])
    stored, payloads = split_columns(payload, opened.size)
    indexes: Sequence[int] = places(0, opened.size)
    wanted = delivery.wanted
    if wanted.bit_count() != opened.size or compacted:
        indexes = [index for index in indexes if wanted >> index & 1]
        if compacted:
            indexes = [index for index in indexes if not metadata_of(stored[index]).compacted_out]
        stored, payloads = [stored[index] for index in indexes], [payloads[index] for index in indexes]
    return Contents(stored, payloads, opened, indexes, delivery.messages - len(indexes))


def places(start: int, stop: int) -> tuple[int, ...]:
    """Give places in a batch: for most batches, numbers that are there already, not made and forgotten for each."""
    return _PLACES[start:stop] if stop <= len(_PLACES) else tuple(range(start, stop))


def _inflated(delivery: Delivery, limit: int) -> Octets:
    metadata = delivery.entry.metadata
    if metadata.num_chunks_from_msg <= 1:  # chunks were verified when they were put together
        delivery.entry.verify()
    most = MOST_SQUEEZED_BY_ZSTD if metadata.compression == ZSTD else MOST_SQUEEZED
    limit = max(limit, min(LARGEST, most * len(delivery.payload)))  # brokers limit what is squeezed
    return decompress(metadata.compression, delivery.payload, metadata.uncompressed_size, limit)
