"""Functions of PyArrow with types, also on arrays of NumPy: PyArrow's own types leave the content of an array open."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy  # noqa: ICN001 - `np` has no types
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "Array",
    "Numbers",
    "array_of",
    "as_kind",
    "as_text",
    "binary_join",
    "bytes_of",
    "cast_to",
    "coalesce",
    "column_of",
    "concat_arrays",
    "constant",
    "fields_of",
    "fixed_width",
    "integers_of",
    "is_text",
    "items_of",
    "join_items",
    "list_array",
    "map_array",
    "multiply_add",
    "np",
    "numbers_of",
    "record_batch",
    "rows_of",
    "sizes_of",
    "spread",
    "struct_array",
    "take_rows",
    "times",
    "values_of",
    "without_check",
    "without_nulls",
]


Array: TypeAlias = "pa.Array[Any]"
Numbers: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]

np: Any = numpy
"""NumPy without its types: what they know of an array differs from version to version."""

_PYARROW: Any = pa
_PYARROW_COMPUTE: Any = pc


def array_of(values: Sequence[Any], kind: Any) -> Array:  # noqa: ANN401 - a DataType of any parameter
    """Make an array of values."""
    array: Array = _PYARROW.array(values, kind)
    return array


def without_check(kind: Any, size: int, buffers: "Sequence[Numbers | None]") -> Array:  # noqa: ANN401 - a DataType
    """Make an array of the buffers that Arrow has for it."""
    of_arrow = [None if one is None else _PYARROW.py_buffer(np.ascontiguousarray(one)) for one in buffers]
    array: Array = _PYARROW.Array.from_buffers(kind, size, of_arrow)
    return array


def fixed_width(numbers: Numbers, kind: Any) -> Array:  # noqa: ANN401 - a DataType
    """Make an array of numbers, which have the width of the type, or of truth values."""
    if numbers.dtype != np.bool_:
        return without_check(kind, len(numbers), [None, numbers])
    bits: Array = _PYARROW.array(numbers)
    return bits


def struct_array(fields: Sequence[Array], kind: Any, is_null: "Array | None" = None) -> Array:  # noqa: ANN401 - a DataType
    """Make a column of structs."""
    array: Array = _PYARROW.StructArray.from_arrays(fields, fields=list(kind), mask=is_null)
    return array


def list_array(counts: Numbers, items: Array, kind: Any) -> Array:  # noqa: ANN401 - a DataType
    """Make a column of lists, each of which has the next so many items."""
    array: Array = _PYARROW.ListArray.from_arrays(_offsets_of(counts), items, type=kind)
    return array


def map_array(counts: Numbers, keys: Array, values: Array, kind: Any) -> Array:  # noqa: ANN401 - a DataType
    """Make a column of maps, each of which has the next so many keys and values."""
    array: Array = _PYARROW.MapArray.from_arrays(_offsets_of(counts), keys, values, type=kind)
    return array


def _offsets_of(counts: Numbers) -> Array:
    return fixed_width(np.concatenate((np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32))), pa.int32())


def constant(value: bytes, rows: int) -> Array:
    """Make a column that has the same bytes in each row."""
    array: Array = _PYARROW.repeat(pa.scalar(value, pa.binary()), rows)
    return array


def as_kind(numbers: Numbers, kind: str) -> Numbers:
    """Take the bytes of numbers as numbers of another kind, in a row."""
    untyped: Any = np.ascontiguousarray(numbers)
    viewed: Numbers = untyped.view(kind).reshape(-1)
    return viewed


def rows_of(numbers: Numbers, width: int) -> Numbers:
    """Arrange numbers in rows."""
    untyped: Any = numbers
    rows: Numbers = untyped.reshape(-1, width)
    return rows


def numbers_of(array: Array) -> Numbers:
    """Return the numbers, or the truth values, of an array without nulls."""
    untyped: Any = array
    numbers: Numbers = untyped.to_numpy(zero_copy_only=False)
    return numbers


def integers_of(array: Array) -> Numbers:
    """Return the whole numbers of an array without nulls, or those that its dates or times are."""
    width: int = array.type.bit_width
    as_integers = cast_to(array, pa.int32() if width == _BITS_OF_INT else pa.int64())
    integers: Numbers = numbers_of(as_integers).astype(np.int64)
    return integers


_BITS_OF_INT: Final = 32


def spread(values: Array, some: Numbers) -> Array:
    """Make an array that has the values where `some` is true, and is null elsewhere."""
    if not len(values):
        return array_of([None] * len(some), values.type)
    return take_rows(values, _PYARROW.array(np.cumsum(some) - 1, pa.int64(), mask=~some))


def take_rows(values: Array, indexes: Array) -> Array:
    """Return the value at each index."""
    array: Array = _PYARROW_COMPUTE.take(values, indexes)
    return array


def concat_arrays(arrays: list[Array]) -> Array:
    """Concatenate arrays."""
    array: Array = _PYARROW.concat_arrays(arrays)
    return array


def binary_join(*parts: "Array | bytes") -> Array:
    """Concatenate columns of bytes, row by row. Bytes stand for a column of them."""
    columns = [pa.scalar(one, pa.binary()) if isinstance(one, bytes) else one for one in parts]
    array: Array = _PYARROW_COMPUTE.binary_join_element_wise(*columns, pa.scalar(b"", pa.binary()))
    return array


def join_items(counts: Numbers, items: Array, between: bytes = b"") -> Array:
    """Concatenate bytes: the first `counts[0]` of them, then the next `counts[1]`, and so on."""
    lists = list_array(counts, items, pa.list_(pa.binary()))
    array: Array = _PYARROW_COMPUTE.binary_join(lists, pa.scalar(between, pa.binary()))
    return array


def times(array: Array, factor: int) -> Array:
    """Multiply whole numbers; raise ArrowInvalid if one becomes too large."""
    product: Array = _PYARROW_COMPUTE.multiply_checked(array, pa.scalar(factor, array.type))
    return product


def multiply_add(first: Array, step: Array, steps: Array) -> Array:
    """Compute `first + step * steps`, row by row."""
    array: Array = _PYARROW_COMPUTE.add(first, _PYARROW_COMPUTE.multiply(step, steps))
    return array


def coalesce(values: Array, otherwise: Array) -> Array:
    """Replace the nulls of a column by the values of another."""
    array: Array = _PYARROW_COMPUTE.coalesce(values, otherwise)
    return array


def without_nulls(array: Array) -> tuple[Array, Numbers]:
    """Return the values of an array that are not null, and for each row whether it has one."""
    untyped: Any = array
    valid: Array = untyped.is_valid()
    return untyped.drop_null() if array.null_count else array, numbers_of(valid)


def _offsets(array: Any) -> Numbers:  # noqa: ANN401 - an array
    offsets: Numbers = np.zeros(1, np.int32)
    if len(array):
        offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    return offsets


def sizes_of(array: Array) -> Numbers:
    """Return how many bytes, or items, each row of a column has in which no row is null."""
    sizes: Numbers = np.diff(_offsets(array))
    return sizes


def items_of(array: Array) -> list[Array]:
    """Return the items of all lists, or the keys and the values of all maps, of a column in which no row is null."""
    untyped: Any = array
    columns = [untyped.keys, untyped.items] if pa.types.is_map(array.type) else [untyped.values]
    offsets = _offsets(array)
    return [one.slice(offsets[0], offsets[-1] - offsets[0]) for one in columns]


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


def cast_to(array: Array, kind: Any) -> Array:  # noqa: ANN401 - a DataType
    """Convert an array to a type; raise ArrowInvalid if a value does not fit."""
    converted: Array = _PYARROW.Array.cast(array, kind)
    return converted


def is_text(kind: Any) -> bool:  # noqa: ANN401 - a DataType of any parameter
    """Return whether a type is one of text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def as_text(array: Array) -> Array:
    """Convert bytes to text; raise ArrowInvalid for bytes that are no UTF-8."""
    return cast_to(array, pa.string())


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
