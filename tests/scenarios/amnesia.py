"""A broker that is killed, and knows afterwards what it had written to its disk.

Messages are on the disk before their receipts are sent. A cursor is written once in a while: what was acknowledged
since then is forgotten, also where the consumer has a receipt. A commit writes the cursors that it moves; that is not
imitated here, so this is not for programs with transactions.
"""

from typing import NamedTuple

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.simulation.scheduler import Dice
from tests.histories.history import History
from tests.scenarios.scene import NAMESPACE, Scene

BETWEEN_SAVES = 1.0
LONGEST = 10.0


class SavedCursor(NamedTuple):
    """What is on the disk of a cursor."""

    mark_delete: int
    acknowledged: set[int]
    ack_sets: dict[int, int]

    @classmethod
    def of(cls, cursor: Cursor) -> "SavedCursor":
        return cls(cursor.mark_delete, set(cursor._acknowledged), dict(cursor.batch_ack_sets))

    def restore(self, cursor: Cursor) -> None:
        cursor.reset(self.mark_delete + 1)
        cursor._acknowledged.update(self.acknowledged)
        cursor.batch_ack_sets.update(self.ack_sets)


class Amnesia:
    """Kills the broker once or twice; `until` is when it last happens."""

    def __init__(self, scene: Scene, history: History) -> None:
        self._scene = scene
        self._history = history
        self._disk: dict[tuple[str, str], SavedCursor] = {}
        dice = Dice(scene.world.seed, "amnesia")
        times = [LONGEST * dice.chance() for _ in range(1 + dice.below(2))]
        self.until = max(times)
        for at in times:
            scene.world.after(at, lambda: scene.on_broker(self._die))
        at = BETWEEN_SAVES * dice.chance()
        while at < self.until:
            scene.world.after(at, lambda: scene.on_broker(self._save))
            at += BETWEEN_SAVES

    def _save(self, broker: Broker) -> None:
        self._disk = {place: SavedCursor.of(cursor) for place, cursor in self._cursors(broker).items()}

    def _die(self, broker: Broker) -> None:
        self._scene.troubled["amnesia"] += 1
        self._scene.world.note("TROUBLE amnesia")
        self._history.disturb("amnesia")
        broker.cut_connections()
        cursors = self._cursors(broker)
        for topic in list(broker.cluster.namespace(NAMESPACE).topics.values()):
            topic.unload()
        for place in cursors.keys() & self._disk.keys():
            self._disk[place].restore(cursors[place])

    def _cursors(self, broker: Broker) -> dict[tuple[str, str], Cursor]:
        return {
            (topic_name, name): subscription.cursor
            for topic_name, topic in broker.cluster.namespace(NAMESPACE).topics.items()
            for name, subscription in topic.subscriptions.items()
            if subscription.durable
        }
