"""A client that does not prove who it is by its certificate gets no answer of a broker that asks for one."""

import contextlib
import socket
import ssl
import warnings
from collections.abc import Callable, Iterator

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.frames import encode_command
from tests.support.certificates import IN_FUTURE, LONG_AGO, Authority, Files

SECONDS = 10.0
HELLO = encode_command(pb.CommandConnect(client_version="unproven", protocol_version=21, auth_method_name="tls"))
REQUEST = b"GET /admin/v2/clusters HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n"

Showing = Callable[[Authority], Files]

REFUSED: dict[str, Showing] = {
    "of an unknown authority": lambda authority: Authority(authority.folder, "stranger").certify(file_name="strange"),
    "self-signed": lambda authority: authority.certify(self_signed=True),
    "expired": lambda authority: authority.certify(valid=LONG_AGO),
    "not valid yet": lambda authority: authority.certify(valid=IN_FUTURE),
    "for servers only": lambda authority: authority.certify(purpose=ExtendedKeyUsageOID.SERVER_AUTH),
    "signed with a certificate that is no authority's": lambda authority: authority.certify(
        signed_with=authority.certify(file_name="signer"), file_name="signed"
    ),
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[EmbeddedBroker]:
    files = authority.certify(file_name="broker")
    with EmbeddedBroker(
        certificate_file=files.certificate, private_key_file=files.key, trust_certs_file=authority.file
    ) as broker:
        yield broker


def unchecking(shown: Files | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """Make the context of a client that shows this certificate, and takes any of the broker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = min(version, ssl.TLSVersion.TLSv1_2)
        context.maximum_version = version
    if version < ssl.TLSVersion.TLSv1_2:
        context.set_ciphers("ALL:@SECLEVEL=0")
    if shown is not None:
        context.load_cert_chain(*shown)
    return context


def answer(url: str, says: bytes, context: ssl.SSLContext | None) -> bytes:
    """Say something to a port, over TLS or not, and return all that is answered."""
    heard = b""
    with (
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), SECONDS) as plain,
        contextlib.suppress(ssl.SSLError, ConnectionError),
    ):
        connection = plain if context is None else context.wrap_socket(plain)
        with connection:
            connection.sendall(says)
            heard = connection.recv(65_536)
    return heard


def answers(broker: EmbeddedBroker, context: ssl.SSLContext | None) -> list[bytes]:
    """Say hello at the port for clients over TLS, and ask at that for HTTPS."""
    return [answer(broker.service_url_tls, HELLO, context), answer(broker.web_url_tls, REQUEST, context)]


def is_refused(said: bytes, web: bytes) -> bool:
    return b"no certificate that names it" in said and web.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_shows_a_certificate_of_the_authority_is_answered(
    broker: EmbeddedBroker, authority: Authority, version: ssl.TLSVersion
) -> None:
    said, web = answers(broker, unchecking(authority.certify([], file_name="good"), version))
    assert b"pulsar_actors" in said
    assert web.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("who", REFUSED)
def test_who_does_not_is_not_answered(
    broker: EmbeddedBroker, authority: Authority, who: str, version: ssl.TLSVersion
) -> None:
    assert answers(broker, unchecking(REFUSED[who](authority), version)) == [b"", b""]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_shows_no_certificate_is_told_so_and_nothing_else(broker: EmbeddedBroker, version: ssl.TLSVersion) -> None:
    """Another broker may take a token in its place, so the handshake succeeds."""
    assert is_refused(*answers(broker, unchecking(None, version)))


def test_who_comes_without_tls_is_told_the_same(broker: EmbeddedBroker) -> None:
    assert is_refused(answer(broker.service_url, HELLO, None), answer(broker.web_url, REQUEST, None))


def test_tls_1_1_is_not_answered(broker: EmbeddedBroker, authority: Authority) -> None:
    old = unchecking(authority.certify([], file_name="good"), ssl.TLSVersion.TLSv1_1)
    assert answers(broker, old) == [b"", b""]


def test_what_is_no_tls_is_not_answered(broker: EmbeddedBroker) -> None:
    said, web = answers(broker, None)
    assert b"pulsar_actors" not in said
    assert not web.startswith(b"HTTP")
