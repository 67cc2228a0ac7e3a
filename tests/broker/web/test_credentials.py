"""Over HTTP the embedded broker wants the same credentials as over its own protocol."""

import urllib.request
from base64 import b64encode
from urllib.error import HTTPError

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.session.credentials import credentials_in
from pulsar_actors.broker.tokens import Tokens

TOKENS = Tokens(b"a secret of the tests")


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("", ("", b"")),
        ("Digest x", ("", b"")),
        ("Bearer  a.b.c ", ("token", b"a.b.c")),
        ("bearer", ("token", b"")),
        (basic("ali:a b"), ("basic", b"ali:a b")),
        ("BASIC !", ("basic", b"")),
        ("Basic \u2603", ("basic", b"")),
    ],
)
def test_the_header_says_the_method_and_the_data(header: str, found: tuple[str, bytes]) -> None:
    assert credentials_in(header) == found


def status_of(url: str, authorization: str | None) -> tuple[int, list[str]]:
    headers = {} if authorization is None else {"Authorization": authorization}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/admin/v2/clusters", headers=headers)) as answer:  # noqa: S310 - our own
            return answer.status, []
    except HTTPError as refused:
        with refused:
            return refused.code, refused.headers.get_all("WWW-Authenticate", [])


@pytest.mark.parametrize(
    ("tokens", "challenges"), [(None, ["Basic"]), (TOKENS, ["Bearer", "Basic"])], ids=["passwords", "and tokens"]
)
def test_a_name_and_its_password_are_asked_for(tokens: Tokens | None, challenges: list[str]) -> None:
    with EmbeddedBroker(passwords={"ali": "sesame"}, tokens=tokens) as broker:
        for wrong in (None, basic("ali:other"), basic("eve:sesame"), basic(""), "Bearer x"):
            assert status_of(broker.web_url, wrong) == (401, challenges)
        assert status_of(broker.web_url, basic("ali:sesame")) == (200, [])
        if tokens is not None:
            assert status_of(broker.web_url, f"Bearer {tokens.issue('me')}") == (200, [])
        with pulsar.Client(broker.web_url, pulsar.AuthenticationBasic("ali", "sesame")) as client:
            assert client.get_topic_partitions("t") == ["persistent://public/default/t"]


def test_a_broker_that_wants_nothing_ignores_what_it_is_given() -> None:
    with EmbeddedBroker() as broker:
        for given in (None, "Bearer x", basic("a:b")):
            assert status_of(broker.web_url, given) == (200, [])
