"""Who gets which message: the four types of subscription, and what outlives a consumer."""

from typing import Any

import pytest

from tests.real_broker.exchange import (
    SOON,
    acknowledged_all,
    contents,
    drained,
    nothing_comes,
    receive,
    rest,
    send_all,
    until,
)
from tests.support.admin import Admin

NUMBERS = [b"%d" % number for number in range(60)]
HASH_OF_KEY_1 = 5536  # as brokers have it: 16 bits of its hash


@pytest.mark.shows("Exclusive", "", "a second consumer is refused")
@pytest.mark.shows("ConsumerConfiguration", "subscriptionType")
@pytest.mark.parametrize("second", ["Exclusive", "Shared", "Failover", "KeyShared"])
def test_an_exclusive_subscription_has_one_consumer(pulsar: Any, client: Any, topic: str, second: str) -> None:
    first = client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", consumer_type=getattr(pulsar.ConsumerType, second))
    assert first.is_connected()


@pytest.mark.shows("Exclusive", "distinct subscriptions")
def test_each_subscription_gets_every_message(client: Any, topic: str) -> None:
    consumers = [client.subscribe(topic, name) for name in "abc"]
    send_all(client.create_producer(topic), [b"x", b"y"])
    assert [contents(receive(each, 2)) for each in consumers] == [[b"x", b"y"]] * 3


@pytest.mark.shows("Shared", "what a consumer leaves goes to others")
def test_what_a_closed_consumer_had_not_acknowledged_goes_to_the_others(pulsar: Any, client: Any, topic: str) -> None:
    leaving = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    send_all(client.create_producer(topic), NUMBERS)
    done = receive(leaving, 20)
    acknowledged_all(leaving, done)
    receive(leaving, 10)
    staying = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    leaving.close()
    assert sorted(rest(pulsar, staying), key=int) == NUMBERS[20:]


@pytest.mark.shows("Failover", "", "the next in line")
def test_a_failover_subscription_serves_one_consumer_until_it_leaves(pulsar: Any, client: Any, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Failover) for _ in range(2)]
    producer = client.create_producer(topic)

    def receiver_of(payload: bytes) -> Any:
        producer.send(payload)
        return until(
            lambda: next((each for each in consumers if contents(drained(pulsar, each, 20)) == [payload]), None)
        )

    active = receiver_of(b"x")  # which of the two it is, a hash of the topic's name decides
    assert receiver_of(b"y") is active
    active.close()
    consumers.remove(active)
    assert receiver_of(b"z") is consumers[0]


@pytest.mark.shows("Command Subscribe", "keySharedMeta")
def test_sticky_ranges_say_which_keys_a_consumer_gets(pulsar: Any, client: Any, topic: str) -> None:
    only, others = (
        client.subscribe(
            topic,
            "s",
            consumer_type=pulsar.ConsumerType.KeyShared,
            key_shared_policy=pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=ranges),
        )
        for ranges in [[(HASH_OF_KEY_1, HASH_OF_KEY_1)], [(0, HASH_OF_KEY_1 - 1), (HASH_OF_KEY_1 + 1, 65_535)]]
    )
    producer = client.create_producer(topic)
    for number in range(8):
        producer.send(b"x", partition_key=f"key-{number}")
    found = [[message.partition_key() for message in drained(pulsar, each)] for each in (only, others)]
    assert found[0] == ["key-1"]
    assert found[1] == ["key-0", *(f"key-{number}" for number in range(2, 8))]


def test_sticky_ranges_must_not_overlap_those_of_others(pulsar: Any, client: Any, topic: str) -> None:
    def subscribe(low: int, high: int) -> Any:
        policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(low, high)])
        return client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.KeyShared, key_shared_policy=policy)

    first = subscribe(0, 100)
    with pytest.raises(pulsar.PulsarException):
        subscribe(50, 200)
    second = subscribe(101, 200)
    assert first.is_connected()
    assert second.is_connected()


@pytest.mark.shows("Persistence", "persistent")
@pytest.mark.shows("Subscription", "", "durable", "backlog while nobody is attached")
def test_a_subscription_keeps_what_comes_while_nobody_consumes(client: Any, topic: str) -> None:
    client.subscribe(topic, "s").close()
    send_all(client.create_producer(topic), [b"a", b"b"])
    assert contents(receive(client.subscribe(topic, "s"), 2)) == [b"a", b"b"]


def test_a_subscription_with_other_consumers_stays(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared) for _ in range(2)]
    with pytest.raises(pulsar.PulsarException):
        consumers[0].unsubscribe()
    consumers[1].close()
    client.create_producer(topic).send(b"x")
    assert consumers[0].receive(SOON).data() == b"x"
    assert "s" in admin.stats(topic)["subscriptions"]


def test_a_closed_consumer_makes_room_at_once(client: Any, topic: str) -> None:
    for _ in range(5):
        client.subscribe(topic, "s").close()


def test_a_subscription_of_any_name_is_kept_apart(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    name = "a/b c\u00e9%2F?#"
    consumer = client.subscribe(topic, name)
    assert consumer.subscription_name() == name
    assert list(admin.stats(topic)["subscriptions"]) == [name]


def test_a_subscription_without_a_name_is_refused(pulsar: Any, client: Any, topic: str) -> None:
    with pytest.raises((pulsar.PulsarException, ValueError)):
        client.subscribe(topic, "")


def test_a_consumer_is_told_apart_from_one_that_went_away(client: Any, topic: str, admin: Admin) -> None:
    first = client.subscribe(topic, "s", consumer_name="one")
    first.close()
    second = client.subscribe(topic, "s", consumer_name="two")
    (consumer,) = until(lambda: admin.stats(topic)["subscriptions"]["s"]["consumers"])
    assert consumer["consumerName"] == second.consumer_name()


@pytest.mark.shows("Failover", "sorted by name")
@pytest.mark.parametrize("part", [0, 1])
def test_the_consumers_of_a_failover_subscription_are_sorted_by_name(
    pulsar: Any, client: Any, partitioned: str, part: int
) -> None:
    """The first of them is served by the first part of a topic, the second by the second."""
    topic = f"{partitioned}-partition-{part}"
    failover = pulsar.ConsumerType.Failover
    consumers = {
        name: client.subscribe(topic, "s", consumer_type=failover, consumer_name=name) for name in ("b", "c", "a")
    }
    send_all(client.create_producer(topic), [b"x", b"y"])
    served = consumers["ab"[part]]
    assert contents(receive(served, 2)) == [b"x", b"y"]
    assert all(nothing_comes(pulsar, each) for each in consumers.values() if each is not served)
