"""The asyncio client, on the embedded broker, with asyncio's loop and uvloop."""

import asyncio
import contextlib
import gc
import threading
from typing import Any

import pytest

from pulsar_actors import asyncio as aio
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.enums import InitialPosition
from pulsar_actors.client.handle import state_of
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.exceptions import (
    AlreadyClosed,
    InvalidArgument,
    ProducerBusy,
    ProducerQueueIsFull,
    SendManyFailed,
    Timeout,
    TransactionHasOperationFailed,
)
from pulsar_actors.wire.PulsarApi_pb2 import CommandSendReceipt
from tests.support.life import until
from tests.support.loops import SOON, Run, happens


def test_many_sends_at_once_are_stored_and_received_in_order(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client, await client.subscribe(topic, "s") as consumer:
            async with await client.create_producer(topic) as producer:
                ids = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(500)))
                assert len(set(ids)) == 500
            for number in range(500):
                message = await consumer.receive()
                assert message.data() == b"%d" % number
                await consumer.acknowledge(message)
            with pytest.raises(Timeout):
                await consumer.receive(timeout_millis=1)

    run(main)


def test_many_are_sent_and_received_by_one_call_each(broker: EmbeddedBroker, any_topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client, await client.subscribe(any_topic, "s") as consumer:
            producer = await client.create_producer(any_topic, max_pending_messages=7, block_if_queue_full=True)
            ids = await producer.send_many([b"%d" % number for number in range(50)], ids=True)
            assert len(set(ids)) == 50
            assert await producer.send_many([]) == 0
            reader = await client.create_reader(any_topic, MessageId.earliest)
            for read in (reader.read_many, consumer.receive_many):
                got: list[Message] = []
                while len(got) < 50:
                    part = await read(20)
                    assert 1 <= len(part) <= 20
                    got += part
                assert sorted(int(message.data()) for message in got) == list(range(50))
                assert {message.message_id() for message in got} == set(ids)
                with pytest.raises(Timeout):
                    await read(20, timeout_millis=1)
            await consumer.acknowledge(got)
            with pytest.raises(InvalidArgument, match="max_messages"):
                await consumer.receive_many(0)

    run(main)


def test_of_many_those_that_are_not_stored_are_named(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            producer = await client.create_producer(topic, max_pending_messages=3, batching_enabled=True)
            stalled = broker.faults.on(CommandSendReceipt).stall()
            sending = asyncio.ensure_future(producer.send_many([b"%d" % number for number in range(5)]))
            await happens(lambda: producer.stats().pending == 3)
            stalled.release()
            with pytest.raises(SendManyFailed) as caught:
                await sending
            assert list(caught.value.errors) == [3, 4]
            assert {type(one) for one in caught.value.errors.values()} == {ProducerQueueIsFull}
            assert producer.stats().failed == 2
            with pytest.raises(InvalidArgument, match="contents"):
                await producer.send_many(b"bytes")  # type: ignore[arg-type]
            await producer.close()
            with pytest.raises(SendManyFailed, match="AlreadyClosed"):
                await producer.send_many([b"x"])

    run(main)


def test_what_is_sent_after_many_that_wait_for_room_stays_behind_them(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            options: dict[str, Any] = {"batching_enabled": True, "max_pending_messages": 3, "block_if_queue_full": True}
            producer = await client.create_producer(topic, **options)
            stalled = broker.faults.on(CommandSendReceipt).stall()
            first = asyncio.ensure_future(producer.send_many([b"0", b"1", b"2", b"3"]))
            await happens(lambda: producer.stats().pending == 3)
            stalled.release()
            until(lambda: producer.stats().pending == 0)  # the loop stands still: the call cannot have gone on
            await asyncio.gather(first, producer.send(b"4"))
            reader = await client.create_reader(topic, MessageId.earliest)
            assert [(await reader.read_next()).data() for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]

    run(main)


def test_no_send_overtakes_those_that_wait_for_room_at_any_turn_of_the_loop(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            options: dict[str, Any] = {"batching_enabled": True, "max_pending_messages": 5, "block_if_queue_full": True}
            producer = await client.create_producer(topic, **options)
            stalled = broker.faults.on(CommandSendReceipt).stall()
            sends = [asyncio.ensure_future(producer.send(b"%d" % number)) for number in range(7)]
            await happens(lambda: producer.stats().pending == 5)
            stalled.release()
            until(lambda: producer.stats().pending == 0)
            while len(sends) < 20:  # one at each turn, also just when the first of those that wait has gone on
                sends.append(asyncio.ensure_future(producer.send(b"%d" % len(sends))))
                await asyncio.sleep(0)
            await asyncio.gather(*sends)
            reader = await client.create_reader(topic, MessageId.earliest)
            assert [int((await reader.read_next()).data()) for _ in sends] == list(range(20))

    run(main)


def test_a_cancelled_send_of_many_sends_what_is_in_the_queue_and_no_more(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            options: dict[str, Any] = {"batching_enabled": True, "max_pending_messages": 3, "block_if_queue_full": True}
            producer = await client.create_producer(topic, **options)
            stalled = broker.faults.on(CommandSendReceipt).stall()
            said: list[str] = []

            async def send_many(*contents: bytes) -> None:
                try:
                    await producer.send_many(contents)
                except asyncio.CancelledError as error:  # who awaits the task gets no text in Python 3.10
                    said.append(str(error))

            waiting = asyncio.ensure_future(send_many(b"0", b"1", b"2", b"no room"))
            behind = asyncio.ensure_future(producer.send_many([b"3", b"4"]))
            await happens(lambda: producer.stats().pending == 3)
            waiting.cancel()
            await waiting
            assert "the messages that are in the queue are sent" in said[0]
            stalled.release()
            assert await behind == 2
            stalled = broker.faults.on(CommandSendReceipt).stall()
            queued = asyncio.ensure_future(send_many(b"5"))
            await happens(lambda: producer.stats().pending == 1)
            queued.cancel()
            await queued
            assert "they are sent all the same" in said[1]
            stalled.release()
            await producer.flush()
            reader = await client.create_reader(topic, MessageId.earliest)
            got = [(await reader.read_next()).data() for _ in range(6)]
            assert state_of(producer._handle).send_callbacks.calls == {}
            assert got == [b"0", b"1", b"2", b"3", b"4", b"5"]

    run(main)


@pytest.mark.parametrize("many", [False, True])
def test_a_send_that_is_cancelled_in_the_wait_for_room_does_not_keep_its_transaction_open(
    broker: EmbeddedBroker, topic: str, run: Run, *, many: bool
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            options: dict[str, Any] = {"batching_enabled": True, "max_pending_messages": 1, "block_if_queue_full": True}
            producer = await client.create_producer(topic, **options)
            transaction = await client.new_transaction()
            stalled = broker.faults.on(CommandSendReceipt).stall()
            first = asyncio.ensure_future(producer.send(b"0"))
            await happens(lambda: producer.stats().pending == 1)
            send = producer.send_many([b"1"], transaction=transaction) if many else None
            waiting = asyncio.ensure_future(send or producer.send(b"1", transaction=transaction))
            await happens(producer._for_room.locked)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            stalled.release()
            await first
            with pytest.raises(TransactionHasOperationFailed):
                await asyncio.wait_for(transaction.commit(), SOON)

    run(main)


@pytest.mark.parametrize("many", [False, True], ids=["receive", "receive_many"])
def test_a_cancelled_receive_loses_no_message_whenever_it_is_cancelled(
    broker: EmbeddedBroker,
    topic: str,
    run: Run,
    many: bool,  # noqa: FBT001 - a parameter
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client, await client.subscribe(topic, "s") as consumer:

            async def receive(most: int) -> list[Message]:
                return await consumer.receive_many(most) if many else [await consumer.receive()]

            producer = await client.create_producer(topic, batching_max_publish_delay_ms=1)
            got: list[bytes] = []
            sends = asyncio.gather(*(sent_slowly(producer, number) for number in range(200)))
            tries = 0
            while len(got) < 200:
                task = asyncio.ensure_future(receive(1 + tries % 4))
                for _ in range(tries % 7):
                    await asyncio.sleep(0)
                if tries % 3 == 0:
                    await asyncio.sleep(tries % 5 / 1000)
                task.cancel()
                tries += 1
                with contextlib.suppress(asyncio.CancelledError):
                    got += [message.data() for message in await task]
            await sends
            assert sorted(got) == sorted(b"%d" % number for number in range(200))

    async def sent_slowly(producer: aio.Producer, number: int) -> None:
        await asyncio.sleep(number / 500)
        await producer.send(b"%d" % number)

    run(main)


def test_a_message_that_has_woken_a_cancelled_receive_goes_to_the_next(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client, await client.subscribe(topic, "s") as consumer:
            producer = await client.create_producer(topic)
            first, second = asyncio.ensure_future(consumer.receive()), asyncio.ensure_future(consumer.receive())
            await asyncio.sleep(0)
            sending = asyncio.ensure_future(producer.send(b"a"))
            await asyncio.sleep(0)
            until(lambda: consumer.stats().queued)  # the loop stands still meanwhile, so nothing is taken
            first.cancel()
            assert (await second).data() == b"a"
            await sending
            with pytest.raises(asyncio.CancelledError):
                await first

    run(main)


def test_wait_for_gives_up_and_the_message_comes_later(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client, await client.subscribe(topic, "s") as consumer:
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(consumer.receive(), 0.01)
            async with await client.create_producer(topic) as producer:
                await producer.send(b"a")
            assert (await consumer.receive(5000)).data() == b"a"

    run(main)


def test_a_cancelled_send_says_that_the_message_is_sent(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client, await client.subscribe(topic, "s") as consumer:
            producer = await client.create_producer(topic, batching_max_publish_delay_ms=50)
            caught: list[asyncio.CancelledError] = []

            async def send() -> None:
                try:
                    await producer.send(b"a")
                except asyncio.CancelledError as error:
                    caught.append(error)

            task = asyncio.ensure_future(send())
            await asyncio.sleep(0)
            task.cancel()
            await task
            assert "is sent all the same" in str(caught[0])
            assert (await consumer.receive(5000)).data() == b"a"

    run(main)


def test_a_full_queue_raises_or_is_waited_for(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client, await client.subscribe(topic, "s") as consumer:
            producer = await client.create_producer(topic, max_pending_messages=5)
            outcomes = await asyncio.gather(*(producer.send(b"x") for _ in range(50)), return_exceptions=True)
            assert any(isinstance(one, ProducerQueueIsFull) for one in outcomes)
            await producer.close()
            stored = sum(isinstance(one, MessageId) for one in outcomes)
            for _ in range(stored):
                await consumer.receive()
            producer = await client.create_producer(topic, max_pending_messages=5, block_if_queue_full=True)
            sends = [asyncio.ensure_future(producer.send(b"%d" % number)) for number in range(100)]
            await asyncio.sleep(0)
            sends[50].cancel()
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
            assert isinstance(outcomes[50], asyncio.CancelledError)
            expected = [b"%d" % number for number in range(100) if number != 50]
            assert [(await consumer.receive(5000)).data() for _ in expected] == expected

    run(main)


def test_async_for_ends_when_the_consumer_is_closed(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe(topic, "s")
            async with await client.create_producer(topic) as producer:
                await producer.send(b"a")
            got = []
            async for message in consumer:
                got.append(message.data())
                closing = asyncio.ensure_future(consumer.close())
            await closing
            assert got == [b"a"]
            with pytest.raises(AlreadyClosed):
                await consumer.receive()

    run(main)


def test_a_waiting_receive_fails_when_the_consumer_is_closed(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe(topic, "s")
            receiving = asyncio.ensure_future(consumer.receive())
            await asyncio.sleep(0)
            await consumer.close()
            with pytest.raises(AlreadyClosed):
                await receiving

    run(main)


def test_a_reader_reads_seeks_and_knows_if_there_is_more(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            async with await client.create_producer(topic) as producer:
                await asyncio.gather(*(producer.send(payload) for payload in (b"a", b"b")))
                await producer.flush()
            async with await client.create_reader(topic, MessageId.earliest) as reader:
                assert [(await reader.read_next()).data() for _ in range(2)] == [b"a", b"b"]
                assert not await reader.has_message_available()
                await reader.seek(MessageId.earliest)
                assert await reader.has_message_available()
                assert (await reader.read_next()).data() == b"a"
            assert await client.get_topic_partitions(topic) == [topic]
            assert client.get_service_info().service_url == broker.service_url

    run(main)


def test_a_cancelled_batch_receive_leaves_its_messages(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            policy = ConsumerBatchReceivePolicy(3, -1, 10_000)
            consumer = await client.subscribe(topic, "s", batch_receive_policy=policy)
            async with await client.create_producer(topic) as producer:
                await asyncio.gather(*(producer.send(payload) for payload in (b"a", b"b")))
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(consumer.batch_receive(), 0.2)
                await producer.send(b"c")
                assert [message.data() for message in await consumer.batch_receive()] == [b"a", b"b", b"c"]

    run(main)


def test_a_seek_during_a_batch_receive_voids_what_it_had(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            policy = ConsumerBatchReceivePolicy(3, -1, -1)
            consumer = await client.subscribe(topic, "s", batch_receive_policy=policy)
            async with await client.create_producer(topic) as producer:
                receiving = asyncio.ensure_future(consumer.batch_receive())
                await producer.send(b"a")
                await producer.send(b"b")
                await happens(lambda: consumer.stats().received == 2)
                await consumer.seek(MessageId.earliest)
                await producer.send(b"c")
                assert [message.data() for message in await receiving] == [b"a", b"b", b"c"]

    run(main)


def test_a_batch_has_no_more_bytes_than_the_policy_says(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            policy = ConsumerBatchReceivePolicy(-1, 4, 5_000)
            consumer = await client.subscribe(topic, "s", batch_receive_policy=policy)
            async with await client.create_producer(topic) as producer:
                for payload in (b"aa", b"bb", b"c", b"large", b"d"):
                    await producer.send(payload)
                for batch in ([b"aa", b"bb"], [b"c"], [b"large"]):
                    assert [message.data() for message in await consumer.batch_receive()] == batch
                assert (await consumer.receive()).data() == b"d"

    run(main)


def test_acks_nacks_and_questions(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            consumer = await client.subscribe(
                topic, "s", negative_ack_redelivery_delay_ms=100, ack_receipt_enabled=True,
                initial_position=InitialPosition.Earliest,
            )  # fmt: skip
            async with await client.create_producer(topic, batching_enabled=False) as producer:
                ids = [await producer.send(payload) for payload in (b"a", b"b", b"c")]
            messages = [await consumer.receive() for _ in range(3)]
            assert await consumer.get_last_message_id() == ids[-1]
            await consumer.acknowledge(messages[0])
            await consumer.negative_acknowledge(messages[1])
            assert (await consumer.receive(5000)).data() == b"b"
            await consumer.acknowledge_cumulative(messages[2])
            assert consumer.stats().received >= 4
            await consumer.unsubscribe()

    run(main)


def test_a_pattern_is_a_str(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            async with await client.create_producer(topic) as producer:
                consumer = await client.subscribe(topic + ".*", "s", is_pattern_topic=True)
                await producer.send(b"a")
                assert (await consumer.receive()).data() == b"a"
            with pytest.raises(ValueError, match="is_pattern_topic"):
                await client.subscribe([topic], "s", is_pattern_topic=True)

    run(main)


def test_a_cancelled_create_closes_what_it_made(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            for ticks in range(4):
                task = asyncio.ensure_future(client.create_producer(topic, producer_name="same"))
                for _ in range(ticks):
                    await asyncio.sleep(0)
                if not task.cancel():  # a busy machine: the broker's answer came before
                    await (await task).close()
                    continue
                with pytest.raises(asyncio.CancelledError):
                    await task
            producer = None
            while producer is None:  # the name is free as soon as the broker has closed the last of them
                with contextlib.suppress(ProducerBusy):
                    producer = await client.create_producer(topic, producer_name="same")
            async with producer:
                assert producer.producer_name() == "same"

    run(main)


def test_another_loop_gets_a_clear_error(broker: EmbeddedBroker, topic: str) -> None:
    client = aio.Client(broker.service_url)
    loop = asyncio.new_event_loop()
    try:
        producer = loop.run_until_complete(client.create_producer(topic))
        with pytest.raises(RuntimeError, match="belongs to the event loop"):
            asyncio.run(client.create_producer(topic))
        with pytest.raises(RuntimeError, match="belongs to the event loop"):
            asyncio.run(producer.send(b"a"))
        with pytest.raises(RuntimeError, match="no running event loop"):
            producer.send(b"a").send(None)
        loop.run_until_complete(client.close())
    finally:
        loop.close()


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if "pulsar" in thread.name.lower()}


def test_a_client_that_is_not_closed_ends_with_asyncio_run(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    before = threads()
    kept: list[Any] = []

    async def main() -> None:
        client = aio.Client(broker.service_url)
        producer, consumer = await client.create_producer(topic), await client.subscribe(topic, "s")
        kept.extend((client, producer, consumer, asyncio.ensure_future(producer.send(b"a"))))
        kept.append(asyncio.ensure_future(consumer.receive()))
        await asyncio.sleep(0)
        kept[-1].cancel()
        await kept[-2]

    run(main)
    until(lambda: threads() <= before)
    assert not kept[1].is_open


def test_a_loop_that_is_closed_without_anything_leaves_no_threads(broker: EmbeddedBroker, topic: str) -> None:
    before = threads()
    raised: list[Any] = []
    threading.excepthook, hook = raised.append, threading.excepthook
    try:
        loop = asyncio.new_event_loop()

        async def main() -> aio.Client:
            client = aio.Client(broker.service_url)
            producer = await client.create_producer(topic)
            broker.faults.on(CommandSendReceipt).stall()
            for _ in range(100):
                coroutine = producer.send(b"a")
                coroutine.send(None)
                coroutine.close()
            return client

        client = loop.run_until_complete(main())
        loop.close()
        broker.faults.clear()  # the receipts come when there is no loop any more
        until(lambda: threads() <= before)
        del client
        gc.collect()
        assert raised == []
    finally:
        threading.excepthook = hook


def test_several_loops_in_one_process(broker: EmbeddedBroker, topic: str) -> None:
    outcomes: list[bytes] = []

    def work(number: int) -> None:
        async def main() -> None:
            async with aio.Client(broker.service_url) as client:
                consumer = await client.subscribe(f"{topic}-{number}", "s")
                producer = await client.create_producer(f"{topic}-{number}")
                await producer.send(b"%d" % number)
                outcomes.append((await consumer.receive()).data())

        asyncio.run(main())

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(SOON)
    assert sorted(outcomes) == [b"0", b"1", b"2", b"3"]
