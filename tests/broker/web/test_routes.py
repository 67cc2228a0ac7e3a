import pytest

from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import DONE, EMPTY, Response
from pulsar_actors.broker.web.routes import Match, Route, Router, read_query


def one(_: Call) -> Response:
    return DONE


def two(_: Call) -> Response:
    return EMPTY


ROUTER = Router(
    [
        Route("GET", "/a/{name}", one),
        Route("GET", "/a/fixed", two),
        Route("PUT", "/a/fixed", two),
        Route("DELETE", "/a/{name}", one),
        Route("GET", "/{domain}/{name}", two),
        Route("POST", "/only", one),
    ]
)


def refused(method: str, path: str) -> HttpRefusal:
    with pytest.raises(HttpRefusal) as caught:
        ROUTER.find(method, path)
    return caught.value


@pytest.mark.parametrize(
    ("method", "path", "match"),
    [
        ("GET", "/a/b", Match(one, {"name": "b"})),
        ("GET", "/a/fixed", Match(two, {})),
        ("DELETE", "/a/fixed", Match(one, {"name": "fixed"})),
        ("HEAD", "/a/b", Match(one, {"name": "b"})),
        ("GET", "/a/b/", Match(one, {"name": "b"})),
        ("GET", "/persistent/x", Match(two, {"domain": "persistent", "name": "x"})),
        ("GET", "/non-persistent/x", Match(two, {"domain": "non-persistent", "name": "x"})),
        ("GET", "/a/b%20c%2Fd%E6%97%A5", Match(one, {"name": "b c/d\u65e5"})),
        ("GET", "/a/%7Bname%7D", Match(one, {"name": "{name}"})),
        ("GET", "/a/b+c", Match(one, {"name": "b+c"})),
        ("GET", "/%61/b", Match(one, {"name": "b"})),
    ],
)
def test_a_request_finds_its_route(method: str, path: str, match: Match) -> None:
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
    assert read_query("a=1&b=x+y%26&&c&d==&a=2") == {"a": "2", "b": "x y&", "c": "", "d": "="}
    assert read_query("") == {}
