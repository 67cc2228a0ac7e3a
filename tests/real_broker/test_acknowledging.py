"""What comes again, and what does not, when a subscription is taken up once more."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.real_broker.exchange import (
    LETTERS,
    SOON,
    acknowledged_all,
    nothing_comes,
    place,
    receive,
    rest,
    send_all,
    send_batch,
)
from tests.support.admin import Admin


@pytest.fixture
def consumer(client: Any, topic: str) -> Any:
    return client.subscribe(topic, "s")


@pytest.fixture
def again(pulsar: Any, client: Any, topic: str) -> Callable[[Any], list[bytes]]:
    """Close a consumer, which sends the acknowledgements it holds, and see what a new one is given."""

    def take(consumer: Any, **options: Any) -> list[bytes]:
        consumer.close()
        return rest(pulsar, client.subscribe(topic, "s", **options))

    return take


@pytest.mark.shows("Consuming", "individual")
@pytest.mark.parametrize("what", ["message", "id that was received", "id that was sent", "id made of numbers"])
def test_only_what_was_not_acknowledged_comes_again(
    pulsar: Any, client: Any, topic: str, again: Any, what: str
) -> None:
    consumer = client.subscribe(topic, "s")
    sent = send_all(client.create_producer(topic), LETTERS)
    for number, message in enumerate(receive(consumer, 5)):
        ledger, entry, _, _ = place(message.message_id())
        ids = {
            "received": message.message_id(),
            "sent": sent[number],
            "numbers": pulsar.MessageId(-1, ledger, entry, -1),
        }
        if number in {0, 3}:
            consumer.acknowledge(ids.get(what.rpartition(" ")[2], message))
    assert again(consumer) == [b"b", b"c", b"e"]


def test_everything_acknowledged_leaves_nothing(
    pulsar: Any, client: Any, topic: str, consumer: Any, admin: Admin
) -> None:
    send_all(client.create_producer(topic, batching_enabled=True), LETTERS)
    acknowledged_all(consumer, receive(consumer, 5))
    consumer.close()
    assert nothing_comes(pulsar, client.subscribe(topic, "s"))
    assert admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0


@pytest.mark.shows("Cumulative acknowledgement", "not on a shared subscription")
@pytest.mark.parametrize("kind", ["Shared", "KeyShared"])
def test_where_others_consume_too_there_is_no_cumulative_acknowledgement(
    pulsar: Any, client: Any, topic: str, kind: str
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=getattr(pulsar.ConsumerType, kind))
    client.create_producer(topic).send(b"x")
    message = consumer.receive(SOON)
    with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError):
        consumer.acknowledge_cumulative(message)


def test_a_batch_comes_again_whole_unless_all_of_it_was_acknowledged(
    pulsar: Any, client: Any, topic: str, consumer: Any, again: Any
) -> None:
    send_batch(pulsar, client, topic, LETTERS)
    acknowledged_all(consumer, receive(consumer, 5)[:4])
    assert again(consumer) == LETTERS


def test_a_cumulative_acknowledgement_inside_a_batch_reaches_to_the_batch_before(
    pulsar: Any, client: Any, topic: str, consumer: Any, again: Any
) -> None:
    client.create_producer(topic).send(b"before")
    send_batch(pulsar, client, topic, LETTERS)
    consumer.acknowledge_cumulative(receive(consumer, 6)[3])
    assert again(consumer) == LETTERS


def test_a_cumulative_acknowledgement_inside_the_first_batch_of_a_ledger_reaches_to_the_ledger_before(
    pulsar: Any, client: Any, consumer: Any, again: Any, admin: Admin
) -> None:
    """The entry before that batch has a number that no entry has: -1."""
    topic = consumer.topic()
    client.create_producer(topic).send(b"before")
    admin.unload(topic)
    send_batch(pulsar, client, topic, LETTERS)
    message = consumer.receive(SOON)
    while message.data() != LETTERS[3]:  # what was not acknowledged before the unload comes again
        message = consumer.receive(SOON)
    consumer.acknowledge_cumulative(message)
    assert again(consumer) == LETTERS


def test_a_cumulative_acknowledgement_of_a_batchs_last_message_takes_in_the_batch(
    pulsar: Any, client: Any, topic: str, consumer: Any
) -> None:
    send_batch(pulsar, client, topic, LETTERS)
    consumer.acknowledge_cumulative(receive(consumer, 5)[4].message_id())
    consumer.close()
    assert nothing_comes(pulsar, client.subscribe(topic, "s"))


def test_with_batch_index_acknowledgement_it_reaches_to_the_message(
    pulsar: Any, client: Any, topic: str, again: Any
) -> None:
    consumer = client.subscribe(topic, "s", batch_index_ack_enabled=True)
    send_batch(pulsar, client, topic, LETTERS)
    consumer.acknowledge_cumulative(receive(consumer, 5)[2])
    assert again(consumer, batch_index_ack_enabled=True) == [b"d", b"e"]


def test_a_second_acknowledgement_changes_nothing(client: Any, topic: str, consumer: Any, again: Any) -> None:
    send_all(client.create_producer(topic), [b"a", b"b"])
    message = consumer.receive(SOON)
    consumer.acknowledge(message)
    consumer.acknowledge(message)
    assert again(consumer) == [b"b"]


def test_acknowledgements_count_across_an_unload(
    pulsar: Any, client: Any, topic: str, consumer: Any, admin: Admin
) -> None:
    send_all(client.create_producer(topic), LETTERS)
    messages = receive(consumer, 5)
    consumer.acknowledge(messages[1])
    consumer.close()
    admin.unload(topic)
    assert rest(pulsar, client.subscribe(topic, "s")) == [b"a", b"c", b"d", b"e"]


@pytest.mark.parametrize("wrong", [None, "x", b"x", 5], ids=repr)
def test_what_is_no_message_is_refused(consumer: Any, wrong: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        consumer.acknowledge(wrong)
    with pytest.raises((TypeError, ValueError)):
        consumer.acknowledge_cumulative(wrong)
    with pytest.raises((TypeError, ValueError)):
        consumer.negative_acknowledge(wrong)
