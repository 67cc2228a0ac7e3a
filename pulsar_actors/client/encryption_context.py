"""How a message was encrypted, for a program that decrypts it itself.

A consumer with `crypto_failure_action=CONSUME` gets messages as they were stored. What the producer wrote about the
encryption is then all that there is to decrypt them by.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pulsar_actors.client.enums import CompressionType
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata
from pulsar_actors.wire.strings import readable

__all__ = ["EncryptionContext", "EncryptionKey"]


class EncryptionKey(NamedTuple):
    """One of the keys under which the message's own key was encrypted: its name, that encrypted key, and notes."""

    key: str
    value: bytes
    metadata: Mapping[str, str]

    def __repr__(self) -> str:
        return f"EncryptionKey(key={self.key}, value_len={len(self.value)}, metadata={self.metadata})"


class EncryptionContext:
    """What the producer wrote about the encryption, and the compression below it."""

    __slots__ = ("_metadata",)

    def __init__(self, metadata: MessageMetadata) -> None:
        self._metadata = readable(metadata)

    def keys(self) -> list[EncryptionKey]:
        """Return the keys that the message can be decrypted by."""
        return [
            EncryptionKey(one.key, one.value, {pair.key: pair.value for pair in one.metadata})
            for one in self._metadata.encryption_keys
        ]

    def param(self) -> bytes:
        """Return the parameter of the algorithm: its initialisation vector."""
        return self._metadata.encryption_param

    def algorithm(self) -> str:
        """Return the name of the algorithm, as the producer wrote it."""
        return self._metadata.encryption_algo

    def compression_type(self) -> CompressionType:
        """Return how the payload was compressed before it was encrypted."""
        return CompressionType(self._metadata.compression)

    def uncompressed_message_size(self) -> int:
        """Return the payload's size before it was compressed, or 0 if it was not."""
        return self._metadata.uncompressed_size if self._metadata.compression else 0

    def batch_size(self) -> int:
        """Return the number of messages in the payload, or -1 if it is no batch."""
        return self._metadata.num_messages_in_batch if self._metadata.HasField("num_messages_in_batch") else -1

    def is_decryption_failed(self) -> bool:
        """Return whether the payload is still encrypted: always, for this version decrypts nothing."""
        return True

    def __repr__(self) -> str:
        return (
            f"EncryptionContext(algorithm={self.algorithm()}, compression_type={self.compression_type().name}, "
            f"uncompressed_message_size={self.uncompressed_message_size()}, "
            f"is_decryption_failed={self.is_decryption_failed()}, keys={self.keys()})"
        )
