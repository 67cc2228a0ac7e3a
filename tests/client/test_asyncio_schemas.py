"""`Message.value()` in asyncio: the schema that it needs is there before the message, so it never waits."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_actors import asyncio as aio
from pulsar_actors import schema as schemas
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.enums import InitialPosition
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.exceptions import Timeout
from pulsar_actors.runtime.thread_engine import ThreadEngine
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetSchema
from tests.support.loops import Run, happens

EARLIEST = InitialPosition.Earliest


class Old(schemas.Record):
    a = schemas.String()


class New(schemas.Record):
    b = schemas.Integer(default=9, required=True, required_default=True)
    a = schemas.String()


PAIRS = schemas.KeyValueSchema(schemas.StringSchema(), schemas.AvroSchema(Old))
NEW_PAIRS = schemas.KeyValueSchema(schemas.StringSchema(), schemas.AvroSchema(New))
WRITTEN = New(a="x", b=9)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_value_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a thread that runs an event loop waits."""
    block = ThreadEngine.block

    def refuse(engine: ThreadEngine, future: Any, timeout: float | None, what: str) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return block(engine, future, timeout, what)
        raise AssertionError(f"the loop waits: {what}")

    monkeypatch.setattr(ThreadEngine, "block", refuse)


async def write(client: aio.Client, topic: str, schema: Any, *values: object) -> None:
    async with await client.create_producer(topic, schema=schema) as producer:
        for value in values:
            await producer.send(value)


@pytest.mark.parametrize(
    ("written", "value", "read", "expected"),
    [
        (schemas.AvroSchema(Old), Old(a="x"), schemas.AvroSchema(New), WRITTEN),
        (PAIRS, ("k", Old(a="x")), NEW_PAIRS, ("k", WRITTEN)),
        (schemas.JsonSchema(Old), Old(a="x"), schemas.AutoConsumeSchema(), None),
    ],
)
def test_every_way_to_a_message_brings_its_schema(  # noqa: PLR0913 - a row of a table
    broker: EmbeddedBroker, topic: str, run: Run, written: Any, value: Any, read: Any, expected: Any
) -> None:
    found: list[Any] = []

    async def receive(client: aio.Client, way: str) -> None:
        if way == "reader":
            reader = await client.create_reader(topic, MessageId.earliest, schema=read)
            found.append((await reader.read_next()).value())
            return
        consumer = await client.subscribe(
            topic,
            way,
            schema=read,
            initial_position=EARLIEST,
            message_listener=(lambda _, message: found.append(message.value())) if way == "listener" else None,
            batch_receive_policy=ConsumerBatchReceivePolicy(1, -1, 1000),
        )
        if way == "receive":
            found.append((await consumer.receive()).value())
        elif way == "batch_receive":
            found.extend(message.value() for message in await consumer.batch_receive())
        elif way == "async for":
            async for message in consumer:
                found.append(message.value())
                break
        else:
            await happens(lambda: len(found) == 5)

    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await write(client, topic, written, value)
        for way in ("receive", "batch_receive", "async for", "reader", "listener"):
            async with aio.Client(broker.service_url) as client:  # which has seen no schema yet
                await receive(client, way)
        assert len(found) == 5
        if expected is None:
            assert [record["a"] for record in found] == ["x"] * 5
        else:
            assert found == [expected] * 5

    run(main)


def test_a_version_is_looked_up_once_for_all_its_messages(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await write(client, topic, schemas.AvroSchema(Old), *(Old(a=str(number)) for number in range(20)))
            await write(client, topic, schemas.AvroSchema(New), New(a="new", b=1))
            consumer = await client.subscribe(topic, "s", schema=schemas.AvroSchema(New), initial_position=EARLIEST)
            lookups = broker.faults.on(CommandGetSchema, times=None).delay(0.01)
            received = await asyncio.gather(*(consumer.receive() for _ in range(21)))
            assert sorted(message.value().a for message in received) == sorted([*map(str, range(20)), "new"])
            assert lookups.happened == 2

    run(main)


def test_a_cancelled_lookup_gives_the_message_back_to_whoever_waits(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await write(client, topic, schemas.AvroSchema(Old), Old(a="x"))
            consumer = await client.subscribe(topic, "s", schema=schemas.AvroSchema(New), initial_position=EARLIEST)
            await happens(lambda: consumer.stats().queued)
            stalled = broker.faults.on(CommandGetSchema).stall()
            first, second = asyncio.ensure_future(consumer.receive()), asyncio.ensure_future(consumer.receive())
            await happens(lambda: stalled.happened)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            stalled.release()
            assert (await second).value() == WRITTEN

    run(main)


def test_a_timeout_during_the_lookup_gives_the_message_back(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await write(client, topic, schemas.AvroSchema(Old), Old(a="x"))
            consumer = await client.subscribe(topic, "s", schema=schemas.AvroSchema(New), initial_position=EARLIEST)
            await happens(lambda: consumer.stats().queued)
            stalled = broker.faults.on(CommandGetSchema).stall()
            with pytest.raises(Timeout):
                await consumer.receive(timeout_millis=20)
            stalled.release()
            assert (await consumer.receive(5000)).value() == WRITTEN

    run(main)


def test_without_an_answer_the_message_comes_and_its_value_raises(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url, operation_timeout_seconds=2) as client:
            await write(client, topic, schemas.AvroSchema(Old), Old(a="x"), Old(a="y"))
            consumer = await client.subscribe(topic, "s", schema=schemas.AvroSchema(New), initial_position=EARLIEST)
            broker.faults.on(CommandGetSchema, times=2).drop()
            message = await consumer.receive()
            assert message.data() == b"\x02\x02x"
            for _ in range(2):
                with pytest.raises(Timeout):
                    message.value()
            other = await consumer.receive()
            with pytest.raises(Timeout):
                other.value()
            await consumer.seek(MessageId.earliest)
            assert (await consumer.receive()).value() == WRITTEN
            assert message.value() == WRITTEN

    run(main)
