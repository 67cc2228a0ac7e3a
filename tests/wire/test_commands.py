"""Commands against BaseCommand itself, as protobuf writes and reads it."""

import pickle
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire import commands, errors
from pulsar_actors.wire.commands import decode_command, encode_command, serialise_command
from tests.wire.any_message import filled

FIELDS = [field for field in pb.BaseCommand.DESCRIPTOR.fields if field.message_type is not None]

COMMANDS = {field.name: filled(field.message_type) for field in FIELDS if field.message_type}


def in_base(command: Message, field: str) -> pb.BaseCommand:
    wrap: Any = pb.BaseCommand
    return wrap(type=pb.BaseCommand.DESCRIPTOR.fields_by_name[field].number, **{field: command})


def test_a_type_and_its_field_have_the_same_number_and_every_class_is_used_once() -> None:
    assert {field.number for field in FIELDS} == set(pb.BaseCommand.Type.values())
    assert len({field.message_type.full_name for field in FIELDS if field.message_type}) == len(FIELDS)


@pytest.mark.shows("Command Ack", "properties", "txnid_most_bits", "txnid_least_bits")
@pytest.mark.shows("Protobuf interface")
@pytest.mark.parametrize("field", COMMANDS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_command_is_written_as_protobuf_writes_it_and_read_back_whole(field: str, data: st.DataObject) -> None:
    command = data.draw(COMMANDS[field])
    written = serialise_command(command)
    assert written == in_base(command, field).SerializeToString()
    assert decode_command(written) == command
    assert decode_command(memoryview(written)) == command


@pytest.mark.shows("Simple commands")
@pytest.mark.shows("Simple commands", "totalSize", "commandSize", "message")
def test_a_simple_frame_is_its_size_the_command_size_and_the_command() -> None:
    # BaseCommand: field 1 (type) = 18, field 18 (ping) = an empty message.
    assert encode_command(pb.CommandPing()) == bytes.fromhex("00000009 00000005 08 12 9201 00")
    flow = pb.CommandFlow(consumer_id=3, messagePermits=500)
    assert encode_command(flow) == bytes.fromhex("0000000d 00000009 08 0b 5a 05 08 03 10 f403")


@pytest.mark.parametrize("data", [b"\xff", b"\x08", b"\x0b\x0b", b"\x08\x12\x92\x01\x05"])
def test_bytes_that_protobuf_can_not_read_are_a_malformed_command(data: bytes) -> None:
    with pytest.raises(errors.MalformedCommand, match=f"protobuf cannot read a .*{len(data)} bytes"):
        decode_command(data)


PING = b"\x92\x01\x00"


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"\x08\x63", 99),
        (b"\x08" + b"\xff" * 9 + b"\x01", -1),
        (b"\x08\x00", 0),
        (b"\x08\x12\x08\x8f\x4e" + PING, 9999),
        (b"\x08\x8f\x4e\x08\x12" + PING, 9999),
        (b"\x08\x12" + PING + b"\x08\x8f\x4e", 9999),
        (b"\x08\x12" + PING + b"\x88\x00\x8f\x4e", 9999),  # the tag in a byte more than it needs
    ],
)
def test_an_unknown_type_is_reported_as_unknown_and_not_as_connect(data: bytes, number: int) -> None:
    with pytest.raises(errors.UnknownCommand, match=f"unknown type {number} ") as caught:
        decode_command(data)
    assert caught.value.size == len(data)


@pytest.mark.parametrize("data", [b"", b"\x92\x01\x00", b"\x0a\x01a"])
def test_a_command_without_a_type_lacks_a_field(data: bytes) -> None:
    with pytest.raises(errors.MissingField, match="without its type"):
        decode_command(data)


def test_a_type_without_its_command_lacks_a_field() -> None:
    with pytest.raises(errors.MissingField, match="type SEND_RECEIPT without its field send_receipt"):
        decode_command(b"\x08\x07" + b"\x92\x01\x00")


def test_missing_required_fields_are_named_at_any_depth() -> None:
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[pb.MessageIdData(ledgerId=1)])
    data = pb.BaseCommand(type=pb.BaseCommand.ACK, ack=ack).SerializePartialToString()
    with pytest.raises(errors.MissingField, match=r"CommandAck without its required message_id\[0\]\.entryId"):
        decode_command(data)
    data = pb.BaseCommand(type=pb.BaseCommand.SEND, send=pb.CommandSend(producer_id=1)).SerializePartialToString()
    with pytest.raises(errors.MissingField, match="CommandSend without its required sequence_id"):
        decode_command(data)


def test_an_unknown_enum_value_is_reported_with_the_rest_of_its_command_also_after_pickling() -> None:
    whole = pb.CommandSubscribe(
        topic="t", subscription="s", subType=pb.CommandSubscribe.Key_Shared, consumer_id=1, request_id=9
    )
    data = in_base(whole, "subscribe").SerializeToString().replace(b"\x18\x03", b"\x18\x2a")
    with pytest.raises(errors.UnknownEnumValue, match=r"CommandSubscribe\.subType has the unknown value 42 ") as caught:
        decode_command(data)
    for fault in (caught.value, pickle.loads(pickle.dumps(caught.value))):  # noqa: S301 - our own pickle
        assert str(fault) == str(caught.value)
        assert (fault.field, fault.number, fault.size) == ("CommandSubscribe.subType", 42, len(data))
        assert isinstance(fault.command, pb.CommandSubscribe)
        assert fault.command.request_id == 9


def test_an_unknown_enum_value_below_the_command_is_found() -> None:
    schema = pb.Schema(name="n", schema_data=b"", type=pb.Schema.Json)
    whole = pb.CommandGetOrCreateSchema(request_id=1, topic="t", schema=schema)
    data = pb.BaseCommand(type=pb.BaseCommand.GET_OR_CREATE_SCHEMA, getOrCreateSchema=whole).SerializeToString()
    assert data.count(b"\x20\x02") == 1  # field 4 of Schema: its type
    with pytest.raises(errors.UnknownEnumValue, match=r"Schema\.type has the unknown value 77 "):
        decode_command(data.replace(b"\x20\x02", b"\x20\x4d"))


def test_the_search_for_enums_passes_by_what_can_hold_none(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def unknown(message: Message) -> None:
        searched.append(message.DESCRIPTOR.name)

    monkeypatch.setattr(commands, "unknown_enum", unknown)
    properties = [pb.KeyValue(key="k", value="v")] * 1_000
    schema = pb.Schema(name="n", schema_data=b"", type=pb.Schema.Json, properties=properties)
    decode_command(serialise_command(pb.CommandGetSchemaResponse(request_id=1, schema=schema)))
    assert sorted(searched) == ["BaseCommand", "CommandGetSchemaResponse", "Schema"]


NOT_UTF_8: list[tuple[Message, str]] = [
    (pb.CommandError(request_id=1, error=pb.ServerError.UnknownError, message="BAD"), "CommandError.message"),
    (
        pb.CommandLookupTopicResponse(request_id=1, brokerServiceUrl="BAD"),
        "CommandLookupTopicResponse.brokerServiceUrl",
    ),
    (
        pb.CommandGetTopicsOfNamespaceResponse(request_id=1, topics=["BAD"]),
        "CommandGetTopicsOfNamespaceResponse.topics",
    ),
    (
        pb.CommandGetSchemaResponse(request_id=1, schema=pb.Schema(name="BAD", schema_data=b"", type=pb.Schema.Json)),
        "Schema.name",
    ),
    (
        pb.CommandSubscribe(
            topic="t" * 200,
            subscription="s",
            subType=pb.CommandSubscribe.Shared,
            consumer_id=1,
            request_id=9,
            metadata=[pb.KeyValue(key="k", value="v"), pb.KeyValue(key="k", value="BAD")],
        ),
        "KeyValue.value",
    ),
]


@pytest.mark.parametrize(("command", "field"), NOT_UTF_8, ids=[field for _, field in NOT_UTF_8])
def test_a_string_that_is_no_text_is_a_malformed_command(command: Message, field: str) -> None:
    written = serialise_command(command)
    assert decode_command(written) == command
    with pytest.raises(errors.MalformedCommand, match=field):
        decode_command(written.replace(b"BAD", b"\xff\xc3\x28"))


def test_a_command_with_an_unknown_enum_value_gives_no_bytes_for_text_either() -> None:
    fields = b"\x08\x01\x10\x63\x1a\x01\xff"
    with pytest.raises(errors.MalformedCommand, match=r"CommandError\.message"):
        decode_command(b"\x08\x0e\x72" + bytes([len(fields)]) + fields)


def test_the_commands_of_the_data_path_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "undecoded_string", None)
    monkeypatch.setattr(commands, "unknown_enum", None)
    place = pb.MessageIdData(ledgerId=2**63, entryId=1)
    for command in (
        pb.CommandPing(),
        pb.CommandPong(),
        pb.CommandSend(producer_id=1, sequence_id=2**63),
        pb.CommandSendReceipt(producer_id=1, sequence_id=2**63, message_id=place),
        pb.CommandMessage(consumer_id=1, message_id=place),
        pb.CommandFlow(consumer_id=1, messagePermits=1_000),
    ):
        assert decode_command(serialise_command(command)) == command


@pytest.mark.parametrize("length", [*range(110, 135), 1_000, 20_000, 70_000])
def test_a_command_is_written_and_read_alike_at_any_length(length: int) -> None:
    command = pb.CommandError(request_id=1, error=pb.ServerError.UnknownError, message="x" * length)
    assert serialise_command(command) == in_base(command, "error").SerializeToString()
    assert decode_command(serialise_command(command)) == command


@pytest.mark.parametrize("data", [None, "text", 18, [8, 18]])
def test_what_is_not_bytes_is_no_command(data: Any) -> None:
    with pytest.raises(TypeError, match=type(data).__name__):
        decode_command(data)


def test_a_field_of_a_newer_protocol_is_no_fault() -> None:
    command = pb.CommandError(request_id=1, error=pb.ServerError.UnknownError, message="no")
    newer = pb.CommandError.FromString(command.SerializeToString() + b"\xf8\x3f\x05")
    assert decode_command(serialise_command(newer)) == newer
    assert decode_command(serialise_command(command) + b"\xf8\x3f\x05") == command


def test_what_is_no_command_can_not_be_written() -> None:
    with pytest.raises(errors.EncodeError, match="not MessageIdData"):
        encode_command(pb.MessageIdData(ledgerId=1, entryId=1))


def test_a_command_without_its_required_fields_can_not_be_written() -> None:
    with pytest.raises(errors.EncodeError, match="producer_id"):
        encode_command(pb.CommandSendReceipt(sequence_id=1))
