"""One call of `send` into what leaves: the arguments checked, the metadata written, in the caller's thread.

A received message that is sent on keeps what it says of itself, but for its properties.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, cast

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
from pulsar_actors.runtime.outgoing import Alone, Said
from pulsar_actors.wire.octets import Octets, octets
from pulsar_actors.wire.single_message import encode_single_message

HIGHEST = 2**63 - 1
NOWHERE_ELSE = "__local__"
"""The cluster to which a message is to be replicated that is not to be replicated."""

_sequence_id = optional(whole_number(0, HIGHEST))
_timestamp = optional(whole_number(0, HIGHEST, "milliseconds since 1970"))
_delay = optional(instance_of(timedelta))


class Extras(NamedTuple):
    """What may be said of a message besides its content, as the official client names it."""

    properties: dict[str, str] | None = None
    partition_key: str | None = None
    ordering_key: str | None = None
    sequence_id: int | None = None
    replication_clusters: list[str] | None = None
    disable_replication: bool = False
    event_timestamp: int | None = None
    deliver_at: int | None = None
    deliver_after: timedelta | None = None


NOTHING = Extras()


def outgoing(
    schema: Schema, content: object, extras: Extras, reply: object, now_ms: Callable[[], int]
) -> tuple[bytes, object]:
    """Make what an outbox takes. Most messages say nothing of themselves, and cost next to nothing here."""
    payload = b"" if content is None else schema.encode(content)
    if type(payload) is not bytes:  # a schema of the program's may give anything
        payload = _octets_of(payload, schema)
    if extras == NOTHING and content is not None:
        return payload, reply
    return payload, _said(len(payload), extras, reply, now_ms, is_null=content is None)


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


def _said(size: int, extras: Extras, reply: object, now_ms: Callable[[], int], *, is_null: bool) -> Said:
    pairs = cast("dict[str, str]", properties("properties", extras.properties))
    key = _key("partition_key", extras.partition_key)
    order = _key("ordering_key", extras.ordering_key)
    ordering_key = None if order is None else order.encode()
    sequence_id, event_time = extras.sequence_id, extras.event_timestamp
    _sequence_id("sequence_id", sequence_id)
    _timestamp("event_timestamp", event_time)
    metadata = encode_single_message(size, pairs, key, ordering_key, sequence_id, event_time, null_value=is_null)
    return Said(metadata, key, ordering_key, sequence_id, _alone(extras, now_ms), reply)


def _key(name: str, value: object) -> str | None:
    """Check a key; an empty one is none, as in the official client."""
    if value is None or is_text(value):
        return cast("str", value) or None
    raise refusal_of(name, value, "a str of Unicode text, or None")


def _alone(extras: Extras, now_ms: Callable[[], int]) -> Alone | None:
    flag("disable_replication", extras.disable_replication)
    clusters = _clusters(extras.replication_clusters)
    if extras.disable_replication:
        clusters = (NOWHERE_ELSE,)
    _timestamp("deliver_at", extras.deliver_at)
    _delay("deliver_after", extras.deliver_after)
    at = extras.deliver_at
    if extras.deliver_after is not None:
        at = max(0, now_ms() + int(extras.deliver_after.total_seconds() * 1000))
    return None if at is None and not clusters else Alone(at, clusters)


def _clusters(given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    names = cast("Sequence[Any]", given)
    if not isinstance(given, (list, tuple)) or not all(name and is_text(name) for name in names):
        raise refusal_of("replication_clusters", names, "a list of the names of clusters, or None")
    return tuple(cast("Sequence[str]", names))
