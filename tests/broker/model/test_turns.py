from typing import Any

from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe

SHARED = CommandSubscribe.SubType.Shared


def test_consumers_take_turns(world: Any) -> None:
    consumers = [world.consumer(kind=SHARED) for _ in range(3)]
    world.producer().send_all([b"%d" % number for number in range(7)])
    assert [each.got for each in consumers] == [[b"0", b"3", b"6"], [b"1", b"4"], [b"2", b"5"]]


def test_a_lower_level_is_served_first_and_the_next_when_nobody_there_can_take_more(world: Any) -> None:
    """The example in Pulsar's own documentation of priority levels."""
    names = {"C4": (1, 2), "C5": (1, 1), "C1": (0, 2), "C2": (0, 1), "C3": (0, 1)}
    consumers = {
        name: world.consumer(kind=SHARED, priority_level=level, permits=permits)
        for name, (level, permits) in names.items()
    }
    world.producer().send_all([b"%d" % number for number in range(8)])
    order = {data: name for name, each in consumers.items() for data in each.got}
    assert [order[b"%d" % number] for number in range(7)] == ["C1", "C2", "C3", "C1", "C4", "C5", "C4"]
    assert b"7" not in order


def test_one_that_cannot_take_more_is_passed_over(world: Any) -> None:
    first, second = (world.consumer(kind=SHARED) for _ in range(2))
    first.room = False
    world.producer().send_all([b"0", b"1"])
    assert (first.got, second.got) == ([], [b"0", b"1"])


def test_a_turn_of_a_backlog_is_twenty_entries(world: Any) -> None:
    consumers = [world.consumer(kind=SHARED, permits=0) for _ in range(2)]
    world.producer().send_all([b"x"] * 100)
    for each in consumers:
        each.made.permits = 50
    consumers[0].made.resume()
    assert [len(each.got) for each in consumers] == [50, 50]
    assert [entry.entry.entry_id for entry in consumers[1].deliveries[:20]] == list(range(20, 40))
