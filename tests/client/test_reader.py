import re
import threading
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.fault_rules import InterceptedCommand
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer_options import ReaderOptions
from pulsar_actors.client.create_consumer import consumer_options_of_reader
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.reader import Reader
from pulsar_actors.client.receiving import receiving_internals
from pulsar_actors.client.schema import StringSchema
from pulsar_actors.exceptions import AlreadyClosed, Timeout
from pulsar_actors.machines.incoming_entries import CorruptEntry
from pulsar_actors.testing import Simulation
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandLookupTopicResponse,
    CommandMessage,
    CommandSend,
    CommandSubscribe,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName
from tests.support import topics
from tests.support.life import InThread, until
from tests.support.raw_producer import RawProducer

SOON = 5_000


def sent(client: Client, topic: str, *payloads: bytes) -> list[MessageId]:
    with client.create_producer(topic) as producer:
        return [producer.send(payload) for payload in payloads]


def read(reader: Reader, count: int) -> list[bytes]:
    return [reader.read_next(SOON).data() for _ in range(count)]


def test_a_reader_begins_after_the_message_that_it_is_given(client: Client, topic: str) -> None:
    ids = sent(client, topic, b"a", b"b", b"c")
    with client.create_reader(topic, ids[0]) as reader:
        assert read(reader, 2) == [b"b", b"c"]
    with client.create_reader(topic, ids[0], start_message_id_inclusive=True) as reader:
        assert read(reader, 3) == [b"a", b"b", b"c"]


def test_an_entry_can_be_read_at_once(client: Client, topic: str) -> None:
    with client.create_producer(topic, batching_enabled=True) as producer:
        for number in range(900):
            producer.send_async(b"%d" % number, lambda *_: None)
    with client.create_reader(topic, MessageId.earliest) as reader:
        found: list[bytes] = []
        calls = 0
        while len(found) < 900:
            found += map(bytes, receiving_internals(reader).read_entry(SOON).payloads)
            calls += 1
        with pytest.raises(Timeout):
            receiving_internals(reader).read_entry(1)
    assert found == [b"%d" % number for number in range(900)]
    assert calls < 20


@pytest.mark.parametrize(
    ("start", "inclusive", "expected"),
    [
        (MessageId.earliest, False, [b"a", b"b"]),
        (MessageId.latest, False, []),
        (MessageId.latest, True, [b"b"]),
        (MessageId.earliest, True, [b"a", b"b"]),
    ],
    ids=["earliest", "latest", "the latest itself", "the earliest itself"],
)
def test_a_reader_begins_at_either_end(
    client: Client, topic: str, start: MessageId, expected: list[bytes], *, inclusive: bool
) -> None:
    sent(client, topic, b"a", b"b")
    with client.create_reader(topic, start, start_message_id_inclusive=inclusive) as reader:
        assert reader.has_message_available() is bool(expected)
        assert read(reader, len(expected)) == expected
        assert not reader.has_message_available()
        sent(client, topic, b"new")
        assert reader.has_message_available()
        assert read(reader, 1) == [b"new"]


def test_the_latest_of_an_empty_topic_is_what_comes(client: Client, topic: str) -> None:
    with client.create_reader(topic, MessageId.latest, start_message_id_inclusive=True) as reader:
        assert not reader.has_message_available()
        sent(client, topic, b"a")
        assert read(reader, 1) == [b"a"]


def test_whether_there_is_a_message_is_known_from_the_queue_or_asked(client: Client, topic: str) -> None:
    ids = sent(client, topic, b"a", b"b")
    with client.create_reader(topic, ids[1], start_message_id_inclusive=True) as reader:
        assert reader.has_message_available()
    with client.create_reader(topic, ids[1]) as reader:
        assert not reader.has_message_available()
        sent(client, topic, b"c")
        until(lambda: reader.stats().queued == 1, "the message")
        assert reader.has_message_available()
        read(reader, 1)
        reader.seek(MessageId.earliest)
        assert reader.has_message_available()
        assert read(reader, 3) == [b"a", b"b", b"c"]


def test_what_can_never_be_read_is_no_message_to_wait_for(client: Client, topic: str, broker: EmbeddedBroker) -> None:
    sent(client, topic, b"a")
    with client.create_reader(topic, MessageId.earliest) as reader, RawProducer(broker.service_url, topic) as raw:
        raw.send(b"no batch", num_messages_in_batch=1)
        raw.first("chunk")

        def passed_over() -> Any:
            """Read, which opens what has arrived."""
            with pytest.raises(Timeout):
                reader.read_next(1)
            return receiving_internals(reader).take_skipped()[0]

        assert read(reader, 1) == [b"a"]
        skipped = until(passed_over, "the entry that is passed over")
        until(lambda: not reader.has_message_available(), "the end of what can be read")
        assert receiving_internals(reader).furthest is not None
        assert [type(one) for one in skipped] == [CorruptEntry]
        raw.second("chunk")
        assert read(reader, 1) == [b"chunkCHUNK"]
        assert receiving_internals(reader).take_skipped() == ([], 0)


def test_a_reader_waits_for_no_messages_that_have_expired_but_for_those_after_them(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    sent(client, topic, *(b"%d" % number for number in range(10)))
    with client.create_reader(topic, MessageId.earliest, receiver_queue_size=1) as reader:
        assert read(reader, 1) == [b"0"]
        until(lambda: reader.stats().queued == 1, "the message that is on its way")
        topics.skip(broker, topic)
        assert reader.has_message_available(), "what has arrived is not lost"
        while reader.has_message_available():
            reader.read_next(SOON)
        sent(client, topic, b"new", b"newer")
        assert reader.has_message_available()
        assert read(reader, 2) == [b"new", b"newer"]
        assert not reader.has_message_available()
        reader.seek(MessageId.earliest)
        assert reader.has_message_available(), "a seek goes back to messages that are stored"
        assert read(reader, 1) == [b"0"]


def test_a_reader_of_a_compacted_topic_has_messages_available_whose_ledgers_are_deleted(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    """A broker says then that the reader is before the first entry of a later ledger."""
    (last,) = sent(client, topic, b"a")
    answer = CommandGetLastMessageIdResponse(
        last_message_id=last.wire.to_data(), consumer_mark_delete_position=WireMessageId(99, -1).to_data()
    )
    with client.create_reader(topic, MessageId.earliest, receiver_queue_size=0, is_read_compacted=True) as reader:
        broker.faults.on(CommandGetLastMessageId).answer(answer)
        assert reader.has_message_available()


def test_a_reader_waits_for_no_messages_of_partitions_that_have_expired(
    client: Client, parts: str, broker: EmbeddedBroker
) -> None:
    sent(client, parts, *(b"%d" % number for number in range(20)))
    with client.create_reader(parts, MessageId.earliest, receiver_queue_size=1) as reader:
        reader.read_next(SOON)
        for partition in client.get_topic_partitions(parts):
            topics.skip(broker, partition)
        while reader.has_message_available():
            reader.read_next(SOON)


def test_a_reader_keeps_chunks_as_long_as_it_is_told(client: Client, topic: str, broker: EmbeddedBroker) -> None:
    sent(client, topic, b"a")
    limits = {"max_pending_chunked_message": 1, "auto_ack_oldest_chunked_message_on_queue_full": True}
    with RawProducer(broker.service_url, topic) as raw:
        for name in ("x", "y"):
            raw.first(name)
        for name in ("x", "y"):
            raw.second(name)
    for options, whole in ((limits, [b"a", b"yY"]), ({"max_pending_chunked_message": 0}, [b"a", b"xX", b"yY"])):
        with client.create_reader(topic, MessageId.earliest, **options) as reader:
            assert read(reader, len(whole)) == whole
    patient = ReaderOptions(topic, MessageId.earliest, expire_time_of_incomplete_chunked_message_ms=7)
    assert consumer_options_of_reader(patient).expire_time_of_incomplete_chunked_message_ms == 7


def test_a_reader_goes_on_where_it_was_when_the_connection_was_lost(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    sent(client, topic, b"a", b"b", b"c")
    with client.create_reader(topic, MessageId.earliest) as reader:
        assert read(reader, 1) == [b"a"]
        broker.cut_connections()
        until(lambda: reader.stats().reconnects, "the reconnect")
        assert read(reader, 2) == [b"b", b"c"]


def test_a_reader_can_be_looped_over_and_its_messages_be_futures(client: Client, topic: str) -> None:
    sent(client, topic, b"a", b"b", b"c")
    with client.create_reader(topic, MessageId.earliest) as reader:
        assert reader.read_next_async().result(SOON).data() == b"a"
        seen: list[bytes] = []
        for message in reader:
            seen.append(message.data())
            if len(seen) == 2:
                reader.close()
        assert seen == [b"b", b"c"]
        with pytest.raises(AlreadyClosed):
            reader.read_next(0)


def test_a_reader_without_a_message_says_so_in_time(client: Client, topic: str) -> None:
    with client.create_reader(topic, MessageId.latest) as reader, pytest.raises(Timeout, match="the reader of"):
        reader.read_next(10)


def test_a_listener_reads(client: Client, topic: str) -> None:
    sent(client, topic, b"a", b"b")
    heard: list[tuple[Any, bytes]] = []
    with client.create_reader(
        topic, MessageId.earliest, reader_listener=lambda reader, message: heard.append((reader, message.data()))
    ) as reader:
        until(lambda: len(heard) == 2, "the listener")
        assert heard == [(reader, b"a"), (reader, b"b")]


def test_its_subscription_has_a_name_of_its_own_with_the_prefix_that_was_given(client: Client, topic: str) -> None:
    with (
        client.create_reader(topic, MessageId.latest, subscription_role_prefix="role", reader_name="mine") as one,
        client.create_reader(topic, MessageId.latest) as other,
    ):
        assert one.stats().subscription_name.startswith("role-reader-")
        assert one.stats().consumer_name == "mine"
        assert other.stats().subscription_name.startswith("reader-")
        assert repr(one) == f"<the reader of {topic}>"


def test_the_names_of_their_subscriptions_differ() -> None:
    options = ReaderOptions("t", MessageId.earliest)
    names = {consumer_options_of_reader(options).subscription_name for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch("reader-[0-9a-f]{10}", name) for name in names)


def test_a_reader_is_an_exclusive_consumer_with_the_readers_options() -> None:
    schema = StringSchema()
    options = ReaderOptions(
        "t", MessageId.earliest, schema, None, 7, "a name", is_read_compacted=True, start_message_id_inclusive=True
    )
    consumer = consumer_options_of_reader(options)
    assert (consumer.topics, consumer.consumer_type) == (("t",), ConsumerType.Exclusive)
    assert (consumer.schema, consumer.receiver_queue_size, consumer.consumer_name) == (schema, 7, "a name")
    assert consumer.is_read_compacted
    assert consumer.start_message_id_inclusive


def test_a_reader_that_cannot_go_to_the_last_message_is_not_left_behind(broker: EmbeddedBroker, topic: str) -> None:
    heard: list[Any] = []
    with Client(broker.service_url, operation_timeout_seconds=3) as client:
        sent(client, topic, b"a")
        fault = broker.faults.on(CommandGetLastMessageId, times=None).drop()
        with pytest.raises(Timeout):
            client.create_reader(
                topic,
                MessageId.latest,
                reader_listener=lambda _, message: heard.append(message),
                start_message_id_inclusive=True,
            )
        fault.remove()
        until(lambda: not client.stats().consumers)
        sent(client, topic, b"b")
    assert heard == []


def test_messages_that_come_while_the_broker_is_asked_are_available(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    """Behind them is an entry that is no message yet: the last one that has come is the topic's last one."""
    sent(client, topic, b"a")
    asked = threading.Event()

    def note(seen: InterceptedCommand) -> None:
        if isinstance(seen.command, CommandGetLastMessageId):
            asked.set()

    with RawProducer(broker.service_url, topic) as raw:
        raw.first("chunk")
        broker.faults.control(note)
        stalled = broker.faults.on(CommandMessage).stall()
        with client.create_reader(topic, MessageId.earliest) as reader:
            stalled.wait()
            asking = InThread(reader.has_message_available)
            assert asked.wait(SOON / 1000)
            stalled.release()
            assert asking.result() is True
            assert read(reader, 1) == [b"a"]


def test_chunked_messages_are_read_however_many_are_on_their_way(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    names = [f"m{number}" for number in range(12)]
    with RawProducer(broker.service_url, topic) as raw:
        for name in names:
            raw.first(name)
        for name in names:
            raw.second(name)
    for options in ({}, {"max_pending_chunked_message": 1}):
        with client.create_reader(topic, MessageId.earliest, **options) as reader:
            found: list[bytes] = []
            while reader.has_message_available():
                found.append(reader.read_next(SOON).data())
            assert found == [f"{name}{name.upper()}".encode() for name in names]


def test_without_an_expiry_a_reader_gets_the_messages_whose_chunks_a_lost_connection_has_divided(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    with client.create_reader(topic, MessageId.earliest, expire_time_of_incomplete_chunked_message_ms=0) as reader:
        with RawProducer(broker.service_url, topic) as raw:
            for name in ("one", "two"):
                raw.first(name)
            raw.send(b"between")
            assert read(reader, 1) == [b"between"]
        broker.cut_connections()
        until(lambda: reader.stats().reconnects, "the reconnect")
        with RawProducer(broker.service_url, topic) as raw:
            for name in ("one", "two"):
                raw.second(name)
        assert read(reader, 2) == [b"oneONE", b"twoTWO"]
        assert not reader.has_message_available()


def test_the_end_of_a_message_that_began_before_the_reader_is_not_available(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    with RawProducer(broker.service_url, topic) as raw:
        raw.first("one")
        (first,) = sent(client, topic, b"a")
        raw.second("one")
        with client.create_reader(topic, first) as reader:
            until(lambda: not reader.has_message_available(), "the end of what can be read")


def test_a_reader_at_the_end_misses_nothing_although_the_broker_refused_once_to_say_where_that_is(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    producer = client.create_producer(topic)
    broker.faults.on(CommandGetLastMessageId).refuse(ServerError.PersistenceError, "not now")
    reader = client.create_reader(topic, MessageId.latest)
    broker.faults.on(CommandSubscribe, times=None).refuse(ServerError.ServiceNotReady, "not yet")
    broker.faults.on(CommandSend).close_connection()
    producer.send(b"while the reader was away")
    broker.faults.clear()
    assert reader.read_next(SOON).data() == b"while the reader was away"


def read_five(simulation: Simulation) -> tuple[Reader, list[Message]]:
    """Publish five messages within less than two seconds, and read them."""
    client = simulation.client()
    with client.create_producer("t") as producer:
        for number in range(5):
            simulation.sleep(0.3)
            producer.send(b"%d" % number)
    reader = client.create_reader("t", MessageId.earliest)
    messages = [reader.read_next(SOON) for _ in range(5)]
    return reader, messages


@pytest.mark.parametrize("trouble", ["the topic is unloaded", "the answer is lost"])
def test_a_seek_to_a_time_is_exact_although_the_subscribe_after_it_fails_once(trouble: str) -> None:
    with Simulation() as simulation:
        reader, messages = read_five(simulation)
        faults = simulation.broker.faults
        if trouble == "the answer is lost":
            fault = faults.on("success", nth=2).close_connection()  # the first is the answer to the seek
            reader.seek(messages[3].publish_timestamp())
            assert fault.happened == 1
        else:
            fault = faults.on("subscribe", times=None).refuse("ServiceNotReady", "not yet")
            seek = simulation.start(reader.seek, messages[3].publish_timestamp())
            simulation.until(lambda: fault.happened)
            simulation.broker.call(lambda broker: broker.cluster.unload(TopicName.parse("t")))
            faults.clear()
            simulation.until(lambda: seek.ended)
            seek.result()
        assert [reader.read_next(SOON).data() for _ in range(2)] == [b"3", b"4"]


@pytest.mark.parametrize("found", ["another broker", "the same broker"])
def test_a_seek_to_a_time_is_exact_although_the_topic_moves_before_the_subscribe_after_it(found: str) -> None:
    with Simulation() as simulation:
        reader, messages = read_five(simulation)
        faults = simulation.broker.faults
        if found == "another broker":
            fault = faults.on("lookup").answer(
                CommandLookupTopicResponse(
                    response=CommandLookupTopicResponse.LookupType.Connect,
                    brokerServiceUrl="pulsar://another:6650",
                    proxy_through_service_url=True,
                )
            )
        else:
            fault = faults.on("lookup", times=None).refuse("ServiceNotReady", "unloading")
        seek = simulation.start(reader.seek, messages[3].publish_timestamp())
        simulation.until(lambda: fault.happened)
        simulation.broker.call(lambda broker: broker.cluster.unload(TopicName.parse("t")))
        faults.clear()
        simulation.until(lambda: seek.ended)
        seek.result()
        assert [reader.read_next(SOON).data() for _ in range(2)] == [b"3", b"4"]
