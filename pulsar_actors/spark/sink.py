"""What `foreachPartition` calls: rows into messages, by a client that the worker keeps.

    df.foreachPartition(pulsar_actors.spark.sink(service_url="pulsar://host:6650", topic="orders", key="id"))

A sink is configuration, no more: it travels to the workers, and what it needs there is made there.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, TypeAlias, cast

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.exceptions import InvalidArgument, InvalidMessage
from pulsar_actors.spark.cluster import Cluster
from pulsar_actors.spark.drafts import Traits, payload_of, said_of
from pulsar_actors.spark.pool import POOL
from pulsar_actors.spark.shipment import USUAL, Shipment
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["PartitionSink", "sink"]

Selector: TypeAlias = "str | Callable[[Any], object] | None"
"""The name of a column, or a function of the row."""

AT_ONCE: Final = 1000
"""Rows between two looks at whether any has failed."""

_EPOCH: Final = datetime.fromtimestamp(0, timezone.utc)
_OF_CLIENT: Final = {field.name for field in fields(ClientOptions)} - {"service_url"}
_OF_PRODUCER: Final = {field.name for field in fields(ProducerOptions)} - {"topic", "schema", "properties"}


def sink(  # noqa: PLR0913 - what can be said of a message
    *,
    service_url: str,
    topic: "str | Callable[[Any], str]",
    value: Selector = None,
    key: Selector = None,
    properties: Selector = None,
    ordering_key: Selector = None,
    event_time: Selector = None,
    deliver_at: Selector = None,
    sequence_id: Selector = None,
    **options: Any,  # noqa: ANN401 - each has a type of its own
) -> "PartitionSink":
    """Make a function for `foreachPartition` that sends each row as a message.

    service_url
        `pulsar://host:6650`, as seen from the workers.
    topic
        The name of a topic, or a function of the row that gives one.
    value = None
        The content: the name of a column, or a function of the row, that gives bytes, text, or None for a message that
        deletes its key on a compacted topic. By default the column `value`; of what is no row, the thing itself.
    key = None
        The message's key, likewise: text, bytes, or a whole number, which is written in digits.
    properties = None
        A map of text to text, likewise.
    ordering_key = None
        What chooses the consumer of a KeyShared subscription, instead of the key.
    event_time = None
        When it happened: a datetime, or milliseconds since 1970.
    deliver_at = None
        Shared and KeyShared subscriptions get it no sooner: likewise.
    sequence_id = None
        The message's number, for deduplication at the broker; a `producer_name` belongs to it.
    options
        Arguments of `Client` and of `Client.create_producer`, by their names. Batching is on, 10,000 messages may be
        pending, and a full queue waits, unless something else is said here.
    """
    selectors = {
        "key": key,
        "properties": properties,
        "ordering_key": ordering_key,
        "event_time": event_time,
        "deliver_at": deliver_at,
        "sequence_id": sequence_id,
    }
    for name in options:
        if name not in _OF_CLIENT | _OF_PRODUCER:
            nearest = get_close_matches(name, ["topic", "value", *selectors, *sorted(_OF_CLIENT | _OF_PRODUCER)], 1, 0)[
                0
            ]
            raise InvalidArgument(f"sink() takes no {name}: the nearest is {nearest}")
    for_client = {name: one for name, one in options.items() if name in _OF_CLIENT}
    for_producer = {name: one for name, one in options.items() if name in _OF_PRODUCER}
    ProducerOptions(topic=topic if isinstance(topic, str) else "any", **{**USUAL, **for_producer})  # which checks them
    if not isinstance(topic, str) and not callable(topic):
        raise InvalidArgument(f"topic takes the name of a topic or a function of the row, got {type(topic).__name__}")
    for name, selector in {"value": value, **selectors}.items():
        _check(name, selector)
    cluster = Cluster({"service_url": service_url, **for_client})
    chosen = {name: selector for name, selector in selectors.items() if selector is not None}
    return PartitionSink(cluster, topic, value, chosen, for_producer)


class PartitionSink:
    """What `sink` makes: call it with the rows of a partition."""

    def __init__(
        self,
        cluster: Cluster,
        topic: "str | Callable[[Any], str]",
        value: Selector,
        traits: Mapping[str, Selector],
        producer: Mapping[str, Any],
    ) -> None:
        self._cluster = cluster
        self._topic: str | Callable[[Any], object] = str(TopicName.parse(topic)) if isinstance(topic, str) else topic
        self._value = value
        self._traits = traits
        self._producer = producer

    def __call__(self, rows: Iterable[Any]) -> None:
        """Send the rows, and return once all are stored."""
        traits = [(name, _getter(selector)) for name, selector in self._traits.items()]
        content = _content if self._value is None else _getter(self._value)
        rest = iter(rows)
        with POOL.lend(self._cluster) as kept:
            shipment = Shipment(kept, self._producer)
            while some := list(islice(rest, AT_ONCE)):
                for topic, of_topic in self._by_topic(some):
                    contents = [content(row) for row in of_topic]
                    payloads = [payload_of(one) for one in contents]
                    shipment.leave(topic, payloads, _said_of_each(of_topic, contents, payloads, traits))
            shipment.finish()

    def _by_topic(self, rows: list[Any]) -> Iterable[tuple[str, list[Any]]]:
        topic = self._topic
        if isinstance(topic, str):
            return [(topic, rows)]
        found: dict[str, list[Any]] = {}
        for row in rows:
            name = topic(row)
            if not isinstance(name, str):
                raise InvalidMessage(f"topic gives the name of a topic for each row, not {type(name).__name__}")
            found.setdefault(name, []).append(row)
        return found.items()

    def __repr__(self) -> str:
        return f"<a sink to {self._topic if isinstance(self._topic, str) else 'topics by row'}>"


def _said_of_each(
    rows: list[Any], contents: list[object], payloads: list[bytes], traits: list[tuple[str, Callable[[Any], object]]]
) -> list[object]:
    """Say what there is to say of each row's message."""
    if not traits and None not in contents:
        return [None] * len(rows)
    said: list[object] = []
    for row, one, payload in zip(rows, contents, payloads, strict=True):
        of_row = Traits(**{name: _TAKEN[name](name, get(row)) for name, get in traits})
        said.append(said_of(len(payload), of_row, is_null=one is None))
    return said


def _check(name: str, selector: object) -> None:
    if selector is None or isinstance(selector, str) or callable(selector):
        return
    hint = ""
    if type(selector).__name__ == "Column":
        hint = "; a column of an expression has a name too: select() it first, and name it here"
    raise InvalidArgument(
        f"{name} takes the name of a column or a function of the row, got an object of type "
        f"{type(selector).__name__}{hint}"
    )


def _getter(selector: Selector) -> Callable[[Any], object]:
    if callable(selector):
        return selector
    name = cast("str", selector)

    def get(row: Any) -> object:  # noqa: ANN401 - a Row, or whatever takes a name in brackets
        try:
            return row[name]
        except (KeyError, TypeError, ValueError, IndexError):
            raise InvalidArgument(f"no column {name} in {_outline(row)}") from None

    return get


def _content(row: object) -> object:
    """Give what a message holds where nobody said."""
    if isinstance(row, (bytes, str, bytearray, memoryview)) or row is None:
        return cast("bytes | str | None", row)
    return _getter("value")(row)


def _outline(row: Any) -> str:  # noqa: ANN401 - see above
    names = getattr(row, "__fields__", None)
    return f"a row of {', '.join(names)}" if names else f"what is of type {type(row).__name__}"


def _ms(name: str, value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, datetime):
        try:
            return (value.astimezone(timezone.utc) - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, OverflowError, OSError) as fault:
            raise InvalidMessage(f"{name}: {value} cannot be told in milliseconds since 1970: {fault}") from None
    raise InvalidMessage(f"{name} is a datetime or milliseconds since 1970, not {type(value).__name__}")


def _key(_: str, value: object) -> Any:  # noqa: ANN401 - which `said_of` judges
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_it_is(_: str, value: object) -> Any:  # noqa: ANN401 - likewise
    return value


_TAKEN: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "key": _key,
    "properties": _as_it_is,
    "ordering_key": _key,
    "event_time": _ms,
    "deliver_at": _ms,
    "sequence_id": _as_it_is,
}
