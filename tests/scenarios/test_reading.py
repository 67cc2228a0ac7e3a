"""A reader reads every message once, in order, from where it starts or is sent, whatever goes wrong."""

from typing import Any

from pulsar_actors.client.client import Client
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.reader import Reader
from pulsar_actors.exceptions import BrokerRefusal, ConnectError, OutcomeUnknown, PulsarException, Timeout
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import Publisher, in_troubles
from tests.scenarios.received import place_of
from tests.scenarios.scene import TOPIC, Place, Scene, play


class Reading:
    """One reader after the other, and where the next message must be.

    If the outcome of a seek is unknown, the reader may be there `perhaps`, as soon as it has connected again. Places
    are numbers in the order of what is stored.
    """

    def __init__(self, scene: Scene, client: Client, publisher: Publisher) -> None:
        self.scene = scene
        self.client = client
        self.publisher = publisher
        self.dice = Dice(scene.world.seed, "reading")
        self.inclusive = self.dice.happens(0.5)
        self.queue = (0, 1, 2, 3, 7, 1000)[self.dice.below(6)]
        self.last: tuple[int, MessageId] | None = None
        self.expected = {0}
        self.perhaps: set[int] = set()
        self.reader = self.open(MessageId.earliest)

    def open(self, start: MessageId) -> Reader:
        made: Reader = self.scene.insist(
            lambda: self.client.create_reader(
                TOPIC, start, receiver_queue_size=self.queue, start_message_id_inclusive=self.inclusive
            )
        )
        return made

    def places(self) -> list[Place]:
        return [message.place for message in self.scene.stored()]

    def run(self) -> None:
        while not self.is_done():
            way = self.dice.below(20)
            if self.scene.is_calm or way > 3:
                self.read()
            elif way == 0:
                self.reopen()
            elif way == 1:
                self.seek()
            else:
                self.ask_whether_there_is_more()
        self.reader.close()

    def is_done(self) -> bool:
        everything = len(self.places())
        return self.publisher.caller.ended and self.scene.is_calm and self.expected == {everything}

    def read(self) -> None:
        try:
            if self.dice.happens(0.2):
                future = self.reader.read_next_async()
                if not self.scene.world.block(future, 0.5) and future.cancel():
                    return
                message = future.result(0) if future.done() else self._result_of(future)
            else:
                message = self.reader.read_next((0, 30, 1000)[self.dice.below(3)])
        except Timeout:
            return
        at = self.places().index(place_of(message))
        self.scene.world.note(f"received number {at}")
        possible = self.expected | self.perhaps
        assert at in possible, f"{message.data()!r}, number {at}, came where {sorted(possible)} was expected"
        if at not in self.expected:
            self.perhaps = set()
        self.last = at, message.message_id()
        self.expected = {at + 1}

    def _result_of(self, future: Any) -> Any:
        self.scene.world.block(future)
        return future.result(0)

    def reopen(self) -> None:
        """Close it, and go on behind the last message, or at it."""
        if self.last is None:
            return
        try:
            self.reader.close()
        except PulsarException as error:
            self.scene.world.note(f"the reader's close: {error!r}")
        at, message_id = self.last
        self.reader = self.open(message_id)
        self.expected = {at if self.inclusive else at + 1}
        self.perhaps = set()

    def seek(self) -> None:
        stored = self.scene.stored()
        if not stored:
            return
        at = self.dice.below(len(stored))
        ledger, entry, index = stored[at].place
        target = at if self.inclusive else at + 1
        self.scene.world.note(f"seeks {stored[at].place}, number {at}, so that {target} is next")
        self.scene.perhaps_cut_soon()
        try:
            self.reader.seek(MessageId(-1, ledger, entry, index))
        except OutcomeUnknown as error:
            self.scene.world.note(f"sought, perhaps: {error!r}")
            begin = stored.index(next(message for message in stored if message.place[:2] == (ledger, entry)))
            self.perhaps |= set(range(begin, target + 1))  # only the seek would have hidden the rest of its batch
        except (ConnectError, BrokerRefusal):
            return
        else:
            self.scene.world.note("sought")
            self.expected, self.perhaps = {target}, set()
        self.last = None

    def ask_whether_there_is_more(self) -> None:
        behind = len(self.scene.stored())
        try:
            answer = self.reader.has_message_available()
        except PulsarException as error:
            self.scene.world.note(f"has_message_available: {error!r}")
            return
        still = len(self.scene.stored())
        if answer:
            assert min(self.expected | self.perhaps) < still, "there is said to be more, and there is not"
        else:
            assert max(self.expected | self.perhaps) >= behind, (
                f"{sorted(self.expected)} of {behind}, and there is said to be no more"
            )


def reading(scene: Scene) -> None:
    client = scene.client()
    publisher = Publisher(scene, client)
    in_troubles(scene, publisher, lambda: Reading(scene, client, publisher).run(), "reader")


def test_a_reader_reads_every_message_once_and_in_order() -> None:
    play(60, reading, deduplication=True)
