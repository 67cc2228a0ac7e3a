"""A caller of `send` that writes its message and handles the receipt itself, in its own thread."""

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.handle import state_of
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.runtime import thread_engine
from pulsar_actors.runtime.thread_loop import ThreadLoop
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, CommandSendReceipt
from tests.support.life import MILLISECONDS, SOON, InThread, until

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def broker(clean: None) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[pulsar.Producer]:
    """A producer that has sent a message."""
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        producer = client.create_producer("t")
        producer.send(b"first")
        yield producer


def loop_of(producer: pulsar.Producer) -> Any:
    return state_of(producer).engine.loops[0]


def wait_until_it_sleeps(producer: pulsar.Producer) -> None:
    """Wait until the loop's thread sleeps, and nothing that it has been told of, or is sent, will wake it up soon."""
    loop = loop_of(producer)
    has_passed = threading.Event()  # the thread may have been told of a socket whose data the last caller has read
    loop.post(lambda _: has_passed.set(), None)
    assert has_passed.wait(SOON)
    until(lambda: not unread(loop._woken) and loop._asleep and not loop._turn.locked() and not loop._ready)


def unread(end: socket.socket) -> bool:
    return bool(select.select([end], [], [], 0)[0])


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that handle receipts."""
    threads: list[str] = []
    plain = SendCallbacks.__call__

    def noting(self: SendCallbacks, ended: Any) -> None:
        threads.append(threading.current_thread().name)
        plain(self, ended)

    monkeypatch.setattr(SendCallbacks, "__call__", noting)
    return threads


HERE, THERE = "MainThread", "pulsar-io-0"


def test_the_caller_handles_its_receipt_and_wakes_no_other_thread(
    broker: EmbeddedBroker, producer: pulsar.Producer, handled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_engine, "LONGEST_ATTENDANCE", SOON)  # a busy machine may take a while
    broker.faults.on(CommandSend, times=5).delay(0.01)  # an answer within microseconds is the I/O thread's
    woken: list[ThreadLoop] = []
    plain = ThreadLoop._wake
    monkeypatch.setattr(ThreadLoop, "_wake", lambda loop: (woken.append(loop), plain(loop)))
    for number in range(5):
        wait_until_it_sleeps(producer)
        woken.clear()
        assert producer.send(b"%d" % number).entry_id() == number + 1
        assert loop_of(producer) not in woken
    assert handled == [HERE] * 5


def test_a_receipt_that_takes_long_is_left_to_the_io_thread(
    broker: EmbeddedBroker, producer: pulsar.Producer, handled: list[str]
) -> None:
    broker.faults.on(CommandSend).delay(0.2)
    wait_until_it_sleeps(producer)
    producer.send(b"second")
    assert handled == [THERE]


def test_a_caller_whose_message_is_not_the_only_one_leaves_all_to_the_io_thread(
    broker: EmbeddedBroker, producer: pulsar.Producer, handled: list[str]
) -> None:
    stalled = broker.faults.on(CommandSend).stall()
    heard: list[str] = []
    producer.send_async(b"second", lambda *_: heard.append(threading.current_thread().name))
    stalled.wait()
    wait_until_it_sleeps(producer)

    def release() -> None:
        until(lambda: producer.stats().pending == 2)
        stalled.release()

    releasing = InThread(release)
    producer.send(b"third")
    releasing.result()
    assert heard == [THERE]
    assert set(handled) == {THERE}


def test_a_connection_that_is_lost_while_the_caller_waits_at_it_is_replaced(
    broker: EmbeddedBroker, producer: pulsar.Producer
) -> None:
    for number in range(3):
        broker.faults.on(CommandSend).close_connection()
        wait_until_it_sleeps(producer)
        assert producer.send(b"%d" % number).entry_id() == number + 1


def test_what_comes_for_a_consumer_while_a_caller_waits_reaches_it(
    broker: EmbeddedBroker, producer: pulsar.Producer
) -> None:
    consumer = producer._client.subscribe("t", "s", initial_position=pulsar.InitialPosition.Earliest)  # type: ignore[attr-defined]
    for number in range(20):
        producer.send(b"%d" % number)
    received = [consumer.receive(MILLISECONDS).data() for _ in range(21)]
    assert received == [b"first", *(b"%d" % number for number in range(20))]


def test_a_client_closes_while_callers_wait_at_its_socket(broker: EmbeddedBroker) -> None:
    client = pulsar.Client(broker.service_url, operation_timeout_seconds=4)  # for so long a close waits for receipts
    producer = client.create_producer("t")
    producer.send(b"first")
    broker.faults.on(CommandSendReceipt, times=None).drop()
    ended: list[BaseException] = []

    def send() -> None:
        try:
            producer.send(b"second")
        except pulsar.PulsarException as error:
            ended.append(error)

    callers = [threading.Thread(target=send) for _ in range(3)]
    for caller in callers:
        caller.start()
    until(lambda: producer.stats().pending == 3)
    client.close()
    for caller in callers:
        caller.join(SOON)
    assert len(ended) == 3
