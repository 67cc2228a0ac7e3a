"""Schemas between our client, the official Python client and the Java client, and in the registry that they share."""

import enum
import json
import subprocess
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import pulsar.schema
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

import pulsar_actors
from pulsar_actors import schema as ours
from tests.real_broker.exchange import SOON
from tests.support.admin import Admin
from tests.support.jars import jars, tool
from tests.support.life import until
from tests.support.protobuf import FOLDER, compiled, protoc
from tests.support.subjects import Broker

JAVA_SECONDS = 120.0
EARLIEST = {"official": pulsar.InitialPosition.Earliest, "ours": pulsar_actors.InitialPosition.Earliest}
MODULES: dict[str, Any] = {"official": pulsar, "ours": pulsar_actors}


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def versions(admin: Admin, topic: str) -> int:
    path = topic.removeprefix("persistent://")
    return len(admin.json("GET", f"schemas/{path}/schemas")["getSchemaResponses"])


def records(module: Any) -> tuple[Any, Any]:
    """The same record in each client's words, and a value of it."""
    schema = module.schema

    class Inner(schema.Record):  # type: ignore[name-defined, misc]
        size = schema.Integer(required=True)

    class Item(schema.Record):  # type: ignore[name-defined, misc]
        _avro_namespace = "shop.things"
        name = schema.String()
        count = schema.Integer(default=5, required_default=True)
        color = schema.CustomEnum(Color, required=True, default=Color.RED)
        inner = Inner
        tags = schema.Array(schema.String())
        parts = schema.Map(Inner())
        data = schema.Bytes()
        ratio = schema.Double()
        yes = schema.Boolean()
        large = schema.Long()

    return Item, Item(
        name="grün", color=Color.BLUE, inner=Inner(size=7), tags=["a", "b"], parts={"x": Inner(size=1)}, data=b"abc",
        ratio=0.5, yes=True, large=2**40,
    )  # fmt: skip


def plain(value: Any) -> Any:
    """A record of either client as dicts."""
    if hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


@pytest.mark.parametrize("kind", ["JsonSchema", "AvroSchema"])
def test_records_of_both_python_clients_are_one_schema_and_read_by_both(
    kind: str, connect: Any, topic: str, admin: Admin
) -> None:
    values = {}
    for name in ("ours", "official"):
        record, value = records(MODULES[name])
        values[name] = plain(value)
        connect(MODULES[name]).create_producer(topic, schema=getattr(MODULES[name].schema, kind)(record)).send(value)
    assert values["ours"] == values["official"]
    for name in ("ours", "official"):
        schema = getattr(MODULES[name].schema, kind)(records(MODULES[name])[0])
        consumer = connect(MODULES[name]).subscribe(topic, name, schema=schema, initial_position=EARLIEST[name])
        assert [plain(consumer.receive(SOON).value()) for _ in range(2)] == [values["ours"]] * 2
    assert versions(admin, topic) == 1


def test_protobuf_of_both_python_clients_is_one_schema_and_read_by_both(connect: Any, topic: str, admin: Admin) -> None:
    for module in (pulsar_actors, pulsar):
        schema = module.schema.ProtobufNativeSchema(Timestamp)
        connect(module).create_producer(topic, schema=schema).send(Timestamp(seconds=5))
    for name, module in MODULES.items():
        schema = module.schema.ProtobufNativeSchema(Timestamp)
        consumer = connect(module).subscribe(topic, name, schema=schema, initial_position=EARLIEST[name])
        assert [consumer.receive(SOON).value() for _ in range(2)] == [Timestamp(seconds=5)] * 2
    assert versions(admin, topic) == 1


def test_text_of_both_python_clients_is_read_by_both_and_one_schema(connect: Any, topic: str, admin: Admin) -> None:
    for module in (pulsar, pulsar_actors):
        connect(module).create_producer(topic, schema=module.schema.StringSchema()).send("grün")
    for name, module in MODULES.items():
        schema = module.schema.StringSchema()
        consumer = connect(module).subscribe(topic, name, schema=schema, initial_position=EARLIEST[name])
        assert [consumer.receive(SOON).value() for _ in range(2)] == ["grün"] * 2
    assert versions(admin, topic) == 1


def test_each_message_is_read_by_the_schema_it_was_written_with(connect: Any, topic: str, admin: Admin) -> None:
    client = connect(pulsar_actors)
    client.create_producer(topic, schema=ours.AvroSchema(Writer1)).send(Writer1(a="x", b=1))
    client.create_producer(topic, schema=ours.AvroSchema(Writer2)).send(Writer2(a="y", b=2, c="z"))
    schema = ours.AvroSchema(Writer2)
    consumer = client.subscribe(topic, "s", schema=schema, initial_position=EARLIEST["ours"])
    first, second = consumer.receive(SOON), consumer.receive(SOON)
    assert plain(first.value()) == {"a": "x", "b": 1, "c": "later"}
    assert plain(second.value()) == {"a": "y", "b": 2, "c": "z"}
    assert versions(admin, topic) == 2
    assert first.schema_version() != second.schema_version()


class Writer1(ours.Record):
    a = ours.String()
    b = ours.Integer(required=True)


class Writer2(ours.Record):
    c = ours.String(default="later", required=True, required_default=True)
    a = ours.String()
    b = ours.Integer(required=True)


class Clashing(ours.Record):
    a = ours.Integer(required=True)


def test_an_incompatible_schema_is_refused_with_the_reason_of_the_broker(connect: Any, topic: str) -> None:
    client = connect(pulsar_actors)
    client.create_producer(topic, schema=ours.AvroSchema(Writer1))
    with pytest.raises(pulsar_actors.IncompatibleSchema) as refused:
        client.create_producer(topic, schema=ours.AvroSchema(Clashing))
    assert refused.value.reason
    with pytest.raises(pulsar_actors.IncompatibleSchema):
        client.subscribe(topic, "s", schema=ours.AvroSchema(Clashing))
    with pytest.raises(pulsar_actors.IncompatibleSchema):
        client.create_producer(topic, schema=ours.Int32Schema())


@pytest.mark.parametrize("batching", [False, True])
def test_partitions_share_the_versions_of_their_topic(
    connect: Any, partitioned: str, admin: Admin, *, batching: bool
) -> None:
    client = connect(pulsar_actors)
    first = client.create_producer(partitioned, schema=ours.AvroSchema(Writer1), batching_enabled=batching)
    for number in range(6):
        first.send(Writer1(a="x", b=number), partition_key=str(number))
    second = client.create_producer(partitioned, schema=ours.AvroSchema(Writer2), batching_enabled=batching)
    for number in range(6):
        second.send(Writer2(a="y", b=number, c="z"), partition_key=str(number))
    assert versions(admin, partitioned) == 2

    schema = ours.AvroSchema(Writer2)
    options = {"initial_position": EARLIEST["ours"]}
    consumer = client.subscribe(partitioned, "own", schema=schema, **options)
    messages = [consumer.receive(SOON) for _ in range(12)]
    found = sorted((message.value().b, message.value().c) for message in messages)
    assert found == sorted([(number, c) for number in range(6) for c in ("later", "z")])
    assert len({message.schema_version() for message in messages}) == 2
    assert len({message.topic_name() for message in messages}) > 1
    anything = client.subscribe(partitioned, "any", schema=ours.AutoConsumeSchema(), **options)
    generic = [anything.receive(SOON).value() for _ in range(12)]
    assert sorted(len(record.fields()) for record in generic) == [2] * 6 + [3] * 6
    official = connect(pulsar).subscribe(
        partitioned, "official", schema=pulsar.schema.AvroSchema(None, Writer2.schema()),
        initial_position=EARLIEST["official"],
    )  # fmt: skip
    assert sorted(official.receive(SOON).value()["b"] for _ in range(12)) == sorted([*range(6)] * 2)


def unload(admin: Admin, topic: str, producer: Any) -> None:
    """Let the producer reconnect."""
    before = producer.stats().reconnects
    admin.unload(topic)
    assert until(lambda: producer.stats().reconnects > before and producer.is_connected())


def schemas_path(topic: str) -> str:
    return f"schemas/{topic.removeprefix('persistent://')}/schema"


def test_after_a_reconnect_messages_have_the_version_of_the_new_answer(connect: Any, topic: str, admin: Admin) -> None:
    client = connect(pulsar_actors)
    schema = ours.AvroSchema(Writer1)
    producer = client.create_producer(topic, schema=schema)
    producer.send(Writer1(a="x", b=1))
    unload(admin, topic, producer)
    producer.send(Writer1(a="x", b=2))
    admin.call("DELETE", schemas_path(topic))
    unload(admin, topic, producer)
    producer.send(Writer1(a="x", b=3))
    reader = client.create_reader(topic, pulsar_actors.MessageId.earliest, schema=ours.BytesSchema())
    first, second, third = (reader.read_next(SOON) for _ in range(3))
    assert first.schema_version() == second.schema_version() < third.schema_version()
    consumer = client.subscribe(topic, "s", schema=schema, initial_position=EARLIEST["ours"])
    assert [consumer.receive(SOON) for _ in range(3)][2].value() == Writer1(a="x", b=3)


def test_a_send_after_the_schema_was_replaced_fails_with_the_reason_and_works_when_it_is_back(
    connect: Any, topic: str, admin: Admin
) -> None:
    client = connect(pulsar_actors)
    producer = client.create_producer(topic, schema=ours.AvroSchema(Writer1), send_timeout_millis=2000)
    producer.send(Writer1(a="x", b=1))
    admin.call("DELETE", schemas_path(topic))
    admin.call("POST", schemas_path(topic), {"type": "STRING", "schema": "", "properties": {}})
    admin.unload(topic)
    with pytest.raises(pulsar_actors.Timeout, match="ncompatible"):
        producer.send(Writer1(a="x", b=2))
    admin.call("DELETE", schemas_path(topic))
    assert until(producer.is_connected)
    producer.send(Writer1(a="x", b=3))


def test_a_producer_of_bytes_can_write_keys_and_values_that_are_apart(connect: Any, topic: str) -> None:
    client = connect(pulsar_actors)
    schema = ours.KeyValueSchema(ours.StringSchema(), ours.Int32Schema(), SEPARATED)
    client.create_producer(topic, schema=schema)
    producer = client.create_producer(topic, schema=ours.AutoPublishSchema())
    producer.send(b"\0\0\0\5", partition_key="one")
    producer.send((b"two", b"\0\0\0\6"))
    producer.send((b"none", None))
    for wrong in ((b"two", b"\0"), (b"\xff", b"\0\0\0\5"), b"\0", (b"one",)):
        with pytest.raises(pulsar_actors.WrongContent):
            producer.send(wrong)
    consumer = client.subscribe(topic, "s", schema=schema, initial_position=EARLIEST["ours"])
    assert [consumer.receive(SOON).value() for _ in range(3)] == [("one", 5), ("two", 6), ("none", None)]


# The Java client.


class Inner(ours.Record):
    _avro_namespace = "JavaSchemas"
    size = ours.Integer(required=True)


class Item(ours.Record):
    """Java's class of this name, with its names, its order and its defaults."""

    _avro_namespace = "JavaSchemas"
    _sorted_fields = True
    color = ours.CustomEnum(Color, required_default=True)
    count = ours.Integer(required=True)
    inner = Inner(required_default=True)
    name = ours.String(required_default=True)
    prices = ours.Map(ours.Long(), required_default=True)


ITEM = Item(color=Color.BLUE, count=3, inner=Inner(size=7), name="grün", prices={"a": 5})
UTC = timezone.utc
INSTANT = datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
SEPARATED = ours.KeyValueEncodingType.SEPARATED
AVRO = ours.AvroSchema(Item)
CASES: dict[str, tuple[Any, Any]] = {
    "string": (ours.StringSchema(), "grün"),
    "boolean": (ours.BooleanSchema(), True),
    "int8": (ours.Int8Schema(), -5),
    "int16": (ours.Int16Schema(), -300),
    "int32": (ours.Int32Schema(), -70_000),
    "int64": (ours.Int64Schema(), -5_000_000_000),
    "float": (ours.FloatSchema(), 1.5),
    "double": (ours.DoubleSchema(), -2.25),
    "date": (ours.DateSchema(), INSTANT),
    "timestamp": (ours.TimestampSchema(), INSTANT),
    "time": (ours.TimeSchema(), time(1, 1, 1, 1000)),
    "instant": (ours.InstantSchema(), INSTANT + timedelta(microseconds=456)),
    "local_date": (ours.LocalDateSchema(), date(1960, 2, 29)),
    "local_time": (ours.LocalTimeSchema(), time(23, 59, 58, 123_456)),
    "local_date_time": (ours.LocalDateTimeSchema(), datetime(1960, 2, 29, 1, 2, 3, 4)),  # noqa: DTZ001 - it is local
    "json": (ours.JsonSchema(Item, java_style=True), ITEM),
    "avro": (AVRO, ITEM),
    "inline": (ours.KeyValueSchema(ours.StringSchema(), AVRO), ("key", ITEM)),
    "separated": (ours.KeyValueSchema(AVRO, ours.Int32Schema(), SEPARATED), (ITEM, 5)),
    "null_value": (ours.KeyValueSchema(ours.StringSchema(), ours.Int32Schema(), SEPARATED), ("k", None)),
    "null_key": (ours.KeyValueSchema(ours.StringSchema(), ours.Int32Schema()), (None, 5)),
    "native": (ours.ProtobufNativeSchema(Timestamp), Timestamp(seconds=5, nanos=6)),
    "protobuf": (ours.ProtobufSchema(Timestamp), Timestamp(seconds=5, nanos=6)),
}
OF_ITS_OWN = {"native"}
"""Brokers compare the bytes of this definition, Java and the official Python client write other ones, and ours is that
of the latter. So a Java client that comes later adds a version; if it comes first, ours uses its definition."""


@pytest.mark.real_broker
def test_java_and_we_read_each_other_and_share_one_schema(connect_to: Any, real_broker: Broker, topic: str) -> None:
    client = connect_to(pulsar_actors, real_broker.service_url)
    producers = {name: client.create_producer(f"{topic}-{name}", schema=schema) for name, (schema, _) in CASES.items()}
    for name, producer in producers.items():
        producer.send(CASES[name][1])
    program = str(Path(__file__).with_name("JavaSchemas.java"))
    command = [tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", program]
    done = subprocess.run(  # noqa: S603 -- our own words
        [*command, real_broker.service_url, topic], capture_output=True, text=True, timeout=JAVA_SECONDS, check=True
    )
    lines = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("got\t")]
    assert {name: (equal, text) for _, name, equal, text in lines if equal != "true"} == {}
    assert {name for _, name, *_ in lines} == CASES.keys()

    from_java, generic, counts = {}, {}, {}
    for name, (schema, _) in CASES.items():
        options = {"initial_position": EARLIEST["ours"]}
        consumer = client.subscribe(f"{topic}-{name}", "ours", schema=schema, **options)
        from_java[name] = [consumer.receive(SOON).value() for _ in range(2)]
        consumer = client.subscribe(f"{topic}-{name}", "any", schema=ours.AutoConsumeSchema(), **options)
        generic[name] = [consumer.receive(SOON).value().schema_type().name for _ in range(2) if name != "null_value_"]
        counts[name] = versions(real_broker.admin, f"{topic}-{name}")
    assert from_java == {name: [value, value] for name, (_, value) in CASES.items()}
    assert {name for name, count in counts.items() if count != 1} <= OF_ITS_OWN
    assert generic == {name: [schema.schema_info().schema_type().name] * 2 for name, (schema, _) in CASES.items()}


@pytest.mark.real_broker
def test_java_makes_the_same_definition_of_a_protobuf_file(
    connect_to: Any, real_broker: Broker, topic: str, tmp_path: Path
) -> None:
    client = connect_to(pulsar_actors, real_broker.service_url)
    schema = ours.ProtobufSchema(compiled(FOLDER)("shop.orders.Order"))
    client.create_producer(topic, schema=schema)
    protoc(FOLDER, f"--java_out={tmp_path}")
    sources = [str(path) for path in tmp_path.rglob("*.java")]
    subprocess.run([tool("javac"), "-nowarn", "-cp", f"{jars()}/*", *sources], check=True)  # noqa: S603 -- our own files
    program = str(Path(__file__).with_name("JavaProtobuf.java"))
    done = subprocess.run(  # noqa: S603 -- our own words
        [tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*:{tmp_path}", program,
         real_broker.service_url, topic, "com.example.shop.OrderShapes$Order"],
        capture_output=True, text=True, encoding="utf-8", timeout=JAVA_SECONDS, check=True,
    )  # fmt: skip
    definition, parsing = [line[5:] for line in done.stdout.splitlines() if line.startswith("made\t")]
    assert json.loads(definition) == json.loads((FOLDER / "java.json").read_text("utf-8"))
    assert parsing == schema.schema_info().properties()["__PARSING_INFO__"]
    assert versions(real_broker.admin, topic) == 1


def test_a_protobuf_file_without_a_package_is_accepted(connect: Any, topic: str, admin: Admin) -> None:
    schema = ours.ProtobufSchema(compiled(FOLDER)("Bare"))
    connect(pulsar_actors).create_producer(topic, schema=schema).send(compiled(FOLDER)("Bare")())
    assert versions(admin, topic) == 1
