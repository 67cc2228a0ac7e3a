"""Options: how each is parsed, and the errors for wrong ones."""

import json
import pickle
from typing import Any

import pytest

from pulsar_actors.client.enums import CompressionType, PartitionsRoutingMode
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.spark.cluster_access import ClusterAccess
from pulsar_actors.spark.offset_bounds import AtTime, Latest
from pulsar_actors.spark.offsets import Offsets
from pulsar_actors.spark.options import ReadOptions, SinkOptions, check_names
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition

NEEDED = {"service.url": "pulsar://localhost", "topic": "t"}
T = TopicName.parse("t")


def batch(**options: str) -> ReadOptions:
    return ReadOptions.parse({**NEEDED, **named(options)}, is_stream=False)


def stream(**options: str) -> ReadOptions:
    return ReadOptions.parse({**NEEDED, "subscriptionPrefix": "s", **named(options)}, is_stream=True)


def sink(**options: str) -> SinkOptions:
    return SinkOptions.parse({**NEEDED, **named(options)})


def named(options: dict[str, str]) -> dict[str, str]:
    """Options as Spark hands them on: their names in small letters."""
    return {name.replace("__", ".").lower(): value for name, value in options.items()}


def test_by_default_a_table_begins_at_the_first_message_and_a_stream_at_the_end() -> None:
    assert (batch().starting.of(T), batch().ending.of(T)) == (TOPIC_START, Latest())
    assert stream().starting.of(T) == Latest()
    assert not stream().starting.is_given_for(T)
    assert stream(startingOffsets="earliest").starting.is_given_for(T)
    assert stream(startingOffsets="Earliest").starting.of(T) == TOPIC_START


def test_an_offset_is_a_word_a_position_or_the_bytes_of_a_message_id() -> None:
    said = {"a": "12:5", "b": "earliest", "c": -2, "d": list(MessageId(3, 4, 0, 7).serialize()), "e": "latest"}
    starting = stream(topic="t", startingOffsets=json.dumps(said)).starting
    found = [starting.of(TopicName.parse(topic)) for topic in [*said, "f"]]
    assert found == [TopicPosition(12, 5), TOPIC_START, TOPIC_START, TopicPosition(3, 4, 7), Latest(), Latest()]
    assert batch(startingTime="1000").starting.of(T) == AtTime(1000)
    assert batch(endingTime='{"t": 7}').ending.of(T) == AtTime(7)


def test_offsets_may_be_those_of_the_progress_of_a_query() -> None:
    shown = Offsets("mine", {T: TopicPosition(12, 5)}).write()
    assert batch(startingOffsets=json.dumps(shown)).starting.of(T) == TopicPosition(12, 5)
    assert batch(endingOffsets=json.dumps({**shown, "entriesBehind": 7})).ending.of(T) == TopicPosition(12, 5)
    empty = Offsets("mine", {T: TOPIC_START}).write()
    assert batch(endingOffsets=json.dumps(empty)).ending.of(T) == TOPIC_START


def test_the_bound_of_a_topic_is_that_of_its_partitions_unless_they_are_named() -> None:
    starting = stream(startingOffsets='{"t": "earliest", "t-partition-1": "1:2"}').starting
    assert [starting.of(T.partition(number)) for number in range(2)] == [TOPIC_START, TopicPosition(1, 2)]
    starting.check([T.partition(0), T.partition(1)], [])
    with pytest.raises(
        InvalidArgument, match="speaks of persistent://public/default/t-partition-1, which is not among"
    ):
        starting.check([T.partition(0)], [])
    with pytest.raises(InvalidArgument, match="has partitions, name that which the message is in"):
        stream(startingOffsets='{"t": "1:2"}').starting.check([T.partition(0)], [])
    assert [starting.is_given_for(one) for one in (T, TopicName.parse("u"))] == [True, False]


def test_an_awaited_topic_may_have_a_bound() -> None:
    waiting = stream(startingOffsets='{"t": "earliest"}', waitingForNonExistedTopic="true")
    waiting.starting.check([], waiting.topics.awaited)
    hasty = stream(startingOffsets='{"t": "earliest"}')
    with pytest.raises(InvalidArgument, match="which is not among the topics to read"):
        hasty.starting.check([], hasty.topics.awaited)


def test_a_single_position_is_refused_for_several_partitions() -> None:
    starting = batch(startingOffsets="12:5").starting
    starting.check([T], [])
    with pytest.raises(InvalidArgument, match="startingOffsets names one message, and there are 2 partitions"):
        starting.check([T.partition(0), T.partition(1)], [])


def test_options_of_clients_have_the_names_of_java_or_of_this_package() -> None:
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


def test_clusters_with_equal_options_have_equal_identities() -> None:
    assert batch().cluster.identity == sink().cluster.identity
    one, other = {"service_url": "pulsar://a", "io_threads": 1}, {"io_threads": 1, "service_url": "pulsar://a"}
    assert ClusterAccess(one).identity == ClusterAccess(other).identity
    others = [
        batch(pulsar__client__operationTimeoutMs="1"),
        batch(admin__url="http://localhost"),
        batch(service__url="pulsar://b"),
    ]
    assert len({one.cluster.identity for one in [batch(), *others]}) == 4
    assert pickle.loads(pickle.dumps(batch())).cluster.identity == batch().cluster.identity  # noqa: S301 - our own


def test_options_show_no_secrets() -> None:
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
        (batch, {"minOffsetsPerTrigger": "2"}, "minOffsetsPerTrigger is an option of spark.readStream"),
        (stream, {"maxOffsetsPerTrigger": "9" * 19}, "takes a whole number up to 9,223,372,036,854,775,807, got"),
        (stream, {"startingOffsets": "9" * 20 + ":1"}, "startingOffsets takes .earliest., .*got '9{20}:1'"),
        (stream, {"startingOffsets": f"1:1:-1:{2**31}"}, "startingOffsets takes .earliest., .*:2147483648'"),
        (stream, {"startingOffsets": '{"t": "1:' + "9" * 20 + '"}'}, "startingOffsets of t takes .earliest."),
        (batch, {"pollTimeoutMs": "9" * 19}, "pollTimeoutMs takes a whole number up to 1,000,000,000,000, got"),
        (batch, {"pulsar__reader__readerName": " "}, "pulsar.reader.readername is empty: give it a value"),
        (batch, {"pulsar__reader__cryptoKeyReader": "k"}, "Spark has no end-to-end encryption"),
        (batch, {"pulsar__admin__tlsTrustCertsFilePath": "/f"}, "leave out pulsar.admin"),
        (sink, {"pulsar__admin__tlsTrustCertsFilePath": "/f"}, "leave out pulsar.admin"),
        (stream, {"topic__schema__class": "com.a.B"}, "the schema is that of the topic itself"),
        (sink, {"topic": "a,b"}, "topic takes the name of one topic: several are a column __topic of the rows"),
        (sink, {"pulsar__producer__producerName": ""}, "pulsar.producer.producername is empty: give it a value"),
        (sink, {"pulsar__producer__encryptionKey": "k"}, "Spark has no end-to-end encryption: .* takes one"),
        (sink, {"exactlyOnce": "true", "transactionTimeoutMs": "9" * 19}, "up to 1,000,000,000,000, got"),
        (stream, {"maxTriggerDelay": "1h"}, "maxTriggerDelay goes with minOffsetsPerTrigger"),
        (stream, {"minOffsetsPerTrigger": "2", "maxTriggerDelay": "soon"}, "takes a time such as 15m, 30s or 500ms"),
        (stream, {"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "2"}, "is 3, and no batch has so many"),
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
        (sink, {"pulsar__producer__accessMode": "ExclusiveWithFencing"}, "With WaitForExclusive tasks take turns"),
        (sink, {"rowsRepeatInOrder": "true"}, "rowsRepeatInOrder goes with idempotent=true"),
        (sink, {"writerName": "w"}, "writerName goes with idempotent=true or exactlyOnce=true"),
        (sink, {"controlTopic": "c"}, "controlTopic goes with exactlyOnce=true"),
        (sink, {"exactlyOnce": "true", "topic": "non-persistent://public/default/t"}, "needs persistent topics"),
        (sink, {"exactlyOnce": "true", "controlTopic": "t"}, "for records of what is written, not for the rows"),
        (sink, {"exactlyOnce": "true", "transactionTimeoutMs": "0"}, "takes a whole number from 1 on"),
        (
            sink,
            {"exactlyOnce": "true", "idempotent": "true", "sequenceColumn": "id"},
            "say rowsRepeatInOrder=true instead of sequenceColumn",
        ),
    ],
)
def test_a_wrong_option_is_refused_with_a_hint(make: Any, options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says) as refused:
        make(**options)
    assert "the-secret" not in str(refused.value)


def test_tasks_do_not_wait_for_several_topics_at_once() -> None:
    by_row = {"service.url": "pulsar://localhost", "pulsar.producer.accessmode": "WaitForExclusive"}
    assert SinkOptions.parse({**by_row, "topic": "t"}).topic is not None
    with pytest.raises(InvalidArgument, match="access_mode=WaitForExclusive takes one topic for all rows"):
        SinkOptions.parse(by_row)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("persistent://public/default/(", "topicsPattern takes a regular expression"),
        ("non-persistent://public/default/a.*", "only persistent topics store"),
    ],
)
def test_a_pattern_that_cannot_match_what_is_stored_is_refused(pattern: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        ReadOptions.parse({"service.url": "pulsar://localhost", "topicspattern": pattern}, is_stream=False)


def test_options_that_spark_adds_to_a_table_are_ignored() -> None:
    check_names({**NEEDED, "provider": "pulsar", "owner": "me"})
    with pytest.raises(InvalidArgument, match="there is no option providers"):
        check_names({**NEEDED, "providers": "pulsar"})
