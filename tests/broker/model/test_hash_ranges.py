from typing import Any

import pytest

from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode, ServerError

STICKY = {"kind": CommandSubscribe.SubType.Key_Shared, "key_shared_mode": KeySharedMode.STICKY}


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


def test_each_key_goes_to_the_one_who_named_its_number(world: Any) -> None:
    low = world.consumer(**STICKY, hash_ranges=[(0, 32_767)])
    high = world.consumer(**STICKY, hash_ranges=[(32_768, 65_535)])
    world.producer().send_all([b"x"] * 50, partition_key="k1")
    assert sorted([len(low.got), len(high.got)]) == [0, 50]


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
    world.consumer(**STICKY, hash_ranges=[(100, 200)]).made.close()
    world.consumer(**STICKY, hash_ranges=[(100, 200)])
