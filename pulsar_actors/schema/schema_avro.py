"""The Avro schema of a class of records, or of a definition.

A message is decoded with the schema of its version, the writer's, resolved against the consumer's own. The writer's
schema is asked for when `value()` is called, in that thread, and once for each version: so receiving never waits for
it. A failure is raised. The official client then decodes with its own schema, which gives wrong values or none.

The writer's record may have another name than the reader's: a class of Java and one of Python seldom have the same.
"""

import json
from collections.abc import Mapping
from io import BytesIO
from types import ModuleType
from typing import Any, cast

from pulsar_actors.client.message import Message, written_schema_of
from pulsar_actors.client.schema import ReceivedMessage, Schema, SchemaType
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, UndecodableMessage, WrongContent
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.schema_versions import StoredSchema
from pulsar_actors.schema.avro_definition import is_recursive
from pulsar_actors.schema.codec import SAME, AvroType, RecordType, items_of
from pulsar_actors.schema.record_types import encoded, record_type_of, undecodable

__all__ = ["AvroSchema", "fastavro_module"]


def fastavro_module() -> ModuleType:
    """Load fastavro. Raise InvalidConfiguration that names the extra if it is not installed."""
    try:
        import fastavro  # noqa: PLC0415 - an extra
    except ImportError:
        raise InvalidConfiguration(
            "Avro needs fastavro, which is not installed: pip install 'pulsar-actors[avro]'"
        ) from None
    return fastavro


_SAFE_DEPTH = 256
"""A payload of so many bytes cannot go deeper than fastavro's compiled reader can: each level takes a byte."""


_NAMED_RECORDS = {"return_record_name": True, "return_record_name_override": True}
"""Options of fastavro's readers that name the record of each value of a union."""

_MAX_DEPTH = 300
"""Of values that contain values of their own kind. Much more would end the process within fastavro."""


class _Writer(NamedTuple):
    """The schema of a writer, as fastavro takes it."""

    parsed: Any
    is_recursive: bool


class AvroSchema(Schema):
    """Avro, of a `Record`, of a class with type hints, or of `schema_definition`: then the values are dicts.

    Needs the extra `avro`.
    """

    needs_writer = True

    def __init__(self, record_cls: Any, schema_definition: AvroType | None = None) -> None:  # noqa: ANN401 - a type, or a hint
        self._fastavro = fastavro_module()
        if record_cls is not None:
            kind = record_type_of(record_cls, as_json=False)
        elif schema_definition is not None:
            kind = RecordType(schema_definition, SAME, object)
        else:
            raise InvalidArgument("AvroSchema takes a class of records, or a schema_definition")
        super().__init__(kind.instances, SchemaType.AVRO, kind.avro, "AVRO")
        self._arguments = record_cls, schema_definition
        self._is_union_of_records = kind.names_records
        self._dump, self._load = kind.codec
        self._schema = kind.avro
        self._parsed, self._is_recursive = self._parse(kind.avro, InvalidArgument)
        self._writers: dict[bytes, _Writer | None] = {}  # by definition; None for the reader's own

    def encode(self, value: object) -> bytes:
        """Encode a record, or the dict of a definition."""
        if not isinstance(value, self._record_cls or object):
            expected = getattr(self._record_cls, "__name__", self._record_cls)
            raise WrongContent(f"{self!r} takes {expected}, not {type(value).__name__}")
        if self._record_cls is object and not isinstance(value, dict) and _is_record(self._schema):
            raise WrongContent(f"{self!r} takes a dict, not {type(value).__name__}")
        buffer = BytesIO()
        try:
            dumped = cast("Any", value) if self._dump is None else self._dump(value)
            if self._is_recursive:
                _check_depth(dumped, _MAX_DEPTH)
            self._fastavro.schemaless_writer(buffer, self._parsed, dumped)
        except Exception as fault:  # fastavro raises whatever its conversion does
            raise encoded(self, fault) from fault
        return buffer.getvalue()

    def decode(self, data: bytes) -> object:
        """Decode a payload that was written with this very schema."""
        return self._decode(data, None, None)

    def decode_message(self, message: ReceivedMessage) -> object:
        """Decode the value of a message with the schema of its version; None for a null value."""
        data = message.data()
        if not data and message.has_null_value():
            return None
        stored = written_schema_of(message) if isinstance(message, Message) else None
        return self._decode(data, None, None) if stored is None else self.decode_written(data, stored)

    def decode_written(self, data: bytes, stored: StoredSchema) -> object:
        """Decode a payload with the schema that it was written with."""
        try:
            writer = self._writers[stored.data]
        except KeyError:
            writer = self._writers[stored.data] = self._writer(stored)
        return self._decode(data, writer, stored)

    def _decode(self, data: bytes, writer: "_Writer | None", stored: StoredSchema | None) -> object:
        schema, is_recursive = (self._parsed, self._is_recursive) if writer is None else writer
        own = None if writer is None else self._parsed
        options = _NAMED_RECORDS if self._is_union_of_records else {}
        try:
            if is_recursive and len(data) > _SAFE_DEPTH:
                from pulsar_actors.schema.deep_avro import read_deep  # noqa: PLC0415 - fastavro is an extra

                value = read_deep(data, schema, own, **options)
            else:
                value = self._fastavro.schemaless_reader(BytesIO(data), schema, own, **options)
            return value if self._load is None else self._load(value)
        except Exception as fault:  # fastavro raises whatever its conversion does
            raise undecodable(self, fault, None if stored is None else stored.version) from fault

    def _writer(self, stored: StoredSchema) -> "_Writer | None":
        """Return the writer's schema as fastavro takes it; None if it is the reader's own."""
        if stored.type != SchemaType.AVRO:
            kind = SchemaType(stored.type).name if stored.type in set(SchemaType) else str(stored.type)
            raise UndecodableMessage(f"{self!r} cannot decode a message that was written with a schema of type {kind}")
        try:
            written = json.loads(stored.data)
            if written == self._schema:
                return None
            written = named_like(written, self._schema)
        except (ValueError, RecursionError, AttributeError) as fault:
            raise undecodable(self, fault, stored.version) from fault
        return self._parse(written, UndecodableMessage)

    def _parse(self, schema: AvroType, error: type[Exception]) -> "_Writer":
        if isinstance(schema, str) and "{" in schema:
            raise error("an Avro schema is a dict, not the text of one: json.loads makes it")
        try:
            recursive = is_recursive(schema)  # first: fastavro does not limit how deep it goes here, either
            return _Writer(self._fastavro.parse_schema(json.loads(json.dumps(schema))), recursive)
        except Exception as fault:  # fastavro raises many kinds
            raise error(f"this is no Avro schema: {type(fault).__name__}: {fault}") from fault

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroSchema, self._arguments

    def __repr__(self) -> str:
        record_cls, definition = self._arguments
        if record_cls is not None:
            return f"AvroSchema({getattr(record_cls, '__name__', record_cls)})"
        return f"AvroSchema(None, {definition.get('name') if isinstance(definition, dict) else definition})"


def _check_depth(value: Any, depth: int) -> None:  # noqa: ANN401 - a user's
    """Refuse a value that is nested too deep, such as a dict that contains itself."""
    if not isinstance(value, (dict, list, tuple)):
        return
    if depth == 0:
        raise ValueError(f"it is nested more than {_MAX_DEPTH} values deep")
    for one in cast("dict[str, Any]", value).values() if isinstance(value, dict) else items_of(value):
        _check_depth(one, depth - 1)


def _is_record(schema: AvroType) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record"


def named_like(written: Any, reader: AvroType) -> Any:  # noqa: ANN401 - JSON
    """Give the record of a schema the name that the reader's has, also where it refers to itself."""
    if not (isinstance(written, dict) and isinstance(reader, dict) and {"name"} <= written.keys() & reader.keys()):
        return cast("Any", written)
    schema = cast("dict[str, Any]", written)
    space, _, old = schema["name"].rpartition(".")
    space = space or schema.get("namespace") or ""
    new = str(reader["name"]).rpartition(".")[2]
    if old == new:
        return schema
    prefix = f"{space}." if space else ""
    renamed = _renamed({**schema, "name": new}, {old, f"{prefix}{old}"}, f"{prefix}{new}")
    return {**renamed, "namespace": space} if space else renamed


def _renamed(schema: Any, old: set[str], new: str) -> Any:  # noqa: ANN401 - JSON
    """Replace references to a named type in a schema."""
    match schema:
        case str():
            return new if schema in old else schema
        case list():
            return [_renamed(one, old, new) for one in items_of(schema)]
        case Mapping():
            inner = cast("Mapping[str, Any]", schema)
            followed = {key: _renamed(inner[key], old, new) for key in ("type", "items", "values") if key in inner}
            fields = {"fields": [_renamed(one, old, new) for one in inner["fields"]]} if "fields" in inner else {}
            return {**inner, **followed, **fields}
        case _:
            return schema
