from pulsar_actors.runtime.simulated.worker import SimulatedWorker
from pulsar_actors.runtime.simulated.world import World


def test_a_worker_does_its_tasks_in_their_order_and_they_may_block() -> None:
    with World(seed=1) as world:
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
