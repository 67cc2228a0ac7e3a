import pytest
from session_bench import Bench, connect_command

from pulsar_actors.broker.session.fault_actions import Side
from pulsar_actors.wire.commands import encode_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandError,
    CommandGetTopicsOfNamespace,
    CommandMessage,
    CommandPing,
    CommandPong,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    ServerError,
)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_stalled_connection_hears_all_of_it_after_the_release(bench: Bench) -> None:
    caller = bench.client()
    fault = bench.broker.faults.on(CommandPing).stall()
    assert caller.say(CommandPing(), CommandGetTopicsOfNamespace(request_id=1, namespace="public/default")) == []
    fault.release()
    bench.loop.run()
    pong, topics = caller.heard()
    assert pong == CommandPong()
    assert topics.request_id == 1  # type: ignore[attr-defined]


def test_a_fault_may_meet_what_the_broker_sends(bench: Bench) -> None:
    caller = bench.client()
    bench.broker.faults.on(CommandProducerSuccess).refuse(ServerError.ServiceNotReady, "not yet")
    heard = caller.say(CommandProducer(topic="t", producer_id=1, request_id=6))
    assert heard == [CommandError(request_id=6, error=ServerError.ServiceNotReady, message="not yet")]


def test_a_message_meets_a_fault_with_its_entry(bench: Bench) -> None:
    caller = bench.client()
    caller.produce()
    caller.consume(permits=10)
    bench.broker.faults.on(CommandMessage).duplicate()
    bench.broker.faults.on(CommandSend, nth=2).reorder()
    for i in range(3):
        caller.send(CommandSend(producer_id=0, sequence_id=i), b"%d" % i)
    assert [bytes(entry)[-1:] for entry in caller.entries] == [b"0", b"0", b"2", b"1"]


def test_a_delayed_command_of_a_connection_that_has_ended_is_forgotten(bench: Bench) -> None:
    caller = bench.client()
    bench.broker.faults.on(CommandPing).delay(5)
    bench.broker.faults.on(CommandPong, sent_by=Side.BROKER).delay(5)
    assert caller.say(CommandPing(), CommandPing()) == []
    caller.hang_up()
    bench.loop.advance(20)
    assert caller.heard() == []


def test_each_connection_has_a_number_that_control_functions_see(bench: Bench) -> None:
    numbers: list[int] = []
    first, second = bench.client(), bench.client()
    bench.broker.faults.control(lambda seen: numbers.append(seen.connection))
    first.say(CommandPing())
    second.say(CommandPing())
    assert numbers == [1, 1, 2, 2]


def test_connections_meet_faults_as_they_come(bench: Bench) -> None:
    on_accept = bench.broker.faults.on_accept
    on_accept().hang_up()
    on_accept().say_nothing()
    on_accept().cut_after(sent=10)
    on_accept().cut_after(received=10)
    hung, deaf, cut, cut_short = (bench.call() for _ in range(4))
    assert hung.is_closed
    assert deaf.say(connect_command()) == []
    assert not deaf.is_closed
    cut.owner.received(encode_command(connect_command()))
    bench.loop.run()
    assert (len(cut.wire.written), cut.is_closed) == (10, True)
    assert cut_short.say(connect_command()) == []
    assert cut_short.is_closed
    for caller in (hung, deaf):
        caller.owner.opened()
        caller.owner.writable()
        caller.owner.lost("gone")
    bench.broker.close()
    assert deaf.is_closed
