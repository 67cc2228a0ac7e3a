from typing import Any

import pytest

from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConnected,
    CommandError,
    ServerError,
)
from tests.support.session_bench import NOBODY, Bench, Caller, connect_command

TOKENS = Tokens(b"a secret of the tests")


def token_connect(token: str, **fields: Any) -> Any:
    return connect_command(auth_method_name="token", auth_data=token.encode(), **fields)


@pytest.fixture
def guarded() -> Bench:
    return Bench(tokens=TOKENS)


def refused(caller: Caller, command: Any) -> str:
    (error,) = caller.say(command)
    assert isinstance(error, CommandError)
    assert (error.request_id, error.error) == (NOBODY, ServerError.AuthenticationError)
    assert caller.is_closed
    return error.message


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
