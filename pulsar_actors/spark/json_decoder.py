"""Decodes messages in JSON with Arrow's own reader of lines, all at once.

It decodes records whose JSON is what clients write for them. Whatever Arrow reads otherwise than Python's `json`, or
refuses, raises `NotByColumns`: those messages are decoded one by one.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import json as arrow_json

from pulsar_actors.spark.arrow import Array, cast_to, fields_of, np, struct_array, times
from pulsar_actors.spark.avro_decoder import NotByColumns
from pulsar_actors.spark.avro_types import FieldType, ValueType

__all__ = ["decode_lines"]

_PYARROW_JSON: Any = arrow_json


def decode_lines(kind: ValueType, payloads: Sequence[bytes]) -> Array:
    """Decode messages that are records of this type."""
    lines = b"\n".join(payloads)
    if kind.kind != "record" or not kind.fields or not _begin_and_end_as_records(lines, payloads):
        raise NotByColumns
    schema = pa.schema([pa.field(one.name, _in_json(one.type)) for one in kind.fields])
    reading = _PYARROW_JSON.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    parsing = _PYARROW_JSON.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        table = _PYARROW_JSON.read_json(pa.BufferReader(lines), reading, parsing)
        table.validate(full=True)  # Arrow does not check that text is UTF-8
        if table.num_rows != len(payloads):
            raise NotByColumns
        columns = [table.column(one.name).combine_chunks() for one in kind.fields]
        return _record(kind, columns)
    except pa.ArrowException:
        raise NotByColumns from None


def _begin_and_end_as_records(lines: bytes, payloads: Sequence[bytes]) -> bool:
    """Return whether all payloads do. Then one that is no whole record cannot be completed by the next."""
    sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))
    data, stops = np.frombuffer(lines, np.uint8), np.cumsum(sizes + 1) - 1
    return bool(sizes.all() and (data[stops - sizes] == ord("{")).all() and (data[stops - 1] == ord("}")).all())


_AS_IN_ARROW: Final = {"boolean", "string", "enum", "float", "double"}


def _in_json(kind: ValueType) -> Any:  # noqa: ANN401 - a DataType
    """Return the type that Arrow reads: numbers for times."""
    match kind.kind:
        case "record" if kind.fields:
            return pa.struct([pa.field(one.name, _in_json(one.type)) for one in kind.fields])
        case "array":
            return pa.list_(pa.field("element", _in_json(kind.of_items)))
        case "int":
            return pa.int32()
        case "long":
            return pa.int64()
        case simple if simple in _AS_IN_ARROW:
            return kind.arrow
        case _:
            raise NotByColumns


def _record(kind: ValueType, columns: Sequence[Array]) -> Array:
    arrays = [_field(one, column) for one, column in zip(kind.fields, columns, strict=True)]
    return struct_array(arrays, kind.arrow)


def _field(field: FieldType, column: Array) -> Array:
    if field.default is not None and column.null_count:  # Arrow does not tell null from what is not there
        raise NotByColumns
    return _value(field.type, column)


def _value(kind: ValueType, column: Array) -> Array:
    match kind.kind:
        case "record":
            if column.null_count:
                raise NotByColumns
            return _record(kind, fields_of(column))
        case "array":
            if _in_json(kind) != kind.arrow:
                raise NotByColumns
            return column
        case "int" | "long" if kind.logical is not None:
            return cast_to(times(column, 1000) if kind.is_in_milliseconds else column, kind.arrow)
        case _:
            return column
