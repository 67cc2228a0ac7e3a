"""End-to-end encryption on the wire: payloads, and the data keys that encrypt them.

A payload is encrypted with AES-256-GCM and a data key of 32 bytes: the ciphertext is followed by its tag. The data key
travels in the entry's metadata, wrapped with each of the producer's public keys, and so does the initialisation vector.

An RSA key wraps with OAEP, an elliptic curve with ECIES. Both use SHA-1, because all clients of Pulsar do: other hashes
could not be read by them. ECIES is what Java writes. It is the ephemeral public key, the data key XORed with a key that
both sides derive (ECDH and KDF2), and an HMAC.

`cryptography` is loaded with this module, so this module is imported only where encryption is used.
"""

import hashlib
import hmac
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509 import load_pem_x509_certificate

if TYPE_CHECKING:
    from pulsar_actors.wire.protobuf import BytesLike

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

DATA_KEY_SIZE: Final = 32
IV_SIZE: Final = 12
TAG_SIZE: Final = 16
"""A payload grows by so many bytes."""

_MAC_KEY_SIZE = 16
_MAC_SIZE = 20
_MAC_SUFFIX = bytes(8)  # the length of ECIES' second parameter, which is empty
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_OAEP = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)  # noqa: S303 - see above


class KeyFault(Exception):
    """A key that cannot be used, with the reason. It never has any part of the key in it."""


class DecryptionFault(Exception):
    """A data key or a payload that a key does not decrypt."""


def load_public_key(pem: bytes) -> PublicKey:
    """Load an RSA or EC key from PEM: a public key, or a certificate."""
    key: object = None
    try:
        if _CERTIFICATE in pem:
            key = load_pem_x509_certificate(pem).public_key()
        else:
            key = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        pass
    if key is None:  # after the handler: the handled error may hold a part of the key
        raise KeyFault("it is not a public key or a certificate in PEM")
    if not isinstance(key, (rsa.RSAPublicKey, ec.EllipticCurvePublicKey)):
        raise KeyFault("it is neither an RSA nor an EC key")
    return key


def load_private_key(pem: bytes) -> PrivateKey:
    """Load an RSA or EC key from PEM, without a password."""
    key: object = None
    reason = "it is not a private key in PEM"
    try:
        key = serialization.load_pem_private_key(pem, None)
    except TypeError:
        reason = "it is protected by a password"
    except (ValueError, UnsupportedAlgorithm):
        pass
    if key is None:
        raise KeyFault(reason)
    if not isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
        raise KeyFault("it is neither an RSA nor an EC key")
    return key


def wrap_data_key(key: PublicKey, data_key: bytes) -> bytes:
    """Encrypt a data key with a public key."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        return ecies_encrypt(key, data_key, ec.generate_private_key(key.curve))
    try:
        return key.encrypt(data_key, _OAEP)
    except ValueError:
        pass
    raise KeyFault(f"an RSA key of {key.key_size} bits is too small")


def unwrap_data_key(key: PrivateKey, wrapped: bytes) -> bytes:
    """Decrypt a data key with a private key."""
    data_key: bytes | None = None
    try:
        if isinstance(key, ec.EllipticCurvePrivateKey):
            data_key = ecies_decrypt(key, wrapped)
        else:
            data_key = key.decrypt(wrapped, _OAEP)
    except ValueError:
        pass
    if data_key is None or len(data_key) != DATA_KEY_SIZE:
        raise DecryptionFault("the private key does not fit the message's data key")
    return data_key


def ecies_encrypt(key: ec.EllipticCurvePublicKey, data_key: bytes, ephemeral: ec.EllipticCurvePrivateKey) -> bytes:
    """Encrypt a data key as Java does for EC keys. `ephemeral` is used for this only."""
    point = ephemeral.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    mac_key, mask = _derived_keys(point, ephemeral.exchange(ec.ECDH(), key), len(data_key))
    hidden = _xor(data_key, mask)
    return point + hidden + _mac(mac_key, hidden)


def ecies_decrypt(key: ec.EllipticCurvePrivateKey, wrapped: bytes) -> bytes:
    """Decrypt a data key that was encrypted as Java does. Raise ValueError if the key does not fit."""
    size = 1 + 2 * ((key.curve.key_size + 7) // 8)
    point, hidden, tag = wrapped[:size], wrapped[size:-_MAC_SIZE], wrapped[-_MAC_SIZE:]
    if len(wrapped) != size + DATA_KEY_SIZE + _MAC_SIZE:
        raise ValueError("the wrapped data key has another size")
    sender = ec.EllipticCurvePublicKey.from_encoded_point(key.curve, point)
    mac_key, mask = _derived_keys(point, key.exchange(ec.ECDH(), sender), len(hidden))
    if not hmac.compare_digest(_mac(mac_key, hidden), tag):
        raise ValueError("the wrapped data key is for another key")
    return _xor(hidden, mask)


def encrypt_payload(data_key: bytes, iv: bytes, payload: "BytesLike") -> bytes:
    """Encrypt a payload. Never use an initialisation vector twice with a data key."""
    return AESGCM(data_key).encrypt(iv, payload, None)


def decrypt_payload(data_key: bytes, iv: bytes, payload: "BytesLike") -> bytes:
    """Decrypt a payload."""
    plain: bytes | None = None
    with suppress(InvalidTag, ValueError):
        plain = AESGCM(data_key).decrypt(iv, payload, None)
    if plain is None:
        raise DecryptionFault("the data key does not fit the payload")
    return plain


def _derived_keys(point: bytes, shared: bytes, size: int) -> tuple[bytes, bytes]:
    """Return the key of the HMAC, and as many bytes as are to be hidden (KDF2 with SHA-1)."""
    needed, derived, counter = _MAC_KEY_SIZE + size, b"", 1
    while len(derived) < needed:
        derived += hashlib.sha1(point + shared + counter.to_bytes(4, "big"), usedforsecurity=False).digest()
        counter += 1
    return derived[:_MAC_KEY_SIZE], derived[_MAC_KEY_SIZE:needed]


def _mac(key: bytes, hidden: bytes) -> bytes:
    return hmac.digest(key, hidden + _MAC_SUFFIX, "sha1")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
