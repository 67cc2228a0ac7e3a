from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.broker.web import calls
from pulsar_actors.broker.web.http import EMPTY_OK, NO_CONTENT, HttpRefusal, Response

TOPIC = "/admin/v2/persistent/public/default/p/partitions"


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "json", "text/x+json"])
def test_a_body_that_is_not_called_json_is_not_read(web: Any, kind: str) -> None:
    assert web.ask("PUT", TOPIC, 2, **{"content-type": kind}).status == 415


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"])
def test_a_body_is_json_by_any_of_its_names(web: Any, kind: str) -> None:
    assert web.ask("PUT", TOPIC, 2, **{"content-type": kind}).status == 204


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b"1 2", b"NaN,"])
def test_a_body_that_is_not_json_is_refused(web: Any, body: bytes) -> None:
    assert web.refusal("PUT", TOPIC, body)[0] == 400


def test_an_empty_body_needs_no_name(web: Any) -> None:
    path = "/admin/v2/persistent/public/default/t"
    assert web.ask("PUT", path, b" \r\n", **{"content-type": "text/plain"}).status == 204


@pytest.mark.parametrize(
    ("text", "forced"), [("true", True), ("TRUE", True), ("1", True), ("false", False), ("", False)]
)
def test_a_flag_is_on_when_it_says_so(web: Any, text: str, forced: bool) -> None:  # noqa: FBT001 -- parametrised
    web.connect("t")
    answer = web.ask("DELETE", f"/admin/v2/persistent/public/default/t?force={text}")
    assert (answer.status == 204) is forced


def one(_: calls.WebCall) -> Response:
    return NO_CONTENT


def two(_: calls.WebCall) -> Response:
    return EMPTY_OK


ROUTER = calls.Router(
    [
        calls.Route("GET", "/a/{name}", one),
        calls.Route("GET", "/a/fixed", two),
        calls.Route("PUT", "/a/fixed", two),
        calls.Route("DELETE", "/a/{name}", one),
        calls.Route("GET", "/{domain}/{name}", two),
        calls.Route("POST", "/only", one),
    ]
)


def refused(method: str, path: str) -> HttpRefusal:
    with pytest.raises(HttpRefusal) as caught:
        ROUTER.find(method, path)
    return caught.value


@pytest.mark.parametrize(
    ("method", "path", "match"),
    [
        ("GET", "/a/b", calls.RouteMatch(one, {"name": "b"})),
        ("GET", "/a/fixed", calls.RouteMatch(two, {})),
        ("DELETE", "/a/fixed", calls.RouteMatch(one, {"name": "fixed"})),
        ("HEAD", "/a/b", calls.RouteMatch(one, {"name": "b"})),
        ("GET", "/a/b/", calls.RouteMatch(one, {"name": "b"})),
        ("GET", "/persistent/x", calls.RouteMatch(two, {"domain": "persistent", "name": "x"})),
        ("GET", "/non-persistent/x", calls.RouteMatch(two, {"domain": "non-persistent", "name": "x"})),
        ("GET", "/a/b%20c%2Fd%E6%97%A5", calls.RouteMatch(one, {"name": "b c/d\u65e5"})),
        ("GET", "/a/%7Bname%7D", calls.RouteMatch(one, {"name": "{name}"})),
        ("GET", "/a/b+c", calls.RouteMatch(one, {"name": "b+c"})),
        ("GET", "/%61/b", calls.RouteMatch(one, {"name": "b"})),
    ],
)
def test_a_request_finds_its_route(method: str, path: str, match: calls.RouteMatch) -> None:
    assert ROUTER.find(method, path) == match


@pytest.mark.parametrize("path", ["/", "/b/c/d", "/a", "/a//", "/other/x", "//b", "/persistent//", "/Only"])
def test_a_path_that_nobody_answers_is_not_implemented(path: str) -> None:
    refusal = refused("GET", path)
    assert refusal.status == 404
    assert "not implemented" in refusal.reason


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("POST", "/a/fixed", "DELETE, GET, HEAD, PUT"), ("PUT", "/a/b", "DELETE, GET, HEAD"), ("HEAD", "/only", "POST")],
)
def test_a_method_that_a_path_does_not_take_is_refused_with_those_it_takes(
    method: str, path: str, allowed: str
) -> None:
    refusal = refused(method, path)
    assert (refusal.status, refusal.headers) == (405, (("Allow", allowed),))


@pytest.mark.parametrize("path", ["/a/%", "/a/%4", "/a/%zz", "/a/%+1", "/a/%ff", "/a/%c3", "/a/%ED%A0%80"])
def test_a_path_that_cannot_be_decoded_is_refused(path: str) -> None:
    assert refused("GET", path).status == 400


def test_a_query_is_read_with_its_escapes() -> None:
    assert calls.read_query("a=1&b=x+y%26&&c&d==&a=2") == {"a": "2", "b": "x y&", "c": "", "d": "="}
    assert calls.read_query("") == {}


@pytest.mark.parametrize(
    ("take", "value", "taken"),
    [
        (calls.as_object, {"a": 1}, {"a": 1}),
        (calls.as_strings, {"a": "b"}, {"a": "b"}),
        (calls.as_strings, None, {}),
        (calls.as_flag, False, False),
        (calls.as_number, -3, -3),
        (calls.as_count, 0, 0),
    ],
)
def test_what_is_right_is_taken(take: Callable[[Any, str], Any], value: Any, taken: Any) -> None:
    assert take(value, "it") == taken


@pytest.mark.parametrize(
    ("take", "value", "status"),
    [
        *((calls.as_object, value, 400) for value in (None, [], "a", 1)),
        *((calls.as_strings, value, 400) for value in ([], {"a": 1}, {"a": None})),
        *((calls.as_flag, value, 400) for value in (None, 0, "true")),
        *((calls.as_number, value, 400) for value in (None, True, 1.5, "1", 2**63, -(2**63) - 1)),
        *((calls.as_count, value, 400) for value in (None, True, 1.5)),
        (calls.as_count, -1, 412),
    ],
)
def test_what_is_not_is_refused_by_its_name(take: Callable[[Any, str], Any], value: Any, status: int) -> None:
    with pytest.raises(HttpRefusal) as caught:
        take(value, "the thing")
    assert caught.value.status == status
    assert caught.value.reason.startswith("the thing is ")
