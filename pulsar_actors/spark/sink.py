"""The sink for `foreachPartition`: it sends the rows of a partition as messages.

    df.foreachPartition(pulsar_actors.spark.sink(service_url="pulsar://host:6650", topic="orders", key="id"))

A sink is configuration, which is pickled for the workers. It gets its client from the worker's pool.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, TypeAlias, cast

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.exceptions import InvalidArgument, InvalidMessage
from pulsar_actors.runtime.send_queue import MessageHeader
from pulsar_actors.spark.client_pool import POOL, PRODUCER_DEFAULTS, TaskSender
from pulsar_actors.spark.cluster_access import ClusterAccess
from pulsar_actors.spark.row_messages import MessageFields, encode_row_metadata, payload_of
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["PartitionSink", "sink"]


Selector: TypeAlias = "str | Callable[[Any], object] | None"
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
        value: Selector,
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
        selectors = [(name, _getter(selector)) for name, selector in self._selectors.items()]
        content_of = _default_content if self._value is None else _getter(self._value)
        remaining = iter(rows)
        with POOL.lend(self._cluster) as pooled:
            sender = TaskSender(pooled, self._producer)
            while chunk := list(islice(remaining, ROWS_PER_CHECK)):
                for topic, topic_rows in self._by_topic(chunk):
                    contents = [content_of(row) for row in topic_rows]
                    payloads = [payload_of(content) for content in contents]
                    sender.send(topic, payloads, _metadata_of_rows(topic_rows, contents, payloads, selectors))
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

    def __repr__(self) -> str:
        return f"<a sink to {self._topic if isinstance(self._topic, str) else 'topics by row'}>"


def _metadata_of_rows(
    rows: list[Any], contents: list[object], payloads: list[bytes], selectors: list[tuple[str, Callable[[Any], object]]]
) -> list[MessageHeader | None]:
    """Return the metadata of each row's message; None for a message without any."""
    if not selectors and None not in contents:
        return [None] * len(rows)
    metadata: list[MessageHeader | None] = []
    for row, content, payload in zip(rows, contents, payloads, strict=True):
        message_fields = MessageFields(**{name: _CONVERTERS[name](name, get(row)) for name, get in selectors})
        metadata.append(encode_row_metadata(len(payload), message_fields, is_null=content is None))
    return metadata


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

    def get(row: Any) -> object:  # noqa: ANN401 - a Row, or a mapping
        try:
            return row[name]
        except (KeyError, TypeError, ValueError, IndexError):
            raise InvalidArgument(f"no column {name} in {_described(row)}") from None

    return get


def _default_content(row: object) -> object:
    """Return the content of a message without the argument `value`."""
    if isinstance(row, (bytes, str, bytearray, memoryview)) or row is None:
        return cast("bytes | str | None", row)
    return _getter("value")(row)


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
