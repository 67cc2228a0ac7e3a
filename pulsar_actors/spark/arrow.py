"""Arrow, as far as it is used here. Its types leave open what is in an array, and so do these."""

from array import array
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "Array", "as_text", "bytes_of", "column", "counted", "first_said", "is_text", "joined", "made", "one_after_another",
    "record_batch", "repeated", "values_of", "whole_numbers",
]  # fmt: skip

Array: TypeAlias = "pa.Array[Any]"

_ARROW: Any = pa
_COMPUTE: Any = pc


def made(values: Sequence[Any], kind: Any) -> Array:  # noqa: ANN401 - a type of Arrow's
    """Make an array."""
    array: Array = _ARROW.array(values, kind)
    return array


def whole_numbers(values: "array[int]") -> Array:
    """Make an array of numbers that are there already, without a copy."""
    kind = {4: pa.int32(), 8: pa.int64()}[values.itemsize]
    array: Array = _ARROW.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    return array


def repeated(values: Array, indexes: Array) -> Array:
    """Give the value that each index means."""
    array: Array = _COMPUTE.take(values, indexes)
    return array


def one_after_another(arrays: list[Array]) -> Array:
    """Make one array of several."""
    array: Array = _ARROW.concat_arrays(arrays)
    return array


def joined(heads: Array, ends: Array) -> Array:
    """Put two columns of bytes together, row by row."""
    array: Array = _COMPUTE.binary_join_element_wise(heads, ends, pa.scalar(b"", pa.binary()))
    return array


def counted(first: Array, step: Array, steps: Array) -> Array:
    """Count up from a first number, row by row."""
    array: Array = _COMPUTE.add(first, _COMPUTE.multiply(step, steps))
    return array


def first_said(said: Array, otherwise: Array) -> Array:
    """Give what is said in each row, or what is true where nothing is."""
    array: Array = _COMPUTE.coalesce(said, otherwise)
    return array


def record_batch(arrays: list[Array], schema: pa.Schema) -> pa.RecordBatch:
    """Put columns together."""
    batch: pa.RecordBatch = _ARROW.RecordBatch.from_arrays(arrays, schema=schema)
    return batch


def column(batch: pa.RecordBatch, name: str) -> Array:
    """Give one of the columns."""
    whole: Any = batch
    array: Array = whole.column(name)
    return array


def is_text(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow's
    """Tell whether it is a type of text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def as_text(array: Array) -> Array:
    """Make text of bytes; an ArrowInvalid says that some are none."""
    text: Array = _ARROW.Array.cast(array, pa.string())
    return text


def bytes_of(array: Array) -> list[bytes | None]:
    """Give what is in a column of bytes or text."""
    known: Any = array if pa.types.is_binary(array.type) else _ARROW.Array.cast(array, pa.binary())
    values: list[bytes | None] = known.to_pylist()
    return values


def values_of(array: Array) -> list[Any]:
    """Give what is in any column: times in milliseconds."""
    known: Any = array
    if pa.types.is_timestamp(known.type):
        return [None if one is None else one // 1000 for one in known.cast(pa.int64()).to_pylist()]
    values: list[Any] = known.to_pylist()
    if pa.types.is_map(known.type):
        return [None if pairs is None else dict(pairs) for pairs in values]
    return values
