"""What a program that produces relies on."""

import datetime as dt
import itertools
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.real_broker.exchange import (
    SOON,
    InThread,
    Outcomes,
    contents,
    place,
    read_rest,
    receive,
    send_all,
    send_batch,
    stored,
    until,
)
from tests.support.admin import Admin, path_of
from tests.support.subjects import client_module

FOREVER_MS = 60_000  # a batching delay that no test waits out


@pytest.mark.shows("Producing")
@pytest.mark.shows("Producing", "synchronous")
def test_what_was_sent_arrives_in_the_order_of_sending(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for number in range(10):
        producer.send(b"%d" % number)
    assert contents(receive(consumer, 10)) == [b"%d" % number for number in range(10)]


@pytest.mark.shows("Producing", "asynchronous")
@pytest.mark.parametrize("batching", [False, True], ids=["one by one", "batched"])
def test_a_thousand_messages_on_their_way_at_once_keep_their_order(client: Any, topic: str, *, batching: bool) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=batching)
    sent = [b"%d" % number for number in range(1000)]
    send_all(producer, sent)
    assert contents(receive(consumer, 1000)) == sent


@pytest.mark.parametrize("batching", [False, True], ids=["one by one", "batched"])
def test_send_gives_the_id_under_which_the_message_is_received(client: Any, topic: str, *, batching: bool) -> None:
    consumer = client.subscribe(topic, "s")
    message_id = client.create_producer(topic, batching_enabled=batching).send(b"x")
    received = consumer.receive(SOON).message_id()
    assert received == message_id
    assert place(received) == place(message_id)


def test_ids_rise(client: Any, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=True)
    ids = send_all(producer, [b"x"] * 20)
    assert all(earlier < later for earlier, later in itertools.pairwise(ids))


def test_the_callback_hears_of_each_message_in_the_order_of_sending(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    outcomes = Outcomes()
    for number in range(50):
        producer.send_async(b"%d" % number, outcomes)
    told = outcomes.wait(50)
    assert {result for result, _ in told} == {pulsar.Result.Ok}
    assert [place(each.message_id()) for each in receive(consumer, 50)] == [place(each) for _, each in told]


def test_a_callback_that_raises_does_no_harm_to_the_producer(client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    outcomes = Outcomes()

    def raising(result: Any, message_id: Any) -> None:
        outcomes(result, message_id)
        raise ZeroDivisionError

    producer.send_async(b"x", raising)
    outcomes.wait(1)
    assert producer.send(b"y")


def test_flush_sends_what_waits_for_its_batch_to_fill(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=FOREVER_MS)
    outcomes = Outcomes()
    producer.send_async(b"x", outcomes)
    producer.flush()
    assert outcomes.results(1) == [pulsar.Result.Ok]


def test_flush_with_nothing_to_send_returns(client: Any, topic: str) -> None:
    client.create_producer(topic, batching_enabled=True).flush()


@pytest.mark.shows("Batching")
@pytest.mark.shows("Batching", "maximum messages")
@pytest.mark.shows("ProducerConfiguration", "batchingEnabled", "batchingMaxMessages")
def test_a_full_batch_does_not_wait_for_its_delay(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=3, batching_max_publish_delay_ms=FOREVER_MS
    )
    outcomes = Outcomes()
    for _ in range(3):
        producer.send_async(b"x", outcomes)
    assert outcomes.results(3) == [pulsar.Result.Ok] * 3


def test_a_batch_that_has_reached_its_size_does_not_wait_for_its_delay(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_allowed_size_in_bytes=1000, batching_max_publish_delay_ms=FOREVER_MS
    )
    outcomes = Outcomes()
    for _ in range(4):
        producer.send_async(b"x" * 400, outcomes)
    assert outcomes.results(2) == [pulsar.Result.Ok] * 2


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


def test_messages_of_a_batch_share_an_entry_and_count_up_in_it(pulsar: Any, client: Any, topic: str) -> None:
    ids = send_batch(pulsar, client, topic, [b"a", b"b", b"c"])
    assert len({(each.ledger_id(), each.entry_id()) for each in ids}) == 1
    assert [each.batch_index() for each in ids] == [0, 1, 2]


def test_key_based_batches_keep_the_order_of_each_key(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_type=pulsar.BatchingType.KeyBased,
        batching_max_publish_delay_ms=FOREVER_MS,
    )
    outcomes = Outcomes()
    for number in range(30):
        producer.send_async(b"%d" % number, outcomes, partition_key=f"key-{number % 3}")
    producer.flush()
    assert outcomes.results(30) == [pulsar.Result.Ok] * 30
    received = receive(consumer, 30)
    for key in range(3):
        of_key = [int(each.data()) for each in received if each.partition_key() == f"key-{key}"]
        assert of_key == list(range(key, 30, 3))


def test_last_sequence_id_is_that_of_the_last_message_stored(client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    assert producer.last_sequence_id() == -1
    producer.send(b"a")
    assert producer.last_sequence_id() == 0
    send_all(producer, [b"b", b"c"])
    assert producer.last_sequence_id() == 2


def test_sequence_ids_go_on_from_the_initial_one(client: Any, topic: str) -> None:
    producer = client.create_producer(topic, initial_sequence_id=41)
    assert producer.last_sequence_id() == 41
    producer.send(b"a")
    assert producer.last_sequence_id() == 42


def test_a_sequence_id_given_with_a_message_is_its_own(client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"a", sequence_id=7)
    assert producer.last_sequence_id() == 7


def test_with_deduplication_a_sequence_id_is_stored_once(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    admin.create(topic)
    admin.set_deduplication(topic, on=True)
    until(lambda: admin.is_deduplicating(topic))
    producer = client.create_producer(topic, producer_name="me")
    for sequence_id, payload in [(1, b"a"), (2, b"b"), (1, b"again"), (2, b"again"), (3, b"c")]:
        producer.send(payload, sequence_id=sequence_id)
    assert stored(pulsar, client, topic) == [b"a", b"b", b"c"]


def test_the_id_of_a_duplicate_is_of_no_place(client: Any, topic: str, admin: Admin) -> None:
    admin.create(topic)
    admin.set_deduplication(topic, on=True)
    until(lambda: admin.is_deduplicating(topic))
    producer = client.create_producer(topic, producer_name="me")
    fresh, duplicate = producer.send(b"a", sequence_id=1), producer.send(b"a", sequence_id=1)
    assert place(fresh)[:2] > (0, -1)
    assert place(duplicate)[:2] == (-1, -1)


@pytest.mark.shows("Command ProducerSuccess", "last_sequence_id")
def test_with_deduplication_a_producer_of_the_same_name_goes_on_counting(
    pulsar: Any, client: Any, topic: str, admin: Admin
) -> None:
    admin.create(topic)
    admin.set_deduplication(topic, on=True)
    until(lambda: admin.is_deduplicating(topic))
    first = client.create_producer(topic, producer_name="me")
    send_all(first, [b"a", b"b"])
    first.close()
    second = client.create_producer(topic, producer_name="me")
    assert second.last_sequence_id() == 1
    second.send(b"c")
    assert stored(pulsar, client, topic) == [b"a", b"b", b"c"]


def test_without_deduplication_a_sequence_id_may_come_again(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"a", sequence_id=1)
    producer.send(b"b", sequence_id=1)
    assert stored(pulsar, client, topic) == [b"a", b"b"]


def test_a_producer_has_the_name_it_was_given(client: Any, topic: str) -> None:
    producer = client.create_producer(topic, producer_name="mine")
    consumer = client.subscribe(topic, "s")
    producer.send(b"x")
    assert producer.producer_name() == "mine"
    assert consumer.receive(SOON).producer_name() == "mine"


def test_producers_without_a_name_are_given_different_ones(client: Any, topic: str) -> None:
    names = {client.create_producer(topic).producer_name() for _ in range(3)}
    assert len(names) == 3
    assert all(names)


def test_two_producers_of_one_name_do_not_share_a_topic(pulsar: Any, client: Any, topic: str) -> None:
    first = client.create_producer(topic, producer_name="mine")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic, producer_name="mine")
    assert first.is_connected()


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


def test_a_message_too_big_is_refused_and_the_producer_goes_on(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(5 * 1024 * 1024 + 1))
    producer.send(b"x")
    assert stored(pulsar, client, topic) == [b"x"]


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


def test_a_chunked_message_arrives_whole_and_under_its_own_id(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    payload = b"0123456789" * 1_200_000
    message_id = client.create_producer(topic, chunking_enabled=True).send(payload)
    received = consumer.receive(SOON)
    assert received.data() == payload
    assert received.message_id() == message_id


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


@pytest.mark.shows("Producing", "block or fail when the queue is full")
@pytest.mark.shows("ProducerConfiguration")
@pytest.mark.shows("ProducerConfiguration", "maxPendingMessages")
def test_more_messages_than_may_be_pending_are_refused(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(
        topic, max_pending_messages=2, batching_enabled=True, batching_max_publish_delay_ms=FOREVER_MS
    )
    pending, one_more = Outcomes(), Outcomes()
    for _ in range(2):
        producer.send_async(b"x", pending)
    producer.send_async(b"x", one_more)
    assert one_more.results(1) == [pulsar.Result.ProducerQueueIsFull]
    producer.flush()
    assert pending.results(2) == [pulsar.Result.Ok] * 2
    assert producer.send_async(b"x", pending) is None
    producer.flush()
    assert pending.results(3)[2] == pulsar.Result.Ok


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


@pytest.mark.shows("Command Producer", "producer_access_mode")
def test_nobody_joins_a_producer_with_exclusive_access(pulsar: Any, client: Any, topic: str) -> None:
    access = pulsar.ProducerAccessMode
    holder = client.create_producer(topic, access_mode=access.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=access.Exclusive)
    assert holder.send(b"x")


@pytest.mark.shows("Command Producer", "producer_access_mode")
def test_fencing_shuts_out_the_producer_before(pulsar: Any, client: Any, topic: str) -> None:
    access = pulsar.ProducerAccessMode
    old = client.create_producer(topic, access_mode=access.Exclusive)
    new = client.create_producer(topic, access_mode=access.ExclusiveWithFencing)
    new.send(b"x")
    with pytest.raises(pulsar.ProducerFenced):
        old.send(b"y")
    assert stored(pulsar, client, topic) == [b"x"]


@pytest.mark.shows("Command ProducerSuccess", "producer_ready")
@pytest.mark.shows("Feature flags", "supports_partial_producer")
def test_who_waits_for_exclusive_access_is_served_when_its_holder_leaves(
    pulsar: Any, client: Any, topic: str, connect: Any
) -> None:
    access = pulsar.ProducerAccessMode
    holder = client.create_producer(topic, access_mode=access.Exclusive)
    waiting = InThread(lambda: connect(pulsar).create_producer(topic, access_mode=access.WaitForExclusive))
    holder.send(b"a")
    holder.close()
    waiting.result().send(b"b")
    assert stored(pulsar, client, topic) == [b"a", b"b"]


def test_nothing_is_added_to_a_terminated_topic(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    producer = client.create_producer(topic)
    producer.send(b"x")
    admin.terminate(topic)
    with pytest.raises(pulsar.TopicTerminated):
        producer.send(b"y")
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    assert stored(pulsar, client, topic) == [b"x"]


@pytest.mark.shows("Message metadata", "deliver_at_time")
def test_a_message_with_a_delivery_time_waits_for_it_on_a_shared_subscription(
    pulsar: Any, client: Any, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    before = time.monotonic()
    producer.send(b"late", deliver_after=dt.timedelta(milliseconds=1500))
    producer.send(b"prompt")
    assert consumer.receive(1000).data() == b"prompt"
    assert consumer.receive(SOON).data() == b"late"
    assert time.monotonic() - before > 0.5  # the broker may be early by a tick of a second


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


@pytest.mark.shows("Client library", "transparent reconnection")
def test_an_unload_costs_a_producer_nothing(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    producer = client.create_producer(topic)
    producer.send(b"a")
    admin.unload(topic)
    producer.send(b"b")
    until(producer.is_connected)
    assert stored(pulsar, client, topic) == [b"a", b"b"]


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


@pytest.mark.shows("Batching", "maximum latency")
@pytest.mark.shows("ProducerConfiguration", "batchingMaxPublishDelay")
def test_a_batch_that_is_not_full_leaves_after_its_delay(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=200)
    outcomes = Outcomes()
    producer.send_async(b"a", outcomes)
    producer.send_async(b"b", outcomes)
    first, second = outcomes.ids(2)
    assert (first.entry_id(), first.batch_index()) == (second.entry_id(), 0)
    assert second.batch_index() == 1


@pytest.mark.shows("Persistence", "non-persistent")
def test_a_topic_need_not_be_stored(client: Any, topic: str) -> None:
    unstored = topic.replace("persistent://", "non-persistent://")
    consumer = client.subscribe(unstored, "s")
    producer = client.create_producer(unstored)
    producer.send(b"a")
    message = consumer.receive(SOON)
    consumer.acknowledge(message)
    assert message.data() == b"a"
    assert message.topic_name() == producer.topic() == unstored


@pytest.mark.shows("ClientConfiguration", "ioThreads")
def test_several_threads_may_talk_to_the_broker(pulsar: Any, connect: Callable[..., Any], new_topic: Any) -> None:
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
