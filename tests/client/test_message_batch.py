from typing import Any

import pulsar
import pytest

from pulsar_actors.client.client import Client
from pulsar_actors.client.message_batch import MessageBatch
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.batch import encode_batch, encode_plain_batch
from pulsar_actors.wire.errors import MalformedBatch
from pulsar_actors.wire.PulsarApi_pb2 import KeyValue, SingleMessageMetadata

FULL = SingleMessageMetadata(
    payload_size=2, partition_key="k", ordering_key=b"o", event_time=5, properties=[KeyValue(key="a", value="b")]
)
BATCH = encode_batch([(FULL, b"hi"), (SingleMessageMetadata(payload_size=0, null_value=True), b""), (None, b"x")])
ASKED = [
    *("data", "value", "properties", "partition_key", "ordering_key", "publish_timestamp", "event_timestamp"),
    *("topic_name", "redelivery_count", "schema_version", "producer_name", "has_null_value", "encryption_context"),
]


@pytest.mark.parametrize("ask", ASKED)
def test_the_messages_of_a_batch_answer_as_the_official_clients_do(ask: str) -> None:
    ours = MessageBatch().with_message_id(MessageId(1, 2, 3)).parse_from(BATCH, 3)
    official = pulsar.MessageBatch().with_message_id(pulsar.MessageId(1, 2, 3)).parse_from(BATCH, 3)
    assert [getattr(one, ask)() for one in ours] == [getattr(one, ask)() for one in official]


def test_the_ids_are_those_of_the_entry_with_the_places_in_the_batch() -> None:
    ours = MessageBatch().with_message_id(MessageId(1, 2, 3)).parse_from(BATCH, 3)
    official = pulsar.MessageBatch().with_message_id(pulsar.MessageId(1, 2, 3)).parse_from(BATCH, 3)
    assert [one.message_id().serialize() for one in ours] == [one.message_id().serialize() for one in official]


def test_the_topic_of_the_entrys_id_is_that_of_the_messages() -> None:
    topic = "persistent://public/default/t"
    place = MessageId.deserialize(MessageId(1, 2, 3).serialize(), topic)
    (first, *_) = MessageBatch().with_message_id(place).parse_from(BATCH, 3)
    assert (first.topic_name(), first.message_id().topic_name()) == (topic, topic)


def test_without_an_id_the_messages_still_have_their_places() -> None:
    assert [one.message_id().batch_index() for one in MessageBatch().parse_from(BATCH, 3)] == [0, 1, 2]


@pytest.mark.parametrize("several", [False, True])
def test_the_messages_can_be_acknowledged(client: Client, topic: str, several: bool) -> None:  # noqa: FBT001
    topics: Any = [topic, f"{topic}-other"] if several else topic
    with client.subscribe(topics, "s") as consumer, client.create_producer(topic, batching_enabled=True) as producer:
        for content in (b"a", b"b"):
            producer.send_async(content, lambda *_: None)
        producer.flush()
        received = [consumer.receive(5000) for _ in range(2)]
        whole = MessageBatch().with_message_id(received[0].message_id()).parse_from(encode_plain_batch([b"a", b"b"]), 2)
        for message in whole:
            consumer.acknowledge(message)
        producer.send(b"the next one")
    with client.subscribe(topics, "s") as consumer:
        assert consumer.receive(5000).data() == b"the next one"


@pytest.mark.parametrize(("data", "size"), [(BATCH, 2), (BATCH, 4), (BATCH[:-1], 3), (b"", 1)])
def test_a_payload_that_is_not_that_many_messages_is_refused(data: bytes, size: int) -> None:
    with pytest.raises(MalformedBatch):
        MessageBatch().parse_from(data, size)


@pytest.mark.parametrize("size", [0, -1, "3", None])
def test_a_size_that_no_batch_has_is_refused(size: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^size takes "):
        MessageBatch().parse_from(BATCH, size)


def test_an_id_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"^msg_id takes a MessageId, got "):
        MessageBatch().with_message_id((1, 2, 3))  # type: ignore[arg-type]
