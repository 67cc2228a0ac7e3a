"""What a consumer tells the broker of entries that it cannot read, each kind by its name; and that it goes on."""

from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.batch import encode_batch
from pulsar_actors.wire.entries import encode_entry, parse_entry
from pulsar_actors.wire.topic_name import TopicName

Fault = pb.CommandAck.ValidationError
SOON = 5_000
HUGE = 2**31 - 1


def metadata(**fields: Any) -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields)


def entry(payload: bytes, *, broken: bool = False, **fields: Any) -> bytes:
    stored = bytearray(b"".join(encode_entry(metadata(**fields), payload)))
    if broken:
        stored[-1] ^= 1
    return bytes(stored)


def batch(*payloads: bytes) -> bytes:
    return encode_batch([(pb.SingleMessageMetadata(payload_size=len(one)), one) for one in payloads])


CASES = {
    Fault.ChecksumMismatch: entry(b"x", broken=True),
    Fault.DecompressionError: entry(b"x", compression=pb.CompressionType.ZSTD, uncompressed_size=5),
    Fault.UncompressedSizeCorruption: entry(b"x", compression=pb.CompressionType.LZ4, uncompressed_size=HUGE),
    Fault.BatchDeSerializeError: entry(batch(b"a", b"b")[:-1], num_messages_in_batch=2),
}


def store(broker: EmbeddedBroker, topic: str, data: bytes) -> None:
    """Have the topic hold an entry that no client would send."""

    def put(inside: Any) -> None:
        held = inside.cluster.open_topic(TopicName.parse(topic))
        (producer,) = held.producers.values()
        metadata = parse_entry(data).metadata
        held.publish(producer, data, metadata, sequence_id=0, highest_sequence_id=0)

    broker.call(put)


@pytest.mark.parametrize("fault", CASES, ids=Fault.Name)
@pytest.mark.parametrize("queue", [0, 1, 4])
def test_what_cannot_be_read_is_acknowledged_by_its_kind_and_costs_no_permit(
    broker: EmbeddedBroker, client: Client, topic: str, fault: Any, queue: int
) -> None:
    said: list[pb.CommandAck] = []
    with client.subscribe(topic, "s", receiver_queue_size=queue) as consumer, client.create_producer(topic) as producer:
        watching = broker.faults.on(pb.CommandAck, when=lambda ack: bool(said.append(ack)), times=None).drop()
        for _ in range(3):
            store(broker, topic, CASES[fault])
        for payload in (b"a", b"b", b"c", b"d", b"e"):
            producer.send(payload)
            assert consumer.receive(SOON).data() == payload
        refused = [ack for ack in said if ack.HasField("validation_error")]
        assert {ack.validation_error for ack in refused} == {fault}
        assert sum(len(ack.message_id) for ack in refused) == 3
        watching.remove()
