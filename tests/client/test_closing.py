"""What was handed over before a close is sent, whichever state the producer or consumer is in."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerType, InitialPosition, Result
from pulsar_actors.client.interceptors import MessageToSend
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producer import Producer
from pulsar_actors.exceptions import AlreadyClosed, Timeout
from pulsar_actors.testing import Simulation

MESSAGES = 50
KEYS = [f"key {number}" for number in range(MESSAGES)]
LIMIT = 5
"""The operation timeout, in seconds."""

End: TypeAlias = Callable[[Client, list[Producer]], None]


def close_the_producer(_: Client, handles: list[Producer]) -> None:
    handles.pop().close()


def close_the_client(client: Client, _: list[Producer]) -> None:
    client.close()


def leave_a_with_block(_: Client, handles: list[Producer]) -> None:
    with handles.pop():
        pass


def drop_the_handle(_: Client, handles: list[Producer]) -> None:
    handles.pop()
    gc.collect()


every_end = pytest.mark.parametrize("end", [close_the_producer, close_the_client, leave_a_with_block, drop_the_handle])


def send_all(producer: Producer) -> list[Result]:
    """Hand over all messages, and return the list that their results come to."""
    results: list[Result] = []
    for key in KEYS:
        producer.send_async(b"x", lambda result, _: results.append(result), partition_key=key)
    return results


def stored(simulation: Simulation, topic: str) -> int:
    reader = simulation.client().create_reader(topic, MessageId.earliest)
    count = 0
    while reader.has_message_available():
        reader.read_next()
        count += 1
    return count


# A lazy producer: most of its partitions have no producer yet.


@every_end
def test_messages_of_a_lazy_producer_are_sent_before_it_ends(end: End) -> None:
    with Simulation() as simulation:
        simulation.broker.create_topic("t", 8)
        client = simulation.client()
        handles = [client.create_producer("t", lazy_start_partitioned_producers=True)]
        results = send_all(handles[0])
        end(client, handles)
        simulation.until(lambda: len(results) == MESSAGES)
        assert results == [Result.Ok] * MESSAGES
        assert stored(simulation, "t") == MESSAGES


def test_what_a_lazy_producer_has_taken_from_one_call_is_sent_before_it_ends() -> None:
    with Simulation() as simulation:
        simulation.broker.create_topic("t", 8)
        producer = simulation.client().create_producer("t", lazy_start_partitioned_producers=True)
        sent = producer.send_many([MessageToSend(b"x", partition_key=key) for key in KEYS])
        producer.close()
        assert sent.result() == MESSAGES


@every_end
def test_what_a_lazy_producer_cannot_send_fails_within_the_operation_timeout(end: End) -> None:
    with Simulation() as simulation:
        simulation.broker.create_topic("t", 8)
        client = simulation.client(operation_timeout_seconds=LIMIT)
        handles = [client.create_producer("t", lazy_start_partitioned_producers=True)]
        simulation.broker.faults.on("producer", times=None).drop()
        results = send_all(handles[0])
        began = simulation.now
        end(client, handles)
        simulation.until(lambda: len(results) == MESSAGES)
        assert simulation.now - began < LIMIT + 2.0
        assert set(results) == {Result.Ok, Result.ConnectError}


def test_a_lazy_producer_of_asyncio_sends_before_it_ends() -> None:
    with Simulation() as simulation:
        simulation.broker.create_topic("t", 8)

        async def program() -> list[Any]:
            async with simulation.asyncio_client() as client:
                producer = await client.create_producer("t", lazy_start_partitioned_producers=True)
                sends = [asyncio.ensure_future(producer.send(b"x", partition_key=key)) for key in KEYS]
                await asyncio.sleep(0)
                await producer.close()
                return await asyncio.gather(*sends, return_exceptions=True)

        assert {type(outcome) for outcome in simulation.run_async(program())} == {MessageId}


# Over a connection that fails meanwhile.


@every_end
@pytest.mark.parametrize("fault", ["a receipt is lost", "a message is refused for now"])
def test_what_a_broker_has_not_stored_at_once_is_sent_again_before_the_producer_ends(end: End, fault: str) -> None:
    with Simulation() as simulation:
        client = simulation.client()
        handles = [client.create_producer("t", batching_enabled=False)]
        faults = simulation.broker.faults
        if fault == "a receipt is lost":
            faults.on("receipt").drop()
        else:
            faults.on("send").refuse("PersistenceError", "not now")
        results = send_all(handles[0])
        end(client, handles)
        simulation.until(lambda: len(results) == MESSAGES)
        assert results == [Result.Ok] * MESSAGES


# Without a connection.


@every_end
@pytest.mark.parametrize("since", [0.0, 0.02, 0.2])
def test_messages_are_sent_over_the_next_connection_before_the_producer_ends(end: End, since: float) -> None:
    with Simulation() as simulation:
        client = simulation.client()
        handles = [client.create_producer("t")]
        simulation.broker.cut_connections()
        simulation.sleep(since)
        results = send_all(handles[0])
        end(client, handles)
        simulation.until(lambda: len(results) == MESSAGES)
        assert results == [Result.Ok] * MESSAGES
        assert stored(simulation, "t") == MESSAGES


def test_the_client_sends_the_messages_of_all_its_producers_over_the_next_connection() -> None:
    with Simulation() as simulation:
        client = simulation.client()
        producers = [client.create_producer(f"t{number}") for number in range(20)]
        simulation.broker.cut_connections()
        simulation.sleep(0.02)
        results = [send_all(producer) for producer in producers]
        client.close()
        assert results == [[Result.Ok] * MESSAGES] * 20


@every_end
def test_what_has_no_broker_any_longer_fails_when_the_operation_timeout_is_over(end: End) -> None:
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=LIMIT)
        handles = [client.create_producer("t", send_timeout_millis=0)]
        simulation.broker.faults.on("connect", times=None).drop()
        simulation.broker.cut_connections()
        simulation.sleep(0.02)
        results = send_all(handles[0])
        began = simulation.now
        end(client, handles)
        simulation.until(lambda: len(results) == MESSAGES)
        assert simulation.now - began < LIMIT + 2.0
        assert results == [Result.AlreadyClosed] * MESSAGES


@pytest.mark.parametrize("command", ["lookup", "producer"])
def test_what_was_not_sent_before_the_operation_timeout_fails_with_the_reason(command: str) -> None:
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=LIMIT)
        producer = client.create_producer("t")
        simulation.broker.cut_connections()
        simulation.broker.faults.on(command, times=None).refuse("AuthorizationError", "no longer allowed")
        simulation.sleep(0.02)
        sent = producer.send_async(b"x")
        producer.close()
        with pytest.raises(AlreadyClosed, match=r"the producer is closed; the last failure was: .*no longer allowed"):
            sent.result(0)


def test_a_shorter_send_timeout_ends_the_close_earlier() -> None:
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=60)
        producer = client.create_producer("t", send_timeout_millis=1000)
        simulation.broker.faults.on("connect", times=None).drop()
        simulation.broker.cut_connections()
        simulation.sleep(0.02)
        results = send_all(producer)
        began = simulation.now
        simulation.start(client.close)
        simulation.until(lambda: len(results) == MESSAGES)
        assert simulation.now - began < 1.5


def test_without_anything_pending_a_close_does_not_wait_for_a_broker() -> None:
    with Simulation() as simulation:
        client = simulation.client()
        client.create_producer("t")
        client.subscribe("t", "s")
        simulation.broker.faults.on("connect", times=None).drop()
        simulation.broker.cut_connections()
        simulation.sleep(0.2)
        began = simulation.now
        client.close()
        assert simulation.now == began


def test_a_shutdown_during_a_close_that_waits_for_a_broker_ends_it() -> None:
    with Simulation() as simulation:
        client = simulation.client()
        producer = client.create_producer("t")
        simulation.broker.faults.on("connect", times=None).drop()
        simulation.broker.cut_connections()
        simulation.sleep(0.2)
        results = send_all(producer)
        closing = simulation.start(client.close)
        simulation.sleep(1.0)
        began = simulation.now
        client.shutdown()
        simulation.until(lambda: closing.ended)
        assert results == [Result.AlreadyClosed] * MESSAGES
        assert simulation.now - began < 0.1


def test_messages_of_a_transaction_are_sent_over_the_next_connection_before_the_producer_ends() -> None:
    with Simulation() as simulation:
        client = simulation.client()
        producer = client.create_producer("t")
        transaction = client.new_transaction()
        simulation.broker.cut_connections()
        simulation.sleep(0.02)
        sent = [producer.send_async(b"x", transaction=transaction) for _ in range(3)]
        producer.close()
        transaction.commit()
        assert all(one.result(0) for one in sent)
        assert stored(simulation, "t") == 3


@pytest.mark.parametrize("receipts", [False, True])
@pytest.mark.parametrize("ends", ["consumer", "client"])
def test_acknowledgements_are_sent_over_the_next_connection_before_the_consumer_ends(
    ends: str, *, receipts: bool
) -> None:
    with Simulation() as simulation:
        client = simulation.client()
        client.create_producer("t").send(b"x")
        consumer = client.subscribe("t", "s", initial_position=InitialPosition.Earliest, ack_receipt_enabled=receipts)
        message = consumer.receive()
        simulation.broker.cut_connections()
        simulation.sleep(0.02)
        acknowledged = simulation.start(consumer.acknowledge, message)
        simulation.sleep(0.001)
        (consumer if ends == "consumer" else client).close()
        simulation.until(lambda: acknowledged.ended)
        acknowledged.result()
        with pytest.raises(Timeout):
            simulation.client().subscribe("t", "s").receive(1000)


@pytest.mark.parametrize("receipts", [False, True])
def test_acknowledgements_without_a_broker_hold_up_a_close_for_the_operation_timeout(*, receipts: bool) -> None:
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=LIMIT)
        client.create_producer("t").send(b"x")
        consumer = client.subscribe("t", "s", initial_position=InitialPosition.Earliest, ack_receipt_enabled=receipts)
        message = consumer.receive()
        simulation.broker.faults.on("connect", times=None).drop()
        simulation.broker.cut_connections()
        simulation.sleep(0.02)
        acknowledged = simulation.start(consumer.acknowledge, message)
        simulation.sleep(0.001)
        waits = simulation.start(consumer.receive)
        began = simulation.now
        client.close()
        assert simulation.now - began < LIMIT + 2.0
        simulation.until(lambda: waits.ended and acknowledged.ended)
        with pytest.raises(AlreadyClosed):
            waits.result()
        if receipts:
            with pytest.raises(Timeout):
                acknowledged.result()


# A close without an answer: the broker may still have the producer or consumer.


def test_a_consumer_whose_close_is_not_answered_takes_no_messages_from_the_others() -> None:
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=LIMIT)
        gone, stays = (client.subscribe("t", "s", ConsumerType.Shared) for _ in range(2))
        simulation.broker.faults.on("close_consumer").drop()
        gone.close()
        send_all(client.create_producer("t"))
        for _ in range(MESSAGES):
            stays.acknowledge(stays.receive(60_000))


def test_a_producer_whose_close_is_not_answered_disturbs_no_other_topic() -> None:
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=LIMIT)
        client.subscribe("other", "s")
        subscribed = simulation.broker.faults.on("subscribe", times=None).delay(0.0)
        simulation.broker.faults.on("close_producer", times=None).drop()
        for _ in range(3):
            client.create_producer("t").close()
        assert subscribed.happened == 0, "its connection was lost"


def test_a_client_closes_within_the_operation_timeout_though_its_closes_have_no_answer() -> None:
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=LIMIT)
        client.subscribe("t", "s")
        client.create_producer("t").send(b"x")
        for command in ("close_producer", "close_consumer"):
            simulation.broker.faults.on(command, times=None).drop()
        began = simulation.now
        client.close()
        assert simulation.now - began < LIMIT + 1.0
