"""Encodes rows in Avro column by column: NumPy and Arrow make the bytes of a field for all rows at once.

The columns have the types of the schema, which the driver has checked. A null where the schema has none is refused.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pulsar_actors.exceptions import WrongContent
from pulsar_actors.spark.arrow import (
    Array,
    Numbers,
    array_of,
    as_kind,
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
    np,
    numbers_of,
    rows_of,
    sizes_of,
    spread,
    take_rows,
    without_check,
    without_nulls,
)
from pulsar_actors.spark.avro_types import TEXT, FieldType, ValueType, null_refused

__all__ = ["encode_columns"]


def encode_columns(fields: Sequence[FieldType], columns: Sequence[Array]) -> list[bytes]:
    """Encode rows as records of these fields, which are in the order of the schema, as the columns are."""
    payloads: list[Any] = bytes_of(_record(fields, columns))
    return payloads


Encode: TypeAlias = Callable[[ValueType, Array], Array]

_SEVEN_BITS: Final = np.uint64(7)
_MORE: Final = 0x80


def _record(fields: Sequence[FieldType], columns: Sequence[Array]) -> Array:
    return binary_join(*(_encode(one.type, column, one.name) for one, column in zip(fields, columns, strict=True)))


def _encode(kind: ValueType, column: Array, name: str) -> Array:
    """Encode a column, with the number of the branch before each value if the type is one of a union with null."""
    encode = _ENCODERS[kind.kind]
    if kind.null_branch is None and column.null_count:
        raise null_refused(name)
    if kind.value_branch is None:
        return encode(kind, column)
    some, valid = without_nulls(column)
    encoded = binary_join(_long(kind.value_branch), encode(kind, some))
    if not column.null_count:
        return encoded
    assert kind.null_branch is not None  # noqa: S101 - refused above
    return coalesce(spread(encoded, valid), constant(_long(kind.null_branch), len(valid)))


def _long(number: int) -> bytes:
    """Encode one small number, as that of a branch."""
    return bytes((number << 1,))


def _longs(numbers: Numbers) -> Array:
    """Encode numbers in seven bits a byte, the lowest first; small ones of either sign are short."""
    wide = numbers.astype(np.int64, copy=False)
    bits = as_kind((wide << 1) ^ (wide >> 63), "u8")
    sizes = np.ones(len(bits), np.int64)
    rest = bits >> _SEVEN_BITS
    while rest.any():
        sizes += rest > 0
        rest >>= _SEVEN_BITS
    stops = np.cumsum(sizes)
    starts = stops - sizes
    data = np.empty(int(stops[-1]) if len(stops) else 0, np.uint8)
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        byte = (bits[rows] >> np.uint64(7 * place)) & np.uint64(_MORE - 1)
        data[starts[rows] + place] = byte + np.where(sizes[rows] > place + 1, _MORE, 0).astype(np.uint64)
    return _binary(data, stops)


def _binary(data: Numbers, stops: Numbers) -> Array:
    offsets = np.concatenate((np.zeros(1, np.int32), stops.astype(np.int32)))
    return without_check(pa.binary(), len(stops), [None, offsets, data])


def _boolean(kind: ValueType, column: Array) -> Array:  # noqa: ARG001 - as the others
    return _of_width(numbers_of(column).astype(np.uint8), 1)


def _of_width(numbers: Numbers, width: int) -> Array:
    return _binary(as_kind(numbers, "u1"), np.arange(1, len(numbers) + 1) * width)


def _integer(kind: ValueType, column: Array) -> Array:
    numbers = integers_of(column)
    return _longs(numbers // 1000 if kind.is_in_milliseconds else numbers)


def _floating(kind: ValueType, column: Array) -> Array:
    width, numbers = (4, "<f4") if kind.kind == "float" else (8, "<f8")
    return _of_width(numbers_of(column).astype(numbers), width)


def _bytes(kind: ValueType, column: Array) -> Array:
    plain = _decimals(column) if kind.logical == "decimal" else cast_to(column, pa.binary())
    return binary_join(_longs(sizes_of(plain)), plain)


_DECIMAL_WIDTH: Final = 16


def _decimals(column: Array) -> Array:
    """Return the unscaled values of decimals, the highest byte first, in as few bytes as they need."""
    untyped: Any = column
    data = rows_of(np.frombuffer(untyped.buffers()[1], np.uint8), _DECIMAL_WIDTH)
    lowest_first = data[untyped.offset : untyped.offset + len(column)]
    sign = np.where(lowest_first[:, -1] >= _MORE, np.uint8(0xFF), np.uint8(0))
    sizes = np.full(len(column), _DECIMAL_WIDTH)
    for place in range(_DECIMAL_WIDTH - 1, 0, -1):
        says_nothing = (lowest_first[:, place] == sign) & ((lowest_first[:, place - 1] ^ sign) < _MORE)
        sizes -= (sizes == place + 1) & says_nothing
    highest_first = np.ascontiguousarray(lowest_first[:, ::-1])
    needed = np.arange(_DECIMAL_WIDTH) >= (_DECIMAL_WIDTH - sizes)[:, None]
    return _binary(highest_first[needed], np.cumsum(sizes))


def _fixed(kind: ValueType, column: Array) -> Array:
    if kind.logical == "decimal":
        values: list[Any] = [_of_size(one, kind.size) for one in bytes_of(_decimals(column))]
        return array_of(values, pa.binary())
    if (sizes_of(column) != kind.size).any():
        raise WrongContent(f"a value of the type fixed has {kind.size} bytes in the schema of the topic")
    return column


def _of_size(number: Any, size: int) -> bytes:  # noqa: ANN401 - bytes
    try:
        return int.from_bytes(number, "big", signed=True).to_bytes(size, "big", signed=True)
    except OverflowError:
        raise WrongContent(f"a decimal does not fit into the {size} bytes that the schema of the topic has") from None


def _enum(kind: ValueType, column: Array) -> Array:
    numbers = {symbol: number for number, symbol in enumerate(kind.symbols)}
    values: list[Any] = column.to_pylist()
    try:
        return _longs(np.fromiter((numbers[one] for one in values), np.int64, len(values)))
    except KeyError as unknown:
        raise WrongContent(f"{unknown.args[0]!r} is none of the symbols of the schema: {', '.join(numbers)}") from None


def _struct(kind: ValueType, column: Array) -> Array:
    return _record(kind.fields, fields_of(column))


def _array(kind: ValueType, column: Array) -> Array:
    (items,) = items_of(column)
    return _blocks(sizes_of(column), _encode(kind.of_items, items, "[]"))


def _map(kind: ValueType, column: Array) -> Array:
    keys, values = items_of(column)
    return _blocks(sizes_of(column), binary_join(_bytes(TEXT, keys), _encode(kind.of_items, values, "{}")))


def _blocks(counts: Numbers, items: Array) -> Array:
    """Encode arrays or maps: a block of all items, and the empty block that ends them."""
    blocks = binary_join(_longs(counts), join_items(counts, items))
    rows = np.flatnonzero(counts)
    some = spread(take_rows(blocks, fixed_width(rows, pa.int64())), counts > 0)
    return coalesce(binary_join(some, b"\0"), constant(b"\0", len(counts)))


_ENCODERS: Final[dict[str, Encode]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _floating,
    "double": _floating,
    "bytes": _bytes,
    "string": _bytes,
    "fixed": _fixed,
    "enum": _enum,
    "record": _struct,
    "array": _array,
    "map": _map,
}
