"""What `format("pulsar")` is told, read and checked before anything is sent or read.

Spark hands on all options as text, their names in small letters. One that nobody knows is refused with the nearest that
there is, and so is one that counts elsewhere: a query that goes on without what it was told is worse than one that does
not begin.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from pulsar_actors.client.consuming.reader_options import ReaderOptions
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.spark.admission import IS_TOLD
from pulsar_actors.spark.cluster import Cluster
from pulsar_actors.spark.deduplication import refuse_without_deduplication
from pulsar_actors.spark.idempotence import Idempotence
from pulsar_actors.spark.named_values import CLIENT, PRODUCER, READER, Family, boolean, whole_number
from pulsar_actors.spark.places import Latest, Places, places
from pulsar_actors.spark.position import EARLIEST
from pulsar_actors.spark.shipment import USUAL
from pulsar_actors.spark.topics import TopicChoice
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["DEFAULT_PREFIX", "ReadOptions", "SinkOptions", "check_names"]

_EVERYWHERE: Final = ("service.url", "admin.url")
_READING: Final = (
    "topic", "topics", "topicsPattern", "startingOffsets", "startingTime", "subscriptionPrefix", "failOnDataLoss",
    "minPartitions", "allowDifferentTopicSchemas", "waitingForNonExistedTopic", "pollTimeoutMs",
)  # fmt: skip
_READING_ONCE: Final = ("endingOffsets", "endingTime")
_STREAMING: Final = ("predefinedSubscription", "maxOffsetsPerTrigger", "maxBytesPerTrigger")
_WRITING: Final = ("topic", "idempotent", "rowsRepeatInOrder", "sequenceColumn", "writerName")

DEFAULT_PREFIX: Final = "spark-pulsar"
_SPARKS_OWN: Final = {"checkpointlocation"}
"""What Spark hands on that is for itself."""
_OF_TABLES: Final = {"collation", "comment", "external", "is_managed_location", "location", "owner", "provider"}
"""What it says besides where a table is made of a source."""

_PATH: Final = "load() and save() take no name here: give the topic as option topic"
_AWAY: Final = {"path": _PATH}
_AWAY_FROM_WRITING: Final = {
    "path": _PATH,
    "topics": "topics is an option of reading: to write, give one as topic, or each row its own as column __topic",
    **{
        name.lower(): f"{name} is an option of reading, and this writes"
        for name in (*_READING, *_READING_ONCE, *_STREAMING, "pulsar.reader.*")
        if name not in {*_WRITING, "topics"}
    },
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader is told."""

    cluster: Cluster
    topics: TopicChoice
    starting: Places
    ending: Places
    subscription: str | None
    prefix: str
    fails_on_loss: bool
    most_messages: int | None
    most_bytes: int | None
    least_partitions: int
    poll_timeout_ms: int
    reader: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str], *, streams: bool) -> "ReadOptions":
        """Read the options of `spark.read`, or of `spark.readStream`."""
        names = _READING + (_STREAMING if streams else _READING_ONCE)
        texts = _known(options, names, (CLIENT, READER), _away(streams=streams))
        starting = places(texts, "starting", Latest() if streams else EARLIEST)
        ending = places(texts, "ending", Latest())
        if not streams:
            _check_ends(starting, ending)
        boolean("allowDifferentTopicSchemas", texts.get("allowdifferenttopicschemas", "false"))
        reader = READER.read(texts)
        ReaderOptions(topic="any", start_message_id=MessageId.earliest, **reader)  # which checks them
        read = cls(
            cluster=Cluster.of(texts),
            topics=TopicChoice.of(texts, waits=_flag(texts, "waitingForNonExistedTopic", default=False)),
            starting=starting,
            ending=ending,
            subscription=texts.get("predefinedsubscription"),
            prefix=texts.get("subscriptionprefix", DEFAULT_PREFIX),
            fails_on_loss=_flag(texts, "failOnDataLoss", default=True),
            most_messages=_count(texts, "maxOffsetsPerTrigger"),
            most_bytes=_count(texts, "maxBytesPerTrigger"),
            least_partitions=_count(texts, "minPartitions") or 1,
            poll_timeout_ms=_count(texts, "pollTimeoutMs") or 120_000,
            reader=reader,
        )
        _refuse_what_needs_statistics(read)
        if streams and not IS_TOLD:
            _refuse_what_spark_does_not_tell(read)
        return read


def _refuse_what_needs_statistics(read: ReadOptions) -> None:
    """Refuse what can only be had from the broker's statistics, where nobody said where these are asked for."""
    needs = {
        "maxOffsetsPerTrigger": read.most_messages is not None,
        "maxBytesPerTrigger": read.most_bytes is not None,
        "minPartitions": read.least_partitions > 1,
    }
    for option, is_asked in needs.items():
        if is_asked and read.cluster.admin_url is None:
            raise InvalidConfiguration(
                f"{option} needs admin.url, such as http://host:8080: message ids have gaps, and how many messages "
                "lie between two of them is in the broker's statistics alone"
            )


def _refuse_what_spark_does_not_tell(read: ReadOptions) -> None:
    """Refuse what takes a PySpark that tells a stream where its batches start."""
    if read.most_messages is not None or read.most_bytes is not None:
        raise InvalidConfiguration("maxOffsetsPerTrigger and maxBytesPerTrigger need PySpark 4.2")
    if read.subscription is None and read.prefix == DEFAULT_PREFIX:
        raise InvalidConfiguration(
            "this PySpark does not tell a query that goes on from a checkpoint what that says: give a name to the "
            "query's subscription, by subscriptionPrefix, or use PySpark 4.2"
        )


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a writer is told."""

    cluster: Cluster
    topic: str | None
    producer: Mapping[str, Any] = field(repr=False)
    idempotence: Idempotence | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Read the options of `df.write` and `df.writeStream`."""
        texts = _known(options, _WRITING, (CLIENT, PRODUCER), _AWAY_FROM_WRITING)
        topic = texts.get("topic")
        producer = PRODUCER.read(texts)
        ProducerOptions(topic=topic or "any", **{**USUAL, **producer})  # which checks them
        name = None if topic is None else TopicName.parse(topic)
        sink = cls(Cluster.of(texts), None if name is None else str(name), producer, _idempotence(texts, producer))
        if sink.idempotence is not None:
            if sink.cluster.options().memory_limit_bytes:
                raise InvalidConfiguration("idempotent=true waits until batches are full: leave out memoryLimitBytes")
            refuse_without_deduplication(sink.cluster, name)
        return sink


def _idempotence(texts: Mapping[str, str], producer: Mapping[str, Any]) -> Idempotence | None:
    name, column = texts.get("writername"), texts.get("sequencecolumn")
    repeats = _flag(texts, "rowsRepeatInOrder", default=False)
    if _flag(texts, "idempotent", default=False):
        return Idempotence.of(name, column, repeats=repeats, producer=producer)
    for option, is_said in (("writerName", name), ("sequenceColumn", column), ("rowsRepeatInOrder", repeats)):
        if is_said:
            raise InvalidConfiguration(f"{option} goes with idempotent=true")
    return None


def check_names(options: Mapping[str, str]) -> None:
    """Refuse a name that is no option of anything, whatever is to be done."""
    given = {name: text for name, text in options.items() if name.lower() not in _OF_TABLES}
    _known(given, (*_READING, *_READING_ONCE, *_STREAMING, *_WRITING), (CLIENT, READER, PRODUCER), _AWAY)


def _known(
    options: Mapping[str, str], names: tuple[str, ...], families: tuple[Family, ...], away: Mapping[str, str]
) -> dict[str, str]:
    """Give the options by their names in small letters; refuse those that are none of these."""
    texts = {name.lower(): text for name, text in options.items()}
    known = {name.lower(): name for name in _EVERYWHERE + names}
    prefixes = tuple(family.prefix for family in families)
    for name, text in texts.items():
        if name in known and not text.strip():
            raise InvalidConfiguration(f"{known[name]} is empty: give it a value, or leave it out")
        if name in known or name in _SPARKS_OWN or name.startswith(prefixes):
            continue
        elsewhere = away.get(name, away.get(".".join([*name.split(".")[:2], "*"])))
        if elsewhere is not None:
            raise InvalidConfiguration(elsewhere)
        listed = [*known, *prefixes]
        nearest = get_close_matches(name, listed, 1, 0)[0]
        raise InvalidConfiguration(f"there is no option {name}: the nearest is {known.get(nearest, nearest)}")
    return texts


def _away(*, streams: bool) -> dict[str, str]:
    """Say of options that count elsewhere where that is."""
    here, there = ("spark.readStream", "spark.read") if streams else ("spark.read", "spark.readStream")
    others = _READING_ONCE if streams else _STREAMING
    return {
        **_AWAY,
        **{name.lower(): f"{name} is an option of {there}, and this is {here}" for name in others},
        **{
            name.lower(): f"{name} is an option of writing, and this reads"
            for name in (*_WRITING, "pulsar.producer.*")
            if name not in _READING
        },
    }


def _flag(texts: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = texts.get(name.lower())
    return default if text is None else boolean(name, text)


def _count(texts: Mapping[str, str], name: str) -> int | None:
    """Read a number of which there is one at least."""
    text = texts.get(name.lower())
    if text is None:
        return None
    count = whole_number(name, text)
    if count < 1:
        raise InvalidConfiguration(f"{name} takes a whole number from 1 on, got {text!r}")
    return count


def _check_ends(starting: Places, ending: Places) -> None:
    """Refuse to begin at the end, or to end at the beginning: there is nothing between.

    The offsets of a query say so of partitions that had nothing yet.
    """
    for place in (starting.default, *starting.by_topic.values()):
        if isinstance(place, Latest):
            raise InvalidConfiguration("startingOffsets=latest is for spark.readStream: here nothing comes after it")
    if ending.default == EARLIEST:
        raise InvalidConfiguration("endingOffsets=earliest leaves nothing to read")
