"""The encryption of payloads and data keys, compared with what OpenSSL does."""

import datetime as dt
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from pulsar_actors.wire import encryption
from pulsar_actors.wire.encryption import DecryptionFault, KeyFault

DATA_KEY = bytes(range(32))
PEM = serialization.Encoding.PEM
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo
PLAIN = serialization.NoEncryption()
CURVES = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
EC_PARAMETERS = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def private_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(PEM, form, PLAIN)


# Payloads.


def test_a_payload_grows_by_its_tag_and_is_the_one_of_a_published_vector() -> None:
    # Test case 14 of "The Galois/Counter Mode of Operation" by McGrew and Viega.
    sealed = encryption.encrypt_payload(bytes(32), bytes(12), bytes(16))
    assert sealed.hex() == "cea7403d4d606b6e074ec5d3baf39d18" + "d0d1c8a799996bf0265b98b5d48ab919"
    assert encryption.decrypt_payload(bytes(32), bytes(12), memoryview(sealed)) == bytes(16)


@pytest.mark.parametrize("iv", [bytes(12), b"", bytes(7), bytes(11) + b"\1"])
def test_a_changed_payload_or_another_vector_is_refused(iv: bytes) -> None:
    sealed = bytearray(encryption.encrypt_payload(DATA_KEY, bytes(12), b"content"))
    sealed[3] ^= iv == bytes(12)
    with pytest.raises(DecryptionFault):
        encryption.decrypt_payload(DATA_KEY, iv, bytes(sealed))


# Data keys.


@pytest.mark.skipif(shutil.which("openssl") is None, reason="compares with the command openssl")
def test_openssl_unwraps_what_an_rsa_key_wrapped(rsa_key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(private_pem(rsa_key, serialization.PrivateFormat.PKCS8))
    (tmp_path / "wrapped").write_bytes(encryption.wrap_data_key(rsa_key.public_key(), DATA_KEY))
    arguments = ["pkeyutl", "-decrypt", "-inkey", "key", "-in", "wrapped", "-pkeyopt", "rsa_padding_mode:oaep"]
    done = subprocess.run(["openssl", *arguments], cwd=tmp_path, capture_output=True, check=True)  # noqa: S603, S607
    assert done.stdout == DATA_KEY


@pytest.mark.parametrize(("curve", "size"), [("P-256", 117), ("P-384", 149), ("P-521", 185)])
def test_an_ec_key_unwraps_what_it_wrapped_in_the_size_that_java_writes(curve: str, size: int) -> None:
    key = ec.generate_private_key(CURVES[curve])
    wrapped = encryption.wrap_data_key(key.public_key(), DATA_KEY)
    assert len(wrapped) == size
    assert encryption.unwrap_data_key(key, wrapped) == DATA_KEY
    assert encryption.wrap_data_key(key.public_key(), DATA_KEY) != wrapped


def test_the_derived_keys_are_those_of_kdf2() -> None:
    """The first hash has the counter 1, and the key of the HMAC comes first."""
    key, ephemeral = ec.derive_private_key(7, ec.SECP256R1()), ec.derive_private_key(11, ec.SECP256R1())
    wrapped = encryption.ecies_encrypt(key.public_key(), DATA_KEY, ephemeral)
    shared = ec.derive_private_key(77, ec.SECP256R1()).public_key().public_numbers().x.to_bytes(32, "big")
    seed = wrapped[:65] + shared
    stream = b"".join(hashlib.sha1(seed + bytes([0, 0, 0, one])).digest() for one in (1, 2, 3))  # noqa: S324
    assert wrapped[65:97] == bytes(a ^ b for a, b in zip(DATA_KEY, stream[16:48], strict=True))


@pytest.mark.parametrize("kind", ["RSA", *CURVES])
def test_another_key_and_changed_bytes_are_refused(kind: str, rsa_key: rsa.RSAPrivateKey) -> None:
    if kind == "RSA":
        key, other = rsa_key, rsa.generate_private_key(65537, 2048)
        wrapped = encryption.wrap_data_key(rsa_key.public_key(), DATA_KEY)
        cases = [(other, wrapped), (key, wrapped[:-1]), (key, b"")]
    else:
        mine, others = ec.generate_private_key(CURVES[kind]), ec.generate_private_key(CURVES[kind])
        wrapped = encryption.wrap_data_key(mine.public_key(), DATA_KEY)
        changed = [bytes([*wrapped[:at], wrapped[at] ^ 1, *wrapped[at + 1 :]]) for at in range(0, len(wrapped), 10)]
        cases = [(others, wrapped), (mine, wrapped[:-1]), (mine, b""), *((mine, one) for one in changed)]  # type: ignore[list-item] # of either kind
    for unfit, given in cases:
        with pytest.raises(DecryptionFault):
            encryption.unwrap_data_key(unfit, given)


# Keys.


@pytest.mark.parametrize(
    "form", [serialization.PrivateFormat.TraditionalOpenSSL, serialization.PrivateFormat.PKCS8], ids=str
)
def test_keys_in_all_forms_are_loaded(rsa_key: rsa.RSAPrivateKey, form: serialization.PrivateFormat) -> None:
    ec_key = ec.generate_private_key(ec.SECP256R1())
    assert encryption.load_private_key(private_pem(rsa_key, form)).private_numbers() == rsa_key.private_numbers()
    for before in (b"", EC_PARAMETERS):
        loaded = encryption.load_private_key(before + private_pem(ec_key, form))
        assert loaded.private_numbers() == ec_key.private_numbers()


def test_a_certificate_is_loaded_as_its_public_key(rsa_key: rsa.RSAPrivateKey) -> None:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "k")])
    now = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(rsa_key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + dt.timedelta(days=1))
    pem = builder.sign(rsa_key, hashes.SHA256()).public_bytes(PEM)
    assert encryption.load_public_key(pem) == rsa_key.public_key()


def test_what_is_no_key_is_refused_with_the_reason(rsa_key: rsa.RSAPrivateKey) -> None:
    other = ed25519.Ed25519PrivateKey.generate()
    other_pem = other.private_bytes(PEM, serialization.PrivateFormat.PKCS8, PLAIN)
    locked = rsa_key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x"))
    for pem, reason in (
        (b"", "not a public key"),
        (b"\xff", "not a public key"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "not a public key"),
        (private_pem(rsa_key, serialization.PrivateFormat.PKCS8), "not a public key"),
        (other.public_key().public_bytes(PEM, SPKI), "neither an RSA nor an EC key"),
    ):
        with pytest.raises(KeyFault, match=reason):
            encryption.load_public_key(pem)
    for pem, reason in (
        (b"", "not a private key"),
        (rsa_key.public_key().public_bytes(PEM, SPKI), "not a private key"),
        (locked, "protected by a password"),
        (other_pem, "neither an RSA nor an EC key"),
    ):
        with pytest.raises(KeyFault, match=reason):
            encryption.load_private_key(pem)
