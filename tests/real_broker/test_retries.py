"""Messages that are put off by our client, and by the official Java client on the same subscription.

The official Python client puts nothing off; it reads what was, and what was put off too often.
"""

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.real_broker.exchange import QUIET, SOON, contents, nothing_comes, receive, send_all, send_batch, until
from tests.support.admin import Admin
from tests.support.jars import jars, tool
from tests.support.subjects import Broker, client_module

pulsar_actors = client_module("ours")
RETRIES: dict[str, Any] = {"consumer_type": pulsar_actors.ConsumerType.Shared, "enable_retry": True}
JAVA_SECONDS = 60.0
EVERYTHING = {
    *("REAL_TOPIC", "REAL_SUBSCRIPTION", "ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_IDY_TIME"),
    *("RECONSUMETIMES", "DELAY_TIME"),
}
"""The properties that a message is given that is put off."""


@pytest.fixture
def ours(connect: Any) -> Any:
    return connect(pulsar_actors)


def backlog(admin: Admin, topic: str) -> Any:
    return admin.stats(topic)["subscriptions"]["s"]["msgBacklog"]


def test_a_message_comes_again_after_its_delay_and_the_original_is_acknowledged(
    ours: Any, topic: str, admin: Admin
) -> None:
    consumer = ours.subscribe(topic, "s", **RETRIES)
    sent = ours.create_producer(topic).send(b"x", {"a": "b"}, "key", "order", event_timestamp=5)
    began = time.monotonic()
    consumer.reconsume_later(consumer.receive(SOON), 1500, {"c": "d"})
    again = consumer.receive(SOON)
    assert time.monotonic() - began > 1  # brokers round to seconds
    assert (again.data(), again.topic_name()) == (b"x", f"{topic}-s-RETRY")
    assert (again.partition_key(), again.ordering_key(), again.event_timestamp()) == ("key", "order", 5)
    assert again.properties().keys() == {"a", "c", *EVERYTHING}
    assert again.properties()["ORIGIN_MESSAGE_ID"] == str(sent)
    consumer.acknowledge(again)
    until(lambda: backlog(admin, topic) == backlog(admin, f"{topic}-s-RETRY") == 0)


def test_a_batch_a_null_and_a_large_message_are_put_off(ours: Any, topic: str, admin: Admin) -> None:
    consumer = ours.subscribe(topic, "s", **RETRIES)
    send_batch(pulsar_actors, ours, topic, [b"a", b"b", b"c"])
    large = b"x" * 6_000_000
    send_all(ours.create_producer(topic, chunking_enabled=True), [None, large])
    consumer.reconsume_later(receive(consumer, 5), 0)
    again = receive(consumer, 5)
    assert contents(again) == [b"a", b"b", b"c", b"", large]
    assert [message.has_null_value() for message in again] == [False, False, False, True, False]
    consumer.acknowledge(again)
    until(lambda: backlog(admin, topic) == backlog(admin, f"{topic}-s-RETRY") == 0)


def test_what_was_put_off_too_often_is_a_dead_letter_and_keeps_its_origin(
    client: Any, ours: Any, topic: str, admin: Admin
) -> None:
    policy = pulsar_actors.ConsumerDeadLetterPolicy(1, initial_subscription_name="kept")
    consumer = ours.subscribe(topic, "s", dead_letter_policy=policy, **RETRIES)
    sent = client.create_producer(topic).send(b"x", properties={"a": "b"})
    for _ in range(2):
        consumer.reconsume_later(consumer.receive(SOON), 0)
    letter = client.subscribe(f"{topic}-s-DLQ", "kept").receive(SOON)
    assert letter.data() == b"x"
    assert letter.properties().keys() == {"a", *EVERYTHING}
    assert letter.properties()["RECONSUMETIMES"] == "2"
    assert letter.properties()["ORIGIN_MESSAGE_ID"] == str(sent)
    assert letter.properties()["REAL_TOPIC"] == topic
    until(lambda: backlog(admin, f"{topic}-s-RETRY") == 0)
    assert nothing_comes(pulsar_actors, consumer)


def test_a_partitioned_topic_and_retry_topic(ours: Any, topic: str, partitioned: str, admin: Admin) -> None:
    admin.create_partitioned(f"{topic}-s-RETRY", 2)
    consumer = ours.subscribe(partitioned, "s", **RETRIES)
    payloads = [b"%d" % number for number in range(6)]
    producer = ours.create_producer(partitioned)
    for payload in payloads:
        producer.send(payload)
    consumer.reconsume_later(receive(consumer, 6), 0)
    again = receive(consumer, 6)
    assert sorted(contents(again)) == payloads
    assert {message.topic_name() for message in again} == {f"{topic}-s-RETRY-partition-{index}" for index in range(2)}


def test_what_was_put_off_waits_for_the_next_consumer(ours: Any, topic: str) -> None:
    consumer = ours.subscribe(topic, "s", **RETRIES)
    ours.create_producer(topic).send(b"x")
    put_off = consumer.reconsume_later_async(consumer.receive(SOON), QUIET)
    consumer.close()
    assert put_off.done()
    again = ours.subscribe(topic, "s", **RETRIES).receive(SOON)
    assert (again.data(), again.properties()["DELAY_TIME"]) == (b"x", str(QUIET))


def java_puts_off(broker: Broker, topic: str, count: int) -> dict[str, dict[str, str]]:
    """Have the Java client put messages off, and give the properties that each had."""
    program = str(Path(__file__).with_name("JavaRetries.java"))
    command = [tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", program]
    done = subprocess.run(  # noqa: S603 -- our own words
        [*command, broker.service_url, topic, str(count)],
        capture_output=True,
        text=True,
        timeout=JAVA_SECONDS,
        check=True,
    )
    lines = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("got\t")]
    return {payload: dict(pair.split("=", 1) for pair in pairs) for _, payload, *pairs in lines}


# It takes some seconds of a processor, for nobody else has retries: this is the only other word on what they are.
@pytest.mark.real_broker
def test_ours_and_the_java_client_put_off_the_same_message_in_turn(
    connect_to: Any, real_broker: Broker, topic: str
) -> None:
    client = connect_to(pulsar_actors, real_broker.service_url)
    consumer = client.subscribe(topic, "s", **RETRIES)
    producer = client.create_producer(topic)
    first = producer.send(b"ours", {"a": "b"})
    consumer.reconsume_later(consumer.receive(SOON), 1)
    consumer.close()
    second = producer.send(b"java's", {"a": "b"}, "key", "order", event_timestamp=5)

    given = java_puts_off(real_broker, topic, 2)
    assert given["ours"]["RECONSUMETIMES"] == "1"
    assert given["java's"] == {"a": "b"}

    policy = pulsar_actors.ConsumerDeadLetterPolicy(2)
    consumer = client.subscribe(topic, "s", dead_letter_policy=policy, **RETRIES)
    again: dict[bytes, Any] = {}
    while again.keys() < {b"ours", b"java's"}:
        message = consumer.receive(SOON)
        if message.properties() not in given.values():  # or the Java client has not got to acknowledging it
            again[message.data()] = message
    ours, javas = again[b"ours"].properties(), again[b"java's"].properties()
    assert ours == {**given["ours"], "RECONSUMETIMES": "2"}  # and the first origin, in whatever words
    assert ours["ORIGIN_MESSAGE_ID"] == str(first)
    assert ours.keys() == javas.keys() == {"a", *EVERYTHING}
    assert javas == {
        "a": "b",
        "REAL_TOPIC": ours["REAL_TOPIC"],
        "REAL_SUBSCRIPTION": "s",
        "RECONSUMETIMES": "1",
        "DELAY_TIME": "1",
        "ORIGIN_MESSAGE_ID": f"{second.ledger_id()}:{second.entry_id()}:-1",
        "ORIGIN_MESSAGE_IDY_TIME": f"{second.ledger_id()}:{second.entry_id()}:-1",
    }
    message = again[b"java's"]
    assert (message.partition_key(), message.ordering_key(), message.event_timestamp()) == ("key", "order", 5)
    dead = client.subscribe(f"{topic}-s-DLQ", "d")
    consumer.reconsume_later(again[b"ours"], 1)
    assert dead.receive(SOON).properties()["RECONSUMETIMES"] == "3"
