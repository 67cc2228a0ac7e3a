import threading
from typing import Any

import pytest
from life import until

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import HashingScheme, PartitionsRoutingMode, ProducerAccessMode, Result
from pulsar_actors.client.producing.producer_interceptor import ProducerInterceptor
from pulsar_actors.exceptions import (
    AlreadyClosed,
    InvalidArgument,
    MemoryBufferIsFull,
    OperationNotSupported,
    ProducerBusy,
    ProducerFenced,
    ProducerQueueIsFull,
)
from pulsar_actors.machines.ledgers import hashing
from pulsar_actors.wire.PulsarApi_pb2 import CommandProducer, CommandSend, ServerError
from pulsar_actors.wire.topic_name import TopicName

SCHEMES = {
    HashingScheme.BoostHash: hashing.HashingScheme.BOOST,
    HashingScheme.JavaStringHash: hashing.HashingScheme.JAVA_STRING,
    HashingScheme.Murmur3_32Hash: hashing.HashingScheme.MURMUR3_32,
}


@pytest.fixture
def parts(broker: EmbeddedBroker, topic: str) -> str:
    """A topic of three partitions."""
    broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse(topic), 3))
    return topic


def producers(broker: EmbeddedBroker, topic: str) -> list[list[str]]:
    """Name the producers of each partition, as the broker knows them."""
    name = TopicName.parse(topic)
    return [
        broker.call(
            lambda inside, index=index: [
                each["producerName"] for each in inside.cluster.find_topic(name.partition(index)).stats()["publishers"]
            ]
        )
        for index in range(3)
    ]


@pytest.mark.parametrize("scheme", HashingScheme, ids=str)
def test_the_hash_that_was_chosen_says_where_a_key_goes(client: Client, parts: str, scheme: HashingScheme) -> None:
    producer = client.create_producer(parts, hashing_scheme=scheme)
    for key in ("a", "b", "key1", "ключ"):
        expected = hashing.HASHES[SCHEMES[scheme]](key) % 3
        assert producer.send(b"x", partition_key=key).partition() == expected


def test_all_partitions_are_under_the_name_that_a_broker_gave_the_first(
    client: Client, broker: EmbeddedBroker, parts: str
) -> None:
    producer = client.create_producer(parts)
    assert producers(broker, parts) == [[producer.producer_name()]] * 3


def test_a_lazy_producer_begins_with_one_partition_and_starts_the_others_when_they_are_used(
    client: Client, broker: EmbeddedBroker, parts: str
) -> None:
    producer = client.create_producer(parts, lazy_start_partitioned_producers=True)
    name = producer.producer_name()
    assert sorted(producers(broker, parts)) == [[], [], [name]]
    for _ in range(3):
        producer.send_async(b"x")
    producer.flush()
    assert producers(broker, parts) == [[name]] * 3
    assert producer.stats().sent == 3


def test_a_lazy_producer_that_could_not_begin_with_a_partition_tries_again_with_the_next_message(
    client: Client, broker: EmbeddedBroker, parts: str
) -> None:
    producer = client.create_producer(
        parts, lazy_start_partitioned_producers=True, message_router=lambda message, _: int(message.data())
    )
    broker.faults.on(CommandProducer).refuse(ServerError.ProducerBusy, "taken")
    with pytest.raises(ProducerBusy, match="taken"):
        producer.send(b"1")
    until(lambda: not fails(producer), "the next one arrives")


def fails(producer: Any) -> bool:
    try:
        producer.send(b"1")
    except ProducerBusy:
        return True
    return False


def test_a_lazy_start_does_not_count_with_exclusive_access(client: Client, broker: EmbeddedBroker, parts: str) -> None:
    producer = client.create_producer(
        parts, lazy_start_partitioned_producers=True, access_mode=ProducerAccessMode.Exclusive, producer_name="me"
    )
    assert producers(broker, parts) == [[producer.producer_name()]] * 3


def test_a_refusal_of_one_partition_closes_the_others_and_names_it(
    client: Client, broker: EmbeddedBroker, parts: str
) -> None:
    with client.create_producer(f"{parts}-partition-1"), pytest.raises(ProducerFenced, match="-partition-1"):
        client.create_producer(parts, access_mode=ProducerAccessMode.Exclusive, producer_name="me")
    assert producers(broker, parts) == [[], [], []]


def test_the_limit_across_partitions_is_shared_out(client: Client, broker: EmbeddedBroker, parts: str) -> None:
    producer = client.create_producer(
        parts,
        max_pending_messages_across_partitions=6,
        message_routing_mode=PartitionsRoutingMode.UseSinglePartition,
    )
    broker.faults.on(CommandSend, times=10).delay(0.3)
    sent = [producer.send_async(b"x"), producer.send_async(b"x"), producer.send_async(b"x")]
    broker.faults.clear()
    assert isinstance(sent[2] and sent[2].exception(10), ProducerQueueIsFull)
    assert all(future and future.exception(10) is None for future in sent[:2])


def test_a_router_that_gives_no_partition_is_refused_and_one_that_raises_is_heard(client: Client, parts: str) -> None:
    beyond = client.create_producer(parts, message_router=lambda _, count: count)
    with pytest.raises(InvalidArgument, match="from 0 to 2"):
        beyond.send(b"x")
    broken = client.create_producer(parts, message_router=lambda _, count: count // 0)
    with pytest.raises(ZeroDivisionError):
        broken.send_async(b"x")


def test_a_partition_that_ends_leaves_the_others_at_work(client: Client, broker: EmbeddedBroker, parts: str) -> None:
    producer = client.create_producer(parts, message_router=lambda message, _: int(message.data()))
    broker.call(lambda inside: inside.cluster.find_topic(TopicName.parse(parts).partition(0)).terminate())
    told: list[Result] = []
    until(lambda: producer.send_async(b"0", lambda result, _: told.append(result)) or told, "it is told")
    until(lambda: told[-1] is Result.TopicTerminated, "the partition has ended")
    assert producer.send(b"1").partition() == 1
    assert producer.is_open


def test_a_full_queue_is_not_waited_for_in_a_callback(client: Client, parts: str) -> None:
    producer = client.create_producer(
        parts, block_if_queue_full=True, max_pending_messages=1, message_router=lambda *_: 0
    )
    raised: list[Exception] = []

    def send_more(*_: Any) -> None:
        try:
            for _ in range(3):
                producer.send_async(b"y", lambda *_: None)
        except OperationNotSupported as error:
            raised.append(error)

    producer.send_async(b"x", send_more)
    until(lambda: raised, "it is told")


def test_nothing_is_taken_after_the_close(client: Client, parts: str) -> None:
    producer = client.create_producer(parts)
    producer.close()
    with pytest.raises(AlreadyClosed):
        producer.send(b"x")


class Noting(ProducerInterceptor):
    """It writes down what it hears."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[Any, Any, int]] = []
        self.partitions: list[tuple[str, int, str]] = []
        self.closed = 0

    def on_send_acknowledgement(self, producer: Any, message: Any, message_id: Any, error: Exception | None) -> None:
        assert error is None
        self.acknowledged.append((producer, message.content, message_id.partition()))

    def on_partitions_change(self, topic: str, partitions: int) -> None:
        self.partitions.append((topic, partitions, threading.current_thread().name))

    def close(self) -> None:
        self.closed += 1


def test_interceptors_hear_of_messages_to_all_partitions_and_of_new_ones(broker: EmbeddedBroker, parts: str) -> None:
    noting = Noting()
    with Client(broker.service_url, partitions_update_interval=0.05) as client:
        producer = client.create_producer(
            parts, interceptors=[noting], message_router=lambda message, _: int(message.data())
        )
        for each in (b"0", b"2"):
            producer.send(each)
        assert noting.acknowledged == [(producer, b"0", 0), (producer, b"2", 2)]
        broker.call(lambda inside: inside.cluster.grow(TopicName.parse(parts), 4))
        ((name, partitions, thread),) = until(lambda: noting.partitions, "it is told")
        assert (name, partitions) == (parts, 4)
        assert not thread.startswith("pulsar-io")
        producer.close()
        until(lambda: noting.closed == 1, "it is told of the end")


def test_the_memory_limit_of_the_client_counts_for_all_partitions(broker: EmbeddedBroker, parts: str) -> None:
    with Client(broker.service_url, memory_limit_bytes=100) as client:
        producer = client.create_producer(parts)
        broker.faults.on(CommandSend, times=10).delay(0.3)
        sent: list[Any] = [producer.send_async(b"x" * 60) for _ in range(3)]
        broker.faults.clear()
        assert isinstance(sent[2].exception(10), MemoryBufferIsFull)
        assert [each.exception(10) for each in sent[:2]] == [None, None]
        assert producer.send(b"x" * 60).partition() >= 0  # it was given back
