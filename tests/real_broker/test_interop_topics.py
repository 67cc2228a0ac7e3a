"""What one client writes to partitions and to several topics, the other finds there, and in the same partitions."""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tests.real_broker.exchange import (
    SOON,
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


@pytest.fixture
def three(new_topic: Callable[..., str], namespace: str, admin: Admin) -> list[str]:
    """Topics in a namespace of their own."""
    name = new_topic(namespace)
    topics = [f"{name}-{letter}" for letter in "abc"]  # in the order of the alphabet
    for each in topics:
        admin.create(each)
    return topics


def fill(client: Any, topics: list[str]) -> list[bytes]:
    """Send three messages to each."""
    payloads = [f"{topic} {number}".encode() for topic in topics for number in range(3)]
    for topic in topics:
        send_all(client.create_producer(topic), [each for each in payloads if each.startswith(topic.encode())])
    return sorted(payloads)


@ways
def test_partitions_that_one_fills_are_emptied_by_the_other(
    from_to: tuple[Any, Any], connect: Connect, partitioned: str, options: dict[str, Any]
) -> None:
    giving, taking = from_to
    client = connect(taking)
    consumer = client.subscribe(partitioned, "s")
    sent = send_all(connect(giving).create_producer(partitioned, **options), NUMBERS)
    messages = receive(consumer, len(NUMBERS))
    assert sorted(contents(messages), key=int) == NUMBERS
    assert sorted(place(each.message_id()) for each in messages) == sorted(map(place, sent))
    assert {each.topic_name()[-1] for each in messages} == {"0", "1", "2"}
    acknowledged_all(consumer, messages)
    consumer.close()
    assert nothing_comes(taking, client.subscribe(partitioned, "s"))


def test_a_key_has_one_partition_whoever_sends_it(connect: Connect, topic: str, admin: Admin) -> None:
    admin.create_partitioned(topic, 10)
    producers = [connect(client_module(each)).create_producer(topic) for each in CLIENTS]
    first, second = ([each.send(b"x", partition_key=key).partition() for key in KEYS] for each in producers)
    assert first == second
    assert len(set(first)) > 3


def test_messages_of_a_key_keep_their_order_in_the_other_client(
    from_to: tuple[Any, Any], connect: Connect, partitioned: str
) -> None:
    giving, taking = from_to
    consumer = connect(taking).subscribe(partitioned, "s")
    producer = connect(giving).create_producer(partitioned, batching_enabled=True)
    for number in NUMBERS:
        send_all(producer, [number], partition_key=KEYS[int(number) % 7])
    found: dict[str, list[int]] = defaultdict(list)
    for message in receive(consumer, len(NUMBERS)):
        found[message.partition_key()].append(int(message.data()))
    assert len(found) == 7
    assert all(numbers == sorted(numbers) for numbers in found.values())


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
    from_to: tuple[Any, Any], connect: Connect, topic: str, admin: Admin, scheme: str
) -> None:
    giving, taking = from_to
    admin.create_partitioned(topic, 10)
    consumer = connect(taking).subscribe(topic, "s")
    producer = connect(giving).create_producer(topic, hashing_scheme=getattr(giving.HashingScheme, scheme))
    for key in HASHED[scheme]:
        producer.send(b"x", partition_key=key)
    messages = receive(consumer, len(HASHED[scheme]))
    found = {each.partition_key(): each.message_id().partition() for each in messages}
    assert found == {key: value % 10 for key, value in HASHED[scheme].items()}


def test_a_subscription_of_partitions_goes_on_in_the_other_client(
    from_to: tuple[Any, Any], connect: Connect, partitioned: str
) -> None:
    giving, taking = from_to
    first = connect(giving)
    consumer = first.subscribe(partitioned, "s")
    send_all(first.create_producer(partitioned), NUMBERS)
    messages = receive(consumer, len(NUMBERS))
    kept = [each.data() for each in messages if each.message_id().partition() == 1]
    acknowledged_all(consumer, [each for each in messages if each.message_id().partition() != 1])
    first.close()
    successor = connect(taking).subscribe(partitioned, "s")
    assert contents(receive(successor, len(kept))) == kept
    assert nothing_comes(taking, successor)


def test_both_share_the_partitions(connect: Connect, partitioned: str) -> None:
    modules = [client_module(each) for each in CLIENTS]
    consumers = [
        connect(each).subscribe(partitioned, "s", consumer_type=each.ConsumerType.Shared, receiver_queue_size=3)
        for each in modules
    ]
    send_all(connect(modules[0]).create_producer(partitioned), NUMBERS)
    found: list[list[int]] = [[], []]
    while sum(map(len, found)) < len(NUMBERS):
        for module, consumer, share in zip(modules, consumers, found, strict=True):
            try:
                message = consumer.receive(50)
            except module.Timeout:
                continue
            consumer.acknowledge(message)
            share.append(int(message.data()))
    assert all(found)
    assert sorted(number for share in found for number in share) == list(range(len(NUMBERS)))


def test_a_list_of_topics_that_one_fills_is_emptied_by_the_other(
    from_to: tuple[Any, Any], connect: Connect, three: list[str]
) -> None:
    giving, taking = from_to
    consumer = connect(taking).subscribe(three, "s")
    sent = fill(connect(giving), three)
    messages = receive(consumer, len(sent))
    assert sorted(contents(messages)) == sent
    assert all(each.data().startswith(each.topic_name().encode()) for each in messages)


def test_topics_of_a_pattern_that_one_fills_are_emptied_by_the_other(
    from_to: tuple[Any, Any], connect: Connect, three: list[str]
) -> None:
    giving, taking = from_to
    consumer = connect(taking).subscribe(re.compile(three[0].rpartition("/")[0] + "/.*-[ac]"), "s")
    sent = fill(connect(giving), three)
    wanted = [each for each in sent if b"-b " not in each]
    assert sorted(contents(receive(consumer, len(wanted)))) == wanted
    assert nothing_comes(taking, consumer)


def test_a_subscription_of_a_list_goes_on_as_one_of_a_pattern(
    from_to: tuple[Any, Any], connect: Connect, three: list[str]
) -> None:
    giving, taking = from_to
    first = connect(giving)
    consumer = first.subscribe(three, "s")
    sent = fill(first, three)
    messages = receive(consumer, len(sent))
    kept = sorted(each.data() for each in messages if each.topic_name() == three[0])
    acknowledged_all(consumer, [each for each in messages if each.topic_name() != three[0]])
    first.close()
    successor = connect(taking).subscribe(re.compile(three[0].rpartition("/")[0] + "/.*"), "s")
    assert sorted(contents(receive(successor, len(kept)))) == kept
    assert nothing_comes(taking, successor)


def test_a_reader_reads_all_partitions_that_the_other_has_filled(
    from_to: tuple[Any, Any], connect: Connect, partitioned: str
) -> None:
    giving, taking = from_to
    send_all(connect(giving).create_producer(partitioned, batching_enabled=True), NUMBERS)
    reader = connect(taking).create_reader(partitioned, taking.MessageId.earliest)
    assert sorted(read_rest(reader), key=int) == NUMBERS


# Only this way round: the official client's reader takes no list.
@pytest.mark.parametrize("from_to", [("official", "ours")], indirect=True, ids="-to-".join)
def test_a_reader_reads_a_list_of_topics_that_the_other_has_filled(
    from_to: tuple[Any, Any], connect: Connect, three: list[str]
) -> None:
    giving, taking = from_to
    sent = fill(connect(giving), three)
    assert sorted(read_rest(connect(taking).create_reader(three, taking.MessageId.earliest))) == sent


# Only this way round: a consumer of the official client's is always durable.
@pytest.mark.parametrize("from_to", [("official", "ours")], indirect=True, ids="-to-".join)
def test_a_subscription_that_is_not_durable_takes_what_the_other_sends(
    from_to: tuple[Any, Any], connect: Connect, topic: str, admin: Admin
) -> None:
    giving, taking = from_to
    consumer = connect(taking).subscribe(topic, "s", subscription_mode=taking.SubscriptionMode.NonDurable)
    send_all(connect(giving).create_producer(topic), NUMBERS)
    assert contents(receive(consumer, len(NUMBERS))) == NUMBERS
    consumer.close()
    until(lambda: not admin.stats(topic)["subscriptions"])


def test_dead_letters_of_a_partition_are_where_the_other_looks_for_them(
    from_to: tuple[Any, Any], connect: Connect, partitioned: str, admin: Admin
) -> None:
    """The partition is in the name of their topic."""
    giving, taking = from_to
    graveyards = [f"{partitioned}-partition-{number}-s-DLQ" for number in range(3)]
    letters = connect(taking).subscribe(graveyards, "s")
    consumer = connect(giving).subscribe(
        partitioned,
        "s",
        consumer_type=giving.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=giving.ConsumerDeadLetterPolicy(1),
    )
    sent = connect(giving).create_producer(partitioned).send(b"x", partition_key="k")
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(SOON))
    letter = letters.receive(SOON)
    part = f"{partitioned}-partition-{sent.partition()}"
    assert (letter.data(), letter.partition_key(), letter.topic_name()) == (b"x", "k", f"{part}-s-DLQ")
    assert letter.properties()["REAL_TOPIC"] == part
    # The official client may crash when it is closed on its way to a dead letter.
    until(lambda: admin.stats(part)["subscriptions"]["s"]["msgBacklog"] == 0)
