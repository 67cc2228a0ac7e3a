"""The admin calls for subscriptions, and for the messages in a topic.

On a partitioned topic most calls act on each partition. Calls for a single entry are refused, because an entry is in
one partition.

The answer for a message has the payload as its body, and all other fields in headers. The payload is uncompressed. A
batch is not split; a header has its number of messages, and Pulsar's tools split it.
"""

import base64
import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Final

from pulsar_actors.broker.model.entry import EARLIEST_POSITION, LATEST_POSITION, Position, StoredEntry
from pulsar_actors.broker.model.interfaces import Missing
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.web.calls import Route, WebCall, as_object, as_strings
from pulsar_actors.broker.web.http import NO_CONTENT, Headers, HttpRefusal, Response, json_response
from pulsar_actors.exceptions import WireError
from pulsar_actors.wire.batch import is_batch
from pulsar_actors.wire.compression import decompress
from pulsar_actors.wire.entries import Entry, parse_entry
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.protobuf import readable, signed
from pulsar_actors.wire.PulsarApi_pb2 import CompressionType, MessageMetadata
from pulsar_actors.wire.transaction_id import TransactionId, transaction_in

__all__ = ["SUBSCRIPTION_ROUTES", "batch_size"]


_START_POSITIONS = {"earliest": EARLIEST_POSITION, "latest": LATEST_POSITION}
_MAX_ID = 2**63 - 1


def _list_subscriptions(call: WebCall) -> Response:
    names = {name: None for topic in call.topics() for name in topic.subscriptions}
    return json_response(list(names))


def _create_subscription(call: WebCall) -> Response:
    """Create a subscription at the position in the body, or at the end. A missing topic is created."""
    name = call.topic_name()
    at, properties = _start_and_properties(call.value())
    if not name.is_persistent:
        raise HttpRefusal(400, "Create subscription on non-persistent topic can only be done through client")
    if call.partition_count() == 0:
        call.cluster.open_topic(name)
    subscription = call.parts["subscription"]
    topics = [topic for topic in call.topics() if subscription not in topic.subscriptions]
    if not topics:
        raise HttpRefusal(409, "Subscription already exists for topic")
    for topic in topics:
        topic.create_subscription(subscription, at=at, properties=properties)
    return NO_CONTENT


def _start_and_properties(value: object) -> tuple[Position, dict[str, str]]:
    """Read the position at which a subscription begins, and its properties."""
    if value is None:
        return LATEST_POSITION, {}
    if isinstance(value, str):
        if value not in _START_POSITIONS:
            raise HttpRefusal(
                400, f"Invalid value {excerpt(value)} for the position. Allowed values are {list(_START_POSITIONS)}"
            )
        return _START_POSITIONS[value], {}
    properties = as_object(value, "where it begins").get("properties")
    return _position(value), as_strings(properties, "the value of its properties")


def _position(value: object) -> Position:
    """Read a message id."""
    given = as_object(value, "a message id")
    ledger, entry = given.get("ledgerId"), given.get("entryId")
    if not (type(ledger) is int and type(entry) is int and -1 <= ledger <= _MAX_ID and -1 <= entry <= _MAX_ID):
        raise HttpRefusal(400, f"ledgerId and entryId are whole numbers from -1 on, not {excerpt((ledger, entry))}")
    return Position(ledger, entry + 1 if given.get("excluded") else entry)


def _delete_subscription(call: WebCall) -> Response:
    found = _subscriptions_of(call)
    if not call.flag("force") and any(subscription.consumers for _, subscription in found):
        raise HttpRefusal(412, "Subscription has active connected consumers")
    for topic, subscription in found:
        topic.delete_subscription(subscription.name, force=True)
    return NO_CONTENT


def _subscriptions_of(call: WebCall) -> list[tuple[Topic, Subscription]]:
    """Find the subscription in each partition that has it."""
    name = call.parts["subscription"]
    topics = call.topics()
    found = [(topic, topic.subscriptions[name]) for topic in topics if name in topic.subscriptions]
    if not found:
        raise HttpRefusal(404, f"Subscription {name} not found for topic {call.topic_name()}")
    return found


def _refuse_non_persistent(call: WebCall, what: str) -> None:
    """Refuse calls that need stored messages."""
    if call.parts["domain"] != "persistent":
        raise HttpRefusal(405, f"{what} on a non-persistent topic is not allowed")


def _skip(call: WebCall) -> Response:
    if call.partition_count():
        raise HttpRefusal(405, "Skip messages on a partitioned topic is not allowed")
    _refuse_non_persistent(call, "Skip messages")
    count = call.number("number")
    for _, subscription in _subscriptions_of(call):
        subscription.skip(max(0, count))
    return NO_CONTENT


def _skip_all(call: WebCall) -> Response:
    _refuse_non_persistent(call, "Skip messages")
    for _, subscription in _subscriptions_of(call):
        subscription.skip()
    return NO_CONTENT


def _reset_to_time(call: WebCall) -> Response:
    timestamp = call.number("timestamp")
    for _, subscription in _subscriptions_of(call):
        subscription.reset_to_time(timestamp)
    return NO_CONTENT


def _reset_to_position(call: WebCall) -> Response:
    """Move the subscription to a message, or to the position after it."""
    if call.partition_count():
        raise HttpRefusal(405, "Reset-cursor at position is not allowed for partitioned-topic")
    position = _position(call.value())
    for _, subscription in _subscriptions_of(call):
        subscription.reset(position)
    return NO_CONTENT


def _expire(call: WebCall) -> Response:
    _refuse_non_persistent(call, "Expire messages")
    seconds = call.number("seconds")
    for _, subscription in _subscriptions_of(call):
        subscription.expire(seconds)
    return NO_CONTENT


def _expire_all(call: WebCall) -> Response:
    _refuse_non_persistent(call, "Expire messages")
    seconds = call.number("seconds")
    for topic in call.topics():
        for subscription in topic.subscriptions.values():
            subscription.expire(seconds)
    return NO_CONTENT


_BINARY = "application/octet-stream"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def batch_size(topic: Topic, position: Position) -> int:
    """Return the number of messages in the batch at a position; 0 if there is no entry, or no batch."""
    try:
        stored = topic.entry_at(position)
        metadata = parse_entry(stored.data).metadata
    except (Missing, WireError):
        return 0
    return metadata.num_messages_in_batch if is_batch(metadata) else 0


def _peek_message(call: WebCall) -> Response:
    """Show the nth unacknowledged message of a subscription."""
    if call.partition_count():
        raise HttpRefusal(405, "Peek messages on a partitioned topic is not allowed")
    topic = call.topic()
    if not topic.name.is_persistent:
        raise HttpRefusal(405, "PeekMessages on a non-persistent topic is not allowed")
    number = call.number("number")
    if number < 1:
        raise HttpRefusal(400, f"messages are counted from 1, not from {number}")
    try:
        return _message_response(topic, _find_subscription(call, topic).peek(number))
    except Missing as missing:
        raise HttpRefusal(404, "Message not found") from missing


def _find_subscription(call: WebCall, topic: Topic) -> Subscription:
    subscription = topic.subscriptions.get(call.parts["subscription"])
    if subscription is None:
        raise HttpRefusal(404, f"Subscription {call.parts['subscription']} not found for topic {topic.name}")
    return subscription


def _get_message(call: WebCall) -> Response:
    """Show the message with an id."""
    topic = call.topic()
    position = Position(call.number("ledger"), call.number("entry"))
    try:
        return _message_response(topic, topic.entry_at(position))
    except Missing as missing:
        raise HttpRefusal(404, "Message id not found") from missing


def _message_response(topic: Topic, stored: StoredEntry) -> Response:
    try:
        entry = parse_entry(stored.data)
        payload = _uncompressed_payload(entry)
    except WireError as fault:
        raise HttpRefusal(500, f"what is stored there cannot be read: {fault}") from fault
    return Response(200, payload, _BINARY, _message_headers(topic, stored, entry.metadata))


def _uncompressed_payload(entry: Entry) -> bytes:
    metadata = entry.metadata
    if metadata.compression == CompressionType.NONE or metadata.encryption_keys:
        return entry.payload
    size = metadata.uncompressed_size
    return bytes(decompress(metadata.compression, entry.payload, size, size))


def _message_headers(topic: Topic, stored: StoredEntry, metadata: MessageMetadata) -> Headers:
    """Write the metadata of a message as headers."""
    transaction = transaction_in(metadata)
    is_readable = stored.offset < topic.managed_ledger.readable_end
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
        ("X-Pulsar-sequence-id", str(signed(metadata.sequence_id))),
        *(_transaction_headers(topic, metadata, transaction) if transaction is not None else ()),
        ("X-Pulsar-txn-uncommitted", "false" if is_readable else "true"),
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


def _transaction_headers(
    topic: Topic, metadata: MessageMetadata, transaction: TransactionId
) -> Iterator[tuple[str, str]]:
    if metadata.HasField("marker_type"):
        yield "X-Pulsar-marker-type", str(metadata.marker_type)
    yield "X-Pulsar-txnid-least-bits", str(transaction.least)
    yield "X-Pulsar-txnid-most-bits", str(transaction.most)
    yield "X-Pulsar-txn-aborted", "true" if transaction in topic.transaction_buffer.aborted else "false"


def _instant(milliseconds: int) -> str:
    """Write a time as ISO 8601. A time beyond the calendar is written as a number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


_TOPIC_PATH = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_SUBSCRIPTION_PATH = f"{_TOPIC_PATH}/subscription/{{subscription}}"
SUBSCRIPTION_ROUTES: Final = (
    Route("GET", f"{_TOPIC_PATH}/subscriptions", _list_subscriptions),
    Route("PUT", _SUBSCRIPTION_PATH, _create_subscription),
    Route("DELETE", _SUBSCRIPTION_PATH, _delete_subscription),
    Route("POST", f"{_SUBSCRIPTION_PATH}/skip/{{number}}", _skip),
    Route("POST", f"{_SUBSCRIPTION_PATH}/skip_all", _skip_all),
    Route("POST", f"{_SUBSCRIPTION_PATH}/resetcursor/{{timestamp}}", _reset_to_time),
    Route("POST", f"{_SUBSCRIPTION_PATH}/resetcursor", _reset_to_position),
    Route("POST", f"{_SUBSCRIPTION_PATH}/expireMessages/{{seconds}}", _expire),
    Route("POST", f"{_TOPIC_PATH}/all_subscription/expireMessages/{{seconds}}", _expire_all),
    Route("GET", f"{_SUBSCRIPTION_PATH}/position/{{number}}", _peek_message),
    Route("GET", f"{_TOPIC_PATH}/ledger/{{ledger}}/entry/{{entry}}", _get_message),
)
