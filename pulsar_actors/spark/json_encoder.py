"""Encodes rows in JSON column by column, as Arrow makes texts.

Times are numbers, bytes are in base 64, decimals are texts, and so are the floats that JSON does not have: as the Java
client writes them. A null where the schema has none is refused.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pulsar_actors.spark.arrow import (
    Array,
    array_of,
    binary_join,
    bytes_of,
    cast_to,
    coalesce,
    constant,
    fields_of,
    fixed_width,
    integers_of,
    items_of,
    join_items,
    sizes_of,
    spread,
    without_nulls,
)
from pulsar_actors.spark.avro_types import FieldType, ValueType, null_refused

__all__ = ["encode_lines"]

_COMPUTE: Any = pc


def encode_lines(fields: Sequence[FieldType], columns: Sequence[Array]) -> list[bytes]:
    """Encode rows as records of these fields, which are in the order of the schema, as the columns are."""
    payloads: list[Any] = bytes_of(_record(fields, columns))
    return payloads


Encode: TypeAlias = Callable[[ValueType, Array], Array]
"""Encodes values of which none is null. What it returns is bytes, in UTF-8."""


def _record(fields: Sequence[FieldType], columns: Sequence[Array]) -> Array:
    parts: list[Array | bytes] = []
    for field, column in zip(fields, columns, strict=True):
        parts += [
            b"," if parts else b"{",
            json.dumps(field.name).encode() + b":",
            _encode(field.type, column, field.name),
        ]
    return binary_join(*parts, b"}")


def _encode(kind: ValueType, column: Array, name: str) -> Array:
    if not column.null_count:
        return _ENCODERS[kind.kind](kind, column)
    if kind.null_branch is None:
        raise null_refused(name)
    some, valid = without_nulls(column)
    return coalesce(spread(_ENCODERS[kind.kind](kind, some), valid), constant(b"null", len(valid)))


def _as_bytes(column: Array) -> Array:
    return cast_to(cast_to(column, pa.string()), pa.binary())


def _boolean(kind: ValueType, column: Array) -> Array:  # noqa: ARG001 - as the others
    return _as_bytes(column)


def _integer(kind: ValueType, column: Array) -> Array:
    numbers = integers_of(column)
    return _as_bytes(fixed_width(numbers // 1000 if kind.is_in_milliseconds else numbers, pa.int64()))


_NOT_FINITE: Final = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def _floating(kind: ValueType, column: Array) -> Array:  # noqa: ARG001 - as the others
    texts = cast_to(column, pa.string())
    if not _COMPUTE.all(_COMPUTE.is_finite(column)).as_py():
        for arrow, text in _NOT_FINITE.items():
            texts = _COMPUTE.if_else(_COMPUTE.equal(texts, arrow), text, texts)
    return cast_to(texts, pa.binary())


def _string(kind: ValueType, column: Array) -> Array:  # noqa: ARG001 - as the others
    escaped: Any = column
    if _COMPUTE.any(_COMPUTE.match_substring_regex(column, _CONTROLS)).as_py():
        texts: list[Any] = escaped.to_pylist()
        return array_of([json.dumps(one, ensure_ascii=False).encode() for one in texts], pa.binary())
    for character in ("\\", '"'):
        escaped = _COMPUTE.replace_substring(escaped, character, f"\\{character}")
    return binary_join(b'"', cast_to(escaped, pa.binary()), b'"')


_CONTROLS: Final = "[\\x00-\\x1f]"


def _bytes(kind: ValueType, column: Array) -> Array:
    if kind.logical == "decimal":
        return binary_join(b'"', _as_bytes(column), b'"')
    return array_of([b'"%b"' % b64encode(one or b"") for one in bytes_of(column)], pa.binary())


def _struct(kind: ValueType, column: Array) -> Array:
    return _record(kind.fields, fields_of(column))


def _array(kind: ValueType, column: Array) -> Array:
    (items,) = items_of(column)
    return binary_join(b"[", join_items(sizes_of(column), _encode(kind.of_items, items, "[]"), b","), b"]")


def _map(kind: ValueType, column: Array) -> Array:
    keys, values = items_of(column)
    items = binary_join(_string(kind, keys), b":", _encode(kind.of_items, values, "{}"))
    return binary_join(b"{", join_items(sizes_of(column), items, b","), b"}")


_ENCODERS: Final[dict[str, Encode]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _floating,
    "double": _floating,
    "bytes": _bytes,
    "string": _string,
    "fixed": _bytes,
    "enum": _string,
    "record": _struct,
    "array": _array,
    "map": _map,
}
