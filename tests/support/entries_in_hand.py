"""Entries as a consumer's machine delivers them, built by a test."""

from typing import Any

from pulsar_actors.machines.incoming_entries import DeliveredEntry
from pulsar_actors.wire.batch import encode_batch
from pulsar_actors.wire.compression import compress
from pulsar_actors.wire.entries import encode_entry, parse_entry
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CompressionType, MessageMetadata, SingleMessageMetadata


def single(entry_id: int, payload: bytes = b"payload", *, broken: bool = False, **metadata: Any) -> DeliveredEntry:
    """Return an entry that is one message."""
    return _delivery(entry_id, payload, 1, broken=broken, **metadata)


def batch(
    entry_id: int, *payloads: bytes, wanted: int | None = None, compacted_out: tuple[int, ...] = (), **metadata: Any
) -> DeliveredEntry:
    """Return an entry of several messages. `wanted` is the bit set of the messages to hand out."""
    messages = [
        (SingleMessageMetadata(payload_size=len(payload), compacted_out=index in compacted_out), payload)
        for index, payload in enumerate(payloads)
    ]
    everything = (1 << len(payloads)) - 1
    metadata.setdefault("num_messages_in_batch", len(payloads))
    return _delivery(entry_id, encode_batch(messages), everything if wanted is None else wanted, **metadata)


def _delivery(entry_id: int, payload: bytes, wanted: int, *, broken: bool = False, **metadata: Any) -> DeliveredEntry:
    meta = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **metadata)
    if meta.compression != CompressionType.NONE:
        if not meta.HasField("uncompressed_size"):
            meta.uncompressed_size = len(payload)
        payload = bytes(compress(meta.compression, payload))
    stored = bytearray(b"".join(encode_entry(meta, payload)))
    if broken:
        stored[-1] ^= 1
    entry = parse_entry(bytes(stored))
    return DeliveredEntry(MessageId(1, entry_id), entry, wanted, redelivery_count=2)
