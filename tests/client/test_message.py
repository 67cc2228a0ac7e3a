import copy
import json
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pulsar
import pytest

from pulsar_actors.client.client import Client
from pulsar_actors.client.message import (
    EncryptionContext,
    Message,
    MessageBatch,
    MessageEntry,
    ack_key_of,
    forwarded_metadata_of,
    new_messages,
)
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.schema import BYTES, StringSchema
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.batch import LazyMetadata, encode_batch, encode_plain_batch, is_batch, split_batch
from pulsar_actors.wire.compression import decompress
from pulsar_actors.wire.entries import decode_entry, encode_entry
from pulsar_actors.wire.errors import MalformedBatch
from pulsar_actors.wire.frames import (
    DEFAULT_MAX_MESSAGE_SIZE,
    FrameReader,
    decode_command,
    encode_command,
    encode_payload_command,
)
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.protobuf import parse
from tests.support.life import FakeBroker
from tests.support.pretender import Broker

TOPIC = "persistent://public/default/replayed"
RECORDED = Path(__file__).parents[1] / "vectors"
PATIENCE_MS = 10_000


class Opened(NamedTuple):
    message_id: WireMessageId
    metadata: pb.MessageMetadata
    redelivery_count: int = 0
    size: int = 0
    topic: str = TOPIC
    decode: Any = BYTES.decode_message
    generation: Generation = Generation(1, 2, 3)
    broker_metadata: pb.BrokerEntryMetadata | None = None
    data_key: object = None
    is_undecryptable: bool = False


class Delivered(NamedTuple):
    """An entry, and the command that brings it."""

    command: pb.CommandMessage
    entry: bytes


def recorded() -> list[Delivered]:
    """Every entry that a real broker delivered in the recordings, each once, chunks apart.

    And apart from an empty payload in ZLIB, which the official client writes and cannot read.
    """
    found: dict[tuple[int, int], Delivered] = {}
    for path in sorted(RECORDED.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        for line in lines:
            if line.get("command") == "MESSAGE":
                (frame,) = FrameReader().feed(bytes.fromhex(line["frame"]))
                command = decode_command(frame.command)
                assert isinstance(command, pb.CommandMessage)
                metadata = decode_entry(frame.rest).metadata
                empty_zlib = metadata.compression == pb.CompressionType.ZLIB and not metadata.uncompressed_size
                if not metadata.HasField("chunk_id") and not empty_zlib:
                    command.consumer_id = 0
                    command.ClearField("ack_set")
                    place = (command.message_id.ledgerId, command.message_id.entryId)
                    found.setdefault(place, Delivered(command, bytes(frame.rest)))
    return list(found.values())


def strange() -> list[Delivered]:
    """What the recordings lack: redelivered, of a schema, and with an entry that says what its messages do not."""
    metadata = pb.MessageMetadata(
        producer_name="p",
        sequence_id=1,
        publish_time=1_700_000_000_000,
        partition_key="of the entry",
        ordering_key=b"of the entry",
        event_time=7,
        schema_version=b"\0\0\0\0\0\0\0\x05",
        properties=[pb.KeyValue(key="of", value="the entry")],
    )
    plain = encode_entry(metadata, b"plain")
    metadata.num_messages_in_batch = 2
    own = pb.SingleMessageMetadata(payload_size=1, partition_key="own", ordering_key=b"own too", event_time=8)
    own.properties.add(key="k", value="v")

    batch = encode_entry(metadata, encode_batch([(own, b"a"), (None, b"b")]))
    places = [WireMessageId(999_999, index, 3).to_data() for index in range(2)]
    return [
        Delivered(pb.CommandMessage(consumer_id=0, message_id=place, redelivery_count=4), b"".join(entry))
        for place, entry in zip(places, (plain, batch), strict=True)
    ]


def opened(delivered: Delivered) -> list[Message]:
    """Our messages of an entry."""
    entry = decode_entry(delivered.entry)
    metadata = entry.metadata
    payload = decompress(metadata.compression, entry.payload, metadata.uncompressed_size, DEFAULT_MAX_MESSAGE_SIZE)
    size = metadata.num_messages_in_batch if is_batch(metadata) else 0
    place = WireMessageId.from_data(delivered.command.message_id)
    shared = Opened(place, metadata, delivered.command.redelivery_count, size)
    if not size:
        return [made(bytes(payload), None, shared, -1)]
    return [made(one.payload, one.lazy_metadata, shared, at) for at, one in enumerate(split_batch(payload, size))]


def made(payload: bytes, stored: LazyMetadata | None, entry: MessageEntry, index: int) -> Message:
    """One of our messages."""
    (message,) = new_messages([stored], [payload], entry, [index])
    return message


ENTRIES = [*recorded(), *strange()]
OURS = [message for delivered in ENTRIES for message in opened(delivered)]


class Replaying(Broker):
    """A broker of one topic: whoever subscribes gets all the entries."""

    def _answer(self, client: socket.socket, command: Any) -> bytes:
        if isinstance(command, pb.CommandFlow):
            return b"".join(bytes(part) for one in ENTRIES for part in encode_payload_command(one.command, one.entry))
        if isinstance(command, pb.CommandSubscribe):  # the official client counts its requests from 0
            return encode_command(pb.CommandSuccess(request_id=command.request_id))
        return super()._answer(client, command)


@pytest.fixture(scope="module")
def official() -> Iterator[list[Any]]:
    """What the official client makes of the same bytes."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    with FakeBroker(Replaying().serve) as broker:
        client = pulsar.Client(broker.service_url, logger=quiet)
        consumer = client.subscribe(TOPIC, "s", receiver_queue_size=100_000)
        yield [consumer.receive(PATIENCE_MS) for _ in OURS]
        client.close()  # its `shutdown` holds the GIL, for which its own thread may wait, to log: five seconds or more


ASKED = [
    *("data", "value", "properties", "partition_key", "ordering_key", "publish_timestamp", "event_timestamp"),
    *("topic_name", "redelivery_count", "schema_version", "producer_name", "has_null_value", "encryption_context"),
]


def test_the_recordings_hold_messages_of_every_kind() -> None:
    plain, batched = (
        sum(bool(is_batch(decode_entry(one.entry).metadata)) is kind for one in ENTRIES) for kind in (False, True)
    )
    assert plain > 20
    assert batched > 20
    for ask in ("properties", "partition_key", "ordering_key", "event_timestamp", "has_null_value", "schema_version"):
        assert len({str(getattr(message, ask)()) for message in OURS}) > 1, ask


@pytest.mark.parametrize("ask", ASKED)
def test_a_message_answers_what_the_official_one_of_the_same_bytes_does(ask: str, official: list[Any]) -> None:
    ours, theirs = ([getattr(message, ask)() for message in messages] for messages in (OURS, official))
    assert ours == theirs
    assert [type(one) for one in ours] == [type(one) for one in theirs]


@pytest.mark.parametrize("ask", ["serialize", "__str__", "partition", "batch_index"])
def test_the_id_of_a_message_is_that_of_the_official_one(ask: str, official: list[Any]) -> None:
    def ids(messages: list[Any]) -> list[Any]:
        return [getattr(message.message_id(), ask)() for message in messages]

    assert ids(OURS) == ids(official)


OF_OURS = {"broker_publish_timestamp", "index", "replicated_from"}


def test_a_message_has_the_methods_of_the_official_one_and_three_more() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert methods(Message) == methods(pulsar.Message) | OF_OURS


def message(payload: bytes = b"payload", **metadata: Any) -> Message:
    stored = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0, **metadata)
    return made(payload, None, Opened(WireMessageId(1, 2, 3), stored), -1)


def test_value_is_what_the_schema_of_the_consumer_makes_of_the_payload() -> None:
    shared = Opened(WireMessageId(1, 2), pb.MessageMetadata(), decode=StringSchema().decode_message)
    assert made("grün".encode(), None, shared, -1).value() == "grün"


def test_the_place_of_a_message_is_its_id_the_past_that_it_belongs_to_and_its_topic() -> None:
    for one in OURS:
        place, past, topic = ack_key_of(one)
        assert tuple(place) == tuple(one.message_id().wire)
        assert past == Generation(1, 2, 3)
        assert topic == one.topic_name()


def test_the_id_of_a_message_in_chunks_keeps_its_first_chunk() -> None:
    first = WireMessageId(1, 1)
    place = WireMessageId(1, 5, first_chunk=first)
    assert made(b"", None, Opened(place, pb.MessageMetadata()), -1).message_id().wire.first_chunk == first


def test_metadata_that_was_kept_as_bytes_is_read_when_asked_for() -> None:
    stored = pb.SingleMessageMetadata(payload_size=1, partition_key="k", event_time=5).SerializeToString()
    kept = made(b"x", stored, Opened(WireMessageId(1, 2), pb.MessageMetadata(), size=9), 3)
    assert (kept.partition_key(), kept.event_timestamp(), kept.message_id()) == ("k", 5, MessageId(-1, 1, 2, 3))


NAMELESS = pb.MessageMetadata(producer_name="", sequence_id=0, publish_time=0).SerializeToString()


@pytest.mark.parametrize(
    ("ask", "own", "shared"),
    [  # of Latin-1 bytes, as a producer may write them: tag, length, bytes
        ("partition_key", b"\x12\x01\xe9", NAMELESS),
        ("properties", b"\x0a\x06\x0a\x01\xe9\x12\x01\xe9", NAMELESS),
        ("ordering_key", None, pb.MessageMetadata(ordering_key=b"\xe9").SerializePartialToString() + NAMELESS),
        ("producer_name", None, b"\x0a\x01\xe9\x10\x00\x18\x00"),
    ],
)
def test_a_string_that_is_not_utf_8_is_text_all_the_same(ask: str, own: bytes | None, shared: bytes) -> None:
    stored = None if own is None else own + pb.SingleMessageMetadata(payload_size=0).SerializeToString()
    metadata = parse(pb.MessageMetadata, shared)
    strange = made(b"", stored, Opened(WireMessageId(1, 2), metadata), -1 if own is None else 0)
    assert getattr(strange, ask)() in ("\ufffd", {"\ufffd": "\ufffd"})


def test_a_schema_version_gives_its_bytes_back() -> None:
    version = bytes(range(248, 256))
    assert message(schema_version=version).schema_version().encode("latin-1") == version


def test_a_repr_is_short_and_shows_an_excerpt_at_most() -> None:
    shown = repr(message(b"secret" * 1000))
    assert shown.startswith(f"<Message (1,2,3,-1) of {TOPIC}: 6,000 bytes b'secret")
    assert len(shown) < 250


@pytest.mark.shows("Message metadata", "encryption_algo")
def test_a_message_does_not_pickle_and_says_what_does() -> None:
    with pytest.raises(TypeError, match=r"cannot be pickled: pickle .* data\(\), properties\(\) and message_id\(\)"):
        pickle.dumps(message())


def test_a_copy_of_a_message_is_the_message_which_never_changes() -> None:
    one = message()
    assert copy.copy(one) is one
    assert copy.deepcopy({"kept": [one]})["kept"] == [one]


def test_an_encrypted_message_says_how_it_was_encrypted() -> None:
    keys = [pb.EncryptionKeys(key="name", value=b"sealed", metadata=[pb.KeyValue(key="a", value="b")])]
    encrypted = message(
        encryption_keys=keys,
        encryption_algo="AES/GCM",
        encryption_param=b"iv",
        compression=pb.CompressionType.ZLIB,
        uncompressed_size=12,
        num_messages_in_batch=2,
    )
    context = encrypted.encryption_context()
    (key,) = context.keys()
    assert (key.key, key.value, key.metadata) == ("name", b"sealed", {"a": "b"})
    assert (context.algorithm(), context.param(), context.is_decryption_failed()) == ("AES/GCM", b"iv", False)
    assert (context.compression_type().name, context.uncompressed_message_size()) == ("ZLib", 12)
    assert context.batch_size() == 2
    assert "sealed" not in repr(context)
    assert "name" in repr(context)


def test_what_is_not_compressed_has_no_size_before_and_what_is_no_batch_none_of_that() -> None:
    context = EncryptionContext(pb.MessageMetadata(uncompressed_size=12), failed=True)
    assert (context.uncompressed_message_size(), context.batch_size()) == (0, -1)


@pytest.mark.shows("Message metadata", "replicated_from")
def test_a_message_says_which_cluster_it_was_published_in() -> None:
    assert message(replicated_from="west").replicated_from() == "west"
    assert message().replicated_from() == ""


@pytest.mark.parametrize(
    ("broker", "index", "told"),
    [
        (None, -1, (None, None)),
        (pb.BrokerEntryMetadata(), -1, (None, None)),
        (pb.BrokerEntryMetadata(index=0, broker_timestamp=0), -1, (0, 0)),
        *((pb.BrokerEntryMetadata(index=12), index, (10 + index, None)) for index in range(3)),
    ],
)
def test_a_message_has_what_the_broker_tells_which_counts_a_batch_by_its_last_message(
    broker: pb.BrokerEntryMetadata | None, index: int, told: tuple[int | None, int | None]
) -> None:
    size = 0 if index < 0 else 3
    entry = Opened(WireMessageId(1, 2), pb.MessageMetadata(), size=size, broker_metadata=broker)
    one = made(b"", b"" if size else None, entry, index)
    assert (one.index(), one.broker_publish_timestamp()) == told


# What is sent on.


@pytest.mark.parametrize("in_a_batch", [False, True])
def test_what_is_sent_on_keeps_keys_to_the_byte_and_leaves_out_what_was_not_said(*, in_a_batch: bool) -> None:
    said = {"partition_key": "a2V5", "partition_key_b64_encoded": True, "ordering_key": b"\xff\x00", "event_time": 0}
    for given in (said, {"null_value": True}, {}):
        own = pb.SingleMessageMetadata(payload_size=0, **given)
        whole = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **({} if in_a_batch else given))
        message = made(b"", own if in_a_batch else None, Opened(WireMessageId(1, 2), whole), 0)
        assert forwarded_metadata_of(message) == pb.SingleMessageMetadata(**{"null_value": False, **given})


def test_each_message_of_an_entry_has_its_own_payload_metadata_and_index() -> None:
    shared = Opened(WireMessageId(1, 2), pb.MessageMetadata(), size=3)
    stored = [pb.SingleMessageMetadata(payload_size=1, partition_key=f"key {number}") for number in (0, 2)]
    messages = new_messages(stored, [b"0", b"2"], shared, [0, 2])
    assert [(one.data(), one.partition_key(), one.message_id()) for one in messages] == [
        (b"0", "key 0", MessageId(-1, 1, 2, 0)),
        (b"2", "key 2", MessageId(-1, 1, 2, 2)),
    ]


FULL = pb.SingleMessageMetadata(
    payload_size=2, partition_key="k", ordering_key=b"o", event_time=5, properties=[pb.KeyValue(key="a", value="b")]
)
BATCH = encode_batch([(FULL, b"hi"), (pb.SingleMessageMetadata(payload_size=0, null_value=True), b""), (None, b"x")])


@pytest.mark.parametrize("ask", ASKED)
def test_the_messages_of_a_batch_answer_as_the_official_clients_do(ask: str) -> None:
    ours = MessageBatch().with_message_id(MessageId(1, 2, 3)).parse_from(BATCH, 3)
    official = pulsar.MessageBatch().with_message_id(pulsar.MessageId(1, 2, 3)).parse_from(BATCH, 3)
    assert [getattr(one, ask)() for one in ours] == [getattr(one, ask)() for one in official]
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
        whole = (
            MessageBatch()
            .with_message_id(received[0].message_id())
            .parse_from(encode_plain_batch([b"a", b"b"], [1, 1]), 2)
        )
        for message in whole:
            consumer.acknowledge(message)
        producer.send(b"the next one")
    with client.subscribe(topics, "s") as consumer:
        assert consumer.receive(5000).data() == b"the next one"


@pytest.mark.parametrize(("data", "size"), [(BATCH, 2), (BATCH, 4), (BATCH[:-1], 3), (b"", 1)])
def test_a_payload_that_is_not_that_many_messages_is_refused(data: bytes, size: int) -> None:
    with pytest.raises(MalformedBatch):
        MessageBatch().parse_from(data, size)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_that_no_batch_has_is_refused(size: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^size takes "):
        MessageBatch().parse_from(BATCH, size)


def test_the_repr_of_an_encrypted_message_shows_nothing_of_it() -> None:
    shown = repr(message(b"secret", encryption_keys=[pb.EncryptionKeys(key="name", value=b"sealed")]))
    assert shown == f"<Message (1,2,3,-1) of {TOPIC}: 6 bytes, encrypted>"
