"""A reader reads every message once, in order, from where it starts or is sent, whatever goes wrong.

Likewise one of several topics, of which one grows: each partition in its order. Partitions that come later are read
from their first message on, also by a reader that began at the end of the others.
"""

from bisect import bisect_left

from pulsar_actors.client.client import Client
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.reader import Reader
from pulsar_actors.exceptions import (
    BrokerRefusal,
    ConnectError,
    InvalidArgument,
    OutcomeUnknown,
    PulsarException,
    Timeout,
)
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.topic_name import TopicName
from tests.histories.history import Place
from tests.scenarios.programs import Publisher, in_troubles
from tests.scenarios.scene import PARTS, TOPIC, Scene, play, set_clock


class Reading:
    """One reader after the other, and where the next message of each topic must be.

    If the outcome of a seek is unknown, the reader may be there `perhaps`, once it has connected again, and after
    several such seeks at one place after the other. Places are numbers in the order of what is stored.
    """

    refused: tuple[type[PulsarException], ...] = (ConnectError, BrokerRefusal)
    uncertain: type[PulsarException] = OutcomeUnknown

    def __init__(self, scene: Scene, client: Client, *publishers: Publisher, seeks_times: bool) -> None:
        self.scene = scene
        self.seeks_times = seeks_times
        self.client = client
        self.publishers = publishers
        self.dice = Dice(scene.world.seed, "reading")
        self.inclusive = self.dice.happens(0.5)
        self.queue = (0, 1, 2, 3, 7, 1000)[self.dice.below(6)]
        self.last: Message | None = None
        self.expected: dict[str, set[int]] = {}
        self.perhaps: dict[str, list[set[int]]] = {}
        self.known: list[str] = [TOPIC]
        self.reader = self.open()

    def open(self) -> Reader:
        """Begin at the start, or go on behind the last message, or at it."""
        start = self.last.message_id() if self.last else MessageId.earliest
        reader: Reader = self.scene.insist(
            lambda: self.client.create_reader(
                TOPIC, start, receiver_queue_size=self.queue, start_message_id_inclusive=self.inclusive
            )
        )
        self.expected = {TOPIC: {self.number_of(self.last) + (not self.inclusive)}} if self.last else {}
        self.perhaps = {}
        return reader

    def counts(self) -> dict[str, int]:
        """Count what is stored of each topic that there is."""
        return {name: len(self.scene.stored(name)) for name in self.scene.topics()}

    def possible(self, topic: str) -> set[int]:
        return self.expected.get(topic, {0}).union(*self.perhaps.get(topic, ()))

    def number_of(self, message: Message) -> int:
        return [each.place for each in self.scene.stored(message.topic_name())].index(Place.of(message.message_id()))

    def run(self) -> None:
        while not self.is_done():
            way = self.dice.below(25)
            if self.scene.is_calm or way > 4:
                self.read()
            else:
                (
                    *(self.reopen, self.seek_a_message, self.seek_a_time, self.seek_the_start),
                    self.ask_whether_there_is_more,
                )[way]()
        self.reader.close()

    def is_done(self) -> bool:
        if not self.scene.is_calm or not all(publisher.caller.ended for publisher in self.publishers):
            return False
        return all(count in self.possible(name) for name, count in self.counts().items())

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
        topic, at = message.topic_name(), self.number_of(message)
        self.scene.world.note(f"received number {at}")
        possible = self.possible(topic)
        assert at in possible, f"{message.data()!r}, number {at} of {topic}, came where {sorted(possible)} was expected"
        if at not in self.expected.get(topic, {0}):
            while at not in self.perhaps[topic].pop(0):
                pass
        self.last = message
        self.expected[topic] = {at + 1}

    def reopen(self) -> None:
        try:
            self.reader.close()
        except PulsarException as error:
            self.scene.world.note(f"the reader's close: {error!r}")
        self.reader = self.open()

    def id_of(self, _topic: str, place: Place) -> MessageId:
        return MessageId(-1, *place)

    def seek_a_message(self) -> None:
        """Go to a message of one topic; others stay where they are."""
        found = [(name, stored) for name in self.scene.topics() if (stored := self.scene.stored(name))]
        if not found:
            return
        topic, stored = found[self.dice.below(len(found))]
        at = self.dice.below(len(stored))
        place = stored[at].place
        target = at if self.inclusive else at + 1
        begin = next(number for number, each in enumerate(stored) if each.place[:2] == place[:2])
        self.scene.world.note(f"seeks {place}, number {at}, so that {target} is next")
        # Only the seek would have hidden the rest of its batch.
        self._seek(self.id_of(topic, place), {topic: range(begin, target + 1)})

    def seek_a_time(self) -> None:
        """Go to a time at which something was published, on all topics: to the first message that is not older."""
        published = {name: [each.published for each in self.scene.stored(name)] for name in self.scene.topics()}
        if not self.seeks_times or not all(published.values()):
            return
        latest = min(each[-1] for each in published.values())  # what is on its way is not older than that
        times = sorted(time for each in published.values() for time in each if time <= latest)
        time = times[self.dice.below(len(times))]
        self.scene.world.note(f"seeks the time {time}")
        first = {name: bisect_left(each, time) for name, each in published.items()}
        found = {name for name in first if name in self.known or self.expected.get(name, {0}) != {0}}
        self._seek(time, {name: range(number, number + 1) for name, number in first.items() if name in found})
        for name in first.keys() - found:  # a partition that the reader may find later is read from its start
            self.perhaps.setdefault(name, []).append({first[name]})
        if not self.scene.is_calm and self.dice.happens(0.5):
            self.scene.world.faults.cut()  # before anything is read: only the client knows then what was sought
            self.scene.sleep(self.dice.chance())

    def _seek(self, where: MessageId | int, nexts: dict[str, range]) -> None:
        """Seek. The next message of each topic is the last of these, or any, if nobody knows whether it was done."""
        self.scene.perhaps_cut_soon()
        try:
            self.reader.seek(where)
        except self.refused as error:
            self.scene.world.note(f"not sought: {error!r}")
        except self.uncertain as error:
            self.scene.world.note(f"sought, perhaps: {error!r}")
            for topic, possible in nexts.items():
                self.perhaps.setdefault(topic, []).append(set(possible))
        else:
            self.scene.world.note("sought")
            for topic, possible in nexts.items():
                self.expected[topic] = {possible[-1]}
                self.perhaps.pop(topic, None)

    def seek_the_start(self) -> None:
        """Go to the start of all topics; if it fails, it may have been done for some of them."""
        self.scene.perhaps_cut_soon()
        try:
            self.reader.seek(MessageId.earliest)
        except PulsarException as error:
            self.scene.world.note(f"sought the start, perhaps: {error!r}")
            for name in self.scene.topics():
                self.perhaps.setdefault(name, []).append({0})
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


class ReadingSeveral(Reading):
    """One reader after the other, each of a topic that grows, and perhaps of another one."""

    refused = (ConnectError, BrokerRefusal, InvalidArgument)  # the last where the partition is still unknown
    uncertain = PulsarException

    def open(self) -> Reader:
        """Begin at the start of all topics, or at their end: at the last message there, if that is inclusive."""
        start = MessageId.latest if self.dice.happens(0.5) else MessageId.earliest
        topics = [str(PARTS), TOPIC][: len(self.publishers)]
        before: dict[str, int] = {}

        def make() -> Reader:
            before.update(self.counts())
            return self.client.create_reader(topics, start, start_message_id_inclusive=self.inclusive)

        reader: Reader = self.scene.insist(make)
        self.known = list(before)
        self.expected, self.perhaps = {}, {}
        if start is MessageId.latest:
            least = {name: max(0, count - self.inclusive) for name, count in before.items()}
            after = self.counts().items()
            self.expected = {name: set(range(least.get(name, 0), count + 1)) for name, count in after}
        return reader

    def id_of(self, topic: str, place: Place) -> MessageId:
        return MessageId.deserialize(MessageId(-1, *place).serialize(), topic)


def names_times(scene: Scene) -> bool:
    """Return whether this seed may seek times: then no client's clock is set, and the broker's is wrong by seconds."""
    if scene.dice.happens(0.5):
        return False
    set_clock(scene.hosts[0], 10 * scene.dice.chance() - 5)
    return True


def reading(scene: Scene) -> None:
    client = scene.client()
    seeks_times = names_times(scene)
    publisher = Publisher(scene, client)

    def read() -> None:
        Reading(scene, client, publisher, seeks_times=seeks_times).run()

    in_troubles(scene, read, publisher, sets_clocks=not seeks_times)


def reading_several(scene: Scene) -> None:
    world, dice = scene.world, scene.dice
    # Who reads looks less often than who publishes: new partitions have messages before the reader knows of them.
    client, writers = scene.client(partitions_update_interval=3.0), scene.client(partitions_update_interval=0.1)
    seeks_times = names_times(scene)
    first = last = 1 + dice.below(3)
    scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, first))
    if dice.happens(0.8):
        last, at = first + 1 + dice.below(2), 10.0 ** (dice.chance() * 2 - 1)
        world.after(at, lambda: scene.on_broker(lambda broker: broker.cluster.grow(PARTS, last)))
    publishers = [Publisher(scene, writers, topic=str(PARTS), reach=str(PARTS.partition(last - 1)))]
    if dice.happens(0.5):
        scene.have_broker(lambda broker: broker.cluster.create_topic(TopicName.parse(TOPIC)))
        publishers.append(Publisher(scene, writers, topic=TOPIC))

    def read() -> None:
        ReadingSeveral(scene, client, *publishers, seeks_times=seeks_times).run()

    in_troubles(scene, read, *publishers, sets_clocks=not seeks_times)


def test_a_reader_reads_every_message_once_and_in_order() -> None:
    play(60, reading, deduplication=True)


def test_a_reader_of_several_topics_reads_every_message_once_and_each_topic_in_order() -> None:
    play(16, reading_several, once_failed=(6_100_392,), deduplication=True)
