import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.wire.PulsarApi_pb2 import CommandLookupTopic, CommandProducer, CommandSubscribe, ServerError
from tests.support import topics
from tests.support.life import MILLISECONDS, SOON, Alive, alive, until

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def broker(clean: None) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def collected() -> Alive:
    """Take stock of what is left once the garbage collector has been."""
    gc.collect()
    return alive()


# What ends with whom.


@pytest.mark.parametrize("command", [CommandLookupTopic, CommandProducer, CommandSubscribe])
def test_a_creation_that_fails_leaves_nothing_behind(broker: EmbeddedBroker, command: Any) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        client.create_producer("t").close()
        before = alive()
        broker.faults.on(command, times=None).refuse(ServerError.AuthorizationError, "not you")
        for _ in range(5):
            for create in (lambda: client.create_producer("t"), lambda: client.subscribe("t", "s")):
                with contextlib.suppress(pulsar.AuthorizationError):
                    create().close()
        until(lambda: alive() == before)


def test_a_creation_that_times_out_leaves_nothing_behind(broker: EmbeddedBroker) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url, operation_timeout_seconds=2)) as client:
        client.create_producer("t").close()
        before = alive()
        fault = broker.faults.on(CommandProducer, times=None).drop()
        with pytest.raises(pulsar.Timeout):
            client.create_producer("t")
        fault.remove()
        until(lambda: alive() == before)
        assert topics.handles(broker, "t") == 0


def test_a_handle_that_nobody_holds_any_longer_ends(broker: EmbeddedBroker) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        client.create_producer("t").close()
        before = collected()
        things: list[Any] = [
            client.create_producer("t"),
            client.subscribe("t", "s"),
            client.create_reader("t", pulsar.MessageId.latest),
        ]
        assert topics.handles(broker, "t") == 3
        things.clear()
        until(lambda: collected() == before)
        assert topics.handles(broker, "t") == 0


def test_a_client_that_nobody_holds_any_longer_ends_its_threads(broker: EmbeddedBroker) -> None:
    before = collected()
    client = pulsar.Client(broker.service_url, io_threads=3)
    producer = client.create_producer("t")
    del client
    gc.collect()
    producer.send(b"a producer holds its client")
    del producer
    until(lambda: collected() == before)


def test_a_client_that_was_never_used_ends_its_threads() -> None:
    before = collected()
    for _ in range(5):
        pulsar.Client("pulsar://127.0.0.1:1")
    until(lambda: collected() == before)


def test_a_client_that_cannot_be_made_leaves_no_thread(tmp_path: Path) -> None:
    before = alive().threads
    with pytest.raises(pulsar.PulsarException):
        pulsar.Client("pulsar://127.0.0.1:1", logger=pulsar.FileLogger(pulsar.LoggerLevel.Info, str(tmp_path)))
    assert alive().threads == before


def test_a_listener_goes_on_as_long_as_its_client(broker: EmbeddedBroker) -> None:
    before = collected()
    heard: list[bytes] = []
    client = pulsar.Client(broker.service_url)
    client.subscribe("t", "s", message_listener=lambda _, message: heard.append(message.data()))
    gc.collect()
    producer = client.create_producer("t")
    producer.send(b"x")
    until(lambda: heard == [b"x"])
    del producer
    del client
    until(lambda: collected() == before)
    assert topics.handles(broker, "t") == 0


def test_a_listener_that_was_closed_is_kept_no_longer(broker: EmbeddedBroker) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        consumer = client.subscribe("t", "s", message_listener=lambda *_: None)
        reference = weakref.ref(consumer)
        consumer.close()
        del consumer

        def is_gone() -> bool:
            gc.collect()
            return reference() is None

        until(is_gone)


def test_a_consumer_with_dead_letters_that_is_dropped_with_its_client_ends(broker: EmbeddedBroker) -> None:
    before = collected()
    client = pulsar.Client(broker.service_url)
    consumer = client.subscribe(
        "t",
        "s",
        pulsar.ConsumerType.Shared,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, "dead"),
        negative_ack_redelivery_delay_ms=10,
    )
    client.create_producer("t").send(b"x")
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(MILLISECONDS))
    reader = client.create_reader("dead", pulsar.MessageId.earliest)
    assert reader.read_next(MILLISECONDS).data() == b"x"
    del client, consumer, reader
    until(lambda: collected() == before)


# Which threads there are.


def test_any_number_of_producers_and_consumers_share_the_threads_there_are(broker: EmbeddedBroker) -> None:
    before = collected().threads
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        first = client.create_producer("t")
        threads = alive().threads - before
        assert threads == {"pulsar-io-0", "pulsar-io-0-credentials"}
        others = [client.create_producer("t") for _ in range(100)]
        others += [client.subscribe(f"t{number}", "s") for number in range(20)]  # type: ignore[misc]
        assert alive().threads - before == threads
        first.send(b"x")


@pytest.mark.shows("ClientConfiguration", "ioThreads")
def test_producers_are_spread_over_the_io_threads(broker: EmbeddedBroker) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url, io_threads=3)) as client:
        names: list[str] = []
        for number in range(6):
            producer = client.create_producer(f"t{number}")
            producer.send_async(b"x", lambda *_: names.append(threading.current_thread().name))
            producer.flush()
        assert set(names) == {"pulsar-io-0", "pulsar-io-1", "pulsar-io-2"}


def test_a_consumer_is_always_called_on_one_thread_and_several_share_out_the_threads(broker: EmbeddedBroker) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url, message_listener_threads=3)) as client:
        seen: dict[str, list[str]] = {f"s{number}": [] for number in range(6)}

        def listen(consumer: pulsar.Consumer, _: object) -> None:
            seen[consumer.subscription_name()].append(threading.current_thread().name)

        consumers = [client.subscribe("t", name, message_listener=listen) for name in seen]
        producer = client.create_producer("t", batching_enabled=True)
        for _ in range(250):
            producer.send_async(b"x", lambda *_: None)
        producer.flush()
        until(lambda: all(len(names) == 250 for names in seen.values()))
        assert all(len(set(names)) == 1 for names in seen.values())
        assert {names[0] for names in seen.values()} == {f"pulsar-listener-{number}" for number in range(3)}
        del consumers


@pytest.mark.shows("ClientConfiguration", "listenerThreads")
def test_two_slow_listeners_on_two_threads_run_side_by_side(broker: EmbeddedBroker) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url, message_listener_threads=2)) as client:
        both = threading.Barrier(3)
        for name in ("a", "b"):
            client.subscribe("t", name, message_listener=lambda *_: both.wait(SOON))
        client.create_producer("t").send(b"x")
        both.wait(SOON)


def test_listeners_that_share_a_thread_take_turns(broker: EmbeddedBroker) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        order: list[str] = []
        begin = threading.Event()

        def listen(consumer: pulsar.Consumer, _: object) -> None:
            begin.wait(SOON)
            order.append(consumer.subscription_name())

        for name in ("a", "b"):
            client.subscribe("t", name, message_listener=listen)
        producer = client.create_producer("t", batching_enabled=True)
        for _ in range(500):
            producer.send_async(b"x", lambda *_: None)
        producer.flush()
        begin.set()
        until(lambda: len(order) == 1000)
        assert set(order[:400]) == {"a", "b"}


# What may be done on an I/O thread.

BLOCKING: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "send": ("send_async()", lambda made: made["producer"].send(b"x")),
    "flush": ("callbacks", lambda made: made["producer"].flush()),
    "receive": ("receive_async()", lambda made: made["consumer"].receive()),
    "receive with a timeout": ("receive_async()", lambda made: made["consumer"].receive(1000)),
    "batch_receive": ("receive_async()", lambda made: made["consumer"].batch_receive()),
    "read_next": ("_async()", lambda made: made["reader"].read_next()),
    "has_message_available": ("another thread", lambda made: made["reader"].has_message_available()),
    "seek": ("another thread", lambda made: made["consumer"].seek(pulsar.MessageId.earliest)),
    "unsubscribe": ("another thread", lambda made: made["consumer"].unsubscribe()),
    "get_last_message_id": ("another thread", lambda made: made["consumer"].get_last_message_id()),
    "create_producer": ("another thread", lambda made: made["client"].create_producer("u")),
    "subscribe": ("another thread", lambda made: made["client"].subscribe("u", "s")),
    "create_reader": ("another thread", lambda made: made["client"].create_reader("u", pulsar.MessageId.latest)),
    "get_topic_partitions": ("another thread", lambda made: made["client"].get_topic_partitions("u")),
}


@pytest.mark.parametrize("what", BLOCKING)
@pytest.mark.parametrize("how", ["callback", "done-callback"])
def test_what_would_block_an_io_thread_raises_at_once_and_says_what_to_use(
    broker: EmbeddedBroker, what: str, how: str
) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        made: dict[str, Any] = {"client": client, "producer": client.create_producer("t")}
        made["consumer"] = client.subscribe("empty", "s")
        made["reader"] = client.create_reader("empty", pulsar.MessageId.latest)
        raised: list[BaseException | None] = []
        instead, call = BLOCKING[what]

        def callback(*_: object) -> None:
            try:
                call(made)
            except BaseException as error:  # noqa: BLE001 - it is looked at below
                raised.append(error)

        if how == "callback":
            made["producer"].send_async(b"x", callback)
        else:
            consumer = client.subscribe("t", "s")  # if nobody held it, it could end before the next line
            consumer.receive_async().add_done_callback(callback)
            made["producer"].send_async(b"x")
        (error,) = until(lambda: raised)
        assert isinstance(error, pulsar.OperationNotSupported)
        assert instead in str(error)


def test_a_callback_may_send_receive_and_acknowledge_without_waiting(broker: EmbeddedBroker) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
        got: list[bytes] = []

        def received(future: Any) -> None:
            consumer.acknowledge(future.result())
            got.append(future.result().data())

        def sent(*_: object) -> None:
            consumer.receive_async().add_done_callback(received)
            producer.send_async(b"b").add_done_callback(  # type: ignore[union-attr]
                lambda _: consumer.receive_async().add_done_callback(received)
            )

        producer.send_async(b"a", sent)
        until(lambda: got == [b"a", b"b"])


def test_a_full_queue_in_a_callback_does_not_block_it(broker: EmbeddedBroker) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        producer = client.create_producer("t", max_pending_messages=1, block_if_queue_full=True)
        raised: list[str] = []

        def callback(*_: object) -> None:
            producer.send_async(b"fits", lambda *_: None)
            try:
                producer.send_async(b"does not", lambda *_: None)
            except pulsar.OperationNotSupported as error:
                raised.append(str(error))

        producer.send_async(b"x", callback)
        assert "block_if_queue_full" in until(lambda: raised)[0]


def test_many_threads_share_one_producer_and_one_consumer(broker: EmbeddedBroker) -> None:
    with contextlib.closing(pulsar.Client(broker.service_url, io_threads=2)) as client:
        consumer = client.subscribe("t", "s", receiver_queue_size=50)
        producer = client.create_producer(
            "t", batching_enabled=True, max_pending_messages=100, block_if_queue_full=True
        )
        got: list[bytes] = []

        def send(number: int) -> None:
            for serial in range(500):
                producer.send_async(b"%d-%d" % (number, serial), lambda *_: None)

        def receive() -> None:
            with contextlib.suppress(pulsar.AlreadyClosed):
                while True:
                    message = consumer.receive()
                    consumer.acknowledge(message)
                    got.append(message.data())

        threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(4)]
        threads += [threading.Thread(target=receive, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(got) == 2000)
        consumer.close()
        for thread in threads:
            thread.join(SOON)
        assert sorted(got) == sorted(b"%d-%d" % (number, serial) for number in range(4) for serial in range(500))
