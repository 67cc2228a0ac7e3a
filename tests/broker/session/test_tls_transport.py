import ssl
from pathlib import Path

import pytest
from bench_loop import BenchLoop, Wire
from certificates import Authority

from pulsar_actors.broker.session.tls_transport import TlsTransport
from pulsar_actors.runtime.tls_contexts import server_context


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Give the broker's context, and a client's from the standard library."""
    authority = Authority(Path(tmp_path_factory.mktemp("authority")))
    files = authority.certify()
    return server_context(files.certificate, files.key), ssl.create_default_context(cafile=authority.file)


class Above:
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
        self.loop, self.wire, self.above = BenchLoop(), Wire(), Above()
        self.transport = TlsTransport(self.loop, self.wire, contexts[0])
        self.transport.own(self.above)
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
