"""Who gets which message: the four types of subscription, and what outlives a consumer."""

import itertools
from typing import Any

import pytest

from tests.real_broker.exchange import (
    QUIET,
    SOON,
    acknowledged_all,
    contents,
    nothing_comes,
    receive,
    rest,
    send_all,
    until,
)
from tests.support.admin import Admin

NUMBERS = [b"%d" % number for number in range(60)]
HASH_OF_KEY_1 = 5536  # as brokers have it: 16 bits of its hash


@pytest.mark.shows("Exclusive")
@pytest.mark.shows("Exclusive", "a second consumer is refused")
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


@pytest.mark.shows("Shared")
@pytest.mark.shows("Shared", "round robin")
def test_consumers_of_a_shared_subscription_divide_the_messages(pulsar: Any, client: Any, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared) for _ in range(3)]
    producer = client.create_producer(topic)
    for each in NUMBERS:  # one by one, and each consumer has room for all: none is passed over for want of it
        producer.send(each)
    shares: list[list[bytes]] = [[], [], []]
    while sum(map(len, shares)) < len(NUMBERS):
        for share, consumer in zip(shares, consumers, strict=True):
            share.extend(rest_of_queue(pulsar, consumer))
    assert all(shares)
    assert sorted(itertools.chain(*shares), key=int) == NUMBERS


def keys(pulsar: Any, consumer: Any) -> list[str]:
    found = []
    try:
        while True:
            found.append(consumer.receive(QUIET).partition_key())
    except pulsar.Timeout:
        return found


def rest_of_queue(pulsar: Any, consumer: Any) -> list[bytes]:
    found = []
    try:
        while True:
            message = consumer.receive(20)
            consumer.acknowledge(message)
            found.append(message.data())
    except pulsar.Timeout:
        return found


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


@pytest.mark.shows("Failover")
@pytest.mark.shows("Failover", "the next in line")
def test_a_failover_subscription_serves_one_consumer_until_it_leaves(pulsar: Any, client: Any, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Failover) for _ in range(2)]
    producer = client.create_producer(topic)

    def receiver_of(payload: bytes) -> Any:
        producer.send(payload)
        return until(lambda: next((each for each in consumers if rest_of_queue(pulsar, each) == [payload]), None))

    active = receiver_of(b"x")  # which of the two it is, a hash of the topic's name decides
    assert receiver_of(b"y") is active
    active.close()
    consumers.remove(active)
    assert receiver_of(b"z") is consumers[0]


@pytest.mark.shows("Failover", "what was not acknowledged goes along")
def test_the_next_in_line_gets_what_the_one_before_had_not_acknowledged(pulsar: Any, client: Any, topic: str) -> None:
    failover = pulsar.ConsumerType.Failover
    first = client.subscribe(topic, "s", consumer_type=failover)
    producer = client.create_producer(topic)
    send_all(producer, [b"a", b"b", b"c"])
    done, *_ = receive(first, 2)
    acknowledged_all(first, [done])
    second = client.subscribe(topic, "s", consumer_type=failover)
    first.close()
    producer.send(b"d")
    assert rest(pulsar, second) == [b"b", b"c", b"d"]


@pytest.mark.parametrize("field", ["partition_key", "ordering_key"])
def test_a_key_stays_with_one_consumer(pulsar: Any, client: Any, topic: str, field: str) -> None:
    """The names of the consumers decide which keys each of them gets."""
    key_shared = pulsar.ConsumerType.KeyShared
    consumers = [client.subscribe(topic, "s", consumer_type=key_shared, consumer_name=name) for name in "ab"]
    producer = client.create_producer(topic)
    for number in NUMBERS:
        producer.send(number, **{field: f"key-{int(number) % 7}"})
    shares = [[int(each) for each in rest(pulsar, consumer)] for consumer in consumers]
    assert sorted(shares[0] + shares[1]) == list(range(60))
    ours, theirs = ({each % 7 for each in share} for share in shares)
    assert ours
    assert theirs
    assert not ours & theirs
    for key in range(7):
        for share in shares:
            of_key = [each for each in share if each % 7 == key]
            assert of_key == sorted(of_key)


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
    assert keys(pulsar, only) == ["key-1"]
    assert keys(pulsar, others) == ["key-0", *(f"key-{number}" for number in range(2, 8))]


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
@pytest.mark.shows("Subscription")
@pytest.mark.shows("Subscription", "durable", "backlog while nobody is attached")
def test_a_subscription_keeps_what_comes_while_nobody_consumes(client: Any, topic: str) -> None:
    client.subscribe(topic, "s").close()
    send_all(client.create_producer(topic), [b"a", b"b"])
    assert contents(receive(client.subscribe(topic, "s"), 2)) == [b"a", b"b"]


@pytest.mark.shows("Subscription", "unsubscribe")
def test_unsubscribe_ends_the_subscription_and_its_consumer(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"x")
    consumer.unsubscribe()
    assert "s" not in admin.stats(topic)["subscriptions"]
    with pytest.raises(pulsar.AlreadyClosed):
        consumer.receive(100)


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
