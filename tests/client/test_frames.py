"""Once the error of a call is handled, nothing refers to the frames of the program, and no garbage has to be collected.

Or else a transaction would stay open for long that is to be aborted with its last reference.
"""

import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors import asyncio as aio
from pulsar_actors.broker import EmbeddedBroker
from tests.support.life import until
from tests.support.loops import Run, happens


class Local:
    """What a frame of the program refers to."""


CALLS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "send": ("send", lambda program: program.producer.send(b"x")),
    "send in a transaction": ("send", lambda program: program.producer.send(b"x", transaction=program.transaction)),
    "create_producer": ("producer", lambda program: program.client.create_producer("t")),
    "subscribe": ("subscribe", lambda program: program.client.subscribe("t", "s")),
    "create_reader": ("subscribe", lambda program: program.client.create_reader("t", pulsar.MessageId.earliest)),
    "create_table_view": ("subscribe", lambda program: program.client.create_table_view("t")),
    "acknowledge": ("ack", lambda program: program.consumer.acknowledge(program.message)),
    "acknowledge in a transaction": (
        "ack",
        lambda program: program.consumer.acknowledge(program.message, transaction=program.transaction),
    ),
    "seek": ("seek", lambda program: program.consumer.seek(pulsar.MessageId.earliest)),
    "get_last_message_id": ("get_last_message_id", lambda program: program.consumer.get_last_message_id()),
    "unsubscribe": ("unsubscribe", lambda program: program.consumer.unsubscribe()),
    "new_transaction": ("new_txn", lambda program: program.client.new_transaction()),
    "commit": ("end_txn", lambda program: program.transaction.commit()),
    "abort": ("end_txn", lambda program: program.transaction.abort()),
    "get_topic_partitions": ("partitioned_metadata", lambda program: program.client.get_topic_partitions("u")),
}


@pytest.fixture(scope="module")
def program(broker: EmbeddedBroker) -> Iterator[Any]:
    with pulsar.Client(broker.service_url) as client:
        consumer = client.subscribe("frames", "s", ack_receipt_enabled=True)
        producer = client.create_producer("frames")
        producer.send(b"x")
        yield SimpleNamespace(
            client=client, consumer=consumer, producer=producer, message=consumer.receive(10_000), transaction=None
        )


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def fail(call: Callable[[Any], object], program: Any, found: list[Any]) -> None:
    local = Local()
    try:
        call(program)
    except pulsar.PulsarException as error:
        found += [type(error), weakref.ref(local)]


async def fail_in_loop(call: Callable[[Any], Awaitable[object]], program: Any, found: list[Any]) -> None:
    local = Local()
    try:
        await call(program)
    except pulsar.PulsarException as error:
        found += [type(error), weakref.ref(local)]


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.usefixtures("no_collector")
def test_the_error_of_a_call_in_an_event_loop_keeps_no_frame(broker: EmbeddedBroker, what: str, run: Run) -> None:
    command, call = CALLS[what]
    found: list[Any] = []

    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe("frames", what, ack_receipt_enabled=True)
            producer = await client.create_producer("frames")
            await producer.send(b"x")
            program = SimpleNamespace(client=client, consumer=consumer, producer=producer)
            program.message, program.transaction = await consumer.receive(10_000), await client.new_transaction()
            fault = broker.faults.on(command, times=None).refuse("NotAllowedError", "no")
            await fail_in_loop(call, program, found)
            fault.remove()
            await happens(lambda: found[1]() is None)

    run(main)
    assert issubclass(found[0], pulsar.PulsarException)


@pytest.mark.parametrize("in_main_thread", [True, False])
@pytest.mark.parametrize("what", CALLS)
@pytest.mark.usefixtures("no_collector")
def test_the_error_of_a_call_keeps_no_frame(
    broker: EmbeddedBroker, program: Any, what: str, *, in_main_thread: bool
) -> None:
    command, call = CALLS[what]
    program.transaction = program.client.new_transaction()
    fault = broker.faults.on(command, times=None).refuse("NotAllowedError", "no")
    found: list[Any] = []
    if in_main_thread:
        fail(call, program, found)
    else:
        thread = threading.Thread(target=fail, args=(call, program, found))
        thread.start()
        thread.join()
    fault.remove()
    assert issubclass(found[0], pulsar.PulsarException)
    until(lambda: found[1]() is None, "the end of the frame")
