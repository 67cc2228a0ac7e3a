"""The commands of scripted faults as plain values: names, and dicts of fields.

    command_class("receipt")                                      # CommandSendReceipt
    command_from(("error", {"error": "TopicNotFound"}))           # CommandError(error=ServerError.TopicNotFound)
    plain_command(CommandError(error=ServerError.TopicNotFound))  # ("error", {"error": "TopicNotFound"})

The names are those of the protocol in small letters; only "receipt" is shorter, for SEND_RECEIPT. A field has the name
that it has in Pulsar's protocol. The label of an enum is a text, a nested message is a dict, and a repeated field is a
list.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, TypeAlias, TypeGuard, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand

__all__ = [
    "AnswerCommand",
    "command_class",
    "command_from",
    "command_name",
    "is_command",
    "missing_fields",
    "nearest",
    "plain_command",
    "with_ids_of",
]


AnswerCommand: TypeAlias = str | tuple[str, Mapping[str, Any]] | Message
"""A command of the broker, as a test gives it: its name, a pair of its name and its fields, or the command itself."""

_IDS: Final = ("request_id", "producer_id", "consumer_id", "watcher_id", "sequence_id")
_RECEIPT: Final = "receipt"
_PAIR: Final = 2
_TYPES: Final = BaseCommand.Type.DESCRIPTOR.values_by_number
_BY_NAME: Final[Mapping[str, type[Message]]] = {
    _RECEIPT if field.number == BaseCommand.SEND_RECEIPT else _TYPES[field.number].name.lower():
    GetMessageClass(field.message_type)
    for field in BaseCommand.DESCRIPTOR.fields
    if field.message_type
}  # fmt: skip
"""The class of each command, by its name. A command has the number of its type as the number of its field."""

_NAMES: Final[Mapping[type[Message], str]] = {kind: name for name, kind in _BY_NAME.items()}
_WHAT: Final[Mapping[int, str]] = {
    FieldDescriptor.TYPE_BOOL: "True or False",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "a number",
    FieldDescriptor.TYPE_INT32: "a whole number of 32 bits",
    FieldDescriptor.TYPE_INT64: "a whole number of 64 bits",
    FieldDescriptor.TYPE_STRING: "a text",
    FieldDescriptor.TYPE_UINT32: "a whole number of 32 bits, from 0 on",
    FieldDescriptor.TYPE_UINT64: "a whole number of 64 bits, from 0 on",
}
"""The values of a field, by its type."""


def is_command(kind: object) -> TypeGuard[type[Message]]:
    """Return whether this is the class of a command."""
    return isinstance(kind, type) and kind in _NAMES


def command_class(given: object) -> type[Message]:
    """Return the class of a command, which is given by its name or as it is."""
    if isinstance(given, str) and given in _BY_NAME:
        return _BY_NAME[given]
    if is_command(given):
        return given
    raise InvalidArgument(
        f"a command is given by its name, such as 'send', not {excerpt(given)}{nearest(given, _BY_NAME)}"
    )


def command_name(kind: type[Message]) -> str:
    """Return the name of a command."""
    return _NAMES[kind]


def command_from(given: object) -> Message:
    """Build a command of its name, or of a pair of its name and a dict of fields; a command stays what it is."""
    if is_command(type(given)):
        return given  # type: ignore[return-value]
    plain: Any = given
    nothing: dict[str, Any] = {}
    name, fields = plain if isinstance(given, tuple) and len(plain) == _PAIR else (plain, nothing)
    if not isinstance(name, str):
        forms = "'success', or a pair of it and a dict of fields, such as ('success', {'request_id': 1})"
        raise InvalidArgument(f"an answer is the name of a command, such as {forms}, not {excerpt(plain)}")
    command = command_class(name)()
    _fill(command, fields, repr(name))
    return command


def plain_command(command: Message) -> str | tuple[str, dict[str, Any]]:
    """Return the form of a command from which `command_from` builds it again."""
    name, fields = _NAMES[type(command)], _plain(command)
    return (name, fields) if fields else name


def missing_fields(answer: Message, kind: type[Message]) -> list[str]:
    """Return the fields that a command must have, and that an answer to commands of a class would not have."""
    filled: Any = with_ids_of(answer, kind())  # the stubs have no FindInitializationErrors
    missing: list[str] = filled.FindInitializationErrors()
    return missing


def with_ids_of(answer: Message, command: Message) -> Message:
    """Copy the ids of the command into an answer that leaves them unset."""
    filled: Any = type(answer)()
    filled.CopyFrom(answer)
    source: Any = command
    fields, known = answer.DESCRIPTOR.fields_by_name, command.DESCRIPTOR.fields_by_name
    for name in _IDS:
        if name in fields and name in known and not filled.HasField(name):
            setattr(filled, name, getattr(source, name))
    addressed: Message = filled
    return addressed


def _fill(message: Message, fields: object, of: str) -> None:
    """Set the fields of a message; `of` says in errors whose they are."""
    values: Any = fields
    if not isinstance(fields, Mapping):
        raise InvalidArgument(f"the fields of {of} are a dict, not {excerpt(fields)}")
    known = message.DESCRIPTOR.fields_by_name
    for name, value in values.items():
        if not isinstance(name, str) or name not in known:
            have = f"it has {', '.join(known)}" if known else "it has no fields"
            raise InvalidArgument(f"{of} has no field {excerpt(name)}: {have}{nearest(name, known)}")
        _set(message, known[name], value, f"{name} of {of}")


def _set(message: Message, field: Any, value: object, which: str) -> None:  # noqa: ANN401 - the stubs have two classes
    if field.has_presence:
        if field.message_type is None:
            _put(lambda plain: setattr(message, field.name, plain), field, value, which)
        else:
            getattr(message, field.name).SetInParent()
            _fill(getattr(message, field.name), value, which)
        return
    if not isinstance(value, list | tuple):  # in proto2 only a repeated field has no presence
        raise InvalidArgument(f"{which} is a list, not {excerpt(value)}")
    items, given = getattr(message, field.name), cast("list[Any]", value)
    for item in given:
        if field.message_type is None:
            _put(items.append, field, item, which)
        else:
            _fill(items.add(), item, which)


def _put(put: Callable[[Any], object], field: Any, value: object, which: str) -> None:  # noqa: ANN401 - see above
    """Set a field that is no message, or add to it."""
    if field.enum_type is not None:
        labels = field.enum_type.values_by_name
        if not isinstance(value, str) or value not in labels:
            raise InvalidArgument(
                f"{which} is one of {', '.join(labels)}, not {excerpt(value)}{nearest(value, labels)}"
            )
        value = labels[value].number
    try:
        put(value)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{which} is {_WHAT[field.type]}, not {excerpt(value)}") from None


def nearest(given: object, names: Iterable[str]) -> str:
    """Name the nearest of some names, for the end of an error."""
    close = get_close_matches(given.lower(), names, 1, 0) if isinstance(given, str) and given else []
    return f"; the nearest is {close[0]!r}" if close else ""


def _plain(message: Message) -> dict[str, Any]:
    """Return the fields of a message that are set."""
    fields: dict[str, Any] = {}
    for field, value in message.ListFields():
        show = partial(_plain_value, field)
        fields[field.name] = show(value) if field.has_presence else [show(each) for each in value]
    return fields


def _plain_value(field: Any, value: Any) -> Any:  # noqa: ANN401 - see above
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return value
