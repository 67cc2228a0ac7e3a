"""Faults besides those of the network: at the broker, at random moments, until they are turned off."""

from collections.abc import Callable, Sequence

from google.protobuf.message import Message

from pulsar_actors.broker.broker import Broker
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnect,
    CommandConnected,
    CommandGetLastMessageIdResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendReceipt,
    CommandSubscribe,
    CommandSuccess,
    ServerError,
)
from tests.scenarios.scene import NAMESPACE, Scene

ANSWERS: Sequence[type[Message]] = (
    CommandConnected, CommandSuccess, CommandProducerSuccess, CommandLookupTopicResponse, CommandAckResponse,
    CommandPartitionedTopicMetadataResponse, CommandSendReceipt, CommandGetLastMessageIdResponse,
)  # fmt: skip
REQUESTS: Sequence[type[Message]] = (
    CommandConnect, CommandLookupTopic, CommandProducer, CommandSubscribe, CommandCloseProducer, CommandCloseConsumer,
    CommandSend, CommandAck,
)  # fmt: skip
REFUSED: Sequence[type[Message]] = (CommandLookupTopic, CommandProducer, CommandSubscribe)

LONGEST = 12.0


class Troubles:
    """A few of them, each at a moment of its own; `until` is when the last has happened.

    A receipt that gets lost, with nothing behind it, is only missed by a send timeout: `loses_receipts` is for those
    who have one.
    """

    def __init__(self, scene: Scene, most: int = 6, *, loses_receipts: bool = False) -> None:
        self._scene = scene
        self._dice = Dice(scene.world.seed, "troubles")
        answers_to_lose = ANSWERS if loses_receipts else [each for each in ANSWERS if each is not CommandSendReceipt]
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
            "reorder answers": lambda: self._disturb(ANSWERS, "reorder"),
            "delay an answer": lambda: self._delay(ANSWERS),
            "close instead of answering": lambda: self._disturb(ANSWERS, "close_connection"),
            "close instead of hearing": lambda: self._disturb(REQUESTS, "close_connection"),
            "refuse": self._refuse,
        }
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

    def _trigger(self, commands: Sequence[type[Message]]) -> object:
        assert self._scene.broker is not None
        command = commands[self._dice.below(len(commands))]
        return self._scene.broker.faults.on(command, nth=1 + self._dice.below(3), times=1 + self._dice.below(2))

    def _disturb(self, commands: Sequence[type[Message]], how: str) -> None:
        getattr(self._trigger(commands), how)()

    def _delay(self, commands: Sequence[type[Message]]) -> None:
        seconds = 10.0 ** (self._dice.chance() * 4 - 3)
        self._trigger(commands).delay(seconds)  # type: ignore[attr-defined]

    def _refuse(self) -> None:
        self._trigger(REFUSED).refuse(ServerError.ServiceNotReady, "not now")  # type: ignore[attr-defined]

    def _unload(self, broker: Broker) -> None:
        topics = list(broker.cluster.namespace(NAMESPACE).topics.values())
        if topics:
            topics[self._dice.below(len(topics))].unload()
