"""A seek, an unsubscribe and a question for the last message end in time, and what they say is true.

One caller moves a subscription about: it seeks, unsubscribes and subscribes again. Others ask meanwhile which message
is the last, and close the consumer under the hands of all. The broker is looked at when a call ends. What nobody knows
leaves several truths open, until the next call that does.
"""

from collections.abc import Callable
from typing import Any

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.fault_rules import Fault
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import AlreadyClosed, OutcomeUnknown, PulsarException
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetLastMessageId,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
    ServerError,
)
from tests.scenarios.programs import Publisher, in_troubles, subscribe
from tests.scenarios.scene import CLOSING, OPERATION_TIMEOUT, SUBSCRIPTION, Scene, play

NOWHERE = -1
"""The mark of a subscription that is not there; others count the entries that are acknowledged."""

A_MOMENT = 0.1
"""Virtual seconds in which a caller hears of what was decided."""


class Moving:
    """The consumer, and the marks that its subscription may have."""

    def __init__(self, scene: Scene, client: Client, publisher: Publisher) -> None:
        self.scene = scene
        self.client = client
        self.publisher = publisher
        self.dice = Dice(scene.world.seed, "moving")
        self.marks: set[int] = {0}
        self.moved = 0
        self.asked = 0
        self.is_over = False
        self.consumer = self.subscribe()

    def subscribe(self) -> Consumer:
        kind = ConsumerType.Exclusive  # of others, a call that was given up may take effect much later
        return subscribe(self.scene, self.client, consumer_type=kind, receiver_queue_size=1 + self.dice.below(3))

    def mark(self) -> int:
        """Look at the broker: how many entries are acknowledged."""
        topic = self.scene.topic()
        subscription = None if topic is None else topic.subscriptions.get(SUBSCRIPTION)
        if topic is None or subscription is None:
            return NOWHERE
        return subscription.cursor.mark_delete + 1 - topic.managed_ledger.base

    def run(self) -> None:
        others = [self.scene.world.spawn(Asker(self, f"asker {each}").run) for each in range(self.dice.below(4))]
        while not (self.scene.is_calm and self.moved > 2 and self.publisher.caller.ended):
            self.scene.sleep(10.0 ** (self.dice.chance() * 3 - 3))
            self.scene.perhaps_cut_soon()
            if self.dice.happens(0.2):
                self.unsubscribe()
            else:
                self.seek()
        self.is_over = True
        self.scene.world.block(lambda: all(other.ended for other in others))
        for other in others:
            other.result()
        self.consumer.close()

    def seek(self) -> None:
        stored = self.scene.stored()
        if not stored:
            return
        place = stored[self.dice.below(len(stored))].place
        entries = sorted({each.place[:2] for each in stored})
        target = entries.index(place[:2])
        consumer = self.consumer
        after = self.call(f"seek to {target}", lambda: consumer.seek(MessageId(-1, *place[:2], -1)), target + 1, target)
        self.look(after)

    def unsubscribe(self) -> None:
        consumer = self.consumer
        self.look(self.call("unsubscribe", consumer.unsubscribe, NOWHERE, NOWHERE))
        if self.consumer is consumer:
            consumer.close()
            self.consumer = self.subscribe()
        if NOWHERE in self.marks:
            self.marks = self.marks - {NOWHERE} | {0}

    def call(self, what: str, ask: Callable[[], object], *outcomes: int) -> set[int]:
        """Have it done, and tell which marks are possible then."""
        self.scene.world.note(f"{what}: from one of {sorted(self.marks)}")
        try:
            timed(self.scene, what, ask)
        except OutcomeUnknown as error:
            self.scene.world.note(f"{what}, perhaps: {error!r}")
            return self.marks | set(outcomes)
        except PulsarException as error:
            self.scene.world.note(f"{what}, not done: {error!r}")
            if isinstance(error, AlreadyClosed):
                self.consumer = self.subscribe()
            return self.marks
        self.moved += self.scene.is_calm
        return set(outcomes)

    def look(self, possible: set[int]) -> None:
        """See that the subscription is where it may be."""
        mark = self.mark()
        if NOWHERE in possible:
            possible = possible | {0}  # the consumer lives on, and has subscribed again
        assert mark in possible, f"the mark is {mark}, not one of {sorted(possible)}"
        self.marks = possible


class Asker:
    """Asks which message is the last, and rarely closes the consumer."""

    def __init__(self, moving: Moving, name: str) -> None:
        self.moving = moving
        self.scene = moving.scene
        self.dice = Dice(moving.scene.world.seed, name)

    def run(self) -> None:
        while not self.moving.is_over:
            self.scene.sleep(10.0 ** (self.dice.chance() * 3 - 3))
            if self.dice.happens(0.03):
                timed(self.scene, "close", self.moving.consumer.close, CLOSING)
            else:
                self.ask(self.moving.consumer)

    def last(self) -> tuple[int, int]:
        return max((message.place[:2] for message in self.scene.stored()), default=(-1, -1))

    def ask(self, consumer: Consumer) -> None:
        before = self.last()
        try:
            said = timed(self.scene, "the question", consumer.get_last_message_id)
        except PulsarException as error:
            self.scene.world.note(f"the last message is not told: {error!r}")
            return
        last = said.ledger_id(), said.entry_id()
        assert before <= last <= self.last(), f"{last} is said to be last, which was {before} and is {self.last()}"


def timed(scene: Scene, what: str, call: Callable[[], Any], limit: float = OPERATION_TIMEOUT) -> Any:
    """Do it, and see that it ends in time, whichever way."""
    began = scene.world.now
    try:
        return call()
    finally:
        took = scene.world.now - began
        assert took <= limit + A_MOMENT, f"{what} took {took:.3f} s"


class Outage:
    """A while in which no broker serves the topic; that it ends may be heard, or lost again with the connection."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        dice = Dice(scene.world.seed, "outage")
        begin, self.seconds = 5.0 * dice.chance(), 1.5 * OPERATION_TIMEOUT * dice.chance()
        self.is_followed_by_silence = dice.happens(0.5)
        scene.world.after(begin, self.begin)

    def begin(self) -> None:
        if self.scene.is_calm or self.scene.broker is None:
            return
        fault = self.scene.broker.faults.on(CommandSubscribe, times=None)
        refusal = fault.refuse(ServerError.ServiceNotReady, "not now")
        self.scene.on_broker(Broker.cut_connections)
        self.scene.world.after(self.seconds, lambda: self.end(refusal))

    def end(self, refusal: Fault) -> None:
        refusal.remove()
        if self.is_followed_by_silence and not self.scene.is_calm and self.scene.broker is not None:
            for command in (CommandSeek, CommandUnsubscribe, CommandGetLastMessageId):
                self.scene.broker.faults.on(command).drop()


def asking(scene: Scene) -> None:
    client = scene.client()
    if scene.dice.happens(0.5):
        Outage(scene)
    publisher = Publisher(scene, client, most=20)
    in_troubles(scene, lambda: Moving(scene, client, publisher).run(), publisher)


def test_what_is_asked_of_the_broker_ends_in_time_and_truly() -> None:
    play(60, asking, deduplication=True)
