"""One call of `send` into what leaves: the arguments checked, the metadata written, in the caller's thread.

A received message that is sent on keeps what it says of itself, but for its properties.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias, cast

from pulsar_actors.client.arguments import (
    flag,
    instance_of,
    is_text,
    optional,
    properties,
    refusal_of,
    whole_number,
)
from pulsar_actors.client.message import Message, traits_of
from pulsar_actors.client.schema import Schema
from pulsar_actors.exceptions import WrongContent
from pulsar_actors.runtime.outgoing import Alone, Said, new_said
from pulsar_actors.wire.octets import Octets, octets
from pulsar_actors.wire.single_message import encode_single_message

HIGHEST = 2**63 - 1
NOWHERE_ELSE = "__local__"
"""The cluster to which a message is to be replicated that is not to be replicated."""

_sequence_id = optional(whole_number(0, HIGHEST))
_timestamp = optional(whole_number(0, HIGHEST, "milliseconds since 1970"))
_delay = optional(instance_of(timedelta))


Extras: TypeAlias = tuple[
    dict[str, str] | None,  # properties
    str | None,  # partition_key
    str | None,  # ordering_key
    int | None,  # sequence_id
    list[str] | None,  # replication_clusters
    bool,  # disable_replication
    int | None,  # event_timestamp
    int | None,  # deliver_at
    timedelta | None,  # deliver_after
]
"""What may be said of a message besides its content, in the order of `send`. A named tuple takes five times as long."""

NOTHING: Extras = (None, None, None, None, None, False, None, None, None)
_SELDOM = slice(3, None)
_DISABLE_REPLICATION = 5
_NOTHING_SELDOM = NOTHING[_SELDOM]


def outgoing(
    schema: Schema, content: object, extras: Extras, reply: object, now_ms: Callable[[], int]
) -> tuple[bytes, object]:
    """Make what an outbox takes. Most messages say nothing of themselves, and cost next to nothing here."""
    payload = b"" if content is None else schema.encode(content)
    if type(payload) is not bytes:  # a schema of the program's may give anything
        payload = _octets_of(payload, schema)
    if extras == NOTHING and content is not None and extras[_DISABLE_REPLICATION] is False:  # a 0 is equal to it
        return payload, reply
    return payload, said(len(payload), extras, reply, now_ms, is_null=content is None)


def sent_on(
    message: Message, marks: Mapping[str, str], deliver_at_ms: int | None, reply: object
) -> tuple[bytes, object]:
    """Make the same of a received message, with other properties."""
    payload, single = message.data(), traits_of(message)
    single.payload_size = len(payload)
    for key, value in marks.items():
        single.properties.add(key=key, value=value)
    return payload, Said.of(single, None if deliver_at_ms is None else Alone(deliver_at_ms), reply)


def _octets_of(payload: object, schema: Schema) -> bytes:
    try:
        return octets(cast("Octets", payload))
    except TypeError:
        raise WrongContent(
            f"{schema!r} is to make bytes of a message's content, and made {type(payload).__name__}"
        ) from None


def said(size: int, extras: Extras, reply: object, now_ms: Callable[[], int], *, is_null: bool = False) -> Said:
    """Check what is said of a message besides its content, and write it."""
    pairs, given_key, given_order, sequence_id, _, disable_replication, event_time, _, _ = extras
    if type(pairs) is not dict:
        properties("properties", pairs)
    key = None if given_key is None else _key("partition_key", given_key)
    order = None if given_order is None else _key("ordering_key", given_order)
    ordering_key = None if order is None else order.encode()
    alone = None
    if disable_replication is not False or extras[_SELDOM] != _NOTHING_SELDOM:
        _sequence_id("sequence_id", sequence_id)
        _timestamp("event_timestamp", event_time)
        alone = _alone(extras, now_ms)
    try:
        metadata = encode_single_message(size, pairs, key, ordering_key, sequence_id, event_time, null_value=is_null)
    except (AttributeError, TypeError, UnicodeEncodeError):
        properties("properties", pairs)  # says what is wrong; to ask it each time would take as long as to write them
        raise
    return new_said((metadata, key, ordering_key, sequence_id, alone, reply))


def _key(name: str, value: object) -> str | None:
    """Check a key; an empty one is none, as in the official client."""
    if is_text(value):
        return cast("str", value) or None
    raise refusal_of(name, value, "a str of Unicode text, or None")


def _alone(extras: Extras, now_ms: Callable[[], int]) -> Alone | None:
    _, _, _, _, replication_clusters, disable_replication, _, at, deliver_after = extras
    flag("disable_replication", disable_replication)
    clusters = _clusters(replication_clusters)
    if disable_replication:
        clusters = (NOWHERE_ELSE,)
    _timestamp("deliver_at", at)
    _delay("deliver_after", deliver_after)
    if deliver_after is not None:
        at = max(0, now_ms() + int(deliver_after.total_seconds() * 1000))
    return None if at is None and not clusters else Alone(at, clusters)


def _clusters(given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    names = cast("Sequence[Any]", given)
    if not isinstance(given, (list, tuple)) or not all(name and is_text(name) for name in names):
        raise refusal_of("replication_clusters", names, "a list of the names of clusters, or None")
    return tuple(cast("Sequence[str]", names))
