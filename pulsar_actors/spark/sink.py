"""The sink for `foreachPartition`: it sends the rows of a partition as messages.

    df.foreachPartition(pulsar_actors.spark.sink(service_url="pulsar://host:6650", topic="orders", key="id"))

A sink is configuration, which is pickled for the workers. It gets its client from the worker's pool.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from difflib import get_close_matches
from itertools import islice, repeat
from operator import attrgetter
from typing import Any, Final, TypeAlias

from pyspark.sql import Row

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.exceptions import InvalidArgument, InvalidMessage
from pulsar_actors.runtime.send_queue import MessageHeader
from pulsar_actors.spark.client_pool import POOL, PRODUCER_DEFAULTS, TaskSender, check_access_mode
from pulsar_actors.spark.cluster_access import ClusterAccess
from pulsar_actors.spark.row_messages import NO_FIELDS, MessageFields, encode_row_metadata, payloads_of
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["PartitionSink", "sink"]


Selector: TypeAlias = str | Callable[[Any], object]
"""The name of a column, or a function of the row."""

ROWS_PER_CHECK: Final = 1000
"""Rows between two checks for failed messages."""

_EPOCH: Final = datetime.fromtimestamp(0, timezone.utc)
_CLIENT_ARGUMENTS: Final = {*ClientOptions.names} - {"service_url"}
_PRODUCER_ARGUMENTS: Final = {*ProducerOptions.names} - {"topic", "schema", "properties"}


def sink(  # noqa: PLR0913 - the fields of a message
    *,
    service_url: str,
    topic: "str | Callable[[Any], str]",
    value: Selector | None = None,
    key: Selector | None = None,
    properties: Selector | None = None,
    ordering_key: Selector | None = None,
    event_time: Selector | None = None,
    deliver_at: Selector | None = None,
    sequence_id: Selector | None = None,
    **options: Any,  # noqa: ANN401 - each has a type of its own
) -> "PartitionSink":
    """Make a function for `foreachPartition` that sends each row as a message.

    service_url
        `pulsar://host:6650`, as seen from the workers.
    topic
        The name of a topic, or a function of the row that returns one.
    value = None
        The payload: the name of a column, or a function of the row. Its value is bytes, text, or None, which deletes
        the message's key on a compacted topic. By default the column `value`; an element that is not a row is itself
        the payload.
    key = None
        The message's key, as a column or a function: text, bytes, or a whole number, which is written in digits.
    properties = None
        A map of text to text, as a column or a function.
    ordering_key = None
        The key that chooses the consumer of a KeyShared subscription, if it is not `key`.
    event_time = None
        The time of the event: a datetime, or milliseconds since 1970.
    deliver_at = None
        The time before which Shared and KeyShared subscriptions do not get the message: a datetime, or milliseconds.
    sequence_id = None
        The message's number, for deduplication at the broker; it needs a `producer_name`.
    options
        Arguments of `Client` and of `Client.create_producer`. By default batching is on, 10,000 messages may be
        pending, and a full queue blocks.
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
        if name not in _CLIENT_ARGUMENTS | _PRODUCER_ARGUMENTS:
            nearest = get_close_matches(
                name, ["topic", "value", *selectors, *sorted(_CLIENT_ARGUMENTS | _PRODUCER_ARGUMENTS)], 1, 0
            )[0]
            raise InvalidArgument(f"sink() takes no {name}: the nearest is {nearest}")
    for_client = {name: one for name, one in options.items() if name in _CLIENT_ARGUMENTS}
    for_producer = {name: one for name, one in options.items() if name in _PRODUCER_ARGUMENTS}
    ProducerOptions(
        topic=topic if isinstance(topic, str) else "any", **{**PRODUCER_DEFAULTS, **for_producer}
    )  # for its checks
    check_access_mode(for_producer, one_topic=isinstance(topic, str))
    if sequence_id is not None and not for_producer.get("producer_name"):
        raise InvalidArgument("sequence_id needs a producer_name: brokers know repeats by both")
    if not isinstance(topic, str) and not callable(topic):
        raise InvalidArgument(f"topic takes the name of a topic or a function of the row, got {type(topic).__name__}")
    for name, selector in {"value": value, **selectors}.items():
        _check(name, selector)
    cluster = ClusterAccess({"service_url": service_url, **for_client})
    chosen = {name: selector for name, selector in selectors.items() if selector is not None}
    return PartitionSink(cluster, topic, value, chosen, for_producer)


class PartitionSink:
    """The function that `sink` returns, which Spark calls with the rows of a partition."""

    def __init__(
        self,
        cluster: ClusterAccess,
        topic: "str | Callable[[Any], str]",
        value: Selector | None,
        selectors: Mapping[str, Selector],
        producer: Mapping[str, Any],
    ) -> None:
        self._cluster = cluster
        self._topic: str | Callable[[Any], object] = str(TopicName.parse(topic)) if isinstance(topic, str) else topic
        self._value = value
        self._selectors = selectors
        self._producer = producer

    def __call__(self, rows: Iterable[Any]) -> None:
        """Send the rows, and return once all are stored."""
        remaining = iter(rows)
        with POOL.lend(self._cluster) as pooled:
            sender = TaskSender(pooled, self._producer)
            while chunk := list(islice(remaining, ROWS_PER_CHECK)):
                for topic, topic_rows in self._by_topic(chunk):
                    contents = _contents(topic_rows) if self._value is None else _values(topic_rows, self._value)
                    payloads = payloads_of(contents)
                    sender.send(topic, payloads, self._metadata(topic_rows, contents, payloads))
            sender.finish()

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

    def _metadata(
        self, rows: list[Any], contents: Sequence[object], payloads: list[bytes]
    ) -> list[MessageHeader | None]:
        """Return the metadata of each row's message; None for a message without any."""
        if not self._selectors and None not in contents:
            return [None] * len(rows)
        columns = {
            name: [_CONVERTERS[name](name, one) for one in _values(rows, selector)]
            for name, selector in self._selectors.items()
        }
        fields: Iterable[MessageFields] = repeat(NO_FIELDS, len(rows))
        if columns:
            fields = (
                MessageFields(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
            )
        return [
            encode_row_metadata(len(payload), one, is_null=content is None)
            for content, payload, one in zip(contents, payloads, fields, strict=True)
        ]

    def __repr__(self) -> str:
        return f"<a sink to {self._topic if isinstance(self._topic, str) else 'topics by row'}>"


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


def _values(rows: list[Any], selector: Selector) -> Sequence[object]:
    """Return what a selector takes of each row."""
    if callable(selector):
        return list(map(selector, rows))
    return _column(rows, selector) or [_value(row, selector) for row in rows]


def _column(rows: list[Any], name: str) -> Sequence[object] | None:
    """Return a column of rows of Spark's that have the same columns, as those of a DataFrame have; None for others.

    That costs a tenth of asking each row for the name, as all of it runs in C.
    """
    if not all(issubclass(kind, tuple) for kind in set(map(type, rows))):
        return None
    try:
        of_each = list(map(_fields, rows))
        if of_each.count(of_each[0]) < len(of_each):
            return None
        place = of_each[0].index(name)
    except (AttributeError, ValueError):  # no rows of Spark's, or there is no such column
        return None
    return next(islice(zip(*rows, strict=False), place, None), None)  # None: a row is shorter than its names


_fields: Final[Callable[[Any], list[str]]] = attrgetter("__fields__")


def _value(row: Any, name: str) -> object:  # noqa: ANN401 - a Row, or a mapping
    try:
        return row[name]
    except (KeyError, TypeError, ValueError, IndexError):
        raise InvalidArgument(f"no column {name} in {_described(row)}") from None


_CONTENTS: Final = (bytes, str, bytearray, memoryview, type(None))


def _contents(rows: list[Any]) -> Sequence[object]:
    """Return the contents of messages without the argument `value`: the column of that name, or what is no row."""
    if isinstance(rows[0], Row):
        return _values(rows, "value")
    contents: list[object] = [row if isinstance(row, _CONTENTS) else _value(row, "value") for row in rows]
    return contents


def _described(row: Any) -> str:  # noqa: ANN401 - a Row, or any other object
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


def _key(_: str, value: object) -> Any:  # noqa: ANN401 - `encode_row_metadata` checks it
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _unchanged(_: str, value: object) -> Any:  # noqa: ANN401 - `encode_row_metadata` checks it
    return value


_CONVERTERS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "key": _key,
    "properties": _unchanged,
    "ordering_key": _key,
    "event_time": _ms,
    "deliver_at": _ms,
    "sequence_id": _unchanged,
}
