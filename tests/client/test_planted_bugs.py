"""Whatever kind of actor dies of a bug: what it owed ends, with an error that names the bug, and the client goes on."""

import logging
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.runtime.client_actor import ClientActor
from pulsar_actors.runtime.connection_actor import ConnectionActor
from pulsar_actors.runtime.consumer_actor import ConsumerActor
from pulsar_actors.runtime.lookup_actor import LookupActor
from pulsar_actors.runtime.multi_topics_actor import MultiTopicsActor
from pulsar_actors.runtime.producer_actor import ProducerActor
from pulsar_actors.runtime.socket_actor import SocketActor
from pulsar_actors.runtime.topic_list_watcher_actor import TopicListWatcherActor
from pulsar_actors.wire.PulsarApi_pb2 import CommandSendReceipt
from tests.support import topics
from tests.support.life import MILLISECONDS, SOON, InThread, client_of, until, works

BUG = "a planted bug"


class Bug:
    """Has the next call of a method raise, on the actors for which that is wanted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type, method: str) -> None:
        self._method: Callable[..., Any] = getattr(kind, method)
        self._wanted: Callable[[Any], bool] = lambda _: False
        self.happened = threading.Event()

        def run(actor: Any, *rest: Any) -> Any:
            return self._run(actor, *rest)

        monkeypatch.setattr(kind, method, run)

    def strike(self, wanted: Callable[[Any], bool] = lambda _: True) -> None:
        """Happen at the next call on an actor that is wanted."""
        self.happened.clear()
        self._wanted = wanted

    def _run(self, actor: Any, *rest: Any) -> Any:
        if self._wanted(actor):
            self._wanted = lambda _: False
            self.happened.set()
            raise ZeroDivisionError(BUG)
        return self._method(actor, *rest)


def names_the_bug(call: Callable[[], Any], kind: type) -> None:
    error = InThread(call).error()
    assert isinstance(error, pulsar.InternalError)
    assert BUG in str(error)
    assert kind.__name__ in str(error)


@pytest.fixture
def broker(clean: None) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    """Give each test a client of its own, for it is hurt."""
    with client_of(broker.service_url, operation_timeout_seconds=SOON, initial_backoff_interval_ms=10) as client:
        yield client


def test_a_producer_that_dies_fails_all_that_it_owed(
    broker: EmbeddedBroker, client: pulsar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = Bug(monkeypatch, ProducerActor, "receive")
    other, producer = client.create_producer("other"), client.create_producer("t", block_if_queue_full=True)
    fault = broker.faults.on(CommandSendReceipt, times=None).drop()
    results: list[Any] = []
    producer.send_async(b"x", lambda result, _: results.append(result))
    futures = [producer.send_async(b"x") for _ in range(3)]
    flushing = InThread(producer.flush)
    fault.wait(4, SOON)
    until(flushing.waits)
    fault.remove()
    bug.strike(lambda actor: actor.machine is producer._state.machine)
    names_the_bug(lambda: producer.send(b"y"), ProducerActor)
    for future in futures:
        names_the_bug(future.result, ProducerActor)
    names_the_bug(flushing.result, ProducerActor)
    assert results == [pulsar.Result.UnknownError]
    names_the_bug(lambda: producer.send(b"y"), ProducerActor)
    names_the_bug(producer.flush, ProducerActor)
    producer.close()
    other.send(b"x")
    works(client, "t")


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (ProducerActor, lambda client: client.create_producer("t")),
        (ConsumerActor, lambda client: client.subscribe("t", "s")),
        (MultiTopicsActor, lambda client: client.subscribe(["t", "u"], "s")),
    ],
)
@pytest.mark.parametrize("method", ["on_start", "receive"])
def test_what_dies_while_it_is_made_says_so(
    client: pulsar.Client, monkeypatch: pytest.MonkeyPatch, kind: type, make: Callable[..., Any], method: str
) -> None:
    Bug(monkeypatch, kind, method).strike()
    names_the_bug(lambda: make(client), kind)
    works(client, "t")


def test_a_consumer_that_dies_fails_all_that_it_owed(client: pulsar.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = Bug(monkeypatch, ConsumerActor, "handle_commands")
    other, consumer = client.subscribe("other", "s"), client.subscribe("t", "s")
    waiting = [InThread(consumer.receive) for _ in range(3)]
    promised = consumer.receive_async()
    for each in waiting:
        until(each.waits)
    bug.strike(lambda actor: actor.machine is consumer._state.machine)
    client.create_producer("t").send(b"x")
    for each in waiting:
        names_the_bug(each.result, ConsumerActor)
    names_the_bug(promised.result, ConsumerActor)
    for call in (consumer.receive, consumer.get_last_message_id, lambda: consumer.seek(0), consumer.unsubscribe):
        names_the_bug(call, ConsumerActor)
    consumer.close()
    client.create_producer("other").send(b"x")
    assert other.receive(MILLISECONDS).data() == b"x"
    assert client.subscribe("t", "s").receive(MILLISECONDS).data() == b"x"


@pytest.mark.parametrize("kind", [ConnectionActor, SocketActor])
@pytest.mark.parametrize("method", ["receive", "finish"])
def test_a_connection_that_dies_is_a_connection_that_was_lost(
    broker: EmbeddedBroker, client: pulsar.Client, monkeypatch: pytest.MonkeyPatch, kind: type, method: str
) -> None:
    bug = Bug(monkeypatch, kind, method)
    producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
    fault = broker.faults.on(CommandSendReceipt).drop()
    pending = producer.send_async(b"pending")
    assert pending is not None
    fault.wait(1, SOON)
    bug.strike()
    if method == "finish":
        broker.cut_connections()
    else:
        producer.send_async(b"x")
    assert bug.happened.wait(SOON)
    pending.result(SOON)
    producer.send(b"last")
    while consumer.receive(MILLISECONDS).data() != b"last":
        continue
    if method == "receive":
        until(lambda: producer.stats().reconnects == 1)
    works(client, "works")


@pytest.mark.parametrize("kind", [ConnectionActor, SocketActor])
@pytest.mark.parametrize("method", ["receive", "on_start"])
def test_a_connection_that_dies_in_the_making_is_made_anew(
    client: pulsar.Client, monkeypatch: pytest.MonkeyPatch, kind: type, method: str
) -> None:
    Bug(monkeypatch, kind, method).strike()
    works(client, "works")


def test_lookups_that_die_name_the_bug_and_the_next_are_made(
    client: pulsar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = Bug(monkeypatch, LookupActor, "receive")
    kept = client.create_producer("kept")
    bug.strike()
    names_the_bug(lambda: client.get_topic_partitions("t"), LookupActor)
    bug.strike()
    names_the_bug(lambda: client.create_producer("t"), LookupActor)
    kept.send(b"x")
    works(client, "t")


def test_a_producer_that_looks_up_when_lookups_die_looks_up_again(
    broker: EmbeddedBroker, client: pulsar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = Bug(monkeypatch, LookupActor, "receive")
    producer = client.create_producer("t")
    bug.strike()
    broker.cut_connections()
    assert bug.happened.wait(SOON)
    producer.send(b"x")


def test_a_guardian_that_dies_takes_the_client_along_and_says_why(
    client: pulsar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = Bug(monkeypatch, ClientActor, "receive")
    producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
    receiving = InThread(consumer.receive)
    until(receiving.waits)
    bug.strike()
    names_the_bug(lambda: client.create_producer("u"), ClientActor)
    names_the_bug(receiving.result, ClientActor)
    names_the_bug(lambda: producer.send(b"x"), ClientActor)
    names_the_bug(lambda: client.subscribe("u", "s"), ClientActor)
    names_the_bug(lambda: client.get_topic_partitions("u"), ClientActor)
    producer.close()
    consumer.close()
    client.close()


@pytest.mark.parametrize("kind", [ProducerActor, ConsumerActor, ConnectionActor, SocketActor, LookupActor, ClientActor])
@pytest.mark.parametrize("how", ["close", "shutdown"])
def test_a_bug_in_the_middle_of_closing_keeps_nothing_alive(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, kind: type, how: str
) -> None:
    client = pulsar.Client(broker.service_url, operation_timeout_seconds=3)
    bug = Bug(monkeypatch, kind, "receive")
    producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
    bug.strike()
    InThread(getattr(client, how)).result()
    producer.close()
    consumer.close()


def test_a_bug_is_logged_with_its_traceback(
    client: pulsar.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer = client.create_producer("t")
    Bug(monkeypatch, ProducerActor, "receive").strike()
    with pytest.raises(pulsar.InternalError):
        producer.send(b"x")
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "ProducerActor has ended by a bug"
    assert record.exc_info is not None
    assert BUG in str(record.exc_info[1])


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
    topics.create_partitioned(broker, "p", 2)
    bug = Bug(monkeypatch, MultiTopicsActor, "receive")
    producer = client.create_producer("p")
    bug.strike()
    names_the_bug(producer.flush, MultiTopicsActor)
    names_the_bug(lambda: producer.send(b"x"), MultiTopicsActor)
    producer.close()
    works(client, "p")


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
