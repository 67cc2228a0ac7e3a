"""What is put in between a producer and its user sees each message once on its way out, and once at its end."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from life import SOON, until

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend

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
        self.acknowledged.append((message.content, message_id, error))

    def close(self) -> None:
        assert not threading.current_thread().name.startswith("pulsar-io")
        self.closed += 1


class Raising(Noting):
    """Does nothing right."""

    def before_send(self, producer: Any, message: pulsar.MessageToSend) -> pulsar.MessageToSend:
        raise ZeroDivisionError

    def on_send_acknowledgement(self, *arguments: Any) -> None:
        super().on_send_acknowledgement(*arguments)
        raise ZeroDivisionError

    def close(self) -> None:
        super().close()
        raise ZeroDivisionError


class Exiting(Noting):
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
            found.append(reader.read_next(int(SOON * 1000)))
    return found


def test_each_gets_what_the_one_before_it_has_made(client: pulsar.Client, topic: str) -> None:
    interceptors = [Noting("a"), Noting("b")]
    producer = client.create_producer(topic, interceptors=interceptors)
    message_id = producer.send(b"x", partition_key="k")
    (message,) = read(client, topic)
    assert (message.properties(), message.partition_key()) == ({"by": "ab"}, "k")
    assert [one.acknowledged for one in interceptors] == [[(b"x", message_id, None)]] * 2
    assert interceptors[0].producers == [producer]


def test_the_content_may_be_changed_before_the_schema_sees_it(client: pulsar.Client, topic: str) -> None:
    class Shouting(pulsar.ProducerInterceptor):
        def before_send(self, producer: Any, message: pulsar.MessageToSend) -> pulsar.MessageToSend:
            return message._replace(content=str(message.content).upper())

    client.create_producer(topic, schema=pulsar.StringSchema(), interceptors=[Shouting()]).send("hush")
    assert [message.data() for message in read(client, topic)] == [b"HUSH"]


@pytest.mark.parametrize("kind", [Raising, Confused], ids=["raises", "returns nothing"])
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
    wrong, right = Exiting(), Noting()
    producer = client.create_producer(topic, interceptors=[wrong, right])
    future = producer.send_async(b"x")
    assert future is not None
    message_id = future.result(SOON)
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
    assert future is not None
    place = future.result(SOON)
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
    assert future is not None
    future.result(SOON)


def closed(producer: Producer, broker: EmbeddedBroker) -> None:
    producer.close()
    producer.send(b"x")


def too_big(producer: Producer, broker: EmbeddedBroker) -> None:
    producer.send(bytes(6_000_000))


def wrong_argument(producer: Producer, broker: EmbeddedBroker) -> None:
    producer.send(b"x", sequence_id=-1)


def wrong_content(producer: Producer, broker: EmbeddedBroker) -> None:
    producer.send("text")


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
        (closed, pulsar.AlreadyClosed),
        (too_big, pulsar.MessageTooBig),
        (wrong_argument, pulsar.InvalidArgument),
        (wrong_content, TypeError),
        (unanswered, pulsar.Timeout),
    ],
    ids=lambda value: getattr(value, "__name__", None),
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


@pytest.mark.parametrize("kind", [Noting, Raising])
def test_it_is_closed_once_after_all_messages_have_ended(client: pulsar.Client, topic: str, kind: type[Noting]) -> None:
    interceptors = [kind(), Noting()]
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=FOREVER_MS, interceptors=interceptors
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


@pytest.mark.parametrize("given", [[object()], Noting(), "ab", [Noting], None, {1: Noting()}], ids=repr)
def test_only_a_list_of_interceptors_is_taken(client: pulsar.Client, topic: str, given: Any) -> None:
    with pytest.raises(pulsar.InvalidArgument, match="interceptors"):
        client.create_producer(topic, interceptors=given)
