import base64
import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pulsar as official
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client import athenz
from pulsar_actors.client.athenz import athenz_from_params
from pulsar_actors.client.credentials import trusting
from pulsar_actors.runtime.tls import server_context
from pulsar_actors.wire.frames import encode_command
from pulsar_actors.wire.PulsarApi_pb2 import CommandConnect, CommandConnected
from tests.support.certificates import Authority
from tests.support.life import FakeBroker
from tests.support.pretender import Broker
from tests.support.token_service import TokenServiceInHand, settings, token_service
from tests.support.web_server import Said

KEYS: dict[str, Callable[[], rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey]] = {
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "EC": lambda: ec.generate_private_key(ec.SECP256R1()),
}
CANARY = "open-sesame-41"


@pytest.fixture
def service() -> Iterator[TokenServiceInHand]:
    with token_service() as service:
        yield service


def pem_of(key: Any, form: PrivateFormat = PrivateFormat.TraditionalOpenSSL, password: bytes | None = None) -> bytes:
    hidden = BestAvailableEncryption(password) if password else NoEncryption()
    return bytes(key.private_bytes(Encoding.PEM, form, hidden))


def in_data(pem: bytes) -> str:
    return "data:application/x-pem-file;base64," + base64.b64encode(pem).decode()


def with_new_key(service: TokenServiceInHand, **more: Any) -> str:
    """Settings with a key that the service knows."""
    key = KEYS["EC"]()
    service.public_key = key.public_key()
    return settings(service, privateKey=in_data(pem_of(key)), **more)


def fault_of(authentication: pulsar.Authentication) -> str:
    with pytest.raises(pulsar.ErrorGettingAuthenticationData) as failed:
        authentication.fetch()
    text = "".join(traceback.format_exception(failed.value))
    assert CANARY not in text
    assert failed.value.reason is not None
    return failed.value.reason


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("form", [PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8])
def test_a_role_token_is_had_for_a_request_that_the_key_has_signed(
    service: TokenServiceInHand, tmp_path: Path, kind: str, form: PrivateFormat
) -> None:
    key = KEYS[kind]()
    service.public_key = key.public_key()
    path = tmp_path / "key.pem"
    path.write_bytes(pem_of(key, form))
    for private_key in (f"file://{path}", f"file:{path}", in_data(pem_of(key, form))):
        authentication = pulsar.AuthenticationAthenz(settings(service, privateKey=private_key))
        method, token = authentication.fetch()
        assert (method, token[-4:-1]) == ("athenz", b"le-")
    assert len(service.server.asked) == 3


def test_a_request_that_another_key_has_signed_is_refused(service: TokenServiceInHand) -> None:
    given = with_new_key(service)
    service.public_key = KEYS["EC"]().public_key()
    reason = fault_of(pulsar.AuthenticationAthenz(given))
    assert reason == f"Athenz's token service, '{service.url}', answers HTTP 401: 'not signed by the service'"


def test_no_two_requests_are_signed_alike(service: TokenServiceInHand) -> None:
    service.lifetime = 0
    authentication = pulsar.AuthenticationAthenz(with_new_key(service))
    authentication.fetch()
    authentication.fetch()
    salts = [re.search(";a=([^;]+);", proof) for proof in service.proofs()]  # an EC signature differs without a salt
    assert len({salt[1] for salt in salts if salt}) == 2


def test_a_token_is_kept_until_a_broker_has_refused_it(service: TokenServiceInHand) -> None:
    authentication = pulsar.AuthenticationAthenz(with_new_key(service))
    first = authentication.fetch()
    assert authentication.fetch() == first
    authentication.judged(accepted=False)
    assert authentication.fetch() != first
    assert len(service.server.asked) == 2


@pytest.mark.parametrize(("lifetime", "kept"), [(86_400, 6000), (3000, 3000), (-5, 0)])
def test_a_token_is_kept_for_ninety_minutes_or_less_if_it_ends_sooner(
    service: TokenServiceInHand, lifetime: float, kept: float
) -> None:
    service.lifetime = lifetime
    granted = athenz_from_params("x", with_new_key(service)).service.grant(None)
    assert granted.lifetime == pytest.approx(kept, abs=60)
    assert CANARY not in repr(granted)


def test_a_certificate_may_prove_who_asks_instead(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    shown = authority.certify(["some_app.shopping"], file_name="shown")
    context = server_context(*authority.certify(), trust_certs_file=authority.file)
    files = {"privateKey": shown.key, "x509CertChain": shown.certificate, "caCert": authority.file}
    with token_service(context) as service:
        given = {name: f"file://{path}" for name, path in files.items()}
        tenant = {"tenantDomain": None, "tenantService": None, "keyId": None}
        url = service.url.replace("127.0.0.1", "localhost")
        authentication = pulsar.AuthenticationAthenz(settings(service, ztsUrl=url, **tenant, **given))
        assert authentication.fetch()[1].endswith(b"role-1")
        assert service.proofs() == [None]
        assert authentication.tls_certificate is None, "brokers do not see it"
        del given["caCert"]
        with trusting(authority.file):
            assert pulsar.AuthenticationAthenz(settings(service, ztsUrl=url, **given)).fetch()[1].endswith(b"role-2")


def test_the_header_may_have_another_name(service: TokenServiceInHand) -> None:
    service.header = "X-Principal"
    given = with_new_key(service, principalHeader="X-Principal")
    assert pulsar.AuthenticationAthenz(given).fetch()[0] == "athenz"


def test_the_service_is_asked_what_the_official_client_asks(service: TokenServiceInHand) -> None:
    given = with_new_key(service)
    quiet = logging.getLogger("official client of Athenz")
    quiet.setLevel(logging.CRITICAL + 1)
    with EmbeddedBroker() as broker:
        theirs = official.Client(
            broker.service_url,
            authentication=official.AuthenticationAthenz(given),
            logger=quiet,
        )
        service.public_key = None  # it fails to sign, and asks without a proof
        theirs.create_producer("t").close()
        theirs.close()
    (asked,) = service.server.asked
    pulsar.AuthenticationAthenz(given).fetch()
    assert service.server.asked[-1][:2] == asked[:2]


def test_a_broker_gets_the_token(service: TokenServiceInHand) -> None:
    connects = list[CommandConnect]()

    def connected(command: CommandConnect) -> bytes:
        connects.append(command)
        return encode_command(CommandConnected(server_version="fake", protocol_version=21))

    given = with_new_key(service)
    with (
        FakeBroker(Broker(CommandConnect, connected).serve) as broker,
        pulsar.Client(broker.service_url, pulsar.AuthenticationAthenz(given)) as client,
    ):
        client.create_producer("t").close()
    (connect,) = connects
    assert (connect.auth_method_name, connect.auth_data[-7:]) == ("athenz", b"=role-1")


def test_a_lookup_over_http_has_the_token(service: TokenServiceInHand) -> None:
    authentication = pulsar.AuthenticationAthenz(with_new_key(service))
    with token_service() as web:
        web.replaced = Said(404)
        with (
            suppress(pulsar.PulsarException),
            pulsar.Client(web.url, authentication, operation_timeout_seconds=1) as client,
        ):
            client.get_topic_partitions("t")
        headers = web.server.asked[0].headers
    assert headers["athenz-role-auth"].encode() == authentication.fetch()[1]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (Said(500, b"<html>"), "answers HTTP 500"),
        (Said(302, b"", (("Location", "/x"),)), "answers HTTP 302"),
        (Said(200, b"[]"), "gives an answer without a token"),
        (Said(200, b"{}"), "gives an answer without a token"),
        (Said(403, b'{"message": "no role"}'), "answers HTTP 403: 'no role'"),
    ],
)
def test_a_failure_says_what_the_service_answers(service: TokenServiceInHand, said: Said, reason: str) -> None:
    service.replaced = said
    assert fault_of(pulsar.AuthenticationAthenz(with_new_key(service))).endswith(f"', {reason}")


def test_an_answer_that_repeats_the_proof_is_not_quoted(service: TokenServiceInHand) -> None:
    authentication = pulsar.AuthenticationAthenz(with_new_key(service))
    answer = service.server.answer

    def repeat(asked: Any) -> Said:
        answer(asked)
        return Said(400, json.dumps({"message": f"bad: {asked.headers['athenz-principal-auth']}"}).encode())

    service.server.answer = repeat
    assert fault_of(authentication).endswith(", answers HTTP 400")


def test_a_service_that_cannot_be_reached_is_named(service: TokenServiceInHand) -> None:
    given = with_new_key(service, ztsUrl="http://127.0.0.1:1")
    assert "cannot be asked: " in fault_of(pulsar.AuthenticationAthenz(given))


@pytest.mark.parametrize(
    "pem",
    [
        CANARY.encode(),
        pem_of(ed25519.Ed25519PrivateKey.generate(), PrivateFormat.PKCS8),
        pem_of(ec.generate_private_key(ec.SECP256R1()), password=CANARY.encode()),
    ],
    ids=["no key", "another kind", "with a password"],
)
def test_a_key_that_cannot_sign_is_refused_without_its_text(service: TokenServiceInHand, pem: bytes) -> None:
    authentication = pulsar.AuthenticationAthenz(settings(service, privateKey=in_data(pem)))
    assert fault_of(authentication) == "the privateKey is no RSA or EC key in PEM without a password"


def test_a_key_file_that_is_missing_is_named(service: TokenServiceInHand, tmp_path: Path) -> None:
    authentication = pulsar.AuthenticationAthenz(settings(service, privateKey=f"file://{tmp_path}/none"))
    assert (
        fault_of(authentication) == f"the privateKey's file '{tmp_path}/none' cannot be read: No such file or directory"
    )


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("tenantDomain", None), ("tenantDomain", "a;b"), ("tenantService", 5), ("keyId", "a b")),
        *(("providerDomain", None), ("providerDomain", "a/b"), ("ztsUrl", None), ("ztsUrl", CANARY)),
        *(("privateKey", CANARY), ("privateKey", "data:application/x-pem-file;base64,!"), ("privateKey", None)),
        *(("principalHeader", "a: b"), ("x509CertChain", CANARY), ("caCert", CANARY), ("privateKey", "file:")),
    ],
)
def test_a_wrong_setting_is_refused_by_name(service: TokenServiceInHand, setting: str, value: Any) -> None:
    given = settings(service, **{"privateKey": "file:///key.pem", setting: value})
    with pytest.raises(pulsar.InvalidArgument) as refused:
        pulsar.AuthenticationAthenz(given)
    assert str(refused.value).startswith(setting if value != "file:" else "file:")
    assert CANARY not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("setting", ["ztsProxyUrl", "athenzConfPath", "roleHeader"])
def test_a_setting_of_java_that_is_not_supported_is_not_ignored(service: TokenServiceInHand, setting: str) -> None:
    with pytest.raises(pulsar.OperationNotSupported, match=rf"^{setting} of Athenz "):
        pulsar.AuthenticationAthenz(settings(service, privateKey="file:///key.pem", **{setting: "x"}))


def test_without_cryptography_the_extra_is_named(service: TokenServiceInHand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(athenz, "find_spec", lambda _name: None)
    with pytest.raises(pulsar.OperationNotSupported, match=r"pip install 'pulsar-actors\[encryption\]'"):
        pulsar.AuthenticationAthenz(settings(service, privateKey="file:///key.pem"))


@pytest.mark.parametrize("method", ["athenz", "org.apache.pulsar.client.impl.auth.AuthenticationAthenz"])
def test_it_is_chosen_by_its_names_in_configuration_files(service: TokenServiceInHand, method: str) -> None:
    assert pulsar.Authentication(method, with_new_key(service)).fetch()[1].endswith(b"role-1")


def test_a_pickle_has_the_settings_and_no_token(service: TokenServiceInHand, tmp_path: Path) -> None:
    key = KEYS["RSA"]()
    service.public_key = key.public_key()
    (tmp_path / "key.pem").write_bytes(pem_of(key))
    authentication = pulsar.AuthenticationAthenz(settings(service, privateKey=f"file://{tmp_path}/key.pem"))
    authentication.fetch()
    pickled = pickle.dumps(authentication)
    assert b"role-1" not in pickled
    assert b"PRIVATE" not in pickled
    assert pickle.loads(pickled).fetch()[1].endswith(b"role-2")  # noqa: S301 - our own
    assert CANARY not in repr(authentication)
