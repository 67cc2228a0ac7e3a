"""Decrypts a message that was delivered encrypted (`ConsumerCryptoFailureAction.CONSUME`).

For programs that get the private key later, or elsewhere. Nothing else has to be known of the format: a batch becomes
its messages again, each with its key, its properties and its value.
"""

import time

from pulsar_actors.client.crypto_key_reader import (
    EncryptionKeyReader,
    check_encryption_is_installed,
    private_keys_of,
)
from pulsar_actors.client.message import Message, new_messages, stored_entry_of
from pulsar_actors.client.validation import instance_of
from pulsar_actors.runtime.message_crypto import ConsumerKeys
from pulsar_actors.runtime.opened_entry import OpenedEntry, open_decrypted
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE

__all__ = ["decrypt"]

_message = instance_of(Message)
_reader = instance_of(EncryptionKeyReader)


def decrypt(message: Message, crypto_key_reader: EncryptionKeyReader) -> list[Message]:
    """Decrypt a message that was delivered encrypted, and return its messages: several if it is a batch.

    Raise CryptoError, with the reason for each key, if no key decrypts it. Acknowledge the message that was received,
    or each that is returned. A message that is not encrypted any more is returned as it is.
    """
    _message("message", message)
    _reader("crypto_key_reader", crypto_key_reader)
    entry = stored_entry_of(message)
    if not isinstance(entry, OpenedEntry) or not entry.is_undecryptable:
        return [message]
    check_encryption_is_installed()
    keys = ConsumerKeys(private_keys_of(crypto_key_reader), time.monotonic)
    payload, data_key = keys.decrypt(entry.metadata, message.data(), {})
    return new_messages(*open_decrypted(entry, payload, data_key, DEFAULT_MAX_MESSAGE_SIZE)[:4])
