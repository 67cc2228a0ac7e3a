import errno
import math
from typing import Any

import pytest

from pulsar_actors.runtime.loop import Listener
from pulsar_actors.simulation.connection import NetworkConditions, NetworkFault
from pulsar_actors.simulation.scheduler import Misuse
from pulsar_actors.simulation.world import World
from tests.simulation.talk import Talk


def listen(world: World, made: Any, host: str, port: int) -> Listener:
    listeners: list[Listener] = []
    made.server.post(lambda _: listeners.append(made.server.listen(host, port, made.accept)), None)
    world.run(until=lambda: bool(listeners))
    return listeners[0]


def dial(world: World, made: Any, host: str, port: int) -> str | None:
    """Connect to an address, and give the reason if that fails."""
    made.dialled = getattr(made, "dialled", 0) + 1
    speaker = made.say(f"dialler-{made.dialled}", b"", host, port)
    world.run()
    reason: str | None = speaker.reason
    return reason


@pytest.mark.parametrize(
    ("listens_on", "host", "is_found"),
    [
        *(("127.0.0.1", "localhost", True), ("localhost", "127.0.0.1", True), ("a", "a", True), ("a", "b", False)),
        *(("0.0.0.0", "anything", True), ("::", "anything", True), ("", "localhost", True)),  # noqa: S104 - only a name
    ],
)
def test_hosts_are_names(world: World, talk: Talk, listens_on: str, host: str, *, is_found: bool) -> None:
    listener = listen(world, talk, listens_on, 5)
    assert listener.port == 5
    assert dial(world, talk, host, 5) == (None if is_found else "the connection was refused")
    assert dial(world, talk, host, 6) == "the connection was refused"


def test_free_ports_are_given_and_taken_ones_are_passed_over(world: World, talk: Talk) -> None:
    first = listen(world, talk, "a", 0)
    taken = listen(world, talk, "b", first.port + 1)
    assert listen(world, talk, "a", 0).port == taken.port + 1


@pytest.mark.parametrize(("port", "number"), [(1, errno.EADDRINUSE), (-1, errno.EINVAL), (65536, errno.EINVAL)])
def test_a_port_that_cannot_be_had_raises(port: int, number: int) -> None:
    with World(0) as world:
        made = Talk(world)
        made.server.post(lambda _: made.server.listen("host", port, made.accept), None)
        world.run()
        (failure,) = world.failures
        world.failures.clear()
    assert isinstance(failure.error, OSError)
    assert failure.error.errno == number


def test_who_has_not_been_accepted_when_a_listener_closes_is_turned_away() -> None:
    ends: set[tuple[bool, str | None, int]] = set()
    for seed in range(50):
        with World(seed) as world:
            made = Talk(world)
            listener = listen(world, made, "host", 2)
            started = world.now
            speaker = made.say("client", b"", "host", 2)
            world.after(
                0.0005 * (seed % 10),
                lambda made=made, listener=listener: made.server.post(lambda _: listener.close(), None),
            )
            world.run()
            assert world.now - started < 1.0
            ends.add((speaker.is_open, speaker.reason, len(made.echoes)))
    assert ends == {
        (False, "the connection was refused", 0),
        (True, "the connection was reset", 0),
        (True, None, 1),
    }


def test_a_listener_is_refused_outside_of_its_loop(world: World, talk: Talk) -> None:
    listener = listen(world, talk, "host", 2)
    with pytest.raises(Misuse, match="the listener on host:2 was closed outside of its loop"):
        listener.close()


def test_a_listener_of_a_loop_that_stopped_leaves_its_address_to_another(world: World) -> None:
    made = Talk(world)
    old = listen(world, made, "host", 2)
    made.server.stop()
    world.run()
    again = Talk(world)
    listen(world, again, "host", 2)
    old.shut()  # type: ignore[attr-defined] # the old one must not take the new one's place away
    assert dial(world, again, "host", 2) is None


DATA = bytes(range(256)) * 100


def opened(world: World, data: bytes = b"") -> tuple[Any, Any, Any]:
    """A talk with one connection, both ends of which are there, and its two speakers."""
    made = Talk(world)
    speaker = made.say("client", data)
    world.run(until=lambda: speaker.is_open and bool(made.echoes))
    return made, speaker, made.echoes[0]


@pytest.mark.parametrize("fault", list(NetworkFault))
def test_each_fault_comes_by_itself_when_the_conditions_say_so_and_is_counted_and_told(fault: NetworkFault) -> None:
    with World(1, NetworkConditions(**{fault.value: 0.5})) as world:
        made = Talk(world)
        for number in range(5):
            made.say(f"client-{number}", DATA)
        world.run(limit=1000.0)
    count = world.faults_injected[fault]
    assert count > 0
    assert world.faults_injected.total() == count
    assert sum(f"FAULT {fault.value}" in line for line in world.history.lines()) == count


def test_after_a_calm_begins_nothing_goes_wrong_by_itself() -> None:
    with World(1, NetworkConditions(cut=1.0, refuse=0.5, ignore=0.1)) as world:
        world.faults.calm()
        made = Talk(world)
        speaker = made.say("client", DATA)
        world.run()
        assert speaker.heard == DATA
        assert world.faults_injected.total() == 0


def test_so_many_connects_to_a_host_are_refused(world: World, talk: Talk) -> None:
    world.faults.refuse("elsewhere")
    world.faults.refuse("host", times=2)
    reasons: list[str | None] = []
    for number in range(3):
        speaker = talk.say(f"client-{number}", b"x")
        world.run()
        reasons.append(speaker.reason)
    assert reasons == ["the connection was refused", "the connection was refused", None]
    assert world.faults_injected == {NetworkFault.REFUSE: 2}


def test_a_connect_that_is_ignored_is_never_answered(world: World, talk: Talk) -> None:
    world.faults.ignore("host")
    first = talk.say("client-1", b"x")
    world.run()
    second = talk.say("client-2", b"x")
    world.run()
    assert (first.is_open, first.reason) == (False, None)
    assert second.heard == b"x"


def test_a_cut_strikes_the_connections_of_a_host_only_and_never_twice(world: World, talk: Talk) -> None:
    speakers = [talk.say(f"client-{number}", b"x") for number in range(2)]
    world.run()
    assert world.faults.cut("nobody") == 0
    assert world.faults.cut("client-1") == 1
    world.run()
    assert [speaker.reason for speaker in speakers] == [None, "the connection was reset"]
    assert world.faults.cut("server") == 0  # which is known by the host that it was reached at
    assert world.faults.cut("host") == 1
    world.run()
    assert world.faults.cut() == 0
    assert world.faults_injected == {NetworkFault.CUT: 2}


def test_a_stall_holds_up_one_direction_for_its_time(world: World) -> None:
    _, speaker, echo = opened(world)
    assert world.faults.stall("host", 5.0) == 1
    speaker.transport.loop.post(speaker.say, b"x")
    world.run()
    assert echo.times[0] < 1.0
    assert 5.0 <= speaker.times[0] < 6.0
    assert world.faults_injected == {NetworkFault.STALL: 1}


def test_what_is_on_its_way_when_a_stall_begins_is_held_up_too(world: World) -> None:
    _, speaker, echo = opened(world, DATA)
    world.faults.stall("client", 5.0)
    heard = len(echo.heard)
    world.run(limit=4.0)
    assert len(echo.heard) == heard < len(DATA)
    world.run()
    assert speaker.heard == DATA


def test_a_direction_that_is_deaf_hears_nothing_but_a_cut(world: World) -> None:
    _, speaker, echo = opened(world)
    world.faults.stall("client")
    speaker.transport.loop.post(speaker.say, b"x")
    world.run()
    assert (echo.heard, speaker.reason, echo.reason) == (b"", None, None)
    world.faults.cut()
    world.run()
    assert (speaker.reason, echo.reason) == ("the connection was reset", "the connection was reset")
    assert world.faults_injected == {NetworkFault.DEAFEN: 1, NetworkFault.CUT: 1}


def test_a_spike_delays_the_next_piece_and_keeps_the_order(world: World) -> None:
    _, speaker, echo = opened(world)
    assert world.faults.spike("client", 3.0) == 1
    for piece in (b"1", b"2"):
        speaker.transport.loop.post(speaker.say, piece)
    world.run()
    assert min(echo.times) >= 3.0
    assert echo.heard == b"12"


def test_a_partition_holds_up_a_host_in_both_directions_connects_included_and_loses_nothing(world: World) -> None:
    made, speaker, echo = opened(world)
    world.faults.partition("host", 5.0)
    world.faults.partition("host", 1.0)  # does not end the longer one
    speaker.transport.loop.post(speaker.say, DATA)
    late = made.say("late", DATA)
    world.run()
    assert min(echo.times + speaker.times + late.times) >= 5.0
    assert speaker.heard == late.heard == DATA


def test_faults_can_be_asked_for_at_a_time(world: World) -> None:
    _, speaker, _ = opened(world)
    world.after(7.0, world.faults.cut)
    world.run(until=lambda: speaker.reason is not None)
    assert math.isclose(world.now, 7.0, abs_tol=0.1)
