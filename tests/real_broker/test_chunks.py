"""Messages in chunks: those that come mixed, late or never, and those of our producers at brokers and other clients."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.wire import PulsarApi_pb2 as wire
from tests.real_broker.exchange import (
    InThread,
    acknowledged_all,
    contents,
    nothing_comes,
    receive,
    stored,
    until,
)
from tests.real_broker.wiretap import Wiretap
from tests.support.admin import Admin, path_of
from tests.support.jars import jars, tool
from tests.support.raw_producer import RawProducer
from tests.support.subjects import CLIENTS, Broker, client_module

JAVA_SECONDS = 120
IN_CHUNKS: dict[str, Any] = {"batching_enabled": False, "chunking_enabled": True, "chunk_max_message_size": 3}


@pytest.fixture
def sender(broker: Broker, topic: str, admin: Admin) -> Iterator[RawProducer]:
    admin.create(topic)
    with RawProducer(broker.service_url, topic) as sender:
        yield sender


@pytest.fixture
def backlog(admin: Admin, topic: str) -> Callable[[], int]:
    """How many chunks are not acknowledged."""
    return lambda: int(admin.stats(topic)["subscriptions"]["s"]["msgBacklog"])


@pytest.mark.shows("Message metadata", "uuid", "chunk_id", "num_chunks_from_msg", "total_chunk_msg_size")
def test_chunks_that_come_mixed_are_put_together_and_acknowledged_each(
    client: Any, topic: str, sender: RawProducer, backlog: Any
) -> None:
    consumer = client.subscribe(topic, "s", max_pending_chunked_message=3)
    for name in "abc":
        sender.first(name)
    for name in "bca":
        sender.second(name)
    messages = receive(consumer, 3)
    assert contents(messages) == [b"bB", b"cC", b"aA"]
    acknowledged_all(consumer, messages)
    until(lambda: backlog() == 0)


def test_the_oldest_is_acknowledged_unread_where_too_many_are_unfinished_and_it_may_be(
    pulsar: Any, client: Any, topic: str, sender: RawProducer, backlog: Any
) -> None:
    consumer = client.subscribe(
        topic, "s", max_pending_chunked_message=2, auto_ack_oldest_chunked_message_on_queue_full=True
    )
    for name in "abc":
        sender.first(name)
    for name in "bc":
        sender.second(name)
    messages = receive(consumer, 2)
    assert contents(messages) == [b"bB", b"cC"]
    acknowledged_all(consumer, messages)
    until(lambda: backlog() == 0)
    consumer.close()
    assert nothing_comes(pulsar, client.subscribe(topic, "s"))


def test_nothing_is_lost_where_too_many_are_unfinished_and_none_may_be(
    client: Any, topic: str, sender: RawProducer, backlog: Any
) -> None:
    """The official client lets go of the oldest until somebody asks for it again; ours, of the newest, for a while."""
    consumer = client.subscribe(topic, "s", max_pending_chunked_message=2)
    for name in "abc":
        sender.first(name)
    for name in "bca":
        sender.second(name)
    messages = receive(consumer, 2)
    acknowledged_all(consumer, messages)
    until(lambda: backlog() == 2)
    consumer.redeliver_unacknowledged_messages()
    messages += receive(consumer, 1)
    assert sorted(contents(messages)) == [b"aA", b"bB", b"cC"]
    acknowledged_all(consumer, messages[2:])
    until(lambda: backlog() == 0)


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one takes no other time than a minute
def test_what_is_unfinished_for_too_long_is_acknowledged_unread(
    client: Any, topic: str, sender: RawProducer, backlog: Any
) -> None:
    consumer = client.subscribe(topic, "s", expire_time_of_incomplete_chunked_message_ms=200)
    sender.first("a")
    until(lambda: backlog() == 0)
    sender.first("b")
    sender.second("b")
    messages = receive(consumer, 1)
    assert contents(messages) == [b"bB"]
    acknowledged_all(consumer, messages)
    until(lambda: backlog() == 0)


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one acknowledges the first chunks
def test_a_message_arrives_whose_key_moves_to_a_consumer_that_joins_in_its_middle(
    pulsar: Any, client: Any, topic: str, sender: RawProducer, backlog: Any
) -> None:
    options = {"consumer_type": pulsar.ConsumerType.KeyShared, "expire_time_of_incomplete_chunked_message_ms": 2000}
    consumers = [client.subscribe(topic, "s", **options)]
    for name in "abcdefgh":
        sender.first(name, partition_key=name)
    until(lambda: backlog() == 8)
    consumers.append(client.subscribe(topic, "s", **options))
    for name in "abcdefgh":
        sender.second(name, partition_key=name)
    got: list[list[bytes]] = [[], []]

    def has_all() -> bool:
        for consumer, those in zip(consumers, got, strict=True):
            with contextlib.suppress(pulsar.Timeout):
                message = consumer.receive(50)
                those.append(message.data())
                consumer.acknowledge(message)
        return sum(map(len, got)) == 8

    until(has_all)
    assert sorted(got[0] + got[1]) == [b"aA", b"bB", b"cC", b"dD", b"eE", b"fF", b"gG", b"hH"]
    assert got[1], "no key has moved"
    until(lambda: backlog() == 0)


@pytest.fixture
def deduplicating(topic: str, admin: Admin) -> str:
    """A topic with deduplication."""
    admin.create(topic)
    admin.set_deduplication(topic, on=True)
    until(lambda: admin.is_deduplicating(topic))
    return topic


def entries_of(admin: Admin, topic: str) -> int:
    """How many entries are stored."""
    return int(admin.json("GET", f"{path_of(topic)}/internalStats")["numberOfEntries"])


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one says that it is stored, and it is lost
def test_a_message_is_stored_whose_topic_is_loaded_again_between_its_chunks(
    pulsar: Any, client: Any, tapped: Wiretap, deduplicating: str, admin: Admin
) -> None:
    producer = client.create_producer(deduplicating, **IN_CHUNKS)
    for content in (b"abcdef", b"ghijklmn"):
        stored_before = entries_of(admin, deduplicating)
        tapped.withhold, tapped.spared = wire.CommandSend, 1
        sending = InThread(lambda content=content: producer.send(content))  # type: ignore[misc]
        until(lambda: tapped.spared < 0)
        until(lambda before=stored_before: entries_of(admin, deduplicating) > before)  # type: ignore[misc]
        tapped.withhold = None
        admin.unload(deduplicating)
        sending.result()
    assert stored(pulsar, client, deduplicating) == [b"abcdef", b"ghijklmn"]
    assert producer.last_sequence_id() == 1


@pytest.mark.parametrize("reader", CLIENTS)
def test_consumers_of_a_key_shared_subscription_get_chunks_without_a_key_whole(
    connect: Callable[..., Any], topic: str, reader: str
) -> None:
    module, ours = client_module(reader), client_module("ours")
    client, kind = connect(module), module.ConsumerType.KeyShared
    consumers = [client.subscribe(topic, "s", consumer_type=kind) for _ in range(2)]
    producer = connect(ours).create_producer(topic, producer_name="me", **IN_CHUNKS)
    sent = [b"%d in chunks" % number for number in range(20)]
    for content in sent:
        producer.send(content)
    got: list[Any] = []

    def has_all() -> bool:
        for consumer in consumers:
            with contextlib.suppress(module.Timeout):
                got.append(consumer.receive(50))
                consumer.acknowledge(got[-1])
        return len(got) == len(sent)

    until(has_all)
    assert sorted(contents(got)) == sorted(sent)
    assert {(message.producer_name(), message.partition_key(), message.ordering_key()) for message in got} == {
        ("me", "", "")
    }


# It takes some seconds of a processor, for nobody else shows the sequence id.
@pytest.mark.real_broker
def test_the_java_client_reads_what_ours_sends_in_chunks(connect_to: Any, real_broker: Broker, topic: str) -> None:
    client = connect_to(client_module("ours"), real_broker.service_url)
    producer = client.create_producer(topic, producer_name="me", **IN_CHUNKS)
    producer.send(b"without a key")
    producer.send(b"with a key", partition_key="k")
    command = [
        tool("java"),
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{jars()}/*",
        str(Path(__file__).with_name("JavaChunks.java")),
    ]
    done = subprocess.run(  # noqa: S603 -- our own words
        [*command, real_broker.service_url, topic, "2"],
        capture_output=True,
        text=True,
        timeout=JAVA_SECONDS,
        check=True,
    )
    assert [line.split("\t")[1:] for line in done.stdout.splitlines() if line.startswith("got\t")] == [
        ["without a key", "me", "0", "null", "false"],
        ["with a key", "me", "1", "k", "false"],
    ]
