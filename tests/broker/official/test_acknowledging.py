from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.broker.official_client import (
    WAIT_MS,
    Official,
    contents,
    data,
    drain,
    nothing_comes,
    pulsar,
    receive,
    send_all,
    topic,
)
from tests.support.admin import Admin
from tests.support.life import until

BATCHED: dict[str, Any] = {"batching_enabled": True, "batching_max_publish_delay_ms": 50}
KIND = pulsar.ConsumerType
EARLIEST = pulsar.InitialPosition.Earliest

each_way = pytest.mark.parametrize("way", [{}, BATCHED], ids=["plain", "batched"])


@each_way
def test_what_was_acknowledged_does_not_come_again(official: Official, way: dict[str, Any]) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s", KIND.Shared, batch_index_ack_enabled=True)
    send_all(client.create_producer(name, **way), contents(*"01234"))
    got = receive(consumer, 5)
    for i in (0, 3):
        consumer.acknowledge(got[i])
    consumer.close()
    again = client.subscribe(name, "s", KIND.Shared, batch_index_ack_enabled=True)
    assert data(drain(again)) == [b"1", b"2", b"4"]


@each_way
@pytest.mark.parametrize("kind", [KIND.Exclusive, KIND.Failover])
def test_a_cumulative_acknowledgement_covers_all_before_it(official: Official, way: dict[str, Any], kind: Any) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s", kind, batch_index_ack_enabled=True)
    send_all(client.create_producer(name, **way), contents(*"01234"))
    consumer.acknowledge_cumulative(receive(consumer, 5)[2])
    consumer.close()
    again = client.subscribe(name, "s", kind, batch_index_ack_enabled=True)
    assert data(receive(again, 2)) == [b"3", b"4"]
    assert nothing_comes(again)


def test_a_batch_is_acknowledged_when_all_its_messages_are(official: Official) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    send_all(client.create_producer(name, **BATCHED), contents(*"012"))
    for message in receive(consumer, 2):
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(name, "s")
    got = receive(again, 3)
    assert data(got) == [b"0", b"1", b"2"]
    for message in got:
        again.acknowledge(message)
    again.close()
    assert nothing_comes(client.subscribe(name, "s"))


@pytest.mark.parametrize("kind", [KIND.Shared, KIND.KeyShared])
def test_what_was_refused_comes_again_and_is_counted(official: Official, kind: Any) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s", kind, negative_ack_redelivery_delay_ms=100)
    send_all(client.create_producer(name), [{"content": b"%d" % i, "partition_key": "k"} for i in range(3)])
    got = receive(consumer, 3)
    assert [message.redelivery_count() for message in got] == [0, 0, 0]
    consumer.negative_acknowledge(got[1])
    for count in (1, 2, 3):
        again = consumer.receive(WAIT_MS)
        assert (again.data(), again.redelivery_count()) == (b"1", count)
        consumer.negative_acknowledge(again)


@pytest.mark.parametrize("kind", list(KIND.__members__.values()))
def test_all_that_is_not_acknowledged_can_be_had_again(broker: EmbeddedBroker, official: Official, kind: Any) -> None:
    client, name, admin = official.client(), topic(), Admin(broker.web_url)
    consumer = client.subscribe(name, "s", kind)
    send_all(client.create_producer(name), [{"content": b"%d" % i, "partition_key": "k"} for i in range(4)])
    consumer.acknowledge(receive(consumer, 4)[0])
    # The client sends acknowledgements late, and knows them no longer once it has: what comes back before that counts.
    until(lambda: admin.stats(name)["subscriptions"]["s"]["msgBacklog"] == 3)
    consumer.redeliver_unacknowledged_messages()
    assert data(receive(consumer, 3)) == [b"1", b"2", b"3"]


def test_what_one_consumer_leaves_goes_to_the_others(official: Official) -> None:
    client, name = official.client(), topic()
    leaving = client.subscribe(name, "s", KIND.Shared)
    send_all(client.create_producer(name), contents(*"0123"))
    receive(leaving, 4)
    staying = client.subscribe(name, "s", KIND.Shared)
    assert nothing_comes(staying)
    leaving.close()
    assert sorted(data(receive(staying, 4))) == [b"0", b"1", b"2", b"3"]


def test_what_fails_too_often_goes_to_the_dead_letters(official: Official) -> None:
    client, name = official.client(), topic()
    policy = pulsar.ConsumerDeadLetterPolicy(
        max_redeliver_count=2, dead_letter_topic=f"{name}-dead", initial_subscription_name="dead"
    )
    consumer = client.subscribe(name, "s", KIND.Shared, dead_letter_policy=policy, negative_ack_redelivery_delay_ms=100)
    client.create_producer(name).send(b"bad")
    for _ in range(3):
        consumer.negative_acknowledge(consumer.receive(WAIT_MS))
    dead = client.subscribe(f"{name}-dead", "dead", initial_position=EARLIEST)
    assert nothing_comes(consumer)
    assert dead.receive(WAIT_MS).data() == b"bad"


def test_an_unsubscribed_subscription_keeps_nothing(official: Official) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name)
    producer.send(b"before")
    consumer.unsubscribe()
    assert nothing_comes(client.subscribe(name, "s"))


def test_a_subscription_that_others_use_cannot_be_unsubscribed(official: Official) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s", KIND.Shared)
    client.subscribe(name, "s", KIND.Shared)
    with pytest.raises(pulsar.BrokerMetadataError):
        consumer.unsubscribe()
