"""Athenz, compared with the Java client, and our signature verified by Athenz's own classes. No broker takes part."""

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import pulsar_actors
from pulsar_actors.runtime.tls import server_context
from tests.support.certificates import Authority
from tests.support.jars import ATHENZ_CACHE, ATHENZ_POM, jars, tool
from tests.support.token_service import TokenServiceInHand, settings, token_service

JAVA_SECONDS = 120
VARIES = re.compile(r"(?<=;[hates]=)[^;]+")

pytestmark = pytest.mark.real_broker


Java = Callable[..., list[str]]


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    """Ask Athenz's own classes, in one process for all tests."""
    program = str(Path(__file__).with_name("JavaAthenz.java"))
    classes = f"{jars(ATHENZ_CACHE, ATHENZ_POM)}/*:{jars()}/*"
    options = ["-XX:TieredStopAtLevel=1", "-Dathenz.zts.client.disable_cache=true"]
    command = [tool("java"), *options, "-cp", classes, program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own words
        assert process.stdin is not None
        assert process.stdout is not None
        questions, answers = process.stdin, process.stdout
        deadline = threading.Timer(JAVA_SECONDS, process.kill)
        deadline.start()

        def ask(*words: str) -> list[str]:
            print(*words, sep="\t", file=questions, flush=True)
            answer = next(line for line in answers if line.startswith("said\t"))
            return answer.rstrip("\n").split("\t")[1:]

        try:
            yield ask
        finally:
            questions.close()
            process.wait()
            deadline.cancel()


def in_file(folder: Path, text: str) -> str:
    path = folder / "settings.json"
    path.write_text(text)
    return str(path)


def asked(service: TokenServiceInHand) -> tuple[str, str, str]:
    """The last request, and its proof without what differs each time."""
    request = service.server.asked[-1]
    proof = service.proofs()[-1] or ""
    return request.method, request.path, VARIES.sub("…", proof)


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())])
def test_the_request_is_the_java_clients_and_athenz_verifies_it(java: Java, tmp_path: Path, key: Any) -> None:
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with token_service() as service:
        service.public_key = key.public_key()
        given = settings(service, privateKey=f"file://{private}")
        role_token = "v=Z1;d=pulsar;r=admin;s=role-1"
        assert java("get", in_file(tmp_path, given)) == ["athenz", role_token, f"[Athenz-Role-Auth={role_token}]"]
        of_java = asked(service)
        pulsar_actors.AuthenticationAthenz(given).fetch()
        assert asked(service) == of_java
        proof = service.proofs()[-1]
    assert java("verify", str(proof), str(public)) == ["true", "shopping.some_app", ""]
    forged = str(proof).replace("n=some_app", "n=another")
    assert java("verify", forged, str(public))[:2] == ["false", "shopping.another"]


def test_a_certificate_takes_the_place_of_the_signature_as_in_the_java_client(java: Java, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    shown = authority.certify(["some_app.shopping"], file_name="shown")
    with token_service(server_context(*authority.certify(), trust_certs_file=authority.file)) as service:
        files = {"privateKey": shown.key, "x509CertChain": shown.certificate, "caCert": authority.file}
        url = service.url.replace("127.0.0.1", "localhost")
        given = settings(service, ztsUrl=url, **{name: f"file://{path}" for name, path in files.items()})
        assert java("get", in_file(tmp_path, given))[0] == "athenz"
        of_java = asked(service)
        pulsar_actors.AuthenticationAthenz(given).fetch()
        assert asked(service) == of_java
        assert service.proofs() == [None, None]
