"""The errors of the wire protocol, and what is lost with each.

WireError
├── FrameError                     the stream is unusable: close the connection
│   ├── FrameTooSmall
│   ├── FrameTooLarge
│   └── CommandOverrun
├── BadCommand                     one command is lost, the frames after it are not
│   ├── MalformedCommand
│   ├── UnknownCommand
│   ├── UnknownEnumValue
│   └── MissingField
├── EntryError                     one entry is lost: acknowledge it with `validation_error` and go on
│   ├── ChecksumMismatch
│   ├── MalformedEntry
│   ├── UncompressedSizeCorruption
│   ├── DecompressionFailed
│   └── MalformedBatch
├── MalformedMessageId             a serialised message id that no client wrote
└── EncodeError                    a mistake of the caller: the value cannot be written
"""

import reprlib
from typing import Any, ClassVar

from google.protobuf.message import Message

from pulsar_actors.exceptions import WireError
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck


class FrameError(WireError):
    """The stream is unusable from here on."""


class FrameTooSmall(FrameError):
    """A frame with no room for its command's size."""


class FrameTooLarge(FrameError):
    """A frame over the limit that the broker and this client agreed on."""


class CommandOverrun(FrameError):
    """A command that claims to be longer than its frame."""


class BadCommand(WireError):
    """A complete frame with a command that makes no sense."""


class MalformedCommand(BadCommand):
    """A command that protobuf cannot read, or with a string that is not UTF-8."""


class UnknownCommand(BadCommand):
    """A command of a newer protocol."""


class UnknownEnumValue(BadCommand):
    """A known command with an enum value of a newer protocol.

    `command` is the command as far as it could be read, so that the request it answers can still be ended, with an
    error: in it the field reads as unset, and other fields may be missing. `field` is the name of the message with the
    unknown value and of its field, as in `CommandSubscribe.subType`; `number` is the value.
    """

    def __init__(self, command: Message, field: str, number: int, size: int) -> None:
        super().__init__(f"{field} has the unknown value {number}", 0, size)
        self.command = command
        self.field = field
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of `__init__`, which are not those of WireError."""
        return type(self), (self.command, self.field, self.number, self.size)


class MissingField(BadCommand):
    """A command without a field it must have."""


class EntryError(WireError):
    """A corrupt entry: none of its messages can be delivered."""

    validation_error: ClassVar["CommandAck.ValidationError.ValueType"]


class ChecksumMismatch(EntryError):
    """The entry is not what its producer wrote."""

    validation_error = CommandAck.ValidationError.ChecksumMismatch


class MalformedEntry(EntryError):
    """Headers or metadata that cannot be read; reported to the broker as a checksum mismatch, as other clients do."""

    validation_error = CommandAck.ValidationError.ChecksumMismatch


class UncompressedSizeCorruption(EntryError):
    """A declared size that is over the limit, or is not the size that came out."""

    validation_error = CommandAck.ValidationError.UncompressedSizeCorruption


class DecompressionFailed(EntryError):
    """A payload that its codec cannot read, or an unknown codec."""

    validation_error = CommandAck.ValidationError.DecompressionError


class MalformedBatch(EntryError):
    """A batch that does not split into the messages it declares."""

    validation_error = CommandAck.ValidationError.BatchDeSerializeError


class MalformedMessageId(WireError):
    """Bytes that are not a serialised message id."""


class EncodeError(WireError):
    """A value that cannot be written, because it is too large or would be unreadable."""


_LONGEST_EXCERPT = 160  # characters; the middle of a longer text is left out

_shortening = reprlib.Repr()
_shortening.maxstring = _LONGEST_EXCERPT
_shortening.maxother = _LONGEST_EXCERPT


def excerpt(value: object) -> str:
    """Return the value's `repr` for the text of an error, with dots in place of the middle if it is long.

    A value in an error comes from a peer or a caller: a name of a megabyte would make an error of a megabyte, for the
    log, the pickle and the terminal.
    """
    if isinstance(value, int):  # Python refuses to write numbers of more than 4,300 digits
        return str(value) if value.bit_length() <= _LONGEST_EXCERPT else f"a number of {value.bit_length():,} bits"
    return _shortening.repr(value)
