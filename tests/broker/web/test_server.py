import http.client
import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.interfaces import Busy, Conflict, Missing, Refusal
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.broker.web.http import HttpRefusal
from pulsar_actors.broker.web.server import WebServer
from pulsar_actors.wire.PulsarApi_pb2 import ServerError

TENANTS = "/admin/v2/tenants"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def port_of(broker: EmbeddedBroker) -> int:
    return int(broker.web_url.rpartition(":")[2])


def test_requests_on_one_connection_are_answered_in_turn(broker: EmbeddedBroker) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(broker), timeout=10)
    path = "/admin/v2/persistent/public/default/kept-alive"
    try:
        seen = []
        for method in ("PUT", "PUT", "GET", "HEAD", "DELETE", "DELETE"):
            connection.request(method, f"{path}/stats" if method in {"GET", "HEAD"} else path)
            response = connection.getresponse()
            response.read()
            seen.append(response.status)
    finally:
        connection.close()
    assert seen == [204, 409, 200, 200, 204, 404]


def test_a_request_that_cannot_be_read_is_told_why_although_more_was_sent(broker: EmbeddedBroker) -> None:
    with socket.create_connection(("127.0.0.1", port_of(broker)), timeout=10) as client:
        client.sendall(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 100_000)
        answer = b""
        while data := client.recv(65536):
            answer += data
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"over the limit" in answer


def test_nothing_is_answered_without_a_token_where_tokens_are_demanded() -> None:
    tokens = Tokens(b"a secret of thirty-two bytes or more")
    with EmbeddedBroker(tokens=tokens) as broker:
        connection = http.client.HTTPConnection("127.0.0.1", port_of(broker), timeout=10)
        seen, told = [], []
        for given in (None, "", "Bearer", "Bearer junk", "Basic abc", f"bearer {tokens.issue('me')}"):
            connection.request("GET", TENANTS, headers={} if given is None else {"Authorization": given})
            response = connection.getresponse()
            seen.append(response.status)
            told.append(response.read().decode())
        connection.close()
    assert "wants a token, and the client came with nothing" in told[0]
    assert "junk" not in "".join(told)
    assert seen == [401, 401, 401, 401, 401, 200]


def test_whoever_checks_credentials_gets_the_header_and_may_refuse(web: Any) -> None:
    def check(authorization: str, certificate_name: Any) -> None:
        raise HttpRefusal(401, f"{authorization!r} of {certificate_name()}", (("WWW-Authenticate", "Bearer"),))

    web.server = WebServer(web.context, check)
    answer = web.ask("GET", TENANTS, authorization="Bearer  x ")
    assert (answer.status, json.loads(answer.body)) == (401, {"reason": "'Bearer  x ' of None"})
    assert answer.headers == (("WWW-Authenticate", "Bearer"),)


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (Missing(ServerError.TopicNotFound, "gone"), 404),
        (Conflict(ServerError.UnknownError, "there"), 409),
        (Busy(ServerError.UnknownError, "in use"), 412),
        (Refusal(ServerError.ServiceNotReady, "later"), 503),
        (Refusal(ServerError.NotAllowedError, "no"), 405),
        (Refusal(ServerError.UnknownError, "what"), 400),
    ],
)
def test_what_the_model_refuses_has_a_status_of_its_own(web: Any, refusal: Refusal, status: int) -> None:
    def refuse(*_: object) -> None:
        raise refusal

    web.cluster.topics_of = refuse
    assert web.refusal("GET", "/admin/v2/persistent/public/default") == (status, refusal.reason)


def test_a_call_that_is_refused_is_in_the_brokers_log(web: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pulsar_actors.broker"):
        _, reason = web.refusal("GET", "/admin/v2/persistent/public/nowhere")
    (line,) = (line for line in caplog.records if "is refused" in line.getMessage())
    assert line.getMessage() == f"GET /admin/v2/persistent/public/nowhere is refused with 404: {reason}"


def test_a_bug_is_reported_to_the_one_who_asked_and_to_the_log(web: Any, caplog: pytest.LogCaptureFixture) -> None:
    def break_down(*_: object) -> None:
        raise ZeroDivisionError("planted")

    web.cluster.topics_of = break_down
    with caplog.at_level(logging.ERROR, "pulsar_actors"):
        status, reason = web.refusal("GET", "/admin/v2/persistent/public/default")
    assert status == 500
    assert "ZeroDivisionError: planted" in reason
    assert "planted" in caplog.text
