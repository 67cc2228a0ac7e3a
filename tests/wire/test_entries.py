"""Entries against their layout, written by hand; the checksum against the vectors of RFC 3720, appendix B.4."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire import entries, errors
from pulsar_actors.wire.protobuf import readable
from tests.wire.any_message import filled

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
METADATA_BYTES = bytes.fromhex("0a0170 1001 1802")


def joined(metadata: pb.MessageMetadata, payload: bytes) -> bytes:
    return b"".join(entries.encode_entry(metadata, payload))


def by_hand(metadata: bytes, payload: bytes = b"payload", *, checked: bool = True) -> bytes:
    body = struct.pack(">I", len(metadata)) + metadata + payload
    return (struct.pack(">HI", 0x0E01, entries.checksum(body)) if checked else b"") + body


@pytest.mark.shows("Payload commands")
@pytest.mark.shows("Payload commands", "magicNumber", "checksum", "metadataSize", "metadata", "payload")
def test_an_entry_is_magic_checksum_metadata_size_metadata_and_payload() -> None:
    head, payload = entries.encode_entry(METADATA, b"payload")
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


def test_a_payload_is_copied_neither_when_written_nor_before_it_is_used() -> None:
    payload = memoryview(b"payload")
    assert entries.encode_entry(METADATA, payload)[-1] is payload
    rest = joined(METADATA, b"payload")
    entry = entries.decode_entry(rest)
    assert entry.stored is rest
    assert (entry.payload_size, entry.payload) == (7, b"payload")


@pytest.mark.shows(
    "Payload commands", "magicNumberOfBrokerEntryMetadata", "brokerEntryMetadataSize", "brokerEntryMetadata"
)
def test_broker_metadata_is_magic_size_and_metadata() -> None:
    assert entries.encode_broker_metadata(pb.BrokerEntryMetadata(index=5)) == bytes.fromhex("0e02 00000002 1005")


@given(
    filled(pb.MessageMetadata.DESCRIPTOR),
    st.binary(max_size=50),
    st.none() | filled(pb.BrokerEntryMetadata.DESCRIPTOR),
)
def test_what_is_written_is_read_back(
    metadata: pb.MessageMetadata, payload: bytes, broker: pb.BrokerEntryMetadata | None
) -> None:
    stored = joined(metadata, payload)
    prefix = b"" if broker is None else entries.encode_broker_metadata(broker)
    entry = entries.decode_entry(prefix + stored)
    assert entry.metadata == metadata
    assert entry.payload == payload
    assert entry.broker_metadata == broker
    assert entry.stored == stored
    assert entries.decode_entry(entry.stored)[1:] == entry[1:]


@pytest.mark.parametrize("payload", [b"", b"\x0e\x01 looks like a magic number"])
def test_an_entry_without_a_checksum_is_read_unverified(payload: bytes) -> None:
    stored = by_hand(METADATA_BYTES, payload, checked=False)
    for prefix in (b"", entries.encode_broker_metadata(pb.BrokerEntryMetadata())):
        entry = entries.decode_entry(prefix + stored)
        assert (entry.checksum, entry.metadata, bytes(entry.payload)) == (None, METADATA, payload)
        assert entry.stored == stored


def test_opening_leaves_the_payload_unverified_until_it_is_asked() -> None:
    rest = joined(METADATA, b"payload")[:-1] + b"?"
    entry = entries.parse_entry(rest)
    assert entry.metadata == METADATA
    with pytest.raises(
        errors.ChecksumMismatch, match=r"declares the checksum [0-9a-f]{8} and has [0-9a-f]{8} .*18 bytes"
    ):
        entry.verify()
    with pytest.raises(errors.ChecksumMismatch):
        entries.decode_entry(rest)


@pytest.mark.shows("Payload commands", "checksum")
@given(st.data())
def test_any_flipped_bit_from_the_checksum_on_is_a_checksum_mismatch(data: st.DataObject) -> None:
    rest = bytearray(joined(METADATA, b"payload"))
    rest[data.draw(st.integers(2, len(rest) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(errors.ChecksumMismatch):
        entries.decode_entry(bytes(rest))


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
    with pytest.raises(errors.MalformedEntry, match=what) as caught:
        entries.parse_entry(rest)
    assert (caught.value.at, caught.value.size) == (at, size)
    assert caught.value.validation_error == pb.CommandAck.ValidationError.ChecksumMismatch


def test_a_wrong_checksum_explains_unreadable_metadata() -> None:
    rest = bytearray(by_hand(b"\xff"))
    rest[2] ^= 1
    with pytest.raises(errors.ChecksumMismatch):
        entries.parse_entry(bytes(rest))


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
    with pytest.raises(errors.DecompressionFailed, match=rf"unknown codec {number} \(at byte 10, ") as caught:
        entries.parse_entry(by_hand(METADATA_BYTES + bytes.fromhex(codecs)))
    assert caught.value.validation_error == pb.CommandAck.ValidationError.DecompressionError


def test_what_only_looks_like_an_unknown_codec_is_none() -> None:
    metadata = pb.MessageMetadata(producer_name="a@b", sequence_id=0x40, publish_time=2)
    newer = metadata.SerializeToString() + bytes.fromhex("f83f40")  # a field 1023 of a newer protocol
    assert entries.parse_entry(by_hand(newer)).metadata.compression == pb.CompressionType.NONE


@pytest.mark.parametrize(
    ("further", "is_encrypted"),
    [
        ("", False),
        ("6a050a016b1200", True),
        ("ea00050a016b1200", True),  # the tag in a byte more than it needs
        ("5a016a", False),  # the ordering key "j", which is the byte of the tag
    ],
)
def test_an_entry_is_encrypted_exactly_if_it_has_encryption_keys(further: str, *, is_encrypted: bool) -> None:
    entry = entries.parse_entry(by_hand(METADATA_BYTES + bytes.fromhex(further)))
    assert entry.is_encrypted is is_encrypted
    assert bool(entry.metadata.encryption_keys) is is_encrypted


def test_strings_that_are_no_text_lose_no_entry_and_are_stored_as_they_came() -> None:
    rest = by_hand(METADATA_BYTES + bytes.fromhex("2205 0a01ff 1200"))
    entry = entries.decode_entry(rest)
    assert readable(entry.metadata).properties[0].key == "\ufffd"
    assert entry.payload == b"payload"
    assert entry.stored == rest
    assert b"".join(entries.encode_entry(entry.metadata, entry.payload)) == rest


def test_metadata_without_its_required_fields_can_not_be_written() -> None:
    with pytest.raises(errors.EncodeError, match="publish_time"):
        entries.encode_entry(pb.MessageMetadata(producer_name="p", sequence_id=1), b"")


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
    assert entries.checksum(data) == expected
    assert entries.checksum(memoryview(data)) == expected


@given(st.lists(st.binary(max_size=50)))
def test_several_buffers_sum_as_if_they_were_one(buffers: list[bytes]) -> None:
    assert entries.checksum(*buffers) == entries.checksum(b"".join(buffers))


def test_nesting_without_end_is_unreadable() -> None:
    data = b"\x08\x01\x10\x01"
    for _ in range(5_000):
        size = len(data)
        data = b"\x3a" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + data
    with pytest.raises(errors.MalformedEntry):
        entries.read_metadata(pb.MessageIdData, data, 0, errors.MalformedEntry)
