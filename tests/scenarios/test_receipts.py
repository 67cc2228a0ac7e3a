"""A receipt is the truth: what an acknowledgement was confirmed for, the broker has as acknowledged at that moment.

No receipt is a lie the other way round, either: whoever is told that it failed, or may have, acknowledges again, and in
the end nothing is left and nothing was lost.
"""

from typing import Any

import pytest

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.exceptions import BrokerRefusal, ConnectError, OutcomeUnknown, Timeout
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.confirmed import Confirmed
from tests.scenarios.programs import Publisher, in_troubles, subscribe
from tests.scenarios.received import Received
from tests.scenarios.scene import SUBSCRIPTION, Scene, play

MAY_FAIL = (ConnectError, OutcomeUnknown, BrokerRefusal)


class Confirming:
    """A consumer that asks for receipts, and looks at the broker whenever it has one."""

    def __init__(self, scene: Scene, client: Client, publisher: Publisher) -> None:
        self.scene = scene
        self.client = client
        self.publisher = publisher
        self.dice = dice = Dice(scene.world.seed, "confirming")
        self.received = Received()
        self.kind = (ConsumerType.Exclusive, ConsumerType.Shared)[dice.below(2)]
        self.cumulative = self.kind is ConsumerType.Exclusive and dice.happens(0.4)
        self.of_each_message = dice.happens(0.5)  # and not of batches alone
        self.confirmed = Confirmed(scene, of_each_message=self.of_each_message)
        self.again: list[Message] = []
        self.pending: list[tuple[Any, list[Message]]] = []

    def subscribe(self) -> Consumer:
        return subscribe(
            self.scene,
            self.client,
            consumer_type=self.kind,
            receiver_queue_size=(1, 3, 1000)[self.dice.below(3)],
            batch_index_ack_enabled=self.of_each_message,
            ack_receipt_enabled=True,
        )

    def run(self) -> None:
        consumer = self.subscribe()
        while not (self.publisher.caller.ended and self.scene.is_calm and self.is_drained()):
            messages = self.receive(consumer)
            if self.dice.happens(0.5) or self.scene.is_calm:
                messages, self.again = [*self.again, *messages], []
            self.acknowledge(consumer, messages)
            self.look_at_futures()
        self.check(consumer)

    def receive(self, consumer: Consumer) -> list[Message]:
        messages: list[Message] = []
        for _ in range(1 + self.dice.below(4)):
            try:
                messages.append(consumer.receive((0, 30, 300)[self.dice.below(3)]))
            except Timeout:
                break
            self.received.note(messages[-1], "consumer")
        return messages

    def acknowledge(self, consumer: Consumer, messages: list[Message]) -> None:
        if not messages:
            return
        self.scene.perhaps_cut_soon()
        waits, goes_up_to = self.dice.happens(0.5), self.cumulative and self.dice.happens(0.5)
        if goes_up_to:  # those that come again belong before others
            messages.sort(key=lambda one: one.message_id())
        try:
            if waits:
                (consumer.acknowledge_cumulative if goes_up_to else consumer.acknowledge)(
                    messages[-1] if goes_up_to else messages  # type: ignore[arg-type]
                )
                self.confirmed.add(messages)
            elif goes_up_to:
                self.pending.append((consumer.acknowledge_cumulative_async(messages[-1]), messages))
            else:
                self.pending.append((consumer.acknowledge_async(messages), messages))
        except MAY_FAIL as error:
            self.scene.world.note(f"acknowledge: {error!r}")
            self.again += messages

    def look_at_futures(self) -> None:
        for future, messages in [*self.pending]:
            if self.scene.is_calm:
                self.scene.world.block(future)
            if not future.done():
                continue
            self.pending.remove((future, messages))
            error = future.exception(0)
            if error is None:
                self.confirmed.add(messages)
            else:
                assert isinstance(error, MAY_FAIL), repr(error)
                self.again += messages

    def is_drained(self) -> bool:
        topic = self.scene.topic()
        return topic is not None and not self.again and topic.subscriptions[SUBSCRIPTION].backlog() == 0

    def check(self, consumer: Consumer) -> None:
        self.received.check_contents(self.scene)
        missing = {each.content for each in self.scene.stored()} - {each.content for each in self.received.arrivals}
        assert not missing, f"never received: {missing}"
        consumer.close()
        with pytest.raises(Timeout):
            self.subscribe().receive(3000)


def confirming(scene: Scene) -> None:
    client = scene.client()
    publisher = Publisher(scene, client)
    in_troubles(scene, lambda: Confirming(scene, client, publisher).run(), publisher)


def test_what_was_confirmed_is_acknowledged_and_what_was_not_is_not_lost() -> None:
    play(40, confirming, deduplication=True)
