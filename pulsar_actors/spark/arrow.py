"""Arrow, as far as it is used here. Its types leave open what is in an array, and so do these."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Array", "as_text", "bytes_of", "column", "is_text", "made", "record_batch", "repeated", "values_of"]

Array: TypeAlias = "pa.Array[Any]"

_ARROW: Any = pa
_TAKE: Any = pc.take


def made(values: Sequence[Any], kind: Any) -> Array:  # noqa: ANN401 - a type of Arrow's
    """Make an array."""
    array: Array = _ARROW.array(values, kind)
    return array


def repeated(values: Array, places: list[int]) -> Array:
    """Give the value that is meant at each place."""
    array: Array = _TAKE(values, _ARROW.array(places, pa.int32()))
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
    """Give what is in any column: times in milliseconds, maps as pairs."""
    known: Any = array
    if pa.types.is_timestamp(known.type):
        return [None if one is None else one // 1000 for one in known.cast(pa.int64()).to_pylist()]
    values: list[Any] = known.to_pylist()
    return values
