"""A table view has the last value of each key, whatever goes wrong, and its listeners hear of each update once.

Each partition has a writer of its own, with keys of its own, some of which it deletes. Partitions come later, and what
is stored is compacted. At any time a view has the values of one moment, which never goes back. A deletion that was
compacted away does not reach a view that had the value, and was not connected meanwhile.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pulsar_actors.broker.broker import Broker
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import CompressionType
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.schema import StringSchema
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.tableview import TableView
from tests.scenarios.compaction import NUMBER, Compaction, compaction
from tests.scenarios.keys import Keys
from tests.scenarios.programs import in_troubles
from tests.scenarios.scene import NAMESPACE, OPERATION_TIMEOUT, PARTS, PATIENCE, TOPIC, Scene, play
from tests.scenarios.schemas import NOT_NOW

KEYS = 4
CHUNK = 3


class Log:
    """What was sent to one topic or partition, in its order: each a key and a value, or None for a deletion."""

    def __init__(self, topic: str, prefix: str) -> None:
        self.topic = topic
        self.keys = [f"{prefix}{number}" for number in range(KEYS)]
        self.updates: list[tuple[str, str | None]] = []
        self.futures: list[Any] = []

    @property
    def stored(self) -> int:
        """How many of them are stored for certain."""
        return next((at for at, future in enumerate(self.futures) if not future.done()), len(self.futures))

    def state(self, count: int) -> dict[str, str]:
        """Return the last value of each key, after so many updates."""
        latest = dict(self.updates[:count])
        return {key: value for key, value in latest.items() if value is not None}


class Story:
    """The topic, its logs, and what compaction has left of them."""

    def __init__(self, scene: Scene, compacted: Compaction) -> None:
        dice = Dice(scene.world.seed, "table views")
        self.scene = scene
        self.compacted = compacted
        self.is_partitioned = dice.happens(0.5)
        self.topic = str(PARTS) if self.is_partitioned else TOPIC
        self.first = 1 + dice.below(2)
        self.count = self.first + dice.below(3) if self.is_partitioned else 1
        names = [str(PARTS.partition(number)) for number in range(self.count)] if self.is_partitioned else [TOPIC]
        self.logs = [Log(name, "abcd"[number]) for number, name in enumerate(names)]
        self.compacts = dice.happens(0.5)
        self.encryption = {"crypto_key_reader": Keys()} if not self.compacts and dice.happens(0.1) else {}
        self.chunks = not self.compacts and dice.happens(0.2)
        self.writers: list[Caller] = []

    def prepare(self) -> None:
        scene, dice = self.scene, Dice(self.scene.world.seed, "moments")
        if self.is_partitioned:
            scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, self.first))
            for count in range(self.first + 1, self.count + 1):
                at = 10.0 ** (dice.chance() * 3 - 2)
                scene.world.after(at, lambda count=count: scene.on_broker(lambda broker: self._grow(broker, count)))
        for _ in range(dice.below(4) if self.compacts else 0):
            scene.world.after(10.0 ** (dice.chance() * 3 - 2), lambda: scene.on_broker(self.compacted.compact_all))

    def partitions(self) -> int:
        """Return how many partitions there are; 1 of a topic that has none."""
        assert self.scene.broker is not None
        return self.scene.broker.cluster.namespace(NAMESPACE).partitioned.get(str(PARTS), 1)

    def _grow(self, broker: Broker, count: int) -> None:
        if self.partitions() < count:
            broker.cluster.grow(PARTS, count)

    @property
    def is_written(self) -> bool:
        return all(writer.ended for writer in self.writers)

    def is_gone(self, log: Log, number: int) -> bool:
        """Return whether an update was compacted away."""
        return self.compacts and number in self.compacted.gone(log.topic)


def write(story: Story, client: Client, log: Log) -> None:
    """Write to one partition, as soon as it is there."""
    scene, dice = story.scene, Dice(story.scene.world.seed, f"writer of {log.topic}")
    scene.world.block(lambda: story.logs.index(log) < story.partitions())
    batching = dice.happens(0.5) and not story.chunks
    options: dict[str, Any] = {"chunking_enabled": True, "chunk_max_message_size": CHUNK} if story.chunks else {}
    if story.encryption:
        options |= {**story.encryption, "encryption_key": "key"}
    producer = scene.insist(
        lambda: client.create_producer(
            log.topic,
            schema=StringSchema(),
            send_timeout_millis=0,
            max_pending_messages=0,
            batching_enabled=batching,
            batching_max_messages=1 + dice.below(6),
            compression_type=(CompressionType.NONE, CompressionType.LZ4)[dice.below(2)],
            **options,
        )
    )
    for number in range(dice.below(30)):
        key, nothing = log.keys[dice.below(KEYS)], (None, "")[dice.below(2)]
        value = None if dice.happens(0.25) else f"{key}={number}"
        log.updates.append((key, value))
        content, properties = nothing if value is None else value, {NUMBER: str(number)}
        sent = producer.send_async(content, partition_key=key, properties=properties)
        log.futures.append(sent)
        if dice.happens(0.3):
            scene.sleep(10.0 ** (dice.chance() * 3 - 2.5))
    for future in log.futures:
        scene.world.block(future)
        assert future.exception() is None
    try:
        producer.close()
    except PulsarException as error:
        scene.world.note(f"the close of a writer: {error!r}")


class Heard:
    """What a listener was called with: first the values of one moment, or none, and then updates."""

    def __init__(self, story: Story, view: TableView, dice: Dice, *, with_values: bool) -> None:
        self._story = story
        self._view = view
        self._dice = dice
        self._thread = threading.get_ident()
        self.initial: dict[str, str] | None = {} if with_values else None
        self.updates: list[tuple[str, str | None]] = []
        self.most: int | None = None
        """How many there may be, once the view is closed."""

    def __call__(self, key: str, value: str | None) -> None:
        if self.initial is not None and threading.get_ident() == self._thread:
            assert key not in self.initial
            assert value is not None
            self.initial[key] = value
            return
        self.updates.append((key, value))
        assert self.most is None or len(self.updates) <= self.most, "a listener is called after the close"
        if self._dice.happens(0.1):
            self._story.scene.sleep(self._dice.chance())
        elif self._dice.happens(0.1):
            with suppress(PulsarException):
                self._view.refresh(3.0)

    def is_complete(self) -> bool:
        return all(len(log.updates) in self._reached(log) for log in self._story.logs)

    def check(self) -> None:
        """See that these were the values of a moment, and all updates from then on, each once and in order."""
        for log in self._story.logs:
            assert self._reached(log), f"a listener had {self.initial}, and heard {self.updates} of {log.updates}"

    def _reached(self, log: Log) -> set[int]:
        """Return how many updates of a topic there may have been when the listener was last called."""
        story, count = self._story, len(log.updates)
        reached = set(range(count + 1))
        if self.initial is not None and not story.compacts:
            initial = {key: value for key, value in self.initial.items() if key in log.keys}
            reached = {number for number in reached if log.state(number) == initial}
        for update in [each for each in self.updates if each[0] in log.keys]:
            reached = {
                number + 1
                for number in range(count)
                if log.updates[number] == update and self._may_follow(log, number, reached)
            }
        return reached | {number for number in range(count + 1) if self._may_follow(log, number, reached)}

    def _may_follow(self, log: Log, number: int, reached: set[int]) -> bool:
        """Return whether an update may be the next to come, because all between were compacted away."""
        first = number
        while first not in reached and first > 0 and self._story.is_gone(log, first - 1):
            first -= 1
        return first in reached


class Viewer:
    """Has one view after the other, and looks at it in all ways there are."""

    def __init__(self, story: Story, client: Client, number: int) -> None:
        self._story = story
        self._client = client
        self._name = f"viewer {number}"
        self._dice = Dice(story.scene.world.seed, self._name)
        self._read: dict[str, int] = {}
        self._at: dict[str, int] = {}
        self._known = 0
        """How many partitions there were when the view was made."""
        self._heard: list[Heard] = []
        self.caller = story.scene.world.spawn(self._run, self._name)

    def _run(self) -> None:
        story, dice = self._story, self._dice
        story.scene.sleep(10.0 ** (dice.chance() * 3 - 2) * dice.below(2))
        view = self._open()
        while not (story.is_written and story.scene.is_calm):
            way = dice.below(12)
            if way == 0:
                self._close(view)
                view = self._open()
            elif way <= len(self._ways):
                self._ways[way - 1](self, view)
            else:
                story.scene.sleep(10.0 ** (dice.chance() * 3 - 2))
        self._see_the_end(view)
        self._close(view)

    def _open(self) -> TableView:
        story, name = self._story, f"view of {self._name}" if self._dice.happens(0.3) else None
        before, known = {log.topic: log.stored for log in story.logs}, story.partitions()
        view: TableView = story.scene.insist(
            lambda: self._client.create_table_view(story.topic, name, StringSchema(), **story.encryption)
        )
        self._read, self._at, self._known = before, {}, known
        self._check(dict(view))
        return view

    def _close(self, view: TableView) -> None:
        try:
            view.close()
        except PulsarException as error:
            self._story.scene.world.note(f"the close of a view: {error!r}")
        values = dict(view)
        self._check(values)
        for heard in self._heard:
            heard.most = len(heard.updates)
            heard.check()
        self._heard = []
        self._story.scene.sleep(0.1)
        assert dict(view) == values, "a view changes after its close"

    def _look(self, view: TableView) -> None:
        self._check(dict(view))

    def _look_at_items(self, view: TableView) -> None:
        self._check(dict(view.items()))

    def _walk(self, view: TableView) -> None:
        values: dict[str, str] = {}
        view.for_each(values.__setitem__)
        self._check(values)

    def _refresh(self, view: TableView) -> None:
        """Refresh, after which everything is there that was stored before; of partitions that the view knows."""
        before = {log.topic: log.stored for log in self._story.logs}
        world, most = self._story.scene.world, (0.0, 0.1, 5.0, None)[self._dice.below(4)]
        began = world.now
        try:
            view.refresh(most)
        except NOT_NOW as error:
            world.note(f"not refreshed: {error!r}")
            assert world.now - began <= (OPERATION_TIMEOUT if most is None else most) + 0.1, (
                f"it took {world.now - began} s, not {most}"
            )
            return
        logs = self._story.logs
        known = [log.topic for number, log in enumerate(logs) if number < self._known or self._read[log.topic]]
        self._read |= {topic: max(before[topic], self._read[topic]) for topic in known}
        self._check(dict(view))

    def _listen(self, view: TableView) -> None:
        self._hear(view, with_values=False)

    def _walk_and_listen(self, view: TableView) -> None:
        self._hear(view, with_values=True)

    def _hear(self, view: TableView, *, with_values: bool) -> None:
        if len(self._heard) < 3:
            heard = Heard(self._story, view, self._dice, with_values=with_values)
            (view.for_each_and_listen if with_values else view.listen)(heard)
            self._heard.append(heard)

    _ways = (_look, _look_at_items, _walk, _refresh, _listen, _walk_and_listen)

    def _see_the_end(self, view: TableView) -> None:
        """See that the view has everything in the end, and has told it."""
        story, deadline = self._story, self._story.scene.world.now + PATIENCE
        while True:
            with suppress(Timeout):  # of a broker that does not know yet that a connection is lost
                view.refresh(PATIENCE)
            if all(each.is_complete() for each in self._heard) and self._has_all(dict(view)):
                break
            assert story.scene.world.now < deadline, f"{view} has {dict(view)} in the end"
            story.scene.sleep(0.3)
        self._read = {log.topic: len(log.updates) for log in story.logs}
        self._check(dict(view))

    def _has_all(self, values: Mapping[str, str]) -> bool:
        return all(
            self._place(log, key, values.get(key), len(log.updates)) is not None
            for log in self._story.logs
            for key in log.keys
        )

    def _check(self, values: Mapping[str, str]) -> None:
        """See that these are the values of one moment, which is no earlier than the last."""
        assert not values.keys() - {key for log in self._story.logs for key in log.keys}
        for log in self._story.logs:
            some = {key: value for key, value in values.items() if key in log.keys}
            if self._story.compacts:
                self._check_each(log, some)
                continue
            read = self._read[log.topic]
            possible = [number for number in range(read, len(log.updates) + 1) if log.state(number) == some]
            assert possible, f"{some}, after {read} of {log.updates}"
            self._read[log.topic] = possible[0]

    def _check_each(self, log: Log, values: Mapping[str, str]) -> None:
        """See that each value is no older than what has been read, but for what was compacted away."""
        for key in log.keys:
            place = self._place(log, key, values.get(key), self._read[log.topic])
            assert place is not None, f"{key} is {values.get(key)}, after {self._read[log.topic]} of {log.updates}"
            self._at[key] = place

    def _place(self, log: Log, key: str, value: str | None, read: int) -> int | None:
        """Return after how many updates a key has a value, if so many have been read."""
        places = [number + 1 for number, update in enumerate(log.updates) if update == (key, value)]
        for place in [*([0] if value is None else []), *places]:
            later = [number for number in range(place, read) if log.updates[number][0] == key]
            if place >= self._at.get(key, 0) and all(self._story.is_gone(log, number) for number in later):
                return place
        return None


def leave_early(story: Story, client: Client) -> None:
    """Close a client while it makes a view, or a moment later: that call ends with it."""
    scene, dice = story.scene, Dice(story.scene.world.seed, "early")
    scene.sleep(10.0 ** (dice.chance() * 3 - 2))

    def make() -> None:
        with suppress(PulsarException):
            client.create_table_view(story.topic, schema=StringSchema(), **story.encryption)

    making = scene.world.spawn(make, "early view")
    scene.sleep(10.0 ** (dice.chance() * 3 - 3))
    scene.close(client)
    assert scene.world.block(lambda: making.ended, 1.0), "create_table_view() outlives its client"
    making.result()


def viewing(scene: Scene) -> None:
    with compaction(scene) as compacted:
        story = Story(scene, compacted)
        story.prepare()
        writer, clients = scene.client(), [scene.client(partitions_update_interval=1.0) for _ in range(2)]

        def program() -> None:
            story.writers += [scene.world.spawn(lambda log=log: write(story, writer, log)) for log in story.logs]  # type: ignore[misc]
            viewers = [Viewer(story, clients[number % 2], number) for number in range(1 + scene.dice.below(3))]
            callers = [*story.writers, *(viewer.caller for viewer in viewers)]
            if scene.dice.happens(0.3):
                client = scene.client()
                callers.append(scene.world.spawn(lambda: leave_early(story, client)))
            scene.world.block(lambda: all(caller.ended for caller in callers))
            for caller in callers:
                caller.result()

        in_troubles(scene, program, patience=3 * PATIENCE)


def test_a_view_has_the_last_value_of_each_key_and_its_listeners_hear_of_each_update_once() -> None:
    play(60, viewing, once_failed=(93, 101_274), deduplication=True)
