from typing import Any

import pytest
from google.protobuf.message import Message
from session_bench import NOBODY, Bench, Caller, messages, only

from pulsar_actors.machines.ledgers.ack_set import from_words, to_words
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseConsumer,
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandError,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandMessage,
    CommandSeek,
    CommandSend,
    CommandSubscribe,
    CommandSuccess,
    MessageIdData,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName

EARLIEST = CommandSubscribe.Earliest


@pytest.fixture
def bench() -> Bench:
    return Bench()


def fill(bench: Bench, times: list[int], **metadata: Any) -> None:
    """Publish one message for each time; it says when it was published."""
    writer = bench.client()
    writer.produce()
    for i, publish_time in enumerate(times):
        writer.send(CommandSend(producer_id=0, sequence_id=i), publish_time=publish_time, **metadata)


def consumer(bench: Bench) -> tuple[Caller, list[tuple[int, int]]]:
    caller = bench.client()
    return caller, messages(caller.consume(permits=100, initialPosition=EARLIEST))


def sought(caller: Caller, **place: Any) -> list[Message]:
    """Seek, and give what is delivered after the consumer is attached again."""
    closed, success = caller.say(CommandSeek(consumer_id=0, request_id=5, **place))
    assert closed == CommandCloseConsumer(consumer_id=0, request_id=NOBODY)
    assert success == CommandSuccess(request_id=5)
    return caller.consume(permits=100)


def test_a_seek_to_a_message_goes_on_with_it(bench: Bench) -> None:
    fill(bench, [1, 2, 3])
    caller, ids = consumer(bench)
    place = MessageIdData(ledgerId=ids[1][0], entryId=ids[1][1])
    assert messages(sought(caller, message_id=place)) == ids[1:]


def test_a_seek_to_a_time_goes_on_with_what_was_published_then(bench: Bench) -> None:
    fill(bench, [1_000, 2_000, 3_000])
    caller, ids = consumer(bench)
    assert messages(sought(caller, message_publish_time=2_000)) == ids[1:]


def test_a_seek_to_either_end_goes_there(bench: Bench) -> None:
    fill(bench, [1, 2, 3])
    caller, ids = consumer(bench)
    end = 2**63 - 1
    assert messages(sought(caller, message_id=MessageIdData(ledgerId=end, entryId=end))) == []
    assert messages(sought(caller, message_id=MessageIdData(ledgerId=NOBODY, entryId=NOBODY))) == ids


def test_a_seek_into_a_batch_delivers_the_rest_of_it(bench: Bench) -> None:
    fill(bench, [1], num_messages_in_batch=4)
    caller, ids = consumer(bench)
    place = MessageIdData(ledgerId=ids[0][0], entryId=ids[0][1], batch_index=2, ack_set=to_words(0b1100))
    (message,) = only(sought(caller, message_id=place), CommandMessage)
    assert from_words(message.ack_set) == 0b1100


def refused(caller: Caller, command: Message) -> tuple["ServerError.ValueType", str]:
    (error,) = caller.say(command)
    assert isinstance(error, CommandError)
    return error.error, error.message


def test_a_seek_to_nowhere_is_refused(bench: Bench) -> None:
    caller, _ = consumer(bench)
    text = "Message id and message publish time were not present"
    assert refused(caller, CommandSeek(consumer_id=0, request_id=5)) == (ServerError.MetadataError, text)


@pytest.mark.parametrize("kind", [CommandSeek, CommandGetLastMessageId])
def test_a_question_about_no_consumer_is_refused(bench: Bench, kind: Any) -> None:
    caller = bench.client()
    assert refused(caller, kind(consumer_id=3, request_id=5)) == (ServerError.MetadataError, "Consumer not found")


def last(caller: Caller) -> CommandGetLastMessageIdResponse:
    (answer,) = caller.say(CommandGetLastMessageId(consumer_id=0, request_id=5))
    assert isinstance(answer, CommandGetLastMessageIdResponse)
    return answer


def test_the_last_message_of_an_empty_topic_is_none(bench: Bench) -> None:
    caller, _ = consumer(bench)
    assert last(caller).last_message_id == MessageIdData(ledgerId=NOBODY, entryId=NOBODY, partition=-1, batch_index=-1)


def test_the_last_message_has_an_index_if_it_is_in_a_batch(bench: Bench) -> None:
    caller = bench.client()
    caller.consume()
    fill(bench, [1, 2])
    answer = last(caller)
    assert (answer.request_id, answer.last_message_id.entryId) == (5, 1)
    assert answer.last_message_id.batch_index == -1
    fill(bench, [3], num_messages_in_batch=4)
    assert last(caller).last_message_id.batch_index == 3


def test_the_last_message_of_a_partition_says_which(bench: Bench) -> None:
    bench.broker.cluster.create_partitioned(TopicName.parse("parts"), 3)
    caller = bench.client()
    caller.consume("parts-partition-2")
    assert last(caller).last_message_id.partition == 2


def test_the_statistics_of_a_consumer_are_those_of_its_topic(bench: Bench) -> None:
    fill(bench, [1, 2, 3])
    caller = bench.client()
    shared = CommandSubscribe.Shared
    caller.consume(permits=2, initialPosition=EARLIEST, consumer_name="me", subType=shared)
    (answer,) = caller.say(CommandConsumerStats(consumer_id=0, request_id=5))
    assert isinstance(answer, CommandConsumerStatsResponse)
    assert (answer.consumerName, answer.unackedMessages, answer.msgBacklog, answer.availablePermits) == ("me", 2, 3, 0)
    assert answer.type == "Shared"
    assert not answer.HasField("error_code")


def test_statistics_of_no_consumer_are_an_error(bench: Bench) -> None:
    (answer,) = bench.client().say(CommandConsumerStats(consumer_id=0, request_id=5))
    assert isinstance(answer, CommandConsumerStatsResponse)
    assert (answer.request_id, answer.error_code) == (5, ServerError.ConsumerNotFound)
