"""Who gets which key was recorded from a real broker."""

from typing import Any

import pytest

from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode, ServerError

STICKY = {"subscription_type": CommandSubscribe.SubType.Key_Shared, "key_shared_mode": KeySharedMode.STICKY}


@pytest.mark.parametrize(
    ("ranges", "complaint"),
    [
        ([], "must not be empty"),
        ([(5, 4)], r"start > end for range: \[5,4\]"),
        ([(10, 20), (0, 10)], r"\[0,10\] overlaps with \[10,20\]"),
        ([(65_000, 65_535), (90, 100)], "Range conflict with consumer first"),
        ([(150, 160)], "Range conflict with consumer first"),
        ([(0, 65_535)], "Range conflict with consumer first"),
    ],
)
def test_ranges_that_are_empty_or_overlap_are_refused(
    world: Any, ranges: list[tuple[int, int]], complaint: str
) -> None:
    world.consumer(**STICKY, name="first", hash_ranges=[(100, 200)])
    with pytest.raises(Refusal, match=complaint) as refusal:
        world.consumer(**STICKY, hash_ranges=ranges)
    assert refusal.value.code == ServerError.ConsumerAssignError


def test_a_number_that_nobody_named_waits_for_somebody(world: Any) -> None:
    low = world.consumer(**STICKY, hash_ranges=[(0, 100)])
    producer = world.producer()
    payloads = [b"%d" % number for number in range(20)]
    for payload in payloads:
        producer.send(payload, partition_key=payload.decode())
    rest = world.consumer(**STICKY, hash_ranges=[(101, 65_535)])
    assert sorted(low.got + rest.got) == sorted(payloads)
    assert rest.got


def test_ranges_of_one_who_went_are_free(world: Any) -> None:
    world.consumer(**STICKY, hash_ranges=[(0, 10)])
    world.consumer(**STICKY, hash_ranges=[(100, 200)]).close()
    world.consumer(**STICKY, hash_ranges=[(100, 200)])


KEY_SHARED = CommandSubscribe.SubType.Key_Shared

# Pulsar 4.2.4: four consumers, alpha, beta, gamma and another alpha; the keys key-0 to key-39, then one key with the
# ordering keys order-40 to order-49; the number of the consumer that got each.
RECORDED = "00032112101302210003001131000030232303333330000133"


def send_recorded_keys(producer: Any) -> None:
    for number in range(50):
        keys = {"partition_key": f"key-{number}"} if number < 40 else {"ordering_key": f"order-{number}".encode()}
        producer.send(b"%d" % number, **keys)


def owners(consumers: list[Any]) -> str:
    by_key = {data: str(number) for number, each in enumerate(consumers) for data in each.got}
    return "".join(by_key[b"%d" % number] for number in range(50))


def test_the_division_does_not_depend_on_who_was_there_meanwhile(world: Any) -> None:
    gone = world.consumer(subscription_type=KEY_SHARED, name="delta")
    consumers = [
        world.consumer(subscription_type=KEY_SHARED, name=name) for name in ("alpha", "beta", "gamma", "alpha")
    ]
    gone.close()
    send_recorded_keys(world.producer())
    assert owners(consumers) == RECORDED


def test_of_two_who_want_the_same_place_the_second_gets_it_when_the_first_is_gone(world: Any) -> None:
    many = [world.consumer(subscription_type=KEY_SHARED, name=f"n{number}", permits=0) for number in range(40)]
    ring = many[0].subscription.dispatcher.selector
    contested = next(place for place, wanting in ring._points.items() if len(wanting) == 2)
    first, second = (each.made for each in many if each.made in ring._points[contested])
    assert ring.owner(contested) is first
    many[0].subscription.detach(first)
    assert ring.owner(contested) is second


def test_a_place_behind_the_last_point_belongs_to_the_first(world: Any) -> None:
    consumer = world.consumer(subscription_type=KEY_SHARED)
    ring = consumer.subscription.dispatcher.selector
    assert ring.owner(65_535) is consumer.made
    consumer.close()
    assert ring.owner(1) is None
