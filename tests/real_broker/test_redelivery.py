"""Messages that come again because somebody asked, and where they go when they came too often."""

from collections import Counter
from typing import Any

import pytest

from tests.real_broker.exchange import (
    SOON,
    acknowledged_all,
    contents,
    nothing_comes,
    receive,
    rest,
    send_all,
    send_batch,
    until,
)
from tests.support.admin import Admin

SOON_AGAIN = {"negative_ack_redelivery_delay_ms": 100}
LETTERS = [b"a", b"b", b"c"]


def test_a_refused_message_comes_again_and_counts_it(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, **SOON_AGAIN)
    client.create_producer(topic).send(b"x")
    for count in range(4):
        message = consumer.receive(SOON)
        assert message.data() == b"x"
        assert message.redelivery_count() == count
        consumer.negative_acknowledge(message if count % 2 else message.message_id())


def test_only_the_refused_message_comes_again(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, **SOON_AGAIN)
    send_all(client.create_producer(topic), LETTERS)
    messages = receive(consumer, 3)
    consumer.acknowledge(messages[0])
    consumer.negative_acknowledge(messages[1])
    assert consumer.receive(SOON).data() == b"b"
    assert nothing_comes(pulsar, consumer)


def test_a_message_acknowledged_after_its_refusal_does_not_come_again(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=1000
    )
    client.create_producer(topic).send(b"x")
    message = consumer.receive(SOON)
    consumer.negative_acknowledge(message)
    consumer.acknowledge(message)
    with pytest.raises(pulsar.Timeout):
        consumer.receive(2000)


def test_a_message_refused_by_one_may_go_to_another(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    shared = pulsar.ConsumerType.Shared
    refusing = client.subscribe(topic, "s", consumer_type=shared, receiver_queue_size=1, **SOON_AGAIN)
    producer = client.create_producer(topic)
    producer.send(b"x")
    message = refusing.receive(SOON)
    producer.send(b"in the way")
    until(lambda: admin.stats(topic)["subscriptions"]["s"]["unackedMessages"] == 2)  # the one who refuses is full
    other = client.subscribe(topic, "s", consumer_type=shared)
    refusing.negative_acknowledge(message)
    assert other.receive(SOON).data() == b"x"


@pytest.mark.shows("Command RedeliverUnacknowledgedMessages", "spread across the consumers")
def test_what_one_consumer_asks_for_again_is_spread_across_all_of_a_shared_subscription(
    pulsar: Any, client: Any, topic: str
) -> None:
    shared = pulsar.ConsumerType.Shared
    asking = client.subscribe(topic, "s", consumer_type=shared)
    sent = [b"%d" % number for number in range(100)]
    send_all(client.create_producer(topic), sent)
    receive(asking, 100)
    other = client.subscribe(topic, "s", consumer_type=shared)
    asking.redeliver_unacknowledged_messages()
    shares = [rest(pulsar, asking), rest(pulsar, other)]
    assert all(shares)
    assert sorted(shares[0] + shares[1], key=int) == sent


# All is received before it is asked for again: the official client mixes what it still holds with what comes again.
def test_redelivery_on_request_begins_with_the_first_unacknowledged_message(
    pulsar: Any, client: Any, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), [b"%d" % number for number in range(10)])
    messages = receive(consumer, 10)
    consumer.acknowledge_cumulative(messages[2])
    consumer.redeliver_unacknowledged_messages()
    assert rest(pulsar, consumer) == [b"%d" % number for number in range(3, 10)]


def test_redelivery_on_request_repeats_what_was_not_acknowledged_once(
    pulsar: Any, client: Any, admin: Admin, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    send_all(client.create_producer(topic), [b"%d" % number for number in range(20)])
    acknowledged_all(consumer, receive(consumer, 20)[:5])
    # The official client does not wait for the broker to have them, and may ask for all twenty.
    until(lambda: admin.stats(topic)["subscriptions"]["s"]["unackedMessages"] == 15)
    consumer.redeliver_unacknowledged_messages()
    assert Counter(rest(pulsar, consumer)) == Counter([b"%d" % number for number in range(5, 20)])


def test_a_batch_in_which_one_was_refused_comes_again(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, **SOON_AGAIN)
    send_batch(pulsar, client, topic, LETTERS)
    messages = receive(consumer, 3)
    consumer.negative_acknowledge(messages[1])
    assert rest(pulsar, consumer) == LETTERS


@pytest.mark.shows("Command Producer", "initial_subscription_name")
@pytest.mark.parametrize("partitions", [0, 2])
def test_dead_letters_go_where_they_were_told_to(
    pulsar: Any, client: Any, topic: str, admin: Admin, partitions: int
) -> None:
    if partitions:
        admin.create_partitioned(f"{topic}-graveyard", partitions)
    graveyard = client.subscribe(f"{topic}-graveyard", "s")
    policy = pulsar.ConsumerDeadLetterPolicy(1, f"{topic}-graveyard")
    shared = pulsar.ConsumerType.Shared
    consumer = client.subscribe(topic, "s", consumer_type=shared, dead_letter_policy=policy, **SOON_AGAIN)
    send_all(client.create_producer(topic), LETTERS)
    for _ in range(2):
        for message in receive(consumer, 3):
            consumer.negative_acknowledge(message)
    assert sorted(contents(receive(graveyard, 3))) == LETTERS
    # The official client may crash when it is closed on its way to a dead letter.
    until(lambda: admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0)


def test_a_message_that_is_acknowledged_in_time_is_no_dead_letter(pulsar: Any, client: Any, topic: str) -> None:
    graveyard = client.subscribe(f"{topic}-graveyard", "s")
    policy = pulsar.ConsumerDeadLetterPolicy(1, f"{topic}-graveyard")
    consumer = client.subscribe(
        topic, "s", consumer_type=pulsar.ConsumerType.Shared, dead_letter_policy=policy, **SOON_AGAIN
    )
    client.create_producer(topic).send(b"x")
    consumer.negative_acknowledge(consumer.receive(SOON))
    consumer.acknowledge(consumer.receive(SOON))
    assert nothing_comes(pulsar, consumer)
    assert nothing_comes(pulsar, graveyard)
