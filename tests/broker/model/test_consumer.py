from typing import Any

from pulsar_actors.broker.model.stats import consumer_stats
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe

SHARED = CommandSubscribe.SubType.Shared


def test_closing_twice_does_nothing(world: Any) -> None:
    consumer = world.consumer()
    consumer.close()
    consumer.close()
    assert world.consumer().heard == []


def test_one_that_has_gone_gets_nothing_and_can_ask_for_nothing(world: Any) -> None:
    consumer = world.consumer(subscription_type=SHARED)
    consumer.close()
    world.producer().send(b"0")
    consumer.flow(10)
    consumer.redeliver()
    assert consumer.got == []


def test_statistics_count_what_went_out(world: Any) -> None:
    consumer = world.consumer(subscription_type=SHARED, metadata={"a": "b"}, address="/127.0.0.1:1", client_version="x")
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
    assert {name: stats[name] for name in expected} == expected


def test_one_that_got_nothing_has_no_average(world: Any) -> None:
    assert consumer_stats(world.consumer().made, world.topic().now_ms())["avgMessagesPerEntry"] == 0


def test_the_end_is_told_once(world: Any) -> None:
    consumer = world.consumer()
    world.topic().terminate()
    consumer.flow(1)
    assert consumer.heard == ["end"]
