import errno
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.runtime.loop import Listener
from pulsar_actors.runtime.simulated.errors import Misuse
from pulsar_actors.runtime.simulated.world import World

MakeTalk = Callable[[World], Any]


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
def test_hosts_are_names(talk: MakeTalk, listens_on: str, host: str, *, is_found: bool) -> None:
    with World(0) as world:
        made = talk(world)
        listener = listen(world, made, listens_on, 5)
        assert listener.port == 5
        assert dial(world, made, host, 5) == (None if is_found else "the connection was refused")
        assert dial(world, made, host, 6) == "the connection was refused"


def test_free_ports_are_given_and_taken_ones_are_passed_over(talk: MakeTalk) -> None:
    with World(0) as world:
        made = talk(world)
        first = listen(world, made, "a", 0)
        taken = listen(world, made, "b", first.port + 1)
        assert listen(world, made, "a", 0).port == taken.port + 1


@pytest.mark.parametrize(("port", "number"), [(1, errno.EADDRINUSE), (-1, errno.EINVAL), (65536, errno.EINVAL)])
def test_a_port_that_cannot_be_had_raises(talk: MakeTalk, port: int, number: int) -> None:
    with World(0) as world:
        made = talk(world)
        made.server.post(lambda _: made.server.listen("host", port, made.accept), None)
        world.run()
        (failure,) = world.failures
        world.failures.clear()
    assert isinstance(failure.error, OSError)
    assert failure.error.errno == number


def test_who_has_not_been_accepted_when_a_listener_closes_is_turned_away(talk: MakeTalk) -> None:
    ends: set[tuple[bool, str | None, int]] = set()
    for seed in range(50):
        with World(seed) as world:
            made = talk(world)
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


def test_a_listener_is_refused_outside_of_its_loop(talk: MakeTalk) -> None:
    with World(0) as world:
        made = talk(world)
        listener = listen(world, made, "host", 2)
        with pytest.raises(Misuse, match="the listener on host:2 was closed outside of its loop"):
            listener.close()


def test_a_listener_of_a_loop_that_stopped_leaves_its_address_to_another(talk: MakeTalk) -> None:
    with World(0) as world:
        made = talk(world)
        old = listen(world, made, "host", 2)
        made.server.stop()
        world.run()
        again = talk(world)
        listen(world, again, "host", 2)
        old.shut()  # type: ignore[attr-defined] # the old one must not take the new one's place away
        assert dial(world, again, "host", 2) is None
