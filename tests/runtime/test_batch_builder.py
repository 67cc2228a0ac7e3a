import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.exceptions import InternalError, MessageTooBig
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.runtime import batch_builder
from pulsar_actors.runtime.message_crypto import ProducerKeys
from pulsar_actors.runtime.send_queue import MessageHeader, OutgoingMessages, UnbatchableOptions, reply_of, tag_in
from pulsar_actors.wire.batch import split_batch
from pulsar_actors.wire.compression import decompress
from pulsar_actors.wire.entries import Entry, decode_entry
from pulsar_actors.wire.frames import FrameReader, decode_command
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, CompressionType, KeyValue, SingleMessageMetadata
from pulsar_actors.wire.transaction_id import TransactionId, transaction_in

PLAIN = batch_builder.ProducerFields(7, "the producer", CompressionType.NONE, b"")
SQUEEZING = batch_builder.ProducerFields(7, "the producer", CompressionType.ZLIB, b"\x01")
NOW_MS = 1_750_000_000_000
LARGEST = 10_000
NOW = batch_builder.PackingLimits(NOW_MS, None, LARGEST, lambda: 0.5)
SMALL = batch_builder.PackingLimits(NOW_MS, None, 1000, lambda: 0.5)


def plain(*payloads: bytes) -> OutgoingMessages:
    return OutgoingMessages(payloads, ["reply"] * len(payloads))


def said(payload: bytes = b"payload", alone: UnbatchableOptions | None = None, **said_of_it: Any) -> OutgoingMessages:
    return OutgoingMessages(
        [payload], [MessageHeader.of(SingleMessageMetadata(payload_size=len(payload), **said_of_it), alone, None)]
    )


def together(*several: OutgoingMessages) -> OutgoingMessages:
    return OutgoingMessages(*zip(*((each.payloads[0], each.tags[0]) for each in several), strict=True))


def read(packed: batch_builder.PackedMessages) -> list[tuple[CommandSend, Entry]]:
    """Read the frames as a broker does."""
    data = b"".join(packed.frames_from(0).buffers())
    found = []
    for frame in FrameReader().feed(data):
        command = decode_command(frame.command)
        assert isinstance(command, CommandSend)
        found.append((command, decode_entry(frame.rest)))
    return found


def test_a_message_alone_is_an_entry_that_is_no_batch() -> None:
    ((command, entry),) = read(batch_builder.pack_single(plain(b"payload"), 5, PLAIN, NOW))
    assert (command.producer_id, command.sequence_id, command.HasField("highest_sequence_id")) == (7, 5, False)
    assert bytes(entry.payload) == b"payload"
    metadata = entry.metadata
    assert (metadata.producer_name, metadata.sequence_id, metadata.publish_time) == ("the producer", 5, NOW_MS)
    assert not metadata.HasField("num_messages_in_batch")
    assert not metadata.HasField("compression")
    assert not metadata.HasField("schema_version")


def test_an_entry_says_all_that_was_said_of_its_one_message() -> None:
    alone = UnbatchableOptions(deliver_at_ms=99, replicate_to=("here", "there"))
    pair = KeyValue(key="a", value="b")
    message = said(alone=alone, partition_key="k", ordering_key=b"o", event_time=3, null_value=True, properties=[pair])
    ((_, entry),) = read(batch_builder.pack_single(message, 5, PLAIN, NOW))
    metadata = entry.metadata
    assert (metadata.partition_key, metadata.ordering_key, metadata.event_time) == ("k", b"o", 3)
    assert (metadata.null_value, metadata.deliver_at_time) == (True, 99)
    assert list(metadata.replicate_to) == ["here", "there"]
    assert [(pair.key, pair.value) for pair in metadata.properties] == [("a", "b")]


def test_what_was_not_said_of_a_message_is_not_said_of_its_entry() -> None:
    ((_, entry),) = read(
        batch_builder.pack_single(said(alone=UnbatchableOptions(replicate_to=("here",))), 5, PLAIN, NOW)
    )
    names = {field.name for field, _ in entry.metadata.ListFields()}
    assert names == {"producer_name", "sequence_id", "publish_time", "replicate_to"}


def test_a_batch_says_its_lowest_and_highest_id_in_both_places_and_keeps_what_is_said_of_each() -> None:
    messages = together(plain(b"a"), said(b"bc", partition_key="k"), plain(b""))
    ((command, entry),) = read(batch_builder.pack_batch(messages, (5, 7), PLAIN, NOW))
    assert (command.sequence_id, command.highest_sequence_id, command.num_messages) == (5, 7, 3)
    metadata = entry.metadata
    assert (metadata.sequence_id, metadata.highest_sequence_id, metadata.num_messages_in_batch) == (5, 7, 3)
    assert not metadata.HasField("partition_key")
    singles = split_batch(entry.payload, 3)
    assert [one.payload for one in singles] == [b"a", b"bc", b""]
    assert [one.metadata.partition_key for one in singles] == ["", "k", ""]


def test_a_batch_of_one_key_has_its_last_id_alone_and_says_the_key() -> None:
    messages = together(
        said(b"a", partition_key="k", ordering_key=b"o"), said(b"b", partition_key="k", ordering_key=b"o")
    )
    ((command, entry),) = read(batch_builder.pack_batch(messages, (7, None), PLAIN, NOW))
    assert (command.sequence_id, command.HasField("highest_sequence_id")) == (7, False)
    assert (entry.metadata.sequence_id, entry.metadata.HasField("highest_sequence_id")) == (7, False)
    assert (entry.metadata.partition_key, entry.metadata.ordering_key) == ("k", b"o")


def test_a_batch_of_messages_without_a_key_says_none() -> None:
    ((_, entry),) = read(batch_builder.pack_batch(plain(b"payload", b"payload"), (7, None), PLAIN, NOW))
    assert not entry.metadata.HasField("partition_key")
    assert not entry.metadata.HasField("ordering_key")


def test_what_is_squeezed_says_how_and_how_large_it_was() -> None:
    payload = b"very much the same " * 20
    for packed in (
        batch_builder.pack_single(plain(payload), 5, SQUEEZING, NOW),
        batch_builder.pack_batch(plain(payload), (5, 5), SQUEEZING, NOW),
    ):
        ((_, entry),) = read(packed)
        metadata = entry.metadata
        assert metadata.compression == CompressionType.ZLIB
        assert metadata.schema_version == b"\x01"
        assert len(entry.payload) < 100
        inflated = decompress(metadata.compression, entry.payload, metadata.uncompressed_size, LARGEST)
        assert bytes(inflated).endswith(payload)


def test_an_entry_over_the_brokers_limit_is_refused_with_both_sizes() -> None:
    with pytest.raises(MessageTooBig, match=r"entry of 2,0\d\d bytes.* limit of 1,000"):
        batch_builder.pack_single(plain(bytes(2000)), 5, PLAIN, SMALL)
    with pytest.raises(MessageTooBig):
        batch_builder.pack_batch(plain(bytes(600), bytes(600)), (5, 6), PLAIN, SMALL)


def test_a_message_that_fits_is_not_cut_into_chunks() -> None:
    ((command, entry),) = read(batch_builder.pack_chunks(plain(bytes(500)), 5, PLAIN, SMALL, 1000))
    assert not command.is_chunk
    assert not entry.metadata.HasField("chunk_id")


def test_a_chunk_is_no_larger_than_was_asked_for_even_if_the_broker_took_more() -> None:
    found = read(batch_builder.pack_chunks(plain(bytes(500)), 5, PLAIN, SMALL, 200))
    assert [len(entry.payload) for _, entry in found] == [200, 200, 100]
    assert {entry.metadata.total_chunk_msg_size for _, entry in found} == {500}
    ((_, entry),) = read(batch_builder.pack_chunks(plain(bytes(200)), 5, PLAIN, SMALL, 200))
    assert not entry.metadata.uuid


@pytest.mark.parametrize("sender", [PLAIN, SQUEEZING], ids=["plain", "squeezed"])
def test_a_message_that_does_not_fit_goes_in_chunks_that_share_a_sequence_id_and_a_uuid(
    sender: batch_builder.ProducerFields,
) -> None:
    payload = bytes(number * number // 7 % 251 for number in range(20_000))
    message = said(payload, partition_key="k")
    found = read(batch_builder.pack_chunks(message, 5, sender, SMALL, 1000))
    assert len(found) > 1
    whole = b"".join(bytes(entry.payload) for _, entry in found)
    for number, (command, entry) in enumerate(found):
        metadata = entry.metadata
        assert (command.is_chunk, command.sequence_id) == (True, 5)
        assert (metadata.chunk_id, metadata.num_chunks_from_msg) == (number, len(found))
        assert metadata.total_chunk_msg_size == len(whole)
        assert (metadata.uuid, metadata.partition_key) == ("the producer-5-10000000000000", "k")
        assert len(metadata.SerializeToString()) + len(entry.payload) <= 1000
    first = found[0][1].metadata
    assert decompress(first.compression, whole, first.uncompressed_size, 100_000) == payload


def test_a_broker_that_goes_by_stored_entries_has_a_message_in_chunks_with_its_last_chunk_only() -> None:
    """It takes the sequence id in the last entry of each name, as Pulsar does when it loads a topic again."""
    found = [entry.metadata for _, entry in read(batch_builder.pack_chunks(plain(bytes(3000)), 0, PLAIN, SMALL, 1000))]
    *first, last = found
    assert "the producer" not in {metadata.producer_name for metadata in first}
    assert len({metadata.producer_name for metadata in first}) == 1
    assert (last.producer_name, last.sequence_id) == ("the producer", 0)
    assert not last.HasField("ordering_key")


@pytest.mark.parametrize(
    "of_keys",
    [
        {},
        {"null_partition_key": True},
        {"partition_key": ""},
        {"partition_key": "azE=", "partition_key_b64_encoded": True},
        {"ordering_key": b""},
        {"partition_key": "k", "ordering_key": b"o"},
    ],
    ids=str,
)
def test_all_chunks_of_a_message_go_to_one_consumer_of_a_key_shared_subscription(of_keys: dict[str, Any]) -> None:
    found = read(batch_builder.pack_chunks(said(bytes(3000), **of_keys), 5, PLAIN, SMALL, 1000))
    assert len({StoredEntry(b"", entry.metadata, "the producer", NOW_MS).key_hash for _, entry in found}) == 1
    last = found[-1][1].metadata
    assert last.HasField("ordering_key") == ("ordering_key" in of_keys)


def test_no_two_messages_in_chunks_share_a_uuid_even_with_one_sequence_id() -> None:
    packing = SMALL._replace(chance=iter((0.25, 0.75)).__next__)
    twice = [read(batch_builder.pack_chunks(plain(bytes(3000)), 5, PLAIN, packing, 1000)) for _ in range(2)]
    uuids = [{entry.metadata.uuid for _, entry in found} for found in twice]
    assert [len(each) for each in uuids] == [1, 1]
    assert uuids[0].isdisjoint(uuids[1])


def test_the_chunks_of_a_producer_with_a_long_name_fit() -> None:
    producer = PLAIN._replace(producer_name="n" * 150)
    found = read(batch_builder.pack_chunks(plain(bytes(3000)), 5, producer, SMALL, 1000))
    assert b"".join(bytes(entry.payload) for _, entry in found) == bytes(3000)


def test_the_chunks_of_an_encrypted_message_fit_with_the_wrapped_keys() -> None:
    key = rsa.generate_private_key(65537, 2048).public_key()
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    keys = ProducerKeys(["a", "b"], lambda *_: (pem, {"of": "it"}))
    keys.replace(0.0)
    found = read(batch_builder.pack_chunks(plain(bytes(3000)), 5, PLAIN._replace(keys=keys), SMALL, 1000))
    sizes = [len(entry.metadata.SerializeToString()) + len(entry.payload) for _, entry in found]
    assert all(size <= 1000 for size in sizes)
    assert min(sizes[:-1]) > 850, "room was left"


def written(packed: batch_builder.PackedMessages) -> bytes:
    return b"".join(packed.frames_from(0).buffers())


def test_from_a_frame_on_only_the_rest_is_written() -> None:
    packed = batch_builder.pack_chunks(plain(bytes(3000)), 5, PLAIN, SMALL, 1000)
    whole = b"".join(packed.frames_from(0).buffers())
    rest = b"".join(packed.frames_from(1).buffers())
    assert whole.endswith(rest)
    assert len(FrameReader().feed(rest)) == packed.frame_count - 1


def by_hand(
    messages: OutgoingMessages,
    ids: Sequence[int],
    producer: batch_builder.ProducerFields,
    packing: batch_builder.PackingLimits,
    limits: BatchLimits | None = None,
) -> list[batch_builder.PackedMessages]:
    settings = batch_builder.BatchBuilderSettings(producer.codec, None, by_key=False, in_chunks=False)
    builder = batch_builder.BatchBuilder(
        messages, ids, producer, batch_builder.send_encoder(producer), settings, packing
    )
    builder.pack(limits)
    return [item.token for item in builder.items]


PACKED: dict[str, Callable[[OutgoingMessages], batch_builder.PackedMessages]] = {
    "alone": lambda message: batch_builder.pack_single(message, 5, PLAIN, NOW),
    "alone by hand": lambda message: by_hand(message, [5], PLAIN, NOW)[0],
    "in a batch": lambda message: batch_builder.pack_batch(message, (5, 5), PLAIN, NOW),
    "in a batch by hand": lambda message: by_hand(message, [5], PLAIN, NOW, BatchLimits())[0],
    "in chunks": lambda message: batch_builder.pack_chunks(message, 5, PLAIN, NOW, 4),
}


class Reply:
    """What a weak reference can be had of."""


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_what_has_ended_keeps_no_bytes_and_writes_nothing(
    pack: Callable[[OutgoingMessages], batch_builder.PackedMessages],
) -> None:
    packed = pack(plain(b"payload"))
    frames = packed.frames_from(0)
    assert packed.is_intact()
    assert b"".join(frames.buffers())
    assert (list(packed.release()), packed.size) == (["reply"], 7)
    assert b"".join(frames.buffers()) == b""


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_a_parcel_that_still_waits_keeps_no_reply_of_what_has_ended(
    pack: Callable[[OutgoingMessages], batch_builder.PackedMessages],
) -> None:
    reply = Reply()
    there = weakref.ref(reply)
    packed = pack(OutgoingMessages([b"payload"], [reply]))
    frames = packed.frames_from(0)
    packed.release()
    del packed, reply
    assert there() is None
    assert b"".join(frames.buffers()) == b""


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_damage_in_memory_is_noticed(pack: Callable[[OutgoingMessages], batch_builder.PackedMessages]) -> None:
    packed = pack(plain(b"payload"))
    whole = bytearray(b"".join(packed.frames_from(0).buffers()))
    assert packed.is_intact()
    whole[-1] ^= 1
    damaged = batch_builder.PackedEntry((), (whole,), 7, batched=False)
    assert not damaged.is_intact()


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_the_sizes_of_entries_are_those_on_the_wire(
    pack: Callable[[OutgoingMessages], batch_builder.PackedMessages],
) -> None:
    packed = pack(plain(b"payload"))
    for first in range(packed.frame_count):
        frames = FrameReader().feed(b"".join(packed.frames_from(first).buffers()))
        assert packed.entry_sizes(first) == [len(frame.rest) for frame in frames]
        assert packed.largest_entry(first) == max(packed.entry_sizes(first))


sizes = st.integers(0, 5000) | st.just(100_000)


@given(
    ids=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4),
    size=sizes,
    name=st.text(min_size=1, max_size=200),
    version=st.binary(max_size=9),
)
def test_what_is_written_by_hand_is_what_protobuf_writes(ids: list[int], size: int, name: str, version: bytes) -> None:
    sender = batch_builder.ProducerFields(2**40, name, CompressionType.NONE, version)
    moment = batch_builder.PackingLimits(NOW_MS, None, 2**30, lambda: 0.5)
    messages = plain(*[bytes(size)] * len(ids))
    for packed, sequence_id in zip(by_hand(messages, ids, sender, moment), ids, strict=True):
        twin = batch_builder.pack_single(plain(bytes(size)), sequence_id, sender, moment)
        assert written(packed) == written(twin)
        assert (packed.size, packed.batched, packed.frame_count) == (size, False, 1)
        assert list(packed.release()) == ["reply"]


@given(
    sizes=st.lists(sizes, min_size=1, max_size=3),
    first=st.integers(0, 2**63 - 4),
    codec=st.sampled_from([CompressionType.NONE, CompressionType.ZLIB, CompressionType.LZ4]),
    name=st.text(min_size=1, max_size=200),
    version=st.binary(max_size=9),
)
def test_a_batch_that_is_written_by_hand_is_what_protobuf_writes(
    sizes: list[int], first: int, codec: "CompressionType.ValueType", name: str, version: bytes
) -> None:
    sender = batch_builder.ProducerFields(2**40, name, codec, version)
    moment = batch_builder.PackingLimits(NOW_MS, None, 2**30, lambda: 0.5)
    messages, ids = plain(*map(bytes, sizes)), range(first, first + len(sizes))
    (packed,) = by_hand(messages, ids, sender, moment, BatchLimits(size=2**20))
    twin = batch_builder.pack_batch(messages, (ids[0], ids[-1]), sender, moment)
    assert written(packed) == written(twin)
    assert (packed.size, packed.batched, packed.frame_count) == (sum(sizes), True, 1)
    assert list(packed.release()) == ["reply"] * len(sizes)


texts = st.text(max_size=200)


@given(
    properties=st.dictionaries(texts, texts, max_size=3),
    key=st.none() | texts,
    ordering_key=st.none() | st.binary(max_size=200),
    number=st.none() | st.integers(0, 2**63 - 1),
    flag=st.none() | st.just(value=True),
)
def test_an_entry_that_is_written_by_hand_says_all_that_was_said_of_its_one_message(
    *, properties: dict[str, str], key: str | None, ordering_key: bytes | None, number: int | None, flag: bool | None
) -> None:
    pairs = [KeyValue(key=name, value=value) for name, value in properties.items()]
    fields = {"partition_key": key, "ordering_key": ordering_key, "event_time": number, "sequence_id": number}
    flags = {"null_value": flag, "null_partition_key": flag, "partition_key_b64_encoded": flag, "compacted_out": flag}
    message = said(b"payload", properties=pairs, **fields, **flags)
    (packed,) = by_hand(message, [5], SQUEEZING._replace(codec=CompressionType.NONE), NOW)
    twin = batch_builder.pack_single(message, 5, SQUEEZING._replace(codec=CompressionType.NONE), NOW)
    ((command, entry),), ((twin_command, twin_entry),) = read(packed), read(twin)
    assert (command, entry.metadata, entry.payload) == (twin_command, twin_entry.metadata, b"payload")


def test_fields_of_a_newer_protocol_are_left_to_protobuf() -> None:
    newer = SingleMessageMetadata(payload_size=7, partition_key="k").SerializeToString() + bytes.fromhex("a00601")
    header = MessageHeader(newer, "k", None, None, None, None)
    (packed,) = by_hand(OutgoingMessages([b"payload"], [header]), [5], PLAIN, NOW)
    ((_, entry),) = read(packed)
    assert entry.metadata.partition_key == "k"


def test_an_entry_that_is_too_large_is_refused_alone_when_it_is_written_by_hand() -> None:
    settings = batch_builder.BatchBuilderSettings(CompressionType.NONE, None, by_key=False, in_chunks=False)
    messages = together(plain(b"small"), plain(bytes(LARGEST)), said(b"keyed", partition_key="k"))
    builder = batch_builder.BatchBuilder(messages, [5, 6, 7], PLAIN, batch_builder.send_encoder(PLAIN), settings, NOW)
    builder.pack(None)
    assert [item.lowest_sequence_id for item in builder.items] == [5, 7]
    ((refused, error),) = builder.refused
    assert (list(refused.payloads), type(error)) == ([bytes(LARGEST)], MessageTooBig)


def test_a_delayed_message_among_others_is_written_in_its_place() -> None:
    messages = together(plain(b"before"), said(b"delayed", UnbatchableOptions(deliver_at_ms=99)), plain(b"after"))
    entries = [read(packed)[0][1] for packed in by_hand(messages, [5, 6, 7], PLAIN, NOW)]
    assert [entry.payload for entry in entries] == [b"before", b"delayed", b"after"]
    assert [entry.metadata.deliver_at_time for entry in entries] == [0, 99, 0]


CODECS = [CompressionType.LZ4, CompressionType.ZLIB, CompressionType.ZSTD, CompressionType.SNAPPY]
PAIR = KeyValue(key="a", value="b")


@pytest.mark.parametrize("codec", CODECS, ids=CompressionType.Name)
@pytest.mark.parametrize("limits", [None, BatchLimits(10, 100)], ids=["unbatched", "batched"])
@pytest.mark.parametrize("in_chunks", [False, True], ids=["whole", "in chunks"])
@pytest.mark.parametrize(
    "message",
    [
        plain(b"payload " * 400),
        said(b"payload " * 400, partition_key="k", properties=[PAIR]),
        said(b"payload " * 400, sequence_id=5),
        said(b"payload " * 400, alone=UnbatchableOptions(deliver_at_ms=99)),
    ],
    ids=["plain", "keyed", "numbered", "delayed"],
)
def test_a_message_that_was_compressed_by_its_caller_is_written_in_the_same_bytes(
    codec: Any, limits: BatchLimits | None, message: OutgoingMessages, *, in_chunks: bool
) -> None:
    producer = batch_builder.ProducerFields(7, "the producer", codec, b"")
    settings = batch_builder.BatchBuilderSettings(codec, None, by_key=False, in_chunks=in_chunks, largest_chunk=20)

    def written(messages: OutgoingMessages) -> bytes:
        builder = batch_builder.BatchBuilder(
            messages, [5], producer, batch_builder.send_encoder(producer), settings, NOW
        )
        builder.pack(limits)
        (item,) = builder.items
        assert item.size == len(messages.payloads[0])
        return b"".join(item.token.frames_from(0).buffers())

    ((payload,), (tag,)) = message.payloads, message.tags
    batched = limits is not None and not message.unbatchable
    compressed = batch_builder.compress_message(payload, tag, codec, as_batch_of_one=batched)
    assert reply_of(compressed) == reply_of(tag)
    assert written(OutgoingMessages([payload], [compressed])) == written(message)


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.ZLIB])
@pytest.mark.parametrize(
    ("limits", "options"),
    [
        (None, {"by_key": False, "in_chunks": False}),
        (None, {"by_key": False, "in_chunks": True}),
        (BatchLimits(), {"by_key": False, "in_chunks": False}),
        (BatchLimits(), {"by_key": True, "in_chunks": False}),
    ],
)
def test_the_transaction_of_messages_is_in_each_command_and_in_each_entry(
    limits: BatchLimits | None, options: dict[str, bool], codec: "CompressionType.ValueType"
) -> None:
    transaction = TransactionId(0, 0)
    settings = batch_builder.BatchBuilderSettings(codec, None, **options, largest_chunk=50)
    messages = together(plain(bytes(120)), said(b"keyed", partition_key="k"), plain(b"small"))
    sender = PLAIN._replace(codec=codec, transaction=transaction)
    builder = batch_builder.BatchBuilder(
        messages, range(5, 8), sender, batch_builder.send_encoder(sender), settings, NOW
    )
    builder.pack(limits)
    sent = [one for item in builder.items for one in read(item.token)]
    assert {transaction_in(command) for command, _ in sent} == {transaction}
    assert {transaction_in(entry.metadata) for _, entry in sent} == {transaction}
    assert [item.transaction for item in builder.items] == [transaction] * len(builder.items)  # type: ignore[attr-defined]


def test_a_message_of_a_transaction_is_never_packed_without_it() -> None:
    transaction = object()
    settings = batch_builder.BatchBuilderSettings(CompressionType.NONE, None, by_key=False, in_chunks=False)
    batch = together(said(), OutgoingMessages([b"in"], [tag_in(transaction, "reply")]))
    for limits in (None, BatchLimits(10, 10_000)):
        builder = batch_builder.BatchBuilder(batch, range(2), PLAIN, batch_builder.send_encoder(PLAIN), settings, NOW)
        with pytest.raises(InternalError, match="in no transaction"):
            builder.pack(limits)
        assert builder.items == []


def test_messages_in_no_transaction_do_not_name_one() -> None:
    for packed in by_hand(plain(b"a", b"b"), [5, 6], PLAIN, NOW):
        ((command, entry),) = read(packed)
        assert (transaction_in(command), transaction_in(entry.metadata)) == (None, None)
