import re
from collections.abc import Sequence
from typing import Any

import pytest

from pulsar_actors.broker.web.chunked import MAX_BODY
from pulsar_actors.broker.web.connection import IDLE_SECONDS, LINGER_SECONDS, WebConnection
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.requests import MAX_HELD, Request
from pulsar_actors.broker.web.responses import Response

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


class Peer:
    """The other end, which takes as many bytes as it has room for."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.room = 1 << 30
        self.got = b""
        self.closed = False
        self.awaited = False
        self.asked: list[Request] = []
        self.gone: list[WebConnection] = []
        self.answer = Response(200, b"yes")
        self.connection = WebConnection(loop, self, self.reply, self.gone.append)

    def reply(self, request: Request) -> Response:
        self.asked.append(request)
        return self.answer

    def send(self, buffers: Sequence[Any]) -> int:
        data = b"".join(buffers)[: self.room]
        self.got += data
        self.room -= len(data)
        return len(data)

    def await_room(self) -> None:
        self.awaited = True

    def close(self) -> None:
        self.closed = True

    def makes_room(self, size: int = 1 << 30) -> None:
        self.awaited, self.room = False, size
        self.connection.writable()

    @property
    def statuses(self) -> list[int]:
        return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", self.got)]


@pytest.fixture
def peer(hand_loop: Any) -> Peer:
    return Peer(hand_loop)


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
    peer.connection.received(GET.replace(b"Host", b"Expect: 100-continue\r\nContent-Length: 2\r\nHost"))
    assert peer.got == b"HTTP/1.1 100 Continue\r\n\r\n"
    peer.connection.received(b"xy")
    assert peer.statuses == [100, 200]
    assert peer.asked[0].body == b"xy"


def test_what_cannot_be_read_is_answered_and_the_rest_is_thrown_away_for_a_while(peer: Peer) -> None:
    peer.connection.received(b"nonsense\r\n\r\n" + GET)
    for _ in range(2 * MAX_HELD // MAX_BODY):
        peer.connection.received(b"x" * MAX_BODY)
    assert peer.statuses == [400]
    assert b"\r\nConnection: close\r\n" in peer.got
    assert not peer.closed
    peer.loop.pass_time(LINGER_SECONDS)
    assert peer.closed


def test_a_refusal_takes_its_headers_along(hand_loop: Any) -> None:
    peer = Peer(hand_loop)
    peer.connection.received(b"GET / HTTP/3.0\r\n\r\n")
    assert peer.statuses == [505]
    assert HttpRefusal(400, "x").headers == ()


def test_an_answer_that_does_not_fit_is_sent_piece_by_piece_and_the_next_request_waits(peer: Peer) -> None:
    peer.answer = Response(200, b"0123456789" * 100)
    peer.room = 20
    peer.connection.received(GET + GET)
    assert (len(peer.asked), peer.awaited) == (1, True)
    peer.makes_room(500)
    assert (len(peer.asked), peer.awaited) == (1, True)
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
    for _ in range(MAX_HELD // MAX_BODY):
        peer.connection.received(b"x" * MAX_BODY)
    assert not peer.closed
    peer.connection.received(b"x" * MAX_BODY)
    assert peer.closed
    peer.connection.received(GET)
    assert len(peer.asked) == 1


def test_a_connection_on_which_nothing_comes_is_closed(peer: Peer) -> None:
    peer.loop.pass_time(IDLE_SECONDS - 1)
    peer.connection.received(GET)
    peer.loop.pass_time(IDLE_SECONDS - 1)
    assert not peer.closed
    peer.loop.pass_time(1)
    assert peer.closed


def test_a_connection_that_has_ended_is_not_closed_again(peer: Peer) -> None:
    peer.connection.lost("gone")
    peer.connection.close()
    peer.loop.pass_time(2 * IDLE_SECONDS)
    assert len(peer.gone) == 1
