"""Acknowledgements that are lost, or whose receipts are, until their time limit or the end of their consumer or client.

What each caller is told is true: what was confirmed is acknowledged, and what was not sent is not.
"""

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, CommandAckResponse
from tests.histories.history import Outcome
from tests.scenarios.confirmed import Confirmed
from tests.scenarios.programs import Publisher, subscribe
from tests.scenarios.scene import OPERATION_TIMEOUT, Scene, play
from tests.scenarios.silence import Silence

LONGEST_ACK = OPERATION_TIMEOUT + 0.5
"""A group of acknowledgements is sent when it is complete, after 0.1 s at the latest."""


class Acknowledging:
    """A consumer whose messages are acknowledged once each, some at a time, by a caller for each time."""

    def __init__(self, scene: Scene, client: Client) -> None:
        self.scene = scene
        self.dice = dice = Dice(scene.world.seed, "acknowledging")
        of_each_message = dice.happens(0.5)
        self.confirmed = Confirmed(scene, of_each_message=of_each_message)
        self.consumer: Consumer = subscribe(
            scene,
            client,
            consumer_type=(ConsumerType.Exclusive, ConsumerType.Shared)[dice.below(2)],
            batch_index_ack_enabled=of_each_message,
            ack_receipt_enabled=True,
        )
        self.received: list[Message] = []
        self.refused: list[Message] = []
        self.callers: list[Caller] = []

    def receive(self, count: int) -> None:
        self.received = [self.consumer.receive() for _ in range(count)]

    def run(self) -> None:
        while self.received:
            number = 1 + self.dice.below(4)
            some = self.received[:number]
            del self.received[:number]
            caller = self.scene.world.spawn(lambda some=some: self.acknowledge(some))  # type: ignore[misc]
            self.callers.append(caller)
            self.scene.sleep(10.0 ** (self.dice.chance() * 4 - 3))

    def acknowledge(self, messages: list[Message]) -> None:
        began, world = self.scene.world.now, self.scene.world
        try:
            self.consumer.acknowledge(messages)
        except PulsarException as error:
            if Outcome.of_error(error) is Outcome.REFUSED:
                self.refused += messages
        else:
            self.confirmed.add(messages)
        took = world.now - began
        assert took <= LONGEST_ACK, f"the acknowledgement took {took:.3f} s"


def unanswered_acks(scene: Scene) -> None:
    world = scene.world
    client = scene.client()
    publisher = Publisher(scene, scene.client())
    world.run(until=lambda: publisher.caller.ended)
    user = Acknowledging(scene, client)
    user.receive(publisher.count)
    silence = Silence(scene, CommandAck, CommandAckResponse)
    user.callers.append(world.spawn(user.run, "user"))
    ends = (user.consumer.close, client.close, client.shutdown, world.faults.cut, silence.end)
    silence.play_out(user.callers, ends)
    user.confirmed.check_refused(user.refused)


def test_what_is_told_of_an_acknowledgement_is_true_though_nobody_has_confirmed_it() -> None:
    play(60, unanswered_acks, CALM, deduplication=True)
