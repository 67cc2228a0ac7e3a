from typing import Any

import pytest

from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.frames import encode_command
from tests.support.session_bench import TOPIC, Bench, connect_command, frame_of, messages, only, receipts


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_anything_before_connect_ends_the_connection(bench: Bench) -> None:
    caller = bench.call()
    assert caller.say(pb.CommandProducer(topic="t", producer_id=1, request_id=1)) == []
    assert caller.is_closed


SENSELESS = [
    pytest.param(b"\x00\x00\x00\x00", id="a frame of nothing"),
    pytest.param(b"\xff\xff\xff\xff", id="a frame of four gigabytes"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
    pytest.param(b"\x00\x00\x00\x06\x00\x00\x00\x02\xff\xff", id="no command"),
    pytest.param(b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x7e", id="an unknown command"),
    pytest.param(encode_command(pb.CommandConnected(server_version="s")), id="a command of brokers"),
]


@pytest.mark.parametrize("data", SENSELESS)
def test_what_makes_no_sense_ends_the_connection(bench: Bench, data: bytes) -> None:
    caller = bench.client()
    caller.feed(encode_command(pb.CommandPing()) + data + encode_command(pb.CommandPing()))
    assert caller.is_closed
    assert caller.say(pb.CommandPing()) == []


def test_a_frame_over_the_limit_ends_the_connection_and_one_at_the_limit_does_not(bench: Bench) -> None:
    limit = 5 * 1024 * 1024 + 10 * 1024
    for excess, closed in ((0, False), (1, True)):
        caller = bench.client()
        caller.produce()
        send = pb.CommandSend(producer_id=0, sequence_id=1)
        without = len(frame_of(send, b""))
        caller.send(send, bytes(limit + 4 - without + excess))
        assert caller.is_closed is closed


def test_commands_may_come_a_byte_at_a_time(bench: Bench) -> None:
    caller = bench.call()
    data = encode_command(connect_command()) + encode_command(pb.CommandPing())
    heard = [command for i in range(len(data)) for command in caller.feed(data[i : i + 1])]
    assert [type(command) for command in heard] == [pb.CommandConnected, pb.CommandPong]


def test_many_commands_of_one_read_are_answered_in_order_with_one_write(bench: Bench) -> None:
    caller = bench.client()
    caller.produce()
    before = caller.wire.writes
    heard = caller.feed(b"".join(frame_of(pb.CommandSend(producer_id=0, sequence_id=i)) for i in range(100)))
    assert receipts(heard) == list(range(100))
    ids = [each.message_id for each in only(heard, pb.CommandSendReceipt)]
    assert [each.entryId for each in ids] == list(range(100))
    assert len({each.ledgerId for each in ids}) == 1
    assert caller.wire.writes == before + 1


def test_a_ping_is_answered(bench: Bench) -> None:
    assert bench.client().say(pb.CommandPing(), pb.CommandPing()) == [pb.CommandPong(), pb.CommandPong()]
    assert bench.call().say(pb.CommandPing()) == [pb.CommandPong()]  # before CONNECT too, as a real broker does


def test_a_topic_name_that_is_none_is_refused_in_the_form_of_the_question(bench: Bench) -> None:
    caller = bench.client()
    name = "persistent://a"
    lookup = caller.ask(pb.CommandLookupTopic(topic=name, request_id=5))
    assert isinstance(lookup, pb.CommandLookupTopicResponse)
    assert (lookup.request_id, lookup.error) == (5, pb.ServerError.InvalidTopicName)
    producer = caller.refusal(pb.CommandProducer(topic=name, producer_id=1, request_id=6))
    assert (producer.request_id, producer.error) == (6, pb.ServerError.InvalidTopicName)
    assert "is not the name of a topic" in producer.message


def test_a_bug_costs_the_connection_that_met_it_and_is_logged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(*_: Any, **__: Any) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(bench.broker.cluster, "partitions", bug)
    met, other = bench.client(), bench.client()
    assert met.say(pb.CommandPartitionedTopicMetadata(topic="t", request_id=1)) == []
    assert met.is_closed
    assert "the broker cannot handle a CommandPartitionedTopicMetadata" in caplog.text
    assert other.say(pb.CommandPing()) == [pb.CommandPong()]


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
        caller.consume(consumer_id=consumer_id, subType=pb.CommandSubscribe.Failover, consumer_name=f"c{consumer_id}")
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
    caller.owner.opened()
    caller.owner.lost("the client has gone")
    assert caller.say(pb.CommandPing()) == []


def test_a_client_that_does_not_read_is_sent_a_bounded_amount_and_later_everything(bench: Bench) -> None:
    writer, reader = bench.client(), bench.client()
    writer.produce()
    reader.consume()
    reader.make_room(0)
    reader.say(pb.CommandFlow(consumer_id=0, messagePermits=1_000))
    payload = bytes(100_000)
    for i in range(100):
        writer.send(pb.CommandSend(producer_id=0, sequence_id=i), payload)
    waiting: Any = reader.owner._out  # what lies in memory cannot be seen from outside
    assert waiting._bytes < 3_000_000
    got: list[tuple[int, int]] = []
    while len(got) < 100:
        heard = messages(reader.make_room(300_000))
        assert heard, "it stands still"
        got += heard
    assert got == sorted(set(got))
    assert len(got) == 100


def test_a_connection_serves_many_topics_and_a_producer_and_a_consumer_may_have_the_same_id(bench: Bench) -> None:
    caller = bench.client()
    for i in range(3):
        caller.produce(f"{TOPIC}-{i}", i)
        caller.consume(f"{TOPIC}-{i}", i, permits=1)
    heard = caller.feed(b"".join(frame_of(pb.CommandSend(producer_id=i, sequence_id=9)) for i in range(3)))
    assert receipts(heard) == [9, 9, 9]
    assert sorted(command.consumer_id for command in only(heard, pb.CommandMessage)) == [0, 1, 2]
