"""Frames: the stream of bytes cut into frames, and the command in each.

A frame is a total size (4 bytes, big-endian, counting what comes after it), a command size (4 bytes), the command, and
in SEND and MESSAGE an entry. The smallest frame is therefore eight bytes long.

`FrameReader` takes the pieces that a socket gives. A frame that lies whole inside one piece is copied out of it. One
that is split is collected in a buffer; each of its bytes is copied once, and the complete frame keeps the buffer. A
size is checked as soon as it is readable, before anything is kept for it: a peer that claims four gigabytes is refused
after four bytes. After an invalid size the start of the next frame is unknown, so the stream cannot be read any
further.

A command is one protobuf message, wrapped in a BaseCommand that names its type. BaseCommand has one field for each
command, and an enum of types beside them. A type and its field have the same number, and each field has a message class
of its own. So the class of a command is enough to identify it: callers pass and get a `CommandPing` or a `CommandSend`,
and this module adds and removes the BaseCommand, by a table read from the descriptor.

Protobuf is more forgiving than the protocol. It hides an unknown number in an enum field: an unknown command would look
like CONNECT, an unknown subscription type like Exclusive. It ignores missing required fields, and strings that are not
UTF-8. So `decode_command` checks for all three (see `protobuf.py`). The checks take time; so they are skipped where
they cannot fail. A command whose class has neither an enum nor a string needs only the check for missing fields: SEND,
SEND_RECEIPT, MESSAGE, FLOW and PING are such commands. Strings are checked only in a command with a byte above 127: all
others are ASCII, which is UTF-8.

Every client writes a BaseCommand as its type and one field, with nothing else. The first bytes of a short command show
whether it has this form. If so, only the command in it is parsed, which halves the cost. Any other form is parsed in
full, because it may have a second type or a field of a newer protocol.
"""

import struct
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import (
    CommandOverrun,
    EncodeError,
    FrameError,
    FrameTooLarge,
    FrameTooSmall,
    MalformedCommand,
    MissingField,
    UnknownCommand,
    UnknownEnumValue,
)
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

__all__ = [
    "DEFAULT_FRAME_LIMIT",
    "DEFAULT_MAX_MESSAGE_SIZE",
    "Frame",
    "FrameReader",
    "decode_command",
    "encode_command",
    "encode_payload_command",
    "entry_size",
    "frame_limit",
    "message_limit",
    "serialise_command",
    "wrap_command",
]


DEFAULT_MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024

_PADDING: Final = 10 * 1024
_SIZES: Final = struct.Struct(">II")
_TOTAL: Final = struct.Struct(">I")
_HTTP: Final = int.from_bytes(b"HTTP", "big")
_LARGEST_TOTAL: Final = 2**32 - 1


def message_limit(max_message_size: int) -> int:
    """Return the largest size of a message: the default, if the broker announces none, or 0 or less."""
    return max_message_size if max_message_size > 0 else DEFAULT_MAX_MESSAGE_SIZE


def frame_limit(max_message_size: int) -> int:
    """Return the largest total size of a frame: the largest message, plus room for its command and metadata."""
    return message_limit(max_message_size) + _PADDING


DEFAULT_FRAME_LIMIT = frame_limit(DEFAULT_MAX_MESSAGE_SIZE)
"""The limit until CONNECTED names another `max_message_size`."""


class Frame(NamedTuple):
    """One frame: its serialised BaseCommand, and the rest, which is the entry; most commands have none."""

    command: bytes
    rest: bytes


_tuple: Any = tuple
_new_frame: Callable[[tuple[bytes, bytes]], Frame] = partial(_tuple.__new__, Frame)
"""Makes a Frame from a tuple of both fields, in half of the time."""


class FrameReader:
    """Cuts one connection's stream into frames.

    `limit` may be changed at any time and applies from the next `feed`.

    A frame that comes in several pieces is collected in two parts: its sizes and its command, and its rest.

    A frame's `rest` is a copy of the entry, not a view of the piece that it came in. Entries wait in a receiver queue,
    and a view would keep the whole piece in memory, which takes almost twice as much. The copy costs little.
    """

    __slots__ = ("_fault", "_passed", "_pending_head", "_pending_rest", "frames_before_fault", "limit")

    def __init__(self, limit: int = DEFAULT_FRAME_LIMIT) -> None:
        self.limit = limit
        self.frames_before_fault: list[Frame] = []
        self._pending_head = bytearray()  # of an incomplete frame
        self._pending_rest: BytesIO | None = None  # its value is bytes that need not be copied
        self._passed = 0  # bytes of the stream before the incomplete frame
        self._fault: FrameError | None = None

    def feed(self, data: BytesLike) -> list[Frame]:
        """Take bytes from the socket and return the frames that are complete now, in order.

        Anything but `bytes` is copied first, since its owner may change it.

        An invalid size raises FrameTooSmall, FrameTooLarge or CommandOverrun, now and at every later call; the complete
        frames that this call found before it are in `frames_before_fault`.
        """
        if type(data) is not bytes:
            data = as_bytes(data)
        if self._fault is not None:
            self.frames_before_fault = []
            raise self._fault.with_traceback(None)
        frames: list[Frame] = []
        try:
            start = self._complete_pending(data, 0, frames) if self._pending_head else 0
            self._cut(data, start, frames)
        except FrameError as fault:
            self._fault = fault
            self._pending_head, self._pending_rest = bytearray(), None
            self.frames_before_fault = frames
            raise
        return frames

    def _cut(self, data: bytes, start: int, frames: list[Frame]) -> None:
        """Slice the complete frames out of the piece, and keep what is left for the next one."""
        size = len(data)
        limit = self.limit
        at = start
        while size - at >= _SIZES.size:
            total, command_size = _SIZES.unpack_from(data, at)
            if total > limit or command_size > total - _TOTAL.size:
                break  # an invalid size: `_end_of_command` says which
            end = at + _TOTAL.size + total
            if end > size:
                break
            middle = at + _SIZES.size + command_size
            frames.append(_new_frame((data[at + _SIZES.size : middle], data[middle:end])))
            at = end
        self._passed += at - start
        if at < size:
            self._complete_pending(data, at, frames)

    def _complete_pending(self, data: bytes, start: int, frames: list[Frame]) -> int:
        """Complete the pending frame as far as possible; return where the next frame begins in the piece."""
        head, view, at = self._pending_head, memoryview(data), start
        # The end of the command is known in steps: of the total size, of both sizes, of the command.
        while len(head) < (end := self._end_of_command(head)):
            if at == len(data):
                return at
            part = view[at : at + end - len(head)]
            head += part
            at += len(part)
        if self._pending_rest is None:
            self._pending_rest = BytesIO()
        rest = self._pending_rest
        whole = _TOTAL.size + _TOTAL.unpack_from(head)[0]
        at += rest.write(view[at : at + whole - len(head) - rest.tell()])
        if len(head) + rest.tell() == whole:
            frames.append(Frame(bytes(head[_SIZES.size :]), rest.getvalue()))
            self._pending_head, self._pending_rest = bytearray(), None
            self._passed += whole
        return at

    def _end_of_command(self, start: bytearray) -> int:
        """Return where the command ends in a frame that begins like this, as far as that is known.

        Raise for an invalid size.
        """
        if len(start) < _TOTAL.size:
            return _TOTAL.size
        total: int = _TOTAL.unpack_from(start)[0]
        if total < _TOTAL.size:
            what = f"a frame of {total} bytes has no room for the size of its command, which takes {_TOTAL.size}"
            raise FrameTooSmall(what, self._passed, total)
        if total > self.limit:
            what = f"a frame of {total:,} bytes is over the limit of {self.limit:,}"
            if total == _HTTP and not self._passed:
                what = "the answer is one of HTTP: this is the broker's web port; pulsar:// needs the one for clients"
            raise FrameTooLarge(what, self._passed, total)
        if len(start) < _SIZES.size:
            return _SIZES.size
        command_size: int = _SIZES.unpack_from(start)[1]
        if command_size > total - _TOTAL.size:
            what = f"a command of {command_size:,} bytes does not fit in its frame of {total:,}"
            raise CommandOverrun(what, self._passed + _TOTAL.size, command_size)
        return _SIZES.size + command_size


# Commands.

CARRIERS: Final = frozenset({CommandSend, CommandMessage})
"""The commands that carry an entry."""

_VARINT: Final = 0  # protobuf's wire types
_LENGTH_DELIMITED: Final = 2
_SEVEN_BITS: Final = 0x7F  # the largest size in one byte
_FIRST_STRING: Final = 4  # no string begins earlier: before it stand a tag and a size, twice

_M = TypeVar("_M", bound=Message)


_COMMANDS = [
    (field.number, field.name, field.message_type) for field in BaseCommand.DESCRIPTOR.fields if field.message_type
]

_TYPES: Final = BaseCommand.Type.DESCRIPTOR.values_by_number

_FIELDS: Final = {number: name for number, name, _ in _COMMANDS}
"""Type number -> name of its field."""

_HEADS: Final = {
    GetMessageClass(message): (
        varint(BaseCommand.TYPE_FIELD_NUMBER << 3 | _VARINT) + varint(number) + varint(number << 3 | _LENGTH_DELIMITED)
    )
    for number, _, message in _COMMANDS
}
"""Class of a command -> the first bytes of its BaseCommand: the type, and the tag of its field."""

_BY_START: Final = {head[:3]: (kind, head) for kind, head in _HEADS.items()}
"""The first three bytes of a BaseCommand, which differ for each command -> its class, and all of its first bytes."""

_ENUMS: Final[dict[type[Message], FieldsOfType | None]] = {}
"""Class of a command -> its enums; None if it has no field to check, neither enum nor string. Those that have come."""


def _enums_of(kind: type[Message]) -> FieldsOfType | None:
    if kind not in _ENUMS:
        enums = fields_of_type(kind.DESCRIPTOR, FieldDescriptor.TYPE_ENUM)
        strings = fields_of_type(kind.DESCRIPTOR, FieldDescriptor.TYPE_STRING)
        _ENUMS[kind] = enums if any(enums + strings) else None
    return _ENUMS[kind]


def serialise_command(command: Message) -> bytes:
    """Write the command in its BaseCommand: the bytes of protobuf's own SerializeToString, three times as fast."""
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
    return _SIZES.pack(_TOTAL.size + len(body), len(body)) + body


def encode_payload_command(command: Message, *entry: bytes | memoryview) -> list[bytes | memoryview]:
    """Write SEND or MESSAGE with its entry, as buffers for one gathered write; the entry is not copied.

    The buffers of the entry are those of `encode_entry`, or the bytes that an `Entry` was read from.
    """
    if type(command) not in CARRIERS:
        raise EncodeError(f"{type(command).__name__} carries no entry: `encode_command`", 0, 0)
    body = serialise_command(command)
    total = _TOTAL.size + len(body) + sum(map(_size, entry))
    if total > _LARGEST_TOTAL:
        raise EncodeError(f"a frame of {total:,} bytes is over what its size field can say", 0, total)
    return [_SIZES.pack(total, len(body)) + body, *entry]


def _size(buffer: bytes | memoryview) -> int:
    """Return the size in bytes, also of a view of items that are larger than a byte."""
    if type(buffer) is bytes:
        return len(buffer)
    try:
        return memoryview(buffer).nbytes
    except TypeError as fault:
        raise EncodeError(f"an entry is bytes or a view of them, not {type(buffer).__name__}", 0, 0) from fault


def entry_size(frame: BytesLike) -> int:
    """Return the size of the entry in a frame, of which the first buffer is enough."""
    total, command_size = _SIZES.unpack_from(frame)
    return int(total - _TOTAL.size - command_size)


def decode_command(data: BytesLike) -> Message:
    """Read a serialised BaseCommand and return the command in it.

    Raises MalformedCommand, UnknownCommand, UnknownEnumValue or MissingField. Protobuf does not report positions, so
    their position is always 0 and their size that of the whole command.
    """
    if type(data) is not bytes:
        data = as_bytes(data)
    command = _decode_short(data)
    if command is None:
        command = _decode_any(data)
    enums = _enums_of(type(command))
    checked = enums is not None
    if not checked and command.IsInitialized():
        return command
    unknown = None if enums is None else _find_unknown_enum(command, enums)
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
    found = _BY_START.get(data[:3])
    if found is None:
        return None
    kind, head = found
    start = len(head) + 1
    size = len(data) - start
    if 0 <= size <= _SEVEN_BITS and data.startswith(head) and data[start - 1] == size:
        return _parse(kind, data[start:], len(data))
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
