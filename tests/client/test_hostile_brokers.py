"""Brokers that answer with anything but what they were asked: no call outlives its time, and no actor dies of it."""

import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.message import Message

import pulsar_actors as pulsar
from pulsar_actors.wire.commands import encode_command
from pulsar_actors.wire.frames import encode_payload_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnect,
    CommandError,
    CommandFlow,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandMessage,
    CommandPartitionedTopicMetadata,
    CommandPing,
    CommandPong,
    CommandProducer,
    CommandProducerSuccess,
    CommandReachedEndOfTopic,
    CommandSeek,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    CommandSubscribe,
    CommandSuccess,
    CommandTopicMigrated,
    CommandUnsubscribe,
    CommandWatchTopicUpdate,
    MessageIdData,
    ServerError,
)
from tests.support.life import FakeBroker, InThread
from tests.support.pretender import Attack, Broker

PATIENCE = 0.4
"""Seconds that the client gives each operation."""

LATE = 4.0
"""Seconds beyond that within which a call has ended, on a machine that is busy."""


@pytest.fixture(autouse=True)
def no_bugs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [line.getMessage() for line in caplog.records if line.levelno >= logging.ERROR] == []


def run(broker: Broker, patience: float = PATIENCE) -> dict[str, BaseException | None]:
    """Do what programs do, and give what each call raised; none may take longer than it may."""
    raised: dict[str, BaseException | None] = {}

    def attempt(name: str, call: Callable[[], Any]) -> Any:
        results: list[Any] = []
        began = time.monotonic()
        raised[name] = InThread(lambda: results.append(call())).error(2 * patience + LATE)
        assert time.monotonic() - began < 2 * patience + LATE
        return results[0] if results else None

    with FakeBroker(broker.serve) as fake:
        client = pulsar.Client(fake.service_url, operation_timeout_seconds=patience, initial_backoff_interval_ms=20)
        producer = attempt(
            "create_producer", lambda: client.create_producer("t", send_timeout_millis=int(1000 * patience))
        )
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


def test_a_broker_that_never_gets_ready_to_serve_the_topic_is_quoted_when_time_is_up() -> None:
    def not_ready(command: Any) -> bytes:
        failed = CommandLookupTopicResponse.Failed
        error = ServerError.ServiceNotReady
        return encode_command(
            CommandLookupTopicResponse(request_id=command.request_id, response=failed, error=error, message="starting")
        )

    raised = run(Broker(CommandLookupTopic, not_ready))
    for call in ("create_producer", "subscribe"):
        assert isinstance(raised[call], pulsar.Timeout)
        assert "still LOOKING_UP; the last failure was: ServiceNotReady: starting" in str(raised[call])


def test_a_broker_that_first_answers_wrongly_and_then_not_at_all_is_charged_with_the_wrong_answer() -> None:
    answers = iter([success])

    def only_once(command: Any) -> bytes:
        return next(answers, lambda _: b"")(command)

    error = run(Broker(CommandGetLastMessageId, only_once))["get_last_message_id"]
    assert isinstance(error, pulsar.Timeout)
    assert "the last failure was" in str(error)
    assert "it answered AskToGetLastMessageId with CommandSuccess" in str(error)


# A thousand of each, in every state of a connection, a producer and a consumer.

THOUSAND = 1000


def each_a_thousand_times() -> bytes:
    """All that a broker can say that leads to nothing, to whoever is there: ids count from 1 in every client."""
    answers = [
        CommandSuccess(request_id=999_999),
        CommandProducerSuccess(request_id=999_998, producer_name="nobody"),
        CommandGetLastMessageIdResponse(request_id=999_995, last_message_id=MessageIdData(ledgerId=1, entryId=1)),
        CommandAckResponse(request_id=2**64 - 1, consumer_id=2),
        CommandError(request_id=999_997, error=ServerError.UnknownError, message="to nobody"),
        CommandLookupTopicResponse(request_id=999_996, brokerServiceUrl="nonsense://\0", response=1),
    ]
    strangers = [
        CommandSendReceipt(producer_id=777, sequence_id=1),
        CommandSendError(producer_id=777, sequence_id=1, error=ServerError.UnknownError, message=""),
        CommandCloseProducer(producer_id=777, request_id=2**64 - 1),
        CommandCloseConsumer(consumer_id=777, request_id=2**64 - 1),
        CommandReachedEndOfTopic(consumer_id=777),
        CommandActiveConsumerChange(consumer_id=777, is_active=True),
        CommandTopicMigrated(resource_id=777, resource_type=CommandTopicMigrated.Producer, brokerServiceUrl="no://"),
        CommandWatchTopicUpdate(watcher_id=777, topics_hash="x"),
        CommandConnect(client_version="a client's"),
        CommandFlow(consumer_id=1, messagePermits=1),
        CommandPong(),
    ]
    unknown = struct.pack(">II", 7, 3) + b"\x08\xff\x01"
    half = struct.pack(">II", 6, 2) + b"\x08\x11"
    return (b"".join(map(encode_command, [*answers, *strangers])) + unknown + half) * THOUSAND


EXPECTED_KINDS = 6 + 8 + 2 + 2
"""Answers, words to members who are not here, words of clients, and commands that cannot be read."""


@pytest.mark.parametrize("stage", [each for each in STAGES if each is not CommandConnect])
def test_a_thousand_of_each_in_any_state_are_survived_and_have_a_line_each(
    stage: type[Message], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pulsar_actors")
    flood = each_a_thousand_times()

    class Flooding(Broker):
        """Says all that once before its right answer, on one connection."""

        flooded = False

        def _answer(self, client: socket.socket, command: Any) -> bytes:
            right = super()._answer(client, command)
            if type(command) is not stage or self.flooded:
                return right
            self.flooded = True
            return flood + right

    raised = run(Flooding(), patience=20.0)
    assert isinstance(raised.pop("receive"), pulsar.Timeout)
    assert set(raised.values()) == {None}
    odd = [line.getMessage() for line in caplog.records if "nothing more is said" in line.getMessage()]
    assert len(odd) == len(set(odd)) == EXPECTED_KINDS
    assert len([line for line in caplog.records if line.name.startswith("pulsar_actors")]) < EXPECTED_KINDS + 20


@pytest.mark.parametrize("too_early", [CommandSuccess(request_id=1), CommandSendReceipt(producer_id=1, sequence_id=0)])
def test_a_thousand_before_the_broker_has_accepted_end_the_connection_with_one_line(
    too_early: Message, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pulsar_actors")
    raised = run(Broker(CommandConnect, lambda _: encode_command(too_early) * THOUSAND))
    assert all(isinstance(error, pulsar.PulsarException) for name, error in raised.items() if name != "close")
    lost = [line.getMessage() for line in caplog.records if "broke the protocol" in line.getMessage()]
    assert 0 < len(lost) < 40  # one for each connection, of which there are some in the time that each call has


def test_a_broker_that_says_that_all_sequence_ids_are_used_has_sends_refused() -> None:
    used_up = CommandProducerSuccess(producer_name="fake", last_sequence_id=2**63 - 1)

    def say(command: Any) -> bytes:
        used_up.request_id = command.request_id
        return encode_command(used_up)

    assert isinstance(run(Broker(CommandProducer, say))["send"], pulsar.InvalidArgument)
