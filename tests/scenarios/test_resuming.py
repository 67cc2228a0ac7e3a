"""A program that sends the lines of a file exactly once, and crashes now and then: `docs/exactly-once.md` says how.

The broker drops what it has, and tells a producer the highest sequence id of its name. The program goes on behind that,
or behind what it knows to be stored. In the end each line is stored once, and in order, whatever went wrong.

Batches of one key each are not for such a program: they are stored in another order than the lines.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pulsar_actors.client.client import Client
from pulsar_actors.client.interceptors import MessageToSend
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from tests.histories.history import Place
from tests.scenarios.disk import Disk
from tests.scenarios.programs import in_troubles
from tests.scenarios.scene import PARTS, PATIENCE, TOPIC, Scene, Stored, play

NAME = "import of May"
CHUNK = 3
"""Bytes of a chunk: a line has three or four of them."""


class Crashed(Exception):
    """The program ends, before all is sent."""


class Import:
    """The program, and how it sends. A seed has one way for all of its runs."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.dice = dice = Dice(scene.world.seed, "import")
        self.lines = [f"line {number:04}".encode() for number in range(1 + dice.below(60))]
        self.topic = TOPIC
        self.has_ids = dice.happens(0.5)
        self.step = (1, 1, 7)[dice.below(3)] if self.has_ids else 1
        """The sequence id of a line is its number times this."""
        self.knows = not self.has_ids and dice.happens(0.5)
        """It does not ask where it stopped, but knows up to where all is stored, and begins there."""
        self.waits = dice.happens(0.3)
        """It waits for each message, for some time only."""
        self.goes_back = self.has_ids and dice.happens(0.3)
        """It sends some lines once more."""
        self.options = self._choose()
        is_simple = self.topic == TOPIC and self.step == 1 and not self.goes_back
        self.leaves_out = is_simple and dice.happens(0.4)
        """It leaves out some ids, which are those after the last one."""
        self.doubts = Dice(scene.world.seed, "doubts")
        self.repeats = self.has_ids and "batching_enabled" not in self.options and self.doubts.happens(0.5)
        """It sends a line that it has sent before once more, while others are on their way."""
        self.is_lazy = bool(self.options.get("lazy_start_partitioned_producers"))
        self.confirmed = -1
        """Up to this line, all are stored, as far as the program was told."""
        self.places: dict[int, list[Place]] = {}

    def _choose(self) -> dict[str, Any]:
        dice = self.dice
        options: dict[str, Any] = {
            "producer_name": NAME,
            "send_timeout_millis": 3000 if self.waits else 0,
            "block_if_queue_full": True,
            "max_pending_messages": (1, 3, 1000)[dice.below(3)],
        }
        if dice.happens(0.2):
            return options | {"chunking_enabled": True, "chunk_max_message_size": CHUNK}
        if self.waits and self.has_ids and dice.happens(0.5):
            self.topic = str(PARTS)
            self.scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 3))
            return options | {"lazy_start_partitioned_producers": dice.happens(0.5)}
        if not (self.knows or self.goes_back):  # a batch that begins with what is there would be dropped as a whole
            options |= {
                "batching_enabled": dice.happens(0.7),
                "batching_max_messages": 1 + dice.below(8),
            }
        return options

    def work(self) -> None:
        """Run, and run again after each crash, until all is sent."""
        client = self.scene.client()
        while True:
            producer = self._producer(client)
            try:
                self._send_from(producer, self._begin(producer))
            except (Crashed, PulsarException):
                client = self._fall(client, producer)
            else:
                with suppress(PulsarException):
                    producer.close()
                return

    def _producer(self, client: Client) -> Any:
        known = {"initial_sequence_id": self.confirmed} if self.knows else {}
        return self.scene.insist(lambda: client.create_producer(self.topic, **self.options, **known))

    def _begin(self, producer: Any) -> int:
        """Return the number of the first line to send."""
        last = producer.last_sequence_id()
        assert last % self.step == 0 or last == -1, f"no message has the id {last}"
        number = -1 if last == -1 else last // self.step
        assert number < len(self.lines)
        if self.knows and self.confirmed >= 0:
            return self.confirmed + 1
        if not self.is_lazy:  # one partition alone may know less
            assert number >= self.confirmed, f"the last is {number}, and {self.confirmed} is stored"
        return max(0, number + 1 - (self.dice.below(4) if self.goes_back else 0))

    def _send_from(self, producer: Any, begin: int) -> None:
        dice, pending = self.dice, []
        until = begin + dice.below(30) if dice.happens(0.7) and not self.scene.is_calm else len(self.lines)
        number = begin
        while number < len(self.lines):
            if number >= until:
                raise Crashed
            some = range(number, min(number + 1 + dice.below(3), len(self.lines)))
            if self.waits:
                some = some[:1]
                self._note(some, [producer.send(self.lines[number], **self._options(number))])
                assert producer.last_sequence_id() >= number * self.step
            elif dice.happens(0.2):
                messages = [MessageToSend(self.lines[each], **self._options(each)) for each in some]
                pending.append((some, producer.send_many(messages, ids=True)))
            else:
                some = some[:1]
                pending.append((some, producer.send_async(self.lines[number], **self._options(number))))
            number = some[-1] + 1
            if self.repeats and not self.waits and self.doubts.happens(0.3):
                old = self.doubts.below(number)
                future = producer.send_async(self.lines[old], sequence_id=old * self.step)
                pending.append((range(old, old + 1), future))
            if dice.happens(0.2):
                self.scene.sleep(10.0 ** (dice.chance() * 3 - 3))
            pending = self._noted(pending)
        producer.flush()
        assert not self._noted(pending), "a flush has returned while messages were on their way"
        last = producer.last_sequence_id()
        assert self.is_lazy or last == (len(self.lines) - 1) * self.step, f"the last id is {last}"

    def _options(self, number: int) -> dict[str, Any]:
        options: dict[str, Any] = {"partition_key": f"key {number % 5}"}
        if not self.has_ids or (self.leaves_out and self.dice.happens(0.5)):
            return options
        return options | {"sequence_id": number * self.step}

    def _noted(self, pending: list[tuple[range, Any]]) -> list[tuple[range, Any]]:
        """Note what has ended, in order; return the rest."""
        while pending and pending[0][1].done():
            some, future = pending[0]
            outcome = future.result()
            self._note(some, outcome if isinstance(outcome, list) else [outcome])
            pending = pending[1:]
        return pending

    def _note(self, some: range, ids: list[MessageId]) -> None:
        for number, message_id in zip(some, ids, strict=True):
            self.places.setdefault(number, []).append(Place.of(message_id))
            self.confirmed = max(self.confirmed, number)

    def _fall(self, client: Client, producer: Any) -> Client:
        """End in some way, and return the client of the next run."""
        ways: tuple[Callable[[], object], ...] = (producer.close, client.close, client.shutdown)
        way = ways[self.dice.below(len(ways))]
        with suppress(PulsarException):
            way()
        return client if way == ways[0] else self.scene.client()

    def check(self) -> None:
        """See that each line is stored once and in order, where the program was told."""
        in_chunks = "chunking_enabled" in self.options
        where: dict[bytes, Place] = {}
        for topic in self.scene.topics():
            messages = self._read(topic) if in_chunks else self.scene.stored(topic)
            contents = [each.content for each in messages]
            assert contents == sorted(set(contents)), f"{topic} has {contents}"
            where |= {each.content: each.place for each in messages}
        assert sorted(where) == self.lines, f"lost: {set(self.lines) - set(where)}"
        for number, places in self.places.items():
            for place in places:
                assert place.ledger == -1 or place == where[self.lines[number]], f"{number} is not at {place}"

    def _read(self, topic: str) -> list[Stored]:
        """Read all there is, and put the chunks together."""
        client, messages = self.scene.client(), list[Stored]()
        reader = self.scene.insist(lambda: client.create_reader(topic, MessageId.earliest))
        while reader.has_message_available():
            message = reader.read_next(int(10 * PATIENCE * 1000))  # chunks may have to expire before there is room
            messages.append(Stored(message.data(), Place.of(message.message_id()), message.publish_timestamp()))
        return messages


def resuming(scene: Scene) -> None:
    made = Import(scene)

    def program() -> None:
        made.work()
        scene.world.block(lambda: scene.is_calm)
        made.check()

    in_troubles(scene, program, patience=3 * PATIENCE, loses_receipts=made.waits)


def doubting(scene: Scene) -> None:
    """Send lines that are stored once more, while the broker writes slowly: it drops them at once."""
    dice, ids = Dice(scene.world.seed, "doubting"), list[MessageId]()

    def program() -> None:
        client = scene.client()
        producer = client.create_producer(TOPIC, producer_name=NAME, send_timeout_millis=0, batching_enabled=False)
        ids.append(producer.send(b"0", sequence_id=0))
        Disk(scene).slow_down(PATIENCE)
        pending: list[Any] = []
        for number in range(1, 2 + dice.below(20)):
            pending.append(producer.send_async(str(number).encode(), sequence_id=number))
            while pending and pending[0].done():
                ids.append(pending.pop(0).result())
            if dice.happens(0.5):
                old = dice.below(len(ids))
                dropped = producer.send(str(old).encode(), sequence_id=old)
                assert dropped.ledger_id() == -1
            scene.sleep(0.3 * dice.chance())
        producer.flush()
        topic = scene.topic()
        assert topic is not None
        assert topic.producers[NAME].request.epoch == 0, "the producer has dropped its connection"
        ids.extend(future.result() for future in pending)

    caller = scene.world.spawn(program, "program")
    scene.world.run(until=lambda: caller.ended, limit=PATIENCE)
    caller.result()
    assert [message.content for message in scene.stored()] == [str(number).encode() for number in range(len(ids))]
    assert [Place.of(message_id) for message_id in ids] == [message.place for message in scene.stored()]
    scene.end()


def test_a_line_that_is_sent_once_more_ends_at_once_although_the_broker_still_stores_others() -> None:
    play(20, doubting, CALM, deduplication=True)


def test_a_program_that_resumes_behind_the_last_sequence_id_stores_nothing_twice_and_loses_nothing() -> None:
    play(60, resuming, deduplication=True)
