"""The schemas of protobuf messages: `ProtobufNativeSchema`, and the older `ProtobufSchema`.

Both have the same payload, the message. They differ in the definition that the registry keeps: the descriptors of the
message's files, or an Avro schema that is derived from the message.
"""

import json
from base64 import b64decode, b64encode
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
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
    """Protobuf, with an Avro schema as the definition, as Java's `Schema.PROTOBUF` has it."""

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
        text = json.dumps(_avro_record(descriptor, set()), separators=(",", ":"))
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
_ZEROS: Final = {"boolean": False, "float": 0.0, "double": 0.0, "int": 0, "long": 0}


def _label_of(field: FieldDescriptor) -> str:
    if _is_repeated(field):
        return "LABEL_REPEATED"
    return "LABEL_REQUIRED" if _is_required(field) else "LABEL_OPTIONAL"


def _is_repeated(field: Any) -> bool:  # noqa: ANN401 - protobuf 7 has is_repeated, and no label
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED


def _is_required(field: Any) -> bool:  # noqa: ANN401 - see above
    return bool(field.is_required) if hasattr(field, "is_required") else field.label == FieldDescriptor.LABEL_REQUIRED


def _avro_record(descriptor: Any, defined: set[str]) -> Any:  # noqa: ANN401 - JSON
    if descriptor.full_name in defined:
        return descriptor.full_name
    defined.add(descriptor.full_name)
    fields = [_avro_field(field, defined) for field in descriptor.fields]
    return {"type": "record", "name": descriptor.name, "namespace": _namespace_of(descriptor), "fields": fields}


def _namespace_of(descriptor: Any) -> str:  # noqa: ANN401 - of a message or an enum
    return str(descriptor.full_name.rpartition(".")[0])


def _avro_field(field: FieldDescriptor, defined: set[str]) -> dict[str, Any]:
    if _is_repeated(field):
        return {"name": field.name, "type": {"type": "array", "items": _avro_type(field, defined)}, "default": []}
    kind = _avro_type(field, defined)
    if field.message_type is not None:
        return {"name": field.name, "type": ["null", kind], "default": None}
    if field.enum_type is not None:
        return {"name": field.name, "type": kind, "default": field.enum_type.values[0].name}
    default: Any = _ZEROS.get(kind, "") if isinstance(kind, str) else ""
    return {"name": field.name, "type": kind, "default": default}


def _avro_type(field: FieldDescriptor, defined: set[str]) -> Any:  # noqa: ANN401 - JSON
    if field.message_type is not None:
        return _avro_record(field.message_type, defined)
    enum = field.enum_type
    if enum is not None:
        if enum.full_name in defined:
            return enum.full_name
        defined.add(enum.full_name)
        symbols = [value.name for value in enum.values]
        return {"type": "enum", "name": enum.name, "namespace": _namespace_of(enum), "symbols": symbols}
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "bytes"
    return _AVRO_TYPES.get(field.cpp_type, _JAVA_STRING)
