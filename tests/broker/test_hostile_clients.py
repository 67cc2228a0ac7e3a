"""Clients that speak nonsense to the embedded broker: they lose their connections, and nobody else notices."""

import logging
import random
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.message import Message

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.frames import encode_command
from pulsar_actors.wire.topic_name import TopicName

SEEDS = 150
SECONDS = 10.0
HELLO = encode_command(pb.CommandConnect(client_version="hostile", protocol_version=21))
COMMANDS = [field for field in pb.BaseCommand.DESCRIPTOR.fields if field.message_type]
NUMBERS = (0, 1, 2, 3, 2**31 - 1)
TEXTS = ("", "x", "persistent://public/default/hostile", "public/default", "\0", "://", "x" * 300)
OCTETS = (b"", b"\xff\xfe", b"x" * 300)


@pytest.fixture
def broker(caplog: pytest.LogCaptureFixture) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker
    assert [line.getMessage() for line in caplog.records if line.levelno >= logging.ERROR] == []


def connect(broker: EmbeddedBroker) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", int(broker.service_url.rsplit(":", 1)[1])))
    made.settimeout(SECONDS)
    return made


def works(broker: EmbeddedBroker) -> None:
    """Demand that somebody else is served."""
    with pulsar.Client(broker.service_url, operation_timeout_seconds=SECONDS) as client:
        consumer = client.subscribe("works", "s")
        client.create_producer("works").send(b"x")
        assert consumer.receive(int(1000 * SECONDS)).data() == b"x"


def speak(broker: EmbeddedBroker, frames: list[bytes]) -> None:
    with connect(broker) as made:
        try:
            for frame in frames:
                made.sendall(frame)
            made.shutdown(socket.SHUT_WR)
            while made.recv(65536):
                pass
        except OSError:  # it was not listened to for long
            return


def nonsense(seed: int) -> list[bytes]:
    """Make commands of all kinds, most of them whole, with fields that mean little."""
    dice = random.Random(seed)  # noqa: S311 - chance, not a secret
    known = [
        pb.CommandProducer(topic="hostile", producer_id=1, request_id=1),
        pb.CommandSubscribe(topic="hostile", subscription="s", subType=dice.randrange(4), consumer_id=1, request_id=2),
        pb.CommandFlow(consumer_id=1, messagePermits=5),
    ]
    frames = [HELLO, *map(encode_command, known)]
    for _ in range(dice.randrange(30)):
        field = dice.choice(COMMANDS)
        command = pb.BaseCommand(type=dice.choice(pb.BaseCommand.Type.values()))
        if dice.random() < 0.9:
            command.type = field.number
        fill(getattr(command, field.name), dice, 0)
        getattr(command, field.name).SetInParent()
        body = bytearray(command.SerializePartialToString())
        if dice.random() < 0.1 and body:
            body[dice.randrange(len(body))] = dice.randrange(256)
        rest = dice.randbytes(dice.choice((0, 0, 0, 7, 60)))
        frames.append(struct.pack(">II", 4 + len(body) + len(rest), len(body)) + body + rest)
    return frames


def fill(message: Message, dice: random.Random, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if dice.random() < 0.3:
            continue
        values = [value(field, dice) for _ in range(dice.randrange(1, 3))]
        here: Any = getattr(message, field.name)
        if field.message_type:
            inner = [here.add()] if hasattr(here, "add") else [here]
            for each in inner if depth < 3 else ():
                fill(each, dice, depth + 1)
                each.SetInParent()
        elif hasattr(here, "extend"):
            here.extend(values)
        else:
            setattr(message, field.name, values[0])


def value(field: Any, dice: random.Random) -> Any:
    if field.cpp_type == field.CPPTYPE_STRING:
        return dice.choice(OCTETS if field.type == field.TYPE_BYTES else TEXTS)
    if field.cpp_type == field.CPPTYPE_ENUM:
        return dice.choice(field.enum_type.values).number
    if field.cpp_type == field.CPPTYPE_BOOL:
        return dice.random() < 0.5
    return dice.choice(NUMBERS)


def test_commands_without_sense_cost_their_own_connection_at_most(broker: EmbeddedBroker) -> None:
    for seed in range(SEEDS):
        speak(broker, nonsense(seed))
    works(broker)


@pytest.mark.parametrize(
    "start",
    [bytes, lambda: HELLO, lambda: b"GET / HTTP/1.1\r\n\r\n", lambda: bytes(64), lambda: b"\xff" * 64],
)
def test_bytes_that_are_no_frames_cost_their_own_connection_at_most(
    broker: EmbeddedBroker, start: Callable[[], bytes]
) -> None:
    for seed in range(30):
        dice = random.Random(seed)  # noqa: S311 - chance, not a secret
        speak(broker, [start(), dice.randbytes(dice.randrange(1, 500))])
    works(broker)


def test_a_client_that_asks_and_asks_and_reads_nothing_is_sent_away(broker: EmbeddedBroker) -> None:
    def fill_namespace(inside: Any) -> None:
        for number in range(1000):
            inside.cluster.open_topic(TopicName.parse(f"{number}-{'x' * 200}"))

    broker.call(fill_namespace)
    questions = encode_command(pb.CommandGetTopicsOfNamespace(request_id=1, namespace="public/default")) * 100
    with connect(broker) as made:
        made.sendall(HELLO)
        with pytest.raises(OSError, match=r"reset|Broken pipe"):  # noqa: PT012 - whichever write meets it
            for _ in range(100):
                made.sendall(questions)
                works(broker)


def test_a_connection_that_a_fault_ends_in_the_middle_of_deliveries_costs_no_other(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client, pulsar.Client(broker.service_url) as other:
        producer = client.create_producer("t", batching_enabled=False)
        readers = [other.create_reader("t", pulsar.MessageId.earliest) for _ in range(3)]
        keyed = [client.subscribe("t", "k", pulsar.ConsumerType.KeyShared) for _ in range(2)]
        fault = broker.faults.on(pb.CommandMessage).close_connection()
        for number in range(20):
            producer.send(b"x", partition_key=str(number))
        fault.wait()
        assert producer.stats().reconnects == 0
        assert sum(consumer.receive(int(1000 * SECONDS)).data() == b"x" for consumer in keyed) == len(keyed)
        assert [reader.read_next(int(1000 * SECONDS)).data() for reader in readers] == [b"x"] * 3
