"""The totals of a client, which exporters read, and its metrics for Prometheus."""

import os
import threading
from collections.abc import Iterator

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.client.client import context_of
from pulsar_actors.client.totals import ConsumerKey, ConsumerTotals, ProducerTotals, Totals
from pulsar_actors.prometheus import PulsarCollector
from tests.support.life import until

TOPIC = "persistent://public/default/t"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    with pulsar.Client(broker.service_url) as client:
        yield client


@pytest.fixture
def totals(client: pulsar.Client) -> Totals:
    return context_of(client).only(Totals)


def test_nothing_has_happened_yet(totals: Totals) -> None:
    assert (totals.snapshot().producers, totals.snapshot().consumers) == ({}, {})


def test_producers_of_a_topic_are_added_up_also_those_that_have_ended(client: pulsar.Client, totals: Totals) -> None:
    for size in (3, 5):
        producer = client.create_producer("t")
        producer.send(bytes(size))
        producer.close()
    open_ = client.create_producer("t")
    open_.send(b"x")
    assert totals.snapshot().producers[TOPIC] == ProducerTotals(opened=3, closed=2, sent=3, sent_bytes=9, open=1)
    del open_, producer
    until(lambda: totals.snapshot().producers[TOPIC] == ProducerTotals(opened=3, closed=3, sent=3, sent_bytes=9))


def test_what_was_open_before_is_counted_from_its_beginning(client: pulsar.Client) -> None:
    producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
    producer.send(b"abc")
    consumer.receive(10_000)
    snapshot = context_of(client).only(Totals).snapshot()
    assert snapshot.producers[TOPIC].sent == 1
    assert snapshot.consumers[ConsumerKey(TOPIC, "s")].received == 1


def test_consumers_are_told_apart_by_their_subscriptions_and_readers_have_none(
    client: pulsar.Client, totals: Totals
) -> None:
    producer = client.create_producer("t")
    one, two = client.subscribe("t", "one"), client.subscribe("t", "two")
    readers = [client.create_reader("t", pulsar.MessageId.earliest) for _ in range(2)]
    for _ in range(3):
        producer.send(b"ab")
    for reader in readers:
        reader.read_next(10_000)
    one.acknowledge(one.receive(10_000))
    one.negative_acknowledge(one.receive(10_000))
    until(lambda: totals.snapshot().consumers[ConsumerKey(TOPIC, "one")].acknowledged == 1)
    until(lambda: totals.snapshot().consumers[ConsumerKey(TOPIC, "two")].queued == 3)
    consumers = totals.snapshot().consumers
    assert set(consumers) == {ConsumerKey(TOPIC, name) for name in ("one", "two", "")}
    assert consumers[ConsumerKey(TOPIC, "one")] == ConsumerTotals(
        opened=1,
        received=2,
        received_bytes=4,
        acknowledged=1,
        negatively_acknowledged=1,
        open=1,
        queued=1,
        queued_bytes=2,
    )
    assert consumers[ConsumerKey(TOPIC, "")]._replace(
        received=0, received_bytes=0, queued=0, queued_bytes=0
    ) == ConsumerTotals(opened=2, open=2, acknowledged=consumers[ConsumerKey(TOPIC, "")].acknowledged)
    two.close()
    assert totals.snapshot().consumers[ConsumerKey(TOPIC, "two")] == ConsumerTotals(opened=1, closed=1)


def test_what_was_delivered_and_not_handed_out_is_not_received_also_when_it_comes_again(
    client: pulsar.Client, totals: Totals
) -> None:
    producer = client.create_producer("t", batching_enabled=True, batching_max_publish_delay_ms=60_000)
    consumer = client.subscribe("t", "s")
    for _ in range(300):
        producer.send_async(b"abcd", None)
    producer.flush()
    got = [consumer.receive(10_000) for _ in range(5)]

    def counts() -> tuple[int, int]:
        found = totals.snapshot().consumers[ConsumerKey(TOPIC, "s")]
        assert (consumer.stats().received, consumer.stats().received_bytes) == (found.received, found.received_bytes)
        return found.received, found.received_bytes

    assert counts() == (5, 20)
    consumer.redeliver_unacknowledged_messages()
    until(lambda: consumer.stats().queued == 300)
    assert counts() == (5, 20)
    assert consumer.receive(10_000).message_id() == got[0].message_id()  # none was acknowledged
    assert counts() == (6, 24)


def test_a_topic_with_partitions_is_one_topic(broker: EmbeddedBroker, client: pulsar.Client, totals: Totals) -> None:
    broker.create_topic("t", partitions=3)
    producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
    for _ in range(9):
        producer.send(b"x")
    for _ in range(9):
        consumer.receive(10_000)
    snapshot = totals.snapshot()
    assert snapshot.producers == {TOPIC: ProducerTotals(opened=3, sent=9, sent_bytes=9, open=3)}
    assert snapshot.consumers[ConsumerKey(TOPIC, "s")].received == 9


def test_reconnects_and_failures_are_counted(broker: EmbeddedBroker, client: pulsar.Client, totals: Totals) -> None:
    broker.faults.on("send").close_connection()
    client.create_producer("t").send(b"x")
    hurried = client.create_producer("t", send_timeout_millis=500)
    broker.faults.on("send", times=None).drop()
    with pytest.raises(pulsar.Timeout):
        hurried.send(b"y")
    counted = totals.snapshot().producers[TOPIC]
    assert (counted.sent, counted.failed, counted.reconnects) == (1, 1, 1)


def test_counts_never_fall_while_handles_come_and_go(client: pulsar.Client, totals: Totals) -> None:
    ended = threading.Event()

    def work() -> None:
        for _ in range(40):
            with client.create_producer("t") as producer:
                for _ in range(5):
                    producer.send_async(b"x", None)
                producer.flush()
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    seen = [0]
    while not ended.is_set():
        seen.append(totals.snapshot().producers.get(TOPIC, ProducerTotals()).sent)
    thread.join()
    assert seen == sorted(seen)
    assert totals.snapshot().producers[TOPIC].sent == 200


def test_a_handle_that_has_ended_is_not_kept(client: pulsar.Client, totals: Totals) -> None:
    for _ in range(20):
        client.create_producer("t").close()
    assert totals.snapshot().producers[TOPIC].opened == 20
    assert len(totals._open) == 0


def test_a_forked_child_can_ask_although_another_thread_was_asking(totals: Totals) -> None:
    with totals._lock:
        child = os.fork()
        if child == 0:
            totals.snapshot()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


# Prometheus.


def scraped(collector: PulsarCollector) -> dict[tuple[str, ...], float]:
    registry = prometheus_client.CollectorRegistry()
    registry.register(collector)
    text = prometheus_client.generate_latest(registry).decode()
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_every_count_by_topic_and_subscription(client: pulsar.Client) -> None:
    collector = PulsarCollector(client)
    producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
    producer.send(b"abc")
    consumer.acknowledge(consumer.receive(10_000))
    found = scraped(collector)
    topic, subscription = f"topic={TOPIC}", "subscription=s"
    assert found["pulsar_client_connections",] == 1
    assert found["pulsar_client_producer_sent_total", topic] == 1
    assert found["pulsar_client_producer_sent_bytes_total", topic] == 3
    assert found["pulsar_client_producer_open", topic] == 1
    assert found["pulsar_client_consumer_received_total", subscription, topic] == 1
    names = {name for name, *_ in found}
    of_producers = {f"pulsar_client_producer_{field}" for field in ProducerTotals._fields}
    of_consumers = {f"pulsar_client_consumer_{field}" for field in ConsumerTotals._fields}
    assert {name.removesuffix("_total") for name in names} == {
        *of_producers, *of_consumers, "pulsar_client_connections", "pulsar_client_pending_lookups",
    }  # fmt: skip


def test_topics_can_be_added_up_and_labels_added(client: pulsar.Client) -> None:
    collector = PulsarCollector(client, per_topic=False, labels={"app": "shop"})
    for name in ("a", "b"):
        client.create_producer(name).send(b"x")
    found = scraped(collector)
    assert found["pulsar_client_producer_sent_total", "app=shop"] == 2
    assert {tuple(labels) for _, *labels in found} == {("app=shop",)}


def test_two_clients_can_be_in_one_registry(broker: EmbeddedBroker) -> None:
    registry = prometheus_client.CollectorRegistry()
    with pulsar.Client(broker.service_url) as one, pulsar.Client(broker.service_url) as two:
        for name, client in (("one", one), ("two", two)):
            registry.register(PulsarCollector(client, labels={"client": name}))
            client.create_producer(name).send(b"x")
        text = prometheus_client.generate_latest(registry).decode()
    assert 'pulsar_client_producer_sent_total{client="one",topic="persistent://public/default/one"} 1.0' in text
    assert 'pulsar_client_producer_sent_total{client="two",topic="persistent://public/default/two"} 1.0' in text


def test_a_client_that_is_closed_can_still_be_read(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        collector = PulsarCollector(client)
        client.create_producer("t").send(b"x")
    assert scraped(collector)["pulsar_client_producer_sent_total", f"topic={TOPIC}"] == 1
