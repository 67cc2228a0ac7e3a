import time
from typing import Any

import pytest

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
from tests.support.session_bench import NOBODY, Bench, Caller, connect_command

TOKENS = Tokens(b"a secret of the tests")


def token_connect(token: str, **fields: Any) -> Any:
    return connect_command(auth_method_name="token", auth_data=token.encode(), **fields)


@pytest.fixture
def guarded() -> Bench:
    return Bench(tokens=TOKENS)


def token_for(bench: Bench, subject: str = "me", seconds: float = 100.0) -> str:
    """Make a token that ends so many seconds from now on the bench's clock, which is not the world's."""
    return TOKENS.issue(subject, lifetime_seconds=bench.loop.time + seconds - time.time())


def refused(caller: Caller, command: Any) -> str:
    (error,) = caller.say(command)
    assert isinstance(error, CommandError)
    assert (error.request_id, error.error) == (NOBODY, ServerError.AuthenticationError)
    assert caller.is_closed
    return error.message


@pytest.fixture
def bench() -> Bench:
    return Bench()


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


def test_a_silent_client_is_asked_and_given_up_after_another_interval(bench: Bench) -> None:
    caller = bench.client()
    bench.loop.advance(29)
    assert caller.heard() == []
    bench.loop.advance(2)
    assert caller.heard() == [CommandPing()]
    bench.loop.advance(28)
    assert not caller.is_closed
    bench.loop.advance(2)
    assert caller.is_closed


def test_a_client_that_answers_is_kept(bench: Bench) -> None:
    caller = bench.client()
    for _ in range(5):
        bench.loop.advance(30.5)
        assert caller.heard() == [CommandPing()]
        caller.say(CommandPong())
    assert not caller.is_closed


def test_a_client_that_never_says_connect_is_given_up(bench: Bench) -> None:
    caller = bench.call()
    bench.loop.advance(31)
    assert caller.is_closed


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


def test_a_second_connect_ends_the_connection_while_fresh_credentials_are_awaited_too(guarded: Bench) -> None:
    caller = asked(guarded)
    assert caller.say(token_connect(TOKENS.issue("me"))) == []
    assert caller.is_closed
