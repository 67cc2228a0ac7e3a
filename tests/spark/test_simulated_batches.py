"""Batches that are written once, in simulated time: whoever dies, each row is visible once in the end.

What Spark does is done here by callers: a driver opens the transaction of a batch, runs its tasks, each in a process of
its own, once more if one fails, or twice at once, and commits or aborts. Some queries have no transactions: tasks are
repeated, and the broker drops what it has. Drivers and workers die at any moment, or are taken for dead and go on. Then
another driver begins with the first batch that is not noted as done.
"""

from collections import Counter
from datetime import timedelta
from typing import Any

from pulsar_actors.client.client import Client
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.spark import control_topic
from pulsar_actors.spark.exactly_once import COMMIT_TRIES, BatchTransaction, ExactlyOnce, Written
from pulsar_actors.spark.idempotence import Idempotence
from pulsar_actors.spark.running_task import RunningTask
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.scenarios.scene import PARTS, PATIENCE, TOPIC, Scene, play
from tests.scenarios.troubles import Troubles
from tests.spark.simulated import Fate, Process, Task, clock_of, insist, wait_for_part

JOB = "query"
PARTITIONS = 2
TIMEOUT = timedelta(seconds=30)


class Query:
    """A streaming query, its batches, and how many of them are noted as done."""

    def __init__(self, scene: Scene) -> None:
        dice = self.dice = Dice(scene.world.seed, "query")
        self.fate = Fate(dice)
        self.scene = scene
        self.batches = 1 + dice.below(3)
        self.parts = 1 + dice.below(3)
        self.rows = 1 + dice.below(6)
        self.repeats = dice.happens(0.5)
        """Whether tasks may be repeated, as with `idempotent=true`."""
        self.transactions = not self.repeats or dice.happens(0.5)
        """Whether batches are transactions, as with `exactlyOnce=true`."""
        self.done = 0
        self.topic = str(PARTS) if dice.happens(0.3) else TOPIC
        self.exactly_once = ExactlyOnce(f"{TOPIC}-control", TIMEOUT, JOB)

    def texts(self, batch: int, part: int) -> list[str]:
        return [f"{batch}/{part}/{row}" for row in range(self.rows)]

    def run(self) -> None:
        insist(self.scene, self.fate, self._drive, lambda: self.done == self.batches)

    def _drive(self, driver: Process) -> None:
        while self.done < self.batches:
            batch = self.done
            access: Any = driver
            opened = self.exactly_once.open(access) if self.transactions else None
            if not self._send(opened, batch, driver):
                if opened is not None:
                    opened.abort(access)
                raise PulsarException(f"batch {batch} failed")
            self._stumble(driver)
            self.scene.perhaps_cut_soon()
            if opened is not None:
                opened.commit(access, JOB, batch, {*range(self.parts)}, may_repeat=True)
            self._stumble(driver)
            driver.check_in_charge()
            self.done = batch + 1

    def _stumble(self, driver: Process) -> None:
        """Let some time pass, perhaps, or have the driver die just now."""
        self._rest()
        if self.fate.strikes(0.15):
            driver.die()

    def _rest(self) -> None:
        """Let some time pass, perhaps."""
        if self.dice.happens(0.2):
            self.scene.sleep(10.0 ** (self.dice.chance() * 3 - 3))

    def _send(self, opened: BatchTransaction | None, batch: int, driver: Process) -> bool:
        """Run the tasks of a batch, some of them twice at once, and return whether each part has been sent."""

        def start(part: int) -> Task:
            return Task(self.scene, self.fate, f"{batch}/{part}", lambda it: self._send_part(it, opened, batch, part))

        begun = {part: [start(part) for _ in range(2 if self.dice.happens(0.2) else 1)] for part in range(self.parts)}
        return all(wait_for_part(self.scene, begun[part], driver, lambda part=part: start(part)) for part in begun)  # type: ignore[misc]

    def _send_part(self, worker: Process, opened: BatchTransaction | None, batch: int, part: int) -> None:
        task = RunningTask(part, JOB, batch)
        with worker.client() as client:

            def send(transaction: Any) -> Written:
                return self._send_rows(client, opened, task, transaction)

            if opened is None:
                send(None)
            else:
                opened.send_part(client, task, JOB, send, may_repeat=self.repeats)

    def _send_rows(
        self, client: Client, opened: BatchTransaction | None, task: RunningTask, transaction: Any
    ) -> Written:
        texts = self.texts(task.batch or 0, task.partition)
        options: dict[str, Any] = {"batching_enabled": True}
        if self.repeats:
            options = Idempotence(None).arguments(task, JOB, options, [], None if opened is None else opened.id)
        producer = client.create_producer(self.topic, **options)
        futures = []
        for text in texts:
            futures.append(producer.send_async(text.encode(), transaction=transaction))
            self._rest()
        producer.flush()
        for future in futures:
            self.scene.world.block(future)
            future.result()
        return Written(len(texts), sum(map(len, texts)))


def lose_ends(scene: Scene) -> None:
    """Have the coordinator not hear, or not answer, END_TXN, perhaps until it is given up."""
    dice = Dice(scene.world.seed, "lost ends")
    assert scene.broker is not None
    if dice.happens(0.4):
        lost = (pb.CommandEndTxn, pb.CommandEndTxnResponse)[dice.below(2)]
        scene.broker.faults.on(lost, nth=1 + dice.below(2), times=(1, COMMIT_TRIES + 1)[dice.below(2)]).drop()


def calm_down(scene: Scene) -> None:
    """Let nothing go wrong any more but that."""
    scene.calm()
    lose_ends(scene)


def batches(scene: Scene) -> None:
    """Play a query, and see what is visible in the end."""
    world = scene.world
    lose_ends(scene)
    with clock_of(world, [control_topic]):
        query = Query(scene)
        if query.topic != TOPIC:
            scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, PARTITIONS))
        calm = Troubles(scene, sets_clocks=False).until + 5.0
        caller = world.spawn(query.run, "query")
        world.after(calm, lambda: calm_down(scene))
        world.run(until=lambda: caller.ended, limit=calm + PATIENCE + 10 * TIMEOUT.total_seconds())
        caller.result()
        scene.sleep(2 * TIMEOUT.total_seconds())  # what was left behind hides what is behind it
        found = visible(scene, query.topic)
    parts = [(batch, part) for batch in range(query.batches) for part in range(query.parts)]
    expected = {text for batch, part in parts for text in query.texts(batch, part)}
    twice = [text for text, count in Counter(found).items() if count > 1]
    lost, never_sent = sorted(expected - {*found}), sorted({*found} - expected)
    assert (lost, twice, never_sent) == ([], [], []), "lost, twice, never sent"
    scene.end()


def visible(scene: Scene, topic: str) -> list[str]:
    """Read what is committed."""
    texts: list[str] = []
    with scene.client() as client:
        reader = client.create_reader(topic, MessageId.earliest)
        while reader.has_message_available():
            texts.append(reader.read_next(int(PATIENCE * 1000)).data().decode())
    return texts


def test_each_row_is_visible_once_in_the_end() -> None:
    play(40, batches, deduplication=True)
