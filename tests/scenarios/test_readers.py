"""A reader reads every message once and in order, whatever its options are, and whatever goes wrong.

It starts at any message that somebody has read, or after it, also within a batch or at a message in chunks. It reads
what compaction has left, with a listener that seeks, one message or several at a time. What it says about more messages
is true. It leaves no subscription, unless it is closed after a seek for which the broker has disconnected it.
"""

from collections.abc import Callable
from typing import Any

from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import CompressionType
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.reader import Reader
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.compaction import NUMBER, Compaction, compaction
from tests.scenarios.keys import Keys
from tests.scenarios.programs import in_troubles
from tests.scenarios.scene import PATIENCE, TOPIC, Scene, play
from tests.scenarios.test_reading import Reading

CHUNK = 3
PREFIX = "role"


class Numbers:
    """Publishes numbers, each until it is stored. The broker must drop duplicates."""

    def __init__(self, scene: Scene, client: Client, name: str, most: int, **options: Any) -> None:
        self._scene = scene
        self._client = client
        self._name = name
        self._options = options
        self._dice = Dice(scene.world.seed, f"publisher {name}")
        self.count = self._dice.below(most)
        self.futures: list[Any] = []
        self.caller = scene.world.spawn(self._run, name)

    @property
    def stored(self) -> int:
        """How many are stored for certain."""
        return next((at for at, future in enumerate(self.futures) if not future.done()), len(self.futures))

    def _run(self) -> None:
        scene, dice = self._scene, self._dice
        batching = dice.happens(0.6) and not self._options.get("chunking_enabled")
        producer = scene.insist(
            lambda: self._client.create_producer(
                TOPIC,
                producer_name=self._name,
                send_timeout_millis=0,
                max_pending_messages=0,
                batching_enabled=batching,
                batching_max_messages=1 + dice.below(7),
                compression_type=(CompressionType.NONE, CompressionType.LZ4)[dice.below(2)],
                **self._options,
            )
        )
        for number in range(self.count):
            content, key = b"x" * (1 + dice.below(10)), f"key {dice.below(3)}"
            properties = {NUMBER: str(number), "name": self._name}
            self.futures.append(producer.send_async(content, partition_key=key, properties=properties))
            if dice.happens(0.25):
                scene.sleep(10.0 ** (dice.chance() * 3 - 2.5))
        for future in self.futures:
            scene.world.block(future)
            assert future.exception() is None
        try:
            producer.close()
        except PulsarException as error:
            scene.world.note(f"the publisher's close: {error!r}")


class Choice:
    """What the topic and its readers are like."""

    def __init__(self, scene: Scene) -> None:
        dice = Dice(scene.world.seed, "readers")
        self.compacts = dice.happens(0.35)
        self.chunks = not self.compacts and dice.happens(0.4)
        self.has_others = self.chunks and dice.happens(0.5)
        self.listens = dice.happens(0.3)
        self.encryption: dict[str, Any] = {}
        if not self.compacts and dice.happens(0.1):
            self.encryption = {"crypto_key_reader": Keys()}
        self.reader: dict[str, Any] = {**self.encryption, "is_read_compacted": self.compacts}
        if dice.happens(0.5):
            self.reader |= {"subscription_role_prefix": PREFIX, "reader_name": "reader"}
        if self.chunks:
            self.reader["max_pending_chunked_message"] = (0, 1, 10)[dice.below(3)]
            self.reader["expire_time_of_incomplete_chunked_message_ms"] = (0, 60_000)[dice.below(2)]
            self.reader["auto_ack_oldest_chunked_message_on_queue_full"] = not self.has_others and dice.happens(0.5)
        self.producer: dict[str, Any] = {}
        if self.chunks:
            self.producer |= {"chunking_enabled": True, "chunk_max_message_size": CHUNK}
        if self.encryption:
            self.producer |= {**self.encryption, "encryption_key": "key"}


class ReadingWithOptions(Reading):
    """One reader after the other. Of other publishers, only the order of their messages counts."""

    def __init__(self, scene: Scene, client: Client, choice: Choice, compacted: Compaction, *numbers: Numbers) -> None:
        self.choice = choice
        self.numbers = numbers[0]
        self.compacted = compacted
        self.ids: dict[int, MessageId] = {}
        self.has_sought = self.is_in_listener = False
        self.opened = 0
        super().__init__(scene, client, *numbers, seeks_times=False)  # type: ignore[arg-type]

    def open(self) -> Reader:
        """Begin at the start, or at a message that was read, or after it."""
        numbers = list(self.ids)
        at = numbers[self.dice.below(len(numbers))] if numbers and self.dice.happens(0.8) else None
        self.expected = {TOPIC: {0 if at is None else at + (not self.inclusive)}}
        self.perhaps = {}
        start = MessageId.earliest if at is None else self.ids[at]
        self.opened += 1
        number = self.opened
        listener = {"reader_listener": lambda *given: self._listen(number, *given)} if self.choice.listens else {}
        reader: Reader = self.scene.insist(
            lambda: self.client.create_reader(
                TOPIC,
                start,
                receiver_queue_size=self.queue,
                start_message_id_inclusive=self.inclusive,
                **listener,
                **self.choice.reader,
            )
        )
        self._check_names()
        return reader

    def _check_names(self) -> None:
        """See that the broker knows the reader by the names that it was given."""
        topic = self.scene.topic()
        if topic is not None and "reader_name" in self.choice.reader:
            for name, subscription in topic.subscriptions.items():
                assert name.startswith(f"{PREFIX}-reader-")
                assert {consumer.request.name for consumer in subscription.consumers} <= {"reader"}

    def run(self) -> None:
        while not self.is_done():
            if self.choice.listens:
                self.scene.sleep(0.2)
                if self.dice.happens(0.02) and not self.scene.is_calm:
                    self.reopen()
            elif self.scene.is_calm or self.dice.happens(0.85):
                self.read()
            else:
                self._act()
        self.reader.close()

    def _act(self) -> None:
        ways: tuple[Callable[[], object], ...] = (
            self.seek_a_message, self.seek_a_message, self.seek_the_start, self.ask_whether_there_is_more,
        )  # fmt: skip
        ways[self.dice.below(len(ways))]()

    def reopen(self) -> None:
        self.opened += 1
        self.scene.world.block(lambda: not self.is_in_listener)
        super().reopen()

    def _listen(self, number: int, reader: Reader, message: Message) -> None:
        """Take a message, and perhaps move the reader, from within its listener."""
        if number != self.opened:  # another follows it
            return
        self.is_in_listener = True
        self.note(message)
        if self.dice.happens(0.1):
            self.scene.sleep(self.dice.chance())
        elif not self.scene.is_calm and self.dice.happens(0.1):
            self.reader = reader
            self._act()
        self.is_in_listener = False

    def read(self) -> None:
        try:
            if self.dice.happens(0.3):
                for message in self.reader.read_many(1 + self.dice.below(5), (0, 30, 1000)[self.dice.below(3)]):
                    self.note(message)
            else:
                self.note(self.reader.read_next((0, 30, 1000)[self.dice.below(3)]))
        except Timeout:
            return

    def note(self, message: Message) -> None:
        if message.properties()["name"] != "numbers":
            return
        at, possible = int(message.properties()[NUMBER]), self.possible(TOPIC)
        self.scene.world.note(f"received number {at}")
        assert at in possible, f"number {at} came where {sorted(possible)} was expected"
        if at not in self._or_after_gone(self.expected[TOPIC]):
            while at not in self._or_after_gone(self.perhaps[TOPIC].pop(0)):
                pass
        self.ids[at] = message.message_id()
        self.expected[TOPIC] = {at + 1}

    def possible(self, topic: str) -> set[int]:
        return self._or_after_gone(super().possible(topic))

    def _or_after_gone(self, numbers: set[int]) -> set[int]:
        """Add the numbers that follow if what is between was compacted away."""
        gone = self.compacted.gone(TOPIC) if self.choice.compacts else set()
        found = set(numbers)
        for number in numbers:
            following = number
            while following in gone:
                following += 1
                found.add(following)
        return found

    def is_done(self) -> bool:
        has_ended = all(publisher.caller.ended for publisher in self.publishers)
        return self.scene.is_calm and has_ended and self.numbers.count in self.possible(TOPIC)

    def seek_a_message(self) -> None:
        """Go to a message that was read before."""
        if not self.ids:
            return
        at = list(self.ids)[self.dice.below(len(self.ids))]
        target = at if self.inclusive else at + 1
        self.scene.world.note(f"seeks number {at}, so that {target} is next")
        self._seek(self.ids[at], {TOPIC: range(self._begin(at), target + 1)})

    def _begin(self, at: int) -> int:
        """Return the first number of the batch in which a number is: only a seek would hide those before it."""
        begin = at
        while begin - 1 in self.ids and self._entry(begin - 1) == self._entry(at):
            begin -= 1
        return begin

    def _entry(self, number: int) -> tuple[int, int]:
        return self.ids[number].ledger_id(), self.ids[number].entry_id()

    def _seek(self, where: MessageId | int, nexts: dict[str, range]) -> None:
        self.has_sought = True
        super()._seek(where, nexts)

    def seek_the_start(self) -> None:
        self.has_sought = True
        super().seek_the_start()
        self.expected.setdefault(TOPIC, {0})

    def ask_whether_there_is_more(self) -> None:
        stored = self.numbers.stored
        try:
            answer = self.reader.has_message_available()
        except PulsarException as error:
            self.scene.world.note(f"has_message_available: {error!r}")
            return
        possible = self.possible(TOPIC)
        if not answer:
            assert max(possible) >= stored, f"there is said to be no more, and there are {stored}, of {possible}"
        elif not (self.choice.compacts or self.choice.has_others):
            assert min(possible) < len(self.numbers.futures), "there is said to be more"


def reading_with_options(scene: Scene) -> None:
    client, dice, choice = scene.client(), scene.dice, Choice(scene)
    numbers = Numbers(scene, client, "numbers", 40, **choice.producer)
    others = [Numbers(scene, client, "others", 30, **choice.producer)] if choice.has_others else []
    with compaction(scene) as compacted:
        for _ in range(dice.below(4) if choice.compacts else 0):
            scene.world.after(10.0 ** (dice.chance() * 3 - 2), lambda: scene.on_broker(compacted.compact_all))

        readings: list[ReadingWithOptions] = []

        def read() -> None:
            readings.append(ReadingWithOptions(scene, client, choice, compacted, numbers, *others))
            readings[0].run()

        in_troubles(scene, read, numbers, *others, patience=2 * PATIENCE)  # type: ignore[arg-type]
        scene.sleep(PATIENCE)  # until the broker knows of every connection that is lost
        topic = scene.topic()
        left = [] if topic is None else list(topic.subscriptions)
        assert not left or readings[0].has_sought, f"subscriptions are left: {left}"


def test_a_reader_with_any_options_reads_every_message_once_and_in_order() -> None:
    play(60, reading_with_options, once_failed=(30_000_028, 150_000_029), deduplication=True)
