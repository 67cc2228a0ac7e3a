"""End-to-end encryption: who can read a message, and what happens to one that nobody here can decrypt."""

import pickle
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pulsar as official
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import pulsar_actors as pulsar
from pulsar_actors import asyncio as aio
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.machines.trackers import negative_acks_tracker
from pulsar_actors.runtime import message_crypto
from pulsar_actors.schema import JsonSchema, KeyValueEncodingType, KeyValueSchema, Record, String, StringSchema
from tests.support import topics
from tests.support.life import InThread, until
from tests.support.loops import Run

SOON = 10_000
EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
Action = pulsar.ConsumerCryptoFailureAction
PRIVATE = serialization.PrivateFormat
PLAIN = serialization.NoEncryption()
PEM = serialization.Encoding.PEM


class Files:
    """The files of a pair of keys."""

    def __init__(self, folder: Path, name: str, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> None:
        self.public, self.private = str(folder / f"{name}-public.pem"), str(folder / f"{name}-private.pem")
        public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        Path(self.public).write_bytes(public)
        Path(self.private).write_bytes(key.private_bytes(PEM, PRIVATE.TraditionalOpenSSL, PLAIN))
        self.reader = pulsar.CryptoKeyReader(self.public, self.private)
        self.official_reader = official.CryptoKeyReader(self.public, self.private)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def keys(folder: Path) -> Files:
    return Files(folder, "rsa", rsa.generate_private_key(65537, 2048))


@pytest.fixture(scope="module")
def others(folder: Path) -> Files:
    return Files(folder, "ec", ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture(scope="module")
def theirs(broker: EmbeddedBroker) -> Any:
    client = official.Client(broker.service_url, logger=official.ConsoleLogger(official.LoggerLevel.Error))
    yield client
    client.close()


class Scripted(pulsar.EncryptionKeyReader):
    """A reader of a user, which is asked for private keys in a way that the test chooses."""

    def __init__(self, answer: Callable[[str, Mapping[str, str]], Any], public: Any = None) -> None:
        self.answer = answer
        self.public = public
        self.asked: list[tuple[str, dict[str, str]]] = []

    def get_public_key(self, name: str, metadata: Mapping[str, str]) -> Any:
        return self.public

    def get_private_key(self, name: str, metadata: Mapping[str, str]) -> Any:
        self.asked.append((name, dict(metadata)))
        return self.answer(name, metadata)


def nothing_comes(consumer: pulsar.Consumer) -> bool:
    with pytest.raises(pulsar.Timeout):
        consumer.receive(200)
    return True


def stored_in(client: pulsar.Client, topic: str, **options: Any) -> pulsar.Message:
    """Read the topic's first entry as it is stored."""
    with client.create_reader(
        topic, pulsar.MessageId.earliest, crypto_failure_action=Action.CONSUME, **options
    ) as reader:
        return reader.read_next(SOON)


KINDS: dict[str, dict[str, Any]] = {
    "single": {},
    "batched": {"batching_enabled": True},
    "chunked": {"chunking_enabled": True, "chunk_max_message_size": 100},
    "compressed": {"compression_type": pulsar.CompressionType.ZLib},
    "compressed batches": {"compression_type": pulsar.CompressionType.LZ4, "batching_enabled": True},
    "compressed chunks": {
        "compression_type": pulsar.CompressionType.ZLib, "chunking_enabled": True, "chunk_max_message_size": 5,
    },
}  # fmt: skip


@pytest.fixture(params=["keys", "others"], ids=["RSA", "EC"])
def pair(request: pytest.FixtureRequest) -> Files:
    pair = request.getfixturevalue(request.param)
    assert isinstance(pair, Files)
    return pair


@pytest.mark.parametrize("kind", KINDS)
def test_who_has_the_private_key_reads_what_was_sent(client: pulsar.Client, pair: Files, topic: str, kind: str) -> None:
    consumer = client.subscribe(topic, "s", crypto_key_reader=pair.reader)
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=pair.reader, **KINDS[kind])
    for number in range(3):
        producer.send_async(f"{number}".encode() * 250, None, {"a": "b"}, "key")
    producer.flush()
    for number in range(3):
        message = consumer.receive(SOON)
        assert message.data() == f"{number}".encode() * 250
        assert (message.properties(), message.partition_key()) == ({"a": "b"}, "key")
        context = message.encryption_context()
        assert context is not None
        assert not context.is_decryption_failed()
        (key,) = context.keys()
        assert key.key == "k"
        consumer.acknowledge(message)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_sent_in_the_clear(client: pulsar.Client, keys: Files, topic: str, kind: str) -> None:
    with client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader, **KINDS[kind]) as producer:
        producer.send(b"secret" * 100)
    if "chunk" in kind:  # undecryptable chunks are not delivered
        return
    stored = stored_in(client, topic)
    context = stored.encryption_context()
    assert context is not None
    assert context.is_decryption_failed()
    assert b"secret" not in stored.data()
    assert context.batch_size() == (1 if "batch" in kind else -1)
    assert len(context.param()) == 12


@pytest.mark.parametrize("kind", KINDS)
def test_the_official_client_reads_ours(
    client: pulsar.Client, theirs: official.Client, keys: Files, topic: str, kind: str
) -> None:
    consumer = theirs.subscribe(topic, "s", crypto_key_reader=keys.official_reader)
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader, **KINDS[kind])
    for number in range(3):
        producer.send_async(f"{number}".encode() * 250)
    producer.flush()
    assert [consumer.receive(SOON).data() for _ in range(3)] == [f"{number}".encode() * 250 for number in range(3)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "chunk" not in kind])
def test_we_read_the_official_clients(
    client: pulsar.Client, theirs: official.Client, keys: Files, topic: str, kind: str
) -> None:
    options = dict(KINDS[kind])
    if "compression_type" in options:
        options["compression_type"] = getattr(official.CompressionType, options["compression_type"].name)
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys.reader)
    producer = theirs.create_producer(topic, encryption_key="k", crypto_key_reader=keys.official_reader, **options)
    for number in range(3):
        producer.send_async(f"{number}".encode() * 250, lambda *_: None)
    producer.flush()
    assert [consumer.receive(SOON).data() for _ in range(3)] == [f"{number}".encode() * 250 for number in range(3)]


def test_we_read_the_official_clients_chunks(
    client: pulsar.Client, theirs: official.Client, keys: Files, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys.reader)
    producer = theirs.create_producer(
        topic, encryption_key="k", crypto_key_reader=keys.official_reader, chunking_enabled=True
    )
    content = bytes(range(256)) * 50_000
    producer.send(content)
    assert consumer.receive(SOON).data() == content


def test_each_of_several_keys_decrypts(client: pulsar.Client, keys: Files, others: Files, topic: str) -> None:
    names = {"first": keys, "second": others}
    reader = pulsar.NamedCryptoKeyReader({name: one.public for name, one in names.items()})
    consumers = [
        client.subscribe(topic, name, crypto_key_reader=pulsar.NamedCryptoKeyReader(None, {name: one.private}))
        for name, one in names.items()
    ]
    client.create_producer(topic, encryption_keys=list(names), crypto_key_reader=reader).send(b"for both")
    assert [one.receive(SOON).data() for one in consumers] == [b"for both"] * 2


def test_a_users_reader_gets_the_metadata_of_the_producers(client: pulsar.Client, keys: Files, topic: str) -> None:
    private, public = Path(keys.private).read_bytes(), Path(keys.public).read_bytes()
    reader = Scripted(lambda *_: private, pulsar.EncryptionKeyInfo(public, {"version": "7"}))
    consumer = client.subscribe(topic, "s", crypto_key_reader=reader)
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=reader)
    for content in (b"1", b"2"):
        producer.send(content)
        message = consumer.receive(SOON)
        assert message.data() == content
        context = message.encryption_context()
        assert context is not None
        assert context.keys()[0].metadata == {"version": "7"}
    assert reader.asked == [("k", {"version": "7"})]  # the data key is kept


def test_a_slow_key_reader_holds_up_nobody_else(client: pulsar.Client, keys: Files, topic: str) -> None:
    go_on = threading.Event()
    private = Path(keys.private).read_bytes()
    consumer = client.subscribe(topic, "s", crypto_key_reader=Scripted(lambda *_: go_on.wait(SOON / 1000) and private))
    other = client.subscribe(f"{topic}-other", "s")
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader)
    for content in (b"1", b"2"):
        producer.send(content)
    client.create_producer(f"{topic}-other").send(b"x")
    assert other.receive(SOON).data() == b"x"
    future = consumer.receive_async()
    assert not future.done()
    go_on.set()
    assert future.result(SOON / 1000).data() == b"1"
    assert consumer.receive(SOON).data() == b"2"


def test_a_producer_replaces_its_data_key_and_consumers_follow(
    client: pulsar.Client, keys: Files, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_crypto, "DATA_KEY_LIFETIME", 0.0)
    monkeypatch.setattr(message_crypto, "RETRY_AFTER", 0.0)
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys.reader)
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader)
    wrapped = set[bytes]()

    def is_replaced() -> bool:
        producer.send(b"x")
        message = consumer.receive(SOON)
        context = message.encryption_context()
        assert (message.data(), context is not None) == (b"x", True)
        if context is not None:
            wrapped.add(context.keys()[0].value)
        return len(wrapped) > 2

    until(is_replaced)


def test_a_public_key_that_cannot_be_read_any_more_leaves_the_data_key_in_use(
    client: pulsar.Client, keys: Files, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(message_crypto, "DATA_KEY_LIFETIME", 0.0)
    monkeypatch.setattr(message_crypto, "RETRY_AFTER", 0.0)
    reader = Scripted(lambda *_: None, Path(keys.public).read_bytes())
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys.reader)
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=reader)
    reader.public = None

    def is_logged() -> bool:
        producer.send(b"x")
        message = consumer.receive(SOON)
        assert message.data() == b"x"
        assert message.encryption_context() is not None
        return "was not replaced, and stays in use" in caplog.text

    until(is_logged)


# What cannot be decrypted.


def test_without_a_key_a_message_is_neither_delivered_nor_acknowledged(
    broker: EmbeddedBroker, client: pulsar.Client, keys: Files, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=SHARED)
    client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader).send(b"secret")
    client.create_producer(topic).send(b"plain")
    assert consumer.receive(SOON).data() == b"plain"
    assert nothing_comes(consumer)
    assert consumer.stats().undecryptable == 1
    assert topics.backlog(broker, topic) == 2
    consumer.close()
    consumer = client.subscribe(topic, "s", consumer_type=SHARED, crypto_key_reader=keys.reader)
    assert {consumer.receive(SOON).data() for _ in range(2)} == {b"secret", b"plain"}


def test_a_key_that_comes_later_rescues_more_messages_than_the_queue_holds(
    client: pulsar.Client, keys: Files, topic: str
) -> None:
    found: list[bytes] = []
    reader = Scripted(lambda *_: found[0] if found else None)
    consumer = client.subscribe(
        topic, "s", consumer_type=SHARED, crypto_key_reader=reader, unacked_messages_timeout_ms=100,
        receiver_queue_size=2,
    )  # fmt: skip
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader)
    for number in range(6):
        producer.send(b"%d" % number)
    until(lambda: len(reader.asked) > 8, "entries come again")
    found.append(Path(keys.private).read_bytes())
    received = set[bytes]()
    while len(received) < 6:
        message = consumer.receive(SOON)
        consumer.acknowledge(message)
        received.add(message.data())


@pytest.mark.parametrize("kind", KINDS)
def test_discard_acknowledges_and_goes_on(
    broker: EmbeddedBroker, client: pulsar.Client, keys: Files, topic: str, kind: str
) -> None:
    consumer = client.subscribe(topic, "s", crypto_failure_action=Action.DISCARD, receiver_queue_size=4)
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader, **KINDS[kind])
    for _ in range(20):
        producer.send_async(b"secret" * 100)
    producer.flush()
    client.create_producer(topic).send(b"plain")
    message = consumer.receive(SOON)
    assert message.data() == b"plain"
    consumer.acknowledge(message)
    until(lambda: topics.backlog(broker, topic) == 0, "all are acknowledged")


def test_consume_delivers_entries_as_they_were_stored(
    broker: EmbeddedBroker, client: pulsar.Client, keys: Files, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "s", crypto_failure_action=Action.CONSUME, receiver_queue_size=10, schema=pulsar.StringSchema(),
        consumer_type=SHARED,
    )  # fmt: skip
    producer = client.create_producer(
        topic, encryption_key="k", crypto_key_reader=keys.reader, batching_enabled=True, schema=pulsar.StringSchema(),
        compression_type=pulsar.CompressionType.ZLib, batching_max_messages=10, batching_max_publish_delay_ms=10_000,
    )  # fmt: skip
    for _ in range(100):
        producer.send_async("secret")
    producer.flush()
    for _ in range(10):
        message = consumer.receive(SOON)
        context = message.encryption_context()
        assert context is not None
        assert (context.batch_size(), context.is_decryption_failed()) == (10, True)
        assert context.compression_type() is pulsar.CompressionType.ZLib
        assert context.uncompressed_message_size() > 0
        assert message.message_id().batch_index() == -1
        consumer.acknowledge(message)
    until(lambda: topics.backlog(broker, topic) == 0, "whole entries are acknowledged")


def test_the_reader_of_one_topic_and_the_consumer_of_several_decrypt(
    client: pulsar.Client, keys: Files, parts: str, topic: str
) -> None:
    producer = client.create_producer(parts, encryption_key="k", crypto_key_reader=keys.reader)
    consumer = client.subscribe(parts, "s", crypto_key_reader=keys.reader, initial_position=EARLIEST)
    reader = client.create_reader(parts, pulsar.MessageId.earliest, crypto_key_reader=keys.reader)
    sent = {b"%d" % number for number in range(10)}
    for content in sent:
        producer.send(content)
    assert {consumer.receive(SOON).data() for _ in sent} == sent
    assert {reader.read_next(SOON).data() for _ in sent} == sent
    assert not reader.has_message_available()


# Letters.


@pytest.mark.parametrize("kind", KINDS)
def test_retry_letters_and_dead_letters_stay_encrypted(
    client: pulsar.Client, keys: Files, topic: str, kind: str
) -> None:
    private = pulsar.NamedCryptoKeyReader(None, {"k": keys.private})  # no public key is needed
    consumer = client.subscribe(
        topic, "s", consumer_type=SHARED, enable_retry=True, crypto_key_reader=private,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, initial_subscription_name="d"),
    )  # fmt: skip
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader, **KINDS[kind])
    producer.send(b"secret" * 100, {"a": "b"})
    for _ in range(2):
        message = consumer.receive(SOON)
        assert message.data() == b"secret" * 100
        consumer.reconsume_later(message, 0)
    letter = client.subscribe(f"{topic}-s-DLQ", "d", crypto_key_reader=private).receive(SOON)
    assert (letter.data(), letter.properties()["a"]) == (b"secret" * 100, "b")
    assert b"secret" not in stored_in(client, f"{topic}-s-RETRY").data()
    assert b"secret" not in stored_in(client, f"{topic}-s-DLQ").data()


def test_what_fails_too_often_is_a_dead_letter_and_stays_encrypted(
    client: pulsar.Client, keys: Files, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=SHARED, crypto_key_reader=keys.reader, negative_ack_redelivery_delay_ms=10,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, initial_subscription_name="d"),
    )  # fmt: skip
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader)
    producer.send(b"secret")
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(SOON))
    letter = client.subscribe(f"{topic}-s-DLQ", "d", crypto_key_reader=keys.reader).receive(SOON)
    assert letter.data() == b"secret"
    assert letter.encryption_context() is not None


def test_what_nobody_can_decrypt_is_no_dead_letter_until_there_is_a_key(  # noqa: PLR0913 - fixtures
    broker: EmbeddedBroker,
    client: pulsar.Client,
    keys: Files,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(negative_acks_tracker, "SHORTEST_SET_ASIDE", 0.1)
    found: list[bytes] = []
    reader = Scripted(lambda *_: found[0] if found else None)
    consumer = client.subscribe(
        topic, "s", consumer_type=SHARED, crypto_key_reader=reader, unacked_messages_timeout_ms=20,
        negative_ack_redelivery_delay_ms=10,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(2, initial_subscription_name="d"),
    )  # fmt: skip
    letters = client.subscribe(f"{topic}-s-DLQ", "d", crypto_key_reader=keys.reader)
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader, batching_enabled=True)
    for number in range(3):
        producer.send_async(b"%d" % number, None, {"a": "b"})
    producer.flush()
    until(lambda: len(reader.asked) > 3, "it came more often than is allowed")
    assert nothing_comes(letters)
    assert topics.backlog(broker, topic) > 0
    assert caplog.text.count("cannot be decrypted") == consumer.stats().undecryptable == 1
    found.append(Path(keys.private).read_bytes())
    received = [letters.receive(SOON) for _ in range(3)]
    assert {(one.data(), one.properties()["a"]) for one in received} == {(b"%d" % one, "b") for one in range(3)}
    until(lambda: topics.backlog(broker, topic) == 0)
    assert nothing_comes(consumer)


def test_all_ways_to_receive_decrypt(client: pulsar.Client, keys: Files, topic: str) -> None:
    heard: list[bytes] = []
    client.subscribe(
        topic, "listener", crypto_key_reader=keys.reader, message_listener=lambda _, one: heard.append(one.data())
    )
    options: dict[str, Any] = {"crypto_key_reader": keys.reader, "initial_position": EARLIEST}
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader)
    for content in (b"1", b"2"):
        producer.send(content)
    several = client.subscribe(topic, "batch", **options)
    until(lambda: [one.data() for one in several.batch_receive()][:1] == [b"1"])
    assert client.subscribe(topic, "future", **options).receive_async().result(SOON / 1000).data() == b"1"
    assert client.subscribe(topic, "one", receiver_queue_size=0, **options).receive(SOON).data() == b"1"
    assert client.subscribe([topic, f"{topic}-x"], "several", **options).receive(SOON).data() == b"1"
    pattern = client.subscribe(re.compile(topic), "pattern", **options)
    assert pattern.receive(SOON).data() == b"1"
    for reader in (
        client.create_reader(topic, pulsar.MessageId.earliest, crypto_key_reader=keys.reader),
        client.create_reader([topic], pulsar.MessageId.earliest, crypto_key_reader=keys.reader),
    ):
        assert [reader.read_next(SOON).data() for _ in range(2)] == [b"1", b"2"]
        assert not reader.has_message_available()
        reader.seek(pulsar.MessageId.earliest)
        assert reader.read_next(SOON).data() == b"1"
    until(lambda: heard == [b"1", b"2"])


# What is refused.


def test_a_producer_with_a_broken_key_is_refused_with_the_name_and_the_reason(
    client: pulsar.Client, keys: Files, folder: Path, topic: str
) -> None:
    broken = folder / "broken.pem"
    broken.write_bytes(b"-----BEGIN PUBLIC KEY-----\nMATERIAL\n-----END PUBLIC KEY-----\n")
    for path, reason in (
        (str(folder / "missing.pem"), "No such file"),
        (str(broken), "it is not a public key"),
        (keys.private, "it is not a public key"),
    ):
        with pytest.raises(pulsar.CryptoError, match=f"'the key'.*{reason}") as raised:
            client.create_producer(topic, encryption_key="the key", crypto_key_reader=pulsar.CryptoKeyReader(path, ""))
        error: BaseException | None = raised.value
        while error is not None:
            assert "MATERIAL" not in str(error)
            error = error.__context__


def test_send_publishes_in_the_clear_what_cannot_be_encrypted(
    client: pulsar.Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, encryption_key="k", crypto_key_reader=pulsar.CryptoKeyReader("missing", ""),
        crypto_failure_action=pulsar.ProducerCryptoFailureAction.SEND,
    )  # fmt: skip
    producer.send(b"in the clear")
    assert consumer.receive(SOON).data() == b"in the clear"
    assert "is sent unencrypted" in caplog.text


def test_send_encrypts_as_soon_as_the_key_can_be_read(
    client: pulsar.Client, keys: Files, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_crypto, "RETRY_AFTER", 0.0)
    reader = Scripted(lambda *_: None)
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys.reader)
    producer = client.create_producer(
        topic, encryption_key="k", crypto_key_reader=reader,
        crypto_failure_action=pulsar.ProducerCryptoFailureAction.SEND,
    )  # fmt: skip
    reader.public = Path(keys.public).read_bytes()

    def is_encrypted() -> bool:
        producer.send(b"x")
        message = consumer.receive(SOON)
        assert message.data() == b"x"
        return message.encryption_context() is not None

    until(is_encrypted)


def test_a_key_without_a_reader_encrypts_nothing_and_is_refused(client: pulsar.Client, keys: Files, topic: str) -> None:
    with pytest.raises(pulsar.InvalidConfiguration, match="go together"):
        client.create_producer(topic, encryption_key="k")
    with pytest.raises(pulsar.InvalidConfiguration, match="go together"):
        client.create_producer(topic, crypto_key_reader=keys.reader)


def test_without_cryptography_the_error_names_the_extra(
    client: pulsar.Client, keys: Files, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    for ask in (
        lambda: client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader),
        lambda: client.subscribe(topic, "s", crypto_key_reader=keys.reader),
        lambda: client.create_reader(topic, pulsar.MessageId.earliest, crypto_key_reader=keys.reader),
    ):
        with pytest.raises(pulsar.CryptoError, match=r"pulsar-actors\[encryption\]"):
            ask()


def test_a_key_is_in_no_text_and_no_pickle(keys: Files) -> None:
    info = pulsar.EncryptionKeyInfo(b"MATERIAL", {"a": "b"})
    assert "MATERIAL" not in repr(info)
    with pytest.raises(TypeError):
        pickle.dumps(info)
    assert b"PRIVATE" not in pickle.dumps(keys.reader)


def test_the_log_says_once_which_key_is_missing_and_why(
    client: pulsar.Client, keys: Files, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("MATERIAL")

    consumer = client.subscribe(topic, "s", crypto_key_reader=Scripted(refuse))
    client.create_producer(topic, encryption_key="the key", crypto_key_reader=keys.reader).send(b"secret")
    assert nothing_comes(consumer)
    (line,) = [one.getMessage() for one in caplog.records if "cannot be decrypted" in one.getMessage()]
    assert "'the key'" in line
    assert "RuntimeError" in line
    assert "MATERIAL" not in line


# What was delivered encrypted.


class Fruit(Record):
    name = String()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "chunk" not in kind])
def test_what_was_delivered_encrypted_is_decrypted_later(
    broker: EmbeddedBroker, client: pulsar.Client, pair: Files, topic: str, kind: str
) -> None:
    schema = KeyValueSchema(StringSchema(), JsonSchema(Fruit), KeyValueEncodingType.SEPARATED)
    consumer = client.subscribe(topic, "s", schema=schema, crypto_failure_action=Action.CONSUME, consumer_type=SHARED)
    producer = client.create_producer(
        topic, schema=schema, encryption_key="k", crypto_key_reader=pair.reader, **KINDS[kind]
    )
    for number in range(3):
        producer.send_async((f"{number}", Fruit(name="x" * 99)), None, {"a": "b"})
    producer.flush()
    found: list[pulsar.Message] = []
    while len(found) < 3:
        stored = consumer.receive(SOON)
        with pytest.raises(pulsar.CryptoError, match="still encrypted"):
            stored.value()
        messages = pulsar.decrypt(stored, pair.reader)
        assert pulsar.decrypt(messages[0], pair.reader) == messages[:1]
        for one in messages:
            context = one.encryption_context()
            assert context is not None
            assert not context.is_decryption_failed()
            consumer.acknowledge(one)
        found += messages
    assert [one.properties() for one in found] == [{"a": "b"}] * 3
    assert [(key, value.name) for key, value in (one.value() for one in found)] == [
        (f"{number}", "x" * 99) for number in range(3)
    ]
    until(lambda: topics.backlog(broker, topic) == 0, "each decrypted message can be acknowledged")


def test_another_key_and_a_changed_message_are_not_decrypted(
    client: pulsar.Client, keys: Files, others: Files, topic: str
) -> None:
    with client.create_producer(topic, encryption_key="the key", crypto_key_reader=keys.reader) as producer:
        producer.send(b"secret")
    stored = stored_in(client, topic)
    for reader in (others.reader, pulsar.EncryptionKeyReader(), Scripted(lambda *_: b"garbage")):
        with pytest.raises(pulsar.CryptoError, match="'the key'"):
            pulsar.decrypt(stored, reader)
    with pytest.raises(pulsar.InvalidArgument):
        pulsar.decrypt(b"secret", keys.reader)  # type: ignore[arg-type]
    assert stored.value() == stored.data()  # without a schema
    assert [one.data() for one in pulsar.decrypt(stored, keys.reader)] == [b"secret"]


def test_what_is_still_encrypted_is_no_letter(client: pulsar.Client, keys: Files, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", crypto_failure_action=Action.CONSUME, consumer_type=SHARED, enable_retry=True
    )
    client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader).send(b"secret")
    message = consumer.receive(SOON)
    with pytest.raises(pulsar.CryptoError, match="not sent to another topic"):
        consumer.reconsume_later(message, 0)


# Table views.


def test_a_table_view_decrypts(client: pulsar.Client, keys: Files, parts: str) -> None:
    producer = client.create_producer(
        parts, encryption_key="k", crypto_key_reader=keys.reader, schema=pulsar.StringSchema(), batching_enabled=True
    )
    for number in range(10):
        producer.send_async(f"{number}", None, None, f"{number % 5}")
    producer.flush()
    with client.create_table_view(parts, schema=pulsar.StringSchema(), crypto_key_reader=keys.reader) as view:
        assert dict(view.items()) == {f"{key}": f"{key + 5}" for key in range(5)}
        producer.send("new", partition_key="0")
        view.refresh(SOON / 1000)
        assert view["0"] == "new"


def test_a_table_view_of_asyncio_decrypts_or_goes_without(
    broker: EmbeddedBroker, client: pulsar.Client, keys: Files, topic: str, run: Run
) -> None:
    client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader).send(b"secret", partition_key="a")
    client.create_producer(topic).send(b"plain", partition_key="b")

    async def main() -> None:
        async with (
            aio.Client(broker.service_url) as reading,
            await reading.create_table_view(topic, crypto_key_reader=keys.reader) as complete,
            await reading.create_table_view(topic, crypto_failure_action=Action.DISCARD) as partial,
        ):
            assert dict(complete.items()) == {"a": b"secret", "b": b"plain"}
            assert dict(partial.items()) == {"b": b"plain"}

    run(main)


def test_a_table_view_without_the_key_is_refused_or_goes_without(
    client: pulsar.Client, keys: Files, topic: str
) -> None:
    client.create_producer(topic).send(b"plain", partition_key="a")
    with client.create_table_view(topic) as early:
        encrypting = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader)
        for _ in range(3):
            encrypting.send(b"secret", partition_key="b")
        with pytest.raises(pulsar.CryptoError, match="is incomplete"):
            early.refresh(SOON / 1000)
        assert dict(early.items()) == {"a": b"plain"}
    with pytest.raises(pulsar.CryptoError, match=r"is incomplete: no key decrypts [123] of its entries"):
        client.create_table_view(topic)
    client.create_producer(topic).send(b"last", partition_key="c")
    with pytest.raises(pulsar.CryptoError, match="is incomplete"):
        client.create_table_view(topic)
    with client.create_table_view(topic, crypto_failure_action=Action.DISCARD) as view:
        assert dict(view.items()) == {"a": b"plain", "c": b"last"}
    with pytest.raises(pulsar.InvalidConfiguration, match="CONSUME"):
        client.create_table_view(topic, crypto_failure_action=Action.CONSUME)


def test_a_table_view_ends_although_entries_without_a_key_fill_its_receiver_queue(
    client: pulsar.Client, keys: Files, topic: str
) -> None:
    with client.create_table_view(topic) as early:
        producer = client.create_producer(
            topic, encryption_key="k", crypto_key_reader=keys.reader, block_if_queue_full=True
        )
        for _ in range(1500):
            producer.send_async(b"secret", None, partition_key="b")
        producer.flush()
        with pytest.raises(pulsar.CryptoError, match="is incomplete"):
            early.refresh(SOON / 1000)
    with pytest.raises(pulsar.CryptoError, match="is incomplete"):
        client.create_table_view(topic)


def test_a_refresh_that_waits_hears_of_an_entry_without_a_key(client: pulsar.Client, keys: Files, topic: str) -> None:
    waits = threading.Event()
    reader = Scripted(lambda *_: waits.wait(SOON / 1000) and None)
    with client.create_table_view(topic, crypto_key_reader=reader) as view:
        client.create_producer(topic, encryption_key="k", crypto_key_reader=keys.reader).send(b"", partition_key="b")
        refresh = InThread(lambda: view.refresh(SOON / 1000))
        until(lambda: view._updates._progress.awaited)
        waits.set()
        assert isinstance(refresh.error(), pulsar.CryptoError)
