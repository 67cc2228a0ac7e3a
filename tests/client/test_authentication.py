import pickle
import traceback
from pathlib import Path
from typing import Any

import _pulsar
import pytest

import pulsar_actors as pulsar

SECRET = "open-sesame"
BASIC = f'{{"username": "ali", "password": "{SECRET}"}}'


def token_of_a_vault() -> str:
    return SECRET


def broken_vault() -> str:
    return None  # type: ignore[return-value]


class Own(pulsar.Authentication):
    """What a user may write: no constructor of ours is called."""

    def __init__(self, shared: str) -> None:
        self.shared = shared

    def fetch(self, challenge: bytes | None = None) -> tuple[str, bytes]:
        return "own", f"{self.shared} {challenge!r}".encode()


@pytest.mark.parametrize(
    ("authentication", "method", "data"),
    [
        (pulsar.AuthenticationToken(SECRET), "token", SECRET),
        (pulsar.AuthenticationToken(f" {SECRET}\n"), "token", SECRET),
        (pulsar.AuthenticationToken(token_of_a_vault), "token", SECRET),
        (pulsar.AuthenticationBasic("ali", SECRET), "basic", f"ali:{SECRET}"),
        (pulsar.AuthenticationBasic("ali", SECRET, "oms3.0"), "oms3.0", f"ali:{SECRET}"),
        (pulsar.AuthenticationBasic(auth_params_string=BASIC), "basic", f"ali:{SECRET}"),
        (pulsar.AuthenticationBasic("x", "y", auth_params_string=BASIC), "basic", f"ali:{SECRET}"),
        (pulsar.AuthenticationTLS("/cert", "/key"), "tls", ""),
        (pulsar.Authentication("token", SECRET), "token", SECRET),
        (pulsar.Authentication("token", f"token:{SECRET}"), "token", SECRET),
        (pulsar.Authentication("TOKEN", "token:a:b"), "token", "a:b"),
        (pulsar.Authentication("org.apache.pulsar.client.impl.auth.AuthenticationToken", SECRET), "token", SECRET),
        (pulsar.Authentication("basic", BASIC), "basic", f"ali:{SECRET}"),
        (pulsar.Authentication("tls", "tlsCertFile:/cert,tlsKeyFile:/key"), "tls", ""),
        (Own("a"), "own", "a None"),
    ],
)
def test_each_kind_gives_its_method_and_its_data(authentication: pulsar.Authentication, method: str, data: str) -> None:
    assert authentication.fetch() == (method, data.encode())


def test_a_method_of_the_users_own_answers_a_challenge() -> None:
    assert Own("a").fetch(b"who?") == ("own", b"a b'who?'")


@pytest.mark.parametrize("given", [("ali", SECRET), ("ali", SECRET, "oms3.0")])
def test_a_password_goes_out_as_the_official_client_sends_it(given: tuple[str, ...]) -> None:
    official = _pulsar.AuthenticationBasic.create(*given, *(["basic"] if len(given) == 2 else []))
    assert pulsar.AuthenticationBasic(*given).fetch()[0] == official.getAuthMethodName()


@pytest.mark.parametrize(
    ("authentication", "paths"),
    [
        (pulsar.AuthenticationTLS("/cert", "/key"), ("/cert", "/key")),
        (pulsar.Authentication("tls", "tlsCertFile:/cert,tlsKeyFile:/key"), ("/cert", "/key")),
        (pulsar.Authentication("tls", '{"tlsCertFile": "/cert", "tlsKeyFile": "/key"}'), ("/cert", "/key")),
        (pulsar.AuthenticationToken(SECRET), None),
        (pulsar.Authentication("token", SECRET), None),
        (Own("a"), None),
    ],
)
def test_a_certificate_is_for_the_connection_to_show(authentication: pulsar.Authentication, paths: Any) -> None:
    assert authentication.tls_certificate == paths


def test_a_token_in_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    by_url = pulsar.Authentication("token", file.as_uri())
    for content in (SECRET, f"{SECRET}-2\n"):
        file.write_text(content)
        assert by_url.fetch() == ("token", content.strip().encode())


def test_a_token_in_the_environment_is_read_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = pulsar.Authentication("token", "env:PULSAR_TEST_TOKEN")
    monkeypatch.setenv("PULSAR_TEST_TOKEN", SECRET)
    assert by_name.fetch() == ("token", SECRET.encode())
    monkeypatch.setenv("PULSAR_TEST_TOKEN", "another")
    assert by_name.fetch() == ("token", b"another")


def test_a_token_that_a_callable_gives_as_bytes_is_its_text() -> None:
    assert pulsar.AuthenticationToken(f"{SECRET}\n".encode).fetch() == ("token", SECRET.encode())


def not_text(folder: Path) -> pulsar.Authentication:
    (folder / "binary").write_bytes(SECRET.encode() + b"\xff")
    return pulsar.Authentication("token", f"file:{folder}/binary")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda folder: pulsar.AuthenticationToken(broken_vault), "an object of type NoneType"),
        (lambda folder: pulsar.AuthenticationToken(lambda: " "), "blank or not Unicode"),
        (lambda folder: pulsar.AuthenticationToken(lambda: f"{SECRET}\ud800"), "blank or not Unicode"),
        (lambda folder: pulsar.AuthenticationToken(lambda: SECRET.encode() + b"\xff"), "blank or not Unicode"),
        (lambda folder: pulsar.Authentication("token", f"file://{folder}/none"), "none': No such file or directory"),
        (not_text, "binary': it is not text"),
        (
            lambda folder: pulsar.Authentication("token", "env:NO_SUCH_VARIABLE_HERE"),
            "'NO_SUCH_VARIABLE_HERE' is not set",
        ),
    ],
)
def test_credentials_that_cannot_be_had_say_why_without_the_secret(make: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(pulsar.ErrorGettingAuthenticationData) as failed:
        make(tmp_path).fetch()
    assert why in str(failed.value)
    assert SECRET not in "".join(traceback.format_exception(failed.value))
    assert failed.value.__context__ is None  # a UnicodeDecodeError, say, has the whole file in its attributes
    assert failed.value.code == "AuthenticationError"


WRONG: list[tuple[Any, str]] = [
    (lambda: pulsar.AuthenticationToken(5), "token takes a str, or a callable that gives one, got int"),
    (lambda: pulsar.AuthenticationToken(SECRET.encode()), "token takes a str, or a callable that gives one, got bytes"),
    (lambda: pulsar.AuthenticationToken(""), "token takes Unicode text that is not blank"),
    (lambda: pulsar.AuthenticationToken(f"{SECRET}\ud800"), "token takes Unicode text"),
    (pulsar.AuthenticationBasic, "username takes a str, got an object of type NoneType"),
    (lambda: pulsar.AuthenticationBasic("ali"), "password takes a str"),
    (lambda: pulsar.AuthenticationBasic("ali", SECRET.encode()), "password takes a str, got an object of type bytes"),
    (lambda: pulsar.AuthenticationBasic(f"ali:{SECRET}", "x"), "username takes no ':'"),
    (lambda: pulsar.AuthenticationBasic("ali", SECRET, ""), "method takes Unicode text"),
    (lambda: pulsar.AuthenticationBasic(auth_params_string=f"{{{SECRET}"), "auth_params_string takes a JSON object"),
    (lambda: pulsar.AuthenticationBasic(auth_params_string=f'["{SECRET}"]'), "auth_params_string takes a JSON object"),
    (lambda: pulsar.AuthenticationBasic(auth_params_string=f'{{"password": "{SECRET}"}}'), "username takes a str"),
    (lambda: pulsar.AuthenticationBasic(auth_params_string=5), "auth_params_string takes a str"),
    (lambda: pulsar.AuthenticationTLS("", "/key"), "certificate_path takes Unicode text"),
    (lambda: pulsar.AuthenticationTLS("/cert", None), "private_key_path takes a str"),
    (lambda: pulsar.Authentication("tls", "tlsCertFile:/cert"), "tlsKeyFile takes Unicode text"),
    (lambda: pulsar.Authentication("token", ""), "authParamsString takes Unicode text"),
    (lambda: pulsar.Authentication("token", "token:"), "token takes Unicode text"),
    (lambda: pulsar.Authentication("token", None), "authParamsString takes a str"),
    (lambda: pulsar.Authentication(5, "x"), "dynamicLibPath takes a str"),
    (lambda: pulsar.Authentication(SECRET, "token"), "dynamicLibPath takes one of token, tls, basic, oauth2token"),
]


@pytest.mark.parametrize(("make", "text"), WRONG)
def test_a_wrong_argument_is_refused_by_name_and_never_repeated(make: Any, text: str) -> None:
    with pytest.raises(pulsar.InvalidArgument) as refused:
        make()
    assert str(refused.value).startswith(text)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "authentication",
    [
        pulsar.AuthenticationToken(SECRET),
        pulsar.AuthenticationBasic("ali", SECRET),
        pulsar.Authentication("token", SECRET),
        pulsar.Authentication("basic", BASIC),
    ],
)
def test_a_secret_is_in_no_repr(authentication: pulsar.Authentication) -> None:
    assert SECRET not in f"{authentication!r} {authentication} {[authentication]}"
    assert type(authentication).__name__ in repr(authentication)


@pytest.mark.parametrize(
    ("authentication", "literal"),
    [
        (pulsar.AuthenticationToken(SECRET), True),
        (pulsar.AuthenticationBasic("ali", SECRET), True),
        (pulsar.AuthenticationTLS("/cert", "/key"), False),
        (pulsar.AuthenticationToken(token_of_a_vault), False),
        (pulsar.Authentication("token", "env:PULSAR_TEST_TOKEN"), False),
        (pulsar.Authentication("token", f"file://{__file__}"), False),
    ],
)
def test_a_pickle_holds_a_secret_only_where_it_was_given_as_text(
    authentication: pulsar.Authentication, literal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULSAR_TEST_TOKEN", SECRET)
    pickled = pickle.dumps(authentication)
    assert (SECRET.encode() in pickled) is literal
    twin = pickle.loads(pickled)  # noqa: S301 - our own pickle
    assert twin.fetch() == authentication.fetch()
    assert twin.tls_certificate == authentication.tls_certificate
