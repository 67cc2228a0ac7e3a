from collections.abc import Callable

import pytest
from bench_loop import BenchLoop, Wire

from pulsar_actors.broker.session.cut_transport import CutTransport
from pulsar_actors.broker.session.reception import Reception


class Above:
    def __init__(self) -> None:
        self.got = b""
        self.room = 0
        self.reasons: list[str] = []

    def opened(self) -> None:
        raise AssertionError

    def received(self, data: bytes) -> None:
        self.got += data

    def writable(self) -> None:
        self.room += 1

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)


Make = Callable[[Reception], tuple[CutTransport, Above, Wire, BenchLoop]]


@pytest.fixture
def make() -> Make:
    def build(reception: Reception) -> tuple[CutTransport, Above, Wire, BenchLoop]:
        loop, wire, above = BenchLoop(), Wire(), Above()
        cut = CutTransport(loop, wire, reception)
        cut.own(above)
        cut.opened()
        return cut, above, wire, loop

    return build


def test_the_broker_sends_so_many_bytes_and_then_the_connection_is_gone(make: Make) -> None:
    cut, above, wire, loop = make(Reception(sent=5))
    assert cut.send([b"abc"]) == 3
    assert not wire.closed
    assert cut.send([b"de", b"fg"]) == 2
    assert (wire.written, wire.closed) == (b"abcde", True)
    assert above.reasons == []  # not from within a call of its own
    loop.run()
    assert above.reasons == ["a scripted fault cut the connection"]
    assert cut.send([b"more"]) == 0


def test_so_many_bytes_come_from_the_client_and_then_the_connection_is_gone(make: Make) -> None:
    cut, above, wire, loop = make(Reception(received=5))
    cut.received(b"abc")
    cut.received(b"defg")
    cut.received(b"more")
    loop.run()
    assert above.got == b"abcde"
    assert wire.closed
    assert len(above.reasons) == 1
    cut.received(b"more")
    assert above.got == b"abcde"


def test_the_other_direction_has_no_limit(make: Make) -> None:
    cut, above, wire, _ = make(Reception(sent=1))
    cut.received(b"abcdef")
    assert above.got == b"abcdef"
    cut, _, wire, _ = make(Reception(received=1))
    assert cut.send([b"abcdef"]) == 6
    assert wire.written == b"abcdef"


def test_everything_else_is_passed_on(make: Make) -> None:
    cut, above, wire, _ = make(Reception(sent=10))
    cut.await_room()
    assert wire.waiting
    cut.writable()
    assert above.room == 1
    cut.lost("gone")
    cut.lost("gone again")
    cut.writable()
    assert (above.room, above.reasons) == (1, ["gone"])
    cut.close()
    assert wire.closed


def test_who_closed_it_hears_nothing_more(make: Make) -> None:
    cut, above, _, loop = make(Reception(received=3))
    cut.close()
    cut.received(b"abcd")
    cut.lost("gone")
    loop.run()
    assert (above.got, above.reasons) == (b"", [])
