from typing import Any

import pytest

from pulsar_actors.broker.model.interfaces import Address
from pulsar_actors.wire.entries import decode_entry
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseProducer,
    CommandError,
    CommandMessage,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    FeatureFlags,
    ProducerAccessMode,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName
from tests.support.session_bench import NOBODY, TOPIC, Bench, Caller, frame_of, only, receipts


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def caller(bench: Bench) -> Caller:
    return bench.client()


def producer(producer_id: int = 0, request_id: int = 1, **fields: Any) -> CommandProducer:
    return CommandProducer(topic=TOPIC, producer_id=producer_id, request_id=request_id, **fields)


def send(sequence_id: int, producer_id: int = 0, **fields: Any) -> CommandSend:
    return CommandSend(producer_id=producer_id, sequence_id=sequence_id, **fields)


def unload(bench: Bench, moved_to: Address | None = None) -> None:
    bench.broker.cluster.unload(TopicName.parse(TOPIC), moved_to)
    bench.loop.run()


def test_a_producer_without_a_name_gets_one_of_its_own(caller: Caller) -> None:
    names = {caller.produce(producer_id=i).producer_name for i in range(3)}
    assert len(names) == 3
    assert all(names)


def test_a_producer_keeps_the_name_that_it_came_with(caller: Caller) -> None:
    assert caller.produce(producer_name="mine").producer_name == "mine"


def test_a_producer_that_is_there_is_confirmed_again(caller: Caller) -> None:
    first = caller.produce(producer_name="mine")
    (again,) = caller.say(producer(request_id=9))
    first.request_id = 9
    assert again == first


def test_receipts_come_in_order_with_rising_ids(caller: Caller) -> None:
    caller.produce()
    heard = caller.feed(b"".join(frame_of(send(i)) for i in range(5)))
    assert receipts(heard) == [0, 1, 2, 3, 4]
    assert [each.message_id.entryId for each in only(heard, CommandSendReceipt)] == [0, 1, 2, 3, 4]
    assert len({each.message_id.ledgerId for each in only(heard, CommandSendReceipt)}) == 1


def test_a_batch_gets_one_receipt_with_its_highest_sequence_id(caller: Caller) -> None:
    caller.produce()
    (receipt,) = caller.send(send(5, highest_sequence_id=9, num_messages=5), num_messages_in_batch=5)
    assert isinstance(receipt, CommandSendReceipt)
    assert (receipt.sequence_id, receipt.highest_sequence_id) == (5, 9)


def test_a_lone_message_gets_a_receipt_without_a_highest_sequence_id(caller: Caller) -> None:
    caller.produce()
    (receipt,) = caller.send(send(5))
    assert isinstance(receipt, CommandSendReceipt)
    assert receipt.highest_sequence_id == NOBODY


def test_what_was_sent_is_delivered_byte_for_byte(bench: Bench, caller: Caller) -> None:
    caller.produce()
    caller.consume(permits=10)
    frame = frame_of(send(0), b"payload", partition_key="key")
    heard = caller.feed(frame)
    assert only(heard, CommandMessage)
    assert frame.endswith(bytes(caller.entries[0]))
    assert decode_entry(caller.entries[0]).metadata.partition_key == "key"


def test_a_payload_that_is_not_what_was_summed_fails_alone(caller: Caller) -> None:
    caller.produce()
    broken = bytearray(frame_of(send(1)))
    broken[-1] ^= 1
    heard = caller.feed(frame_of(send(0)) + bytes(broken) + frame_of(send(2)))
    assert receipts(heard) == [0, 2]
    assert heard[1] == CommandSendError(
        producer_id=0, sequence_id=1, error=ServerError.ChecksumError, message="Checksum failed on the broker"
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


def test_a_highest_sequence_id_below_the_lowest_is_none(caller: Caller) -> None:
    caller.produce()
    (receipt,) = caller.send(send(9, highest_sequence_id=2))
    assert isinstance(receipt, CommandSendReceipt)
    assert (receipt.sequence_id, receipt.highest_sequence_id) == (9, NOBODY)


def test_a_message_for_no_producer_ends_the_connection(caller: Caller) -> None:
    assert caller.send(send(0, producer_id=5)) == []
    assert caller.is_closed


def test_a_closed_producer_is_gone(caller: Caller) -> None:
    caller.produce(producer_name="mine")
    assert caller.say(CommandCloseProducer(producer_id=0, request_id=3)) == [CommandSuccess(request_id=3)]
    assert caller.produce(producer_id=1, producer_name="mine").producer_name == "mine"
    assert caller.say(CommandCloseProducer(producer_id=0, request_id=4)) == [CommandSuccess(request_id=4)]


def test_a_name_that_is_in_use_is_busy(bench: Bench, caller: Caller) -> None:
    caller.produce(producer_name="mine")
    (error,) = bench.client().say(producer(producer_name="mine"))
    assert isinstance(error, CommandError)
    assert error.error == ServerError.ProducerBusy


def test_an_unload_closes_the_producer_and_what_was_on_its_way_is_forgotten(bench: Bench, caller: Caller) -> None:
    caller.produce()
    unload(bench)
    assert caller.heard() == [CommandCloseProducer(producer_id=0, request_id=NOBODY)]
    assert caller.send(send(0)) == []
    assert not caller.is_closed
    caller.produce()
    assert receipts(caller.send(send(0))) == [0]


def test_a_producer_that_moves_is_told_where_to(bench: Bench, caller: Caller) -> None:
    caller.produce()
    unload(bench, Address("pulsar://there:1", "pulsar+ssl://there:2"))
    (closed,) = caller.heard()
    assert isinstance(closed, CommandCloseProducer)
    assert closed.assignedBrokerServiceUrl == "pulsar://there:1"
    assert closed.assignedBrokerServiceUrlTls == "pulsar+ssl://there:2"


def test_a_client_may_close_what_the_broker_has_closed(bench: Bench, caller: Caller) -> None:
    caller.produce()
    unload(bench)
    caller.heard()
    assert caller.say(CommandCloseProducer(producer_id=0, request_id=4)) == [CommandSuccess(request_id=4)]


def exclusive(mode: "ProducerAccessMode.ValueType", **fields: Any) -> CommandProducer:
    return producer(producer_access_mode=mode, **fields)


def test_who_waits_for_the_topic_is_told_twice(bench: Bench, caller: Caller) -> None:
    (first,) = caller.say(exclusive(ProducerAccessMode.Exclusive))
    assert isinstance(first, CommandProducerSuccess)
    assert (first.producer_ready, first.topic_epoch) == (True, 0)
    waiting = bench.client()
    (queued,) = waiting.say(exclusive(ProducerAccessMode.WaitForExclusive, request_id=7))
    assert isinstance(queued, CommandProducerSuccess)
    assert (queued.request_id, queued.producer_ready, queued.HasField("topic_epoch")) == (7, False, False)
    (present,) = waiting.say(exclusive(ProducerAccessMode.WaitForExclusive, request_id=8))
    assert isinstance(present, CommandError)
    caller.say(CommandCloseProducer(producer_id=0, request_id=2))
    (ready,) = waiting.heard()
    assert isinstance(ready, CommandProducerSuccess)
    assert (ready.request_id, ready.producer_ready, ready.topic_epoch) == (7, True, 1)
    assert ready.producer_name == queued.producer_name
    assert receipts(waiting.send(send(0))) == [0]


def test_who_does_not_understand_a_queue_is_only_told_of_its_end(bench: Bench, caller: Caller) -> None:
    caller.say(exclusive(ProducerAccessMode.Exclusive))
    waiting = bench.client(feature_flags=FeatureFlags())
    assert waiting.say(exclusive(ProducerAccessMode.WaitForExclusive)) == []
    caller.hang_up()
    assert [type(command) for command in waiting.heard()] == [CommandProducerSuccess]


def test_a_message_of_a_producer_that_still_waits_ends_the_connection(bench: Bench, caller: Caller) -> None:
    caller.say(exclusive(ProducerAccessMode.Exclusive))
    waiting = bench.client()
    waiting.say(exclusive(ProducerAccessMode.WaitForExclusive))
    waiting.send(send(0))
    assert waiting.is_closed


def test_who_waits_hears_of_the_end_of_the_topic(bench: Bench, caller: Caller) -> None:
    caller.say(exclusive(ProducerAccessMode.Exclusive))
    waiting = bench.client()
    waiting.say(exclusive(ProducerAccessMode.WaitForExclusive, request_id=7))
    topic = bench.broker.cluster.find_topic(TopicName.parse(TOPIC))
    assert topic is not None
    topic.terminate()
    unload(bench)
    (refused,) = only(waiting.heard(), CommandError)
    assert (refused.error, refused.request_id) == (ServerError.TopicTerminatedError, 7)


def test_the_end_of_a_topic_closes_its_producers_who_may_not_come_back(bench: Bench, caller: Caller) -> None:
    caller.produce()
    topic = bench.broker.cluster.find_topic(TopicName.parse(TOPIC))
    assert topic is not None
    topic.terminate()
    bench.loop.run()
    assert [type(each) for each in caller.heard()] == [CommandCloseProducer]
    assert caller.send(send(3)) == []
    (refused,) = only(caller.say(producer(request_id=2)), CommandError)
    assert refused.error == ServerError.TopicTerminatedError


def test_a_duplicate_has_a_receipt_that_says_so(bench: Bench, caller: Caller) -> None:
    bench.broker.cluster.namespace("public/default").policies.deduplication = True
    caller.produce(producer_name="mine")
    first, second = (only(caller.send(send(3)), CommandSendReceipt)[0].message_id for _ in range(2))
    assert first.entryId == 0
    assert (second.ledgerId, second.entryId) == (NOBODY, NOBODY)
