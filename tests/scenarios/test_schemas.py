"""Each message decodes to the value that was sent, by the version of its writer, whatever goes wrong.

Writers have the schemas of one topic in several versions, or no schema, or take that of the topic. Readers have one of
these, or none, or take that of each message; they meet versions that they have never seen while nobody answers what
these are.
"""

from typing import Any, NamedTuple

from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import CompressionType
from pulsar_actors.client.message import Message
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.exceptions import IncompatibleSchema, PulsarException, Timeout
from pulsar_actors.schema import AutoConsumeSchema, AutoPublishSchema, GenericRecord, SchemaType
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.topic_name import TopicName
from tests.scenarios.keys import Keys
from tests.scenarios.programs import in_troubles, subscribe_options
from tests.scenarios.scene import PARTS, PATIENCE, TOPIC, Scene, play
from tests.scenarios.schemas import FAMILIES, NOT_NOW, Family, trouble_lookups

CHUNK = 7
NUMBER = "number"


class Written(NamedTuple):
    """A value, the version of its encoding, and whether the message says which that is."""

    value: Any
    version: int
    has_schema: bool


class Story:
    """What the topic is like, and what has been written to it."""

    def __init__(self, scene: Scene) -> None:
        dice = Dice(scene.world.seed, "schemas")
        self.scene = scene
        self.family: Family = FAMILIES[dice.below(len(FAMILIES))]
        self.schemas = [self.family.schema(version) for version in range(self.family.versions)]
        self.topic = str(PARTS) if dice.happens(0.3) else TOPIC
        self.encryption = {"crypto_key_reader": Keys()} if dice.happens(0.1) else {}
        self.written: dict[int, Written] = {}
        self.writers: list[Caller] = []
        self.others = scene.dice.below(4)
        """How many writers there are besides the first; half as many takers besides the first."""
        self.opened = 0
        """How many of them all have a producer or a consumer."""

    def definitions(self) -> dict[bytes, bytes]:
        """Return the definition of each version, as the broker has them."""
        assert self.scene.broker is not None
        found = self.scene.broker.cluster.schemas_of(TopicName.parse(self.topic)).versions()
        return {stored.version_bytes: stored.schema.data for stored in found}

    def definition(self, version: int) -> bytes:
        return self.schemas[version].schema_info().data()


class Writer:
    """Writes values of one version, or bytes; or of the topic's version, once nobody else will change that."""

    def __init__(self, story: Story, client: Client, number: int) -> None:
        self._story = story
        self._client = client
        self._number = number
        self._dice = Dice(story.scene.world.seed, f"writer {number}")
        self._kind = "auto" if number == 0 and self._dice.happens(0.4) else "own"
        if number == 1 and self._dice.happens(0.3):
            self._kind = "bytes"
        self._version = self._dice.below(story.family.versions)
        story.writers.append(story.scene.world.spawn(self._write, f"writer {number}"))

    def _write(self) -> None:
        story, dice, world = self._story, self._dice, self._story.scene.world
        if self._kind == "auto":
            world.block(lambda: story.opened == story.others + 1 + story.others // 2)
        elif dice.happens(0.5):
            story.scene.sleep(10.0 ** (dice.chance() * 3 - 2))
        producer = self._producer()
        story.opened += 1
        self._has_schema = self._kind == "own"
        if self._kind == "auto" and story.definitions():
            self._has_schema = True
            latest = list(story.definitions().values())[-1]
            self._version = next(each for each in range(story.family.versions) if story.definition(each) == latest)
        futures = []
        for _ in range(1 + dice.below(12)):
            futures.append(self._send(producer))
            if dice.happens(0.3):
                story.scene.sleep(10.0 ** (dice.chance() * 3 - 3))
        for future in futures:
            world.block(future)
        assert all(future.exception() is None for future in futures)
        try:
            producer.close()
        except PulsarException as error:
            world.note(f"the close of writer {self._number}: {error!r}")

    def _producer(self) -> Any:
        dice, story = self._dice, self._story
        schemas = {"auto": AutoPublishSchema(), "bytes": BYTES, "own": story.family.schema(self._version)}
        batching = dice.happens(0.5)
        chunking = {"chunking_enabled": True, "chunk_max_message_size": CHUNK} if dice.happens(0.3) else {}
        encryption = {**story.encryption, "encryption_key": "key"} if story.encryption else {}
        options = {**({} if batching else chunking), **encryption}
        compression = (CompressionType.NONE, CompressionType.LZ4)[dice.below(2)]
        return story.scene.insist(
            lambda: self._client.create_producer(
                story.topic,
                schema=schemas[self._kind],
                send_timeout_millis=0,
                max_pending_messages=0,
                batching_enabled=batching,
                batching_max_messages=1 + dice.below(5),
                compression_type=compression,
                **options,
            )
        )

    def _send(self, producer: Any) -> Any:
        family, number = self._story.family, len(self._story.written)
        value = family.value(self._version, number)
        self._story.written[number] = Written(value, self._version, self._has_schema)
        properties = {NUMBER: str(number)}
        if self._kind == "own":
            return producer.send_async(value, properties=properties)
        payload, key = encoded(self._story.schemas[self._version], value)
        return producer.send_async(payload, properties=properties, partition_key=key)


def encoded(schema: Schema, value: Any) -> tuple[bytes | None, str | None]:
    """Return the payload of a value, and its key if that is apart."""
    if value is None:
        return None, None
    payload = schema.encode_message(value)
    return (payload, None) if isinstance(payload, bytes) else (payload.payload, value[0])


class Taker:
    """Receives all values, by a schema of its own, or by that of each message."""

    def __init__(self, story: Story, client: Client, number: int) -> None:
        self._story = story
        self._dice = Dice(story.scene.world.seed, f"taker {number}")
        self._client = client
        self._name = f"taker {number}"
        self._version = self._dice.below(story.family.versions)
        self._own = story.family.schema(self._version)
        self._schema: Schema = (self._own, self._own, AutoConsumeSchema(), BYTES)[self._dice.below(4)]
        self.seen: set[int] = set()
        self.caller = story.scene.world.spawn(self._take, self._name)

    def _take(self) -> None:
        story, dice, is_listening = self._story, self._dice, self._dice.happens(0.2)
        story.scene.sleep(10.0 ** (dice.chance() * 3 - 2) * dice.below(2))
        options = subscribe_options(receiver_queue_size=(1, 5, 1000)[dice.below(3)])
        if is_listening:
            options["message_listener"] = lambda _, message: self._check(message)
        consumer = self._subscribe(options)
        story.opened += 1
        while not self._has_all():
            if is_listening:
                story.scene.sleep(0.2)
                continue
            try:
                messages = consumer.receive_many(1 + dice.below(3), 300)
            except Timeout:
                continue
            checks = [story.scene.world.spawn(lambda message=message: self._check(message)) for message in messages]  # type: ignore[misc]
            story.scene.world.block(lambda checks=checks: all(check.ended for check in checks))
            for check in checks:
                check.result()
            consumer.acknowledge(messages)
        consumer.close()

    def _subscribe(self, options: dict[str, Any]) -> Any:
        """Subscribe; without a schema, if there are bytes already, and nobody has said what they are."""
        story = self._story
        had_schema = bool(story.definitions())
        try:
            return story.scene.insist(
                lambda: self._client.subscribe(
                    story.topic, self._name, schema=self._schema, **options, **story.encryption
                )
            )
        except IncompatibleSchema:
            assert not had_schema
            self._schema = AutoConsumeSchema()
            return self._subscribe(options)

    def _has_all(self) -> bool:
        story = self._story
        return all(each.ended for each in story.writers) and self.seen == story.written.keys()

    def _check(self, message: Message) -> None:
        number, story = int(message.properties()[NUMBER]), self._story
        written = story.written[number]
        self._check_version(message, written)
        if not written.has_schema and self._schema is self._own and self._version != written.version:
            self.seen.add(number)  # only its own version can be read without the writer's
            return
        if not story.scene.is_calm and self._dice.happens(0.3):
            story.scene.perhaps_cut_soon()
        value, expected = self._value_of(message), self._expected(written)
        assert value == expected, f"{self._name} got {value!r} of number {number}, which is {expected!r}"
        self.seen.add(number)

    def _check_version(self, message: Message, written: Written) -> None:
        version = message.schema_version().encode("latin-1")
        if written.has_schema:
            assert self._story.definitions()[version] == self._story.definition(written.version)
        else:
            assert not version

    def _value_of(self, message: Message) -> Any:
        while True:
            try:
                value = message.value()
            except NOT_NOW as error:
                self._story.scene.world.note(f"no value: {error!r}")
                self._story.scene.sleep(0.1)
            else:
                return value

    def _expected(self, written: Written) -> Any:
        """Return what the value of a message is for this schema."""
        family, value = self._story.family, written.value
        payload, _ = encoded(self._story.schemas[written.version], value)
        if self._schema is BYTES:
            return payload or b""
        if not isinstance(self._schema, AutoConsumeSchema):
            return family.seen(value, self._version)
        if payload is None and (value is None or not written.has_schema):
            return None
        if not written.has_schema:
            return GenericRecord(SchemaType.BYTES, None, payload)
        return GenericRecord(self._own.schema_info().schema_type(), None, family.generic(value))


def knowing(scene: Scene) -> None:
    story = Story(scene)
    if story.topic != TOPIC:
        scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 2))
    clients = [scene.client() for _ in range(1 + scene.dice.below(3))]
    trouble_lookups(scene)

    def program() -> None:
        for number in range(1 + story.others):
            Writer(story, clients[number % len(clients)], number)
        takers = [Taker(story, clients[-1 - number % len(clients)], number) for number in range(1 + story.others // 2)]
        scene.world.block(lambda: all(each.ended for each in [*story.writers, *(taker.caller for taker in takers)]))
        for caller in [*story.writers, *(taker.caller for taker in takers)]:
            caller.result()

    in_troubles(scene, program, patience=2 * PATIENCE)


def test_each_message_decodes_to_what_was_sent_by_the_version_of_its_writer() -> None:
    play(30, knowing, deduplication=True)
