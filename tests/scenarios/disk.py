"""The disk of the broker: full for a while, or slow.

A broker that cannot write a message refuses it and disconnects the producers of its topic, as Pulsar does. What they
have sent behind it is refused as well: a later message must not be stored before an earlier one.
"""

from google.protobuf.message import Message

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.fault_rules import Action, Delay, InterceptedCommand, Refuse
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAddPartitionToTxn,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxn,
    CommandAddSubscriptionToTxnResponse,
    CommandEndTxn,
    CommandEndTxnResponse,
    CommandNewTxn,
    CommandNewTxnResponse,
    CommandSend,
    CommandSendReceipt,
    CommandSubscribe,
    ServerError,
)
from tests.scenarios.scene import Scene

REFUSED: tuple[type[Message], ...] = (
    CommandSend, CommandAck, CommandSubscribe, CommandNewTxn, CommandAddPartitionToTxn, CommandAddSubscriptionToTxn,
    CommandEndTxn,
)  # fmt: skip
"""The commands that fail if nothing can be written."""
WRITTEN: tuple[type[Message], ...] = (
    CommandSendReceipt, CommandNewTxnResponse, CommandAddPartitionToTxnResponse, CommandAddSubscriptionToTxnResponse,
    CommandEndTxnResponse,
)  # fmt: skip
"""The answers that are sent when something is on the disk."""

NOWHERE = 2**64 - 1
"""The ledger in the receipt of an entry that was not stored, because the topic has it."""
SLOWEST_WRITE = 0.5
SHORTEST_WRITE = 1e-6


class Disk:
    """The disk of a scene's broker."""

    def __init__(self, scene: Scene) -> None:
        assert scene.broker is not None
        self._scene = scene
        self._full_until = self._slow_until = 0.0
        self._last_write: dict[int, float] = {}
        """When the last write for a connection is done: writes keep their order."""
        self._is_disconnecting = False
        scene.broker.faults.control(self._judge)

    def fill(self, seconds: float) -> None:
        """Let nothing be written for a while."""
        self._full_until = self._scene.world.now + seconds

    def slow_down(self, seconds: float) -> None:
        """Let writes take long for a while."""
        self._slow_until = self._scene.world.now + seconds

    def _judge(self, seen: InterceptedCommand) -> Action | None:
        kind = type(seen.command)
        if kind in REFUSED and (self._scene.world.now < self._full_until or self._is_late(kind)):
            return self._refuse(kind)
        return self._written(seen.connection) if kind in WRITTEN and not _is_of_a_repeat(seen.command) else None

    def _is_late(self, kind: type[Message]) -> bool:
        """Return whether this is behind a message that was refused."""
        return kind is CommandSend and self._is_disconnecting

    def _refuse(self, kind: type[Message]) -> Refuse:
        if kind is CommandSend:
            self._disconnect_soon()
        return Refuse(ServerError.PersistenceError, "no space left on device")

    def _written(self, connection: int) -> Delay | None:
        """Delay an answer until it is true. Answers of a connection keep their order."""
        now, done = self._scene.world.now, self._last_write.get(connection, 0.0) + SHORTEST_WRITE
        if now < self._slow_until:
            done = max(done, now + SLOWEST_WRITE * self._scene.dice.chance())
        if done <= now:
            return None
        self._last_write[connection] = done
        return Delay(done - now)

    def _disconnect_soon(self) -> None:
        if not self._is_disconnecting:
            self._is_disconnecting = True
            self._scene.on_broker(self._disconnect)

    def _disconnect(self, broker: Broker) -> None:
        self._is_disconnecting = False
        for topic in all_topics(broker):
            topic.disconnect_producers()


def _is_of_a_repeat(command: Message) -> bool:
    """Return whether this is the receipt of what the broker has dropped: it overtakes those of what is written."""
    return isinstance(command, CommandSendReceipt) and command.message_id.ledgerId == NOWHERE


def all_topics(broker: Broker) -> list[Topic]:
    """Return the topics that the broker has loaded."""
    return [topic for namespace in broker.cluster.namespaces.values() for topic in namespace.topics.values()]
