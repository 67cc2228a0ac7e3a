from collections.abc import Iterator
from concurrent.futures import CancelledError, wait

import pytest
from life import until

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.exceptions import AlreadyClosed, InvalidConfiguration, TopicTerminated
from pulsar_actors.wire.topic_name import TopicName

SOON = 5_000
PATIENCE = 20.0


@pytest.fixture
def producer(client: Client, topic: str) -> Iterator[Producer]:
    with client.create_producer(topic, batching_enabled=True) as producer:
        yield producer


def sends(producer: Producer, *payloads: bytes) -> None:
    for payload in payloads:
        producer.send_async(payload, None)
    producer.flush()


def policy(messages: int = -1, size: int = -1, timeout_ms: int = -1) -> ConsumerBatchReceivePolicy:
    return ConsumerBatchReceivePolicy(messages, size, timeout_ms)


@pytest.mark.parametrize("queue", [1000, 1, 0])
def test_it_has_as_many_messages_as_the_policy_says_and_the_next_has_what_follows(
    client: Client, producer: Producer, topic: str, queue: int
) -> None:
    with client.subscribe(topic, "s", receiver_queue_size=queue, batch_receive_policy=policy(3)) as consumer:
        first, second = consumer.batch_receive_async(), consumer.batch_receive_async()
        sends(producer, b"a", b"b")
        assert not wait([first], 0.02).done
        sends(producer, b"c", b"d", b"e", b"f")
        assert [one.data() for one in first.result(PATIENCE)] == [b"a", b"b", b"c"]
        assert [one.data() for one in second.result(PATIENCE)] == [b"d", b"e", b"f"]


def test_it_ends_with_the_message_that_makes_it_large_enough(client: Client, producer: Producer, topic: str) -> None:
    with client.subscribe(topic, "s", batch_receive_policy=policy(size=3)) as consumer:
        sends(producer, b"aa", b"bb", b"cc")
        assert [one.data() for one in consumer.batch_receive_async().result(PATIENCE)] == [b"aa", b"bb"]


def test_when_its_time_is_up_it_has_what_has_come(client: Client, producer: Producer, topic: str) -> None:
    with client.subscribe(topic, "s", batch_receive_policy=policy(5, timeout_ms=100)) as consumer:
        assert consumer.batch_receive_async().result(PATIENCE) == []
        sends(producer, b"a")
        assert [one.data() for one in consumer.batch_receive_async().result(PATIENCE)] == [b"a"]
        sends(producer, b"b")
        assert consumer.receive(SOON).data() == b"b", "one that is over took it"


def test_without_a_policy_it_is_what_comes_in_a_tenth_of_a_second(
    client: Client, producer: Producer, topic: str
) -> None:
    with client.subscribe(topic, "s") as consumer:
        sends(producer, b"a", b"b")
        until(lambda: consumer.stats().queued == 2)
        assert [one.data() for one in consumer.batch_receive_async().result(PATIENCE)] == [b"a", b"b"]


def test_it_can_be_cancelled_until_it_has_a_message(client: Client, producer: Producer, topic: str) -> None:
    with client.subscribe(topic, "s", batch_receive_policy=policy(2)) as consumer:
        unwanted = consumer.batch_receive_async()
        assert unwanted.cancel()
        with pytest.raises(CancelledError):
            unwanted.result(0)
        begun = consumer.batch_receive_async()
        sends(producer, b"a")
        until(lambda: not begun.cancel() and consumer.stats().received == 1)
        sends(producer, b"b")
        assert [one.data() for one in begun.result(PATIENCE)] == [b"a", b"b"]


def test_the_end_gives_what_there_was_and_the_next_call_says_why(
    broker: EmbeddedBroker, client: Client, topic: str
) -> None:
    with client.subscribe(topic, "s", batch_receive_policy=policy(3)) as consumer:
        client.create_producer(topic).send(b"a")
        batch, next_one = consumer.batch_receive_async(), consumer.batch_receive_async()
        until(lambda: consumer.stats().received == 1)
        assert not consumer.has_reached_end_of_topic()
        broker.call(lambda inside: inside.cluster.open_topic(TopicName.parse(topic)).terminate())
        consumer.acknowledge_cumulative(consumer.get_last_message_id())
        assert [one.data() for one in batch.result(PATIENCE)] == [b"a"]
        assert isinstance(next_one.exception(PATIENCE), TopicTerminated)
        assert consumer.has_reached_end_of_topic()
        assert isinstance(consumer.batch_receive_async().exception(PATIENCE), TopicTerminated)
    assert isinstance(consumer.batch_receive_async().exception(PATIENCE), AlreadyClosed)


def test_where_a_listener_gets_the_messages_there_is_nothing_to_receive(client: Client, topic: str) -> None:
    with (
        client.subscribe(topic, "s", message_listener=lambda *_: None) as consumer,
        pytest.raises(InvalidConfiguration),
    ):
        consumer.batch_receive_async()
