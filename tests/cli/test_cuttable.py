import threading
from collections.abc import Iterator

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.cli.cuttable import Cable, CuttableEngine, CuttableLoop
from pulsar_actors.client.client_options import ClientOptions


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def cut(engine: CuttableEngine) -> int:
    """Cut on the loop, and give what it says."""
    said: list[int] = []
    done = threading.Event()

    def on_the_loop(_: None) -> None:
        said.append(engine.loop.cut())
        done.set()

    engine.loop.post(on_the_loop, None)
    assert done.wait(10)
    return said[0]


def test_a_client_whose_connections_are_cut_makes_new_ones_and_goes_on(broker: EmbeddedBroker) -> None:
    engine = CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        producer = client.create_producer("t")
        producer.send(b"before")
        assert engine.loop.has_opened
        assert cut(engine) >= 1
        producer.send(b"after")
        assert engine.loop.has_opened
        assert [reader.read_next(10_000).data() for _ in range(2)] == [b"before", b"after"]
        assert producer.stats().reconnects == 1
        assert reader.stats().reconnects == 1


def test_what_is_cut_twice_at_once_was_cut_the_first_time(broker: EmbeddedBroker) -> None:
    engine = CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url, initial_backoff_interval_ms=60_000)) as client:
        client.get_topic_partitions("t")
        assert cut(engine) == 1
        assert (cut(engine), engine.loop.has_opened) == (0, False)


def test_connections_that_the_broker_ended_are_not_there_to_be_cut(broker: EmbeddedBroker) -> None:
    engine = CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        producer = client.create_producer("t")
        before = set(engine.loop.cables)
        broker.cut_connections()
        producer.send(b"over a new connection")
        assert before.isdisjoint(engine.loop.cables)


def test_a_client_that_is_closed_leaves_no_cable(broker: EmbeddedBroker) -> None:
    engine = CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        client.get_topic_partitions("t")
        assert len(engine.loop.cables) == 1
    assert engine.loop.cables == set()


def test_a_client_that_is_closed_leaves_no_thread(broker: EmbeddedBroker) -> None:
    before = threading.enumerate()
    with pulsar.Client.on(CuttableEngine(), ClientOptions(broker.service_url)) as client:
        client.get_topic_partitions("t")
        assert threading.enumerate() != before
    for thread in set(threading.enumerate()).difference(before):  # nobody waits for the loop's helper
        thread.join(10)
        assert not thread.is_alive()


def test_a_forked_child_has_nothing_of_it(broker: EmbeddedBroker) -> None:
    engine = CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        client.get_topic_partitions("t")
    engine.forget_everything()  # as a child does, in which no thread runs
    assert engine.loop.cut() == 0


def test_more_than_a_socket_takes_at_once_passes_through_a_cable(broker: EmbeddedBroker) -> None:
    engine = CuttableEngine()
    content = bytes(4_000_000)
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        producer = client.create_producer("t")
        sent = [producer.send_async(content) for _ in range(4)]
        producer.flush()
        assert [reader.read_next(20_000).data() for _ in sent] == [content] * 4


class Owner:
    """Hears of things, and does nothing."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def opened(self) -> None: ...
    def received(self, data: bytes) -> None: ...
    def writable(self) -> None: ...

    def lost(self, reason: str) -> None:
        self.heard.append(reason)


@pytest.fixture
def loop() -> Iterator[CuttableLoop]:
    loop = CuttableLoop("never started")
    yield loop
    loop.forget_everything()


def test_a_cable_that_leads_nowhere_any_longer_takes_nothing(loop: CuttableLoop) -> None:
    cable = Cable(Owner(), loop)
    cable.close()
    cable.await_room()
    assert cable.send([b"x"]) == 0


def test_what_was_lost_by_itself_is_not_there_to_be_cut(loop: CuttableLoop) -> None:
    owner = Owner()
    Cable(owner, loop).lost("the peer closed the connection")
    assert (loop.cut(), owner.heard) == (0, ["the peer closed the connection"])
