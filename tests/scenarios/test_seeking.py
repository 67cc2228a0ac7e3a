"""After a seek the first message is the one that was sought, and nothing from before it comes."""

from typing import NamedTuple

from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import BrokerRefusal, ConnectError, InvalidArgument, OutcomeUnknown, Timeout
from pulsar_actors.simulation.scheduler import Dice
from tests.histories.history import Place
from tests.scenarios.programs import Publisher, in_troubles, subscribe
from tests.scenarios.scene import Scene, play


class Past(NamedTuple):
    """What a subscription may be like: nothing before `floor` comes, and nothing beyond `high` before `high` has."""

    floor: int
    high: int
    """The next message that has not come since the seek."""


class Seeking:
    """A consumer that goes to and fro. A seek whose outcome is unknown leaves several pasts open."""

    def __init__(self, scene: Scene, client: Client, publisher: Publisher) -> None:
        self.scene = scene
        self.publisher = publisher
        dice = self.dice = Dice(scene.world.seed, "seeking")
        self.inclusive = dice.happens(0.7)
        self.acknowledges = dice.happens(0.5)
        self.pasts = {Past(0, 0)}
        self.perhaps: set[Past] = set()
        self.acknowledged: set[int] = set()
        self.older: list[Message] = []
        self.sought = 0
        self.consumer = subscribe(
            scene,
            client,
            consumer_type=ConsumerType.Exclusive,  # of others, a seek that was given up may take effect much later
            receiver_queue_size=(1, 2, 3, 7, 1000)[dice.below(5)],
            start_message_id_inclusive=self.inclusive,
            batch_index_ack_enabled=dice.happens(0.5),
        )

    def places(self) -> list[Place]:
        return [message.place for message in self.scene.stored()]

    def run(self) -> None:
        while not self.is_done():
            if self.dice.happens(0.15) and not (self.scene.is_calm and self.sought > 2):
                self.seek()
            elif self.dice.happens(0.03):
                self.consumer.redeliver_unacknowledged_messages()
            else:
                self.receive()
        self.consumer.close()

    def is_done(self) -> bool:
        everything = len(self.scene.stored())
        return self.publisher.caller.ended and self.scene.is_calm and {past.high for past in self.pasts} == {everything}

    def receive(self) -> None:
        try:
            message = self.consumer.receive((0, 30, 1000)[self.dice.below(3)])
        except Timeout:
            return
        at = self.places().index(Place.of(message.message_id()))
        self.scene.world.note(f"received number {at}")
        possible = self._fitting(self.pasts, at)
        if not possible:
            possible = self._fitting(self.perhaps, at)
            self.perhaps = set()
        assert possible, f"{message.data()!r}, number {at}, came, which fits none of {sorted(self.pasts)}"
        self.pasts = possible
        self.older = [*self.older[-5:], message]
        if self.acknowledges and self.dice.happens(0.5):
            self.acknowledged.add(at)
            self.consumer.acknowledge(message)

    def _fitting(self, pasts: set[Past], at: int) -> set[Past]:
        """Give those of the pasts in which the message may come, as they are after it."""
        fitting = {past for past in pasts if past.floor <= at and self.acknowledged.issuperset(range(past.high, at))}
        return {Past(past.floor, max(past.high, at + 1)) for past in fitting}

    def seek(self) -> None:
        stored = self.scene.stored()
        if not stored:
            return
        at = self.dice.below(len(stored))
        ledger, entry, index = stored[at].place
        target = at if self.inclusive else at + 1
        self.scene.world.note(f"seeks {stored[at].place}, number {at}, so that {target} is next")
        self.sought += self.scene.is_calm
        self.scene.perhaps_cut_soon()
        try:
            self.consumer.seek(MessageId(-1, ledger, entry, index))
        except OutcomeUnknown as error:
            self.scene.world.note(f"sought, perhaps: {error!r}")
            begin = stored.index(next(message for message in stored if message.place[:2] == (ledger, entry)))
            self.perhaps |= {
                Past(each, each) for each in range(begin, target + 1)
            }  # only the seek hides a part of a batch
        except (ConnectError, BrokerRefusal, InvalidArgument):  # the last: one is running already
            return
        else:
            self.scene.world.note("sought")
            self.pasts, self.perhaps = {Past(target, target)}, set()
            self.acknowledged.clear()
            for message in self.older:  # too late: it was received before the seek
                self.consumer.acknowledge(message)
            self.older.clear()


def seeking(scene: Scene) -> None:
    client = scene.client()
    publisher = Publisher(scene, client, most=20)
    in_troubles(scene, lambda: Seeking(scene, client, publisher).run(), publisher)


def test_after_a_seek_the_first_message_is_the_one_that_was_sought() -> None:
    play(60, seeking, deduplication=True)
