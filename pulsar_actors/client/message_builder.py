"""Builds the message of a `send` call, in the caller's thread: checks the arguments and encodes the metadata.

The result is a payload and a tag, the two items of a send queue: see `runtime/send_queue.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias, cast

from pulsar_actors.client.message import Message, data_key_of, forwarded_metadata_of
from pulsar_actors.client.schema import KeyedPayload, Schema
from pulsar_actors.client.validation import flag, instance_of, is_text, optional, properties, refusal_of, whole_number
from pulsar_actors.compiling import Given
from pulsar_actors.exceptions import InvalidMessage, WrongContent
from pulsar_actors.runtime.send_queue import MessageHeader, UnbatchableOptions, new_message_header
from pulsar_actors.wire.fast_encode import encode_single_message
from pulsar_actors.wire.protobuf import BytesLike, as_bytes

MAX_INT64 = 2**63 - 1
_MILLISECOND = timedelta(milliseconds=1)
LOCAL_CLUSTER_ONLY = "__local__"
"""As the only cluster in `replicate_to`, this name prevents the replication of a message."""

_sequence_id = optional(whole_number(0, MAX_INT64))
_timestamp = optional(whole_number(0, MAX_INT64, "milliseconds since 1970"))
_delay = optional(instance_of(timedelta))


MessageOptions: TypeAlias = tuple[
    Given[dict[str, str] | None],  # properties
    Given[str | None],  # partition_key
    Given[str | None],  # ordering_key
    Given[int | None],  # sequence_id
    Given[list[str] | None],  # replication_clusters
    Given[bool],  # disable_replication
    Given[int | None],  # event_timestamp
    Given[int | None],  # deliver_at
    Given[timedelta | None],  # deliver_after
]
"""The options of a message, in the order of `send`'s arguments.

A named tuple would take five times as long to create.
"""

NO_OPTIONS: MessageOptions = (None, None, None, None, None, False, None, None, None)
_RARE_OPTIONS = slice(3, None)
_PARTITION_KEY = 1
_DISABLE_REPLICATION = 5
_NO_RARE_OPTIONS = NO_OPTIONS[_RARE_OPTIONS]


def build_message(
    schema: Any,  # noqa: ANN401 - see below
    content: object,
    options: MessageOptions,
    reply: object,
    now_ms: Callable[[], int],
) -> tuple[bytes, object]:
    """Build the payload and the tag of a message.

    For most messages, which have no options, this takes very little time. `schema` is a Schema. But a user's may make
    anything, and compiled code would refuse what does not have the declared type.
    """
    payload = b"" if content is None else schema.encode_message(content)
    if type(payload) is not bytes:
        if type(payload) is KeyedPayload:
            return _build_keyed_message(payload, options, reply, now_ms)
        payload = _as_bytes(payload, schema)
    if options == NO_OPTIONS and content is not None and options[_DISABLE_REPLICATION] is False:  # a 0 is equal to it
        return payload, reply
    return payload, build_header(len(payload), options, reply, now_ms, is_null=content is None)


def _build_keyed_message(
    keyed: KeyedPayload, options: MessageOptions, reply: object, now_ms: Callable[[], int]
) -> tuple[bytes, object]:
    """Build the message of a schema whose values have the key. The user may not choose another."""
    if options[_PARTITION_KEY] is not None:
        raise InvalidMessage("the schema gives the message its key: leave out partition_key")
    payload, is_null = keyed.payload or b"", keyed.payload is None
    properties_given, _, *others = options
    with_key: Any = (properties_given, keyed.key, *others)
    return payload, build_header(len(payload), with_key, reply, now_ms, is_null=is_null, key_is_null=keyed.key is None)


def build_forwarded_message(
    message: Message, marks: Mapping[str, str], deliver_at_ms: int | None, reply: object
) -> tuple[bytes, object]:
    """Build payload and tag of a received message that is sent to another topic.

    It keeps all metadata but its properties. If it was encrypted, it is encrypted again with the same data key: so the
    same private keys decrypt it, and no public key is needed.
    """
    payload, single, data_key = message.data(), forwarded_metadata_of(message), data_key_of(message)
    single.payload_size = len(payload)
    for key, value in marks.items():
        single.properties.add(key=key, value=value)
    is_plain = deliver_at_ms is None and data_key is None
    return payload, MessageHeader.of(
        single, None if is_plain else UnbatchableOptions(deliver_at_ms, data_key=data_key), reply
    )


def _as_bytes(payload: object, schema: Schema) -> bytes:
    try:
        return as_bytes(cast("BytesLike", payload))
    except TypeError:
        raise WrongContent(
            f"{schema!r} is to make bytes of a message's content, and made {type(payload).__name__}"
        ) from None


def build_header(
    size: int,
    options: MessageOptions,
    reply: object,
    now_ms: Callable[[], int],
    *,
    is_null: bool = False,
    key_is_null: bool | None = None,
) -> MessageHeader:
    """Check the options of a message and encode them.

    A schema that gives the message its key, in base 64, says with `key_is_null` whether there is one.
    """
    pairs, given_key, given_order, sequence_id, _, disable_replication, event_time, _, _ = options
    if type(pairs) is not dict:
        properties("properties", pairs)
    if type(given_key) is str and given_key.isascii():  # `_key`, without its calls
        key = given_key or None
    else:
        key = None if given_key is None else _key("partition_key", given_key)
    order = None if given_order is None else _key("ordering_key", given_order)
    ordering_key = None if order is None else order.encode()
    unbatchable = None
    if disable_replication is not False or options[_RARE_OPTIONS] != _NO_RARE_OPTIONS:
        _sequence_id("sequence_id", sequence_id)
        _timestamp("event_timestamp", event_time)
        unbatchable = _unbatchable_options(options, now_ms)
    try:
        metadata = encode_single_message(
            size,
            pairs,
            key,
            ordering_key,
            sequence_id,
            event_time,
            null_value=is_null,
            key_is_base64=key_is_null is False,
            null_key=key_is_null is True,
        )
    except (AttributeError, TypeError, UnicodeEncodeError):
        properties("properties", pairs)  # raises a better error; called only then, for speed
        raise
    return new_message_header((metadata, key, ordering_key, sequence_id, unbatchable, reply, None, None))


def _key(name: str, value: object) -> str | None:
    """Check a key. An empty key counts as none, as in the official client."""
    if is_text(value):
        return cast("str", value) or None
    raise refusal_of(name, value, "a str of Unicode text, or None")


def _unbatchable_options(options: MessageOptions, now_ms: Callable[[], int]) -> UnbatchableOptions | None:
    _, _, _, _, replication_clusters, disable_replication, _, at, deliver_after = options
    flag("disable_replication", disable_replication)
    clusters = _clusters(replication_clusters)
    if disable_replication:
        clusters = (LOCAL_CLUSTER_ONLY,)
    _timestamp("deliver_at", at)
    _delay("deliver_after", deliver_after)
    if deliver_after is not None:
        at = max(0, now_ms() + deliver_after // _MILLISECOND)
    return None if at is None and not clusters else UnbatchableOptions(at, clusters)


def _clusters(given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    names = cast("Sequence[Any]", given)
    if not isinstance(given, (list, tuple)) or not all(name and is_text(name) for name in names):
        raise refusal_of("replication_clusters", names, "a list of the names of clusters, or None")
    return tuple(cast("Sequence[str]", names))
