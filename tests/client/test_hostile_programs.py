"""Programs that do what no program should: it costs them what it must, and nothing else."""

import asyncio
import logging
import random
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.client.schema import Schema
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, CommandSendReceipt, ServerError
from tests.support.life import MILLISECONDS, SOON, InThread


class Faulty(logging.Handler):
    """A handler that raises whatever line comes."""

    def handle(self, record: logging.LogRecord) -> bool:
        raise ZeroDivisionError


class Careless(Schema):
    """Makes of a value the value itself, which may be anything."""

    def encode(self, value: object) -> Any:
        return value

    def decode(self, data: bytes) -> object:
        return data


@pytest.fixture
def faulty_log() -> Iterator[None]:
    logger = logging.getLogger("pulsar_actors")
    before, logger.handlers = logger.handlers, [Faulty()]
    yield
    logger.handlers = before


@pytest.mark.parametrize("made", ["text", [], 5])
def test_a_schema_that_makes_no_bytes_is_told_so_and_the_producer_goes_on(
    client: Client, topic: str, made: object
) -> None:
    with client.create_producer(topic, schema=Careless()) as producer:
        with pytest.raises(pulsar.WrongContent, match="Careless"):
            producer.send(made)
        producer.send(b"y")


def test_what_a_schema_makes_may_be_changed_afterwards(client: Client, topic: str) -> None:
    with client.create_producer(topic, schema=Careless()) as producer, client.subscribe(topic, "s") as consumer:
        content = bytearray(b"as it was")
        sent: Any = producer.send_async(content)
        content[:] = b"something else"
        sent.result(SOON)
        assert consumer.receive(MILLISECONDS).data() == b"as it was"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_whatever_a_callback_raises_others_get_their_results(
    client: Client, broker: EmbeddedBroker, topic: str, error: type[BaseException]
) -> None:
    def callback(*_: object) -> None:
        raise error

    with client.create_producer(topic) as producer:
        receipts = broker.faults.on(CommandSendReceipt).stall()  # a future that is done calls back in this thread
        producer.send_async(b"x", callback)
        future: Any = producer.send_async(b"y")
        future.add_done_callback(callback)
        receipts.release()
        InThread(producer.flush).result()
        producer.send(b"z")


@pytest.mark.usefixtures("faulty_log")
def test_a_log_handler_that_raises_ends_nothing(client: Client, topic: str) -> None:
    received: SimpleQueue[bytes] = SimpleQueue()

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        received.put(message.data())
        consumer.acknowledge(message)
        raise ZeroDivisionError

    def callback(*_: object) -> None:
        raise ZeroDivisionError

    consumer = client.subscribe(topic, "s", message_listener=listen)
    with client.create_producer(topic) as producer:
        producer.send_async(b"x", callback)
        InThread(producer.flush).result()
        InThread(lambda: producer.send(b"y")).result()
    assert [received.get(timeout=SOON) for _ in "xy"] == [b"x", b"y"]
    InThread(consumer.close).result()


def test_a_producer_that_has_failed_reports_so_in_the_future_or_to_the_callback(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    producer = client.create_producer(topic)
    fault = broker.faults.on(CommandSend).refuse(ServerError.ProducerFenced, "somebody else has it")
    with pytest.raises(pulsar.ProducerFenced):
        producer.send(b"x")
    fault.wait()
    with pytest.raises(pulsar.ProducerFenced):
        producer.send(b"y")
    late: Any = producer.send_async(b"z")
    assert isinstance(late.exception(0), pulsar.ProducerFenced)
    results: list[object] = []
    producer.send_async(b"z", lambda result, _: results.append(result))
    assert results == [pulsar.Result.ProducerFenced]
    producer.close()


def test_when_sequence_ids_run_out_sends_are_refused_and_the_producer_is_not_lost(client: Client, topic: str) -> None:
    with client.create_producer(topic, initial_sequence_id=2**63 - 2) as producer:
        producer.send(b"the last one")
        for _ in range(2):
            with pytest.raises(pulsar.InvalidArgument, match="sequence id"):
                producer.send(b"one too many")
        assert producer.stats().pending == 0
        producer.send(b"with an id of its own", sequence_id=5)


@pytest.mark.parametrize("wrong", ["soon", 1.5, True])
def test_a_wrong_timeout_is_refused_even_if_there_is_a_message(client: Client, topic: str, wrong: Any) -> None:
    with client.create_producer(topic) as producer, client.subscribe(topic, "s") as consumer:
        for _ in range(2):
            producer.send(b"x")
        consumer.receive(MILLISECONDS)
        with pytest.raises(pulsar.InvalidArgument, match="timeout_millis"):
            consumer.receive(wrong)
        assert consumer.receive(MILLISECONDS).data() == b"x"


@pytest.mark.parametrize("queue_size", [0, 1, 1000])
def test_whoever_keeps_the_future_loses_no_message_to_a_timeout_of_asyncio(
    client: Client, topic: str, queue_size: int
) -> None:
    count, dice = 60, random.Random(queue_size)  # noqa: S311 - chance, not a secret

    async def receive_all(consumer: pulsar.Consumer) -> list[int]:
        received: list[int] = []
        while len(received) < count:
            future = consumer.receive_async()
            try:
                message = await asyncio.wait_for(asyncio.wrap_future(future), dice.choice((0.002, 0.004, 0.5)))
            except asyncio.TimeoutError:
                if future.cancelled():
                    continue
                message = future.result(SOON)  # it was claimed for it, and arrives
            received.append(int(message.data()))
        return received

    async def send_all(producer: pulsar.Producer) -> None:
        for number in range(count):
            sent: Any = producer.send_async(str(number).encode())
            await asyncio.wrap_future(sent)

    async def both(producer: pulsar.Producer, consumer: pulsar.Consumer) -> list[int]:
        received, _ = await asyncio.wait_for(asyncio.gather(receive_all(consumer), send_all(producer)), 3 * SOON)
        return received

    with (
        client.create_producer(topic) as producer,
        client.subscribe(topic, "s", receiver_queue_size=queue_size) as consumer,
    ):
        assert asyncio.run(both(producer, consumer)) == list(range(count))
