"""Schemas through a broker: key and value, primitives, any topic's, evolution, and a missing fastavro."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time, timezone
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

import pulsar_actors as pulsar
from pulsar_actors import schema as ours
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetSchema
from tests.support.raw_producer import RawProducer

EARLIEST = pulsar.InitialPosition.Earliest
SEPARATED = ours.KeyValueEncodingType.SEPARATED
SOON = 10_000


class Old(ours.Record):
    a = ours.String()


class New(ours.Record):
    b = ours.Integer(default=9, required=True, required_default=True)
    a = ours.String()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    with pulsar.Client(broker.service_url, operation_timeout_seconds=5) as client:
        yield client


CASES: list[tuple[Any, Any]] = [
    (ours.BooleanSchema(), True),
    (ours.Int8Schema(), -128),
    (ours.Int64Schema(), 2**63 - 1),
    (ours.DoubleSchema(), 1),
    (ours.InstantSchema(), datetime(1969, 1, 1, 0, 0, 0, 1, timezone.utc)),
    (ours.LocalDateSchema(), date(1, 1, 1)),
    (ours.LocalTimeSchema(), time.max),
    (ours.LocalDateTimeSchema(), datetime(9999, 12, 31, 23, 59, 59, 999_999)),  # noqa: DTZ001 - it is local
    (ours.ProtobufNativeSchema(Timestamp), Timestamp(seconds=5)),
    (ours.ProtobufSchema(Timestamp), Timestamp(seconds=5)),
    *(
        (ours.KeyValueSchema(ours.StringSchema(), ours.AvroSchema(Old), encoding), pair)
        for encoding in ours.KeyValueEncodingType
        for pair in [("k", Old(a="x")), (None, Old(a="x")), ("k", None), ("", Old())]
    ),
]


@pytest.mark.parametrize("batching", [False, True])
def test_values_come_back(client: pulsar.Client, *, batching: bool) -> None:
    for number, (schema, value) in enumerate(CASES):
        topic = f"t{number}"
        client.create_producer(topic, schema=schema, batching_enabled=batching).send(value)
        message = client.subscribe(topic, "s", schema=schema, initial_position=EARLIEST).receive(SOON)
        assert message.value() == value
        generic = client.subscribe(topic, "g", schema=ours.AutoConsumeSchema(), initial_position=EARLIEST)
        record = generic.receive(SOON).value()
        assert isinstance(record, ours.GenericRecord)
        assert record.schema_type() == schema.schema_info().schema_type()


@pytest.mark.parametrize(
    ("schema", "bad"),
    [
        (ours.Int8Schema(), 128), (ours.Int32Schema(), True), (ours.BooleanSchema(), 1), (ours.FloatSchema(), 1e300),
        (ours.InstantSchema(), datetime(2026, 1, 1)), (ours.LocalDateSchema(), datetime(2026, 1, 1)),  # noqa: DTZ001
        (ours.KeyValueSchema(ours.StringSchema(), ours.StringSchema()), "no pair"),
        (ours.ProtobufNativeSchema(Timestamp), b""),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(schema: Any, bad: Any) -> None:
    with pytest.raises(pulsar.InvalidMessage):
        schema.encode(bad)


def test_a_separated_key_is_the_key_of_the_message_and_no_other_can_be_given(client: pulsar.Client) -> None:
    schema = ours.KeyValueSchema(ours.StringSchema(), ours.Int32Schema(), SEPARATED)
    producer = client.create_producer("t", schema=schema)
    with pytest.raises(pulsar.InvalidMessage, match="partition_key"):
        producer.send(("k", 1), partition_key="other")
    producer.send(("k", 1))
    message = client.subscribe("t", "s", initial_position=EARLIEST).receive(SOON)
    assert (message.partition_key(), message.data()) == ("aw==", b"\0\0\0\1")


def test_a_message_is_decoded_by_its_version_for_many_threads_at_once(
    client: pulsar.Client, broker: EmbeddedBroker
) -> None:
    client.create_producer("t", schema=ours.AvroSchema(Old)).send(Old(a="x"))
    schema = ours.AvroSchema(New)
    consumer = client.subscribe("t", "s", schema=schema, initial_position=EARLIEST)
    message = consumer.receive(SOON)
    broker.faults.on(CommandGetSchema).delay(0.2)
    gate = threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(lambda _: (gate.wait(), message.value())[1], range(8)))
    assert values == [New(a="x", b=9)] * 8
    assert message.value() == New(a="x", b=9)


def test_a_failed_lookup_is_raised_and_tried_again(client: pulsar.Client, broker: EmbeddedBroker) -> None:
    client.create_producer("t", schema=ours.AvroSchema(Old)).send(Old(a="x"))
    consumer = client.subscribe("t", "s", schema=ours.AvroSchema(New), initial_position=EARLIEST)
    message = consumer.receive(SOON)
    broker.faults.on(CommandGetSchema).drop()
    with pytest.raises(pulsar.Timeout, match="asking for the schema of"):
        message.value()
    assert message.data() == b"\x02\x02x"
    assert message.value() == New(a="x", b=9)


def test_a_value_on_the_thread_of_the_client_is_refused_and_not_waited_for(client: pulsar.Client) -> None:
    client.create_producer("t", schema=ours.AvroSchema(Old)).send(Old(a="x"))
    consumer = client.subscribe("t", "s", schema=ours.AvroSchema(New), initial_position=EARLIEST)
    future, said, done = consumer.receive_async(), [], threading.Event()

    def look(received: Any) -> None:
        try:
            said.append(received.result().value())
        except pulsar.PulsarException as error:
            said.append(error)
        done.set()

    future.add_done_callback(look)
    done.wait(10)
    assert isinstance(said[0], pulsar.OperationNotSupported) or said == [New(a="x", b=9)]


def test_auto_publish_takes_bytes_that_fit_the_schema_of_the_topic(client: pulsar.Client) -> None:
    old = ours.AvroSchema(Old)
    client.create_producer("t", schema=old)
    producer = client.create_producer("t", schema=ours.AutoPublishSchema())
    producer.send(old.encode(Old(a="x")))
    with pytest.raises(pulsar.WrongContent):
        producer.send(b"\x02\x50x")
    message = client.subscribe("t", "s", schema=old, initial_position=EARLIEST).receive(SOON)
    assert (message.value(), message.schema_version()) == (Old(a="x"), "\0" * 8)
    client.create_producer("free", schema=ours.AutoPublishSchema()).send(b"anything")


def test_generic_records_have_fields(client: pulsar.Client) -> None:
    client.create_producer("t", schema=ours.JsonSchema(New)).send(New(a="x"))
    message = client.subscribe("t", "s", schema=ours.AutoConsumeSchema(), initial_position=EARLIEST).receive(SOON)
    record: Any = message.value()
    assert (record.fields(), record.field("a"), record["b"], record.field("none")) == (["b", "a"], "x", 9, None)
    assert record.native_object() == {"a": "x", "b": 9}


def test_a_damaged_payload_is_an_error_of_its_value_only(client: pulsar.Client) -> None:
    client.create_producer("t").send(b"\x02\x50x")
    message = client.create_reader("t", pulsar.MessageId.earliest, schema=ours.BytesSchema()).read_next(SOON)
    for schema in (ours.AvroSchema(Old), ours.JsonSchema(Old), ours.Int32Schema()):
        with pytest.raises(pulsar.UndecodableMessage):
            schema.decode_message(message)
    assert message.data() == b"\x02\x50x"


def test_without_fastavro_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(pulsar.InvalidConfiguration, match=r"pulsar-actors\[avro\]"):
        ours.AvroSchema(Old)


@pytest.mark.parametrize("batching", [False, True])
def test_a_null_key_is_marked_for_java(client: pulsar.Client, *, batching: bool) -> None:
    schema = ours.KeyValueSchema(ours.StringSchema(), ours.Int32Schema(), SEPARATED)
    client.create_producer("t", schema=schema, batching_enabled=batching).send((None, 1))
    message = client.subscribe("t", "s", schema=schema, initial_position=EARLIEST).receive(SOON)
    assert message._own().null_partition_key


@pytest.mark.parametrize("key", ["x", "eA=!"])
def test_a_key_that_is_no_base_64_although_it_says_so_cannot_be_decoded(
    broker: EmbeddedBroker, client: pulsar.Client, key: str
) -> None:
    schema = ours.KeyValueSchema(ours.StringSchema(), ours.StringSchema(), SEPARATED)
    consumer = client.subscribe("t", "s", schema=schema)
    with RawProducer(broker.service_url, "t") as raw:
        raw.send(b"v", partition_key=key, partition_key_b64_encoded=True)
    message = consumer.receive(SOON)
    with pytest.raises(pulsar.UndecodableMessage, match="cannot decode this key"):
        message.value()
    assert (message.partition_key(), message.data()) == (key, b"v")


def test_a_subclass_with_its_own_decode_decodes_messages(client: pulsar.Client) -> None:
    class Upper(ours.StringSchema):
        def decode(self, data: bytes) -> str:
            return super().decode(data).upper()

    class Next(ours.Int32Schema):
        def decode(self, data: bytes) -> object:
            return int.from_bytes(data, "big") + 1

    class Turned(ours.BytesSchema):
        def decode(self, data: bytes) -> bytes:
            return data[::-1]

    cases: list[tuple[ours.Schema, object, object]] = [
        (Upper(), "abc", "ABC"), (Next(), 5, 6), (Turned(), b"abc", b"cba"),
    ]  # fmt: skip
    for number, (schema, sent, received) in enumerate(cases):
        client.create_producer(f"t{number}", schema=schema).send(sent)
        reader = client.create_reader(f"t{number}", pulsar.MessageId.earliest, schema=schema)
        assert reader.read_next(SOON).value() == received
