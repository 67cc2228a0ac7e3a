"""What protobuf lets pass, where the protocol does not: missing required fields, and enum values it does not know.

Reading a message, protobuf neither misses a required field nor minds a number that an enum field has no name for. It
puts the number aside among the unknown fields, and the field reads as unset, which looks like the first value. Where
the field stands twice, once with a known number, that one shows and the other is still put aside. Here one unknown
number is enough, wherever it stands: who wrote it meant something by it.

Searches stop at the first thing they find, and go only where it can be. Protobuf's own list of missing fields names
them all, which are millions in a message that is made to have millions.
"""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from google.protobuf.message import DecodeError, Message
from google.protobuf.message import EncodeError as ProtobufEncodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from pulsar_actors.wire.errors import EncodeError

__all__ = ["UNREADABLE", "Holding", "children", "first_missing_field", "holding", "serialise", "unknown_enum"]

UNREADABLE = (DecodeError, ValueError, RecursionError)
"""What reading a message raises; the latter two come from protobuf's pure-Python form, for strings and for nesting."""

_VARINT = 0  # protobuf's wire type of an enum


class Holding(NamedTuple):
    """Where a message has fields of one type: by their names, and in its messages that hold such."""

    own: tuple[str, ...]
    nested: tuple[tuple[str, "Holding"], ...]


@cache
def holding(descriptor: Descriptor, field_type: int, above: frozenset[str] = frozenset()) -> Holding:
    """Tell where fields of the type are; both parts are empty where none is, at any depth.

    `above` ends the walk where a message holds itself, which no message does that holds more than numbers.
    """
    above |= {descriptor.full_name}
    nested = [
        (field.name, holding(field.message_type, field_type, above))
        for field in descriptor.fields
        if field.message_type is not None and field.message_type.full_name not in above
    ]
    return Holding(
        tuple(field.name for field in descriptor.fields if field.type == field_type),
        tuple((name, below) for name, below in nested if any(below)),
    )


def children(message: Message, name: str) -> Iterable[Message]:
    """Give the messages that a field holds: those of a list, or the one that is there, or none."""
    value = getattr(message, name)
    if isinstance(value, Message):
        return (value,) if message.HasField(name) else ()
    found: Iterable[Message] = value
    return found


def first_missing_field(message: Message) -> str:
    """Name a required field that the message, or one below it, is without, as in `message_id[0].entryId`.

    It is for messages whose `IsInitialized()` is false; of others it says nothing.
    """
    for name in _required(message.DESCRIPTOR):
        if not message.HasField(name):
            return name
    for field, value in message.ListFields():
        if field.message_type is not None:
            for index, child in enumerate((value,) if isinstance(value, Message) else value):
                if not child.IsInitialized():
                    place = field.name if child is value else f"{field.name}[{index}]"
                    return f"{place}.{first_missing_field(child)}"
    return ""


@cache
def _required(descriptor: Descriptor) -> tuple[str, ...]:
    """Name the required fields of a message. Releases of protobuf differ in how a field is asked, not in this form."""
    proto = DescriptorProto()
    descriptor.CopyToProto(proto)
    return tuple(field.name for field in proto.field if field.label == FieldDescriptorProto.LABEL_REQUIRED)


def serialise(message: Message) -> bytes:
    """Write a message, which must be whole."""
    try:
        return message.SerializeToString()
    except ProtobufEncodeError as fault:
        missing, name = first_missing_field(message), message.DESCRIPTOR.name
        what = f"{name} without its required {missing}" if missing else f"{name} cannot be written: {fault}"
        raise EncodeError(what, 0, 0) from None  # protobuf's own text names every missing field


def unknown_enum(message: Message) -> tuple[str, int] | None:
    """Find an enum field of the message itself that came with an unknown number: `Message.field`, and the number."""
    unknowns = UnknownFieldSet(message)
    if not len(unknowns):
        return None
    fields = message.DESCRIPTOR.fields_by_number
    for unknown in map(unknowns.__getitem__, range(len(unknowns))):
        field = fields.get(unknown.field_number)
        if field is not None and field.enum_type is not None and unknown.wire_type == _VARINT:
            return f"{message.DESCRIPTOR.name}.{field.name}", _int32(unknown.data)
    return None


def _int32(value: int) -> int:
    """Read an enum value: 32 bits and a sign, of which a varint may carry 64."""
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
