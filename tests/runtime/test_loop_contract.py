"""What `runtime/loop.py` promises, held against both that keep it: threads with sockets, and the simulated world."""

import threading
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, TypeVar

import pytest

from pulsar_actors.runtime.loop import Buffer, Listener, Loop, Transport, TransportOwner
from pulsar_actors.runtime.thread_loop import ThreadLoop
from pulsar_actors.simulation.connection import NetworkConditions
from pulsar_actors.simulation.world import SimulatedLoop, World

T = TypeVar("T")

HOST = "127.0.0.1"
PATIENCE = 20.0


class ThreadStage:
    """Loops on threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._loops: list[ThreadLoop] = []

    def loop(self, name: str) -> ThreadLoop:
        loop = ThreadLoop(name)
        loop.start()
        self._loops.append(loop)
        return loop

    def changed(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait(self, condition: Callable[[], object]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), "it did not happen in time"

    def expect_failures(self) -> None:
        """A thread's loop logs them, and that is all."""

    def end(self) -> None:
        for loop in self._loops:
            loop.stop(PATIENCE)
            assert loop.now() > 0.0


class SimulatedStage:
    """Loops of a world."""

    def __init__(self, seed: int) -> None:
        self._world = World(seed, NetworkConditions(smallest_window=1024, largest_window=65536))
        self._world.__enter__()

    def loop(self, name: str) -> SimulatedLoop:
        return self._world.loop(name)

    def changed(self) -> None:
        """The world looks after every step."""

    def wait(self, condition: Callable[[], object]) -> None:
        self._world.run(until=lambda: bool(condition()), limit=PATIENCE)

    def expect_failures(self) -> None:
        assert self._world.failures
        self._world.failures.clear()

    def end(self) -> None:
        self._world.__exit__(None, None, None)


Stage = ThreadStage | SimulatedStage


@pytest.fixture(params=["threads", *(f"simulated, seed {seed}" for seed in range(5))])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    kind, _, seed = request.param.rpartition(" ")
    stage = SimulatedStage(int(seed)) if kind else ThreadStage()
    yield stage
    stage.end()


@pytest.fixture
def loop(stage: Stage) -> ThreadLoop | SimulatedLoop:
    return stage.loop("server")


@pytest.fixture
def other(stage: Stage) -> ThreadLoop | SimulatedLoop:
    return stage.loop("client")


def on(stage: Stage, loop: Loop, function: Callable[[], T]) -> T:
    """Do something on the loop, and give what comes of it."""
    results: list[tuple[T | None, BaseException | None]] = []

    def run(_: None) -> None:
        try:
            results.append((function(), None))
        except (OSError, TypeError, AssertionError) as error:
            results.append((None, error))
        stage.changed()

    loop.post(run, None)
    stage.wait(lambda: results)
    value, error = results[0]
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


class Peer:
    """An owner that writes down what it hears, sends what it is given, and is never entered twice."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.transport: Any = None
        self.heard: list[str] = []
        self.data = bytearray()
        self.to_send = memoryview(b"")
        self.inside = False
        self.on_opened: Callable[[], object] = lambda: None
        self.on_received: Callable[[], object] = lambda: None
        self.on_lost: Callable[[], object] = lambda: None
        self.partial_sends = 0

    def hear(self, what: str) -> None:
        assert not self.inside
        self.inside = True
        self.heard.append(what)

    def leave(self) -> None:
        self.inside = False
        self.stage.changed()

    def opened(self) -> None:
        self.hear("opened")
        self.on_opened()
        self.leave()

    def received(self, data: bytes) -> None:
        assert type(data) is bytes
        assert data
        self.hear("received")
        self.data += data
        self.on_received()
        self.leave()

    def writable(self) -> None:
        self.hear("writable")
        self.push()
        self.leave()

    def lost(self, reason: str) -> None:
        assert reason
        self.hear("lost")
        self.on_lost()
        self.leave()

    def push(self) -> None:
        """Send what there is, as far as it goes; the rest when there is room again."""
        while self.to_send:
            sent = self.transport.send([self.to_send])
            self.to_send = self.to_send[sent:]
            if not sent:
                self.partial_sends += 1
                self.transport.await_room()
                return

    def outline(self) -> list[str]:
        """What was heard, each kind once in a row."""
        return [what for what, _ in groupby(what for what in self.heard if what != "writable")]


class Service:
    """A listener whose connections are peers."""

    def __init__(self, stage: Stage, loop: Loop, prepare: Callable[[Peer], object] = lambda peer: None) -> None:
        self.stage = stage
        self.loop = loop
        self.prepare = prepare
        self.peers: list[Peer] = []
        self.addresses: list[str] = []
        self.listener: Listener = on(stage, loop, lambda: loop.listen(HOST, 0, self.accept))

    def accept(self, transport: Transport, address: str) -> TransportOwner:
        peer = Peer(self.stage)
        peer.transport = transport
        self.prepare(peer)
        self.peers.append(peer)
        self.addresses.append(address)
        self.stage.changed()
        return peer

    def dial(self, loop: Loop, peer: Peer | None = None) -> Peer:
        dialler = peer or Peer(self.stage)

        def connect() -> None:
            dialler.transport = loop.connect(HOST, self.listener.port, dialler)

        on(self.stage, loop, connect)
        return dialler


def connected(stage: Stage, loop: Loop, other: Loop) -> tuple[Peer, Peer]:
    """Two peers that have heard of each other: the server's on `loop`, the client's on `other`."""
    service = Service(stage, loop)
    client = service.dial(other)
    stage.wait(lambda: client.heard and service.peers)
    return service.peers[0], client


def pattern(size: int) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in range(size // 4))


def send(stage: Stage, loop: Loop, peer: Peer, data: bytes) -> None:
    def begin() -> None:
        peer.to_send = memoryview(data)
        peer.push()

    on(stage, loop, begin)


def close(stage: Stage, loop: Loop, peer: Peer) -> None:
    on(stage, loop, peer.transport.close)


# Tasks, timers, clocks


def test_what_is_posted_happens_on_the_loop_in_order(stage: Stage, loop: Loop, other: Loop) -> None:
    seen: list[tuple[int, bool, bool]] = []
    for number in range(100):
        loop.post(lambda number: seen.append((number, loop.is_here(), other.is_here())), number)
    on(stage, loop, lambda: None)
    assert seen == [(number, True, False) for number in range(100)]
    assert not loop.is_here()


def test_what_a_task_posts_happens_after_it(stage: Stage, loop: Loop) -> None:
    seen: list[str] = []

    def first(_: None) -> None:
        loop.post(seen.append, "second")
        loop.post(lambda _: stage.changed(), None)
        seen.append("first")

    loop.post(first, None)
    stage.wait(lambda: len(seen) == 2)
    assert seen == ["first", "second"]


@pytest.mark.parametrize("bug", [ValueError("planted"), SystemExit(3), RecursionError()], ids=repr)
@pytest.mark.parametrize("way", ["post", "later", "run_blocking"])
def test_what_raises_does_not_stop_the_loop(stage: Stage, loop: Loop, bug: BaseException, way: str) -> None:
    raised: list[object] = []

    def fail(_: Any) -> None:
        raised.append(_)
        loop.post(lambda _: stage.changed(), None)
        raise bug

    def begin() -> None:
        if way == "later":
            loop.later(0.001, fail, None)
        elif way == "run_blocking":
            loop.run_blocking(lambda: None, fail, timeout=PATIENCE)
        else:
            loop.post(fail, None)

    on(stage, loop, begin)
    stage.wait(lambda: raised)
    assert on(stage, loop, lambda: "it goes on") == "it goes on"
    stage.expect_failures()


def test_timers_are_due_in_order_and_never_early(stage: Stage, loop: Loop) -> None:
    due: list[tuple[float, float]] = []
    delays = [0.03, 0.01, 0.02, 0.0, -1.0]

    def ring(expected: tuple[float, float]) -> None:
        due.append((expected[1], loop.now() - expected[0]))
        stage.changed()

    def begin() -> None:
        for delay in delays:
            loop.later(delay, ring, (loop.now(), delay))

    on(stage, loop, begin)
    stage.wait(lambda: len(due) == len(delays))
    assert [delay for delay, _ in due] == sorted(delays) or [delay for delay, _ in due][2:] == sorted(delays)[2:]
    assert all(waited >= delay for delay, waited in due)


def test_timers_for_the_same_moment_keep_their_order(stage: Stage, loop: Loop) -> None:
    rung: list[int] = []

    def ring(number: int) -> None:
        rung.append(number)
        stage.changed()

    on(stage, loop, lambda: [loop.later(0.01, ring, number) for number in range(20)])
    stage.wait(lambda: len(rung) == 20)
    assert rung == list(range(20))


def test_clocks_do_not_go_back_and_chance_is_below_one(stage: Stage, loop: Loop) -> None:
    def read() -> tuple[float, int, float]:
        return loop.now(), loop.wall_clock_ms(), loop.chance()

    readings = [on(stage, loop, read) for _ in range(20)]
    times, calendar, chances = zip(*readings, strict=True)
    assert list(times) == sorted(times)
    assert list(calendar) == sorted(calendar)
    assert all(reading > 1_600_000_000_000 for reading in calendar)
    assert all(0.0 <= chance < 1.0 for chance in chances)
    assert len(set(chances)) == 20


# Off the loop


def run_blocking(stage: Stage, loop: Loop, work: Callable[[], object], timeout: float = PATIENCE) -> object:
    answers: list[tuple[object, bool]] = []

    def done(answer: object) -> None:
        answers.append((answer, loop.is_here()))
        stage.changed()

    on(stage, loop, lambda: loop.run_blocking(work, done, timeout=timeout))
    stage.wait(lambda: answers)
    on(stage, loop, lambda: None)
    ((answer, here),) = answers
    assert here
    return answer


def test_work_is_done_off_the_loop_and_its_result_comes_back_on_it(stage: Stage, loop: Loop) -> None:
    assert run_blocking(stage, loop, lambda: ("done", loop.is_here())) == ("done", False)


def test_an_error_of_the_work_comes_back_like_a_result(stage: Stage, loop: Loop) -> None:
    def work() -> None:
        raise KeyError("planted")

    assert isinstance(run_blocking(stage, loop, work), KeyError)


def test_work_that_is_late_is_answered_with_a_timeout_once(stage: Stage, loop: Loop) -> None:
    release = threading.Event()

    def work() -> None:
        if isinstance(stage, ThreadStage):
            assert release.wait(PATIENCE)

    assert isinstance(run_blocking(stage, loop, work, timeout=0.0), TimeoutError)
    release.set()
    assert run_blocking(stage, loop, lambda: "the next work is done") == "the next work is done"


def test_an_executor_that_is_held_up_holds_up_no_other(stage: Stage, loop: Loop) -> None:
    release = threading.Event()
    answers: list[str] = []

    def held() -> str:
        if isinstance(stage, ThreadStage):
            assert release.wait(PATIENCE)
        return "held"

    def done(answer: object) -> None:
        answers.append(str(answer))
        stage.changed()

    on(stage, loop, lambda: loop.run_blocking(held, done, timeout=PATIENCE, executor="slow"))
    assert run_blocking(stage, loop, lambda: "quick") == "quick"
    release.set()
    stage.wait(lambda: answers)
    assert answers == ["held"]


def test_an_executor_that_is_given_up_answers_nothing_and_later_work_does_not_wait_for_it(
    stage: Stage, loop: Loop
) -> None:
    release = threading.Event()
    seen: list[str] = []

    def held() -> None:
        if isinstance(stage, ThreadStage):
            assert release.wait(PATIENCE)

    def done(answer: object) -> None:
        seen.append(f"answered {answer}")
        stage.changed()

    def begin() -> None:
        for work in (held, lambda: seen.append("begun")):
            loop.run_blocking(work, done, timeout=PATIENCE, executor="slow")
        loop.give_up_executor("slow")
        loop.give_up_executor("one that is not there")
        loop.run_blocking(lambda: "later", done, timeout=PATIENCE, executor="slow")

    on(stage, loop, begin)
    stage.wait(lambda: seen)
    release.set()
    assert run_blocking(stage, loop, lambda: "something else") == "something else"
    assert seen == ["answered later"]


# Connections


def test_a_connection_opens_and_the_listener_hears_who_it_is(stage: Stage, loop: Loop, other: Loop) -> None:
    service = Service(stage, loop)
    client = service.dial(other)
    stage.wait(lambda: client.heard and service.peers)
    assert client.heard == ["opened"]
    assert service.peers[0].heard == []
    assert all(type(address) is str and address for address in service.addresses)


def test_where_nobody_listens_the_owner_hears_that_it_is_lost_and_nothing_else(stage: Stage, other: Loop) -> None:
    client = Peer(stage)

    def connect() -> list[str]:
        client.transport = other.connect(HOST, 1, client)
        return list(client.heard)

    assert on(stage, other, connect) == []
    stage.wait(lambda: client.heard)
    on(stage, other, lambda: None)
    assert client.heard == ["lost"]


@pytest.mark.parametrize("size", [4, 100_000, 3_000_000])
def test_bytes_arrive_whole_and_in_order_in_both_directions(stage: Stage, loop: Loop, other: Loop, size: int) -> None:
    server, client = connected(stage, loop, other)
    data = pattern(size)
    send(stage, other, client, data)
    send(stage, loop, server, data[::-1])
    stage.wait(lambda: len(server.data) >= len(data) and len(client.data) >= len(data))
    assert server.data == data
    assert client.data == data[::-1]
    assert client.outline() == ["opened", "received"]


def test_a_peer_that_does_not_read_leaves_no_room_and_room_is_told_once(stage: Stage, loop: Loop, other: Loop) -> None:
    data = pattern(40_000_000 if isinstance(stage, ThreadStage) else 400_000)
    server, client = connected(stage, loop, other)

    def fill() -> int:  # the server's loop may not run meanwhile, or it does and reads: then there is room again
        client.to_send = memoryview(data)
        client.push()
        return len(client.to_send)

    assert on(stage, other, fill) > 0
    stage.wait(lambda: len(server.data) == len(data))
    assert server.data == data
    assert client.heard.count("writable") == client.partial_sends > 0


def test_any_buffers_are_sent_and_none_is_no_error(stage: Stage, loop: Loop, other: Loop) -> None:
    server, client = connected(stage, loop, other)
    transport = client.transport
    assert on(stage, other, lambda: transport.send([])) == 0
    buffers: list[Buffer] = [b"one", bytearray(b"two"), memoryview(b"three"), b"", memoryview(b"-four-")[1:5]]
    assert on(stage, other, lambda: transport.send(buffers)) == 15
    stage.wait(lambda: len(server.data) == 15)
    assert server.data == b"onetwothreefour"


def test_room_is_told_once_for_each_time_it_is_awaited(stage: Stage, loop: Loop, other: Loop) -> None:
    _, client = connected(stage, loop, other)
    for times in (1, 2, 3):
        on(stage, other, client.transport.await_room)
        stage.wait(lambda times=times: client.heard.count("writable") >= times)
        on(stage, other, lambda: None)
        assert client.heard.count("writable") == times


def test_before_it_is_open_nothing_is_taken_and_room_can_be_awaited(stage: Stage, loop: Loop, other: Loop) -> None:
    service = Service(stage, loop)
    client = Peer(stage)
    client.to_send = memoryview(b"as soon as it is open")

    def connect() -> int:
        client.transport = other.connect(HOST, service.listener.port, client)
        client.push()
        return len(client.to_send)

    assert on(stage, other, connect) == 21
    stage.wait(lambda: service.peers and len(service.peers[0].data) == 21)
    assert client.heard == ["opened", "writable"]


def test_an_accepted_connection_can_be_used_while_it_is_accepted(stage: Stage, loop: Loop, other: Loop) -> None:
    service = Service(stage, loop, prepare=lambda peer: peer.transport.send([b"welcome"]))
    client = service.dial(other)
    stage.wait(lambda: len(client.data) == 7)
    assert client.outline() == ["opened", "received"]
    assert client.data == b"welcome"


# Ends


def test_what_was_sent_before_a_close_arrives_before_the_peer_hears_of_it(
    stage: Stage, loop: Loop, other: Loop
) -> None:
    server, client = connected(stage, loop, other)
    send(stage, other, client, pattern(1000))
    close(stage, other, client)
    stage.wait(lambda: "lost" in server.heard)
    assert server.data == pattern(1000)
    assert server.outline() == ["received", "lost"]


def test_after_its_own_close_an_owner_hears_nothing_and_a_second_close_does_nothing(
    stage: Stage, loop: Loop, other: Loop
) -> None:
    server, client = connected(stage, loop, other)
    send(stage, loop, server, b"on its way")
    close(stage, other, client)
    heard = list(client.heard)
    close(stage, other, client)
    stage.wait(lambda: "lost" in server.heard)
    on(stage, other, lambda: None)
    assert client.heard == heard
    assert on(stage, other, lambda: client.transport.send([b"too late"])) == 0
    on(stage, other, client.transport.await_room)
    on(stage, other, lambda: None)
    assert client.heard == heard


def test_after_it_is_lost_nothing_is_taken_and_nothing_more_is_heard(stage: Stage, loop: Loop, other: Loop) -> None:
    server, client = connected(stage, loop, other)
    close(stage, loop, server)
    stage.wait(lambda: "lost" in client.heard)
    assert on(stage, other, lambda: client.transport.send([b"too late"])) == 0
    on(stage, other, client.transport.await_room)
    close(stage, other, client)
    on(stage, other, lambda: None)
    assert client.heard == ["opened", "lost"]


@pytest.mark.parametrize("moment", ["on_opened", "on_received", "on_lost"])
def test_an_owner_may_close_whatever_it_is_hearing(stage: Stage, loop: Loop, other: Loop, moment: str) -> None:
    def greet_and_leave(peer: Peer) -> None:
        peer.transport.send([b"hello"])
        if moment == "on_lost":
            peer.on_received = peer.transport.close

    service = Service(stage, loop, greet_and_leave)
    client = Peer(stage)
    client.on_opened = lambda: client.transport.send([b"hello"])
    setattr(client, moment, lambda: client.transport.close())  # noqa: PLW0108 - it is not there yet
    service.dial(other, client)
    last = moment.removeprefix("on_")
    stage.wait(
        lambda: last in client.heard and (moment == "on_lost" or any("lost" in peer.heard for peer in service.peers))
    )
    on(stage, other, lambda: None)
    assert client.heard[-1] == last


def test_an_accept_may_close_what_it_is_given(stage: Stage, loop: Loop, other: Loop) -> None:
    service = Service(stage, loop, prepare=lambda peer: peer.transport.close())
    client = service.dial(other)
    stage.wait(lambda: "lost" in client.heard and service.peers)  # it is closed before it is on that list
    assert client.heard == ["opened", "lost"]
    assert service.peers[0].heard == []


def test_a_connect_can_be_taken_back(stage: Stage, loop: Loop, other: Loop) -> None:
    service = Service(stage, loop)
    client = Peer(stage)
    on(stage, other, lambda: other.connect(HOST, service.listener.port, client).close())
    second = service.dial(other)
    stage.wait(lambda: second.heard)
    assert client.heard == []


def test_a_send_to_a_peer_that_has_gone_raises_nothing(stage: Stage, loop: Loop, other: Loop) -> None:
    server, client = connected(stage, loop, other)
    close(stage, loop, server)
    transport = client.transport

    def ask(_: None) -> None:
        transport.send([b"is anybody there?"])
        if "lost" not in client.heard:
            other.later(0.001, ask, None)

    other.post(ask, None)
    stage.wait(lambda: "lost" in client.heard)
    assert client.heard == ["opened", "lost"]


# Listeners


def test_a_port_that_is_taken_cannot_be_had_again_until_it_is_closed(stage: Stage, loop: Loop) -> None:
    service = Service(stage, loop)
    port = service.listener.port
    assert port > 0
    with pytest.raises(OSError, match=r"."):
        on(stage, loop, lambda: loop.listen(HOST, port, service.accept))
    on(stage, loop, service.listener.close)
    assert on(stage, loop, lambda: loop.listen(HOST, port, service.accept)).port == port


def test_a_closed_listener_refuses_and_what_it_has_accepted_stays(stage: Stage, loop: Loop, other: Loop) -> None:
    service = Service(stage, loop)
    client = service.dial(other)
    stage.wait(lambda: client.heard and service.peers)
    on(stage, loop, service.listener.close)
    on(stage, loop, service.listener.close)
    late = service.dial(other)
    stage.wait(lambda: late.heard)
    assert late.heard == ["lost"]
    send(stage, other, client, b"still there")
    stage.wait(lambda: service.peers[0].data == b"still there")


def test_an_accept_that_raises_costs_only_that_connection(stage: Stage, loop: Loop, other: Loop) -> None:
    def fail_once(_: Peer) -> None:
        service.prepare = lambda _: None
        raise ValueError("planted")

    service = Service(stage, loop, prepare=fail_once)
    client = service.dial(other)
    stage.wait(lambda: "lost" in client.heard)
    stage.expect_failures()
    second = service.dial(other)
    send_when_open(second)
    stage.wait(lambda: service.peers and service.peers[-1].data == b"second")


def send_when_open(peer: Peer) -> None:
    if peer.heard:
        peer.to_send = memoryview(b"second")
        peer.push()
    else:
        peer.on_opened = lambda: peer.transport.send([b"second"])


# The end of a loop


def test_a_loop_that_stops_does_what_was_posted_before_and_nothing_afterwards(stage: Stage, loop: Any) -> None:
    seen: list[str] = []

    for _ in range(10):
        loop.post(seen.append, "before")
    loop.stop()
    loop.post(seen.append, "after")
    witness = stage.loop("witness")
    rung: list[bool] = []

    def ring(_: None) -> None:
        rung.append(True)
        stage.changed()

    on(stage, witness, lambda: witness.later(0.05, ring, None))
    stage.wait(lambda: rung)
    assert seen == ["before"] * 10


def test_the_peers_of_a_loop_that_stops_hear_that_they_are_lost(stage: Stage, loop: Any, other: Loop) -> None:
    service = Service(stage, loop)
    client = service.dial(other)
    stage.wait(lambda: client.heard and service.peers)
    loop.stop()
    stage.wait(lambda: "lost" in client.heard)
    late = service.dial(other)
    stage.wait(lambda: late.heard)
    assert late.heard == ["lost"]
    assert service.peers[0].heard == []
