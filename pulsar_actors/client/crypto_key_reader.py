"""Key readers of end-to-end encryption: they get a producer's public keys, and a consumer's private keys.

The official client has `CryptoKeyReader` only, with one pair of files for all names. For keys from elsewhere, such as a
vault, write a subclass of `EncryptionKeyReader`.

A key is read when it is needed, so a file may be replaced. It is read by the thread that creates the producer, and
later by a thread that does nothing else. So a reader may take its time.
"""

import importlib
from collections.abc import Mapping
from typing import cast

from pulsar_actors.client.validation import instance_of, path
from pulsar_actors.client.validation import properties as check_properties
from pulsar_actors.exceptions import CryptoError
from pulsar_actors.runtime.message_crypto import ReadKey

__all__ = [
    "CryptoKeyReader",
    "EncryptionKeyInfo",
    "EncryptionKeyReader",
    "NamedCryptoKeyReader",
    "check_encryption_is_installed",
    "private_keys_of",
    "public_keys_of",
]

_bytes = instance_of(bytes)


class EncryptionKeyInfo:
    """A key in PEM, and metadata, which is sent with each message and given to the consumer's key reader."""

    __slots__ = ("key", "metadata")

    def __init__(self, key: bytes, metadata: Mapping[str, str] | None = None) -> None:
        _bytes("key", key)
        self.key = key
        self.metadata = _texts("metadata", metadata)

    def __repr__(self) -> str:
        return f"EncryptionKeyInfo(metadata={self.metadata})"

    def __reduce__(self) -> str:
        raise TypeError("an EncryptionKeyInfo may have a private key and cannot be pickled")


class EncryptionKeyReader:
    """The base class of key readers. Override the method for public keys, for private keys, or both.

    A method returns a key in PEM, alone or as an `EncryptionKeyInfo`, or None if it has no key of that name. It may
    block, and may raise any error; only the error's type is shown, unless it is an OSError or a CryptoError.
    """

    def get_public_key(self, name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo | bytes | None:  # noqa: ARG002 - for subclasses
        """Return the public key of this name: an RSA or EC key, or a certificate with one."""
        return None

    def get_private_key(self, name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo | bytes | None:  # noqa: ARG002 - for subclasses
        """Return the private key of this name. `metadata` is what the producer's reader gave with the public key."""
        return None


class CryptoKeyReader(EncryptionKeyReader):
    """Reads the keys of all names from the same two files, in PEM.

    A producer needs only the first, a consumer the second. Java and this package read RSA and EC keys, the official
    client only RSA.
    """

    def __init__(self, public_key_path: str, private_key_path: str) -> None:
        """Take the paths of the files, which are read each time that a key is needed."""
        _path("public_key_path", public_key_path)
        _path("private_key_path", private_key_path)
        self._public_key_path = public_key_path
        self._private_key_path = private_key_path

    def get_public_key(self, name: str, metadata: Mapping[str, str]) -> bytes:  # noqa: ARG002 - for subclasses
        """Read the file of the public key."""
        return _read_file(self._public_key_path)

    def get_private_key(self, name: str, metadata: Mapping[str, str]) -> bytes:  # noqa: ARG002 - for subclasses
        """Read the file of the private key."""
        return _read_file(self._private_key_path)


class NamedCryptoKeyReader(EncryptionKeyReader):
    """Reads keys from files, which are given by the names of the keys."""

    def __init__(
        self, public_key_paths: Mapping[str, str] | None = None, private_key_paths: Mapping[str, str] | None = None
    ) -> None:
        """Take the paths of the files by the names of their keys."""
        self._public_key_paths = _texts("public_key_paths", public_key_paths)
        self._private_key_paths = _texts("private_key_paths", private_key_paths)

    def get_public_key(self, name: str, metadata: Mapping[str, str]) -> bytes | None:  # noqa: ARG002 - for subclasses
        """Read the file of the public key of this name."""
        return _read_named(self._public_key_paths, name)

    def get_private_key(self, name: str, metadata: Mapping[str, str]) -> bytes | None:  # noqa: ARG002 - for subclasses
        """Read the file of the private key of this name."""
        return _read_named(self._private_key_paths, name)


def _read_file(name: str) -> bytes:
    try:
        from pathlib import Path  # noqa: PLC0415

        return Path(name).read_bytes()
    except ValueError:  # a path with a null byte
        reason = "it is no path"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    raise CryptoError(f"the file {name!r}: {reason}")


def _path(name: str, given: object) -> None:
    """Take a path, which may be empty: the official client needs both, even if only one is used."""
    if given != "":
        path(name, given)


def _texts(name: str, given: object) -> Mapping[str, str]:
    return cast("dict[str, str]", check_properties(name, given))


def _read_named(paths: Mapping[str, str], name: str) -> bytes | None:
    found = paths.get(name)
    return None if found is None else _read_file(found)


def public_keys_of(reader: EncryptionKeyReader) -> ReadKey:
    """Return a function that reads the public keys of a reader."""

    def read(name: str, metadata: Mapping[str, str]) -> tuple[bytes, Mapping[str, str]] | None:
        return _checked(reader.get_public_key(name, dict(metadata)))

    return read


def private_keys_of(reader: EncryptionKeyReader) -> ReadKey:
    """Return a function that reads the private keys of a reader."""

    def read(name: str, metadata: Mapping[str, str]) -> tuple[bytes, Mapping[str, str]] | None:
        return _checked(reader.get_private_key(name, dict(metadata)))

    return read


def _checked(found: object) -> tuple[bytes, Mapping[str, str]] | None:
    if found is None:
        return None
    if isinstance(found, EncryptionKeyInfo):
        return found.key, found.metadata
    if isinstance(found, bytes):
        return found, {}
    raise CryptoError(f"the key reader returned {type(found).__name__} instead of bytes")


def check_encryption_is_installed() -> None:
    """Raise a CryptoError that names the extra if `cryptography` cannot be imported."""
    try:
        importlib.import_module("cryptography")
    except ImportError:
        raise CryptoError("end-to-end encryption needs cryptography: pip install 'pulsar-actors[encryption]'") from None
