"""Batches against their layout, written by hand."""

import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.wire.batch import (
    SingleMessage,
    encode_batch,
    encode_plain_batch,
    is_batch,
    split_batch,
    split_columns,
)
from pulsar_actors.wire.errors import EncodeError, MalformedBatch
from pulsar_actors.wire.protobuf import readable
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, MessageMetadata, SingleMessageMetadata
from tests.wire.any_message import filled

TWO = bytes.fromhex("00000002 1803") + b"one" + bytes.fromhex("00000007 1203") + b"key" + bytes.fromhex("1800")

Message = tuple[SingleMessageMetadata, bytes]


def sized(metadata: SingleMessageMetadata, payload: bytes) -> Message:
    metadata.payload_size = len(payload)
    return metadata, payload


messages = st.builds(sized, filled(SingleMessageMetadata.DESCRIPTOR), st.binary(max_size=20))
batches = st.lists(messages, min_size=1, max_size=8)


def opened(batch: list[SingleMessage]) -> list[Message]:
    return [(message.metadata, message.payload) for message in batch]


def by_hand(metadata: bytes, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(metadata)) + metadata + payload


@given(batches)
def test_what_is_written_is_split_into_the_same_messages(batch: list[Message]) -> None:
    written = encode_batch(batch)
    assert opened(split_batch(written, len(batch))) == batch
    assert opened(split_batch(memoryview(written), len(batch))) == batch
    assert encode_batch(opened(split_batch(written, len(batch)))) == written


@pytest.mark.shows("Batch messages", "metadataSizeN", "metadataN", "payloadN", "payload_size")
def test_a_message_is_its_metadata_size_its_metadata_and_its_payload() -> None:
    keyed = SingleMessageMetadata(partition_key="key", payload_size=0)
    assert encode_batch([(None, b"one"), (keyed, b"")]) == TWO
    first, second = opened(split_batch(TWO, 2))
    assert first == (SingleMessageMetadata(payload_size=3), b"one")
    assert second == (keyed, b"")


def test_equal_metadata_is_read_once_and_shared() -> None:
    first, second, third, fourth = split_batch(
        encode_batch([(None, b"a"), (None, b"b"), (None, b"cc"), (None, b"d")]), 4
    )
    assert first.metadata is second.metadata
    assert [one.payload for one in (first, second, third, fourth)] == [b"a", b"b", b"cc", b"d"]
    assert third.metadata.payload_size == 2


def test_metadata_that_differs_after_the_same_beginning_is_read_anew() -> None:
    batch = [(SingleMessageMetadata(payload_size=1, sequence_id=n), b"x") for n in (1, 1, 2, 300, 1)]
    assert opened(split_batch(encode_batch(batch), 5)) == batch


@pytest.mark.parametrize("count", [1, 99, 100, 101, 250])
def test_payloads_of_one_size_are_cut_where_they_begin(count: int) -> None:
    payloads = [b"%04d" % number for number in range(count)]
    for others in ([], [b"another size"]):
        batch = [*others, *payloads, *others]
        assert [one.payload for one in split_batch(encode_batch((None, one) for one in batch), len(batch))] == batch


@pytest.mark.parametrize("count", [200, 1000])
@pytest.mark.parametrize("different", [0, 1, 57, -2, -1])
def test_among_many_messages_that_are_alike_the_one_that_is_not_is_found(different: int, count: int) -> None:
    different %= count
    times = [int(number == different) for number in range(count)]
    batch = [(SingleMessageMetadata(payload_size=3, event_time=time), b"abc") for time in times]
    for messages in (batch, [*batch[:different], *batch[different + 1 :]]):
        assert opened(split_batch(encode_batch(messages), len(messages))) == messages


def test_metadata_that_comes_and_goes_is_read_once_too() -> None:
    heads = [by_hand(b"\x18\x00"), by_hand(b"\x18\x80\x00")]  # two spellings of the same
    messages = split_batch(b"".join(heads) * 5_000, 10_000)
    assert len({id(message.lazy_metadata) for message in messages}) == 2
    assert {type(message.lazy_metadata) for message in messages} == {SingleMessageMetadata}


def numbered(count: int) -> bytes:
    return encode_batch([(SingleMessageMetadata(payload_size=0, sequence_id=n), b"") for n in range(count)])


def test_of_metadata_that_always_differs_a_bounded_part_is_kept_as_objects() -> None:
    messages = split_batch(numbered(1_500) + by_hand(b"\x18\x00\x40\x00"), 1_501)
    parsed = [message for message in messages if isinstance(message.lazy_metadata, SingleMessageMetadata)]
    assert len(parsed) == 1_001  # the first thousand, and the last, which has the metadata of the first
    assert [message.metadata.sequence_id for message in messages] == [*range(1_500), 0]


def test_a_batch_is_refused_for_metadata_that_would_not_have_been_kept() -> None:
    with pytest.raises(MalformedBatch, match="without its required payload_size"):
        split_batch(numbered(1_500) + by_hand(KEY), 1_501)


def test_strings_that_are_no_text_lose_no_message() -> None:
    batch = split_batch(by_hand(b"\x18\x03\x12\x02\xffk", b"one") + by_hand(b"\x18\x00"), 2)
    assert [readable(each.metadata).partition_key for each in batch] == ["\ufffdk", ""]
    assert [each.payload for each in batch] == [b"one", b""]


@pytest.mark.parametrize("count", [1, 0, -1, 7])
def test_a_field_that_is_there_makes_a_batch_whatever_it_says(count: int) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
    assert not is_batch(metadata)
    metadata.num_messages_in_batch = count
    assert is_batch(metadata)


KEY = bytes.fromhex("1203") + b"key"
MALFORMED: list[tuple[str, bytes, int, str]] = [
    ("no message", TWO, 0, "declares 0 messages"),
    ("a negative count", TWO, -1, "declares -1 messages"),
    ("nothing", b"", 1, "declares 1 messages, each of 6 bytes or more, in 0 bytes"),
    ("more than could ever fit", TWO, 2**31 - 1, "declares 2,147,483,647 messages"),
    ("fewer than there are", TWO, 1, "the 1 messages of a batch end at byte 9 of 20"),
    ("fewer than there are, all equal", by_hand(b"\x18\x00") * 3, 2, "the 2 messages of a batch end at byte 12 of 18"),
    ("one more than there are", TWO, 3, "ends before its last message"),
    ("a byte too many", TWO + b"x", 2, "end at byte 20 of 21"),
    ("a byte too few", by_hand(b"\x18\x03", b"on"), 1, "a message ends at byte 9 of a batch of 8"),
    (
        "half a size",
        by_hand(b"\x18\x00") + bytes(3) + by_hand(b"\x18\x00")[:3],
        2,
        "metadata of 0|does not fit|required",
    ),
    ("metadata beyond the end", struct.pack(">I", 9) + b"\x18\x00", 1, "9 bytes does not fit in the 2 "),
    ("metadata of 4 GiB", b"\xff" * 6, 1, "does not fit in the 2 "),
    ("unreadable metadata", by_hand(b"\xff\xff"), 1, "cannot read a SingleMessageMetadata"),
    ("no payload size", by_hand(KEY), 1, "without its required payload_size"),
    ("a property without a value", by_hand(bytes.fromhex("0a030a016b 1800")), 1, r"required properties\[0\]\.value"),
    (
        "a negative payload size",
        by_hand(b"\x18" + b"\xff" * 9 + b"\x01", b"x"),
        1,
        r"a payload of -1 bytes \(at byte 4, 11 bytes\)",
    ),
    (
        "a payload beyond the end",
        by_hand(b"\x18\xff\xff\xff\xff\x07") + bytes(20),
        2,
        "byte 2,147,483,657 of a batch of 30",
    ),
    ("the last payload beyond the end", by_hand(b"\x18\xff\xff\xff\xff\x07"), 1, "byte 2,147,483,657 of a batch of 10"),
]


@pytest.mark.parametrize(("data", "count", "what"), [case[1:] for case in MALFORMED], ids=[c[0] for c in MALFORMED])
def test_bytes_that_are_not_the_declared_messages_are_a_malformed_batch(data: bytes, count: int, what: str) -> None:
    with pytest.raises(MalformedBatch, match=what) as caught:
        split_batch(data, count)
    assert caught.value.validation_error == CommandAck.ValidationError.BatchDeSerializeError
    assert 0 <= caught.value.at <= len(data)


def test_an_absurd_count_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedBatch):
            split_batch(TWO, 2**31 - 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000


def test_a_payload_of_another_size_than_its_metadata_says_can_not_be_written() -> None:
    metadata = SingleMessageMetadata(payload_size=3)
    with pytest.raises(EncodeError, match="a payload of 4 bytes, whose metadata says 3"):
        encode_batch([(metadata, b"one"), (metadata, b"four")])


def test_metadata_without_a_payload_size_can_not_be_written() -> None:
    with pytest.raises(EncodeError, match="payload_size"):
        encode_batch([(SingleMessageMetadata(), b"")])


def test_a_batch_of_no_messages_can_not_be_written() -> None:
    with pytest.raises(EncodeError, match="at least one"):
        encode_batch([])


def test_a_payload_beyond_what_its_size_can_say_can_not_be_written() -> None:
    with pytest.raises(EncodeError, match="at most"):
        encode_batch([(None, bytes(2**31))])  # zeros that nobody touches take no memory


@pytest.mark.parametrize("payload", [bytearray(b"12345678"), memoryview(b"12345678").cast("I")])
@pytest.mark.parametrize("metadata", [None, SingleMessageMetadata(payload_size=8)])
def test_a_payload_is_counted_in_bytes_whatever_its_items_are(
    metadata: SingleMessageMetadata | None, payload: bytearray | memoryview
) -> None:
    assert encode_batch([(metadata, payload)]) == by_hand(b"\x18\x08", b"12345678")


@pytest.mark.parametrize("payload", ["text", None, 3, [1, 2]])
def test_what_is_not_bytes_can_not_be_written(payload: Any) -> None:
    with pytest.raises(EncodeError, match=f"a payload is bytes, not {type(payload).__name__}"):
        encode_batch([(None, payload)])


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20) | st.lists(st.just(b"the same"), min_size=1))
def test_messages_of_which_nothing_is_said_are_written_alike_in_less_time(payloads: list[bytes]) -> None:
    assert encode_plain_batch(payloads, list(map(len, payloads))) == encode_batch(
        [(None, payload) for payload in payloads]
    )


@given(st.lists(st.tuples(st.sampled_from([None, "k", "key"]), st.binary(max_size=3)), min_size=1, max_size=20))
def test_the_columns_tell_the_size_of_all_payloads(messages: list[tuple[str | None, bytes]]) -> None:
    written = encode_batch([(SingleMessageMetadata(payload_size=len(p), partition_key=k), p) for k, p in messages])
    assert split_columns(written, len(messages)).octets == len(b"".join(payload for _, payload in messages))


@pytest.mark.parametrize("size", [3, 5000])
@pytest.mark.parametrize("count", [1, 2, 10, 1000])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_batch_may_begin_inside_the_bytes(size: int, count: int, *, keyed: bool) -> None:
    payloads = [bytes([index % 256]) * size for index in range(count)]
    metadata = SingleMessageMetadata(payload_size=size, partition_key="key" if keyed else None)
    written = encode_batch([(metadata, payload) for payload in payloads])
    found = split_columns(b"before" + written, count, len(b"before"))
    assert found == split_columns(written, count)
    assert (found.payloads, found.octets) == (payloads, size * count)
    with pytest.raises(MalformedBatch):
        split_columns(b"before" + written[:-1], count, len(b"before"))
