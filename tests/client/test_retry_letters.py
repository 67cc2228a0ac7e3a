"""Messages that are put off, come again, and in the end go to the dead letter topic: on an embedded broker.

`dead_letter_sender.py`: an entry to the dead letter topic, and the word of how that went.

`late_producer.py`: a producer that is made when it is wanted, against a context in the hands of the test.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType, InitialPosition
from pulsar_actors.client.interceptors import ConsumerInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.open_handles import WeakCollection
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.retry_letters import DeadLetterSender, LazyProducer
from pulsar_actors.client.schema import BYTES, StringSchema
from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthorizationError,
    ConnectError,
    InternalError,
    InvalidArgument,
    InvalidConfiguration,
    OperationNotSupported,
    Timeout,
    TopicTerminated,
)
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.loop import THREADS
from pulsar_actors.runtime.opened_entry import OpenedEntry
from pulsar_actors.runtime.pending_calls import HandleLink
from pulsar_actors.wire.PulsarApi_pb2 import CommandProducer, CommandSend, ServerError
from pulsar_actors.wire.topic_name import TopicName
from tests.support.entries_in_hand import batch, single
from tests.support.life import until

SOON = 10_000
PATIENCE = 10.0
EARLIEST = InitialPosition.Earliest
SHARED = ConsumerType.Shared

Subscribe = Callable[..., Consumer]


@pytest.fixture
def subscribe(client: Client, topic: str) -> Subscribe:
    """Subscribe with retries, to the topic of the test if no other is named."""

    def made(topic: Any = topic, **options: Any) -> Consumer:
        options = {"consumer_type": SHARED, "initial_position": EARLIEST, "enable_retry": True, **options}
        return client.subscribe(topic, "s", **options)

    return made


def backlog(broker: EmbeddedBroker, topic: str, subscription: str = "s") -> int:
    count: int = broker.call(
        lambda inside: inside.cluster.find_topic(TopicName.parse(topic)).subscriptions[subscription].cursor.backlog()
    )
    return count


def nothing_comes(consumer: Consumer) -> bool:
    with pytest.raises(Timeout):
        consumer.receive(50)
    return True


# What comes again, and how.


def test_a_message_comes_again_after_its_delay_and_not_before(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    consumer = subscribe()
    sent = producer.send(b"later", {"a": "b"}, "key", "order", event_timestamp=5)
    began = time.monotonic()
    consumer.reconsume_later(consumer.receive(SOON), 300, {"c": "d"})
    again = consumer.receive(SOON)
    assert time.monotonic() - began >= 0.29
    assert (again.data(), again.partition_key(), again.ordering_key(), again.event_timestamp()) == (
        b"later", "key", "order", 5,
    )  # fmt: skip
    assert again.properties() == {
        "a": "b",
        "c": "d",
        "REAL_TOPIC": topic,
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": str(sent),
        "ORIGIN_MESSAGE_IDY_TIME": str(sent),
        "RECONSUMETIMES": "1",
        "DELAY_TIME": "300",
    }
    assert again.topic_name() == f"{topic}-s-RETRY"
    until(lambda: backlog(broker, topic) == 0, "the original is acknowledged")
    consumer.acknowledge(again)
    until(lambda: backlog(broker, f"{topic}-s-RETRY") == 0, "and so is the other")


def test_a_message_without_a_delay_comes_again_at_once(subscribe: Subscribe, producer: Producer) -> None:
    consumer = subscribe()
    producer.send(b"now")
    consumer.reconsume_later(consumer.receive(SOON), 0)
    assert consumer.receive(SOON).properties()["DELAY_TIME"] == "0"


def test_a_message_put_off_too_often_is_a_dead_letter(
    broker: EmbeddedBroker, client: Client, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    consumer = subscribe(dead_letter_policy=ConsumerDeadLetterPolicy(2, initial_subscription_name="first"))
    sent = producer.send(b"bad")
    for times in range(3):
        message = consumer.receive(SOON)
        assert message.properties().get("RECONSUMETIMES") == (str(times) if times else None)
        consumer.reconsume_later(message, 10)
    letter = client.subscribe(f"{topic}-s-DLQ", "first").receive(SOON)  # it was there before the letter
    assert letter.data() == b"bad"
    assert letter.properties()["ORIGIN_MESSAGE_ID"] == str(sent)
    assert letter.properties()["RECONSUMETIMES"] == "3"
    until(lambda: backlog(broker, f"{topic}-s-RETRY") == 0)
    assert nothing_comes(consumer)


def test_without_a_policy_the_seventeenth_time_is_too_often(
    client: Client, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    consumer = subscribe()
    dead = client.subscribe(f"{topic}-s-DLQ", "d")
    producer.send(b"bad", {"RECONSUMETIMES": "15"})
    consumer.reconsume_later(consumer.receive(SOON), 0)
    assert nothing_comes(dead)
    consumer.reconsume_later(consumer.receive(SOON), 0)
    assert dead.receive(SOON).properties()["RECONSUMETIMES"] == "17"


def test_retries_and_dead_letters_go_where_they_were_told_to(
    client: Client, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    policy = ConsumerDeadLetterPolicy(1, f"{topic}-dead", retry_letter_topic=f"{topic}-again")
    consumer, dead = subscribe(dead_letter_policy=policy), client.subscribe(f"{topic}-dead", "d")
    producer.send(b"x")
    consumer.reconsume_later(consumer.receive(SOON), 0)
    again = consumer.receive(SOON)
    assert again.topic_name() == f"{topic}-again"
    consumer.reconsume_later(again, 0)
    assert dead.receive(SOON).data() == b"x"


def test_the_retry_topic_may_be_the_topic_itself(subscribe: Subscribe, producer: Producer, topic: str) -> None:
    consumer = subscribe(dead_letter_policy=ConsumerDeadLetterPolicy(1, retry_letter_topic=topic))
    producer.send(b"x")
    consumer.reconsume_later(consumer.receive(SOON), 0)
    again = consumer.receive(SOON)
    assert (again.topic_name(), again.properties()["RECONSUMETIMES"]) == (topic, "1")


def test_a_refused_message_of_the_retry_topic_becomes_a_dead_letter_of_the_same_topic(
    client: Client, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    consumer = subscribe(dead_letter_policy=ConsumerDeadLetterPolicy(1), negative_ack_redelivery_delay_ms=10)
    dead = client.subscribe(f"{topic}-s-DLQ", "d")
    producer.send(b"x")
    consumer.reconsume_later(consumer.receive(SOON), 0)
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(SOON))
    assert dead.receive(SOON).properties()["REAL_TOPIC"] == topic


def test_a_null_and_a_batch_and_text_can_be_put_off(
    client: Client, broker: EmbeddedBroker, subscribe: Subscribe, topic: str
) -> None:
    consumer = subscribe(schema=StringSchema())
    with client.create_producer(topic, schema=StringSchema(), batching_enabled=True) as producer:
        for content in ("a", None, "c"):
            producer.send_async(content, partition_key="k")
    messages = [consumer.receive(SOON) for _ in range(3)]
    consumer.reconsume_later(messages[:2], 0)
    consumer.acknowledge(messages[2])
    again = [consumer.receive(SOON) for _ in range(2)]
    assert [message.has_null_value() for message in again] == [False, True]
    assert again[0].value() == "a"
    assert again[0].schema_version() == messages[0].schema_version() != ""
    until(lambda: backlog(broker, topic) == 0, "the batch is acknowledged")
    consumer.redeliver_unacknowledged_messages()
    assert sorted(consumer.receive(SOON).data() for _ in range(2)) == [b"", b"a"]  # nothing of the batch


def test_a_message_in_chunks_is_put_off_in_chunks(topic: str) -> None:
    with EmbeddedBroker(settings=Settings(max_message_size=10_000)) as small, Client(small.service_url) as client:
        consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, enable_retry=True)
        large = bytes(range(250)) * 100
        client.create_producer(topic, chunking_enabled=True).send(large)
        consumer.reconsume_later(consumer.receive(SOON), 0)
        again = consumer.receive(SOON)
        assert again.data() == large
        consumer.acknowledge(again)
        for name in (topic, f"{topic}-s-RETRY"):
            until(lambda name=name: backlog(small, name) == 0, f"all chunks of {name} are acknowledged")


def test_a_key_shared_consumer_may_put_off_too(subscribe: Subscribe, producer: Producer) -> None:
    consumer = subscribe(consumer_type=ConsumerType.KeyShared)
    producer.send(b"x", ordering_key="\N{SNOWMAN}")
    consumer.reconsume_later(consumer.receive(SOON), 0)
    assert consumer.receive(SOON).ordering_key() == "\N{SNOWMAN}"


# Of several topics.


def partitioned(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse(topic), partitions))


def test_all_partitions_have_one_retry_topic_which_may_have_partitions(
    client: Client, broker: EmbeddedBroker, subscribe: Subscribe, topic: str
) -> None:
    partitioned(broker, topic, 2)
    partitioned(broker, f"{topic}-s-RETRY", 2)
    consumer = subscribe()
    assert consumer.topic() == topic
    with client.create_producer(topic) as producer:
        sent = {producer.send(b"%d" % number): number for number in range(4)}
    for _ in range(4):
        consumer.reconsume_later(consumer.receive(SOON), 0)
    again = [consumer.receive(SOON) for _ in range(4)]
    assert sorted(message.data() for message in again) == [b"0", b"1", b"2", b"3"]
    assert {message.topic_name() for message in again} == {f"{topic}-s-RETRY-partition-{index}" for index in range(2)}
    origins = {message.properties()["REAL_TOPIC"] for message in again}
    assert origins == {message_id.topic_name() for message_id in sent}
    consumer.acknowledge(again)


def test_several_topics_have_one_retry_topic_named_after_the_first_by_name(
    client: Client, subscribe: Subscribe, topic: str
) -> None:
    names = [f"{topic}-b", f"{topic}-a"]
    consumer = subscribe(names)
    for name in names:
        client.create_producer(name).send(name.encode())
    for _ in names:
        consumer.reconsume_later(consumer.receive(SOON), 0)
    again = [consumer.receive(SOON) for _ in names]
    assert {message.topic_name() for message in again} == {f"{topic}-a-s-RETRY"}
    assert {message.properties()["REAL_TOPIC"] for message in again} == set(names)


def test_a_pattern_goes_with_a_retry_topic_that_is_named(
    client: Client, broker: EmbeddedBroker, subscribe: Subscribe, topic: str
) -> None:
    policy = ConsumerDeadLetterPolicy(1, f"{topic}-x", retry_letter_topic=f"{topic}-again")
    consumer = subscribe(re.compile(re.escape(topic) + "-[ab]"), dead_letter_policy=policy)
    dead = client.subscribe(f"{topic}-x", "d")
    assert backlog(broker, f"{topic}-again") == 0  # it is there though nothing matches yet
    client.create_producer(f"{topic}-a").send(b"x")
    consumer.reconsume_later(consumer.receive(SOON), 0)
    again = consumer.receive(SOON)
    assert again.topic_name() == f"{topic}-again"
    client.create_producer(f"{topic}-b").send(b"y")  # a look at the topics leaves the retry topic alone
    assert consumer.receive(SOON).data() == b"y"
    consumer.reconsume_later(again, 0)
    assert dead.receive(SOON).data() == b"x"


# Who is told, and of what.


def test_a_listener_may_put_off_what_it_is_given(subscribe: Subscribe, producer: Producer) -> None:
    times: list[str] = []
    done = threading.Event()

    def listen(consumer: Consumer, message: Message) -> None:
        times.append(message.properties().get("RECONSUMETIMES", "0"))
        if len(times) < 3:
            consumer.reconsume_later(message, 0)
        else:
            consumer.acknowledge(message)
            done.set()

    consumer = subscribe(message_listener=listen)
    producer.send(b"x")
    assert done.wait(PATIENCE)
    assert times == ["0", "1", "2"]
    consumer.close()


class Watching(ConsumerInterceptor):
    """Notes what was acknowledged."""

    def __init__(self) -> None:
        self.heard: list[tuple[MessageId, Exception | None]] = []
        self.threads: list[str] = []

    def on_acknowledge(self, consumer: Any, message_id: MessageId, error: Exception | None) -> None:
        assert isinstance(consumer, Consumer)
        self.heard.append((message_id, error))
        self.threads.append(threading.current_thread().name)


def test_interceptors_hear_of_the_acknowledgement_on_a_listeners_thread(
    subscribe: Subscribe, producer: Producer
) -> None:
    watching = Watching()
    consumer = subscribe(interceptors=[watching], message_listener=None)
    sent = producer.send(b"x")
    consumer.reconsume_later(consumer.receive(SOON), 0)
    until(lambda: watching.heard)
    assert watching.heard == [(sent, None)]
    assert "io" not in watching.threads[0]


def test_a_listener_with_interceptors_may_put_off_without_waiting_for_itself(
    subscribe: Subscribe, producer: Producer
) -> None:
    watching = Watching()
    done = threading.Event()

    def listen(consumer: Consumer, message: Message) -> None:
        if message.properties():
            done.set()
        else:
            consumer.reconsume_later(message, 0)

    consumer = subscribe(interceptors=[watching], message_listener=listen)
    producer.send(b"x")
    assert done.wait(PATIENCE)
    consumer.close()


def test_with_receipts_the_future_ends_with_the_brokers_word(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    consumer = subscribe(ack_receipt_enabled=True)
    producer.send(b"x")
    consumer.reconsume_later_async(consumer.receive(SOON), 50).result(PATIENCE)
    assert backlog(broker, topic) == 0


def test_on_a_loop_it_says_what_to_call_instead(subscribe: Subscribe, producer: Producer) -> None:
    consumer = subscribe()
    producer.send(b"x")
    message = consumer.receive(SOON)
    raised: list[Exception] = []
    done = threading.Event()

    def callback(*_: object) -> None:
        try:
            consumer.reconsume_later(message, 0)
        except OperationNotSupported as error:
            raised.append(error)
        consumer.reconsume_later_async(message, 0)
        done.set()

    producer.send_async(b"y", callback)
    assert done.wait(PATIENCE)
    assert "reconsume_later_async()" in str(raised[0])
    assert {consumer.receive(SOON).data(), consumer.receive(SOON).data()} == {b"x", b"y"}


# What goes wrong.


def test_without_the_option_nothing_is_put_off(client: Client, producer: Producer, topic: str) -> None:
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer.send(b"x")
    message = consumer.receive(SOON)
    with pytest.raises(InvalidConfiguration, match="enable_retry=True"):
        consumer.reconsume_later(message, 10)


@pytest.mark.parametrize(
    ("delay_ms", "properties", "name"),
    [
        (-1, None, "delay_ms"),
        (1.5, None, "delay_ms"),
        (True, None, "delay_ms"),
        (None, None, "delay_ms"),
        (0, {"a": 1}, "properties"),
        (0, [("a", "b")], "properties"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(
    subscribe: Subscribe, producer: Producer, delay_ms: Any, properties: Any, name: str
) -> None:
    consumer = subscribe()
    producer.send(b"x")
    message = consumer.receive(SOON)
    with pytest.raises(InvalidArgument, match=rf"^{name}(\['a'\])? takes "):
        consumer.reconsume_later(message, delay_ms, properties)
    consumer.reconsume_later(message, 0)
    assert consumer.receive(SOON).data() == b"x"


def test_what_is_no_message_of_this_consumer_is_refused_before_any_is_sent(
    client: Client, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    consumer = subscribe()
    producer.send(b"x")
    message = consumer.receive(SOON)
    with pytest.raises(TypeError, match="a Message is put off, not MessageId"):
        consumer.reconsume_later([message, message.message_id()], 0)  # type: ignore[list-item]
    client.create_producer(f"{topic}-other").send(b"y")
    other = client.create_reader(f"{topic}-other", MessageId.earliest).read_next(SOON)
    with pytest.raises(InvalidArgument, match="none of the consumer"):
        consumer.reconsume_later([message, other], 0)
    assert nothing_comes(consumer)


def test_a_message_that_the_retry_topic_does_not_take_stays_unacknowledged(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    consumer = subscribe()
    producer.send(b"x")
    message = consumer.receive(SOON)
    consumer.reconsume_later(message, 0)
    again = consumer.receive(SOON)
    broker.call(lambda inside: inside.cluster.find_topic(TopicName.parse(f"{topic}-s-RETRY")).terminate())
    with pytest.raises(TopicTerminated, match="-s-RETRY did not take the message, which stays unacknowledged"):
        consumer.reconsume_later(again, 0)
    until(lambda: backlog(broker, topic) == 0, "the original is acknowledged")
    consumer.redeliver_unacknowledged_messages()
    assert consumer.receive(SOON).message_id() == again.message_id()


def test_a_producer_that_is_refused_fails_the_call_and_the_next_one_tries_again(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: Producer
) -> None:
    consumer = subscribe()
    producer.send(b"x")
    message = consumer.receive(SOON)
    broker.faults.on(CommandProducer).refuse(ServerError.AuthorizationError, "not you")
    with pytest.raises(AuthorizationError, match="not you"):
        consumer.reconsume_later(message, 0)
    consumer.reconsume_later(message, 0)
    assert consumer.receive(SOON).data() == b"x"


# The end.


def test_a_close_waits_for_what_is_being_put_off(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    consumer = subscribe()
    producer.send(b"x")
    put_off = consumer.reconsume_later_async(consumer.receive(SOON), 0)
    consumer.close()
    assert put_off.done()
    assert put_off.exception() is None
    assert backlog(broker, topic) == 0
    assert subscribe().receive(SOON).properties()["RECONSUMETIMES"] == "1"


def test_a_close_waits_no_longer_than_an_operation_may_take_and_then_the_message_may_come_twice(
    broker: EmbeddedBroker, producer: Producer, topic: str
) -> None:
    with Client(broker.service_url, operation_timeout_seconds=1) as client:
        consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, enable_retry=True)
        producer.send(b"x")
        message = consumer.receive(SOON)
        consumer.reconsume_later(message, 0)  # so that there is a producer
        stalled = broker.faults.on(CommandSend).stall()
        put_off = consumer.reconsume_later_async(consumer.receive(SOON), 0)
        stalled.wait()
        consumer.close()
        assert not put_off.done()
        stalled.release()
        assert isinstance(put_off.exception(PATIENCE), AlreadyClosed)
    assert backlog(broker, f"{topic}-s-RETRY") == 2


def test_what_is_being_put_off_keeps_a_consumer_that_nobody_holds(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    consumer = subscribe()
    producer.send(b"x")
    message = consumer.receive(SOON)
    stalled = broker.faults.on(CommandProducer).stall()
    consumer.reconsume_later_async(message, 0)
    del consumer
    stalled.wait()
    stalled.release()
    until(lambda: backlog(broker, topic) == 0, "it is acknowledged")
    assert subscribe().receive(SOON).properties()["RECONSUMETIMES"] == "1"


def test_the_end_of_a_consumer_ends_its_producers(
    client: Client, subscribe: Subscribe, producer: Producer, topic: str
) -> None:
    consumer = subscribe()
    producer.send(b"x")
    message = consumer.receive(SOON)
    consumer.reconsume_later(message, 0)

    def producers() -> set[str]:
        return {one.topic for one in client.stats().producers} & {f"{topic}-s-RETRY"}

    assert producers()
    consumer.close()
    until(lambda: not producers())
    with pytest.raises(AlreadyClosed):
        consumer.reconsume_later_async(message, 0)


TOPIC = "persistent://public/default/t"


class Bench:
    """The producer of the dead letter topic, played by a test."""

    def __init__(self) -> None:
        self.forwarded: list[tuple[bytes, Mapping[str, str], SlimFuture[MessageId]]] = []
        self.reports: list[Exception | None] = []
        self.send = DeadLetterSender(self, TOPIC, "s", 10_000)  # type: ignore[arg-type]

    def forward(self, message: Any, properties: Mapping[str, str]) -> SlimFuture[MessageId]:
        self.forwarded.append((message.data(), properties, SlimFuture()))
        return self.forwarded[-1][2]

    def bury(self, delivery: Any) -> None:
        self.send(delivery, Generation(), self.reports.append)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_letter_says_where_it_comes_from_and_what_it_was(bench: Bench) -> None:
    bench.bury(single(7, b"a"))
    ((_, properties, _),) = bench.forwarded
    assert (properties["REAL_TOPIC"], properties["REAL_SUBSCRIPTION"]) == (TOPIC, "s")
    assert "7" in properties["ORIGIN_MESSAGE_ID"]


def test_an_entry_is_there_when_all_its_messages_are(bench: Bench) -> None:
    bench.bury(batch(1, b"a", b"b", b"c", wanted=0b101))
    assert [payload for payload, _, _ in bench.forwarded] == [b"a", b"c"]
    bench.forwarded[0][2].set_result(MessageId())
    assert bench.reports == []
    bench.forwarded[1][2].set_result(MessageId())
    assert bench.reports == [None]


def test_one_message_that_is_not_taken_fails_the_entry_once(bench: Bench) -> None:
    bench.bury(batch(1, b"a", b"b"))
    error = Timeout("no answer")
    bench.forwarded[0][2].set_exception(error)
    bench.forwarded[1][2].set_result(MessageId())
    assert bench.reports == [error]


def test_a_corrupt_entry_is_not_sent(bench: Bench) -> None:
    bench.bury(single(1, broken=True))
    assert len(bench.reports) == 1
    assert bench.forwarded == []


def test_an_entry_of_which_nothing_is_left_is_done_with(bench: Bench) -> None:
    bench.bury(batch(1, b"a", wanted=0))
    assert bench.reports == [None]


def message(payload: bytes) -> Message:
    return Message(payload, None, OpenedEntry(single(1, payload), Generation(), TOPIC, bytes), 0)


class LazyProducerBench:
    """A context that is asked for partitions and for a producer, and the producer that it made."""

    def __init__(self, topic: str = TOPIC) -> None:
        self.engine = SimpleNamespace(interleaving=THREADS)
        self.asked: list[SlimFuture[Any]] = []
        self.orders: list[tuple[Any, str, SlimFuture[None]]] = []
        self.forwarded: list[tuple[bytes, SlimFuture[MessageId]]] = []
        self.is_open = True
        self.closed = 0
        self.breaks: Exception | None = None
        self.late = LazyProducer(self, WeakCollection(), topic, BYTES, "first")  # type: ignore[arg-type]

    # What a context is asked.

    def ask_broker(self, _: object) -> SlimFuture[Any]:
        self.asked.append(SlimFuture())
        return self.asked[-1]

    def producer(self, options: Any, _: int, initial_subscription: str) -> Any:
        link = HandleLink()
        self.orders.append((options, initial_subscription, link.created))
        return SimpleNamespace(link=link, bench=self)

    # What a producer is asked.

    def forward(self, message: Message, _: object, __: object, done: SlimFuture[MessageId]) -> None:
        if self.breaks is not None:
            raise self.breaks
        self.forwarded.append((message.data(), done))

    def close_soon(self) -> None:
        self.closed += 1

    # What tests do.

    def send(self, payload: bytes) -> SlimFuture[MessageId]:
        return self.late.forward(message(payload), {})

    def make(self) -> None:
        self.asked[-1].set_result(SimpleNamespace(partitions=0))
        self.orders[-1][2].set_result(None)


def put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the bench asked for producers, and taken for the one that it made."""
    late = "pulsar_actors.client.retry_letters"
    monkeypatch.setattr(f"{late}.start_producer", lambda lazy_bench, *asked: lazy_bench.producer(*asked))
    monkeypatch.setattr(f"{late}.new_producer_handle", lambda state, _: state.bench)


@pytest.fixture
def lazy_bench(monkeypatch: pytest.MonkeyPatch) -> LazyProducerBench:
    put_in(monkeypatch)
    return LazyProducerBench()


def test_it_is_made_with_the_first_message_and_serves_the_next(lazy_bench: LazyProducerBench) -> None:
    assert lazy_bench.asked == []
    lazy_bench.send(b"a")
    lazy_bench.send(b"b")
    assert len(lazy_bench.asked) == 1
    assert lazy_bench.forwarded == []
    lazy_bench.make()
    lazy_bench.send(b"c")
    assert [payload for payload, _ in lazy_bench.forwarded] == [b"a", b"b", b"c"]
    assert len(lazy_bench.orders) == 1


def test_it_is_made_of_a_partition_without_asking_and_with_the_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch)
    lazy_bench = LazyProducerBench(f"{TOPIC}-partition-0")
    lazy_bench.send(b"a")
    ((options, subscription, _),) = lazy_bench.orders
    assert (lazy_bench.asked, subscription) == ([], "first")
    assert (options.topic, options.chunking_enabled, options.batching_enabled) == (f"{TOPIC}-partition-0", True, False)


def test_one_that_cannot_be_made_fails_the_message_and_is_tried_again_with_the_next(
    lazy_bench: LazyProducerBench,
) -> None:
    failure = ConnectError("nobody listens")
    failed = lazy_bench.send(b"a")
    lazy_bench.asked[-1].set_exception(failure)
    assert failed.exception() is failure
    sent = lazy_bench.send(b"b")
    lazy_bench.asked[-1].set_result(SimpleNamespace(partitions=0))
    lazy_bench.orders[-1][2].set_exception(failure)
    assert sent.exception() is failure
    lazy_bench.send(b"c")
    assert len(lazy_bench.asked) == 3


def test_one_that_ended_for_good_is_made_anew_with_the_next_message(lazy_bench: LazyProducerBench) -> None:
    lazy_bench.send(b"a")
    lazy_bench.make()
    lazy_bench.is_open = False
    lazy_bench.send(b"b")
    assert len(lazy_bench.asked) == 2


def test_whatever_goes_wrong_is_told(lazy_bench: LazyProducerBench) -> None:
    failed = lazy_bench.send(b"a")
    lazy_bench.asked[-1].set_exception(SystemExit(3))
    assert isinstance(failed.exception(), InternalError)
    lazy_bench.breaks = ValueError("a bug")
    failed = lazy_bench.send(b"b")
    lazy_bench.make()
    assert failed.exception() is lazy_bench.breaks


def test_it_closes_once_it_is_there(lazy_bench: LazyProducerBench) -> None:
    lazy_bench.late.close_soon()  # nothing was ever sent
    lazy_bench.send(b"a")
    lazy_bench.late.close_soon()
    assert lazy_bench.closed == 0
    lazy_bench.make()
    assert (len(lazy_bench.forwarded), lazy_bench.closed) == (1, 1)


def test_one_that_could_not_be_made_needs_no_close(lazy_bench: LazyProducerBench) -> None:
    lazy_bench.send(b"a")
    lazy_bench.asked[-1].set_exception(ConnectError("nobody listens"))
    lazy_bench.late.close_soon()
    assert lazy_bench.closed == 0
