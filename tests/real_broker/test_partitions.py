"""Topics in parts, which look like one."""

from typing import Any

import pytest

import pulsar_actors
from tests.real_broker.exchange import (
    SOON,
    Outcomes,
    acknowledged_all,
    contents,
    nothing_comes,
    receive,
    send_all,
    until,
)
from tests.support.admin import Admin

NUMBERS = [b"%d" % number for number in range(60)]


def parts(topic: str) -> list[str]:
    return [f"{topic}-partition-{number}" for number in range(3)]


def test_a_topic_in_one_piece_is_its_own_part_before_it_is_there_and_then(client: Any, topic: str) -> None:
    assert client.get_topic_partitions(topic) == [topic]
    client.create_producer(topic)
    assert client.get_topic_partitions(topic) == [topic]


def test_a_part_may_be_used_alone(client: Any, partitioned: str) -> None:
    consumer = client.subscribe(parts(partitioned)[1], "s")
    client.create_producer(parts(partitioned)[1]).send(b"x")
    message = consumer.receive(SOON)
    assert message.data() == b"x"
    assert message.topic_name() == parts(partitioned)[1]
    assert message.message_id().partition() == 1


def test_a_part_beyond_those_there_are_is_not_found(pulsar: Any, client: Any, partitioned: str) -> None:
    beyond = f"{partitioned}-partition-7"
    with pytest.raises(pulsar.TopicNotFound):
        client.subscribe(beyond, "s")
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(beyond)


@pytest.mark.shows("Partitioned topic", "round robin distribution")
def test_messages_say_in_which_part_they_were(client: Any, partitioned: str) -> None:
    consumer = client.subscribe(partitioned, "s")
    sent = send_all(client.create_producer(partitioned), NUMBERS[:6])
    assert sorted(each.partition() for each in sent) == [0, 0, 1, 1, 2, 2]
    for message in receive(consumer, 6):
        assert message.topic_name() == parts(partitioned)[message.message_id().partition()]
        assert message.message_id() in sent


@pytest.mark.shows("Partitioned topic", "single default partition")
@pytest.mark.shows("ProducerConfiguration", "messageRoutingMode")
def test_a_producer_may_stay_with_one_part(pulsar: Any, client: Any, partitioned: str) -> None:
    mode = pulsar.PartitionsRoutingMode.UseSinglePartition
    sent = send_all(client.create_producer(partitioned, message_routing_mode=mode), NUMBERS[:9])
    assert len({each.partition() for each in sent}) == 1


@pytest.mark.shows("Partitioned topic", "custom routing policy")
@pytest.mark.shows("ProducerConfiguration", "messageRouter")
def test_a_program_may_choose_the_part(pulsar: Any, client: Any, partitioned: str) -> None:
    seen: list[tuple[str, int]] = []

    def router(message: Any, count: int) -> int:
        seen.append((message.partition_key(), count))
        return int(message.partition_key()[-1])

    producer = client.create_producer(
        partitioned, message_routing_mode=pulsar.PartitionsRoutingMode.CustomPartition, message_router=router
    )
    for part in (2, 0, 2):
        assert producer.send(b"x", partition_key=f"k{part}").partition() == part
    assert seen == [("k2", 3), ("k0", 3), ("k2", 3)]


def test_a_producer_knows_its_topic_and_its_last_sequence_id(client: Any, partitioned: str) -> None:
    producer = client.create_producer(partitioned)
    assert producer.topic() == partitioned
    assert producer.last_sequence_id() == -1
    send_all(producer, NUMBERS[:6])
    assert producer.last_sequence_id() == 1
    assert producer.is_connected()


def test_a_cumulative_acknowledgement_counts_for_its_part(pulsar: Any, client: Any, partitioned: str) -> None:
    consumer = client.subscribe(partitioned, "s")
    send_all(client.create_producer(partitioned), NUMBERS)
    last: dict[int, Any] = {}
    for message in receive(consumer, 60):
        last[message.message_id().partition()] = message
    consumer.acknowledge_cumulative(last[0])
    consumer.acknowledge_cumulative(last[2])
    consumer.close()
    left = client.subscribe(partitioned, "s")
    assert {each.message_id().partition() for each in receive(left, 20)} == {1}
    assert nothing_comes(pulsar, left)


def test_a_partitioned_consumer_can_go_back(pulsar: Any, client: Any, partitioned: str, admin: Admin) -> None:
    consumer = client.subscribe(partitioned, "s")
    send_all(client.create_producer(partitioned), NUMBERS)
    acknowledged_all(consumer, receive(consumer, 60))
    # What the official client has not sent by now, it sends after the seek, and those messages do not come again.
    parts = client.get_topic_partitions(partitioned)
    until(lambda: all(admin.keeps_acknowledgements(part, "s") for part in parts))
    for start in (pulsar.MessageId.earliest, 0):
        consumer.seek(start)
        assert sorted(contents(receive(consumer, 60)), key=int) == NUMBERS
        assert nothing_comes(pulsar, consumer)
    consumer.seek(pulsar.MessageId.latest)
    assert nothing_comes(pulsar, consumer)


def test_a_listener_hears_all_parts(client: Any, partitioned: str) -> None:
    heard: list[bytes] = []

    def listener(consumer: Any, message: Any) -> None:
        heard.append(message.data())
        consumer.acknowledge(message)

    client.subscribe(partitioned, "s", message_listener=listener)
    send_all(client.create_producer(partitioned), NUMBERS)
    until(lambda: len(heard) == 60)
    assert sorted(heard, key=int) == NUMBERS


def test_an_unload_of_a_part_costs_nothing(client: Any, partitioned: str, admin: Any) -> None:
    consumer = client.subscribe(partitioned, "s")
    producer = client.create_producer(partitioned)
    outcomes = Outcomes()
    for number in NUMBERS:
        producer.send_async(number, outcomes)
    admin.unload(parts(partitioned)[1])
    assert set(map(int, outcomes.results(60))) == {0}
    found: set[bytes] = set()
    while len(found) < 60:  # what was not acknowledged in time comes again
        found.add(consumer.receive(SOON).data())
    assert found == set(NUMBERS)


def test_new_parts_are_used_by_whoever_is_there(connect: Any, partitioned: str, admin: Admin) -> None:
    """The official client looks for them once a minute, and takes no other interval."""
    client = connect(pulsar_actors, partitions_update_interval=0.2)
    earliest = pulsar_actors.InitialPosition.Earliest
    consumer = client.subscribe(partitioned, "s", initial_position=earliest)
    producer = client.create_producer(partitioned)
    reader = client.create_reader(partitioned, pulsar_actors.MessageId.earliest)
    admin.grow(partitioned, 5)
    sent: dict[int, bytes] = {}

    def send_further() -> bool:
        number = len(sent)
        sent[number] = b"%d" % number
        return bool(producer.send(sent[number]).partition() == 4)

    until(send_further)
    assert sorted(contents(receive(consumer, len(sent))), key=int) == list(sent.values())
    assert sorted((reader.read_next(SOON).data() for _ in sent), key=int) == list(sent.values())
