from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.cli import traffic as module
from pulsar_actors.cli.cuttable import CuttableEngine
from pulsar_actors.cli.traffic import Traffic
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.wire.PulsarApi_pb2 import CommandMessage, CommandSend, CommandSendReceipt, ServerError
from pulsar_actors.wire.topic_name import TopicName

COUNT = 3000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings=Settings(deduplication=True)) as running:
        yield running


@contextmanager
def traffic_through(broker: EmbeddedBroker, count: int = COUNT) -> Iterator[Traffic]:
    engine = CuttableEngine()
    with pulsar.Client.on(engine, ClientOptions(broker.service_url)) as client:
        yield Traffic(client, engine, "t", count, 50)


def run(traffic: Traffic) -> None:
    traffic.start()
    assert traffic.finished.wait(60)
    assert traffic.stop(20)


def test_everything_comes_though_every_connection_is_cut_half_way(broker: EmbeddedBroker) -> None:
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


def test_all_of_it_is_acknowledged_in_the_end(broker: EmbeddedBroker) -> None:
    name = TopicName.parse("t")
    with traffic_through(broker) as traffic:
        run(traffic)
        traffic.consumer.close()
        assert broker.call(lambda inside: inside.cluster.find_topic(name).subscriptions["demo"].backlog()) == 0


def test_the_fewest_messages_have_a_half_as_well(broker: EmbeddedBroker) -> None:
    with traffic_through(broker, 2) as traffic:
        run(traffic)
        assert (traffic.fault, traffic.verification.due, traffic.connections_cut >= 1) == (None, 2, True)


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


def test_a_broker_that_loses_a_message_is_found_out(broker: EmbeddedBroker) -> None:
    with traffic_through(broker) as traffic:
        # Of what it sends after the cut: what is lost before is sent again.
        broker.faults.on(CommandMessage, nth=12, when=lambda _: traffic.connections_cut > 0).drop()
        run(traffic)
        assert traffic.fault is not None
        assert "those between are lost or late" in traffic.fault


def test_a_broker_that_sends_a_message_twice_is_found_out_too(broker: EmbeddedBroker) -> None:
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


def test_a_send_that_fails_is_said_and_ends_it(broker: EmbeddedBroker) -> None:
    with traffic_through(broker) as traffic:
        broker.faults.on(CommandSend, times=None).refuse(ServerError.TopicTerminatedError, "it is over")
        run(traffic)
        # The second is what those are told that were on their way behind the one that was refused.
        results = ("TopicTerminated", "UnknownError")
        assert traffic.fault in {f"a message could not be sent: Result.{result}" for result in results}


def test_the_first_thing_that_went_wrong_is_what_is_said(broker: EmbeddedBroker) -> None:
    with traffic_through(broker) as traffic:
        traffic.consumer.close()
        run(traffic)
        first = traffic.fault
        assert first is not None
        assert first.startswith("AlreadyClosed: ")
        traffic._fail("something else")
        assert traffic.fault == first


def test_messages_that_stay_away_count_as_lost_after_a_while(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.5)
    broker.faults.on(CommandMessage, times=None).drop()
    with traffic_through(broker) as traffic:
        run(traffic)
        assert traffic.fault == "nothing has come for 0.5 s; message 0 is due"
