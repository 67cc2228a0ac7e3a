from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.machines.trackers.message_routing import HASHES, HashName
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode

KEY_SHARED = CommandSubscribe.SubType.Key_Shared


def consumers_of(world: Any, count: int, **fields: Any) -> list[Any]:
    return [world.consumer(subscription_type=KEY_SHARED, name=f"n{number}", **fields) for number in range(count)]


def key_of(consumer: Any) -> str:
    """A key that this consumer has."""
    choice = consumer.subscription.dispatcher.selector
    return next(
        key
        for key in map(str, range(1000))
        if choice.owner(choice.slot(HASHES[HashName.MURMUR3_32](key))) is consumer.made
    )


def test_a_slow_consumer_does_not_stop_the_others(world: Any) -> None:
    fast, slow = consumers_of(world, 2)
    slow.made.permits = 1
    producer = world.producer()
    for key, data in [(key_of(slow), b"s")] * 3 + [(key_of(fast), b"f")] * 3:
        producer.send(data, partition_key=key)
    assert (slow.got, fast.got) == ([b"s"], [b"f"] * 3)
    assert fast.subscription.dispatcher.replaying == 2
    slow.flow(5)
    assert slow.got == [b"s"] * 3
    assert fast.subscription.dispatcher.replaying == 0


def test_of_several_keys_that_wait_only_as_many_go_as_there_are_permits(world: Any) -> None:
    (consumer,) = consumers_of(world, 1, permits=0)
    consumer.made.permits = 1
    world.producer().send(b"first", partition_key="0")
    other = world.consumer(subscription_type=KEY_SHARED, name="other")
    producer = world.producer()
    for number in range(200):
        producer.send(b"x", partition_key=str(number))
    assert consumer.take() == [b"first"]
    waiting = consumer.subscription.dispatcher.replaying
    consumer.flow(1)
    assert consumer.take() == [b"x"]
    consumer.flow(1000)
    assert len(consumer.got) == waiting - 1 - consumer.subscription.dispatcher.replaying
    assert other.got


def test_reading_runs_ahead_only_so_far(world: Any) -> None:
    fast, slow = consumers_of(world, 2)
    slow.made.permits = 0
    producer = world.producer()
    producer.send_all([b"s"] * 4_100, partition_key=key_of(slow))
    producer.send(b"f", partition_key=key_of(fast))
    assert (fast.got, fast.subscription.dispatcher.replaying) == ([], 4_000)
    slow.flow(200)
    assert (len(slow.got), fast.got) == (200, [b"f"])


def test_a_key_that_changes_hands_waits_until_nothing_of_it_is_out(world: Any) -> None:
    (first,) = consumers_of(world, 1)
    producer = world.producer()
    keys = [str(number) for number in range(50)]
    for key in keys:
        producer.send(key.encode(), partition_key=key)
    second = world.consumer(subscription_type=KEY_SHARED, name="late")
    for key in keys:
        producer.send(key.encode(), partition_key=key)
    moved = [key for key in keys if key.encode() not in first.got[50:]]
    assert (second.got, len(first.got)) == ([], 100 - len(moved))
    assert moved
    first.ack(moved[0].encode())
    assert second.got == [moved[0].encode()]


def test_where_disorder_is_allowed_nothing_waits(world: Any) -> None:
    first = world.consumer(subscription_type=KEY_SHARED, allow_out_of_order=True)
    producer = world.producer()
    for number in range(50):
        producer.send(b"%d" % number, partition_key=str(number))
    second = world.consumer(subscription_type=KEY_SHARED, allow_out_of_order=True)
    for number in range(50):
        producer.send(b"again %d" % number, partition_key=str(number))
    assert len(first.got + second.got) == 100
    assert second.got
    first.ack(*first.got)
    assert first.made.unacked == 0


def test_what_is_demanded_again_comes_before_later_ones_of_its_key(world: Any) -> None:
    (consumer,) = consumers_of(world, 1, permits=2)
    world.producer().send_all([b"0", b"1", b"2"], partition_key="k")
    consumer.nack(b"0", b"1")
    consumer.flow(3)
    assert consumer.got[2:] == [b"0", b"1", b"2"]
    assert consumer.counts == [0, 0, 1, 1, 0]


def test_a_blocked_consumer_goes_on_with_what_waits_for_it(world: Any) -> None:
    world.settings.max_unacked_per_consumer = 2
    (consumer,) = consumers_of(world, 1)
    world.producer().send_all([b"0", b"1", b"2"], partition_key="k")
    assert consumer.got == [b"0", b"1"]
    consumer.ack(b"0")
    assert consumer.got == [b"0", b"1", b"2"]


def test_one_full_connection_stops_only_what_is_for_it(world: Any) -> None:
    first, second = consumers_of(world, 2)
    first.room = False
    producer = world.producer()
    for _ in range(2):
        for each, data in ((first, b"1"), (second, b"2")):
            producer.send(data, partition_key=key_of(each))
    assert (first.got, second.got) == ([], [b"2", b"2"])
    first.room = True
    first.resume()
    assert first.got == [b"1", b"1"]


def test_nothing_overtakes_what_waits_though_there_is_room_again(world: Any) -> None:
    consumer, _other = consumers_of(world, 2)
    producer = world.producer()
    consumer.room = False
    producer.send(b"0", partition_key=key_of(consumer))
    consumer.room = True
    producer.send(b"1", partition_key=key_of(consumer))
    consumer.resume()
    assert consumer.got == [b"0", b"1"]


def test_what_waits_and_was_acknowledged_meanwhile_is_not_sent(world: Any) -> None:
    first, second = consumers_of(world, 2)
    first.made.permits = 0
    producer = world.producer()
    producer.send(b"0", partition_key=key_of(first))
    producer.send(b"1", partition_key=key_of(second))
    first.subscription.skip(1)
    first.flow(10)
    assert (first.got, second.got) == ([], [b"1"])


def test_delayed_entries_keep_to_their_consumer(world: Any) -> None:
    first, second = consumers_of(world, 2)
    world.producer().send(b"0", partition_key=key_of(second), deliver_at_time=world.clock.now_ms + 100)
    world.pass_time(0.1)
    assert (first.got, second.got) == ([], [b"0"])


def test_large_backlogs_come_in_parcels(world: Any) -> None:
    (consumer,) = consumers_of(world, 1, permits=0)
    world.producer().send_all([b"x"] * 250, partition_key="k")
    consumer.flow(1000)
    assert consumer.parcels == [100, 100, 50]


def test_after_everybody_has_gone_nothing_is_remembered(world: Any) -> None:
    first, second = consumers_of(world, 2)
    world.producer().send_all([b"0", b"1"], partition_key="k")
    for each in (first, second):
        each.close()
    sticky = {"key_shared_mode": KeySharedMode.STICKY, "hash_ranges": [(0, 65_535)]}
    assert world.consumer(subscription_type=KEY_SHARED, **sticky).got == [b"0", b"1"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 5)),
        st.tuples(st.just("join"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["leave", "flow", "ack", "ack all"]), st.integers(0, 5)),
    ),
    max_size=60,
)


class Flock:
    """Consumers that come and go, and what was acknowledged of each key, in order."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.producer = world.producer()
        self.consumers: list[Any] = []
        self.unacked: dict[Any, list[bytes]] = {}
        self.acked: dict[bytes, list[int]] = defaultdict(list)
        self.sent = 0

    def step(self, name: str, number: int) -> None:
        if name == "send":
            self.producer.send(b"%d/%d" % (number, self.sent), partition_key=str(number))
            self.sent += 1
        elif name == "join":
            self.consumers.append(
                self.world.consumer(subscription_type=KEY_SHARED, name=f"n{number}", permits=3, earliest=True)
            )
        elif self.consumers:
            consumer = self.consumers[number % len(self.consumers)]
            if name == "leave":
                self.consumers.remove(consumer)
                consumer.close()
            elif name == "flow":
                consumer.flow(3)
            else:
                for data in consumer.got if name == "ack all" else consumer.got[:1]:
                    self.ack(consumer, data)

    def ack(self, consumer: Any, data: bytes) -> None:
        consumer.ack(data)
        consumer.deliveries = [each for each in consumer.deliveries if each.entry.data != data]
        key, _, number = data.partition(b"/")
        self.acked[key].append(int(number))

    def nobody_shares_a_key(self) -> bool:
        keys = [{data.partition(b"/")[0] for data in each.got} for each in self.consumers]
        return all(one.isdisjoint(other) for at, one in enumerate(keys) for other in keys[:at])


@given(steps=STEPS)
def test_keys_keep_their_order_while_consumers_come_and_go(make_world: Any, steps: list[tuple[str, int]]) -> None:
    flock = Flock(make_world())
    flock.step("join", 0)
    for name, number in steps:
        flock.step(name, number)
        assert flock.nobody_shares_a_key()
        for each in flock.consumers:
            by_key: dict[bytes, list[int]] = defaultdict(list)
            for data in each.got:
                by_key[data.partition(b"/")[0]].append(int(data.partition(b"/")[2]))
            assert all(numbers == sorted(numbers) for numbers in by_key.values())
    flock.step("join", 9)
    for each in flock.consumers:
        each.flow(1000)
    while any(each.got for each in flock.consumers):
        for each in flock.consumers:
            for data in each.got:
                flock.ack(each, data)
    assert all(numbers == sorted(numbers) for numbers in flock.acked.values())
    assert sum(map(len, flock.acked.values())) == flock.sent
