"""Whoever is not proven to be the broker is told nothing: no token, no command. The caller hears soon what to do."""

import contextlib
import logging
import socket
import ssl
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.runtime.tls import server_context
from tests.support.certificates import IN_FUTURE, LONG_AGO, Authority, Files, encrypt_key
from tests.support.life import SOON, FakeBroker, InThread, until
from tests.support.relay import Relay

pytestmark = pytest.mark.usefixtures("clean")

TOKENS = Tokens(b"a secret of the tests")
TOKEN = TOKENS.issue("me")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


class Listening:
    """Takes part in TLS as told, and keeps what clients say behind it, or without it."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self.heard: list[bytes] = []

    def __call__(self, accepted: socket.socket) -> None:
        accepted.settimeout(SOON)
        with contextlib.suppress(OSError):
            if self._context is None:
                accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                self.heard.append(accepted.recv(65_536))
                return
            with self._context.wrap_socket(accepted, server_side=True) as secured:
                self.heard.append(secured.recv(65_536))


def only_tls_1_1(files: Files) -> ssl.SSLContext:
    context = server_context(*files)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


REFUSED: dict[str, tuple[Callable[[Authority], ssl.SSLContext | None], str, str]] = {
    "of another host": (
        lambda authority: server_context(*authority.certify(["elsewhere.example", "127.0.0.1"])),
        "localhost",
        "is for another name than 'localhost': connect by a name that it lists, or turn tls_validate_hostname off",
    ),
    "without the address": (
        lambda authority: server_context(*authority.certify(["localhost"])),
        "127.0.0.1",
        "does not list the address '127.0.0.1': connect by a name that it lists, or turn tls_validate_hostname off",
    ),
    "expired": (
        lambda authority: server_context(*authority.certify(valid=LONG_AGO)),
        "localhost",
        "has expired: have it renewed, or set the clock of this machine if that is wrong",
    ),
    "not valid yet": (
        lambda authority: server_context(*authority.certify(valid=IN_FUTURE)),
        "localhost",
        "is not valid yet: set the clock of this machine, or of the one that made the certificate",
    ),
    "of an unknown authority": (
        lambda authority: server_context(*Authority(authority.folder, "stranger").certify(file_name="strange")),
        "localhost",
        "was signed by an unknown authority: if it is to be trusted, name a file with its authority's certificate",
    ),
    "self-signed": (
        lambda authority: server_context(*authority.certify(self_signed=True)),
        "localhost",
        "is self-signed: if it is to be trusted, name a file with its authority's certificate",
    ),
    "signed with a certificate that is no authority's": (
        lambda authority: server_context(
            *authority.certify(signed_with=authority.certify(file_name="signer"), file_name="signed")
        ),
        "localhost",
        "was signed with a certificate that is no authority's: have one made by an authority",
    ),
    "for clients only": (
        lambda authority: server_context(*authority.certify(purpose=ExtendedKeyUsageOID.CLIENT_AUTH)),
        "localhost",
        "is not for this use: have one made whose extended key usage names it",
    ),
    "TLS 1.1": (
        lambda authority: only_tls_1_1(authority.certify()),
        "localhost",
        "the peer speaks neither TLS 1.2 nor 1.3",
    ),
    "plain": (lambda _: None, "localhost", ""),
}
OTHER_CALLS: list[Callable[[pulsar.Client], object]] = [
    lambda client: client.subscribe("t", "s"),
    lambda client: client.create_reader("t", pulsar.MessageId.earliest),
    lambda client: client.get_topic_partitions("t"),
]
SAID_OF_PLAIN = {
    "pulsar+ssl": "the peer does not speak TLS; it says b'HTTP/1.1 400",
    "https": "does this port speak TLS?",
}


@pytest.mark.parametrize("scheme", ["pulsar+ssl", "https"])
@pytest.mark.parametrize("peer", REFUSED)
def test_who_is_not_proven_to_be_the_broker_is_told_nothing(authority: Authority, peer: str, scheme: str) -> None:
    make, host, reason = REFUSED[peer]
    listening = Listening(make(authority))
    with (
        FakeBroker(listening) as fake,
        contextlib.closing(
            pulsar.Client(
                f"{scheme}://{host}:{fake.port}",
                pulsar.AuthenticationToken(TOKEN),
                operation_timeout_seconds=4,
                tls_trust_certs_file_path=authority.file,
            )
        ) as client,
    ):
        error = InThread(lambda: client.create_producer("t")).error()
        assert isinstance(error, pulsar.PulsarException)
        assert (reason or SAID_OF_PLAIN[scheme]) in str(error)
        assert isinstance(error, pulsar.CertificateRefused) == ("certificate" in str(error))
        if isinstance(error, pulsar.CertificateRefused):
            for make in OTHER_CALLS:
                calling = InThread(lambda make=make: make(client))
                assert str(calling.error()) == str(error)
    said = b"".join(listening.heard)
    assert TOKEN.encode() not in said
    assert listening.heard == [] or said.startswith(b"\x16\x03")  # nothing but a handshake


@contextlib.contextmanager
def secure_broker(authority: Authority, **options: Any) -> Iterator[EmbeddedBroker]:
    files = authority.certify()
    with EmbeddedBroker(
        certificate_file=files.certificate, private_key_file=files.key, tokens=TOKENS, **options
    ) as broker:
        yield broker


def secure_client(broker: EmbeddedBroker, authority: Authority, **options: Any) -> Any:
    trust = {"tls_trust_certs_file_path": authority.file}
    return contextlib.closing(pulsar.Client(broker.service_url_tls, **{**trust, **options}))


@pytest.mark.parametrize("how", ["a redirect", "an answer"])
def test_a_lookup_that_leads_from_tls_to_none_is_not_followed(authority: Authority, how: str) -> None:
    with secure_broker(authority) as broker, Relay(broker.service_url) as plain:
        second = broker.add_listener()  # of several brokers none answers for a proxy
        node = second if how == "a redirect" else broker.call(lambda inside: inside.nodes[0])
        broker.assign("t", node)
        with secure_client(broker, authority, authentication=pulsar.AuthenticationToken(TOKEN)) as client:
            broker.call(lambda _: setattr(node, "service_url_tls", plain.service_url))
            error = InThread(lambda: client.create_producer("t")).error()
            assert isinstance(error, pulsar.LookupError)
            assert f"brokerServiceUrlTls is '{plain.service_url}'" in str(error)
        assert plain.connections == 0


# Certificates of clients.


SHOWN: dict[str, Callable[[Files], dict[str, Any]]] = {
    "AuthenticationTLS": lambda files: {"authentication": pulsar.AuthenticationTLS(*files)},
    "Authentication": lambda files: {
        "authentication": pulsar.Authentication("tls", f"tlsCertFile:{files.certificate},tlsKeyFile:{files.key}")
    },
    "the client's own": lambda files: {
        "authentication": pulsar.AuthenticationToken(TOKEN),
        "tls_certificate_file_path": files.certificate,
        "tls_private_key_file_path": files.key,
    },
}
NAMES = {"the client's own": ("tls_certificate_file_path", "tls_private_key_file_path")}


@pytest.mark.parametrize("way", SHOWN)
def test_a_client_may_show_a_certificate(authority: Authority, way: str) -> None:
    ours = authority.certify([], file_name="ours")
    with (
        secure_broker(authority, trust_certs_file=authority.file) as broker,
        secure_client(broker, authority, **SHOWN[way](ours)) as client,
    ):
        client.create_producer("t").send(b"x")


@pytest.mark.parametrize("way", SHOWN)
@pytest.mark.parametrize("fault", ["no certificate", "no key", "another key", "an encrypted key", "no PEM"])
def test_a_certificate_that_cannot_be_shown_is_refused_by_name(
    authority: Authority, tmp_path: Path, way: str, fault: str
) -> None:
    ours, other = authority.certify([], file_name="ours"), authority.certify([], file_name="other")
    certificate, key = NAMES.get(way, ("certificate_path", "private_key_path"))
    (tmp_path / "text").write_text("no PEM")
    if fault == "an encrypted key":
        encrypt_key(ours.key, b"hidden")
    given, name, reason = {
        "no certificate": (ours._replace(certificate="/nowhere"), certificate, "No such file"),
        "no key": (ours._replace(key="/nowhere"), key, "No such file"),
        "another key": (ours._replace(key=other.key), key, "the key of another certificate"),
        "an encrypted key": (ours, key, "a key that is not encrypted"),
        "no PEM": (ours._replace(certificate=str(tmp_path / "text")), certificate, "a certificate in PEM"),
    }[fault]
    with pytest.raises(pulsar.InvalidArgument, match=rf"^{name} takes .*") as refused:
        pulsar.Client("pulsar+ssl://localhost:1", **SHOWN[way](given))
    assert reason in str(refused.value)


def test_a_file_of_authorities_that_is_not_there_is_named() -> None:
    with pytest.raises(pulsar.InvalidArgument, match=r"^tls_trust_certs_file_path .*'/nowhere/ca\.pem': No such file"):
        pulsar.Client("pulsar+ssl://localhost:1", tls_trust_certs_file_path="/nowhere/ca.pem")


def test_files_of_certificates_are_not_read_where_nothing_is_encrypted() -> None:
    pulsar.Client("pulsar://localhost:1", tls_trust_certs_file_path="/nowhere/ca.pem").close()


def test_a_certificate_that_was_renewed_is_shown_by_the_next_connection(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    ours = authority.certify([], file_name="renewed")
    with (
        secure_broker(authority, trust_certs_file=authority.file) as broker,
        secure_client(broker, authority, authentication=pulsar.AuthenticationTLS(*ours)) as client,
    ):
        producer = client.create_producer("t")
        authority.certify([], file_name="renewed", self_signed=True)  # in the same files
        broker.cut_connections()
        until(lambda: "the peer does not know the authority" in caplog.text)
        authority.certify([], file_name="renewed")
        producer.send(b"x")


def test_that_anybody_is_taken_for_the_broker_is_said_once_a_client(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        secure_broker(authority) as broker,
        secure_client(
            broker,
            authority,
            authentication=pulsar.AuthenticationToken(TOKEN),
            tls_trust_certs_file_path=None,
            tls_allow_insecure_connection=True,
        ) as client,
    ):
        client.create_producer("t")
        broker.cut_connections()
        client.create_producer("u").send(b"x")
    lines = [record for record in caplog.records if "tls_allow_insecure_connection" in record.getMessage()]
    assert [record.levelno for record in lines] == [logging.WARNING]
    assert "can read and change all that is sent" in lines[0].getMessage()
