"""What a program that produces relies on."""

import datetime as dt
import re
import time
from typing import Any

import pytest

from pulsar_actors.machines import producer as machine
from tests.real_broker.exchange import (
    LETTERS,
    NEVER_BY_TIME,
    SOON,
    InThread,
    Outcomes,
    place,
    read_rest,
    send_all,
    stored,
    until,
)
from tests.support.admin import Admin, path_of
from tests.support.subjects import client_module


def test_a_callback_that_raises_does_no_harm_to_the_producer(client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    outcomes = Outcomes()

    def raising(result: Any, message_id: Any) -> None:
        outcomes(result, message_id)
        raise ZeroDivisionError

    producer.send_async(b"x", raising)
    outcomes.wait(1)
    assert producer.send(b"y")


def test_flush_with_nothing_to_send_returns(client: Any, topic: str) -> None:
    client.create_producer(topic, batching_enabled=True).flush()


def test_a_batch_that_has_reached_its_size_does_not_wait_for_its_delay(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic, batching_max_allowed_size_in_bytes=1000, **NEVER_BY_TIME)
    outcomes = Outcomes()
    for _ in range(4):
        producer.send_async(b"x" * 400, outcomes)
    assert outcomes.results(2) == [pulsar.Result.Ok] * 2


@pytest.mark.shows("Batching", "maximum latency")
@pytest.mark.shows("ProducerConfiguration", "batchingMaxPublishDelay")
def test_a_batch_that_does_not_fill_leaves_when_its_delay_is_over(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=1000, batching_max_publish_delay_ms=300
    )
    outcomes = Outcomes()
    before = time.monotonic()
    for _ in range(3):
        producer.send_async(b"x", outcomes)
    ids = outcomes.ids(3)
    assert 0.25 < time.monotonic() - before < 5
    assert len({place(each)[:2] for each in ids}) == 1
    assert [each.batch_index() for each in ids] == [0, 1, 2]


@pytest.mark.parametrize("initial", [-1, 41])
def test_sequence_ids_go_on_from_the_initial_one_or_one_that_was_given(client: Any, topic: str, initial: int) -> None:
    producer = client.create_producer(topic, **({} if initial < 0 else {"initial_sequence_id": initial}))
    assert producer.last_sequence_id() == initial
    producer.send(b"a")
    send_all(producer, [b"b", b"c"])
    assert producer.last_sequence_id() == initial + 3
    producer.send(b"a", sequence_id=70)
    assert producer.last_sequence_id() == 70


def test_with_deduplication_a_sequence_id_is_stored_once_and_its_repetition_has_no_place(
    pulsar: Any, client: Any, topic: str, admin: Admin
) -> None:
    admin.create(topic)
    admin.set_deduplication(topic, on=True)
    until(lambda: admin.is_deduplicating(topic))
    producer = client.create_producer(topic, producer_name="me")
    sent = [(1, b"a"), (2, b"b"), (1, b"again"), (2, b"again"), (3, b"c")]
    ids = [producer.send(payload, sequence_id=sequence_id) for sequence_id, payload in sent]
    assert [place(each)[:2] == (-1, -1) for each in ids] == [False, False, True, True, False]
    assert stored(pulsar, client, topic) == [b"a", b"b", b"c"]


def test_without_deduplication_a_sequence_id_may_come_again(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"a", sequence_id=1)
    producer.send(b"b", sequence_id=1)
    assert stored(pulsar, client, topic) == [b"a", b"b"]


def test_producers_without_a_name_are_given_different_ones(client: Any, topic: str) -> None:
    names = {client.create_producer(topic).producer_name() for _ in range(3)}
    assert len(names) == 3
    assert all(names)


@pytest.mark.shows("Topic")
def test_a_short_topic_name_is_told_in_full(client: Any, topic: str) -> None:
    producer = client.create_producer(topic.rpartition("/")[2])
    assert producer.topic() == topic


@pytest.mark.shows("Command Producer", "metadata")
def test_the_properties_of_a_producer_are_known_to_the_broker(client: Any, topic: str, admin: Admin) -> None:
    producer = client.create_producer(topic, producer_name="mine", properties={"colour": "blue"})
    (publisher,) = admin.stats(topic)["publishers"]
    assert publisher["producerName"] == producer.producer_name()
    assert publisher["metadata"]["colour"] == "blue"


@pytest.mark.parametrize("batching", [False, True], ids=["one by one", "batched"])
def test_the_callback_hears_of_a_message_too_big(pulsar: Any, client: Any, topic: str, *, batching: bool) -> None:
    producer = client.create_producer(topic, batching_enabled=batching)
    outcomes = Outcomes()
    producer.send_async(bytes(5 * 1024 * 1024 + 1), outcomes)
    assert outcomes.results(1) == [pulsar.Result.MessageTooBig]
    assert producer.send(b"x")


def test_a_message_that_compression_makes_small_enough_is_sent(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic, compression_type=pulsar.CompressionType.LZ4).send(bytes(6_000_000))
    assert consumer.receive(SOON).data() == bytes(6_000_000)


def test_a_chunk_is_no_larger_than_was_asked_for(connect: Any, topic: str, admin: Admin) -> None:
    ours, official = client_module("ours"), client_module("official")
    consumers = [connect(each).subscribe(topic, each.__name__) for each in (ours, official)]
    producer = connect(ours).create_producer(topic, chunking_enabled=True, chunk_max_message_size=1000)
    payload = bytes(range(250)) * 10
    producer.send(payload)
    assert [consumer.receive(SOON).data() for consumer in consumers] == [payload, payload]
    assert admin.json("GET", f"{path_of(topic)}/internalStats")["numberOfEntries"] == 3


def test_a_message_of_exactly_the_limit_is_stored_and_one_byte_more_is_refused(
    connect: Any, topic: str, admin: Admin
) -> None:
    ours = client_module("ours")
    client = connect(ours)
    producer = client.create_producer(topic, producer_name="me")  # whose name is in the metadata
    limit = 5 * 1024 * 1024
    with pytest.raises(ours.MessageTooBig) as refused:
        producer.send(bytes(limit), event_timestamp=1)
    (size,) = re.findall(r"an entry of ([\d,]+) bytes", str(refused.value))
    largest = 2 * limit - int(size.replace(",", ""))
    with pytest.raises(ours.MessageTooBig):
        producer.send(bytes(largest + 1), event_timestamp=1)
    producer.send(bytes(largest), event_timestamp=1)
    in_one = client.create_producer(topic, producer_name="me too", chunking_enabled=True)
    in_one.send(bytes(limit - 1000))
    in_one.send(bytes(limit))
    reader = connect(client_module("official")).create_reader(topic, client_module("official").MessageId.earliest)
    assert [len(each) for each in read_rest(reader)] == [largest, limit - 1000, limit]
    assert admin.json("GET", f"{path_of(topic)}/internalStats")["numberOfEntries"] == 4


def test_whoever_hears_that_a_message_is_stored_finds_room_for_the_next(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic, max_pending_messages=1)
    for _ in range(20):
        outcomes = Outcomes()
        producer.send_async(b"x", outcomes)
        assert outcomes.results(1) == [pulsar.Result.Ok]


@pytest.mark.shows("Producing", "block or fail when the queue is full")
@pytest.mark.shows("ProducerConfiguration", "blockIfQueueFull")
def test_a_producer_may_wait_for_room_instead(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic, max_pending_messages=2, block_if_queue_full=True)
    sent = [b"%d" % number for number in range(50)]
    send_all(producer, sent)
    assert stored(pulsar, client, topic) == sent


def test_nothing_is_added_to_a_terminated_topic(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    producer = client.create_producer(topic)
    producer.send(b"x")
    admin.terminate(topic)
    with pytest.raises(pulsar.TopicTerminated):
        producer.send(b"y")
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    assert stored(pulsar, client, topic) == [b"x"]


def test_a_delivery_time_may_be_given_by_the_clock(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic, batching_enabled=True)
    at = int(time.time() * 1000) + 1500
    producer.send(b"late", deliver_at=at)
    producer.send(b"past", deliver_at=1)
    assert consumer.receive(1000).data() == b"past"
    assert consumer.receive(SOON).data() == b"late"
    assert time.time() * 1000 > at - 1000  # the broker may be early by a tick of a second


def test_an_exclusive_subscription_knows_no_delivery_time(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"late", deliver_at=int(time.time() * 1000) + 600_000)
    assert consumer.receive(SOON).data() == b"late"


@pytest.mark.shows("Client library", "queuing until acknowledged")
def test_what_is_on_its_way_during_an_unload_is_stored_in_order(
    pulsar: Any, client: Any, topic: str, admin: Admin
) -> None:
    producer = client.create_producer(topic, batching_enabled=True, max_pending_messages=5000)
    outcomes = Outcomes()
    for number in range(2000):
        producer.send_async(b"%d" % number, outcomes)
        if number == 1000:
            admin.unload(topic)
    producer.flush()
    assert set(map(int, outcomes.results(2000))) == {0}
    numbers = [int(each) for each in stored(pulsar, client, topic)]
    assert sorted(set(numbers)) == list(range(2000))
    assert list(dict.fromkeys(numbers)) == list(range(2000))  # without deduplication, some may be there twice


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("properties", [("a", "b")]),
        ("properties", {"a": 1}),
        ("properties", {1: "a"}),
        ("partition_key", 5),
        ("ordering_key", b"k"),
        ("sequence_id", "1"),
        ("sequence_id", -1),
        ("event_timestamp", 1.5),
        ("event_timestamp", -1),
        ("deliver_at", 1.5),
        ("deliver_at", -1),
        ("deliver_after", 5),
        ("replication_clusters", "a"),
        ("disable_replication", 1),
    ],
)
def test_a_wrong_argument_is_refused_and_nothing_is_sent(
    pulsar: Any, client: Any, topic: str, field: str, value: object
) -> None:
    producer = client.create_producer(topic)
    with pytest.raises((TypeError, ValueError)):
        producer.send(b"x", **{field: value})
    assert producer.last_sequence_id() == -1


@pytest.mark.parametrize("content", ["text", 5, 1.5, object()], ids=lambda value: type(value).__name__)
def test_content_of_a_wrong_type_is_refused(client: Any, topic: str, content: object) -> None:
    producer = client.create_producer(topic)
    with pytest.raises(TypeError):
        producer.send(content)
    assert producer.last_sequence_id() == -1


@pytest.mark.shows("ClientConfiguration", "ioThreads")
def test_several_threads_may_talk_to_the_broker(pulsar: Any, connect: Any, new_topic: Any) -> None:
    client = connect(pulsar, io_threads=3)
    topics = [new_topic() for _ in range(6)]
    consumers = [client.subscribe(topic, "s") for topic in topics]
    producers = [client.create_producer(topic) for topic in topics]
    for number, producer in enumerate(producers):
        producer.send(b"%d" % number)
    assert [consumer.receive(SOON).data() for consumer in consumers] == [b"0", b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.shows("Property and namespace", "property", "namespace")
def test_a_topic_belongs_to_a_namespace_of_a_tenant(client: Any, namespace: str, admin: Admin) -> None:
    producer = client.create_producer(f"{namespace}/orders")
    producer.send(b"a")
    assert producer.topic() == f"persistent://{namespace}/orders"
    assert admin.stats(producer.topic())["msgInCounter"] == 1


@pytest.mark.shows("Command SendError", "NotAllowedError")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)
def test_a_message_that_the_namespace_does_not_allow_is_refused_alone(
    pulsar: Any, client: Any, namespace: str, admin: Admin
) -> None:
    admin.set_longest_delay(namespace, 1000)
    topic = f"persistent://{namespace}/t"
    producer = client.create_producer(topic)
    before = producer.send_async(b"before")
    too_late = producer.send_async(b"far too late", deliver_after=dt.timedelta(hours=1))
    after = producer.send_async(b"after")
    with pytest.raises(pulsar.NotAllowedError, match="delay"):
        too_late.result(SOON / 1000)
    assert before.result(SOON / 1000) < after.result(SOON / 1000)
    assert stored(pulsar, client, topic) == [b"before", b"after"]


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # with the official one, all but the first wait for ever
def test_all_that_wait_for_a_topic_get_their_turn_after_an_unload(
    pulsar: Any, client: Any, topic: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LINE_CHECK_INTERVAL", 1.0)
    holder = client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)

    def take_turn(content: bytes) -> None:
        producer = client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.WaitForExclusive)
        producer.send(content)
        producer.close()

    waiting = [InThread(lambda content=content: take_turn(content)) for content in LETTERS[:3]]  # type: ignore[misc]
    until(lambda: admin.stats(topic)["waitingPublishers"] == 3)
    admin.unload(topic)
    holder.close()
    for each in waiting:
        each.result()
    assert sorted(stored(pulsar, client, topic)) == LETTERS[:3]
