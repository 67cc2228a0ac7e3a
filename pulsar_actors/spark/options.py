"""The options of `format("pulsar")`, parsed and checked before anything is read or written.

Spark gives all options as text, with their names in lower case. An unknown option is refused with the nearest known
one, and an option that belongs to another kind of query is refused as well: a query must not run without an option that
the user has given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from pyspark.sql.types import StructField

from pulsar_actors.client.consumer_options import ReaderOptions
from pulsar_actors.client.enums import ProducerAccessMode
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.validation import LONGEST_MS
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.runtime.schema_versions import StoredSchema
from pulsar_actors.spark.client_pool import PRODUCER_DEFAULTS, check_access_mode
from pulsar_actors.spark.cluster_access import ClusterAccess
from pulsar_actors.spark.exactly_once import ExactlyOnce
from pulsar_actors.spark.idempotence import Idempotence, require_deduplication
from pulsar_actors.spark.offset_bounds import Latest, OffsetBounds, parse_offset_bounds
from pulsar_actors.spark.prefixed_options import (
    CLIENT_OPTIONS,
    PRODUCER_OPTIONS,
    READER_OPTIONS,
    OptionFamily,
    parse_boolean,
    parse_duration,
    parse_integer,
)
from pulsar_actors.spark.pyspark_compat import HAS_ADMISSION_CONTROL
from pulsar_actors.spark.topics import TopicChoice
from pulsar_actors.spark.typed_columns import schema_of_topics
from pulsar_actors.spark.typed_rows import FORMATS, RecordEncoder, record_encoder
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TOPIC_START

__all__ = ["DEFAULT_PREFIX", "ReadOptions", "SinkOptions", "check_names", "stored_schema"]


_EVERYWHERE: Final = ("service.url", "admin.url")
_READING: Final = (
    "topic", "topics", "topicsPattern", "startingOffsets", "startingTime", "subscriptionPrefix", "failOnDataLoss",
    "minPartitions", "allowDifferentTopicSchemas", "waitingForNonExistedTopic", "pollTimeoutMs", "valueAs",
)  # fmt: skip
_READING_ONCE: Final = ("endingOffsets", "endingTime")
_STREAMING: Final = (
    "predefinedSubscription", "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
)  # fmt: skip
_WRITING: Final = (
    "topic", "idempotent", "rowsRepeatInOrder", "sequenceColumn", "writerName", "exactlyOnce", "controlTopic",
    "transactionTimeoutMs", "valueAs",
)  # fmt: skip

DEFAULT_PREFIX: Final = "spark-pulsar"
_LARGEST_LONG: Final = 2**63 - 1
_SPARK_OPTIONS: Final = {"checkpointlocation", "queryname"}
"""Options for Spark itself, which Spark passes to data sources, too."""
_TABLE_OPTIONS: Final = {"collation", "comment", "external", "is_managed_location", "location", "owner", "provider"}
"""Options that Spark adds when a table is created from a source."""

_PATH: Final = "load() and save() take no name here: give the topic as option topic"
_MISPLACED: Final = {
    "path": _PATH,
    "pulsar.admin.*": "requests to admin.url have the credentials and certificates of pulsar.client.*: leave out "
    "pulsar.admin.*",
    "topic.schema.class": "the schema is that of the topic itself: leave out topic.schema.class",
}
"""Options of the Scala connector, and of Spark's other sources."""
_NOT_FOR_WRITING: Final = {
    **_MISPLACED,
    "topics": "topics is an option of reading: to write, give one as topic, or each row its own as column __topic",
    **{
        name.lower(): f"{name} is an option of reading, and this writes"
        for name in (*_READING, *_READING_ONCE, *_STREAMING, "pulsar.reader.*")
        if name not in {*_WRITING, "topics"}
    },
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a reader."""

    cluster: ClusterAccess
    topics: TopicChoice
    starting: OffsetBounds
    ending: OffsetBounds
    subscription: str | None
    prefix: str
    fail_on_data_loss: bool
    max_messages: int | None
    max_bytes: int | None
    min_messages: int | None
    longest_delay_seconds: float
    min_partitions: int
    poll_timeout_ms: int
    reader: Mapping[str, Any] = field(repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool) -> "ReadOptions":
        """Parse the options of `spark.read`, or of `spark.readStream`."""
        names = _READING + (_STREAMING if is_stream else _READING_ONCE)
        texts = _checked_names(
            options, names, (CLIENT_OPTIONS, READER_OPTIONS), _misplaced_options(is_stream=is_stream)
        )
        starting = parse_offset_bounds(texts, "starting", Latest() if is_stream else TOPIC_START)
        ending = parse_offset_bounds(texts, "ending", Latest())
        if not is_stream:
            _refuse_empty_range(starting, ending)
        _wants_columns(texts)
        reader = READER_OPTIONS.parse(texts)
        ReaderOptions(topic="any", start_message_id=MessageId.earliest, **reader)  # for its checks
        read = cls(
            cluster=ClusterAccess.parse(texts),
            topics=TopicChoice.parse(texts, waits=_flag(texts, "waitingForNonExistedTopic", default=False)),
            starting=starting,
            ending=ending,
            subscription=texts.get("predefinedsubscription"),
            prefix=texts.get("subscriptionprefix", DEFAULT_PREFIX),
            fail_on_data_loss=_flag(texts, "failOnDataLoss", default=True),
            max_messages=_count(texts, "maxOffsetsPerTrigger"),
            max_bytes=_count(texts, "maxBytesPerTrigger"),
            min_messages=_count(texts, "minOffsetsPerTrigger"),
            longest_delay_seconds=parse_duration("maxTriggerDelay", texts.get("maxtriggerdelay", "15m")),
            min_partitions=_count(texts, "minPartitions") or 1,
            poll_timeout_ms=_count(texts, "pollTimeoutMs", LONGEST_MS) or 120_000,
            reader=reader,
        )
        _require_admin_url(read)
        _check_minimum(read, texts)
        if is_stream and not HAS_ADMISSION_CONTROL:
            _require_admission_control(read)
        return read


def stored_schema(options: Mapping[str, str]) -> StoredSchema | None:
    """Return the schema by which a query's columns are typed, if there is one and it is wanted."""
    texts = {name.lower(): text for name, text in options.items()}
    if not _wants_columns(texts):
        return None
    may_differ = _flag(texts, "allowDifferentTopicSchemas", default=False)
    topics = TopicChoice.parse(texts, waits=_flag(texts, "waitingForNonExistedTopic", default=False))
    with ClusterAccess.parse(texts).client() as client:
        return schema_of_topics(client, topics.partitions(client), may_differ=may_differ)


def _wants_columns(texts: Mapping[str, str]) -> bool:
    parse_boolean("allowDifferentTopicSchemas", texts.get("allowdifferenttopicschemas", "false"))
    wanted = texts.get("valueas", "columns").strip().lower()
    if wanted not in {"columns", "bytes"}:
        raise InvalidConfiguration(f"valueAs takes columns or bytes, got {wanted!r}")
    return wanted == "columns"


def _require_admin_url(read: ReadOptions) -> None:
    """Refuse options that need the broker's statistics, if there is no admin.url to ask for them."""
    needs = {
        "maxBytesPerTrigger": read.max_bytes is not None,
        "minPartitions": read.min_partitions > 1,
    }
    for option, is_given in needs.items():
        if is_given and read.cluster.admin_url is None:
            raise InvalidConfiguration(
                f"{option} needs admin.url, such as http://host:8080: message ids have gaps, and how much lies between "
                "two of them is in the broker's statistics alone"
            )


def _check_minimum(read: ReadOptions, texts: Mapping[str, str]) -> None:
    least, most = read.min_messages, read.max_messages
    if least is None:
        if "maxtriggerdelay" in texts:
            raise InvalidConfiguration("maxTriggerDelay goes with minOffsetsPerTrigger")
    elif most is not None and least > most:
        raise InvalidConfiguration(
            f"minOffsetsPerTrigger is {least:,}, and no batch has so many: maxOffsetsPerTrigger is {most:,}"
        )


def _require_admission_control(read: ReadOptions) -> None:
    """Refuse options that need PySpark 4.2, which passes the start of a batch to a stream."""
    if any(limit is not None for limit in (read.max_messages, read.max_bytes, read.min_messages)):
        raise InvalidConfiguration("limits of a batch, such as maxOffsetsPerTrigger, need PySpark 4.2")
    if read.subscription is None and read.prefix == DEFAULT_PREFIX:
        raise InvalidConfiguration(
            "this PySpark does not tell a query that goes on from a checkpoint what that says: give a name to the "
            "query's subscription, by subscriptionPrefix, or use PySpark 4.2"
        )


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a writer."""

    cluster: ClusterAccess
    topic: str | None
    producer: Mapping[str, Any] = field(repr=False)
    idempotence: Idempotence | None
    exactly_once: ExactlyOnce | None
    writer_name: str | None
    record_format: str | None
    """The format of records, if rows are written as such: avro or json."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Parse the options of `df.write` and `df.writeStream`."""
        texts = _checked_names(options, _WRITING, (CLIENT_OPTIONS, PRODUCER_OPTIONS), _NOT_FOR_WRITING)
        topic = texts.get("topic")
        producer = PRODUCER_OPTIONS.parse(texts)
        ProducerOptions(topic=topic or "any", **{**PRODUCER_DEFAULTS, **producer})  # for its checks
        check_access_mode(producer, one_topic=topic is not None)
        if topic is not None and "," in topic:
            raise InvalidConfiguration("topic takes the name of one topic: several are a column __topic of the rows")
        name = None if topic is None else TopicName.parse(topic)
        sink = cls(
            ClusterAccess.parse(texts),
            None if name is None else str(name),
            producer,
            _idempotence(texts, producer),
            _exactly_once(texts, name),
            texts.get("writername"),
            _record_format(texts, name),
        )
        sink._check(name, texts)
        return sink

    def record_encoder(self, fields: Sequence[StructField]) -> RecordEncoder | None:
        """Return the encoder of rows that are written as records, whose schema the broker has taken."""
        if self.record_format is None or self.topic is None:
            return None
        topic, kind = TopicName.parse(self.topic), FORMATS[self.record_format]
        with self.cluster.client() as client:
            access_mode = self.producer.get("access_mode", ProducerAccessMode.Shared)
            return record_encoder(client, topic, fields, kind, access_mode)

    def _check(self, topic: TopicName | None, texts: Mapping[str, str]) -> None:
        """Check what concerns several options."""
        if self.idempotence is not None:
            if self.cluster.options().memory_limit_bytes:
                raise InvalidConfiguration("idempotent=true waits until batches are full: leave out memoryLimitBytes")
            if self.exactly_once is not None and self.idempotence.column is not None:
                raise InvalidConfiguration(
                    "with exactlyOnce=true messages have numbers of their own: say rowsRepeatInOrder=true instead of "
                    "sequenceColumn"
                )
            require_deduplication(self.cluster, topic)
        elif self.exactly_once is None and self.writer_name is not None:
            raise InvalidConfiguration("writerName goes with idempotent=true or exactlyOnce=true")


def _idempotence(texts: Mapping[str, str], producer: Mapping[str, Any]) -> Idempotence | None:
    column = texts.get("sequencecolumn")
    repeats = _flag(texts, "rowsRepeatInOrder", default=False)
    if _flag(texts, "idempotent", default=False):
        return Idempotence.checked(column, repeats=repeats, producer=producer)
    for option, is_given in (("sequenceColumn", column), ("rowsRepeatInOrder", repeats)):
        if is_given:
            raise InvalidConfiguration(f"{option} goes with idempotent=true")
    return None


def _record_format(texts: Mapping[str, str], topic: TopicName | None) -> str | None:
    text = texts.get("valueas", "bytes").strip().lower()
    if text == "bytes":
        return None
    if text not in FORMATS:
        raise InvalidConfiguration(f"valueAs takes bytes, avro or json to write, got {text!r}")
    if topic is None:
        raise InvalidConfiguration("records are written to one topic: give it as option topic")
    return text


def _exactly_once(texts: Mapping[str, str], topic: TopicName | None) -> ExactlyOnce | None:
    control, timeout = texts.get("controltopic"), _count(texts, "transactionTimeoutMs", LONGEST_MS)
    if not _flag(texts, "exactlyOnce", default=False):
        for option, value in (("controlTopic", control), ("transactionTimeoutMs", timeout)):
            if value is not None:
                raise InvalidConfiguration(f"{option} goes with exactlyOnce=true")
        return None
    return ExactlyOnce.checked(topic, control, timeout, texts.get("checkpointlocation") or texts.get("writername"))


def check_names(options: Mapping[str, str]) -> None:
    """Refuse names that are no option of any kind of query."""
    given = {name: text for name, text in options.items() if name.lower() not in _TABLE_OPTIONS}
    _checked_names(
        given,
        (*_READING, *_READING_ONCE, *_STREAMING, *_WRITING),
        (CLIENT_OPTIONS, READER_OPTIONS, PRODUCER_OPTIONS),
        _MISPLACED,
    )


def _checked_names(
    options: Mapping[str, str], names: tuple[str, ...], families: tuple[OptionFamily, ...], misplaced: Mapping[str, str]
) -> dict[str, str]:
    """Return the options by their names in lower case; refuse others than these."""
    texts = {name.lower(): text for name, text in options.items()}
    known = {name.lower(): name for name in _EVERYWHERE + names}
    prefixes = tuple(family.prefix for family in families)
    for name, text in texts.items():
        if name in known and not text.strip():
            raise InvalidConfiguration(f"{known[name]} is empty: give it a value, or leave it out")
        if name in known or name in _SPARK_OPTIONS or name.startswith(prefixes):
            continue
        elsewhere = misplaced.get(name, misplaced.get(".".join([*name.split(".")[:2], "*"])))
        if elsewhere is not None:
            raise InvalidConfiguration(elsewhere)
        listed = [*known, *prefixes]
        nearest = get_close_matches(name, listed, 1, 0)[0]
        raise InvalidConfiguration(f"there is no option {name}: the nearest is {known.get(nearest, nearest)}")
    return texts


def _misplaced_options(*, is_stream: bool) -> dict[str, str]:
    """Return the errors for options of other kinds of queries, by the option."""
    here, there = ("spark.readStream", "spark.read") if is_stream else ("spark.read", "spark.readStream")
    others = _READING_ONCE if is_stream else _STREAMING
    return {
        **_MISPLACED,
        **{name.lower(): f"{name} is an option of {there}, and this is {here}" for name in others},
        **{
            name.lower(): f"{name} is an option of writing, and this reads"
            for name in (*_WRITING, "pulsar.producer.*")
            if name not in _READING
        },
    }


def _flag(texts: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = texts.get(name.lower())
    return default if text is None else parse_boolean(name, text)


def _count(texts: Mapping[str, str], name: str, most: int = _LARGEST_LONG) -> int | None:
    """Parse a number that is at least 1."""
    text = texts.get(name.lower())
    if text is None:
        return None
    count = parse_integer(name, text)
    if count < 1:
        raise InvalidConfiguration(f"{name} takes a whole number from 1 on, got {text!r}")
    if count > most:
        raise InvalidConfiguration(f"{name} takes a whole number up to {most:,}, got {text!r}")
    return count


def _refuse_empty_range(starting: OffsetBounds, ending: OffsetBounds) -> None:
    """Refuse to begin at the end of all topics, or to end at their beginning.

    For single partitions both are allowed: the offsets of a query have them for partitions that were empty.
    """
    for bound in (starting.default, *starting.by_topic.values()):
        if isinstance(bound, Latest):
            raise InvalidConfiguration("startingOffsets=latest is for spark.readStream: here nothing comes after it")
    if ending.default == TOPIC_START:
        raise InvalidConfiguration("endingOffsets=earliest leaves nothing to read")
