from typing import Any

import pytest

from pulsar_actors.wire.commands import encode_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConnected,
    CommandError,
    CommandFlow,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandMessage,
    CommandPartitionedTopicMetadata,
    CommandPing,
    CommandPong,
    CommandProducer,
    CommandSend,
    CommandSubscribe,
    ServerError,
)
from tests.support.session_bench import TOPIC, Bench, connect_command, frame_of, messages, only, receipts


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    "command",
    [
        CommandLookupTopic(topic="t", request_id=1),
        CommandProducer(topic="t", producer_id=1, request_id=1),
    ],
)
def test_anything_before_connect_ends_the_connection(bench: Bench, command: Any) -> None:
    caller = bench.call()
    assert caller.say(command) == []
    assert caller.is_closed


SENSELESS = [
    pytest.param(b"\x00\x00\x00\x00", id="a frame of nothing"),
    pytest.param(b"\xff\xff\xff\xff", id="a frame of four gigabytes"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
    pytest.param(b"\x00\x00\x00\x06\x00\x00\x00\x02\xff\xff", id="no command"),
    pytest.param(b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x7e", id="an unknown command"),
    pytest.param(encode_command(CommandConnected(server_version="s")), id="a command of brokers"),
]


@pytest.mark.parametrize("data", SENSELESS)
def test_what_makes_no_sense_ends_the_connection(bench: Bench, data: bytes) -> None:
    caller = bench.client()
    caller.feed(encode_command(CommandPing()) + data + encode_command(CommandPing()))
    assert caller.is_closed
    assert caller.say(CommandPing()) == []


def test_a_frame_over_the_limit_ends_the_connection_and_one_at_the_limit_does_not(bench: Bench) -> None:
    limit = 5 * 1024 * 1024 + 10 * 1024
    for excess, closed in ((0, False), (1, True)):
        caller = bench.client()
        caller.produce()
        send = CommandSend(producer_id=0, sequence_id=1)
        without = len(frame_of(send, b""))
        caller.send(send, bytes(limit + 4 - without + excess))
        assert caller.is_closed is closed


def test_commands_may_come_a_byte_at_a_time(bench: Bench) -> None:
    caller = bench.call()
    data = encode_command(connect_command()) + encode_command(CommandPing())
    heard = [command for i in range(len(data)) for command in caller.feed(data[i : i + 1])]
    assert [type(command) for command in heard] == [CommandConnected, CommandPong]


def test_many_commands_of_one_read_are_answered_in_order_with_one_write(bench: Bench) -> None:
    caller = bench.client()
    caller.produce()
    before = caller.wire.writes
    heard = caller.feed(b"".join(frame_of(CommandSend(producer_id=0, sequence_id=i)) for i in range(100)))
    assert receipts(heard) == list(range(100))
    assert caller.wire.writes == before + 1


def test_a_ping_is_answered(bench: Bench) -> None:
    assert bench.client().say(CommandPing(), CommandPing()) == [CommandPong(), CommandPong()]
    assert bench.call().say(CommandPing()) == [CommandPong()]  # before CONNECT too, as a real broker does


def test_a_topic_name_that_is_none_is_refused_in_the_form_of_the_question(bench: Bench) -> None:
    caller = bench.client()
    name = "persistent://a"
    lookup, producer = caller.say(
        CommandLookupTopic(topic=name, request_id=5), CommandProducer(topic=name, producer_id=1, request_id=6)
    )
    assert isinstance(lookup, CommandLookupTopicResponse)
    assert (lookup.request_id, lookup.error) == (5, ServerError.InvalidTopicName)
    assert isinstance(producer, CommandError)
    assert (producer.request_id, producer.error) == (6, ServerError.InvalidTopicName)
    assert "is not the name of a topic" in producer.message


def test_a_bug_costs_the_connection_that_met_it_and_is_logged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(*_: Any, **__: Any) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(bench.broker.cluster, "partitions", bug)
    met, other = bench.client(), bench.client()
    assert met.say(CommandPartitionedTopicMetadata(topic="t", request_id=1)) == []
    assert met.is_closed
    assert "the broker cannot handle a CommandPartitionedTopicMetadata" in caplog.text
    assert other.say(CommandPing()) == [CommandPong()]


def test_when_a_client_goes_its_producers_and_consumers_go_too(bench: Bench) -> None:
    gone, here = bench.client(), bench.client()
    gone.produce(producer_name="same")
    gone.consume(permits=10)
    gone.hang_up()
    assert here.produce(producer_name="same").producer_name == "same"
    here.consume()


def test_nothing_more_is_said_to_a_client_that_goes_whatever_its_going_brings_about(bench: Bench) -> None:
    caller = bench.client()
    for consumer_id in (1, 2, 3):
        caller.consume(consumer_id=consumer_id, subType=CommandSubscribe.Failover, consumer_name=f"c{consumer_id}")
    bench.loop.advance(2)
    caller.heard()
    caller.hang_up()
    bench.loop.advance(2)
    assert caller.heard() == []


def test_what_comes_after_the_end_means_nothing(bench: Bench) -> None:
    caller = bench.client()
    caller.produce()
    bench.broker.cut_connections()
    assert caller.is_closed
    caller.owner.lost("the client has gone")
    assert caller.say(CommandPing()) == []


def test_a_client_that_does_not_read_is_sent_a_bounded_amount_and_later_everything(bench: Bench) -> None:
    writer, reader = bench.client(), bench.client()
    writer.produce()
    reader.consume()
    reader.make_room(0)
    reader.say(CommandFlow(consumer_id=0, messagePermits=1_000))
    payload = bytes(100_000)
    for i in range(100):
        writer.send(CommandSend(producer_id=0, sequence_id=i), payload)
    session = reader.owner
    waiting: Any = session._out  # what lies in memory cannot be seen from outside
    assert waiting._bytes < 3_000_000
    got: list[tuple[int, int]] = []
    while len(got) < 100:
        heard = messages(reader.make_room(300_000))
        assert heard, "it stands still"
        got += heard
    assert got == sorted(set(got))
    assert len(got) == 100


def test_a_producer_and_a_consumer_may_have_the_same_id(bench: Bench) -> None:
    caller = bench.client()
    caller.produce(producer_id=4)
    caller.consume(consumer_id=4, permits=10)
    heard = caller.send(CommandSend(producer_id=4, sequence_id=0))
    assert receipts(heard) == [0]
    assert [command.consumer_id for command in only(heard, CommandMessage)] == [4]


def test_a_connection_serves_many_topics(bench: Bench) -> None:
    caller = bench.client()
    for i in range(3):
        caller.produce(f"{TOPIC}-{i}", i)
        caller.consume(f"{TOPIC}-{i}", i, permits=1)
    heard = caller.feed(b"".join(frame_of(CommandSend(producer_id=i, sequence_id=9)) for i in range(3)))
    assert sorted(command.consumer_id for command in only(heard, CommandMessage)) == [0, 1, 2]


def test_an_accepted_connection_is_open_from_the_start(bench: Bench) -> None:
    caller = bench.call()
    caller.owner.opened()
    assert caller.heard() == []
