"""What does not come through between either client and either broker, or comes through otherwise than it left."""

from typing import Any

import pytest

from pulsar_actors.wire import PulsarApi_pb2 as wire
from tests.real_broker.exchange import SOON, contents, nothing_comes, receive, stored, until
from tests.real_broker.wiretap import Wiretap
from tests.support.admin import Admin
from tests.support.raw_producer import RawProducer
from tests.support.subjects import Broker

SHORT_SECONDS = 1


@pytest.fixture
def hasty(pulsar: Any, tapped: Wiretap, connect_to: Any) -> Any:
    """A client that soon takes an answer for lost."""
    return connect_to(pulsar, tapped.service_url, operation_timeout_seconds=SHORT_SECONDS)


@pytest.mark.shows("Command SendError", "ChecksumError")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one has `send` fail
def test_a_message_that_is_damaged_on_its_way_is_refused_and_sent_again(
    pulsar: Any, client: Any, tapped: Wiretap, topic: str
) -> None:
    producer = client.create_producer(topic)
    producer.send(b"before")
    tapped.damage = wire.CommandSend
    producer.send(b"damaged once")
    producer.send(b"after")
    assert [each.error for each in tapped.came(wire.CommandSendError)] == [wire.ServerError.ChecksumError]
    assert stored(pulsar, client, topic) == [b"before", b"damaged once", b"after"]


@pytest.mark.shows("Command Ack", "validation_error", "ChecksumMismatch")
def test_a_message_that_comes_damaged_is_acknowledged_with_its_fault_and_not_handed_out(
    pulsar: Any, client: Any, tapped: Wiretap, topic: str, admin: Admin
) -> None:
    consumer, producer = client.subscribe(topic, "s"), client.create_producer(topic)
    tapped.damage = wire.CommandMessage
    for each in (b"damaged", b"whole"):
        producer.send(each)
    assert contents(receive(consumer, 1)) == [b"whole"]
    faults = until(lambda: [each for each in tapped.sent(wire.CommandAck) if each.HasField("validation_error")])
    assert [each.validation_error for each in faults] == [wire.CommandAck.ValidationError.ChecksumMismatch]
    until(lambda: admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 1)
    assert nothing_comes(pulsar, consumer)


UNREADABLE: dict[str, tuple[bytes, dict[str, Any]]] = {
    "UncompressedSizeCorruption": (b"x", {"compression": wire.CompressionType.LZ4, "uncompressed_size": 2**31 - 1}),
    "DecompressionError": (b"x", {"compression": wire.CompressionType.ZSTD, "uncompressed_size": 5}),
    "BatchDeSerializeError": (b"\0\0\0\x7f", {"num_messages_in_batch": 2}),
}


@pytest.mark.shows("Command Ack", "UncompressedSizeCorruption", "DecompressionError", "BatchDeSerializeError")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one dies of such entries
@pytest.mark.parametrize("fault", UNREADABLE)
def test_what_cannot_be_read_is_acknowledged_with_its_fault_and_not_handed_out(
    client: Any, tapped: Wiretap, topic: str, broker: Broker, fault: str
) -> None:
    payload, said = UNREADABLE[fault]
    consumer = client.subscribe(topic, "s")
    with RawProducer(broker.service_url, topic) as producer:
        producer.send(payload, **said)
        producer.send(b"whole")
        assert contents(receive(consumer, 1)) == [b"whole"]
    (ack,) = until(lambda: [each for each in tapped.sent(wire.CommandAck) if each.HasField("validation_error")])
    assert wire.CommandAck.ValidationError.Name(ack.validation_error) == fault
    until(lambda: broker.admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 1)


@pytest.mark.shows("Producer", "close before creating again")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)
def test_a_producer_whose_creation_is_not_answered_is_closed_before_the_next(
    hasty: Any, tapped: Wiretap, topic: str, admin: Admin
) -> None:
    producer = hasty.create_producer(topic)
    tapped.withhold = wire.CommandProducerSuccess
    admin.unload(topic)
    (closed,) = until(lambda: tapped.sent(wire.CommandCloseProducer))
    tapped.withhold = None
    until(lambda: len(tapped.sent(wire.CommandProducer)) == 3)
    producer.send(b"x")
    assert tapped.order(wire.CommandProducer, wire.CommandCloseProducer)[-3:] == [
        wire.CommandProducer,
        wire.CommandCloseProducer,
        wire.CommandProducer,
    ]
    answers = [each.request_id for each in tapped.came(wire.CommandSuccess)]
    assert closed.request_id in answers


@pytest.mark.shows("Consumer", "close before creating again")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)
def test_a_consumer_whose_creation_is_not_answered_is_closed_before_the_next(
    hasty: Any, tapped: Wiretap, topic: str, admin: Admin
) -> None:
    consumer, producer = hasty.subscribe(topic, "s"), hasty.create_producer(topic)
    tapped.withhold = wire.CommandSuccess
    admin.unload(topic)
    until(lambda: tapped.sent(wire.CommandCloseConsumer))
    tapped.withhold = None
    until(lambda: len(tapped.sent(wire.CommandSubscribe)) >= 3)
    producer.send(b"x")
    assert consumer.receive(SOON).data() == b"x"
    assert tapped.order(wire.CommandSubscribe, wire.CommandCloseConsumer)[:4] == [
        wire.CommandSubscribe, wire.CommandCloseConsumer, wire.CommandSubscribe, wire.CommandCloseConsumer,
    ]  # fmt: skip
