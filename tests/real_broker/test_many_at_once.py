"""Many messages by one call of our client, on both brokers, seen by the official client."""

from typing import Any

import pytest

from tests.real_broker.exchange import SOON, nothing_comes, place
from tests.support.subjects import Broker, client_module

pulsar_actors = client_module("ours")
official = client_module("official")
COUNT = 2_500


@pytest.fixture
def ours(connect: Any) -> Any:
    return connect(pulsar_actors)


@pytest.fixture(params=[0, 3], ids=["one topic", "partitions"])
def any_topic(request: pytest.FixtureRequest, broker: Broker, topic: str) -> str:
    if request.param:
        broker.admin.create_partitioned(topic, request.param)
    return topic


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "alone"])
def test_the_official_client_receives_all_with_the_ids_that_the_call_returned(
    ours: Any, connect: Any, any_topic: str, *, batched: bool
) -> None:
    consumer = connect(official).subscribe(any_topic, "s")
    producer = ours.create_producer(any_topic, batching_enabled=batched, block_if_queue_full=True)
    given = [b"%d" % number for number in range(COUNT - 1)]
    keyed = pulsar_actors.MessageToSend(b"last", {"a": "b"}, "key")
    ids = producer.send_many([*given, keyed], ids=True).result(SOON / 1000)
    messages = [consumer.receive(SOON) for _ in range(COUNT)]
    expected = {place(one): content for one, content in zip(ids, [*given, b"last"], strict=True)}
    assert {place(one.message_id()): one.data() for one in messages} == expected
    (last,) = (one for one in messages if one.data() == b"last")
    assert (last.properties(), last.partition_key()) == ({"a": "b"}, "key")


@pytest.mark.parametrize("receipts", [True, False], ids=["with receipts", "without receipts"])
def test_what_the_official_client_sent_is_received_and_acknowledged_as_lists(
    ours: Any, connect: Any, any_topic: str, *, receipts: bool
) -> None:
    consumer = ours.subscribe(any_topic, "s", ack_receipt_enabled=receipts)
    reader = ours.create_reader(any_topic, pulsar_actors.MessageId.earliest)
    producer = connect(official).create_producer(any_topic, batching_enabled=True, block_if_queue_full=True)
    for number in range(COUNT):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    read: list[bytes] = []
    while len(read) < COUNT:
        read += [message.data() for message in reader.read_many(1000, SOON)]
    received: list[bytes] = []
    while len(received) < COUNT:
        messages = consumer.receive_many(1000, SOON)
        received += [message.data() for message in messages]
        consumer.acknowledge(messages)
    assert sorted(read) == sorted(received) == sorted(b"%d" % number for number in range(COUNT))
    consumer.close()
    again = ours.subscribe(any_topic, "s")
    assert nothing_comes(pulsar_actors, again)
