import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.runtime.thread_engine import ThreadEngine
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
    CommandProducer,
    CommandSeek,
    CommandSend,
    CommandSendReceipt,
)
from tests.support.life import SOON, FakeBroker, InThread, Relay, closed_port, full_backlog, until

pytestmark = pytest.mark.usefixtures("clean")

OPERATION = 1.0
"""The operation timeout of the clients here, so that it does not take long to see it pass."""

GOODBYE = 1.0
"""Seconds beyond it in which the last bytes may leave."""

SLACK = 0.7
"""Seconds for a machine that has other things to do."""

HANDLES = ("producer", "consumer", "reader")
TOOK: dict[tuple[str, str], float] = {}


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
        service_url = broker.service_url
        broker.call(lambda inside: setattr(inside.nodes[0], "service_url", relay.service_url))
        del service_url
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


@contextlib.contextmanager
def deaf_to_closes() -> Iterator[Scene]:
    with deaf_to(CommandCloseProducer, CommandCloseConsumer) as scene:
        yield scene


@contextlib.contextmanager
def sends_pending() -> Iterator[Scene]:
    with deaf_to(CommandSend) as scene:
        futures = [scene.things["producer"].send_async(b"x") for _ in range(10)]
        yield scene
        for future in futures:
            assert future.exception(SOON) is not None


@contextlib.contextmanager
def deaf_to_everything() -> Iterator[Scene]:
    with deaf_to(CommandSend, CommandCloseProducer, CommandCloseConsumer) as scene:
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
        broker.faults.on(CommandSend, times=None).drop()
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
def looking_up_partitions() -> Iterator[Scene]:
    with creating(CommandPartitionedTopicMetadata) as scene:
        yield scene


@contextlib.contextmanager
def looking_up() -> Iterator[Scene]:
    with creating(CommandLookupTopic) as scene:
        yield scene


@contextlib.contextmanager
def creating_producer() -> Iterator[Scene]:
    with creating(CommandProducer) as scene:
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
    "asking for partitions": looking_up_partitions,
    "looking up": looking_up,
    "creating a producer": creating_producer,
    "nobody there": nobody_there,
    "no answer to SYN": no_answer_to_syn,
    "broker accepts and says nothing": silent,
    "the same, in the TLS handshake": silent_in_tls_handshake,
}


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    yield
    print()  # noqa: T201 - with -s: the numbers
    for (what, where), seconds in sorted(TOOK.items(), key=lambda entry: -entry[1]):
        print(f"{seconds:7.3f} s  {what:18} {where}")  # noqa: T201 - the same


def timed(what: str, where: str, call: Callable[[], Any]) -> float:
    closing = InThread(call)
    closing.result(OPERATION + 5)
    TOOK[what, where] = closing.seconds
    return closing.seconds


@pytest.mark.parametrize("where", [*BOUND, *UNBOUND])
def test_closing_a_client_takes_no_longer_than_its_operation_timeout(where: str) -> None:
    with {**BOUND, **UNBOUND}[where]() as scene:
        assert timed("client.close()", where, scene.client.close) < OPERATION + GOODBYE + SLACK
        for waiting in scene.waiting:
            assert isinstance(waiting.error(), pulsar.PulsarException)


@pytest.mark.parametrize("where", [*BOUND, *UNBOUND])
def test_shutting_a_client_down_waits_for_no_broker(where: str) -> None:
    with {**BOUND, **UNBOUND}[where]() as scene:
        assert timed("client.shutdown()", where, scene.client.shutdown) < GOODBYE + SLACK
        for waiting in scene.waiting:
            assert isinstance(waiting.error(), pulsar.PulsarException)


@pytest.mark.parametrize("where", BOUND)
def test_closing_a_handle_takes_no_longer_than_the_operation_timeout(where: str) -> None:
    with BOUND[where]() as scene:
        closing = {what: InThread(scene.things[what].close) for what in HANDLES}
        for what, each in closing.items():
            each.result(OPERATION + 5)
            TOOK[f"{what}.close()", where] = each.seconds
            assert each.seconds < OPERATION + SLACK
        scene.client.shutdown()


def test_after_a_close_without_an_answer_everything_says_that_it_is_closed() -> None:
    with deaf_to_closes() as scene:
        producer, consumer, reader = (scene.things[what] for what in HANDLES)
        waiting = InThread(consumer.receive)
        until(waiting.waits)
        for handle in (producer, consumer, reader):
            handle.close()
        calls = (
            waiting.result, lambda: consumer.receive(0), lambda: consumer.seek(0), consumer.get_last_message_id,
            consumer.unsubscribe, reader.has_message_available, lambda: producer.send(b"x"), producer.flush,
        )  # fmt: skip
        assert [type(InThread(call).error()) for call in calls] == len(calls) * [pulsar.AlreadyClosed]
        assert list(consumer) == []
        scene.client.close()


def test_closing_waits_for_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with unresolvable(monkeypatch) as scene:
        assert timed("client.close()", "a name is being resolved", scene.client.close) < SLACK
        assert isinstance(scene.waiting[0].error(), pulsar.PulsarException)


def test_shutting_down_hurries_a_close_that_waits() -> None:
    with deaf_to_closes() as scene:
        closing = InThread(scene.client.close)
        until(closing.waits)
        assert timed("client.shutdown()", "while another thread closes", scene.client.shutdown) < SLACK
        closing.result()


@pytest.mark.parametrize("what", ["client", "producer", "consumer", "reader"])
def test_closing_twice_and_after_the_client_does_nothing(what: str) -> None:
    with idle() as scene:
        thing = scene.things[what]
        thing.close()
        thing.close()
        scene.client.close()
        assert timed(f"{what}.close()", "closed already", thing.close) < SLACK
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


def test_two_threads_that_close_both_return() -> None:
    with deaf_to_closes() as scene:
        for group in (HANDLES, ("client",)):
            closing = [InThread(scene.things[what].close) for what in (*group, *group)]
            for each in closing:
                each.result()
                assert each.seconds < OPERATION + GOODBYE + SLACK


def test_handles_close_while_their_client_does() -> None:
    with deaf_to_closes() as scene:
        closing = [InThread(scene.things[what].close) for what in (*HANDLES, "client")]
        for each in closing:
            each.result()


@pytest.mark.parametrize("what", ["client", "producer", "consumer", "reader"])
@pytest.mark.parametrize("how", ["callback", "done-callback"])
def test_a_close_in_a_callback_begins_and_returns(what: str, how: str) -> None:
    with idle() as scene:
        closed = threading.Event()

        def close(*_: object) -> None:
            scene.things[what].close()
            closed.set()

        if how == "callback":
            scene.things["producer"].send_async(b"x", close)
        else:
            scene.things["producer"].send_async(b"x").add_done_callback(close)
        assert closed.wait(SOON)
        assert timed(f"{what}.close()", f"begun in a {how}", scene.things[what].close) < SLACK
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
        fault = broker.faults.on(CommandSend).drop()
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
        assert timed("client.close()", "a callback never returns", client.close) < OPERATION + 2 + 1 + SLACK
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
            producer = client.create_producer("t", batching_enabled=True, max_pending_messages=100_000)
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
        losses = [broker.faults.on(kind).drop() for kind in (CommandSendReceipt, CommandSeek)]
        sent = producer.send_async(b"x")
        assert sent is not None
        seeking = InThread(lambda: consumer.seek(0))
        for loss in losses:
            loss.wait()
        client.shutdown()
        assert isinstance(sent.exception(SOON), pulsar.OutcomeUnknown)
        assert isinstance(seeking.error(), pulsar.OutcomeUnknown)


def test_a_closed_client_answers_everything_at_once() -> None:
    with idle() as scene:
        scene.client.close()
        producer, consumer, reader = (scene.things[what] for what in ("producer", "consumer", "reader"))
        calls: list[Callable[[], Any]] = [
            lambda: scene.client.create_producer("t"),
            lambda: scene.client.get_topic_partitions("t"),
            lambda: producer.send(b"x"),
            lambda: producer.send_async(b"x").result(SOON),
            producer.flush,
            consumer.receive,
            lambda: consumer.receive_async().result(SOON),
            lambda: consumer.seek(0),
            consumer.unsubscribe,
            consumer.get_last_message_id,
            consumer.redeliver_unacknowledged_messages,
            reader.read_next,
            lambda: reader.read_next_async().result(SOON),
            reader.has_message_available,
            lambda: reader.seek(0),
        ]
        for call in calls:
            assert isinstance(InThread(call).error(), pulsar.AlreadyClosed)
