"""A topic whose schema is replaced, by one that fits or by another: who does not fit is refused, and comes back.

An administrator deletes the schemas of a topic, and adds one, all in one moment. Brokers compare a schema when somebody
connects: so who is refused in the meantime tries again, and goes on when the schema fits again. Nothing is lost. The
versions that were deleted cannot be looked up any longer; their messages are still there.
"""

from typing import Any

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.model.schemas import SchemaData
from pulsar_actors.client.client import Client
from pulsar_actors.client.message import Message
from pulsar_actors.client.schema import Schema, StringSchema
from pulsar_actors.exceptions import IncompatibleSchema, PulsarException, Timeout, TopicNotFound
from pulsar_actors.schema import AutoConsumeSchema, AvroSchema, Int64Schema, JsonSchema
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import Schema as WireSchema
from pulsar_actors.wire.topic_name import TopicName
from tests.scenarios.programs import in_troubles, subscribe_options
from tests.scenarios.scene import PATIENCE, TOPIC, Scene, play
from tests.scenarios.schemas import NOT_NOW, VERSIONS, Records, trouble_lookups

NAME = TopicName.parse(TOPIC)
RECORDS = Records(AvroSchema)
OTHER_RECORD = {"type": "record", "name": "Value", "fields": [{"name": "text", "type": "int"}]}
OTHERS: tuple[tuple[Schema, Any], ...] = (
    (AvroSchema(None, OTHER_RECORD), {"text": 5}),
    (JsonSchema(VERSIONS[0]), VERSIONS[0]("json")),
    (StringSchema(), "text"),
    (Int64Schema(), 5),
)
"""Schemas that fit neither the records nor each other, each with a value."""


def on_broker(schema: Schema) -> SchemaData:
    """Return a schema as an administrator adds it."""
    announced = schema.announced()
    assert isinstance(announced, WireSchema)
    return SchemaData(announced.name, announced.type, announced.schema_data)


class Registry:
    """The schemas of the topic, and all of them since the beginning."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._dice = Dice(scene.world.seed, "registry")
        self.now = -1
        """Which of the others the topic has; -1 for records."""
        self.past: list[int] = []
        """Those before it, in their order."""
        self.is_settled = False
        scene.have_broker(self._begin)

    def _begin(self, broker: Broker) -> None:
        broker.cluster.create_topic(NAME)
        self._put(broker)

    def _put(self, broker: Broker) -> None:
        schema = OTHERS[self.now][0] if self.now >= 0 else RECORDS.schema(self._dice.below(len(VERSIONS)))
        schemas = broker.cluster.schemas_of(NAME)
        schemas.delete()
        schemas.get_or_create(on_broker(schema), self._scene.loop.wall_clock_ms())
        self._scene.world.note(f"the topic now has {schema!r}")

    def change(self, to: int) -> None:
        """Replace all schemas."""
        self.past.append(self.now)
        self.now = to
        self._scene.have_broker(self._put)

    def run(self) -> None:
        """Replace them a few times, and then by records."""
        for _ in range(self._dice.below(5)):
            self._scene.sleep(10.0 ** (self._dice.chance() * 3 - 2))
            self.change(self._dice.below(len(OTHERS) + 1) - 1)
            if self._dice.happens(0.5):
                self._scene.world.faults.cut()
        self._scene.world.block(lambda: self._scene.is_calm)
        self.change(-1)
        self.is_settled = True

    def has(self, version: bytes) -> bool:
        """Return whether a version can be looked up."""
        assert self._scene.broker is not None
        return any(each.version_bytes == version for each in self._scene.broker.cluster.schemas_of(NAME).versions())


class Stranger:
    """Comes with one of the other schemas, or none of them, again and again: let in if it fits, and only then."""

    def __init__(self, scene: Scene, client: Client, registry: Registry, number: int) -> None:
        self._scene = scene
        self._client = client
        self._registry = registry
        self._dice = Dice(scene.world.seed, f"stranger {number}")
        self.refused = 0
        self.caller = scene.world.spawn(self._run, f"stranger {number}")

    def _run(self) -> None:
        while not self._registry.is_settled:
            self._come()
            self._scene.sleep(10.0 ** (self._dice.chance() * 2 - 1.5))
        for _ in range(2):
            self._come()

    def _come(self) -> None:
        which = self._dice.below(len(OTHERS) + 1) - 1
        schema = OTHERS[which][0] if which >= 0 else RECORDS.schema(self._dice.below(len(VERSIONS)))
        is_producer, before = self._dice.happens(0.5), len(self._registry.past)
        try:
            if is_producer:
                made: Any = self._client.create_producer(TOPIC, schema=schema)
            else:
                made = self._client.subscribe(TOPIC, f"stranger {before}", schema=schema)
        except IncompatibleSchema as error:
            is_right, what = any(each != which for each in self._since(before)), f"refused: {error}"
            self.refused += 1
        except NOT_NOW as error:
            self._scene.world.note(f"the stranger: {error!r}")
            return
        else:
            is_right, what = which in self._since(before), "let in"
            self._leave(made)
        assert is_right, f"{schema!r} was {what}, while the topic had {self._since(before)}"

    def _since(self, before: int) -> list[int]:
        return [*self._registry.past[before:], self._registry.now]

    def _leave(self, made: Any) -> None:
        try:
            made.close()
        except PulsarException as error:
            self._scene.world.note(f"the stranger's close: {error!r}")


class Regular:
    """Sends and receives records all the time, by whatever schema they are sent and received."""

    def __init__(self, scene: Scene, client: Client, registry: Registry) -> None:
        self._scene = scene
        self._client = client
        self._registry = registry
        self._dice = Dice(scene.world.seed, "regular")
        self._values: list[Any] = []
        self._settled_from: int | None = None
        """The first value that was sent by a producer that has connected since the last change."""
        self._is_done = False

    def start(self) -> list[Caller]:
        return [self._scene.world.spawn(each, each.__name__) for each in (self._send, self._take)]

    def _insist(self, make: Any) -> Any:
        """Create something, as soon as the topic has records."""
        while True:
            try:
                return self._scene.insist(make)
            except IncompatibleSchema:
                self._scene.sleep(0.3)

    def _send(self) -> None:
        dice, scene = self._dice, self._scene
        version, batching = dice.below(len(VERSIONS)), dice.happens(0.5)
        producer = self._insist(
            lambda: self._client.create_producer(
                TOPIC,
                schema=RECORDS.schema(version),
                send_timeout_millis=0,
                batching_enabled=batching,
                batching_max_messages=1 + dice.below(4),
            )
        )
        futures = []

        def send() -> None:
            number = len(self._values)
            self._values.append(RECORDS.value(version, number))
            futures.append(producer.send_async(self._values[number], properties={"number": str(number)}))

        while not self._registry.is_settled:
            send()
            scene.sleep(10.0 ** (dice.chance() * 2 - 1))
        reconnects = producer.stats().reconnects
        scene.world.faults.cut()
        scene.world.block(lambda: producer.stats().reconnects > reconnects and producer.is_connected())
        self._settled_from = len(self._values)
        for _ in range(3):
            send()
        for future in futures:
            scene.world.block(future)
        assert all(future.exception() is None for future in futures)
        producer.close()
        self._is_done = True

    def _take(self) -> None:
        dice = Dice(self._scene.world.seed, "regular taker")
        version = dice.below(len(VERSIONS)) if dice.happens(0.6) else None
        schema = AutoConsumeSchema() if version is None else RECORDS.schema(version)
        consumer = self._insist(lambda: self._client.subscribe(TOPIC, "s", schema=schema, **subscribe_options()))
        seen: set[int] = set()
        while not self._is_done or len(seen) < len(self._values):
            try:
                message = consumer.receive(500)
            except Timeout:
                continue
            if "number" in message.properties():
                number = int(message.properties()["number"])
                self._check(message, self._values[number], version)
                if self._settled_from is not None and number >= self._settled_from:
                    assert self._registry.has(message.schema_version().encode("latin-1")), "it has an old version"
                seen.add(number)
            consumer.acknowledge(message)
        consumer.close()

    def _check(self, message: Message, sent: Any, version: int | None) -> None:
        written = message.schema_version().encode("latin-1")
        while True:
            had = self._registry.has(written)
            try:
                value: Any = message.value()
            except TopicNotFound:
                assert not self._registry.has(written)
                return
            except NOT_NOW as error:
                self._scene.world.note(f"no value: {error!r}")
                self._scene.sleep(0.1)
                assert had or not self._registry.is_settled or not self._registry.has(written)
            else:
                break
        if version is None:
            assert (None if value is None else value.native_object()) == RECORDS.generic(sent)
        else:
            assert value == RECORDS.seen(sent, version)


def changing(scene: Scene) -> None:
    client, other = scene.client(), scene.client()
    trouble_lookups(scene)
    registry = Registry(scene)

    def program() -> None:
        strangers = [Stranger(scene, other, registry, number) for number in range(1 + scene.dice.below(2))]
        callers = [*Regular(scene, client, registry).start(), *(each.caller for each in strangers)]
        callers.append(scene.world.spawn(registry.run, "registry"))
        scene.world.block(lambda: all(each.ended for each in callers))
        for caller in callers:
            caller.result()

    in_troubles(scene, program, patience=2 * PATIENCE)


def test_who_does_not_fit_the_schema_of_a_topic_is_refused_and_goes_on_when_it_fits() -> None:
    play(60, changing, deduplication=True)
