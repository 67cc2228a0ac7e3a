import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulsar_actors.simulation.connection import ROUGH, NetworkConditions, NetworkFault
from pulsar_actors.simulation.scheduler import Misuse
from pulsar_actors.simulation.world import World
from tests.simulation.talk import Talk

DATA = bytes(range(256)) * 100


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), said=st.lists(st.binary(max_size=3000), max_size=20), window=st.integers(1, 5000))
def test_no_byte_is_lost_invented_or_moved(seed: int, said: list[bytes], window: int) -> None:
    with World(seed, NetworkConditions(smallest_window=window, largest_window=2 * window)) as world:
        made = Talk(world)
        speaker = made.say("client", b"")
        world.run(until=lambda: speaker.is_open)
        loop = speaker.transport.loop
        for number, data in enumerate(said):
            world.after(0.001 * number, lambda data=data: loop.post(speaker.say, data))
        world.run()
        assert speaker.heard == b"".join(said)
        (echo,) = made.echoes
        assert echo.heard == b"".join(said)


def heard_in(conditions: NetworkConditions, parts: list[bytes]) -> list[list[int]]:
    """Say these at once, and give the sizes in which they were heard, under many seeds."""
    sizes: list[list[int]] = []
    for seed in range(50):
        with World(seed, conditions) as world:
            made = Talk(world)
            speaker = made.say("client", b"")
            world.run(until=lambda speaker=speaker: speaker.is_open)
            for part in parts:
                speaker.transport.loop.post(speaker.say, part)
            world.run()
            sizes.append(made.echoes[0].sizes)
    return sizes


def test_pieces_are_cut_anywhere_and_most_of_all_near_their_beginning() -> None:
    sizes = heard_in(NetworkConditions(), [b"x" * 1000])
    assert [1000] in sizes
    firsts = {some[0] for some in sizes if len(some) > 1}
    assert any(first <= 8 for first in firsts)
    assert any(8 < first < 1000 for first in firsts)


def test_pieces_that_arrive_together_are_joined_and_others_are_not() -> None:
    sizes = heard_in(NetworkConditions(fragments=0.0), [b"x" * 10] * 3)
    assert {tuple(some) for some in sizes} == {(10, 10, 10), (20, 10), (10, 20), (30,)}


def test_each_piece_takes_its_own_time_within_the_latency() -> None:
    delays: list[float] = []
    for seed in range(100):
        with World(seed, NetworkConditions(latency=0.5, fragments=0.0)) as world:
            made = Talk(world)
            speaker = made.say("client", b"")
            world.run(until=lambda speaker=speaker: speaker.is_open)
            world.run(until=lambda made=made: bool(made.echoes))
            said_at = world.now
            speaker.transport.loop.post(speaker.say, b"x")
            world.run()
            delays.append(made.echoes[0].times[0] - said_at)
    assert len(set(delays)) == 100
    assert 0.0 <= min(delays) < 0.1
    assert 0.4 < max(delays) <= 0.5


def test_connections_overtake_each_other() -> None:
    winners: set[int] = set()
    for seed in range(30):
        with World(seed) as world:
            made = Talk(world)
            speakers = [made.say(f"client-{number}", b"hello") for number in range(3)]
            world.run(until=lambda speakers=speakers: any(speaker.heard for speaker in speakers))
            winners.add([bool(speaker.heard) for speaker in speakers].index(True))
    assert winners == {0, 1, 2}


def test_more_than_a_window_is_taken_in_parts_and_room_is_told() -> None:
    with World(0, NetworkConditions(smallest_window=1000, largest_window=1000)) as world:
        made = Talk(world)
        speaker = made.say("client", DATA)
        world.run()
        assert speaker.heard == DATA
        assert speaker.rooms >= len(DATA) / 1000 - 1
        assert max(speaker.sizes) <= 1000


def test_windows_differ() -> None:
    taken: set[int] = set()
    for seed in range(100):
        with World(seed, NetworkConditions(smallest_window=10, largest_window=65)) as world:
            made = Talk(world)
            speaker = made.say("client", DATA)
            world.run(until=lambda speaker=speaker: speaker.is_open)
            taken.add(len(DATA) - len(speaker.to_send))
    assert taken == {10, 20, 40, 65}


@pytest.mark.parametrize("use", ["send", "await_room", "close"])
def test_a_transport_is_refused_outside_of_its_loop(world: World, talk: Talk, use: str) -> None:
    speaker = talk.say("client", b"")
    world.run()
    arguments = [[b"x"]] if use == "send" else []

    def use_it(_: None) -> None:
        getattr(speaker.transport, use)(*arguments)

    with pytest.raises(Misuse, match="client>host:1 #1 was used outside of its loop"):
        use_it(None)
    talk.server.post(use_it, None)
    with pytest.raises(Misuse, match="client>host:1 #1 was used outside of its loop"):
        world.run()


def test_what_is_still_on_its_way_when_a_connection_is_cut_is_lost_from_some_byte_on() -> None:
    lengths: list[int] = []
    for seed in range(100):
        with World(seed, NetworkConditions(smallest_window=10_000, largest_window=10_000)) as world:
            made = Talk(world)
            speaker = made.say("client", DATA)
            world.run(until=lambda speaker=speaker: speaker.is_open)
            world.run(until=lambda made=made: bool(made.echoes))
            assert world.faults.cut() == 1
            world.run()
            (echo,) = made.echoes
            assert DATA.startswith(echo.heard)
            assert (speaker.reason, echo.reason) == ("the connection was reset", "the connection was reset")
            lengths.append(len(echo.heard))
    assert len(set(lengths)) > 50
    assert 0 <= min(lengths) < 1000
    assert 9000 < max(lengths) <= 10_000


def test_what_is_sent_after_a_cut_and_before_it_is_heard_goes_nowhere() -> None:
    with World(0, NetworkConditions(latency=1.0)) as world:
        made = Talk(world)
        speaker = made.say("client", b"before")
        world.run(until=lambda: len(speaker.heard) == 6)
        world.faults.cut()
        speaker.transport.loop.post(speaker.say, b"after")
        world.run()
        assert speaker.to_send == b""
        assert made.echoes[0].heard == b"before"
        assert speaker.reason == "the connection was reset"


@pytest.mark.parametrize("name", ["fragments", "yields", *(fault.value for fault in NetworkFault)])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is a probability from 0 to 1, not {value}"):
        NetworkConditions(**{name: value})


@pytest.mark.parametrize("name", ["latency", "blocking_latency", "outage"])
@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan")])
def test_what_is_no_time_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is a time in seconds, not {value}"):
        NetworkConditions(**{name: value})


@pytest.mark.parametrize(("smallest", "largest"), [(0, 1), (2, 1), (-1, -1)])
def test_a_window_that_could_hold_nothing_is_refused(smallest: int, largest: int) -> None:
    with pytest.raises(ValueError, match=f"in that order, not {smallest} and {largest}"):
        NetworkConditions(smallest_window=smallest, largest_window=largest)


def test_every_fault_has_a_probability_that_can_be_taken_away() -> None:
    assert all(getattr(ROUGH, fault.value) > 0.0 for fault in NetworkFault)
    assert all(getattr(ROUGH.without_faults(), fault.value) == 0.0 for fault in NetworkFault)
    assert ROUGH.without_faults().latency == ROUGH.latency
