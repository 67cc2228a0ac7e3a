from collections.abc import Callable

import pytest

from pulsar_actors.runtime.simulated.errors import Misuse
from pulsar_actors.runtime.simulated.simulated_loop import SimulatedLoop
from pulsar_actors.runtime.simulated.weather import Weather
from pulsar_actors.runtime.simulated.world import World

USES: dict[str, Callable[[SimulatedLoop], object]] = {
    "later": lambda loop: loop.later(0.0, print, None),
    "off_loop": lambda loop: loop.off_loop(lambda: None, print, timeout=1.0),
    "connect": lambda loop: loop.connect("host", 1, None),  # type: ignore[arg-type]
    "listen": lambda loop: loop.listen("host", 1, lambda _, __: None),  # type: ignore[arg-type, return-value]
}


@pytest.mark.parametrize("use", USES)
def test_what_is_for_its_own_thread_is_refused_elsewhere(use: str) -> None:
    with World(0) as world:
        loop, other = world.loop("a"), world.loop("b")
        with pytest.raises(Misuse, match=f"{use} was called outside of the loop a"):
            USES[use](loop)
        other.post(USES[use], loop)
        with pytest.raises(Misuse, match=f"{use} was called outside of the loop a"):
            world.run()
        caller = world.spawn(lambda: USES[use](loop))
        world.run()
        with pytest.raises(Misuse):
            caller.result()


def test_the_calendar_runs_with_the_clock() -> None:
    with World(0) as world:
        loop = world.loop("a")
        before = loop.wall_clock_ms()
        world.after(1.5, lambda: None)
        world.run()
        assert loop.wall_clock_ms() - before == 1500
        assert loop.now() == world.now == 1.5


def test_each_loop_has_dice_of_its_own_that_the_seed_decides() -> None:
    with World(3) as world, World(3) as again:
        loops = [world.loop("a"), world.loop("b"), again.loop("a")]
        chances = [loop.chance() for loop in loops]
    assert chances[0] == chances[2] != chances[1]


def test_work_and_its_timeout_race() -> None:
    answers: set[str] = set()
    done_late = 0
    for seed in range(50):
        with World(seed, Weather(helper_latency=1.0)) as world:
            loop = world.loop("a")
            got: list[object] = []
            worked: list[bool] = []

            def begin(
                _: None, loop: SimulatedLoop = loop, got: list[object] = got, worked: list[bool] = worked
            ) -> None:
                loop.off_loop(lambda: worked.append(True), got.append, timeout=0.5)

            loop.post(begin, None)
            world.run()
            (answer,) = got
            answers.add(str(answer))
            done_late += isinstance(answer, TimeoutError) and worked == [True]
    assert answers == {"None", "it took longer than 0.5 s"}
    assert done_late > 0


def test_after_its_end_a_loop_does_nothing_not_even_with_what_comes_back() -> None:
    with World(0) as world:
        loop = world.loop("a")
        loop.start()
        seen: list[object] = []

        def begin(_: None) -> None:
            loop.off_loop(lambda: "result", seen.append, timeout=1.0)
            loop.later(0.001, seen.append, "timer")
            loop.stop(timeout=1.0)

        loop.post(begin, None)
        world.run()
        loop.post(seen.append, "posted")
        world.run()
        assert seen == []
        assert not loop.is_running
