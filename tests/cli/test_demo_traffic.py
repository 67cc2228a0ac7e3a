import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.broker.fault_rules import Drop, InterceptedCommand
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.cli import demo_traffic
from pulsar_actors.cli import demo_traffic as module
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandMessage, CommandSend, CommandSendReceipt, ServerError
from pulsar_actors.wire.topic_name import TopicName

COUNT = 3000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings=Settings(deduplication=True)) as running:
        yield running


@contextmanager
def traffic_through(broker: EmbeddedBroker, count: int = COUNT) -> Iterator[demo_traffic.Traffic]:
    engine = demo_traffic.CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        yield demo_traffic.Traffic(client, engine, "t", count, 50)


def run(traffic: demo_traffic.Traffic) -> None:
    traffic.start()
    assert traffic.finished.wait(60)
    assert traffic.stop(20)


def test_all_messages_come_although_every_connection_is_cut_half_way(broker: EmbeddedBroker) -> None:
    with traffic_through(broker) as traffic:
        run(traffic)
        assert traffic.fault is None
        assert (traffic.sent, traffic.acknowledged, traffic.verification.due) == (COUNT, COUNT, COUNT)
        assert traffic.connections_cut >= 1
        assert traffic.pending_at_cut >= 1
        assert traffic.outage is not None
        assert 0 < traffic.outage < 30
        assert traffic.longest_wait > 0
        assert min(traffic.seconds_sending, traffic.seconds_receiving) > traffic.outage
        assert traffic.producer.stats().reconnects == 1
        assert traffic.consumer.stats().reconnects == 1
        repeated = traffic.verification.delivered_again + traffic.verification.stored_again
        assert traffic.received == COUNT + repeated


def test_all_messages_are_acknowledged_in_the_end(broker: EmbeddedBroker) -> None:
    name = TopicName.parse("t")
    with traffic_through(broker) as traffic:
        run(traffic)
        traffic.consumer.close()
        assert broker.call(lambda inside: inside.cluster.find_topic(name).subscriptions["demo"].backlog()) == 0


def test_the_sender_keeps_within_its_steps_of_a_receiver_that_gets_nothing(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STEP", 100)
    monkeypatch.setattr(module, "_STEPS_AHEAD", 3)
    stall = broker.faults.on(CommandMessage, times=None).drop()
    with traffic_through(broker) as traffic:
        traffic.start()
        stall.wait()
        traffic.producer.flush()
        assert traffic.sent <= 300
        assert traffic.stop(20)
        assert (traffic.fault, traffic.sent <= 300) == (None, True)


def test_a_lost_message_is_noticed(broker: EmbeddedBroker) -> None:
    before_the_cut, lost = [-1], list[int]()

    def lose_a_new_one(seen: InterceptedCommand) -> Drop | None:
        """Lose one that was not sent before the cut: what was lost then is delivered again, or had been received."""
        if not isinstance(seen.command, CommandMessage):
            return None
        entry = seen.command.message_id.entryId
        if seen.connection == 1:
            before_the_cut.append(entry)
        elif not lost and entry > max(before_the_cut):
            lost.append(entry)
            return Drop()
        return None

    with traffic_through(broker) as traffic:
        broker.faults.control(lose_a_new_one)
        run(traffic)
        assert traffic.fault is not None
        assert "those between are lost or late" in traffic.fault


def test_a_message_that_is_delivered_twice_is_no_fault(broker: EmbeddedBroker) -> None:
    with traffic_through(broker) as traffic:
        broker.faults.on(CommandMessage, nth=12, when=lambda _: traffic.connections_cut > 0).duplicate()
        run(traffic)
        assert traffic.fault is None
        assert traffic.received == COUNT + traffic.verification.delivered_again


def test_without_deduplication_what_is_sent_again_is_stored_again() -> None:
    with EmbeddedBroker() as broker, traffic_through(broker) as traffic:
        broker.faults.on(CommandSendReceipt, nth=3).close_connection()
        run(traffic)
        assert traffic.fault is None
        assert traffic.verification.stored_again > 0


def test_a_send_that_fails_ends_the_run_with_its_result(broker: EmbeddedBroker) -> None:
    with traffic_through(broker) as traffic:
        broker.faults.on(CommandSend, times=None).refuse(ServerError.TopicTerminatedError, "it is over")
        run(traffic)
        # The second is the result of messages that were sent after the refused one.
        results = ("TopicTerminated", "UnknownError")
        assert traffic.fault in {f"a message could not be sent: Result.{result}" for result in results}


def test_the_first_fault_is_the_one_that_is_reported(broker: EmbeddedBroker) -> None:
    with traffic_through(broker) as traffic:
        traffic.consumer.close()
        run(traffic)
        first = traffic.fault
        assert first is not None
        assert first.startswith("AlreadyClosed: ")
        traffic._fail("something else")
        assert traffic.fault == first


def test_messages_that_do_not_come_for_a_while_count_as_lost(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.5)
    broker.faults.on(CommandMessage, times=None).drop()
    with traffic_through(broker) as traffic:
        run(traffic)
        assert traffic.fault == "nothing has come for 0.5 s; message 0 is due"


PAYLOADS = demo_traffic.NumberedPayloads(40)


def at(entry: int, index: int = -1) -> MessageId:
    return MessageId(-1, 1, entry, index)


def verified(*arrivals: tuple[int, int]) -> demo_traffic.Verification:
    """The result for messages that came, each a number and the entry it was in."""
    verification = demo_traffic.Verification(PAYLOADS)
    for number, entry in arrivals:
        verification.check(PAYLOADS.of(number), at(entry))
    return verification


@pytest.mark.parametrize("size", [demo_traffic.MIN_SIZE, demo_traffic.MIN_SIZE + 1, 100, 255, 256, 257, 5000])
def test_each_payload_has_its_size_and_differs_from_the_others(size: int) -> None:
    payloads = demo_traffic.NumberedPayloads(size)
    made = [payloads.of(number) for number in range(600)]
    assert {len(payload) for payload in made} == {size}
    assert len(set(made)) == len(made)


def test_consecutive_payloads_differ_in_their_filling_too() -> None:
    assert PAYLOADS.of(0)[demo_traffic.MIN_SIZE :] != PAYLOADS.of(1)[demo_traffic.MIN_SIZE :]


LATE = "message {} came when {} was due: those between are lost or late"
ARRIVALS: dict[str, tuple[list[tuple[int, int]], tuple[int, int, int, str | None]]] = {
    "in order": ([(0, 0), (1, 1), (2, 2)], (3, 0, 0, None)),
    "delivered again, under the same ids": ([(0, 0), (1, 1), (0, 0), (1, 1), (2, 2)], (3, 2, 0, None)),
    "stored again, under new ids": ([(0, 0), (1, 1), (0, 2), (1, 3), (2, 4)], (3, 0, 2, None)),
    "stored again, and that delivered again": ([(0, 0), (0, 1), (0, 0), (0, 1), (1, 2)], (2, 2, 1, None)),
    "one is missing": ([(0, 0), (1, 1), (3, 3)], (2, 0, 0, LATE.format(3, 2))),
    "out of order": ([(0, 0), (2, 1), (1, 2)], (2, 0, 0, LATE.format(2, 1))),
    "the first fault stays": ([(1, 0), (5, 1)], (0, 0, 0, LATE.format(1, 0))),
}


@pytest.mark.parametrize("case", ARRIVALS)
def test_what_came_again_is_counted_once_and_what_is_missing_is_a_fault(case: str) -> None:
    arrivals, expected = ARRIVALS[case]
    result = verified(*arrivals)
    assert (result.due, result.delivered_again, result.stored_again, result.fault) == expected


def test_the_messages_of_a_batch_are_in_the_order_of_their_indexes() -> None:
    verification = demo_traffic.Verification(PAYLOADS)
    for number in range(3):
        verification.check(PAYLOADS.of(number), at(0, number))
    verification.check(PAYLOADS.of(1), at(0, 1))
    assert (verification.due, verification.delivered_again, verification.stored_again) == (3, 1, 0)


@pytest.mark.parametrize(
    "damaged",
    [
        PAYLOADS.of(0)[:-1],
        PAYLOADS.of(0) + b"!",
        PAYLOADS.of(0)[:-1] + b"!",
        b"!" + PAYLOADS.of(0)[1:],
        b"",
    ],
    ids=["shorter", "longer", "another last byte", "another first byte", "empty"],
)
def test_a_message_that_is_not_what_was_sent_is_a_fault(damaged: bytes) -> None:
    verification = demo_traffic.Verification(PAYLOADS)
    verification.check(damaged, at(5))
    assert verification.fault is not None
    assert verification.fault.startswith(f"message (1,5,-1,-1) is not what was sent: {len(damaged)} bytes")
    assert verification.due == 0


def cut(engine: demo_traffic.CuttableEngine) -> int:
    """Cut the connections on the loop, and return their number."""
    cut: list[int] = []
    done = threading.Event()

    def on_the_loop(_: None) -> None:
        cut.append(engine.loop.cut())
        done.set()

    engine.loop.post(on_the_loop, None)
    assert done.wait(10)
    return cut[0]


def test_a_client_whose_connections_are_cut_makes_new_ones_and_goes_on(broker: EmbeddedBroker) -> None:
    engine = demo_traffic.CuttableEngine()
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


def test_connections_are_cut_once(broker: EmbeddedBroker) -> None:
    engine = demo_traffic.CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url, initial_backoff_interval_ms=60_000)) as client:
        client.get_topic_partitions("t")
        assert cut(engine) == 1
        assert (cut(engine), engine.loop.has_opened) == (0, False)


def test_connections_that_the_broker_ended_are_not_cut(broker: EmbeddedBroker) -> None:
    engine = demo_traffic.CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        producer = client.create_producer("t")
        before = set(engine.loop.transports)
        broker.cut_connections()
        producer.send(b"over a new connection")
        assert before.isdisjoint(engine.loop.transports)


def test_a_client_that_is_closed_leaves_no_thread_and_no_transport(broker: EmbeddedBroker) -> None:
    before = threading.enumerate()
    engine = demo_traffic.CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        client.get_topic_partitions("t")
        assert threading.enumerate() != before
        assert len(engine.loop.transports) == 1
    assert engine.loop.transports == set()
    for thread in set(threading.enumerate()).difference(before):  # nobody waits for the loop's helper
        thread.join(10)
        assert not thread.is_alive()


def test_a_forked_child_has_no_connections_of_its_parent(broker: EmbeddedBroker) -> None:
    engine = demo_traffic.CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        client.get_topic_partitions("t")
    engine.forget_everything()  # as a child does, in which no thread runs
    assert engine.loop.cut() == 0


def test_more_than_a_socket_takes_at_once_passes_through_a_cuttable_transport(broker: EmbeddedBroker) -> None:
    engine = demo_traffic.CuttableEngine()
    content = bytes(4_000_000)
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        producer = client.create_producer("t")
        sent = [producer.send_async(content) for _ in range(4)]
        producer.flush()
        assert [reader.read_next(20_000).data() for _ in sent] == [content] * 4


class Owner:
    """Keeps the reasons of lost connections."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def opened(self) -> None: ...
    def received(self, data: bytes) -> None: ...
    def writable(self) -> None: ...

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture
def loop() -> Iterator[demo_traffic.CuttableLoop]:
    loop = demo_traffic.CuttableLoop("never started")
    yield loop
    loop.forget_everything()


def test_a_closed_transport_sends_nothing(loop: demo_traffic.CuttableLoop) -> None:
    transport = demo_traffic.CuttableTransport(Owner(), loop)
    transport.close()
    transport.await_room()
    assert transport.send([b"x"]) == 0


def test_a_connection_that_was_lost_is_not_cut(loop: demo_traffic.CuttableLoop) -> None:
    owner = Owner()
    demo_traffic.CuttableTransport(owner, loop).lost("the peer closed the connection")
    assert (loop.cut(), owner.reasons) == (0, ["the peer closed the connection"])
