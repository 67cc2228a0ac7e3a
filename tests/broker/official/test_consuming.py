import queue
import time
from collections import defaultdict
from itertools import chain
from typing import Any

import pytest

from tests.broker.official_client import (
    WAIT_MS,
    Official,
    contents,
    data,
    drain,
    nothing_comes,
    pulsar,
    receive,
    send_all,
    topic,
)

BATCHED: dict[str, Any] = {"batching_enabled": True, "batching_max_publish_delay_ms": 50}
KIND = pulsar.ConsumerType
EARLIEST = pulsar.InitialPosition.Earliest


def test_an_exclusive_subscription_has_one_consumer(official: Official) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(name, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(name, "s", KIND.Shared)
    consumer.close()
    client.subscribe(name, "s")


def test_a_shared_subscription_spreads_its_messages_and_gives_each_to_one(official: Official) -> None:
    client, name = official.client(), topic()
    consumers = [client.subscribe(name, "s", KIND.Shared) for _ in range(3)]
    send_all(client.create_producer(name), contents(*map(str, range(60))))
    got = [data(drain(consumer)) for consumer in consumers]
    assert all(got)
    assert sorted(chain.from_iterable(got)) == sorted(b"%d" % i for i in range(60))


def test_the_next_consumer_of_a_failover_subscription_takes_over(official: Official) -> None:
    client, name = official.client(), topic()
    consumers = {who: client.subscribe(name, "s", KIND.Failover, consumer_name=who) for who in ("a", "b")}
    producer = client.create_producer(name)
    producer.send(b"1")
    producer.send(b"2")
    got = {who: drain(consumer, 1_500) for who, consumer in consumers.items()}
    (active,) = [who for who in got if got[who]]
    assert data(got[active]) == [b"1", b"2"]
    consumers[active].acknowledge(got[active][0])
    consumers[active].close()
    (other,) = consumers.keys() - {active}
    producer.send(b"3")
    assert data(receive(consumers[other], 2)) == [b"2", b"3"]


@pytest.mark.parametrize("way", [{}, {**BATCHED, "batching_type": pulsar.BatchingType.KeyBased}])
def test_a_key_shared_subscription_keeps_a_key_with_one_consumer_and_in_order(
    official: Official, way: dict[str, Any]
) -> None:
    client, name = official.client(), topic()
    consumers = [client.subscribe(name, "s", KIND.KeyShared) for _ in range(3)]
    producer = client.create_producer(name, **way)
    send_all(producer, [{"content": b"%d" % i, "partition_key": f"key-{i % 20}"} for i in range(200)])
    owners: dict[str, set[int]] = defaultdict(set)
    values: dict[str, list[int]] = defaultdict(list)
    for index, consumer in enumerate(consumers):
        for message in drain(consumer):
            owners[message.partition_key()].add(index)
            values[message.partition_key()].append(int(message.data()))
    assert len(owners) == 20
    assert all(len(who) == 1 for who in owners.values())
    assert len(set.union(*owners.values())) > 1
    assert all(numbers == sorted(numbers) and len(numbers) == 10 for numbers in values.values())


def test_a_sticky_consumer_gets_the_keys_of_its_ranges(official: Official) -> None:
    client, name = official.client(), topic()

    def sticky(*ranges: tuple[int, int]) -> Any:
        policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=list(ranges))
        return client.subscribe(name, "s", KIND.KeyShared, key_shared_policy=policy)

    low = sticky((0, 32_767))
    with pytest.raises(pulsar.ConsumerAssignError):
        sticky((30_000, 40_000))
    high = sticky((32_768, 65_535))
    send_all(client.create_producer(name), [{"content": b"", "partition_key": f"k{i}"} for i in range(40)])
    low_keys, high_keys = ({message.partition_key() for message in drain(each)} for each in (low, high))
    assert low_keys
    assert high_keys
    assert not low_keys & high_keys
    assert len(low_keys | high_keys) == 40


def test_a_listener_hears_every_message(official: Official) -> None:
    client, name = official.client(), topic()
    heard: queue.Queue[bytes] = queue.Queue()

    def listener(consumer: Any, message: Any) -> None:
        heard.put(message.data())
        consumer.acknowledge(message)

    client.subscribe(name, "s", message_listener=listener)
    send_all(client.create_producer(name), contents("1", "2", "3"))
    assert [heard.get(timeout=WAIT_MS / 1000) for _ in range(3)] == [b"1", b"2", b"3"]


def test_a_consumer_without_a_queue_gets_one_message_at_a_time(official: Official) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s", receiver_queue_size=0)
    send_all(client.create_producer(name), contents("1", "2", "3"))
    assert [consumer.receive().data() for _ in range(3)] == [b"1", b"2", b"3"]


def test_messages_may_be_taken_by_the_batch(official: Official) -> None:
    client, name = official.client(), topic()
    policy = pulsar.ConsumerBatchReceivePolicy(5, -1, WAIT_MS)
    consumer = client.subscribe(name, "s", batch_receive_policy=policy)
    send_all(client.create_producer(name), contents(*"12345"))
    assert data(consumer.batch_receive()) == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("way", [{}, BATCHED], ids=["plain", "batched"])
def test_a_small_queue_is_filled_again_and_again(official: Official, way: dict[str, Any]) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s", receiver_queue_size=3)
    send_all(client.create_producer(name, **way), contents(*map(str, range(50))))
    assert data(receive(consumer, 50)) == [b"%d" % i for i in range(50)]


@pytest.mark.parametrize("way", [{}, BATCHED], ids=["plain", "batched"])
def test_a_consumer_goes_on_from_a_message_or_an_end(official: Official, way: dict[str, Any]) -> None:
    client, name = official.client(), topic()
    ids = send_all(client.create_producer(name, **way), contents(*"01234"))
    consumer = client.subscribe(name, "s", initial_position=EARLIEST)
    assert data(receive(consumer, 5)) == [b"0", b"1", b"2", b"3", b"4"]
    consumer.seek(pulsar.MessageId.earliest)
    assert consumer.receive(WAIT_MS).data() == b"0"
    consumer.seek(ids[2])
    assert data(receive(consumer, 2)) == [b"3", b"4"]  # the client goes on after what it seeks
    consumer.seek(pulsar.MessageId.latest)
    assert nothing_comes(consumer)


def test_a_consumer_goes_on_from_a_time(official: Official) -> None:
    client, name = official.client(), topic()
    producer = client.create_producer(name)
    producer.send(b"before")
    consumer = client.subscribe(name, "s", initial_position=EARLIEST)
    between = consumer.receive(WAIT_MS).publish_timestamp() + 1
    while time.time() * 1000 < between + 1:  # the client's clock gives the times of its messages
        continue
    producer.send(b"after")
    consumer.seek(between)
    assert data(drain(consumer)) == [b"after"]
    consumer.seek(1_600_000_000_000)
    assert data(receive(consumer, 2)) == [b"before", b"after"]


def test_the_last_message_id_is_that_of_the_last_message(official: Official) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    ids = send_all(client.create_producer(name, **BATCHED), contents(*"012"))
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id()) == (ids[2].ledger_id(), ids[2].entry_id())


@pytest.mark.parametrize("way", [{}, BATCHED], ids=["plain", "batched"])
def test_a_reader_begins_where_it_was_told(official: Official, way: dict[str, Any]) -> None:
    client, name = official.client(), topic()
    producer = client.create_producer(name, **way)
    ids = send_all(producer, contents(*"01234"))

    def rest(start: Any, **options: Any) -> list[bytes]:
        reader = client.create_reader(name, start, **options)
        got = []
        while reader.has_message_available():
            got.append(reader.read_next(WAIT_MS).data())
        reader.close()
        return got

    assert rest(pulsar.MessageId.earliest) == [b"0", b"1", b"2", b"3", b"4"]
    assert rest(pulsar.MessageId.latest) == []
    assert rest(ids[1]) == [b"2", b"3", b"4"]
    assert rest(ids[1], start_message_id_inclusive=True) == [b"1", b"2", b"3", b"4"]


def test_a_reader_at_the_end_hears_what_comes(official: Official) -> None:
    client, name = official.client(), topic()
    producer = client.create_producer(name)
    producer.send(b"before")
    reader = client.create_reader(name, pulsar.MessageId.latest)
    producer.send(b"after")
    assert reader.read_next(WAIT_MS).data() == b"after"
    reader.seek(pulsar.MessageId.earliest)
    assert reader.read_next(WAIT_MS).data() == b"before"


def test_a_message_nobody_listens_for_is_lost_where_nothing_is_kept(official: Official) -> None:
    client, name = official.client(), topic("non-persistent://public/default")
    producer = client.create_producer(name)
    producer.send(b"nobody")
    consumer = client.subscribe(name, "s", initial_position=EARLIEST)
    producer.send(b"somebody")
    assert consumer.receive(WAIT_MS).data() == b"somebody"
    assert nothing_comes(consumer)
