"""No call of the asyncio client keeps its event loop from other tasks."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message import Message

from pulsar_actors import asyncio as aio
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import OperationNotSupported, PulsarException
from pulsar_actors.runtime.thread_engine import ThreadEngine
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandProducer,
    CommandSeek,
    CommandSend,
    CommandSubscribe,
    CommandUnsubscribe,
)
from tests.support.life import SOON
from tests.support.loops import Run, happens

# Below, a task of the loop releases what a call waits for. If the call kept the loop, nobody would, and the call would
# fail when its time is up.


async def release_each(broker: EmbeddedBroker, *commands: type[Message]) -> None:
    """Stall these commands, one after the other, and release each when it has come."""
    for command in commands:
        stalled = broker.faults.on(command).stall()
        await happens(lambda stalled=stalled: stalled.happened)
        stalled.release()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note every wait of the package in a thread that runs an event loop."""
    found: list[str] = []
    block, join, stop = ThreadEngine.block, threading.Thread.join, ThreadEngine.stop

    def note(what: str) -> None:
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            found.append(what)

    def noted_block(engine: ThreadEngine, future: Any, timeout: float | None, what: str) -> Any:
        note(what)
        return block(engine, future, timeout, what)

    def noted_join(thread: threading.Thread, timeout: float | None = None) -> None:
        note(f"joining {thread.name}")
        join(thread, timeout)

    def noted_stop(engine: ThreadEngine, timeout: float) -> None:
        note("stopping the threads")
        stop(engine, timeout)

    monkeypatch.setattr(ThreadEngine, "block", noted_block)
    monkeypatch.setattr(threading.Thread, "join", noted_join)
    monkeypatch.setattr(ThreadEngine, "stop", noted_stop)
    yield found
    monkeypatch.undo()


def test_no_call_waits_on_the_thread_of_the_loop(
    broker: EmbeddedBroker, any_topic: str, run: Run, waits: list[str]
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await client.get_topic_partitions(any_topic)
            producer = await client.create_producer(any_topic, max_pending_messages=3, block_if_queue_full=True)
            consumer = await client.subscribe(
                any_topic, "s", ack_receipt_enabled=True, negative_ack_redelivery_delay_ms=10
            )
            shared = await client.subscribe(any_topic, "shared", consumer_type=ConsumerType.Shared, enable_retry=True)
            reader = await client.create_reader(any_topic, MessageId.earliest)
            view = await client.create_table_view(any_topic)
            await view.for_each_and_listen(print)
            await asyncio.gather(*(producer.send(b"%d" % number, partition_key="k") for number in range(20)))
            await producer.flush()
            message = await consumer.receive()
            await consumer.acknowledge(message)
            await shared.reconsume_later(await shared.receive(), 0)
            await consumer.negative_acknowledge(await consumer.receive())
            await consumer.acknowledge_cumulative(await consumer.receive())
            consumer.redeliver_unacknowledged_messages()
            with contextlib.suppress(OperationNotSupported):  # of several topics
                await consumer.get_last_message_id()
            await consumer.get_broker_consumer_stats()
            await consumer.batch_receive()
            await consumer.seek(MessageId.earliest)
            await reader.read_next()
            await reader.has_message_available()
            await reader.seek(0)
            await view.refresh()
            _ = producer.stats(), consumer.stats(), reader.stats(), client.stats()
            for each in (view, reader, producer, shared):
                await each.close()
            await consumer.unsubscribe()
            other = aio.Client(broker.service_url)
            await other.create_producer(any_topic)
            other.shutdown()

    run(main)
    assert waits == []


def test_the_loop_goes_on_while_a_broker_is_slow(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            used = (CommandProducer, CommandSubscribe, CommandSend, CommandSeek, CommandUnsubscribe)
            closed = (CommandCloseProducer, CommandSubscribe, CommandCloseConsumer)
            releasing = asyncio.ensure_future(release_each(broker, *used, *closed))
            await asyncio.sleep(0)
            producer = await client.create_producer(topic)
            consumer = await client.subscribe(topic, "s")
            sending = asyncio.ensure_future(producer.send(b"a"))
            await asyncio.sleep(0)
            await producer.flush()
            await sending
            await consumer.seek(MessageId.earliest)
            await consumer.unsubscribe()
            await producer.close()
            reader = await client.create_reader(topic, MessageId.earliest)
            await reader.close()
            await releasing

    run(main)


def test_the_loop_goes_on_while_a_name_is_looked_up_or_nothing_answers(
    topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_answer = threading.Event(), threading.Event()
    in_time: list[bool] = []

    def slow_lookup(*_: object, **__: object) -> Any:
        asked.set()
        in_time.append(may_answer.wait(SOON))
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", slow_lookup)

    async def let_answer() -> None:
        await happens(asked.is_set)
        may_answer.set()

    async def main() -> None:
        letting = asyncio.ensure_future(let_answer())
        client = aio.Client("pulsar://nowhere.invalid:6650", operation_timeout_seconds=1)
        with pytest.raises(PulsarException):
            await client.create_producer(topic)
        await letting
        creating = asyncio.ensure_future(client.subscribe(topic, "s"))
        await asyncio.sleep(0.1)
        client.shutdown()
        with pytest.raises(PulsarException):
            await creating
        await client.close()

    run(main)
    assert set(in_time) == {True}


def test_the_loop_goes_on_while_a_full_queue_is_waited_for(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            producer = await client.create_producer(topic, max_pending_messages=1, block_if_queue_full=True)
            releasing = asyncio.ensure_future(release_each(broker, CommandSend, CommandSend))
            await asyncio.sleep(0)
            await asyncio.gather(releasing, *(producer.send(b"a") for _ in range(5)))
            await happens(lambda: producer.stats().sent == 5)

    run(main)
