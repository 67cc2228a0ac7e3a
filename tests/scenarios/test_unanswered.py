"""A broker that lives, but leaves what it is asked without an answer, for longer than any call waits.

No connection is lost here, so only time limits end what waits. No call hangs, and all is well again when the broker is.
"""

from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.keys import Keys
from tests.scenarios.rare_events import RareEvents
from tests.scenarios.scene import OPERATION_TIMEOUT, PARTS, PATIENCE, Scene, play
from tests.scenarios.test_hostile import become_well, works
from tests.scenarios.users import User

KEYS = Keys()
SILENCE = 3.5 * OPERATION_TIMEOUT
"""Time for a creation, its close and another creation, each without an answer."""


def unanswered(scene: Scene) -> None:
    world = scene.world
    scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 2))
    clients = [scene.client() for _ in range(1 + scene.dice.below(2))]
    users = [User(scene, client, number, KEYS, is_patient=True) for number, client in enumerate(clients * 2)]
    dice = Dice(world.seed, "silence")
    rare = RareEvents(scene, dice)
    for _ in range(2 + dice.below(6)):
        world.after(OPERATION_TIMEOUT * dice.chance(), rare.leave_unanswered)
    calm = OPERATION_TIMEOUT * dice.chance() + SILENCE
    world.after(calm, lambda: become_well(scene))
    world.run(
        until=lambda: scene.is_calm and all(caller.ended for user in users for caller in user.callers),
        limit=calm + 4 * PATIENCE,
    )
    for user in users:
        for caller in user.callers:
            caller.result()
    for client in clients:
        caller = world.spawn(lambda client=client: works(scene, client))  # type: ignore[misc]
        world.run(until=lambda caller=caller: caller.ended, limit=2 * PATIENCE)  # type: ignore[misc]
        caller.result()
    scene.end()


def test_whatever_is_left_without_an_answer_ends_by_its_time_limit_and_all_is_well_again_afterwards() -> None:
    play(30, unanswered, CALM)
