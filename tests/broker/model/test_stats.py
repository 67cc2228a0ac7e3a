from itertools import pairwise
from typing import Any

from pulsar_actors.broker.model.entry import EARLIEST_POSITION
from pulsar_actors.broker.model.stats import consumer_stats, internal_stats, producer_stats, topic_stats
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode, ProducerAccessMode
from pulsar_actors.wire.topic_name import TopicName

TYPES = CommandSubscribe.SubType


def test_a_topic_says_what_came_and_what_went(world: Any) -> None:
    consumer = world.consumer(subscription_type=TYPES.Shared)
    producer = world.producer(access_mode=ProducerAccessMode.Exclusive, metadata={"a": "b"})
    producer.send(b"0123456789", num_messages_in_batch=5)
    producer.send(b"c", uuid="u", chunk_id=0, num_chunks_from_msg=2)
    world.pass_time(10)
    consumer.ack(b"c")
    stats = topic_stats(world.topic())
    expected = {
        "msgInCounter": 6,
        "bytesInCounter": 11,
        "msgRateIn": 0.6,
        "msgOutCounter": 6,
        "bytesOutCounter": 11,
        "msgRateOut": 0.6,
        "storageSize": 11,
        "backlogSize": 11,
        "msgChunkPublished": True,
        "waitingPublishers": 0,
        "deduplicationStatus": "Disabled",
        "nonContiguousDeletedMessagesRanges": 1,
        "averageMsgSize": 11 / 6,
        "lastPublishTimeStamp": world.clock.now_ms - 10_000,
    }
    assert expected.items() <= stats.items()
    (publisher,) = stats["publishers"]
    assert {
        "accessMode": "Exclusive",
        "producerName": "standalone-0-1",
        "msgRateIn": 0.6,
        "metadata": {"a": "b"},
    }.items() <= publisher.items()
    assert producer_stats(producer.made, world.topic().now_ms()) == publisher
    assert {
        "msgBacklog": 1,
        "unackedMessages": 5,
        "type": "Shared",
        "msgOutCounter": 6,
        "isDurable": True,
    }.items() <= stats["subscriptions"]["s"].items()


def test_counters_outlive_consumers_and_subscriptions(world: Any) -> None:
    consumer = world.consumer(durable=False)
    world.producer().send(b"0")
    consumer.close()
    assert topic_stats(world.topic())["msgOutCounter"] == 1


def test_an_empty_topic_has_every_field_of_a_full_one(world: Any) -> None:
    empty = topic_stats(world.topic("empty"))
    world.consumer().close()
    world.producer().send()
    assert empty.keys() == topic_stats(world.topic()).keys()
    assert (empty["averageMsgSize"], empty["backlogSize"]) == (0.0, 0)


def test_delayed_and_repeated_entries_are_told_apart(world: Any) -> None:
    consumer = world.consumer(subscription_type=TYPES.Shared, permits=1)
    producer = world.producer()
    producer.send(b"late", deliver_at_time=world.clock.now_ms + 500)
    producer.send(b"0")
    consumer.flow(1)
    consumer.nack(b"0")
    stats = topic_stats(world.topic())["subscriptions"]["s"]
    assert {"msgBacklog": 2, "msgDelayed": 1, "msgBacklogNoDelayed": 1}.items() <= stats.items()


def test_an_active_consumer_is_named(world: Any) -> None:
    world.consumer(name="me")
    stats = topic_stats(world.topic())["subscriptions"]["s"]
    assert (stats["type"], stats["activeConsumerName"]) == ("Exclusive", "me")
    assert (stats["msgInReplay"], stats["msgDelayed"]) == (0, 0)


def test_the_ranges_of_key_shared_consumers_cover_every_hash_once(world: Any) -> None:
    for name in ("a", "b", "c"):
        world.consumer(subscription_type=TYPES.Key_Shared, name=name)
    stats = topic_stats(world.topic())["subscriptions"]["s"]
    pieces = sorted(tuple(piece) for consumer in stats["consumers"] for piece in consumer["keyHashRangeArrays"])
    assert stats["keySharedMode"] == "AUTO_SPLIT"
    assert (pieces[0][0], pieces[-1][1]) == (1, 65_535)
    assert all(next_piece[0] == piece[1] + 1 for piece, next_piece in pairwise(pieces))


def test_sticky_consumers_have_the_ranges_they_named(world: Any) -> None:
    fields = {"subscription_type": TYPES.Key_Shared, "key_shared_mode": KeySharedMode.STICKY}
    world.consumer(**fields, hash_ranges=[(7, 9), (1, 3)])
    (consumer,) = topic_stats(world.topic())["subscriptions"]["s"]["consumers"]
    assert consumer["keyHashRangeArrays"] == [[1, 3], [7, 9]]


def test_a_subscription_that_never_had_consumers_has_no_type(world: Any) -> None:
    world.topic().create_subscription("s", at=EARLIEST_POSITION, properties={"a": "b"})
    stats = topic_stats(world.topic())["subscriptions"]["s"]
    assert {
        "type": "None",
        "consumers": [],
        "subscriptionProperties": {"a": "b"},
        "msgInReplay": 0,
    }.items() <= stats.items()


def test_a_topic_that_is_not_stored_says_what_it_dropped(world: Any) -> None:
    name = "non-persistent://public/default/t"
    world.consumer(name, permits=0)
    world.producer(name).send()
    stats = topic_stats(world.topic(name))
    assert (stats["msgDropRate"], stats["storageSize"], stats["publishers"][0]["msgDropRate"]) == (1.0, 0, 0.0)
    assert "ledgers" not in internal_stats(world.topic(name))


def test_the_inside_of_a_topic_is_its_ledgers_and_cursors(world: Any) -> None:
    consumer = world.consumer()
    world.producer().send_all([b"0", b"1", b"2", b"3"])
    consumer.ack(b"0", b"2")
    stats = internal_stats(world.topic())
    cursor = stats["cursors"]["s"]
    expected = {
        "markDeletePosition": "1:0",
        "readPosition": "1:4",
        "individuallyDeletedMessages": "[(1:1..1:2]]",
        "messagesConsumedCounter": 2,
        "state": "Open",
        "active": True,
    }
    assert expected.items() <= cursor.items()
    size = stats["currentLedgerSize"]
    world.topic().unload()
    stats = internal_stats(world.topic())
    ledgers = [(ledger["ledgerId"], ledger["entries"], ledger["size"]) for ledger in stats["ledgers"]]
    assert ledgers == [(1, 4, size), (2, 0, 0)]
    assert {
        "lastConfirmedEntry": "1:3",
        "state": "LedgerOpened",
        "numberOfEntries": 4,
        "currentLedgerEntries": 0,
    }.items() <= stats.items()
    world.topic().terminate()
    assert internal_stats(world.topic())["state"] == "Terminated"


def test_partitions_are_added_up(world: Any) -> None:
    name = TopicName.parse("p")
    world.cluster.create_partitioned(name, 3)
    for index in range(2):
        world.consumer(f"p-partition-{index}", subscription_type=TYPES.Shared)
        world.producer(f"p-partition-{index}").send(b"xx")
    stats = world.cluster.partitioned_stats(name)
    assert {
        "msgInCounter": 2,
        "bytesInCounter": 4,
        "metadata": {"partitions": 3, "deleted": False},
    }.items() <= stats.items()
    assert len(stats["publishers"]) == 2
    assert {"msgBacklog": 2, "type": "Shared", "durable": True}.items() <= stats["subscriptions"]["s"].items()
    assert len(stats["subscriptions"]["s"]["consumers"]) == 2
    assert stats["partitions"].keys() == {str(name.partition(index)) for index in range(3)}
    assert len(topic_stats(world.topic("p-partition-0"))["publishers"]) == 1


def test_the_statistics_of_a_consumer_count_what_went_out(world: Any) -> None:
    consumer = world.consumer(
        subscription_type=TYPES.Shared, metadata={"a": "b"}, address="/127.0.0.1:1", client_version="x"
    )
    producer = world.producer()
    producer.send(b"0123456789", num_messages_in_batch=4)
    producer.send(b"c", uuid="u", chunk_id=0, num_chunks_from_msg=2)
    world.pass_time(10)
    consumer.nack(b"c")
    consumer.ack(b"0123456789", ack_set=0b1)
    stats = consumer_stats(consumer.made, world.topic().now_ms())
    expected = {
        "msgOutCounter": 6,
        "bytesOutCounter": 12,
        "msgRateOut": 0.6,
        "msgRateRedeliver": 0.1,
        "messageAckRate": 0.3,
        "chunkedMessageRate": 0.2,
        "availablePermits": 994,
        "unackedMessages": 2,
        "avgMessagesPerEntry": 2,
        "metadata": {"a": "b"},
        "address": "/127.0.0.1:1",
        "clientVersion": "x",
        "connectedSince": "2023-11-14T22:13:20.000Z",
        "lastAckedTime": "2023-11-14T22:13:30.000Z",
    }
    assert expected.items() <= stats.items()
    assert consumer_stats(world.consumer(subscription="new").made, world.topic().now_ms())["avgMessagesPerEntry"] == 0
