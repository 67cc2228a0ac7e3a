"""What a program that consumes relies on."""

import threading
import time
from typing import Any

import pytest

from tests.real_broker.exchange import SOON, InThread, contents, receive, rest, send_all, send_batch, until
from tests.support.admin import Admin


def test_receive_gives_up_after_its_timeout(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    before = time.monotonic()
    with pytest.raises(pulsar.Timeout):
        consumer.receive(200)
    assert 0.19 <= time.monotonic() - before < 5


def test_receive_with_no_time_takes_only_what_is_there(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    with pytest.raises(pulsar.Timeout):
        consumer.receive(0)
    send_all(client.create_producer(topic), [b"a", b"b"])
    consumer.receive(SOON)

    def at_once() -> Any:
        try:
            return consumer.receive(0)
        except pulsar.Timeout:
            return None

    assert until(at_once).data() == b"b"


@pytest.mark.shows("Consuming", "", "synchronous")
def test_receive_waits_for_a_message(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    waiting = InThread(consumer.receive)
    client.create_producer(topic).send(b"x")
    assert waiting.result().data() == b"x"


@pytest.mark.shows("Command Subscribe", "initialPosition")
@pytest.mark.parametrize("position", [None, "Earliest"])
def test_a_new_subscription_begins_with_what_comes_after_it_or_with_the_first_message(
    pulsar: Any, client: Any, topic: str, position: str | None
) -> None:
    producer = client.create_producer(topic)
    producer.send(b"before")
    options = {"initial_position": getattr(pulsar.InitialPosition, position)} if position else {}
    consumer = client.subscribe(topic, "s", **options)
    producer.send(b"after")
    assert rest(pulsar, consumer) == ([b"before", b"after"] if position else [b"after"])


def test_a_message_without_fields_has_the_values_that_mean_nothing(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    before = time.time() * 1000
    client.create_producer(topic).send(b"x")
    message = consumer.receive(SOON)
    after = time.time() * 1000
    assert message.value() == b"x"
    assert message.properties() == {}
    assert message.partition_key() == ""
    assert message.ordering_key() == ""
    assert message.event_timestamp() == 0
    assert message.redelivery_count() == 0
    assert message.schema_version() == ""
    assert message.encryption_context() is None
    assert message.has_null_value() is False
    assert message.topic_name() == topic
    assert before - 1 <= message.publish_timestamp() <= after


@pytest.mark.shows("ConsumerConfiguration", "", "receiverQueueSize")
@pytest.mark.parametrize("batching", [False, True], ids=["one by one", "batched"])
@pytest.mark.parametrize("queue", [1, 2, 10])
def test_a_short_queue_lets_everything_through(client: Any, topic: str, queue: int, *, batching: bool) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=queue)
    sent = [b"%d" % number for number in range(200)]
    send_all(client.create_producer(topic, batching_enabled=batching, batching_max_messages=30), sent)
    received = []
    for _ in sent:
        message = consumer.receive(SOON)
        consumer.acknowledge(message)
        received.append(message.data())
    assert received == sent


@pytest.mark.shows("ConsumerConfiguration", "receiverQueueSize")
def test_without_a_queue_a_message_comes_when_it_is_asked_for(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=0)
    sent = [b"%d" % number for number in range(5)]
    send_all(client.create_producer(topic), sent)
    assert contents(InThread(consumer.receive).result() for _ in sent) == sent


def test_without_a_queue_messages_stay_for_the_others(pulsar: Any, client: Any, topic: str) -> None:
    shared = {"consumer_type": pulsar.ConsumerType.Shared, "receiver_queue_size": 0}
    greedy = client.subscribe(topic, "s", **shared)
    modest = client.subscribe(topic, "s", **shared)
    send_all(client.create_producer(topic), [b"%d" % number for number in range(6)])
    first = InThread(modest.receive).result().data()
    others = contents(InThread(greedy.receive).result() for _ in range(5))
    assert sorted([first, *others]) == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize(
    ("limits", "given"),
    [
        pytest.param((3, -1, SOON), [3, 3], id="messages"),
        pytest.param((100, -1, 500), [2], id="time"),
        pytest.param((10, -1, 100), [0], id="nothing comes"),
    ],
)
def test_batch_receive_ends_with_its_number_or_its_time(
    pulsar: Any, client: Any, topic: str, limits: tuple[int, int, int], given: list[int]
) -> None:
    consumer = client.subscribe(topic, "s", batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(*limits))
    payloads = [b"%d" % number for number in range(sum(given))]
    send_all(client.create_producer(topic), payloads)
    batches = [contents(consumer.batch_receive()) for _ in given]
    assert [len(each) for each in batches] == given
    assert [each for batch in batches for each in batch] == payloads


def test_batch_receive_stops_at_its_number_of_bytes(pulsar: Any, client: Any, topic: str) -> None:
    policy = pulsar.ConsumerBatchReceivePolicy(-1, 1000, SOON)
    consumer = client.subscribe(topic, "s", batch_receive_policy=policy)
    send_all(client.create_producer(topic), [b"x" * 400] * 6)
    assert 1 <= len(consumer.batch_receive()) <= 3


def test_the_name_and_properties_of_a_consumer_are_known_to_the_broker(client: Any, topic: str, admin: Admin) -> None:
    subscribed = client.subscribe(topic, "mine", consumer_name="me", properties={"colour": "blue"})
    (consumer,) = admin.stats(topic)["subscriptions"]["mine"]["consumers"]
    assert consumer["consumerName"] == subscribed.consumer_name()
    assert consumer["metadata"] == {"colour": "blue"}


@pytest.mark.shows("Command GetLastMessageId")
def test_the_last_message_id_is_that_of_the_last_message(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    sent = client.create_producer(topic).send(b"x")
    assert consumer.get_last_message_id() == sent
    *_, sent = send_batch(pulsar, client, topic, [b"a", b"b"])
    assert consumer.get_last_message_id() == sent


def test_a_topic_without_messages_has_no_last_message_id(client: Any, topic: str) -> None:
    assert client.subscribe(topic, "s").get_last_message_id().entry_id() == -1


def test_what_is_left_of_a_terminated_topic_is_delivered_and_then_nothing(
    pulsar: Any, client: Any, topic: str, admin: Admin
) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), [b"a", b"b"])
    admin.terminate(topic)
    assert contents(receive(consumer, 2)) == [b"a", b"b"]
    with pytest.raises(pulsar.PulsarException):
        consumer.receive(200)
    assert consumer.is_connected()


@pytest.mark.shows("Client library", "transparent reconnection")
def test_an_unload_is_not_noticed_by_a_consumer_that_acknowledges(
    pulsar: Any, client: Any, topic: str, admin: Admin
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"a")
    consumer.acknowledge(consumer.receive(SOON))
    until(lambda: admin.keeps_acknowledgements(topic, "s"))
    admin.unload(topic)
    producer.send(b"b")
    assert rest(pulsar, consumer) == [b"b"]


class Listener:
    """Acknowledges and keeps what it is called with."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.threads: set[str] = set()

    def __call__(self, consumer: Any, message: Any) -> None:
        self.threads.add(threading.current_thread().name)
        consumer.acknowledge(message)
        self.heard.append(message.data())


@pytest.mark.shows("ClientConfiguration", "listenerThreads")
@pytest.mark.shows("Consuming", "listener")
@pytest.mark.shows("ConsumerConfiguration", "messageListener")
def test_a_listener_hears_each_message_once_and_in_order(client: Any, topic: str, admin: Admin) -> None:
    listener = Listener()
    client.subscribe(topic, "s", message_listener=listener)
    sent = [b"%d" % number for number in range(100)]
    send_all(client.create_producer(topic, batching_enabled=True), sent)
    until(lambda: len(listener.heard) >= 100)
    until(lambda: admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0)
    assert listener.heard == sent
    assert threading.current_thread().name not in listener.threads


def test_a_listener_that_raises_hears_the_next_message(client: Any, topic: str) -> None:
    heard: list[bytes] = []

    def listener(consumer: Any, message: Any) -> None:
        heard.append(message.data())
        raise ZeroDivisionError

    client.subscribe(topic, "s", message_listener=listener)
    send_all(client.create_producer(topic), [b"a", b"b"])
    assert until(lambda: heard[1:]) == [b"b"]


def test_a_paused_listener_hears_nothing_until_it_is_resumed(pulsar: Any, client: Any, topic: str) -> None:
    listener = Listener()
    consumer = client.subscribe(topic, "paused", message_listener=listener)
    witness = client.subscribe(topic, "witness")
    consumer.pause_message_listener()
    client.create_producer(topic).send(b"x")
    assert rest(pulsar, witness) == [b"x"]
    assert listener.heard == []
    consumer.resume_message_listener()
    assert until(lambda: listener.heard) == [b"x"]


def test_a_consumer_with_a_listener_has_nothing_to_receive(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", message_listener=Listener())
    with pytest.raises(pulsar.InvalidConfiguration):
        consumer.receive(100)


def test_a_consumer_without_a_listener_has_nothing_to_pause(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    with pytest.raises(pulsar.InvalidConfiguration):
        consumer.pause_message_listener()


@pytest.mark.parametrize("timeout", ["1", 1.5, b"1"], ids=repr)
def test_a_timeout_of_a_wrong_type_is_refused(client: Any, topic: str, timeout: object) -> None:
    consumer = client.subscribe(topic, "s")
    with pytest.raises((TypeError, ValueError)):
        consumer.receive(timeout)


@pytest.mark.shows("Consuming", "asynchronous")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)
def test_a_message_may_be_awaited_without_waiting(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    coming = consumer.receive_async()
    assert not coming.done()
    client.create_producer(topic).send(b"a")
    assert coming.result(SOON / 1000).data() == b"a"


@pytest.mark.shows("ConsumerConfiguration", "ackTimeout")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)
@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_what_is_not_acknowledged_in_time_comes_again(pulsar: Any, client: Any, topic: str, kind: str) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=pulsar.ConsumerType.__members__[kind], unacked_messages_timeout_ms=500
    )
    send_all(client.create_producer(topic), [b"a", b"b"])
    first, _ = receive(consumer, 2)
    consumer.acknowledge(first)
    again = consumer.receive(SOON)
    assert again.data() == b"b"
    consumer.acknowledge(again)
