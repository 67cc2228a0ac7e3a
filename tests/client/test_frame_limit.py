"""Brokers that take less than usual: what is too large for them is said to be so, and costs nobody the connection."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import pulsar_actors as pulsar
from pulsar_actors.broker import Settings
from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.support.life import MILLISECONDS, InThread, client_of, nothing_left, until

LONG = "x" * 20_000
"""More than fits a frame of 10 KiB and 2,000 bytes."""


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with nothing_left(), EmbeddedBroker(settings=Settings(max_message_size=2000)) as broker:
        yield broker


CALLS: dict[str, Callable[[pulsar.Client], Any]] = {
    "get_topic_partitions": lambda client: client.get_topic_partitions(LONG),
    "a producer's topic": lambda client: client.create_producer(LONG),
    "a producer's name": lambda client: client.create_producer("t", LONG),
    "a producer's properties": lambda client: client.create_producer("t", properties={"a": LONG}),
    "a subscription": lambda client: client.subscribe("t", LONG),
    "a consumer's name": lambda client: client.subscribe("t", "s", consumer_name=LONG),
    "a consumer's properties": lambda client: client.subscribe("t", "s", properties={LONG: "b"}),
    "a subscription's properties": lambda client: client.subscribe("t", "s", subscription_properties={"a": LONG}),
    "one topic of several": lambda client: client.subscribe(["t", LONG], "s"),
    "a reader's name": lambda client: client.create_reader("t", pulsar.MessageId.earliest, reader_name=LONG),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_command_that_is_too_large_for_the_broker_fails_the_call_at_once_and_nobody_else(
    broker: EmbeddedBroker, call: str
) -> None:
    with client_of(broker.service_url) as client:
        producer = client.create_producer("t")
        error = InThread(lambda: CALLS[call](client)).error()
        assert isinstance(error, pulsar.InvalidArgument)
        assert "the broker takes 12,176 at most" in str(error)
        producer.send(b"x")
        assert producer.stats().reconnects == 0


@pytest.mark.parametrize(
    "extras",
    [{"properties": {"a": LONG}}, {"properties": {LONG: "b"}}, {"partition_key": LONG}, {"ordering_key": LONG}],
    ids=["value", "property", "partition_key", "ordering_key"],
)
@pytest.mark.parametrize("options", [{}, {"batching_enabled": True}, {"chunking_enabled": True}], ids=repr)
def test_a_message_whose_keys_or_properties_are_too_large_fails_alone(
    broker: EmbeddedBroker, extras: dict[str, Any], options: dict[str, Any]
) -> None:
    with client_of(broker.service_url) as client:
        producer = client.create_producer("t", **options)
        sent: list[tuple[pulsar.Result, Any]] = []
        for content, more in ((b"before", {}), (b"large", extras), (b"after", {})):
            producer.send_async(content, lambda result, where: sent.append((result, where)), **more)
        producer.flush()
        assert sorted(result.name for result, _ in sent) == ["MessageTooBig", "Ok", "Ok"]
        assert producer.stats().reconnects == 0
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        assert [reader.read_next(5000).data() for _ in range(2)] == [b"before", b"after"]


ROOMY, SMALL = 100_000, 10_000
"""The limits of a broker, and of the one that takes over."""

PACKED: dict[str, tuple[dict[str, Any], list[bytes], str, int]] = {
    "alone": ({}, [b"a", os.urandom(30_000), b"b", os.urandom(9_900)], "Ok MessageTooBig Ok Ok", 4),
    "compressed": (
        {"compression_type": pulsar.CompressionType.ZLib},
        [bytes(30_000), os.urandom(30_000), b"a"],
        "Ok MessageTooBig Ok",
        3,
    ),
    "in batches": (
        {"batching_enabled": True, "batching_max_messages": 2},
        [b"a", b"b", os.urandom(6_000), os.urandom(6_000), b"c", os.urandom(6_000)],
        "Ok Ok MessageTooBig MessageTooBig Ok Ok",
        3,
    ),
    "in chunks": (
        {"chunking_enabled": True, "chunk_max_message_size": 20_000},
        [os.urandom(50_000), b"a", os.urandom(12_000)],
        "MessageTooBig Ok MessageTooBig",
        5,
    ),
    "in small chunks": (
        {"chunking_enabled": True, "chunk_max_message_size": 9_000},
        [os.urandom(50_000), b"a"],
        "Ok Ok",
        7,
    ),
    "encrypted": ({"encryption_key": "k"}, [os.urandom(9_900), os.urandom(9_000)], "MessageTooBig Ok", 2),
}
"""Options of a producer, its messages, what becomes of them, and in how many frames they were written."""


class PublicKey(pulsar.EncryptionKeyReader):
    """A key reader of one pair."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048).public_key()

    def get_public_key(self, name: str, metadata: Any) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_bytes(serialization.Encoding.PEM, form)

    def get_private_key(self, name: str, metadata: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("kind", PACKED)
def test_what_is_too_large_for_a_broker_that_takes_over_fails_and_the_rest_is_stored_in_order(kind: str) -> None:
    options, contents, expected, frames = PACKED[kind]
    reader = {"crypto_key_reader": PublicKey()} if "encryption_key" in options else {}
    with nothing_left(), contextlib.ExitStack() as stack:
        first = stack.enter_context(EmbeddedBroker(settings=Settings(max_message_size=ROOMY)))
        url = first.service_url
        client = stack.enter_context(client_of(url, initial_backoff_interval_ms=100, max_backoff_interval_ms=200))
        producer = client.create_producer("t", send_timeout_millis=0, **options, **reader)
        other = client.create_producer("other")
        lost = first.faults.on("send", times=None).drop()
        told: list[tuple[bytes, pulsar.Result]] = []
        for content in contents:
            producer.send_async(content, lambda result, _, content=content: told.append((content, result)))
        lost.wait(frames)
        first.stop()
        settings = Settings(max_message_size=SMALL)
        second = EmbeddedBroker(port=int(url.rpartition(":")[2]), settings=settings)
        stack.callback(second.stop)
        second.start()
        until(lambda: len(told) == len(contents), "the end of all messages")
        outcomes = dict(told)
        assert " ".join(outcomes[content].name for content in contents) == expected
        other.send(b"x")
        assert (producer.stats().reconnects, other.stats().reconnects) == (1, 1)
        stored = [content for content in contents if outcomes[content] is pulsar.Result.Ok]
        crypto = {"crypto_failure_action": pulsar.ConsumerCryptoFailureAction.CONSUME} if reader else {}
        there = client.create_reader("t", pulsar.MessageId.earliest, **crypto)
        found = [there.read_next(MILLISECONDS) for _ in stored]
        assert not there.has_message_available()
        assert reader or [message.data() for message in found] == stored
