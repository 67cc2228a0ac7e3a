"""The engine of a client in a simulated world."""

import pytest

from pulsar_actors.exceptions import OperationNotSupported, Timeout
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.simulation.engine import SimulatedEngine, SimulatedWorker
from pulsar_actors.simulation.world import World


@pytest.fixture
def engine(world: World) -> SimulatedEngine:
    return SimulatedEngine(world)


def test_blocking_lets_the_world_go_on_until_the_future_has_ended(world: World, engine: SimulatedEngine) -> None:
    future: SlimFuture[str] = SlimFuture()
    world.after(7.0, lambda: future.set_result("done"))
    assert engine.block(future, None, "a test") == "done"
    assert world.now == 7.0


def test_blocking_raises_the_error_of_the_future(world: World, engine: SimulatedEngine) -> None:
    future: SlimFuture[str] = SlimFuture()
    world.after(1.0, lambda: future.set_exception(ZeroDivisionError("its own")))
    with pytest.raises(ZeroDivisionError, match="its own"):
        engine.block(future, 5.0, "a test")


def test_blocking_ends_in_virtual_time_and_says_who_waited(world: World, engine: SimulatedEngine) -> None:
    with pytest.raises(Timeout, match=r"^a test took longer than 2\.5 s$"):
        engine.block(SlimFuture[str](), 2.5, "a test")
    assert world.now == 2.5


def test_the_loops_are_named_for_the_host_and_tell_who_is_inside(world: World) -> None:
    engine = SimulatedEngine(world, "host", io_threads=2)
    assert [loop.name for loop in engine._loops] == ["host-io-0", "host-io-1"]
    inside: list[bool] = []
    engine.loops[1].post(lambda _: inside.append(engine.is_on_io_thread()), None)
    world.run()
    assert inside == [True]
    assert not engine.is_on_io_thread()


def test_what_would_wait_is_refused_on_a_loop(world: World, engine: SimulatedEngine) -> None:
    refused: list[str] = []

    def task(_: None) -> None:
        with pytest.raises(OperationNotSupported) as caught:
            engine.refuse_on_io_thread("send()", "send_async()")
        refused.append(str(caught.value))

    engine.loops[0].post(task, None)
    world.run()
    assert len(refused) == 1


def test_stopping_ends_loops_and_workers_after_the_tasks_that_are_there(world: World, engine: SimulatedEngine) -> None:
    done: list[float] = []

    def rest() -> None:
        world.block(lambda: False, 1.0)
        done.append(world.now)

    engine.workers[0].submit(rest)
    engine.stop(5.0)
    engine.workers[0].submit(rest)
    engine.loops[0].post(lambda _: done.append(-1.0), None)
    assert not engine._loops[0].is_running
    world.run()
    assert done == [1.0]


def test_stopping_waits_no_longer_than_told(world: World, engine: SimulatedEngine) -> None:
    engine.workers[0].submit(lambda: world.block(lambda: False, 100.0))
    engine.stop(2.0)
    assert world.now == 2.0


def test_stopping_from_inside_waits_for_nothing(world: World, engine: SimulatedEngine) -> None:
    engine.loops[0].post(lambda _: engine.stop(5.0), None)
    world.run()
    assert not engine._loops[0].is_running


def test_a_task_of_a_worker_may_stop_the_engine_that_it_is_of(world: World, engine: SimulatedEngine) -> None:
    engine.workers[0].submit(lambda: engine.stop(5.0))
    world.run()
    assert not engine._loops[0].is_running
    assert world.now < 1.0


def test_a_lock_keeps_others_out_though_whoever_holds_it_lets_them_go_first() -> None:
    overlaps = 0
    waited = 0
    for seed in range(20):
        with World(seed=seed) as world:
            engine = SimulatedEngine(world)
            lock = engine.interleaving.lock()
            inside: list[str] = []

            def enter(name: str, world: World = world, lock: object = lock, inside: list[str] = inside) -> None:
                nonlocal overlaps, waited
                waited += bool(inside)
                with lock:  # type: ignore[attr-defined]
                    overlaps += bool(inside)
                    inside.append(name)
                    world.checkpoint()
                    world.checkpoint()
                    inside.remove(name)

            for name in "abc":
                world.spawn(lambda name=name: enter(name))  # type: ignore[misc]
            engine.loops[0].post(lambda _: enter("loop"), None)
            world.run()
    assert overlaps == 0
    assert waited > 0


def test_a_worker_does_its_tasks_in_their_order_and_they_may_block(world: World) -> None:
    worker = SimulatedWorker(world, "worker")
    done: list[float] = []

    def rest() -> None:
        world.block(lambda: False, 1.0)
        done.append(world.now)

    worker.submit(rest)
    worker.submit(rest)
    world.run()
    worker.submit(rest)
    world.run()
    assert done == [1.0, 2.0, 3.0]
