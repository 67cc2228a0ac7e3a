import math
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.runtime.simulated.weather import Fault, Weather
from pulsar_actors.runtime.simulated.world import World

MakeTalk = Callable[[World], Any]

DATA = bytes(range(256)) * 100


def opened(world: World, talk: MakeTalk, data: bytes = b"") -> tuple[Any, Any, Any]:
    """A talk with one connection, both ends of which are there, and its two speakers."""
    made = talk(world)
    speaker = made.say("client", data)
    world.run(until=lambda: speaker.is_open and bool(made.echoes))
    return made, speaker, made.echoes[0]


@pytest.mark.parametrize("fault", list(Fault))
def test_each_fault_comes_by_itself_when_the_weather_says_so_and_is_counted_and_told(
    talk: MakeTalk, fault: Fault
) -> None:
    with World(1, Weather(**{fault.value: 0.5})) as world:
        made = talk(world)
        for number in range(5):
            made.say(f"client-{number}", DATA)
        world.run(limit=1000.0)
    count = world.faults_injected[fault]
    assert count > 0
    assert world.faults_injected.total() == count
    assert sum(f"FAULT {fault.value}" in line for line in world.history.lines()) == count


def test_after_a_calm_begins_nothing_goes_wrong_by_itself(talk: MakeTalk) -> None:
    with World(1, Weather(cut=1.0, refuse=0.5, ignore=0.1)) as world:
        world.faults.calm()
        made = talk(world)
        speaker = made.say("client", DATA)
        world.run()
        assert speaker.heard == DATA
        assert world.faults_injected.total() == 0


def test_so_many_connects_to_a_host_are_refused(talk: MakeTalk) -> None:
    with World(0) as world:
        made = talk(world)
        world.faults.refuse("elsewhere")
        world.faults.refuse("host", times=2)
        reasons: list[str | None] = []
        for number in range(3):
            speaker = made.say(f"client-{number}", b"x")
            world.run()
            reasons.append(speaker.reason)
        assert reasons == ["the connection was refused", "the connection was refused", None]
        assert world.faults_injected == {Fault.REFUSE: 2}


def test_a_connect_that_is_ignored_is_never_answered(talk: MakeTalk) -> None:
    with World(0) as world:
        made = talk(world)
        world.faults.ignore("host")
        first = made.say("client-1", b"x")
        world.run()
        second = made.say("client-2", b"x")
        world.run()
        assert (first.is_open, first.reason) == (False, None)
        assert second.heard == b"x"


def test_a_cut_strikes_the_connections_of_a_host_only_and_never_twice(talk: MakeTalk) -> None:
    with World(0) as world:
        made = talk(world)
        speakers = [made.say(f"client-{number}", b"x") for number in range(2)]
        world.run()
        assert world.faults.cut("nobody") == 0
        assert world.faults.cut("client-1") == 1
        world.run()
        assert [speaker.reason for speaker in speakers] == [None, "the connection was reset"]
        assert world.faults.cut("server") == 0  # which is known by the host that it was reached at
        assert world.faults.cut("host") == 1
        world.run()
        assert world.faults.cut() == 0
        assert world.faults_injected == {Fault.CUT: 2}


def test_a_stall_holds_up_one_direction_for_its_time(talk: MakeTalk) -> None:
    with World(0) as world:
        _, speaker, echo = opened(world, talk)
        assert world.faults.stall("host", 5.0) == 1
        speaker.transport.loop.post(speaker.say, b"x")
        world.run()
        assert echo.times[0] < 1.0
        assert 5.0 <= speaker.times[0] < 6.0
        assert world.faults_injected == {Fault.STALL: 1}


def test_what_is_on_its_way_when_a_stall_begins_is_held_up_too(talk: MakeTalk) -> None:
    with World(0) as world:
        _, speaker, echo = opened(world, talk, DATA)
        world.faults.stall("client", 5.0)
        heard = len(echo.heard)
        world.run(limit=4.0)
        assert len(echo.heard) == heard < len(DATA)
        world.run()
        assert speaker.heard == DATA


def test_a_direction_that_is_deaf_hears_nothing_but_a_cut(talk: MakeTalk) -> None:
    with World(0) as world:
        _, speaker, echo = opened(world, talk)
        world.faults.stall("client")
        speaker.transport.loop.post(speaker.say, b"x")
        world.run()
        assert (echo.heard, speaker.reason, echo.reason) == (b"", None, None)
        world.faults.cut()
        world.run()
        assert (speaker.reason, echo.reason) == ("the connection was reset", "the connection was reset")
        assert world.faults_injected == {Fault.DEAFEN: 1, Fault.CUT: 1}


def test_a_spike_delays_the_next_piece_and_keeps_the_order(talk: MakeTalk) -> None:
    with World(0) as world:
        _, speaker, echo = opened(world, talk)
        assert world.faults.spike("client", 3.0) == 1
        for piece in (b"1", b"2"):
            speaker.transport.loop.post(speaker.say, piece)
        world.run()
        assert min(echo.times) >= 3.0
        assert echo.heard == b"12"


def test_a_partition_holds_up_a_host_in_both_directions_connects_included_and_loses_nothing(talk: MakeTalk) -> None:
    with World(0) as world:
        made, speaker, echo = opened(world, talk)
        world.faults.partition("host", 5.0)
        world.faults.partition("host", 1.0)  # does not end the longer one
        speaker.transport.loop.post(speaker.say, DATA)
        late = made.say("late", DATA)
        world.run()
        assert min(echo.times + speaker.times + late.times) >= 5.0
        assert speaker.heard == late.heard == DATA


def test_faults_can_be_asked_for_at_a_time(talk: MakeTalk) -> None:
    with World(0) as world:
        _, speaker, _ = opened(world, talk)
        world.after(7.0, world.faults.cut)
        world.run(until=lambda: speaker.reason is not None)
        assert math.isclose(world.now, 7.0, abs_tol=0.1)
