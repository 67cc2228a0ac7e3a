"""What the page of an embedded broker shows, and that each of its faults does what its button says."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.broker.inspection import OFFERED, SLOW_SECONDS
from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.inspector.server import Inspector
from tests.support.life import until

TOPIC = "persistent://public/default/t"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    with pulsar.Client(broker.service_url, operation_timeout_seconds=20) as client:
        yield client


def snapshot(page: Inspector) -> Any:
    with urllib.request.urlopen(f"{page.url}snapshot", timeout=20) as answer:  # noqa: S310 - our own
        return json.load(answer)


def test_connections_topics_and_subscriptions_are_shown_with_their_numbers(
    broker: EmbeddedBroker, client: pulsar.Client
) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    for _ in range(3):
        producer.send(b"x")
    consumer.acknowledge(consumer.receive(10_000))
    with broker.inspect() as page:
        until(lambda: snapshot(page)["shown"][2]["gauges"]["in the backlog"] == 2)
        told = snapshot(page)
    assert told["title"] == "An embedded broker of pulsar_actors"
    facts = {"service": broker.service_url, "connections": "1", "topics": "1", "faults set": "none"}
    assert told["facts"] == facts
    session, topic, subscription = told["shown"]
    assert session["machines"] == [
        {"chart": "broker_session", "state": "ACCEPTED", "pictures": {"broker_session": "ACCEPTED"}}
    ]
    assert session["gauges"] == {"producers": 1, "consumers": 1}
    assert (topic["name"], topic["counters"]["messages in"], topic["gauges"]) == (TOPIC, 3, {"producers": 1})
    assert subscription["name"] == f"{TOPIC}, subscription s"
    assert subscription["counters"] == {"messages out": 3}
    assert subscription["gauges"] == {"in the backlog": 2, "consumers": 1}
    assert [change["text"].split()[1] for change in told["changes"]] != []


def test_a_broker_that_has_stopped_says_so() -> None:
    broker = EmbeddedBroker()
    broker.start()
    with broker.inspect() as page:
        broker.stop()
        with pytest.raises(urllib.error.HTTPError, match="503"):
            snapshot(page)
    with pytest.raises(AlreadyClosed):
        broker.inspect()


def test_every_fault_is_offered_and_one_takes_them_back(broker: EmbeddedBroker) -> None:
    faults = broker.offered_faults()
    assert list(faults) == list(OFFERED)
    faults["lose the next receipt, with its connection"]()
    assert broker.faults.active
    faults["no faults any longer"]()
    assert not broker.faults.active


def test_cut_connections_come_back(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    producer = client.create_producer("t")
    broker.offered_faults()["cut all connections"]()
    until(lambda: producer.stats().reconnects == 1)


def test_a_connection_that_is_hung_up_on_is_tried_again(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    broker.offered_faults()["hang up on the next connection"]()
    client.create_producer("t").send(b"x")
    assert any(change.error == "ConnectError" for change in client.history())


def test_a_lookup_that_is_refused_is_tried_again(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    broker.offered_faults()["refuse the next lookup"]()
    client.create_producer("t").send(b"x")
    assert any((change.chart, change.dest) == ("lookup", "WAITING") for change in client.history())


@pytest.mark.parametrize("lost", ["message", "receipt"])
def test_what_is_lost_is_sent_again(broker: EmbeddedBroker, client: pulsar.Client, lost: str) -> None:
    producer = client.create_producer("t")
    reader = client.create_reader("t", pulsar.MessageId.earliest)
    broker.offered_faults()[f"lose the next {lost}, with its connection"]()
    results: list[pulsar.Result] = []
    for content in (b"1", b"2"):
        producer.send_async(content, lambda result, message_id: results.append(result))
    producer.flush()
    assert results == [pulsar.Result.Ok] * 2
    texts = [reader.read_next(20_000).data()]
    while texts[-1] != b"2":
        texts.append(reader.read_next(20_000).data())
    assert texts[0] == b"1"
    assert producer.stats().reconnects == 1


def test_a_receipt_that_is_delayed_comes_later(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    producer = client.create_producer("t")
    broker.offered_faults()[f"delay the next receipt by {SLOW_SECONDS:g} s"]()
    producer.send_async(b"x", lambda result, message_id: None)
    assert producer.stats().pending == 1
    producer.flush()
    assert producer.stats().sent == 1


def test_a_message_is_delivered_twice(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    broker.offered_faults()["deliver the next message twice"]()
    sent = producer.send(b"x")
    assert [consumer.receive(20_000).message_id() for _ in range(2)] == [sent, sent]


def test_without_answers_to_pings_a_connection_ends(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url, keep_alive_interval_seconds=0.2) as client:
        producer = client.create_producer("t")
        broker.offered_faults()["answer no ping from now on"]()
        until(lambda: producer.stats().reconnects >= 1)


def test_topics_that_are_unloaded_come_back(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    producer = client.create_producer("t")
    producer.send(b"x")
    broker.offered_faults()["unload all topics"]()
    until(lambda: producer.stats().reconnects == 1)
    producer.send(b"y")
