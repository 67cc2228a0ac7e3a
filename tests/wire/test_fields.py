"""What protobuf lets pass: its own list of missing fields is asked about small messages, and must agree."""

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import EncodeError as ProtobufEncodeError
from google.protobuf.message import Message

from pulsar_actors.wire.errors import EncodeError
from pulsar_actors.wire.fields import children, first_missing_field, holding, serialise, unknown_enum
from pulsar_actors.wire.PulsarApi_pb2 import (
    BaseCommand,
    CommandAck,
    CommandGetSchemaResponse,
    CommandSubscribe,
    IntRange,
    KeyLongValue,
    KeySharedMeta,
    KeyValue,
    MessageIdData,
    MessageMetadata,
    Schema,
)

WHOLE = KeyValue(key="k", value="v")
INCOMPLETE: list[Message] = [
    MessageMetadata(),
    MessageMetadata(producer_name="p"),
    MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, properties=[WHOLE, KeyValue(key="k")]),
    MessageIdData(ledgerId=1, entryId=2, first_chunk_message_id=MessageIdData(ledgerId=1)),
    CommandAck(consumer_id=1, ack_type=CommandAck.Individual, message_id=[MessageIdData(entryId=1)]),
    CommandAck(
        consumer_id=1,
        ack_type=CommandAck.Individual,
        message_id=[MessageIdData(ledgerId=1, entryId=1)],
        properties=[KeyLongValue(key="k")],
    ),
    CommandGetSchemaResponse(
        request_id=1, schema=Schema(name="n", schema_data=b"", type=Schema.Json, properties=[KeyValue()])
    ),
]


@pytest.mark.parametrize("message", INCOMPLETE, ids=lambda message: message.DESCRIPTOR.name)
def test_the_first_missing_field_is_one_that_protobuf_misses(message: Any) -> None:
    assert first_missing_field(message) == message.FindInitializationErrors()[0]


def test_nothing_is_missing_from_a_whole_message() -> None:
    assert first_missing_field(MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)) == ""
    assert first_missing_field(CommandGetSchemaResponse(request_id=1)) == ""


def test_a_million_missing_fields_are_one_word() -> None:
    many = MessageMetadata.FromString(b"\x0a\x01p\x10\x00\x18\x00" + b"\x22\x00" * 1_000_000)
    assert first_missing_field(many) == "properties[0].key"
    with pytest.raises(EncodeError) as caught:
        serialise(many)
    assert caught.value.what == "MessageMetadata without its required properties[0].key"


def test_a_message_that_protobuf_can_not_write_for_another_reason_is_refused_in_its_words() -> None:
    class TooLarge:
        """A message of 2 GiB, as far as this goes."""

        DESCRIPTOR = MessageIdData.DESCRIPTOR

        def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's name
            return True

        def ListFields(self) -> list[Any]:  # noqa: N802 - protobuf's name
            return []

        def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
            raise ProtobufEncodeError("too large")

    message: Any = TooLarge()
    with pytest.raises(EncodeError, match="MessageIdData cannot be written: too large"):
        serialise(message)


def test_it_is_told_where_a_message_holds_fields_of_a_type() -> None:
    assert holding(MessageIdData.DESCRIPTOR, FieldDescriptor.TYPE_STRING) == ((), ())
    assert holding(KeyValue.DESCRIPTOR, FieldDescriptor.TYPE_STRING) == (("key", "value"), ())
    enums = holding(CommandSubscribe.DESCRIPTOR, FieldDescriptor.TYPE_ENUM)
    assert set(enums.own) == {"subType", "initialPosition"}
    assert dict(enums.nested) == {"schema": (("type",), ()), "keySharedMeta": (("keySharedMode",), ())}


def test_what_holds_itself_holds_neither_strings_nor_enums() -> None:
    """`holding` stops where a message comes again below itself, and would miss what is there."""

    def below(descriptor: Any, seen: frozenset[str]) -> frozenset[str]:
        for field in descriptor.fields:
            if field.message_type is not None and field.message_type.full_name not in seen:
                seen = below(field.message_type, seen | {field.message_type.full_name})
        return seen

    for message in BaseCommand.DESCRIPTOR.file.message_types_by_name.values():
        if message.full_name in below(message, frozenset()):
            for field_type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_ENUM):
                assert not any(holding(message, field_type)), message.full_name


def test_children_are_those_of_a_list_or_the_one_that_is_there() -> None:
    ranges = [IntRange(start=0, end=1), IntRange(start=2, end=3)]
    assert list(children(KeySharedMeta(hashRanges=ranges), "hashRanges")) == ranges
    assert list(children(MessageIdData(), "first_chunk_message_id")) == []
    first = MessageIdData(ledgerId=1, entryId=2)
    assert list(children(MessageIdData(first_chunk_message_id=first), "first_chunk_message_id")) == [first]


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
    assert unknown_enum(BaseCommand.FromString(data)) == found
