from typing import Any

import pytest
from session_bench import NOBODY, Bench, Caller, connect_command

from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandConnected,
    CommandError,
    CommandPing,
    CommandPong,
    FeatureFlags,
    ServerError,
)

TOKENS = Tokens(b"a secret of the tests")


def token_connect(token: str, **fields: Any) -> Any:
    return connect_command(auth_method_name="token", auth_data=token.encode(), **fields)


@pytest.fixture
def guarded() -> Bench:
    return Bench(tokens=TOKENS)


def token_for(bench: Bench, subject: str = "me", seconds: float = 100.0) -> str:
    """Make a token that ends so many seconds from now on the bench's clock, which is not the world's."""
    import time  # noqa: PLC0415

    return TOKENS.issue(subject, lifetime_seconds=bench.loop.time + seconds - time.time())


def refused(caller: Caller, command: Any) -> str:
    (error,) = caller.say(command)
    assert isinstance(error, CommandError)
    assert (error.request_id, error.error) == (NOBODY, ServerError.AuthenticationError)
    assert caller.is_closed
    return error.message


def test_a_client_is_told_what_this_broker_can_do() -> None:
    (connected,) = Bench().call().say(connect_command())
    assert isinstance(connected, CommandConnected)
    assert (connected.protocol_version, connected.max_message_size) == (21, 5 * 1024 * 1024)
    assert "4.2.4" in connected.server_version


@pytest.mark.parametrize(("theirs", "both"), [(6, 6), (21, 21), (30, 21)])
def test_the_lower_protocol_version_counts(theirs: int, both: int) -> None:
    (connected,) = Bench().call().say(connect_command(protocol_version=theirs))
    assert isinstance(connected, CommandConnected)
    assert connected.protocol_version == both


def test_a_second_connect_ends_the_connection() -> None:
    caller = Bench().client()
    assert caller.say(connect_command()) == []
    assert caller.is_closed


def test_a_broker_without_tokens_takes_any_credentials() -> None:
    (connected,) = Bench().call().say(token_connect("whatever"))
    assert isinstance(connected, CommandConnected)


PASSWORDS = {"ali": "open-sesame", "ümit": "gül:bahçe"}


def basic_connect(given: str) -> Any:
    return connect_command(auth_method_name="basic", auth_data=given.encode())


@pytest.mark.parametrize("given", ["ali:open-sesame", "ümit:gül:bahçe"])
def test_a_name_and_its_password_are_let_in(given: str) -> None:
    (connected,) = Bench(passwords=PASSWORDS).call().say(basic_connect(given))
    assert isinstance(connected, CommandConnected)


@pytest.mark.parametrize(
    "given", ["", "ali", "ali:", "ali:sesame", ":", "nobody:", "nobody:open-sesame", "Ali:open-sesame"]
)
def test_a_name_with_another_password_is_turned_away(given: str) -> None:
    why = refused(Bench(passwords=PASSWORDS).call(), basic_connect(given))
    assert why == "Failed to authenticate: there is no such name, or it has another password"


def test_a_broker_with_tokens_and_passwords_takes_either() -> None:
    bench = Bench(passwords=PASSWORDS, tokens=TOKENS)
    for command in (basic_connect("ali:open-sesame"), token_connect(TOKENS.issue("me"))):
        (connected,) = bench.call().say(command)
        assert isinstance(connected, CommandConnected)


@pytest.mark.parametrize(
    ("method", "shown"), [("token", "token"), ("tls", "tls"), ("none", "nothing"), ("", "nothing")]
)
def test_a_method_that_the_broker_does_not_know_is_named_and_so_is_what_it_wants(method: str, shown: str) -> None:
    command = connect_command(auth_method_name=method, auth_data=b"x")
    why = refused(Bench(passwords=PASSWORDS).call(), command)
    assert why == f"Failed to authenticate: this broker wants a password, and the client came with {shown}"


def test_a_client_without_credentials_is_told_all_that_would_do() -> None:
    bench = Bench(passwords=PASSWORDS, tokens=TOKENS, certificate_file="c", private_key_file="k", trust_certs_file="a")
    why = refused(bench.call(), connect_command(auth_method_name="none"))
    assert "this broker wants a token or a password or a certificate, and the client came with nothing" in why


def test_a_method_for_which_nothing_was_shown_is_turned_away() -> None:
    bench = Bench(certificate_file="c", private_key_file="k", trust_certs_file="a")
    why = refused(bench.call(), connect_command(auth_method_name="tls"))
    assert "the client showed no certificate that names it" in why


def test_a_good_token_is_let_in(guarded: Bench) -> None:
    (connected,) = guarded.call().say(token_connect(TOKENS.issue("me")))
    assert isinstance(connected, CommandConnected)


def test_a_client_without_a_token_is_turned_away_with_the_reason(guarded: Bench) -> None:
    text = refused(guarded.call(), connect_command())
    assert text == "Failed to authenticate: this broker wants a token, and the client came with nothing"


def test_a_client_with_another_method_is_turned_away(guarded: Bench) -> None:
    assert "came with basic" in refused(guarded.call(), connect_command(auth_method_name="basic"))


@pytest.mark.parametrize("token", ["nonsense", Tokens(b"another secret").issue("me"), "\udcff"])
def test_a_bad_token_is_turned_away(guarded: Bench, token: str) -> None:
    command = connect_command(auth_method_name="token", auth_data=token.encode(errors="surrogateescape"))
    assert "Failed to authenticate: " in refused(guarded.call(), command)


def answer(token: str, method: str = "token") -> CommandAuthResponse:
    return CommandAuthResponse(response=AuthData(auth_method_name=method, auth_data=token.encode()))


def test_a_client_whose_token_ends_is_asked_for_a_fresh_one_and_stays(guarded: Bench) -> None:
    caller = guarded.call()
    caller.say(token_connect(token_for(guarded, seconds=10)))
    guarded.loop.advance(9)
    assert caller.heard() == []
    guarded.loop.advance(2)
    (challenge,) = caller.heard()
    assert isinstance(challenge, CommandAuthChallenge)
    assert challenge.challenge.auth_method_name == "token"
    assert caller.say(answer(token_for(guarded, seconds=15)), CommandPing()) == [CommandPong()]
    guarded.loop.advance(16)
    (again,) = caller.heard()
    assert isinstance(again, CommandAuthChallenge)
    caller.say(answer(TOKENS.issue("me")), CommandPing())
    for _ in range(10):
        guarded.loop.advance(29)
        caller.say(CommandPing())
    assert not caller.is_closed


def test_a_client_that_cannot_be_asked_ends_with_its_token(guarded: Bench) -> None:
    caller = guarded.call()
    caller.say(token_connect(token_for(guarded, seconds=10), feature_flags=FeatureFlags()))
    guarded.loop.advance(9)
    assert not caller.is_closed
    guarded.loop.advance(2)
    assert caller.heard() == []
    assert caller.is_closed


def asked(guarded: Bench) -> Caller:
    """Give a client that has been asked for a fresh token."""
    caller = guarded.call()
    caller.say(token_connect(token_for(guarded, seconds=10)))
    guarded.loop.advance(11)
    assert len(caller.heard()) == 1
    return caller


def test_a_client_that_does_not_answer_is_given_up_after_a_minute(guarded: Bench) -> None:
    caller = asked(guarded)
    for _ in range(5):
        guarded.loop.advance(11)
        caller.say(CommandPing())
    assert not caller.is_closed
    guarded.loop.advance(6)
    assert caller.is_closed


@pytest.mark.parametrize("method", ["token", "basic"])
def test_a_bad_answer_ends_the_connection(guarded: Bench, method: str) -> None:
    refused(asked(guarded), answer("nonsense", method))


def test_a_token_of_somebody_else_ends_the_connection(guarded: Bench) -> None:
    assert "somebody else's" in refused(asked(guarded), answer(TOKENS.issue("you")))


def test_an_answer_to_no_question_ends_the_connection(guarded: Bench) -> None:
    caller = guarded.call()
    caller.say(token_connect(TOKENS.issue("me")))
    refused(caller, answer(TOKENS.issue("me")))
    refused(guarded.call(), answer(TOKENS.issue("me")))


def test_a_client_that_has_gone_is_not_asked(guarded: Bench) -> None:
    caller = guarded.call()
    caller.say(token_connect(token_for(guarded, seconds=10)))
    caller.hang_up()
    guarded.loop.advance(200)
    assert caller.heard() == []
