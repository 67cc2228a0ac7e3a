import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors import Client, Consumer, Producer
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.acknowledge import when_all_done
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, CommandAckResponse, ServerError
from tests.support import topics
from tests.support.life import MILLISECONDS, until

PATIENCE = 20.0
SOON = 5_000


@pytest.fixture
def confirmed(client: Client, topic: str) -> Iterator[Consumer]:
    with client.subscribe(topic, "s", ack_receipt_enabled=True) as consumer:
        yield consumer


def received(producer: Producer, consumer: Consumer, count: int = 3) -> list[Any]:
    for number in range(count):
        producer.send(b"%d" % number)
    return [consumer.receive(SOON) for _ in range(count)]


def test_several_are_acknowledged_in_one_call_by_message_or_id(
    broker: EmbeddedBroker, consumer: Consumer, producer: Producer, topic: str
) -> None:
    first, second, third = received(producer, consumer)
    consumer.acknowledge([first, second.message_id()])
    consumer.acknowledge((third,))
    consumer.acknowledge([])
    until(lambda: topics.backlog(broker, topic) == 0)


@pytest.mark.parametrize("options", [{}, {"ack_receipt_enabled": True}, {"batch_index_ack_enabled": True}], ids=str)
def test_a_list_of_any_order_across_batches_and_topics_is_acknowledged_whole_and_no_other(
    client: Client, any_topic: str, options: dict[str, Any]
) -> None:
    producer = client.create_producer(any_topic, batching_enabled=True, batching_max_messages=10)
    with client.subscribe(any_topic, "s", **options) as consumer:
        producer.send_many([b"%d" % number for number in range(95)]).result(PATIENCE)
        messages: list[pulsar.Message] = []
        while len(messages) < 95:
            messages += consumer.receive_many(13, SOON)
        kept = messages.pop(50)
        first, rest = messages[:40], messages[:-1:2] + messages[1::2] + messages[-1:] + messages[:3]
        consumer.acknowledge(first)
        consumer.acknowledge(tuple(rest))
    with client.subscribe(any_topic, "s", **options) as consumer:
        again = consumer.receive_many(100, SOON)
        assert kept.data() in {message.data() for message in again}
        siblings = {one.data() for one in messages if one.message_id().entry_id() == kept.message_id().entry_id()}
        expected = 1 if "batch_index_ack_enabled" in options else 1 + len(siblings)
        assert len(again) <= expected


def test_of_a_closed_consumer_or_another_topic_no_list_is_acknowledged(
    client: Client, consumer: Consumer, producer: Producer, topic: str
) -> None:
    with client.create_producer(topic + "-other") as other, client.subscribe(topic + "-other", "s") as elsewhere:
        foreign = received(other, elsewhere, 2)
    own = received(producer, consumer, 2)
    with pytest.raises(pulsar.InvalidArgument, match=f"is a message of {topic}-other"):
        consumer.acknowledge([*own, *foreign])
    assert consumer.stats().acknowledged == 0
    consumer.close()
    with pytest.raises(pulsar.AlreadyClosed):
        consumer.acknowledge(own)


def test_what_is_wrong_with_one_of_a_list_is_said_before_any_of_it_is_acknowledged(
    broker: EmbeddedBroker, consumer: Consumer, producer: Producer, topic: str
) -> None:
    messages: list[Any] = received(producer, consumer)
    for wrong in (b"no message", None, messages):
        with pytest.raises(TypeError):
            consumer.acknowledge([*messages, wrong])
        with pytest.raises(TypeError):
            consumer.negative_acknowledge([*messages, wrong])
    consumer.acknowledge(messages[0])
    until(lambda: topics.backlog(broker, topic) == 2)


def test_several_are_refused_in_one_call(client: Client, producer: Producer, topic: str) -> None:
    options = {"consumer_type": pulsar.ConsumerType.Shared, "negative_ack_redelivery_delay_ms": 10}
    with client.subscribe(topic, "s", **options) as consumer:
        consumer.negative_acknowledge(received(producer, consumer))
        assert sorted(consumer.receive(SOON).data() for _ in range(3)) == [b"0", b"1", b"2"]


def test_an_id_counts_after_a_seek_too(client: Client, broker: EmbeddedBroker, producer: Producer, topic: str) -> None:
    with client.subscribe(topic, "s", negative_ack_redelivery_delay_ms=10) as consumer:
        received(producer, consumer, 1)
        consumer.seek(pulsar.MessageId.earliest)
        consumer.negative_acknowledge(consumer.receive(SOON).message_id())
        consumer.acknowledge(consumer.receive(SOON).message_id())
        until(lambda: topics.backlog(broker, topic) == 0)


@pytest.mark.parametrize("call", ["acknowledge", "acknowledge_async", "acknowledge_cumulative", "negative_acknowledge"])
def test_a_message_of_another_topic_is_refused_by_message_and_by_id(
    client: Client, consumer: Consumer, producer: Producer, topic: str, call: str
) -> None:
    with client.create_producer(topic + "-other") as other, client.subscribe(topic + "-other", "s") as elsewhere:
        (message,) = received(other, elsewhere, 1)
    for foreign in (message, message.message_id()):
        with pytest.raises(
            pulsar.InvalidArgument, match=f"is a message of {topic}-other, and not for the consumer of 's'"
        ):
            getattr(consumer, call)(foreign)
    (own,) = received(producer, consumer, 1)
    nameless = pulsar.MessageId.deserialize(own.message_id().serialize())
    short = pulsar.MessageId.deserialize(nameless.serialize(), topic.removeprefix("persistent://public/default/"))
    getattr(consumer, call)(nameless)
    getattr(consumer, call)(short)


def test_without_receipts_a_future_is_done_when_the_acknowledgement_is_handed_over(
    broker: EmbeddedBroker, consumer: Consumer, producer: Producer, topic: str
) -> None:
    first, second, third = received(producer, consumer)
    for future in (consumer.acknowledge_async([first, second]), consumer.acknowledge_cumulative_async(third)):
        assert future.result(0) is None
    until(lambda: topics.backlog(broker, topic) == 0)


# Receipts.


def test_with_receipts_an_acknowledgement_is_done_when_it_returns(
    broker: EmbeddedBroker, confirmed: Consumer, producer: Producer, topic: str
) -> None:
    messages = received(producer, confirmed, 6)
    began = time.monotonic()
    confirmed.acknowledge(messages[0])
    assert topics.backlog(broker, topic) == 5
    confirmed.acknowledge(messages[1:3])
    assert topics.backlog(broker, topic) == 3
    confirmed.acknowledge_cumulative(messages[4])
    assert topics.backlog(broker, topic) == 1
    confirmed.acknowledge_cumulative_async(messages[5]).result(PATIENCE)
    assert topics.backlog(broker, topic) == 0
    assert time.monotonic() - began < PATIENCE


def test_who_waits_for_a_receipt_does_not_wait_for_others_to_come_along(
    client: Client, producer: Producer, topic: str
) -> None:
    with client.subscribe(topic, "s", ack_receipt_enabled=True, ack_grouping_time_ms=100_000) as consumer:
        first, second, third = received(producer, consumer)
        earlier = consumer.acknowledge_async(first)
        consumer.acknowledge(second)
        assert earlier.result(PATIENCE) is None, "did not come along"
        later = consumer.acknowledge_async(third)
        assert not wait([later], 0.05).done
    assert isinstance(later.exception(PATIENCE), pulsar.AlreadyClosed | None)


@pytest.mark.shows("Command AckResponse", "error")
def test_an_acknowledgement_that_the_broker_refuses_raises_and_can_be_repeated(
    broker: EmbeddedBroker, confirmed: Consumer, producer: Producer, topic: str
) -> None:
    (message,) = received(producer, confirmed, 1)
    for call in (confirmed.acknowledge, confirmed.acknowledge_cumulative):
        fault = broker.faults.on(CommandAck).refuse(ServerError.MetadataError, "not now")
        with pytest.raises(pulsar.BrokerMetadataError, match="not now"):
            call(message)
        assert fault.happened
    confirmed.acknowledge(message)
    assert topics.backlog(broker, topic) == 0


def test_a_receipt_that_does_not_come_in_time_is_a_timeout(broker: EmbeddedBroker, topic: str) -> None:
    with (
        Client(broker.service_url, operation_timeout_seconds=2) as client,
        client.create_producer(topic) as producer,
        client.subscribe(topic, "s", ack_receipt_enabled=True) as consumer,
    ):
        (message,) = received(producer, consumer, 1)
        broker.faults.on(CommandAckResponse).drop()
        with pytest.raises(pulsar.Timeout, match="has not confirmed the acknowledgement in time"):
            consumer.acknowledge(message)


def test_an_acknowledgement_on_a_lost_connection_is_confirmed_by_the_next(
    broker: EmbeddedBroker, confirmed: Consumer, producer: Producer, topic: str
) -> None:
    (message,) = received(producer, confirmed, 1)
    broker.faults.on(CommandAck).close_connection()
    confirmed.acknowledge(message)
    assert topics.backlog(broker, topic) == 0


def test_futures_of_receipts_end_with_the_consumer(client: Client, producer: Producer, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ack_receipt_enabled=True, ack_grouping_time_ms=100_000)
    (message,) = received(producer, consumer, 1)
    future = consumer.acknowledge_async(message)
    consumer.close()
    assert wait([future], PATIENCE).done
    with pytest.raises(pulsar.AlreadyClosed):
        consumer.acknowledge_async(message)


def test_what_is_no_message_is_refused_where_somebody_waits_to_hear_it(confirmed: Consumer) -> None:
    with pytest.raises(pulsar.InvalidArgument, match="is no message"):
        confirmed.acknowledge(pulsar.MessageId.earliest)


def test_on_a_topic_that_is_not_stored_there_is_nothing_to_wait_for(client: Client, topic: str) -> None:
    name = topic.replace("persistent", "non-persistent")
    with client.subscribe(name, "s", ack_receipt_enabled=True) as consumer, client.create_producer(name) as producer:
        (message,) = received(producer, consumer, 1)
        consumer.acknowledge(message)
        consumer.acknowledge_cumulative(message)


def test_in_a_callback_nobody_waits_for_a_receipt(confirmed: Consumer, producer: Producer) -> None:
    (message,) = received(producer, confirmed, 1)
    outcome: Future[Any] = Future()

    def callback(*_: object) -> None:
        try:
            outcome.set_result(confirmed.acknowledge(message))
        except pulsar.OperationNotSupported as error:
            outcome.set_result((error, confirmed.acknowledge_async(message)))

    producer.send_async(b"", callback)
    error, future = outcome.result(PATIENCE)
    assert "acknowledge_async()" in str(error)
    assert future.result(PATIENCE) is None


@pytest.mark.parametrize("receipts", [True, False])
def test_a_shared_consumer_acknowledges_nothing_cumulatively(client: Client, topic: str, *, receipts: bool) -> None:
    with client.subscribe(topic, "s", pulsar.ConsumerType.Shared, ack_receipt_enabled=receipts) as consumer:
        for call in (consumer.acknowledge_cumulative, consumer.acknowledge_cumulative_async):
            with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError, match="use acknowledge"):
                call(pulsar.MessageId.earliest)


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared])
@pytest.mark.parametrize("others", [(), ("another",)], ids=["alone", "with another"])
def test_neither_does_one_of_partitions_or_several_topics_by_message_or_id(
    client: Client, any_topic: str, kind: pulsar.ConsumerType, others: tuple[str, ...]
) -> None:
    topics = [any_topic, *others] if others else any_topic
    with client.subscribe(topics, "s", kind) as consumer, client.create_producer(any_topic) as producer:
        producer.send(b"x")
        message = consumer.receive(MILLISECONDS)
        for given in (message, message.message_id()):
            with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError):
                consumer.acknowledge_cumulative(given)


# Ids that a program has made itself.


def receive_batch(client: Client, topic: str, consumer: Consumer) -> list[pulsar.MessageId]:
    """Return ids with the four numbers of those of a batch of three."""
    with client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=60_000) as producer:
        producer.send_many([b"0", b"1", b"2"])
        producer.flush()
    ids = [consumer.receive(SOON).message_id() for _ in range(3)]
    return [pulsar.MessageId(one.partition(), one.ledger_id(), one.entry_id(), one.batch_index()) for one in ids]


def comes_again(client: Client, topic: str, **options: Any) -> list[bytes]:
    with client.subscribe(topic, "s", **options) as consumer:
        again = []
        while True:
            try:
                again.append(consumer.receive(300).data())
            except pulsar.Timeout:
                return again


ONE_BY_ONE: dict[str, Any] = {
    "acknowledge": lambda consumer, ids: [consumer.acknowledge(one) for one in ids],
    "a list": lambda consumer, ids: consumer.acknowledge(ids),
    "acknowledge_async": lambda consumer, ids: [consumer.acknowledge_async(one).result(PATIENCE) for one in ids],
}


@pytest.mark.parametrize("call", ONE_BY_ONE)
@pytest.mark.parametrize("options", [{}, {"ack_receipt_enabled": True}, {"batch_index_ack_enabled": True}], ids=str)
def test_an_id_made_of_its_numbers_acknowledges_its_message_of_a_batch_and_no_other(
    client: Client, any_topic: str, call: str, options: dict[str, Any]
) -> None:
    with client.subscribe(any_topic, "s", **options) as consumer:
        receive_batch(client, any_topic, consumer)
        first, _, last = receive_batch(client, any_topic, consumer)
        ONE_BY_ONE[call](consumer, [last, first])
    left = [b"1"] if "batch_index_ack_enabled" in options else [b"0", b"1", b"2"]
    assert sorted(comes_again(client, any_topic, **options)) == sorted([b"0", b"1", b"2", *left])


@pytest.mark.parametrize("options", [{}, {"ack_receipt_enabled": True}], ids=str)
def test_an_id_made_of_its_numbers_acknowledges_its_message_and_all_before_it(
    client: Client, topic: str, options: dict[str, Any]
) -> None:
    with client.subscribe(topic, "s", **options) as consumer:
        receive_batch(client, topic, consumer)
        consumer.acknowledge_cumulative(receive_batch(client, topic, consumer)[-1])
        consumer.acknowledge_cumulative_async(receive_batch(client, topic, consumer)[-1]).result(PATIENCE)
    assert comes_again(client, topic) == []


ACKNOWLEDGING: dict[str, Any] = {
    **ONE_BY_ONE,
    "acknowledge_cumulative": lambda consumer, ids: consumer.acknowledge_cumulative(ids[-1]),
    "acknowledge_cumulative_async": lambda consumer, ids: consumer.acknowledge_cumulative_async(ids[-1]),
}


@pytest.mark.parametrize("call", ACKNOWLEDGING)
@pytest.mark.parametrize("receipts", [False, True], ids=["", "with receipts"])
def test_an_id_that_names_no_message_or_a_batch_that_is_not_known_is_refused_with_all_of_its_list(
    client: Client, topic: str, call: str, *, receipts: bool
) -> None:
    with client.subscribe(topic, "s", ack_receipt_enabled=receipts) as consumer:
        ids = receive_batch(client, topic, consumer)
        unknown = pulsar.MessageId(-1, ids[0].ledger_id(), ids[0].entry_id() + 1, 0)
        beyond = pulsar.MessageId(-1, ids[0].ledger_id(), ids[0].entry_id(), 3)
        none = pulsar.MessageId(-1, ids[0].ledger_id(), -1)
        whys = {"no such batch that is unacknowledged": unknown, "below batch_size": beyond, "must be 0 to": none}
        for why, wrong in whys.items():
            with pytest.raises(pulsar.InvalidArgument, match=why):
                ACKNOWLEDGING[call](consumer, [*ids, wrong] if call == "a list" else [wrong])
            consumer.negative_acknowledge(wrong)
    assert comes_again(client, topic) == [b"0", b"1", b"2"]


def test_an_id_made_of_its_numbers_counts_until_the_batch_is_acknowledged_and_after_a_reconnect_too(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    with client.subscribe(topic, "s") as consumer:
        ids = receive_batch(client, topic, consumer)
        broker.cut_connections()
        consumer.acknowledge(ids)
        until(lambda: topics.backlog(broker, topic) == 0)
        with pytest.raises(pulsar.InvalidArgument, match="no such batch"):
            consumer.acknowledge(ids[0])


def test_an_id_made_of_its_numbers_is_acknowledged_in_a_transaction(client: Client, topic: str) -> None:
    with client.subscribe(topic, "s") as consumer:
        ids = receive_batch(client, topic, consumer)
        with client.new_transaction() as transaction:
            consumer.acknowledge(ids, transaction=transaction)
    assert comes_again(client, topic) == []


# Grouping.


def test_without_grouping_an_acknowledgement_leaves_by_itself(
    client: Client, broker: EmbeddedBroker, producer: Producer, topic: str
) -> None:
    with client.subscribe(topic, "s", ack_grouping_time_ms=0) as consumer:
        for left, message in zip((2, 1, 0), received(producer, consumer), strict=True):
            consumer.acknowledge(message)
            until(lambda left=left: topics.backlog(broker, topic) == left)


@pytest.mark.parametrize("size", [1, 2])
def test_a_group_leaves_when_it_is_as_large_as_was_said(
    client: Client, broker: EmbeddedBroker, producer: Producer, topic: str, size: int
) -> None:
    options: dict[str, Any] = {"ack_grouping_time_ms": 100_000, "ack_grouping_max_size": size}
    with client.subscribe(topic, "s", **options) as consumer:
        for message in received(producer, consumer)[:size]:
            consumer.acknowledge(message)
        until(lambda: topics.backlog(broker, topic) == 3 - size)


# All of them.


def test_a_future_of_several_ends_with_the_last_and_with_the_error_of_one() -> None:
    parts: list[SlimFuture[None]] = [SlimFuture() for _ in range(3)]
    whole = when_all_done(parts)
    parts[0].set_result(None)
    parts[1].set_exception(pulsar.Timeout("late"))
    assert not whole.done()
    parts[2].set_result(None)
    with pytest.raises(pulsar.Timeout):
        whole.result(0)
    assert when_all_done([]).result(0) is None


def test_a_future_of_several_that_end_on_many_threads_ends() -> None:
    parts: list[SlimFuture[None]] = [SlimFuture() for _ in range(50)]
    whole = when_all_done(parts)
    for part in parts:
        threading.Thread(target=part.set_result, args=(None,)).start()
    assert whole.result(PATIENCE) is None
