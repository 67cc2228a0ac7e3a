import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.wire.PulsarApi_pb2 import CommandAuthChallenge, CommandAuthResponse, CommandError, ServerError
from tests.broker.official_client import WAIT_MS, Official, pulsar, topic
from tests.support.certificates import Authority

TOKENS = Tokens(b"a secret of the tests")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(authority: Authority) -> Iterator[EmbeddedBroker]:
    """A broker with TLS that wants tokens."""
    files = authority.certify()
    with EmbeddedBroker(certificate_file=files.certificate, private_key_file=files.key, tokens=TOKENS) as running:
        yield running


@pytest.fixture
def official(guarded: EmbeddedBroker) -> Iterator[Official]:
    made = Official(guarded.service_url)
    yield made
    made.close()


def token(subject: str = "me", **options: Any) -> Any:
    return pulsar.AuthenticationToken(TOKENS.issue(subject, **options))


def echo(client: Any) -> bytes:
    """Send a message through a client and receive it again."""
    name = topic()
    consumer = client.subscribe(name, "s")
    client.create_producer(name).send(b"echo")
    answer: bytes = consumer.receive(WAIT_MS).data()
    return answer


def test_a_client_with_a_good_token_is_let_in(official: Official) -> None:
    assert echo(official.client(authentication=token())) == b"echo"


@pytest.mark.parametrize(
    "authentication",
    [
        None,
        pulsar.AuthenticationToken("nonsense"),
        pulsar.AuthenticationToken(Tokens(b"another").issue("me")),
        pulsar.AuthenticationToken(TOKENS.issue("me", lifetime_seconds=-5)),
    ],
    ids=["nothing", "nonsense", "another secret", "too late"],
)
def test_a_client_without_a_good_token_is_turned_away(
    official: Official, guarded: EmbeddedBroker, authentication: Any
) -> None:
    errors: list[Any] = []
    watching = guarded.faults.control(
        lambda seen: errors.append(seen.command) if isinstance(seen.command, CommandError) else None
    )
    client = official.client(authentication=authentication, operation_timeout_seconds=1)
    with pytest.raises(pulsar.Timeout):  # this client does not look at an error in the place of CONNECTED, and tries on
        client.create_producer(topic())
    assert {error.error for error in errors} == {ServerError.AuthenticationError}
    watching.remove()


def test_a_client_whose_token_ends_gives_a_fresh_one_and_stays(official: Official, guarded: EmbeddedBroker) -> None:
    asked = threading.Semaphore(0)

    def supply() -> str:
        asked.release()
        return TOKENS.issue("me", lifetime_seconds=2)

    answers: list[Any] = []
    watching = guarded.faults.control(
        lambda seen: (
            answers.append(seen.command)
            if isinstance(seen.command, CommandAuthChallenge | CommandAuthResponse)
            else None
        )
    )
    client = official.client(authentication=pulsar.AuthenticationToken(supply))
    name = topic()
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name)
    connections = guarded.call(lambda inside: inside.connections)
    for _ in range(3):
        assert asked.acquire(timeout=WAIT_MS / 1000)
    producer.send(b"still here")
    assert consumer.receive(WAIT_MS).data() == b"still here"
    assert guarded.call(lambda inside: inside.connections) == connections
    assert [type(each) for each in answers[:2]] == [CommandAuthChallenge, CommandAuthResponse]
    watching.remove()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_client_may_encrypt(official: Official, guarded: EmbeddedBroker, authority: Authority, host: str) -> None:
    client = official.client(
        guarded.service_url_tls.replace("127.0.0.1", host),
        authentication=token(),
        tls_trust_certs_file_path=authority.file,
        tls_validate_hostname=True,
    )
    assert echo(client) == b"echo"


def test_a_large_message_travels_encrypted(official: Official, guarded: EmbeddedBroker, authority: Authority) -> None:
    client = official.client(guarded.service_url_tls, authentication=token(), tls_trust_certs_file_path=authority.file)
    name = topic()
    consumer = client.subscribe(name, "s")
    large = bytes(range(250)) * 16_000
    client.create_producer(name).send(large)
    assert consumer.receive(WAIT_MS).data() == large


def test_a_client_that_does_not_know_the_authority_stays_away(
    official: Official, guarded: EmbeddedBroker, tmp_path: Path
) -> None:
    client = official.client(
        guarded.service_url_tls,
        authentication=token(),
        tls_trust_certs_file_path=Authority(tmp_path).file,
        operation_timeout_seconds=3,
    )
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic())


def test_lookups_may_be_encrypted_too(official: Official, guarded: EmbeddedBroker, authority: Authority) -> None:
    client = official.client(guarded.web_url_tls, authentication=token(), tls_trust_certs_file_path=authority.file)
    assert echo(client) == b"echo"
