"""In which order things are said between either client and either broker, and how much at a time."""

import gc
import itertools
import socket
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.runtime.tcp import TcpTransport
from pulsar_actors.wire import PulsarApi_pb2 as wire
from tests.real_broker.exchange import NEVER_BY_TIME, SOON, InThread, Outcomes, receive, send_all, until
from tests.real_broker.wiretap import Wiretap
from tests.support.guards import ME, Guarded
from tests.support.subjects import client_module

THREADS, THREADS_SEND = 8, 50
FORGED = Tokens(b"another secret of some thirty-two bytes").issue(ME)
BOUND = {
    "producer": (wire.CommandCloseProducer, wire.CommandProducer),
    "consumer": (wire.CommandCloseConsumer, wire.CommandSubscribe),
}


@pytest.mark.shows("Command CloseProducer", "", "from the broker")
@pytest.mark.shows("Command CloseConsumer", "", "from the broker")
@pytest.mark.shows("Consumer")
@pytest.mark.shows("Client library", "", "transparent reconnection")
@pytest.mark.parametrize("kind", BOUND)
def test_what_the_broker_closes_is_looked_up_and_made_again_over_the_same_connection(
    client: Any, topic: str, admin: Any, tapped: Wiretap, kind: str
) -> None:
    close, create = BOUND[kind]
    made = client.create_producer(topic) if kind == "producer" else client.subscribe(topic, "s")
    connections = {each.connection for each in tapped.said}
    admin.unload(topic)
    until(lambda: len(tapped.sent(create)) >= 2 and made.is_connected())
    order = tapped.order(close, wire.CommandLookupTopic, create)
    assert [each for each, _ in itertools.groupby(order)][:5] == [
        wire.CommandLookupTopic, create, close, wire.CommandLookupTopic, create,
    ]  # fmt: skip
    assert {each.connection for each in tapped.said} == connections


@pytest.mark.shows("Flow control", "", "half of the queue")
@pytest.mark.shows("Command Flow", "", "consumer_id", "messagePermits")
@pytest.mark.shows("ConsumerConfiguration", "receiverQueueSize")
@pytest.mark.parametrize("together", [1, 10])
def test_no_permits_are_given_before_half_of_the_queue_was_taken_and_then_for_that_half(
    pulsar: Any, client: Any, topic: str, tapped: Wiretap, together: int
) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=10)
    producer = client.create_producer(
        topic, batching_enabled=together > 1, batching_max_messages=10, batching_max_publish_delay_ms=60_000
    )
    for number in range(6):  # whoever asks for the sixth is done with the fifth
        if number % together == 0:
            with pytest.raises(pulsar.Timeout):  # where nothing is left, permits may seem due
                consumer.receive(1)
            send_all(producer, [b"x"] * together)
        receive(consumer, 1)
        if number == 3:
            consumer.get_last_message_id()
            assert tapped.sent(wire.CommandGetLastMessageId)
            assert [each.messagePermits for each in tapped.sent(wire.CommandFlow)] == [10]
    until(lambda: [each.messagePermits for each in tapped.sent(wire.CommandFlow)] == [10, 5])
    consumer_id = tapped.one_sent(wire.CommandSubscribe).consumer_id
    assert {each.consumer_id for each in tapped.sent(wire.CommandFlow)} == {consumer_id}


@pytest.mark.shows("Partitioned topics discovery", "partition-X", "only the first time")
def test_each_partition_has_a_producer_and_a_consumer_and_is_not_asked_about_again(
    client: Any, partitioned: str, admin: Any, tapped: Wiretap
) -> None:
    parts = [f"{partitioned}-partition-{number}" for number in range(3)]
    producer, consumer = client.create_producer(partitioned), client.subscribe(partitioned, "s")
    asked = [each.topic for each in tapped.sent(wire.CommandPartitionedTopicMetadata)]
    assert asked == [partitioned] * 2
    for kind in (wire.CommandProducer, wire.CommandSubscribe):
        assert sorted(each.topic for each in tapped.sent(kind)) == parts
    admin.unload(parts[1])
    until(lambda: len(tapped.sent(wire.CommandProducer)) > 3 and len(tapped.sent(wire.CommandSubscribe)) > 3)
    send_all(producer, [b"a", b"b", b"c"])
    receive(consumer, 3)
    assert [each.topic for each in tapped.sent(wire.CommandPartitionedTopicMetadata)] == asked


@pytest.mark.shows("Batching", "", "maximum messages")
@pytest.mark.shows("ProducerConfiguration", "batchingEnabled", "batchingMaxMessages")
def test_no_batch_has_more_messages_than_it_may_and_a_full_one_does_not_wait_for_its_delay(
    client: Any, topic: str, tapped: Wiretap
) -> None:
    producer = client.create_producer(topic, batching_max_messages=3, **NEVER_BY_TIME)
    outcomes = Outcomes()
    for _ in range(7):
        producer.send_async(b"x", outcomes)
    outcomes.wait(6)
    producer.flush()
    assert [each.num_messages for each in tapped.sent(wire.CommandSend)] == [3, 3, 1]


def test_a_batch_that_is_left_with_one_message_is_framed_as_a_batch(client: Any, topic: str, tapped: Wiretap) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic, batching_enabled=True), [b"alone"])
    assert consumer.receive(SOON).data() == b"alone"
    *_, metadata, payload = tapped.entries(wire.CommandSend)[0]
    assert metadata.HasField("num_messages_in_batch")
    assert metadata.num_messages_in_batch == 1
    assert payload.endswith(b"alone")
    assert payload != b"alone"


@pytest.mark.shows("Message metadata", "deliver_at_time")
def test_a_message_with_a_delivery_time_is_in_no_batch(pulsar: Any, client: Any, topic: str, tapped: Wiretap) -> None:
    producer = client.create_producer(topic, batching_max_messages=10, **NEVER_BY_TIME)
    outcomes = Outcomes()
    producer.send_async(b"a", outcomes)
    producer.send_async(b"b", outcomes, deliver_after=timedelta(milliseconds=1))
    producer.send_async(b"c", outcomes)
    producer.flush()
    assert outcomes.results(3) == [pulsar.Result.Ok] * 3
    sent = [each.metadata for each in tapped.entries(wire.CommandSend)]
    delayed = [each for each in sent if each.HasField("deliver_at_time")]
    assert [each.HasField("num_messages_in_batch") for each in delayed] == [False]


@pytest.mark.shows("Command Send", "sequence_id")
def test_threads_that_share_a_producer_share_its_sequence_ids_and_none_is_left_out(
    client: Any, topic: str, tapped: Wiretap
) -> None:
    producer, outcomes = client.create_producer(topic, max_pending_messages=0), Outcomes()
    threads = [
        InThread(lambda: [producer.send_async(b"x", outcomes) for _ in range(THREADS_SEND)] and None)
        for _ in range(THREADS)
    ]
    for each in threads:
        each.result()
    outcomes.wait(THREADS * THREADS_SEND)
    assert [each.sequence_id for each in tapped.sent(wire.CommandSend)] == list(range(THREADS * THREADS_SEND))


@pytest.mark.shows("Command Flow", "messagePermits")
@pytest.mark.shows("Consumer")
def test_each_new_binding_is_given_permits_for_the_queue_once(
    client: Any, topic: str, admin: Any, tapped: Wiretap
) -> None:
    consumer, producer = client.subscribe(topic, "s", receiver_queue_size=10), client.create_producer(topic)
    for round_ in range(3):
        bound = len(tapped.sent(wire.CommandFlow))
        send_all(producer, [b"x"] * 4)
        for message in receive(consumer, 4):
            consumer.acknowledge(message)
        assert len(tapped.sent(wire.CommandFlow)) == bound == round_ + 1
        admin.unload(topic)
        until(lambda bound=bound: len(tapped.sent(wire.CommandFlow)) > bound)
    assert {each.messagePermits for each in tapped.sent(wire.CommandFlow)} == {10}


@pytest.mark.shows("Compression", "LZ4", "ZLIB")
@pytest.mark.shows("ProducerConfiguration", "compressionType")
@pytest.mark.shows("Message metadata", "compression", "uncompressed_size")
@pytest.mark.parametrize("codec", ["LZ4", "ZLib", "ZSTD", "SNAPPY"])
def test_a_payload_travels_squeezed_as_was_asked_for(
    pulsar: Any, client: Any, topic: str, tapped: Wiretap, codec: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, compression_type=getattr(pulsar.CompressionType, codec))
    producer.send(b"x" * 10_000)
    assert consumer.receive(SOON).data() == b"x" * 10_000
    *_, metadata, payload = tapped.entries(wire.CommandSend)[0]
    assert metadata.compression == wire.CompressionType.Value(codec.upper())
    assert metadata.uncompressed_size == 10_000 > 10 * len(payload)


@pytest.mark.shows("Producing", "block or fail when the queue is full")
@pytest.mark.shows("ProducerConfiguration", "", "maxPendingMessages")
def test_what_is_refused_for_want_of_room_is_not_sent(pulsar: Any, client: Any, topic: str, tapped: Wiretap) -> None:
    producer = client.create_producer(topic, max_pending_messages=2, **NEVER_BY_TIME)
    pending, one_more = Outcomes(), Outcomes()
    for outcomes in (pending, pending, one_more):
        producer.send_async(b"x", outcomes)
    assert one_more.results(1) == [pulsar.Result.ProducerQueueIsFull]
    producer.flush()
    assert pending.results(2) == [pulsar.Result.Ok] * 2
    assert sum(each.num_messages for each in tapped.sent(wire.CommandSend)) == 2
    send_all(producer, [b"x"])


@pytest.mark.shows("Connection establishment", "Error")
def test_whoever_is_not_known_gets_an_error_in_the_place_of_connected(
    pulsar: Any, guarded: Guarded, connect_to: Any, topic: str
) -> None:
    with closing(Wiretap(guarded.service_url)) as tapped:
        forged = pulsar.AuthenticationToken(FORGED)
        client = connect_to(pulsar, tapped.service_url, authentication=forged, operation_timeout_seconds=1)
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(topic)
        assert {each.error for each in tapped.came(wire.CommandError)} == {wire.ServerError.AuthenticationError}
        assert not tapped.came(wire.CommandConnected)
        assert {type(each.command) for each in tapped.said} == {wire.CommandConnect, wire.CommandError}


@pytest.mark.shows("ClientConfiguration", "useTcpNoDelay")
@pytest.mark.parametrize("at_once", [True, False])
def test_small_writes_may_leave_at_once_or_wait_for_more(
    topic: str, tapped: Wiretap, connect_to: Any, *, at_once: bool
) -> None:
    client = connect_to(client_module("ours"), tapped.service_url, tcp_no_delay=at_once)
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"a")
    assert consumer.receive(SOON).data() == b"a"
    port = int(tapped.service_url.rpartition(":")[2])
    opened = [each._socket for each in gc.get_objects() if type(each) is TcpTransport]
    alive = [each for each in opened if isinstance(each, socket.socket) and each.fileno() >= 0]
    ours = [each for each in alive if each.getpeername()[1] == port]
    assert ours
    assert {bool(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) for each in ours} == {at_once}
