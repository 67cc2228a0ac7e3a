"""The actors of topic sets and of watches die of a bug: what they owed ends with an error that names it."""

import re

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.runtime.multi_topics_actor import MultiTopicsActor
from pulsar_actors.runtime.topic_list_watcher_actor import TopicListWatcherActor
from pulsar_actors.wire.topic_name import TopicName
from tests.client.planted import Bug, names_the_bug
from tests.support.life import MILLISECONDS, SOON, InThread, until, works


def test_a_set_of_consumers_that_dies_fails_all_that_it_owed_and_its_consumers_go(
    broker: EmbeddedBroker, client: pulsar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = Bug(monkeypatch, MultiTopicsActor, "receive")
    consumer = client.subscribe(["t", "u"], "s")
    waiting, promised = InThread(consumer.receive), consumer.receive_async()
    until(waiting.waits)
    bug.strike()
    names_the_bug(lambda: consumer.seek(0), MultiTopicsActor)
    names_the_bug(waiting.result, MultiTopicsActor)
    names_the_bug(promised.result, MultiTopicsActor)
    for call in (consumer.receive, consumer.get_broker_consumer_stats, consumer.unsubscribe):
        names_the_bug(call, MultiTopicsActor)
    consumer.close()
    again = until(lambda: InThread(lambda: client.subscribe("t", "s")).error() is None, "the subscription is free")
    assert again


def test_a_set_of_producers_that_dies_fails_all_that_it_owed(
    broker: EmbeddedBroker, client: pulsar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse("p"), 2))
    bug = Bug(monkeypatch, MultiTopicsActor, "receive")
    producer = client.create_producer("p")
    bug.strike()
    names_the_bug(producer.flush, MultiTopicsActor)
    names_the_bug(lambda: producer.send(b"x"), MultiTopicsActor)
    producer.close()
    works(client, "p")


def test_a_set_that_dies_while_it_is_made_says_so(client: pulsar.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("on_start", "receive"):
        Bug(monkeypatch, MultiTopicsActor, method).strike()
        names_the_bug(lambda: client.subscribe(["t", "u"], "s"), MultiTopicsActor)
    works(client, "t")


def test_a_watch_of_topics_that_dies_leaves_its_consumer_at_work(
    client: pulsar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = Bug(monkeypatch, TopicListWatcherActor, "receive")
    bug.strike()
    consumer = client.subscribe(re.compile("public/default/t.*"), "s", pattern_auto_discovery_period=1)
    assert bug.happened.wait(SOON)
    producer = client.create_producer("t")
    until(lambda: consumer.stats().permits, "the topic is found without a watch")
    producer.send(b"x")
    assert consumer.receive(MILLISECONDS).data() == b"x"
