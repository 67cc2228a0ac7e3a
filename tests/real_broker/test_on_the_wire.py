"""What is said, frame by frame, between either client and either broker, as the specification has it."""

import itertools
import time
from collections import Counter
from typing import Any

import crc32c
import pytest

from pulsar_actors.wire import PulsarApi_pb2 as wire
from tests.real_broker.exchange import NEVER_BY_TIME, SOON, contents, receive, send_all, send_batch, until
from tests.real_broker.wiretap import Entry, Wiretap
from tests.support.subjects import client_module

NOW = 60_000  # milliseconds by which clocks of one machine may differ


def batch_of(entry: Entry) -> list[tuple[wire.SingleMessageMetadata, bytes]]:
    found, rest = [], entry.payload
    while rest:
        size = int.from_bytes(rest[:4], "big")
        single = wire.SingleMessageMetadata.FromString(rest[4 : 4 + size])
        end = 4 + size + single.payload_size
        found.append((single, rest[4 + size : end]))
        rest = rest[end:]
    return found


@pytest.mark.shows("Connection sharing")
@pytest.mark.shows("Simple commands", "message")
def test_producers_and_consumers_of_one_broker_share_a_connection(client: Any, new_topic: Any, tapped: Wiretap) -> None:
    topics = [new_topic(), new_topic()]
    consumers = [client.subscribe(topic, "s") for topic in topics]
    producers = [client.create_producer(topic) for topic in topics]
    for producer, consumer in zip(producers, consumers, strict=True):
        producer.send(b"a")
        consumer.acknowledge(consumer.receive(SOON))
    kinds = (wire.CommandProducer, wire.CommandSubscribe, wire.CommandSend, wire.CommandFlow, wire.CommandMessage)
    used = {kind: {each.connection for each in tapped.frames(kind)} for kind in kinds}
    assert len(set.union(*used.values())) == 1, used
    assert len({each.producer_id for each in tapped.sent(wire.CommandProducer)}) == 2
    assert len({each.consumer_id for each in tapped.sent(wire.CommandSubscribe)}) == 2


@pytest.mark.shows("Framing", "maximum frame size")
@pytest.mark.shows("Command Connected", "max_message_size")
def test_the_broker_says_how_large_a_message_may_be_and_no_frame_is_larger(
    client: Any, topic: str, tapped: Wiretap
) -> None:
    client.create_producer(topic, chunking_enabled=True).send(b"x" * 6_000_000)
    limit = tapped.came(wire.CommandConnected)[0].max_message_size
    assert limit == 5 * 1024 * 1024
    assert len(tapped.sent(wire.CommandSend)) == 2
    assert max(each.size for each in tapped.said) <= limit + 10 * 1024


@pytest.mark.shows("Framing")
@pytest.mark.shows("Simple commands", "", "totalSize", "commandSize")
def test_a_command_without_a_payload_is_two_sizes_and_itself(client: Any, topic: str, tapped: Wiretap) -> None:
    client.create_producer(topic)
    simple = [each for each in tapped.said if not isinstance(each.command, (wire.CommandSend, wire.CommandMessage))]
    assert {type(each.command) for each in simple} >= {wire.CommandConnect, wire.CommandConnected, wire.CommandProducer}
    assert {each.rest for each in simple} == {b""}, "commandSize reaches to the end that totalSize says"


@pytest.mark.shows("Payload commands", "", "totalSize", "commandSize", "message", "magicNumber", "checksum")
@pytest.mark.shows("Payload commands", "metadataSize", "metadata", "payload")
def test_a_command_with_a_payload_has_magic_checksum_metadata_and_payload(
    client: Any, topic: str, tapped: Wiretap
) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"payload")
    assert consumer.receive(SOON).data() == b"payload"
    (sent,), (came,) = tapped.entries(wire.CommandSend), tapped.entries(wire.CommandMessage)
    for entry in (sent, came):
        assert entry.checksum == crc32c.crc32c(entry.summed)
        assert entry.payload == b"payload"
    assert came.summed == sent.summed, "metadata and payload come as they were sent"


@pytest.mark.shows("Message metadata", "", "producer_name", "sequence_id", "publish_time", "properties")
@pytest.mark.shows("Message metadata", "partition_key", "event_time", "ordering_key")
def test_what_is_said_of_a_message_is_in_its_metadata(client: Any, topic: str, tapped: Wiretap) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="p")
    producer.send(b"a", properties={"x": "y"}, partition_key="k", ordering_key="o", sequence_id=7, event_timestamp=5)
    message = consumer.receive(SOON)
    metadata = tapped.entries(wire.CommandMessage)[0].metadata
    assert (metadata.producer_name, metadata.sequence_id) == ("p", 7)
    assert abs(metadata.publish_time - time.time() * 1000) < NOW
    assert [(pair.key, pair.value) for pair in metadata.properties] == [("x", "y")]
    assert (metadata.partition_key, metadata.ordering_key, metadata.event_time) == ("k", b"o", 5)
    assert (message.properties(), message.partition_key(), message.ordering_key()) == ({"x": "y"}, "k", "o")
    assert (message.producer_name(), message.publish_timestamp()) == ("p", metadata.publish_time)
    assert message.event_timestamp() == 5


@pytest.mark.shows("Message metadata", "compression", "uncompressed_size", "num_messages_in_batch")
@pytest.mark.shows("Batch messages", "", "metadataSizeN", "metadataN", "payloadN", "properties", "partition key")
@pytest.mark.shows("Batch messages", "payload_size", "compression")
@pytest.mark.shows("Command Send", "num_messages")
def test_a_batch_is_one_payload_of_messages_with_metadata_of_their_own(
    pulsar: Any, client: Any, topic: str, tapped: Wiretap
) -> None:
    consumer = client.subscribe(topic, "s")
    send_batch(pulsar, client, topic, [b"a", b"bb", b"ccc"], properties={"x": "y"}, partition_key="k")
    assert contents(receive(consumer, 3)) == [b"a", b"bb", b"ccc"]
    (came,) = tapped.entries(wire.CommandMessage)
    assert came.metadata.num_messages_in_batch == 3
    messages = batch_of(came)
    assert [payload for _, payload in messages] == [b"a", b"bb", b"ccc"]
    for single, _ in messages:
        assert [(pair.key, pair.value) for pair in single.properties] == [("x", "y")]
        assert single.partition_key == "k"
    assert tapped.one_sent(wire.CommandSend).num_messages == 3

    kind = pulsar.CompressionType.LZ4
    squeezed = client.create_producer(topic, batching_max_messages=2, compression_type=kind, **NEVER_BY_TIME)
    send_all(squeezed, [b"x" * 5000, b"y" * 5000])
    receive(consumer, 2)
    whole = tapped.entries(wire.CommandMessage)[-1]
    assert whole.metadata.compression == wire.CompressionType.LZ4
    assert whole.metadata.uncompressed_size > 10_000 > len(whole.payload)


@pytest.mark.shows("Command Send", "highest_sequence_id")
@pytest.mark.shows("Message metadata", "highest_sequence_id")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)
def test_a_batch_has_the_lowest_and_the_highest_of_its_sequence_ids(
    pulsar: Any, client: Any, topic: str, tapped: Wiretap
) -> None:
    send_batch(pulsar, client, topic, [b"a", b"b", b"c"])
    send, entry = tapped.one_sent(wire.CommandSend), tapped.entries(wire.CommandSend)[0]
    assert (send.sequence_id, send.highest_sequence_id) == (0, 2)
    assert (entry.metadata.sequence_id, entry.metadata.highest_sequence_id) == (0, 2)


@pytest.mark.shows("Protobuf interface")
@pytest.mark.shows("Connection establishment", "", "client_version", "protocol_version", "server_version")
@pytest.mark.shows("Connection establishment", "original_principal", "original_auth_method", "original_auth_data")
@pytest.mark.shows("Connection establishment", "proxy_version")
@pytest.mark.shows("Client setup phase", "connection")
@pytest.mark.shows("Feature flags", "supports_auth_refresh")
def test_a_client_says_what_it_is_and_what_it_can_do(client: Any, topic: str, tapped: Wiretap) -> None:
    client.create_producer(topic)
    first = tapped.frames(wire.CommandConnect)[0].command
    assert first.client_version
    assert first.protocol_version >= 19
    assert first.feature_flags.supports_auth_refresh
    for of_a_proxy in ("original_principal", "original_auth_data", "original_auth_method", "proxy_version"):
        assert not first.HasField(of_a_proxy)
    connected = tapped.came(wire.CommandConnected)[0]
    assert connected.server_version
    assert connected.protocol_version >= 19


@pytest.mark.shows("Feature flags", "", "supports_partial_producer")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)
def test_a_client_says_that_its_producers_can_queue(client: Any, topic: str, tapped: Wiretap) -> None:
    client.create_producer(topic)
    assert tapped.frames(wire.CommandConnect)[0].command.feature_flags.supports_partial_producer


@pytest.mark.shows("Topic lookup", "", "topic", "request_id")
@pytest.mark.shows("Command LookupTopicResponse", "", "Connect", "brokerServiceUrl", "proxy_through_service_url")
@pytest.mark.shows("Producer", "lookup first")
@pytest.mark.shows("Consumer", "lookup first")
@pytest.mark.shows("Client setup phase", "", "lookup")
def test_a_topic_is_looked_up_before_it_is_used(client: Any, new_topic: Any, tapped: Wiretap) -> None:
    for make, kind in (
        (client.create_producer, wire.CommandProducer),
        (lambda t: client.subscribe(t, "s"), wire.CommandSubscribe),
    ):
        topic = new_topic()
        make(topic)
        order = [
            type(each.command)
            for each in tapped.said
            if isinstance(each.command, (wire.CommandLookupTopic, kind)) and each.command.topic == topic
        ]
        assert order == [wire.CommandLookupTopic, kind]
    for asked in tapped.sent(wire.CommandLookupTopic):
        (answer,) = (
            each for each in tapped.came(wire.CommandLookupTopicResponse) if each.request_id == asked.request_id
        )
        assert not asked.authoritative
        assert answer.response == wire.CommandLookupTopicResponse.Connect
        assert answer.brokerServiceUrl.startswith("pulsar://")
        assert answer.proxy_through_service_url


@pytest.mark.shows("Partitioned topics discovery", "", "partition-X")
@pytest.mark.shows("Command PartitionedTopicMetadata", "", "topic", "request_id")
@pytest.mark.shows("Command PartitionedTopicMetadataResponse", "", "partitions")
def test_the_broker_tells_how_many_partitions_a_topic_has(client: Any, partitioned: str, tapped: Wiretap) -> None:
    assert client.get_topic_partitions(partitioned) == [f"{partitioned}-partition-{number}" for number in range(3)]
    asked = tapped.one_sent(wire.CommandPartitionedTopicMetadata)
    answer = tapped.one_came(wire.CommandPartitionedTopicMetadataResponse)
    assert asked.topic == partitioned
    assert answer.request_id == asked.request_id
    assert answer.partitions == 3


@pytest.mark.shows("Client library", "transparent reconnection")
@pytest.mark.shows("Command Producer", "", "topic", "producer_id", "request_id", "producer_name", "epoch")
@pytest.mark.shows("Command Producer", "user_provided_producer_name")
@pytest.mark.shows("Command ProducerSuccess", "", "request_id", "producer_name", "last_sequence_id", "producer_ready")
@pytest.mark.shows("Producer")
def test_a_producer_gets_a_name_and_keeps_it(client: Any, topic: str, admin: Any, tapped: Wiretap) -> None:
    producer = client.create_producer(topic)
    producer.send(b"a")
    admin.unload(topic)
    producer.send(b"b")
    first, second = tapped.sent(wire.CommandProducer)[0], tapped.sent(wire.CommandProducer)[-1]
    answers = {each.request_id: each for each in tapped.came(wire.CommandProducerSuccess)}
    accepted = answers[first.request_id]
    assert first.topic == topic
    assert first.producer_name == ""
    assert accepted.producer_ready
    assert accepted.last_sequence_id in {-1, 2**64 - 1}
    assert accepted.producer_name == producer.producer_name() != ""
    assert second.producer_name == accepted.producer_name
    assert not second.user_provided_producer_name
    assert second.epoch > first.epoch
    assert second.request_id != first.request_id


@pytest.mark.shows("Producing", "", "synchronous")
@pytest.mark.shows("Command Send", "", "producer_id", "sequence_id")
@pytest.mark.shows("Command SendReceipt", "", "producer_id", "sequence_id", "message_id")
def test_each_message_has_the_next_sequence_id_and_a_receipt_of_it(client: Any, topic: str, tapped: Wiretap) -> None:
    producer = client.create_producer(topic)
    ids = [producer.send(b"x") for _ in range(3)]
    sends, receipts = tapped.sent(wire.CommandSend), tapped.came(wire.CommandSendReceipt)
    assert [each.sequence_id for each in sends] == [0, 1, 2]
    assert [each.sequence_id for each in receipts] == [0, 1, 2]
    order = tapped.order(wire.CommandSend, wire.CommandSendReceipt)
    assert order == [wire.CommandSend, wire.CommandSendReceipt] * 3
    (producer_id,) = {each.producer_id for each in tapped.sent(wire.CommandProducer)}
    assert {each.producer_id for each in (*sends, *receipts)} == {producer_id}
    places = [(each.message_id.ledgerId, each.message_id.entryId) for each in receipts]
    assert places == [(each.ledger_id(), each.entry_id()) for each in ids]


@pytest.mark.shows("Command CloseProducer", "", "from the client")
@pytest.mark.shows("Command CloseConsumer", "", "from the client")
def test_closing_is_told_to_the_broker_and_answered(client: Any, topic: str, tapped: Wiretap) -> None:
    client.create_producer(topic).close()
    client.subscribe(topic, "s").close()
    answered = {each.request_id for each in tapped.came(wire.CommandSuccess)}
    assert tapped.one_sent(wire.CommandCloseProducer).producer_id == tapped.one_sent(wire.CommandProducer).producer_id
    assert tapped.one_sent(wire.CommandCloseConsumer).consumer_id == tapped.one_sent(wire.CommandSubscribe).consumer_id
    assert tapped.one_sent(wire.CommandCloseProducer).request_id in answered
    assert tapped.one_sent(wire.CommandCloseConsumer).request_id in answered


@pytest.mark.shows("Command Subscribe", "", "topic", "subscription", "subType", "consumer_id", "request_id")
@pytest.mark.shows("Command Subscribe", "consumer_name", "priority_level", "durable", "metadata", "read_compacted")
@pytest.mark.shows("Command Subscribe", "initialPosition", "replicate_subscription_state")
@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "KeyShared"])
def test_a_subscription_is_asked_for_as_the_user_chose(
    pulsar: Any, client: Any, topic: str, tapped: Wiretap, kind: str
) -> None:
    client.subscribe(
        topic,
        "s",
        consumer_type=pulsar.ConsumerType.__members__[kind],
        consumer_name="c",
        properties={"x": "y"},
        initial_position=pulsar.InitialPosition.Earliest,
        replicate_subscription_state_enabled=True,
        is_read_compacted=kind in {"Exclusive", "Failover"},
    )
    asked = tapped.one_sent(wire.CommandSubscribe)
    assert (asked.topic, asked.subscription, asked.consumer_name) == (topic, "s", "c")
    assert wire.CommandSubscribe.SubType.Name(asked.subType).replace("_", "") == kind
    assert [(pair.key, pair.value) for pair in asked.metadata] == [("x", "y")]
    assert asked.initialPosition == wire.CommandSubscribe.Earliest
    assert asked.replicate_subscription_state
    assert asked.read_compacted == (kind in {"Exclusive", "Failover"})
    assert asked.durable
    assert asked.priority_level == 0
    assert asked.request_id in {each.request_id for each in tapped.came(wire.CommandSuccess)}


@pytest.mark.shows("Command Message", "", "consumer_id", "message_id")
@pytest.mark.shows("Command Ack", "", "consumer_id", "ack_type", "message_id")
def test_an_acknowledgement_names_the_consumer_and_the_message(client: Any, topic: str, tapped: Wiretap) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), [b"a", b"b", b"c"])
    first, second, _ = receive(consumer, 3)
    consumer.acknowledge(first)
    until(lambda: tapped.sent(wire.CommandAck))
    consumer.acknowledge_cumulative(second)
    until(lambda: len(tapped.sent(wire.CommandAck)) == 2)
    came = [(each.message_id.ledgerId, each.message_id.entryId) for each in tapped.came(wire.CommandMessage)]
    acks = tapped.sent(wire.CommandAck)
    assert [each.ack_type for each in acks] == [wire.CommandAck.Individual, wire.CommandAck.Cumulative]
    assert [(each.message_id[0].ledgerId, each.message_id[0].entryId) for each in acks] == came[:2]
    ids = {each.consumer_id for each in itertools.chain(tapped.came(wire.CommandMessage), acks)}
    assert ids == {tapped.one_sent(wire.CommandSubscribe).consumer_id}


@pytest.mark.shows("Command RedeliverUnacknowledgedMessages", "", "message_ids", "all")
@pytest.mark.shows("Command Message", "", "redelivery_count")
def test_redelivery_is_of_named_messages_or_of_all(pulsar: Any, client: Any, topic: str, tapped: Wiretap) -> None:
    shared = pulsar.ConsumerType.Shared
    consumer = client.subscribe(topic, "s", consumer_type=shared, negative_ack_redelivery_delay_ms=100)
    client.create_producer(topic).send(b"a")
    consumer.negative_acknowledge(consumer.receive(SOON))
    again = consumer.receive(SOON)
    assert again.redelivery_count() == 1
    (named,) = tapped.sent(wire.CommandRedeliverUnacknowledgedMessages)
    assert [(each.ledgerId, each.entryId) for each in named.message_ids] == [
        (again.message_id().ledger_id(), again.message_id().entry_id())
    ]
    assert [each.redelivery_count for each in tapped.came(wire.CommandMessage)] == [0, 1]
    consumer.close()

    other = client.subscribe(topic, "t", initial_position=pulsar.InitialPosition.Earliest)
    other.receive(SOON)
    other.redeliver_unacknowledged_messages()
    assert other.receive(SOON).data() == b"a"
    assert not tapped.sent(wire.CommandRedeliverUnacknowledgedMessages)[-1].message_ids


@pytest.mark.shows("Command ReachedEndOfTopic")
def test_the_broker_says_when_a_terminated_topic_has_no_more(
    client: Any, topic: str, admin: Any, tapped: Wiretap
) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"a")
    admin.terminate(topic)
    consumer.acknowledge(consumer.receive(SOON))
    assert (
        tapped.one_came(wire.CommandReachedEndOfTopic).consumer_id == tapped.sent(wire.CommandSubscribe)[0].consumer_id
    )


@pytest.mark.shows("Subscription", "unsubscribe")
@pytest.mark.shows("Command Unsubscribe", "", "request_id", "consumer_id")
def test_an_unsubscribe_names_the_consumer_is_answered_and_ends_both(
    pulsar: Any, client: Any, topic: str, admin: Any, tapped: Wiretap
) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"x")
    consumer.unsubscribe()
    with pytest.raises(pulsar.AlreadyClosed):
        consumer.receive(100)
    asked = tapped.one_sent(wire.CommandUnsubscribe)
    assert asked.consumer_id == tapped.one_sent(wire.CommandSubscribe).consumer_id
    assert asked.request_id in {each.request_id for each in tapped.came(wire.CommandSuccess)}
    assert "s" not in admin.stats(topic)["subscriptions"]


@pytest.mark.shows("Command Seek", "", "message_id", "message_publish_time")
def test_a_seek_is_to_a_message_or_to_a_time(client: Any, topic: str, tapped: Wiretap) -> None:
    consumer = client.subscribe(topic, "s")
    sent = client.create_producer(topic).send(b"a")
    consumer.seek(sent)
    consumer.seek(5)
    to_a_message, to_a_time = tapped.sent(wire.CommandSeek)
    assert (to_a_message.message_id.ledgerId, to_a_message.message_id.entryId) == (sent.ledger_id(), sent.entry_id())
    assert to_a_time.message_publish_time == 5
    assert {to_a_message.request_id, to_a_time.request_id} <= {
        each.request_id for each in tapped.came(wire.CommandSuccess)
    }


@pytest.mark.shows("Message metadata", "uuid", "chunk_id", "num_chunks_from_msg", "total_chunk_msg_size")
@pytest.mark.shows("Command Send", "is_chunk")
def test_chunks_say_of_what_they_are_a_part(client: Any, topic: str, tapped: Wiretap) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic, chunking_enabled=True).send(b"x" * 11_000_000)
    assert len(consumer.receive(SOON).data()) == 11_000_000
    chunks = [entry.metadata for entry in tapped.entries(wire.CommandMessage)]
    assert [each.chunk_id for each in chunks] == [0, 1, 2]
    assert {each.num_chunks_from_msg for each in chunks} == {3}
    assert {each.total_chunk_msg_size for each in chunks} == {11_000_000}
    assert len({each.uuid for each in chunks}) == 1
    assert [each.is_chunk for each in tapped.sent(wire.CommandSend)] == [True] * 3
    assert len({each.sequence_id for each in tapped.sent(wire.CommandSend)}) == 1


@pytest.mark.shows("Replication", "replication clusters")
@pytest.mark.shows("Message metadata", "deliver_at_time", "null_value", "replicate_to")
def test_a_message_may_be_delayed_or_without_a_value_or_for_some_clusters_only(
    pulsar: Any, client: Any, topic: str, tapped: Wiretap
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    at = int(time.time() * 1000)
    producer = client.create_producer(topic)
    producer.send(b"a", deliver_at=at)
    producer.send(None, partition_key="k")
    producer.send(b"c", disable_replication=True)
    receive(consumer, 3)
    delayed, without, here = (entry.metadata for entry in tapped.entries(wire.CommandSend))
    assert delayed.deliver_at_time == at
    assert without.null_value
    assert list(here.replicate_to) == ["__local__"]


@pytest.mark.shows("Connection establishment", "Error")
def test_a_refusal_is_an_error_with_the_id_of_the_request(
    pulsar: Any, client: Any, topic: str, tapped: Wiretap
) -> None:
    first = client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s")
    assert first.is_connected()
    refused = tapped.came(wire.CommandError)[0]
    assert refused.request_id == tapped.sent(wire.CommandSubscribe)[-1].request_id
    assert refused.message


@pytest.mark.shows("ProducerConfiguration", "sendTimeout")
def test_a_message_without_a_receipt_fails_when_its_time_is_over(
    pulsar: Any, client: Any, topic: str, tapped: Wiretap
) -> None:
    producer = client.create_producer(topic, send_timeout_millis=500)
    tapped.withhold = wire.CommandSendReceipt
    with pytest.raises(pulsar.Timeout):
        producer.send(b"a")
    assert tapped.came(wire.CommandSendReceipt)


@pytest.mark.shows("ClientConfiguration", "connectionsPerBroker")
def test_there_are_as_many_connections_to_a_broker_as_asked_for(
    new_topic: Any, tapped: Wiretap, connect_to: Any
) -> None:
    client = connect_to(client_module("ours"), tapped.service_url, connections_per_broker=3)
    producers = [client.create_producer(new_topic()) for _ in range(6)]
    assert {each.send(b"a").entry_id() for each in producers} == {0}
    used = Counter(each.connection for each in tapped.frames(wire.CommandProducer))
    assert sorted(used.values()) == [2, 2, 2]


@pytest.mark.shows("Command GetLastMessageId", "consumer_mark_delete_position")
def test_the_last_message_is_told_with_what_was_acknowledged(client: Any, topic: str, tapped: Wiretap) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    acknowledged, last = producer.send(b"a"), producer.send(b"b")
    consumer.acknowledge(consumer.receive(SOON))
    until(lambda: tapped.sent(wire.CommandAck))

    def is_told() -> bool:
        assert consumer.get_last_message_id().entry_id() == last.entry_id()
        told = tapped.came(wire.CommandGetLastMessageIdResponse)[-1].consumer_mark_delete_position
        return (told.ledgerId, told.entryId) == (acknowledged.ledger_id(), acknowledged.entry_id())

    until(is_told)


@pytest.mark.shows("Command Subscribe", "consumer_epoch")
@pytest.mark.shows("Command Message", "consumer_epoch")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)
def test_what_comes_again_belongs_to_the_next_epoch(client: Any, topic: str, admin: Any, tapped: Wiretap) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"a")
    consumer.receive(SOON)
    consumer.redeliver_unacknowledged_messages()
    consumer.receive(SOON)
    admin.unload(topic)
    assert consumer.receive(SOON).data() == b"a"
    assert [each.consumer_epoch for each in tapped.sent(wire.CommandSubscribe)] == [0, 1]
    assert [each.consumer_epoch for each in tapped.came(wire.CommandMessage)] == [0, 1, 1]
    assert tapped.one_sent(wire.CommandRedeliverUnacknowledgedMessages).consumer_epoch == 1


@pytest.mark.shows("Command Producer", "topic_epoch")
@pytest.mark.shows("Command ProducerSuccess", "topic_epoch")
def test_a_producer_with_exclusive_access_keeps_the_epoch_of_its_topic(
    pulsar: Any, client: Any, topic: str, admin: Any, tapped: Wiretap
) -> None:
    producer = client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
    producer.send(b"a")
    admin.unload(topic)
    producer.send(b"b")
    first, *_, last = tapped.sent(wire.CommandProducer)
    told = tapped.came(wire.CommandProducerSuccess)[0]
    assert told.HasField("topic_epoch")
    assert not first.HasField("topic_epoch")
    assert last.topic_epoch == told.topic_epoch


@pytest.mark.shows("Command Ack", "request_id")
@pytest.mark.shows("Command AckResponse", "consumer_id", "request_id")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)
def test_an_acknowledgement_is_answered_where_that_is_asked_for(client: Any, topic: str, tapped: Wiretap) -> None:
    consumer = client.subscribe(topic, "s", ack_receipt_enabled=True)
    client.create_producer(topic).send(b"a")
    consumer.acknowledge(consumer.receive(SOON))
    asked, answer = tapped.one_sent(wire.CommandAck), tapped.one_came(wire.CommandAckResponse)
    assert asked.HasField("request_id")
    assert answer.request_id == asked.request_id
    assert answer.consumer_id == asked.consumer_id == tapped.one_sent(wire.CommandSubscribe).consumer_id
    assert not answer.HasField("error")


@pytest.mark.shows("Command ConsumerStats", "request_id", "consumer_id")
@pytest.mark.shows("Command ConsumerStatsResponse")
@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)
def test_what_a_broker_counts_of_a_consumer_is_asked_by_its_id(
    pulsar: Any, client: Any, topic: str, tapped: Wiretap
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    client.create_producer(topic).send(b"a")
    consumer.receive(SOON)
    counted = consumer.get_broker_consumer_stats()
    asked, answer = tapped.one_sent(wire.CommandConsumerStats), tapped.one_came(wire.CommandConsumerStatsResponse)
    assert asked.consumer_id == tapped.one_sent(wire.CommandSubscribe).consumer_id
    assert answer.request_id == asked.request_id
    assert (answer.unackedMessages, answer.msgBacklog) == (1, 1)
    assert (counted.unacked_messages, counted.msg_backlog) == (1, 1)
