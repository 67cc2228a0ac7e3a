import base64
import contextlib
import json
import pickle
import socket
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pulsar as official
import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client import oauth2 as issuer_module
from pulsar_actors.client.authentication import Authentication, AuthenticationOauth2
from pulsar_actors.client.credentials import trusting
from pulsar_actors.exceptions import ErrorGettingAuthenticationData, InvalidArgument
from pulsar_actors.runtime.tls import server_context
from tests.support.certificates import Authority
from tests.support.issuer_bench import CLIENT_ID, CLIENT_SECRET, WELL_KNOWN, IssuerInHand, issuing
from tests.support.web_server import Said

KEY = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
JAVA = "org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2"


@pytest.fixture
def issuer() -> Iterator[IssuerInHand]:
    with issuing() as issuer:
        yield issuer


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secure(authority: Authority) -> Iterator[IssuerInHand]:
    with issuing(server_context(*authority.certify())) as issuer:
        yield issuer


def as_data(content: Any) -> str:
    return "data:application/json;base64," + base64.b64encode(json.dumps(content).encode()).decode()


def fault_of(authentication: Authentication, trust: str | None = None) -> str:
    with trusting(trust), pytest.raises(ErrorGettingAuthenticationData) as failed:
        authentication.fetch()
    assert failed.value.code == "AuthenticationError"
    assert failed.value.__context__ is None
    assert CLIENT_SECRET not in "".join(traceback.format_exception(failed.value))
    assert failed.value.reason is not None
    return failed.value.reason


# What is asked.


def test_a_token_is_had_for_the_clients_id_and_secret(issuer: IssuerInHand) -> None:
    assert AuthenticationOauth2(issuer.settings()).fetch() == ("token", b"token-1")
    discovery, request = issuer.server.asked
    assert (discovery.method, discovery.path) == ("GET", WELL_KNOWN)
    assert (request.method, request.path) == ("POST", "/oauth/token")
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert issuer.asked_for_tokens == [{"grant_type": "client_credentials", **KEY}]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"client_secret": "a b&c=d+e/%ü"},
    {"audience": "urn:of x", "scope": "one two"},
    {"client_id": "me", "tokenEndpointAuthMethod": "client_secret_post"},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_an_issuer_is_asked_what_the_official_client_asks(issuer: IssuerInHand, settings: dict[str, Any]) -> None:
    with EmbeddedBroker() as broker:
        theirs = official.Client(
            broker.service_url,
            authentication=official.AuthenticationOauth2(issuer.settings(**settings)),
            logger=official.ConsoleLogger(official.LoggerLevel.Error),
        )
        with contextlib.closing(theirs):
            theirs.create_producer("t")
    (asked,) = issuer.asked_for_tokens
    AuthenticationOauth2(issuer.settings(**settings)).fetch()
    assert issuer.asked_for_tokens[-1] == {name: value for name, value in asked.items() if value}


@pytest.mark.parametrize("form", ["{path}", "file:{path}", "file://{path}"])
def test_the_key_may_be_in_a_file_which_is_read_for_each_token(issuer: IssuerInHand, tmp_path: Path, form: str) -> None:
    issuer.grant = {"expires_in": 0}
    path = tmp_path / "key.json"
    url = form.format(path=path)
    authentication = AuthenticationOauth2(issuer.settings(client_id=None, client_secret=None, private_key=url))
    for secret in ("first", "second"):
        path.write_text(json.dumps({"type": "client_credentials", "client_id": "ali", "client_secret": secret}))
        authentication.fetch()
        assert issuer.asked_for_tokens[-1]["client_secret"] == secret


def test_the_key_may_be_in_the_settings_themselves(issuer: IssuerInHand) -> None:
    settings = issuer.settings(client_id=None, client_secret=None, private_key=as_data(KEY))
    AuthenticationOauth2(settings).fetch()
    assert issuer.asked_for_tokens == [{"grant_type": "client_credentials", **KEY}]


@pytest.mark.parametrize("name", ["oauth2token", "OAuth2Token", JAVA, JAVA.upper()])
def test_it_goes_by_the_names_of_configuration_files(issuer: IssuerInHand, name: str) -> None:
    java = {"type": "client_credentials", "issuerUrl": f"{issuer.url}/", "privateKey": as_data(KEY), "audience": "x"}
    assert Authentication(name, json.dumps(java)).fetch() == ("token", b"token-1")
    assert issuer.asked_for_tokens == [{"grant_type": "client_credentials", **KEY, "audience": "x"}]


@pytest.mark.parametrize("key", [{"client_id": CLIENT_ID}, {"private_key": as_data({"client_id": CLIENT_ID})}])
def test_a_certificate_stands_in_for_the_secret(authority: Authority, key: dict[str, str]) -> None:
    ours, theirs = authority.certify(file_name="ours"), authority.certify(file_name="theirs")
    with issuing(server_context(*theirs, trust_certs_file=authority.file)) as issuer, trusting(authority.file):
        shown = {"tls_cert_file": ours.certificate, "tls_key_file": ours.key}
        known = {"client_id": None, "client_secret": None, **key}
        settings = issuer.settings(**known, tokenEndpointAuthMethod="tls_client_auth", **shown)
        assert AuthenticationOauth2(settings).fetch() == ("token", b"token-1")
        assert issuer.asked_for_tokens == [{"grant_type": "client_credentials", "client_id": CLIENT_ID}]
        with_secret = AuthenticationOauth2(issuer.settings(**shown))
        with_secret.fetch()
        assert issuer.asked_for_tokens[-1] == {"grant_type": "client_credentials", **KEY}
    assert with_secret.tls_certificate is None


# How long a token is kept.


def test_a_token_is_kept_and_shared(issuer: IssuerInHand) -> None:
    authentication = AuthenticationOauth2(issuer.settings())
    assert {authentication.fetch() for _ in range(3)} == {("token", b"token-1")}
    assert issuer.tokens_given() == 1


@pytest.mark.parametrize("lifetime", [0, -5, None, "soon", True, [], 1e999, "nan"])
def test_a_token_of_unknown_life_is_used_once(issuer: IssuerInHand, lifetime: Any) -> None:
    issuer.grant = {} if lifetime is None else {"expires_in": lifetime}
    authentication = AuthenticationOauth2(issuer.settings())
    assert [authentication.fetch()[1] for _ in range(2)] == [b"token-1", b"token-2"]


@pytest.mark.parametrize("lifetime", ["3600", 3600.5, 1e30, 10**400])
def test_a_life_may_be_written_as_text_and_be_of_any_length(issuer: IssuerInHand, lifetime: Any) -> None:
    issuer.grant = {"expires_in": lifetime}
    authentication = AuthenticationOauth2(issuer.settings())
    given = [authentication.fetch()[1] for _ in range(2)]
    assert given == ([b"token-1", b"token-1"] if lifetime != 10**400 else [b"token-1", b"token-2"])


# What can go wrong.


REFUSALS: list[tuple[int, Any, str]] = [
    (401, {"error": "invalid_client"}, "answers HTTP 401, invalid_client"),
    (400, {"error": "x", "error_description": "no such client"}, "answers HTTP 400, x: 'no such client'"),
    (401, {"error_description": f"bad: {CLIENT_SECRET}"}, "answers HTTP 401, and repeats the secret"),
    *(
        (401, {"error_description": f"bad: {told}"}, "answers HTTP 401, and repeats the secret")
        for told in (quote_plus(CLIENT_SECRET), quote(CLIENT_SECRET), CLIENT_SECRET.upper(), CLIENT_SECRET[:-1])
    ),
    (500, b"<html>oops</html>", "answers HTTP 500"),
    (503, {"error": 5}, "answers HTTP 503"),
    (200, b"<html>log in here</html>", "gives an answer that is not a JSON object"),
    (200, b"\xff\xfe", "gives an answer that is not a JSON object"),
    (200, b"[" * 100_000, "gives an answer that is not a JSON object"),
    (200, [], "gives an answer that is not a JSON object"),
    (200, {}, "asked for a token, the issuer gave an object of type NoneType"),
    (200, {"access_token": 5}, "the issuer gave an object of type int"),
    (200, {"access_token": " "}, "the issuer gave text that is blank"),
    (200, b" " * 2_000_000, "an answer of more than 1,048,576 bytes"),
]


@pytest.mark.parametrize(("status", "body", "reason"), REFUSALS, ids=str)
def test_an_issuer_that_gives_no_token_is_quoted(issuer: IssuerInHand, status: int, body: Any, reason: str) -> None:
    issuer.refuse(status, body)
    assert reason in fault_of(AuthenticationOauth2(issuer.settings()))


def test_a_redirect_is_not_followed(issuer: IssuerInHand) -> None:
    issuer.refuse(307, {}, ("Location", "http://127.0.0.1:1/elsewhere"))
    assert "redirects (HTTP 307), which is not followed" in fault_of(AuthenticationOauth2(issuer.settings()))


@pytest.mark.parametrize("endpoint", [None, 5, "", "oauth/token", "ftp://127.0.0.1/token", "https://"])
def test_an_issuer_has_to_say_where_it_gives_tokens(issuer: IssuerInHand, endpoint: Any) -> None:
    issuer.metadata = {"token_endpoint": endpoint}
    assert "does not say where it gives tokens" in fault_of(AuthenticationOauth2(issuer.settings()))
    assert issuer.tokens_given() == 0


def test_an_issuer_that_is_no_issuer_is_named(issuer: IssuerInHand) -> None:
    issuer.replaced[WELL_KNOWN] = Said(404, b"<html>nothing here</html>")
    fault = fault_of(AuthenticationOauth2(issuer.settings()))
    assert fault == f"the issuer of tokens, '{issuer.url}', answers HTTP 404"


def test_that_nobody_listens_is_said(issuer: IssuerInHand) -> None:
    fault = fault_of(AuthenticationOauth2(issuer.settings(issuer_url="http://127.0.0.1:1")))
    assert fault.endswith("cannot be asked: no connection to 127.0.0.1:1: Connection refused")


def test_an_issuer_that_hangs_is_left(issuer: IssuerInHand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuer_module, "_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "within 0.3 s" in fault_of(AuthenticationOauth2(issuer.settings(issuer_url=url)))


def test_a_secret_is_not_sent_over_http_by_an_issuer_of_https(secure: IssuerInHand, authority: Authority) -> None:
    with issuing() as plain:
        secure.metadata = {"token_endpoint": f"{plain.url}/oauth/token"}
        fault = fault_of(AuthenticationOauth2(secure.settings()), authority.file)
        assert "is asked over https and gives tokens over http" in fault
        assert plain.server.asked == []


def test_that_a_secret_travels_over_http_is_in_the_log(issuer: IssuerInHand, caplog: pytest.LogCaptureFixture) -> None:
    AuthenticationOauth2(issuer.settings()).fetch()
    assert "anybody on the way can read the client's secret" in caplog.text
    assert CLIENT_SECRET not in caplog.text


def test_an_issuers_certificate_is_trusted_as_the_client_trusts(secure: IssuerInHand, authority: Authority) -> None:
    with trusting(authority.file):
        assert AuthenticationOauth2(secure.settings()).fetch() == ("token", b"token-1")
    fault = fault_of(AuthenticationOauth2(secure.settings()))
    assert "the peer's certificate was signed by an" in fault
    assert "tls_trust_certs_file_path" in fault


def test_an_issuers_certificate_has_to_be_its_own(authority: Authority) -> None:
    files = authority.certify(["elsewhere.example"])
    with issuing(server_context(*files)) as issuer:
        fault = fault_of(AuthenticationOauth2(issuer.settings()), authority.file)
        assert "does not list the address '127.0.0.1'" in fault
        assert issuer.server.asked == []


UNREADABLE: dict[str, Callable[[Path], str]] = {
    "cannot be read: No such file or directory": lambda folder: str(folder / "none"),
    "cannot be read: Is a directory": str,
    "is not a JSON object": lambda folder: written(folder, CLIENT_SECRET),
    "has no client_id": lambda folder: written(folder, json.dumps({"client_secret": CLIENT_SECRET})),
    "has no client_secret": lambda folder: written(folder, json.dumps({"client_id": "x", "client_secret": 5})),
}


def written(folder: Path, content: str) -> str:
    (folder / "key").write_text(content)
    return str(folder / "key")


@pytest.mark.parametrize("reason", UNREADABLE)
def test_a_key_file_that_cannot_be_used_is_named(issuer: IssuerInHand, tmp_path: Path, reason: str) -> None:
    path = UNREADABLE[reason](tmp_path)
    fault = fault_of(AuthenticationOauth2(issuer.settings(private_key=path)))
    assert fault == f"the private_key's file {path!r} {reason}"
    assert issuer.server.asked == []


def test_a_certificate_that_cannot_be_used_is_named_by_its_setting(secure: IssuerInHand, authority: Authority) -> None:
    ours, other = authority.certify(file_name="ours"), authority.certify(file_name="other")
    settings = secure.settings(tls_cert_file=ours.certificate, tls_key_file=other.key)
    fault = fault_of(AuthenticationOauth2(settings), authority.file)
    assert "tls_key_file takes the path of a file with the certificate's key" in fault


GOOD = {"issuer_url": "https://issuer.example", **KEY}
WRONG: list[tuple[Any, str]] = [
    (5, "auth_params_string takes a str"),
    (CLIENT_SECRET, "auth_params_string takes a JSON object"),
    ([CLIENT_SECRET], "auth_params_string takes a JSON object"),
    ({**GOOD, "issuer_url": None}, "issuer_url takes a str"),
    ({**GOOD, "issuer_url": f"https://ali:{CLIENT_SECRET}@issuer.example"}, "issuer_url: a URL of HTTP takes no user"),
    ({**GOOD, "issuer_url": "issuer.example"}, "issuer_url: a URL of HTTP is http://host/path"),
    (
        {"issuer_url": GOOD["issuer_url"]},
        "auth_params_string has no credentials: it takes private_key, or client_id and ",
    ),
    ({**GOOD, "client_id": None}, "client_id takes a str"),
    ({**GOOD, "client_secret": ""}, "client_secret takes a str, got an object of type NoneType"),
    ({**GOOD, "client_secret": [CLIENT_SECRET]}, "client_secret takes a str, got an object of type list"),
    ({**GOOD, "private_key": [CLIENT_SECRET]}, "private_key takes a str, got an object of type list"),
    ({**GOOD, "private_key": f"data:text/plain,{CLIENT_SECRET}"}, "private_key takes a path, file:... or data:"),
    ({**GOOD, "private_key": "data:application/json;base64,@"}, "private_key, the data in it, is not a JSON object"),
    ({**GOOD, "private_key": f" DATA:text/plain,{CLIENT_SECRET}"}, "private_key takes a path, file:... or data:"),
    ({**GOOD, "private_key": f'{{"client_secret": "{CLIENT_SECRET}"}}'}, "private_key takes a path, file:... or data:"),
    (
        {**GOOD, "private_key": as_data({"client_secret": CLIENT_SECRET})},
        "private_key, the data in it, has no client_id",
    ),
    ({**GOOD, "audience": 5}, "audience takes a str"),
    ({**GOOD, "scope": [CLIENT_SECRET]}, "scope takes a str, got an object of type list"),
    ({**GOOD, "type": CLIENT_SECRET}, "type takes client_credentials (what it got is not repeated here)"),
    (
        {**GOOD, "tokenEndpointAuthMethod": "none"},
        "tokenEndpointAuthMethod takes client_secret_post or tls_client_auth",
    ),
    ({**GOOD, "tokenEndpointAuthMethod": "tls_client_auth"}, "tls_cert_file takes a str"),
    ({**GOOD, "tls_cert_file": "/cert"}, "tls_key_file takes a str"),
]


@pytest.mark.parametrize(("given", "text"), WRONG)
def test_a_wrong_setting_is_refused_by_name_and_never_repeated(given: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        AuthenticationOauth2(given if isinstance(given, (str, int)) else json.dumps(given))
    assert str(refused.value).startswith(text)
    assert refused.value.__context__ is None
    assert CLIENT_SECRET not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("kept", [True, False])
def test_a_pickle_has_the_settings_and_no_token(issuer: IssuerInHand, tmp_path: Path, *, kept: bool) -> None:
    path = written(tmp_path, json.dumps(KEY))
    literal = AuthenticationOauth2(issuer.settings())
    by_file = AuthenticationOauth2(issuer.settings(client_secret=None, private_key=path))
    for authentication in (literal, by_file):
        if kept:
            authentication.fetch()
        pickled = pickle.dumps(authentication)
        assert b"token-" not in pickled
        assert (CLIENT_SECRET.encode() in pickled) is (authentication is literal)
        given = issuer.tokens_given()
        twin = pickle.loads(pickled)  # noqa: S301 - our own pickle
        assert twin.fetch() == ("token", f"token-{given + 1}".encode())


def test_nothing_of_it_shows_a_secret(issuer: IssuerInHand) -> None:
    authentication = AuthenticationOauth2(issuer.settings())
    authentication.fetch()
    provider = authentication._provider
    shown = f"{authentication!r} {provider!r} {[provider.issuer, provider.key, provider.key()]} {provider._cache!r}"  # type: ignore[attr-defined]
    assert CLIENT_SECRET not in shown
    assert "token-" not in shown
