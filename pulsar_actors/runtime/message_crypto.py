"""The data keys of producers and consumers, for end-to-end encryption. Java calls this MessageCrypto.

A producer has one data key, wrapped with each of its public keys. It is replaced every four hours, and before its
random initialisation vectors could repeat. The key and all its wrapped forms are one value, which is replaced as a
whole: if any public key cannot be had, the old value stays in use.

A consumer keeps the data keys that it has unwrapped, by their wrapped bytes, until four hours after their last use.

Public and private keys come from the user's key reader, which may be slow. So `new_data_key` and `find_data_key` are
called by threads that may wait, and never by an I/O thread.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from pulsar_actors.exceptions import CryptoError
from pulsar_actors.wire.protobuf import BytesLike, readable
from pulsar_actors.wire.PulsarApi_pb2 import EncryptionKeys, KeyValue, MessageMetadata

if TYPE_CHECKING:
    from pulsar_actors.wire.encryption import PrivateKey

DATA_KEY_LIFETIME: Final = 4 * 3600.0
"""Seconds: after this time a producer takes a new data key, and a consumer forgets one that it has not used."""

RETRY_AFTER: Final = 60.0
"""Seconds from a replacement that failed to the next."""

KEY_READER_TIMEOUT: Final = 60.0
"""Seconds that a key reader may take, when it does not hold up its caller."""

MAX_USES: Final = 2**31
"""A data key encrypts no more entries: with 2^32 random vectors of 96 bits, a repetition is too likely."""

MAX_KNOWN: Final = 1000
"""A consumer keeps no more data keys."""

MAX_LOADED: Final = 16
"""A consumer keeps no more private keys."""


class ReadKey(Protocol):
    """Reads the PEM of a key by its name. It returns the metadata of the key, too; None instead if there is no key."""

    def __call__(self, name: str, metadata: Mapping[str, str]) -> tuple[bytes, Mapping[str, str]] | None:
        """Read a key."""
        ...


class DataKey:
    """A data key and its wrapped forms. A consumer encrypts a letter with the data key of the original."""

    __slots__ = ("_secret", "born", "size", "uses", "wrapped")

    def __init__(self, secret: bytes, wrapped: Sequence[EncryptionKeys], born: float) -> None:
        self._secret = secret
        self.wrapped = tuple(wrapped)
        self.born = born
        self.uses = 0
        self.size = sum(one.ByteSize() + 4 for one in self.wrapped)

    def encrypt(self, metadata: MessageMetadata, payload: BytesLike) -> bytes:
        """Encrypt a payload, and note in its entry's metadata how."""
        from pulsar_actors.wire.encryption import IV_SIZE, encrypt_payload  # noqa: PLC0415 - loads cryptography

        self.uses += 1
        iv = os.urandom(IV_SIZE)
        del metadata.encryption_keys[:]
        metadata.encryption_keys.extend(self.wrapped)
        metadata.encryption_param = iv
        return encrypt_payload(self._secret, iv, payload)

    def decrypt(self, iv: bytes, payload: BytesLike) -> bytes:
        """Decrypt a payload."""
        from pulsar_actors.wire.encryption import decrypt_payload  # noqa: PLC0415 - loads cryptography

        return decrypt_payload(self._secret, iv, payload)

    @property
    def overhead(self) -> int:
        """The bytes that encryption adds to an entry."""
        return self.size + 36

    def __reduce__(self) -> str:
        raise TypeError("a data key is secret and cannot be pickled")


def new_data_key(names: Sequence[str], read_public_key: ReadKey, now: float) -> DataKey:
    """Make a data key, wrapped with the public key of each name. Raise CryptoError if one cannot be used."""
    from pulsar_actors.wire.encryption import DATA_KEY_SIZE, KeyFault, load_public_key, wrap_data_key  # noqa: PLC0415

    secret, wrapped = os.urandom(DATA_KEY_SIZE), list[EncryptionKeys]()
    for name in names:
        pem, metadata = _read("public", read_public_key, name, {})
        reason = ""
        try:
            value = wrap_data_key(load_public_key(pem), secret)
        except KeyFault as fault:
            value, reason = b"", str(fault)
        if reason:
            raise CryptoError(f"the public key {name!r} cannot be used: {reason}")
        pairs = [KeyValue(key=key, value=text) for key, text in metadata.items()]
        wrapped.append(EncryptionKeys(key=name, value=value, metadata=pairs))
    return DataKey(secret, wrapped, now)


class ProducerKeys:
    """The current data key of one producer, and when it is due to be replaced. Times are monotonic seconds.

    `current` is None until `replace` has succeeded. Entries are sent in the clear then, and `note_unencrypted` is
    called for each: ProducerCryptoFailureAction.SEND allows that.
    """

    __slots__ = ("_next_try", "_read", "current", "names", "note_unencrypted")

    def __init__(
        self,
        names: Sequence[str],
        read_public_key: ReadKey,
        *,
        note_unencrypted: Callable[[], object] = lambda: None,
    ) -> None:
        self.names = tuple(names)
        self.note_unencrypted = note_unencrypted
        self.current: DataKey | None = None
        self._read = read_public_key
        self._next_try = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether to call `replace` now. It is not due again before the call has ended, or for a while."""
        key = self.current
        if key is not None and now - key.born < DATA_KEY_LIFETIME and key.uses < MAX_USES:
            return False
        return now >= self._next_try

    def begin(self, now: float) -> None:
        """Note that `replace` will be called."""
        self._next_try = now + RETRY_AFTER

    def replace(self, now: float) -> None:
        """Replace the data key, or raise CryptoError and keep the old one. The key reader may block."""
        self._next_try = now + RETRY_AFTER
        self.current = new_data_key(self.names, self._read, now)

    @property
    def overhead(self) -> int:
        """The bytes that encryption adds to an entry."""
        return 0 if self.current is None else self.current.overhead

    def encrypt(self, metadata: MessageMetadata, payload: BytesLike) -> BytesLike:
        """Encrypt the payload of an entry."""
        if self.current is None:
            self.note_unencrypted()
            return payload
        return self.current.encrypt(metadata, payload)


class KnownDataKeys:
    """The data keys that a consumer has unwrapped, by their wrapped bytes.

    It has a lock, because a thread that was given up, with a key reader that hangs, may come back.
    """

    __slots__ = ("_known", "_lock")

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, tuple[DataKey, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, wrapped: bytes, now: float) -> DataKey | None:
        """Return the data key, unless it is unknown or has not been used for too long."""
        with self._lock:
            while self._known:
                oldest, (_, used) = next(iter(self._known.items()))
                if now - used <= DATA_KEY_LIFETIME:
                    break
                del self._known[oldest]
            found = self._known.pop(wrapped, None)
            if found is None:
                return None
            self._known[wrapped] = found[0], now
            return found[0]

    def put(self, wrapped: bytes, data_key: DataKey, now: float) -> None:
        """Keep a data key."""
        with self._lock:
            self._known[wrapped] = data_key, now
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)

    def drop(self, wrapped: bytes) -> None:
        """Forget a data key that did not fit."""
        with self._lock:
            self._known.pop(wrapped, None)


class ConsumerKeys:
    """Decrypts the entries of one consumer, or of its members for several topics. `now` returns monotonic seconds.

    Loading a private key takes 50 ms and more, as `cryptography` checks it. So the last ones are kept: an entry may
    name as many keys as its producer likes.
    """

    __slots__ = ("_known", "_loaded", "_read", "now")

    def __init__(self, read_private_key: ReadKey, now: Callable[[], float]) -> None:
        self._read = read_private_key
        self.now = now
        self._known = KnownDataKeys()
        self._loaded: dict[bytes, PrivateKey] = {}

    def knows(self, metadata: MessageMetadata) -> bool:
        """Return whether an entry can probably be decrypted without the key reader."""
        now = self.now()
        return any(self._known.get(one.value, now) is not None for one in metadata.encryption_keys)

    def decrypt(self, metadata: MessageMetadata, payload: BytesLike, failed: dict[bytes, str]) -> tuple[bytes, DataKey]:
        """Decrypt the payload of an entry, and return the data key, too. The key reader may block.

        Raise CryptoError, with the reason for each key, if no key fits. `failed` has the wrapped data keys that need
        not be tried again now, each with the reason, and gets further ones.
        """
        from pulsar_actors.wire.encryption import DecryptionFault  # noqa: PLC0415 - see DataKey

        keys = list({one.value: one for one in readable(metadata).encryption_keys}.values())  # C++ repeats them
        iv, now = metadata.encryption_param, self.now()
        for key in keys:
            known = self._known.get(key.value, now)
            if known is None:
                continue
            try:
                return known.decrypt(iv, payload), known
            except DecryptionFault:
                self._known.drop(key.value)
        reasons: list[str] = []
        for key in keys:
            if key.value in failed:
                reasons.append(failed[key.value])
                continue
            try:
                data_key = DataKey(self._unwrap(key), keys, now)
                plain = data_key.decrypt(iv, payload)
            except CryptoError as error:
                failed[key.value] = str(error)
                reasons.append(str(error))
            except DecryptionFault as fault:
                reasons.append(f"the key {key.key!r}: {fault}")
            else:
                self._known.put(key.value, data_key, now)
                return plain, data_key
        raise CryptoError("; ".join(reasons))

    def _unwrap(self, key: EncryptionKeys) -> bytes:
        from pulsar_actors.wire.encryption import (  # noqa: PLC0415 - see DataKey
            DecryptionFault,
            KeyFault,
            unwrap_data_key,
        )

        pem, _ = _read("private", self._read, key.key, {pair.key: pair.value for pair in key.metadata})
        try:
            return unwrap_data_key(self._load(pem), key.value)
        except (KeyFault, DecryptionFault) as fault:
            reason = str(fault)
        raise CryptoError(f"the private key {key.key!r} cannot be used: {reason}")

    def _load(self, pem: bytes) -> "PrivateKey":
        from pulsar_actors.wire.encryption import load_private_key  # noqa: PLC0415 - see DataKey

        loaded = self._loaded.get(pem)
        if loaded is None:
            loaded = load_private_key(pem)
            if len(self._loaded) >= MAX_LOADED:
                self._loaded = {}
            self._loaded[pem] = loaded
        return loaded


def _read(kind: str, read: ReadKey, name: str, metadata: Mapping[str, str]) -> tuple[bytes, Mapping[str, str]]:
    """Ask the user's key reader. Its errors may quote keys, so only an OSError's reason and the type are passed on."""
    found: tuple[bytes, Mapping[str, str]] | None = None
    try:
        found = read(name, metadata)
    except CryptoError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except Exception as error:  # noqa: BLE001 - see above
        reason = f"the key reader raised {type(error).__name__}"
    else:
        reason = "the key reader has none of this name"
    if found is None:
        raise CryptoError(f"the {kind} key {name!r} cannot be read: {reason}")
    return found
