"""The classes that JSON and Avro schemas take: records of the official kind, and classes with type hints."""

from typing import Any, cast

from pulsar_actors.exceptions import UndecodableMessage, WrongContent
from pulsar_actors.schema.codec import RecordType
from pulsar_actors.schema.definition import Record, RecordMeta, check_names, record_codec

__all__ = ["encoded", "record_type_of", "undecodable"]


def record_type_of(record_cls: object, *, as_json: bool, java_style: bool = False) -> RecordType:
    """Return the schema and the codec of a class. Raise InvalidArgument for one that is no record."""
    if isinstance(record_cls, RecordMeta):
        record = cast("type[Record]", record_cls)
        check_names(record, {})
        return RecordType(record.schema(), record_codec(record, as_json=as_json, java_style=java_style), record)
    from pulsar_actors.schema.hints import hinted_record_type  # noqa: PLC0415 - records of the official kind need none

    return hinted_record_type(record_cls, as_json=as_json)


def encoded(schema: object, fault: Exception) -> WrongContent:
    """Make the error for a value that a schema cannot encode."""
    return WrongContent(f"{schema!r} cannot encode this value: {fault or type(fault).__name__}")


def undecodable(schema: object, fault: Exception, written_by: Any = None) -> UndecodableMessage:  # noqa: ANN401
    """Make the error for a payload that a schema cannot decode."""
    version = "" if written_by is None else f", written with version {int.from_bytes(written_by, 'big')} of the schema"
    return UndecodableMessage(f"{schema!r} cannot decode this payload{version}: {type(fault).__name__}: {fault}")
