from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.runtime.loop import MAX_BUFFERS, Buffer, Transport, TransportOwner
from pulsar_actors.runtime.tls import TlsStream, client_context, server_context
from pulsar_actors.runtime.transport import MAX_READY_BYTES, BufferedTransport, EncodedBytes, WriteQueue
from tests.support.certificates import Authority
from tests.support.manual_loop import Line


class RecordingOwner:
    """An owner that writes down what it hears, and may act on it."""

    def __init__(self, *, tls_follows: bool = False) -> None:
        self.heard: list[object] = []
        self.transport = BufferedTransport(self, self._connect, tls_follows=tls_follows)
        self.closes_on: str | None = None

    def _connect(self, owner: TransportOwner) -> Transport:
        self.line = Line(owner=owner)
        return self.line

    def write(self, *data: bytes) -> None:
        self.transport.write([EncodedBytes(one) for one in data])

    def opened(self) -> None:
        self._hear("opened")

    def secured(self) -> None:
        self._hear("secured")

    def received(self, data: bytes) -> None:
        self._hear(data)

    def lost(self, reason: str) -> None:
        self._hear(("lost", reason))

    def certificate_refused(self, reason: str) -> None:
        self._hear(("certificate_refused", reason))

    def _hear(self, what: object) -> None:
        self.heard.append(what)
        if self.closes_on == what:
            self.transport.close()


@pytest.fixture
def hearer() -> RecordingOwner:
    return RecordingOwner()


def test_its_owner_hears_what_the_transport_does(hearer: RecordingOwner) -> None:
    hearer.transport.opened()
    hearer.transport.received(b"data")
    hearer.transport.lost("reset")
    assert hearer.heard == ["opened", b"data", ("lost", "reset")]
    assert hearer.line.closed


def test_what_is_written_goes_out_at_once_where_there_is_room(hearer: RecordingOwner) -> None:
    hearer.write(b"one", b"two")
    assert (hearer.line.written, hearer.line.writes) == (b"onetwo", [6])


def test_what_does_not_fit_waits_for_room_and_keeps_its_order(hearer: RecordingOwner) -> None:
    hearer.line.room = 2
    hearer.write(b"abcd")
    hearer.write(b"efgh")
    assert hearer.line.written == b"ab"
    hearer.line.make_room(3)
    assert hearer.line.written == b"abcde"
    hearer.line.make_room(None)
    assert hearer.line.written == b"abcdefgh"
    assert not hearer.line.awaits_room


def test_a_close_when_written_lets_everything_leave_and_then_says_that_it_is_over(hearer: RecordingOwner) -> None:
    hearer.line.room = 2
    hearer.write(b"abcd")
    hearer.transport.close_when_written()
    assert not hearer.line.closed
    hearer.line.make_room(None)
    assert hearer.line.written == b"abcd"
    assert hearer.heard == [("lost", "closed")]
    assert hearer.line.closed


def test_a_close_when_written_with_nothing_to_write_is_over_at_once(hearer: RecordingOwner) -> None:
    hearer.transport.close_when_written()
    assert hearer.heard == [("lost", "closed")]


def test_after_a_close_the_owner_hears_nothing_more_and_nothing_is_written(hearer: RecordingOwner) -> None:
    hearer.line.room = 0
    hearer.write(b"abcd")
    hearer.transport.close()
    assert hearer.line.closed
    hearer.transport.opened()
    hearer.transport.received(b"late")
    hearer.transport.writable()
    hearer.transport.lost("late")
    hearer.write(b"late")
    hearer.transport.close_when_written()
    assert hearer.heard == []
    assert hearer.line.written == b""


@pytest.mark.parametrize("size", [1, 5, 100_000])
def test_what_comes_before_tls_has_begun_is_for_tls_to_judge(size: int) -> None:
    hearer = RecordingOwner(tls_follows=True)
    words = b"220 mail.example ready\r\n" * 10_000
    for start in range(0, size * 10, size):
        hearer.transport.received(words[start : start + size])
    assert hearer.heard == []
    hearer.transport.secure(TlsStream(client_context(allow_insecure=True), "localhost"))
    ((lost, reason),) = hearer.heard  # type: ignore[misc]
    assert lost == "lost"
    assert "the peer does not speak TLS; it says b'220 mail" in reason


class Encrypted:
    """A transport with TLS, and the server that it talks to."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        files = authority.certify()
        self.hearer = RecordingOwner()
        self.line = self.hearer.line
        self.server = TlsStream(server_context(files.certificate, files.key), server_side=True)
        self.heard_by_server = b""
        self.is_ended = False
        self.authority = authority

    def begin(self, host: str = "localhost") -> None:
        self.hearer.transport.secure(TlsStream(client_context(self.authority.file), host))

    def agree(self) -> None:
        self.begin()
        self.exchange()

    def exchange(self) -> None:
        """Carry bytes to and fro until nobody has any more to say."""
        while self.line.written:
            data = bytes(self.line.written)
            self.line.written.clear()
            output = self.server.feed(data)
            self.heard_by_server += output.plaintext
            self.is_ended = self.is_ended or output.ended
            if output.to_send and not self.line.closed:
                self.hearer.transport.received(output.to_send)

    def say(self, data: bytes) -> None:
        for record in self.server.encrypt([data]):
            self.hearer.transport.received(record)


@pytest.fixture
def encrypted(tmp_path: Path) -> Encrypted:
    return Encrypted(tmp_path)


def test_what_is_written_before_tls_is_agreed_leaves_encrypted_afterwards(encrypted: Encrypted) -> None:
    encrypted.begin()
    encrypted.hearer.write(b"a secret")
    assert b"secret" not in encrypted.line.written
    encrypted.exchange()
    assert encrypted.hearer.heard == ["secured"]
    assert encrypted.heard_by_server == b"a secret"


def test_what_comes_is_decrypted_and_a_record_in_pieces_is_heard_when_it_is_whole(encrypted: Encrypted) -> None:
    encrypted.agree()
    (record,) = encrypted.server.encrypt([b"answer"])
    encrypted.hearer.transport.received(record[:5])
    assert encrypted.hearer.heard == ["secured"]
    encrypted.hearer.transport.received(record[5:])
    assert encrypted.hearer.heard == ["secured", b"answer"]


def test_no_more_is_encrypted_than_the_socket_is_busy_with(encrypted: Encrypted) -> None:
    encrypted.agree()
    asked: list[int] = []

    class Late:
        def buffers(self) -> list[bytes]:
            asked.append(1)
            return [bytes(600_000)]

    encrypted.line.room = 0
    encrypted.hearer.transport.write([Late(), Late(), Late()])
    assert len(asked) == 1
    encrypted.say(b"something that makes it look again")
    assert len(asked) == 1
    encrypted.line.make_room(None)
    encrypted.exchange()
    assert len(encrypted.heard_by_server) == 1_800_000


def test_a_close_when_written_says_goodbye_in_tls(encrypted: Encrypted) -> None:
    encrypted.agree()
    encrypted.hearer.write(b"last words")
    encrypted.hearer.transport.close_when_written()
    encrypted.exchange()
    assert encrypted.heard_by_server == b"last words"
    assert encrypted.is_ended
    assert encrypted.hearer.heard[-1] == ("lost", "closed")


def test_a_peer_that_says_goodbye_has_closed_the_connection(encrypted: Encrypted) -> None:
    encrypted.agree()
    encrypted.hearer.transport.received(encrypted.server.close_notify())
    assert encrypted.hearer.heard == ["secured", ("lost", "the peer closed the connection")]


def test_a_bad_certificate_is_told_to_the_peer_and_ends_it_with_the_reason(encrypted: Encrypted) -> None:
    encrypted.begin("elsewhere.example")
    hello = bytes(encrypted.line.written)
    encrypted.line.written.clear()
    encrypted.hearer.transport.received(encrypted.server.feed(hello).to_send)
    ((what, reason),) = encrypted.hearer.heard  # type: ignore[misc]
    assert what == "certificate_refused"
    assert "elsewhere.example" in reason
    assert "does this port speak TLS" not in reason
    assert encrypted.line.written, "the alert"
    assert encrypted.line.closed


def test_a_connection_that_is_cut_off_in_the_handshake_says_so(encrypted: Encrypted) -> None:
    encrypted.begin()
    encrypted.hearer.transport.lost("reset by the peer")
    ((what, reason),) = encrypted.hearer.heard  # type: ignore[misc]
    assert (what, "reset by the peer" in reason) == ("lost", True)


@pytest.mark.parametrize("moment", ["secured", b"answer"])
def test_an_owner_may_close_while_it_hears(encrypted: Encrypted, moment: object) -> None:
    encrypted.hearer.closes_on = moment  # type: ignore[assignment]
    encrypted.begin()
    encrypted.exchange()
    if not encrypted.line.closed:
        records = b"".join(encrypted.server.encrypt([b"answer"])) + encrypted.server.close_notify()
        encrypted.hearer.transport.received(records)
    assert encrypted.hearer.heard[-1] == moment
    assert encrypted.line.closed


class Late:
    """Frames that count how often their buffers are made."""

    def __init__(self, *buffers: Buffer) -> None:
        self.asked = 0
        self._buffers = buffers

    def buffers(self) -> Sequence[Buffer]:
        self.asked += 1
        return self._buffers


def queue(*frames: Late | EncodedBytes) -> WriteQueue:
    made = WriteQueue()
    made.add(frames)
    return made


def drained(made: WriteQueue, step: int) -> bytes:
    """Write as a socket does that takes so many bytes at a time."""
    written = b""
    while made:
        data = b"".join(made.next_buffers())[:step]
        if not data:
            break
        written += data
        made.wrote(len(data))
    return written


@given(st.lists(st.lists(st.binary(max_size=40), max_size=4), max_size=6), st.integers(1, 100))
def test_everything_is_written_in_order_however_little_a_socket_takes(frames: list[list[bytes]], step: int) -> None:
    made = queue(*(Late(*buffers) for buffers in frames))
    assert drained(made, step) == b"".join(buffer for buffers in frames for buffer in buffers)
    assert made.next_buffers() == []
    assert not made
    assert made.ready_bytes == 0


def test_frames_make_their_buffers_only_when_their_turn_has_come() -> None:
    first, second = Late(bytes(MAX_READY_BYTES)), Late(b"second")
    made = queue(first, second)
    assert made
    assert (first.asked, second.asked) == (0, 0)
    made.next_buffers()
    assert (first.asked, second.asked) == (1, 0)
    assert made.ready_bytes == MAX_READY_BYTES
    made.wrote(1)
    made.next_buffers()
    assert (first.asked, second.asked) == (1, 1)


def test_no_more_buffers_are_made_ready_than_one_write_takes() -> None:
    made = queue(*(Late(b"x") for _ in range(MAX_BUFFERS + 10)))
    assert len(made.next_buffers()) == MAX_BUFFERS
    assert drained(made, 100) == b"x" * (MAX_BUFFERS + 10)


def test_frames_that_nobody_waits_for_any_longer_cost_nothing() -> None:
    made = queue(Late(), Late(b""), Late(b"wanted"))
    assert b"".join(made.next_buffers()) == b"wanted"


def test_buffers_of_any_kind_are_cut_by_bytes() -> None:
    numbers = memoryview(b"abcdefgh").cast("Q")
    made = queue(Late(numbers, bytearray(b"ij")), EncodedBytes(b"k"))
    assert made.next_buffers()
    assert made.ready_bytes == 11
    made.wrote(3)
    assert b"".join(made.next_buffers()) == b"defghijk"


def test_what_is_cleared_is_gone() -> None:
    made = queue(EncodedBytes(b"ready"))
    made.next_buffers()
    made.add([EncodedBytes(b"waiting")])
    made.clear()
    assert not made
    assert made.ready_bytes == 0
    assert made.next_buffers() == []
