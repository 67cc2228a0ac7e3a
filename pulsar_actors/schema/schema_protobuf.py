"""The schemas of protobuf messages: `ProtobufNativeSchema`, and the older `ProtobufSchema`.

Both have the same payload, the message. They differ in the definition that the registry keeps: the descriptors of the
message's files, or an Avro schema that is derived from the message.
"""

import json
from base64 import b64decode, b64encode
from math import isfinite
from pathlib import PurePosixPath
from struct import pack, unpack
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message import Message as ProtobufMessage

from pulsar_actors.client.schema import ReceivedMessage, Schema, SchemaInfo, SchemaType, as_stored
from pulsar_actors.exceptions import WrongContent
from pulsar_actors.runtime.schema_versions import SchemaVersions, StoredSchema
from pulsar_actors.schema.record_types import encoded, undecodable

__all__ = ["ProtobufNativeSchema", "ProtobufSchema"]


class _MessageSchema(Schema):
    """A schema of a generated class of messages."""

    _message_class: type[ProtobufMessage]

    def __init__(self, record_cls: type[ProtobufMessage]) -> None:
        if not (isinstance(record_cls, type) and issubclass(record_cls, ProtobufMessage)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongContent(f"record_cls is a generated class of protobuf messages, not {record_cls!r}")
        self._record_cls = self._message_class = record_cls
        self._schema_info = self._definition(cast("Descriptor", record_cls.DESCRIPTOR))

    def _definition(self, descriptor: Descriptor) -> SchemaInfo:
        raise NotImplementedError

    def encode(self, value: object) -> bytes:
        """Encode a message."""
        if not isinstance(value, self._message_class):
            raise WrongContent(f"{self!r} takes {self._message_class.__name__}, not {type(value).__name__}")
        try:
            return value.SerializeToString()
        except EncodeError as fault:  # a required field is not set
            raise encoded(self, fault) from fault

    def decode(self, data: bytes) -> object:
        """Decode a message."""
        try:
            return self._message_class.FromString(data)
        except DecodeError as fault:
            raise undecodable(self, fault) from fault

    def decode_message(self, message: ReceivedMessage) -> object:
        """Decode the value of a message; None for a null value."""
        data = message.data()
        return self.decode(data) if data else super().decode_message(message)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._message_class.__name__})"


class ProtobufNativeSchema(_MessageSchema):
    """Protobuf, with the descriptors of the message's files as the definition."""

    def _definition(self, descriptor: Descriptor) -> SchemaInfo:
        files = FileDescriptorSet()
        _add_files(descriptor.file, files, set())
        definition = {
            "fileDescriptorSet": b64encode(files.SerializeToString()).decode(),
            "rootMessageTypeName": descriptor.full_name,
            "rootFileDescriptorName": descriptor.file.name,
        }
        return SchemaInfo(SchemaType.PROTOBUF_NATIVE, "PROTOBUF_NATIVE", json.dumps(definition, indent=1))

    def for_topic(self, topic: str, schemas: SchemaVersions) -> Schema:
        """Return this schema with the definition that the topic has: Java writes the same files in another order."""
        return as_stored(self, topic, schemas, self._has_same_files)

    def _has_same_files(self, stored: StoredSchema) -> bool:
        try:
            return _contents(stored.data) == _contents(self._schema_info.data())
        except (ValueError, KeyError, TypeError, DecodeError, RecursionError):  # anybody may have written it
            return False


def _contents(data: bytes) -> tuple[object, ...]:
    definition = json.loads(data)
    files = FileDescriptorSet.FromString(b64decode(definition["fileDescriptorSet"]))
    names = definition["rootMessageTypeName"], definition["rootFileDescriptorName"]
    return *names, {file.name: file.SerializeToString() for file in files.file}


def _add_files(file: FileDescriptor, files: FileDescriptorSet, seen: set[str]) -> None:
    """Add a file after those that it imports."""
    if file.name in seen:
        return
    seen.add(file.name)
    for imported in file.dependencies:
        _add_files(imported, files, seen)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    files.file.append(proto)


class ProtobufSchema(_MessageSchema):
    """Protobuf, with an Avro schema as the definition: the one that Java's `Schema.PROTOBUF` makes of the same file.

    Brokers compare the names in it. So they are those of Java's classes, which follow from the options of the file.
    """

    def _definition(self, descriptor: Descriptor) -> SchemaInfo:
        parsing = [
            {"number": one.number, "name": one.name, "type": _TYPE_NAMES[one.type], "label": _label_of(one),
             "definition": None}
            for one in descriptor.fields
        ]  # fmt: skip
        properties = {
            "__alwaysAllowNull": "true",
            "__jsr310ConversionEnabled": "false",
            "__PARSING_INFO__": json.dumps(parsing, separators=(",", ":")),
        }
        text = json.dumps(_avro_record(descriptor, "", set()), separators=(",", ":"), ensure_ascii=False)
        return SchemaInfo(SchemaType.PROTOBUF, "PROTOBUF", text, properties)


_TYPE_NAMES: Final = {
    number: name.removeprefix("TYPE_") for name, number in vars(FieldDescriptor).items() if name.startswith("TYPE_")
}
_JAVA_STRING: Final = {"type": "string", "avro.java.string": "String"}
_AVRO_TYPES: Final[dict[int, Any]] = {
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_UINT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "long",
    FieldDescriptor.CPPTYPE_UINT64: "long",
}
_BITS: Final = {FieldDescriptor.CPPTYPE_UINT32: 32, FieldDescriptor.CPPTYPE_UINT64: 64}


def _label_of(field: FieldDescriptor) -> str:
    if _is_repeated(field):
        return "LABEL_REPEATED"
    return "LABEL_REQUIRED" if _is_required(field) else "LABEL_OPTIONAL"


def _is_repeated(field: Any) -> bool:  # noqa: ANN401 - protobuf 7 has is_repeated, and no label
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED


def _is_required(field: Any) -> bool:  # noqa: ANN401 - see above
    return bool(field.is_required) if hasattr(field, "is_required") else field.label == FieldDescriptor.LABEL_REQUIRED


def _avro_record(descriptor: Descriptor, around: str, defined: set[str]) -> Any:  # noqa: ANN401 - JSON
    namespace = _java_namespace(descriptor)
    if descriptor.full_name in defined:
        return _reference(descriptor, namespace, around)
    defined.add(descriptor.full_name)
    fields = [_avro_field(field, namespace, defined) for field in descriptor.fields]
    return {"type": "record", **_name(descriptor, namespace, around), "fields": fields}


def _avro_enum(enum: EnumDescriptor, around: str, defined: set[str]) -> Any:  # noqa: ANN401 - JSON
    namespace = _java_namespace(enum)
    if enum.full_name in defined:
        return _reference(enum, namespace, around)
    defined.add(enum.full_name)
    symbols = [value.name for value in enum.values]
    return {"type": "enum", **_name(enum, namespace, around), "symbols": symbols}


def _reference(descriptor: Descriptor | EnumDescriptor, namespace: str, around: str) -> str:
    return descriptor.name if namespace == around else f"{namespace}.{descriptor.name}"


def _name(descriptor: Descriptor | EnumDescriptor, namespace: str, around: str) -> dict[str, str]:
    return {"name": descriptor.name} if namespace == around else {"name": descriptor.name, "namespace": namespace}


def _java_namespace(descriptor: Descriptor | EnumDescriptor) -> str:
    """Return the namespace as Java's Avro names it: package, outer class, `$`, and the messages around this one."""
    file = descriptor.file
    options = file.GetOptions()
    package = options.java_package if options.HasField("java_package") else file.package
    classes: list[str] = []
    message = descriptor.containing_type
    while message is not None:
        classes.insert(0, message.name)
        message = message.containing_type
    if not options.java_multiple_files:
        classes.insert(0, options.java_outer_classname or _outer_class(file.name))
    # Without a package, Java begins it with a dot, and brokers refuse that.
    return ".".join(filter(None, [package, "$".join(classes)]))


def _outer_class(file: str) -> str:
    stem = PurePosixPath(file).name.rpartition(".")[0]
    return "".join(part.capitalize() for part in stem.split("_"))


def _avro_field(field: FieldDescriptor, around: str, defined: set[str]) -> dict[str, Any]:
    kind = _avro_type(field, around, defined)
    if _is_repeated(field):
        return {"name": field.name, "type": {"type": "array", "items": kind}, "default": []}
    if _is_required(field):
        return {"name": field.name, "type": kind}
    if field.message_type is not None:
        return {"name": field.name, "type": ["null", kind], "default": None}
    return {"name": field.name, "type": kind, "default": _default_of(field)}


def _default_of(field: FieldDescriptor) -> object:
    default: Any = field.default_value
    if field.enum_type is not None:
        return field.enum_type.values_by_number[default].name
    if isinstance(default, bytes):
        return default.decode("latin-1")
    if field.cpp_type in _BITS:  # Avro has no unsigned numbers
        bits = _BITS[field.cpp_type]
        return default - (1 << bits) if default >> (bits - 1) else default
    if isinstance(default, float) and not isfinite(default):
        return 0.0  # JSON has no such number
    return _shortest_float(default) if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT else default


def _shortest_float(value: float) -> float:
    """Return the number with the fewest digits that is this one in 32 bits: 0.1, not 0.10000000149011612."""
    shorter = (float(f"{value:.{digits}g}") for digits in range(6, 10))
    return next(number for number in shorter if unpack("f", pack("f", number))[0] == value)


def _avro_type(field: FieldDescriptor, around: str, defined: set[str]) -> Any:  # noqa: ANN401 - JSON
    if field.message_type is not None:
        return _avro_record(field.message_type, around, defined)
    if field.enum_type is not None:
        return _avro_enum(field.enum_type, around, defined)
    return "bytes" if field.type == FieldDescriptor.TYPE_BYTES else _AVRO_TYPES.get(field.cpp_type, _JAVA_STRING)
