import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from pulsar_actors.simulation import caller as caller_module
from pulsar_actors.simulation.scheduler import OutOfTime, TasksFailed, Unresponsive
from pulsar_actors.simulation.world import World


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("caller")]


def fail() -> None:
    raise LookupError("planted")


def test_a_caller_gives_what_its_function_gave(world: World) -> None:
    caller = world.spawn(lambda: 42)
    world.run()
    assert caller.ended
    assert caller.result() == 42


def test_what_a_caller_raises_is_its_result_or_else_fails_the_run() -> None:
    with World(0) as world:
        caller = world.spawn(fail)
        world.run()
        for _ in range(2):
            with pytest.raises(LookupError, match="planted"):
                caller.result()
    with World(0) as world:
        world.spawn(fail)
        world.run()
        with pytest.raises(TasksFailed, match="caller-1"):
            world.__exit__(None, None, None)
        world.failures.clear()


def test_a_result_that_is_not_there_yet_is_refused(world: World) -> None:
    caller = world.spawn(lambda: 42, "eve")
    with pytest.raises(Unresponsive, match="eve has not ended: eve has not begun"):
        caller.result()


@pytest.mark.parametrize("seed", range(20))
def test_a_caller_waits_until_the_condition_holds_or_its_deadline(seed: int) -> None:
    with World(seed) as world:
        loop = world.loop("a")
        arrived: list[str] = []

        def wait(
            condition: Callable[[], bool] | Future[int], timeout: float | None
        ) -> Callable[[], tuple[bool, float]]:
            return lambda: (world.block(condition, timeout), world.now)

        late: Future[int] = Future()
        done: Future[int] = Future()
        done.set_result(1)
        waiting = [
            world.spawn(wait(lambda: bool(arrived), 5.0)),
            world.spawn(wait(lambda: False, 2.0)),
            world.spawn(wait(late, None)),
            world.spawn(wait(late, 1.5)),
            world.spawn(wait(done, 0.0)),
            world.spawn(wait(lambda: True, None)),
            world.spawn(wait(lambda: False, 0.0)),
        ]
        world.after(1.0, lambda: loop.post(arrived.append, "it"))
        world.after(3.0, lambda: late.set_result(7))
        world.run()
        results = [caller.result() for caller in waiting]
    assert results == [(True, 1.0), (False, 2.0), (True, 3.0), (False, 1.5), (True, 0.0), (True, 0.0), (False, 0.0)]


def test_a_caller_that_is_woken_too_late_looks_again_and_waits_on() -> None:
    beaten = 0
    for seed in range(50):
        with World(seed) as world:
            queue: list[str] = []

            def take(world: World = world, queue: list[str] = queue) -> str:
                world.block(lambda: bool(queue))
                return queue.pop()

            callers = [world.spawn(take), world.spawn(take)]
            world.after(1.0, lambda queue=queue: queue.append("first"))
            world.after(2.0, lambda queue=queue: queue.append("second"))
            world.run()
            beaten += callers[0].result() == "second"
            assert {caller.result() for caller in callers} == {"first", "second"}
    assert 0 < beaten < 50


def test_a_caller_is_not_disturbed_by_the_deadline_of_an_earlier_wait() -> None:
    class Watched(Future[int]):
        looks = 0

        def done(self) -> bool:
            self.looks += 1
            return super().done()

    with World(0) as world:
        first, second = Future[int](), Watched()
        caller = world.spawn(lambda: world.block(first, timeout=5.0) and world.block(second))
        world.after(1.0, lambda: first.set_result(1))
        world.after(10.0, lambda: second.set_result(2))
        world.run()
        assert caller.result()
        assert second.looks == 2


def test_a_condition_that_raises_raises_where_it_is_waited_for(world: World) -> None:
    answers: list[int] = []

    def look() -> bool:
        return bool(answers) and answers[0] / 0 > 0

    caller = world.spawn(lambda: world.block(look))
    world.after(1.0, lambda: answers.append(1))
    world.run()
    with pytest.raises(ZeroDivisionError):
        caller.result()


def test_callers_run_one_at_a_time_and_none_outlives_the_world() -> None:
    with World(0) as world:
        running: list[int] = []

        def work() -> None:
            for _ in range(10):
                running.append(1)
                assert len(running) == 1
                running.pop()
                world.checkpoint()

        for _ in range(5):
            world.spawn(work)
        world.run()
        assert threads() == []
        world.spawn(lambda: world.block(lambda: False))
        world.spawn(lambda: world.block(Future[int](), timeout=1e6))
        with pytest.raises(OutOfTime):
            world.run(limit=1.0)
        world.spawn(work)  # never begins
        assert len(threads()) == 2
    assert threads() == []
    assert world.failures == []


def test_a_caller_that_is_abandoned_cannot_wait_again_on_its_way_out() -> None:
    steps: list[str] = []
    with World(0) as world:

        def tidy() -> None:
            try:
                world.block(lambda: False)
            finally:
                steps.append("tidies")
                try:
                    world.block(lambda: True)
                finally:
                    steps.append("was not let wait")
                    raise ValueError("of no interest")

        world.spawn(tidy)
        world.run(until=lambda: len(world.history) > 0)
    assert steps == ["tidies", "was not let wait"]
    assert threads() == []


def test_a_caller_that_waits_for_something_real_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_module, "PATIENCE", 0.05)
    real = threading.Event()

    def wait_for_it() -> None:
        real.wait(60.0)

    world = World(0)
    world.spawn(wait_for_it, "caller of the real")
    with pytest.raises(Unresponsive, match=r"(?s)no sign of caller of the real can go on:.*in wait_for_it"):
        world.run()
    real.set()
    for thread in threading.enumerate():
        if thread.name == "caller of the real":
            thread.join(60.0)
    world.close()
    assert threads() == []
