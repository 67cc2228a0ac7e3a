"""Commands: one protobuf message each, wrapped in a BaseCommand that names its type.

BaseCommand has one field for each command, and an enum of types beside them. A type and its field have the same number,
and each field has a message class of its own. So the class of a command is enough to identify it: callers pass and get
a `CommandPing` or a `CommandSend`, and this module adds and removes the BaseCommand, by a table read from the
descriptor.

Protobuf is more forgiving than the protocol. It hides an unknown number in an enum field: an unknown command would look
like CONNECT, an unknown subscription type like Exclusive. It ignores missing required fields, and strings that are not
UTF-8. So `decode_command` checks for all three (see `protobuf.py`). The checks take time; so they are skipped where
they cannot fail. A command whose class has neither an enum nor a string needs only the check for missing fields: SEND,
SEND_RECEIPT, MESSAGE, FLOW and PING are such commands. If no byte is above 127, every string is UTF-8.

Every client writes a BaseCommand as its type and one field, with nothing else. The first bytes of a short command show
whether it has this form. If so, only the command in it is parsed, which halves the cost. Any other form is parsed in
full, because it may have a second type or a field of a newer protocol.
"""

import struct
from typing import TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from pulsar_actors.wire.errors import EncodeError, MalformedCommand, MissingField, UnknownCommand, UnknownEnumValue
from pulsar_actors.wire.protobuf import (
    UNREADABLE,
    BytesLike,
    FieldsOfType,
    as_bytes,
    children,
    fields_of_type,
    first_missing_field,
    serialise,
    undecoded_string,
    unknown_enum,
    varint,
)
from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand, CommandMessage, CommandSend

__all__ = ["CARRIERS", "decode_command", "encode_command", "serialise_command", "wrap_command"]


CARRIERS = frozenset({CommandSend, CommandMessage})
"""The commands that carry an entry."""

_SIZES = struct.Struct(">II")  # the size of the frame after this field, and the size of the command
_VARINT, _LENGTH_DELIMITED = 0, 2  # protobuf's wire types
_SEVEN_BITS = 0x7F  # the largest size in one byte
_FIRST_STRING = 4  # no string begins earlier: the tags and sizes of two nested fields stand before it

_M = TypeVar("_M", bound=Message)


_COMMANDS = [
    (field.number, field.name, field.message_type) for field in BaseCommand.DESCRIPTOR.fields if field.message_type
]

_TYPES = BaseCommand.Type.DESCRIPTOR.values_by_number

_FIELDS = {number: name for number, name, _ in _COMMANDS}
"""Type number -> name of its field."""

_HEADS = {
    GetMessageClass(message): (
        varint(BaseCommand.TYPE_FIELD_NUMBER << 3 | _VARINT) + varint(number) + varint(number << 3 | _LENGTH_DELIMITED)
    )
    for number, _, message in _COMMANDS
}
"""Class of a command -> the first bytes of its BaseCommand: the type, and the tag of its field."""

_CLASSES = {head: kind for kind, head in _HEADS.items()}
_HEAD_SIZES = sorted({len(head) for head in _CLASSES})

_ENUMS = {kind: fields_of_type(kind.DESCRIPTOR, FieldDescriptor.TYPE_ENUM) for kind in _HEADS}
_STRINGS = {kind: fields_of_type(kind.DESCRIPTOR, FieldDescriptor.TYPE_STRING) for kind in _HEADS}
_CHECKED = frozenset(kind for kind in _HEADS if any(_ENUMS[kind] + _STRINGS[kind]))


def serialise_command(command: Message) -> bytes:
    """Write the command in its BaseCommand, as protobuf does at three times the cost."""
    if type(command) not in _HEADS:
        got = type(command).__name__
        raise EncodeError(f"a command is a message that BaseCommand has a field for, not {got}", 0, 0)
    return wrap_command(type(command), serialise(command))


def wrap_command(kind: type[Message], body: bytes) -> bytes:
    """Write the BaseCommand around a command that is serialised already."""
    return _HEADS[kind] + varint(len(body)) + body


def encode_command(command: Message) -> bytes:
    """Write the frame of a command that carries no entry, such as `CommandPing()`."""
    if type(command) in CARRIERS:
        raise EncodeError(f"{type(command).__name__} is written with its entry: `encode_payload_command`", 0, 0)
    body = serialise_command(command)
    return _SIZES.pack(4 + len(body), len(body)) + body


def decode_command(data: BytesLike) -> Message:
    """Read a serialised BaseCommand and return the command in it.

    Raises MalformedCommand, UnknownCommand, UnknownEnumValue or MissingField. Protobuf does not report positions, so
    their position is always 0 and their size that of the whole command.
    """
    data = as_bytes(data)
    command = _decode_short(data)
    if command is None:
        command = _decode_any(data)
    checked = type(command) in _CHECKED
    unknown = _find_unknown_enum(command, _ENUMS[type(command)]) if checked else None
    if unknown is None and not command.IsInitialized():
        what = f"{command.DESCRIPTOR.name} without its required {first_missing_field(command)}"
        raise MissingField(what, 0, len(data))
    if checked and not data[_FIRST_STRING:].isascii():
        _reject_undecoded(command, len(data))
    if unknown is not None:
        raise UnknownEnumValue(command, *unknown, len(data))
    return command


def _decode_short(data: bytes) -> Message | None:
    """Read a command of less than 128 bytes that is its type and its field, and nothing else; None for any other."""
    for start in _HEAD_SIZES:
        kind = _CLASSES.get(data[:start])
        if kind is not None:
            size = len(data) - start - 1
            if 0 <= size <= _SEVEN_BITS and data[start] == size:
                return _parse(kind, data[start + 1 :], len(data))
    return None


def _decode_any(data: bytes) -> Message:
    """Read a command by way of its BaseCommand."""
    base = _parse(BaseCommand, data, len(data))
    unknown = unknown_enum(base)
    if unknown is not None:
        raise UnknownCommand(f"a command of the unknown type {unknown[1]}", 0, len(data))
    if not base.HasField("type"):
        raise MissingField("a command without its type", 0, len(data))
    field = _FIELDS[base.type]
    if not base.HasField(field):  # type: ignore[arg-type] # the stub wants a literal
        raise MissingField(f"a command of type {_TYPES[base.type].name} without its field {field}", 0, len(data))
    command: Message = getattr(base, field)
    return command


def _parse(kind: type[_M], data: bytes, size: int) -> _M:
    try:
        return kind.FromString(data)
    except UNREADABLE as fault:
        raise MalformedCommand(f"protobuf cannot read a {kind.__name__}: {fault}", 0, size) from fault


def _reject_undecoded(command: Message, size: int) -> None:
    field = undecoded_string(command)
    if field is not None:
        raise MalformedCommand(f"{field} is not UTF-8", 0, size)


def _find_unknown_enum(message: Message, enums: FieldsOfType) -> tuple[str, int] | None:
    """Return the first unknown enum value in the message or a nested one: `Message.field` and the number."""
    found = unknown_enum(message) if enums.own else None
    for name, below in enums.nested:
        for child in children(message, name):
            found = found or _find_unknown_enum(child, below)
    return found
