"""Brokers that answer with anything but what they were asked: no call outlives its time, and no actor dies of it."""

import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.message import Message
from life import FakeBroker, InThread

import pulsar_actors as pulsar
from pulsar_actors.wire.commands import decode_command, encode_command
from pulsar_actors.wire.frames import FrameReader, encode_payload_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAckResponse,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnect,
    CommandConnected,
    CommandFlow,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandMessage,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandPing,
    CommandProducer,
    CommandProducerSuccess,
    CommandSeek,
    CommandSend,
    CommandSendReceipt,
    CommandSubscribe,
    CommandSuccess,
    CommandUnsubscribe,
    MessageIdData,
)

PATIENCE = 0.4
"""Seconds that the client gives each operation."""

LATE = 4.0
"""Seconds beyond that within which a call has ended, on a machine that is busy."""

Attack = Callable[[Any], bytes]


class Broker:
    """Answers rightly, but for one kind of command, to which it answers what the attack makes of it."""

    def __init__(self, kind: type[Message] | None = None, attack: Attack = lambda _: b"") -> None:
        self._kind = kind
        self._attack = attack

    def serve(self, client: socket.socket) -> None:
        reader = FrameReader()
        try:
            while data := client.recv(65536):
                for frame in reader.feed(data):
                    client.sendall(self._answer(client, decode_command(frame.command)))
        except OSError:
            return

    def _answer(self, client: socket.socket, command: Any) -> bytes:
        if type(command) is self._kind:
            return self._attack(command)
        answer = self._right_answer(client, command)
        return b"" if answer is None else encode_command(answer)

    def _right_answer(self, client: socket.socket, command: Any) -> Message | None:
        number = getattr(command, "request_id", 0)
        answer: Message | None = CommandSuccess(request_id=number) if number else None
        match command:
            case CommandConnect():
                answer = CommandConnected(server_version="fake", protocol_version=21)
            case CommandPartitionedTopicMetadata():
                done = CommandPartitionedTopicMetadataResponse.Success
                answer = CommandPartitionedTopicMetadataResponse(partitions=0, response=done, request_id=number)
            case CommandLookupTopic():
                url = f"pulsar://127.0.0.1:{client.getsockname()[1]}"
                connect = CommandLookupTopicResponse.Connect
                answer = CommandLookupTopicResponse(brokerServiceUrl=url, response=connect, request_id=number)
            case CommandProducer():
                answer = CommandProducerSuccess(request_id=number, producer_name="fake")
            case CommandSend():
                place = MessageIdData(ledgerId=1, entryId=command.sequence_id)
                answer = CommandSendReceipt(
                    producer_id=command.producer_id, sequence_id=command.sequence_id, message_id=place
                )
            case CommandGetLastMessageId():
                last = MessageIdData(ledgerId=1, entryId=1)
                answer = CommandGetLastMessageIdResponse(last_message_id=last, request_id=number)
        return answer


@pytest.fixture(autouse=True)
def no_bugs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [line.getMessage() for line in caplog.records if line.levelno >= logging.ERROR] == []


def run(broker: Broker) -> dict[str, BaseException | None]:
    """Do what programs do, and give what each call raised; none may take longer than it may."""
    raised: dict[str, BaseException | None] = {}

    def attempt(name: str, call: Callable[[], Any]) -> Any:
        results: list[Any] = []
        began = time.monotonic()
        raised[name] = InThread(lambda: results.append(call())).error(2 * PATIENCE + LATE)
        assert time.monotonic() - began < 2 * PATIENCE + LATE
        return results[0] if results else None

    with FakeBroker(broker.serve) as fake:
        client = pulsar.Client(fake.service_url, operation_timeout_seconds=PATIENCE, initial_backoff_interval_ms=20)
        producer = attempt("create_producer", lambda: client.create_producer("t", send_timeout_millis=400))
        if producer is not None:
            attempt("send", lambda: producer.send(b"x"))
        consumer = attempt("subscribe", lambda: client.subscribe("t", "s"))
        if consumer is not None:
            attempt("receive", lambda: consumer.receive(50))
            attempt("get_last_message_id", consumer.get_last_message_id)
            attempt("seek", lambda: consumer.seek(pulsar.MessageId.earliest))
            attempt("unsubscribe", consumer.unsubscribe)
        attempt("close", client.close)
    return raised


def garbage(_: Any) -> bytes:
    return b"\x17\x03\x01" * 100


def a_frame_of_four_gigabytes(_: Any) -> bytes:
    return b"\xff\xff\xff\xff\0\0\0\x01"


def a_command_larger_than_its_frame(_: Any) -> bytes:
    return struct.pack(">II", 10, 20) + bytes(20)


def half_a_frame(command: Any) -> bytes:
    return encode_command(CommandSuccess(request_id=getattr(command, "request_id", 0)))[:9]


def success(command: Any) -> bytes:
    return encode_command(CommandSuccess(request_id=getattr(command, "request_id", 0)))


def a_producer(command: Any) -> bytes:
    return encode_command(CommandProducerSuccess(request_id=getattr(command, "request_id", 0), producer_name="fake"))


def an_acknowledgement(command: Any) -> bytes:
    return encode_command(CommandAckResponse(request_id=getattr(command, "request_id", 0), consumer_id=1))


def answers_to_nothing(_: Any) -> bytes:
    return b"".join(encode_command(CommandSuccess(request_id=number)) for number in (0, 999, 2**64 - 1))


def a_flood_of_pings(_: Any) -> bytes:
    return encode_command(CommandPing()) * 300


def a_flood_of_closes(_: Any) -> bytes:
    closes = [CommandCloseProducer(producer_id=1, request_id=7), CommandCloseConsumer(consumer_id=2, request_id=7)]
    return b"".join(map(encode_command, closes)) * 100


def a_flood_of_empty_messages(_: Any) -> bytes:
    message = CommandMessage(consumer_id=2, message_id=MessageIdData(ledgerId=1, entryId=1))
    return b"".join(bytes(part) for part in encode_payload_command(message)) * 300


def receipts_of_nothing(_: Any) -> bytes:
    return b"".join(
        encode_command(CommandSendReceipt(producer_id=1, sequence_id=number)) for number in (2**64 - 1, 12345, 0)
    )


STAGES = (
    CommandConnect, CommandPartitionedTopicMetadata, CommandLookupTopic, CommandProducer, CommandSend, CommandSubscribe,
    CommandFlow, CommandGetLastMessageId, CommandSeek, CommandUnsubscribe, CommandCloseProducer,
)  # fmt: skip
ATTACKS = (
    garbage, a_frame_of_four_gigabytes, a_command_larger_than_its_frame, half_a_frame, success, a_producer,
    an_acknowledgement, answers_to_nothing, a_flood_of_pings, a_flood_of_closes, a_flood_of_empty_messages,
    receipts_of_nothing,
)  # fmt: skip


def test_a_broker_that_answers_rightly_lets_everything_succeed() -> None:
    raised = run(Broker())
    assert isinstance(raised.pop("receive"), pulsar.Timeout)
    assert set(raised.values()) == {None}


@pytest.mark.parametrize("stage", STAGES)
def test_whatever_a_broker_answers_every_call_ends_in_time_with_an_error_that_is_no_bug(stage: type[Message]) -> None:
    runs = [InThread(lambda attack=attack: run(Broker(stage, attack))) for attack in ATTACKS]
    for each in runs:
        for error in each.result(60).values():
            assert error is None or isinstance(error, pulsar.PulsarException)
            assert not isinstance(error, pulsar.InternalError)


@pytest.mark.parametrize(
    ("stage", "attack", "call", "answer"),
    [
        (CommandProducer, success, "create_producer", "CommandSuccess"),
        (CommandSubscribe, a_producer, "subscribe", "CommandProducerSuccess"),
        (CommandGetLastMessageId, success, "get_last_message_id", "CommandSuccess"),
        (CommandSeek, an_acknowledgement, "seek", "CommandAckResponse"),
    ],
)
def test_an_answer_to_another_question_ends_the_connection_and_the_error_says_so(
    stage: type[Message], attack: Attack, call: str, answer: str
) -> None:
    error = run(Broker(stage, attack))[call]
    assert isinstance(error, (pulsar.Timeout, pulsar.ConnectionLost))
    assert "broke the protocol" in str(error)
    assert answer in str(error)


def test_a_broker_that_says_that_all_sequence_ids_are_used_has_sends_refused() -> None:
    used_up = CommandProducerSuccess(producer_name="fake", last_sequence_id=2**63 - 1)

    def say(command: Any) -> bytes:
        used_up.request_id = command.request_id
        return encode_command(used_up)

    assert isinstance(run(Broker(CommandProducer, say))["send"], pulsar.InvalidArgument)
