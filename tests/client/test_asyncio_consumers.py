"""Every kind of consumer in asyncio: partitions, several topics, patterns, no queue, interceptors, retries."""

import asyncio
from typing import Any

import pytest

from pulsar_actors import asyncio as aio
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.enums import ConsumerType, InitialPosition, Result
from pulsar_actors.client.interceptors import ConsumerInterceptor, MessageToSend, ProducerInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy
from pulsar_actors.exceptions import (
    AlreadyClosed,
    ConsumerBusy,
    CumulativeAcknowledgementNotAllowedError,
    InvalidArgument,
    PulsarException,
    Timeout,
    TopicTerminated,
)
from tests.support.life import until
from tests.support.loops import Run
from tests.support.topics import terminate

EARLIEST = InitialPosition.Earliest


async def send_all(client: aio.Client, topic: str, *payloads: bytes) -> list[MessageId]:
    async with await client.create_producer(topic) as producer:
        return list(await asyncio.gather(*(producer.send(payload) for payload in payloads)))


async def receive_all(consumer: aio.Consumer, count: int) -> list[bytes]:
    messages = [await consumer.receive(5000) for _ in range(count)]
    for message in messages:
        await consumer.acknowledge(message)
    return sorted(message.data() for message in messages)


def test_what_is_queued_comes_once_and_in_order_after_a_lost_connection(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    payloads = [b"%02d" % number for number in range(30)]

    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe(topic, "s")
            await send_all(client, topic, *payloads)
            await consumer.acknowledge(await consumer.receive(5000))
            broker.cut_connections()
            await asyncio.to_thread(until, lambda: consumer.stats().reconnects == 1 and consumer.is_connected())
            assert await receive_all(consumer, 29) == payloads[1:]
            with pytest.raises(Timeout):
                await consumer.receive(100)

    run(main)


def test_partitions_lists_and_patterns_are_received_from_and_sought_in(
    broker: EmbeddedBroker, topic: str, parts: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            one, two = f"{topic}-one", f"{topic}-two"
            sent = [await send_all(client, name, b"a", b"b") for name in (parts, one, two)]
            assert len({message_id.partition() for message_id in sent[0]}) >= 1
            by_pattern = await client.subscribe(f"{topic}-.*", "s", is_pattern_topic=True, initial_position=EARLIEST)
            of_list = await client.subscribe([one, two], "list", initial_position=EARLIEST)
            of_parts = await client.subscribe(parts, "parts", initial_position=EARLIEST)
            assert await receive_all(by_pattern, 4) == [b"a", b"a", b"b", b"b"]
            assert await receive_all(of_list, 4) == [b"a", b"a", b"b", b"b"]
            assert await receive_all(of_parts, 2) == [b"a", b"b"]
            await of_parts.seek(MessageId.earliest)
            assert await receive_all(of_parts, 2) == [b"a", b"b"]
            assert await client.get_topic_partitions(parts) == [f"{parts}-partition-{number}" for number in range(2)]

    run(main)


def test_without_a_queue_a_message_is_asked_for_when_a_task_waits(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            options: dict[str, Any] = {"consumer_type": ConsumerType.Shared, "receiver_queue_size": 0}
            first, second = [await client.subscribe(topic, "s", **options) for _ in range(2)]
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(first.receive(), 0.01)
            async with await client.create_producer(topic, batching_enabled=False) as producer:
                for payload in (b"a", b"b", b"c"):
                    await producer.send(payload)
            got = await receive_all(second, 2)  # the broker has one request of the three cancelled calls, not three
            assert sorted(got + await receive_all(first, 1)) == [b"a", b"b", b"c"]

    run(main)


def test_interceptors_see_what_is_sent_and_received(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    seen: list[Any] = []

    class Sends(ProducerInterceptor):
        def before_send(self, producer: object, message: MessageToSend) -> MessageToSend:
            return message._replace(content=b"changed")

        def on_send_acknowledgement(self, producer: object, message: object, message_id: object, error: object) -> None:
            seen.append((message_id, error))

    class Receives(ConsumerInterceptor):
        def before_consume(self, consumer: object, message: Message) -> Message:
            seen.append(message.data())
            return message

    async def main() -> None:
        seen.clear()
        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe(topic, "s", interceptors=[Receives()], initial_position=EARLIEST)
            producer = await client.create_producer(topic, interceptors=[Sends()])
            sent = await producer.send(b"a")
            message = await consumer.receive()
            assert seen == [(sent, None), b"changed"]
            await consumer.acknowledge(message)

    run(main)


def test_retries_and_dead_letters(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe(
                topic, "s", consumer_type=ConsumerType.Shared, enable_retry=True, initial_position=EARLIEST,
                dead_letter_policy=ConsumerDeadLetterPolicy(1, f"{topic}-dead", "dead"),
            )  # fmt: skip
            dead = await client.subscribe(f"{topic}-dead", "s", initial_position=EARLIEST)
            await send_all(client, topic, b"a")
            for _ in range(2):
                await consumer.reconsume_later(await consumer.receive(5000), 0)
            assert (await dead.receive(5000)).data() == b"a"

    run(main)


def test_errors_are_those_of_the_synchronous_client_and_have_a_result(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe(topic, "s")
            with pytest.raises(ConsumerBusy) as busy:
                await client.subscribe(topic, "s")
            assert busy.value.error() is Result.ConsumerBusy
            shared = await client.subscribe(topic, "t", consumer_type=ConsumerType.Shared)
            with pytest.raises(CumulativeAcknowledgementNotAllowedError) as refused:
                await shared.acknowledge_cumulative(MessageId(-1, 1, 1))
            assert refused.value.error() is Result.CumulativeAcknowledgementNotAllowedError
            with pytest.raises(Timeout) as late:
                await consumer.receive(1)
            assert late.value.error() is Result.Timeout
            await consumer.close()
            with pytest.raises(PulsarException) as closed:
                await consumer.receive()
            assert closed.value.error() is Result.AlreadyClosed
        with pytest.raises(AlreadyClosed):
            await client.create_producer(topic)

    run(main)


def test_async_for_ends_with_a_terminated_topic_and_a_break_leaves_the_rest(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await send_all(client, topic, b"a", b"b", b"c")
            terminate(broker, topic)
            async with await client.create_reader(topic, MessageId.earliest) as reader:
                async for message in reader:
                    assert message.data() == b"a"
                    break
                assert [message.data() async for message in reader] == [b"b", b"c"]
                assert reader.has_reached_end_of_topic()
                with pytest.raises(TopicTerminated):
                    await reader.read_next()

    run(main)


def test_several_tasks_share_a_consumer_and_each_message_goes_to_one(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe(topic, "s")
            got: list[bytes] = []

            async def work() -> None:
                async for message in consumer:
                    got.append(message.data())
                    await consumer.acknowledge(message)
                    if len(got) == 300:
                        await consumer.close()

            workers = [asyncio.ensure_future(work()) for _ in range(5)]
            await send_all(client, topic, *(b"%d" % number for number in range(300)))
            await asyncio.gather(*workers)
            assert sorted(got) == sorted(b"%d" % number for number in range(300))

    run(main)


def test_an_id_made_of_its_numbers_is_acknowledged_or_refused(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe(topic, "s")
            async with await client.create_producer(topic, batching_enabled=True) as producer:
                await producer.send(b"x")
            sent = (await consumer.receive(5000)).message_id()
            made = MessageId(sent.partition(), sent.ledger_id(), sent.entry_id(), sent.batch_index())
            with pytest.raises(InvalidArgument, match="no such batch"):
                await consumer.acknowledge(MessageId(-1, sent.ledger_id(), sent.entry_id() + 1, 0))
            await consumer.acknowledge(made)
            await consumer.close()
            again = await client.subscribe(topic, "s")
            with pytest.raises(Timeout):
                await again.receive(300)

    run(main)
