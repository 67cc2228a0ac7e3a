from typing import Any

import pytest
from google.protobuf.message import Message

from pulsar_actors.broker.model.interfaces import Address
from pulsar_actors.machines.trackers.ack_set import from_words, full, to_words
from pulsar_actors.wire.entries import open_entry
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandError,
    CommandFlow,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandMessage,
    CommandReachedEndOfTopic,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSend,
    CommandSubscribe,
    CommandSuccess,
    CommandUnsubscribe,
    FeatureFlags,
    MessageIdData,
    Schema,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName
from tests.support.session_bench import NOBODY, TOPIC, Bench, Caller, messages, only

SHARED, FAILOVER = CommandSubscribe.Shared, CommandSubscribe.Failover


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def caller(bench: Bench) -> Caller:
    return bench.client()


def publish(bench: Bench, *payloads: bytes, **metadata: Any) -> None:
    writer = bench.client()
    writer.produce()
    for i, payload in enumerate(payloads):
        writer.send(CommandSend(producer_id=0, sequence_id=i), payload, **metadata)
    writer.hang_up()


def payloads(caller: Caller) -> list[bytes]:
    return [bytes(open_entry(entry).payload) for entry in caller.entries]


def test_nothing_is_delivered_without_permits(bench: Bench, caller: Caller) -> None:
    caller.consume()
    publish(bench, b"0", b"1", b"2")
    assert caller.heard() == []
    assert len(messages(caller.say(CommandFlow(consumer_id=0, messagePermits=2)))) == 2
    assert len(messages(caller.say(CommandFlow(consumer_id=0, messagePermits=2)))) == 1


def test_permits_for_a_consumer_that_is_gone_mean_nothing(caller: Caller) -> None:
    assert caller.say(CommandFlow(consumer_id=9, messagePermits=2)) == []
    assert not caller.is_closed


def test_a_message_of_a_partition_says_which(bench: Bench, caller: Caller) -> None:
    bench.broker.cluster.create_partitioned(TopicName.parse("parts"), 3)
    for i in (0, 2):
        caller.produce(f"parts-partition-{i}", i)
        caller.consume(f"parts-partition-{i}", i, permits=1)
        (message,) = only(caller.send(CommandSend(producer_id=i, sequence_id=0)), CommandMessage)
        assert message.message_id.partition == i


def test_a_message_says_its_epoch_if_the_consumer_has_one(bench: Bench, caller: Caller) -> None:
    caller.consume(permits=1, consumer_epoch=4)
    other = bench.client()
    other.consume(permits=1, subscription="other")
    publish(bench, b"0")
    assert [each.consumer_epoch for each in only(caller.heard(), CommandMessage)] == [4]
    assert not only(other.heard(), CommandMessage)[0].HasField("consumer_epoch")


@pytest.mark.parametrize(
    "flags", [FeatureFlags(supports_broker_entry_metadata=True), FeatureFlags()], ids=["understands", "does not"]
)
def test_the_brokers_metadata_is_for_clients_that_understand_it(flags: FeatureFlags) -> None:
    bench = Bench(broker_entry_metadata=True)
    caller = bench.client(feature_flags=flags)
    caller.consume(permits=9)
    publish(bench, b"0", b"1")
    caller.heard()
    found = [open_entry(entry).broker_metadata for entry in caller.entries]
    if flags.supports_broker_entry_metadata:
        assert [each.index for each in found if each is not None] == [0, 1]
        assert [each.broker_timestamp for each in found if each is not None] == [bench.loop.wall_clock_ms()] * 2
    else:
        assert found == [None, None]


def test_the_brokers_metadata_is_only_added_where_that_is_switched_on(bench: Bench) -> None:
    caller = bench.client(feature_flags=FeatureFlags(supports_broker_entry_metadata=True))
    caller.consume(permits=9)
    publish(bench, b"0")
    caller.heard()
    assert open_entry(caller.entries[0]).broker_metadata is None


def test_a_second_exclusive_consumer_is_refused(bench: Bench, caller: Caller) -> None:
    caller.consume()
    again = CommandSubscribe(
        topic=TOPIC, subscription="s", subType=CommandSubscribe.Exclusive, consumer_id=0, request_id=5
    )
    (error,) = bench.client().say(again)
    assert error == CommandError(
        request_id=5, error=ServerError.ConsumerBusy, message="Exclusive consumer is already connected"
    )


def test_whose_turn_it_is_is_said_after_the_subscription_is_confirmed(bench: Bench, caller: Caller) -> None:
    topic = "consuming-0"  # as in tests/vectors/consuming.jsonl, for the topic's name decides who is first
    caller.consume(topic, subType=FAILOVER, consumer_name="a")
    bench.loop.advance(1.1)  # as long as a broker waits after a change
    assert caller.heard() == [CommandActiveConsumerChange(consumer_id=0, is_active=True)]
    second = bench.client()
    assert second.consume(topic, subType=FAILOVER, consumer_name="b") == [
        CommandActiveConsumerChange(consumer_id=0, is_active=False)
    ]
    caller.hang_up()
    bench.loop.advance(1.1)
    assert second.heard() == [CommandActiveConsumerChange(consumer_id=0, is_active=True)]


def test_the_end_of_a_topic_is_said(bench: Bench, caller: Caller) -> None:
    caller.consume(permits=10)
    topic = bench.broker.cluster.find_topic(TopicName.parse(TOPIC))
    assert topic is not None
    topic.terminate()
    bench.loop.run()
    assert caller.heard() == [CommandReachedEndOfTopic(consumer_id=0)]


def test_a_closed_consumer_is_gone(bench: Bench, caller: Caller) -> None:
    caller.consume()
    assert caller.say(CommandCloseConsumer(consumer_id=0, request_id=3)) == [CommandSuccess(request_id=3)]
    bench.client().consume()
    assert caller.say(CommandCloseConsumer(consumer_id=0, request_id=4)) == [CommandSuccess(request_id=4)]


def test_an_unload_closes_the_consumer_and_may_say_where_to(bench: Bench, caller: Caller) -> None:
    caller.consume()
    bench.broker.cluster.unload(TopicName.parse(TOPIC))
    bench.loop.run()
    assert caller.heard() == [CommandCloseConsumer(consumer_id=0, request_id=NOBODY)]
    caller.consume()
    bench.broker.cluster.unload(TopicName.parse(TOPIC), Address("pulsar://there:1", "pulsar+ssl://there:2"))
    bench.loop.run()
    (closed,) = caller.heard()
    assert isinstance(closed, CommandCloseConsumer)
    assert closed.assignedBrokerServiceUrl == "pulsar://there:1"
    assert closed.assignedBrokerServiceUrlTls == "pulsar+ssl://there:2"


def test_an_unsubscribed_consumer_and_its_subscription_are_gone(bench: Bench, caller: Caller) -> None:
    caller.consume()
    assert caller.say(CommandUnsubscribe(consumer_id=0, request_id=3)) == [CommandSuccess(request_id=3)]
    topic = bench.broker.cluster.find_topic(TopicName.parse(TOPIC))
    assert topic is not None
    assert topic.subscriptions == {}
    (error,) = caller.say(CommandUnsubscribe(consumer_id=0, request_id=4))
    assert isinstance(error, CommandError)
    assert error.error == ServerError.MetadataError


def test_a_subscription_that_others_use_stays(bench: Bench, caller: Caller) -> None:
    caller.consume(subType=SHARED)
    other = bench.client()
    other.consume(subType=SHARED)
    (error,) = caller.say(CommandUnsubscribe(consumer_id=0, request_id=3))
    assert isinstance(error, CommandError)
    assert error.error == ServerError.MetadataError


def test_a_topic_that_may_not_be_made_is_not_found(bench: Bench, caller: Caller) -> None:
    asked = CommandSubscribe(
        topic="other",
        subscription="s",
        subType=CommandSubscribe.Exclusive,
        consumer_id=0,
        request_id=5,
        force_topic_creation=False,
    )
    (error,) = caller.say(asked)
    assert isinstance(error, CommandError)
    assert error.error == ServerError.TopicNotFound


def test_a_new_subscription_begins_where_it_was_said(bench: Bench) -> None:
    publish(bench, b"0", b"1", b"2")
    earliest, latest, reader = bench.client(), bench.client(), bench.client()
    earliest.consume(permits=9, subscription="earliest", initialPosition=CommandSubscribe.Earliest)
    latest.consume(permits=9, subscription="latest")
    ids = messages(earliest.heard()) or [(0, 0)]
    assert len(payloads(earliest)) == 3
    assert payloads(latest) == []
    first = MessageIdData(ledgerId=only_ledger(bench), entryId=0)
    reader.consume(permits=9, subscription="reader", durable=False, start_message_id=first)
    assert payloads(reader)[-2:] == [b"1", b"2"]
    assert ids


def only_ledger(bench: Bench) -> int:
    topic = bench.broker.cluster.find_topic(TopicName.parse(TOPIC))
    assert topic is not None
    return topic.last_position().ledger_id


def test_a_schema_that_only_asks_for_the_topics_own_fits_any(bench: Bench, caller: Caller) -> None:
    caller.produce(schema=Schema(name="s", type=Schema.String, schema_data=b""))
    caller.consume(schema=Schema(name="AutoConsume", type=Schema.AutoConsume, schema_data=b""))
    other = Schema(name="s", type=Schema.Int32, schema_data=b"")
    asked = CommandSubscribe(topic=TOPIC, subscription="x", subType=SHARED, consumer_id=7, request_id=5, schema=other)
    (error,) = caller.say(asked)
    assert isinstance(error, CommandError)
    assert error.error == ServerError.IncompatibleSchema


def test_a_client_may_subscribe_the_same_consumer_again(bench: Bench) -> None:
    caller = bench.client()
    caller.consume()
    again = CommandSubscribe(
        topic=TOPIC, subscription="s", subType=CommandSubscribe.Exclusive, consumer_id=0, request_id=7
    )
    assert caller.say(again) == [CommandSuccess(request_id=7)]


INDIVIDUAL, CUMULATIVE = CommandAck.Individual, CommandAck.Cumulative


def fill(bench: Bench, count: int, **metadata: Any) -> None:
    writer = bench.client()
    writer.produce()
    for i in range(count):
        writer.send(CommandSend(producer_id=0, sequence_id=i), b"%d" % i, **metadata)


def shared(bench: Bench, permits: int = 100, **fields: Any) -> tuple[Caller, list[tuple[int, int]]]:
    """Give a consumer of a Shared subscription, and the ids of what it was sent."""
    caller = bench.client()
    options: dict[str, Any] = {"subType": CommandSubscribe.Shared, **fields}
    heard = caller.consume(permits=permits, initialPosition=CommandSubscribe.Earliest, **options)
    return caller, messages(heard)


def ack(*ids: tuple[int, int], kind: Any = INDIVIDUAL, **fields: Any) -> CommandAck:
    named = [MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in ids]
    return CommandAck(consumer_id=0, ack_type=kind, message_id=named, **fields)


def left_for_the_next(bench: Bench, caller: Caller, **fields: Any) -> list[tuple[int, int]]:
    caller.hang_up()
    return shared(bench, **fields)[1]


def test_what_is_acknowledged_is_not_delivered_again(bench: Bench) -> None:
    fill(bench, 5)
    caller, ids = shared(bench)
    assert caller.say(ack(ids[1], ids[3])) == []
    assert left_for_the_next(bench, caller) == [ids[0], ids[2], ids[4]]


def test_a_cumulative_acknowledgement_covers_all_before_it(bench: Bench) -> None:
    fill(bench, 5)
    caller, ids = shared(bench, subType=CommandSubscribe.Exclusive)
    caller.say(ack(ids[2], kind=CUMULATIVE))
    assert left_for_the_next(bench, caller, subType=CommandSubscribe.Exclusive) == ids[3:]


def test_an_acknowledgement_is_confirmed_if_that_is_wanted(bench: Bench) -> None:
    fill(bench, 1)
    caller, ids = shared(bench)
    assert caller.say(ack(*ids, request_id=77)) == [CommandAckResponse(consumer_id=0, request_id=77)]


def test_what_cannot_be_read_is_acknowledged_like_anything_else(bench: Bench) -> None:
    fill(bench, 2)
    caller, ids = shared(bench)
    caller.say(ack(ids[0], validation_error=CommandAck.ValidationError.ChecksumMismatch))
    assert left_for_the_next(bench, caller) == ids[1:]


def test_messages_of_a_batch_are_acknowledged_by_their_index(bench: Bench) -> None:
    fill(bench, 1, num_messages_in_batch=4)
    caller, ids = shared(bench)
    named = MessageIdData(ledgerId=ids[0][0], entryId=ids[0][1], ack_set=to_words(full(4) & ~0b0101))
    caller.say(CommandAck(consumer_id=0, ack_type=INDIVIDUAL, message_id=[named]))
    (again,) = only(caller.say(CommandRedeliverUnacknowledgedMessages(consumer_id=0)), CommandMessage)
    assert from_words(again.ack_set) == 0b1010
    assert again.redelivery_count == 1


def test_an_acknowledgement_for_a_consumer_that_is_gone_means_nothing(bench: Bench) -> None:
    caller = bench.client()
    assert caller.say(ack((1, 1)), ack((1, 1), request_id=5)) == []
    assert not caller.is_closed


@pytest.mark.parametrize("count", [0, 2])
def test_a_cumulative_acknowledgement_that_does_not_name_one_message_means_nothing(bench: Bench, count: int) -> None:
    fill(bench, 3)
    caller, ids = shared(bench, subType=CommandSubscribe.Exclusive)
    (answer,) = caller.say(ack(*ids[:count], kind=CUMULATIVE, request_id=5))
    assert answer == CommandAckResponse(consumer_id=0, request_id=5)
    assert left_for_the_next(bench, caller, subType=CommandSubscribe.Exclusive) == ids


def test_an_acknowledgement_in_a_transaction_is_refused(bench: Bench) -> None:
    fill(bench, 1)
    caller, ids = shared(bench)
    (answer,) = caller.say(ack(*ids, txnid_least_bits=1, txnid_most_bits=1, request_id=5))
    assert isinstance(answer, CommandAckResponse)
    assert answer.error == ServerError.NotAllowedError
    assert caller.say(ack(*ids, txnid_least_bits=1, txnid_most_bits=1)) == []
    assert left_for_the_next(bench, caller) == ids


def test_what_is_wanted_again_comes_again_and_is_counted(bench: Bench) -> None:
    fill(bench, 3)
    caller, ids = shared(bench)
    wanted = MessageIdData(ledgerId=ids[1][0], entryId=ids[1][1])
    for count in (1, 2):
        (again,) = caller.say(CommandRedeliverUnacknowledgedMessages(consumer_id=0, message_ids=[wanted]))
        assert isinstance(again, CommandMessage)
        assert (again.message_id.entryId, again.redelivery_count) == (1, count)


def test_all_come_again_if_none_is_named(bench: Bench) -> None:
    fill(bench, 3)
    caller, ids = shared(bench)
    caller.say(ack(ids[0]))
    assert messages(caller.say(CommandRedeliverUnacknowledgedMessages(consumer_id=0))) == ids[1:]


def test_what_comes_again_has_the_epoch_that_it_was_wanted_with(bench: Bench) -> None:
    fill(bench, 2)
    caller, _ = shared(bench, subType=CommandSubscribe.Exclusive, consumer_epoch=0)
    heard = caller.say(
        CommandRedeliverUnacknowledgedMessages(consumer_id=0, consumer_epoch=3),
        CommandFlow(consumer_id=0, messagePermits=100),
    )
    assert [each.consumer_epoch for each in only(heard, CommandMessage)] == [3, 3]


def test_a_consumer_that_is_gone_gets_nothing_again(bench: Bench) -> None:
    caller = bench.client()
    assert caller.say(CommandRedeliverUnacknowledgedMessages(consumer_id=9)) == []
    assert not caller.is_closed


EARLIEST = CommandSubscribe.Earliest


def publish_at(bench: Bench, times: list[int], **metadata: Any) -> None:
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
    publish_at(bench, [1, 2, 3])
    caller, ids = consumer(bench)
    place = MessageIdData(ledgerId=ids[1][0], entryId=ids[1][1])
    assert messages(sought(caller, message_id=place)) == ids[1:]


def test_a_seek_to_a_time_goes_on_with_what_was_published_then(bench: Bench) -> None:
    publish_at(bench, [1_000, 2_000, 3_000])
    caller, ids = consumer(bench)
    assert messages(sought(caller, message_publish_time=2_000)) == ids[1:]


def test_a_seek_to_either_end_goes_there(bench: Bench) -> None:
    publish_at(bench, [1, 2, 3])
    caller, ids = consumer(bench)
    end = 2**63 - 1
    assert messages(sought(caller, message_id=MessageIdData(ledgerId=end, entryId=end))) == []
    assert messages(sought(caller, message_id=MessageIdData(ledgerId=NOBODY, entryId=NOBODY))) == ids


def test_a_seek_into_a_batch_delivers_the_rest_of_it(bench: Bench) -> None:
    publish_at(bench, [1], num_messages_in_batch=4)
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
    publish_at(bench, [1, 2])
    answer = last(caller)
    assert (answer.request_id, answer.last_message_id.entryId) == (5, 1)
    assert answer.last_message_id.batch_index == -1
    publish_at(bench, [3], num_messages_in_batch=4)
    assert last(caller).last_message_id.batch_index == 3


def test_the_last_message_of_a_partition_says_which(bench: Bench) -> None:
    bench.broker.cluster.create_partitioned(TopicName.parse("parts"), 3)
    caller = bench.client()
    caller.consume("parts-partition-2")
    assert last(caller).last_message_id.partition == 2


def test_the_statistics_of_a_consumer_are_those_of_its_topic(bench: Bench) -> None:
    publish_at(bench, [1, 2, 3])
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
