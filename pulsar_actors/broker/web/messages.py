"""Messages, as the admin interface shows them: the payload is the body, and all else is in headers.

A payload is given out inflated, but not cut: the messages of a batch come as they lie in it, with their number in a
header. So Pulsar does it, and its tools take batches apart themselves.
"""

import base64
import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Final

from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.position import Position
from pulsar_actors.broker.model.refusal import Missing
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import Headers, Response
from pulsar_actors.broker.web.routes import Route
from pulsar_actors.exceptions import WireError
from pulsar_actors.wire.batch import is_batch
from pulsar_actors.wire.compression import decompress
from pulsar_actors.wire.entries import Entry, open_entry
from pulsar_actors.wire.PulsarApi_pb2 import CompressionType, MessageMetadata
from pulsar_actors.wire.strings import readable

__all__ = ["MESSAGE_ROUTES", "batch_size"]

_BINARY = "application/octet-stream"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def batch_size(topic: Topic, position: Position) -> int:
    """Tell how many messages the batch holds that is stored there; 0 where there is none, or no batch."""
    try:
        stored = topic.entry_at(position)
        metadata = open_entry(memoryview(stored.data)).metadata
    except (Missing, WireError):
        return 0
    return metadata.num_messages_in_batch if is_batch(metadata) else 0


def _peek(call: Call) -> Response:
    """Show the nth message that a subscription has not acknowledged."""
    if call.partition_count():
        raise HttpRefusal(405, "Peek messages on a partitioned topic is not allowed")
    topic = call.topic()
    if not topic.name.is_persistent:
        raise HttpRefusal(405, "PeekMessages on a non-persistent topic is not allowed")
    number = call.number("number")
    if number < 1:
        raise HttpRefusal(400, f"messages are counted from 1, not from {number}")
    try:
        return _show(_subscription(call, topic).peek(number))
    except Missing as missing:
        raise HttpRefusal(404, "Message not found") from missing


def _subscription(call: Call, topic: Topic) -> Subscription:
    subscription = topic.subscriptions.get(call.parts["subscription"])
    if subscription is None:
        raise HttpRefusal(404, f"Subscription {call.parts['subscription']} not found for topic {topic.name}")
    return subscription


def _show_stored(call: Call) -> Response:
    """Show the message of an id."""
    topic = call.topic()
    position = Position(call.number("ledger"), call.number("entry"))
    try:
        return _show(topic.entry_at(position))
    except Missing as missing:
        raise HttpRefusal(404, "Message id not found") from missing


def _show(stored: StoredEntry) -> Response:
    try:
        entry = open_entry(memoryview(stored.data))
        payload = _inflated(entry)
    except WireError as fault:
        raise HttpRefusal(500, f"what is stored there cannot be read: {fault}") from fault
    return Response(200, payload, _BINARY, _headers(stored, entry.metadata))


def _inflated(entry: Entry) -> bytes:
    metadata = entry.metadata
    if metadata.compression == CompressionType.NONE or metadata.encryption_keys:
        return bytes(entry.payload)
    size = metadata.uncompressed_size
    return bytes(decompress(metadata.compression, entry.payload, size, size))


def _headers(stored: StoredEntry, metadata: MessageMetadata) -> Headers:
    """Say of the message what its metadata says."""
    position = stored.position
    metadata = readable(metadata)
    properties = {pair.key: pair.value for pair in metadata.properties}
    headers = [
        ("X-Pulsar-Message-ID", f"{position.ledger_id}:{position.entry_id}"),
        ("X-Pulsar-PROPERTY", json.dumps(properties, separators=(",", ":"), ensure_ascii=False)),
        ("X-Pulsar-publish-time", _instant(metadata.publish_time)),
        *_optional_headers(metadata),
        ("X-Pulsar-Is-Encrypted", "true" if metadata.encryption_keys else "false"),
        ("X-Pulsar-producer-name", metadata.producer_name),
        ("X-Pulsar-sequence-id", str(metadata.sequence_id)),
        ("X-Pulsar-txn-uncommitted", "false"),
    ]
    if is_batch(metadata):
        headers.append(("X-Pulsar-num-batch-message", str(metadata.num_messages_in_batch)))
        headers.append(("X-Pulsar-batch-size", str(len(stored.data) - metadata.ByteSize())))
    return tuple(headers)


def _optional_headers(metadata: MessageMetadata) -> Iterator[tuple[str, str]]:
    if metadata.event_time:
        yield "X-Pulsar-event-time", _instant(metadata.event_time)
    if metadata.deliver_at_time:
        yield "X-Pulsar-deliver-at-time", _instant(metadata.deliver_at_time)
    if metadata.null_value:
        yield "X-Pulsar-null-value", "true"
    if metadata.compression != CompressionType.NONE:
        yield "X-Pulsar-compression", CompressionType.Name(metadata.compression)
        yield "X-Pulsar-uncompressed-size", str(metadata.uncompressed_size)
    if metadata.HasField("partition_key"):
        yield "X-Pulsar-partition-key", metadata.partition_key
    if metadata.HasField("ordering_key"):
        yield "X-Pulsar-Base64-ordering-key", base64.b64encode(metadata.ordering_key).decode()
    if metadata.HasField("schema_version"):
        yield "X-Pulsar-Base64-schema-version", base64.b64encode(metadata.schema_version).decode()


def _instant(milliseconds: int) -> str:
    """Write a time as ISO 8601; one that no calendar reaches is written as the number it is."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


_TOPIC = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
MESSAGE_ROUTES: Final = (
    Route("GET", f"{_TOPIC}/subscription/{{subscription}}/position/{{number}}", _peek),
    Route("GET", f"{_TOPIC}/ledger/{{ledger}}/entry/{{entry}}", _show_stored),
)
