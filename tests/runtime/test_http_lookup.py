import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_actors import exceptions
from pulsar_actors.machines.lookup_events import LookupAnswered, Redirected
from pulsar_actors.runtime import http_lookup
from pulsar_actors.runtime.connection_actor import ServiceAccess
from pulsar_actors.runtime.http_client import HttpClient, HttpRequest, HttpResponse
from pulsar_actors.runtime.http_lookup import HttpLookup
from pulsar_actors.wire.PulsarApi_pb2 import CommandLookupTopic
from pulsar_actors.wire.service_url import ServiceUrl
from tests.support.web_server import Asked, Said, WebServer, web_server

TOPIC = CommandLookupTopic(topic="persistent://public/default/t", request_id=0)
PATH = "/lookup/v2/topic/persistent/public/default/t"
FOUND = Said(body=json.dumps({"brokerUrl": "pulsar://b:6650"}).encode())
NO_CONTEXT: Any = None


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server() as server:
        server.answer = lambda _: FOUND
        yield server


def entrance(method: str = "none", data: bytes = b"") -> ServiceAccess:
    return ServiceAccess(lambda _: (method, data), NO_CONTEXT, HttpClient(NO_CONTEXT))


def ask(*urls: str, address: str | None = None, way_in: ServiceAccess | None = None, timeout: float = 10.0) -> Any:
    service = ServiceUrl.parse(urls[0] + "".join(f",{url.partition('://')[2]}" for url in urls[1:]))
    used = way_in or entrance()
    try:
        return HttpLookup(TOPIC, service, address, time.monotonic() + timeout).send(used, time.monotonic)
    finally:
        used.http.close()


def test_the_answer_is_that_of_the_binary_protocol(server: WebServer) -> None:
    answered = ask(server.url)
    assert isinstance(answered, LookupAnswered)
    assert answered.command.brokerServiceUrl == "pulsar://b:6650"
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("GET", PATH)
    assert "authorization" not in asked.headers


@pytest.mark.parametrize(
    ("method", "data", "header"),
    [
        ("token", b"abc", "Bearer abc"),
        ("token", b"\xff\xfe", "Bearer \xff\xfe"),
        ("basic", b"joe:secret", "Basic am9lOnNlY3JldA=="),
    ],
)
def test_credentials_go_along_as_http_has_them(server: WebServer, method: str, data: bytes, header: str) -> None:
    ask(server.url, way_in=entrance(method, data))
    assert server.asked[0].headers["authorization"] == header
    assert server.asked[0].headers["x-pulsar-auth-method-name"] == method


def test_a_certificate_needs_no_header(server: WebServer) -> None:
    ask(server.url, way_in=entrance("tls"))
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize("fault", [ValueError("no"), SystemExit()])
def test_credentials_that_cannot_be_had_end_it_before_anybody_is_asked(server: WebServer, fault: BaseException) -> None:
    def fail(_: bytes | None) -> Any:
        raise fault

    with pytest.raises(exceptions.ErrorGettingAuthenticationData, match=r"could be had: (no|SystemExit)"):
        ask(server.url, way_in=ServiceAccess(fail, NO_CONTEXT, HttpClient(NO_CONTEXT)))
    assert server.asked == []


def test_a_host_that_is_not_there_or_is_at_fault_leaves_it_to_the_next(server: WebServer) -> None:
    with web_server() as broken:
        broken.answer = lambda _: Said(503)
        assert isinstance(ask("http://127.0.0.1:1", broken.url, server.url), LookupAnswered)


def test_a_host_that_is_silent_leaves_time_for_the_next(server: WebServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert isinstance(ask(f"http://127.0.0.1:{silent.getsockname()[1]}", server.url, timeout=6.0), LookupAnswered)


def test_time_that_was_lost_before_it_was_sent_is_not_given_to_a_host_that_is_silent() -> None:
    hosts = Fixed(exceptions.ConnectError("silent"), exceptions.ConnectError("silent"))
    access = ServiceAccess(lambda _: ("none", b""), NO_CONTEXT, hosts)
    lookup = HttpLookup(TOPIC, ServiceUrl.parse("http://a,b"), None, 30.0)
    with pytest.raises(exceptions.ConnectError):
        lookup.send(access, lambda: 20.0)
    assert hosts.timeouts == [5.0, 10.0]


def test_when_no_host_has_an_answer_the_last_failure_is_told(server: WebServer) -> None:
    server.answer = lambda _: Said(503, b'{"reason": "starting"}')
    with pytest.raises(exceptions.ServiceUnitNotReady, match="starting"):
        ask("http://127.0.0.1:1", server.url)
    with pytest.raises(exceptions.ConnectError, match=r"127\.0\.0\.1:1"):
        ask(server.url, "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, exceptions.AuthenticationError), (403, exceptions.AuthorizationError), (404, exceptions.TopicNotFound)],
)
def test_a_refusal_is_that_of_the_binary_protocol_with_the_hosts_words(
    server: WebServer, status: int, error: type[Exception]
) -> None:
    server.answer = lambda _: Said(status, b'{"reason": "because"}')
    with pytest.raises(error, match=rf"127.0.0.1:{server.port} answers {status}: 'because'"):
        ask(server.url)


def test_a_page_for_people_is_no_answer(server: WebServer) -> None:
    server.answer = lambda _: Said(200, b"<html>")
    with pytest.raises(exceptions.Misdirected, match=f"127.0.0.1:{server.port}"):
        ask(server.url)


def test_a_redirect_is_told_with_its_whole_address(server: WebServer) -> None:
    server.answer = lambda _: Said(307, headers=(("Location", "/elsewhere?authoritative=true"),))
    assert ask(server.url) == Redirected(f"{server.url}/elsewhere?authoritative=true")


@pytest.mark.parametrize("location", ["http://[b", "//[", "http://b]/"])
def test_a_redirect_to_what_is_no_address_is_an_answer_of_nobodys(server: WebServer, location: str) -> None:
    server.answer = lambda _: Said(307, headers=(("Location", location),))
    with pytest.raises(exceptions.Misdirected, match=f"127.0.0.1:{server.port} redirects to what is no address"):
        ask(server.url)


def test_a_redirect_without_an_address_is_a_refusal(server: WebServer) -> None:
    server.answer = lambda _: Said(302)
    with pytest.raises(Exception, match="answers 302"):
        ask(server.url)


def test_at_an_address_credentials_go_to_a_host_of_the_service_url_alone(server: WebServer) -> None:
    with web_server() as other:
        other.answer = lambda _: FOUND
        ask(other.url, address=f"{other.url}/there", way_in=entrance("token", b"abc"))
        assert other.asked[0].path == "/there"
        assert "authorization" in other.asked[0].headers
        ask(other.url, address=f"{server.url}/there", way_in=entrance("token", b"abc"))
        assert "authorization" not in server.asked[0].headers


def test_who_is_refused_since_credentials_did_not_follow_is_told_what_to_do(server: WebServer) -> None:
    server.answer = lambda _: Said(401)
    with pytest.raises(exceptions.AuthenticationError, match="put this host into the service URL"):
        ask("http://127.0.0.1:1", address=f"{server.url}/there", way_in=entrance("token", b"abc"))


@pytest.mark.parametrize(
    ("reason", "error", "accepted"),
    [
        ("Unauthorized to validateTopicOperation for operation [LOOKUP]", exceptions.AuthorizationError, True),
        ("Authentication required", exceptions.AuthenticationError, False),
    ],
)
def test_a_role_that_may_not_do_it_has_the_right_credentials(
    server: WebServer,
    reason: str,
    error: type[Exception],
    accepted: bool,  # noqa: FBT001 - a case
) -> None:
    server.answer = lambda _: Said(401, json.dumps({"reason": reason}).encode())
    verdicts: list[bool] = []
    with pytest.raises(error, match=reason.partition(" [")[0].partition(" for")[0]):
        ask(server.url, way_in=entrance("token", b"abc")._replace(report_verdict=verdicts.append))
    assert verdicts == [accepted]


@pytest.mark.parametrize("address", ["http://user:sesame@b/", "http://a b/", "http://b:port/"])
def test_an_address_that_is_none_is_the_fault_of_who_has_redirected_there(address: str) -> None:
    with pytest.raises(exceptions.Misdirected, match="a redirect leads to what is no address") as raised:
        ask("http://127.0.0.1:1", address=address)
    assert "sesame" not in str(raised.value)


class Fixed(HttpClient):
    """Gives each host its answer."""

    def __init__(self, *faults: Exception) -> None:
        super().__init__(NO_CONTEXT)
        self.faults = list(faults)
        self.timeouts: list[float] = []

    def send(self, request: HttpRequest) -> HttpResponse:
        self.timeouts.append(request.timeout)
        raise self.faults.pop(0)


def test_a_refused_certificate_is_final_only_if_every_host_showed_one() -> None:
    refused, away = exceptions.CertificateRefused("x"), exceptions.ConnectError("away")
    with pytest.raises(exceptions.CertificateRefused):
        ask("http://a", "http://b", way_in=ServiceAccess(lambda _: ("none", b""), NO_CONTEXT, Fixed(refused, refused)))
    with pytest.raises(exceptions.ConnectError, match="away"):
        ask("http://a", "http://b", way_in=ServiceAccess(lambda _: ("none", b""), NO_CONTEXT, Fixed(away, refused)))


SILENT = [exceptions.ConnectTimeout("a is silent"), exceptions.ConnectTimeout("b is silent")]


def test_silence_is_final_only_if_it_is_that_of_every_host_and_none_has_answered_before() -> None:
    def outcome(*faults: Exception, silence_may_end: bool) -> exceptions.ConnectError:
        access = ServiceAccess(lambda _: ("none", b""), NO_CONTEXT, Fixed(*faults))
        lookup = HttpLookup(TOPIC, ServiceUrl.parse("http://a,b"), None, 30.0, silence_may_end)
        with pytest.raises(exceptions.ConnectError) as raised:
            lookup.send(access, lambda: 0.0)
        return raised.value

    final = outcome(*SILENT, silence_may_end=False)
    assert type(final) is exceptions.ConnectTimeout
    assert str(final) == "a is silent; b is silent"
    assert type(outcome(*SILENT, silence_may_end=True)) is exceptions.ConnectError
    for other in (exceptions.ConnectError("away"), exceptions.CertificateRefused("x")):
        assert type(outcome(other, SILENT[1], silence_may_end=False)) is exceptions.ConnectError
        assert type(outcome(SILENT[0], other, silence_may_end=False)) is exceptions.ConnectError


def test_an_answer_has_a_size_that_is_enough_for_a_large_namespace(server: WebServer) -> None:
    body = json.dumps({"brokerUrl": "pulsar://b:6650", "more": "x" * (4 << 20)}).encode()
    server.answer = lambda _: Said(200, body)
    assert isinstance(ask(server.url), LookupAnswered)
    assert http_lookup.MAX_RESPONSE_BYTES > 4 << 20


def test_whoever_is_asked_in_vain_is_asked_once(server: WebServer) -> None:
    seen: list[Asked] = []

    def answer(asked: Asked) -> Said:
        seen.append(asked)
        return Said(500)

    server.answer = answer
    with pytest.raises(Exception, match="answers 500"):
        ask(server.url)
    assert len(seen) == 1
