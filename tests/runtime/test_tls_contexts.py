import logging
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from certificates import LONG_AGO, Authority, Files, encrypt_key
from tls_pair import agree, carry, meet, refusal

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.runtime.tls_certificate import Certificate
from pulsar_actors.runtime.tls_contexts import client_context, server_context


def test_without_validation_of_the_host_any_name_will_do_but_not_any_authority(
    authority: Authority, stranger: Authority, serving: ssl.SSLContext
) -> None:
    lenient = client_context(trust_certs_file=authority.file, validate_hostname=False)
    agree(lenient, serving, "broker.example")
    assert "unknown authority" in refusal(lenient, server_context(*stranger.certify()), "localhost")


@pytest.mark.parametrize("validate_hostname", [True, False])
def test_an_insecure_connection_takes_anything_and_leaves_a_warning(
    authority: Authority, caplog: pytest.LogCaptureFixture, *, validate_hostname: bool
) -> None:
    with caplog.at_level(logging.WARNING, "pulsar_actors"):
        careless = client_context(allow_insecure=True, validate_hostname=validate_hostname)
    assert "tls_allow_insecure_connection is on" in caplog.text
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


def test_certifi_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, pulsar_actors.runtime.tls_contexts; sys.exit('certifi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0  # noqa: S603 - our own program


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
