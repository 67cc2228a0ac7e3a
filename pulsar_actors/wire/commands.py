"""Commands: one protobuf message each, wrapped in a BaseCommand that names its type.

BaseCommand has one field per command and an enum of types beside them; a type and its field have the same number, and
each field has a message class of its own. So a command is known by its class alone: callers hand over and get a
`CommandPing` or `CommandSend`, and the wrapping is this module's business, by a table read from the descriptor.

Protobuf is more forgiving than the protocol. A number it does not know in an enum field does not show: an unknown
command would look like CONNECT, an unknown subscription type like Exclusive. Missing required fields pass unnoticed,
and so do strings that are not UTF-8. Reading therefore looks for all three (`fields.py`, `strings.py`). Looking costs
time, so the classes that can hold neither an enum nor a string, among them SEND, SEND_RECEIPT, MESSAGE, FLOW and PING
of the data path, are told apart once; and where no byte is above 127 every string is UTF-8.

Every client writes a BaseCommand as its type, one field, and nothing else. Where a short command looks like that, which
its first bytes tell, the BaseCommand is not read at all, at half the cost. Whatever looks otherwise takes the long way:
there a second type may hide, or a field of a newer protocol.
"""

import struct
from typing import TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from pulsar_actors.wire.errors import EncodeError, MalformedCommand, MissingField, UnknownCommand, UnknownEnumValue
from pulsar_actors.wire.fields import (
    UNREADABLE,
    Holding,
    children,
    first_missing_field,
    holding,
    serialise,
    unknown_enum,
)
from pulsar_actors.wire.octets import Octets, octets
from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand, CommandMessage, CommandSend
from pulsar_actors.wire.strings import undecoded_string
from pulsar_actors.wire.varint import varint

__all__ = ["CARRIERS", "decode_command", "encode_command", "serialise_command", "wrap_command"]

CARRIERS = frozenset({CommandSend, CommandMessage})
"""The commands that are followed by an entry."""

_SIZES = struct.Struct(">II")  # of the frame, not counting itself, and of the command
_VARINT, _LENGTH_DELIMITED = 0, 2  # protobuf's wire types
_SEVEN_BITS = 0x7F  # the largest size in one byte
_FIRST_STRING = 4  # no string begins earlier: tags and sizes of two fields, one in the other, stand before it

_M = TypeVar("_M", bound=Message)


_COMMANDS = [
    (field.number, field.name, field.message_type) for field in BaseCommand.DESCRIPTOR.fields if field.message_type
]

_TYPES = BaseCommand.Type.DESCRIPTOR.values_by_number

_FIELDS = {number: name for number, name, _ in _COMMANDS}
"""The number of a type -> the name of its field."""

_HEADS = {
    GetMessageClass(message): (
        varint(BaseCommand.TYPE_FIELD_NUMBER << 3 | _VARINT) + varint(number) + varint(number << 3 | _LENGTH_DELIMITED)
    )
    for number, _, message in _COMMANDS
}
"""The class of a command -> what its BaseCommand begins with: the type, and the tag of its field."""

_KINDS = {head: kind for kind, head in _HEADS.items()}
_HEAD_SIZES = sorted({len(head) for head in _KINDS})

_ENUMS = {kind: holding(kind.DESCRIPTOR, FieldDescriptor.TYPE_ENUM) for kind in _HEADS}
_STRINGS = {kind: holding(kind.DESCRIPTOR, FieldDescriptor.TYPE_STRING) for kind in _HEADS}
_SEARCHED = frozenset(kind for kind in _HEADS if any(_ENUMS[kind] + _STRINGS[kind]))


def serialise_command(command: Message) -> bytes:
    """Write the command in its BaseCommand, as protobuf would; building that message costs three times as much."""
    if type(command) not in _HEADS:
        got = type(command).__name__
        raise EncodeError(f"a command is a message that BaseCommand has a field for, not {got}", 0, 0)
    return wrap_command(type(command), serialise(command))


def wrap_command(kind: type[Message], body: bytes) -> bytes:
    """Write the BaseCommand of a command that is written already."""
    return _HEADS[kind] + varint(len(body)) + body


def encode_command(command: Message) -> bytes:
    """Write a command that carries no entry, such as `CommandPing()`, as its whole frame."""
    if type(command) in CARRIERS:
        raise EncodeError(f"{type(command).__name__} is written with its entry: `encode_payload_command`", 0, 0)
    body = serialise_command(command)
    return _SIZES.pack(4 + len(body), len(body)) + body


def decode_command(data: Octets) -> Message:
    """Read a serialised BaseCommand and return the command in it.

    MalformedCommand, UnknownCommand, UnknownEnumValue and MissingField say what is wrong with it. Protobuf does not
    tell where, so their position is always 0 and their size that of the whole command.
    """
    data = octets(data)
    command = _read_plain(data)
    if command is None:
        command = _read(data)
    searched = type(command) in _SEARCHED
    unknown = _search_enums(command, _ENUMS[type(command)]) if searched else None
    if unknown is None and not command.IsInitialized():
        what = f"{command.DESCRIPTOR.name} without its required {first_missing_field(command)}"
        raise MissingField(what, 0, len(data))
    if searched and not data[_FIRST_STRING:].isascii():
        _refuse_undecoded(command, len(data))
    if unknown is not None:
        raise UnknownEnumValue(command, *unknown, len(data))
    return command


def _read_plain(data: bytes) -> Message | None:
    """Read a command that is its type and its field, of less than 128 bytes, and nothing else."""
    for start in _HEAD_SIZES:
        kind = _KINDS.get(data[:start])
        if kind is not None:
            size = len(data) - start - 1
            if 0 <= size <= _SEVEN_BITS and data[start] == size:
                return _parse(kind, data[start + 1 :], len(data))
    return None


def _read(data: bytes) -> Message:
    """Read any command."""
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


def _refuse_undecoded(command: Message, size: int) -> None:
    field = undecoded_string(command)
    if field is not None:
        raise MalformedCommand(f"{field} is not UTF-8", 0, size)


def _search_enums(message: Message, enums: Holding) -> tuple[str, int] | None:
    """Find the first unknown enum value in the message or below: `Message.field` and the number."""
    found = unknown_enum(message) if enums.own else None
    for name, below in enums.nested:
        for child in children(message, name):
            found = found or _search_enums(child, below)
    return found
