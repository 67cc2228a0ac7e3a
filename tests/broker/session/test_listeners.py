import contextlib
import ssl
from pathlib import Path

import pytest

from pulsar_actors.broker.fault_rules import Reception
from pulsar_actors.broker.session.listeners import CutTransport, TlsTransport
from pulsar_actors.runtime.tls import server_context
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.frames import encode_command
from tests.support.bench_loop import BenchLoop, Wire
from tests.support.certificates import Authority
from tests.support.session_bench import Bench, connect_command


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_stalled_connection_hears_all_of_it_after_the_release(bench: Bench) -> None:
    caller = bench.client()
    fault = bench.broker.faults.on(pb.CommandPing).stall()
    assert caller.say(pb.CommandPing(), pb.CommandGetTopicsOfNamespace(request_id=1, namespace="public/default")) == []
    fault.release()
    bench.loop.run()
    pong, topics = caller.heard()
    assert pong == pb.CommandPong()
    assert topics.request_id == 1  # type: ignore[attr-defined]


def test_a_fault_may_meet_what_the_broker_sends(bench: Bench) -> None:
    caller = bench.client()
    bench.broker.faults.on(pb.CommandProducerSuccess).refuse(pb.ServerError.ServiceNotReady, "not yet")
    heard = caller.say(pb.CommandProducer(topic="t", producer_id=1, request_id=6))
    assert heard == [pb.CommandError(request_id=6, error=pb.ServerError.ServiceNotReady, message="not yet")]


def test_a_message_meets_a_fault_with_its_entry(bench: Bench) -> None:
    caller = bench.client()
    caller.produce()
    caller.consume(permits=10)
    bench.broker.faults.on(pb.CommandMessage).duplicate()
    bench.broker.faults.on(pb.CommandSend, nth=2).reorder()
    for i in range(3):
        caller.send(pb.CommandSend(producer_id=0, sequence_id=i), b"%d" % i)
    assert [bytes(entry)[-1:] for entry in caller.entries] == [b"0", b"0", b"2", b"1"]


def test_a_delayed_command_of_a_connection_that_has_ended_is_forgotten(bench: Bench) -> None:
    caller = bench.client()
    bench.broker.faults.on(pb.CommandPing).delay(5)
    bench.broker.faults.on(pb.CommandPong, sent_by="broker").delay(5)
    assert caller.say(pb.CommandPing(), pb.CommandPing()) == []
    caller.hang_up()
    bench.loop.advance(20)
    assert caller.heard() == []


def test_each_connection_has_a_number_that_control_functions_see(bench: Bench) -> None:
    numbers: list[int] = []
    first, second = bench.client(), bench.client()
    bench.broker.faults.control(lambda seen: numbers.append(seen.connection))
    first.say(pb.CommandPing())
    second.say(pb.CommandPing())
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
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            self.tls.do_handshake()
            while data := self.tls.read(65_536):
                self.got += data

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
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
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
    assert peer.wire.written
    peer.say(b"too late")
    assert peer.above.got == b""


def test_a_close_before_tls_is_agreed_says_nothing(peer: Peer) -> None:
    peer.transport.close()
    assert (peer.wire.written, peer.wire.closed) == (b"", True)


def test_a_lost_connection_is_told_once(peer: Peer) -> None:
    peer.transport.lost("gone")
    peer.transport.lost("gone again")
    assert peer.above.reasons == ["gone"]


def make(**limits: int) -> tuple[CutTransport, PlainOwner, Wire, BenchLoop]:
    loop, wire, above = BenchLoop(), Wire(), PlainOwner()
    cut = CutTransport(loop, wire, Reception(**limits))
    cut.set_owner(above)
    cut.opened()
    return cut, above, wire, loop


def test_the_broker_sends_so_many_bytes_and_then_the_connection_is_gone() -> None:
    cut, above, wire, loop = make(sent=5)
    assert cut.send([b"abc"]) == 3
    assert not wire.closed
    assert cut.send([b"de", b"fg"]) == 2
    assert (wire.written, wire.closed) == (b"abcde", True)
    assert above.reasons == []  # not from within a call of its own
    loop.run()
    assert above.reasons == ["a scripted fault cut the connection"]
    assert cut.send([b"more"]) == 0


def test_so_many_bytes_come_from_the_client_and_then_the_connection_is_gone() -> None:
    cut, above, wire, loop = make(received=5)
    cut.received(b"abc")
    cut.received(b"defg")
    cut.received(b"more")
    loop.run()
    assert above.got == b"abcde"
    assert wire.closed
    assert len(above.reasons) == 1
    cut.received(b"more")
    assert above.got == b"abcde"


def test_the_other_direction_has_no_limit() -> None:
    cut, above, wire, _ = make(sent=1)
    cut.received(b"abcdef")
    assert above.got == b"abcdef"
    cut, _, wire, _ = make(received=1)
    assert cut.send([b"abcdef"]) == 6
    assert wire.written == b"abcdef"


def test_everything_else_is_passed_on() -> None:
    cut, above, wire, _ = make(sent=10)
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


def test_who_closed_it_hears_nothing_more() -> None:
    cut, above, _, loop = make(received=3)
    cut.close()
    cut.received(b"abcd")
    cut.lost("gone")
    loop.run()
    assert (above.got, above.reasons) == (b"", [])
