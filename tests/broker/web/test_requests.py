import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.broker.web.chunked import MAX_BODY
from pulsar_actors.broker.web.head import MAX_HEAD
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.requests import Progress, Request, RequestReader

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
PUT = b"PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS = b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
WAITING = b"PUT /d HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"


def taken(reader: RequestReader) -> list[tuple[str, bytes]]:
    found = []
    while isinstance(request := reader.take(), Request):
        found.append((request.target, request.body))
    return found


def test_requests_are_taken_one_by_one_in_their_order() -> None:
    reader = RequestReader()
    reader.feed(GET + PUT + CHUNKS + GET)
    assert taken(reader) == [("/a", b""), ("/b", b"hello"), ("/c", b"abc"), ("/a", b"")]
    assert reader.held == 0


@given(st.lists(st.sampled_from([GET, PUT, CHUNKS, b"\r\n" + GET]), max_size=6), st.integers(1, 90))
def test_it_does_not_matter_where_the_stream_is_cut(parts: list[bytes], size: int) -> None:
    whole = RequestReader()
    whole.feed(b"".join(parts))
    reader, found, data = RequestReader(), [], b"".join(parts)
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
        found += taken(reader)
    assert found == taken(whole)
    assert len(found) == len(parts)


def test_empty_lines_before_a_request_are_skipped() -> None:
    reader = RequestReader()
    reader.feed(b"\r\n\r\n" + GET)
    assert taken(reader) == [("/a", b"")]


def test_a_client_that_waits_is_told_to_go_on_once() -> None:
    reader = RequestReader()
    reader.feed(WAITING)
    assert [reader.take(), reader.take()] == [Progress.CONTINUE, Progress.WAIT]
    reader.feed(b"xy")
    assert taken(reader) == [("/d", b"xy")]


def test_a_client_that_does_not_wait_after_all_is_told_nothing() -> None:
    reader = RequestReader()
    reader.feed(WAITING + b"x")
    assert reader.take() is Progress.WAIT


def test_nobody_waits_to_send_a_body_that_is_empty() -> None:
    reader = RequestReader()
    reader.feed(WAITING.replace(b": 2", b": 0"))
    assert taken(reader) == [("/d", b"")]


def feed_all(data: bytes, size: int) -> None:
    reader = RequestReader()
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
        reader.take()


def refused(data: bytes, size: int) -> int:
    with pytest.raises(HttpRefusal) as caught:
        feed_all(data, size)
    return caught.value.status


@pytest.mark.parametrize("size", [1000, 10**6])
def test_a_head_without_end_is_refused(size: int) -> None:
    assert refused(b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"b" * MAX_HEAD, size) == 431


def test_a_head_over_the_limit_is_refused_although_it_ends() -> None:
    assert refused(b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"b" * MAX_HEAD + b"\r\n\r\n", 10**6) == 431


def test_a_body_over_the_limit_is_refused_before_it_comes_and_nobody_is_told_to_send_it() -> None:
    assert refused(WAITING.replace(b": 2", b": %d" % (MAX_BODY + 1)), 10**6) == 413


def test_a_body_of_just_the_limit_is_taken() -> None:
    reader = RequestReader()
    reader.feed(PUT.replace(b": 5", b": %d" % MAX_BODY)[:-5] + b"a" * MAX_BODY)
    request = reader.take()
    assert isinstance(request, Request)
    assert len(request.body) == MAX_BODY
