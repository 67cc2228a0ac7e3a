"""A stream in simulated time: whoever dies, and whatever goes wrong, each message is in one batch, once and in order.

A query here is what Spark makes of one: it notes the end of a batch before it runs it, runs its tasks, each in a
process of its own, and notes that the batch is done. A driver that comes after one that died runs the last batch again,
from what is noted. What a batch has read replaces what it had read before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import World
from pulsar_actors.spark import micro_batches, read_task
from pulsar_actors.spark.micro_batches import MicroBatchStream, SubscriptionCursor
from pulsar_actors.spark.offsets import Offsets, Span
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.pyspark_compat import HAS_ADMISSION_CONTROL
from pulsar_actors.spark.read_task import entries_in
from pulsar_actors.wire.topic_name import TopicName
from tests.scenarios.programs import Publisher
from tests.scenarios.scene import PARTS, PATIENCE, TOPIC, Scene, play
from tests.scenarios.troubles import Troubles
from tests.spark.simulated import Fate, Process, Task, clock_of, insist, wait_for_part

PARTITIONS = 3


class Query:
    """A query, with its checkpoint, and what each batch has read."""

    def __init__(self, scene: Scene, topic: str) -> None:
        dice = Dice(scene.world.seed, "query")
        self.fate = Fate(dice)
        self.scene = scene
        texts = {"service.url": "pulsar://broker:6650", "topic": topic, "startingOffsets": "earliest"}
        texts["subscriptionPrefix"] = "query"  # PySpark 4.1 needs one
        if dice.happens(0.5) and HAS_ADMISSION_CONTROL:
            texts["maxOffsetsPerTrigger"] = str(1 + dice.below(10))
        self.options = ReadOptions.parse(texts, is_stream=True)
        self.offsets: list[dict[str, Any]] = []
        """That of the beginning, and the ends of the batches."""
        self.read: list[list[tuple[str, bytes]]] = []
        """For each batch that is done, its topics and contents."""
        self.must_end = False
        self.publishers: list[Publisher] = []

    def run(self) -> None:
        insist(self.scene, self.fate, self._drive, self._is_done)

    def _is_done(self) -> bool:
        ended = all(publisher.caller.ended for publisher in self.publishers)
        return ended and sum(map(len, self.read)) >= sum(publisher.count for publisher in self.publishers)

    def _drive(self, driver: Process) -> None:
        stream = MicroBatchStream(replace(self.options, cluster=driver))  # type: ignore[arg-type]
        if not self.offsets:
            begin = stream.begin().write()
            driver.check_in_charge()
            self.offsets.append(begin)
        while not self._is_done():
            start = self.offsets[len(self.read)]
            if len(self.offsets) == len(self.read) + 1:
                is_limited = self.options.max_messages is not None
                end = stream.latest(Offsets.read(start), is_limited=is_limited).write()
                driver.check_in_charge()
                if end == start:
                    self.scene.sleep(0.3)
                    continue
                self.offsets.append(end)
            batch = self._read(stream, driver)
            if self.fate.strikes(0.15):
                driver.die()
            driver.check_in_charge()
            self.read.append(batch)
        stream.close()

    def _read(self, stream: MicroBatchStream, driver: Process) -> list[tuple[str, bytes]]:
        """Run the tasks of the first batch that is not done."""
        start, end = self.offsets[len(self.read) : len(self.read) + 2]
        spans: Any = stream.spans(Offsets.read(start), Offsets.read(end))
        read: dict[str, list[bytes]] = {}

        def start_task(span: Span) -> Task:
            return Task(self.scene, self.fate, span.topic, lambda worker: self._read_span(worker, span, read))

        begun = {span: [start_task(span)] for span in spans}
        if not all(wait_for_part(self.scene, begun[it], driver, lambda it=it: start_task(it)) for it in begun):  # type: ignore[misc]
            raise PulsarException("a batch failed")
        return [(topic, content) for topic, contents in read.items() for content in contents]

    def _read_span(self, worker: Process, span: Span, read: dict[str, list[bytes]]) -> None:
        options = replace(self.options, cluster=worker)  # type: ignore[arg-type]
        contents = [bytes(one) for entry in entries_in(span, options) for one in entry.payloads]
        worker.check()
        read[span.topic] = contents


class _Pool:
    """The pool of a worker with one task."""

    @contextmanager
    def lend(self, worker: Any) -> Iterator[Any]:
        with worker.client() as client:
            yield SimpleNamespace(client=client)


@contextmanager
def waits_in(world: World) -> Iterator[None]:
    """Have the driver wait for acknowledgements as callers of the world do."""
    acknowledge = SubscriptionCursor._acknowledge

    def waiting(cursor: SubscriptionCursor, topic: Any, position: Any) -> Any:
        receipt = acknowledge(cursor, topic, position)
        if receipt is not None:
            world.block(receipt)
        return receipt

    with mock.patch.object(SubscriptionCursor, "_acknowledge", waiting):
        yield


def streams(scene: Scene) -> None:
    """Play a query beside publishers, and compare what it has read with what is stored."""
    world, dice = scene.world, Dice(scene.world.seed, "streams")
    topic = str(PARTS) if dice.happens(0.3) else TOPIC
    if topic == TOPIC:
        scene.have_broker(lambda broker: broker.cluster.create_topic(TopicName.parse(TOPIC)))
    else:
        scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, PARTITIONS))
    with clock_of(world, [micro_batches, read_task]), mock.patch.object(read_task, "POOL", _Pool()), waits_in(world):
        query = Query(scene, topic)
        query.publishers.append(Publisher(scene, scene.client(), topic=topic))
        calm = Troubles(scene, sets_clocks=False).until + 5.0
        caller = world.spawn(query.run, "query")
        world.after(calm, scene.calm)
        world.run(until=lambda: caller.ended, limit=calm + 3 * PATIENCE)
        caller.result()
        query.publishers[0].caller.result()
    found: dict[str, list[bytes]] = {}
    for name, content in (message for batch in query.read for message in batch):
        found.setdefault(name, []).append(content)
    stored = {name: [message.content for message in scene.stored(name)] for name in scene.topics()}
    assert found == {name: contents for name, contents in stored.items() if contents}
    most = query.options.max_messages
    assert most is None or all(len(batch) <= most for batch in query.read), "a batch has more than maxOffsetsPerTrigger"
    scene.end()


def test_each_message_is_in_one_batch() -> None:
    play(40, streams, deduplication=True)
