"""The admin interface: which host is asked, with which credentials, and what becomes of answers."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from pulsar_actors.client.admin import AdminInterface
from pulsar_actors.client.authentication import AuthenticationToken
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.exceptions import ConnectError, InvalidConfiguration
from pulsar_actors.runtime.http_client import HttpResponse
from tests.support.ports import free_ports
from tests.support.web_server import Said, WebServer, web_server

TOKEN = "t0ps3cret"


@pytest.fixture
def make_server() -> Iterator[Callable[[], WebServer]]:
    with ExitStack() as running:
        yield lambda: running.enter_context(web_server())


def call(*urls: str, method: str = "GET", body: object = None) -> HttpResponse:
    url = ",".join([urls[0], *(url.removeprefix("http://") for url in urls[1:])])
    options = ClientOptions(url, authentication=AuthenticationToken(TOKEN), operation_timeout_seconds=5)
    with closing(AdminInterface(url, options, "admin.url")) as admin:
        return admin.call(method, "persistent/public/default/t", body)


def test_a_body_is_sent_as_json_with_the_credentials(make_server: Callable[[], WebServer]) -> None:
    server = make_server()
    server.answer = lambda _: Said(204)
    assert call(server.url, method="PUT", body={"partitions": 3}).status == 204
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("PUT", "/admin/v2/persistent/public/default/t")
    assert (json.loads(asked.body), asked.headers["content-type"]) == ({"partitions": 3}, "application/json")
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"


def test_a_redirect_repeats_the_method_and_the_body_and_not_the_credentials(
    make_server: Callable[[], WebServer],
) -> None:
    first, second = make_server(), make_server()
    first.answer = lambda asked: Said(307, headers=(("Location", f"{second.url}{asked.path}"),))
    second.answer = lambda _: Said(204)
    assert call(first.url, method="POST", body=4).status == 204
    (asked,) = second.asked
    assert (asked.method, asked.body) == ("POST", b"4")
    assert "authorization" not in asked.headers
    second.asked.clear()
    call(first.url, second.url, method="POST", body=4)
    assert [TOKEN in each.headers["authorization"] for each in second.asked] == [True]


def test_the_next_host_is_asked_if_one_does_not_answer(make_server: Callable[[], WebServer]) -> None:
    server = make_server()
    server.answer = lambda _: Said(body=b"[]")
    assert call(f"http://127.0.0.1:{free_ports(1)[0]}", server.url).body == b"[]"


def test_a_refusal_is_an_answer_and_no_other_host_is_asked(make_server: Callable[[], WebServer]) -> None:
    first, second = make_server(), make_server()
    first.answer = lambda _: Said(409)
    assert call(first.url, second.url).status == 409
    assert second.asked == []


def test_hosts_that_do_not_answer_are_an_error() -> None:
    with pytest.raises(ConnectError):
        call(*(f"http://127.0.0.1:{port}" for port in free_ports(2)))


def test_redirects_without_end_are_an_error(make_server: Callable[[], WebServer]) -> None:
    server = make_server()
    server.answer = lambda _: Said(302, headers=(("Location", "/elsewhere"),))
    with pytest.raises(ConnectError, match=r"admin\.url redirects again and again"):
        call(server.url)


def test_the_url_of_a_broker_is_none_of_a_web_server() -> None:
    with pytest.raises(InvalidConfiguration, match="--admin-url is the address of the brokers' web server"):
        AdminInterface("pulsar://127.0.0.1:6650", ClientOptions("pulsar://127.0.0.1:6650"), "--admin-url")
