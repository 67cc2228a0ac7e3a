"""Strings that are not UTF-8.

Protobuf's string fields are to be UTF-8, but in messages of this age nothing holds a writer to it, and protobuf for
Python does one of two things with such a string: its C form gives `bytes` where the type says `str`, its pure-Python
form refuses the whole message. Neither is met further inside.

A **command** with such a string is malformed (`commands.py`): it is a broker's word, and no broker writes one.

The **metadata** of entries and messages is a producer's word, and the data beside it may be all there is of something.
The Java client reads such strings with the replacement character in place of what cannot be read, the C++ client as
the bytes they are; to refuse them would lose messages that others receive. So they are read as Java reads them. The C
form is not slowed for it: `parse` leaves the strings alone, and `readable` is called where somebody is about to read
them. What is stored, or sent again, keeps its bytes.
"""

from collections.abc import Iterable
from functools import cache
from typing import TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClassesForFiles

from pulsar_actors.wire.fields import Holding, children, holding
from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand

__all__ = ["parse", "readable", "undecoded_string"]

_M = TypeVar("_M", bound=Message)


def undecoded_string(message: Message) -> str | None:
    """Find a string field that reads as bytes, in the message or below: `Message.field`."""
    return _search(message, holding(message.DESCRIPTOR, FieldDescriptor.TYPE_STRING))


def readable(message: _M) -> _M:
    """Give the message with nothing but text in its string fields: itself, in all but strange cases."""
    if undecoded_string(message) is None:
        return message
    return _replaced(type(message), message.SerializePartialToString())


def parse(kind: type[_M], data: bytes) -> _M:
    """Read a message whatever its strings are, with either form of protobuf."""
    try:
        return kind.FromString(data)
    except UnicodeDecodeError:
        return _replaced(kind, data)


def _search(message: Message, strings: Holding) -> str | None:
    for name in strings.own:
        value = getattr(message, name)
        if not isinstance(value, str) and (isinstance(value, bytes) or any(isinstance(each, bytes) for each in value)):
            return f"{message.DESCRIPTOR.name}.{name}"
    for name, below in strings.nested:
        for child in children(message, name):
            found = _search(child, below)
            if found is not None:
                return found
    return None


def _replaced(kind: type[_M], data: bytes) -> _M:
    """Read a message by way of its twin, which has bytes where it has strings."""
    twin = _twins()[kind.DESCRIPTOR.full_name].FromString(data)
    _replace(twin, holding(kind.DESCRIPTOR, FieldDescriptor.TYPE_STRING))
    return kind.FromString(twin.SerializePartialToString())


def _replace(twin: Message, strings: Holding) -> None:
    """Turn what the other one has as strings into UTF-8."""
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
    """Make every class of the protocol again, with bytes in place of strings."""
    file = FileDescriptorProto.FromString(BaseCommand.DESCRIPTOR.file.serialized_pb)
    _turn_strings_to_bytes(file.message_type)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClassesForFiles([file.name], pool)


def _turn_strings_to_bytes(messages: Iterable[DescriptorProto]) -> None:
    for message in messages:
        _turn_strings_to_bytes(message.nested_type)
        for field in message.field:
            if field.type == FieldDescriptorProto.TYPE_STRING:
                field.type = FieldDescriptorProto.TYPE_BYTES
