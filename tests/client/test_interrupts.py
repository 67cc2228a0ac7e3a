import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.fault_rules import Fault
from pulsar_actors.client.handle import state_of
from pulsar_actors.version import compiled
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support import topics
from tests.support.life import MILLISECONDS, SOON, InThread, run_program, until, waits_in_the_client

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def broker(clean: None) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        yield client


class TimeLimit(Exception):
    """What a signal handler of the program raises."""


@pytest.fixture(params=[pulsar.Interrupted, TimeLimit])
def raised(request: pytest.FixtureRequest) -> Iterator[type[BaseException]]:
    """Raise it in the handler of the signal."""

    def raise_it(*_: object) -> None:
        raise TimeLimit

    before = signal.getsignal(signal.SIGINT)
    if request.param is TimeLimit:
        signal.signal(signal.SIGINT, raise_it)
    yield request.param
    signal.signal(signal.SIGINT, before)


def interrupt(
    call: Callable[[], Any],
    after: Fault | None = None,
    *,
    other_thread: bool = False,
    raised: type[BaseException] = pulsar.Interrupted,
) -> None:
    """Make the call here, in the main thread, and have Ctrl-C end it once it waits, and the fault has happened.

    The system may deliver the signal to the main thread, or to any `other_thread`.
    """
    main = threading.main_thread().ident
    assert main == threading.get_ident()
    pressed_at = 0.0

    def press() -> None:
        nonlocal pressed_at
        if after is not None:
            after.wait(1, SOON)
        until(lambda: waits_in_the_client(sys._current_frames().get(main)))
        pressed_at = time.monotonic()
        signal.pthread_kill(threading.get_ident() if other_thread else main, signal.SIGINT)

    pressing = InThread(press)
    with pytest.raises(raised) as caught:
        call()
    assert isinstance(caught.value, (KeyboardInterrupt, TimeLimit))
    assert time.monotonic() - pressed_at < SOON / 2, "it was raised at the end of the wait only"
    pressing.result()


@pytest.mark.parametrize("what", ["receive", "send", "seek"])
def test_a_wait_is_interrupted_whichever_thread_the_system_gives_the_signal(
    broker: EmbeddedBroker, client: pulsar.Client, what: str
) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    stalled = broker.faults.on(pb.CommandSend if what == "send" else pb.CommandSeek).stall()
    calls: dict[str, Callable[[], Any]] = {
        "receive": lambda: consumer.receive(MILLISECONDS),  # each of these waits for at least so long
        "send": lambda: producer.send(b"x"),
        "seek": lambda: consumer.seek(pulsar.MessageId.earliest),
    }
    interrupt(calls[what], other_thread=True)
    stalled.release()


@pytest.mark.parametrize("queue_size", [0, 1, 1000])
def test_an_interrupted_receive_loses_no_message(client: pulsar.Client, queue_size: int) -> None:
    consumer = client.subscribe("t", "s", receiver_queue_size=queue_size)
    producer = client.create_producer("t")
    for round_ in (b"a", b"b"):
        interrupt(consumer.receive)
        producer.send(round_)
        assert consumer.receive(int(1000 * SOON)).data() == round_


def test_an_interrupted_receive_takes_nobody_elses_wake_up(client: pulsar.Client) -> None:
    consumer = client.subscribe("t", "s")
    interrupt(consumer.receive)
    waiting = [InThread(consumer.receive) for _ in range(2)]
    for each in waiting:
        until(each.waits)
    producer = client.create_producer("t")
    producer.send(b"a")
    producer.send(b"b")
    assert {each.result().data() for each in waiting} == {b"a", b"b"}


def test_an_interrupted_batch_receive_keeps_what_it_had(client: pulsar.Client) -> None:
    policy = pulsar.ConsumerBatchReceivePolicy(3, -1, -1)
    consumer = client.subscribe("t", "s", batch_receive_policy=policy)
    producer = client.create_producer("t")
    producer.send(b"a")
    producer.send(b"b")
    interrupt(consumer.batch_receive)
    producer.send(b"c")
    producer.send(b"d")
    assert [message.data() for message in consumer.batch_receive()] == [b"a", b"b", b"c"]
    assert consumer.receive(int(1000 * SOON)).data() == b"d"


@pytest.mark.parametrize("queue_size", [0, 1000])
def test_an_interrupted_call_for_many_loses_no_message(client: pulsar.Client, queue_size: int) -> None:
    consumer = client.subscribe("t", "s", receiver_queue_size=queue_size)
    producer = client.create_producer("t")
    for round_ in (b"a", b"b"):
        interrupt(lambda: consumer.receive_many(10))
        producer.send(round_)
        assert [one.data() for one in consumer.receive_many(10, int(1000 * SOON))] == [round_]


@pytest.mark.parametrize("partitions", [0, 2])
def test_the_messages_of_an_interrupted_call_for_many_are_available(
    broker: EmbeddedBroker, client: pulsar.Client, partitions: int
) -> None:
    class Interrupting(pulsar.ReaderInterceptor):
        is_first = True

        def before_read(self, reader: Any, message: pulsar.Message) -> pulsar.Message:
            if self.is_first:
                self.is_first = False
                raise KeyboardInterrupt
            return message

    if partitions:
        topics.create_partitioned(broker, "t", partitions)
    client.create_producer("t").send(b"a")
    reader = client.create_reader("t", pulsar.MessageId.earliest, interceptors=[Interrupting()])
    with pytest.raises(KeyboardInterrupt):
        reader.read_many(10, MILLISECONDS)
    assert reader.has_message_available()
    assert [one.data() for one in reader.read_many(10, MILLISECONDS)] == [b"a"]
    assert not reader.has_message_available()


def test_an_interrupted_send_of_many_sends_what_is_in_the_queue_and_no_more(
    broker: EmbeddedBroker, client: pulsar.Client
) -> None:
    producer = client.create_producer("t", batching_enabled=True, max_pending_messages=3, block_if_queue_full=True)
    fault = broker.faults.on(pb.CommandSendReceipt).stall()
    interrupt(lambda: producer.send_many([b"a", b"b", b"c", b"no room"]))
    fault.release()
    producer.flush()
    assert state_of(producer).send_callbacks.calls == {}
    assert producer.send_many([b"d", b"e", b"f", b"g"]).result(SOON) == 4
    reader = client.create_reader("t", pulsar.MessageId.earliest)
    assert [reader.read_next(int(1000 * SOON)).data() for _ in range(7)] == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


def test_an_interrupted_send_of_many_does_not_keep_its_transaction_open(
    broker: EmbeddedBroker, client: pulsar.Client, raised: type[BaseException]
) -> None:
    producer = client.create_producer("t", batching_enabled=True, max_pending_messages=3, block_if_queue_full=True)
    transaction = client.new_transaction()
    fault = broker.faults.on(pb.CommandSendReceipt).stall()
    interrupt(lambda: producer.send_many([b"a", b"b", b"c", b"no room"], transaction=transaction), raised=raised)
    fault.release()
    with pytest.raises(pulsar.TransactionHasOperationFailed):
        transaction.commit_async().result(SOON)


def test_an_interrupted_send_goes_on_and_the_next_one_works(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    fault = broker.faults.on(pb.CommandSendReceipt).stall()
    interrupt(lambda: producer.send(b"interrupted"), fault)
    fault.release()
    producer.send(b"next")
    assert [consumer.receive(int(1000 * SOON)).data() for _ in range(2)] == [b"interrupted", b"next"]
    assert producer.stats().pending == 0


def test_an_interrupted_flush_hinders_no_other(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    producer = client.create_producer("t", batching_enabled=True)
    fault = broker.faults.on(pb.CommandSendReceipt).stall()
    sent = producer.send_async(b"x")
    interrupt(producer.flush)
    fault.release()
    producer.flush()
    assert sent.done()


def test_an_interrupted_wait_for_room_takes_none(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    producer = client.create_producer("t", max_pending_messages=1, block_if_queue_full=True)
    fault = broker.faults.on(pb.CommandSendReceipt).stall()
    first = producer.send_async(b"x")
    interrupt(lambda: producer.send_async(b"no room"))
    interrupt(lambda: producer.send(b"no room"))
    fault.release()
    first.result(SOON)
    until(lambda: producer.stats().pending == 0)
    for _ in range(3):
        producer.send(b"y")
    reader = client.create_reader("t", pulsar.MessageId.earliest)
    assert [reader.read_next(int(1000 * SOON)).data() for _ in range(4)] == [b"x", b"y", b"y", b"y"]


@pytest.mark.parametrize(
    "answer", [pb.CommandPartitionedTopicMetadataResponse, pb.CommandLookupTopicResponse, pb.CommandProducerSuccess]
)
def test_an_interrupted_creation_leaves_no_producer_behind(
    broker: EmbeddedBroker, client: pulsar.Client, answer: Any, raised: type[BaseException]
) -> None:
    kept = client.create_producer("t")
    fault = broker.faults.on(answer).stall()
    interrupt(lambda: client.create_producer("t"), fault, raised=raised)
    fault.release()
    client.create_producer("u").close()  # whatever the other one asked for has been answered by then
    until(lambda: topics.handles(broker, "t") == 1)
    kept.send(b"x")
    assert len(client.stats().producers) == 1


def test_an_interrupted_subscription_leaves_no_consumer_behind(
    broker: EmbeddedBroker, client: pulsar.Client, raised: type[BaseException]
) -> None:
    fault = broker.faults.on(pb.CommandSuccess).stall()
    interrupt(lambda: client.subscribe("t", "s"), fault, raised=raised)
    fault.release()
    client.create_producer("t").send(b"x")

    def subscribe_alone() -> Any:
        with contextlib.suppress(pulsar.ConsumerBusy):
            return client.subscribe("t", "s")

    assert until(subscribe_alone).receive(int(1000 * SOON)).data() == b"x"


@pytest.mark.parametrize("what", ["producer", "consumer", "client"])
def test_an_interrupted_close_has_begun_and_can_be_waited_for_again(
    broker: EmbeddedBroker, client: pulsar.Client, what: str
) -> None:
    things: dict[str, Any] = {"producer": client.create_producer("t"), "consumer": client.subscribe("t", "s")}
    things["client"] = client
    faults = [broker.faults.on(command).stall() for command in (pb.CommandCloseProducer, pb.CommandCloseConsumer)]
    interrupt(things[what].close)
    for fault in faults:
        fault.release()
    things[what].close()
    if what != "client":
        assert not things[what].is_connected()


@pytest.mark.parametrize("what", ["seek", "get_last_message_id", "unsubscribe"])
def test_other_calls_that_wait_are_interrupted_too(broker: EmbeddedBroker, client: pulsar.Client, what: str) -> None:
    consumer = client.subscribe("t", "s")
    faults = [broker.faults.on(answer).stall() for answer in (pb.CommandSuccess, pb.CommandGetLastMessageIdResponse)]
    calls: dict[str, Callable[[], Any]] = {
        "seek": lambda: consumer.seek(pulsar.MessageId.earliest),
        "get_last_message_id": consumer.get_last_message_id,
        "unsubscribe": consumer.unsubscribe,
    }
    interrupt(calls[what])
    for fault in faults:
        fault.release()


STORM = """
import signal, sys, threading, time
import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker

PRESSES, SOON = 300, 20
main, over, armed, pressed = threading.main_thread().ident, threading.Event(), threading.Event(), [0]

def press():
    while pressed[0] < PRESSES:
        armed.wait()
        time.sleep(0.0005 * (pressed[0] % 7))  # no waiting for anything: it is to happen anywhere
        if armed.is_set():
            armed.clear()
            pressed[0] += 1
            signal.pthread_kill(main, signal.SIGINT)
    over.set()

broker = EmbeddedBroker()
broker.start()
client = pulsar.Client(broker.service_url)
consumer = client.subscribe("t", "s", receiver_queue_size=10)
producers = [
    client.create_producer("t", max_pending_messages=5, block_if_queue_full=True),
    client.create_producer("t", max_pending_messages=5, block_if_queue_full=True, batching_enabled=True),
]
threading.Thread(target=press, daemon=True).start()
futures, interrupted, serial = [], 0, 0
while not over.is_set():
    try:
        armed.set()
        while not over.is_set():
            producer = producers[serial % 2]
            serial += 1
            if serial % 3 == 0:
                producer.send(b"%d" % serial)
            elif serial % 5:
                futures.append(producer.send_async(b"%d" % serial))
            else:
                futures.append(producer.send_many([b"%d" % serial] * 8))
            consumer.acknowledge(consumer.receive())
            if serial % 5 == 0:
                consumer.acknowledge(consumer.receive_many(20))
    except KeyboardInterrupt:
        interrupted += 1
        try:
            time.sleep(0.001)
        except KeyboardInterrupt:
            interrupted += 1
assert interrupted > PRESSES // 2, interrupted
for producer in producers:
    last = [producer.send_async(b"last") for _ in range(3)]
    for future in last:
        future.result(SOON)
    producer.flush()
    assert producer.stats().pending == 0, producer.stats()
for future in futures:
    future.result(SOON)
while True:
    try:
        consumer.acknowledge(consumer.receive(300))
    except pulsar.Timeout:
        break
broker.call(lambda inside: None)
producers[0].send(b"after all")
assert consumer.receive(SOON * 1000).data() == b"after all"
began = time.monotonic()
client.close()
assert time.monotonic() - began < 5
broker.stop()
print("well")
"""


def test_hundreds_of_interrupts_anywhere_leave_a_client_that_works() -> None:
    done = run_program(STORM, within=60)
    assert (done.code, done.out) == (0, "well\n"), done.err


class Struck(list[Any]):
    """A buffer that Ctrl-C interrupts once, after a message was appended to it."""

    def extend(self, items: Any) -> None:
        super().extend(items)
        raise KeyboardInterrupt


@pytest.mark.skipif(compiled, reason="no signal is heard between two steps of compiled code")
def test_a_message_that_was_taken_before_the_interrupt_is_sent(client: pulsar.Client) -> None:
    consumer = client.subscribe("t", "s")
    producer = client.create_producer("t", batching_enabled=True, batching_max_publish_delay_ms=60_000)
    queue = producer._enqueuer.send_queue  # type: ignore[attr-defined]
    plain, queue.buffer = queue.buffer, Struck()
    with pytest.raises(KeyboardInterrupt):
        producer.send_async(b"x")
    until(lambda: not queue.buffer)
    queue.buffer = plain
    assert consumer.receive(MILLISECONDS).data() == b"x"
