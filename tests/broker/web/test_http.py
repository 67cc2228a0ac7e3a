import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.broker.web import http
from tests.support.bench_loop import BenchLoop, Wire

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


class Peer(Wire):
    """The other end, which takes as many bytes as it has room for."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = BenchLoop()
        self.asked: list[http.Request] = []
        self.gone: list[http.WebConnection] = []
        self.answer = http.Response(200, b"yes")
        self.connection = http.WebConnection(self.loop, self, self.reply, self.gone.append)

    def reply(self, request: http.Request) -> http.Response:
        self.asked.append(request)
        return self.answer

    def makes_room(self, size: int | None = None) -> None:
        self.waiting, self.room = False, size
        self.connection.writable()

    def hears(self, data: bytes, size: int) -> None:
        """Receive the bytes in pieces of this size."""
        for start in range(0, len(data), size):
            self.connection.received(data[start : start + size])

    @property
    def got(self) -> bytes:
        return bytes(self.written)

    @property
    def statuses(self) -> list[int]:
        return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", self.got)]


@pytest.fixture
def peer() -> Peer:
    return Peer()


def test_every_request_is_answered_and_the_connection_stays(peer: Peer) -> None:
    peer.connection.opened()
    peer.connection.received(GET)
    peer.connection.received(GET + GET[:10])
    peer.connection.received(GET[10:])
    assert peer.statuses == [200, 200, 200]
    assert peer.got.endswith(b"\r\n\r\nyes")
    assert not peer.closed


def test_the_connection_ends_with_the_answer_when_the_client_wants_that(peer: Peer) -> None:
    peer.connection.received(GET.replace(b"Host", b"Connection: close\r\nHost") + GET)
    assert peer.statuses == [200]
    assert peer.closed
    assert peer.gone == [peer.connection]


def test_to_head_no_body_is_sent(peer: Peer) -> None:
    peer.connection.received(GET.replace(b"GET", b"HEAD"))
    assert peer.got.endswith(b"Content-Length: 3\r\n\r\n")


def test_a_client_that_waits_is_told_to_send_its_body(peer: Peer) -> None:
    peer.connection.received(WAITING)
    assert peer.got == b"HTTP/1.1 100 Continue\r\n\r\n"
    peer.connection.received(b"xy")
    assert peer.statuses == [100, 200]
    assert peer.asked[0].body == b"xy"


def test_what_cannot_be_read_is_answered_and_the_rest_is_thrown_away_for_a_while(peer: Peer) -> None:
    peer.connection.received(b"nonsense\r\n\r\n" + GET)
    for _ in range(2 * http.MAX_UNREAD // http.MAX_BODY):
        peer.connection.received(b"x" * http.MAX_BODY)
    assert peer.statuses == [400]
    assert b"\r\nConnection: close\r\n" in peer.got
    assert not peer.closed
    peer.loop.advance(http.LINGER_SECONDS)
    assert peer.closed


def test_an_answer_that_does_not_fit_is_sent_piece_by_piece_and_the_next_request_waits(peer: Peer) -> None:
    peer.answer = http.Response(200, b"0123456789" * 100)
    peer.room = 20
    peer.connection.received(GET + GET)
    assert (len(peer.asked), peer.waiting) == (1, True)
    peer.makes_room(500)
    assert (len(peer.asked), peer.waiting) == (1, True)
    peer.makes_room()
    assert len(peer.asked) == 2
    assert peer.got.count(peer.answer.body) == 2
    assert peer.statuses == [200, 200]


def test_the_connection_ends_only_when_the_last_answer_has_left(peer: Peer) -> None:
    peer.room = 5
    peer.connection.received(GET.replace(b"Host", b"Connection: close\r\nHost"))
    assert not peer.closed
    peer.makes_room()
    assert peer.closed


def test_a_client_that_sends_and_never_reads_is_cut_off(peer: Peer) -> None:
    peer.room = 0
    peer.connection.received(GET)
    for _ in range(http.MAX_UNREAD // http.MAX_BODY):
        peer.connection.received(b"x" * http.MAX_BODY)
    assert not peer.closed
    peer.connection.received(b"x" * http.MAX_BODY)
    assert peer.closed
    peer.connection.received(GET)
    assert len(peer.asked) == 1


def test_a_connection_on_which_nothing_comes_is_closed(peer: Peer) -> None:
    peer.loop.advance(http.IDLE_SECONDS - 1)
    peer.connection.received(GET)
    peer.loop.advance(http.IDLE_SECONDS - 1)
    assert not peer.closed
    peer.loop.advance(1)
    assert peer.closed


@pytest.mark.parametrize("begin", [GET[:5], GET + GET[:5], b"PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n"])
def test_a_client_that_never_finishes_a_request_is_cut_off(peer: Peer, begin: bytes) -> None:
    peer.connection.received(begin)
    for _ in range(int(http.EXCHANGE_SECONDS) - 1):
        peer.loop.advance(1.0)
        peer.connection.received(b"x")
    assert not peer.closed
    peer.loop.advance(1.0)
    assert peer.closed


def test_a_client_that_takes_an_answer_byte_by_byte_is_cut_off(peer: Peer) -> None:
    peer.room = 0
    peer.answer = http.Response(200, b"x" * http.MAX_BODY)
    peer.connection.received(GET)
    for _ in range(int(http.EXCHANGE_SECONDS) - 1):
        peer.loop.advance(1.0)
        peer.makes_room(1)
    assert not peer.closed
    peer.loop.advance(1.0)
    assert peer.closed


def test_a_client_that_asks_again_and_again_stays(peer: Peer) -> None:
    for _ in range(int(2 * http.EXCHANGE_SECONDS)):
        peer.connection.received(GET)
        peer.loop.advance(1.0)
    assert not peer.closed


def test_a_connection_that_has_ended_is_not_closed_again(peer: Peer) -> None:
    peer.connection.lost("gone")
    peer.connection.close()
    peer.loop.advance(2 * http.IDLE_SECONDS)
    assert len(peer.gone) == 1


PUT = b"PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS = b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = CHUNKS + b"5\r\nhello\r\n1\r\n \r\nA;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
WAITING = b"PUT /d HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
HOST = b"\r\nHost: h"
LENGTH = b"\r\nContent-Length: "
CODING = b"\r\nTransfer-Encoding: "


def requests(peer: Peer) -> list[tuple[str, str, bytes]]:
    return [(request.method, request.target, request.body) for request in peer.asked]


@given(st.lists(st.sampled_from([GET, PUT, CHUNKED]), max_size=6), st.integers(1, 90))
def test_requests_are_answered_in_their_order_wherever_the_stream_is_cut(parts: list[bytes], size: int) -> None:
    expected = {GET: ("GET", "/a", b""), PUT: ("PUT", "/b", b"hello"), CHUNKED: ("POST", "/c", b"hello 0123456789")}
    peer = Peer()
    peer.hears(b"".join(parts), size)
    assert requests(peer) == [expected[part] for part in parts]
    assert peer.statuses == [200] * len(parts)


@given(st.lists(st.binary(min_size=1, max_size=40)), st.integers(1, 50))
def test_a_body_in_chunks_is_put_together_and_the_next_request_begins_behind_it(parts: list[bytes], size: int) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    peer = Peer()
    peer.hears(CHUNKS + chunks + b"0\r\n\r\n" + GET, size)
    assert requests(peer) == [("POST", "/c", b"".join(parts)), ("GET", "/a", b"")]


def test_header_names_are_in_lower_case_and_repeated_headers_are_joined(peer: Peer) -> None:
    peer.connection.received(
        b"GET /a/b?c=d HTTP/1.1\r\nHost: h:1\r\nX-One:  two words \t\r\nA: 1\r\na: \xe9\r\nB:\r\n\r\n"
    )
    assert peer.asked[0].target == "/a/b?c=d"
    assert peer.asked[0].headers == {"host": "h:1", "x-one": "two words", "a": "1, \xe9", "b": ""}


@pytest.mark.parametrize(
    ("target", "path"),
    [("http://h:1/a?b", "/a?b"), ("HTTPS://h", "/"), ("http://h?x=1", "/?x=1")],
)
def test_the_form_of_target_for_proxies_is_understood(peer: Peer, target: str, path: str) -> None:
    peer.connection.received(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    assert peer.asked[0].target == path


@pytest.mark.parametrize(
    ("version", "stays"),
    [
        (b"1.1" + HOST, True),
        (b"1.1" + HOST + b"\r\nConnection: Upgrade, Close", False),
        (b"1.1" + HOST + b"\r\nConnection: Upgrade\r\nUpgrade: h2c", True),
        (b"1.2" + HOST, True),
        (b"1.0", False),
        (b"1.0" + CODING + b"chunked", False),
    ],
)
def test_the_version_and_the_client_decide_whether_the_connection_stays(
    peer: Peer,
    version: bytes,
    stays: bool,  # noqa: FBT001 - parametrised
) -> None:
    peer.connection.received(b"GET / HTTP/" + version + b"\r\n\r\n" + b"0\r\n\r\n" * (CODING in version))
    assert peer.statuses == [200]
    assert peer.closed is not stays
    assert (b"\r\nConnection: close\r\n" in peer.got) is not stays


def test_a_client_that_does_not_wait_after_all_is_not_told_to_go_on(peer: Peer) -> None:
    peer.connection.received(WAITING + b"x")
    assert peer.got == b""
    peer.connection.received(b"y")
    assert peer.statuses == [200]


def test_a_client_that_waits_to_send_an_empty_body_has_its_answer_at_once(peer: Peer) -> None:
    peer.connection.received(WAITING.replace(b": 2", b": 0"))
    assert peer.statuses == [200]


def test_a_client_of_http_1_0_is_not_told_to_go_on(peer: Peer) -> None:
    peer.connection.received(WAITING.replace(b"1.1", b"1.0"))
    assert peer.got == b""


@pytest.mark.parametrize(
    ("status", "head"),
    [
        (400, b""),
        (400, b"GET"),
        (400, b"GET /"),
        (400, b"GET  / HTTP/1.1" + HOST),
        (400, b"GET / HTTP/1.1 " + HOST),
        (400, b"GET / http/1.1" + HOST),
        (400, b"GET /\xe9 HTTP/1.1" + HOST),
        (400, b"GET /a b HTTP/1.1" + HOST),
        (400, b" GET / HTTP/1.1" + HOST),
        (400, b"GET a HTTP/1.1" + HOST),
        (400, b"OPTIONS * HTTP/1.1" + HOST),
        (400, b"CONNECT h:1 HTTP/1.1" + HOST),
        (505, b"GET / HTTP/2.0" + HOST),
        (505, b"GET / HTTP/0.9" + HOST),
        (400, b"GET / HTTP/1.1"),
        (400, b"GET / HTTP/1.1" + HOST + HOST),
        *(
            (400, b"GET / HTTP/1.1" + HOST + b"\r\n" + header)
            for header in (b"A : b", b"A", b": b", b"A: b\rC: d", b"A: \x00", b"A\xe9: b")
        ),
        *(
            (400, b"PUT / HTTP/1.1" + HOST + LENGTH + length)
            for length in (b"5, 6", b"+5", b"-5", b"0x5", b"5 5", b"", b"\xb2", b"9" * 5000, b"5" + LENGTH + b"6")
        ),
        (400, b"PUT / HTTP/1.1" + HOST + LENGTH + b"5" + CODING + b"chunked"),
        *(
            (501, b"PUT / HTTP/1.1" + HOST + CODING + coding)
            for coding in (b"gzip, chunked", b"chunked, identity", b"xchunked", b"", b"chunked" + CODING + b"chunked")
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 10_000])
def test_a_head_with_a_fault_or_with_two_readings_is_refused(peer: Peer, status: int, head: bytes, size: int) -> None:
    peer.hears(head + b"\r\n\r\nhello" + GET, size)
    assert peer.statuses == [status]
    assert b"\r\nConnection: close\r\n" in peer.got
    assert json.loads(peer.got.partition(b"\r\n\r\n")[2])["reason"]
    assert not peer.asked


@pytest.mark.parametrize(
    "body",
    [
        *(b"\r\n", b"x\r\n", b"0x5\r\n", b"-1\r\n", b"+5\r\n", b" 5\r\n", b"5 5\r\n", b"1" * 21 + b"\r\n"),
        b"5\nhello\r\n0\r\n\r\n",
        b"5\r\nhello!\r\n",
        b"5\r\nhello\n\n",
        b"5\r\nhell\r\n0\r\n\r\n",
        b"0\r\nGET / HTTP/1.1\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 10_000])
def test_chunks_with_a_fault_are_refused(peer: Peer, body: bytes, size: int) -> None:
    peer.hears(CHUNKS + body + GET, size)
    assert peer.statuses == [400]
    assert not peer.asked


@pytest.mark.parametrize(
    "endless",
    [b"GET / HTTP/1.1" + HOST + b"\r\nA: ", b"GET /", CHUNKS + b"5;", CHUNKS + b"0\r\nTrailer: "],
    ids=["header", "target", "chunk extension", "trailer"],
)
@pytest.mark.parametrize("size", [1000, 10**6])
def test_a_part_of_a_request_without_end_is_refused(peer: Peer, endless: bytes, size: int) -> None:
    peer.hears(endless + b"b" * 2 * http.MAX_HEAD, size)
    assert peer.statuses == [431]


@pytest.mark.parametrize("method", [b"PUT", b"HEAD"])
def test_a_body_over_the_limit_is_refused_before_it_comes_and_nobody_is_told_to_send_it(
    peer: Peer, method: bytes
) -> None:
    peer.connection.received(WAITING.replace(b"PUT", method).replace(b": 2", b": %d" % (http.MAX_BODY + 1)))
    assert peer.statuses == [413]


def test_chunks_that_are_too_much_together_are_refused(peer: Peer) -> None:
    peer.hears(CHUNKS + b"%x\r\n%s\r\n1\r\na\r\n0\r\n\r\n" % (http.MAX_BODY, b"a" * http.MAX_BODY), 65536)
    assert peer.statuses == [413]


@pytest.mark.parametrize(
    "request_of_the_limit",
    [
        PUT.replace(b": 5", b": %d" % http.MAX_BODY)[:-5] + b"a" * http.MAX_BODY,
        CHUNKS + b"%x\r\n%s\r\n0\r\n\r\n" % (http.MAX_BODY, b"a" * http.MAX_BODY),
    ],
    ids=["length", "chunks"],
)
def test_a_body_of_just_the_limit_is_taken(peer: Peer, request_of_the_limit: bytes) -> None:
    peer.hears(request_of_the_limit, 65536)
    assert [len(request.body) for request in peer.asked] == [http.MAX_BODY]


def written(peer: Peer, response: http.Response, request: bytes = GET) -> bytes:
    peer.loop.time = 1_700_000_000.0  # so that the date is known
    peer.answer = response
    peer.connection.received(request)
    return peer.got


def test_an_answer_is_a_status_line_headers_and_a_body(peer: Peer) -> None:
    assert written(peer, http.json_response({"a": [1, "\xe9"]})) == (
        b"HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nContent-Type: application/json\r\n"
        b'Content-Length: 14\r\n\r\n{"a":[1,"\xc3\xa9"]}'
    )


def test_an_answer_of_204_has_neither_body_nor_length(peer: Peer) -> None:
    assert written(peer, http.NO_CONTENT).endswith(b"No Content\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\n\r\n")


def test_an_empty_answer_has_a_length_of_zero(peer: Peer) -> None:
    assert written(peer, http.EMPTY_OK).endswith(b"Content-Length: 0\r\n\r\n")


def test_a_refusal_has_its_reason_in_json_and_the_headers_that_it_came_with(peer: Peer) -> None:
    answer = written(peer, http.refusal_response(405, 'no "PUT" here', (("Allow", "GET"),)))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"Allow: GET" in head.split(b"\r\n")
    assert json.loads(body) == {"reason": 'no "PUT" here'}


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("a\r\nX-Evil: b", b"X-Key: a  X-Evil: b"),
        ("\x00a\x7f\n", b"X-Key: a"),
        ("\u65e5a\xe9", b"X-Key: a\xe9"),
        ("\ttab\ttab\t", b"X-Key: tab\ttab"),
        ("\n", b"X-Key: "),
    ],
)
def test_a_value_that_a_user_chose_stays_within_its_header(peer: Peer, value: str, line: bytes) -> None:
    assert line in written(peer, http.Response(200, headers=(("X-Key", value),))).split(b"\r\n")


def test_text_that_has_no_utf8_form_does_not_keep_an_answer_from_being_written() -> None:
    assert http.json_response("\ud800").body == b'"?"'
