"""The columns that the data source makes of a topic, by the schema that a query gives."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql.types import StructType

import pulsar_actors
from pulsar_actors import schema
from pulsar_actors.spark.data_source import PulsarDataSource
from tests.support.subjects import Broker


@pytest.fixture
def client(embedded: Broker) -> Iterator[Any]:
    with closing(pulsar_actors.Client(embedded.service_url)) as client:
        yield client


def record(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


def read(broker: Broker, topic: str, columns: dict[str, str], **options: str) -> list[dict[str, Any]]:
    wanted = StructType()
    for name, kind in columns.items():
        wanted = wanted.add(name, kind)
    reader = PulsarDataSource({"service.url": broker.service_url, "topic": topic, **options}).reader(wanted)
    return [row for span in reader.partitions() for batch in reader.read(span) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("kind", "column", "sent", "payload"),
    [("string", "string", "x", "\x02x\x02"), ("bytes", "binary", b"x", b"\x02x\x02")],
)
def test_a_value_of_the_schema_of_the_topic_is_the_same_whatever_other_columns_a_query_names(  # noqa: PLR0913 - fixtures
    embedded: Broker, client: Any, topic: str, kind: str, column: str, sent: Any, payload: Any
) -> None:
    client.create_producer(topic, schema=schema.AvroSchema(None, record(value=kind, n="int"))).send(
        {"value": sent, "n": 1}
    )
    assert read(embedded, topic, {"value": column, "n": "integer"}) == [{"value": sent, "n": 1}]
    assert read(embedded, topic, {"value": column}) == [{"value": sent}]
    assert read(embedded, topic, {"value": column}, valueAs="bytes") == [{"value": payload}]


def test_the_text_of_a_pair_is_its_value_without_its_key_too(embedded: Broker, client: Any, topic: str) -> None:
    pair = schema.KeyValueSchema(schema.StringSchema(), schema.StringSchema())
    client.create_producer(topic, schema=pair).send(("k", "v"))
    for columns in ({"key": "string", "value": "string"}, {"value": "string"}):
        assert [row["value"] for row in read(embedded, topic, columns)] == ["v"]


@pytest.mark.parametrize("kind", ["int", ["null", "int", "string"]], ids=["a type of Spark", "no type of Spark"])
def test_value_is_the_payload_if_the_schema_of_the_topic_has_no_such_text(
    embedded: Broker, client: Any, topic: str, kind: Any
) -> None:
    client.create_producer(topic, schema=schema.AvroSchema(None, record(a=kind)))
    client.create_producer(topic).send(b"plain")
    assert read(embedded, topic, {"value": "string"}) == [{"value": "plain"}]


def test_the_records_of_exactly_once_writing_match_no_pattern(embedded: Broker, client: Any, topic: str) -> None:
    for name in ("a", "a-spark-exactly-once", "a-spark-exactly-once-attempts"):
        client.create_producer(f"{topic}-{name}").send(name.encode())
    source = PulsarDataSource({"service.url": embedded.service_url, "topicsPattern": f"{topic}-.*"})
    spans = source.reader(StructType().add("value", "string")).partitions()
    assert [span.topic.rpartition("/")[2] for span in spans] == [f"{topic.rpartition('/')[2]}-a"]
