import re
from typing import Any

import pytest
from life import until

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerType, InitialPosition, RegexSubscriptionMode
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy
from pulsar_actors.exceptions import AlreadyClosed, ConsumerBusy, InvalidConfiguration, OperationNotSupported, Timeout
from pulsar_actors.wire.PulsarApi_pb2 import CommandMessage, CommandSubscribe, CommandUnsubscribe, ServerError
from pulsar_actors.wire.topic_name import TopicName

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
        assert not client._workshop.partitions_update_interval


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
