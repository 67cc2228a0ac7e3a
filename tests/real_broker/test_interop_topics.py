"""What one client writes to partitions and to several topics, the other finds there, and in the same partitions."""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tests.real_broker.exchange import (
    SOON,
    Side,
    acknowledged_all,
    contents,
    nothing_comes,
    place,
    read_rest,
    receive,
    send_all,
    until,
)
from tests.support.admin import Admin
from tests.support.subjects import CLIENTS, client_module

NUMBERS = [b"%d" % number for number in range(60)]
KEYS = [f"key-{number}" for number in range(20)]

Connect = Callable[..., Any]

ways = pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="one by one"),
        pytest.param({"batching_enabled": True, "batching_max_messages": 10}, id="batched"),
        pytest.param({"lazy_start_partitioned_producers": True}, id="lazy"),
    ],
)


def fill(client: Any, topics: list[str]) -> list[bytes]:
    """Send three messages to each."""
    payloads = [f"{topic} {number}".encode() for topic in topics for number in range(3)]
    for topic in topics:
        send_all(client.create_producer(topic), [each for each in payloads if each.startswith(topic.encode())])
    return sorted(payloads)


@ways
def test_partitions_that_one_fills_are_emptied_by_the_other(
    giving: Side, taking: Side, partitioned: str, options: dict[str, Any]
) -> None:
    consumer = taking.client.subscribe(partitioned, "s")
    sent = send_all(giving.client.create_producer(partitioned, **options), NUMBERS)
    messages = receive(consumer, len(NUMBERS))
    assert sorted(contents(messages), key=int) == NUMBERS
    assert sorted(place(each.message_id()) for each in messages) == sorted(map(place, sent))
    assert {each.topic_name()[-1] for each in messages} == {"0", "1", "2"}
    acknowledged_all(consumer, messages)
    consumer.close()
    assert nothing_comes(taking.pulsar, taking.client.subscribe(partitioned, "s"))


def test_a_key_has_one_partition_whoever_sends_it(connect: Any, topic: str, admin: Admin) -> None:
    admin.create_partitioned(topic, 10)
    producers = [connect(client_module(each)).create_producer(topic) for each in CLIENTS]
    first, second = ([each.send(b"x", partition_key=key).partition() for key in KEYS] for each in producers)
    assert first == second
    assert len(set(first)) > 3


@pytest.mark.shows("Partitioned topic", "", "key hash")
@pytest.mark.shows("Message metadata", "partition_key")
def test_messages_of_a_key_keep_their_order_in_the_other_client(giving: Side, taking: Side, partitioned: str) -> None:
    consumer = taking.client.subscribe(partitioned, "s")
    producer = giving.client.create_producer(partitioned, batching_enabled=True)
    for number in NUMBERS:
        send_all(producer, [number], partition_key=KEYS[int(number) % 7])
    found: dict[str, list[Any]] = defaultdict(list)
    for message in receive(consumer, len(NUMBERS)):
        found[message.partition_key()].append(message)
    assert len(found) == 7
    for messages in found.values():
        assert len({each.message_id().partition() for each in messages}) == 1
        assert contents(messages) == sorted(contents(messages), key=int)


HASHED = {
    "BoostHash": {"key1": 2071103098},
    "JavaStringHash": {"hello": 99162322, "Aa": 2112, "BB": 2112},
    "Murmur3_32Hash": {"hello": 0x248BFA47, "hello, world": 0x149BBB7F},
}
"""What the official client, Java's language and the authors of the hash say."""


# Only this way round: the official client has one scheme.
@pytest.mark.parametrize("from_to", [("ours", "official")], indirect=True, ids="-to-".join)
@pytest.mark.parametrize("scheme", HASHED)
def test_the_other_client_finds_a_key_in_the_partition_that_its_hash_says(
    giving: Side, taking: Side, topic: str, admin: Admin, scheme: str
) -> None:
    admin.create_partitioned(topic, 10)
    consumer = taking.client.subscribe(topic, "s")
    producer = giving.client.create_producer(topic, hashing_scheme=getattr(giving.pulsar.HashingScheme, scheme))
    for key in HASHED[scheme]:
        producer.send(b"x", partition_key=key)
    messages = receive(consumer, len(HASHED[scheme]))
    found = {each.partition_key(): each.message_id().partition() for each in messages}
    assert found == {key: value % 10 for key, value in HASHED[scheme].items()}


def test_a_subscription_of_partitions_goes_on_in_the_other_client(giving: Side, taking: Side, partitioned: str) -> None:
    consumer = giving.client.subscribe(partitioned, "s")
    send_all(giving.client.create_producer(partitioned), NUMBERS)
    messages = receive(consumer, len(NUMBERS))
    kept = [each.data() for each in messages if each.message_id().partition() == 1]
    acknowledged_all(consumer, [each for each in messages if each.message_id().partition() != 1])
    giving.client.close()
    successor = taking.client.subscribe(partitioned, "s")
    assert contents(receive(successor, len(kept))) == kept
    assert nothing_comes(taking.pulsar, successor)


def test_a_list_of_topics_that_one_fills_is_emptied_by_the_other(giving: Side, taking: Side, three: list[str]) -> None:
    consumer = taking.client.subscribe(three, "s")
    sent = fill(giving.client, three)
    messages = receive(consumer, len(sent))
    assert sorted(contents(messages)) == sent
    assert all(each.data().startswith(each.topic_name().encode()) for each in messages)


def test_topics_of_a_pattern_that_one_fills_are_emptied_by_the_other(
    giving: Side, taking: Side, three: list[str]
) -> None:
    consumer = taking.client.subscribe(re.compile(three[0].rpartition("/")[0] + "/.*-[ac]"), "s")
    sent = fill(giving.client, three)
    wanted = [each for each in sent if b"-b " not in each]
    assert sorted(contents(receive(consumer, len(wanted)))) == wanted
    assert nothing_comes(taking.pulsar, consumer)


def test_a_subscription_of_a_list_goes_on_as_one_of_a_pattern(giving: Side, taking: Side, three: list[str]) -> None:
    consumer = giving.client.subscribe(three, "s")
    sent = fill(giving.client, three)
    messages = receive(consumer, len(sent))
    kept = sorted(each.data() for each in messages if each.topic_name() == three[0])
    acknowledged_all(consumer, [each for each in messages if each.topic_name() != three[0]])
    giving.client.close()
    successor = taking.client.subscribe(re.compile(three[0].rpartition("/")[0] + "/.*"), "s")
    assert sorted(contents(receive(successor, len(kept)))) == kept
    assert nothing_comes(taking.pulsar, successor)


def test_a_reader_reads_all_partitions_that_the_other_has_filled(giving: Side, taking: Side, partitioned: str) -> None:
    send_all(giving.client.create_producer(partitioned, batching_enabled=True), NUMBERS)
    reader = taking.client.create_reader(partitioned, taking.pulsar.MessageId.earliest)
    assert sorted(read_rest(reader), key=int) == NUMBERS


# Only this way round: the official client's reader takes no list.
@pytest.mark.parametrize("from_to", [("official", "ours")], indirect=True, ids="-to-".join)
def test_a_reader_reads_a_list_of_topics_that_the_other_has_filled(
    giving: Side, taking: Side, three: list[str]
) -> None:
    sent = fill(giving.client, three)
    assert sorted(read_rest(taking.client.create_reader(three, taking.pulsar.MessageId.earliest))) == sent


# Only this way round: a consumer of the official client's is always durable.
@pytest.mark.parametrize("from_to", [("official", "ours")], indirect=True, ids="-to-".join)
def test_a_subscription_that_is_not_durable_takes_what_the_other_sends(
    giving: Side, taking: Side, topic: str, admin: Admin
) -> None:
    consumer = taking.client.subscribe(topic, "s", subscription_mode=taking.pulsar.SubscriptionMode.NonDurable)
    send_all(giving.client.create_producer(topic), NUMBERS)
    assert contents(receive(consumer, len(NUMBERS))) == NUMBERS
    consumer.close()
    until(lambda: not admin.stats(topic)["subscriptions"])


def test_dead_letters_of_a_partition_are_where_the_other_looks_for_them(
    giving: Side, taking: Side, partitioned: str, admin: Admin
) -> None:
    """The partition is in the name of their topic."""
    graveyards = [f"{partitioned}-partition-{number}-s-DLQ" for number in range(3)]
    letters = taking.client.subscribe(graveyards, "s")
    consumer = giving.client.subscribe(
        partitioned,
        "s",
        consumer_type=giving.pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=giving.pulsar.ConsumerDeadLetterPolicy(1),
    )
    sent = giving.client.create_producer(partitioned).send(b"x", partition_key="k")
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(SOON))
    letter = letters.receive(SOON)
    part = f"{partitioned}-partition-{sent.partition()}"
    assert (letter.data(), letter.partition_key(), letter.topic_name()) == (b"x", "k", f"{part}-s-DLQ")
    assert letter.properties()["REAL_TOPIC"] == part
    # The official client may crash when it is closed on its way to a dead letter.
    until(lambda: admin.stats(part)["subscriptions"]["s"]["msgBacklog"] == 0)
