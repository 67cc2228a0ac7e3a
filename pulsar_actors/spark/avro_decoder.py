"""Decodes messages in Avro column by column: the first field of all messages, then the second, and so on.

To decode them one by one would cost several times what it costs to receive them. A `_Cursor` knows how far each message
is read, and NumPy reads the next field of all of them at once. In a union or an array, only some of the messages go on.

It decodes messages that are exactly what the schema says. For any others it raises `NotByColumns`, and whoever calls it
decodes them one by one, which finds the message that is wrong, and accepts what fastavro accepts.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pulsar_actors.spark.arrow import (
    Array,
    Numbers,
    array_of,
    as_kind,
    as_text,
    cast_to,
    concat_arrays,
    fixed_width,
    list_array,
    map_array,
    np,
    spread,
    struct_array,
    take_rows,
    without_check,
)
from pulsar_actors.spark.avro_types import TEXT, ValueType

__all__ = ["NotByColumns", "decode_columns"]


class NotByColumns(Exception):
    """The messages are to be decoded one by one."""


def decode_columns(kind: ValueType, payloads: Sequence[bytes]) -> Array:
    """Decode messages that were written with a schema of this type."""
    data = b"".join(payloads)
    if len(data) > _MOST_BYTES:
        raise NotByColumns
    ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)))
    starts = np.concatenate((_ZERO, ends[:-1])) if len(payloads) else ends
    cursor = _Cursor(np.frombuffer(data, np.uint8), starts, ends)
    try:
        column = _decoder(kind)(cursor)
    except pa.ArrowInvalid:  # text that is no UTF-8, or a decimal with too many digits
        raise NotByColumns from None
    _check((cursor.at == ends).all())
    return column


_MOST_BYTES: Final = (1 << 31) - 1
_ZERO: Final = np.zeros(1, np.int64)
_MORE: Final = 0x80
_WIDEST_VARINT: Final = 63
_STEPS_THAT_PAY: Final = 40
"""A step through the longest of some arrays costs about as much as it costs to decode this many items one by one."""


def _check(fits: Any) -> None:  # noqa: ANN401 - a bool of Python or of NumPy
    if not fits:
        raise NotByColumns


class _Cursor:
    """Some messages, in the order of their bytes, and how far each is read."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: Numbers, at: Numbers, end: Numbers) -> None:
        self.data = data
        self.at = at
        self.end = end

    def __len__(self) -> int:
        return len(self.at)

    def only(self, rows: Numbers) -> "_Cursor":
        """Return a cursor of some of the messages. It moves on its own."""
        return _Cursor(self.data, self.at[rows], self.end[rows])

    def skip(self, sizes: Numbers | int) -> Numbers:
        """Move on by some bytes in each message, and return where they start."""
        starts = self.at
        self.at = starts + sizes
        _check(np.all(sizes >= 0) and (self.at <= self.end).all())
        return starts

    def bytes_of(self, width: int) -> Numbers:
        """Read as many bytes of each message."""
        starts = self.skip(width)
        read: Numbers = self.data[starts[:, None] + np.arange(width)]
        return read

    def longs(self) -> Numbers:
        """Read a number of variable length in each message."""
        first = self.data[self.skip(1)]
        numbers = (first & (_MORE - 1)).astype(np.uint64)
        rows = np.flatnonzero(first >= _MORE)
        shift = 7
        while rows.size:
            _check(shift <= _WIDEST_VARINT and (self.at[rows] < self.end[rows]).all())
            byte = self.data[self.at[rows]]
            numbers[rows] |= (byte & (_MORE - 1)).astype(np.uint64) << np.uint64(shift)
            self.at[rows] += 1
            rows = rows[byte >= _MORE]
            shift += 7
        signed: Numbers = (numbers >> np.uint64(1)).astype(np.int64) ^ -(numbers & np.uint64(1)).astype(np.int64)
        return signed


Decode: TypeAlias = Callable[[_Cursor], Array]


def _decoder(kind: ValueType) -> Decode:
    decode = _DECODERS[kind.kind](kind)
    return decode if kind.value_branch is None else _in_union(kind, decode)


def _in_union(kind: ValueType, decode: Decode) -> Decode:
    def read(cursor: _Cursor) -> Array:
        branch = cursor.longs()
        some = branch == kind.value_branch
        if some.all():
            return decode(cursor)
        _check(kind.null_branch is not None and (some | (branch == kind.null_branch)).all())
        rows = np.flatnonzero(some)
        part = cursor.only(rows)
        column = decode(part)
        cursor.at[rows] = part.at
        return spread(column, some)

    return read


def _boolean(kind: ValueType) -> Decode:  # noqa: ARG001 - as the others
    def read(cursor: _Cursor) -> Array:
        bytes_ = cursor.data[cursor.skip(1)]
        _check((bytes_ <= 1).all())
        return fixed_width(bytes_.astype(np.bool_), pa.bool_())

    return read


_MOST_OF_INT: Final = (1 << 31) - 1
_RANGES: Final = {
    "time-millis": (0, 86_400_000 - 1),
    "time-micros": (0, 86_400_000_000 - 1),
    "date": (-719_162, 2_932_896),
    "timestamp-millis": (-62_135_596_800_000, 253_402_300_799_999),
    "timestamp-micros": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}
"""Times between the years 1 and 9999, as Python has them."""


def _integer(kind: ValueType) -> Decode:
    lowest, highest = (-_MOST_OF_INT - 1, _MOST_OF_INT) if kind.kind == "int" else (-(1 << 63), (1 << 63) - 1)
    if kind.logical is not None:
        lowest, highest = _RANGES[kind.logical.removeprefix("local-")]
    width = np.int32 if kind.kind == "int" else np.int64
    factor = 1000 if kind.is_in_milliseconds else 1

    def read(cursor: _Cursor) -> Array:
        numbers = cursor.longs()
        _check(((numbers >= lowest) & (numbers <= highest)).all())
        return fixed_width((numbers * factor).astype(width), kind.arrow)

    return read


def _floating(kind: ValueType) -> Decode:
    width, numbers = (4, "<f4") if kind.kind == "float" else (8, "<f8")

    def read(cursor: _Cursor) -> Array:
        return fixed_width(as_kind(cursor.bytes_of(width), numbers), kind.arrow)

    return read


def _bytes(kind: ValueType) -> Decode:
    def read(cursor: _Cursor) -> Array:
        sizes = cursor.longs()
        starts = cursor.skip(sizes)
        if kind.logical == "decimal":
            return _decimals(kind, cursor.data, starts, sizes)
        column = _slices(cursor.data, starts, cursor.at)
        return as_text(column) if kind.kind == "string" else column

    return read


def _slices(data: Numbers, starts: Numbers, stops: Numbers) -> Array:
    """Cut bytes out of the data, in its order: every second value of an array that has the gaps between them, too."""
    borders = as_kind(np.column_stack((starts, stops)).astype(np.int32), "i4")
    with_gaps = without_check(pa.binary(), max(0, len(borders) - 1), [None, borders, data])
    return take_rows(with_gaps, fixed_width(np.arange(0, len(borders), 2, dtype=np.int32), pa.int32()))


_DECIMAL_WIDTH: Final = 16


def _decimals(kind: ValueType, data: Numbers, starts: Numbers, sizes: Numbers) -> Array:
    """Read numbers of up to 16 bytes, the highest first, as Arrow has them: of 16 bytes, the lowest first."""
    _check(((sizes > 0) & (sizes <= _DECIMAL_WIDTH)).all())
    is_negative = data[starts] >= _MORE if len(starts) else np.zeros(0, np.bool_)
    numbers = np.where(is_negative, np.uint8(0xFF), np.uint8(0))[:, None].repeat(_DECIMAL_WIDTH, axis=1)
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        numbers[rows, place] = data[starts[rows] + sizes[rows] - 1 - place]
    column = without_check(kind.arrow, len(starts), [None, numbers])
    column.validate(full=True)
    return column


def _fixed(kind: ValueType) -> Decode:
    def read(cursor: _Cursor) -> Array:
        if kind.logical == "decimal":
            sizes = np.full(len(cursor), kind.size)
            return _decimals(kind, cursor.data, cursor.skip(kind.size), sizes)
        bytes_ = np.ascontiguousarray(cursor.bytes_of(kind.size))
        return cast_to(without_check(pa.binary(kind.size), len(cursor), [None, bytes_]), pa.binary())

    return read


def _enum(kind: ValueType) -> Decode:
    symbols = array_of(kind.symbols, pa.string())

    def read(cursor: _Cursor) -> Array:
        numbers = cursor.longs()
        _check(((numbers >= 0) & (numbers < len(symbols))).all())
        return take_rows(symbols, fixed_width(numbers, pa.int64()))

    return read


def _record(kind: ValueType) -> Decode:
    decoders = [_decoder(field.type) for field in kind.fields]

    def read(cursor: _Cursor) -> Array:
        _check(decoders)
        return struct_array([one(cursor) for one in decoders], kind.arrow)

    return read


def _array(kind: ValueType) -> Decode:
    decode = _decoder(kind.of_items)

    def read(cursor: _Cursor) -> Array:
        counts, (items,) = _in_blocks(cursor, [(decode, kind.of_items)])
        return list_array(counts, items, kind.arrow)

    return read


def _map(kind: ValueType) -> Decode:
    decoders = [(_decoder(TEXT), TEXT), (_decoder(kind.of_items), kind.of_items)]

    def read(cursor: _Cursor) -> Array:
        counts, (keys, values) = _in_blocks(cursor, decoders)
        return map_array(counts, keys, values, kind.arrow)

    return read


def _in_blocks(cursor: _Cursor, decoders: Sequence[tuple[Decode, ValueType]]) -> tuple[Numbers, list[Array]]:
    """Read the items of arrays or maps: the first of all messages, then the second of those that have two, and so on.

    Return how many each message has, and the parts of the items, in the order of the messages.
    """
    counts = np.zeros(len(cursor), np.int64)
    parts: list[list[Array]] = [[] for _ in decoders]
    owners: list[Numbers] = []
    rows = np.arange(len(cursor))
    while rows.size:
        part = cursor.only(rows)
        left = _block_sizes(part)
        cursor.at[rows] = part.at
        rows, left = rows[left > 0], left[left > 0]
        counts[rows] += left
        owner = rows
        while owner.size:
            part = cursor.only(owner)
            for columns, (decode, _) in zip(parts, decoders, strict=True):
                columns.append(decode(part))
            cursor.at[owner] = part.at
            owners.append(owner)
            left = left - 1
            owner, left = owner[left > 0], left[left > 0]
    if not owners:
        return counts, [array_of([], kind.arrow) for _, kind in decoders]
    order = fixed_width(np.argsort(np.concatenate(owners), kind="stable"), pa.int64())
    return counts, [take_rows(concat_arrays(columns), order) for columns in parts]


def _block_sizes(cursor: _Cursor) -> Numbers:
    """Read how many items the next block of each message has: zero ends it, and after a negative number its bytes."""
    sizes = cursor.longs()
    with_bytes = np.flatnonzero(sizes < 0)
    if with_bytes.size:
        part = cursor.only(with_bytes)
        part.longs()
        cursor.at[with_bytes] = part.at
        sizes = np.abs(sizes)
    _check(((sizes >= 0) & (sizes <= cursor.end - cursor.at)).all())
    _check(sizes.max() * _STEPS_THAT_PAY <= sizes.sum() + _STEPS_THAT_PAY * _STEPS_THAT_PAY)
    return sizes


_DECODERS: Final[dict[str, Callable[[ValueType], Decode]]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _floating,
    "double": _floating,
    "bytes": _bytes,
    "string": _bytes,
    "fixed": _fixed,
    "enum": _enum,
    "record": _record,
    "array": _array,
    "map": _map,
}
