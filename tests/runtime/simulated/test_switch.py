import threading

from pulsar_actors.runtime.simulated.engine import SimulatedEngine
from pulsar_actors.runtime.simulated.switch import SimulatedLock
from pulsar_actors.runtime.simulated.world import World


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


def test_a_lock_of_the_simulation_is_not_one_of_the_system() -> None:
    with World(seed=1) as world:
        assert isinstance(SimulatedEngine(world).interleaving.lock(), SimulatedLock)
        assert threading.active_count() >= 1
