"""Certificate authorities and certificates for tests: valid ones, and each kind of invalid one."""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

NOW = datetime.now(timezone.utc)
DAY = timedelta(days=1)
AROUND_NOW = (NOW - DAY, NOW + DAY)
LONG_AGO = (NOW - 3 * DAY, NOW - 2 * DAY)
IN_FUTURE = (NOW + 2 * DAY, NOW + 3 * DAY)

SIGNS_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class Files(NamedTuple):
    """The paths of a certificate and its key, both in PEM."""

    certificate: str
    key: str


class Authority:
    """A certificate authority with a self-signed certificate. It writes its files to the given folder."""

    def __init__(self, folder: Path, name: str = "an authority of the tests") -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (
            _builder(self.name, self.name, self.key, AROUND_NOW)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(SIGNS_CERTIFICATES, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        self.file = str(folder / f"{name}.pem")
        Path(self.file).write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def certify(  # noqa: PLR0913 - what certificates differ in
        self,
        names: Sequence[str] = ("localhost", "127.0.0.1"),
        *,
        valid: tuple[datetime, datetime] = AROUND_NOW,
        self_signed: bool = False,
        purpose: x509.ObjectIdentifier | None = None,
        signed_with: Files | None = None,
        file_name: str = "certificate",
        signatures_of_one_size: bool = False,
    ) -> Files:
        """Create a certificate for these names and addresses, and its key. Without a purpose it is valid for any.

        It may be signed with another certificate, which is no authority's and follows in its file.
        """
        key: Key = ec.generate_private_key(ec.SECP256R1())
        if signatures_of_one_size:
            key = ed25519.Ed25519PrivateKey.generate()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, file_name)])
        signing_key: Key = self.key
        issuer, signer = self.name, b""
        if self_signed:
            issuer, signing_key = subject, key
        elif signed_with is not None:
            signer = Path(signed_with.certificate).read_bytes()
            issuer = x509.load_pem_x509_certificate(signer).subject
            loaded = load_pem_private_key(Path(signed_with.key).read_bytes(), None)
            assert isinstance(loaded, ec.EllipticCurvePrivateKey)
            signing_key = loaded
        builder = (
            _builder(subject, issuer, key, valid)
            .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
        )
        if purpose is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        certificate = builder.sign(
            signing_key, None if isinstance(signing_key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        )
        files = Files(str(self.folder / f"{file_name}.pem"), str(self.folder / f"{file_name}.key.pem"))
        Path(files.certificate).write_bytes(certificate.public_bytes(Encoding.PEM) + signer)
        Path(files.key).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return files


def encrypt_key(file: str, password: bytes) -> None:
    """Encrypt a key file with a password."""
    key = load_pem_private_key(Path(file).read_bytes(), None)
    Path(file).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password)))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, valid: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
