"""One consumer of many topics: of a list, and of all whose names fit."""

import re
from typing import Any

import pytest

import pulsar_actors
from tests.real_broker.exchange import contents, nothing_comes, receive, send_all, until
from tests.support.admin import Admin


def send_one_to_each(client: Any, topics: list[str]) -> list[bytes]:
    payloads = [each.encode() for each in topics]
    for topic, payload in zip(topics, payloads, strict=True):
        client.create_producer(topic).send(payload)
    return sorted(payloads)


def test_topics_in_parts_may_be_in_the_list(client: Any, three: list[str], partitioned: str) -> None:
    consumer = client.subscribe([*three, partitioned], "s")
    sent = send_one_to_each(client, three)
    parts = send_all(client.create_producer(partitioned), [b"0", b"1", b"2"])
    assert len(parts) == 3
    assert sorted(contents(receive(consumer, 6))) == sorted([*sent, b"0", b"1", b"2"])


def test_an_id_that_names_its_topic_can_be_acknowledged(pulsar: Any, client: Any, three: list[str]) -> None:
    consumer = client.subscribe(three, "s")
    send_one_to_each(client, three)
    for message in receive(consumer, 3):
        consumer.acknowledge(pulsar.MessageId.deserialize(message.message_id().serialize(), message.topic_name()))
    consumer.close()
    assert nothing_comes(pulsar, client.subscribe(three, "s"))


def test_a_list_with_a_name_that_is_none_is_refused(pulsar: Any, client: Any, three: list[str]) -> None:
    with pytest.raises(pulsar.InvalidTopicName):
        client.subscribe([*three, "nonsense://a/b/c"], "s")
    for each in three:
        client.subscribe(each, "s")  # the others were given back


@pytest.mark.parametrize("wrong", [None, 5, b"x"], ids=repr)
def test_what_names_no_topic_is_refused(client: Any, wrong: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        client.subscribe(wrong, "s")


@pytest.mark.shows("Command GetTopicsOfNamespace", "mode")
def test_a_pattern_may_mean_topics_that_are_not_stored(
    pulsar: Any, client: Any, new_topic: Any, namespace: str
) -> None:
    stored = f"{new_topic(namespace)}-x"
    passing = stored.replace("persistent", "non-persistent", 1)
    pattern = re.compile(stored.rpartition("/")[0] + "/.*-x")
    producers = [client.create_producer(each) for each in (stored, passing)]
    consumer = client.subscribe(pattern, "s", regex_subscription_mode=pulsar.RegexSubscriptionMode.NonPersistentOnly)
    for producer in producers:
        producer.send(producer.topic().encode())
    assert contents(receive(consumer, 1)) == [passing.encode()]
    assert nothing_comes(pulsar, consumer)


@pytest.mark.shows("Command GetTopicsOfNamespace", "namespace")
def test_partitions_count_as_one_topic_for_a_pattern(
    pulsar: Any, client: Any, new_topic: Any, namespace: str, admin: Any
) -> None:
    """It is that topic's name which has to match, and then all its partitions are consumed."""
    topic = f"{new_topic(namespace)}-parts"
    admin.create_partitioned(topic, 2)
    fits = client.subscribe(re.compile(topic.rpartition("/")[0] + "/.*-parts"), "s")
    not_at_all = client.subscribe(re.compile(topic.rpartition("/")[0] + "/.*-partition-0"), "t")
    send_all(client.create_producer(topic), [b"0", b"1"])
    assert sorted(contents(receive(fits, 2))) == [b"0", b"1"]
    assert nothing_comes(pulsar, not_at_all)


@pytest.mark.shows("Feature flags", "supports_topic_watchers")
@pytest.mark.shows("Command WatchTopicList")
@pytest.mark.shows("Command WatchTopicUpdate", "new_topics", "deleted_topics")
def test_topics_of_a_pattern_come_and_go(connect: Any, new_topic: Any, namespace: str, admin: Admin) -> None:
    """At once, for the broker says so. The official client looks once a minute."""
    client, topic = connect(pulsar_actors), new_topic(namespace)
    earliest = pulsar_actors.InitialPosition.Earliest
    consumer = client.subscribe(re.compile(f"{topic}-.*"), "s", receiver_queue_size=10, initial_position=earliest)
    for letter in "ab":
        with client.create_producer(f"{topic}-{letter}") as producer:
            producer.send(letter.encode())
        assert contents(receive(consumer, 1)) == [letter.encode()]
    admin.delete(f"{topic}-a")
    until(lambda: consumer.is_connected() and consumer.stats().permits == 9)  # of the other topic
    with client.create_producer(f"{topic}-a") as producer:
        producer.send(b"again")
    assert contents(receive(consumer, 1)) == [b"again"]


def test_topics_of_a_pattern_are_found_without_a_watch(connect: Any, new_topic: Any, namespace: str) -> None:
    """Brokers watch persistent topics only; all others are looked for now and then."""
    client, topic = connect(pulsar_actors), new_topic(namespace).replace("persistent", "non-persistent", 1)
    consumer = client.subscribe(
        re.compile(f"{topic}-.*"),
        "s",
        regex_subscription_mode=pulsar_actors.RegexSubscriptionMode.NonPersistentOnly,
        pattern_auto_discovery_period=1,
    )
    producer = client.create_producer(f"{topic}-x")
    until(lambda: consumer.stats().permits)
    producer.send(b"x")
    assert contents(receive(consumer, 1)) == [b"x"]
