"""What closing ends, and what is still said afterwards."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.real_broker.exchange import (
    NEVER_BY_TIME,
    OPENINGS,
    SOON,
    InThread,
    Outcomes,
    contents,
    receive,
    rest,
    send_all,
    stored,
    until,
)
from tests.support.admin import Admin


def test_a_closed_producer_sends_nothing(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"x")
    producer.close()
    with pytest.raises(pulsar.AlreadyClosed):
        producer.send(b"y")
    with pytest.raises(pulsar.AlreadyClosed):
        producer.flush()
    outcomes = Outcomes()
    producer.send_async(b"x", outcomes)
    assert outcomes.results(1) == [pulsar.Result.AlreadyClosed]
    assert stored(pulsar, client, topic) == [b"x"]


def test_a_closed_producer_still_says_who_it_was(client: Any, topic: str) -> None:
    producer = client.create_producer(topic, producer_name="me")
    producer.send(b"x")
    producer.close()
    assert producer.topic() == topic
    assert producer.producer_name() == "me"
    assert producer.last_sequence_id() == 0
    assert producer.is_connected() is False


def test_a_closed_producer_makes_room_for_its_name(client: Any, topic: str) -> None:
    for _ in range(3):
        client.create_producer(topic, producer_name="me").close()


@pytest.mark.parametrize("closing", ["producer", "client"])
def test_every_callback_is_called_when_a_producer_or_its_client_closes(
    pulsar: Any, client: Any, topic: str, closing: str
) -> None:
    producer = client.create_producer(topic, **NEVER_BY_TIME)
    outcomes = Outcomes()
    for _ in range(300):
        producer.send_async(b"x", outcomes)
    (producer if closing == "producer" else client).close()
    assert set(map(int, outcomes.results(300))) <= {int(pulsar.Result.Ok), int(pulsar.Result.AlreadyClosed)}


CONSUMER_CALLS: dict[str, Callable[[Any, Any, Any], object]] = {
    "receive": lambda pulsar, consumer, message: consumer.receive(),
    "receive with a timeout": lambda pulsar, consumer, message: consumer.receive(100),
    "acknowledge": lambda pulsar, consumer, message: consumer.acknowledge(message),
    "acknowledge_cumulative": lambda pulsar, consumer, message: consumer.acknowledge_cumulative(message),
    "seek": lambda pulsar, consumer, message: consumer.seek(pulsar.MessageId.earliest),
    "unsubscribe": lambda pulsar, consumer, message: consumer.unsubscribe(),
}


@pytest.mark.parametrize("call", CONSUMER_CALLS)
def test_a_closed_consumer_does_nothing(pulsar: Any, client: Any, topic: str, call: str) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"x")
    message = consumer.receive(SOON)
    consumer.close()
    with pytest.raises(pulsar.AlreadyClosed):
        CONSUMER_CALLS[call](pulsar, consumer, message)


def test_a_closed_consumer_still_says_who_it_was(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "mine", consumer_name="me")
    consumer.close()
    assert consumer.topic() == topic
    assert consumer.subscription_name() == "mine"
    assert consumer.consumer_name() == "me"
    assert consumer.is_connected() is False


@pytest.mark.parametrize(
    ("pulsar", "closing"),  # the official client has been seen to wait on
    [("official", "consumer"), ("ours", "consumer"), ("ours", "client")],
    indirect=["pulsar"],
)
def test_who_waits_for_a_message_hears_that_the_consumer_or_its_client_was_closed(
    pulsar: Any, client: Any, topic: str, admin: Admin, closing: str
) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=0)  # so that the broker is asked once somebody waits
    waiting = InThread(consumer.receive)
    until(lambda: admin.stats(topic)["subscriptions"]["s"]["consumers"][0]["availablePermits"] == 1)
    (consumer if closing == "consumer" else client).close()
    with pytest.raises(pulsar.AlreadyClosed):
        waiting.result()


def test_a_consumer_may_be_closed_by_its_listener(client: Any, topic: str, admin: Admin) -> None:
    consumers: list[Any] = []
    heard: list[bytes] = []

    def listener(_: Any, message: Any) -> None:
        heard.append(message.data())
        consumers[0].close()

    consumers.append(client.subscribe(topic, "s", message_listener=listener))
    client.create_producer(topic).send(b"x")
    until(lambda: heard and not admin.stats(topic)["subscriptions"]["s"]["consumers"])
    client.close()


def test_closing_a_client_sends_the_acknowledgements_it_holds(client: Any, topic: str, admin: Admin) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"x")
    consumer.acknowledge(consumer.receive(SOON))
    client.close()
    until(lambda: admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0)


def test_what_was_queued_and_not_received_is_there_for_the_next(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), [b"a", b"b", b"c"])
    consumer.acknowledge(consumer.receive(SOON))
    consumer.close()
    assert rest(pulsar, client.subscribe(topic, "s")) == [b"b", b"c"]


@pytest.mark.parametrize("call", ["read_next", "has_message_available"])
def test_a_closed_reader_reads_nothing(pulsar: Any, client: Any, topic: str, call: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    reader.close()
    with pytest.raises(pulsar.AlreadyClosed):
        getattr(reader, call)()
    assert reader.is_connected() is False


@pytest.mark.parametrize("ending", ["close", "shutdown"])
@pytest.mark.parametrize("call", OPENINGS)
def test_a_closed_client_opens_nothing(pulsar: Any, client: Any, topic: str, call: str, ending: str) -> None:
    getattr(client, ending)()
    with pytest.raises(pulsar.AlreadyClosed):
        OPENINGS[call](pulsar, client, topic)


def test_a_closed_client_has_closed_all_it_opened(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "s")
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    client.close()
    with pytest.raises(pulsar.AlreadyClosed):
        producer.send(b"x")
    with pytest.raises(pulsar.AlreadyClosed):
        consumer.receive(100)
    with pytest.raises(pulsar.AlreadyClosed):
        reader.read_next(100)
    until(lambda: not admin.stats(topic)["publishers"])
    until(lambda: not admin.stats(topic)["subscriptions"]["s"]["consumers"])


def test_one_client_does_not_close_another(pulsar: Any, client: Any, topic: str, connect: Any) -> None:
    other = connect(pulsar)
    consumer = other.subscribe(topic, "s")
    producer = other.create_producer(topic)
    client.create_producer(topic)
    client.close()
    producer.send(b"x")
    assert contents(receive(consumer, 1)) == [b"x"]
