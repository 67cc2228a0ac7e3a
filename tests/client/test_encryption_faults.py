"""End-to-end encryption with broken entries, bad key readers, and without its extra; and secrets in any text."""

import base64
import gc
import logging
import os
import pickle
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.runtime import decryption_queue, message_crypto
from pulsar_actors.runtime.message_crypto import DataKey, new_data_key
from pulsar_actors.wire.PulsarApi_pb2 import CompressionType, EncryptionKeys, KeyValue, MessageMetadata
from tests.support import topics
from tests.support.life import until
from tests.support.raw_producer import RawProducer

SOON = 10_000
SHARED = pulsar.ConsumerType.Shared
Action = pulsar.ConsumerCryptoFailureAction
SECRET = b"the secret content"
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP384R1())
SPKI, PKCS8 = serialization.PublicFormat.SubjectPublicKeyInfo, serialization.PrivateFormat.PKCS8
PEM, PLAIN = serialization.Encoding.PEM, serialization.NoEncryption()
OTHER = ec.generate_private_key(ec.SECP256R1()).private_bytes(PEM, PKCS8, PLAIN)
PUBLIC = {"rsa": RSA.public_key().public_bytes(PEM, SPKI), "ec": EC.public_key().public_bytes(PEM, SPKI)}
PRIVATE = {"rsa": RSA.private_bytes(PEM, PKCS8, PLAIN), "ec": EC.private_bytes(PEM, PKCS8, PLAIN)}


class Reader(pulsar.EncryptionKeyReader):
    """Has both keys, unless the test gives it other ways."""

    def __init__(self, private: Callable[[str], Any] = PRIVATE.get, public: Callable[[str], Any] = PUBLIC.get) -> None:
        self.private, self.public = private, public

    def get_public_key(self, name: str, metadata: Any) -> Any:
        return self.public(name)

    def get_private_key(self, name: str, metadata: Any) -> Any:
        return self.private(name)


def sealed(*names: str, payload: bytes = SECRET, **said: Any) -> tuple[MessageMetadata, bytes]:
    """Encrypt a payload, and return its metadata, to be spoilt."""
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0, **said)
    key = new_data_key(names, lambda name, _: (PUBLIC[name], {}), 0.0)
    return metadata, key.encrypt(metadata, payload)


def spoilt(**changes: Any) -> tuple[dict[str, Any], bytes]:
    metadata, payload = sealed("rsa")
    fields: dict[str, Any] = {
        "encryption_keys": list(metadata.encryption_keys), "encryption_param": metadata.encryption_param,
    }  # fmt: skip
    payload = changes.pop("payload", lambda one: one)(payload)
    value = changes.pop("value", None)
    if value is not None:
        fields["encryption_keys"] = [EncryptionKeys(key="rsa", value=value(metadata.encryption_keys[0].value))]
    return {**fields, **changes}, payload


EC_VALUE = sealed("ec")[0].encryption_keys[0].value

BROKEN: dict[str, Callable[[], tuple[dict[str, Any], bytes]]] = {
    "no vector": lambda: spoilt(encryption_param=b""),
    "a vector of one byte": lambda: spoilt(encryption_param=b"x"),
    "a vector of many bytes": lambda: spoilt(encryption_param=b"x" * 100_000),
    "another vector": lambda: spoilt(encryption_param=b"x" * 12),
    "no payload": lambda: spoilt(payload=lambda _: b""),
    "a payload shorter than its tag": lambda: spoilt(payload=lambda one: one[:15]),
    "a truncated payload": lambda: spoilt(payload=lambda one: one[:-1]),
    "a changed payload": lambda: spoilt(payload=lambda one: bytes([one[0] ^ 1]) + one[1:]),
    "an empty wrapped key": lambda: spoilt(value=lambda _: b""),
    "a truncated wrapped key": lambda: spoilt(value=lambda one: one[:-1]),
    "a changed wrapped key": lambda: spoilt(value=lambda one: bytes([one[0] ^ 1]) + one[1:]),
    "a huge wrapped key": lambda: spoilt(value=lambda one: one * 100),
    "a key wrapped for another": lambda: spoilt(value=lambda _: EC_VALUE),
    "a point that is not on the curve": lambda: spoilt(
        encryption_keys=[EncryptionKeys(key="ec", value=EC_VALUE[:1] + bytes(96) + EC_VALUE[97:])]
    ),
    "no point": lambda: spoilt(encryption_keys=[EncryptionKeys(key="ec", value=bytes(len(EC_VALUE)))]),
    "an unknown name": lambda: spoilt(encryption_keys=[EncryptionKeys(key="\x00" * 1000, value=b"x")]),
    "metadata of the key that is huge": lambda: spoilt(
        encryption_keys=[EncryptionKeys(key="none", value=b"", metadata=[KeyValue(key="k" * 1000, value="v")] * 100)]
    ),
    "a thousand keys": lambda: spoilt(
        encryption_keys=[EncryptionKeys(key=f"{n}", value=b"%d" % n) for n in range(1000)]
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("action", Action)
def test_a_broken_entry_is_handled_as_the_action_says_and_the_next_one_is_read(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str, fault: str, action: Action
) -> None:
    consumer = client.subscribe(topic, "s", crypto_key_reader=Reader(), crypto_failure_action=action)
    said, payload = BROKEN[fault]()
    with RawProducer(broker.service_url, topic) as producer:
        producer.send(payload, **said)
    client.create_producer(topic, encryption_key="rsa", crypto_key_reader=Reader()).send(SECRET)
    if action is Action.CONSUME:
        message = consumer.receive(SOON)
        assert message.data() == payload
        with pytest.raises(pulsar.CryptoError):
            pulsar.decrypt(message, Reader())
        consumer.acknowledge(message)
    message = consumer.receive(SOON)
    assert message.data() == SECRET
    assert consumer.stats().undecryptable == 1
    consumer.acknowledge(message)
    until(lambda: topics.backlog(broker, topic) == (1 if action is Action.FAIL else 0))


def test_an_entry_that_is_corrupt_behind_its_encryption_is_discarded_as_corrupt(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", crypto_key_reader=Reader())
    with RawProducer(broker.service_url, topic) as producer:
        for said in (
            {"compression": CompressionType.ZLIB, "uncompressed_size": 100},
            {"num_messages_in_batch": 1000},
            {"compression": CompressionType.LZ4, "uncompressed_size": 2**32 - 1},
        ):
            metadata, payload = sealed("rsa")
            producer.send(
                payload, encryption_keys=metadata.encryption_keys, encryption_param=metadata.encryption_param, **said
            )
    client.create_producer(topic).send(b"next")
    message = consumer.receive(SOON)
    assert message.data() == b"next"
    consumer.acknowledge(message)
    until(lambda: topics.backlog(broker, topic) == 0)
    assert consumer.stats().undecryptable == 0


ANSWERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "nothing": (lambda _: None, "has none of this name"),
    "text": (lambda _: "PRIVATE MATERIAL", "returned str instead of bytes"),
    "a number": (lambda _: 5, "returned int instead of bytes"),
    "no PEM": (lambda _: b"PRIVATE MATERIAL", "it is not a private key"),
    "no bytes": (lambda _: b"", "it is not a private key"),
    "the public key": (PUBLIC.get, "it is not a private key"),
    "a key of another kind": (lambda _: PRIVATE["ec"], "does not fit"),
}


def raised(error: BaseException) -> Callable[[str], Any]:
    def private(_: str) -> Any:
        raise error

    return private


ERRORS: dict[str, tuple[Callable[[str], Any], str]] = {
    kind.__name__: (raised(kind("PRIVATE MATERIAL")), kind.__name__)
    for kind in (ValueError, KeyError, SystemExit, KeyboardInterrupt, GeneratorExit, AssertionError)
}


@pytest.mark.parametrize("answer", [*ANSWERS, *ERRORS])
def test_a_key_reader_that_answers_badly_fails_that_entry_and_nothing_else(
    client: pulsar.Client, topic: str, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    private, reason = {**ANSWERS, **ERRORS}[answer]
    reader = Reader(private)
    consumer = client.subscribe(topic, "s", consumer_type=SHARED, crypto_key_reader=reader)
    producer = client.create_producer(topic, encryption_key="rsa", crypto_key_reader=Reader())
    producer.send(SECRET)
    client.create_producer(topic).send(b"plain")
    assert consumer.receive(SOON).data() == b"plain"
    (line,) = [one.getMessage() for one in caplog.records if "cannot be decrypted" in one.getMessage()]
    assert reason in line
    assert "MATERIAL" not in caplog.text
    reader.private = PRIVATE.get
    consumer.redeliver_unacknowledged_messages()  # without an acknowledgement timeout it comes again when asked for
    assert {consumer.receive(SOON).data() for _ in range(2)} == {SECRET, b"plain"}


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_a_producer_whose_key_reader_fails_later_goes_on_with_its_data_key(
    client: pulsar.Client, topic: str, kind: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(message_crypto, "DATA_KEY_LIFETIME", 0.0)
    monkeypatch.setattr(message_crypto, "RETRY_AFTER", 0.0)
    reader = Reader()
    producer = client.create_producer(topic, encryption_key="rsa", crypto_key_reader=reader)
    consumer = client.subscribe(topic, "s", crypto_key_reader=Reader())
    reader.public = raised(kind("PRIVATE MATERIAL"))

    def is_logged() -> bool:
        producer.send(SECRET)
        assert consumer.receive(SOON).data() == SECRET
        return "was not replaced" in caplog.text

    until(is_logged)
    assert kind.__name__ in caplog.text
    assert "MATERIAL" not in caplog.text


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """A call that hangs until the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def test_a_key_reader_that_hangs_is_given_up_and_holds_up_neither_others_nor_close(
    broker: EmbeddedBroker, topic: str, hang: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decryption_queue, "KEY_READER_TIMEOUT", 0.2)
    asked = list[str]()

    def private(name: str) -> Any:
        asked.append(name)
        return PRIVATE[name] if len(asked) > 1 else hang.wait(60.0)

    with pulsar.Client(broker.service_url) as client:
        consumer = client.subscribe(topic, "s", crypto_key_reader=Reader(private), unacked_messages_timeout_ms=100)
        producer = client.create_producer(topic, encryption_key="rsa", crypto_key_reader=Reader())
        producer.send(SECRET)
        assert consumer.receive(SOON).data() == SECRET  # it came again
        asked.clear()
        monkeypatch.setattr(decryption_queue, "KEY_READER_TIMEOUT", 60.0)
        producer.close()
        other = client.create_producer(topic, encryption_key="ec", crypto_key_reader=Reader())
        other.send(SECRET)
        until(lambda: len(asked) == 1)


def test_a_key_reader_may_use_the_client(client: pulsar.Client, topic: str) -> None:
    keys = client.create_producer(f"{topic}-keys")
    keys.send(PRIVATE["rsa"])

    def private(_: str) -> Any:
        with client.create_reader(f"{topic}-keys", pulsar.MessageId.earliest) as reader:
            return reader.read_next(SOON).data()

    consumer = client.subscribe(topic, "s", crypto_key_reader=Reader(private))
    client.create_producer(topic, encryption_key="rsa", crypto_key_reader=Reader()).send(SECRET)
    assert consumer.receive(SOON).data() == SECRET


# What is refused.


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"encryption_key": "", "crypto_key_reader": Reader()}, pulsar.InvalidArgument),
        ({"encryption_key": 5, "crypto_key_reader": Reader()}, pulsar.InvalidArgument),
        ({"encryption_keys": "rsa", "crypto_key_reader": Reader()}, pulsar.InvalidArgument),
        ({"encryption_keys": ["rsa", 5], "crypto_key_reader": Reader()}, pulsar.InvalidArgument),
        ({"encryption_key": "rsa", "crypto_key_reader": object()}, pulsar.InvalidArgument),
        ({"encryption_key": "rsa", "crypto_key_reader": Reader}, pulsar.InvalidArgument),
        ({"encryption_key": "rsa", "crypto_key_reader": Reader(), "crypto_failure_action": 1}, pulsar.InvalidArgument),
        ({"encryption_key": "none", "crypto_key_reader": Reader()}, pulsar.CryptoError),
        ({"encryption_keys": ["rsa", "none"], "crypto_key_reader": Reader()}, pulsar.CryptoError),
    ],
)
def test_options_of_producers_that_cannot_be_are_refused(
    client: pulsar.Client, topic: str, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        client.create_producer(topic, **options)


# Secrets.


def forms(secret: bytes) -> list[str]:
    """The ways in which a text may show bytes."""
    return [
        secret.hex(), base64.b64encode(secret).decode().rstrip("="), repr(secret)[2:-1], str(list(secret))[1:-1],
        secret.decode("latin-1"),
    ]  # fmt: skip


def test_no_secret_is_in_any_log_error_repr_or_pickle(
    broker: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    data_keys: list[bytes] = []
    take = os.urandom

    def urandom(size: int) -> bytes:
        token = take(size)
        if size == 32:
            data_keys.append(token)
        return token

    monkeypatch.setattr(message_crypto.os, "urandom", urandom)
    monkeypatch.setattr(message_crypto, "DATA_KEY_LIFETIME", 0.0)
    monkeypatch.setattr(message_crypto, "RETRY_AFTER", 0.0)
    texts: list[str] = []
    with pulsar.Client(broker.service_url) as client:
        reader = Reader()
        policy = pulsar.ConsumerDeadLetterPolicy(1, initial_subscription_name="d")
        consumer = client.subscribe(
            topic, "s", consumer_type=SHARED, crypto_key_reader=reader, negative_ack_redelivery_delay_ms=1,
            dead_letter_policy=policy,
        )  # fmt: skip
        producer = client.create_producer(topic, encryption_keys=["rsa", "ec"], crypto_key_reader=reader)
        for _ in range(5):
            producer.send(SECRET)
        for _ in range(10):
            message = consumer.receive(SOON)
            texts += [repr(message), repr(message.encryption_context()), str(message)]
            consumer.negative_acknowledge(message)
        client.subscribe(f"{topic}-s-DLQ", "d", crypto_key_reader=reader).receive(SOON)
        reader.private = raised(ValueError(PRIVATE["rsa"].decode()))
        for wrong in (reader, Reader(lambda _: OTHER), Reader(lambda _: PRIVATE["rsa"][:-100])):
            other = client.subscribe(topic, f"{id(wrong)}", crypto_key_reader=wrong)
            producer.send(SECRET)
            until(lambda other=other: other.stats().undecryptable > 0)  # type: ignore[misc]
            texts += [repr(other), repr(other.stats())]
        for bad in (lambda _: PRIVATE["rsa"], raised(ValueError(PRIVATE["rsa"].decode())), lambda _: PRIVATE):
            with pytest.raises(pulsar.CryptoError) as refused:
                client.create_producer(topic, encryption_key="rsa", crypto_key_reader=Reader(public=bad))
            texts += traceback.format_exception(refused.type, refused.value, refused.tb)
        texts += [repr(reader), repr(producer), repr(consumer), repr(client)]
        kept = [one for one in gc.get_objects() if isinstance(one, (DataKey, pulsar.EncryptionKeyInfo))]
        assert kept
        for one in kept:
            texts.append(repr(one))
            with pytest.raises(TypeError):
                pickle.dumps(one)
    texts.append(caplog.text)
    everything = "\n".join(texts)
    bodies = [line for pem in PRIVATE.values() for line in pem.decode().splitlines() if not line.startswith("-")]
    assert len(data_keys) > 2
    found = [
        one for one in [*bodies, *(form for key in [*data_keys, SECRET] for form in forms(key))] if one in everything
    ]
    assert found == []


# Without the extra.

WITHOUT = """
import sys
sys.modules["cryptography"] = None
import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker

reader = pulsar.CryptoKeyReader("public.pem", "private.pem")
with pulsar.Client("pulsar://127.0.0.1:1") as client:
    for ask in (
        lambda: client.create_producer("t", encryption_key="k", crypto_key_reader=reader),
        lambda: client.subscribe("t", "s", crypto_key_reader=reader),
        lambda: client.create_reader("t", pulsar.MessageId.earliest, crypto_key_reader=reader),
        lambda: client.create_table_view("t", crypto_key_reader=reader),
    ):
        try:
            ask()
        except pulsar.CryptoError as error:
            print(error)
with pulsar.Client(sys.argv[1]) as client:
    action = pulsar.ConsumerCryptoFailureAction.CONSUME
    with client.create_reader(sys.argv[2], pulsar.MessageId.earliest, crypto_failure_action=action) as stored:
        message = stored.read_next(10_000)
        print(len(message.data()))
        try:
            pulsar.decrypt(message, reader)
        except pulsar.CryptoError as error:
            print(error)
"""
"""A program in an environment that lacks the extra."""


def test_without_the_extra_each_use_names_it_and_the_rest_works(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str
) -> None:
    client.create_producer(topic, encryption_key="rsa", crypto_key_reader=Reader()).send(SECRET)
    environment = {**os.environ, "PYTHONPATH": str(Path(pulsar.__file__).parents[1])}
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", WITHOUT, broker.service_url, topic],
        capture_output=True, text=True, env=environment, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    *refusals, stored, last = done.stdout.splitlines()
    assert len(refusals) == 4
    assert {*refusals, last} == {"end-to-end encryption needs cryptography: pip install 'pulsar-actors[encryption]'"}
    assert int(stored) == len(SECRET) + 16


def test_the_extra_has_the_name_that_the_error_says() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert re.search(r'^name = "pulsar-actors"$', project, re.MULTILINE)
    assert re.search(r'^encryption = \["cryptography', project, re.MULTILINE)


def test_cryptography_is_loaded_with_the_first_key_only(broker: EmbeddedBroker, topic: str) -> None:
    code = (
        "import sys, pulsar_actors as pulsar\n"
        "with pulsar.Client(sys.argv[1]) as client:\n"
        "    consumer = client.subscribe(sys.argv[2], 's')\n"
        "    client.create_producer(sys.argv[2]).send(b'x')\n"
        "    consumer.receive(10_000)\n"
        "print([name for name in sys.modules if name.startswith('cryptography') or name.endswith('wire.encryption')])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(pulsar.__file__).parents[1])}
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", code, broker.service_url, topic],
        capture_output=True, text=True, env=environment, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"
