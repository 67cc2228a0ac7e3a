import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.simulation import world as world_module
from pulsar_actors.simulation.connection import ROUGH, NetworkConditions
from pulsar_actors.simulation.explore import explore
from pulsar_actors.simulation.scheduler import Deadlock, Livelock, Misuse, OutOfTime, TasksFailed
from pulsar_actors.simulation.world import SimulatedLoop, World
from tests.simulation.talk import Talk


def history_of_a_talk(seed: int) -> list[str]:
    with World(seed, ROUGH) as world:
        made = Talk(world)
        speakers = [made.say(f"client-{number}", bytes(range(256)) * 20) for number in range(3)]
        loop = world.loop("other")

        def look_up(_: None) -> None:
            loop.run_blocking(lambda: "an address", lambda _: None, timeout=0.01)

        def user(speaker: Any) -> Callable[[], bool]:
            return lambda: world.block(lambda: len(speaker.heard) > 1000, timeout=5.0)

        loop.post(look_up, None)
        callers = [world.spawn(user(speaker)) for speaker in speakers]
        world.run(limit=100.0)
        world.note(str([caller.result() for caller in callers]))
    return world.history.lines()


# The same seed, the same history


def test_the_same_seed_gives_the_same_history_and_another_seed_another() -> None:
    histories = [history_of_a_talk(seed) for seed in range(20)]
    assert histories == [history_of_a_talk(seed) for seed in range(20)]
    assert len({tuple(history) for history in histories}) == 20


def test_another_process_with_another_hash_seed_gives_the_same_history() -> None:
    script = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "from tests.simulation.test_world import history_of_a_talk\n"
        "print('\\n'.join(line for seed in range(5) for line in history_of_a_talk(seed)))"
    )
    outputs: list[str] = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", script, str(Path(__file__).parents[2])]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603
        outputs.append(done.stdout)
    here = "\n".join(line for seed in range(5) for line in history_of_a_talk(seed))
    assert outputs == [here + "\n"] * 2


def test_a_day_of_virtual_time_does_not_take_long(world: World) -> None:
    loop = world.loop("a")

    def again(_: None) -> None:
        loop.later(30.0, again, None)

    loop.post(again, None)
    world.run()
    assert world.now == 24 * 3600.0
    assert world.steps == 24 * 120 + 1


# Orders


def test_every_order_of_two_loops_happens() -> None:
    orders: set[tuple[str, ...]] = set()
    for seed in range(200):
        with World(seed) as world:
            done: list[str] = []
            for name in ("a", "b"):
                loop = world.loop(name)
                for _ in range(2):
                    loop.post(done.append, name)
            world.run()
            orders.add(tuple(done))
    assert len(orders) == 6


def lost_updates(*, checkpoint: bool) -> int:
    """Count the seeds in which two callers that add to a number lose one addition."""
    lost = 0
    for seed in range(100):
        with World(seed) as world:
            number = [0]

            def add(number: list[int] = number, world: World = world) -> None:
                value = number[0]
                if checkpoint:
                    world.checkpoint()
                number[0] = value + 1

            world.spawn(add)
            world.spawn(add)
            world.run()
            lost += number[0] != 2
    return lost


def test_a_race_between_callers_happens_at_checkpoints_and_nowhere_else() -> None:
    assert lost_updates(checkpoint=False) == 0
    assert 5 < lost_updates(checkpoint=True) < 90


def test_a_caller_may_go_on_in_the_middle_of_a_task_and_another_task_may_not() -> None:
    seen: set[tuple[str, ...]] = set()
    for seed in range(100):
        with World(seed) as world:
            loop, order = world.loop("a"), list[str]()

            def task(_: None, world: World = world, order: list[str] = order, loop: Any = loop) -> None:
                order.append("begins")
                assert loop.is_here()
                world.checkpoint()
                assert loop.is_here()
                order.append("ends")

            def call(order: list[str] = order, loop: Any = loop) -> None:
                assert not loop.is_here()
                order.append("caller")

            loop.post(task, None)
            loop.post(order.append, "next task")
            world.spawn(call)
            world.run()
            world.run(until=lambda order=order: len(order) == 4)
            seen.add(tuple(order))
    assert ("begins", "caller", "ends", "next task") in seen
    assert ("caller", "begins", "ends", "next task") in seen
    assert ("begins", "ends", "caller", "next task") in seen
    assert all(order.index("ends") < order.index("next task") for order in seen)


def test_a_checkpoint_of_the_test_itself_lets_the_world_go_on_now_and_then(world: World) -> None:
    loop, done = world.loop("a"), list[int]()
    world.checkpoint()
    for number in range(100):
        loop.post(done.append, number)
        world.checkpoint()
    assert 5 < len(done) < 95


# Failures


def test_what_raises_fails_the_run_in_the_end_with_all_that_failed() -> None:
    def fail(what: str) -> None:
        raise ValueError(what)

    def scenario() -> None:
        with World(0) as world:
            loop = world.loop("a")
            loop.post(fail, "first")
            loop.post(fail, "second")
            world.run()

    with pytest.raises(TasksFailed, match=r"(?s)2 failed:.*at 0.000000 s, a:.*ValueError: first.*second") as failure:
        scenario()
    assert str(failure.value.__cause__) == "first"


def test_a_failure_that_a_test_takes_out_is_none(world: World) -> None:
    world.loop("a").post(lambda _: 1 / 0, None)
    world.run()
    (failure,) = world.failures
    assert isinstance(failure.error, ZeroDivisionError)
    world.failures.clear()


def test_a_failure_comes_before_what_followed_from_it() -> None:
    def scenario() -> None:
        with World(0) as world:
            world.loop("a").post(lambda _: 1 / 0, None)
            world.run(until=lambda: False)

    with pytest.raises(TasksFailed, match="division by zero") as failure:
        scenario()
    assert isinstance(failure.value.__cause__, Deadlock)


def test_an_interrupt_is_not_hidden_by_failures_and_ends_the_run_from_within_a_task() -> None:
    def interrupt(_: None) -> None:
        raise KeyboardInterrupt

    def scenario() -> None:
        with World(0) as world:
            world.loop("a").post(lambda _: 1 / 0, None)
            world.run()
            world.loop("b").post(interrupt, None)
            world.run()

    with pytest.raises(KeyboardInterrupt):
        scenario()


# How a run ends


def test_a_run_ends_when_all_callers_have_or_when_nothing_is_left(world: World) -> None:
    loop, rung = world.loop("a"), list[float]()
    loop.post(lambda _: loop.later(5.0, lambda _: rung.append(world.now), None), None)
    caller = world.spawn(lambda: world.block(lambda: False, timeout=1.0))
    world.run()
    assert (caller.result(), world.now, rung) == (False, 1.0, [])
    world.run()
    assert (rung, world.now) == ([5.0], 5.0)
    world.run()
    assert world.now == 5.0


def test_a_run_that_does_not_get_there_says_whether_there_was_hope(world: World) -> None:
    with pytest.raises(Deadlock, match="nothing will ever happen"):
        world.run(until=lambda: False)
    world.after(10.0, lambda: None)
    with pytest.raises(OutOfTime, match=r"2 s of virtual time are over"):
        world.run(until=lambda: False, limit=2.0)


def test_callers_that_wait_for_each_other_are_a_deadlock_that_names_them_and_where_they_are() -> None:
    with World(0) as world:
        future: Future[int] = Future()

        def wait_for_a_future() -> None:
            world.block(future)

        def wait_for_a_condition() -> None:
            world.block(future.done, None)

        world.spawn(wait_for_a_future, "ann")
        world.spawn(wait_for_a_condition, "bob")
        with pytest.raises(Deadlock) as deadlock:
            world.run()
    text = str(deadlock.value)
    assert "ann waits for a Future:" in text
    assert "bob waits for " in text
    assert "in wait_for_a_future" in text
    assert "in wait_for_a_condition" in text


def test_steps_without_end_in_no_time_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_module, "MOST_STEPS_AT_ONCE", 1000)
    with World(0) as world:
        loop = world.loop("a")

        def again(_: None) -> None:
            loop.post(again, None)

        loop.post(again, None)
        with pytest.raises(Livelock, match=r"1,001 steps at 0\.0 s"):
            world.run()


# Waiting


def test_the_test_itself_can_wait_and_the_world_runs_meanwhile(world: World) -> None:
    loop = world.loop("a")
    future: Future[str] = Future()
    loop.post(lambda _: loop.later(3.0, future.set_result, "done"), None)
    assert not world.block(future, timeout=2.0)
    assert world.now == 2.0
    assert world.block(future)
    assert world.now == 3.0
    assert world.block(lambda: True)
    with pytest.raises(Deadlock, match="every caller has ended"):
        world.block(Future[int]())


def test_a_task_must_not_wait_and_a_caller_must_not_run_the_world(world: World) -> None:
    world.loop("a").post(lambda _: world.block(lambda: True), None)
    with pytest.raises(Misuse, match="block within a task: a loop must never wait"):
        world.run()
    world.after(0.0, world.run)
    with pytest.raises(Misuse, match="run within a task"):
        world.run()
    caller = world.spawn(world.run)
    world.run()
    with pytest.raises(Misuse, match="a caller cannot run the world"):
        caller.result()


def test_a_thread_that_the_world_did_not_start_is_refused() -> None:
    with World(0) as world:
        refused: list[Misuse] = []

        def intrude() -> None:
            with pytest.raises(Misuse) as misuse:
                world.block(lambda: True)
            refused.append(misuse.value)

        thread = threading.Thread(target=intrude, name="intruder", daemon=True)
        thread.start()
        thread.join()
    assert "intruder is a thread that the simulation did not start" in str(refused[0])


def test_a_closed_world_is_over() -> None:
    with World(0) as world:
        pass
    world.close()
    with pytest.raises(Misuse, match="run in a world that is closed"):
        world.run()


def test_a_loop_that_has_stopped_leaves_its_name_to_another(world: World) -> None:
    loop = world.loop("a")
    with pytest.raises(Misuse, match="there is a loop 'a' already"):
        world.loop("a")
    loop.stop()
    world.run()
    assert not loop.is_running
    assert world.loop("a").is_running


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_of_cycles_rests_while_a_world_is_open_and_is_then_as_before(*, was_on: bool) -> None:
    if not was_on:
        gc.disable()
    try:
        with World(0):
            assert not gc.isenabled()
        assert gc.isenabled() == was_on
    finally:
        gc.enable()


def test_whatever_goes_wrong_what_arrives_is_the_beginning_of_what_was_sent() -> None:
    data = bytes(range(256)) * 100
    whole = 0

    def scenario(world: World) -> None:
        nonlocal whole
        made = Talk(world)
        speaker = made.say("client", data)
        world.run(limit=1000.0)
        (heard_there,) = [bytes(echo.heard) for echo in made.echoes] or [b""]
        assert data.startswith(heard_there)
        assert heard_there.startswith(bytes(speaker.heard))
        whole += len(speaker.heard) == len(data)

    explored = explore(
        300,
        scenario,
        NetworkConditions(cut=0.1, stall=0.1, spike=0.1, partition=0.05, deafen=0.05, refuse=0.1, ignore=0.1),
    )
    assert 0 < whole < 300
    assert min(explored.faults.values()) > 0
    assert len(explored.faults) == 7


USES: dict[str, Callable[[SimulatedLoop], object]] = {
    "later": lambda loop: loop.later(0.0, print, None),
    "run_blocking": lambda loop: loop.run_blocking(lambda: None, print, timeout=1.0),
    "connect": lambda loop: loop.connect("host", 1, None),  # type: ignore[arg-type]
    "listen": lambda loop: loop.listen("host", 1, lambda _, __: None),  # type: ignore[arg-type, return-value]
}


@pytest.mark.parametrize("use", USES)
def test_what_is_for_its_own_thread_is_refused_elsewhere(world: World, use: str) -> None:
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


def test_the_calendar_runs_with_the_clock(world: World) -> None:
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
        with World(seed, NetworkConditions(blocking_latency=1.0)) as world:
            loop = world.loop("a")
            got: list[object] = []
            worked: list[bool] = []

            def begin(
                _: None, loop: SimulatedLoop = loop, got: list[object] = got, worked: list[bool] = worked
            ) -> None:
                loop.run_blocking(lambda: worked.append(True), got.append, timeout=0.5)

            loop.post(begin, None)
            world.run()
            (answer,) = got
            answers.add(str(answer))
            done_late += isinstance(answer, TimeoutError) and worked == [True]
    assert answers == {"None", "it took longer than 0.5 s"}
    assert done_late > 0


def blocking_calls(world: World, *calls: tuple[str, float, float]) -> list[tuple[str, float]]:
    """Make calls at once, each of an executor, of so many seconds, with a timeout; tell how and when each ended."""
    loop = world.loop("a")
    seen: list[tuple[str, float]] = []

    def begin(_: None) -> None:
        for number, (executor, seconds, timeout) in enumerate(calls):

            def work(number: int = number, seconds: float = seconds) -> str:
                world.spend(seconds)
                return f"call {number} at {loop.now():g}"

            def done(outcome: object) -> None:
                seen.append((str(outcome).partition(" longer")[0], round(loop.now(), 3)))

            loop.run_blocking(work, done, timeout=timeout, executor=executor)

    loop.post(begin, None)
    world.run()
    return seen


AT_ONCE = NetworkConditions(blocking_latency=0.0)


def test_work_that_spends_time_ends_later_and_sees_the_clock_go_on() -> None:
    with World(1, AT_ONCE) as world:
        assert blocking_calls(world, ("e", 2.0, 5.0)) == [("call 0 at 2", 2.0)]


def test_an_executor_does_one_thing_after_another_and_others_do_not_wait_for_it() -> None:
    with World(1, AT_ONCE) as world:
        seen = blocking_calls(world, ("e", 2.0, 5.0), ("e", 1.0, 5.0), ("f", 0.5, 5.0))
    assert seen == [("call 2 at 0.5", 0.5), ("call 0 at 2", 2.0), ("call 1 at 3", 3.0)]


def test_work_that_takes_too_long_is_given_up_and_what_waits_for_too_long_is_not_begun() -> None:
    with World(1, AT_ONCE) as world:
        seen = blocking_calls(world, ("e", 9.0, 4.0), ("e", 1.0, 3.0), ("e", 1.0, 6.0))
    assert seen == [("it took", 3.0), ("it took", 4.0), ("call 2 at 5", 5.0)]


def test_after_its_end_a_loop_does_nothing_not_even_with_what_comes_back(world: World) -> None:
    loop = world.loop("a")
    loop.start()
    seen: list[object] = []

    def begin(_: None) -> None:
        loop.run_blocking(lambda: "result", seen.append, timeout=1.0)
        loop.later(0.001, seen.append, "timer")
        loop.stop(timeout=1.0)

    loop.post(begin, None)
    world.run()
    loop.post(seen.append, "posted")
    world.run()
    assert seen == []
    assert not loop.is_running
