"""The data keys of producers and consumers: how long they are used, and whom they are asked from."""

import pickle
from collections.abc import Mapping

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pulsar_actors.exceptions import CryptoError
from pulsar_actors.runtime import message_crypto
from pulsar_actors.runtime.message_crypto import ConsumerKeys, DataKey, ProducerKeys, new_data_key
from pulsar_actors.wire import encryption
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata

HOUR = 3600.0
KEY = rsa.generate_private_key(65537, 2048)
PEM = serialization.Encoding.PEM
PUBLIC = KEY.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
PRIVATE = KEY.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


class Keys:
    """Reads one key under each name that it has."""

    def __init__(self, pem: bytes, *names: str) -> None:
        self.pem = pem
        self.names = set(names)
        self.asked: list[str] = []

    def __call__(self, name: str, metadata: Mapping[str, str]) -> tuple[bytes, Mapping[str, str]] | None:
        self.asked.append(name)
        return (self.pem, {"of": name}) if name in self.names else None


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def sealed(key: DataKey | ProducerKeys, content: bytes = b"content") -> tuple[MessageMetadata, bytes]:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    return metadata, bytes(key.encrypt(metadata, content))


def opened(keys: ConsumerKeys, entry: tuple[MessageMetadata, bytes]) -> bytes:
    return keys.decrypt(*entry, {})[0]


def test_each_entry_has_the_wrapped_keys_once_and_a_vector_of_its_own() -> None:
    key = new_data_key(["a", "b"], Keys(PUBLIC, "a", "b"), 0)
    first, second = sealed(key)[0], sealed(key)[0]
    assert first.encryption_param != second.encryption_param
    assert [one.key for one in first.encryption_keys] == ["a", "b"]
    assert first.encryption_keys[0].metadata[0].value == "a"
    assert not first.HasField("encryption_algo")  # no client sets it
    key.encrypt(first, b"")
    assert len(first.encryption_keys) == 2


def test_the_size_that_encryption_adds_is_known_before() -> None:
    key = new_data_key(["a", "b"], Keys(PUBLIC, "a", "b"), 0)
    metadata, payload = sealed(key)
    plain = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    added = metadata.ByteSize() + len(payload) - plain.ByteSize() - len(b"content")
    assert added <= key.overhead <= added + 20


def test_a_data_key_is_replaced_after_four_hours() -> None:
    keys = ProducerKeys(["a"], Keys(PUBLIC, "a"))
    assert keys.is_due(0.0)
    keys.replace(0.0)
    first = keys.current
    assert not keys.is_due(4 * HOUR - 1)
    assert keys.is_due(4 * HOUR)
    keys.begin(4 * HOUR)
    assert not keys.is_due(4 * HOUR + 1)  # it is being replaced
    keys.replace(4 * HOUR)
    assert keys.current is not first
    assert not keys.is_due(8 * HOUR - 1)
    assert sealed(keys)[0].encryption_keys[0].value != getattr(first, "wrapped")[0].value  # noqa: B009 - of an object or None


def test_a_data_key_is_replaced_before_its_vectors_can_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_crypto, "MAX_USES", 3)
    keys = ProducerKeys(["a"], Keys(PUBLIC, "a"))
    keys.replace(0.0)
    for _ in range(3):
        assert not keys.is_due(100.0)
        sealed(keys)
    assert keys.is_due(100.0)


def test_a_replacement_that_fails_changes_nothing_and_is_tried_again() -> None:
    read = Keys(PUBLIC, "a", "b")
    keys = ProducerKeys(["a", "b"], read)
    keys.replace(0.0)
    first = keys.current
    read.names.discard("b")
    with pytest.raises(CryptoError, match="'b'"):
        keys.replace(4 * HOUR)
    assert keys.current is first
    assert opened(ConsumerKeys(Keys(PRIVATE, "a"), Clock()), sealed(keys)) == b"content"
    assert not keys.is_due(4 * HOUR + 1)
    assert keys.is_due(4 * HOUR + 60)


def test_a_consumer_asks_for_a_key_once_and_again_four_hours_after_the_last_use() -> None:
    clock, read = Clock(), Keys(PRIVATE, "a")
    keys, entry = ConsumerKeys(read, clock), sealed(new_data_key(["a"], Keys(PUBLIC, "a"), 0))
    for hour in (0, 3, 6, 10):
        clock.now = hour * HOUR
        assert opened(keys, entry) == b"content"
    assert read.asked == ["a"]
    clock.now = 14 * HOUR + 1
    assert opened(keys, entry) == b"content"
    assert read.asked == ["a", "a"]


def test_a_consumer_tries_each_key_and_names_the_reasons() -> None:
    entry = sealed(new_data_key(["a", "b"], Keys(PUBLIC, "a", "b"), 0))
    read = Keys(PRIVATE, "b")
    assert opened(ConsumerKeys(read, Clock()), entry) == b"content"
    assert read.asked == ["a", "b"]
    with pytest.raises(CryptoError, match=r"'a' .*none of this name; .*'b' .*none of this name"):
        opened(ConsumerKeys(Keys(PRIVATE), Clock()), entry)
    with pytest.raises(CryptoError, match="'a' cannot be used: it is not a private key"):
        opened(ConsumerKeys(Keys(PUBLIC, "a"), Clock()), entry)


def test_a_key_whose_data_key_is_another_entrys_does_not_keep_the_next_one_from_being_tried() -> None:
    metadata, payload = sealed(new_data_key(["a"], Keys(PUBLIC, "a"), 0))
    (other,) = new_data_key(["b"], Keys(PUBLIC, "b"), 0).wrapped
    metadata.encryption_keys.insert(0, other)
    read = Keys(PRIVATE, "a", "b")
    assert opened(ConsumerKeys(read, Clock()), (metadata, payload)) == b"content"
    assert read.asked == ["b", "a"]


def test_keys_that_a_producer_repeats_are_tried_once() -> None:
    """C++ adds its keys again with each chunk."""
    metadata, payload = sealed(new_data_key(["a"], Keys(PUBLIC, "a"), 0))
    metadata.encryption_keys.extend(list(metadata.encryption_keys))
    read = Keys(PRIVATE)
    with pytest.raises(CryptoError):
        opened(ConsumerKeys(read, Clock()), (metadata, payload))
    assert read.asked == ["a"]


def test_a_private_key_is_loaded_once_however_many_keys_an_entry_names(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata, payload = sealed(new_data_key(["a"], Keys(PUBLIC, "a"), 0))
    for number in range(100):
        metadata.encryption_keys.add(key="a", value=b"%256d" % number)
    load, loaded = encryption.load_private_key, list[bytes]()

    def noted(pem: bytes) -> encryption.PrivateKey:
        loaded.append(pem)
        return load(pem)

    monkeypatch.setattr(encryption, "load_private_key", noted)
    del metadata.encryption_keys[0]
    keys = ConsumerKeys(Keys(PRIVATE, "a"), Clock())
    for _ in range(2):
        with pytest.raises(CryptoError):
            opened(keys, (metadata, payload))
    assert loaded == [PRIVATE]


def test_a_private_key_that_has_been_replaced_is_loaded() -> None:
    of_others = rsa.generate_private_key(65537, 2048)
    read = Keys(of_others.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()), "a")
    keys, entry = ConsumerKeys(read, Clock()), sealed(new_data_key(["a"], Keys(PUBLIC, "a"), 0))
    with pytest.raises(CryptoError):
        opened(keys, entry)
    read.pem = PRIVATE
    assert opened(keys, entry) == b"content"


def test_keys_that_failed_just_now_are_not_asked_for_again() -> None:
    entry, read = sealed(new_data_key(["a"], Keys(PUBLIC, "a"), 0)), Keys(PRIVATE)
    keys, failed = ConsumerKeys(read, Clock()), dict[bytes, str]()
    for _ in range(2):
        with pytest.raises(CryptoError):
            keys.decrypt(*entry, failed)
    assert read.asked == ["a"]


def test_a_changed_payload_is_refused_and_the_next_one_read() -> None:
    key, keys = new_data_key(["a"], Keys(PUBLIC, "a"), 0), ConsumerKeys(Keys(PRIVATE, "a"), Clock())
    metadata, payload = sealed(key)
    with pytest.raises(CryptoError, match="does not fit the payload"):
        opened(keys, (metadata, payload[:-1] + bytes([payload[-1] ^ 1])))
    assert opened(keys, sealed(key)) == b"content"


@pytest.mark.parametrize("fault", [RuntimeError("MATERIAL"), ValueError("MATERIAL"), OSError(13, "denied")])
def test_errors_of_a_key_reader_are_told_without_its_texts(fault: Exception) -> None:
    def read(name: str, metadata: Mapping[str, str]) -> None:
        raise fault

    with pytest.raises(CryptoError, match="'a' cannot be read: ") as raised:
        new_data_key(["a"], read, 0)
    assert "MATERIAL" not in str(raised.value)
    assert raised.value.__context__ is None


def test_a_data_key_is_in_no_text_and_no_pickle() -> None:
    key = new_data_key(["a"], Keys(PUBLIC, "a"), 0)
    assert "object at" in repr(key)
    with pytest.raises(TypeError):
        pickle.dumps(key)
