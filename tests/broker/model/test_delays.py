from typing import Any

import pytest

from pulsar_actors.broker.model.delays import Delays
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata


def entry(offset: int, deliver_at: int) -> StoredEntry:
    fields: dict[str, Any] = {"producer_name": "p", "sequence_id": 0, "publish_time": 1, "deliver_at_time": deliver_at}
    made = StoredEntry(b"", MessageMetadata(**fields), "p", 0)
    made.offset = offset
    return made


@pytest.fixture
def released() -> list[int]:
    return []


@pytest.fixture
def delays(world: Any, released: list[int]) -> Delays:
    held = Delays(world.clock, lambda: released.extend(held.release()))
    return held


def test_what_is_due_is_not_held(world: Any, delays: Delays) -> None:
    assert not delays.hold(entry(0, world.clock.now_ms))
    assert not delays.hold(entry(0, 5))
    assert len(delays) == 0


def test_each_is_released_at_its_time_to_the_millisecond(world: Any, delays: Delays, released: list[int]) -> None:
    now = world.clock.now_ms
    for offset, delay in enumerate((300, 100, 200)):
        assert delays.hold(entry(offset, now + delay))
    world.pass_time(0.099)
    assert released == []
    world.pass_time(0.001)
    assert released == [1]
    world.pass_time(0.2)
    assert released == [1, 2, 0]


def test_a_timer_is_set_for_the_earliest_only(world: Any, delays: Delays) -> None:
    for delay in range(100):
        delays.hold(entry(delay, world.clock.now_ms + 1000 + delay))
    assert world.clock.timers == 1


def test_a_timer_that_was_overtaken_does_nothing(world: Any, delays: Delays, released: list[int]) -> None:
    delays.hold(entry(0, world.clock.now_ms + 1000))
    delays.hold(entry(1, world.clock.now_ms + 500))
    world.pass_time(0.5)
    assert released == [1]
    world.pass_time(0.5)
    assert released == [1, 0]


def test_after_a_clearing_nothing_is_released(world: Any, delays: Delays, released: list[int]) -> None:
    delays.hold(entry(0, world.clock.now_ms + 500))
    delays.clear()
    delays.hold(entry(1, world.clock.now_ms + 700))
    world.pass_time(0.6)
    assert (released, world.clock.timers) == ([], 1)
    world.pass_time(0.2)
    assert released == [1]


def test_a_timer_that_fires_too_early_is_set_again(world: Any, delays: Delays, released: list[int]) -> None:
    due = world.clock.now_ms + 500
    delays.hold(entry(0, due))
    delays._fired(due)  # the two clocks of a loop need not agree to the millisecond
    assert released == []
    world.pass_time(0.5)
    assert released == [0]
