"""Functions of PyArrow with types: PyArrow's own types leave the content of an array open."""

from array import array
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "Array",
    "array_of",
    "as_text",
    "binary_join",
    "bytes_of",
    "coalesce",
    "column_of",
    "concat_arrays",
    "fields_of",
    "integer_array",
    "is_text",
    "multiply_add",
    "record_batch",
    "take_rows",
    "values_of",
]


Array: TypeAlias = "pa.Array[Any]"

_PYARROW: Any = pa
_PYARROW_COMPUTE: Any = pc


def array_of(values: Sequence[Any], kind: Any) -> Array:  # noqa: ANN401 - a DataType of any parameter
    """Make an array of values."""
    array: Array = _PYARROW.array(values, kind)
    return array


def integer_array(values: "array[int]") -> Array:
    """Make an array that shares the memory of the numbers."""
    kind = {4: pa.int32(), 8: pa.int64()}[values.itemsize]
    array: Array = _PYARROW.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    return array


def take_rows(values: Array, indexes: Array) -> Array:
    """Return the value at each index."""
    array: Array = _PYARROW_COMPUTE.take(values, indexes)
    return array


def concat_arrays(arrays: list[Array]) -> Array:
    """Concatenate arrays."""
    array: Array = _PYARROW.concat_arrays(arrays)
    return array


def binary_join(heads: Array, ends: Array) -> Array:
    """Concatenate two columns of bytes, row by row."""
    array: Array = _PYARROW_COMPUTE.binary_join_element_wise(heads, ends, pa.scalar(b"", pa.binary()))
    return array


def multiply_add(first: Array, step: Array, steps: Array) -> Array:
    """Compute `first + step * steps`, row by row."""
    array: Array = _PYARROW_COMPUTE.add(first, _PYARROW_COMPUTE.multiply(step, steps))
    return array


def coalesce(values: Array, otherwise: Array) -> Array:
    """Replace the nulls of a column by the values of another."""
    array: Array = _PYARROW_COMPUTE.coalesce(values, otherwise)
    return array


def fields_of(array: Array) -> list[Array]:
    """Return the fields of a column of structs. Where a struct is null, they are."""
    untyped: Any = array
    fields: list[Array] = untyped.flatten()
    return fields


def record_batch(arrays: list[Array], schema: pa.Schema) -> pa.RecordBatch:
    """Make a record batch of columns."""
    batch: pa.RecordBatch = _PYARROW.RecordBatch.from_arrays(arrays, schema=schema)
    return batch


def column_of(batch: pa.RecordBatch, name: str) -> Array:
    """Return a column by its name."""
    untyped: Any = batch
    array: Array = untyped.column(name)
    return array


def is_text(kind: Any) -> bool:  # noqa: ANN401 - a DataType of any parameter
    """Return whether a type is one of text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def as_text(array: Array) -> Array:
    """Convert bytes to text; raise ArrowInvalid for bytes that are no UTF-8."""
    text: Array = _PYARROW.Array.cast(array, pa.string())
    return text


def bytes_of(array: Array) -> list[bytes | None]:
    """Return the bytes of a column of bytes or text."""
    untyped: Any = array if pa.types.is_binary(array.type) else _PYARROW.Array.cast(array, pa.binary())
    values: list[bytes | None] = untyped.to_pylist()
    return values


def values_of(array: Array) -> list[Any]:
    """Return the values of a column; times in milliseconds, maps as dictionaries."""
    untyped: Any = array
    if pa.types.is_timestamp(untyped.type):
        return [None if one is None else one // 1000 for one in untyped.cast(pa.int64()).to_pylist()]
    values: list[Any] = untyped.to_pylist()
    if pa.types.is_map(untyped.type):
        return [None if pairs is None else dict(pairs) for pairs in values]
    return values
