"""Commands: one protobuf message each, wrapped in a BaseCommand that names its type.

BaseCommand has one field per command and an enum of types beside them; a type and its field have the same number, and
each field has a message class of its own. So a command is known by its class alone: callers hand over and get a
`CommandPing` or `CommandSend`, and the wrapping is this module's business, by a table read from the descriptor.

Protobuf is more forgiving than the protocol. A number it does not know in an enum field leaves the field unset, which
reads as the first value: an unknown command would look like CONNECT, an unknown subscription type like Exclusive.
Missing required fields pass unnoticed too. Reading therefore looks for both. Looking for enums costs time, so the
classes that can not hold one, among them SEND, SEND_RECEIPT, MESSAGE, FLOW and PING of the data path, are told apart
once.
"""

import struct

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message import EncodeError as ProtobufEncodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from pulsar_actors.wire.errors import EncodeError, MalformedCommand, MissingField, UnknownCommand, UnknownEnumValue
from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand

__all__ = ["decode_command", "encode_command", "serialise_command"]

_SIZES = struct.Struct(">II")  # of the frame, not counting itself, and of the command
_VARINT, _LENGTH_DELIMITED = 0, 2  # protobuf's wire types


def _varint(value: int) -> bytes:
    """Write a number as protobuf does: seven bits a byte, lowest first, the top bit saying that more follow."""
    groups = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _can_hold_enum(message: Descriptor, above: tuple[str, ...] = ()) -> bool:
    """Tell whether the message has an enum field, at any depth; `above` ends the walk where a message holds itself."""
    if message.full_name in above:
        return False
    above = (*above, message.full_name)
    return any(
        field.enum_type is not None or (field.message_type is not None and _can_hold_enum(field.message_type, above))
        for field in message.fields
    )


_COMMANDS = [
    (field.number, field.name, field.message_type) for field in BaseCommand.DESCRIPTOR.fields if field.message_type
]

_TYPES = BaseCommand.Type.DESCRIPTOR.values_by_number

_FIELDS = {number: name for number, name, _ in _COMMANDS}
"""The number of a type -> the name of its field."""

_HEADS = {
    GetMessageClass(message): (
        _varint(BaseCommand.TYPE_FIELD_NUMBER << 3 | _VARINT)
        + _varint(number)
        + _varint(number << 3 | _LENGTH_DELIMITED)
    )
    for number, _, message in _COMMANDS
}
"""The class of a command -> what its BaseCommand begins with: the type, and the tag of its field."""

_CAN_HOLD_ENUM = frozenset(number for number, _, message in _COMMANDS if _can_hold_enum(message))
"""The types whose commands have to be searched."""


def serialise_command(command: Message) -> bytes:
    """Write the command in its BaseCommand, as protobuf would; building that message costs three times as much."""
    head = _HEADS.get(type(command))
    if head is None:
        got = type(command).__name__
        raise EncodeError(f"a command is a message that BaseCommand has a field for, not {got}", 0, 0)
    try:
        body = command.SerializeToString()
    except ProtobufEncodeError as fault:
        raise EncodeError(str(fault), 0, 0) from fault
    return head + _varint(len(body)) + body


def encode_command(command: Message) -> bytes:
    """Write a command that carries no entry, such as `CommandPing()`, as its whole frame."""
    body = serialise_command(command)
    return _SIZES.pack(4 + len(body), len(body)) + body


def decode_command(data: bytes | memoryview) -> Message:
    """Read a serialised BaseCommand and return the command in it.

    MalformedCommand, UnknownCommand, UnknownEnumValue and MissingField say what is wrong with it. Protobuf does not
    tell where, so their position is always 0 and their size that of the whole command.
    """
    try:
        base = BaseCommand.FromString(bytes(data))
    except (DecodeError, ValueError) as fault:
        raise MalformedCommand(f"protobuf can not read a command: {fault}", 0, len(data)) from fault
    if not base.HasField("type"):
        _refuse_untyped(base, len(data))
    kind = base.type
    field = _FIELDS[kind]
    if not base.HasField(field):  # type: ignore[arg-type] # the stub wants a literal
        raise MissingField(f"a command of type {_TYPES[kind].name} without its field {field}", 0, len(data))
    command: Message = getattr(base, field)
    if kind in _CAN_HOLD_ENUM:
        _refuse_unknown_enum(command, len(data))
    if not command.IsInitialized():
        missing = ", ".join(command.FindInitializationErrors())  # type: ignore[attr-defined] # the stub lacks it
        raise MissingField(f"{command.DESCRIPTOR.name} without its required {missing}", 0, len(data))
    return command


def _refuse_untyped(base: BaseCommand, size: int) -> None:
    unknown = _unknown_enum(base)
    if unknown is None:
        raise MissingField("a command without its type", 0, size)
    raise UnknownCommand(f"a command of the unknown type {unknown[1]}", 0, size)


def _refuse_unknown_enum(command: Message, size: int) -> None:
    found = _search_enums(command)
    if found is not None:
        raise UnknownEnumValue(command, *found, size)


def _search_enums(message: Message) -> tuple[str, int] | None:
    """Find the first unknown enum value in the message or below: `Message.field` and the number."""
    found = _unknown_enum(message)
    if found is not None:
        return found
    for field, value in message.ListFields():
        if field.message_type is not None:
            for child in [value] if isinstance(value, Message) else value:
                found = _search_enums(child)
                if found is not None:
                    return found
    return None


def _unknown_enum(message: Message) -> tuple[str, int] | None:
    """Find an enum field of the message itself whose number protobuf put aside as unknown."""
    fields, unknowns = message.DESCRIPTOR.fields_by_number, UnknownFieldSet(message)
    for unknown in map(unknowns.__getitem__, range(len(unknowns))):
        field = fields.get(unknown.field_number)
        if field is not None and field.enum_type is not None and unknown.wire_type == _VARINT:
            return f"{message.DESCRIPTOR.name}.{field.name}", _int32(unknown.data)
    return None


def _int32(value: int) -> int:
    """Read an enum value: 32 bits and a sign, of which a varint may carry 64."""
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
