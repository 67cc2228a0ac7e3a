"""Listeners of asyncio: who is called, in which order, and what an error, a pause and a close do."""

import asyncio

import pytest

from pulsar_actors import asyncio as aio
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration
from tests.support.loops import Run, happens


async def send_all(client: aio.Client, topic: str, *payloads: bytes) -> None:
    async with await client.create_producer(topic) as producer:
        await asyncio.gather(*(producer.send(payload) for payload in payloads))


def test_a_coroutine_function_is_awaited_for_one_message_after_the_other(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            heard: list[bytes] = []
            running = 0

            async def hear(consumer: aio.Consumer, message: Message) -> None:
                nonlocal running
                running += 1
                assert running == 1
                await asyncio.sleep(0.001)
                heard.append(message.data())
                await consumer.acknowledge(message)
                running -= 1

            consumer = await client.subscribe(topic, "s", message_listener=hear)
            await send_all(client, topic, *(b"%d" % number for number in range(20)))
            await happens(lambda: len(heard) == 20)
            assert heard == [b"%d" % number for number in range(20)]
            with pytest.raises(InvalidConfiguration, match="listener"):
                await consumer.receive()
            with pytest.raises(InvalidConfiguration, match="listener"):
                await consumer.batch_receive()

    run(main)


def test_a_plain_function_is_called_on_the_loop_and_its_error_is_logged(
    broker: EmbeddedBroker, topic: str, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            heard: list[bytes] = []

            def hear(reader: aio.Reader, message: Message) -> None:
                asyncio.get_running_loop()
                heard.append(message.data())
                if len(heard) == 1:
                    raise ValueError("of the listener")

            reader = await client.create_reader(topic, MessageId.earliest, reader_listener=hear)
            await send_all(client, topic, b"a", b"b")
            await happens(lambda: heard == [b"a", b"b"])
            await reader.close()

    run(main)
    assert "of the listener" in caplog.text


def test_a_paused_listener_is_called_later(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            heard: list[bytes] = []
            consumer = await client.subscribe(
                topic, "s", message_listener=lambda _, message: heard.append(message.data()), start_paused=True
            )
            await send_all(client, topic, b"a")
            await happens(lambda: consumer.stats().queued)
            assert heard == []
            consumer.resume_message_listener()
            await happens(lambda: heard == [b"a"])
            consumer.pause_message_listener()
            await send_all(client, topic, b"b")
            await asyncio.sleep(0.05)
            assert heard == [b"a"]
            other = await client.subscribe(topic, "other")
            with pytest.raises(InvalidConfiguration, match="no message_listener"):
                other.pause_message_listener()

    run(main)


def test_a_message_that_comes_in_a_pause_is_kept_unless_a_seek_voids_it(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            heard: list[bytes] = []
            consumer = await client.subscribe(
                topic, "s", message_listener=lambda _, message: heard.append(message.data())
            )
            await send_all(client, topic, b"a")
            await happens(lambda: heard == [b"a"])
            for number, payload in ((2, b"b"), (3, b"c")):
                consumer.pause_message_listener()  # while it waits for this message
                await send_all(client, topic, payload)
                await happens(lambda number=number: consumer.stats().received == number)
                assert payload not in heard
                if number == 3:
                    heard.clear()
                    await consumer.seek(MessageId.earliest)
                consumer.resume_message_listener()
                await happens(lambda payload=payload: payload in heard)
                assert heard[:number] == [b"a", b"b", b"c"][:number]

    run(main)


@pytest.mark.parametrize("closing", ["consumer", "client"])
def test_a_close_waits_for_the_call_that_runs(broker: EmbeddedBroker, topic: str, run: Run, closing: str) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            begun, ended = asyncio.Event(), False

            async def hear(_: aio.Consumer, __: Message) -> None:
                nonlocal ended
                begun.set()
                await asyncio.sleep(0.1)
                ended = True

            consumer = await client.subscribe(topic, "s", message_listener=hear)
            await send_all(client, topic, b"a", b"b")
            await begun.wait()
            await (consumer if closing == "consumer" else client).close()
            assert ended

    run(main)


def test_a_listener_may_close_its_consumer(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            heard = list[bytes]()

            async def hear(consumer: aio.Consumer, message: Message) -> None:
                heard.append(message.data())
                await asyncio.gather(consumer.close())  # in a task of its own

            consumer = await client.subscribe(topic, "s", message_listener=hear)
            await send_all(client, topic, b"a", b"b")
            await happens(lambda: not consumer.is_open)
            assert heard == [b"a"]

    run(main)


def test_a_loop_ends_with_a_listener_paused_or_busy(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        client = aio.Client(broker.service_url)
        await client.subscribe(topic, "s", message_listener=print, start_paused=True)
        begun = asyncio.Event()

        async def hear(_: aio.Consumer, __: Message) -> None:
            begun.set()
            await asyncio.sleep(0.05)

        await client.subscribe(topic, "busy", message_listener=hear)
        await send_all(client, topic, b"a")
        await begun.wait()

    run(main)


def test_the_active_consumer_is_told_with_the_consumer_of_asyncio(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        told: list[tuple[object, int]] = []

        class Events:
            async def became_active(self, consumer: aio.Consumer, partition: int) -> None:
                asyncio.get_running_loop()
                told.append((consumer, partition))

            def became_inactive(self, consumer: aio.Consumer, partition: int) -> None:
                told.append((consumer, partition))

        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe(
                topic, "s", consumer_type=ConsumerType.Failover, consumer_event_listener=Events()
            )
            await happens(lambda: told)
            assert told[0] == (consumer, -1)

    run(main)


def test_what_is_no_listener_is_refused(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            with pytest.raises(InvalidArgument, match="message_listener"):
                await client.subscribe(topic, "s", message_listener=7)  # type: ignore[arg-type]
            with pytest.raises(InvalidConfiguration, match="start_paused"):
                await client.subscribe(topic, "s", start_paused=True)

    run(main)
