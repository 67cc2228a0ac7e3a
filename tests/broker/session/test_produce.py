from typing import Any

import pytest

from pulsar_actors.broker.model.interfaces import Address
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.entries import decode_entry
from pulsar_actors.wire.topic_name import TopicName
from tests.support.session_bench import NOBODY, TOPIC, Bench, Caller, frame_of, only, receipts

MODE = pb.ProducerAccessMode


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def caller(bench: Bench) -> Caller:
    return bench.client()


def producer(producer_id: int = 0, request_id: int = 1, **fields: Any) -> pb.CommandProducer:
    return pb.CommandProducer(topic=TOPIC, producer_id=producer_id, request_id=request_id, **fields)


def send(sequence_id: int, producer_id: int = 0, **fields: Any) -> pb.CommandSend:
    return pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id, **fields)


def unload(bench: Bench, moved_to: Address | None = None) -> None:
    bench.broker.cluster.unload(TopicName.parse(TOPIC), moved_to)
    bench.loop.run()


def terminate(bench: Bench) -> None:
    topic: Any = bench.broker.cluster.find_topic(TopicName.parse(TOPIC))
    topic.terminate()
    bench.loop.run()


def test_a_producer_without_a_name_gets_one_of_its_own(caller: Caller) -> None:
    names = {caller.produce(producer_id=i).producer_name for i in range(3)}
    assert len(names) == 3
    assert all(names)


def test_a_producer_keeps_the_name_that_it_came_with_and_is_confirmed_again(caller: Caller) -> None:
    first = caller.produce(producer_name="mine")
    assert first.producer_name == "mine"
    first.request_id = 9
    assert caller.ask(producer(request_id=9)) == first


@pytest.mark.parametrize(
    ("fields", "highest"),
    [({"highest_sequence_id": 9, "num_messages": 5}, 9), ({}, NOBODY), ({"highest_sequence_id": 2}, NOBODY)],
    ids=["a batch", "a lone message", "below the lowest"],
)
def test_a_receipt_has_the_highest_sequence_id_if_there_is_one(
    caller: Caller, fields: dict[str, Any], highest: int
) -> None:
    caller.produce()
    (receipt,) = only(caller.send(send(5, **fields), num_messages_in_batch=5), pb.CommandSendReceipt)
    assert (receipt.sequence_id, receipt.highest_sequence_id) == (5, highest)


def test_what_was_sent_is_delivered_byte_for_byte(bench: Bench, caller: Caller) -> None:
    caller.produce()
    caller.consume(permits=10)
    frame = frame_of(send(0), b"payload", partition_key="key")
    heard = caller.feed(frame)
    assert only(heard, pb.CommandMessage)
    assert frame.endswith(bytes(caller.entries[0]))
    assert decode_entry(caller.entries[0]).metadata.partition_key == "key"


def test_a_payload_that_is_not_what_was_summed_fails_alone(caller: Caller) -> None:
    caller.produce()
    broken = bytearray(frame_of(send(1)))
    broken[-1] ^= 1
    heard = caller.feed(frame_of(send(0)) + bytes(broken) + frame_of(send(2)))
    assert receipts(heard) == [0, 2]
    assert heard[1] == pb.CommandSendError(
        producer_id=0, sequence_id=1, error=pb.ServerError.ChecksumError, message="Checksum failed on the broker"
    )


def test_an_entry_that_cannot_be_read_is_stored_like_any_other(caller: Caller) -> None:
    caller.produce()
    caller.consume(permits=5)
    whole = frame_of(send(1))
    entry = b"\x00\x00\xff\xff"  # metadata that is longer than its frame
    head = whole[8 : 8 + int.from_bytes(whole[4:8], "big")]
    sizes = (4 + len(head) + len(entry)).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    assert receipts(caller.feed(sizes + head + entry)) == [1]
    assert [bytes(each) for each in caller.entries] == [entry]


def test_a_message_for_no_producer_ends_the_connection(caller: Caller) -> None:
    assert caller.send(send(0, producer_id=5)) == []
    assert caller.is_closed


def test_a_closed_producer_is_gone(caller: Caller) -> None:
    caller.produce(producer_name="mine")
    assert caller.say(pb.CommandCloseProducer(producer_id=0, request_id=3)) == [pb.CommandSuccess(request_id=3)]
    assert caller.produce(producer_id=1, producer_name="mine").producer_name == "mine"
    assert caller.say(pb.CommandCloseProducer(producer_id=0, request_id=4)) == [pb.CommandSuccess(request_id=4)]


def test_an_unload_closes_the_producer_and_what_was_on_its_way_is_forgotten(bench: Bench, caller: Caller) -> None:
    caller.produce()
    unload(bench)
    assert caller.heard() == [pb.CommandCloseProducer(producer_id=0, request_id=NOBODY)]
    assert caller.send(send(0)) == []
    assert caller.say(pb.CommandCloseProducer(producer_id=0, request_id=4)) == [pb.CommandSuccess(request_id=4)]
    caller.produce()
    assert receipts(caller.send(send(0))) == [0]


def test_a_producer_that_moves_is_told_where_to(bench: Bench, caller: Caller) -> None:
    caller.produce()
    unload(bench, Address("pulsar://there:1", "pulsar+ssl://there:2"))
    (closed,) = only(caller.heard(), pb.CommandCloseProducer)
    assert closed.assignedBrokerServiceUrl == "pulsar://there:1"
    assert closed.assignedBrokerServiceUrlTls == "pulsar+ssl://there:2"


def exclusive(mode: "pb.ProducerAccessMode.ValueType", **fields: Any) -> pb.CommandProducer:
    return producer(producer_access_mode=mode, **fields)


def test_who_waits_for_the_topic_is_told_twice(bench: Bench, caller: Caller) -> None:
    first = caller.ask(exclusive(MODE.Exclusive))
    assert (first.producer_ready, first.topic_epoch) == (True, 0)
    waiting = bench.client()
    queued = waiting.ask(exclusive(MODE.WaitForExclusive, request_id=7))
    assert (queued.request_id, queued.producer_ready, queued.HasField("topic_epoch")) == (7, False, False)
    waiting.refusal(exclusive(MODE.WaitForExclusive, request_id=8))
    caller.say(pb.CommandCloseProducer(producer_id=0, request_id=2))
    (ready,) = only(waiting.heard(), pb.CommandProducerSuccess)
    assert (ready.request_id, ready.producer_ready, ready.topic_epoch) == (7, True, 1)
    assert ready.producer_name == queued.producer_name
    assert receipts(waiting.send(send(0))) == [0]


def test_who_does_not_understand_a_queue_is_only_told_of_its_end(bench: Bench, caller: Caller) -> None:
    caller.say(exclusive(MODE.Exclusive))
    waiting = bench.client(feature_flags=pb.FeatureFlags())
    assert waiting.say(exclusive(MODE.WaitForExclusive)) == []
    caller.hang_up()
    assert [type(command) for command in waiting.heard()] == [pb.CommandProducerSuccess]


def test_who_waits_on_a_connection_that_ends_does_not_get_the_topic_of_another_one_there(
    bench: Bench, caller: Caller
) -> None:
    caller.say(exclusive(MODE.Exclusive))
    caller.say(exclusive(MODE.WaitForExclusive, producer_id=1, request_id=7))
    waiting = bench.client()
    waiting.say(exclusive(MODE.WaitForExclusive, request_id=8))
    caller.hang_up()
    (ready,) = only(waiting.heard(), pb.CommandProducerSuccess)
    assert (ready.request_id, ready.producer_ready) == (8, True)


def test_a_message_of_a_producer_that_still_waits_ends_the_connection(bench: Bench, caller: Caller) -> None:
    caller.say(exclusive(MODE.Exclusive))
    waiting = bench.client()
    waiting.say(exclusive(MODE.WaitForExclusive))
    waiting.send(send(0))
    assert waiting.is_closed


def test_who_waits_hears_of_the_end_of_the_topic(bench: Bench, caller: Caller) -> None:
    caller.say(exclusive(MODE.Exclusive))
    waiting = bench.client()
    waiting.say(exclusive(MODE.WaitForExclusive, request_id=7))
    terminate(bench)
    unload(bench)
    (refused,) = only(waiting.heard(), pb.CommandError)
    assert (refused.error, refused.request_id) == (pb.ServerError.TopicTerminatedError, 7)


def test_the_end_of_a_topic_closes_its_producers_who_may_not_come_back(bench: Bench, caller: Caller) -> None:
    caller.produce()
    terminate(bench)
    assert [type(each) for each in caller.heard()] == [pb.CommandCloseProducer]
    assert caller.send(send(3)) == []
    assert caller.refusal(producer(request_id=2)).error == pb.ServerError.TopicTerminatedError


def test_a_duplicate_has_a_receipt_that_says_so(bench: Bench, caller: Caller) -> None:
    bench.broker.cluster.namespace("public/default").policies.deduplication = True
    caller.produce(producer_name="mine")
    first, second = (only(caller.send(send(3)), pb.CommandSendReceipt)[0].message_id for _ in range(2))
    assert first.entryId == 0
    assert (second.ledgerId, second.entryId) == (NOBODY, NOBODY)
