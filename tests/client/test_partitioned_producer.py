from types import SimpleNamespace
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.stats import topic_stats
from pulsar_actors.client.build_producer import new_send_queue
from pulsar_actors.client.client import Client
from pulsar_actors.client.enqueuer import SendQueueEnqueuer
from pulsar_actors.client.enums import HashingScheme, InitialPosition, PartitionsRoutingMode, ProducerAccessMode, Result
from pulsar_actors.client.partitioned_producer import PartitionEnqueuer, ProducerMembers, Router, new_router
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.exceptions import (
    AlreadyClosed,
    InvalidArgument,
    MemoryBufferIsFull,
    OperationNotSupported,
    ProducerBusy,
    ProducerFenced,
    ProducerQueueIsFull,
    TopicTerminated,
)
from pulsar_actors.machines.multi_topics_events import CreateMember, MemberWanted, UpdateMembers
from pulsar_actors.machines.trackers.message_routing import HASHES, HashName
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.loop import THREADS
from pulsar_actors.runtime.producer_actor import TriggerFlush
from pulsar_actors.runtime.send_queue import MessageHeader
from pulsar_actors.wire.PulsarApi_pb2 import CommandProducer, CommandSend, KeyValue, ServerError, SingleMessageMetadata
from pulsar_actors.wire.topic_name import TopicName
from tests.support import topics
from tests.support.life import until
from tests.support.manual_loop import ManualLoop, RecordingActors
from tests.support.steps import steps


@pytest.fixture
def parts(broker: EmbeddedBroker, topic: str) -> str:
    """A topic of three partitions."""
    topics.create_partitioned(broker, topic, 3)
    return topic


def producers(broker: EmbeddedBroker, topic: str) -> list[list[str]]:
    """Name the producers of each partition, as the broker knows them."""
    name = TopicName.parse(topic)
    return [
        broker.call(
            lambda inside, index=index: [
                each["producerName"]
                for each in topic_stats(inside.cluster.find_topic(name.partition(index)))["publishers"]
            ]
        )
        for index in range(3)
    ]


def test_all_partitions_are_under_the_name_that_a_broker_gave_the_first(
    client: Client, broker: EmbeddedBroker, parts: str
) -> None:
    producer = client.create_producer(parts)
    assert producers(broker, parts) == [[producer.producer_name()]] * 3


def test_a_partition_takes_a_message_with_a_key_behind_one_without(client: Client, parts: str) -> None:
    results: list[Result] = []
    options = {"batching_enabled": True, "batching_max_publish_delay_ms": 60_000}
    producer = client.create_producer(parts, message_router=lambda *_: 1, **options)  # type: ignore[arg-type]
    for key in (None, "key"):
        producer.send_async(b"x", lambda result, _: results.append(result), partition_key=key)
    producer.flush()
    assert results == [Result.Ok] * 2
    consumer = client.subscribe(f"{parts}-partition-1", "reads", initial_position=InitialPosition.Earliest)
    assert [consumer.receive(5_000).partition_key() for _ in range(2)] == ["", "key"]


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
        parts, max_pending_messages_across_partitions=6, message_routing_mode=PartitionsRoutingMode.UseSinglePartition
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
    topics.terminate(broker, f"{parts}-partition-0")
    told: list[Result] = []
    until(lambda: producer.send_async(b"0", lambda result, _: told.append(result)) or told, "it is told")
    until(lambda: told[-1] is Result.TopicTerminated, "the partition has ended")
    assert producer.send(b"1").partition() == 1
    assert producer.is_open


def test_the_memory_limit_of_the_client_counts_for_all_partitions(broker: EmbeddedBroker, parts: str) -> None:
    with Client(broker.service_url, memory_limit_bytes=100) as client:
        producer = client.create_producer(parts)
        broker.faults.on(CommandSend, times=10).delay(0.3)
        sent: list[Any] = [producer.send_async(b"x" * 60) for _ in range(3)]
        broker.faults.clear()
        assert isinstance(sent[2].exception(10), MemoryBufferIsFull)
        assert [each.exception(10) for each in sent[:2]] == [None, None]
        assert producer.send(b"x" * 60).partition() >= 0  # it was given back


TOPIC = TopicName.parse("t")
BUSY = ProducerBusy("ProducerBusy", "no")
CLOSED, LATER = AlreadyClosed("it is closed"), AlreadyClosed("it is closed again")


def part(number: int) -> str:
    return str(TOPIC.partition(number))


class Bench:
    """The members of a partitioned producer, each of which is started by `start` instead of a client."""

    def __init__(self) -> None:
        loop = ManualLoop()
        self.actors = RecordingActors(loop)
        engine = SimpleNamespace(interleaving=THREADS, loops=[loop])
        self.context: Any = SimpleNamespace(engine=engine, limiter=None, start=self.start)
        self.heard: list[object] = []
        options = ProducerOptions(topic="t", max_pending_messages_across_partitions=60)
        self.producers = ProducerMembers(self.context, options, "", None, self.heard.append)

    def start(self, options: ProducerOptions, waiting: SendQueueEnqueuer | None) -> Any:
        address = self.actors.make()
        if waiting is None:
            queue = new_send_queue(self.context, options)
            waiting = SendQueueEnqueuer(self.context.engine, *queue, print, waits=False)
        return SimpleNamespace(
            address=address, enqueuer=waiting, send_callbacks=waiting.send_callbacks, link=HandleLink()
        )

    def member(self, number: int) -> Any:
        """The state of a member."""
        return self.producers._members[number]

    def create(self, *numbers: int, among: int = 3) -> None:
        """Have producers made, whose member has the number of the partition."""
        for number in numbers:
            self.producers.create(CreateMember(number, part(number), "name", among))

    def update(self, *numbers: int, uncreated: tuple[str, ...] = ()) -> None:
        self.producers.update(UpdateMembers({part(number): number for number in numbers}, uncreated=uncreated))

    def shown(self) -> list[str]:
        return [enqueuer.send_callbacks.topic for enqueuer in self.producers.partitions]


@pytest.fixture(autouse=True)
def started_by_the_bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(
        context: Any, options: ProducerOptions, _: str, *, name: str, waiting: SendQueueEnqueuer | None, keys: object
    ) -> Any:
        assert (name, keys) == ("name", None)
        return context.start(options, waiting)

    if "Bench" in request.function.__code__.co_names:
        monkeypatch.setattr("pulsar_actors.client.partitioned_producer.start_single_producer", start)


def test_the_limit_across_partitions_is_shared_out_anew_when_the_topic_grows() -> None:
    bench = Bench()
    bench.create(0, 1, among=2)
    bench.update(0, 1)
    bench.create(2)
    bench.update(2)
    for partition in bench.producers.partitions:
        took, _ = partition.send_queue.put_many([b"x"] * 60, [None] * 60)
        assert took == 20


def test_a_producer_that_is_being_created_gets_its_share_of_the_limit_too_when_the_topic_grows_again() -> None:
    bench = Bench()
    bench.create(0, among=1)
    bench.update(0)
    bench.create(1, among=2)
    bench.create(2)
    bench.update(2)
    bench.update(1)
    for partition in bench.producers.partitions:
        took, _ = partition.send_queue.put_many([b"x"] * 60, [None] * 60)
        assert took == 20


def test_callers_see_the_partitions_up_to_the_first_that_has_no_producer() -> None:
    bench = Bench()
    bench.create(0, 1, 2, 3)
    bench.update(3)
    bench.update(1)
    assert bench.shown() == []
    bench.update(0)
    assert bench.shown() == [part(0), part(1)]
    bench.update(2)
    assert bench.shown() == [part(0), part(1), part(2), part(3)]


def test_a_partition_whose_producer_has_gone_keeps_its_number() -> None:
    bench = Bench()
    bench.create(0, 1)
    bench.update(0, 1)
    bench.producers.update(UpdateMembers({}, gone=(part(0),)))
    assert bench.shown() == [part(0), part(1)]


def test_the_first_message_for_a_lazy_partition_asks_for_its_producer_and_its_queue_has_a_share_of_the_limit() -> None:
    bench = Bench()
    bench.create(1)
    bench.update(1)
    bench.update(uncreated=(part(0), part(2)))
    assert bench.shown() == [part(0), part(1), part(2)]
    first = bench.producers.partitions[0]
    assert first.send_queue.pending.messages.limit == 20
    first.enqueue(b"x", None)
    assert bench.heard == [MemberWanted(part(0))]
    bench.update(uncreated=(part(0), part(2)))
    assert bench.producers.partitions[0] is first


def test_a_close_names_the_lazy_partitions_whose_messages_wait_and_keeps_these() -> None:
    bench = Bench()
    bench.create(1)
    bench.update(1)
    bench.update(uncreated=(part(0), part(2)))
    used, unused = bench.producers.partitions[0], bench.producers.partitions[2]
    used.enqueue(b"x", None)
    assert list(bench.producers.waited_for()) == [part(0)]
    bench.producers.close(CLOSED)
    assert list(bench.producers.waited_for()) == [part(0)]
    assert bench.producers.closed is CLOSED
    assert used.send_queue.closed is unused.send_queue.closed is CLOSED
    assert len(used.send_queue.held(0)) == 1
    bench.create(0)
    assert bench.member(0).enqueuer is used
    bench.producers.close(LATER)
    assert list(bench.producers.waited_for()) == []
    assert bench.producers.closed is CLOSED


def test_a_partition_whose_producer_cannot_be_created_gets_a_new_queue() -> None:
    bench = Bench()
    bench.update(uncreated=(part(0), part(1)))
    first = bench.producers.partitions[0]
    bench.create(0)
    bench.member(0).link.created.set_exception(BUSY)
    bench.producers.remove(0)
    assert bench.shown() == [part(0), part(1)]
    again = bench.producers.partitions[0]
    assert again is not first
    assert again.send_queue.pending.messages.limit == 30


def test_a_partition_whose_producer_was_created_and_has_ended_keeps_its_enqueuer() -> None:
    bench = Bench()
    bench.update(uncreated=(part(0), part(1)))
    first = bench.producers.partitions[0]
    bench.create(0)
    bench.member(0).link.created.set_result(None)
    bench.update(0)
    bench.producers.remove(0)
    assert bench.producers.partitions[0] is first


def test_the_end_fails_messages_that_wait_for_a_producer_and_leaves_the_rest_to_the_producers() -> None:
    bench = Bench()
    bench.update(uncreated=(part(0), part(1)))
    bench.create(0)
    bench.producers.end(CLOSED)
    assert [enqueuer.closed for enqueuer in bench.producers.partitions] == [None, CLOSED]
    bench.producers.end(LATER)
    assert bench.producers.closed is CLOSED


def test_a_new_queue_of_a_partition_refuses_messages_after_the_end() -> None:
    bench = Bench()
    bench.update(uncreated=(part(0),))
    bench.create(0)
    bench.producers.end(CLOSED)
    bench.member(0).link.created.set_exception(BUSY)
    bench.producers.remove(0)
    assert bench.producers.partitions[0].closed is CLOSED


def test_a_producer_that_is_created_later_takes_the_messages_that_wait_and_is_notified_of_later_ones() -> None:
    bench = Bench()
    bench.update(uncreated=(part(0),))
    enqueuer = bench.producers.partitions[0]
    enqueuer.enqueue(b"x", None)
    bench.create(0)
    assert bench.member(0).enqueuer is enqueuer
    assert bench.actors.heard(bench.member(0).address) == [TriggerFlush()]


@pytest.mark.parametrize("fails", [False, True])
def test_twice_as_many_partitions_take_twice_as_many_steps(*, fails: bool) -> None:
    taken: list[int] = []
    for size in (50, 100):
        bench = Bench()
        bench.update(uncreated=tuple(part(number) for number in range(size)))

        def come(bench: Bench = bench, size: int = size) -> None:
            for number in range(size):
                bench.create(number, among=size)
                if fails:
                    bench.member(number).link.created.set_exception(BUSY)
                    bench.producers.remove(number)
                else:
                    bench.update(number)

        taken.append(steps(come))
    assert taken[1] < 2.2 * taken[0]


OVER = TopicTerminated("TopicTerminated", "over")


class Partition:
    """The enqueuer of a partition."""

    def __init__(self) -> None:
        self.left: list[tuple[str, bytes]] = []
        self.refuses: Exception | None = None
        self.has_ended = True

    def has_ended_by(self, _: Exception) -> bool:
        return self.has_ended

    def enqueue(self, payload: bytes, _: object) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.left.append(("enqueue", payload))

    def enqueue_and_flush(self, payload: bytes, _: object, __: object) -> None:
        self.left.append(("enqueue_and_flush", payload))

    def try_enqueue(self, payload: bytes, _: object) -> None:
        self.left.append(("try_enqueue", payload))


class Partitions:
    def __init__(self, partitions: int) -> None:
        self.partitions = tuple(Partition() for _ in range(partitions))
        self.closed: Exception | None = None


def new_enqueuer(producers: Any) -> PartitionEnqueuer:
    return PartitionEnqueuer(producers, Router(lambda payload, _, count: int(payload) % count, None))


def test_a_message_is_enqueued_for_the_partition_that_the_router_chose() -> None:
    producers = Partitions(3)
    enqueuer = new_enqueuer(producers)
    enqueuer.enqueue(b"2", None)
    enqueuer.enqueue_and_flush(b"0", None, SlimFuture())
    enqueuer.try_enqueue(b"1", None)
    assert [each.left for each in producers.partitions] == [
        [("enqueue_and_flush", b"0")],
        [("try_enqueue", b"1")],
        [("enqueue", b"2")],
    ]


def test_partitions_that_were_added_count_from_the_next_message_on() -> None:
    producers = Partitions(1)
    enqueuer = new_enqueuer(producers)
    enqueuer.enqueue(b"1", None)
    producers.partitions += (Partition(),)
    enqueuer.enqueue(b"1", None)
    assert [len(each.left) for each in producers.partitions] == [1, 1]


def test_the_error_with_which_a_partition_has_ended_is_known() -> None:
    producers = Partitions(2)
    enqueuer = new_enqueuer(producers)
    assert not enqueuer.has_ended_by(OVER)
    producers.partitions[1].refuses = OVER
    with pytest.raises(TopicTerminated):
        enqueuer.enqueue(b"1", None)
    assert enqueuer.has_ended_by(OVER)
    assert enqueuer.closed is None
    assert not enqueuer.has_ended_by(ProducerFenced("ProducerFenced", "no"))


def test_an_error_of_a_partition_that_goes_on_is_no_end() -> None:
    producers = Partitions(2)
    enqueuer = new_enqueuer(producers)
    producers.partitions[1].refuses = OperationNotSupported("not in a callback")
    producers.partitions[1].has_ended = False
    with pytest.raises(OperationNotSupported):
        enqueuer.enqueue(b"1", None)
    assert not enqueuer.has_ended_by(OperationNotSupported("not in a callback"))


def test_no_message_is_routed_after_the_close() -> None:
    producers = Partitions(1)
    producers.closed = AlreadyClosed("closed")
    with pytest.raises(AlreadyClosed):
        new_enqueuer(producers).enqueue(b"0", None)
    assert producers.partitions[0].left == []


ROUTED_TOPIC = "persistent://public/default/t"
BARE = (b"x", None)


def router(**options: Any) -> Any:
    return new_router(ProducerOptions(topic="t", **options), lambda: 0.5, lambda: 100.0, ROUTED_TOPIC)


def keyed(key: str) -> tuple[bytes, MessageHeader]:
    return b"x", MessageHeader.of(SingleMessageMetadata(payload_size=1, partition_key=key), None, None)


@pytest.mark.parametrize(
    ("scheme", "hashed"),
    # Of "key1": by the official client; "key1".hashCode() in Java; and by the test vectors of that hash.
    [
        (HashingScheme.BoostHash, 2071103098),
        (HashingScheme.JavaStringHash, 3288498),
        (HashingScheme.Murmur3_32Hash, HASHES[HashName.MURMUR3_32]("key1")),
    ],
)
def test_a_key_goes_where_its_hash_says_whatever_the_mode(scheme: HashingScheme, hashed: int) -> None:
    for mode in (PartitionsRoutingMode.UseSinglePartition, PartitionsRoutingMode.RoundRobinDistribution):
        assert router(hashing_scheme=scheme, message_routing_mode=mode).route(*keyed("key1"), 97) == hashed % 97


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, [2, 3, 0, 1, 2]),
        ({"batching_enabled": True, "batching_max_messages": 2}, [2, 2, 3, 3, 0]),
        ({"message_routing_mode": PartitionsRoutingMode.UseSinglePartition}, [2, 2, 2, 2, 2]),
    ],
)
def test_without_a_key_messages_or_batches_go_round_from_anywhere_or_stay_there(
    options: dict[str, Any], chosen: list[int]
) -> None:
    route = router(**options).route
    assert [route(*BARE, 4) for _ in chosen] == chosen


def test_a_router_of_ones_own_has_the_last_word_and_sees_all_of_the_message() -> None:
    seen: list[Any] = []

    def choose(message: Any, partitions: int) -> int:
        seen.append((message.data(), message.partition_key(), message.properties(), message.topic_name(), partitions))
        return 3

    metadata = SingleMessageMetadata(payload_size=1, partition_key="k", properties=[KeyValue(key="a", value="b")])
    route = router(message_router=choose).route
    assert route(b"x", MessageHeader.of(metadata, None, None), 5) == 3
    assert route(*BARE, 4) == 3
    assert seen == [(b"x", "k", {"a": "b"}, ROUTED_TOPIC, 5), (b"x", "", {}, ROUTED_TOPIC, 4)]


def test_a_message_that_was_not_sent_yet_has_no_place() -> None:
    def choose(message: Any, _: int) -> int:
        assert (message.message_id().entry_id(), message.redelivery_count(), message.index()) == (-1, 0, None)
        return 0

    assert router(message_router=choose).route(*BARE, 1) == 0
