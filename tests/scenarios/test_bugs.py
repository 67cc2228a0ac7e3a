"""An actor that dies of a bug ends what it owes, with an error that names the bug, and the client goes on."""

from typing import Any

import pykka

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import InitialPosition
from pulsar_actors.exceptions import AlreadyClosed, InternalError, Timeout
from pulsar_actors.runtime.actor import LoopActor
from pulsar_actors.runtime.client_actor import ClientActor
from pulsar_actors.runtime.connection_actor import ConnectionActor
from pulsar_actors.runtime.consumer_actor import ConsumerActor
from pulsar_actors.runtime.lookup_actor import LookupActor
from pulsar_actors.runtime.producer_actor import ProducerActor
from pulsar_actors.runtime.socket_actor import SocketActor
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.scene import PATIENCE, TEMPORARY, TOPIC, Scene, play
from tests.scenarios.sent import Sender, Sent

BUG = "a planted bug"
KINDS: tuple[type[LoopActor], ...] = (ConnectionActor, SocketActor, LookupActor, ProducerActor, ConsumerActor)


class PlantedBug(Exception):
    pass


class Planter:
    """Has actors of all kinds raise, at random moments, one of them the guardian at times."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.dice = Dice(scene.world.seed, "planter")
        self.until = 0.0
        self.kills_the_guardian = self.dice.happens(0.2)
        self.planted = 0
        for number in range(1 + self.dice.below(4)):
            kind = ClientActor if self.kills_the_guardian and number == 0 else KINDS[self.dice.below(len(KINDS))]
            at = 10.0 ** (self.dice.chance() * 3 - 2)
            self.until = max(self.until, at)
            scene.world.after(at, lambda kind=kind: self.plant(kind))

    def plant(self, kind: type[LoopActor]) -> None:
        found: list[Any] = [ref.actor_inbox.actor for ref in pykka.ActorRegistry.get_by_class(kind)]
        if not found:
            return
        actor = found[self.dice.below(len(found))]
        left = [self.dice.below(5)]
        receive = actor.receive

        def receive_with_bug(message: Any) -> None:
            if self.scene.is_calm:
                receive(message)
                return
            if left[0]:
                left[0] -= 1
                receive(message)
                return
            self.planted += 1
            self.scene.troubled[f"bug in {kind.__name__}"] += 1
            raise PlantedBug(BUG)

        actor.receive = receive_with_bug

    def forgive(self) -> None:
        """Take what was planted out of what has failed."""
        failures = self.scene.world.failures
        failures[:] = [failure for failure in failures if not isinstance(failure.error, PlantedBug)]


def check_name(error: InternalError) -> None:
    assert BUG in str(error), f"the error does not name the bug: {error}"


class Player:
    """Sends or receives, and begins anew if it has to; if the guardian is dead it gives up."""

    def __init__(self, scene: Scene, client: Client, planter: Planter) -> None:
        self.scene = scene
        self.client = client
        self.planter = planter

    def make(self, make: Any) -> Any:
        """Make a handle, unless the client is of no use any longer."""
        while True:
            try:
                return make()
            except InternalError as error:
                check_name(error)
            except TEMPORARY:
                pass
            except AlreadyClosed:
                return None
            if self.planter.kills_the_guardian and self.scene.is_calm:
                return None
            self.scene.sleep(0.5)

    def send(self, sent: Sent, name: str) -> None:
        sender = Sender(self.scene, sent, name)
        while not self.scene.is_calm:
            sender.producer_number += 1
            producer = self.make(
                lambda: self.client.create_producer(TOPIC, batching_enabled=True, send_timeout_millis=3000)
            )
            if producer is None:
                return
            while not self.scene.is_calm and producer._state.send_queue.closed is None:
                sender.do(producer)
            sender.flush(producer)
            producer.close()

    def receive(self, acknowledged: set[bytes], received: set[bytes]) -> None:
        while not self.scene.is_calm:
            consumer: Consumer | None = self.make(
                lambda: self.client.subscribe(TOPIC, "subscription", initial_position=InitialPosition.Earliest)
            )
            if consumer is None:
                return
            try:
                while not self.scene.is_calm:
                    self.receive_one(consumer, acknowledged, received)
            except InternalError as error:
                check_name(error)
            except AlreadyClosed:
                pass
            consumer.close()

    def receive_one(self, consumer: Consumer, acknowledged: set[bytes], received: set[bytes]) -> None:
        try:
            message = consumer.receive(300)
        except Timeout:
            return
        received.add(message.data())
        acknowledged.add(message.data())
        consumer.acknowledge(message)


def bugs(scene: Scene) -> None:
    world = scene.world
    sent, acknowledged, received = Sent(), set[bytes](), set[bytes]()
    client = scene.client()
    planter = Planter(scene)
    player = Player(scene, client, planter)
    callers = [
        world.spawn(lambda: player.send(sent, "a"), "sender"),
        world.spawn(lambda: player.receive(acknowledged, received), "receiver"),
    ]
    world.after(planter.until + 2.0, scene.calm)
    world.run(until=lambda: all(caller.ended for caller in callers), limit=planter.until + PATIENCE)
    for caller in callers:
        caller.result()
    if not planter.kills_the_guardian:
        check_that_it_goes_on(scene, client)
    scene.end()
    planter.forgive()
    sent.check(scene, once=False)
    left = {message.content for message in scene.stored()} - acknowledged
    rest = drain(scene)
    assert left <= rest, f"neither acknowledged nor delivered again: {left - rest}"
    scene.end()


def check_that_it_goes_on(scene: Scene, client: Client) -> None:
    producer = scene.insist(lambda: client.create_producer(TOPIC + "-2"))
    consumer = scene.insist(lambda: client.subscribe(TOPIC + "-2", "s", initial_position=InitialPosition.Earliest))
    producer.send(b"still there")
    assert consumer.receive(int(PATIENCE * 1000)).data() == b"still there"


def drain(scene: Scene) -> set[bytes]:
    """Receive what is left, with a client that nothing has happened to."""
    if scene.topic() is None:
        return set()
    client = scene.client()
    consumer = scene.insist(lambda: client.subscribe(TOPIC, "subscription", initial_position=InitialPosition.Earliest))
    contents: set[bytes] = set()
    try:
        while True:
            message = consumer.receive(1000)
            contents.add(message.data())
            consumer.acknowledge(message)
    except Timeout:
        return contents


def test_an_actor_that_dies_ends_what_it_owes_and_the_client_goes_on() -> None:
    play(60, bugs)
