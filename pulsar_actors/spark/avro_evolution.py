"""Columns that were decoded with the schema of their messages, made those of another schema.

Fields are matched by name, and one that was not written gets its default, by the rules of Avro. What those rules do in
other cases, such as aliases or integers that become floats, is left to fastavro, message by message.
"""

from typing import Final

import pyarrow as pa

from pulsar_actors.spark.arrow import Array, array_of, cast_to, fields_of, fixed_width, struct_array, without_nulls
from pulsar_actors.spark.avro_decoder import NotByColumns
from pulsar_actors.spark.avro_types import FieldType, ValueType

__all__ = ["resolved"]


def resolved(column: Array, written: ValueType, kind: ValueType, *, nested: bool = False) -> Array:
    """Return a column that was written with one type as a column of another, or raise NotByColumns."""
    if column.null_count and kind.null_branch is None:
        raise NotByColumns
    if _alone(written) == _alone(kind):
        return column
    if written.kind == kind.kind == "record" and (written.name == kind.name or not nested):
        return _record(column, written, kind)
    if (written.kind, kind.kind) in _WIDER and written.logical is kind.logical is None:
        return cast_to(column, kind.arrow)
    raise NotByColumns


_WIDER: Final = {("int", "long"), ("float", "double")}


def _alone(kind: ValueType) -> ValueType:
    """Return a type without the union that it is in: a column has nulls or not."""
    return kind._replace(value_branch=None, null_branch=None)


def _record(column: Array, written: ValueType, kind: ValueType) -> Array:
    columns = {one.name: (one.type, values) for one, values in zip(written.fields, fields_of(column), strict=True)}
    is_null = None
    if column.null_count:
        _, valid = without_nulls(column)
        is_null = fixed_width(~valid, pa.bool_())
    arrays = [
        resolved(columns[one.name][1], columns[one.name][0], one.type, nested=True)
        if one.name in columns
        else _default(one, len(column))
        for one in kind.fields
    ]
    return struct_array(arrays, kind.arrow, is_null)


_WITH_PLAIN_DEFAULTS: Final = {"boolean", "int", "long", "float", "double", "string"}


def _default(field: FieldType, rows: int) -> Array:
    """Make the column of a field that was not written."""
    plain = field.default is None or (field.type.kind in _WITH_PLAIN_DEFAULTS and field.type.logical is None)
    if not field.has_default or field.has_aliases or not plain:
        raise NotByColumns
    return array_of([field.default] * rows, field.type.arrow)
