from typing import Any

import pytest
from google.protobuf.message import Message

from pulsar_actors.broker.model.interfaces import Address
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.machines.trackers.ack_set import from_words, full, to_words
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.entries import parse_entry
from pulsar_actors.wire.topic_name import TopicName
from tests.support import topics
from tests.support.session_bench import NOBODY, TOPIC, Bench, Caller, messages, only

EXCLUSIVE, SHARED, FAILOVER = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Shared, pb.CommandSubscribe.Failover
INDIVIDUAL, CUMULATIVE = pb.CommandAck.Individual, pb.CommandAck.Cumulative
Ids = list[tuple[int, int]]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def caller(bench: Bench) -> Caller:
    return bench.client()


def subscribe(topic: str = TOPIC, **fields: Any) -> pb.CommandSubscribe:
    asked = {"subscription": "s", "subType": EXCLUSIVE, "consumer_id": 0, "request_id": 5, **fields}
    return pb.CommandSubscribe(topic=topic, **asked)


def publish(bench: Bench, count: int, **metadata: Any) -> None:
    """Publish so many messages; each says it was published a second after the one before."""
    writer = bench.client()
    writer.produce()
    for i in range(count):
        writer.send(pb.CommandSend(producer_id=0, sequence_id=i), b"%d" % i, publish_time=1_000 * (1 + i), **metadata)
    writer.hang_up()


def consumer(bench: Bench, kind: Any = EXCLUSIVE, **fields: Any) -> tuple[Caller, Ids]:
    """Give a consumer with permits, and the ids of what it was sent from the beginning of the topic."""
    caller = bench.client()
    heard = caller.consume(permits=100, initialPosition=pb.CommandSubscribe.Earliest, subType=kind, **fields)
    return caller, messages(heard)


def id_data(place: tuple[int, int], **fields: Any) -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=place[0], entryId=place[1], **fields)


def ack(*ids: tuple[int, int], kind: Any = INDIVIDUAL, **fields: Any) -> pb.CommandAck:
    return pb.CommandAck(consumer_id=0, ack_type=kind, message_id=map(id_data, ids), **fields)


def left_for_the_next(bench: Bench, caller: Caller, kind: Any = EXCLUSIVE) -> Ids:
    caller.hang_up()
    return consumer(bench, kind)[1]


def topic_of(bench: Bench) -> Any:
    return bench.broker.cluster.find_topic(TopicName.parse(TOPIC))


def unload(bench: Bench, moved_to: Address | None = None) -> None:
    bench.broker.cluster.unload(TopicName.parse(TOPIC), moved_to)
    bench.loop.run()


def test_nothing_is_delivered_without_permits(bench: Bench, caller: Caller) -> None:
    caller.consume()
    publish(bench, 3)
    assert caller.heard() == []
    assert len(messages(caller.say(pb.CommandFlow(consumer_id=0, messagePermits=2)))) == 2
    assert len(messages(caller.say(pb.CommandFlow(consumer_id=0, messagePermits=2)))) == 1


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandFlow(consumer_id=9, messagePermits=2),
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=9),
        ack((1, 1)),
        ack((1, 1), request_id=5),
    ],
)
def test_what_is_said_for_a_consumer_that_is_gone_means_nothing(caller: Caller, command: Message) -> None:
    assert caller.say(command) == []
    assert not caller.is_closed


def test_a_message_of_a_partition_says_which_and_so_does_the_last(bench: Bench, caller: Caller) -> None:
    bench.broker.cluster.create_partitioned(TopicName.parse("parts"), 3)
    for i in (0, 2):
        caller.produce(f"parts-partition-{i}", i)
        caller.consume(f"parts-partition-{i}", i, permits=1)
        (message,) = only(caller.send(pb.CommandSend(producer_id=i, sequence_id=0)), pb.CommandMessage)
        last = caller.ask(pb.CommandGetLastMessageId(consumer_id=i, request_id=5))
        assert message.message_id.partition == last.last_message_id.partition == i


def test_a_message_says_its_epoch_if_the_consumer_has_one(bench: Bench, caller: Caller) -> None:
    caller.consume(permits=1, consumer_epoch=4)
    other = bench.client()
    other.consume(permits=1, subscription="other")
    publish(bench, 1)
    assert [each.consumer_epoch for each in only(caller.heard(), pb.CommandMessage)] == [4]
    assert not only(other.heard(), pb.CommandMessage)[0].HasField("consumer_epoch")


@pytest.mark.parametrize(("understands", "switched_on"), [(True, True), (False, True), (True, False)])
def test_the_brokers_metadata_is_for_clients_that_understand_it_where_that_is_switched_on(
    *, understands: bool, switched_on: bool
) -> None:
    bench = Bench(broker_entry_metadata=switched_on)
    caller = bench.client(feature_flags=pb.FeatureFlags(supports_broker_entry_metadata=understands))
    caller.consume(permits=9)
    publish(bench, 2)
    caller.heard()
    found: list[Any] = [parse_entry(entry).broker_metadata for entry in caller.entries]
    if understands and switched_on:
        now = bench.loop.wall_clock_ms()
        assert [(each.index, each.broker_timestamp) for each in found] == [(0, now), (1, now)]
    else:
        assert found == [None, None]


def test_a_second_exclusive_consumer_is_refused(bench: Bench, caller: Caller) -> None:
    caller.consume()
    assert bench.client().refusal(subscribe()) == pb.CommandError(
        request_id=5, error=pb.ServerError.ConsumerBusy, message="Exclusive consumer is already connected"
    )


def test_whose_turn_it_is_is_said_after_the_subscription_is_confirmed(bench: Bench, caller: Caller) -> None:
    topic = "consuming-0"  # as in tests/vectors/consuming.jsonl, for the topic's name decides who is first
    caller.consume(topic, subType=FAILOVER, consumer_name="a")
    bench.loop.advance(1.1)  # as long as a broker waits after a change
    active, standby = (pb.CommandActiveConsumerChange(consumer_id=0, is_active=each) for each in (True, False))
    assert caller.heard() == [active]
    second = bench.client()
    assert second.consume(topic, subType=FAILOVER, consumer_name="b") == [standby]
    caller.hang_up()
    bench.loop.advance(1.1)
    assert second.heard() == [active]


def test_the_end_of_a_topic_is_said(bench: Bench, caller: Caller) -> None:
    caller.consume(permits=10)
    topic_of(bench).terminate()
    bench.loop.run()
    assert caller.heard() == [pb.CommandReachedEndOfTopic(consumer_id=0)]


def test_a_closed_consumer_is_gone(bench: Bench, caller: Caller) -> None:
    caller.consume()
    assert caller.say(pb.CommandCloseConsumer(consumer_id=0, request_id=3)) == [pb.CommandSuccess(request_id=3)]
    bench.client().consume()
    assert caller.say(pb.CommandCloseConsumer(consumer_id=0, request_id=4)) == [pb.CommandSuccess(request_id=4)]


def test_an_unload_closes_the_consumer_and_may_say_where_to(bench: Bench, caller: Caller) -> None:
    caller.consume()
    unload(bench)
    assert caller.heard() == [pb.CommandCloseConsumer(consumer_id=0, request_id=NOBODY)]
    caller.consume()
    unload(bench, Address("pulsar://there:1", "pulsar+ssl://there:2"))
    (closed,) = only(caller.heard(), pb.CommandCloseConsumer)
    assert closed.assignedBrokerServiceUrl == "pulsar://there:1"
    assert closed.assignedBrokerServiceUrlTls == "pulsar+ssl://there:2"


def test_an_unsubscribed_consumer_and_its_subscription_are_gone(bench: Bench, caller: Caller) -> None:
    caller.consume()
    assert caller.say(pb.CommandUnsubscribe(consumer_id=0, request_id=3)) == [pb.CommandSuccess(request_id=3)]
    assert topic_of(bench).subscriptions == {}
    assert caller.refusal(pb.CommandUnsubscribe(consumer_id=0, request_id=4)).error == pb.ServerError.MetadataError


def test_a_consumer_whose_subscription_cannot_be_deleted_is_closed_without_a_word(bench: Bench, caller: Caller) -> None:
    caller.consume()
    topics.fail_deletion(topic_of(bench))
    assert caller.refusal(pb.CommandUnsubscribe(consumer_id=0, request_id=3)).error == pb.ServerError.PersistenceError
    assert only(caller.heard(), pb.CommandCloseConsumer) == []
    assert topic_of(bench).subscriptions["s"].consumers == []
    refused = caller.refusal(pb.CommandGetLastMessageId(consumer_id=0, request_id=4))
    assert refused.message == "Consumer not found"


def test_a_topic_that_may_not_be_made_is_not_found(caller: Caller) -> None:
    assert caller.refusal(subscribe("other", force_topic_creation=False)).error == pb.ServerError.TopicNotFound


def test_a_new_subscription_begins_where_it_was_said(bench: Bench) -> None:
    publish(bench, 3)
    latest, reader = bench.client(), bench.client()
    _, ids = consumer(bench, subscription="earliest")
    assert len(ids) == 3
    assert messages(latest.consume(permits=9, subscription="latest")) == []
    start = id_data(ids[1])
    heard = reader.consume(permits=9, subscription="reader", durable=False, start_message_id=start)
    assert messages(heard) == ids[1:]


def test_a_schema_that_only_asks_for_the_topics_own_fits_any(caller: Caller) -> None:
    caller.produce(schema=pb.Schema(name="s", type=pb.Schema.String, schema_data=b""))
    caller.consume(schema=pb.Schema(name="AutoConsume", type=pb.Schema.AutoConsume, schema_data=b""))
    other = pb.Schema(name="s", type=pb.Schema.Int32, schema_data=b"")
    refusal = caller.refusal(subscribe(subscription="x", consumer_id=7, schema=other))
    assert refusal.error == pb.ServerError.IncompatibleSchema


def test_a_client_may_subscribe_the_same_consumer_again(caller: Caller) -> None:
    caller.consume()
    assert caller.say(subscribe(request_id=7)) == [pb.CommandSuccess(request_id=7)]


def test_what_is_acknowledged_is_not_delivered_again(bench: Bench) -> None:
    publish(bench, 5)
    caller, ids = consumer(bench, SHARED)
    assert caller.say(ack(ids[1], ids[3])) == []
    unreadable = pb.CommandAck.ValidationError.ChecksumMismatch
    assert caller.ask(ack(ids[0], validation_error=unreadable, request_id=77)) == pb.CommandAckResponse(
        consumer_id=0, request_id=77
    )
    assert left_for_the_next(bench, caller, SHARED) == [ids[2], ids[4]]


@pytest.mark.parametrize(("named", "left"), [(slice(2, 3), slice(3, 5)), (slice(0), slice(5)), (slice(2), slice(5))])
def test_a_cumulative_acknowledgement_of_one_message_covers_all_before_it_and_any_other_means_nothing(
    bench: Bench, named: slice, left: slice
) -> None:
    publish(bench, 5)
    caller, ids = consumer(bench)
    answer = caller.ask(ack(*ids[named], kind=CUMULATIVE, request_id=5))
    assert answer == pb.CommandAckResponse(consumer_id=0, request_id=5)
    assert left_for_the_next(bench, caller) == ids[left]


def test_messages_of_a_batch_are_acknowledged_by_their_index(bench: Bench) -> None:
    publish(bench, 1, num_messages_in_batch=4)
    caller, ids = consumer(bench, SHARED)
    named = id_data(ids[0], ack_set=to_words(full(4) & ~0b0101))
    caller.say(pb.CommandAck(consumer_id=0, ack_type=INDIVIDUAL, message_id=[named]))
    (again,) = only(caller.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0)), pb.CommandMessage)
    assert (from_words(again.ack_set), again.redelivery_count) == (0b1010, 1)


def test_where_transactions_are_not_enabled_an_acknowledgement_in_one_is_refused() -> None:
    bench = Bench(settings=Settings(transaction_coordinators=0))
    publish(bench, 1)
    caller, ids = consumer(bench, SHARED)
    answer = caller.ask(ack(*ids, txnid_least_bits=1, txnid_most_bits=1, request_id=5))
    assert (type(answer), answer.error) == (pb.CommandAckResponse, pb.ServerError.NotAllowedError)
    assert caller.say(ack(*ids, txnid_least_bits=1, txnid_most_bits=1)) == []
    assert left_for_the_next(bench, caller, SHARED) == ids


def test_what_is_wanted_again_comes_again_and_is_counted(bench: Bench) -> None:
    publish(bench, 3)
    caller, ids = consumer(bench, SHARED)
    for count in (1, 2):
        again = caller.ask(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0, message_ids=[id_data(ids[1])]))
        assert (again.message_id.entryId, again.redelivery_count) == (1, count)


def test_what_comes_again_has_the_epoch_that_it_was_wanted_with(bench: Bench) -> None:
    publish(bench, 2)
    caller, _ = consumer(bench, consumer_epoch=0)
    heard = caller.say(
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0, consumer_epoch=3),
        pb.CommandFlow(consumer_id=0, messagePermits=100),
    )
    assert [each.consumer_epoch for each in only(heard, pb.CommandMessage)] == [3, 3]


def sought(caller: Caller, **place: Any) -> list[Message]:
    """Seek, and give what is delivered after the consumer is attached again."""
    closed, success = caller.say(pb.CommandSeek(consumer_id=0, request_id=5, **place))
    assert closed == pb.CommandCloseConsumer(consumer_id=0, request_id=NOBODY)
    assert success == pb.CommandSuccess(request_id=5)
    return caller.consume(permits=100)


def test_a_seek_goes_to_a_message_to_a_time_or_to_an_end(bench: Bench) -> None:
    publish(bench, 3)
    caller, ids = consumer(bench)
    assert messages(sought(caller, message_id=id_data(ids[1]))) == ids[1:]
    assert messages(sought(caller, message_publish_time=2_001)) == ids[2:]
    assert messages(sought(caller, message_publish_time=2_000)) == ids[1:]
    assert messages(sought(caller, message_id=id_data((2**63 - 1, 2**63 - 1)))) == []
    assert messages(sought(caller, message_id=id_data((NOBODY, NOBODY)))) == ids


def test_a_seek_into_a_batch_delivers_the_rest_of_it(bench: Bench) -> None:
    publish(bench, 1, num_messages_in_batch=4)
    caller, ids = consumer(bench)
    place = id_data(ids[0], batch_index=2, ack_set=to_words(0b1100))
    (message,) = only(sought(caller, message_id=place), pb.CommandMessage)
    assert from_words(message.ack_set) == 0b1100


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (pb.CommandSeek(consumer_id=0, request_id=5), "Message id and message publish time were not present"),
        (pb.CommandSeek(consumer_id=3, request_id=5), "Consumer not found"),
        (pb.CommandGetLastMessageId(consumer_id=3, request_id=5), "Consumer not found"),
    ],
)
def test_a_seek_to_nowhere_and_a_question_about_no_consumer_are_refused(
    caller: Caller, command: Message, text: str
) -> None:
    caller.consume()
    assert caller.refusal(command) == pb.CommandError(request_id=5, error=pb.ServerError.MetadataError, message=text)


def test_the_last_message_is_none_or_has_an_index_if_it_is_in_a_batch(bench: Bench, caller: Caller) -> None:
    caller.consume()
    ask = pb.CommandGetLastMessageId(consumer_id=0, request_id=5)
    assert caller.ask(ask).last_message_id == id_data((NOBODY, NOBODY), partition=-1, batch_index=-1)
    publish(bench, 2)
    answer = caller.ask(ask)
    assert (answer.request_id, answer.last_message_id.entryId, answer.last_message_id.batch_index) == (5, 1, -1)
    publish(bench, 1, num_messages_in_batch=4)
    assert caller.ask(ask).last_message_id.batch_index == 3


def test_the_statistics_of_a_consumer_are_those_of_its_topic(bench: Bench, caller: Caller) -> None:
    publish(bench, 3)
    earliest = pb.CommandSubscribe.Earliest
    caller.consume(permits=2, initialPosition=earliest, consumer_name="me", subType=SHARED)
    answer = caller.ask(pb.CommandConsumerStats(consumer_id=0, request_id=5))
    assert (answer.consumerName, answer.unackedMessages, answer.msgBacklog, answer.availablePermits) == ("me", 2, 3, 0)
    assert answer.type == "Shared"
    assert not answer.HasField("error_code")


def test_statistics_of_no_consumer_are_an_error(caller: Caller) -> None:
    answer = caller.ask(pb.CommandConsumerStats(consumer_id=0, request_id=5))
    assert (answer.request_id, answer.error_code) == (5, pb.ServerError.ConsumerNotFound)
