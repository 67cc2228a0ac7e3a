"""End-to-end encryption between our client, the official Python client and the Java client."""

import subprocess
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pulsar
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

import pulsar_actors
from tests.real_broker.exchange import SOON, until
from tests.support.admin import Admin
from tests.support.jars import jars, tool
from tests.support.subjects import Broker

JAVA_SECONDS = 240.0
MESSAGES = 3
PEM, PRIVATE = serialization.Encoding.PEM, serialization.PrivateFormat
SPKI, PLAIN = serialization.PublicFormat.SubjectPublicKeyInfo, serialization.NoEncryption()
MODULES: dict[str, Any] = {"official": pulsar, "ours": pulsar_actors}

FORMS: dict[str, dict[str, Any]] = {
    "single": {},
    "batched": {"batching_enabled": True, "batching_max_publish_delay_ms": 60_000},
    "chunked": {"chunking_enabled": True},
    "compressed": {"compression_type": "ZSTD"},
    "batched compressed": {"batching_enabled": True, "compression_type": "LZ4"},
    "chunked compressed": {"chunking_enabled": True, "compression_type": "ZLib"},
}
LARGE = 6_000_000


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The keys of all kinds, in the forms that OpenSSL and Java write."""
    folder = tmp_path_factory.mktemp("keys")
    kinds: dict[str, Any] = {
        "rsa-2048": rsa.generate_private_key(65537, 2048),
        "rsa-4096": rsa.generate_private_key(65537, 4096),
        "P-256": ec.generate_private_key(ec.SECP256R1()),
        "P-384": ec.generate_private_key(ec.SECP384R1()),
        "P-521": ec.generate_private_key(ec.SECP521R1()),
    }
    for name, key in kinds.items():
        (folder / f"{name}-public.pem").write_bytes(key.public_key().public_bytes(PEM, SPKI))
        (folder / f"{name}-private.pem").write_bytes(key.private_bytes(PEM, PRIVATE.PKCS8, PLAIN))
    key = rsa.generate_private_key(65537, 2048)
    (folder / "certificate-public.pem").write_bytes(certificate(key))
    (folder / "certificate-private.pem").write_bytes(key.private_bytes(PEM, PRIVATE.TraditionalOpenSSL, PLAIN))
    return folder


def certificate(key: rsa.RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a producer")])
    now = datetime.now(timezone.utc)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(PEM)


class Folder(pulsar_actors.EncryptionKeyReader):
    """Reads keys by their names, with metadata, as the Java program of this test does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metadata: list[dict[str, str]] = []

    def get_public_key(self, name: str, metadata: Mapping[str, str]) -> pulsar_actors.EncryptionKeyInfo:
        key = (self.folder / f"{name}-public.pem").read_bytes()
        return pulsar_actors.EncryptionKeyInfo(key, {"from": "python"})

    def get_private_key(self, name: str, metadata: Mapping[str, str]) -> bytes:
        self.metadata.append(dict(metadata))
        return (self.folder / f"{name}-private.pem").read_bytes()


def options_of(module: Any, form: str) -> dict[str, Any]:
    options = dict(FORMS[form])
    if "compression_type" in options:
        options["compression_type"] = getattr(module.CompressionType, options["compression_type"])
    return options


def crypto_of(name: str, folder: Path) -> dict[str, Any]:
    paths = str(folder / "rsa-2048-public.pem"), str(folder / "rsa-2048-private.pem")
    return {"crypto_key_reader": MODULES[name].CryptoKeyReader(*paths)}


@pytest.mark.shows("Message metadata", "encryption_keys", "encryption_param")
@pytest.mark.parametrize("form", FORMS)
def test_one_python_client_reads_what_the_other_encrypts(
    connect: Any, topic: str, folder: Path, form: str, from_to: tuple[str, str]
) -> None:
    sender, receiver = from_to
    consumer = connect(MODULES[receiver]).subscribe(topic, "s", **crypto_of(receiver, folder))
    options = options_of(MODULES[sender], form)
    producer = connect(MODULES[sender]).create_producer(
        topic, encryption_key="k", **options, **crypto_of(sender, folder)
    )
    size = LARGE if "chunked" in form else 1_000
    sent = [bytes(range(number, number + 100)) * (size // 100) for number in range(MESSAGES)]
    for content in sent:
        producer.send_async(content, lambda *_: None, properties={"a": "b"}, partition_key="key")
    producer.flush()
    for content in sent:
        message = consumer.receive(SOON)
        assert message.data() == content
        assert (message.properties(), message.partition_key()) == ({"a": "b"}, "key")
        context = message.encryption_context()
        assert context.keys()[0].key == "k"
        assert (len(context.param()), context.is_decryption_failed()) == (12, False)
        consumer.acknowledge(message)


def shown(context: Any) -> dict[str, Any]:
    keys = context.keys()
    return {
        "keys": [(one.key, one.value, one.metadata) for one in keys],
        "param": context.param(),
        "algorithm": context.algorithm(),
        "compression": context.compression_type().name,
        "size": context.uncompressed_message_size(),
        "batch": context.batch_size(),
        "failed": context.is_decryption_failed(),
    }


@pytest.mark.parametrize("form", [form for form in FORMS if "chunked" not in form])
@pytest.mark.parametrize("sender", MODULES)
def test_both_python_clients_deliver_the_same_of_what_they_cannot_decrypt(
    connect: Any, topic: str, folder: Path, form: str, sender: str
) -> None:
    options = options_of(MODULES[sender], form)
    producer = connect(MODULES[sender]).create_producer(
        topic, encryption_key="k", **options, **crypto_of(sender, folder)
    )
    producer.send_async(b"secret" * 100, lambda *_: None)
    producer.flush()
    found: dict[str, Any] = {}
    for name, module in MODULES.items():
        action = module.ConsumerCryptoFailureAction.CONSUME
        position = module.InitialPosition.Earliest
        consumer = connect(module).subscribe(topic, name, crypto_failure_action=action, initial_position=position)
        message = consumer.receive(SOON)
        found[name] = message.data(), message.value(), shown(message.encryption_context())
        consumer.acknowledge(message)
    assert found["ours"] == found["official"]


@pytest.mark.shows("Command Producer", "encrypted")
def test_a_namespace_that_demands_encryption_takes_encrypted_messages_and_letters_only(
    connect: Any, namespace: str, new_topic: Any, admin: Admin, folder: Path
) -> None:
    admin.call("POST", f"namespaces/{namespace}/encryptionRequired", True)  # noqa: FBT003 - the policy
    topic, client, crypto = new_topic(namespace), connect(pulsar_actors), crypto_of("ours", folder)
    with pytest.raises(pulsar_actors.BrokerRefusal, match=r"[Ee]ncryption"):
        client.create_producer(topic)
    consumer = client.subscribe(
        topic, "s", consumer_type=pulsar_actors.ConsumerType.Shared, enable_retry=True, **crypto,
        dead_letter_policy=pulsar_actors.ConsumerDeadLetterPolicy(1, initial_subscription_name="d"),
    )  # fmt: skip
    producer = client.create_producer(topic, encryption_key="k", **crypto)
    producer.send(b"secret")
    for _ in range(2):
        consumer.reconsume_later(consumer.receive(SOON), 0)
    letter = client.subscribe(f"{topic}-s-DLQ", "d", **crypto).receive(SOON)
    assert letter.data() == b"secret"


# Java.

KINDS = {
    **{name: [name] for name in ("rsa-2048", "rsa-4096", "P-256", "P-384", "P-521", "certificate")},
    "several": ["rsa-2048", "P-256", "P-521"],
}
CASES = [(kind, "single") for kind in KINDS] + [
    (kind, form) for kind in ("rsa-2048", "P-256", "several") for form in FORMS if form != "single"
]


@pytest.mark.real_broker
def test_java_and_we_decrypt_each_other(connect_to: Any, real_broker: Broker, topic: str, folder: Path) -> None:
    client = connect_to(pulsar_actors, real_broker.service_url)
    arguments: list[str] = []
    for kind, form in CASES:
        name = f"{topic}-{kind}-{form.replace(' ', '-')}"
        arguments += [name, form, ",".join(KINDS[kind])]
        options = options_of(pulsar_actors, form)
        if "chunked" in form:
            options["chunk_max_message_size"] = 7 if "compressed" in form else 400
        producer = client.create_producer(
            name, encryption_keys=KINDS[kind], crypto_key_reader=Folder(folder), **options
        )
        for number in range(MESSAGES):
            producer.send_async(b"ours%d" % number * 200, None, {"a": "b"}, "key")
        producer.flush()
        producer.close()
    arguments += [letter_of(client, f"{topic}-letter", Folder(folder)), "letter", "P-384"]

    program = str(Path(__file__).with_name("JavaEncryption.java"))
    command = [tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", program]
    done = subprocess.run(  # noqa: S603 -- our own words
        [*command, real_broker.service_url, str(folder), *arguments],
        capture_output=True, text=True, timeout=JAVA_SECONDS, check=True,
    )  # fmt: skip
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line for line in lines if line[0] == "failed"] == []
    got: dict[str, list[tuple[str, str]]] = {}
    for _, name, content, fields in (line for line in lines if line[0] == "got"):
        got.setdefault(name, []).append((content, fields))
    ours = [(f"ours{number}" * 200, "keyb") for number in range(MESSAGES)]
    assert got.pop(arguments[-3]) == [("a letter", "keyb")]
    assert got == dict.fromkeys(arguments[:-3:3], ours)
    assert {line[2] for line in lines if line[0] == "metadata"} == {"{from=python}"}

    for name, _, keys in zip(arguments[:-3:3], arguments[1:-3:3], arguments[2:-3:3], strict=True):
        for key in keys.split(","):  # each alone is enough
            reader = OneKey(folder, key)
            position = pulsar_actors.InitialPosition.Earliest
            consumer = client.subscribe(name, f"ours-{key}", initial_position=position, crypto_key_reader=reader)
            messages = [consumer.receive(SOON) for _ in range(2 * MESSAGES)][MESSAGES:]
            assert [one.data() for one in messages] == [b"java%d" % number * 200 for number in range(MESSAGES)]
            assert {(one.partition_key(), one.properties()["a"]) for one in messages} == {("key", "b")}
            assert reader.metadata == [{"from": "python"}, {"from": "java"}]
            consumer.close()


class OneKey(Folder):
    """Has the private key of one name only."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder)
        self.name = name

    def get_private_key(self, name: str, metadata: Mapping[str, str]) -> Any:
        return super().get_private_key(name, metadata) if name == self.name else None


def letter_of(client: Any, topic: str, reader: Folder) -> str:
    """Have a dead letter sent, and return its topic."""
    consumer = client.subscribe(
        topic, "s", consumer_type=pulsar_actors.ConsumerType.Shared, crypto_key_reader=reader,
        negative_ack_redelivery_delay_ms=10, dead_letter_policy=pulsar_actors.ConsumerDeadLetterPolicy(1),
    )  # fmt: skip
    with client.create_producer(topic, encryption_key="P-384", crypto_key_reader=reader) as producer:
        producer.send(b"a letter", {"a": "b"}, "key")
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(SOON))
    letters = f"{topic}-s-DLQ"
    with client.create_reader(letters, pulsar_actors.MessageId.earliest, crypto_key_reader=reader) as read:
        until(read.has_message_available)
    return letters
