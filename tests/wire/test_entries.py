"""Entries against their layout, written by hand; the checksum against the vectors of RFC 3720, appendix B.4."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.wire.entries import (
    checksum,
    decode_entry,
    encode_broker_metadata,
    encode_entry,
    open_entry,
    read_metadata,
)
from pulsar_actors.wire.errors import (
    ChecksumMismatch,
    DecompressionFailed,
    EncodeError,
    EntryError,
    MalformedBatch,
    MalformedEntry,
)
from pulsar_actors.wire.protobuf import readable
from pulsar_actors.wire.PulsarApi_pb2 import (
    BrokerEntryMetadata,
    CommandAck,
    CompressionType,
    KeyValue,
    MessageIdData,
    MessageMetadata,
    SingleMessageMetadata,
)

METADATA = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
METADATA_BYTES = bytes.fromhex("0a0170 1001 1802")


def joined(metadata: MessageMetadata, payload: bytes) -> memoryview:
    return memoryview(b"".join(encode_entry(metadata, payload)))


def by_hand(metadata: bytes, payload: bytes = b"payload", *, checked: bool = True) -> memoryview:
    body = struct.pack(">I", len(metadata)) + metadata + payload
    return memoryview((struct.pack(">HI", 0x0E01, checksum(body)) if checked else b"") + body)


text = st.text(max_size=8)


def message_metadata(fields: dict[str, Any]) -> MessageMetadata:
    return MessageMetadata(**fields)


any_metadata = st.fixed_dictionaries(
    {"producer_name": text, "sequence_id": st.integers(0, 2**64 - 1), "publish_time": st.integers(0, 2**64 - 1)},
    optional={
        "partition_key": text,
        "properties": st.lists(st.builds(KeyValue, key=text, value=text), max_size=3),
        "compression": st.sampled_from(CompressionType.values()),
        "uncompressed_size": st.integers(0, 2**32 - 1),
        "num_messages_in_batch": st.integers(-(2**31), 2**31 - 1),
        "ordering_key": st.binary(max_size=8),
        "uuid": text,
    },
).map(message_metadata)
broker_metadata = st.none() | st.builds(
    BrokerEntryMetadata, broker_timestamp=st.integers(0, 2**64 - 1), index=st.integers(0, 2**64 - 1)
)


@pytest.mark.shows("Payload commands")
@pytest.mark.shows("Payload commands", "magicNumber", "checksum", "metadataSize", "metadata", "payload")
def test_an_entry_is_magic_checksum_metadata_size_metadata_and_payload() -> None:
    head, payload = encode_entry(METADATA, b"payload")
    assert payload == b"payload"
    assert head[:2] == bytes.fromhex("0e01")
    assert head[6:] == bytes.fromhex("00000007") + METADATA_BYTES
    # CRC32-C of the three, computed bit by bit: reflected polynomial 0x82f63b78, all ones in and out.
    register = 0xFFFFFFFF
    for byte in bytes(head[6:]) + b"payload":
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    assert head[2:6] == struct.pack(">I", register ^ 0xFFFFFFFF)


def test_a_payload_is_neither_copied_when_written_nor_when_read() -> None:
    payload = memoryview(b"payload")
    assert encode_entry(METADATA, payload)[-1] is payload
    rest = joined(METADATA, b"payload")
    entry = decode_entry(rest)
    assert entry.payload.obj is rest.obj
    assert entry.stored.obj is rest.obj


@pytest.mark.shows(
    "Payload commands", "magicNumberOfBrokerEntryMetadata", "brokerEntryMetadataSize", "brokerEntryMetadata"
)
def test_broker_metadata_is_magic_size_and_metadata() -> None:
    assert encode_broker_metadata(BrokerEntryMetadata(index=5)) == bytes.fromhex("0e02 00000002 1005")


@given(any_metadata, st.binary(max_size=50), broker_metadata)
def test_what_is_written_is_read_back(
    metadata: MessageMetadata, payload: bytes, broker: BrokerEntryMetadata | None
) -> None:
    stored = joined(metadata, payload)
    prefix = b"" if broker is None else encode_broker_metadata(broker)
    entry = decode_entry(memoryview(prefix + stored))
    assert entry.metadata == metadata
    assert entry.payload == payload
    assert entry.broker_metadata == broker
    assert entry.stored == stored
    assert decode_entry(entry.stored)[1:] == entry[1:]


@pytest.mark.parametrize("payload", [b"", b"\x0e\x01 looks like a magic number"])
def test_an_entry_without_a_checksum_is_read_unverified(payload: bytes) -> None:
    stored = by_hand(METADATA_BYTES, payload, checked=False)
    for prefix in (b"", encode_broker_metadata(BrokerEntryMetadata())):
        entry = decode_entry(memoryview(prefix + stored))
        assert (entry.checksum, entry.metadata, bytes(entry.payload)) == (None, METADATA, payload)
        assert entry.stored == stored


def test_opening_leaves_the_payload_unverified_until_it_is_asked() -> None:
    rest = memoryview(bytes(joined(METADATA, b"payload"))[:-1] + b"?")
    entry = open_entry(rest)
    assert entry.metadata == METADATA
    with pytest.raises(ChecksumMismatch, match=r"declares the checksum [0-9a-f]{8} and has [0-9a-f]{8} .*18 bytes"):
        entry.verify()
    with pytest.raises(ChecksumMismatch):
        decode_entry(rest)


@pytest.mark.shows("Payload commands", "checksum")
@given(st.data())
def test_any_flipped_bit_from_the_checksum_on_is_a_checksum_mismatch(data: st.DataObject) -> None:
    rest = bytearray(joined(METADATA, b"payload"))
    rest[data.draw(st.integers(2, len(rest) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ChecksumMismatch):
        decode_entry(memoryview(rest))


MALFORMED: list[tuple[str, bytes, str, int, int]] = [
    ("nothing at all", b"", "ends within the size of the message metadata", 0, 0),
    ("half a size", b"\x00\x00", "ends within the size of the message metadata", 0, 2),
    ("half a checksum", b"\x0e\x01\x00", "ends within its checksum", 2, 3),
    ("metadata beyond the end", b"\x00\x00\x00\x05abcd", "5 bytes does not fit in the 4 ", 0, 5),
    ("metadata of 4 GiB", b"\xff\xff\xff\xff", "does not fit in the 0 ", 0, 2**32 - 1),
    ("half a broker metadata size", b"\x0e\x02\x00", "ends within the size of the broker's entry metadata", 2, 3),
    ("broker metadata beyond the end", b"\x0e\x02\x00\x00\x00\x09x", "9 bytes does not fit in the 1 ", 2, 9),
    ("unreadable broker metadata", b"\x0e\x02\x00\x00\x00\x01\xff", "cannot read a BrokerEntryMetadata", 6, 1),
    ("nothing after the broker metadata", b"\x0e\x02\x00\x00\x00\x00", "ends within the size of the message", 0, 0),
    ("unreadable metadata", bytes(by_hand(b"\xff")), "cannot read a MessageMetadata", 10, 1),
    ("no metadata", bytes(by_hand(b"")), "without its required producer_name", 10, 0),
    ("metadata without one field", bytes(by_hand(METADATA_BYTES[:-2])), "without its required publish_time", 10, 5),
]


@pytest.mark.parametrize(
    ("rest", "what", "at", "size"), [case[1:] for case in MALFORMED], ids=[c[0] for c in MALFORMED]
)
def test_headers_that_can_not_be_read_are_a_malformed_entry(*, rest: bytes, what: str, at: int, size: int) -> None:
    with pytest.raises(MalformedEntry, match=what) as caught:
        open_entry(memoryview(rest))
    assert (caught.value.at, caught.value.size) == (at, size)
    assert caught.value.validation_error == CommandAck.ValidationError.ChecksumMismatch


def test_a_wrong_checksum_explains_unreadable_metadata() -> None:
    rest = bytearray(by_hand(b"\xff"))
    rest[2] ^= 1
    with pytest.raises(ChecksumMismatch):
        open_entry(memoryview(rest))


@pytest.mark.parametrize(
    ("codecs", "number"),
    [
        ("4009", 9),
        ("40ffffffffffffffffff01", -1),
        ("4001 4063", 99),
        ("4063 4001", 99),
        ("c00063", 99),  # the tag in a byte more than it needs
    ],
)
def test_an_unknown_codec_is_read_as_no_other_wherever_it_stands(codecs: str, number: int) -> None:
    with pytest.raises(DecompressionFailed, match=rf"unknown codec {number} \(at byte 10, ") as caught:
        open_entry(by_hand(METADATA_BYTES + bytes.fromhex(codecs)))
    assert caught.value.validation_error == CommandAck.ValidationError.DecompressionError


def test_what_only_looks_like_an_unknown_codec_is_none() -> None:
    metadata = MessageMetadata(producer_name="a@b", sequence_id=0x40, publish_time=2)
    newer = metadata.SerializeToString() + bytes.fromhex("f83f40")  # a field 1023 of a newer protocol
    assert open_entry(by_hand(newer)).metadata.compression == CompressionType.NONE


@pytest.mark.parametrize("codec", CompressionType.values())
def test_every_known_codec_passes(codec: "CompressionType.ValueType") -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, compression=codec)
    assert decode_entry(joined(metadata, b"")).metadata.compression == codec


def test_a_million_missing_fields_make_a_short_text() -> None:
    with pytest.raises(
        MalformedEntry, match=r"without its required properties\[0\].key \(at byte 10, 2,000,007 bytes\)"
    ):
        open_entry(by_hand(METADATA_BYTES + b"\x22\x00" * 1_000_000))


def test_strings_that_are_no_text_lose_no_entry_and_are_stored_as_they_came() -> None:
    rest = by_hand(METADATA_BYTES + bytes.fromhex("2205 0a01ff 1200"))
    entry = decode_entry(rest)
    assert readable(entry.metadata).properties[0].key == "\ufffd"
    assert entry.payload == b"payload"
    assert entry.stored == rest
    assert b"".join(encode_entry(entry.metadata, entry.payload)) == rest


def test_metadata_without_its_required_fields_can_not_be_written() -> None:
    with pytest.raises(EncodeError, match="publish_time"):
        encode_entry(MessageMetadata(producer_name="p", sequence_id=1), b"")


def tolerate(rest: bytes) -> None:
    try:
        entry = decode_entry(memoryview(rest))
    except EntryError:
        return
    assert entry.metadata.IsInitialized()
    assert bytes(entry.stored).endswith(bytes(entry.payload))


@given(st.sampled_from([b"", b"\x0e\x01", b"\x0e\x02", b"\x0e\x02\x00\x00\x00\x00\x0e\x01"]), st.binary(max_size=40))
def test_nothing_but_entry_errors_escape_on_any_bytes(prefix: bytes, data: bytes) -> None:
    tolerate(prefix + data)


@given(any_metadata, broker_metadata, st.data())
def test_nothing_but_entry_errors_escape_on_a_flipped_byte(
    metadata: MessageMetadata, broker: BrokerEntryMetadata | None, data: st.DataObject
) -> None:
    prefix = b"" if broker is None else encode_broker_metadata(broker)
    rest = bytearray(prefix + bytes(by_hand(metadata.SerializeToString(), checked=data.draw(st.booleans()))))
    rest[data.draw(st.integers(0, len(rest) - 1))] ^= data.draw(st.integers(1, 255))
    tolerate(bytes(rest))


ISCSI_READ = bytes.fromhex(
    "01c00000 00000000 00000000 00000000 14000000 00000400 00000014 00000018 28000000 00000000 02000000 00000000"
)


@pytest.mark.shows("Payload commands", "checksum")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
        (ISCSI_READ, 0xD9963A56),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_it_is_the_castagnoli_sum(data: bytes, expected: int) -> None:
    assert checksum(data) == expected
    assert checksum(memoryview(data)) == expected


@given(st.lists(st.binary(max_size=50)))
def test_several_buffers_sum_as_if_they_were_one(buffers: list[bytes]) -> None:
    assert checksum(*buffers) == checksum(b"".join(buffers))


def test_metadata_is_read_whatever_its_strings_are() -> None:
    metadata = read_metadata(SingleMessageMetadata, b"\x18\x05\x12\x02\xff\xfe", 0, MalformedBatch)
    assert metadata.payload_size == 5
    assert metadata.HasField("partition_key")


def test_unreadable_metadata_is_blamed_where_it_lies() -> None:
    with pytest.raises(MalformedEntry, match="cannot read a BrokerEntryMetadata") as caught:
        read_metadata(BrokerEntryMetadata, b"\xff", 7, MalformedEntry)
    assert (caught.value.at, caught.value.size) == (7, 1)


def test_metadata_that_lacks_something_is_blamed_with_its_first_lack() -> None:
    with pytest.raises(MalformedBatch) as caught:
        read_metadata(SingleMessageMetadata, b"\x18\x00" + b"\x0a\x00" * 100_000, 4, MalformedBatch)
    assert caught.value.args == ("SingleMessageMetadata without its required properties[0].key", 4, 200_002)


def test_nesting_without_end_is_unreadable() -> None:
    data = b"\x08\x01\x10\x01"
    for _ in range(5_000):
        size = len(data)
        data = b"\x3a" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + data
    with pytest.raises(MalformedEntry):
        read_metadata(MessageIdData, data, 0, MalformedEntry)
