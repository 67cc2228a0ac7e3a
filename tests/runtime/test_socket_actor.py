import logging
import ssl
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.machines import connection_events
from pulsar_actors.runtime.actor import ActorDied
from pulsar_actors.runtime.socket_actor import FramesReceived, SocketActor, SocketEvent, WriteFrames
from pulsar_actors.runtime.tls import TlsStream, client_context, server_context
from pulsar_actors.runtime.transport import EncodedBytes
from pulsar_actors.wire.frames import FrameReader, encode_command
from pulsar_actors.wire.PulsarApi_pb2 import CommandPing, CommandPong
from tests.support.certificates import Authority
from tests.support.manual_loop import ActorBench, Line


def no_context() -> ssl.SSLContext:
    raise AssertionError("nobody asked for TLS")


class Bench(ActorBench):
    def __init__(self, make_context: Any = no_context) -> None:
        super().__init__()
        to = connection_events.OpenSocket("broker", 6650)
        self.actor = SocketActor.start(self.loop, self.guardian, 7, make_context, to)
        self.heard()

    @property
    def line(self) -> Line:
        (line,) = self.loop.lines
        return line

    def hears(self, data: bytes) -> list[Any]:
        self.line.owner.received(data)
        return self.heard()

    def heard(self) -> list[Any]:
        heard = self.actors.heard(self.guardian)
        assert all(one.serial == 7 for one in heard if isinstance(one, SocketEvent))
        return [one.event if isinstance(one, SocketEvent) else one for one in heard]


@pytest.fixture
def bench() -> Bench:
    return Bench()


PING, PONG = encode_command(CommandPing()), encode_command(CommandPong())


def test_all_frames_of_one_read_go_up_together_and_half_of_one_waits_for_the_rest(bench: Bench) -> None:
    ((frames),) = bench.hears(PING + PONG + PING[:3])
    assert isinstance(frames, FramesReceived)
    assert len(frames.frames) == 2
    assert bench.hears(PING[3:5]) == []
    ((rest),) = bench.hears(PING[5:])
    assert len(rest.frames) == 1


def test_the_first_bytes_after_a_request_are_activity_of_the_peer_and_need_not_be_a_frame(bench: Bench) -> None:
    assert bench.hears(PING[:1]) == []
    bench.tell(connection_events.AwaitActivity())
    assert bench.hears(PING[1:2]) == [connection_events.PeerActive()]
    assert bench.hears(PING[2:3]) == []


def test_room_for_bytes_that_waited_is_activity_of_the_peer_and_room_that_was_there_is_none(bench: Bench) -> None:
    bench.line.room = 1
    bench.tell(connection_events.AwaitActivity(), WriteFrames((EncodedBytes(b"abc"),)))
    assert bench.heard() == []
    bench.line.make_room(1)
    assert bench.heard() == [connection_events.PeerActive()]
    bench.line.make_room(None)
    assert bench.heard() == []


def test_frames_that_were_whole_before_a_fault_go_up_first(bench: Bench) -> None:
    frames, broken = bench.hears(PING + b"\xff\xff\xff\xff")
    assert len(frames.frames) == 1
    assert isinstance(broken, connection_events.StreamBroken)


def test_frames_up_to_the_limit_are_taken() -> None:
    large = b"\x00\x60\x00\x00\x00\x00\x00\x01" + bytes(100)
    assert isinstance(Bench().hears(large)[-1], connection_events.StreamBroken)
    bench = Bench()
    bench.tell(connection_events.AllowFrames(0x700000))
    assert bench.hears(large) == []


def test_a_loss_is_said_with_its_reason_and_is_the_end(bench: Bench) -> None:
    bench.line.owner.lost("reset")
    assert bench.heard() == [connection_events.SocketLost("reset")]
    assert not bench.actor.is_alive()
    bench.tell(WriteFrames((EncodedBytes(b"late"),)), connection_events.CloseSocket(flush=False))
    assert bench.heard() == []


def test_a_close_with_a_flush_writes_what_is_left_and_says_that_it_is_over(bench: Bench) -> None:
    bench.line.room = 1
    bench.tell(WriteFrames((EncodedBytes(b"abc"),)), connection_events.CloseSocket(flush=True))
    assert not bench.line.closed
    bench.line.make_room(None)
    assert bench.line.written == b"abc"
    assert bench.line.closed
    assert bench.heard() == [connection_events.SocketLost("closed")]


def test_a_close_at_once_writes_and_says_nothing_more(bench: Bench) -> None:
    bench.line.room = 0
    bench.tell(WriteFrames((EncodedBytes(b"abc"),)), connection_events.CloseSocket(flush=False))
    assert bench.line.closed
    assert bench.line.written == b""
    assert bench.heard() == []
    assert not bench.actor.is_alive()


def test_a_bug_closes_the_socket_and_the_connection_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: FrameReader, data: bytes) -> list[Any]:
        raise KeyError("planted")

    monkeypatch.setattr(FrameReader, "feed", broken)
    bench = Bench()
    ((died),) = bench.hears(PING)
    assert isinstance(died, ActorDied)
    assert died.who is bench.actor
    assert bench.line.closed


def test_tls_is_agreed_with_a_context_that_is_made_off_the_loop(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.certify()
    server = TlsStream(server_context(files.certificate, files.key), server_side=True)
    bench = Bench(lambda: client_context(authority.file))
    bench.tell(connection_events.StartTls("localhost"))
    assert bench.line.written == b"", "the context reads files"
    bench.loop.run_blocking_calls()
    heard: list[Any] = []
    while bench.line.written:
        data = bytes(bench.line.written)
        bench.line.written.clear()
        output = server.feed(data)
        heard += bench.hears(output.to_send) if output.to_send else []
    assert heard == [connection_events.TlsAgreed()]
    (frames,) = bench.hears(b"".join(server.encrypt([PONG])))
    assert len(frames.frames) == 1


def test_a_context_that_cannot_be_made_is_a_loss_with_the_reason() -> None:
    def impossible() -> ssl.SSLContext:
        raise OSError("no such file")

    bench = Bench(impossible)
    bench.tell(connection_events.StartTls("localhost"))
    bench.loop.run_blocking_calls()
    assert bench.heard() == [connection_events.SocketLost("TLS could not be set up: no such file")]
    assert bench.line.closed


def test_a_context_that_comes_after_the_close_is_nobodys() -> None:
    bench = Bench(lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    bench.tell(connection_events.StartTls("localhost"), connection_events.CloseSocket(flush=False))
    bench.loop.run_blocking_calls()
    assert bench.heard() == []


def test_a_bug_in_the_beginning_of_tls_is_heard_of_at_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a client cannot use it
    bench.tell(connection_events.StartTls("localhost"))
    with caplog.at_level(logging.ERROR, "pulsar_actors"):
        bench.loop.run_blocking_calls()
    ((died),) = bench.heard()
    assert isinstance(died, ActorDied)
    assert bench.line.closed
