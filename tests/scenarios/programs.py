"""Programs that scenarios have in common."""

from collections.abc import Callable
from typing import Any

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import InitialPosition
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.scene import PATIENCE, SUBSCRIPTION, TOPIC, Scene
from tests.scenarios.troubles import Troubles


class Publisher:
    """Publishes so many messages, each until it is stored. The broker must drop duplicates.

    If it is to reach a partition, it goes on until one of them is there.
    """

    def __init__(self, scene: Scene, client: Client, most: int = 40, topic: str = TOPIC, reach: str = "") -> None:
        self._scene = scene
        self._client = client
        self._topic = topic
        self._reach = reach
        self._dice = Dice(scene.world.seed, "publisher")
        self.count = 1 + self._dice.below(most)
        """How many messages there are at the end."""
        self.caller: Caller = scene.world.spawn(self._run, "publisher")

    def publish_another(self) -> None:
        """Publish one message more."""
        number = self.count
        self.count += 1
        producer = self._scene.insist(lambda: self._client.create_producer(self._topic, send_timeout_millis=0))
        producer.send(str(number).encode())
        producer.close()

    def _run(self) -> None:
        scene, dice = self._scene, self._dice
        producer = scene.insist(
            lambda: self._client.create_producer(
                self._topic,
                send_timeout_millis=0,
                producer_name="publisher",
                batching_enabled=dice.happens(0.6),
                batching_max_messages=1 + dice.below(10),
                max_pending_messages=0,
            )
        )
        futures: list[Any] = []
        for number in range(self.count):
            futures.append(producer.send_async(str(number).encode()))
            if dice.happens(0.2):
                scene.sleep(10.0 ** (dice.chance() * 3 - 3))
        while self._reach and not scene.stored(self._reach):
            futures.append(producer.send_async(str(len(futures)).encode()))
            scene.sleep(0.2)
        for future in futures:
            scene.world.block(future)
        assert all(future.exception() is None for future in futures)
        try:
            producer.close()
        except PulsarException as error:
            scene.world.note(f"the publisher's close: {error!r}")


def subscribe(scene: Scene, client: Client, topic: str = TOPIC, **options: Any) -> Consumer:
    """Subscribe from the first message on."""
    made: Consumer = scene.insist(lambda: client.subscribe(topic, SUBSCRIPTION, **subscribe_options(**options)))
    return made


def subscribe_options(**options: Any) -> dict[str, Any]:
    """Return the options of a subscription that begins with the first message."""
    return {"initial_position": InitialPosition.Earliest, **options}


def in_troubles(
    scene: Scene,
    program: Callable[[], object],
    *publishers: Publisher,
    patience: float = PATIENCE,
    **troubles: Any,
) -> None:
    """Have a program run beside publishers, through troubles and the calm after them, until all come to their end."""
    world = scene.world
    calm = Troubles(scene, **troubles).until + 5.0
    caller = world.spawn(program, "program")
    world.after(calm, scene.calm)
    world.run(until=lambda: caller.ended, limit=calm + patience)
    caller.result()
    for publisher in publishers:
        publisher.caller.result()
    scene.end()
