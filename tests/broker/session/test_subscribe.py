from typing import Any

import pytest
from session_bench import NOBODY, TOPIC, Bench, Caller, messages, only

from pulsar_actors.broker.model.links import Address
from pulsar_actors.wire.entries import open_entry
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandError,
    CommandFlow,
    CommandMessage,
    CommandReachedEndOfTopic,
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
