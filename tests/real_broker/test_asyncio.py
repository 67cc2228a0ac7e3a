"""The same asyncio programs with the official module and with ours, on both brokers; and what only ours keeps."""

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

import pulsar_actors.asyncio
from pulsar_actors.asyncio import Client
from pulsar_actors.client.enums import InitialPosition
from pulsar_actors.exceptions import AlreadyClosed
from tests.support.loops import happens
from tests.support.standalone import Standalone
from tests.support.subjects import OPERATION_SECONDS, Broker

LIMIT = 60
SILENT = logging.getLogger("client under test: asyncio")
SILENT.setLevel(logging.CRITICAL + 1)  # the official one's C++ threads would call into Python


def run(main: Any, within: float = LIMIT) -> None:
    async def limited() -> None:
        await asyncio.wait_for(main(), within)

    asyncio.run(limited())


@contextlib.asynccontextmanager
async def opened(module: Any, service_url: str, **options: Any) -> AsyncIterator[Any]:
    """Make a client of a module's asyncio, and close it."""
    usual = {"logger": SILENT, "operation_timeout_seconds": OPERATION_SECONDS}
    client = importlib.import_module(f"{module.__name__}.asyncio").Client(service_url, **{**usual, **options})
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):
            await client.close()


async def send_all(producer: Any, count: int) -> list[Any]:
    return list(await asyncio.gather(*(producer.send(b"%d" % number) for number in range(count))))


@pytest.fixture(params=[0, 3], ids=["one topic", "partitions"])
def any_topic(request: pytest.FixtureRequest, broker: Broker, topic: str) -> str:
    if request.param:
        broker.admin.create_partitioned(topic, request.param)
    return topic


def test_many_sends_at_once_are_received_and_acknowledged(pulsar: Any, broker: Broker, any_topic: str) -> None:
    async def main() -> None:
        async with opened(pulsar, broker.service_url) as client:
            consumer = await client.subscribe(any_topic, "s")
            producer = await client.create_producer(any_topic)
            ids = await send_all(producer, 500)
            assert all(isinstance(one, pulsar.MessageId) for one in ids)
            assert len({(one.ledger_id(), one.entry_id(), one.partition(), one.batch_index()) for one in ids}) == 500
            messages = [await consumer.receive() for _ in range(500)]
            assert sorted(int(message.data()) for message in messages) == list(range(500))
            for message in messages:
                await consumer.acknowledge(message)
            await consumer.close()
            again = await client.subscribe(any_topic, "s")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(again.receive(), 0.5)

    run(main)


def test_a_reader_reads_to_the_end_and_seeks(pulsar: Any, broker: Broker, topic: str) -> None:
    async def main() -> None:
        async with opened(pulsar, broker.service_url) as client:
            producer = await client.create_producer(topic)
            ids = await send_all(producer, 10)
            reader = await client.create_reader(topic, pulsar.MessageId.earliest)
            found = []
            while await reader.has_message_available():
                found.append(int((await reader.read_next()).data()))
            assert found == list(range(10))
            await reader.seek(ids[4])
            assert (await reader.read_next()).data() == b"5"
            await reader.seek(0)
            assert (await reader.read_next()).data() == b"0"

    run(main)


def test_negative_acknowledgements_bring_a_message_again(pulsar: Any, broker: Broker, topic: str) -> None:
    async def main() -> None:
        async with opened(pulsar, broker.service_url) as client:
            consumer = await client.subscribe(
                topic, "s", consumer_type=pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
            )
            producer = await client.create_producer(topic)
            await producer.send(b"a")
            await consumer.negative_acknowledge(await consumer.receive())
            message = await asyncio.wait_for(consumer.receive(), 10)
            assert (message.data(), message.redelivery_count()) == (b"a", 1)
            await consumer.acknowledge(message)

    run(main)


def test_a_schema_that_has_changed_is_decoded_by_its_writer(pulsar: Any, broker: Broker, topic: str) -> None:
    schema = pulsar.schema

    class Old(schema.Record):  # type: ignore[misc, name-defined]
        a = schema.String()

    class New(schema.Record):  # type: ignore[misc, name-defined]
        a = schema.String()
        b = schema.Integer(default=9, required_default=True)

    async def main() -> None:
        async with opened(pulsar, broker.service_url) as client:
            producer = await client.create_producer(topic, schema=schema.AvroSchema(Old))
            await producer.send(Old(a="x"))
            consumer = await client.subscribe(
                topic, "s", schema=schema.AvroSchema(New), initial_position=pulsar.InitialPosition.Earliest
            )
            value = (await consumer.receive()).value()
            assert (value.a, value.b) == ("x", 9)

    run(main)


def test_an_error_has_the_same_result(pulsar: Any, broker: Broker, topic: str) -> None:
    exception = importlib.import_module(f"{pulsar.__name__}.asyncio").PulsarException

    async def main() -> None:
        async with opened(pulsar, broker.service_url) as client:
            first = await client.subscribe(topic, "s")
            with pytest.raises(exception) as busy:
                await client.subscribe(topic, "s")
            assert busy.value.error() == pulsar.Result.ConsumerBusy
            kept = await client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
            with pytest.raises(exception) as fenced:
                await client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
            assert fenced.value.error() == pulsar.Result.ProducerFenced
            assert (first.topic(), kept.topic()) == (topic, topic)

    run(main)


# What the official one does not keep.


def test_no_message_is_lost_by_timeouts(broker: Broker, any_topic: str) -> None:
    async def main() -> None:
        async with opened(pulsar_actors, broker.service_url) as client:
            consumer = await client.subscribe(any_topic, "s")
            producer = await client.create_producer(any_topic, batching_max_publish_delay_ms=1)

            async def trickle() -> None:
                for number in range(300):
                    await producer.send(b"%d" % number)

            sending, found = asyncio.ensure_future(trickle()), list[int]()
            while len(found) < 300:
                with contextlib.suppress(asyncio.TimeoutError):
                    found.append(int((await asyncio.wait_for(consumer.receive(), 0.002)).data()))
            await sending
            assert sorted(found) == list(range(300))

    run(main)


def test_a_table_view_and_listeners_follow_a_topic(broker: Broker, any_topic: str) -> None:
    async def main() -> None:
        async with opened(pulsar_actors, broker.service_url) as client:
            producer = await client.create_producer(any_topic)
            await asyncio.gather(*(producer.send(b"0", partition_key=f"k{number}") for number in range(20)))
            view, updates = await client.create_table_view(any_topic), list[tuple[str, bytes]]()

            async def note(key: str, value: bytes) -> None:
                updates.append((key, value))

            await view.for_each_and_listen(note)
            assert len(updates) == len(view) == 20
            heard: list[bytes] = []

            async def hear(consumer: Any, message: Any) -> None:
                heard.append(message.data())
                await consumer.acknowledge(message)

            listening = await client.subscribe(any_topic, "s", message_listener=hear)
            await producer.send(b"1", partition_key="k7")
            await happens(lambda: heard == [b"1"])
            await view.refresh()
            assert view["k7"] == b"1"
            await happens(lambda: updates[-1] == ("k7", b"1"))
            await listening.close()

    run(main)


def test_a_close_ends_waiting_receives(broker: Broker, topic: str) -> None:
    async def main() -> None:
        async with opened(pulsar_actors, broker.service_url) as client:
            consumer = await client.subscribe(topic, "s")
            reader = await client.create_reader(topic, pulsar_actors.MessageId.earliest)
            waiting = [asyncio.ensure_future(one) for one in (consumer.receive(), reader.read_next())]
            await asyncio.sleep(0.05)
            await client.close()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(one) for one in outcomes] == [AlreadyClosed] * 2

    run(main)


def test_an_ended_loop_leaves_the_subscription_free(broker: Broker, topic: str) -> None:
    kept: list[Any] = []

    async def left_open() -> None:
        client = Client(broker.service_url, operation_timeout_seconds=OPERATION_SECONDS)
        consumer = await client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
        producer = await client.create_producer(topic)
        kept.extend((client, consumer, producer))
        _ = [asyncio.ensure_future(one) for one in (consumer.receive(), consumer.receive(), producer.send(b"a"))]
        await asyncio.sleep(0)

    async def next_one() -> None:
        async with Client(broker.service_url, operation_timeout_seconds=OPERATION_SECONDS) as client:
            consumer = await client.subscribe(topic, "s")  # Exclusive: it would be refused
            assert (await consumer.receive()).data() == b"a"

    run(left_open)
    run(next_one)


def test_a_broker_that_is_killed_during_many_sends_loses_none(crashing: Standalone) -> None:
    topic = "persistent://public/default/crash-asyncio"

    async def main() -> None:
        async with opened(pulsar_actors, crashing.service_url, operation_timeout_seconds=120) as client:
            consumer = await client.subscribe(topic, "s")
            producer = await client.create_producer(
                topic, send_timeout_millis=120_000, max_pending_messages=100, block_if_queue_full=True
            )
            stored = 0

            async def send(number: int) -> None:
                nonlocal stored
                await producer.send(b"%d" % number)
                stored += 1

            sends = [asyncio.ensure_future(send(number)) for number in range(3000)]
            await happens(lambda: stored >= 200)
            await asyncio.to_thread(crashing.kill)
            assert stored < 3000
            await asyncio.to_thread(crashing.start)
            await asyncio.gather(*sends)
            found: set[int] = set()
            while len(found) < 3000:
                message = await consumer.receive()
                found.add(int(message.data()))
                await consumer.acknowledge(message)
            assert found == set(range(3000))

    run(main, 180)
