"""Who a client says it is, by every method that a broker of one process can check."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.runtime.tls import server_context
from tests.real_broker.exchange import until
from tests.support.guards import LIFETIME_SECONDS, ME, PASSWORD, RENEWED_TWICE_SECONDS, STRANGER, TOKENS, Guarded
from tests.support.issuer_bench import CLIENT_ID, IssuerInHand, issuing

RECEIVE_MS = 10_000
FORGED = Tokens(b"another secret of some thirty-two bytes").issue(ME)

Connect = Callable[..., Any]
Make = Callable[[Any, Guarded], dict[str, Any]]
"""Gives a client's options, for a module and a broker."""


def echoes(client: Any, topic: str) -> bool:
    """Whether what is sent comes back."""
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"echo")
    return bool(consumer.receive(RECEIVE_MS).data() == b"echo")


def basic_json(password: str = PASSWORD) -> str:
    return json.dumps({"username": ME, "password": password})


def over_tls(guarded: Guarded, **options: Any) -> dict[str, Any]:
    trust = {"tls_trust_certs_file_path": guarded.authority.file, "tls_validate_hostname": True}
    return {"service_url": guarded.service_url_tls, **trust, **options}


def certificate(pulsar: Any, guarded: Guarded) -> dict[str, Any]:
    return over_tls(guarded, authentication=pulsar.AuthenticationTLS(*guarded.certificate_of(ME)))


def certificate_by_name(pulsar: Any, guarded: Guarded) -> dict[str, Any]:
    files = guarded.certificate_of(ME)
    named = pulsar.Authentication("tls", f"tlsCertFile:{files.certificate},tlsKeyFile:{files.key}")
    return over_tls(guarded, authentication=named)


def token_over_the_clients_own_certificate(pulsar: Any, guarded: Guarded) -> dict[str, Any]:
    files = guarded.certificate_of(STRANGER)
    return over_tls(
        guarded,
        authentication=pulsar.AuthenticationToken(TOKENS.issue(ME)),
        tls_certificate_file_path=files.certificate,
        tls_private_key_file_path=files.key,
    )


GOOD: dict[str, Make] = {
    "token": lambda pulsar, _: {"authentication": pulsar.AuthenticationToken(TOKENS.issue(ME))},
    "token by a callable": lambda pulsar, _: {"authentication": pulsar.AuthenticationToken(lambda: TOKENS.issue(ME))},
    "token by name": lambda pulsar, _: {"authentication": pulsar.Authentication("token", f"token:{TOKENS.issue(ME)}")},
    "token over TLS": lambda pulsar, guarded: over_tls(
        guarded, authentication=pulsar.AuthenticationToken(TOKENS.issue(ME))
    ),
    "basic": lambda pulsar, _: {"authentication": pulsar.AuthenticationBasic(ME, PASSWORD)},
    "basic by name": lambda pulsar, _: {"authentication": pulsar.Authentication("basic", basic_json())},
    "certificate": certificate,
    "certificate by name": certificate_by_name,
    "token over the client's own certificate": token_over_the_clients_own_certificate,
}


@pytest.mark.shows("Authentication and authorisation", "authentication")
@pytest.mark.shows("ClientConfiguration", "authentication")
@pytest.mark.shows("Client setup phase", "authentication")
@pytest.mark.shows("Connection establishment", "auth_method_name", "auth_data")
@pytest.mark.shows("Command LookupTopicResponse", "brokerServiceUrlTls")
@pytest.mark.parametrize("credentials", GOOD)
def test_whoever_is_known_is_let_in(
    pulsar: Any, guarded: Guarded, connect_to: Any, topic: str, credentials: str
) -> None:
    options = {"service_url": guarded.service_url, **GOOD[credentials](pulsar, guarded)}
    assert echoes(connect_to(pulsar, **options), topic)


BAD: dict[str, Make] = {
    "nothing": lambda pulsar, _: {},
    "nonsense": lambda pulsar, _: {"authentication": pulsar.AuthenticationToken("nonsense")},
    "a forged token": lambda pulsar, _: {"authentication": pulsar.AuthenticationToken(FORGED)},
    "a token that is over": lambda pulsar, _: {
        "authentication": pulsar.AuthenticationToken(TOKENS.issue(ME, lifetime_seconds=-60))
    },
    "another password": lambda pulsar, _: {"authentication": pulsar.AuthenticationBasic(ME, "guessed")},
    "another name": lambda pulsar, _: {"authentication": pulsar.AuthenticationBasic("nobody", PASSWORD)},
    "no certificate": lambda pulsar, guarded: over_tls(guarded),
}


@pytest.mark.parametrize("credentials", BAD)
def test_whoever_is_not_known_is_turned_away(
    pulsar: Any, guarded: Guarded, connect_to: Any, topic: str, credentials: str
) -> None:
    options = {"service_url": guarded.service_url, **BAD[credentials](pulsar, guarded)}
    client = connect_to(pulsar, **options, operation_timeout_seconds=1)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one tries on until its time is up
@pytest.mark.parametrize("credentials", BAD)
def test_that_one_is_not_known_is_said_at_once(
    pulsar: Any, guarded: Guarded, connect_to: Any, topic: str, credentials: str
) -> None:
    options = {"service_url": guarded.service_url, **BAD[credentials](pulsar, guarded)}
    began = time.monotonic()
    with pytest.raises(pulsar.AuthenticationError):
        connect_to(pulsar, **options).create_producer(topic)
    assert time.monotonic() - began < 5.0


@pytest.mark.shows("Authentication and authorisation", "authorisation")
@pytest.mark.parametrize("call", ["create_producer", "subscribe"])
def test_whoever_is_known_and_may_not_is_told_so(
    pulsar: Any, guarded_apache: Guarded, connect_to: Any, topic: str, call: str
) -> None:
    stranger = pulsar.AuthenticationToken(TOKENS.issue(STRANGER))
    client = connect_to(pulsar, guarded_apache.service_url, authentication=stranger)
    began = time.monotonic()
    with pytest.raises(pulsar.AuthorizationError):
        getattr(client, call)(topic, *(["s"] if call == "subscribe" else []))
    assert time.monotonic() - began < 5.0


# Credentials that run out.


def connection_of(guarded: Guarded, topic: str) -> Any:
    """Whatever tells a producer's connection from a later one."""
    (publisher,) = guarded.admin.stats(topic)["publishers"]
    return publisher["address"]


def stays_connected(client: Any, guarded: Guarded, topic: str, was_renewed: Callable[[], bool]) -> bool:
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "s")
    before = connection_of(guarded, topic)
    until(was_renewed, RENEWED_TWICE_SECONDS)
    producer.send(b"still here")
    assert consumer.receive(RECEIVE_MS).data() == b"still here"
    return bool(connection_of(guarded, topic) == before)


@pytest.mark.shows("Command AuthChallenge")
@pytest.mark.shows("Command AuthResponse")
@pytest.mark.shows("Feature flags", "supports_auth_refresh")
def test_a_token_that_runs_out_is_renewed_without_losing_the_connection(
    pulsar: Any, guarded: Guarded, connect_to: Any, topic: str
) -> None:
    issued: list[str] = []

    def issue() -> str:
        issued.append(TOKENS.issue(ME, lifetime_seconds=LIFETIME_SECONDS))
        return issued[-1]

    client = connect_to(pulsar, guarded.service_url, authentication=pulsar.AuthenticationToken(issue))
    assert stays_connected(client, guarded, topic, lambda: len(issued) >= 3)


@pytest.fixture
def issuer() -> Iterator[IssuerInHand]:
    with issuing() as issuer:
        issuer.next_token = lambda: TOKENS.issue(ME, lifetime_seconds=LIFETIME_SECONDS)  # type: ignore[method-assign]
        issuer.grant = {"expires_in": LIFETIME_SECONDS}
        yield issuer


def test_a_token_of_an_issuer_lets_in(
    pulsar: Any, guarded: Guarded, connect_to: Any, topic: str, issuer: IssuerInHand
) -> None:
    asked = {"scope": "all of it", "audience": "urn:pulsar"}
    authentication = pulsar.AuthenticationOauth2(issuer.settings(**asked))
    assert echoes(connect_to(pulsar, guarded.service_url, authentication=authentication), topic)
    assert asked.items() <= issuer.asked_for_tokens[-1].items()


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one may answer with the token that is over
def test_a_token_of_an_issuer_is_renewed_without_losing_the_connection(
    pulsar: Any, guarded: Guarded, connect_to: Any, topic: str, issuer: IssuerInHand
) -> None:
    authentication = pulsar.AuthenticationOauth2(issuer.settings())
    client = connect_to(pulsar, guarded.service_url, authentication=authentication)
    assert stays_connected(client, guarded, topic, lambda: issuer.tokens_given() >= 3)


def test_an_issuer_may_know_a_client_by_its_certificate(
    pulsar: Any, guarded: Guarded, connect_to: Any, topic: str
) -> None:
    authority = guarded.authority
    shown, ours = authority.certify(file_name="issuer"), guarded.certificate_of(CLIENT_ID)
    with issuing(server_context(*shown, trust_certs_file=authority.file)) as issuer:
        issuer.next_token = lambda: TOKENS.issue(ME)  # type: ignore[method-assign]
        settings = issuer.settings(
            client_secret=None,
            tokenEndpointAuthMethod="tls_client_auth",
            tls_cert_file=ours.certificate,
            tls_key_file=ours.key,
        )
        authentication = pulsar.AuthenticationOauth2(settings)
        options = over_tls(guarded, authentication=authentication)
        assert echoes(connect_to(pulsar, **options), topic)


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one does not tell of reconnecting
def test_fresh_credentials_that_are_refused_cost_the_connection_and_the_next_ones_make_another(
    pulsar: Any, guarded: Guarded, connect_to: Any, topic: str
) -> None:
    issued = iter([TOKENS.issue(ME, lifetime_seconds=LIFETIME_SECONDS), FORGED])
    authentication = pulsar.AuthenticationToken(lambda: next(issued, TOKENS.issue(ME)))
    producer = connect_to(pulsar, guarded.service_url, authentication=authentication).create_producer(topic)
    until(lambda: producer.stats().reconnects == 1)
    producer.send(b"x")
    assert "AuthenticationError: Failed to authenticate" in producer.stats().last_error
