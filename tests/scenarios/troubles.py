"""Faults besides those of the network: at the broker, at random moments, until they are turned off."""

from collections.abc import Callable, Sequence

from google.protobuf.message import Message

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.faults import Trigger
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandAddPartitionToTxn,
    CommandAddSubscriptionToTxn,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnect,
    CommandConnected,
    CommandEndTxn,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandNewTxn,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendReceipt,
    CommandSubscribe,
    CommandSuccess,
    ServerError,
)
from tests.scenarios.disk import Disk
from tests.scenarios.scene import COORDINATOR, NAMESPACE, Scene, set_clock

ANSWERS: Sequence[type[Message]] = (
    CommandConnected, CommandSuccess, CommandProducerSuccess, CommandLookupTopicResponse, CommandAckResponse,
    CommandPartitionedTopicMetadataResponse, CommandSendReceipt, CommandGetLastMessageIdResponse,
)  # fmt: skip
REORDERED = tuple(each for each in ANSWERS if each is not CommandSendReceipt)
"""No broker sends receipts in another order. That of one chunk could not be told from that of another."""
REQUESTS: Sequence[type[Message]] = (
    CommandConnect, CommandLookupTopic, CommandProducer, CommandSubscribe, CommandCloseProducer, CommandCloseConsumer,
    CommandSend, CommandAck,
)  # fmt: skip
ERRORS = (
    ServerError.ServiceNotReady, ServerError.MetadataError, ServerError.PersistenceError, ServerError.UnknownError,
)  # fmt: skip
"""What any request may be refused with for the moment."""
QUOTA = (ServerError.ProducerBlockedQuotaExceededError, ServerError.ProducerBlockedQuotaExceededException)
TRANSACTIONS = (*ERRORS, ServerError.TransactionCoordinatorNotFound)
REFUSED: Sequence[tuple[type[Message], Sequence["ServerError.ValueType"]]] = (
    (CommandLookupTopic, (*ERRORS, ServerError.TooManyRequests)),
    (CommandPartitionedTopicMetadata, (*ERRORS, ServerError.TooManyRequests)),
    (CommandProducer, (*ERRORS, *QUOTA)),
    (CommandSubscribe, ERRORS),
    (CommandGetLastMessageId, ERRORS),
    (CommandNewTxn, TRANSACTIONS),
    (CommandAddPartitionToTxn, TRANSACTIONS),
    (CommandAddSubscriptionToTxn, TRANSACTIONS),
    (CommandEndTxn, TRANSACTIONS),
)

REFUSED_FOR_GOOD: Sequence[tuple[type[Message], Sequence["ServerError.ValueType"]]] = ((CommandAck, ERRORS),)
"""Single messages are not among these: if a refusal is lost with its connection, and a later message was stored, a
broker that drops repeats takes the refused one for a repeat, and confirms it."""

LONGEST = 12.0
SHORT = 4.0
"""The longest of what must be over when all faults are turned off."""
FAR = 5
"""A clock is wrong by ten seconds to this power at most."""


class Troubles:
    """A few of them, each at a moment of its own; `until` is when the last has happened.

    A receipt that gets lost, with nothing behind it, is only missed by a send timeout: `loses_receipts` is for those
    who have one. Acknowledgements that are refused, and a full disk, are for those who bear it: `refuses_for_good`. A
    producer that waits for its turn does so without a limit, and must be told of it: `loses_turns` is not for it, and
    `sets_clocks` not for those who name times to others.
    """

    def __init__(  # noqa: PLR0913 - each is another kind
        self,
        scene: Scene,
        most: int = 6,
        *,
        loses_receipts: bool = False,
        refuses_for_good: bool = False,
        loses_turns: bool = True,
        sets_clocks: bool = True,
    ) -> None:
        self._scene = scene
        self._dice = Dice(scene.world.seed, "troubles")
        self._refused = [*REFUSED, *(REFUSED_FOR_GOOD if refuses_for_good else ())]
        kept = {*(() if loses_receipts else (CommandSendReceipt,)), *(() if loses_turns else (CommandProducerSuccess,))}
        answers_to_lose = [each for each in ANSWERS if each not in kept]
        actions: dict[str, Callable[[], object]] = {
            "cut": scene.world.faults.cut,
            "cut at broker": lambda: scene.on_broker(Broker.cut_connections),
            "partition": lambda: scene.world.faults.partition("broker", LONGEST * self._dice.chance()),
            "stall": lambda: scene.world.faults.stall("broker", LONGEST * self._dice.chance()),
            "deafen": lambda: scene.world.faults.stall("broker"),
            "spike": lambda: scene.world.faults.spike("broker", LONGEST * self._dice.chance()),
            "refuse connects": lambda: scene.world.faults.refuse("broker", 1 + self._dice.below(3)),
            "unload": lambda: scene.on_broker(self._unload),
            "unload ": lambda: scene.on_broker(self._unload),
            "lose an answer": lambda: self._disturb(answers_to_lose, "drop"),
            "repeat an answer": lambda: self._disturb(ANSWERS, "duplicate"),
            "reorder answers": lambda: self._disturb(REORDERED, "reorder"),
            "delay an answer": lambda: self._delay(ANSWERS),
            "close instead of answering": lambda: self._disturb(ANSWERS, "close_connection"),
            "close instead of hearing": lambda: self._disturb(REQUESTS, "close_connection"),
            "refuse": self._refuse,
            "refuse ": self._refuse,
            "slow disk": lambda: self._disk.slow_down(SHORT * self._dice.chance()),
        }
        if sets_clocks:
            actions["wrong clock"] = self._set_clock
        if refuses_for_good:
            actions["full disk"] = lambda: self._disk.fill(SHORT * self._dice.chance())
        assert scene.broker is not None
        if len(scene.broker.nodes) > 1:
            actions["move"] = actions["move "] = lambda: scene.on_broker(self._move)
        self._disk = Disk(scene)
        self.until = 0.0
        names = list(actions)
        for _ in range(self._dice.below(most + 1)):
            name = names[self._dice.below(len(names))]
            at = 10.0 ** (self._dice.chance() * 4 - 3)  # from a thousandth of a second to ten, all scales alike
            self.until = max(self.until, at)
            scene.world.after(at, self._happening(name, actions[name]))

    def _happening(self, name: str, action: Callable[[], object]) -> Callable[[], None]:
        def happen() -> None:
            self._scene.troubled[name.strip()] += 1
            self._scene.world.note(f"TROUBLE {name}")
            action()

        return happen

    def _trigger(self, commands: Sequence[type[Message]]) -> Trigger:
        assert self._scene.broker is not None
        command = commands[self._dice.below(len(commands))]
        return self._scene.broker.faults.on(command, nth=1 + self._dice.below(3), times=1 + self._dice.below(2))

    def _disturb(self, commands: Sequence[type[Message]], how: str) -> None:
        getattr(self._trigger(commands), how)()

    def _delay(self, commands: Sequence[type[Message]]) -> None:
        seconds = 10.0 ** (self._dice.chance() * 4 - 3)
        self._trigger(commands).delay(seconds)

    def _refuse(self) -> None:
        command, errors = self._refused[self._dice.below(len(self._refused))]
        self._trigger([command]).refuse(errors[self._dice.below(len(errors))], "not now")

    def _set_clock(self) -> None:
        loops = self._scene.hosts[self._dice.below(len(self._scene.hosts))]
        seconds = 10.0 ** (self._dice.chance() * FAR)
        set_clock(loops, seconds if self._dice.happens(0.5) else -seconds)

    def _unload(self, broker: Broker) -> None:
        topics = list(broker.cluster.namespace(NAMESPACE).topics.values())
        if topics:
            topics[self._dice.below(len(topics))].unload()

    def _move(self, broker: Broker) -> None:
        topics = [*broker.cluster.namespace(NAMESPACE).topics, COORDINATOR]
        self._scene.move(broker, topics[self._dice.below(len(topics))])
