"""Brokers that take less than usual: what is too large for them is said to be so, and costs nobody the connection."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import Settings
from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.support.life import InThread, client_of, nothing_left

LONG = "x" * 20_000
"""More than fits a frame of 10 KiB and 2,000 bytes."""


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with nothing_left(), EmbeddedBroker(settings=Settings(max_message_size=2000)) as broker:
        yield broker


CALLS: dict[str, Callable[[pulsar.Client], Any]] = {
    "get_topic_partitions": lambda client: client.get_topic_partitions(LONG),
    "a producer's topic": lambda client: client.create_producer(LONG),
    "a producer's name": lambda client: client.create_producer("t", LONG),
    "a producer's properties": lambda client: client.create_producer("t", properties={"a": LONG}),
    "a subscription": lambda client: client.subscribe("t", LONG),
    "a consumer's name": lambda client: client.subscribe("t", "s", consumer_name=LONG),
    "a consumer's properties": lambda client: client.subscribe("t", "s", properties={LONG: "b"}),
    "a subscription's properties": lambda client: client.subscribe("t", "s", subscription_properties={"a": LONG}),
    "one topic of several": lambda client: client.subscribe(["t", LONG], "s"),
    "a reader's name": lambda client: client.create_reader("t", pulsar.MessageId.earliest, reader_name=LONG),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_command_that_is_too_large_for_the_broker_fails_the_call_at_once_and_nobody_else(
    broker: EmbeddedBroker, call: str
) -> None:
    with client_of(broker.service_url) as client:
        producer = client.create_producer("t")
        error = InThread(lambda: CALLS[call](client)).error()
        assert isinstance(error, pulsar.InvalidArgument)
        assert "the broker takes 12,176 at most" in str(error)
        producer.send(b"x")
        assert producer.stats().reconnects == 0


@pytest.mark.parametrize(
    "extras",
    [{"properties": {"a": LONG}}, {"properties": {LONG: "b"}}, {"partition_key": LONG}, {"ordering_key": LONG}],
    ids=["value", "property", "partition_key", "ordering_key"],
)
@pytest.mark.parametrize("options", [{}, {"batching_enabled": True}, {"chunking_enabled": True}], ids=repr)
def test_a_message_whose_keys_or_properties_are_too_large_fails_alone(
    broker: EmbeddedBroker, extras: dict[str, Any], options: dict[str, Any]
) -> None:
    with client_of(broker.service_url) as client:
        producer = client.create_producer("t", **options)
        sent: list[tuple[pulsar.Result, Any]] = []
        for content, more in ((b"before", {}), (b"large", extras), (b"after", {})):
            producer.send_async(content, lambda result, where: sent.append((result, where)), **more)
        producer.flush()
        assert sorted(result.name for result, _ in sent) == ["MessageTooBig", "Ok", "Ok"]
        assert producer.stats().reconnects == 0
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        assert [reader.read_next(5000).data() for _ in range(2)] == [b"before", b"after"]
