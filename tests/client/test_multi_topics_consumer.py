"""A consumer or reader of several topics can do all that one of a single topic can, and for each topic alike."""

import gc
import re
import threading
import weakref
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.build_consumer import ReaderStart
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.consumer_state import ConsumerListeners
from pulsar_actors.client.enums import ConsumerType, InitialPosition, RegexSubscriptionMode
from pulsar_actors.client.interceptors import ConsumerEventListener, ConsumerInterceptor, ReaderInterceptor
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.multi_topics_consumer import ConsumerMembers
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy, ConsumerDeadLetterPolicy
from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerMetadataError,
    ConsumerBusy,
    InvalidArgument,
    InvalidConfiguration,
    OperationNotSupported,
    Timeout,
)
from pulsar_actors.machines.multi_topics_events import CreateMember, UpdateMembers
from pulsar_actors.runtime.loop import THREADS
from pulsar_actors.runtime.pending_calls import HandleLink
from pulsar_actors.wire.message_id import EARLIEST as EARLIEST_ID
from pulsar_actors.wire.message_id import LATEST
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandMessage,
    CommandSubscribe,
    CommandUnsubscribe,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName
from tests.support.life import until

SOON = 5000
EARLIEST = InitialPosition.Earliest


def partitioned(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse(topic), partitions))


def grown(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    broker.call(lambda inside: inside.cluster.grow(TopicName.parse(topic), partitions))


def subscriptions(broker: EmbeddedBroker, topic: str) -> list[str]:
    found: Any = broker.call(lambda inside: inside.cluster.find_topic(TopicName.parse(topic)))
    return [] if found is None else list(found.subscriptions)


def arrived(broker: EmbeddedBroker, name: TopicName) -> int:
    count: int = broker.call(lambda inside: inside.cluster.open_topic(name).counters.messages_in)
    return count


def test_new_partitions_are_consumed_and_sent_to_without_anybody_doing_anything(
    broker: EmbeddedBroker, topic: str
) -> None:
    partitioned(broker, topic, 1)
    with Client(broker.service_url, partitions_update_interval=0.05) as client:
        consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
        producer = client.create_producer(topic)
        grown(broker, topic, 3)
        until(lambda: len({producer.send(b"x").partition() for _ in range(3)}) == 3, "all partitions are sent to")
        found: set[str] = set()
        until(lambda: found.add(consumer.receive(SOON).topic_name()) or len(found) == 3, "all are consumed")


def test_a_reader_from_the_end_misses_nothing_of_new_partitions(broker: EmbeddedBroker, topic: str) -> None:
    partitioned(broker, topic, 1)
    with Client(broker.service_url, partitions_update_interval=0.2) as client:
        reader = client.create_reader(topic, MessageId.latest)
        grown(broker, topic, 2)
        client.create_producer(f"{topic}-partition-1").send(b"early")
        assert reader.read_next(SOON).data() == b"early"


def test_partitions_are_not_looked_for_with_an_interval_of_0(broker: EmbeddedBroker, topic: str) -> None:
    partitioned(broker, topic, 1)
    with Client(broker.service_url, partitions_update_interval=0) as client:
        client.create_producer(topic)
        assert not client._context.partitions_update_interval


def test_topics_of_a_pattern_come_and_go(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    consumer = client.subscribe(re.compile(f"{topic}-.*"), "s", receiver_queue_size=10, initial_position=EARLIEST)
    with pytest.raises(Timeout):
        consumer.receive(0)
    for name in ("a", "b"):  # the period is a minute: it is the broker that says so
        producer = client.create_producer(f"{topic}-{name}")
        producer.send(name.encode())
        assert consumer.receive(SOON).data() == name.encode()
        producer.close()
    broker.call(lambda inside: inside.cluster.delete_topic(TopicName.parse(f"{topic}-a"), force=True))
    until(
        lambda: consumer.is_connected() and consumer.stats().permits == 9,  # of the other topic
        "the deleted topic is let go of",
    )
    client.create_producer(f"{topic}-a").send(b"again")
    assert consumer.receive(SOON).data() == b"again"


def test_a_pattern_of_non_persistent_topics_means_no_others(client: Client, topic: str) -> None:
    other = topic.replace("persistent", "non-persistent", 1)
    producers = [client.create_producer(f"{each}-x") for each in (topic, other)]
    consumer = client.subscribe(
        re.compile(f"{topic}-.*"),
        "s",
        receiver_queue_size=10,
        regex_subscription_mode=RegexSubscriptionMode.NonPersistentOnly,
    )
    assert consumer.stats().permits == 10  # of one topic
    for producer in producers:
        producer.send(producer.topic().encode())
    assert consumer.receive(SOON).data() == f"{other}-x".encode()


def test_a_refusal_of_one_topic_closes_the_others_and_names_it(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    names = [f"{topic}-{letter}" for letter in "abc"]
    with client.subscribe(names[1], "s"), pytest.raises(ConsumerBusy, match=f"{topic}-b"):
        client.subscribe(names, "s")
    with client.subscribe(names, "s") as consumer:  # nobody was left behind
        assert consumer.is_connected()


def test_an_unsubscribe_that_fails_somewhere_says_where_and_goes_on_there(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    consumer: Any = client.subscribe([f"{topic}-a", f"{topic}-b"], "s")
    fault = broker.faults.on(CommandUnsubscribe).refuse(ServerError.MetadataError, "not now")
    with pytest.raises(Exception, match=r"failed for 1 and was done for 1 topics: .*not now"):
        consumer.unsubscribe()
    assert fault.happened == 1
    (left,) = [name for name in (f"{topic}-a", f"{topic}-b") if subscriptions(broker, name)]
    client.create_producer(left).send(b"still there")
    assert consumer.receive(SOON).topic_name() == left
    consumer.unsubscribe()
    assert not subscriptions(broker, left)
    with pytest.raises(AlreadyClosed):
        consumer.receive(0)


def test_an_id_is_that_of_its_topic_by_name_or_of_the_only_one_by_its_partition(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    partitioned(broker, topic, 2)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    client.create_producer(topic).send(b"x")
    message_id = consumer.receive(SOON).message_id()
    bare = MessageId.deserialize(message_id.serialize())
    consumer.seek(bare)
    consumer.acknowledge(bare)
    consumer.seek(MessageId.deserialize(message_id.serialize(), message_id.topic_name()))
    with pytest.raises(OperationNotSupported, match="deserialize"):
        consumer.acknowledge(MessageId(-1, 5, 5))
    with pytest.raises(OperationNotSupported, match="get_topic_partitions"):
        consumer.get_last_message_id()


def test_the_places_of_the_queue_are_shared_out(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    partitioned(broker, topic, 4)
    consumer = client.subscribe(topic, "s", max_total_receiver_queue_size_across_partitions=20)
    until(lambda: consumer.stats().permits == 20, "five permits for each")


def test_a_queue_without_places_is_for_a_single_topic(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    partitioned(broker, topic, 2)
    with pytest.raises(InvalidConfiguration, match="one message at a time"):
        client.subscribe(topic, "s", receiver_queue_size=0)
    with pytest.raises(InvalidConfiguration, match="one message at a time"):
        client.create_reader([topic, f"{topic}-b"], MessageId.earliest, receiver_queue_size=0)


def test_a_dead_letter_goes_to_a_topic_named_after_the_partition(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    partitioned(broker, topic, 1)
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=10,
        dead_letter_policy=ConsumerDeadLetterPolicy(1),
    )
    dead = client.subscribe(f"{topic}-partition-0-s-DLQ", "d")
    client.create_producer(topic).send(b"bad")
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(SOON))
    assert dead.receive(SOON).data() == b"bad"


def test_a_dead_letter_topic_may_have_partitions(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    partitioned(broker, f"{topic}-dead", 2)
    policy = ConsumerDeadLetterPolicy(1, dead_letter_topic=f"{topic}-dead", initial_subscription_name="first")
    consumer = client.subscribe(
        topic, "s", ConsumerType.Shared, negative_ack_redelivery_delay_ms=10, dead_letter_policy=policy
    )
    producer = client.create_producer(topic)
    for each in (b"1", b"2"):
        producer.send(each)
    for _ in range(4):
        consumer.negative_acknowledge(consumer.receive(SOON))
    names = [TopicName.parse(f"{topic}-dead").partition(index) for index in range(2)]
    until(lambda: sum(arrived(broker, name) for name in names) == 2, "the letters arrive")
    dead = client.subscribe(f"{topic}-dead", "first")  # it was there before they came
    messages = [dead.receive(SOON) for _ in range(2)]
    assert sorted(message.data() for message in messages) == [b"1", b"2"]
    assert len({message.topic_name() for message in messages}) == 2
    consumer.close()


def test_a_topic_that_is_named_twice_counts_once(client: Client, topic: str) -> None:
    assert client.subscribe([topic, topic.removeprefix("persistent://public/default/")], "s").topic() == topic


def test_the_end_of_all_topics_is_the_end(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    partitioned(broker, topic, 2)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic)
    sent = [b"1", b"2"]
    for each in sent:
        producer.send(each)
    for index in range(2):
        broker.call(
            lambda inside, index=index: inside.cluster.find_topic(TopicName.parse(topic).partition(index)).terminate()
        )
    received: list[bytes] = []
    for message in consumer:
        received.append(message.data())
        consumer.acknowledge(message)  # a broker says that it is the end once all is acknowledged
    assert sorted(received) == sent


def test_a_reader_of_several_topics_reads_all_and_knows_when_there_is_no_more(client: Client, topic: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    for name in names:
        client.create_producer(name).send(name.encode())
    with client.create_reader(names, MessageId.earliest) as reader:
        read: list[bytes] = []
        while reader.has_message_available():
            read.append(reader.read_next(SOON).data())
        assert sorted(read) == [name.encode() for name in names]
        reader.seek(MessageId.earliest)
        assert reader.has_message_available()
        reader.seek(MessageId.latest)
        assert not reader.has_message_available()
    with client.create_reader(names, MessageId.latest, start_message_id_inclusive=True) as last:
        assert sorted(last.read_next(SOON).data() for _ in names) == sorted(read)


def test_what_is_on_one_topic_and_has_not_come_yet_is_available_to_a_reader_of_several(
    broker: EmbeddedBroker, client: Client, topic: str
) -> None:
    held_up = broker.faults.on(CommandMessage, times=None).drop()
    with (
        client.create_producer(f"{topic}-b") as producer,
        client.create_reader([f"{topic}-a", f"{topic}-b", f"{topic}-c"], MessageId.earliest) as reader,
    ):
        assert not reader.has_message_available()
        producer.send(b"x")
        assert reader.has_message_available()
    held_up.remove()


def test_a_subscription_that_takes_long_on_one_topic_can_be_closed_with_its_client(
    broker: EmbeddedBroker, topic: str
) -> None:
    client = Client(broker.service_url, operation_timeout_seconds=5)
    broker.faults.on(CommandSubscribe, nth=2).drop()
    with pytest.raises(Timeout, match=topic):
        client.subscribe([f"{topic}-a", f"{topic}-b"], "s")
    client.close()
    broker.faults.clear()


PATIENCE = 20.0


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
    with client.subscribe(parts, "s", ack_receipt_enabled=True, ack_grouping_time_ms=100_000) as consumer:
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


def test_a_forced_unsubscribe_ends_it_on_all_topics_though_others_use_it(client: Client, parts: str) -> None:
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


TOPIC = TopicName.parse("t")
CLOSED = AlreadyClosed("it is closed")
AT_THE_END = ReaderStart(LATEST, inclusive=False)


def part(number: int) -> str:
    return str(TOPIC.partition(number))


class TopicQueues:
    """Stands for the receiver queue; notes whose consumers callers see when they can get messages of a topic."""

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members
        self.topic_queues: dict[str, Any] = {}
        self.seen_before: list[set[str]] = []
        self.ended: list[Exception] = []
        self.end = self.ended.append

    def admit(self, topic_queues: dict[str, Any]) -> None:
        self.seen_before.append(set(self._members))
        self.topic_queues.update(topic_queues)

    def dismiss(self, topics: tuple[str, ...]) -> None:
        for topic in topics:
            del self.topic_queues[topic]


class Started(NamedTuple):
    """What a consumer was started with."""

    topic: str
    queue_size: int
    start: ReaderStart | None
    may_create: bool


class Bench:
    """The members of a consumer of several topics, each of which is started by `start` instead of a client."""

    def __init__(self, start: ReaderStart | None = None, **options: Any) -> None:
        self.started: list[Started] = []
        self.called: list[str] = []
        self.context: Any = SimpleNamespace(engine=SimpleNamespace(interleaving=THREADS), start=self.start)
        runner: Any = SimpleNamespace(messages_arrived=lambda: self.called.append("the listener"))
        given = ConsumerOptions(topic="t", subscription_name="s", **options)
        self.members = ConsumerMembers(
            self.context, given, start, lambda _: None, ConsumerListeners(runner), lambda _: None
        )
        self.receiver_queue: Any = TopicQueues(self.members.by_topic)
        self.members.receiver_queue = self.receiver_queue

    def start(self, options: ConsumerOptions, start: ReaderStart | None, may_create: bool) -> Any:  # noqa: FBT001 - an option
        class Made(SimpleNamespace):
            """A state, to which others may have weak references."""

        self.started.append(Started(options.topics[0], options.receiver_queue_size, start, may_create))
        return Made(receiver_queue=object(), link=HandleLink(), address=object())

    def create(self, number: int, *, among: int = 2, may_create: bool = True, later: bool = False) -> None:
        self.members.create(CreateMember(number, part(number), "", among, may_create, later))

    def update(self, *numbers: int, gone: tuple[str, ...] = ()) -> None:
        self.members.update(UpdateMembers({part(number): number for number in numbers}, gone))


@pytest.fixture(autouse=True)
def started_by_the_bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(
        context: Any, options: ConsumerOptions, start: ReaderStart | None, _: object, *, may_create: bool, **__: object
    ) -> Any:
        return context.start(options, start, may_create)

    if "Bench" in request.function.__code__.co_names:
        monkeypatch.setattr("pulsar_actors.client.multi_topics_consumer.start_consumer", start)


def test_a_reader_reads_what_comes_later_from_its_first_message_on() -> None:
    bench = Bench(AT_THE_END)
    bench.create(0)
    bench.create(1, later=True)
    assert [one.start for one in bench.started] == [
        AT_THE_END,
        ReaderStart(EARLIEST_ID, inclusive=True),
    ]


def test_where_a_subscription_that_lasts_begins_is_for_the_broker_to_say() -> None:
    bench = Bench()
    bench.create(0, later=True)
    assert [one.start for one in bench.started] == [None]


def test_only_what_may_be_created_is() -> None:
    bench = Bench()
    bench.create(0, may_create=False)
    bench.create(1, may_create=True)
    assert [one.may_create for one in bench.started] == [False, True]


def test_each_has_its_share_of_the_places_and_at_least_one() -> None:
    bench = Bench(receiver_queue_size=10, max_total_receiver_queue_size_across_partitions=12)
    for among in (1, 2, 4, 100):
        bench.create(among, among=among)
    assert [one.queue_size for one in bench.started] == [10, 6, 3, 1]


def test_callers_are_shown_a_consumer_before_they_can_get_messages_of_it() -> None:
    bench = Bench()
    bench.create(0)
    bench.create(1)
    bench.update(0, 1)
    assert bench.receiver_queue.seen_before == [{part(0), part(1)}]
    assert bench.receiver_queue.topic_queues == {
        topic: state.receiver_queue for topic, state in bench.members.by_topic.items()
    }


def test_of_what_has_gone_callers_get_nothing_more() -> None:
    bench = Bench()
    bench.create(0)
    bench.create(1)
    bench.update(0, 1)
    bench.update(gone=(part(0),))
    assert bench.members.by_topic.keys() == bench.receiver_queue.topic_queues.keys() == {part(1)}


def test_a_listener_hears_of_what_came_before_its_consumer_was_shown_and_of_the_end() -> None:
    bench = Bench()
    bench.create(0)
    assert bench.called == []
    bench.update(0)
    assert bench.called == ["the listener"]
    bench.members.end(CLOSED)
    assert bench.receiver_queue.ended == [CLOSED]
    assert bench.called == ["the listener"] * 2


def test_a_consumer_that_was_lost_is_kept_by_nobody() -> None:
    bench = Bench()
    bench.create(0)
    bench.update(0)
    state = weakref.ref(bench.members.by_topic[part(0)])
    bench.update(gone=(part(0),))
    bench.receiver_queue.topic_queues.clear()
    bench.members.remove(0)
    gc.collect()
    assert state() is None
