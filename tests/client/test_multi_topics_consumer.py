"""A consumer or reader of several topics can do all that one of a single topic can, and for each topic alike."""

import gc
import re
import threading
import weakref
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import pulsar_actors as pulsar
from pulsar_actors import Client
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.build_consumer import ReaderStart
from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.consumer_state import ConsumerListeners
from pulsar_actors.client.multi_topics_consumer import ConsumerMembers
from pulsar_actors.machines.multi_topics_events import CreateMember, UpdateMembers
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.loop import THREADS
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.message_id import EARLIEST as EARLIEST_ID
from pulsar_actors.wire.message_id import LATEST
from pulsar_actors.wire.topic_name import TopicName
from tests.support import topics
from tests.support.life import until
from tests.support.manual_loop import ManualLoop, RecordingActors
from tests.support.witness import EventWitness, Witness

SOON = 5000
EARLIEST = pulsar.InitialPosition.Earliest


def test_new_partitions_are_consumed_and_sent_to_without_anybody_doing_anything(
    broker: EmbeddedBroker, topic: str
) -> None:
    topics.create_partitioned(broker, topic, 1)
    with Client(broker.service_url, partitions_update_interval=0.05) as client:
        consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
        producer = client.create_producer(topic)
        topics.grow(broker, topic, 3)
        until(lambda: len({producer.send(b"x").partition() for _ in range(3)}) == 3, "all partitions are sent to")
        found: set[str] = set()
        until(lambda: found.add(consumer.receive(SOON).topic_name()) or len(found) == 3, "all are consumed")


def test_the_room_for_messages_is_shared_anew_when_partitions_are_added(broker: EmbeddedBroker, topic: str) -> None:
    topics.create_partitioned(broker, topic, 2)
    options: dict[str, Any] = {"receiver_queue_size": 100, "max_total_receiver_queue_size_across_partitions": 16}
    with Client(broker.service_url, partitions_update_interval=0.05) as client:
        consumer = client.subscribe(topic, "s", **options)
        assert consumer.stats().permits == 16
        topics.grow(broker, topic, 4)
        until(lambda: consumer.stats().permits == 24, "the new partitions are consumed, beside what was granted")
        producer = client.create_producer(topic, batching_enabled=False)
        until(lambda: producer.send(b"x").partition() == 3, "the new partitions are sent to")
        producer.send_many([b"x"] * 200).result()
        until(lambda: consumer.stats().permits == 0, "all queues are full")
        for _ in range(100):
            consumer.receive(SOON)
        until(lambda: consumer.stats().permits == 0, "all queues are full again")
        until(lambda: 8 < consumer.stats().queued <= 16, "there are no more messages than together there may be")


def test_the_room_for_messages_is_shared_anew_when_topics_of_a_pattern_go(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    for name in "abcd":
        client.create_producer(f"{topic}-{name}").close()
    options: dict[str, Any] = {"receiver_queue_size": 100, "max_total_receiver_queue_size_across_partitions": 16}
    consumer = client.subscribe(re.compile(f"{topic}-.*"), "s", initial_position=EARLIEST, **options)
    assert consumer.stats().permits == 16
    for name in "bcd":
        topics.delete(broker, f"{topic}-{name}")
    producer = client.create_producer(f"{topic}-a", batching_enabled=False)
    producer.send_many([b"x"] * 50).result()
    until(lambda: consumer.stats().queued == 16, "its queue is full")


def test_a_reader_from_the_end_misses_nothing_of_new_partitions(broker: EmbeddedBroker, topic: str) -> None:
    topics.create_partitioned(broker, topic, 1)
    with Client(broker.service_url, partitions_update_interval=0.2) as client:
        reader = client.create_reader(topic, pulsar.MessageId.latest)
        topics.grow(broker, topic, 2)
        client.create_producer(f"{topic}-partition-1").send(b"early")
        assert reader.read_next(SOON).data() == b"early"


@pytest.mark.parametrize(("inclusive", "next_one"), [(False, b"second"), (True, b"first")])
def test_a_seek_in_a_new_partition_goes_to_the_message_or_after_it_as_in_the_others(
    broker: EmbeddedBroker, topic: str, *, inclusive: bool, next_one: bytes
) -> None:
    topics.create_partitioned(broker, topic, 1)
    with Client(broker.service_url, partitions_update_interval=0.2) as client:
        reader = client.create_reader(topic, pulsar.MessageId.latest, start_message_id_inclusive=inclusive)
        topics.grow(broker, topic, 2)
        producer = client.create_producer(f"{topic}-partition-1")
        producer.send(b"first")
        producer.send(b"second")
        first = reader.read_next(SOON)
        reader.seek(first.message_id())
        assert reader.read_next(SOON).data() == next_one


def test_topics_of_a_pattern_come_and_go(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    consumer = client.subscribe(re.compile(f"{topic}-.*"), "s", receiver_queue_size=10, initial_position=EARLIEST)
    with pytest.raises(pulsar.Timeout):
        consumer.receive(0)
    for name in ("a", "b"):  # the period is a minute: it is the broker that says so
        producer = client.create_producer(f"{topic}-{name}")
        producer.send(name.encode())
        assert consumer.receive(SOON).data() == name.encode()
        producer.close()
    topics.delete(broker, f"{topic}-a")
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
        regex_subscription_mode=pulsar.RegexSubscriptionMode.NonPersistentOnly,
    )
    assert consumer.stats().permits == 10  # of one topic
    for producer in producers:
        producer.send(producer.topic().encode())
    assert consumer.receive(SOON).data() == f"{other}-x".encode()


def test_a_refusal_of_one_topic_closes_the_others_and_names_it(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    names = [f"{topic}-{letter}" for letter in "abc"]
    with client.subscribe(names[1], "s"), pytest.raises(pulsar.ConsumerBusy, match=f"{topic}-b"):
        client.subscribe(names, "s")
    with client.subscribe(names, "s") as consumer:  # nobody was left behind
        assert consumer.is_connected()


def test_an_unsubscribe_that_fails_somewhere_says_where_and_goes_on_there(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    consumer: Any = client.subscribe([f"{topic}-a", f"{topic}-b"], "s")
    fault = broker.faults.on(pb.CommandUnsubscribe).refuse(pb.ServerError.MetadataError, "not now")
    with pytest.raises(Exception, match=r"failed for 1 and was done for 1 topics: .*not now"):
        consumer.unsubscribe()
    assert fault.happened == 1
    (left,) = [name for name in (f"{topic}-a", f"{topic}-b") if topics.subscriptions(broker, name)]
    client.create_producer(left).send(b"still there")
    assert consumer.receive(SOON).topic_name() == left
    consumer.unsubscribe()
    assert not topics.subscriptions(broker, left)
    with pytest.raises(pulsar.AlreadyClosed):
        consumer.receive(0)


def test_an_id_is_that_of_its_topic_by_name_or_of_the_only_one_by_its_partition(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    topics.create_partitioned(broker, topic, 2)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    client.create_producer(topic).send(b"x")
    message_id = consumer.receive(SOON).message_id()
    bare = pulsar.MessageId.deserialize(message_id.serialize())
    consumer.seek(bare)
    consumer.acknowledge(bare)
    consumer.seek(pulsar.MessageId.deserialize(message_id.serialize(), message_id.topic_name()))
    with pytest.raises(pulsar.OperationNotSupported, match="deserialize"):
        consumer.acknowledge(pulsar.MessageId(-1, 5, 5))
    with pytest.raises(pulsar.OperationNotSupported, match="get_topic_partitions"):
        consumer.get_last_message_id()


def test_a_queue_without_places_is_for_a_single_topic(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    topics.create_partitioned(broker, topic, 2)
    with pytest.raises(pulsar.InvalidConfiguration, match="one message at a time"):
        client.subscribe(topic, "s", receiver_queue_size=0)
    with pytest.raises(pulsar.InvalidConfiguration, match="one message at a time"):
        client.create_reader([topic, f"{topic}-b"], pulsar.MessageId.earliest, receiver_queue_size=0)


def test_a_dead_letter_topic_may_have_partitions(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    topics.create_partitioned(broker, f"{topic}-dead", 2)
    policy = pulsar.ConsumerDeadLetterPolicy(1, dead_letter_topic=f"{topic}-dead", initial_subscription_name="first")
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=10, dead_letter_policy=policy
    )
    producer = client.create_producer(topic)
    for each in (b"1", b"2"):
        producer.send(each)
    for _ in range(4):
        consumer.negative_acknowledge(consumer.receive(SOON))
    names = [f"{topic}-dead-partition-{index}" for index in range(2)]
    until(lambda: sum(topics.messages_in(broker, name) for name in names) == 2, "the letters arrive")
    dead = client.subscribe(f"{topic}-dead", "first")  # it was there before they came
    messages = [dead.receive(SOON) for _ in range(2)]
    assert sorted(message.data() for message in messages) == [b"1", b"2"]
    assert len({message.topic_name() for message in messages}) == 2
    consumer.close()


def test_a_topic_that_is_named_twice_counts_once(client: Client, topic: str) -> None:
    assert client.subscribe([topic, topic.removeprefix("persistent://public/default/")], "s").topic() == topic


def test_the_end_of_all_topics_is_the_end(client: Client, broker: EmbeddedBroker, parts: str) -> None:
    consumer = client.subscribe(parts, "s", initial_position=EARLIEST)
    send_to_both(client, parts)
    topics.terminate(broker, f"{parts}-partition-0")
    received = [consumer.receive(SOON) for _ in range(2)]
    consumer.acknowledge(received)  # a broker says that it is the end once all is acknowledged
    assert not consumer.has_reached_end_of_topic()
    topics.terminate(broker, f"{parts}-partition-1")
    assert list(consumer) == []
    assert consumer.has_reached_end_of_topic()


def test_a_reader_of_several_topics_reads_all_and_knows_when_there_is_no_more(client: Client, topic: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    for name in names:
        client.create_producer(name).send(name.encode())
    with client.create_reader(names, pulsar.MessageId.earliest) as reader:
        read: list[bytes] = []
        while reader.has_message_available():
            read.append(reader.read_next(SOON).data())
        assert sorted(read) == [name.encode() for name in names]
        reader.seek(pulsar.MessageId.earliest)
        assert reader.has_message_available()
        reader.seek(pulsar.MessageId.latest)
        assert not reader.has_message_available()
    with client.create_reader(names, pulsar.MessageId.latest, start_message_id_inclusive=True) as last:
        assert sorted(last.read_next(SOON).data() for _ in names) == sorted(read)


def test_what_is_on_one_topic_and_has_not_come_yet_is_available_to_a_reader_of_several(
    broker: EmbeddedBroker, client: Client, topic: str
) -> None:
    held_up = broker.faults.on(pb.CommandMessage, times=None).drop()
    with (
        client.create_producer(f"{topic}-b") as producer,
        client.create_reader([f"{topic}-a", f"{topic}-b", f"{topic}-c"], pulsar.MessageId.earliest) as reader,
    ):
        assert not reader.has_message_available()
        producer.send(b"x")
        assert reader.has_message_available()
    held_up.remove()


def test_a_subscription_that_takes_long_on_one_topic_can_be_closed_with_its_client(
    broker: EmbeddedBroker, topic: str
) -> None:
    client = Client(broker.service_url, operation_timeout_seconds=5)
    broker.faults.on(pb.CommandSubscribe, nth=2).drop()
    with pytest.raises(pulsar.Timeout, match=topic):
        client.subscribe([f"{topic}-a", f"{topic}-b"], "s")
    client.close()
    broker.faults.clear()


PATIENCE = 20.0


def send_to_both(client: Client, topic: str) -> None:
    with client.create_producer(topic, message_router=lambda message, _: int(message.data())) as producer:
        for each in (b"0", b"1"):
            producer.send(each)


def backlogs(broker: EmbeddedBroker, topic: str) -> list[int]:
    return [topics.backlog(broker, f"{topic}-partition-{index}") for index in range(2)]


def test_interceptors_hear_of_new_partitions(broker: EmbeddedBroker, topic: str, parts: str) -> None:
    class Noting(pulsar.ProducerInterceptor):
        def on_partitions_change(self, topic: str, partitions: int) -> None:
            heard.append((topic, partitions, threading.current_thread().name))

    witness, heard = Witness(), list[tuple[str, int, str]]()
    with (
        Client(broker.service_url, partitions_update_interval=0.05) as client,
        client.subscribe(parts, "s", interceptors=[witness]),
        client.create_producer(parts, interceptors=[Noting()]),
    ):
        topics.grow(broker, topic, 4)
        assert until(lambda: witness.of("partitions")) == [(topic, 4)]
        ((name, partitions, thread),) = until(lambda: heard)
        assert (name, partitions, thread.startswith("pulsar-io")) == (topic, 4, False)
        assert not any(thread.startswith("pulsar-io") for thread in witness.threads)


def test_a_failover_consumer_hears_for_each_partition_whether_it_is_served(client: Client, parts: str) -> None:
    def failover(name: str, priority: int) -> tuple[Any, EventWitness]:
        witness = EventWitness()
        options = {"consumer_name": name, "priority_level": priority, "consumer_event_listener": witness}
        return client.subscribe(parts, "s", pulsar.ConsumerType.Failover, **options), witness

    def heard(witness: EventWitness) -> set[tuple[int, bool]]:
        return {(partition, is_active) for _, partition, is_active in witness.heard}

    second, heard_second = failover("b", 1)
    until(lambda: heard(heard_second) == {(0, True), (1, True)})
    heard_second.heard.clear()
    first, heard_first = failover("a", 0)
    until(lambda: heard(heard_first) == {(0, True), (1, True)} and heard(heard_second) == {(0, False), (1, False)})
    assert {consumer for consumer, _, _ in heard_second.heard} == {second}
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
        broker.faults.on(pb.CommandAck).refuse(pb.ServerError.MetadataError, "not now")
        with pytest.raises(pulsar.BrokerMetadataError, match="not now"):
            consumer.acknowledge(first)
        consumer.acknowledge(second)
        assert sorted(backlogs(broker, parts)) == [0, 1]


def test_a_message_of_no_topic_of_its_own_is_refused(client: Client, parts: str) -> None:
    with client.subscribe(parts, "s") as consumer:
        foreign = pulsar.MessageId.deserialize(pulsar.MessageId(0, 3, 3).serialize(), f"{parts}-other")
        with pytest.raises(pulsar.InvalidArgument, match="is none of"):
            consumer.acknowledge(foreign)
        with pytest.raises(pulsar.InvalidArgument, match="is none of"):
            consumer.seek(foreign)


def test_an_id_that_was_stored_is_of_the_partition_that_it_has_in_the_topic_that_is_given(
    client: Client, broker: EmbeddedBroker, parts: str
) -> None:
    with client.subscribe(parts, "s", ack_receipt_enabled=True) as consumer:
        send_to_both(client, parts)
        for left in (1, 0):
            stored = consumer.receive(SOON).message_id().serialize()
            consumer.acknowledge(pulsar.MessageId.deserialize(stored, parts))
            assert sum(backlogs(broker, parts)) == left


def test_an_id_that_may_be_of_several_topics_is_refused(client: Client, broker: EmbeddedBroker, parts: str) -> None:
    other = f"{parts}-other"
    topics.create_partitioned(broker, other, 2)
    nameless = pulsar.MessageId.deserialize(pulsar.MessageId(0, 3, 3).serialize())
    with client.subscribe([parts, other], "s") as consumer:
        for call in (consumer.acknowledge, consumer.negative_acknowledge, consumer.seek):
            with pytest.raises(pulsar.OperationNotSupported, match="is not known to be of one of them"):
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
    topics.delete(broker, f"{topic}-a")
    until(lambda: consumer.is_connected() and not consumer.stats().permits)
    consumer.acknowledge(message)
    consumer.acknowledge([message, message.message_id()])
    consumer.negative_acknowledge(message)
    with pytest.raises(pulsar.InvalidArgument, match="any longer"):
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
    until(lambda: topics.backlog(broker, topic) == 0)


def test_the_brokers_statistics_are_added_up(client: Client, parts: str) -> None:
    with client.subscribe(parts, "s", consumer_name="me") as consumer:
        send_to_both(client, parts)
        consumer.receive(SOON)
        consumer.receive(SOON)
        stats = consumer.get_broker_consumer_stats()
        assert stats.msg_backlog == 2
        assert stats.available_permits == 2 * (1000 - 1)
        assert (stats.consumer_name, stats.consumer_type) == ("me", pulsar.ConsumerType.Exclusive)
        assert ";" not in stats.address  # one connection for both


def test_a_pattern_that_nothing_matches_has_no_statistics(client: Client, topic: str) -> None:
    with client.subscribe(re.compile(f"{topic}-.*"), "s") as consumer:
        assert consumer.get_broker_consumer_stats().msg_backlog == 0


def test_a_future_of_several_messages_takes_them_from_all_topics(client: Client, parts: str) -> None:
    policy = pulsar.ConsumerBatchReceivePolicy(2, -1, 20_000)
    with client.subscribe(parts, "s", batch_receive_policy=policy) as consumer:
        future = consumer.batch_receive_async()
        send_to_both(client, parts)
        assert sorted(message.data() for message in future.result(PATIENCE)) == [b"0", b"1"]


def test_a_forced_unsubscribe_ends_it_on_all_topics_though_others_use_it(client: Client, parts: str) -> None:
    mine = client.subscribe(parts, "s", pulsar.ConsumerType.Shared)
    other = client.subscribe(parts, "s", pulsar.ConsumerType.Shared)
    with pytest.raises(pulsar.BrokerMetadataError, match=r"failed for 2"):
        mine.unsubscribe()
    mine.unsubscribe(force=True)
    assert not mine.is_open
    other.close()


TOPIC = TopicName.parse("t")
CLOSED = pulsar.AlreadyClosed("it is closed")
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
        self.actors = RecordingActors(ManualLoop())
        self.addresses: list[Any] = []
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

        self.addresses.append(self.actors.make())
        self.started.append(Started(options.topics[0], options.receiver_queue_size, start, may_create))
        return Made(receiver_queue=object(), link=HandleLink(), address=self.addresses[-1])

    def resized(self) -> list[list[int]]:
        """The sizes that the queue of each consumer was given since the last call."""
        return [[told.size for told in self.actors.heard(address)] for address in self.addresses]

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


@pytest.mark.parametrize(("start", "later"), [(AT_THE_END, ReaderStart(EARLIEST_ID, inclusive=False)), (None, None)])
def test_a_reader_reads_what_comes_later_from_its_first_message_on_and_a_subscription_where_the_broker_says(
    start: ReaderStart | None, later: ReaderStart | None
) -> None:
    bench = Bench(start)
    bench.create(0, may_create=False)
    bench.create(1, later=True)
    assert [(one.start, one.may_create) for one in bench.started] == [(start, False), (later, True)]


def test_each_has_its_share_of_the_places_and_at_least_one() -> None:
    bench = Bench(receiver_queue_size=10, max_total_receiver_queue_size_across_partitions=12)
    for among in (1, 2, 4, 100):
        bench.create(among, among=among)
    assert [one.queue_size for one in bench.started] == [10, 6, 3, 1]
    assert bench.resized() == [[6, 3, 1], [3, 1], [1], []]


def test_the_room_of_those_that_have_gone_is_for_the_others() -> None:
    bench = Bench(receiver_queue_size=10, max_total_receiver_queue_size_across_partitions=12)
    for number in (1, 2, 3):
        bench.create(number, among=3)
    bench.members.remove(1)
    assert bench.resized() == [[], [6], [6]]
    for number in (2, 3):
        bench.members.remove(number)
    assert bench.resized() == [[], [], [10]]


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
