"""Options: what each becomes, and what is refused, with words that help."""

import json
import pickle
from typing import Any

import pytest

from pulsar_actors.client.enums import CompressionType, PartitionsRoutingMode
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.spark.cluster import Cluster
from pulsar_actors.spark.offsets import Offsets
from pulsar_actors.spark.options import ReadOptions, SinkOptions, check_names
from pulsar_actors.spark.places import AtTime, Latest
from pulsar_actors.spark.position import EARLIEST, Position
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.topic_name import TopicName

NEEDED = {"service.url": "pulsar://localhost", "topic": "t"}
T = TopicName.parse("t")


def batch(**options: str) -> ReadOptions:
    return ReadOptions.of({**NEEDED, **named(options)}, streams=False)


def stream(**options: str) -> ReadOptions:
    return ReadOptions.of({**NEEDED, "subscriptionPrefix": "s", **named(options)}, streams=True)


def sink(**options: str) -> SinkOptions:
    return SinkOptions.of({**NEEDED, **named(options)})


def named(options: dict[str, str]) -> dict[str, str]:
    """Options as Spark hands them on: their names in small letters."""
    return {name.replace("__", ".").lower(): value for name, value in options.items()}


def test_a_table_is_read_whole_and_a_stream_from_now_on_unless_that_is_said() -> None:
    assert (batch().starting.of(T), batch().ending.of(T)) == (EARLIEST, Latest())
    assert stream().starting.of(T) == Latest()
    assert not stream().starting.says_of(T)
    assert stream(startingOffsets="earliest").starting.says_of(T)
    assert stream(startingOffsets="Earliest").starting.of(T) == EARLIEST


def test_a_place_is_a_word_a_position_a_time_or_the_bytes_of_an_id() -> None:
    said = {"a": "12:5", "b": "earliest", "c": -2, "d": list(MessageId(3, 4, 0, 7).serialize()), "e": "latest"}
    starting = stream(topic="t", startingOffsets=json.dumps(said)).starting
    found = [starting.of(TopicName.parse(topic)) for topic in [*said, "f"]]
    assert found == [Position(12, 5), EARLIEST, EARLIEST, Position(3, 4, 7), Latest(), Latest()]
    assert batch(startingTime="1000").starting.of(T) == AtTime(1000)
    assert batch(endingTime='{"t": 7}').ending.of(T) == AtTime(7)


def test_offsets_are_taken_as_the_progress_of_a_query_shows_them() -> None:
    shown = Offsets("mine", {T: Position(12, 5)}).write()
    assert batch(startingOffsets=json.dumps(shown)).starting.of(T) == Position(12, 5)
    assert batch(endingOffsets=json.dumps({**shown, "entriesBehind": 7})).ending.of(T) == Position(12, 5)
    empty = Offsets("mine", {T: EARLIEST}).write()
    assert batch(endingOffsets=json.dumps(empty)).ending.of(T) == EARLIEST


def test_what_is_said_of_a_topic_holds_for_its_partitions_unless_they_are_named() -> None:
    starting = stream(startingOffsets='{"t": "earliest", "t-partition-1": "1:2"}').starting
    assert [starting.of(T.partition(number)) for number in range(2)] == [EARLIEST, Position(1, 2)]
    starting.check([T.partition(0), T.partition(1)], [])
    with pytest.raises(
        InvalidArgument, match="speaks of persistent://public/default/t-partition-1, which is not among"
    ):
        starting.check([T.partition(0)], [])
    with pytest.raises(InvalidArgument, match="has partitions, name that which the message is in"):
        stream(startingOffsets='{"t": "1:2"}').starting.check([T.partition(0)], [])
    assert [starting.says_of(one) for one in (T, TopicName.parse("u"))] == [True, False]


def test_something_can_be_said_of_a_topic_that_is_waited_for() -> None:
    waiting = stream(startingOffsets='{"t": "earliest"}', waitingForNonExistedTopic="true")
    waiting.starting.check([], waiting.topics.awaited)
    hasty = stream(startingOffsets='{"t": "earliest"}')
    with pytest.raises(InvalidArgument, match="which is not among the topics to read"):
        hasty.starting.check([], hasty.topics.awaited)


def test_one_position_is_for_one_partition() -> None:
    starting = batch(startingOffsets="12:5").starting
    starting.check([T], [])
    with pytest.raises(InvalidArgument, match="startingOffsets names one message, and there are 2 partitions"):
        starting.check([T.partition(0), T.partition(1)], [])


def test_options_of_clients_have_javas_names_or_ours() -> None:
    options = {"pulsar__client__operationTimeoutMs": "1500", "pulsar__client__tls_validate_hostname": "FALSE"}
    client = batch(**options).cluster.options()
    assert (client.operation_timeout_seconds, client.tls_validate_hostname) == (1.5, False)
    producer = sink(
        pulsar__producer__compressionType="lz4",
        pulsar__producer__batchingMaxPublishDelayMicros="1",
        pulsar__producer__messageRoutingMode="SinglePartition",
    ).producer
    assert producer == {
        "compression_type": CompressionType.LZ4,
        "batching_max_publish_delay_ms": 1,
        "message_routing_mode": PartitionsRoutingMode.UseSinglePartition,
    }
    assert stream(pulsar__reader__readCompacted="true").reader == {"is_read_compacted": True}


def test_two_that_say_the_same_have_one_client_and_two_that_do_not_have_two() -> None:
    assert batch().cluster.identity == sink().cluster.identity
    one, other = {"service_url": "pulsar://a", "io_threads": 1}, {"io_threads": 1, "service_url": "pulsar://a"}
    assert Cluster(one).identity == Cluster(other).identity
    others = [
        batch(pulsar__client__operationTimeoutMs="1"),
        batch(admin__url="http://localhost"),
        batch(service__url="pulsar://b"),
    ]
    assert len({one.cluster.identity for one in [batch(), *others]}) == 4
    assert pickle.loads(pickle.dumps(batch())).cluster.identity == batch().cluster.identity  # noqa: S301 - our own


def test_secrets_are_in_no_text() -> None:
    secret = {"pulsar__client__authPluginClassName": "token", "pulsar__client__authParams": "token:the-secret"}
    assert "the-secret" not in f"{batch(**secret)} {sink(**secret)} {batch(**secret).cluster.identity}"


@pytest.mark.parametrize(
    ("make", "options", "says"),
    [
        (batch, {"topics": "t"}, "by one of topic, topics and topicsPattern, got topic and topics"),
        (batch, {"topic": "a,b"}, "topic takes the name of one topic: give several as topics"),
        (batch, {"topic": " "}, "topic is empty: give it a value, or leave it out"),
        (batch, {"topic": "non-persistent://public/default/t"}, "only persistent topics store"),
        (batch, {"service__url": ""}, "service.url is empty"),
        (batch, {"service__url": "localhost:6650"}, "a service URL begins with one of"),
        (batch, {"admin__url": "pulsar://localhost"}, "admin.url is the address of the brokers' web server"),
        (batch, {"startingOffsets": "latest"}, "startingOffsets=latest is for spark.readStream"),
        (batch, {"startingOffsets": '{"t": "latest"}'}, "startingOffsets=latest is for spark.readStream"),
        (batch, {"endingOffsets": "earliest"}, "endingOffsets=earliest leaves nothing to read"),
        (batch, {"startingOffsets": "earliest", "startingTime": "1"}, "startingOffsets and startingTime say the same"),
        (batch, {"startingOffsets": "{t: 1}"}, "startingOffsets takes JSON that begins with a brace, and it is none"),
        (batch, {"startingOffsets": '{"t": "x"}'}, "startingOffsets of t takes .earliest., .latest., .ledger:entry."),
        (batch, {"startingOffsets": "earlist"}, "startingOffsets takes .earliest., .latest., .*got 'earlist'"),
        (batch, {"startingOffsets": '{"t": true}'}, "startingOffsets of t takes"),
        (batch, {"startingOffsets": '{"t": [1, 2]}'}, "startingOffsets of t takes"),
        (batch, {"startingOffsets": '{"t": "1:1", "public/default/t": "1:1"}'}, "speaks of .* twice"),
        (batch, {"startingTime": "yesterday"}, "startingTime takes milliseconds since 1970, got 'yesterday'"),
        (batch, {"startingTime": "1_000"}, "startingTime takes milliseconds since 1970, got '1_000'"),
        (batch, {"startingTime": "9" * 26}, "startingTime takes milliseconds since 1970"),
        (batch, {"startingOffsets": '{"t": "1:1", "t": "2:2"}'}, "and it is none: t stands in it twice"),
        (batch, {"pollTimeoutMs": "1_000"}, "pollTimeoutMs takes a whole number, got '1_000'"),
        (stream, {"predefinedSubscription": ""}, "predefinedSubscription is empty: give it a value, or leave it out"),
        (sink, {"writerName": " "}, "writerName is empty"),
        (sink, {"idempotent": "true", "rowsRepeatInOrder": "true"}, "idempotent=true needs admin.url"),
        (batch, {"path": "t"}, "give the topic as option topic"),
        (batch, {"idempotent": "true"}, "idempotent is an option of writing, and this reads"),
        (batch, {"pulsar__producer__batchingEnabled": "true"}, "is an option of writing, and this reads"),
        (sink, {"pulsar__reader__readCompacted": "true"}, "is an option of reading, and this writes"),
        (sink, {"topics": "t"}, "to write, give one as topic"),
        (batch, {"startingTime": "-1"}, "startingTime takes milliseconds since 1970"),
        (batch, {"failOnDataLoss": "maybe"}, "failOnDataLoss takes true or false, got 'maybe'"),
        (batch, {"pollTimeoutMs": "0"}, "pollTimeoutMs takes a whole number from 1 on, got '0'"),
        (batch, {"minPartitions": "2"}, "minPartitions needs admin.url"),
        (batch, {"maxOffsetsPerTrigger": "2"}, "maxOffsetsPerTrigger is an option of spark.readStream"),
        (stream, {"endingOffsets": "latest"}, "endingOffsets is an option of spark.read, and this is spark.readStream"),
        (stream, {"startingOffset": "latest"}, "there is no option startingoffset: the nearest is startingOffsets"),
        (stream, {"pulsar__client__serviceUrl": "x"}, "give it as service.url"),
        (stream, {"pulsar__reader__startMessageId": "x"}, "give it as startingOffsets"),
        (batch, {"pulsar__reader__subscriptionRolePrefix": "x"}, "give it as subscriptionPrefix"),
        (batch, {"pulsar__reader__receiverQueueSize": "-5"}, "receiver_queue_size takes a whole number from 0"),
        (stream, {"pulsar__client__authParams": "the-secret"}, "authParams needs pulsar.client.authPluginClassName"),
        (
            stream,
            {"pulsar__client__authPluginClassName": "the-secret"},
            "pulsar.client.authPluginClassName and pulsar.client.authParams: .* takes one of token",
        ),
        (stream, {"pulsar__client__authentication": "the-secret"}, "give it as pulsar.client.authPluginClassName"),
        (stream, {"pulsar__client__ioThreads": "many"}, "iothreads takes a whole number, got 'many'"),
        (stream, {"pulsar__client__io_threads": "1", "pulsar__client__numIoThreads": "2"}, "say the same: give one"),
        (sink, {"failOnDataLoss": "true"}, "failOnDataLoss is an option of reading, and this writes"),
        (
            sink,
            {"idempotent": "true", "rowsRepeatInOrder": "true", "pulsar__client__memoryLimitBytes": "1000000"},
            "leave out memoryLimitBytes",
        ),
        (sink, {"rowsRepeatInOrder": "true"}, "rowsRepeatInOrder goes with idempotent=true"),
    ],
)
def test_what_is_wrong_is_refused_and_what_would_be_right_is_said(
    make: Any, options: dict[str, str], says: str
) -> None:
    with pytest.raises(InvalidArgument, match=says) as refused:
        make(**options)
    assert "the-secret" not in str(refused.value)


def test_a_pattern_that_is_none_is_refused() -> None:
    given = {
        "service.url": "pulsar://localhost",
        "topicspattern": "persistent://public/default/(",
        "subscriptionprefix": "s",
    }
    with pytest.raises(InvalidArgument, match="topicsPattern takes a regular expression"):
        ReadOptions.of(given, streams=True)


def test_a_pattern_of_topics_that_store_nothing_is_refused() -> None:
    given = {"service.url": "pulsar://localhost", "topicspattern": "non-persistent://public/default/a.*"}
    with pytest.raises(InvalidArgument, match="only persistent topics store"):
        ReadOptions.of(given, streams=False)


def test_what_spark_says_of_a_table_is_no_option() -> None:
    check_names({**NEEDED, "provider": "pulsar", "owner": "me"})
    with pytest.raises(InvalidArgument, match="there is no option providers"):
        check_names({**NEEDED, "providers": "pulsar"})
