"""A consumer or reader of several topics can do all that one of a single topic can, and for each topic alike."""

import re
import threading
from typing import Any

import pytest
from life import until

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.client.consuming.consumer_event_listener import ConsumerEventListener
from pulsar_actors.client.consuming.consumer_interceptor import ConsumerInterceptor, ReaderInterceptor
from pulsar_actors.client.enums import ConsumerType, InitialPosition
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.exceptions import BrokerMetadataError, InvalidArgument, OperationNotSupported
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, ServerError
from pulsar_actors.wire.topic_name import TopicName

SOON = 5_000
PATIENCE = 20.0
EARLIEST = InitialPosition.Earliest


class Witness(ConsumerInterceptor):
    """It writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [what[1:] for what in self.heard if what[0] == kind]

    def before_consume(self, consumer: Any, message: Any) -> Any:
        self.heard.append(("before", consumer, message.data()))
        return message

    def on_acknowledge(self, consumer: Any, message_id: MessageId, error: Exception | None) -> None:
        self.heard.append(("acknowledge", consumer, message_id, error))

    def on_negative_acks_send(self, consumer: Any, message_ids: Any) -> None:
        self.heard.append(("refused", consumer, {(one.topic_name(), one.partition()) for one in message_ids}))

    def on_partitions_change(self, topic: str, partitions: int) -> None:
        self.heard.append(("partitions", topic, partitions, threading.current_thread().name))

    def close(self) -> None:
        self.heard.append(("close",))


@pytest.fixture
def parts(broker: EmbeddedBroker, topic: str) -> str:
    """A topic of two partitions."""
    broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse(topic), 2))
    return topic


def send_to_both(client: Client, topic: str) -> None:
    with client.create_producer(topic, message_router=lambda message, _: int(message.data())) as producer:
        for each in (b"0", b"1"):
            producer.send(each)


def backlogs(broker: EmbeddedBroker, topic: str) -> list[int]:
    names = [TopicName.parse(topic).partition(index) for index in range(2)]
    return [
        broker.call(lambda inside, name=name: inside.cluster.open_topic(name).subscriptions["s"].backlog())
        for name in names
    ]


def test_interceptors_get_the_consumer_of_all_topics_and_end_once(client: Client, parts: str) -> None:
    witness = Witness()
    consumer = client.subscribe(
        parts, "s", ConsumerType.Shared, interceptors=[witness], negative_ack_redelivery_delay_ms=10
    )
    send_to_both(client, parts)
    messages = [consumer.receive(SOON), consumer.receive_async().result(PATIENCE)]
    assert sorted(witness.of("before"), key=str) == sorted(((consumer, one.data()) for one in messages), key=str)
    consumer.acknowledge(messages[0])
    assert witness.of("acknowledge") == [(consumer, messages[0].message_id(), None)]
    refused = messages[1]
    consumer.negative_acknowledge(refused)
    expected = {(refused.topic_name(), refused.message_id().partition())}
    until(lambda: witness.of("refused") == [(consumer, expected)])
    consumer.close()
    until(lambda: witness.of("close"))
    assert witness.heard[-1] == ("close",)
    assert len(witness.of("close")) == 1


def test_interceptors_hear_of_new_partitions(broker: EmbeddedBroker, topic: str, parts: str) -> None:
    witness = Witness()
    with (
        Client(broker.service_url, partitions_update_interval=0.05) as client,
        client.subscribe(parts, "s", interceptors=[witness]),
    ):
        broker.call(lambda inside: inside.cluster.grow(TopicName.parse(topic), 4))
        ((name, partitions, thread),) = until(lambda: witness.of("partitions"))
        assert (name, partitions) == (topic, 4)
        assert not thread.startswith("pulsar-io")


def test_a_listener_gets_messages_through_interceptors(client: Client, parts: str) -> None:
    witness, heard = Witness(), list[bytes]()
    consumer = client.subscribe(
        parts, "s", message_listener=lambda _, message: heard.append(message.data()), interceptors=[witness]
    )
    send_to_both(client, parts)
    until(lambda: len(heard) == 2)
    assert sorted(witness.of("before"), key=str) == sorted(((consumer, each) for each in heard), key=str)
    consumer.close()


def test_what_a_reader_reads_passes_its_interceptors(client: Client, parts: str) -> None:
    class Noting(ReaderInterceptor):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def before_read(self, reader: Any, message: Any) -> Any:
            self.seen.append((reader, message.data()))
            return message

    noting = Noting()
    send_to_both(client, parts)
    with client.create_reader(parts, MessageId.earliest, interceptors=[noting]) as reader:
        read = [reader.read_next(SOON).data() for _ in range(2)]
        assert noting.seen == [(reader, each) for each in read]


def test_a_failover_consumer_hears_for_each_partition_whether_it_is_served(client: Client, parts: str) -> None:
    heard: dict[tuple[str, int], bool] = {}

    class Noting(ConsumerEventListener):
        def became_active(self, consumer: Any, partition: int) -> None:
            heard[consumer.consumer_name(), partition] = True

        def became_inactive(self, consumer: Any, partition: int) -> None:
            heard[consumer.consumer_name(), partition] = False

    def failover(name: str, priority: int) -> Any:
        return client.subscribe(
            parts,
            "s",
            ConsumerType.Failover,
            consumer_name=name,
            priority_level=priority,
            consumer_event_listener=Noting(),
        )

    second = failover("b", 1)
    until(lambda: heard == {("b", 0): True, ("b", 1): True})
    first = failover("a", 0)
    until(lambda: heard == {("a", 0): True, ("a", 1): True, ("b", 0): False, ("b", 1): False})
    first.close()
    second.close()


def test_messages_of_several_topics_are_acknowledged_in_one_call(
    client: Client, broker: EmbeddedBroker, parts: str
) -> None:
    with client.subscribe(parts, "s", ack_receipt_enabled=True) as consumer:
        send_to_both(client, parts)
        first, second = consumer.receive(SOON), consumer.receive(SOON)
        consumer.acknowledge([first, second.message_id()])
        assert backlogs(broker, parts) == [0, 0]


def test_a_receipt_that_a_broker_refuses_is_that_of_its_message_alone(
    client: Client, broker: EmbeddedBroker, parts: str
) -> None:
    with client.subscribe(parts, "s", ack_receipt_enabled=True) as consumer:
        send_to_both(client, parts)
        first, second = consumer.receive(SOON), consumer.receive(SOON)
        broker.faults.on(CommandAck).refuse(ServerError.MetadataError, "not now")
        with pytest.raises(BrokerMetadataError, match="not now"):
            consumer.acknowledge(first)
        consumer.acknowledge(second)
        assert sorted(backlogs(broker, parts)) == [0, 1]


def test_a_message_of_no_topic_of_its_own_is_refused(client: Client, parts: str) -> None:
    with client.subscribe(parts, "s") as consumer:
        foreign = MessageId.deserialize(MessageId(0, 3, 3).serialize(), f"{parts}-other")
        with pytest.raises(InvalidArgument, match="is none of"):
            consumer.acknowledge(foreign)
        with pytest.raises(InvalidArgument, match="is none of"):
            consumer.seek(foreign)


def test_an_id_that_was_stored_is_of_the_partition_that_it_has_in_the_topic_that_is_given(
    client: Client, broker: EmbeddedBroker, parts: str
) -> None:
    with client.subscribe(parts, "s", ack_receipt_enabled=True) as consumer:
        send_to_both(client, parts)
        for left in (1, 0):
            stored = consumer.receive(SOON).message_id().serialize()
            consumer.acknowledge(MessageId.deserialize(stored, parts))
            assert sum(backlogs(broker, parts)) == left


def test_an_id_that_may_be_of_several_topics_is_refused(client: Client, broker: EmbeddedBroker, parts: str) -> None:
    other = f"{parts}-other"
    broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse(other), 2))
    nameless = MessageId.deserialize(MessageId(0, 3, 3).serialize())
    with client.subscribe([parts, other], "s") as consumer:
        for call in (consumer.acknowledge, consumer.negative_acknowledge, consumer.seek):
            with pytest.raises(OperationNotSupported, match="is not known to be of one of them"):
                call(nameless)


def test_a_message_whose_topic_has_gone_needs_no_acknowledgement(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    """Who works on messages of a pattern should not fail because a topic was deleted meanwhile."""
    consumer: Any = client.subscribe(
        re.compile(f"{topic}-.*"), "s", initial_position=EARLIEST, ack_receipt_enabled=True
    )
    with client.create_producer(f"{topic}-a") as producer:
        producer.send(b"x")
    message = consumer.receive(SOON)
    broker.call(lambda inside: inside.cluster.delete_topic(TopicName.parse(f"{topic}-a"), force=True))
    until(lambda: consumer.is_connected() and not consumer.stats().permits)
    consumer.acknowledge(message)
    consumer.acknowledge([message, message.message_id()])
    consumer.negative_acknowledge(message)
    with pytest.raises(InvalidArgument, match="any longer"):
        consumer.seek(message.message_id())
    consumer.close()


def test_a_pattern_that_is_written_like_one_topic_acknowledges_what_is_of_it(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    with client.create_producer(topic) as producer, client.subscribe(re.compile(topic), "s") as consumer:
        producer.send(b"x")
        message = consumer.receive(SOON)
        assert message.topic_name() == consumer.topic()
        consumer.acknowledge(message)
    until(
        lambda: (
            not broker.call(
                lambda inside: inside.cluster.open_topic(TopicName.parse(topic)).subscriptions["s"].backlog()
            )
        )
    )


def test_the_brokers_statistics_are_added_up(client: Client, parts: str) -> None:
    with client.subscribe(parts, "s", consumer_name="me") as consumer:
        send_to_both(client, parts)
        consumer.receive(SOON)
        consumer.receive(SOON)
        stats = consumer.get_broker_consumer_stats()
        assert stats.msg_backlog == 2
        assert stats.available_permits == 2 * (1000 - 1)
        assert (stats.consumer_name, stats.consumer_type) == ("me", ConsumerType.Exclusive)
        assert ";" not in stats.address  # one connection for both


def test_a_pattern_that_nothing_matches_has_no_statistics(client: Client, topic: str) -> None:
    with client.subscribe(re.compile(f"{topic}-.*"), "s") as consumer:
        assert consumer.get_broker_consumer_stats().msg_backlog == 0


def test_the_end_is_reached_when_all_topics_are_at_theirs(client: Client, broker: EmbeddedBroker, parts: str) -> None:
    def terminate(index: int) -> None:
        broker.call(lambda inside: inside.cluster.open_topic(TopicName.parse(parts).partition(index)).terminate())

    with client.subscribe(parts, "s") as consumer:
        terminate(0)
        assert not consumer.has_reached_end_of_topic()
        terminate(1)
        until(consumer.has_reached_end_of_topic)


def test_a_future_of_several_messages_takes_them_from_all_topics(client: Client, parts: str) -> None:
    policy = ConsumerBatchReceivePolicy(2, -1, 20_000)
    with client.subscribe(parts, "s", batch_receive_policy=policy) as consumer:
        future = consumer.batch_receive_async()
        send_to_both(client, parts)
        assert sorted(message.data() for message in future.result(PATIENCE)) == [b"0", b"1"]


def test_a_future_of_several_messages_ends_when_its_time_is_up(client: Client, parts: str) -> None:
    policy = ConsumerBatchReceivePolicy(5, -1, 50)
    with client.subscribe(parts, "s", batch_receive_policy=policy) as consumer:
        assert consumer.batch_receive_async().result(PATIENCE) == []


def test_a_forced_unsubscribe_ends_it_on_all_topics_whoever_uses_it(client: Client, parts: str) -> None:
    mine = client.subscribe(parts, "s", ConsumerType.Shared)
    other = client.subscribe(parts, "s", ConsumerType.Shared)
    with pytest.raises(BrokerMetadataError, match=r"failed for 2"):
        mine.unsubscribe()
    mine.unsubscribe(force=True)
    assert not mine.is_open
    other.close()


def test_a_listener_that_begins_paused_hears_nothing_until_it_may(client: Client, parts: str) -> None:
    heard: list[bytes] = []
    consumer = client.subscribe(
        parts, "s", message_listener=lambda _, message: heard.append(message.data()), start_paused=True
    )
    send_to_both(client, parts)
    until(lambda: consumer.stats().queued == 2)
    assert not heard
    consumer.resume_message_listener()
    until(lambda: sorted(heard) == [b"0", b"1"])
    consumer.close()
