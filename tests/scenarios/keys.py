"""The keys of all who encrypt in a scenario: one pair, which cannot always be read."""

import functools
from collections.abc import Callable, Mapping

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pulsar_actors.client.crypto_key_reader import EncryptionKeyReader


@functools.cache
def key_pair() -> rsa.RSAPrivateKey:
    """Return the pair of all who encrypt."""
    return rsa.generate_private_key(65537, 2048)


class Keys(EncryptionKeyReader):
    """Reads both of them, whatever the name."""

    def get_public_key(self, name: str, metadata: Mapping[str, str]) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return key_pair().public_key().public_bytes(serialization.Encoding.PEM, form)

    def get_private_key(self, name: str, metadata: Mapping[str, str]) -> bytes:
        form, sealed = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return key_pair().private_bytes(serialization.Encoding.PEM, form, sealed)


class FailingKeys(Keys):
    """Reads them unless the private one is out of reach just now."""

    def __init__(self, is_out_of_reach: Callable[[], bool]) -> None:
        self._is_out_of_reach = is_out_of_reach

    def get_private_key(self, name: str, metadata: Mapping[str, str]) -> bytes:
        if self._is_out_of_reach():
            raise OSError("out of reach")
        return super().get_private_key(name, metadata)
