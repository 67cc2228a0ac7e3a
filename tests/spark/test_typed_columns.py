"""Topics with a schema: typed columns are read and written, as other clients write and read them."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pulsar
import pulsar.schema as official
import pytest

import pulsar_actors
from pulsar_actors import schema as ours
from pulsar_actors.spark.avro_types import value_type
from pulsar_actors.spark.decoded_values import from_json
from tests.real_broker.test_schemas import CASES
from tests.spark.stream import reading, writing
from tests.spark.traffic import Traffic
from tests.support.jars import jars, tool
from tests.support.subjects import Broker

EVERYTHING = """
    select id as n, cast(id as int) as i, cast(id as float) / 4 as f, id / 8D as d, id > 0 as yes,
    concat('t', id) as text,
    cast(concat('b', id) as binary) as bin, cast(id as decimal(20, 3)) as amount, date'2026-01-02' as day,
    timestamp'2026-01-02 03:04:05.678901' as at, timestamp_ntz'1926-01-02 03:04:05.678901' as local,
    array(1, null, 3) as numbers, map('a', id, 'b', null) as counts,
    named_struct('x', id, 'parts', array(map('k', named_struct('y', 1.5D)))) as nested, cast(null as string) as nothing
    from range(3)
"""


class Person(official.Record):
    name = official.String()
    age = official.Integer(required=True)


@pytest.fixture
def client(broker: Broker) -> Iterator[Any]:
    with closing(pulsar_actors.Client(broker.service_url)) as client:
        yield client


@pytest.fixture
def official_client(broker: Broker) -> Iterator[Any]:
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
    with closing(pulsar.Client(broker.service_url, logger=logger)) as client:
        yield client


def rows(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def typed(spark: Any, broker: Broker, topic: str, **options: str) -> Any:
    frame = reading(spark, broker, topic=topic, **options).load()
    return frame.select(*(f"`{name}`" for name in frame.columns if not name.startswith("__")))


@pytest.mark.parametrize("form", ["avro", "json"])
def test_what_is_written_typed_is_read_the_same(spark: Any, broker: Broker, topic: str, form: str) -> None:
    frame = spark.sql(EVERYTHING)
    writing(frame, broker, topic=topic, valueAs=form)
    found = typed(spark, broker, topic)
    assert found.dtypes == frame.dtypes
    assert rows(found.orderBy("n")) == rows(frame)


@pytest.mark.parametrize("form", ["avro", "json"])
def test_records_of_the_official_client_are_read_and_it_reads_those_of_spark(
    spark: Any, broker: Broker, official_client: Any, topic: str, form: str
) -> None:
    schema = {"avro": official.AvroSchema, "json": official.JsonSchema}[form](Person)
    producer = official_client.create_producer(topic, schema=schema)
    producer.send(Person(name="Ann", age=3), partition_key="k", properties={"p": "q"})
    (row,) = reading(spark, broker, topic=topic).load().collect()
    assert (row["name"], row["age"], bytes(row["__key"]), row["__messageProperties"]) == ("Ann", 3, b"k", {"p": "q"})
    writing(spark.sql("select 'Bob' as name, 4 as age, 'k' as __key"), broker, topic=topic, valueAs=form)
    reader = official_client.create_reader(topic, pulsar.MessageId.earliest, schema=schema)
    found = [reader.read_next(20_000) for _ in range(2)]
    assert [(one.value().name, one.value().age, one.partition_key()) for one in found] == [
        ("Ann", 3, "k"), ("Bob", 4, "k"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "value", "kind"),
    [
        (ours.StringSchema(), "grün", "string"),
        (ours.BooleanSchema(), True, "boolean"),
        (ours.Int8Schema(), -3, "tinyint"),
        (ours.Int16Schema(), -300, "smallint"),
        (ours.Int32Schema(), 7, "int"),
        (ours.Int64Schema(), 1 << 40, "bigint"),
        (ours.FloatSchema(), 0.5, "float"),
        (ours.DoubleSchema(), 0.1, "double"),
        (ours.LocalDateSchema(), date(2026, 1, 2), "date"),
        (ours.LocalDateTimeSchema(), datetime(2026, 1, 2, 3, 4, 5, 678901), "timestamp_ntz"),  # noqa: DTZ001
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_primitive_is_a_typed_value(  # noqa: PLR0913 - fixtures
    spark: Any, broker: Broker, client: Any, topic: str, schema: Any, value: Any, kind: str
) -> None:
    client.create_producer(topic, schema=schema).send(value)
    frame = typed(spark, broker, topic)
    assert frame.dtypes == [("value", kind)]
    assert [row["value"] for row in frame.collect()] == [value]


@pytest.mark.parametrize("schema", [ours.DateSchema(), ours.TimestampSchema(), ours.InstantSchema()])
def test_a_moment_is_a_timestamp(spark: Any, broker: Broker, client: Any, topic: str, schema: Any) -> None:
    client.create_producer(topic, schema=schema).send(datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc))
    (row,) = typed(spark, broker, topic).selectExpr("unix_seconds(value) as seconds").collect()
    assert row["seconds"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc).timestamp()


def test_a_time_of_day_is_a_number(spark: Any, broker: Broker, client: Any, topic: str) -> None:
    client.create_producer(topic, schema=ours.LocalTimeSchema()).send(time(1, 2, 3, 456))
    assert rows(typed(spark, broker, topic)) == [{"value": 3723_000_456}]


@pytest.mark.parametrize("encoding", list(ours.KeyValueEncodingType))
def test_a_pair_has_a_key_and_a_value(spark: Any, broker: Broker, client: Any, topic: str, encoding: Any) -> None:
    point = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
    schema = ours.KeyValueSchema(ours.StringSchema(), ours.AvroSchema(None, point), encoding)
    client.create_producer(topic, schema=schema).send(("a", {"x": 3}))
    assert rows(typed(spark, broker, topic)) == [{"key": "a", "value": {"x": 3}}]


def record(*fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": kind, **more} for name, kind, more in fields],
    }


@pytest.mark.parametrize("form", ["avro", "json"])
def test_older_and_newer_messages_have_the_columns_of_the_newest_schema(
    spark: Any, broker: Broker, client: Any, topic: str, form: str
) -> None:
    old = record(("a", "int", {}), ("gone", ["null", "string"], {"default": None}))
    new = record(("a", "int", {}), ("added", "string", {"default": "none yet"}))
    make = (lambda one: ours.AvroSchema(None, one)) if form == "avro" else AnyJson
    client.create_producer(topic, schema=make(old)).send({"a": 1, "gone": "x"})
    client.create_producer(topic, schema=make(new)).send({"a": 2, "added": "y"})
    assert rows(typed(spark, broker, topic)) == [{"a": 1, "added": "none yet"}, {"a": 2, "added": "y"}]


class AnyJson(ours.Schema):
    """JSON by a definition."""

    def __init__(self, definition: dict[str, Any]) -> None:
        super().__init__(None, pulsar_actors.client.schema.SchemaType.JSON, definition, "JSON")

    def encode(self, value: object) -> bytes:
        return json.dumps(value).encode()

    def decode(self, data: bytes) -> object:
        return data


def test_a_tombstone_has_null_in_all_columns(spark: Any, broker: Broker, client: Any, topic: str) -> None:
    producer = client.create_producer(
        topic, schema=ours.AvroSchema(None, record(("a", "int", {}), ("b", "string", {})))
    )
    producer.send({"a": 1, "b": "x"}, partition_key="k")
    producer.send(None, partition_key="k")
    assert rows(typed(spark, broker, topic)) == [{"a": 1, "b": "x"}, {"a": None, "b": None}]


def test_bytes_can_be_had_instead_and_some_columns_only(spark: Any, broker: Broker, client: Any, topic: str) -> None:
    producer = client.create_producer(
        topic, schema=ours.AvroSchema(None, record(("a", "int", {}), ("b", "string", {})))
    )
    producer.send({"a": 1, "b": "x"})
    assert [bytes(row["value"]) for row in typed(spark, broker, topic, valueAs="bytes").collect()] == [b"\x02\x02x"]
    frame = reading(spark, broker, topic=topic).schema("b string, value binary").load()
    assert rows(frame) == [{"b": "x", "value": bytearray(b"\x02\x02x")}]
    with pytest.raises(Exception, match="b is of type string, not int, by the schema of the topic"):
        reading(spark, broker, topic=topic).schema("b int").load().collect()
    with pytest.raises(Exception, match="a message has no column c: it has a, b, value"):
        reading(spark, broker, topic=topic).schema("c int").load().collect()


def test_a_message_that_does_not_fit_fails_the_query_with_its_place(
    spark: Any, broker: Broker, client: Any, topic: str
) -> None:
    client.create_producer(topic, schema=ours.AvroSchema(None, record(("a", "string", {})))).send({"a": "x"})
    last = client.create_producer(topic).send(b"\x7f")
    place = f"{last.ledger_id()}:{last.entry_id()} of {topic} does not fit the schema"
    with pytest.raises(Exception, match=place):
        typed(spark, broker, topic).collect()


def test_topics_with_different_schemas_are_refused_or_read_as_bytes(
    spark: Any, broker: Broker, client: Any, topic: str
) -> None:
    client.create_producer(f"{topic}-1", schema=ours.StringSchema()).send("a")
    client.create_producer(f"{topic}-2", schema=ours.Int32Schema()).send(1)
    topics = {"topics": f"{topic}-1,{topic}-2"}
    with pytest.raises(Exception, match="the topics have different schemas"):
        reading(spark, broker, **topics).load()
    frame = reading(spark, broker, allowDifferentTopicSchemas="true", **topics).load().select("value")
    assert sorted(bytes(row["value"]) for row in frame.collect()) == [b"\x00\x00\x00\x01", b"a"]


def test_a_stream_is_typed_on_both_sides(spark: Any, broker: Broker, client: Any, topic: str, checkpoint: str) -> None:
    producer = client.create_producer(
        topic, schema=ours.AvroSchema(None, record(("a", "int", {}), ("b", "string", {})))
    )
    for number in range(10):
        producer.send({"a": number, "b": "x"})
    reader = spark.readStream.format("pulsar").option("service.url", broker.service_url).option("topic", topic)
    frame = reader.option("startingOffsets", "earliest").option("subscriptionPrefix", "typed").load()
    writer = frame.selectExpr("a * 2 as twice", "b").writeStream.format("pulsar").option("topic", f"{topic}-out")
    writer = writer.option("service.url", broker.service_url).option("valueAs", "avro").option("exactlyOnce", "true")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert rows(typed(spark, broker, f"{topic}-out")) == [{"twice": 2 * number, "b": "x"} for number in range(10)]


@pytest.mark.parametrize("form", ["avro", "json"])
def test_rows_that_the_schema_of_the_topic_does_not_take_are_refused_before_anything_is_sent(  # noqa: PLR0913 - fixtures
    spark: Any, broker: Broker, official_client: Any, traffic: Traffic, topic: str, form: str
) -> None:
    schema = {"avro": official.AvroSchema, "json": official.JsonSchema}[form](Person)
    official_client.create_producer(topic, schema=schema)
    for query, says in (
        ("select 'a' as name, 'no number' as age", "IncompatibleSchema"),
        ("select 'a' as name, cast(null as int) as age", "age|null"),
    ):
        with pytest.raises(Exception, match=says):
            writing(spark.sql(query), broker, topic=topic, valueAs=form)
    other = {"avro": "json", "json": "avro"}[form]
    with pytest.raises(Exception, match=f"has a schema of type {form.upper()}, and valueAs={other}"):
        writing(spark.sql("select 'a' as name, 1 as age"), broker, topic=topic, valueAs=other)
    assert traffic.read(topic) == []


# The Java client.

ITEM = {"color": "BLUE", "count": 3, "inner": {"size": 7}, "name": "grün", "prices": {"a": 5}}
SQL_ITEM = """
    select 'BLUE' as color, 3 as count, named_struct('size', 7) as inner, 'grün' as name, map('a', 5L) as prices
"""
TYPED = {
    **{name: {"value": CASES[name][1]} for name in ("string", "boolean", "int8", "int16", "int32", "int64")},
    **{name: {"value": CASES[name][1]} for name in ("float", "double", "local_date", "local_date_time")},
    "json": ITEM,
    "avro": ITEM,
    "inline": {"key": "key", "value": ITEM},
    "separated": {"key": ITEM, "value": 5},
    "null_value": {"key": "k", "value": None},
    "null_key": {"key": None, "value": 5},
}


@pytest.mark.parametrize("broker", ["apache"], indirect=True)
def test_java_reads_records_of_spark_and_spark_reads_what_java_writes(
    spark: Any, broker: Broker, client: Any, topic: str
) -> None:
    for name, (schema, value) in CASES.items():
        producer = client.create_producer(f"{topic}-{name}", schema=schema)
        if name in ("avro", "json"):
            writing(spark.sql(SQL_ITEM), broker, topic=f"{topic}-{name}", valueAs=name)
        else:
            producer.send(value)
    program = str(Path(__file__).parents[1] / "real_broker" / "JavaSchemas.java")
    command = [tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", program, broker.service_url, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)  # noqa: S603 -- our own words
    got = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("got\t")]
    received = {name: equal for _, name, equal, _ in got}
    assert received == dict.fromkeys(CASES, "true")
    found = {name: rows(typed(spark, broker, f"{topic}-{name}")) for name in TYPED}
    assert found == {name: [row, row] for name, row in TYPED.items()}


# Types.


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (["null", "int", "string"], "value.a of the topic.s schema has no type in Spark: it is a union of 2 types"),
        ("R", "the record R contains itself"),
        ({"type": "array", "items": ["null", "R"]}, r"value.a\[\] of .*: the record R contains itself"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "it has 39 digits, and Spark has 38"),
        ("Unknown", "the type Unknown is not defined"),
    ],
)
def test_a_type_that_spark_does_not_have_is_refused(kind: Any, says: str) -> None:
    with pytest.raises(pulsar_actors.InvalidConfiguration, match=says):
        value_type(record(("a", kind, {})))


def test_bytes_and_decimals_in_json_are_read_as_clients_write_them() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    convert = from_json(value_type(record(("a", "bytes", {}), ("d", decimal, {}), ("f", "double", {}))))
    assert convert is not None
    assert convert({"a": "AP8=", "d": "1.25", "f": "NaN"})["a"] == b"\x00\xff"
    found = convert({"a": "no base64!", "d": 1.25, "f": 2})
    assert (found["a"], found["d"], found["f"]) == (b"no base64!", Decimal("1.25"), 2.0)
