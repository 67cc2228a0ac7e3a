import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

import pytest
from life import until

from pulsar_actors.client.client import Client
from pulsar_actors.client.consuming.consumer_interceptor import ConsumerInterceptor, ReaderInterceptor
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.exceptions import AlreadyClosed, InvalidArgument, Timeout

SOON = 5_000
PATIENCE = 20.0


class Witness(ConsumerInterceptor):
    """It writes down what it hears, and from which thread."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.heard: list[tuple[Any, ...]] = []
        self.threads: set[str] = set()

    def _hear(self, *what: Any) -> None:
        self.heard.append(what)
        self.threads.add(threading.current_thread().name)

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [what[1:] for what in self.heard if what[0] == kind]

    def before_consume(self, consumer: Any, message: Message) -> Message:
        self._hear("before", consumer, message.data())
        return message

    def on_acknowledge(self, consumer: Any, message_id: MessageId, error: Exception | None) -> None:
        self._hear("acknowledge", consumer, message_id, error)

    def on_acknowledge_cumulative(self, consumer: Any, message_id: MessageId, error: Exception | None) -> None:
        self._hear("cumulative", consumer, message_id, error)

    def on_negative_acks_send(self, consumer: Any, message_ids: AbstractSet[MessageId]) -> None:
        self._hear("refused", consumer, set(message_ids))

    def on_ack_timeout_send(self, consumer: Any, message_ids: AbstractSet[MessageId]) -> None:
        self._hear("late", consumer, set(message_ids))

    def close(self) -> None:
        self._hear("close")


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
    "iterate": lambda consumer: next(iter(consumer)),
    "receive_async": lambda consumer: consumer.receive_async().result(PATIENCE),
    "batch_receive": lambda consumer: consumer.batch_receive()[0],
    "batch_receive_async": lambda consumer: consumer.batch_receive_async().result(PATIENCE)[0],
}


@pytest.mark.parametrize("way", RECEIVE)
def test_each_way_to_receive_leads_through_the_interceptors(
    client: Client, producer: Producer, topic: str, way: str
) -> None:
    witness = Witness()
    policy = ConsumerBatchReceivePolicy(1, -1, 10_000)
    with client.subscribe(topic, "s", interceptors=[witness], batch_receive_policy=policy) as consumer:
        producer.send(b"a")
        assert RECEIVE[way](consumer).data() == b"a"
        assert witness.of("before") == [(consumer, b"a")]
        (thread,) = witness.threads
        assert thread.startswith("pulsar-listener" if way.endswith("async") else threading.current_thread().name)


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


def test_a_listener_gets_what_the_interceptors_make(client: Client, producer: Producer, topic: str) -> None:
    witness, heard = Witness(), list[bytes]()
    options: dict[str, Any] = {"message_listener": lambda _, message: heard.append(message.data())}
    with client.subscribe(topic, "s", interceptors=[Marking(), witness], **options) as consumer:
        for payload in (b"a", b"b"):
            producer.send(payload)
        until(lambda: heard == [b"a", b"a"])
        assert witness.of("before") == [(consumer, b"a")] * 2


def test_an_interceptor_that_raises_or_makes_no_message_is_passed_over(
    client: Client, producer: Producer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    witness = Witness()
    with client.subscribe(topic, "s", interceptors=(Raising(), Wrong(), witness)) as consumer:
        producer.send(b"a")
        message = consumer.receive(SOON)
        assert message.data() == b"a"
        consumer.acknowledge(message)
        assert len(witness.of("acknowledge")) == 1
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
def test_interceptors_hear_what_the_broker_was_asked_for_again(
    client: Client, producer: Producer, topic: str, kind: str
) -> None:
    witness = Witness()
    options: dict[str, Any] = {"consumer_type": ConsumerType.Shared, "interceptors": [Raising(), witness]}
    options |= {"negative_ack_redelivery_delay_ms": 1} if kind == "refused" else {"unacked_messages_timeout_ms": 50}
    with client.subscribe(topic, "s", **options) as consumer:
        message_id = producer.send(b"a")
        message = consumer.receive(SOON)
        if kind == "refused":
            consumer.negative_acknowledge(message)
        until(lambda: witness.of(kind))
        assert witness.of(kind)[0] == (consumer, {message_id})


@pytest.mark.parametrize("ended_by", ["consumer", "client"])
def test_interceptors_hear_of_the_end_once_and_last(broker: Any, topic: str, ended_by: str) -> None:
    witness = Witness()
    with Client(broker.service_url) as client:
        consumer = client.subscribe(topic, "s", interceptors=[Raising(), witness])
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


def test_a_reader_has_interceptors_of_its_own(client: Client, producer: Producer, topic: str) -> None:
    seen = Reading()
    producer.send(b"a")
    with client.create_reader(topic, MessageId.earliest, interceptors=[seen, ReaderInterceptor()]) as reader:
        assert reader.read_next(SOON).data() == b"a"
        assert seen.heard == [(reader, b"a")]
    until(lambda: seen.heard[-1] == "close")


@pytest.mark.parametrize("wrong", [None, ConsumerInterceptor(), [ReaderInterceptor()], [ConsumerInterceptor]])
def test_what_is_no_list_of_interceptors_is_refused(client: Client, topic: str, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="interceptors"):
        client.subscribe(topic, "s", interceptors=wrong)


def test_without_a_message_the_interceptors_hear_nothing(client: Client, topic: str) -> None:
    witness = Witness()
    with client.subscribe(topic, "s", interceptors=[witness]) as consumer:
        with pytest.raises(Timeout):
            consumer.receive(10)
        assert witness.heard == []
