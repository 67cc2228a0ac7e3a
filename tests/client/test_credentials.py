"""Credentials in use: fetched for each connection, and anew when a broker asks again."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.wire.PulsarApi_pb2 import CommandAuthResponse
from tests.support.issuer_bench import IssuerInHand, issuing
from tests.support.life import MILLISECONDS, SOON, InThread, until

pytestmark = pytest.mark.usefixtures("clean")

TOKENS = Tokens(b"a secret of the tests")
SECRET = "open-sesame"


@pytest.fixture
def broker(clean: None) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tokens=TOKENS) as broker:
        yield broker


@contextlib.contextmanager
def client_of(broker: EmbeddedBroker, authentication: Any, **options: Any) -> Iterator[pulsar.Client]:
    with contextlib.closing(pulsar.Client(broker.service_url, authentication, **options)) as client:
        yield client


class Own(pulsar.Authentication):
    """Whatever it is told to give, first and later."""

    def __init__(self, *given: Any) -> None:
        self.given = list(given)
        self.challenges: list[bytes | None] = []

    def fetch(self, challenge: bytes | None = None) -> tuple[str, bytes]:
        self.challenges.append(challenge)
        given = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        return given() if callable(given) else given  # type: ignore[no-any-return]


def good(seconds: float | None = None, subject: str = "me") -> tuple[str, bytes]:
    return "token", TOKENS.issue(subject, lifetime_seconds=seconds).encode()


def fail(error: BaseException) -> Callable[[], Any]:
    def fetch() -> Any:
        raise error

    return fetch


@pytest.mark.shows("Command AuthChallenge")
@pytest.mark.shows("Command AuthResponse")
def test_a_method_of_ones_own_is_told_the_challenge_and_keeps_the_connection(broker: EmbeddedBroker) -> None:
    own = Own(lambda: good(3.0), good)
    with client_of(broker, own) as client:
        renewed = broker.faults.on(CommandAuthResponse).delay(0)
        producer = client.create_producer("t")
        renewed.wait(1, SOON)
        producer.send(b"x")
        assert own.challenges == [None, b"PulsarAuthRefresh"]
        assert producer.stats().reconnects == 0


NO_CREDENTIALS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "not an object of type NoneType"),
    "text": (SECRET, "not an object of type str"),
    "a pair of text": (("token", SECRET), "not a tuple of str, str"),
    "the wrong way round": ((SECRET.encode(), "token"), "not a tuple of bytes, str"),
    "three": (("token", b"x", SECRET), "not a tuple of str, bytes, str"),
    "an empty tuple": ((), "not a tuple of nothing"),
    "half a character": (("\ud800", b"x"), "not a tuple of str, bytes"),
    "more than a broker takes": (("token", b"x" * (5 << 20)), "no broker takes credentials of 5,242,885 bytes"),
    "an error": (fail(ValueError("the vault is sealed")), "ValueError: the vault is sealed"),
    "an error without words": (fail(KeyError()), "no credentials could be had: KeyError"),
    "an exit": (fail(SystemExit(5)), "SystemExit(5)"),
    "a Ctrl-C": (fail(KeyboardInterrupt()), "KeyboardInterrupt()"),
}


@pytest.mark.parametrize("given", NO_CREDENTIALS)
def test_what_are_no_credentials_fails_at_once_and_is_not_repeated(broker: EmbeddedBroker, given: str) -> None:
    value, reason = NO_CREDENTIALS[given]
    with client_of(broker, Own(value)) as client:
        error = InThread(lambda: client.create_producer("t")).error()
        assert isinstance(error, pulsar.AuthenticationError)
        assert reason in str(error)
        assert SECRET not in str(error)


@pytest.mark.parametrize("over", ["pulsar", "http"])
def test_a_method_of_ones_own_that_fails_to_hear_costs_nobody_anything(
    broker: EmbeddedBroker, over: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Deaf(Own):
        def judged(self, *, accepted: bool) -> None:
            raise RuntimeError(SECRET)

    url = broker.service_url if over == "pulsar" else broker.web_url
    with contextlib.closing(pulsar.Client(url, Deaf(good), operation_timeout_seconds=5)) as client:
        client.create_producer("t").send(b"x")
        client.get_topic_partitions("t")
    assert "failed to hear" in caplog.text
    assert SECRET not in caplog.text


REFRESHES: dict[str, tuple[Any, str]] = {
    "cannot be had": (fail(ValueError("the vault is sealed")), "ValueError: the vault is sealed"),
    "are somebody else's": (lambda: good(subject="another"), "the fresh token has another subject"),
    "are over as well": (lambda: good(-5.0), "the token ended"),
    "are of another method": (("basic", b"me:x"), "this broker wants a token"),
}


@pytest.mark.parametrize("fresh", REFRESHES)
def test_fresh_credentials_that_are_no_good_cost_the_connection_and_the_next_ones_make_another(
    broker: EmbeddedBroker, fresh: str, caplog: pytest.LogCaptureFixture
) -> None:
    given, reason = REFRESHES[fresh]
    with client_of(broker, Own(lambda: good(3.0), given, good)) as client:
        producer = client.create_producer("t")
        until(lambda: producer.stats().reconnects == 1)
        producer.send(b"x")
        assert reason in (producer.stats().last_error or "")
    (line,) = [record.getMessage() for record in caplog.records if reason in record.getMessage()]
    assert "127.0.0.1" in line


def test_slow_credentials_hold_up_nothing_else(broker: EmbeddedBroker) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow() -> tuple[str, bytes]:
        asked.set()
        assert go.wait(SOON)
        return good()

    with client_of(broker, Own(lambda: good(3.0), slow)) as client:
        renewed = broker.faults.on(CommandAuthResponse).delay(0)
        producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
        assert asked.wait(SOON)
        began = time.monotonic()
        for _ in range(10):
            producer.send(b"x")
            consumer.acknowledge(consumer.receive(MILLISECONDS))
        client.create_producer("u").close()
        assert time.monotonic() - began < SOON / 2
        go.set()
        renewed.wait(1, SOON)
        producer.send(b"x")
        assert producer.stats().reconnects == 0


def test_a_client_closes_while_its_credentials_are_being_fetched(broker: EmbeddedBroker) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow() -> tuple[str, bytes]:
        asked.set()
        go.wait(SOON)
        return good()

    with client_of(broker, Own(slow)) as client:
        creating = InThread(lambda: client.create_producer("t"))
        assert asked.wait(SOON)
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < SOON / 2
        assert isinstance(creating.error(), pulsar.AlreadyClosed)
    go.set()


def test_credentials_that_never_come_are_given_up(broker: EmbeddedBroker) -> None:
    go = threading.Event()
    with client_of(
        broker, Own(lambda: go.wait(SOON)), connection_timeout_ms=300, operation_timeout_seconds=1
    ) as client:
        assert isinstance(InThread(lambda: client.create_producer("t")).error(), pulsar.PulsarException)
    go.set()


# OAuth2.


def issue_good(issuer: IssuerInHand, lifetime: float) -> None:
    issuer.next_token = lambda: TOKENS.issue("me", lifetime_seconds=lifetime)  # type: ignore[method-assign]
    issuer.grant = {"expires_in": lifetime}


def test_a_token_of_an_issuer_is_renewed_without_losing_the_connection(broker: EmbeddedBroker) -> None:
    with issuing() as issuer:
        issue_good(issuer, 2.0)
        with client_of(broker, pulsar.AuthenticationOauth2(issuer.settings())) as client:
            renewed = broker.faults.on(CommandAuthResponse, times=None).delay(0)
            producer = client.create_producer("t")
            renewed.wait(2, SOON)
            producer.send(b"x")
            assert producer.stats().reconnects == 0
            assert issuer.tokens_given() >= 3


def test_all_connections_of_all_clients_share_one_token(broker: EmbeddedBroker) -> None:
    with issuing() as issuer, contextlib.ExitStack() as stack:
        issue_good(issuer, 60.0)
        authentication = pulsar.AuthenticationOauth2(issuer.settings())
        clients = [stack.enter_context(client_of(broker, authentication, connections_per_broker=10)) for _ in range(3)]
        creating = [InThread(lambda one=one: one.create_producer("t")) for one in clients for _ in range(20)]
        for one in creating:
            one.result().close()
        assert issuer.tokens_given() == 1


def test_an_issuer_that_refuses_fails_the_first_call_at_once(broker: EmbeddedBroker) -> None:
    with issuing() as issuer:
        issuer.refuse(401, {"error": "invalid_client"})
        with client_of(broker, pulsar.AuthenticationOauth2(issuer.settings())) as client:
            error = InThread(lambda: client.create_producer("t")).error()
            assert isinstance(error, pulsar.AuthenticationError)
            assert str(error) == (
                "AuthenticationError: no credentials could be had: "
                f"the issuer of tokens, '{issuer.url}', answers HTTP 401, invalid_client"
            )


def test_a_broker_that_does_not_take_the_issuers_token_says_so(broker: EmbeddedBroker) -> None:
    with (
        issuing() as issuer,
        client_of(broker, pulsar.AuthenticationOauth2(issuer.settings())) as client,
        pytest.raises(pulsar.AuthenticationError, match="a token has 3 parts"),
    ):
        client.create_producer("t")


def test_a_refused_token_is_asked_for_anew_once_and_no_more_while_it_goes_on(broker: EmbeddedBroker) -> None:
    with issuing() as issuer, client_of(broker, pulsar.AuthenticationOauth2(issuer.settings())) as client:
        for _ in range(4):
            with pytest.raises(pulsar.AuthenticationError):
                client.create_producer("t")
        assert issuer.tokens_given() == 2


@pytest.mark.parametrize("over_http", [False, True])
def test_who_is_let_in_again_need_not_wait_for_the_end_of_a_refused_token(
    broker: EmbeddedBroker,
    over_http: bool,  # noqa: FBT001 - a case
) -> None:
    url = broker.web_url if over_http else broker.service_url
    with issuing() as issuer:
        authentication = pulsar.AuthenticationOauth2(issuer.settings())
        with contextlib.closing(pulsar.Client(url, authentication)) as client:
            with pytest.raises(pulsar.AuthenticationError):
                client.create_producer("t")
            issue_good(issuer, 3600.0)
            client.create_producer("t").send(b"x")
        assert issuer.tokens_given() == 2


def test_a_producer_outlives_the_change_of_the_keys_that_tokens_are_signed_with() -> None:
    with issuing() as issuer, contextlib.ExitStack() as stack:
        issue_good(issuer, 3600.0)
        before = stack.enter_context(EmbeddedBroker(tokens=TOKENS))
        port = int(before.service_url.rpartition(":")[2])
        client = stack.enter_context(client_of(before, pulsar.AuthenticationOauth2(issuer.settings())))
        producer = client.create_producer("t")
        after = Tokens(b"another secret of the tests")
        before.stop()
        issuer.next_token = lambda: after.issue("me", lifetime_seconds=3600.0)  # type: ignore[method-assign]
        stack.enter_context(EmbeddedBroker(port=port, tokens=after))
        producer.send(b"x")
        assert issuer.tokens_given() == 2
