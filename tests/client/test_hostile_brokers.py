"""Brokers that answer with anything but what they were asked: no call outlives its time, and no actor dies of it."""

import contextlib
import importlib
import logging
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.message import Message

import pulsar_actors as pulsar
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.frames import encode_command, encode_payload_command
from tests.support.life import SOON, FakeBroker, InThread, client_of, until
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


STAGES = (
    pb.CommandConnect, pb.CommandPartitionedTopicMetadata, pb.CommandLookupTopic, pb.CommandProducer, pb.CommandSend,
    pb.CommandSubscribe, pb.CommandFlow, pb.CommandGetLastMessageId, pb.CommandSeek, pb.CommandUnsubscribe,
    pb.CommandCloseProducer,
)  # fmt: skip


def answer(kind: Callable[..., Message], **fields: Any) -> Attack:
    """Answer whatever is asked with a command of this kind."""
    return lambda command: encode_command(kind(request_id=getattr(command, "request_id", 0), **fields))


success = answer(pb.CommandSuccess)
a_producer = answer(pb.CommandProducerSuccess, producer_name="fake")
an_acknowledgement = answer(pb.CommandAckResponse, consumer_id=1)
CLOSES = [pb.CommandCloseProducer(producer_id=1, request_id=7), pb.CommandCloseConsumer(consumer_id=2, request_id=7)]
EMPTY = pb.CommandMessage(consumer_id=2, message_id=pb.MessageIdData(ledgerId=1, entryId=1))
RECEIPTS = [pb.CommandSendReceipt(producer_id=1, sequence_id=number) for number in (2**64 - 1, 12345, 0)]
FLOODS = {
    "garbage": b"\x17\x03\x01" * 100,
    "a frame of four gigabytes": b"\xff\xff\xff\xff\0\0\0\x01",
    "a command larger than its frame": struct.pack(">II", 10, 20) + bytes(20),
    "answers to nothing": b"".join(encode_command(pb.CommandSuccess(request_id=each)) for each in (0, 999, 2**64 - 1)),
    "pings": encode_command(pb.CommandPing()) * 300,
    "closes": b"".join(map(encode_command, CLOSES)) * 100,
    "empty messages": b"".join(bytes(part) for part in encode_payload_command(EMPTY)) * 300,
    "receipts of nothing": b"".join(map(encode_command, RECEIPTS)),
}
ATTACKS: list[Attack] = [
    *(success, a_producer, an_acknowledgement, lambda command: success(command)[:9]),  # the last is half a frame
    *((lambda _, flood=flood: flood) for flood in FLOODS.values()),  # type: ignore[misc]
]


def test_a_broker_that_answers_rightly_lets_everything_succeed() -> None:
    raised = run(Broker(), patience=20.0)
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
        (pb.CommandProducer, success, "create_producer", "CommandSuccess"),
        (pb.CommandSubscribe, a_producer, "subscribe", "CommandProducerSuccess"),
        (pb.CommandGetLastMessageId, success, "get_last_message_id", "CommandSuccess"),
        (pb.CommandSeek, an_acknowledgement, "seek", "CommandAckResponse"),
    ],
)
def test_an_answer_to_another_question_ends_the_connection_and_the_error_says_so(
    stage: type[Message], attack: Attack, call: str, answer: str
) -> None:
    error = run(Broker(stage, attack), patience=3.0)[call]
    assert isinstance(error, (pulsar.Timeout, pulsar.ConnectionLost))
    assert "broke the protocol" in str(error)
    assert answer in str(error)


def test_a_broker_that_never_gets_ready_to_serve_the_topic_is_quoted_when_time_is_up() -> None:
    def not_ready(command: Any) -> bytes:
        failed = pb.CommandLookupTopicResponse.Failed
        error = pb.ServerError.ServiceNotReady
        return encode_command(
            pb.CommandLookupTopicResponse(
                request_id=command.request_id, response=failed, error=error, message="starting"
            )
        )

    raised = run(Broker(pb.CommandLookupTopic, not_ready), patience=3.0)
    for call in ("create_producer", "subscribe"):
        assert isinstance(raised[call], pulsar.Timeout)
        assert "still LOOKING_UP; the last failure was: ServiceNotReady: starting" in str(raised[call])


def test_a_broker_that_first_answers_wrongly_and_then_not_at_all_is_charged_with_the_wrong_answer() -> None:
    answers = iter([success])

    def only_once(command: Any) -> bytes:
        return next(answers, lambda _: b"")(command)

    error = run(Broker(pb.CommandGetLastMessageId, only_once))["get_last_message_id"]
    assert isinstance(error, pulsar.Timeout)
    assert "the last failure was" in str(error)
    assert "it answered AskToGetLastMessageId with CommandSuccess" in str(error)


# A thousand of each, in every state of a connection, a producer and a consumer.

THOUSAND = 1000


def each_a_thousand_times() -> bytes:
    """All that a broker can say that leads to nothing, to whoever is there: ids count from 1 in every client."""
    answers = [
        pb.CommandSuccess(request_id=999_999),
        pb.CommandProducerSuccess(request_id=999_998, producer_name="nobody"),
        pb.CommandGetLastMessageIdResponse(request_id=999_995, last_message_id=pb.MessageIdData(ledgerId=1, entryId=1)),
        pb.CommandAckResponse(request_id=2**64 - 1, consumer_id=2),
        pb.CommandError(request_id=999_997, error=pb.ServerError.UnknownError, message="to nobody"),
        pb.CommandLookupTopicResponse(request_id=999_996, brokerServiceUrl="nonsense://\0", response=1),
    ]
    strangers = [
        pb.CommandSendReceipt(producer_id=777, sequence_id=1),
        pb.CommandSendError(producer_id=777, sequence_id=1, error=pb.ServerError.UnknownError, message=""),
        pb.CommandCloseProducer(producer_id=777, request_id=2**64 - 1),
        pb.CommandCloseConsumer(consumer_id=777, request_id=2**64 - 1),
        pb.CommandReachedEndOfTopic(consumer_id=777),
        pb.CommandActiveConsumerChange(consumer_id=777, is_active=True),
        pb.CommandTopicMigrated(
            resource_id=777, resource_type=pb.CommandTopicMigrated.Producer, brokerServiceUrl="no://"
        ),
        pb.CommandWatchTopicUpdate(watcher_id=777, topics_hash="x"),
        pb.CommandConnect(client_version="a client's"),
        pb.CommandFlow(consumer_id=1, messagePermits=1),
        pb.CommandPong(),
    ]
    unknown = struct.pack(">II", 7, 3) + b"\x08\xff\x01"
    half = struct.pack(">II", 6, 2) + b"\x08\x11"
    return (b"".join(map(encode_command, [*answers, *strangers])) + unknown + half) * THOUSAND


EXPECTED_KINDS = 6 + 8 + 2 + 2
"""Answers, words to members who are not here, words of clients, and commands that cannot be read."""


@pytest.mark.parametrize("stage", [each for each in STAGES if each is not pb.CommandConnect])
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
    odd = [line.getMessage() for line in caplog.records if "further ones are not logged" in line.getMessage()]
    assert len(odd) == len(set(odd)) == EXPECTED_KINDS
    assert len([line for line in caplog.records if line.name.startswith("pulsar_actors")]) < EXPECTED_KINDS + 20


@pytest.mark.parametrize(
    "too_early", [pb.CommandSuccess(request_id=1), pb.CommandSendReceipt(producer_id=1, sequence_id=0)]
)
def test_a_thousand_before_the_broker_has_accepted_end_the_connection_with_one_line(
    too_early: Message, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pulsar_actors")
    raised = run(Broker(pb.CommandConnect, lambda _: encode_command(too_early) * THOUSAND))
    assert all(isinstance(error, pulsar.PulsarException) for name, error in raised.items() if name != "close")
    lost = [line.getMessage() for line in caplog.records if "broke the protocol" in line.getMessage()]
    assert 0 < len(lost) < 40  # one for each connection, of which there are some in the time that each call has


def test_a_broker_that_says_that_all_sequence_ids_are_used_has_sends_refused() -> None:
    used_up = pb.CommandProducerSuccess(producer_name="fake", last_sequence_id=2**63 - 1)

    def say(command: Any) -> bytes:
        used_up.request_id = command.request_id
        return encode_command(used_up)

    assert isinstance(run(Broker(pb.CommandProducer, say), patience=20.0)["send"], pulsar.InvalidArgument)


# Of topics and partitions.

HERE = "persistent://public/default/"
EVERYTHING = re.compile("public/default/.*")
NONSENSE = ["", "persistent://a", "garbage://x/y/z", "a/b/c/d/e", "persistent://public//x", "\0"]


class Lister(Broker):
    """Lists topics, each with so many partitions, and lets them be watched."""

    def __init__(self, topics: list[str], partitions: int = 0) -> None:
        super().__init__()
        self.topics = topics
        self.partitions = partitions
        self.lists = 0
        self.stir = pb.CommandWatchTopicUpdate(topics_hash="stirred")

    def begin(self, client: Any) -> None:
        threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def _right_answer(self, client: Any, command: Any) -> Message | None:
        number = getattr(command, "request_id", 0)
        match command:
            case pb.CommandConnect():
                accepted = pb.CommandConnected(server_version="fake", protocol_version=21)
                accepted.feature_flags.supports_topic_watchers = True
                return accepted
            case pb.CommandGetTopicsOfNamespace():
                self.lists += 1
                return pb.CommandGetTopicsOfNamespaceResponse(topics=self.topics, request_id=number)
            case pb.CommandPartitionedTopicMetadata():
                done = pb.CommandPartitionedTopicMetadataResponse.Success
                return pb.CommandPartitionedTopicMetadataResponse(
                    partitions=self.partitions, response=done, request_id=number
                )
            case pb.CommandWatchTopicList(watcher_id=watcher):
                client.sendall(
                    encode_command(
                        pb.CommandWatchTopicListSuccess(
                            watcher_id=watcher, topic=self.topics, topics_hash="0", request_id=number
                        )
                    )
                )
                self.stir.watcher_id = watcher
                client.sendall(encode_command(self.stir))
                return None
        return super()._right_answer(client, command)


def test_what_is_listed_and_is_no_name_is_passed_over() -> None:
    lister = Lister([*NONSENSE, f"{HERE}a"])
    lister.stir.new_topics.extend(["nonsense://x", f"{HERE}b"])
    lister.stir.deleted_topics.append("nonsense://y")
    with FakeBroker(lister.begin) as fake, client_of(fake.service_url, operation_timeout_seconds=SOON) as client:
        consumer = InThread(lambda: client.subscribe(EVERYTHING, "s")).result()
        assert consumer.is_connected()
        lister.topics.append(f"{HERE}b")
        until(lambda: consumer.stats().permits == 2000, "a second member")


@pytest.mark.parametrize("topic", ["t", ["t", "u"], EVERYTHING], ids=["one", "several", "pattern"])
def test_more_partitions_than_there_can_be_are_refused_and_not_made(topic: Any) -> None:
    with FakeBroker(Lister([f"{HERE}t"], 2**32 - 1).begin) as fake, client_of(fake.service_url) as client:
        error = InThread(lambda: client.subscribe(topic, "s")).error()
        assert "4,294,967,295 partitions" in str(error)
        assert isinstance(error, pulsar.LookupError)
        if isinstance(topic, str):
            assert isinstance(InThread(lambda: client.create_producer(topic)).error(), pulsar.LookupError)
            assert isinstance(InThread(lambda: client.get_topic_partitions(topic)).error(), pulsar.LookupError)


# A broker of years ago, and either client at it: what it does not know is not said to it.

SILENT = logging.getLogger("silent-client")
SILENT.setLevel(logging.CRITICAL + 1)
VERSION = 7


class OldBroker(Broker):
    """Speaks an old version of the protocol, and keeps what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Any] = []

    def _right_answer(self, client: socket.socket, command: Any) -> Message | None:
        self.heard.append(command)
        if isinstance(command, pb.CommandConnect):
            return pb.CommandConnected(server_version="old", protocol_version=VERSION)
        if isinstance(command, pb.CommandSubscribe):  # the official client counts its requests from 0
            return pb.CommandSuccess(request_id=command.request_id)
        return super()._right_answer(client, command)

    def was_asked(self, kind: type[Message]) -> bool:
        return any(isinstance(each, kind) for each in self.heard)


def acknowledge_and_wait(pulsar: Any, client: Any) -> None:
    consumer = client.subscribe("t", "s", ack_receipt_enabled=True)
    consumer.acknowledge(pulsar.MessageId(-1, 1, 1, -1))


CALLS: dict[str, tuple[type[Message], Callable[[Any, Any], Any]]] = {
    "the last message": (
        pb.CommandGetLastMessageId,
        lambda _, client: client.subscribe("t", "s").get_last_message_id(),
    ),
    "what it counts": (
        pb.CommandConsumerStats,
        lambda _, client: client.subscribe("t", "s").get_broker_consumer_stats(),
    ),
    "a receipt": (pb.CommandAck, acknowledge_and_wait),
}


@pytest.mark.shows("Connection establishment", "newer commands are not sent")
@pytest.mark.parametrize(
    ("module", "call"), [("pulsar", "the last message"), *(("pulsar_actors", call) for call in CALLS)]
)
def test_what_came_later_than_the_brokers_version_is_not_sent_and_the_call_says_so(module: str, call: str) -> None:
    pulsar, broker = importlib.import_module(module), OldBroker()
    kind, ask = CALLS[call]
    with FakeBroker(broker.serve) as fake, contextlib.closing(pulsar.Client(fake.service_url, logger=SILENT)) as client:
        with pytest.raises(pulsar.UnsupportedVersionError):
            ask(pulsar, client)
        assert client.create_producer("t").send(b"it goes on") is not None
    assert broker.was_asked(pb.CommandSubscribe)
    assert not broker.was_asked(kind)


def test_a_pattern_at_a_broker_that_cannot_list_topics_says_why_when_its_time_is_up() -> None:
    pulsar, broker = importlib.import_module("pulsar_actors"), OldBroker()
    with (
        FakeBroker(broker.serve) as fake,
        contextlib.closing(pulsar.Client(fake.service_url, operation_timeout_seconds=1)) as client,
        pytest.raises(pulsar.PulsarException, match="CommandGetTopicsOfNamespace came with version 12"),
    ):
        client.subscribe(re.compile("persistent://public/default/.*"), "s")
    assert not broker.was_asked(pb.CommandGetTopicsOfNamespace)
