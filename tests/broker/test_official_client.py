"""The official client, and what only the embedded broker can do to it: TLS at every port, faults, several brokers.

What it sees of any broker is in `tests/real_broker`, which asks this broker, too.
"""

import contextlib
import importlib
import logging
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandLookupTopic,
    CommandMessage,
    CommandProducer,
    CommandSend,
    CommandSendReceipt,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName
from tests.support.certificates import Authority

pulsar: Any = importlib.import_module("pulsar")  # ships no types

WAIT_MS = 10_000
EARLIEST = pulsar.InitialPosition.Earliest
SILENT = logging.getLogger("official-client")
SILENT.setLevel(logging.CRITICAL + 1)
NUMBERS = count()


class Point(pulsar.schema.Record):  # type: ignore[misc,name-defined]
    x = pulsar.schema.Integer()
    y = pulsar.schema.String()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def connect(broker: EmbeddedBroker) -> Iterator[Any]:
    opened = []

    def make(service_url: str = "", **options: Any) -> Any:
        usual = {"logger": SILENT, "operation_timeout_seconds": 10}
        opened.append(pulsar.Client(service_url or broker.service_url, **{**usual, **options}))
        return opened[-1]

    yield make
    for client in opened:
        client.close()
    broker.faults.clear()


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/official-{next(NUMBERS)}"


def echo(client: Any, topic: str, payload: bytes = b"echo") -> bool:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(payload)
    return bool(consumer.receive(WAIT_MS).data() == payload)


def receive_all(consumer: Any, wanted: set[bytes]) -> None:
    while wanted:
        message = consumer.receive(WAIT_MS)
        wanted.discard(message.data())
        consumer.acknowledge(message)


def test_lookups_and_large_messages_may_be_encrypted(topic: str, tmp_path: Any) -> None:
    authority, tokens = Authority(tmp_path), Tokens(b"a secret of thirty-two bytes or more")
    files = authority.certify()
    with EmbeddedBroker(certificate_file=files.certificate, private_key_file=files.key, tokens=tokens) as broker:
        good = pulsar.AuthenticationToken(tokens.issue("me"))
        options = {"authentication": good, "tls_trust_certs_file_path": authority.file, "logger": SILENT}
        with contextlib.closing(pulsar.Client(broker.web_url_tls, **options)) as client:
            assert echo(client, topic, bytes(range(250)) * 16_000)


def test_over_http_it_follows_a_redirect_to_the_broker_that_has_the_topic(
    connect: Any, broker: EmbeddedBroker, topic: str
) -> None:
    broker.assign(topic, broker.add_listener())
    assert echo(connect(broker.web_url), topic)


def test_nothing_is_lost_when_connections_break(connect: Any, broker: EmbeddedBroker, topic: str) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, max_pending_messages=10_000)
    wanted = {f"{i}-{j}".encode() for i in range(5) for j in range(50)}
    for number, payload in enumerate(sorted(wanted)):
        producer.send_async(payload, lambda *_: None)
        if number % 50 == 49:
            broker.cut_connections()
    receive_all(consumer, wanted)


@pytest.mark.parametrize("kind", [CommandSend, CommandSendReceipt])
def test_a_message_whose_connection_ends_is_sent_again(
    connect: Any, broker: EmbeddedBroker, topic: str, kind: type
) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    fault = broker.faults.on(kind, nth=2).close_connection()
    for payload in (b"0", b"1", b"2"):
        producer.send(payload)
    fault.wait()
    receive_all(consumer, {b"0", b"1", b"2"})


@pytest.mark.parametrize("kind", [CommandLookupTopic, CommandProducer])  # after SUBSCRIBE it never asks again: its bug
def test_a_broker_that_is_not_ready_is_asked_again(
    connect: Any, broker: EmbeddedBroker, topic: str, kind: type
) -> None:
    fault = broker.faults.on(kind, times=2).refuse(ServerError.ServiceNotReady, "not yet")
    assert echo(connect(), topic)
    assert fault.happened == 2


def test_a_connection_that_says_nothing_is_given_up(connect: Any, broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.on_accept().say_nothing()
    client = connect(connection_timeout_ms=3_000)
    with pytest.raises(pulsar.ConnectError):
        client.create_producer(topic)
    fault.wait()
    client.create_producer(topic)


def test_a_connection_that_breaks_in_the_middle_of_a_message_loses_nothing(
    connect: Any, broker: EmbeddedBroker, topic: str
) -> None:
    connect().create_producer(topic).send(bytes(100_000))
    fault = broker.faults.on_accept().cut_after(sent=50_000)
    consumer = connect().subscribe(topic, "s", initial_position=EARLIEST)
    assert consumer.receive(WAIT_MS).data() == bytes(100_000)
    fault.wait()


def test_a_message_that_did_not_come_comes_when_it_is_asked_for_again(
    connect: Any, broker: EmbeddedBroker, topic: str
) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s")
    fault = broker.faults.on(CommandMessage).drop()
    client.create_producer(topic).send(b"lost on its way")
    fault.wait()
    consumer.redeliver_unacknowledged_messages()
    assert consumer.receive(WAIT_MS).data() == b"lost on its way"


def test_a_record_comes_as_it_was_sent_and_its_schema_is_kept_and_keeps_others_out(
    connect: Any, broker: EmbeddedBroker, topic: str
) -> None:
    client, schema = connect(), pulsar.schema.JsonSchema(Point)
    consumer = client.subscribe(topic, "s", schema=schema)
    client.create_producer(topic, schema=schema).send(Point(x=1, y="é"))
    value = consumer.receive(WAIT_MS).value()
    assert (value.x, value.y) == (1, "é")
    kept = broker.call(lambda inside: inside.cluster.schemas_of(TopicName.parse(topic)).get().schema.data)
    assert b'"Point"' in kept
    other = pulsar.schema.StringSchema()
    for refused in (client.create_producer, lambda *_, schema: client.subscribe(topic, "other", schema=schema)):
        with pytest.raises(pulsar.IncompatibleSchema):
            refused(topic, schema=other)


def test_a_table_view_shows_the_latest_value_of_each_key(connect: Any, topic: str) -> None:
    client = connect()
    producer = client.create_producer(topic)
    for number in range(4):
        producer.send(b"%d" % number, partition_key=f"k{number % 2}")
    with contextlib.closing(client.create_table_view(topic)) as view:
        assert {key: view.get(key) for key in ("k0", "k1")} == {"k0": b"2", "k1": b"3"}
