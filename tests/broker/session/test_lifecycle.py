"""Who is let in, and for how long; `test_lifecycle_model.py` has every order of events."""

import time
from typing import Any

import pytest

from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support.session_bench import NOBODY, Bench, Caller, connect_command

TOKENS = Tokens(b"a secret of the tests")
PASSWORDS = {"ali": "open-sesame", "ümit": "gül:bahçe"}
TLS = {"certificate_file": "c", "private_key_file": "k", "trust_certs_file": "a"}


def shown(method: str, credentials: str, **fields: Any) -> Any:
    data = credentials.encode(errors="surrogateescape")
    return connect_command(auth_method_name=method, auth_data=data, **fields)


def token_for(bench: Bench, seconds: float) -> str:
    """Make a token that ends so many seconds from now on the bench's clock, which is not the world's."""
    return TOKENS.issue("me", lifetime_seconds=bench.loop.time + seconds - time.time())


def answer(token: str, method: str = "token") -> pb.CommandAuthResponse:
    return pb.CommandAuthResponse(response=pb.AuthData(auth_method_name=method, auth_data=token.encode()))


def refused(caller: Caller, command: Any) -> str:
    error = caller.refusal(command)
    assert (error.request_id, error.error) == (NOBODY, pb.ServerError.AuthenticationError)
    assert caller.is_closed
    return error.message


@pytest.fixture
def guarded() -> Bench:
    return Bench(tokens=TOKENS)


@pytest.fixture
def ending(guarded: Bench) -> Caller:
    """A client whose token ends in ten seconds."""
    caller = guarded.call()
    caller.say(shown("token", token_for(guarded, 10)))
    return caller


@pytest.fixture
def asked(guarded: Bench, ending: Caller) -> Caller:
    """A client that has been asked for a fresh token."""
    guarded.loop.advance(11)
    assert len(ending.heard()) == 1
    return ending


@pytest.mark.parametrize(
    ("options", "method", "credentials"),
    [
        ({}, "token", "whatever"),
        ({"passwords": PASSWORDS}, "basic", "ali:open-sesame"),
        ({"passwords": PASSWORDS}, "basic", "ümit:gül:bahçe"),
        ({"passwords": PASSWORDS, "tokens": TOKENS}, "basic", "ali:open-sesame"),
        ({"passwords": PASSWORDS, "tokens": TOKENS}, "token", "{token}"),
    ],
)
def test_good_credentials_are_let_in(options: dict[str, Any], method: str, credentials: str) -> None:
    command = shown(method, credentials.format(token=TOKENS.issue("me")))
    assert isinstance(Bench(**options).call().ask(command), pb.CommandConnected)


@pytest.mark.parametrize(
    "given", ["", "ali", "ali:", "ali:sesame", ":", "nobody:", "nobody:open-sesame", "Ali:open-sesame"]
)
def test_a_name_with_another_password_is_turned_away(given: str) -> None:
    why = refused(Bench(passwords=PASSWORDS).call(), shown("basic", given))
    assert why == "Failed to authenticate: there is no such name, or it has another password"


@pytest.mark.parametrize("token", ["nonsense", Tokens(b"another secret").issue("me"), "\udcff"])
def test_a_bad_token_is_turned_away(guarded: Bench, token: str) -> None:
    assert "Failed to authenticate: " in refused(guarded.call(), shown("token", token))


@pytest.mark.parametrize(
    ("options", "method", "why"),
    [
        ({"passwords": PASSWORDS}, "token", "this broker wants a password, and the client came with token"),
        ({"passwords": PASSWORDS}, "none", "this broker wants a password, and the client came with nothing"),
        ({"tokens": TOKENS}, "", "this broker wants a token, and the client came with nothing"),
        (
            {"passwords": PASSWORDS, "tokens": TOKENS, **TLS},
            "none",
            "this broker wants a token or a password or a certificate, and the client came with nothing",
        ),
        (TLS, "tls", "the client showed no certificate that names it"),
    ],
)
def test_who_shows_nothing_of_use_is_told_all_that_would_do(options: dict[str, Any], method: str, why: str) -> None:
    assert refused(Bench(**options).call(), shown(method, "x")) == f"Failed to authenticate: {why}"


def test_a_client_is_told_what_this_broker_can_do() -> None:
    connected = Bench().call().ask(connect_command())
    assert (connected.protocol_version, connected.max_message_size) == (21, 5 * 1024 * 1024)
    assert "4.2.4" in connected.server_version


@pytest.mark.parametrize(("theirs", "both"), [(6, 6), (21, 21), (30, 21)])
def test_the_lower_protocol_version_counts(theirs: int, both: int) -> None:
    assert Bench().call().ask(connect_command(protocol_version=theirs)).protocol_version == both


def test_a_second_connect_ends_the_connection() -> None:
    caller = Bench().client()
    assert caller.say(connect_command()) == []
    assert caller.is_closed


def test_a_silent_client_is_asked_and_given_up_after_another_interval() -> None:
    bench = Bench()
    silent, unconnected = bench.client(), bench.call()
    bench.loop.advance(29)
    assert silent.heard() == []
    bench.loop.advance(2)
    assert unconnected.is_closed
    assert silent.heard() == [pb.CommandPing()]
    bench.loop.advance(28)
    assert not silent.is_closed
    bench.loop.advance(2)
    assert silent.is_closed


def test_a_client_that_answers_is_kept() -> None:
    bench = Bench()
    caller = bench.client()
    for _ in range(5):
        bench.loop.advance(30.5)
        assert caller.heard() == [pb.CommandPing()]
        caller.say(pb.CommandPong())
    assert not caller.is_closed


def test_a_client_whose_token_ends_is_asked_for_a_fresh_one_and_stays(guarded: Bench, ending: Caller) -> None:
    guarded.loop.advance(9)
    assert ending.heard() == []
    guarded.loop.advance(2)
    (challenge,) = ending.heard()
    assert isinstance(challenge, pb.CommandAuthChallenge)
    assert challenge.challenge.auth_method_name == "token"
    assert ending.say(answer(token_for(guarded, 15)), pb.CommandPing()) == [pb.CommandPong()]
    guarded.loop.advance(16)
    assert [type(each) for each in ending.heard()] == [pb.CommandAuthChallenge]
    ending.say(answer(TOKENS.issue("me")), pb.CommandPing())
    for _ in range(10):
        guarded.loop.advance(29)
        ending.say(pb.CommandPing())
    assert not ending.is_closed


def test_a_client_that_cannot_be_asked_ends_with_its_token(guarded: Bench) -> None:
    caller = guarded.call()
    caller.say(shown("token", token_for(guarded, 10), feature_flags=pb.FeatureFlags()))
    guarded.loop.advance(9)
    assert not caller.is_closed
    guarded.loop.advance(2)
    assert caller.heard() == []
    assert caller.is_closed


def test_a_client_that_does_not_answer_is_given_up_after_a_minute(guarded: Bench, asked: Caller) -> None:
    for _ in range(5):
        guarded.loop.advance(11)
        asked.say(pb.CommandPing())
    assert not asked.is_closed
    guarded.loop.advance(6)
    assert asked.is_closed


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (answer("nonsense"), "Failed to authenticate: "),
        (answer("nonsense", "basic"), "Failed to authenticate: "),
        (answer(TOKENS.issue("you")), "another subject"),
    ],
    ids=["nonsense", "another method", "somebody else"],
)
def test_a_bad_answer_ends_the_connection(asked: Caller, response: pb.CommandAuthResponse, why: str) -> None:
    assert why in refused(asked, response)


def test_an_answer_to_no_question_ends_the_connection(guarded: Bench, ending: Caller) -> None:
    for caller in (ending, guarded.call()):
        refused(caller, answer(TOKENS.issue("me")))


def test_a_client_that_has_gone_is_not_asked(guarded: Bench, ending: Caller) -> None:
    ending.hang_up()
    guarded.loop.advance(200)
    assert ending.heard() == []
