"""Two streams are joined in memory; where that could hide a common mistake, the other end is a socket of `ssl`."""

import contextlib
import logging
import socket
import ssl
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_actors.exceptions import InternalError, InvalidArgument
from pulsar_actors.runtime.tls import TlsStream, client_context, describe_tls_error, server_context
from pulsar_actors.runtime.tls_config import Certificate, TlsFailed
from tests.support.certificates import IN_FUTURE, LONG_AGO, Authority, Files, encrypt_key

PATIENCE = 10.0


class Pair(NamedTuple):
    """Two ends, agreed with each other."""

    client: TlsStream
    server: TlsStream


def meet(
    client_side: ssl.SSLContext, server_side: ssl.SSLContext, host: str = "localhost"
) -> tuple[Pair, dict[str, str]]:
    """Let them shake hands until both are silent, and give what each of them failed with."""
    pair = Pair(TlsStream(client_side, host), TlsStream(server_side, server_side=True))
    to_server, to_client = pair.client.start(), pair.server.start()
    failures: dict[str, str] = {}
    while to_server or to_client:
        to_client += tell(pair.server, to_server, "server", failures)
        to_server = tell(pair.client, to_client, "client", failures)
        to_client = b""
    return pair, failures


def tell(end: TlsStream, data: bytes, name: str, failures: dict[str, str]) -> bytes:
    if name in failures or not data:
        return b""
    try:
        return end.feed(data).to_send
    except TlsFailed as failure:
        failures[name] = str(failure)
        return end.alert()


def agree(client_side: ssl.SSLContext, server_side: ssl.SSLContext, host: str = "localhost") -> Pair:
    pair, failures = meet(client_side, server_side, host)
    assert failures == {}
    assert pair.client.is_agreed
    assert pair.server.is_agreed
    return pair


def refusal(client_side: ssl.SSLContext, server_side: ssl.SSLContext, host: str = "localhost") -> str:
    pair, failures = meet(client_side, server_side, host)
    assert not (pair.client.is_agreed and pair.server.is_agreed)
    return failures["client"]


def carry(source: TlsStream, target: TlsStream, data: bytes) -> bytes:
    return target.feed(b"".join(source.encrypt([data]))).plaintext


@pytest.fixture
def pair(trusting: ssl.SSLContext, serving: ssl.SSLContext) -> Pair:
    return agree(trusting, serving)


@pytest.fixture
def client(trusting: ssl.SSLContext) -> TlsStream:
    """A client that has begun a handshake."""
    client = TlsStream(trusting, "localhost")
    client.start()
    return client


def only(version: ssl.TLSVersion, context: ssl.SSLContext) -> ssl.SSLContext:
    """Let it speak one version, even one that is out of use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = version
        context.minimum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_bytes_travel_both_ways(version: ssl.TLSVersion, authority: Authority, good: Files) -> None:
    client, server = agree(client_context(trust_certs_file=authority.file), only(version, server_context(*good)))
    assert carry(client, server, b"ping") == b"ping"
    assert carry(server, client, b"pong") == b"pong"


@pytest.mark.parametrize("size", [1, 5, 4096])
def test_pieces_of_any_size_will_do(size: int, trusting: ssl.SSLContext, serving: ssl.SSLContext) -> None:
    client, server = TlsStream(trusting, "localhost"), TlsStream(serving, server_side=True)
    on_the_way = {client: server.start(), server: client.start()}
    agreed: list[TlsStream] = []
    heard = b""
    while any(on_the_way.values()):
        for end, other in ((server, client), (client, server)):
            piece, on_the_way[end] = on_the_way[end][:size], on_the_way[end][size:]
            output = end.feed(piece)
            on_the_way[other] += output.to_send
            heard += output.plaintext
            if output.agreed:
                agreed.append(end)
                on_the_way[other] += b"".join(end.encrypt([b"hello from one end. "]))
    assert agreed == [client, server]
    assert heard == b"hello from one end. " * 2


def test_the_end_of_the_handshake_and_what_follows_it_may_come_together(
    trusting: ssl.SSLContext, serving: ssl.SSLContext
) -> None:
    client, server = TlsStream(trusting, "localhost"), TlsStream(serving, server_side=True)
    finished = client.feed(server.feed(client.start()).to_send)
    assert finished.agreed
    assert server.feed(finished.to_send + client.encrypt([b"CONNECT"])[0])[0::2] == (b"CONNECT", True)


def test_tickets_that_come_after_the_handshake_are_no_data(trusting: ssl.SSLContext, serving: ssl.SSLContext) -> None:
    client, server = TlsStream(trusting, "localhost"), TlsStream(serving, server_side=True)
    tickets = server.feed(client.feed(server.feed(client.start()).to_send).to_send).to_send
    assert tickets
    assert client.feed(tickets) == (b"", b"", False, False)
    assert carry(server, client, b"data") == b"data"


@settings(max_examples=30, deadline=None)
@given(payloads=st.lists(st.binary(max_size=40_000), max_size=4), cut=st.integers(min_value=1, max_value=20_000))
def test_whatever_is_written_arrives_in_order(pair_for_all: Pair, payloads: list[bytes], cut: int) -> None:
    client, server = pair_for_all
    on_the_way = b"".join(client.encrypt([memoryview(payload) for payload in payloads]))
    arrived = [server.feed(on_the_way[at : at + cut]).plaintext for at in range(0, len(on_the_way), cut)]
    assert b"".join(arrived) == b"".join(payloads)


@pytest.fixture(scope="module")
def pair_for_all(trusting: ssl.SSLContext, serving: ssl.SSLContext) -> Pair:
    return agree(trusting, serving)


@pytest.mark.parametrize("nothing", [[], [b""], [b"", b""]])
def test_encrypting_nothing_gives_nothing(pair: Pair, nothing: list[bytes]) -> None:
    assert pair.client.encrypt(nothing) == []


def test_nothing_is_encrypted_before_tls_is_agreed(trusting: ssl.SSLContext) -> None:
    with pytest.raises(InternalError, match="before TLS was agreed"):
        TlsStream(trusting, "localhost").encrypt([b"too early"])


def test_a_goodbye_ends_the_stream_after_what_came_before_it(pair: Pair) -> None:
    last_words = b"".join(pair.client.encrypt([b"last words"])) + pair.client.close_notify()
    assert pair.server.feed(last_words) == (b"last words", b"", False, True)
    assert pair.server.feed(b"more") == (b"", b"", False, True)
    assert pair.client.close_notify() == b""


def test_both_ends_may_say_goodbye_at_the_same_time(pair: Pair) -> None:
    from_client, from_server = pair.client.close_notify(), pair.server.close_notify()
    assert pair.server.feed(from_client).ended
    assert pair.client.feed(from_server).ended


def test_nothing_can_be_encrypted_after_a_goodbye(pair: Pair) -> None:
    pair.client.close_notify()
    with pytest.raises(TlsFailed, match="protocol is shutdown"):
        pair.client.encrypt([b"one thing more"])


def test_before_tls_is_agreed_there_is_nobody_to_say_goodbye_to(client: TlsStream) -> None:
    assert client.close_notify() == b""


def test_a_connection_lost_in_the_handshake_may_mean_that_no_tls_is_spoken_there(client: TlsStream) -> None:
    assert (
        client.loss_reason("connection closed") == "connection closed, before TLS was agreed: does this port speak TLS?"
    )


def test_a_connection_lost_later_or_on_a_server_is_just_that(pair: Pair, serving: ssl.SSLContext) -> None:
    assert pair.client.loss_reason("connection reset") == "connection reset"
    assert TlsStream(serving, server_side=True).loss_reason("connection reset") == "connection reset"


def test_a_record_that_was_tampered_with_breaks_the_stream_and_the_peer_is_told(pair: Pair) -> None:
    record = bytearray(pair.client.encrypt([b"pay 1 to Bob"])[0])
    record[-1] ^= 1
    with pytest.raises(TlsFailed, match=r"TLS broke: .*(bad record mac|record layer failure)"):  # by OpenSSL's version
        pair.server.feed(record)
    with pytest.raises(TlsFailed):
        pair.client.feed(pair.server.alert())


def test_a_broken_stream_stays_broken(pair: Pair) -> None:
    whole = pair.server.encrypt([b"whole"])[0]
    for data in (b"garbage" * 10, whole):
        with pytest.raises(TlsFailed):
            pair.client.feed(data)


@settings(max_examples=60, deadline=None)
@given(garbage=st.binary(min_size=1, max_size=60), at=st.integers(min_value=0, max_value=2_000), agreed=st.booleans())
def test_no_bytes_of_a_peer_raise_anything_but_a_failure_of_tls(
    trusting: ssl.SSLContext, serving: ssl.SSLContext, garbage: bytes, at: int, *, agreed: bool
) -> None:
    client, server = TlsStream(trusting, "localhost"), TlsStream(serving, server_side=True)
    flight = server.feed(client.start()).to_send
    if agreed:
        server.feed(client.feed(flight).to_send)
        flight = server.encrypt([b"data" * 500])[0]
    damaged = flight[:at] + garbage + flight[at + len(garbage) :]
    try:
        output = client.feed(damaged)
    except TlsFailed:
        return
    assert output.plaintext in {b"", b"data" * 500}  # whole, where only what follows it is damaged


PLAIN = {
    "a frame of Pulsar": b"\x00\x00\x00\x15\x00\x00\x00\x11\x08\x03",
    "an answer of HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "zeros": bytes(100),
    "a first byte like that of TLS": b"\x16\x16\x16\x16\x16\x16\x16\x16",
}


@pytest.mark.parametrize("answer", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("size", [1, 1000])
def test_a_plain_answer_says_that_the_peer_does_not_speak_tls(client: TlsStream, answer: bytes, size: int) -> None:
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
    with pytest.raises(TlsFailed) as failure:
        deque(map(client.feed, pieces), maxlen=0)
    assert str(failure.value).startswith("the peer does not speak TLS; it says b'")
    assert repr(answer[:5])[2:-1] in str(failure.value)
    assert len(str(failure.value)) < 200


@pytest.mark.parametrize("opening", PLAIN.values(), ids=PLAIN)
def test_a_server_says_the_same_of_a_client(serving: ssl.SSLContext, opening: bytes) -> None:
    with pytest.raises(TlsFailed, match="the peer does not speak TLS"):
        TlsStream(serving, server_side=True).feed(opening)


TLS_1_1_HELLO = b"\x16\x03\x02\x00\x2a\x02\x00\x00\x26\x03\x02" + b"r" * 32 + b"\x00\xc0\x2b\x00"
ALERTS = {
    40: "the peer supports no TLS version or cipher that was offered, or wants a certificate",
    42: "the peer does not accept the certificate it was shown",
    44: "the peer says that the certificate it was shown was revoked",
    45: "the peer says that the certificate it was shown has expired",
    46: "the peer does not accept the certificate it was shown",
    48: "the peer does not know the authority that signed the certificate it was shown",
    70: "the peer speaks neither TLS 1.2 nor 1.3",
    80: "TLS broke: tlsv1 alert internal error",
    112: "the peer has no certificate for the host name that was asked for",
    116: "the peer wants a certificate; tls_certificate_file_path and tls_private_key_file_path name the one to show",
}


@pytest.mark.parametrize("code", ALERTS)
def test_an_alert_of_the_peer_is_put_in_words(client: TlsStream, code: int) -> None:
    with pytest.raises(TlsFailed) as failure:
        client.feed(b"\x15\x03\x01\x00\x02\x02" + bytes([code]))
    assert str(failure.value).startswith(ALERTS[code])


def test_an_answer_in_tls_1_1_is_refused(client: TlsStream) -> None:
    with pytest.raises(TlsFailed, match=r"the peer speaks neither TLS 1\.2 nor 1\.3"):
        client.feed(TLS_1_1_HELLO)


def test_a_client_that_only_speaks_tls_1_1_is_refused_and_told(serving: ssl.SSLContext) -> None:
    old = only(ssl.TLSVersion.TLSv1_1, client_context(allow_insecure=True))
    _, failures = meet(old, serving)
    assert failures == {
        "server": "the peer speaks neither TLS 1.2 nor 1.3",
        "client": "the peer speaks neither TLS 1.2 nor 1.3",
    }


def test_a_server_that_only_speaks_tls_1_1_is_refused(trusting: ssl.SSLContext, good: Files) -> None:
    old = only(ssl.TLSVersion.TLSv1_1, server_context(*good))
    assert refusal(trusting, old) == "the peer speaks neither TLS 1.2 nor 1.3"


def test_ends_without_a_cipher_in_common_say_so(authority: Authority, good: Files) -> None:
    client, server = client_context(trust_certs_file=authority.file), server_context(*good)
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    server.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    _, failures = meet(client, server)
    assert failures["server"] == "the peer shares no TLS cipher with this side"
    assert failures["client"].startswith("the peer supports no TLS version or cipher that was offered")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "127.0.0.1"])
def test_any_name_that_the_certificate_lists_will_do(
    trusting: ssl.SSLContext, serving: ssl.SSLContext, host: str
) -> None:
    agree(trusting, serving, host)


def test_addresses_of_ipv6_are_names_too(authority: Authority, trusting: ssl.SSLContext) -> None:
    serving = server_context(*authority.certify(["::1"], file_name="ipv6"))
    agree(trusting, serving, "::1")
    assert "does not list the address '::2'" in refusal(trusting, serving, "::2")


NAMED = "connect by a name that it lists, or turn tls_validate_hostname off"
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "for another name": ({}, "broker.example", f"is for another name than 'broker.example': {NAMED}"),
    "without the address": (
        {"names": ["localhost"]},
        "127.0.0.1",
        f"does not list the address '127.0.0.1': {NAMED}",
    ),
    "expired": (
        {"valid": LONG_AGO},
        "localhost",
        "has expired: have it renewed, or set the clock of this machine if that is wrong",
    ),
    "not valid yet": (
        {"valid": IN_FUTURE},
        "localhost",
        "is not valid yet: set the clock of this machine, or of the one that made the certificate",
    ),
    "for clients only": (
        {"purpose": ExtendedKeyUsageOID.CLIENT_AUTH},
        "localhost",
        "is not for this use: have one made whose extended key usage names it",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_certificate_that_is_no_good_is_refused_with_what_to_do(
    authority: Authority, trusting: ssl.SSLContext, what: str
) -> None:
    options, host, reason = REFUSED[what]
    serving = server_context(*authority.certify(**options, file_name=what))
    assert refusal(trusting, serving, host) == f"the peer's certificate {reason}"


def test_a_certificate_of_an_unknown_authority_is_refused(stranger: Authority, trusting: ssl.SSLContext) -> None:
    serving = server_context(*stranger.certify())
    assert refusal(trusting, serving) == (
        "the peer's certificate was signed by an unknown authority: if it is to be trusted, "
        "name a file with its authority's certificate as tls_trust_certs_file_path"
    )


def test_an_unknown_authority_that_sends_its_own_certificate_along_is_refused(
    stranger: Authority, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    leaf = stranger.certify()
    chain = tmp_path / "chain.pem"
    chain.write_text(Path(leaf.certificate).read_text() + Path(stranger.file).read_text())
    serving = server_context(str(chain), leaf.key)
    assert "was signed by an authority that is not trusted here" in refusal(trusting, serving)


def test_a_self_signed_certificate_is_refused_unless_it_is_named_as_trusted(
    authority: Authority, trusting: ssl.SSLContext
) -> None:
    files = authority.certify(self_signed=True, file_name="self-signed")
    assert refusal(trusting, server_context(*files)).startswith("the peer's certificate is self-signed: if it is to be")
    agree(client_context(trust_certs_file=files.certificate), server_context(*files))


def test_what_else_is_wrong_with_a_certificate_is_said_in_the_words_of_openssl() -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = 34, "unhandled critical extension"
    assert describe_tls_error(error, "localhost") == "the peer's certificate is refused: unhandled critical extension"


@pytest.mark.parametrize("host", ["", ".", ".example", "a..b", "x" * 64 + ".example", "a\0b"])
def test_what_cannot_be_a_host_is_refused(trusting: ssl.SSLContext, host: str) -> None:
    with pytest.raises(InvalidArgument, match="server_hostname takes a host's name, got "):
        TlsStream(trusting, host)


def test_a_client_that_checks_names_needs_one(trusting: ssl.SSLContext, serving: ssl.SSLContext) -> None:
    with pytest.raises(InvalidArgument, match="server_hostname takes the host's name where it is to be checked"):
        TlsStream(trusting)
    assert TlsStream(client_context(validate_hostname=False)).start()
    assert TlsStream(serving, server_side=True).start() == b""


@contextlib.contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname(), PATIENCE)
        far, _ = listener.accept()
    far.settimeout(PATIENCE)
    with near, far:
        yield near, far


def drive(stream: TlsStream, wire: socket.socket, request: bytes) -> bytes:
    """Send a request once it is agreed, and read to the end, with a plain socket."""
    wire.sendall(stream.start())
    heard = b""
    while data := wire.recv(65536):
        output = stream.feed(data)
        wire.sendall(output.to_send)
        heard += output.plaintext
        if output.agreed:
            wire.sendall(b"".join(stream.encrypt([request])))
        if output.ended:
            wire.sendall(stream.close_notify())
            break
    return heard


@contextlib.contextmanager
def doing(work: Callable[[], object]) -> Iterator[None]:
    """Do something in a thread meanwhile."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_socket_of_ssl_as_server_is_content(trusting: ssl.SSLContext, good: Files) -> None:
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.load_cert_chain(*good)
    answer = b"answer" * 100_000

    def serve() -> None:
        with theirs.wrap_socket(far, server_side=True) as peer:
            assert peer.recv(7) == b"request"
            peer.sendall(answer)
            peer.unwrap()

    with connected() as (near, far), doing(serve):
        assert drive(TlsStream(trusting, "localhost"), near, b"request") == answer


def test_a_socket_of_ssl_as_client_is_content(authority: Authority, serving: ssl.SSLContext) -> None:
    theirs = ssl.create_default_context(cafile=authority.file)
    said: list[bytes] = []

    def ask() -> None:
        with theirs.wrap_socket(near, server_hostname="localhost") as peer:
            said.append(peer.recv(8))
            peer.sendall(b"thank you")
            peer.unwrap()

    with connected() as (near, far), doing(ask):
        assert drive(TlsStream(serving, server_side=True), far, b"greeting") == b"thank you"
    assert said == [b"greeting"]


def test_without_validation_of_the_host_any_name_will_do_but_not_any_authority_and_a_warning_is_left(
    authority: Authority, stranger: Authority, serving: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pulsar_actors"):
        lenient = client_context(trust_certs_file=authority.file, validate_hostname=False)
    assert "tls_validate_hostname is off" in caplog.text
    agree(lenient, serving, "broker.example")
    assert "unknown authority" in refusal(lenient, server_context(*stranger.certify()), "localhost")


@pytest.mark.parametrize("validate_hostname", [True, False])
def test_an_insecure_connection_takes_anything_and_leaves_a_warning(
    authority: Authority, caplog: pytest.LogCaptureFixture, *, validate_hostname: bool
) -> None:
    with caplog.at_level(logging.WARNING, "pulsar_actors"):
        careless = client_context(allow_insecure=True, validate_hostname=validate_hostname)
    assert "tls_allow_insecure_connection is on" in caplog.text
    assert len(caplog.records) == 1
    expired = authority.certify(valid=LONG_AGO, self_signed=True, file_name="worthless")
    agree(careless, server_context(*expired), "broker.example")


def test_a_server_that_trusts_an_authority_wants_a_certificate_of_it(
    authority: Authority, stranger: Authority, good: Files
) -> None:
    strict = server_context(*good, trust_certs_file=authority.file)
    known = client_context(trust_certs_file=authority.file, show=Certificate(good.certificate, good.key))
    client, server = agree(known, strict)
    assert carry(client, server, b"it is me") == b"it is me"

    _, failures = meet(client_context(trust_certs_file=authority.file), strict)
    assert failures["server"] == "the peer showed no certificate, and one is required"
    assert failures["client"].startswith("the peer wants a certificate; tls_certificate_file_path")

    other = stranger.certify()
    unknown = client_context(trust_certs_file=authority.file, show=Certificate(other.certificate, other.key))
    _, failures = meet(unknown, strict)
    assert failures["server"] == "the peer's certificate was signed by an unknown authority"
    assert failures["client"].startswith("the peer does not know the authority")


@pytest.mark.parametrize("context", ["trusting", "serving"])
def test_contexts_take_no_old_version_and_no_renegotiation(context: str, request: pytest.FixtureRequest) -> None:
    made = request.getfixturevalue(context)
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2
    assert made.options & ssl.OP_NO_RENEGOTIATION
    assert made.options & ssl.OP_NO_COMPRESSION


def test_certifi_is_trusted_where_nothing_else_is_said(
    authority: Authority, serving: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "certifi", SimpleNamespace(where=lambda: authority.file))
    agree(client_context(), serving)


def test_without_certifi_the_systems_authorities_are_trusted(
    authority: Authority, serving: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "certifi", None)
    monkeypatch.setenv("SSL_CERT_FILE", authority.file)
    agree(client_context(), serving)


def test_a_file_to_trust_is_the_only_one_that_counts(
    authority: Authority, stranger: Authority, serving: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "certifi", SimpleNamespace(where=lambda: authority.file))
    assert "unknown authority" in refusal(client_context(trust_certs_file=stranger.file), serving)


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "text").write_text("not PEM")
    encrypted = authority.certify(file_name="encrypted")
    encrypt_key(encrypted.key, b"hidden")
    return {
        "missing": str(folder / "missing"),
        "text": str(folder / "text"),
        "folder": str(folder),
        "encrypted": encrypted.key,
        "encrypted certificate": encrypted.certificate,
        "other key": authority.certify(file_name="other").key,
    }


def make_client(**options: Any) -> Callable[[], ssl.SSLContext]:
    return lambda: client_context(**options)


@pytest.mark.parametrize("wrong", ["missing", "text", "folder"])
@pytest.mark.parametrize("option", ["trust", "certificate", "key"])
def test_a_file_that_is_of_no_use_is_refused_by_the_name_of_its_option(
    odd_files: dict[str, str], good: Files, wrong: str, option: str
) -> None:
    path = odd_files[wrong]
    clients, servers = {
        "trust": (make_client(trust_certs_file=path), lambda: server_context(*good, trust_certs_file=path)),
        "certificate": (
            make_client(show=Certificate(path, good.key)),
            lambda: server_context(path, good.key),
        ),
        "key": (
            make_client(show=Certificate(good.certificate, path)),
            lambda: server_context(good.certificate, path),
        ),
    }[option]
    names = {"trust": "trust_certs", "certificate": "certificate", "key": "private_key"}
    with pytest.raises(InvalidArgument) as refused:
        clients()
    assert str(refused.value).startswith(f"tls_{names[option]}_file_path takes the path of a file with ")
    assert repr(path) in str(refused.value)
    with pytest.raises(InvalidArgument) as refused:
        servers()
    assert str(refused.value).startswith(f"{names[option]}_file takes the path of a file with ")


def test_a_missing_file_is_called_missing(odd_files: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=r": No such file or directory$"):
        client_context(trust_certs_file=odd_files["missing"])


def test_a_key_of_another_certificate_is_refused(odd_files: dict[str, str], good: Files) -> None:
    with pytest.raises(
        InvalidArgument, match=r"^private_key_file takes .* key .*it is the key of another certificate$"
    ):
        server_context(good.certificate, odd_files["other key"])


def test_a_certificate_that_holds_no_key_cannot_stand_alone(good: Files) -> None:
    with pytest.raises(InvalidArgument, match=r"^tls_private_key_file_path takes .*: no key could be read from it$"):
        client_context(show=Certificate(good.certificate, None))


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(odd_files: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=r"^tls_private_key_file_path takes a key that is not encrypted"):
        client_context(show=Certificate(odd_files["encrypted certificate"], odd_files["encrypted"]))


def test_a_key_may_be_in_the_file_of_its_certificate(
    authority: Authority, good: Files, tmp_path: Path, odd_files: dict[str, str]
) -> None:
    both = tmp_path / "both.pem"
    both.write_text(Path(good.certificate).read_text() + Path(good.key).read_text())
    shown = client_context(trust_certs_file=authority.file, show=Certificate(str(both), None))
    agree(shown, server_context(*good, trust_certs_file=authority.file))
    with pytest.raises(InvalidArgument, match=r"^tls_private_key_file_path takes .*the certificate's key"):
        client_context(show=Certificate(good.certificate, None))
