"""What is put in between a producer and its user sees each message once on its way out, and once at its end."""

import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.interceptors import ConsumerEventListener, ConsumerInterceptor, ReaderInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.client.producer import Producer
from pulsar_actors.exceptions import AlreadyClosed, InvalidArgument, Timeout
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend
from tests.support import topics
from tests.support.life import until
from tests.support.witness import EventWitness, Witness

SOON = 5_000
PATIENCE = 20.0


class Marking(ConsumerInterceptor):
    """It gives the message before in the place of each."""

    def __init__(self) -> None:
        self.last: Message | None = None

    def before_consume(self, consumer: Any, message: Message) -> Message:
        del consumer
        last, self.last = self.last, message
        return last or message


class Raising(ConsumerInterceptor):
    def before_consume(self, consumer: Any, message: Message) -> Message:
        raise RuntimeError

    def on_acknowledge(self, consumer: Any, message_id: MessageId, error: Exception | None) -> None:
        raise RuntimeError

    def on_negative_acks_send(self, consumer: Any, message_ids: AbstractSet[MessageId]) -> None:
        raise SystemExit

    def close(self) -> None:
        raise RuntimeError


class Exiting(ConsumerInterceptor):
    def before_consume(self, consumer: Any, message: Message) -> Message:
        raise SystemExit

    def on_acknowledge(self, consumer: Any, message_id: MessageId, error: Exception | None) -> None:
        raise SystemExit


class Wrong(ConsumerInterceptor):
    def before_consume(self, consumer: Any, message: Message) -> Any:
        return message.data()


RECEIVE: dict[str, Callable[[Any], Any]] = {
    "receive": lambda consumer: consumer.receive(SOON),
    "receive_many": lambda consumer: consumer.receive_many(9, SOON)[0],
    "iterate": lambda consumer: next(iter(consumer)),
    "receive_async": lambda consumer: consumer.receive_async().result(PATIENCE),
    "batch_receive": lambda consumer: consumer.batch_receive()[0],
    "batch_receive_async": lambda consumer: consumer.batch_receive_async().result(PATIENCE)[0],
}


@pytest.mark.parametrize("way", RECEIVE)
def test_each_way_to_receive_leads_through_the_interceptors(
    client: Client, any_topic: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    witness = Witness()
    policy = ConsumerBatchReceivePolicy(1, -1, 10_000)
    with client.subscribe(
        any_topic, "s", interceptors=[witness, ConsumerInterceptor()], batch_receive_policy=policy
    ) as consumer:
        client.create_producer(any_topic).send(b"a")
        assert RECEIVE[way](consumer).data() == b"a"
        assert witness.of("before") == [(consumer, b"a")]
        (thread,) = witness.threads
        assert thread.startswith("pulsar-listener" if way.endswith("async") else threading.current_thread().name)
    assert "passed over" not in caplog.text


@pytest.mark.parametrize("way", ["receive_async", "batch_receive_async"])
def test_a_future_ends_though_an_interceptor_would_exit(
    client: Client, producer: Producer, topic: str, way: str
) -> None:
    witness = Witness()
    policy = ConsumerBatchReceivePolicy(1, -1, 10_000)
    with client.subscribe(topic, "s", interceptors=[Exiting(), witness], batch_receive_policy=policy) as consumer:
        producer.send(b"a")
        assert RECEIVE[way](consumer).data() == b"a"
        assert witness.of("before") == [(consumer, b"a")]


def test_an_interceptor_that_exits_on_the_main_thread_does(client: Client, producer: Producer, topic: str) -> None:
    with client.subscribe(topic, "s", interceptors=[Exiting()]) as consumer:
        producer.send(b"a")
        with pytest.raises(SystemExit):  # a signal's handler may have called it
            consumer.receive(SOON)


def test_many_messages_whose_interceptor_exits_are_not_lost(client: Client, producer: Producer, topic: str) -> None:
    class ExitingOnce(ConsumerInterceptor):
        left = 1

        def before_consume(self, consumer: Any, message: Message) -> Message:
            if message.data() == b"b" and self.left:
                self.left = 0
                raise SystemExit
            return message

    with client.subscribe(topic, "s", interceptors=[ExitingOnce()]) as consumer:
        producer.send_many([b"a", b"b", b"c"]).result(PATIENCE)
        until(lambda: consumer.stats().queued == 3)
        with pytest.raises(SystemExit):
            consumer.receive_many(9, SOON)
        assert [message.data() for message in consumer.receive_many(9, SOON)] == [b"a", b"b", b"c"]


def test_a_listener_gets_what_the_interceptors_make(client: Client, any_topic: str) -> None:
    witness, heard = Witness(), list[bytes]()
    options: dict[str, Any] = {"message_listener": lambda _, message: heard.append(message.data())}
    with client.subscribe(any_topic, "s", interceptors=[Marking(), witness], **options) as consumer:
        producer = client.create_producer(any_topic)
        for number, payload in enumerate((b"a", b"b"), 1):
            producer.send(payload)
            until(lambda number=number: heard == [b"a"] * number)
        assert witness.of("before") == [(consumer, b"a")] * 2


def test_an_interceptor_that_raises_or_makes_no_message_is_passed_over(
    client: Client, any_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    witness = Witness()
    with client.subscribe(any_topic, "s", interceptors=(Raising(), Wrong(), witness)) as consumer:
        client.create_producer(any_topic).send(b"a")
        message = consumer.receive(SOON)
        assert message.data() == b"a"
        consumer.acknowledge(message)
        assert witness.of("acknowledge") == [(consumer, message.message_id(), None)]
    assert [record.message.split(" of ")[0] for record in caplog.records if "passed over" in record.message] == [
        "an interceptor"
    ] * 3


def test_interceptors_hear_of_acknowledgements_and_of_those_that_fail(
    client: Client, producer: Producer, topic: str
) -> None:
    witness = Witness()
    consumer = client.subscribe(topic, "s", interceptors=[witness])
    for payload in (b"a", b"b", b"c"):
        producer.send(payload)
    first, second, third = (consumer.receive(SOON) for _ in range(3))
    consumer.acknowledge([first, second.message_id()])
    consumer.acknowledge_cumulative(third)
    assert witness.of("acknowledge") == [(consumer, one.message_id(), None) for one in (first, second)]
    assert witness.of("cumulative") == [(consumer, third.message_id(), None)]
    consumer.close()
    with pytest.raises(AlreadyClosed):
        consumer.acknowledge(first)
    (_, message_id, error) = witness.of("acknowledge")[-1]
    assert (message_id, type(error)) == (first.message_id(), AlreadyClosed)


@pytest.mark.parametrize("kind", ["refused", "late"])
def test_interceptors_hear_what_the_broker_was_asked_for_again(client: Client, any_topic: str, kind: str) -> None:
    witness = Witness()
    options: dict[str, Any] = {"consumer_type": ConsumerType.Shared, "interceptors": [Raising(), witness]}
    options |= {"negative_ack_redelivery_delay_ms": 1} if kind == "refused" else {"unacked_messages_timeout_ms": 50}
    with client.subscribe(any_topic, "s", **options) as consumer:
        message_id = client.create_producer(any_topic).send(b"a")
        message = consumer.receive(SOON)
        if kind == "refused":
            consumer.negative_acknowledge(message)
        until(lambda: witness.of(kind))
        assert witness.of(kind)[0] == (consumer, {message_id})


@pytest.mark.parametrize("ended_by", ["consumer", "client"])
def test_interceptors_hear_of_the_end_once_and_last(broker: Any, any_topic: str, ended_by: str) -> None:
    witness = Witness()
    with Client(broker.service_url) as client:
        consumer = client.subscribe(any_topic, "s", interceptors=[Raising(), witness])
        if ended_by == "consumer":
            consumer.close()
            consumer.close()
    assert witness.heard == [("close",)]


def test_a_future_that_is_cancelled_costs_no_message_with_interceptors_either(
    client: Client, producer: Producer, topic: str
) -> None:
    with client.subscribe(topic, "s", interceptors=[Witness()]) as consumer:
        unwanted, wanted = consumer.receive_async(), consumer.receive_async()
        assert unwanted.cancel()
        assert unwanted.cancel()
        producer.send(b"a")
        assert wanted.result(PATIENCE).data() == b"a"
        assert not wanted.cancel()
        last = consumer.receive_async()
    with pytest.raises(AlreadyClosed):
        last.result(PATIENCE)


class Reading(ReaderInterceptor):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def before_read(self, reader: Any, message: Message) -> Message:
        self.heard.append((reader, message.data()))
        return message

    def close(self) -> None:
        self.heard.append("close")


def test_a_reader_has_interceptors_of_its_own(client: Client, any_topic: str) -> None:
    seen = Reading()
    client.create_producer(any_topic).send(b"a")
    with client.create_reader(any_topic, MessageId.earliest, interceptors=[seen, ReaderInterceptor()]) as reader:
        assert reader.read_next(SOON).data() == b"a"
        assert seen.heard == [(reader, b"a")]
    until(lambda: seen.heard[-1] == "close")


@pytest.mark.parametrize("wrong", [ConsumerInterceptor(), [ReaderInterceptor()], [ConsumerInterceptor]])
def test_what_is_no_list_of_interceptors_is_refused(client: Client, topic: str, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="interceptors"):
        client.subscribe(topic, "s", interceptors=wrong)
    with pytest.raises(InvalidArgument, match="interceptors"):
        client.create_producer(topic, interceptors=wrong)


def test_without_a_message_the_interceptors_hear_nothing(client: Client, topic: str) -> None:
    witness = Witness()
    with client.subscribe(topic, "s", interceptors=[witness]) as consumer:
        with pytest.raises(Timeout):
            consumer.receive(10)
        assert witness.heard == []


FOREVER_MS = 60_000


class Noting(pulsar.ProducerInterceptor):
    """Writes its name on each message, and down what it is told."""

    def __init__(self, name: str = "noting") -> None:
        self.name = name
        self.acknowledged: list[tuple[Any, pulsar.MessageId | None, Exception | None]] = []
        self.producers: list[Any] = []
        self.closed = 0

    def before_send(self, producer: Any, message: pulsar.MessageToSend) -> pulsar.MessageToSend:
        self.producers.append(producer)
        said = message.properties or {}
        return message._replace(properties={**said, "by": said.get("by", "") + self.name})

    def on_send_acknowledgement(
        self, producer: Any, message: pulsar.MessageToSend, message_id: pulsar.MessageId | None, error: Exception | None
    ) -> None:
        self.producers.append(producer)
        self.acknowledged.append((message.content, message_id, error))

    def close(self) -> None:
        assert not threading.current_thread().name.startswith("pulsar-io")
        self.closed += 1


class RaisingProducerInterceptor(Noting):
    """Does nothing right."""

    def before_send(self, producer: Any, message: pulsar.MessageToSend) -> pulsar.MessageToSend:
        raise ZeroDivisionError

    def on_send_acknowledgement(self, *arguments: Any) -> None:
        super().on_send_acknowledgement(*arguments)
        raise ZeroDivisionError

    def close(self) -> None:
        super().close()
        raise ZeroDivisionError


class ExitingProducerInterceptor(Noting):
    """Takes itself for the program."""

    def on_send_acknowledgement(self, *arguments: Any) -> None:
        super().on_send_acknowledgement(*arguments)
        raise SystemExit

    def close(self) -> None:
        super().close()
        raise SystemExit


class Choosy(Noting):
    """Wants messages with a key."""

    def eligible(self, message: pulsar.MessageToSend) -> bool:
        return message.partition_key is not None


class Confused(Noting):
    """Forgets to return what it was given."""

    def before_send(self, producer: Any, message: pulsar.MessageToSend) -> Any:
        del producer, message


class Failing(Noting):
    """Cannot even tell what it wants."""

    def eligible(self, message: pulsar.MessageToSend) -> bool:
        raise ZeroDivisionError


def read(client: pulsar.Client, topic: str) -> list[Any]:
    found: list[Any] = []
    with client.create_reader(topic, pulsar.MessageId.earliest) as reader:
        while reader.has_message_available():
            found.append(reader.read_next(SOON))
    return found


def test_each_gets_what_the_one_before_it_has_made(client: pulsar.Client, any_topic: str) -> None:
    interceptors = [Noting("a"), Noting("b")]
    producer = client.create_producer(any_topic, interceptors=interceptors)
    message_id = producer.send(b"x", partition_key="k")
    (message,) = read(client, any_topic)
    assert (message.properties(), message.partition_key()) == ({"by": "ab"}, "k")
    assert [one.acknowledged for one in interceptors] == [[(b"x", message_id, None)]] * 2
    assert interceptors[0].producers == [producer] * 2


def test_the_content_may_be_changed_before_the_schema_sees_it(client: pulsar.Client, topic: str) -> None:
    class Shouting(pulsar.ProducerInterceptor):
        def before_send(self, producer: Any, message: pulsar.MessageToSend) -> pulsar.MessageToSend:
            return message._replace(content=str(message.content).upper())

    client.create_producer(topic, schema=pulsar.StringSchema(), interceptors=[Shouting()]).send("hush")
    assert [message.data() for message in read(client, topic)] == [b"HUSH"]


@pytest.mark.parametrize("kind", [RaisingProducerInterceptor, Confused], ids=["raises", "returns nothing"])
def test_one_that_does_wrong_is_passed_over_and_logged(
    client: pulsar.Client, topic: str, caplog: pytest.LogCaptureFixture, kind: type[Noting]
) -> None:
    wrong, right = kind(), Noting("right")
    message_id = client.create_producer(topic, interceptors=[wrong, right]).send(b"x")
    assert [message.properties() for message in read(client, topic)] == [{"by": "right"}]
    assert wrong.acknowledged == right.acknowledged == [(b"x", message_id, None)]
    assert "an interceptor of" in caplog.text


def test_one_that_would_exit_keeps_nobody_from_their_outcome_and_ends_no_thread(
    client: pulsar.Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong, right = ExitingProducerInterceptor(), Noting()
    producer = client.create_producer(topic, interceptors=[wrong, right])
    future = producer.send_async(b"x")
    message_id = future.result(PATIENCE)
    assert wrong.acknowledged == right.acknowledged == [(b"x", message_id, None)]
    producer.close()
    until(lambda: right.closed)  # on the same listener's thread, after the one that would end it
    assert wrong.closed == 1
    assert "an interceptor of" in caplog.text


def test_who_is_not_concerned_hears_nothing(client: pulsar.Client, topic: str) -> None:
    choosy, failing = Choosy(), Failing()
    producer = client.create_producer(topic, interceptors=(choosy, failing))
    producer.send(b"without")
    producer.send(b"with", partition_key="k")
    assert [message.properties() for message in read(client, topic)] == [{}, {"by": "noting"}]
    assert [content for content, _, _ in choosy.acknowledged] == [b"with"]
    assert failing.acknowledged == []


def test_interceptors_hear_before_a_callback_and_a_future_do(client: pulsar.Client, topic: str) -> None:
    noting = Noting()
    producer = client.create_producer(topic, interceptors=[noting])
    heard: list[tuple[pulsar.Result, pulsar.MessageId, int]] = []
    producer.send_async(b"a", lambda result, message_id: heard.append((result, message_id, len(noting.acknowledged))))
    future = producer.send_async(b"b")
    place = future.result(PATIENCE)
    assert noting.acknowledged == [(b"a", heard[0][1], None), (b"b", place, None)]
    assert (heard[0][0], heard[0][2]) == (pulsar.Result.Ok, 1)


def test_a_batch_is_heard_of_message_by_message_in_order(client: pulsar.Client, topic: str) -> None:
    noting = Noting()
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=FOREVER_MS, interceptors=[noting]
    )
    for number in range(5):
        producer.send_async(b"%d" % number)
    producer.flush()
    assert [content for content, _, _ in noting.acknowledged] == [b"0", b"1", b"2", b"3", b"4"]
    assert [each and each.batch_index() for _, each, _ in noting.acknowledged] == [0, 1, 2, 3, 4]


def no_room(producer: Producer, broker: EmbeddedBroker) -> None:
    producer.send_async(b"first")
    producer.send(b"x")


def no_room_for_later(producer: Producer, broker: EmbeddedBroker) -> None:
    producer.send_async(b"first")
    future = producer.send_async(b"x")
    future.result(PATIENCE)


def unanswered(producer: Producer, broker: EmbeddedBroker) -> None:
    fault = broker.faults.on(CommandSend, times=None).drop()
    try:
        producer.send(b"x")
    finally:
        fault.remove()


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (no_room, pulsar.ProducerQueueIsFull),
        (no_room_for_later, pulsar.ProducerQueueIsFull),
        (lambda producer, _: producer.close() or producer.send(b"x"), pulsar.AlreadyClosed),
        (lambda producer, _: producer.send(bytes(6_000_000)), pulsar.MessageTooBig),
        (lambda producer, _: producer.send(b"x", sequence_id=-1), pulsar.InvalidArgument),
        (lambda producer, _: producer.send("text"), TypeError),
        (unanswered, pulsar.Timeout),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_fails_is_heard_of_once_with_the_error_that_the_sender_gets(
    client: pulsar.Client,
    topic: str,
    broker: EmbeddedBroker,
    fail: Callable[[Producer, EmbeddedBroker], None],
    kind: type[Exception],
) -> None:
    noting = Noting()
    producer = client.create_producer(
        topic,
        interceptors=[noting],
        max_pending_messages=1,
        send_timeout_millis=200,
        batching_enabled=True,
        batching_max_publish_delay_ms=FOREVER_MS,
    )
    with pytest.raises(kind):
        fail(producer, broker)
    failed = [(message_id, type(error)) for _, message_id, error in noting.acknowledged if error is not None]
    assert failed == [(None, kind if kind is not TypeError else pulsar.WrongContent)]


@pytest.mark.parametrize("kind", [Noting, RaisingProducerInterceptor])
def test_it_is_closed_once_after_all_messages_have_ended(
    client: pulsar.Client, any_topic: str, kind: type[Noting]
) -> None:
    interceptors = [kind(), Noting()]
    producer = client.create_producer(
        any_topic, batching_enabled=True, batching_max_publish_delay_ms=FOREVER_MS, interceptors=interceptors
    )
    producer.send_async(b"x")
    producer.close()
    producer.close()
    until(lambda: all(one.closed for one in interceptors))
    assert [(one.closed, len(one.acknowledged)) for one in interceptors] == [(1, 1), (1, 1)]


def test_the_end_of_the_client_closes_it_too(broker: EmbeddedBroker, topic: str) -> None:
    noting = Noting()
    with pulsar.Client(broker.service_url) as client:
        client.create_producer(topic, interceptors=[noting]).send(b"x")
        producer = client.create_producer(topic, interceptors=[noting])
        producer.send(b"y")
    assert noting.closed == 2


def failover(client: Client, topic: str, name: str, priority: int = 0) -> tuple[Any, EventWitness]:
    witness = EventWitness()
    consumer = client.subscribe(
        topic, "s", ConsumerType.Failover, consumer_name=name, consumer_event_listener=witness, priority_level=priority
    )
    return consumer, witness


def test_a_failover_consumer_hears_whether_it_is_served(broker: EmbeddedBroker, client: Client, topic: str) -> None:
    topics.create_partitioned(broker, topic, 2)
    partition = f"{topic}-partition-1"
    second, heard_second = failover(client, partition, "b", priority=1)
    until(lambda: heard_second.heard == [(second, 1, True)])
    first, heard_first = failover(client, partition, "a")
    until(lambda: heard_first.heard == [(first, 1, True)])
    until(lambda: heard_second.heard == [(second, 1, True), (second, 1, False)])
    first.close()
    until(lambda: heard_second.heard[-1] == (second, 1, True))
    second.close()
    (thread,) = heard_second.threads
    assert thread.startswith("pulsar-listener")


def test_the_consumers_of_a_lower_level_come_first(client: Client, topic: str) -> None:
    first, heard_first = failover(client, topic, "z", priority=3)
    until(lambda: heard_first.heard == [(first, -1, True)])
    second, heard_second = failover(client, topic, "y", priority=2)
    until(lambda: heard_first.heard == [(first, -1, True), (first, -1, False)])
    assert heard_second.heard == [(second, -1, True)]
    first.close()
    second.close()


def test_a_listener_that_raises_is_logged_and_told_of_the_next(
    client: Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Raising(EventWitness):
        def became_active(self, consumer: Any, partition: int) -> None:
            super().became_active(consumer, partition)
            raise RuntimeError

    witness = Raising()
    consumer = client.subscribe(topic, "s", ConsumerType.Failover, consumer_event_listener=witness, priority_level=1)
    until(lambda: len(witness.heard) == 1)
    other, _ = failover(client, topic, "a")
    until(lambda: len(witness.heard) == 2)
    mine = [record.message for record in caplog.records if topic in record.message]  # the test before may log its end
    assert mine == [f"a listener or interceptor of {topic} raised"]
    consumer.close()
    other.close()


def test_one_that_hears_nothing_is_a_listener_too(client: Client, topic: str) -> None:
    options: dict[str, Any] = {"consumer_type": ConsumerType.Failover}
    with client.subscribe(topic, "s", consumer_event_listener=ConsumerEventListener(), **options):
        client.subscribe(topic, "s", **options).close()
    with pytest.raises(InvalidArgument, match="consumer_event_listener"):
        client.subscribe(topic, "s", consumer_event_listener=print)  # type: ignore[arg-type]
