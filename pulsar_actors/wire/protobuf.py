"""Protobuf helpers: checks that protobuf leaves out, strings that are not UTF-8, signed ids, and bytes.

**Checks.** Reading a message, protobuf ignores a missing required field, and an enum field's unknown number. It puts
such a number among the unknown fields, and the field reads as unset, which looks like the first value. If the field
came twice, once with a known number, the field has the known number, and the other is among the unknown fields.
`unknown_enum` reports an unknown number even if the field also came with a known one: the writer meant something by it.
The searches stop at the first finding, and visit only the fields that can have one. Protobuf's own list of missing
fields names all of them, and a message can be made to have millions.

**Strings.** Protobuf's string fields are UTF-8 by definition, but in proto2 messages, as Pulsar's are, no library
enforces that on the writer. Protobuf for Python does one of two things with other bytes: its C implementation returns
`bytes` where the type says `str`, its pure-Python implementation refuses the whole message. A *command* with such a
string is malformed: a broker writes commands, and none writes such a string. The *metadata* of entries and messages
comes from a producer. The Java client reads such strings with the replacement character, the C++ client as bytes;
refusing them would lose messages that other clients receive. So they are read as Java reads them, at no cost for all
other messages: `parse` leaves strings alone, and `readable` is called where a string is about to be read. Bytes that
are stored or sent again stay as they are.

**Ids.** Every id of the protocol (ledger, entry, sequence, request) is a `uint64` field, yet brokers and clients keep
ids as signed 64-bit integers and use -1 for "none". So -1 is 2^64 - 1 on the wire. Protobuf for Python returns that
number as it is, and refuses to encode a negative one; `signed` and `unsigned` convert ids at the edge.

**Bytes.** `as_bytes` takes `bytes` as they are. A `bytearray`, or a view of any shape, is copied: its owner may change
or resize it later, and the items that a view counts need not be bytes. A str, a number or a list is refused; `bytes()`
would convert some of them.
"""

from collections.abc import Iterable
from functools import cache
from operator import index
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message import EncodeError as ProtobufEncodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import EncodeError, excerpt
from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

__all__ = [
    "UNREADABLE",
    "BytesLike",
    "FieldsOfType",
    "as_bytes",
    "children",
    "fields_of_type",
    "first_missing_field",
    "parse",
    "readable",
    "serialise",
    "signed",
    "undecoded_string",
    "unknown_enum",
    "unsigned",
]


UNREADABLE = (DecodeError, ValueError, RecursionError)
"""The errors of reading a message; the pure-Python implementation raises the last two, for strings and nesting."""

_VARINT = 0  # protobuf's wire type of an enum

_M = TypeVar("_M", bound=Message)


def parse(kind: type[_M], data: bytes) -> _M:
    """Parse a message whatever bytes its strings are, with either implementation of protobuf."""
    try:
        return kind.FromString(data)
    except UnicodeDecodeError:
        return _replaced(kind, data)


def serialise(message: Message) -> bytes:
    """Serialise a message; EncodeError if a required field is missing."""
    try:
        return message.SerializeToString()
    except ProtobufEncodeError as fault:
        missing, name = first_missing_field(message), message.DESCRIPTOR.name
        what = f"{name} without its required {missing}" if missing else f"{name} cannot be written: {fault}"
        raise EncodeError(what, 0, 0) from None  # protobuf's own text names every missing field


def readable(message: _M) -> _M:
    """Return the message with str in all its string fields: nearly always the message itself."""
    if undecoded_string(message) is None:
        return message
    return _replaced(type(message), message.SerializePartialToString())


def first_missing_field(message: Message) -> str:
    """Name a required field that is missing in the message or a nested one, such as `message_id[0].entryId`.

    Empty if `IsInitialized()` is true.
    """
    for name in _required(message.DESCRIPTOR):
        if not message.HasField(name):
            return name
    for field, value in message.ListFields():
        if field.message_type is not None:
            for index, child in enumerate((value,) if isinstance(value, Message) else value):
                if not child.IsInitialized():
                    name = field.name if child is value else f"{field.name}[{index}]"
                    return f"{name}.{first_missing_field(child)}"
    return ""


@cache
def _required(descriptor: Descriptor) -> tuple[str, ...]:
    """Name the required fields of a message; this form is the same in all releases of protobuf."""
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto  # noqa: PLC0415 - only for an error

    proto = DescriptorProto()
    descriptor.CopyToProto(proto)
    return tuple(field.name for field in proto.field if field.label == FieldDescriptorProto.LABEL_REQUIRED)


def unknown_enum(message: Message) -> tuple[str, int] | None:
    """Return an enum field of the message itself that has an unknown number: `Message.field`, and the number."""
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
    """Read an enum value, a signed 32-bit number, of a varint that may carry 64 bits."""
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def undecoded_string(message: Message) -> str | None:
    """Return a string field that reads as bytes, in the message or a nested one: `Message.field`."""
    return _find_bytes(message, fields_of_type(message.DESCRIPTOR, FieldDescriptor.TYPE_STRING))


class FieldsOfType(NamedTuple):
    """The fields of one type in a message: the names of its own, and the nested messages that have such fields."""

    own: tuple[str, ...]
    nested: tuple[tuple[str, "FieldsOfType"], ...]


@cache
def fields_of_type(descriptor: Descriptor, field_type: int, above: frozenset[str] = frozenset()) -> FieldsOfType:
    """Find the fields of the type; both parts are empty if there is none at any depth.

    `above` ends the recursion where a message contains itself; none that does has a string or an enum.
    """
    above |= {descriptor.full_name}
    nested = [
        (field.name, fields_of_type(field.message_type, field_type, above))
        for field in descriptor.fields
        if field.message_type is not None and field.message_type.full_name not in above
    ]
    return FieldsOfType(
        tuple(field.name for field in descriptor.fields if field.type == field_type),
        tuple((name, below) for name, below in nested if any(below)),
    )


def children(message: Message, name: str) -> Iterable[Message]:
    """Return the messages that a field holds: those of a list, the one that is set, or none."""
    value = getattr(message, name)
    if isinstance(value, Message):
        return (value,) if message.HasField(name) else ()
    found: Iterable[Message] = value
    return found


def _find_bytes(message: Message, strings: FieldsOfType) -> str | None:
    for name in strings.own:
        value = getattr(message, name)
        if not isinstance(value, str) and (isinstance(value, bytes) or any(isinstance(each, bytes) for each in value)):
            return f"{message.DESCRIPTOR.name}.{name}"
    for name, below in strings.nested:
        for child in children(message, name):
            found = _find_bytes(child, below)
            if found is not None:
                return found
    return None


def _replaced(kind: type[_M], data: bytes) -> _M:
    """Parse a message by way of its twin class, which has bytes in place of strings."""
    twin = _twins()[kind.DESCRIPTOR.full_name].FromString(data)
    _replace(twin, fields_of_type(kind.DESCRIPTOR, FieldDescriptor.TYPE_STRING))
    return kind.FromString(twin.SerializePartialToString())


def _replace(twin: Message, strings: FieldsOfType) -> None:
    """Make the string fields of a twin valid UTF-8."""
    for name in strings.own:
        value = getattr(twin, name)
        if not isinstance(value, bytes):
            value[:] = map(_utf8, value)
        elif twin.HasField(name):
            setattr(twin, name, _utf8(value))
    for name, below in strings.nested:
        for child in children(twin, name):
            _replace(child, below)


def _utf8(value: bytes) -> bytes:
    return value.decode(errors="replace").encode()


@cache
def _twins() -> dict[str, type[Message]]:
    """Create every message class of the protocol once more, with bytes in place of strings."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415 - only for a peer's mistake
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415
    from google.protobuf.message_factory import GetMessageClassesForFiles  # noqa: PLC0415

    file = FileDescriptorProto.FromString(BaseCommand.DESCRIPTOR.file.serialized_pb)
    _turn_strings_to_bytes(file.message_type)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClassesForFiles([file.name], pool)


def _turn_strings_to_bytes(messages: "Iterable[DescriptorProto]") -> None:
    for message in messages:
        _turn_strings_to_bytes(message.nested_type)
        for field in message.field:
            if field.type == field.TYPE_STRING:
                field.type = field.TYPE_BYTES


_MORE = 0x80
_SEVEN_BITS = 0x7F
_TWO_BYTES = 1 << 14  # the shortest numbers without a loop: one is written for each message
_THREE_BYTES = 1 << 21

_SHORT = [bytes((value,)) for value in range(_MORE)]


def varint(value: int) -> bytes:
    """Write a number from 0 on as protobuf does: seven bits a byte, lowest first, the top bit set if more follow."""
    if value < _MORE:
        return _SHORT[value]
    if value < _TWO_BYTES:
        return bytes((value & _SEVEN_BITS | _MORE, value >> 7))
    if value < _THREE_BYTES:
        return bytes((value & _SEVEN_BITS | _MORE, value >> 7 & _SEVEN_BITS | _MORE, value >> 14))
    groups = bytearray()
    while value > _SEVEN_BITS:
        groups.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    groups.append(value)
    return bytes(groups)


_SIGN_BIT = 1 << 63
_RANGE = 1 << 64


def signed(value: int) -> int:
    """Read a `uint64` field as the signed number it stands for: 2^64 - 1 is -1."""
    return value - _RANGE if value >= _SIGN_BIT else value


def unsigned(value: int) -> int:
    """Convert a signed 64-bit number for its `uint64` field: -1 is 2^64 - 1."""
    if type(value) is int and 0 <= value < _SIGN_BIT:
        return value
    try:
        number = index(value)
    except TypeError as fault:
        raise EncodeError(f"an id is a whole number, not {excerpt(value)}", 0, 0) from fault
    if not -_SIGN_BIT <= number < _SIGN_BIT:
        raise EncodeError(f"an id must fit in 64 signed bits (-2^63 to 2^63 - 1), not {excerpt(number)}", 0, 0)
    return number % _RANGE


BytesLike: TypeAlias = bytes | bytearray | memoryview


def as_bytes(data: BytesLike) -> bytes:
    """Return the data as bytes; TypeError if it is not bytes-like."""
    return data if type(data) is bytes else bytes(memoryview(data))
