"""What all producers of a client have pending is bounded, and whatever ends a message makes room for the next."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, ServerError
from tests.support.life import SOON, InThread, until

LIMIT = 1000
FOREVER_MS = 60_000
LARGE = bytes(5 * 1024 * 1024 + 1)


@pytest.fixture
def limited(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    options = {"operation_timeout_seconds": 3}  # for so long a close waits for receipts
    with pulsar.Client(broker.service_url, memory_limit_bytes=LIMIT, **options) as client:
        yield client


def patient(client: pulsar.Client, topic: str, **options: Any) -> pulsar.Producer:
    """Make a producer that keeps what it has for its batch."""
    return client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=FOREVER_MS, batching_max_messages=10_000, **options
    )


def test_the_producers_of_a_client_share_its_limit(limited: pulsar.Client, topic: str) -> None:
    one, other = patient(limited, topic), patient(limited, f"{topic}-other")
    one.send_async(bytes(LIMIT - 1))
    other.send_async(b"x")
    for producer in (one, other):
        with pytest.raises(pulsar.MemoryBufferIsFull, match="block_if_queue_full"):
            producer.send_async(b"too much").result(SOON)  # type: ignore[union-attr]
    told: list[pulsar.Result] = []
    one.send_async(b"too much", lambda result, _: told.append(result))
    assert told == [pulsar.Result.MemoryBufferIsFull]
    one.flush()
    assert other.send(b"there is room again")


def test_another_client_has_a_limit_of_its_own(limited: pulsar.Client, client: pulsar.Client, topic: str) -> None:
    full = patient(limited, topic)
    full.send_async(bytes(LIMIT))
    assert client.create_producer(topic).send(bytes(LIMIT * 2))


def test_a_message_over_the_limit_is_sent_if_there_is_any_room(limited: pulsar.Client, topic: str) -> None:
    producer = limited.create_producer(topic)
    for _ in range(3):
        assert producer.send(bytes(LIMIT * 2))


def test_who_waits_goes_on_when_another_producer_makes_room(limited: pulsar.Client, topic: str) -> None:
    full = patient(limited, topic)
    full.send_async(bytes(LIMIT))
    waiting = limited.create_producer(f"{topic}-other", block_if_queue_full=True)
    sending = InThread(lambda: waiting.send(b"x"))
    until(sending.waits)
    full.flush()
    assert sending.result()


def test_who_waits_for_memory_hears_of_the_end(limited: pulsar.Client, topic: str) -> None:
    full = patient(limited, topic)
    full.send_async(bytes(LIMIT))
    waiting = limited.create_producer(f"{topic}-other", block_if_queue_full=True)
    sending = InThread(lambda: waiting.send(b"x"))
    until(sending.waits)
    waiting.close()
    with pytest.raises(pulsar.AlreadyClosed):
        sending.result()


class Raising(pulsar.schema.BytesSchema):
    def encode(self, obj: object) -> bytes:
        raise ZeroDivisionError


def succeed(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    client.create_producer(topic).send(bytes(LIMIT))


def succeed_in_chunks(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    client.create_producer(topic, chunking_enabled=True).send(LARGE)


def be_too_large(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    with pytest.raises(pulsar.MessageTooBig):
        client.create_producer(topic).send(LARGE)


def be_refused(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    broker.faults.on(CommandSend).refuse(ServerError.NotAllowedError, "no")
    with pytest.raises(pulsar.NotAllowedError):
        client.create_producer(topic).send(bytes(LIMIT))


def fail_in_the_schema(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    with pytest.raises(ZeroDivisionError):
        client.create_producer(topic, schema=Raising()).send(bytes(LIMIT))


def be_refused_at_the_door(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    with pytest.raises(pulsar.InvalidArgument):
        client.create_producer(topic).send(bytes(LIMIT), sequence_id=-1)


def find_no_place(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    producer = patient(client, topic, max_pending_messages=1)
    producer.send_async(b"x")
    with pytest.raises(pulsar.ProducerQueueIsFull):
        producer.send(bytes(LIMIT))
    producer.flush()


def time_out(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    fault = broker.faults.on(CommandSend, times=None).drop()
    with pytest.raises(pulsar.Timeout):
        client.create_producer(topic, send_timeout_millis=200).send(bytes(LIMIT))
    fault.remove()


def be_closed(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    fault = broker.faults.on(CommandSend, times=None).drop()
    producer = client.create_producer(topic)
    sent = producer.send_async(bytes(LIMIT))
    producer.close()
    fault.remove()
    assert isinstance(sent.exception(SOON), pulsar.OutcomeUnknown)


def be_fenced(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    broker.faults.on(CommandSend).refuse(ServerError.ProducerFenced, "somebody else has it")
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic).send(bytes(LIMIT))


ENDS: list[Callable[[pulsar.Client, str, EmbeddedBroker], None]] = [
    succeed, succeed_in_chunks, be_too_large, be_refused, fail_in_the_schema, be_refused_at_the_door, find_no_place,
    time_out, be_closed, be_fenced,
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__.replace("_", " "))
def test_whatever_ends_a_message_makes_room_for_the_next_and_once(
    limited: pulsar.Client, topic: str, broker: EmbeddedBroker, end: Callable[..., None]
) -> None:
    end(limited, topic, broker)
    producer = patient(limited, f"{topic}-next")
    producer.send_async(bytes(LIMIT - 1))
    producer.send_async(b"x")
    with pytest.raises(pulsar.MemoryBufferIsFull):
        producer.send(b"x")
    producer.flush()
