"""What the contract of loops (`test_loop_contract.py`) cannot force: a socket's less common answers."""

import errno
import os
import selectors
import socket
import threading
from typing import Any

import pytest

from pulsar_actors.runtime import tcp
from pulsar_actors.runtime.tcp import LARGE_READ, SMALL_READ, TcpListener, TcpTransport
from pulsar_actors.runtime.thread_loop import ThreadLoop
from tests.support.life import SOON
from tests.support.manual_loop import ManualLoop


class RecordingOwner:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def opened(self) -> None:
        self.heard.append("opened")

    def received(self, data: bytes) -> None:
        self.heard.append(data)

    def writable(self) -> None:
        self.heard.append("writable")

    def lost(self, reason: str) -> None:
        self.heard.append(("lost", reason))


class FakeSocket:
    """Gives the answers that it was given, in their order."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.closed = False
        self.problem = 0

    def _next(self, what: str) -> Any:
        answer = self.answers[what].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sendmsg(self, buffers: Any) -> Any:
        return self._next("sendmsg")

    def send(self, buffer: Any) -> Any:
        return self._next("send")

    def recv(self, size: int) -> Any:
        return self._next("recv")

    def connect_ex(self, address: Any) -> Any:
        return self._next("connect_ex")

    def settimeout(self, seconds: float) -> None:
        assert seconds == 0

    def setsockopt(self, *_: Any) -> None:
        """Whatever it is."""

    def getsockopt(self, *_: Any) -> int:
        return self.problem

    def fileno(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True


class NoSelector:
    """Nothing is ever ready, unless the test says so."""

    def __init__(self) -> None:
        self.registered: dict[Any, Any] = {}

    def register(self, fake: Any, _: int, ready: Any) -> None:
        self.registered[fake] = ready

    modify = register

    def unregister(self, fake: Any) -> None:
        del self.registered[fake]


@pytest.fixture
def loop() -> ManualLoop:
    return ManualLoop()


def transport(loop: ManualLoop, fake: FakeSocket) -> tuple[TcpTransport, RecordingOwner]:
    made, hearer = TcpTransport(loop, NoSelector()), RecordingOwner()  # type: ignore[arg-type]
    made.adopt(fake)  # type: ignore[arg-type]
    made.set_owner(hearer)
    return made, hearer


def dialling(
    loop: ManualLoop, monkeypatch: pytest.MonkeyPatch, addresses: int, *outcomes: Any
) -> tuple[TcpTransport, RecordingOwner, list[FakeSocket]]:
    """Dial a name with so many addresses, on sockets that answer so."""
    made: list[FakeSocket] = []
    left = list(outcomes)

    def make(*_: Any) -> FakeSocket:
        made.append(FakeSocket(connect_ex=[left.pop(0)]))
        return made[-1]

    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", number)) for number in range(addresses)]

    def resolve(host: bytes, port: int, *, type: int, flags: int = 0) -> Any:  # noqa: A002 - the name is the system's
        if flags:
            raise socket.gaierror(socket.EAI_NONAME, "it is a name")
        return found

    monkeypatch.setattr(tcp.socket, "socket", make)
    monkeypatch.setattr(tcp.socket, "getaddrinfo", resolve)
    dialled, hearer = TcpTransport(loop, NoSelector()), RecordingOwner()  # type: ignore[arg-type]
    dialled.dial("a name", 6650, hearer)
    loop.run_blocking_calls()
    return dialled, hearer, made


@pytest.mark.parametrize("busy", [BlockingIOError(), InterruptedError()], ids=repr)
def test_a_busy_socket_takes_nothing_and_gives_nothing_and_is_not_lost(loop: ManualLoop, busy: OSError) -> None:
    made, hearer = transport(loop, FakeSocket(sendmsg=[busy], recv=[busy]))
    assert made.send([b"data"]) == 0
    made._ready(selectors.EVENT_READ)
    loop.run()
    assert hearer.heard == []


class Stream(FakeSocket):
    """Has so many bytes waiting to be read."""

    waiting = 0

    def recv(self, size: int) -> bytes:
        size = min(size, self.waiting)
        self.waiting -= size
        return bytes(size)


def test_reads_are_small_until_much_is_waiting_and_again_once_it_has_been_read(loop: ManualLoop) -> None:
    stream = Stream()
    made, hearer = transport(loop, stream)
    for waiting in (100, 3 * LARGE_READ, 100, SMALL_READ + 1):
        stream.waiting = waiting
        while stream.waiting:
            made.read()
    last = LARGE_READ - SMALL_READ
    assert [len(data) for data in hearer.heard] == [100, SMALL_READ, LARGE_READ, LARGE_READ, last, 100, SMALL_READ, 1]


def test_a_socket_that_fails_in_a_send_is_lost_later_and_not_within_the_call(loop: ManualLoop) -> None:
    fake = FakeSocket(sendmsg=[OSError(errno.EPIPE, "broken pipe")])
    made, hearer = transport(loop, fake)
    assert made.send([b"data"]) == 0
    assert hearer.heard == []
    loop.run()
    assert hearer.heard == [("lost", "broken pipe")]
    assert fake.closed


def test_a_socket_that_fails_in_a_read_is_lost(loop: ManualLoop) -> None:
    made, hearer = transport(loop, FakeSocket(recv=[OSError(errno.ECONNRESET, "reset")]))
    made._ready(selectors.EVENT_READ)
    assert hearer.heard == [("lost", "reset")]


def test_where_writes_cannot_be_gathered_buffers_go_one_at_a_time(
    loop: ManualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "_GATHERS", False)
    made, _ = transport(loop, FakeSocket(send=[3]))
    assert made.send([b"one", b"two"]) == 3
    assert made.send([]) == 0


def test_each_address_of_a_name_is_tried_in_turn(loop: ManualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    _, hearer, made = dialling(
        loop, monkeypatch, 3, errno.ECONNREFUSED, OSError(errno.ENETUNREACH, "unreachable"), errno.EINPROGRESS
    )
    assert [fake.closed for fake in made] == [True, True, False]
    assert hearer.heard == []


def test_the_next_address_is_tried_as_well_if_one_has_not_answered_for_a_moment_and_the_first_answer_counts(
    loop: ManualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled, hearer, made = dialling(loop, monkeypatch, 4, *[errno.EINPROGRESS] * 4)
    loop.pass_time(tcp.NEXT_ADDRESS_AFTER - 0.01)
    assert len(made) == 1
    loop.pass_time(0.01)
    loop.pass_time(tcp.NEXT_ADDRESS_AFTER)
    assert [fake.closed for fake in made] == [False] * 3
    selector: Any = dialled._selector
    late = selector.registered[made[0]]
    selector.registered[made[1]](selectors.EVENT_WRITE)
    late(selectors.EVENT_WRITE)
    assert hearer.heard == ["opened"]
    assert [fake.closed for fake in made] == [True, False, True]
    assert list(selector.registered) == [made[1]]
    loop.pass_time(1.0)
    assert len(made) == 3, "the fourth address is not needed"


def test_one_that_fails_leaves_its_moment_to_the_next_address(
    loop: ManualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled, hearer, made = dialling(loop, monkeypatch, 3, *[errno.EINPROGRESS] * 3)
    loop.pass_time(0.2)
    made[0].problem = errno.ECONNREFUSED
    selector: Any = dialled._selector
    selector.registered[made[0]](selectors.EVENT_WRITE)
    loop.pass_time(0.1)
    assert [fake.closed for fake in made] == [True, False]
    loop.pass_time(0.2)
    made[2].problem = made[1].problem = errno.ECONNRESET
    for fake in made[1:]:
        assert hearer.heard == []
        selector.registered[fake](selectors.EVENT_WRITE)
    assert hearer.heard == [("lost", os.strerror(errno.ECONNRESET))]
    assert selector.registered == {}


def test_a_close_gives_up_all_addresses(loop: ManualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    dialled, hearer, made = dialling(loop, monkeypatch, 3, *[errno.EINPROGRESS] * 3)
    loop.pass_time(tcp.NEXT_ADDRESS_AFTER)
    dialled.close()
    loop.pass_time(1.0)
    assert [fake.closed for fake in made] == [True, True]
    assert hearer.heard == []


def test_when_no_address_is_left_the_last_problem_is_the_reason(
    loop: ManualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, hearer, _ = dialling(loop, monkeypatch, 2, errno.ECONNREFUSED, OSError(errno.ENETUNREACH, "unreachable"))
    assert hearer.heard == [("lost", "unreachable")]


def test_a_name_without_an_address_is_lost(loop: ManualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    _, hearer, _ = dialling(loop, monkeypatch, 0)
    assert hearer.heard == [("lost", "its name has no address")]


def test_a_name_that_nobody_knows_is_lost_with_what_the_system_says(loop: ManualLoop) -> None:
    made, hearer = TcpTransport(loop, NoSelector()), RecordingOwner()  # type: ignore[arg-type]
    made.dial("a name", 6650, hearer)
    (_, answered, _) = loop.blocking_calls.pop()
    answered(TimeoutError("it took longer than 30 s"))
    assert hearer.heard == [("lost", "it took longer than 30 s")]


def test_one_that_was_closed_before_its_name_was_known_dials_nobody(
    loop: ManualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, hearer = TcpTransport(loop, NoSelector()), RecordingOwner()  # type: ignore[arg-type]
    made.dial("127.0.0.1", 6650, hearer)
    made.close()
    loop.run()
    assert hearer.heard == []


def test_one_that_is_closed_leaves_its_name_to_a_thread_that_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def resolve(*_: Any) -> list[Any]:
        threads.append(threading.current_thread())
        begun.set()
        assert go_on.wait(SOON)
        return []

    monkeypatch.setattr(tcp, "_resolve", resolve)
    monkeypatch.setattr(tcp, "_numeric_address", lambda *_: None)
    loop, hearer = ThreadLoop("of this test"), RecordingOwner()
    loop.start()
    lost = threading.Event()
    hearer.lost = lambda _: lost.set()  # type: ignore[method-assign]
    loop.post(lambda _: loop.connect("a name", 6650, RecordingOwner()).close(), None)
    assert begun.wait(SOON)
    go_on.set()
    threads[0].join(SOON)
    assert not threads[0].is_alive()
    loop.post(lambda _: loop.connect("another name", 6650, hearer), None)
    assert lost.wait(SOON)
    threads[1].join(SOON)
    assert not threads[1].is_alive()
    loop.stop(SOON)


def test_what_happens_after_a_close_in_the_same_turn_is_not_heard(loop: ManualLoop) -> None:
    made, hearer = transport(loop, FakeSocket(recv=[b"late"]))
    made._owner = None
    made._ready(selectors.EVENT_READ | selectors.EVENT_WRITE)
    made._lose("late")
    assert hearer.heard == []


def test_a_listener_goes_on_when_a_connection_has_gone_again_or_it_was_closed(loop: ManualLoop) -> None:
    accepted: list[str] = []

    def accept(_: Any, host: str) -> RecordingOwner:
        accepted.append(host)
        return RecordingOwner()

    listener = TcpListener(loop, NoSelector(), ("127.0.0.1", 0), accept)  # type: ignore[arg-type]
    listener._ready(selectors.EVENT_READ)  # nobody is there
    listener.close()
    listener._ready(selectors.EVENT_READ)
    assert accepted == []
