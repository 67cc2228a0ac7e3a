"""Commands against BaseCommand itself, as protobuf writes and reads it."""

import pickle
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_actors.wire import commands
from pulsar_actors.wire.commands import decode_command, encode_command, serialise_command
from pulsar_actors.wire.errors import (
    BadCommand,
    EncodeError,
    MalformedCommand,
    MissingField,
    UnknownCommand,
    UnknownEnumValue,
)
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    BaseCommand,
    CommandAck,
    CommandAuthChallenge,
    CommandError,
    CommandFlow,
    CommandGetOrCreateSchema,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopicResponse,
    CommandMessage,
    CommandPing,
    CommandPong,
    CommandSend,
    CommandSendReceipt,
    CommandSubscribe,
    KeyValue,
    MessageIdData,
    Schema,
    ServerError,
)

FIELDS = [field for field in BaseCommand.DESCRIPTOR.fields if field.message_type is not None]
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: st.text(max_size=8),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False),
}


def filled(descriptor: Descriptor, depth: int = 0) -> st.SearchStrategy[Any]:
    """Messages of a class, with their required fields and any of the others; a third level down, only the former."""
    kind: Any = GetMessageClass(descriptor)
    missing = kind().FindInitializationErrors()
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in descriptor.fields:
        if depth > 1 and field.name not in missing:
            continue
        if field.message_type is not None:
            value = filled(field.message_type, depth + 1)
        elif field.enum_type is not None:
            value = st.sampled_from([value.number for value in field.enum_type.values])
        else:
            value = SCALARS[field.type]
        if hasattr(getattr(kind(), field.name), "extend"):
            value = st.lists(value, max_size=2)
        (required if field.name in missing else optional)[field.name] = value

    def build(values: dict[str, Any]) -> Message:
        return kind(**values)

    return st.fixed_dictionaries(required, optional=optional).map(build)


COMMANDS = {field.name: filled(field.message_type) for field in FIELDS if field.message_type}


def in_base(command: Message, field: str) -> BaseCommand:
    wrap: Any = BaseCommand
    return wrap(type=BaseCommand.DESCRIPTOR.fields_by_name[field].number, **{field: command})


def test_a_type_and_its_field_have_the_same_number_and_every_class_is_used_once() -> None:
    assert {field.number for field in FIELDS} == set(BaseCommand.Type.values())
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
    assert encode_command(CommandPing()) == bytes.fromhex("00000009 00000005 08 12 9201 00")
    flow = CommandFlow(consumer_id=3, messagePermits=500)
    assert encode_command(flow) == bytes.fromhex("0000000d 00000009 08 0b 5a 05 08 03 10 f403")


def test_a_command_of_many_bytes_has_a_size_of_several_digits() -> None:
    command = CommandError(request_id=1, error=ServerError.UnknownError, message="x" * 70_000)
    assert serialise_command(command) == in_base(command, "error").SerializeToString()


@pytest.mark.parametrize("data", [b"\xff", b"\x08", b"\x0b\x0b", b"\x08\x12\x92\x01\x05"])
def test_bytes_that_protobuf_can_not_read_are_a_malformed_command(data: bytes) -> None:
    with pytest.raises(MalformedCommand, match=f"protobuf cannot read a .*{len(data)} bytes"):
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
    with pytest.raises(UnknownCommand, match=f"unknown type {number} ") as caught:
        decode_command(data)
    assert caught.value.size == len(data)


@pytest.mark.parametrize("data", [b"", b"\x92\x01\x00", b"\x0a\x01a"])
def test_a_command_without_a_type_lacks_a_field(data: bytes) -> None:
    with pytest.raises(MissingField, match="without its type"):
        decode_command(data)


def test_a_type_without_its_command_lacks_a_field() -> None:
    with pytest.raises(MissingField, match="type SEND_RECEIPT without its field send_receipt"):
        decode_command(b"\x08\x07" + b"\x92\x01\x00")


def test_missing_required_fields_are_named_at_any_depth() -> None:
    ack = CommandAck(consumer_id=1, ack_type=CommandAck.Individual, message_id=[MessageIdData(ledgerId=1)])
    data = BaseCommand(type=BaseCommand.ACK, ack=ack).SerializePartialToString()
    with pytest.raises(MissingField, match=r"CommandAck without its required message_id\[0\]\.entryId"):
        decode_command(data)
    data = BaseCommand(type=BaseCommand.SEND, send=CommandSend(producer_id=1)).SerializePartialToString()
    with pytest.raises(MissingField, match="CommandSend without its required sequence_id"):
        decode_command(data)


def unknown_subscription_type() -> bytes:
    whole = CommandSubscribe(
        topic="t", subscription="s", subType=CommandSubscribe.Key_Shared, consumer_id=1, request_id=9
    )
    data = BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=whole).SerializeToString()
    return data.replace(b"\x18\x03", b"\x18\x2a")


def test_an_unknown_enum_value_is_reported_with_the_rest_of_its_command() -> None:
    data = unknown_subscription_type()
    with pytest.raises(UnknownEnumValue, match=r"CommandSubscribe\.subType has the unknown value 42 ") as caught:
        decode_command(data)
    fault = caught.value
    assert (fault.field, fault.number, fault.size) == ("CommandSubscribe.subType", 42, len(data))
    assert isinstance(fault.command, CommandSubscribe)
    assert fault.command.request_id == 9


def test_a_report_of_an_unknown_enum_value_survives_pickling() -> None:
    with pytest.raises(UnknownEnumValue) as caught:
        decode_command(unknown_subscription_type())
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own pickle
    assert str(copy) == str(caught.value)
    assert (copy.command, copy.field, copy.number) == (caught.value.command, caught.value.field, caught.value.number)


def test_an_unknown_enum_value_below_the_command_is_found() -> None:
    schema = Schema(name="n", schema_data=b"", type=Schema.Json)
    whole = CommandGetOrCreateSchema(request_id=1, topic="t", schema=schema)
    data = BaseCommand(type=BaseCommand.GET_OR_CREATE_SCHEMA, getOrCreateSchema=whole).SerializeToString()
    assert data.count(b"\x20\x02") == 1  # field 4 of Schema: its type
    with pytest.raises(UnknownEnumValue, match=r"Schema\.type has the unknown value 77 "):
        decode_command(data.replace(b"\x20\x02", b"\x20\x4d"))


def test_a_negative_enum_value_keeps_its_sign() -> None:
    data = b"\x08\x0e\x72" + bytes([15]) + b"\x08\x01\x10" + b"\xff" * 9 + b"\x01" + b"\x1a\x00"
    with pytest.raises(UnknownEnumValue, match=r"CommandError\.error has the unknown value -1 ") as caught:
        decode_command(data)
    assert caught.value.number == -1


def test_an_unknown_enum_value_beside_a_known_one_counts() -> None:
    known = CommandError(request_id=1, error=ServerError.UnknownError, message="no").SerializeToString()
    for fields in (known + b"\x10\x63", b"\x10\x63" + known):
        with pytest.raises(UnknownEnumValue, match=r"CommandError\.error has the unknown value 99 "):
            decode_command(b"\x08\x0e\x72" + bytes([len(fields)]) + fields)


def test_the_search_for_enums_passes_by_what_can_hold_none(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def unknown(message: Message) -> None:
        searched.append(message.DESCRIPTOR.name)

    monkeypatch.setattr(commands, "unknown_enum", unknown)
    properties = [KeyValue(key="k", value="v")] * 1_000
    schema = Schema(name="n", schema_data=b"", type=Schema.Json, properties=properties)
    decode_command(serialise_command(CommandGetSchemaResponse(request_id=1, schema=schema)))
    assert sorted(searched) == ["BaseCommand", "CommandGetSchemaResponse", "Schema"]


def test_a_million_missing_fields_make_a_short_text() -> None:
    schema = Schema.FromString(b"\x0a\x01n\x1a\x00\x20\x00" + b"\x2a\x00" * 1_000_000)
    answer = CommandGetSchemaResponse(request_id=1, schema=schema)
    data = BaseCommand(type=BaseCommand.GET_SCHEMA_RESPONSE, getSchemaResponse=answer).SerializePartialToString()
    with pytest.raises(MissingField) as caught:
        decode_command(data)
    assert caught.value.what == "CommandGetSchemaResponse without its required schema.properties[0].key"


NOT_UTF_8: list[tuple[Message, str]] = [
    (CommandError(request_id=1, error=ServerError.UnknownError, message="BAD"), "CommandError.message"),
    (CommandLookupTopicResponse(request_id=1, brokerServiceUrl="BAD"), "CommandLookupTopicResponse.brokerServiceUrl"),
    (CommandGetTopicsOfNamespaceResponse(request_id=1, topics=["BAD"]), "CommandGetTopicsOfNamespaceResponse.topics"),
    (
        CommandGetSchemaResponse(request_id=1, schema=Schema(name="BAD", schema_data=b"", type=Schema.Json)),
        "Schema.name",
    ),
    (
        CommandSubscribe(
            topic="t" * 200,
            subscription="s",
            subType=CommandSubscribe.Shared,
            consumer_id=1,
            request_id=9,
            metadata=[KeyValue(key="k", value="v"), KeyValue(key="k", value="BAD")],
        ),
        "KeyValue.value",
    ),
]


@pytest.mark.parametrize(("command", "field"), NOT_UTF_8, ids=[field for _, field in NOT_UTF_8])
def test_a_string_that_is_no_text_is_a_malformed_command(command: Message, field: str) -> None:
    written = serialise_command(command)
    assert decode_command(written) == command
    with pytest.raises(MalformedCommand, match=field):
        decode_command(written.replace(b"BAD", b"\xff\xc3\x28"))


def test_a_command_with_an_unknown_enum_value_gives_no_bytes_for_text_either() -> None:
    fields = b"\x08\x01\x10\x63\x1a\x01\xff"
    with pytest.raises(MalformedCommand, match=r"CommandError\.message"):
        decode_command(b"\x08\x0e\x72" + bytes([len(fields)]) + fields)


def test_the_commands_of_the_data_path_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "undecoded_string", None)
    monkeypatch.setattr(commands, "unknown_enum", None)
    place = MessageIdData(ledgerId=2**63, entryId=1)
    for command in (
        CommandPing(),
        CommandPong(),
        CommandSend(producer_id=1, sequence_id=2**63),
        CommandSendReceipt(producer_id=1, sequence_id=2**63, message_id=place),
        CommandMessage(consumer_id=1, message_id=place),
        CommandFlow(consumer_id=1, messagePermits=1_000),
    ):
        assert decode_command(serialise_command(command)) == command


@pytest.mark.parametrize("length", [*range(110, 135), 1_000, 20_000])
def test_a_command_is_read_alike_at_any_length(length: int) -> None:
    command = CommandError(request_id=1, error=ServerError.UnknownError, message="x" * length)
    assert decode_command(serialise_command(command)) == command


@pytest.mark.parametrize("data", [None, "text", 18, [8, 18]])
def test_what_is_not_bytes_is_no_command(data: Any) -> None:
    with pytest.raises(TypeError, match=type(data).__name__):
        decode_command(data)


def test_a_field_of_a_newer_protocol_is_no_fault() -> None:
    command = CommandError(request_id=1, error=ServerError.UnknownError, message="no")
    newer = CommandError.FromString(command.SerializeToString() + b"\xf8\x3f\x05")
    assert decode_command(serialise_command(newer)) == newer
    assert decode_command(serialise_command(command) + b"\xf8\x3f\x05") == command


def test_an_auth_challenge_that_holds_no_enum_passes_at_every_depth() -> None:
    command = CommandAuthChallenge(server_version="1", challenge=AuthData(auth_method_name="token"))
    assert decode_command(serialise_command(command)) == command


def test_what_is_no_command_can_not_be_written() -> None:
    with pytest.raises(EncodeError, match="not MessageIdData"):
        encode_command(MessageIdData(ledgerId=1, entryId=1))


def test_a_command_without_its_required_fields_can_not_be_written() -> None:
    with pytest.raises(EncodeError, match="producer_id"):
        encode_command(CommandSendReceipt(sequence_id=1))


def tolerate(data: bytes) -> None:
    try:
        command = decode_command(data)
    except BadCommand:
        return
    assert command.IsInitialized()


@given(st.binary(max_size=60))
def test_nothing_but_command_errors_escape_on_any_bytes(data: bytes) -> None:
    tolerate(data)


@given(st.one_of(*COMMANDS.values()), st.data())
@settings(deadline=None)
def test_nothing_but_command_errors_escape_on_a_flipped_byte(command: Message, data: st.DataObject) -> None:
    written = bytearray(serialise_command(command))
    written[data.draw(st.integers(0, len(written) - 1))] ^= data.draw(st.integers(1, 255))
    tolerate(bytes(written))
