"""Going back and forth in a topic.

Where everything has been acknowledged, the tests wait until the broker has stored that: Apache Pulsar passes over a
seek that comes just as it stores a later position, and says that it is done.
"""

import time
from typing import Any

import pytest

from tests.real_broker.exchange import LETTERS, SOON, acknowledged_all, letters_sent, receive, rest, send_all, until
from tests.support.admin import Admin


@pytest.mark.parametrize("start", ["earliest", "time 0"])
@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_seek_to_the_earliest_begins_anew(  # noqa: PLR0913
    pulsar: Any, client: Any, topic: str, admin: Admin, kind: str, start: str
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=getattr(pulsar.ConsumerType, kind))
    send_all(client.create_producer(topic), LETTERS)
    acknowledged_all(consumer, receive(consumer, 5))
    until(lambda: admin.keeps_acknowledgements(topic, "s"))
    consumer.seek(pulsar.MessageId.earliest if start == "earliest" else 0)
    assert rest(pulsar, consumer) == LETTERS


def test_seek_to_the_latest_skips_what_is_there(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send_all(producer, LETTERS)
    consumer.receive(SOON)
    consumer.seek(pulsar.MessageId.latest)
    producer.send(b"new")
    assert rest(pulsar, consumer) == [b"new"]


@pytest.mark.parametrize("batched", [False, True], ids=["one by one", "batched"])
def test_seek_to_a_message_may_take_it_in(pulsar: Any, client: Any, topic: str, *, batched: bool) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    ids = letters_sent(pulsar, client, topic, batched=batched)
    receive(consumer, 5)
    consumer.seek(ids[1])
    assert rest(pulsar, consumer) == LETTERS[1:]


def test_seek_to_a_time_begins_with_what_was_sent_since(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"a")
    published = consumer.receive(SOON).publish_timestamp()
    until(lambda: time.time() * 1000 > published + 5)
    producer.send(b"b")
    published = consumer.receive(SOON).publish_timestamp()
    consumer.seek(published - 2)
    assert rest(pulsar, consumer) == [b"b"]


def test_seek_to_a_time_to_come_skips_what_is_there(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send_all(producer, LETTERS)
    consumer.seek(int(time.time() * 1000) + 60_000)
    producer.send(b"new")
    assert rest(pulsar, consumer) == [b"new"]


def test_what_was_queued_before_a_seek_is_not_handed_out(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    ids = send_all(client.create_producer(topic), [b"%d" % number for number in range(100)])
    receive(consumer, 2)
    consumer.seek(ids[89])
    assert rest(pulsar, consumer) == [b"%d" % number for number in range(90, 100)]


def test_seeks_may_follow_each_other(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    ids = send_all(client.create_producer(topic), LETTERS)
    for position in (4, 0, 3, 1, 2):
        consumer.seek(ids[position])
    assert rest(pulsar, consumer) == [b"d", b"e"]


def test_a_seek_moves_the_subscription_for_good(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    consumer = client.subscribe(topic, "s")
    ids = send_all(client.create_producer(topic), LETTERS)
    acknowledged_all(consumer, receive(consumer, 5))
    until(lambda: admin.keeps_acknowledgements(topic, "s"))
    consumer.seek(ids[2])
    consumer.close()
    assert rest(pulsar, client.subscribe(topic, "s")) == [b"c", b"d", b"e"]  # only who sought leaves out the message


def test_a_listener_goes_on_where_the_seek_led(pulsar: Any, client: Any, topic: str) -> None:
    heard: list[bytes] = []

    def listener(consumer: Any, message: Any) -> None:
        heard.append(message.data())

    consumer = client.subscribe(topic, "s", message_listener=listener)
    send_all(client.create_producer(topic), LETTERS)
    until(lambda: len(heard) == 5)
    consumer.seek(pulsar.MessageId.earliest)
    until(lambda: len(heard) == 10)
    assert heard[5:] == LETTERS


def test_a_chunked_message_can_be_sought(pulsar: Any, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    producer = client.create_producer(topic, chunking_enabled=True)
    producer.send(b"before")
    big = producer.send(b"x" * 12_000_000)
    producer.send(b"after")
    receive(consumer, 3)
    consumer.seek(big)
    assert [len(each) for each in rest(pulsar, consumer)] == [12_000_000, 5]


@pytest.mark.parametrize("wrong", [None, "x", 1.5, -1], ids=repr)
def test_what_is_neither_id_nor_time_is_refused(pulsar: Any, client: Any, topic: str, wrong: object) -> None:
    consumer = client.subscribe(topic, "s")
    with pytest.raises((TypeError, ValueError)):
        consumer.seek(wrong)
    client.create_producer(topic).send(b"x")
    assert rest(pulsar, consumer) == [b"x"]
