"""What one client writes, the other reads: both read every message, and both must see the same, as it was sent."""

import datetime as dt
import itertools
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.real_broker.exchange import (
    LETTERS,
    NEVER_BY_TIME,
    SOON,
    InThread,
    Outcomes,
    Side,
    contents,
    letters_sent,
    nothing_comes,
    place,
    read_rest,
    receive,
    rest,
    send_all,
    send_batch,
    shared_out,
    stored,
    until,
)
from tests.support.admin import Admin
from tests.support.subjects import CLIENTS, client_module

LARGE = 4_999_999
TEXT = b"one client writes what another reads " * 30


class Sent(NamedTuple):
    """One message: what `send` is given."""

    payload: bytes | None
    fields: dict[str, Any]


def seen(message: Any) -> dict[str, Any]:
    """All that a program can learn of a message."""
    return {
        "data": message.data(),
        "value": message.value(),
        "null": message.has_null_value(),
        "properties": message.properties(),
        "partition_key": message.partition_key(),
        "ordering_key": message.ordering_key(),
        "event_timestamp": message.event_timestamp(),
        "publish_timestamp": message.publish_timestamp(),
        "producer_name": message.producer_name(),
        "topic_name": message.topic_name(),
        "redelivery_count": message.redelivery_count(),
        "schema_version": message.schema_version(),
        "place": place(message.message_id()),
        "str of the id": str(message.message_id()),
        "serialised id": message.message_id().serialize(),
    }


def expected(sent: Sent) -> dict[str, Any]:
    """The part of that which the sender chose."""
    return {
        "data": sent.payload or b"",
        "null": sent.payload is None,
        "properties": sent.fields.get("properties", {}),
        "partition_key": sent.fields.get("partition_key", ""),
        "ordering_key": sent.fields.get("ordering_key", ""),
        "event_timestamp": sent.fields.get("event_timestamp", 0),
    }


def differing(wanted: dict[str, Any], found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """What is not as wanted, short enough to be read."""
    return {key: (repr(value)[:200], repr(found[key])[:200]) for key, value in wanted.items() if found[key] != value}


class Reading:
    """A consumer of each client, each with a subscription of its own."""

    def __init__(self, connect: Any, topic: str) -> None:
        self._consumers = [connect(client_module(each)).subscribe(topic, each) for each in CLIENTS]

    def check(self, messages: list[Sent], ids: list[Any]) -> None:
        received = [receive(consumer, len(messages)) for consumer in self._consumers]
        for sent, message_id, by_official, by_ours in zip(messages, ids, *received, strict=True):
            official, ours = seen(by_official), seen(by_ours)
            assert not differing(official, ours)
            assert not differing(expected(sent), ours)
            assert ours["place"] == place(message_id)


@pytest.fixture
def reading(connect: Any, topic: str) -> Reading:
    return Reading(connect, topic)


@pytest.fixture
def sending(sender: Any, connect: Any, topic: str) -> Callable[..., list[Any]]:
    """Send messages together; in a batch, it is one batch."""

    def send(messages: list[Sent], *, batched: bool, **options: Any) -> list[Any]:
        batch = {"batching_max_messages": max(2, len(messages)), **NEVER_BY_TIME}
        producer = connect(sender).create_producer(topic, **options, **(batch if batched else {}))
        outcomes = Outcomes()
        for payload, fields in messages:
            producer.send_async(payload, outcomes, **fields)
        producer.flush()
        assert outcomes.results(len(messages)) == [sender.Result.Ok] * len(messages)
        return outcomes.ids(len(messages))

    return send


batched_or_not = pytest.mark.parametrize("batched", [False, True], ids=["one by one", "batched"])

FIELDS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a key": {"partition_key": "key"},
    "an ordering key": {"ordering_key": "order"},
    "both keys": {"partition_key": "key", "ordering_key": "order"},
    "a key that is not ASCII": {"partition_key": "Schl\u00fcssel \U0001f511"},
    "a property": {"properties": {"a": "b"}},
    "properties": {"properties": {f"name-{number}": f"value {number}" for number in range(50)}},
    "empty properties": {"properties": {"": "", "a": ""}},
    "properties that are not ASCII": {"properties": {"\u540d\u524d": "\u5024 \U0001f600", "control": "\0\n\t"}},
    "an event time": {"event_timestamp": 1_700_000_000_123},
    "the highest event time": {"event_timestamp": 2**63 - 1},
    "a sequence id": {"sequence_id": 12_345},
    "replication to nowhere": {"disable_replication": True},
    "certain clusters": {"replication_clusters": ["standalone"]},
    "a delay": {"deliver_after": dt.timedelta(milliseconds=1)},
    "everything": {
        "partition_key": "key",
        "ordering_key": "order",
        "properties": {"a": "b", "c": "d"},
        "event_timestamp": 1,
        "sequence_id": 7,
    },
}


@batched_or_not
@pytest.mark.parametrize("name", FIELDS)
def test_fields(reading: Reading, sending: Any, name: str, *, batched: bool) -> None:
    messages = [Sent(b"payload", FIELDS[name])]
    reading.check(messages, sending(messages, batched=batched))


@batched_or_not
def test_fields_stay_with_their_message(reading: Reading, sending: Any, *, batched: bool) -> None:
    names = ["a key", "nothing", "a property", "nothing", "an event time", "an ordering key", "nothing"]
    messages = [Sent(name.encode(), FIELDS[name]) for name in names]
    reading.check(messages, sending(messages, batched=batched))


@batched_or_not
@pytest.mark.parametrize(
    "payload",
    [None, b"", b"x", bytes(range(256)), "\u00e9\U0001f600".encode()],
    ids=["null", "empty", "x", "all", "text"],
)
def test_payloads(reading: Reading, sending: Any, payload: bytes | None, *, batched: bool) -> None:
    messages = [Sent(payload, {})]
    reading.check(messages, sending(messages, batched=batched))


@pytest.mark.shows("Message metadata", "null_value")
@batched_or_not
def test_null_and_empty_values_are_told_apart(reading: Reading, sending: Any, *, batched: bool) -> None:
    messages = [Sent(None, {"partition_key": "k"}), Sent(b"", {"partition_key": "k"}), Sent(None, {}), Sent(b"x", {})]
    reading.check(messages, sending(messages, batched=batched))


CODECS = ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"]


@pytest.mark.shows("Compression", "", "LZ4", "ZLIB")
@pytest.mark.shows("ProducerConfiguration", "compressionType")
@batched_or_not
@pytest.mark.parametrize("codec", CODECS)
def test_codecs(sender: Any, reading: Reading, sending: Any, codec: str, *, batched: bool) -> None:
    messages = [Sent(TEXT, {}), Sent(b"x", {"partition_key": "key"}), Sent(os.urandom(10_000), {})]
    ids = sending(messages, batched=batched, compression_type=getattr(sender.CompressionType, codec))
    reading.check(messages, ids)


@pytest.mark.parametrize("codec", [each for each in CODECS if each != "ZLib"])  # the official client can't read its own
def test_codecs_of_nothing(sender: Any, reading: Reading, sending: Any, codec: str) -> None:
    messages = [Sent(b"", {}), Sent(None, {})]
    ids = sending(messages, batched=False, compression_type=getattr(sender.CompressionType, codec))
    reading.check(messages, ids)


@batched_or_not
@pytest.mark.parametrize("codec", CODECS)
def test_large_payloads(sender: Any, reading: Reading, sending: Any, codec: str, *, batched: bool) -> None:
    messages = [Sent(os.urandom(LARGE) if codec == "NONE" else TEXT * (LARGE // len(TEXT)), {})]
    ids = sending(messages, batched=batched, compression_type=getattr(sender.CompressionType, codec))
    reading.check(messages, ids)


@pytest.mark.parametrize("codec", CODECS)
def test_chunked_payloads(sender: Any, reading: Reading, sending: Any, codec: str) -> None:
    messages = [Sent(os.urandom(11_000_000), {"partition_key": "key", "properties": {"a": "b"}}), Sent(b"after", {})]
    kind = getattr(sender.CompressionType, codec)
    reading.check(messages, sending(messages, batched=False, chunking_enabled=True, compression_type=kind))


def test_key_based_batches(sender: Any, reading: Reading, sending: Any) -> None:
    # One key, as batches of several keys leave in an order of their own.
    messages = [Sent(each, {"partition_key": "key"}) for each in LETTERS]
    reading.check(messages, sending(messages, batched=True, batching_type=sender.BatchingType.KeyBased))


@pytest.mark.shows("Producing", "asynchronous")
@batched_or_not
def test_two_thousand_messages(sending: Any, reading: Reading, *, batched: bool) -> None:
    messages = [Sent(b"%d" % number, {}) for number in range(2000)]
    ids = sending(messages, batched=batched, max_pending_messages=5000)
    assert all(earlier < later for earlier, later in itertools.pairwise(ids))
    reading.check(messages, ids)


# What is refused, and what is not: alike by both clients.


def test_a_megabyte_of_properties_is_sent(reading: Reading, sending: Any) -> None:
    messages = [Sent(b"x", {"properties": {"k": "v" * 1_000_000}})]
    reading.check(messages, sending(messages, batched=False))


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(Sent(bytes(5 * 1024 * 1024), {}), id="a payload of the whole limit, which its metadata shares"),
        pytest.param(Sent(bytes(5 * 1024 * 1024 + 1), {}), id="a payload over the limit"),
        pytest.param(Sent(b"x", {"properties": {"k": "v" * 5_242_880}}), id="properties over the limit"),
    ],
)
@batched_or_not
def test_what_is_too_big_is_refused(sender: Any, connect: Any, topic: str, message: Sent, *, batched: bool) -> None:
    producer = connect(sender).create_producer(topic, batching_enabled=batched)
    with pytest.raises(sender.MessageTooBig):
        producer.send(message.payload, **message.fields)
    assert producer.send(b"x"), "it goes on"


# Message ids, passed on as bytes.


@batched_or_not
def test_a_consumer_seeks_an_id_of_the_other_client(giving: Side, taking: Side, topic: str, *, batched: bool) -> None:
    consumer = taking.client.subscribe(topic, "s")
    ids = letters_sent(giving.pulsar, giving.client, topic, batched=batched)
    consumer.seek(taking.pulsar.MessageId.deserialize(ids[1].serialize()))
    assert rest(taking.pulsar, consumer) == LETTERS[2:]


@pytest.mark.shows("Command Subscribe", "start_message_id")
@batched_or_not
def test_a_reader_starts_at_an_id_of_the_other_client(giving: Side, taking: Side, topic: str, *, batched: bool) -> None:
    ids = letters_sent(giving.pulsar, giving.client, topic, batched=batched)
    start = taking.pulsar.MessageId.deserialize(ids[1].serialize())
    assert read_rest(taking.client.create_reader(topic, start)) == LETTERS[2:]
    assert read_rest(taking.client.create_reader(topic, start, start_message_id_inclusive=True)) == LETTERS[1:]


def test_a_consumer_acknowledges_an_id_of_the_other_client(giving: Side, taking: Side, topic: str) -> None:
    consumer = taking.client.subscribe(topic, "s")
    ids = letters_sent(giving.pulsar, giving.client, topic, batched=False)
    receive(consumer, 5)
    for each in (ids[1], ids[3]):
        consumer.acknowledge(taking.pulsar.MessageId.deserialize(each.serialize()))
    consumer.close()
    assert rest(taking.pulsar, taking.client.subscribe(topic, "s")) == [b"a", b"c", b"e"]


# Only this way round: the official taking.client takes a deserialised id out of a batch for the whole batch.
@pytest.mark.parametrize("from_to", [("official", "ours")], indirect=True, ids="-to-".join)
def test_our_consumer_acknowledges_what_the_other_client_received_in_a_batch(
    giving: Side, taking: Side, topic: str
) -> None:
    consumer = taking.client.subscribe(topic, "s", batch_index_ack_enabled=True)
    received = giving.client.subscribe(topic, "other", batch_index_ack_enabled=True)
    letters_sent(giving.pulsar, giving.client, topic, batched=True)
    receive(consumer, 5)
    for message in receive(received, 2):
        consumer.acknowledge(taking.pulsar.MessageId.deserialize(message.message_id().serialize()))
    consumer.close()
    again = taking.client.subscribe(topic, "s", batch_index_ack_enabled=True)
    assert rest(taking.pulsar, again) == LETTERS[2:]


def test_a_reader_starts_at_a_chunked_message_of_the_other_client(giving: Side, taking: Side, topic: str) -> None:
    producer = giving.client.create_producer(topic, chunking_enabled=True)
    producer.send(b"before")
    big = producer.send(b"x" * 11_000_000)
    producer.send(b"after")
    start = taking.pulsar.MessageId.deserialize(big.serialize())
    reader = taking.client.create_reader(topic, start, start_message_id_inclusive=True)
    assert [len(each) for each in read_rest(reader)] == [11_000_000, 5]


# Subscriptions and producers that change hands.


@pytest.mark.shows("Consuming", "cumulative")
@pytest.mark.shows("Cumulative acknowledgement")
def test_a_subscription_goes_on_in_the_other_client(giving: Side, taking: Side, topic: str) -> None:
    consumer = giving.client.subscribe(topic, "s")
    send_all(giving.client.create_producer(topic), LETTERS)
    consumer.acknowledge_cumulative(receive(consumer, 3)[1])
    giving.client.close()
    assert rest(taking.pulsar, taking.client.subscribe(topic, "s")) == LETTERS[2:]


@pytest.mark.shows("Command Message", "ack_set")
def test_batch_indexes_acknowledged_by_one_are_not_delivered_to_the_other(
    giving: Side, taking: Side, topic: str
) -> None:
    consumer = giving.client.subscribe(topic, "s", batch_index_ack_enabled=True)
    send_batch(giving.pulsar, giving.client, topic, LETTERS)
    messages = receive(consumer, 5)
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[3])
    giving.client.close()
    assert rest(taking.pulsar, taking.client.subscribe(topic, "s", batch_index_ack_enabled=True)) == [b"b", b"c", b"e"]


@pytest.mark.shows("Shared", "", "round robin")
@pytest.mark.parametrize("partitions", [0, 3])
def test_both_share_a_subscription(connect: Any, topic: str, admin: Admin, partitions: int) -> None:
    if partitions:
        admin.create_partitioned(topic, partitions)
    modules = [client_module(each) for each in CLIENTS]
    consumers = [
        connect(each).subscribe(topic, "s", consumer_type=each.ConsumerType.Shared, receiver_queue_size=3)
        for each in modules
    ]
    send_all(connect(modules[0]).create_producer(topic), [b"%d" % number for number in range(60)])
    found = shared_out(modules, consumers, 60)
    assert all(found)
    assert sorted(int(each.data()) for share in found for each in share) == list(range(60))


@pytest.mark.shows("Command ProducerSuccess", "last_sequence_id")
def test_one_counts_on_where_the_other_stopped(giving: Side, taking: Side, topic: str, admin: Admin) -> None:
    admin.create(topic)
    admin.set_deduplication(topic, on=True)
    until(lambda: admin.is_deduplicating(topic))
    send_all(giving.client.create_producer(topic, producer_name="me"), LETTERS[:3])
    giving.client.close()
    producer = taking.client.create_producer(topic, producer_name="me")
    assert producer.last_sequence_id() == 2
    producer.send(b"again", sequence_id=2)
    producer.send(b"d", sequence_id=3)
    assert stored(taking.pulsar, taking.client, topic) == LETTERS[:4]


@pytest.mark.shows("Command Producer", "initial_subscription_name")
def test_dead_letters_of_one_are_read_by_the_other(giving: Side, taking: Side, topic: str, admin: Admin) -> None:
    consumer = giving.client.subscribe(
        topic,
        "s",
        consumer_type=giving.pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=giving.pulsar.ConsumerDeadLetterPolicy(2, initial_subscription_name="kept"),
    )
    sent = giving.client.create_producer(topic).send(b"x", properties={"a": "b"}, partition_key="k")
    for count in range(3):
        message = consumer.receive(SOON)
        assert message.redelivery_count() == count
        consumer.negative_acknowledge(message)
    # The official client may crash when it is closed on its way to a dead letter.
    until(lambda: admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0)
    letter = taking.client.subscribe(f"{topic}-s-DLQ", "kept").receive(SOON)
    assert (letter.data(), letter.partition_key()) == (b"x", "k")
    told = {"a": "b", "REAL_TOPIC": topic, "ORIGIN_MESSAGE_ID": str(sent)}
    assert told.items() <= letter.properties().items()
    assert nothing_comes(giving.pulsar, consumer)


# What producers and consumers of both clients do to one another.


@pytest.mark.parametrize("field", ["partition_key", "ordering_key"])
def test_each_key_goes_to_one_consumer_in_order_whoever_that_is(
    sender: Any, connect: Any, topic: str, field: str
) -> None:
    modules = [client_module(each) for each in CLIENTS]
    consumers = [
        connect(each).subscribe(topic, "s", consumer_type=each.ConsumerType.KeyShared, receiver_queue_size=5)
        for each in modules
    ]
    batches = {"batching_enabled": True, "batching_type": sender.BatchingType.KeyBased}
    options = batches if field == "partition_key" else {}
    producer = connect(sender).create_producer(topic, block_if_queue_full=True, **options)
    for number in range(200):
        producer.send_async(b"%d" % number, Outcomes(), **{field: f"key-{number % 20}"})
    producer.flush()
    shares = [[int(each.data()) for each in share] for share in shared_out(modules, consumers, 200)]
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == list(range(200))
    assert not {each % 20 for each in shares[0]} & {each % 20 for each in shares[1]}
    for share, key in itertools.product(shares, range(20)):
        of_key = [each for each in share if each % 20 == key]
        assert of_key == sorted(of_key)


@pytest.mark.shows("Message metadata", "deliver_at_time")
def test_a_delivery_time_of_one_is_kept_for_the_other(giving: Side, taking: Side, topic: str) -> None:
    consumer = taking.client.subscribe(topic, "s", consumer_type=taking.pulsar.ConsumerType.Shared)
    producer = giving.client.create_producer(topic)
    began = time.monotonic()
    producer.send(b"late", deliver_after=dt.timedelta(milliseconds=1500))
    producer.send(b"prompt")
    assert contents(receive(consumer, 2)) == [b"prompt", b"late"]
    assert time.monotonic() - began > 0.5  # the broker may be early by a tick of a second


def test_what_one_refuses_the_other_is_given_again_and_told_how_often(giving: Side, taking: Side, topic: str) -> None:
    consumer = giving.client.subscribe(
        topic, "s", consumer_type=giving.pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    send_all(giving.client.create_producer(topic), [b"x"])
    consumer.negative_acknowledge(consumer.receive(SOON))
    assert consumer.receive(SOON).redelivery_count() == 1
    successor = taking.client.subscribe(topic, "s", consumer_type=taking.pulsar.ConsumerType.Shared)
    giving.client.close()
    message = successor.receive(SOON)
    assert (message.data(), message.redelivery_count() >= 1) == (b"x", True)


@pytest.mark.shows("Command Producer", "producer_access_mode")
def test_one_keeps_the_other_out_of_a_topic_that_it_has_alone(giving: Side, taking: Side, topic: str) -> None:
    holder = giving.client.create_producer(topic, access_mode=giving.pulsar.ProducerAccessMode.Exclusive)
    with pytest.raises(taking.pulsar.ProducerBusy):
        taking.client.create_producer(topic)
    with pytest.raises(taking.pulsar.ProducerFenced):
        taking.client.create_producer(topic, access_mode=taking.pulsar.ProducerAccessMode.Exclusive)
    assert holder.send(b"x")


@pytest.mark.shows("Command ProducerSuccess", "producer_ready")
@pytest.mark.shows("Feature flags", "supports_partial_producer")
def test_one_waits_for_the_topic_that_the_other_has_alone(giving: Side, taking: Side, topic: str, admin: Admin) -> None:
    holder = giving.client.create_producer(topic, access_mode=giving.pulsar.ProducerAccessMode.Exclusive)
    waiting = InThread(
        lambda: taking.client.create_producer(topic, access_mode=taking.pulsar.ProducerAccessMode.WaitForExclusive)
    )
    until(lambda: admin.stats(topic)["waitingPublishers"] == 1)
    holder.send(b"a")
    holder.close()
    waiting.result().send(b"b")
    assert stored(taking.pulsar, taking.client, topic) == [b"a", b"b"]


@pytest.mark.shows("Command Producer", "producer_access_mode")
def test_one_takes_the_topic_from_the_other(giving: Side, taking: Side, topic: str) -> None:
    old = giving.client.create_producer(topic, access_mode=giving.pulsar.ProducerAccessMode.Exclusive)
    new = taking.client.create_producer(topic, access_mode=taking.pulsar.ProducerAccessMode.ExclusiveWithFencing)
    new.send(b"x")
    with pytest.raises(giving.pulsar.ProducerFenced):
        old.send(b"y")
    assert stored(taking.pulsar, taking.client, topic) == [b"x"]


def test_a_name_that_one_has_is_refused_to_the_other(giving: Side, taking: Side, topic: str) -> None:
    holder = giving.client.create_producer(topic, producer_name="mine")
    with pytest.raises(taking.pulsar.ProducerBusy):
        taking.client.create_producer(topic, producer_name="mine")
    assert holder.send(b"x")


@pytest.mark.shows("Failover", "what was not acknowledged goes along")
def test_the_one_that_stands_by_takes_over_from_the_other(giving: Side, taking: Side, topic: str) -> None:
    active = giving.client.subscribe(topic, "s", consumer_type=giving.pulsar.ConsumerType.Failover, consumer_name="a")
    send_all(taking.client.create_producer(topic), LETTERS)
    messages = receive(active, 5)
    active.acknowledge_cumulative(messages[1])
    # The broker's choice among the two depends on names; the second gets the rest, now or when the first has gone.
    standby = taking.client.subscribe(topic, "s", consumer_type=taking.pulsar.ConsumerType.Failover, consumer_name="b")
    giving.client.close()
    assert contents(receive(standby, 3)) == LETTERS[2:]


@pytest.mark.parametrize("broker", ["apache"], indirect=True)  # the embedded one does not compact
def test_the_compacted_version_of_what_one_wrote_is_read_by_the_other(
    giving: Side, taking: Side, topic: str, admin: Admin
) -> None:
    producer = giving.client.create_producer(topic)
    for key, content in [("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("b", None)]:
        producer.send(content, partition_key=key)
    admin.compact(topic)
    reader = taking.client.create_reader(topic, taking.pulsar.MessageId.earliest, is_read_compacted=True)
    assert read_rest(reader) == [b"3", b"4"]
