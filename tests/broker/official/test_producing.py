import logging
from datetime import timedelta
from typing import Any

import pytest

import pulsar_actors
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.wire.entries import decode_entry
from pulsar_actors.wire.topic_name import TopicName
from tests.broker.official_client import (
    WAIT_MS,
    Official,
    contents,
    data,
    nothing_comes,
    pulsar,
    receive,
    send_all,
    topic,
)

CODECS = ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"]
SILENT = logging.getLogger("silent-client")
SILENT.setLevel(logging.CRITICAL + 1)
PLAIN: dict[str, Any] = {}
BATCHED: dict[str, Any] = {"batching_enabled": True, "batching_max_publish_delay_ms": 50}
BY_KEY: dict[str, Any] = {**BATCHED, "batching_type": pulsar.BatchingType.KeyBased}
TEXT = b"the quick brown fox " * 20

each_way = pytest.mark.parametrize("way", [PLAIN, BATCHED, BY_KEY], ids=["plain", "batched", "by key"])


@each_way
@pytest.mark.parametrize("codec", CODECS)
def test_messages_of_every_codec_come_as_they_were_sent(official: Official, codec: str, way: dict[str, Any]) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name, compression_type=pulsar.CompressionType.__members__[codec], **way)
    sent = [{"content": TEXT + b"%d" % i, "partition_key": f"k{i % 3}"} for i in range(9)]
    ids = send_all(producer, sent)
    got = receive(consumer, 9)
    assert sorted(data(got)) == sorted(message["content"] for message in sent)
    assert {str(message.message_id()) for message in got} == {str(each) for each in ids}


@each_way
def test_every_field_of_a_message_comes_as_it_was_sent(official: Official, way: dict[str, Any]) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name, producer_name=f"fields-of-{name}", **way)
    sent = {
        "content": bytes(range(256)),
        "partition_key": "kéy",
        "ordering_key": "order",
        "properties": {"a": "1", "ü": "€", "empty": ""},
        "event_timestamp": 1_600_000_000_123,
        "sequence_id": 2**40,
    }
    producer.send(**sent)
    message = consumer.receive(WAIT_MS)
    assert message.data() == sent["content"]
    assert message.partition_key() == sent["partition_key"]
    assert message.ordering_key() == sent["ordering_key"]
    assert message.properties() == sent["properties"]
    assert message.event_timestamp() == sent["event_timestamp"]
    assert message.producer_name() == f"fields-of-{name}"
    assert message.topic_name() == name
    assert producer.last_sequence_id() == 2**40


@pytest.mark.parametrize("way", [PLAIN, BATCHED], ids=["plain", "batched"])
def test_an_empty_message_and_one_without_a_value_come_as_what_they_are(
    official: Official, way: dict[str, Any]
) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    send_all(client.create_producer(name, **way), [{"content": b""}, {"content": None, "partition_key": "gone"}])
    empty, gone = receive(consumer, 2)
    assert (empty.data(), empty.has_null_value()) == (b"", False)
    assert (gone.partition_key(), gone.has_null_value()) == ("gone", True)


def test_a_message_of_nearly_the_largest_size_comes_whole(official: Official) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    large = bytes(range(250)) * 20_000
    client.create_producer(name).send(large[:4_999_999])
    assert consumer.receive(WAIT_MS).data() == large[:4_999_999]


def test_a_message_in_chunks_comes_whole(official: Official) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    large = bytes(range(250)) * 50_000
    producer = client.create_producer(name, chunking_enabled=True)
    producer.send(large)
    producer.send(b"small")
    first, second = receive(consumer, 2)
    assert first.data() == large
    assert second.data() == b"small"
    consumer.acknowledge(first)
    consumer.acknowledge(second)


def test_two_producers_of_one_name_do_not_fit_on_a_topic(official: Official) -> None:
    client, name = official.client(), topic()
    client.create_producer(name, producer_name="same")
    with pytest.raises(pulsar.ProducerBusy):
        official.client().create_producer(name, producer_name="same")


def test_an_exclusive_producer_keeps_others_out_until_it_is_fenced(official: Official) -> None:
    client, name, mode = official.client(), topic(), pulsar.ProducerAccessMode
    holder = client.create_producer(name, access_mode=mode.Exclusive)
    holder.send(b"mine")
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(name, access_mode=mode.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(name)
    usurper = client.create_producer(name, access_mode=mode.ExclusiveWithFencing)
    usurper.send(b"mine now")
    with pytest.raises(pulsar.ProducerFenced):
        holder.send(b"still mine")


def test_who_waits_for_a_topic_gets_it_when_it_is_free(official: Official) -> None:
    name, mode = topic(), pulsar.ProducerAccessMode
    first, second = official.client(), official.client()
    holder = first.create_producer(name, access_mode=mode.Exclusive)
    holder.close()
    second.create_producer(name, access_mode=mode.WaitForExclusive).send(b"mine")


def test_what_was_sent_before_is_dropped_where_that_is_switched_on(official: Official, broker: EmbeddedBroker) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    plain = client.create_producer(name, producer_name="named")
    plain.send(b"1", sequence_id=1)
    plain.send(b"1 again", sequence_id=1)
    assert data(receive(consumer, 2)) == [b"1", b"1 again"]

    def switch_on(inside: Any) -> None:
        inside.cluster.find_topic(TopicName.parse(name)).deduplication = True

    broker.call(switch_on)
    plain.send(b"2", sequence_id=2)
    plain.send(b"2 again", sequence_id=2)
    plain.send(b"3", sequence_id=3)
    assert data(receive(consumer, 2)) == [b"2", b"3"]
    plain.close()
    again = client.create_producer(name, producer_name="named")
    assert again.last_sequence_id() == 3
    again.send(b"4")
    assert consumer.receive(WAIT_MS).data() == b"4"


@pytest.mark.parametrize("module", [pulsar, pulsar_actors], ids=lambda module: module.__name__)
@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({}, []),
        ({"replication_clusters": ["here", "there"]}, ["here", "there"]),
        ({"disable_replication": True}, ["__local__"]),
    ],
    ids=["all", "some", "none"],
)
def test_where_a_message_is_to_be_replicated_is_written_with_it(
    broker: EmbeddedBroker, module: Any, fields: dict[str, Any], written: list[str]
) -> None:
    name = topic()
    client = module.Client(broker.service_url, logger=SILENT)
    client.create_producer(name).send(b"x", **fields)
    client.close()
    data = broker.call(lambda inside: inside.cluster.find_topic(TopicName.parse(name)).managed_ledger.entry(0).data)
    assert list(decode_entry(memoryview(data)).metadata.replicate_to) == written


def test_a_terminated_topic_takes_nothing_more_and_gives_what_it_has(
    official: Official, broker: EmbeddedBroker
) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name)
    producer.send(b"last")
    broker.call(lambda inside: inside.cluster.find_topic(TopicName.parse(name)).terminate())
    with pytest.raises(pulsar.TopicTerminated):
        producer.send(b"too late")
    assert consumer.receive(WAIT_MS).data() == b"last"
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(name)


def test_a_message_is_delivered_at_its_time_to_a_shared_subscription(official: Official) -> None:
    client, name = official.client(), topic()
    shared = client.subscribe(name, "shared", pulsar.ConsumerType.Shared)
    exclusive = client.subscribe(name, "exclusive")
    producer = client.create_producer(name)
    producer.send(b"later", deliver_after=timedelta(seconds=1.5))
    producer.send(b"now")
    assert data(receive(exclusive, 2)) == [b"later", b"now"]
    assert shared.receive(WAIT_MS).data() == b"now"
    assert nothing_comes(shared)
    assert shared.receive(WAIT_MS).data() == b"later"


def test_a_thousand_messages_come_in_order(official: Official) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    texts = [str(i) for i in range(1_000)]
    send_all(client.create_producer(name, max_pending_messages=2_000), contents(*texts))
    assert data(receive(consumer, 1_000)) == [text.encode() for text in texts]
