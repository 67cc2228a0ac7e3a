from typing import Any

import pytest

from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.shared_dispatcher import DelayedDeliveryTracker
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, MessageMetadata

SHARED = CommandSubscribe.SubType.Shared
NUMBERS = [b"%d" % number for number in range(10)]


def test_a_negative_acknowledgement_counts_and_the_loss_of_a_consumer_does_not(world: Any) -> None:
    """As a real broker 4.2.4 was seen to count."""
    first = world.consumer(subscription_type=SHARED)
    world.producer().send_all([b"0", b"1"])
    first.redeliver()
    assert first.counts == [0, 0, 1, 1]
    second = world.consumer(subscription_type=SHARED)
    first.close()
    assert second.counts == [1, 1]
    second.redeliver()
    assert second.counts == [1, 1, 2, 2]
    second.close()
    assert world.consumer(subscription_type=SHARED).counts == [0, 0]


def test_what_a_consumer_does_not_have_cannot_be_demanded_by_it(world: Any) -> None:
    first, second = (world.consumer(subscription_type=SHARED) for _ in range(2))
    world.producer().send_all([b"0", b"1"])
    first.redeliver([second.position_of(b"1")])
    first.ack(b"0")
    first.nack(b"0")
    assert (first.got, second.got) == ([b"0"], [b"1"])


def test_what_comes_again_goes_before_what_is_new(world: Any) -> None:
    consumer = world.consumer(subscription_type=SHARED, permits=2)
    world.producer().send_all(NUMBERS)
    consumer.nack(b"1")
    consumer.flow(2)
    assert consumer.got == [b"0", b"1", b"1", b"2"]


def test_what_was_acknowledged_meanwhile_does_not_come_again(world: Any) -> None:
    consumer = world.consumer(subscription_type=SHARED, permits=2)
    world.producer().send_all([b"0", b"1"])
    consumer.nack(b"0", b"1")
    consumer.ack(b"0")
    consumer.flow(5)
    assert consumer.got[2:] == [b"1"]


def test_anybody_may_acknowledge_what_somebody_has(world: Any) -> None:
    first, second = (world.consumer(subscription_type=SHARED) for _ in range(2))
    world.producer().send_all([b"0", b"1"])
    second.deliveries += first.deliveries
    second.ack(b"0")
    assert (first.made.unacked, first.made.pending) == (0, {})


def test_a_cumulative_acknowledgement_does_nothing(world: Any) -> None:
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send_all(NUMBERS)
    consumer.ack_up_to(b"9")
    assert consumer.subscription.backlog() == 10


def test_messages_of_a_batch_are_counted_down_as_they_are_acknowledged(world: Any) -> None:
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send(b"b", num_messages_in_batch=10)
    consumer.ack(b"b", ack_set=0b11)
    assert consumer.made.unacked == 2
    consumer.nack(b"b")
    assert [each.ack_set for each in consumer.deliveries] == [None, 0b11]
    assert (consumer.made.unacked, consumer.made.permits) == (2, 1000 - 12)


def test_an_acknowledgement_forgets_how_often_an_entry_came(world: Any) -> None:
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send(b"b", num_messages_in_batch=2)
    consumer.nack(b"b")
    consumer.ack(b"b", ack_set=0b1)
    consumer.nack(b"b")
    assert consumer.counts == [0, 1, 1]


def test_a_consumer_with_too_much_unacknowledged_waits_until_half_of_it_is(world: Any) -> None:
    world.settings.max_unacked_per_consumer = 4
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send_all(NUMBERS)
    assert (consumer.got, consumer.made.blocked) == (NUMBERS[:4], True)
    consumer.flow(10)
    consumer.ack(b"0")
    assert (consumer.got, consumer.made.permits) == (NUMBERS[:4], 996)
    consumer.ack(b"1")
    assert (consumer.got, consumer.made.permits) == (NUMBERS[:6], 1004)


def test_a_redelivery_unblocks_a_consumer(world: Any) -> None:
    world.settings.max_unacked_per_consumer = 2
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send_all(NUMBERS[:3])
    consumer.redeliver()
    assert consumer.got == [b"0", b"1", b"0", b"1"]


def test_the_namespace_may_set_another_limit(world: Any) -> None:
    policies = world.cluster.namespace("public/default").policies
    policies.max_unacked_per_consumer = 0
    policies.max_unacked_per_subscription = 0
    world.settings.max_unacked_per_consumer = world.settings.max_unacked_per_subscription = 1
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send_all(NUMBERS)
    assert consumer.got == NUMBERS


def test_a_subscription_with_too_much_unacknowledged_reads_nothing_new(world: Any) -> None:
    world.settings.max_unacked_per_subscription = 4
    first, second = (world.consumer(subscription_type=SHARED) for _ in range(2))
    world.producer().send_all(NUMBERS)
    assert len(first.got + second.got) == 4
    first.nack(b"0")
    assert len(first.got + second.got) == 5
    for each in (first, second):
        each.ack(*each.got)
    assert sorted({*first.got, *second.got}) == NUMBERS[:8]


def test_chunks_of_a_message_go_to_one_consumer_even_without_permits(world: Any) -> None:
    first = world.consumer(subscription_type=SHARED, permits=2)
    second = world.consumer(subscription_type=SHARED, permits=100)
    producer = world.producer()
    for chunk in range(4):
        producer.send(b"chunk", uuid="u", chunk_id=chunk, num_chunks_from_msg=4)
        producer.send(b"plain")
    assert first.got.count(b"chunk") == 4
    assert second.got.count(b"chunk") == 0
    assert first.made.permits < 0


def test_when_its_consumer_goes_a_chunked_message_begins_again_elsewhere(world: Any) -> None:
    first = world.consumer(subscription_type=SHARED)
    second = world.consumer(subscription_type=SHARED)
    producer = world.producer()
    for chunk in range(2):
        producer.send(b"%d" % chunk, uuid="u", chunk_id=chunk, num_chunks_from_msg=3)
    first.close()
    producer.send(b"2", uuid="u", chunk_id=2, num_chunks_from_msg=3)
    assert second.got == [b"0", b"1", b"2"]


def test_what_has_a_delivery_time_comes_at_that_time(world: Any) -> None:
    consumer = world.consumer(subscription_type=SHARED)
    producer = world.producer()
    producer.send(b"late", deliver_at_time=world.clock.now_ms + 500)
    producer.send(b"now", deliver_at_time=world.clock.now_ms)
    assert consumer.got == [b"now"]
    assert consumer.subscription.dispatcher.delayed == 1
    world.pass_time(0.5)
    assert consumer.got == [b"now", b"late"]


@pytest.mark.parametrize("subscription_type", [CommandSubscribe.SubType.Exclusive, CommandSubscribe.SubType.Failover])
def test_other_types_deliver_at_once(world: Any, subscription_type: Any) -> None:
    consumer = world.consumer(subscription_type=subscription_type)
    world.pass_time(1)
    world.producer().send(b"0", deliver_at_time=world.clock.now_ms + 500)
    assert consumer.got == [b"0"]


def test_what_is_delayed_waits_for_the_next_consumer_too(world: Any) -> None:
    first = world.consumer(subscription_type=SHARED)
    world.producer().send(b"late", deliver_at_time=world.clock.now_ms + 500)
    first.close()
    second = world.consumer(subscription_type=SHARED)
    world.pass_time(0.4)
    assert second.got == []
    world.pass_time(0.1)
    assert (first.got, second.got) == ([], [b"late"])


def test_what_is_dropped_for_want_of_memory_does_not_come_again(world: Any) -> None:
    consumer = world.consumer(subscription_type=SHARED, durable=False, permits=2)
    producer = world.producer()
    producer.send_all([b"0", b"1"])
    producer.send(b"late", deliver_at_time=world.clock.now_ms + 500)
    consumer.nack(b"0", b"1")
    world.topic().managed_ledger.trim(3, 0)
    consumer.flow(10)
    world.pass_time(1)
    assert consumer.got == [b"0", b"1"]


def test_a_skip_forgets_what_is_out(world: Any) -> None:
    world.settings.max_unacked_per_consumer = 4
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send_all(NUMBERS)
    consumer.subscription.skip(3)
    assert consumer.made.unacked == 4
    assert consumer.got == NUMBERS[:7]
    consumer.redeliver()
    assert consumer.got[7:] == NUMBERS[3:7]


def test_consumers_take_turns(world: Any) -> None:
    consumers = [world.consumer(subscription_type=SHARED) for _ in range(3)]
    world.producer().send_all([b"%d" % number for number in range(7)])
    assert [each.got for each in consumers] == [[b"0", b"3", b"6"], [b"1", b"4"], [b"2", b"5"]]


def test_a_lower_level_is_served_first_and_the_next_when_nobody_there_can_take_more(world: Any) -> None:
    """The example in Pulsar's own documentation of priority levels."""
    names = {"C4": (1, 2), "C5": (1, 1), "C1": (0, 2), "C2": (0, 1), "C3": (0, 1)}
    consumers = {
        name: world.consumer(subscription_type=SHARED, priority_level=level, permits=permits)
        for name, (level, permits) in names.items()
    }
    world.producer().send_all([b"%d" % number for number in range(8)])
    order = {data: name for name, each in consumers.items() for data in each.got}
    assert [order[b"%d" % number] for number in range(7)] == ["C1", "C2", "C3", "C1", "C4", "C5", "C4"]
    assert b"7" not in order


def test_one_that_cannot_take_more_is_passed_over(world: Any) -> None:
    first, second = (world.consumer(subscription_type=SHARED) for _ in range(2))
    first.room = False
    world.producer().send_all([b"0", b"1"])
    assert (first.got, second.got) == ([], [b"0", b"1"])


def test_a_turn_of_a_backlog_is_twenty_entries(world: Any) -> None:
    consumers = [world.consumer(subscription_type=SHARED, permits=0) for _ in range(2)]
    world.producer().send_all([b"x"] * 100)
    for each in consumers:
        each.made.permits = 50
    consumers[0].resume()
    assert [len(each.got) for each in consumers] == [50, 50]
    assert [entry.entry.entry_id for entry in consumers[1].deliveries[:20]] == list(range(20, 40))


def entry(offset: int, deliver_at: int) -> StoredEntry:
    fields: dict[str, Any] = {"producer_name": "p", "sequence_id": 0, "publish_time": 1, "deliver_at_time": deliver_at}
    made = StoredEntry(b"", MessageMetadata(**fields), "p", 0)
    made.offset = offset
    return made


@pytest.fixture
def released() -> list[int]:
    return []


@pytest.fixture
def delays(world: Any, released: list[int]) -> DelayedDeliveryTracker:
    held = DelayedDeliveryTracker(world.clock, lambda: released.extend(held.release()))
    return held


def test_each_is_released_at_its_time_to_the_millisecond(world: Any, delays: Any, released: list[int]) -> None:
    now = world.clock.now_ms
    for offset, delay in enumerate((300, 100, 200)):
        assert delays.hold(entry(offset, now + delay))
    world.pass_time(0.099)
    assert released == []
    world.pass_time(0.001)
    assert released == [1]
    world.pass_time(0.2)
    assert released == [1, 2, 0]


def test_a_timer_is_set_for_the_earliest_only(world: Any, delays: Any) -> None:
    for delay in range(100):
        delays.hold(entry(delay, world.clock.now_ms + 1000 + delay))
    assert world.clock.timers == 1


def test_a_timer_that_was_overtaken_does_nothing(world: Any, delays: Any, released: list[int]) -> None:
    delays.hold(entry(0, world.clock.now_ms + 1000))
    delays.hold(entry(1, world.clock.now_ms + 500))
    world.pass_time(0.5)
    assert released == [1]
    world.pass_time(0.5)
    assert released == [1, 0]


def test_after_a_clearing_nothing_is_released(world: Any, delays: Any, released: list[int]) -> None:
    delays.hold(entry(0, world.clock.now_ms + 500))
    delays.clear()
    delays.hold(entry(1, world.clock.now_ms + 700))
    world.pass_time(0.6)
    assert (released, world.clock.timers) == ([], 1)
    world.pass_time(0.2)
    assert released == [1]


def test_a_timer_that_fires_too_early_is_set_again(world: Any, delays: Any, released: list[int]) -> None:
    due = world.clock.now_ms + 500
    delays.hold(entry(0, due))
    delays._fired(due)  # the two clocks of a loop need not agree to the millisecond
    assert released == []
    world.pass_time(0.5)
    assert released == [0]
