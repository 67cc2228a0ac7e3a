import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.runtime.thread_engine import ThreadEngine
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support.life import SOON, FakeBroker, InThread, closed_port, full_backlog, until
from tests.support.relay import Relay

pytestmark = pytest.mark.usefixtures("clean")

OPERATION = 3.0
"""The operation timeout of the clients here, so that it does not take long to see it pass."""

GOODBYE = 1.0
"""Seconds beyond it in which the last bytes may leave."""

SLACK = 0.7
"""Seconds for what a close computes."""

HANDLES = ("producer", "consumer", "reader")

TICK = 0.01


class RunningTime:
    """A clock that counts the time in which this process ran. Other processes may have kept it waiting in between."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._stopped = threading.Event()
        threading.Thread(target=self._count, name="clock of a test", daemon=True).start()

    def _count(self) -> None:
        last = time.monotonic()
        while not self._stopped.wait(TICK):
            now = time.monotonic()
            self.seconds += min(now - last, 2 * TICK)
            last = now

    def stop(self) -> float:
        """Stop the clock, and return its seconds."""
        self._stopped.set()
        return self.seconds


class Timed(InThread):
    """A call in a thread of its own, and its running time."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._clock = RunningTime()
        self.seconds = 0.0
        super().__init__(call)

    def result(self, within: float = SOON) -> Any:
        given = super().result(within)
        self.seconds = self._clock.stop()
        return given


class Scene:
    """A client in some state, with what was made with it, and the calls that wait in threads of their own."""

    def __init__(self, service_url: str, **options: Any) -> None:
        self.client = pulsar.Client(
            service_url, operation_timeout_seconds=OPERATION, connection_timeout_ms=int(1000 * OPERATION), **options
        )
        self.things: dict[str, Any] = {"client": self.client}
        self.waiting: list[InThread] = []

    def furnish(self, **options: Any) -> None:
        """Make one thing of each kind."""
        self.things["producer"] = self.client.create_producer("t", **options)
        self.things["consumer"] = self.client.subscribe("t", "s")
        self.things["reader"] = self.client.create_reader("t", pulsar.MessageId.latest)

    def meanwhile(self, call: Callable[[], Any]) -> None:
        """Have a call wait."""
        waiting = InThread(call)
        self.waiting.append(waiting)
        until(waiting.waits, "the call's waiting")


@contextlib.contextmanager
def idle() -> Iterator[Scene]:
    with EmbeddedBroker() as broker:
        scene = Scene(broker.service_url)
        scene.furnish()
        yield scene


@contextlib.contextmanager
def behind_relay(**options: Any) -> Iterator[tuple[Scene, Relay]]:
    with EmbeddedBroker() as broker, Relay(broker.service_url) as relay:
        broker.call(lambda inside: setattr(inside.nodes[0], "service_url", relay.service_url))
        scene = Scene(relay.service_url)
        scene.furnish(**options)
        yield scene, relay


@contextlib.contextmanager
def dead() -> Iterator[Scene]:
    with behind_relay() as (scene, relay):
        relay.refuse()
        relay.cut()
        until(lambda: not scene.things["producer"].is_connected())
        yield scene


@contextlib.contextmanager
def stalled() -> Iterator[Scene]:
    with behind_relay() as (scene, relay):
        relay.stall()
        yield scene


@contextlib.contextmanager
def stalled_with_much_to_write() -> Iterator[Scene]:
    with behind_relay(max_pending_messages=0) as (scene, relay):
        relay.stall()
        for _ in range(40):
            scene.things["producer"].send_async(bytes(1_000_000), lambda *_: None)
        yield scene


@contextlib.contextmanager
def deaf_to(*commands: Any) -> Iterator[Scene]:
    with EmbeddedBroker() as broker:
        scene = Scene(broker.service_url)
        scene.furnish()
        for command in commands:
            broker.faults.on(command, times=None).drop()
        yield scene


def deaf_to_closes() -> contextlib.AbstractContextManager[Scene]:
    return deaf_to(pb.CommandCloseProducer, pb.CommandCloseConsumer)


@contextlib.contextmanager
def sends_pending() -> Iterator[Scene]:
    with deaf_to(pb.CommandSend) as scene:
        futures = [scene.things["producer"].send_async(b"x") for _ in range(10)]
        yield scene
        for future in futures:
            assert future.exception(SOON) is not None


@contextlib.contextmanager
def deaf_to_everything() -> Iterator[Scene]:
    with deaf_to(pb.CommandSend, pb.CommandCloseProducer, pb.CommandCloseConsumer) as scene:
        scene.meanwhile(lambda: scene.things["producer"].send(b"x"))
        flushing = InThread(scene.things["producer"].flush)
        until(flushing.waits)
        yield scene
        assert isinstance(flushing.error(), (type(None), pulsar.AlreadyClosed))  # either way, nothing is pending


@contextlib.contextmanager
def blocked_callers() -> Iterator[Scene]:
    with EmbeddedBroker() as broker:
        scene = Scene(broker.service_url)
        scene.furnish(max_pending_messages=1, block_if_queue_full=True)
        broker.faults.on(pb.CommandSend, times=None).drop()
        scene.meanwhile(lambda: scene.things["producer"].send(b"pending"))
        for _ in range(3):
            scene.meanwhile(lambda: scene.things["producer"].send(b"no room"))
            scene.meanwhile(scene.things["consumer"].receive)
            scene.meanwhile(scene.things["reader"].read_next)
        yield scene


@contextlib.contextmanager
def creating(command: Any) -> Iterator[Scene]:
    with EmbeddedBroker() as broker:
        scene = Scene(broker.service_url)
        fault = broker.faults.on(command, times=None).drop()
        scene.meanwhile(lambda: scene.client.create_producer("t"))
        fault.wait(1, SOON)
        yield scene


@contextlib.contextmanager
def nobody_there() -> Iterator[Scene]:
    with closed_port() as service_url:
        scene = Scene(service_url)
        scene.meanwhile(lambda: scene.client.subscribe("t", "s"))
        yield scene


@contextlib.contextmanager
def no_answer_to_syn() -> Iterator[Scene]:
    with full_backlog() as service_url:
        scene = Scene(service_url)
        scene.meanwhile(lambda: scene.client.create_producer("t"))
        yield scene


@contextlib.contextmanager
def silent() -> Iterator[Scene]:
    with FakeBroker() as broker:
        scene = Scene(broker.service_url)
        scene.meanwhile(lambda: scene.client.create_producer("t"))
        until(lambda: broker.accepted)
        yield scene


@contextlib.contextmanager
def silent_in_tls_handshake() -> Iterator[Scene]:
    with FakeBroker() as broker:
        scene = Scene(broker.service_url.replace("pulsar:", "pulsar+ssl:"), tls_allow_insecure_connection=True)
        scene.meanwhile(lambda: scene.client.create_producer("t"))
        until(lambda: broker.accepted)
        assert broker.accepted[0].recv(1) == b"\x16"
        yield scene


@contextlib.contextmanager
def unresolvable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    asked, answer = threading.Event(), threading.Event()
    resolve = socket.getaddrinfo

    def hang(host: Any, *rest: Any, **more: Any) -> Any:
        if host == b"slow.example" and not more.get("flags"):
            asked.set()
            answer.wait(SOON)
        return resolve(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    scene = Scene("pulsar://slow.example:6650")
    scene.meanwhile(lambda: scene.client.create_producer("t"))
    assert asked.wait(SOON)
    yield scene
    answer.set()


BOUND: dict[str, Callable[[], Any]] = {
    "idle": idle,
    "broker gone, reconnecting": dead,
    "broker reads nothing any more": stalled,
    "the same, with much to write": stalled_with_much_to_write,
    "broker answers no close": deaf_to_closes,
    "sends pending": sends_pending,
    "broker answers nothing, callers wait": deaf_to_everything,
    "blocked senders and receivers": blocked_callers,
}
UNBOUND: dict[str, Callable[[], Any]] = {
    "asking for partitions": lambda: creating(pb.CommandPartitionedTopicMetadata),
    "looking up": lambda: creating(pb.CommandLookupTopic),
    "creating a producer": lambda: creating(pb.CommandProducer),
    "nobody there": nobody_there,
    "no answer to SYN": no_answer_to_syn,
    "broker accepts and says nothing": silent,
    "the same, in the TLS handshake": silent_in_tls_handshake,
}


def seconds_of(call: Callable[[], Any]) -> float:
    closing = Timed(call)
    closing.result(OPERATION + 5)
    return closing.seconds


@pytest.mark.parametrize("where", [*BOUND, *UNBOUND])
def test_closing_a_client_takes_no_longer_than_its_operation_timeout(where: str) -> None:
    with {**BOUND, **UNBOUND}[where]() as scene:
        assert seconds_of(scene.client.close) < OPERATION + GOODBYE + SLACK
        for waiting in scene.waiting:
            assert isinstance(waiting.error(), pulsar.PulsarException)


@pytest.mark.parametrize("where", [*BOUND, *UNBOUND])
def test_shutting_a_client_down_waits_for_no_broker(where: str) -> None:
    with {**BOUND, **UNBOUND}[where]() as scene:
        assert seconds_of(scene.client.shutdown) < GOODBYE + SLACK
        for waiting in scene.waiting:
            assert isinstance(waiting.error(), pulsar.PulsarException)


@pytest.mark.parametrize("where", BOUND)
def test_closing_a_handle_takes_no_longer_than_the_operation_timeout(where: str) -> None:
    with BOUND[where]() as scene:
        for each in [Timed(scene.things[what].close) for what in HANDLES]:
            each.result(OPERATION + 5)
            assert each.seconds < OPERATION + SLACK
        scene.client.shutdown()


def test_closing_waits_for_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with unresolvable(monkeypatch) as scene:
        assert seconds_of(scene.client.close) < SLACK
        assert isinstance(scene.waiting[0].error(), pulsar.PulsarException)


def test_shutting_down_hurries_a_close_that_waits() -> None:
    with deaf_to_closes() as scene:
        closing = InThread(scene.client.close)
        until(closing.waits)
        assert seconds_of(scene.client.shutdown) < SLACK
        closing.result()


@pytest.mark.parametrize("what", ["client", "producer", "consumer", "reader"])
def test_closing_twice_and_after_the_client_does_nothing(what: str) -> None:
    with idle() as scene:
        thing = scene.things[what]
        thing.close()
        thing.close()
        scene.client.close()
        assert seconds_of(thing.close) < SLACK
        scene.client.shutdown()


def test_the_threads_of_loops_and_listeners_stop_when_everything_else_has_ended() -> None:
    left: list[tuple[bool, bool, int]] = []

    class Watched(ThreadEngine):
        def stop(self, timeout: float) -> None:
            left.append((producer.is_open, consumer.is_connected(), client._context.counters.connections))
            super().stop(timeout)

    with EmbeddedBroker() as broker:
        client = pulsar.Client.on(Watched(1, 1), ClientOptions(broker.service_url))
        consumer = client.subscribe("t", "s", message_listener=lambda *_: None)
        producer = client.create_producer("t")
        client.close()
    assert left == [(False, False, 0)]


@pytest.mark.parametrize("group", [(*HANDLES, *HANDLES), ("client", "client"), (*HANDLES, "client")], ids=" ".join)
def test_threads_that_close_at_once_all_return(group: tuple[str, ...]) -> None:
    with deaf_to_closes() as scene:
        for each in [Timed(scene.things[what].close) for what in group]:
            each.result()
            assert each.seconds < OPERATION + GOODBYE + SLACK
        scene.client.close()


@pytest.mark.parametrize("what", ["client", "producer", "consumer", "reader"])
@pytest.mark.parametrize("how", ["callback", "done-callback"])
def test_a_close_in_a_callback_begins_and_returns(what: str, how: str) -> None:
    with idle() as scene:
        closed = threading.Event()

        def close(*_: object) -> None:
            for _ in range(2):
                scene.things[what].close()
            closed.set()

        if how == "callback":
            scene.things["producer"].send_async(b"x", close)
        else:
            scene.things["producer"].send_async(b"x").add_done_callback(close)
        assert closed.wait(SOON)
        assert seconds_of(scene.things[what].close) < SLACK
        scene.client.close()


@pytest.mark.parametrize("what", ["client", "consumer"])
def test_a_close_in_a_listener_ends_what_it_is_to_end(what: str) -> None:
    with EmbeddedBroker() as broker:
        client = pulsar.Client(broker.service_url)
        heard: list[bytes] = []
        closed = threading.Event()

        def listener(consumer: Any, message: Any) -> None:
            heard.append(message.data())
            (client if what == "client" else consumer).close()
            closed.set()

        consumer = client.subscribe("t", "s", message_listener=listener)
        producer = client.create_producer("t")
        with contextlib.suppress(pulsar.PulsarException):
            producer.send(b"x")
        assert closed.wait(SOON)
        assert not consumer.is_connected()
        client.close()
        assert heard == [b"x"]


def test_a_listener_may_close_the_client_while_another_is_at_work() -> None:
    with EmbeddedBroker() as broker:
        client = pulsar.Client(broker.service_url, message_listener_threads=2)
        at_work, go_on, closed = threading.Event(), threading.Event(), threading.Event()

        def busy(*_: object) -> None:
            at_work.set()
            go_on.wait(SOON)

        def closer(*_: object) -> None:
            at_work.wait(SOON)
            client.close()
            closed.set()

        consumers = [client.subscribe("t", name, message_listener=call) for name, call in (("a", busy), ("b", closer))]
        client.create_producer("t").send(b"x")
        assert closed.wait(SOON)
        go_on.set()
        del consumers


def test_a_callback_that_never_returns_does_not_keep_close_from_returning() -> None:
    with EmbeddedBroker() as broker:
        client = pulsar.Client(broker.service_url, operation_timeout_seconds=OPERATION)
        producer = client.create_producer("t")
        stuck, go_on = threading.Event(), threading.Event()

        def callback(*_: object) -> None:
            stuck.set()
            go_on.wait(3 * SOON)  # longer than anybody here waits for anything

        other = client.create_producer("other")
        fault = broker.faults.on(pb.CommandSend).drop()
        pending = other.send_async(b"written")
        assert pending is not None
        fault.wait(1, SOON)
        producer.send_async(b"x", callback)
        assert stuck.wait(SOON)
        calls: list[Callable[[], Any]] = [
            lambda: producer.send(b"y"),
            producer.flush,
            lambda: client.create_producer("u-partition-0"),  # of which nobody asks how many partitions it has
            lambda: client.get_topic_partitions("u"),
            producer.close,
        ]
        waiting = [InThread(call) for call in calls]
        for each in waiting:
            until(each.waits)
        assert seconds_of(client.close) < OPERATION + 2 + 1 + SLACK
        assert [type(each.error()) for each in waiting] == [*[pulsar.AlreadyClosed] * 4, type(None)]
        assert isinstance(pending.exception(SOON), pulsar.OutcomeUnknown)
        go_on.set()


CREATIONS: dict[str, Callable[[Any], Any]] = {
    "create_producer": lambda client: client.create_producer("t"),
    "subscribe": lambda client: client.subscribe("t", "s", pulsar.ConsumerType.Shared),
    "create_reader": lambda client: client.create_reader("t", pulsar.MessageId.latest),
    "get_topic_partitions": lambda client: client.get_topic_partitions("t"),
}


@pytest.mark.parametrize("how", ["close", "shutdown"])
@pytest.mark.parametrize("what", CREATIONS)
def test_a_client_that_closes_while_others_create_leaves_nobody_waiting(what: str, how: str) -> None:
    with EmbeddedBroker() as broker:
        for _ in range(15):
            client = pulsar.Client(broker.service_url, operation_timeout_seconds=5, io_threads=2)
            begun = threading.Event()

            def create(client: Any = client, begun: threading.Event = begun) -> None:
                while True:
                    CREATIONS[what](client)
                    begun.set()

            creating = [InThread(create) for _ in range(3)]
            assert begun.wait(SOON)
            getattr(client, how)()
            for each in creating:
                assert isinstance(each.error(), pulsar.AlreadyClosed)


@pytest.mark.parametrize("how", ["close", "shutdown"])
def test_no_send_is_forgotten_when_the_client_closes_beneath_it(how: str) -> None:
    with EmbeddedBroker() as broker:
        for _ in range(15):
            client = pulsar.Client(broker.service_url, operation_timeout_seconds=5)
            producer = client.create_producer("t", batching_enabled=True, max_pending_messages=0)
            futures: list[Any] = []
            begun = threading.Event()

            def send(producer: Any = producer, futures: Any = futures, begun: threading.Event = begun) -> None:
                while True:
                    futures.append(producer.send_async(b"x"))
                    begun.set()
                    if futures[-1].done() and isinstance(futures[-1].exception(), pulsar.AlreadyClosed):
                        return

            sending = InThread(send)
            assert begun.wait(SOON)
            getattr(client, how)()
            sending.result()
            for future in futures:
                assert isinstance(future.exception(SOON), (type(None), pulsar.AlreadyClosed, pulsar.OutcomeUnknown))


def test_a_shutdown_says_of_what_was_sent_already_that_it_may_have_been_done() -> None:
    with EmbeddedBroker() as broker:
        client = pulsar.Client(broker.service_url)
        producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
        losses = [broker.faults.on(kind).drop() for kind in (pb.CommandSendReceipt, pb.CommandSeek)]
        sent = producer.send_async(b"x")
        seeking = InThread(lambda: consumer.seek(0))
        for loss in losses:
            loss.wait()
        client.shutdown()
        assert isinstance(sent.exception(SOON), pulsar.OutcomeUnknown)
        assert isinstance(seeking.error(), pulsar.OutcomeUnknown)


@pytest.mark.parametrize("closed", ["the handles, without an answer", "the client"])
def test_everything_of_what_is_closed_says_so_at_once(closed: str) -> None:
    with (idle if closed == "the client" else deaf_to_closes)() as scene:
        producer, consumer, reader = (scene.things[what] for what in HANDLES)
        waiting = InThread(consumer.receive)
        until(waiting.waits)
        for what in ("client",) if closed == "the client" else HANDLES:
            scene.things[what].close()
        told: list[pulsar.Result] = []
        producer.send_async(b"x", lambda result, _: told.append(result))
        assert told == [pulsar.Result.AlreadyClosed]
        calls: list[Callable[[], Any]] = [
            waiting.result,
            lambda: producer.send(b"x"),
            lambda: producer.send_async(b"x").result(0),
            producer.flush,
            consumer.receive,
            lambda: consumer.receive(0),
            lambda: consumer.receive_async().result(SOON),
            consumer.batch_receive,
            lambda: consumer.acknowledge(pulsar.MessageId.earliest),
            lambda: consumer.negative_acknowledge(pulsar.MessageId.earliest),
            lambda: consumer.seek(0),
            consumer.unsubscribe,
            consumer.get_last_message_id,
            consumer.redeliver_unacknowledged_messages,
            reader.read_next,
            lambda: reader.read_next_async().result(SOON),
            reader.has_message_available,
            lambda: reader.seek(0),
        ]
        assert [type(InThread(call).error()) for call in calls] == len(calls) * [pulsar.AlreadyClosed]
        assert list(consumer) == []
        scene.client.close()
        for create in CREATIONS.values():
            with pytest.raises(pulsar.AlreadyClosed, match="client is closed"):
                create(scene.client)
