"""A reader of a topic that grows, alone or beside another, reads every message once, each partition in its order.

Whatever goes wrong, and wherever it is sent to. Partitions that come later are read from their first message on, also
by a reader that began at the end of the others.
"""

from pulsar_actors.client.client import Client
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.reader import Reader
from pulsar_actors.exceptions import BrokerRefusal, ConnectError, InvalidArgument, PulsarException, Timeout
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.topic_name import TopicName
from tests.scenarios.programs import Publisher
from tests.scenarios.received import place_of
from tests.scenarios.scene import NAMESPACE, PATIENCE, TOPIC, Scene, play
from tests.scenarios.troubles import Troubles

PARTS = TopicName.parse(f"persistent://{NAMESPACE}/parts")


class Reading:
    """One reader after the other, and where the next message of each topic must be.

    If the outcome of a seek is unknown, the reader may be there `perhaps`, as soon as it has connected again. Places
    are numbers in the order of what is stored.
    """

    def __init__(self, scene: Scene, client: Client, publishers: list[Publisher]) -> None:
        self.scene = scene
        self.client = client
        self.publishers = publishers
        self.dice = Dice(scene.world.seed, "reading")
        self.topics = [str(PARTS), TOPIC][: len(publishers)]
        self.inclusive = self.dice.happens(0.5)
        self.expected: dict[str, set[int]] = {}
        self.perhaps: dict[str, set[int]] = {}
        self.known: list[str] = []
        self.reader = self.open()

    def open(self) -> Reader:
        """Begin at the start of all topics, or at their end: at the last message there, if that is inclusive."""
        start = MessageId.latest if self.dice.happens(0.5) else MessageId.earliest
        before: dict[str, int] = {}

        def make() -> Reader:
            before.update(self.counts())
            return self.client.create_reader(self.topics, start, start_message_id_inclusive=self.inclusive)

        reader: Reader = self.scene.insist(make)
        self.known = list(before)
        self.perhaps = {}
        self.expected = {}
        if start is MessageId.latest:
            least = {name: max(0, count - self.inclusive) for name, count in before.items()}
            after = self.counts().items()
            self.expected = {name: set(range(least.get(name, 0), count + 1)) for name, count in after}
        return reader

    def counts(self) -> dict[str, int]:
        """Count what is stored of each topic that there is."""
        return {name: len(self.scene.stored(name)) for name in self.scene.topics()}

    def possible(self, topic: str) -> set[int]:
        return self.expected.get(topic, {0}) | self.perhaps.get(topic, set())

    def run(self) -> None:
        while not self.is_done():
            way = self.dice.below(20)
            if self.scene.is_calm or way > 3:
                self.read()
            elif way == 0:
                self.reopen()
            elif way == 1:
                self.seek_a_message()
            elif way == 2:
                self.seek_the_start()
            else:
                self.ask_whether_there_is_more()
        self.reader.close()

    def is_done(self) -> bool:
        if not self.scene.is_calm or not all(publisher.caller.ended for publisher in self.publishers):
            return False
        return all(count in self.expected.get(name, {0}) for name, count in self.counts().items())

    def read(self) -> None:
        try:
            if self.dice.happens(0.2):
                future = self.reader.read_next_async()
                if not self.scene.world.block(future, 0.5) and future.cancel():
                    return
                self.scene.world.block(future)
                message = future.result(0)
            else:
                message = self.reader.read_next((0, 30, 1000)[self.dice.below(3)])
        except Timeout:
            return
        topic = message.topic_name()
        at = [each.place for each in self.scene.stored(topic)].index(place_of(message))
        possible = self.possible(topic)
        assert at in possible, f"{message.data()!r}, number {at} of {topic}, came where {sorted(possible)} was expected"
        if at not in self.expected.get(topic, {0}):
            self.perhaps.pop(topic, None)
        self.expected[topic] = {at + 1}

    def reopen(self) -> None:
        try:
            self.reader.close()
        except PulsarException as error:
            self.scene.world.note(f"the reader's close: {error!r}")
        self.reader = self.open()

    def seek_a_message(self) -> None:
        """Go to a message of one topic; the others stay where they are."""
        found = [(name, stored) for name in self.scene.topics() if (stored := self.scene.stored(name))]
        if not found:
            return
        topic, stored = found[self.dice.below(len(found))]
        at = self.dice.below(len(stored))
        ledger, entry, index = stored[at].place
        target = at if self.inclusive else at + 1
        begin = next(number for number, each in enumerate(stored) if each.place[:2] == (ledger, entry))
        self.scene.perhaps_cut_soon()
        try:
            self.reader.seek(MessageId.deserialize(MessageId(-1, ledger, entry, index).serialize(), topic))
        except (ConnectError, BrokerRefusal, InvalidArgument):  # the latter where the partition is still unknown
            return
        except PulsarException as error:
            self.scene.world.note(f"sought, perhaps: {error!r}")
            self.perhaps.setdefault(topic, set()).update(range(begin, target + 1))
        else:
            self.expected[topic] = {target}
            self.perhaps.pop(topic, None)

    def seek_the_start(self) -> None:
        """Go to the start of all topics; if it fails, it may have been done for some of them."""
        self.scene.perhaps_cut_soon()
        try:
            self.reader.seek(MessageId.earliest)
        except PulsarException as error:
            self.scene.world.note(f"sought the start, perhaps: {error!r}")
            for name in self.scene.topics():
                self.perhaps.setdefault(name, set()).add(0)
        else:
            self.expected, self.perhaps = {}, {}

    def ask_whether_there_is_more(self) -> None:
        behind = self.counts()
        try:
            answer = self.reader.has_message_available()
        except PulsarException as error:
            self.scene.world.note(f"has_message_available: {error!r}")
            return
        if answer:
            still = self.counts().items()
            assert any(min(self.possible(name)) < count for name, count in still), "there is said to be more"
        else:  # of partitions that came later the reader need not know yet
            left = [name for name in self.known if max(self.possible(name)) < behind[name]]
            assert not left, f"there is said to be no more, and there is in {left}"


def reading(scene: Scene) -> None:
    world, dice = scene.world, scene.dice
    # Who reads looks less often than who publishes: new partitions have messages before the reader knows of them.
    client, writers = scene.client(partitions_update_interval=3.0), scene.client(partitions_update_interval=0.1)
    first = last = 1 + dice.below(3)
    scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, first))
    if dice.happens(0.8):
        last, at = first + 1 + dice.below(2), 10.0 ** (dice.chance() * 2 - 1)
        world.after(at, lambda: scene.on_broker(lambda broker: broker.cluster.grow(PARTS, last)))
    publishers = [Publisher(scene, writers, topic=str(PARTS), reach=str(PARTS.partition(last - 1)))]
    if dice.happens(0.5):
        scene.have_broker(lambda broker: broker.cluster.create_topic(TopicName.parse(TOPIC)))
        publishers.append(Publisher(scene, writers, topic=TOPIC))
    troubles = Troubles(scene)
    caller = world.spawn(lambda: Reading(scene, client, publishers).run(), "reader")
    calm = troubles.until + 5.0
    world.after(calm, scene.calm)
    world.run(until=lambda: caller.ended, limit=calm + PATIENCE)
    caller.result()
    for publisher in publishers:
        publisher.caller.result()
    scene.end()


def test_a_reader_of_several_topics_reads_every_message_once_and_each_topic_in_order() -> None:
    play(16, reading, deduplication=True)
