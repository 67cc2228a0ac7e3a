import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.broker.fault_rules import Reception, Side
from pulsar_actors.broker.session.listeners import CutTransport, TlsTransport
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.runtime.tls import server_context
from pulsar_actors.wire.commands import encode_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandError,
    CommandGetTopicsOfNamespace,
    CommandMessage,
    CommandPing,
    CommandPong,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    ServerError,
)
from tests.support.bench_loop import BenchLoop, Wire
from tests.support.certificates import Authority
from tests.support.session_bench import TOPIC, Bench, connect_command, port_of


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_stalled_connection_hears_all_of_it_after_the_release(bench: Bench) -> None:
    caller = bench.client()
    fault = bench.broker.faults.on(CommandPing).stall()
    assert caller.say(CommandPing(), CommandGetTopicsOfNamespace(request_id=1, namespace="public/default")) == []
    fault.release()
    bench.loop.run()
    pong, topics = caller.heard()
    assert pong == CommandPong()
    assert topics.request_id == 1  # type: ignore[attr-defined]


def test_a_fault_may_meet_what_the_broker_sends(bench: Bench) -> None:
    caller = bench.client()
    bench.broker.faults.on(CommandProducerSuccess).refuse(ServerError.ServiceNotReady, "not yet")
    heard = caller.say(CommandProducer(topic="t", producer_id=1, request_id=6))
    assert heard == [CommandError(request_id=6, error=ServerError.ServiceNotReady, message="not yet")]


def test_a_message_meets_a_fault_with_its_entry(bench: Bench) -> None:
    caller = bench.client()
    caller.produce()
    caller.consume(permits=10)
    bench.broker.faults.on(CommandMessage).duplicate()
    bench.broker.faults.on(CommandSend, nth=2).reorder()
    for i in range(3):
        caller.send(CommandSend(producer_id=0, sequence_id=i), b"%d" % i)
    assert [bytes(entry)[-1:] for entry in caller.entries] == [b"0", b"0", b"2", b"1"]


def test_a_delayed_command_of_a_connection_that_has_ended_is_forgotten(bench: Bench) -> None:
    caller = bench.client()
    bench.broker.faults.on(CommandPing).delay(5)
    bench.broker.faults.on(CommandPong, sent_by=Side.BROKER).delay(5)
    assert caller.say(CommandPing(), CommandPing()) == []
    caller.hang_up()
    bench.loop.advance(20)
    assert caller.heard() == []


def test_each_connection_has_a_number_that_control_functions_see(bench: Bench) -> None:
    numbers: list[int] = []
    first, second = bench.client(), bench.client()
    bench.broker.faults.control(lambda seen: numbers.append(seen.connection))
    first.say(CommandPing())
    second.say(CommandPing())
    assert numbers == [1, 1, 2, 2]


def test_connections_meet_faults_as_they_come(bench: Bench) -> None:
    on_accept = bench.broker.faults.on_accept
    on_accept().hang_up()
    on_accept().say_nothing()
    on_accept().cut_after(sent=10)
    on_accept().cut_after(received=10)
    hung, deaf, cut, cut_short = (bench.call() for _ in range(4))
    assert hung.is_closed
    assert deaf.say(connect_command()) == []
    assert not deaf.is_closed
    cut.owner.received(encode_command(connect_command()))
    bench.loop.run()
    assert (len(cut.wire.written), cut.is_closed) == (10, True)
    assert cut_short.say(connect_command()) == []
    assert cut_short.is_closed
    for caller in (hung, deaf):
        caller.owner.opened()
        caller.owner.writable()
        caller.owner.lost("gone")
    bench.broker.close()
    assert deaf.is_closed


TOKENS = Tokens(b"a secret of the tests")


class Browser:
    """Asks over HTTP, in memory."""

    def __init__(self, bench: Bench, node: Any = None) -> None:
        self._bench = bench
        self.wire = Wire()
        self._owner = bench.loop.open_ports[port_of((node or bench.node).web_url)](self.wire, "127.0.0.1:5")

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        lines = [f"GET {path} HTTP/1.1", "Host: h", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self._owner.received("\r\n".join(lines).encode())
        self._bench.loop.run()
        head, _, body = bytes(self.wire.written).partition(b"\r\n\r\n")
        self.wire.written.clear()
        status, *fields = head.decode().split("\r\n")
        return int(status.split()[1]), dict(field.split(": ", 1) for field in fields), body


LOOKUP = "/lookup/v2/topic/persistent/public/default/t"


def test_a_lookup_over_http_names_the_broker() -> None:
    bench = Bench()
    status, _, body = Browser(bench).get(LOOKUP)
    assert status == 200
    assert json.loads(body)["brokerUrl"] == bench.node.service_url


def test_a_lookup_over_http_is_redirected_to_the_broker_that_has_the_topic() -> None:
    bench = Bench()
    second = bench.broker.add_listener()
    bench.broker.assign(TOPIC, second)
    status, headers, _ = Browser(bench).get(LOOKUP)
    assert status == 307
    assert headers["Location"].startswith(second.web_url)
    status, _, body = Browser(bench, second).get(LOOKUP)
    assert (status, json.loads(body)["brokerUrl"]) == (200, second.service_url)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer nonsense"}, 401),
        ({"Authorization": f"Bearer {TOKENS.issue('me')}"}, 200),
    ],
)
def test_a_broker_that_wants_tokens_wants_them_over_http_too(headers: dict[str, str], status: int) -> None:
    bench = Bench(tokens=TOKENS)
    assert Browser(bench).get(LOOKUP, **headers)[0] == status


def test_who_asks_over_http_without_a_token_is_told_that_one_is_wanted() -> None:
    assert b"wants a token, and the request came with none" in Browser(Bench(tokens=TOKENS)).get(LOOKUP)[2]


def test_closing_the_broker_ends_the_connections() -> None:
    bench = Bench()
    browser = Browser(bench)
    browser.get(LOOKUP)
    bench.broker.close()
    assert browser.wire.closed


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Give the broker's context, and a client's from the standard library."""
    authority = Authority(Path(tmp_path_factory.mktemp("authority")))
    files = authority.certify()
    return server_context(files.certificate, files.key), ssl.create_default_context(cafile=authority.file)


class PlainOwner:
    """Whoever speaks through the transport."""

    def __init__(self) -> None:
        self.got = b""
        self.room = 0
        self.reasons: list[str] = []
        self.on_data: list[bytes] = []

    def opened(self) -> None:
        raise AssertionError

    def received(self, data: bytes) -> None:
        self.got += data

    def writable(self) -> None:
        self.room += 1

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)


class Peer:
    """A client made of the standard library alone, and the transport that it talks to."""

    def __init__(self, contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
        self.loop, self.wire, self.above = BenchLoop(), Wire(), PlainOwner()
        self.transport = TlsTransport(self.loop, self.wire, contexts[0])
        self.transport.set_owner(self.above)
        self.transport.opened()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = contexts[1].wrap_bio(self._in, self._out, server_hostname="localhost")
        self.got = b""

    def exchange(self) -> None:
        """Carry bytes in both directions until nobody has any."""
        while True:
            sent = bytes(self.wire.written)
            self.wire.written.clear()
            if sent:
                self._in.write(sent)
            self._step()
            data = self._out.read()
            if data:
                self.transport.received(data)
            self.loop.run()
            if not data and not self.wire.written:
                return

    def _step(self) -> None:
        try:
            if self.tls.version() is None or not self.agreed:
                self.tls.do_handshake()
                self.agreed = True
            while True:
                data = self.tls.read(65_536)
                if not data:
                    return
                self.got += data
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return

    agreed = False

    def say(self, data: bytes) -> None:
        self.tls.write(data)
        self.exchange()


@pytest.fixture
def peer(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Peer:
    return Peer(contexts)


def test_both_sides_hear_what_the_other_says(peer: Peer) -> None:
    peer.exchange()
    peer.say(b"from the client")
    assert peer.above.got == b"from the client"
    assert peer.transport.send([b"from ", memoryview(b"the "), b"broker"]) == 15
    peer.exchange()
    assert peer.got == b"from the broker"


def test_nothing_can_be_sent_before_tls_is_agreed_and_then_there_is_room(peer: Peer) -> None:
    assert peer.transport.send([b"too early"]) == 0
    peer.transport.await_room()
    peer.loop.run()
    assert peer.above.room == 0
    peer.exchange()
    assert peer.above.room == 1
    assert peer.transport.send([b"now"]) == 3


def test_only_as_much_is_taken_as_the_socket_can_be_busy_with(peer: Peer) -> None:
    peer.exchange()
    peer.wire.room = 1_000
    data = bytes(range(256)) * 4_096
    taken = peer.transport.send([data])
    assert 0 < taken < len(data)
    assert peer.transport.send([b"more"]) == 0
    peer.transport.await_room()
    peer.loop.run()
    assert peer.above.room == 0
    sent = taken
    while sent < len(data):
        peer.wire.room = None
        peer.transport.writable()
        assert peer.above.room == 1
        peer.above.room = 0
        peer.wire.room = 100_000
        sent += peer.transport.send([memoryview(data)[sent:]])
        peer.transport.await_room()
        peer.loop.run()
    peer.wire.room = None
    peer.transport.writable()
    peer.exchange()
    assert peer.got == data


def test_who_waits_for_room_that_is_there_is_called_later(peer: Peer) -> None:
    peer.exchange()
    peer.transport.await_room()
    assert peer.above.room == 0
    peer.loop.run()
    assert peer.above.room == 1
    peer.transport.writable()
    assert peer.above.room == 1


def test_a_client_that_does_not_encrypt_is_turned_away(peer: Peer) -> None:
    peer.transport.received(b"GET / HTTP/1.1\r\n\r\n")
    assert peer.wire.closed
    assert len(peer.above.reasons) == 1
    peer.transport.received(b"more")
    assert len(peer.above.reasons) == 1


def test_a_goodbye_ends_the_connection(peer: Peer) -> None:
    peer.exchange()
    try:
        peer.tls.unwrap()
    except ssl.SSLWantReadError:
        peer.exchange()
    assert peer.above.reasons == ["the peer closed the connection"]
    assert peer.wire.closed


def test_a_close_says_goodbye_once_and_hears_nothing_more(peer: Peer) -> None:
    peer.exchange()
    peer.transport.close()
    peer.transport.close()
    assert peer.wire.closed
    peer.transport.lost("gone")
    peer.transport.writable()
    assert peer.above.reasons == []
    assert peer.transport.send([b"more"]) == 0
    before = len(peer.wire.written)
    assert before > 0


def test_a_close_before_tls_is_agreed_says_nothing(peer: Peer) -> None:
    peer.transport.close()
    assert (peer.wire.written, peer.wire.closed) == (b"", True)


def test_what_comes_after_the_end_is_not_passed_on(peer: Peer) -> None:
    peer.exchange()
    peer.transport.close()
    peer.say(b"too late")
    assert peer.above.got == b""


def test_a_lost_connection_is_told_once(peer: Peer) -> None:
    peer.transport.lost("gone")
    peer.transport.lost("gone again")
    assert peer.above.reasons == ["gone"]


class CutOwner:
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


Make = Callable[[Reception], tuple[CutTransport, CutOwner, Wire, BenchLoop]]


@pytest.fixture
def make() -> Make:
    def build(reception: Reception) -> tuple[CutTransport, CutOwner, Wire, BenchLoop]:
        loop, wire, above = BenchLoop(), Wire(), CutOwner()
        cut = CutTransport(loop, wire, reception)
        cut.set_owner(above)
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
