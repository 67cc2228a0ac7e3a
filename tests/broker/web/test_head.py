import pytest

from pulsar_actors.broker.web.head import CHUNKED, MAX_TARGET, read_head
from pulsar_actors.broker.web.refusals import HttpRefusal

HOST = b"\r\nHost: h"


def refused(data: bytes) -> int:
    with pytest.raises(HttpRefusal) as caught:
        read_head(data)
    assert caught.value.reason
    return caught.value.status


def test_a_request_line_and_its_headers_are_read() -> None:
    head = read_head(b"GET /a/b?c=d HTTP/1.1\r\nHost: h:1\r\nX-One:  two words \t\r\nEmpty:")
    assert (head.method, head.target, head.length) == ("GET", "/a/b?c=d", 0)
    assert head.headers == {"host": "h:1", "x-one": "two words", "empty": ""}


def test_headers_that_come_twice_are_joined() -> None:
    assert read_head(b"GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\na: 2").headers["a"] == "1, 2"


@pytest.mark.parametrize(
    ("target", "path"),
    [("http://h:1/a?b", "/a?b"), ("HTTPS://h", "/"), ("http://h?x=1", "/?x=1")],
)
def test_the_form_of_target_for_proxies_is_understood(target: str, path: str) -> None:
    assert read_head(f"GET {target} HTTP/1.1\r\nHost: h".encode()).target == path


@pytest.mark.parametrize(
    ("rest", "keeps_alive"),
    [
        (b"1.1" + HOST, True),
        (b"1.1" + HOST + b"\r\nConnection: close", False),
        (b"1.1" + HOST + b"\r\nConnection: Upgrade, Close", False),
        (b"1.2" + HOST, True),
        (b"1.0", False),
        (b"1.0\r\nConnection: Keep-Alive", True),
    ],
)
def test_the_version_and_the_client_decide_whether_the_connection_stays(rest: bytes, keeps_alive: bool) -> None:  # noqa: FBT001 -- parametrised
    assert read_head(b"GET / HTTP/" + rest).keeps_alive is keeps_alive


@pytest.mark.parametrize(
    ("headers", "length"),
    [(b"", 0), (b"\r\nContent-Length: 12", 12), (b"\r\nTransfer-Encoding: Chunked", CHUNKED)],
)
def test_a_body_has_a_length_or_chunks_or_is_not_there(headers: bytes, length: int) -> None:
    assert read_head(b"PUT / HTTP/1.1" + HOST + headers).length == length


def test_a_client_of_http_1_0_cannot_wait_to_be_told_to_go_on() -> None:
    assert read_head(b"PUT / HTTP/1.1" + HOST + b"\r\nExpect: 100-Continue").expects_continue
    assert not read_head(b"PUT / HTTP/1.0\r\nExpect: 100-continue").expects_continue


@pytest.mark.parametrize(
    ("status", "data"),
    [
        (400, b""),
        (400, b"GET"),
        (400, b"GET /"),
        (400, b"GET  / HTTP/1.1" + HOST),
        (400, b"GET / HTTP/1.1 " + HOST),
        (400, b"GET / http/1.1" + HOST),
        (400, b"GET /\xe9 HTTP/1.1" + HOST),
        (400, b"GET /a b HTTP/1.1" + HOST),
        (400, b"GET / HTTP/1.1\nHost: h"),
        (400, b" GET / HTTP/1.1" + HOST),
        (400, b"GET a HTTP/1.1" + HOST),
        (400, b"OPTIONS * HTTP/1.1" + HOST),
        (505, b"GET / HTTP/2.0" + HOST),
        (505, b"GET / HTTP/0.9" + HOST),
        (501, b"BREW / HTTP/1.1" + HOST),
        (501, b"get / HTTP/1.1" + HOST),
        (501, b"CONNECT h:1 HTTP/1.1" + HOST),
        (414, b"GET /" + b"a" * MAX_TARGET + b" HTTP/1.1" + HOST),
        (400, b"GET / HTTP/1.1"),
        (400, b"GET / HTTP/1.1" + HOST + HOST),
        (400, b"GET / HTTP/1.1" + HOST + b"\r\nA : b"),
        (400, b"GET / HTTP/1.1" + HOST + b"\r\nA"),
        (400, b"GET / HTTP/1.1" + HOST + b"\r\n: b"),
        (400, b"GET / HTTP/1.1" + HOST + b"\r\n b"),
        (400, b"GET / HTTP/1.1" + HOST + b"\r\nA: b\r\n c"),
        (400, b"GET / HTTP/1.1" + HOST + b"\r\nA: b\nC: d"),
        (400, b"GET / HTTP/1.1" + HOST + b"\r\nA: b\rC: d"),
        (400, b"GET / HTTP/1.1" + HOST + b"\r\nA: \x00"),
        (400, b"GET / HTTP/1.1" + HOST + b"\r\nA\xe9: b"),
        (417, b"PUT / HTTP/1.1" + HOST + b"\r\nExpect: tea"),
    ],
)
def test_what_is_no_head_is_refused_with_the_status_for_it(status: int, data: bytes) -> None:
    assert refused(data) == status


LENGTH = b"\r\nContent-Length: "
CODING = b"\r\nTransfer-Encoding: "


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (400, LENGTH + b"5" + LENGTH + b"5"),
        (400, LENGTH + b"5" + LENGTH + b"6"),
        (400, LENGTH + b"5, 5"),
        (400, LENGTH + b"+5"),
        (400, LENGTH + b"-5"),
        (400, LENGTH + b"0x5"),
        (400, LENGTH + b"5 5"),
        (400, LENGTH + b""),
        (400, LENGTH + b"\xb2"),
        (400, LENGTH + b"9" * 19),
        (400, LENGTH + b"5" + CODING + b"chunked"),
        (400, CODING + b"chunked" + CODING + b"chunked"),
        (501, CODING + b"gzip, chunked"),
        (501, CODING + b"chunked, identity"),
        (501, CODING + b"xchunked"),
        (501, CODING + b""),
    ],
)
def test_a_request_whose_end_two_readers_may_see_in_two_places_is_refused(status: int, headers: bytes) -> None:
    assert refused(b"PUT / HTTP/1.1" + HOST + headers) == status


def test_chunks_are_refused_from_a_client_of_http_1_0() -> None:
    assert refused(b"PUT / HTTP/1.0" + CODING + b"chunked") == 400
