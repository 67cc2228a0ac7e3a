"""Protobuf's gaps: missing fields, unknown enum values, strings that are not UTF-8, signed ids, and bytes."""

import array
import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError as ProtobufEncodeError
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire import protobuf
from pulsar_actors.wire.errors import EncodeError

WHOLE = pb.KeyValue(key="k", value="v")
INCOMPLETE: list[Message] = [
    pb.MessageMetadata(),
    pb.MessageMetadata(producer_name="p"),
    pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, properties=[WHOLE, pb.KeyValue(key="k")]),
    pb.MessageIdData(ledgerId=1, entryId=2, first_chunk_message_id=pb.MessageIdData(ledgerId=1)),
    pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[pb.MessageIdData(entryId=1)]),
    pb.CommandAck(
        consumer_id=1,
        ack_type=pb.CommandAck.Individual,
        message_id=[pb.MessageIdData(ledgerId=1, entryId=1)],
        properties=[pb.KeyLongValue(key="k")],
    ),
    pb.CommandGetSchemaResponse(
        request_id=1, schema=pb.Schema(name="n", schema_data=b"", type=pb.Schema.Json, properties=[pb.KeyValue()])
    ),
]


@pytest.mark.parametrize("message", INCOMPLETE, ids=lambda message: message.DESCRIPTOR.name)
def test_the_first_missing_field_is_one_that_protobuf_misses(message: Any) -> None:
    assert protobuf.first_missing_field(message) == message.FindInitializationErrors()[0]


def test_nothing_is_missing_from_a_whole_message() -> None:
    assert protobuf.first_missing_field(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)) == ""
    assert protobuf.first_missing_field(pb.CommandGetSchemaResponse(request_id=1)) == ""


def test_a_million_missing_fields_are_one_word() -> None:
    many = pb.MessageMetadata.FromString(b"\x0a\x01p\x10\x00\x18\x00" + b"\x22\x00" * 1_000_000)
    assert protobuf.first_missing_field(many) == "properties[0].key"
    with pytest.raises(EncodeError) as caught:
        protobuf.serialise(many)
    assert caught.value.what == "MessageMetadata without its required properties[0].key"


def test_a_message_that_protobuf_can_not_write_for_another_reason_is_refused_in_its_words() -> None:
    class TooLarge:
        """A message of 2 GiB, as far as this goes."""

        DESCRIPTOR = pb.MessageIdData.DESCRIPTOR

        def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's name
            return True

        def ListFields(self) -> list[Any]:  # noqa: N802 - protobuf's name
            return []

        def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
            raise ProtobufEncodeError("too large")

    message: Any = TooLarge()
    with pytest.raises(EncodeError, match="MessageIdData cannot be written: too large"):
        protobuf.serialise(message)


def test_it_is_told_where_a_message_holds_fields_of_a_type() -> None:
    assert protobuf.fields_of_type(pb.MessageIdData.DESCRIPTOR, FieldDescriptor.TYPE_STRING) == ((), ())
    assert protobuf.fields_of_type(pb.KeyValue.DESCRIPTOR, FieldDescriptor.TYPE_STRING) == (("key", "value"), ())
    enums = protobuf.fields_of_type(pb.CommandSubscribe.DESCRIPTOR, FieldDescriptor.TYPE_ENUM)
    assert set(enums.own) == {"subType", "initialPosition"}
    assert dict(enums.nested) == {"schema": (("type",), ()), "keySharedMeta": (("keySharedMode",), ())}


def test_what_holds_itself_holds_neither_strings_nor_enums() -> None:
    """`holding` stops where a message comes again below itself, and would miss what is there."""

    def below(descriptor: Any, seen: frozenset[str]) -> frozenset[str]:
        for field in descriptor.fields:
            if field.message_type is not None and field.message_type.full_name not in seen:
                seen = below(field.message_type, seen | {field.message_type.full_name})
        return seen

    for message in pb.BaseCommand.DESCRIPTOR.file.message_types_by_name.values():
        if message.full_name in below(message, frozenset()):
            for field_type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_ENUM):
                assert not any(protobuf.fields_of_type(message, field_type)), message.full_name


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", None),
        (b"\x08\x12", None),
        (b"\x08\x63", ("BaseCommand.type", 99)),
        (b"\x08\x12\x08\x63", ("BaseCommand.type", 99)),
        (b"\x08\x63\x08\x12", ("BaseCommand.type", 99)),
        (b"\x88\x00\x63", ("BaseCommand.type", 99)),
        (b"\x08" + b"\xff" * 9 + b"\x01", ("BaseCommand.type", -1)),
        (b"\x08\x80\x80\x80\x80\x08", ("BaseCommand.type", -(2**31))),
        (b"\x0a\x01\x63", None),  # bytes where a number belongs
        (b"\xf8\x3f\x63", None),  # a field of a newer protocol
    ],
)
def test_an_unknown_number_counts_wherever_it_stands(data: bytes, found: tuple[str, int] | None) -> None:
    assert protobuf.unknown_enum(pb.BaseCommand.FromString(data)) == found


BAD = b"a\xff\xc3"
SHOWN = BAD.decode(errors="replace")
NEWER = b"\xf8\x3f\x05"  # a field 1023 of a newer protocol


def spoilt(message: Any) -> bytes:
    """Write a message with bytes that are not UTF-8 wherever it says BAD."""
    written: bytes = message.SerializeToString()
    return written.replace(b"BAD", BAD)


METADATA = pb.MessageMetadata(
    producer_name="BAD",
    sequence_id=1,
    publish_time=2,
    replicate_to=["fine", "BAD"],
    properties=[pb.KeyValue(key="k", value="v"), pb.KeyValue(key="BAD", value="BAD")],
    encryption_keys=[pb.EncryptionKeys(key="k", value=b"BAD", metadata=[pb.KeyValue(key="k\xe9", value="BAD")])],
)


def test_every_string_becomes_text_and_nothing_else_changes() -> None:
    message = protobuf.readable(protobuf.parse(pb.MessageMetadata, spoilt(METADATA) + NEWER))
    assert message.producer_name == SHOWN == "a\ufffd\ufffd"
    assert list(message.replicate_to) == ["fine", SHOWN]
    assert [(each.key, each.value) for each in message.properties] == [("k", "v"), (SHOWN, SHOWN)]
    assert message.encryption_keys[0].value == BAD
    assert [(each.key, each.value) for each in message.encryption_keys[0].metadata] == [("k\xe9", SHOWN)]
    assert (message.sequence_id, message.publish_time) == (1, 2)
    assert not message.HasField("partition_key")
    assert message.SerializeToString().endswith(NEWER)


def test_a_message_of_texts_comes_back_itself() -> None:
    message = pb.MessageMetadata(producer_name="\xfc", sequence_id=1, publish_time=2, partition_key="k\U0001f600")
    assert protobuf.undecoded_string(message) is None
    assert protobuf.readable(message) is message


def test_reading_goes_another_way_where_protobuf_refuses_the_message() -> None:
    class Strict:
        """A class of protobuf's pure-Python form, as far as this goes."""

        DESCRIPTOR: Descriptor = pb.KeyValue.DESCRIPTOR

        @staticmethod
        def FromString(data: bytes) -> pb.KeyValue:  # noqa: N802 - protobuf's name
            message = pb.KeyValue.FromString(data)
            for value in (message.key, message.value):
                if isinstance(value, bytes):
                    value.decode()
            return message

    strict: Any = Strict
    assert protobuf.parse(strict, spoilt(pb.KeyValue(key="BAD", value="v"))) == pb.KeyValue(key=SHOWN, value="v")


BOTH = """
    import json, struct
    from google.protobuf.internal import api_implementation
    from pulsar_actors.exceptions import WireError
    from pulsar_actors.wire.batch import split_batch
    from pulsar_actors.wire.frames import decode_command
    from pulsar_actors.wire.entries import parse_entry
    from pulsar_actors.wire.message_id import MessageId
    from pulsar_actors.wire.protobuf import readable

    told = {"form": api_implementation.Type()}
    sized = lambda data: struct.pack(">I", len(data)) + data

    metadata = readable(parse_entry(memoryview(sized(bytes.fromhex("0a02ff70 1001 1802 2205 0a01ff 1200")))).metadata)
    told["entry"] = [metadata.producer_name, metadata.properties[0].key, metadata.publish_time]

    batch = [sized(bytes.fromhex("1800 1202c328")), sized(bytes.fromhex("1800 0a06 0a01ff 1201fe"))] * 2
    messages = split_batch(b"".join(batch), 4)
    told["batch"] = [
        [metadata.partition_key, [(each.key, each.value) for each in metadata.properties]]
        for metadata in (readable(message.metadata) for message in messages)
    ]

    for name, command in {
        "error": "080e 7207 0801 1000 1a01ff",
        "topics": "0821 8a0206 0801 1202 ff74",
        "in a property": "080a 520b 0801 1000 2a05 0a01ff 1001",
    }.items():
        try:
            told[name] = str(decode_command(bytes.fromhex(command)))
        except WireError as fault:
            told[name] = type(fault).__name__, str(fault)

    nested = bytes.fromhex("0801 1001")
    for _ in range(3000):
        size = len(nested)
        nested = b"\\x3a" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + nested
    try:
        MessageId.deserialize(nested)
    except WireError as fault:
        told["nested"] = type(fault).__name__
    print(json.dumps(told))
"""


@pytest.mark.parametrize("form", ["upb", "python"])
def test_both_forms_of_protobuf_read_alike(form: str) -> None:
    run = subprocess.run(  # noqa: S603 - our own text, run by our own interpreter
        [sys.executable, "-c", textwrap.dedent(BOTH)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": form},
    )
    assert run.stderr == ""
    told = json.loads(run.stdout)
    assert told["form"] == form
    assert told["entry"] == ["\ufffdp", "\ufffd", 2]
    assert told["batch"] == [["\ufffd(", []], ["", [["\ufffd", "\ufffd"]]]] * 2
    for name, field in [
        ("error", "Error.message"),
        ("topics", "Response.topics"),
        ("in a property", "KeyLongValue.key"),
    ]:
        kind, text = told[name]
        assert kind == "MalformedCommand"
        assert field in text
    assert told["nested"] == "MalformedMessageId"


@pytest.mark.parametrize(
    ("value", "field"), [(-1, 2**64 - 1), (0, 0), (7, 7), (2**63 - 1, 2**63 - 1), (-(2**63), 2**63), (-2, 2**64 - 2)]
)
def test_a_field_stands_for_the_signed_number_of_the_same_64_bits(value: int, field: int) -> None:
    assert protobuf.signed(field) == value
    assert protobuf.unsigned(value) == field


@given(st.integers(0, 2**64 - 1))
def test_both_ways_lead_back(field: int) -> None:
    assert protobuf.unsigned(protobuf.signed(field)) == field


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_refused(value: int) -> None:
    with pytest.raises(EncodeError, match=f"not {value}"):
        protobuf.unsigned(value)


@pytest.mark.parametrize("value", ["1", 1.5, None, b"1", 10**5000], ids=["text", "fraction", "none", "bytes", "huge"])
def test_what_is_no_such_number_is_refused_in_few_words(value: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        protobuf.unsigned(value)
    assert len(str(caught.value)) < 200


def test_bytes_are_taken_as_they_are() -> None:
    data = b"data"
    assert protobuf.as_bytes(data) is data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytearray(b"data"), b"data"),
        (memoryview(b"data"), b"data"),
        (memoryview(b"d.a.t.a.")[::2], b"data"),
        (memoryview(b"datadata").cast("I"), b"datadata"),
        (array.array("H", [0x6464]), b"dd"),
    ],
)
def test_whatever_has_bytes_is_copied(data: Any, expected: bytes) -> None:
    copied = protobuf.as_bytes(data)
    assert type(copied) is bytes
    assert copied == expected


@pytest.mark.parametrize("data", ["text", 3, None, [1, 2], ()])
def test_what_has_no_bytes_is_refused(data: Any) -> None:
    with pytest.raises(TypeError, match=type(data).__name__):
        protobuf.as_bytes(data)
