"""The types of Avro, in Spark and in Arrow: topics with an AVRO or a JSON schema define their records in Avro.

A type that Spark does not have, such as a union of several types or a record that contains itself, is refused: such
topics can be read as bytes. Everything may be null in Spark, as a tombstone has nothing, and JSON may lack a field.
"""

from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable, Mapping
from datetime import time
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.schema.codec import items_of

__all__ = [
    "Convert",
    "TypedValue",
    "avro_value",
    "json_value",
    "microseconds_of_day",
    "milliseconds_of_day",
    "same",
]

Convert: TypeAlias = Callable[[Any], Any]


class TypedValue(NamedTuple):
    """A type: in Spark, in Arrow, and how a decoded value becomes one that Arrow takes; None if it is one."""

    spark: DataType
    arrow: Any
    convert: Convert | None = None
    default: Any = None
    """What a JSON record has that lacks the field."""


def avro_value(definition: Any) -> TypedValue:  # noqa: ANN401 - JSON
    """Return the type of values that fastavro has decoded."""
    return _Walk(_OF_FASTAVRO).value(definition, "value", "")


def json_value(definition: Any) -> TypedValue:  # noqa: ANN401 - JSON
    """Return the type of values that Python's `json` has decoded."""
    return _Walk(_OF_JSON).value(definition, "value", "")


def milliseconds_of_day(value: time) -> int:
    """Return a time as Avro's time-millis."""
    return microseconds_of_day(value) // 1000


def microseconds_of_day(value: time) -> int:
    """Return a time as Avro's time-micros."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _bytes_of_json(value: Any) -> bytes:  # noqa: ANN401 - of JSON
    """Read bytes as Java writes them, in base 64; other texts are the bytes of Avro's own JSON."""
    try:
        return b64decode(value, validate=True)
    except NoBase64:
        return bytes(value, "latin-1")


def _float_of_json(value: Any) -> float:  # noqa: ANN401 - of JSON
    return float(value)  # also of the texts NaN and Infinity


def _decimal_of_json(value: Any) -> Decimal:  # noqa: ANN401 - of JSON
    return Decimal(str(value))


_UTC_TIME: Final = pa.timestamp("us", "UTC")
_LOCAL_TIME: Final = pa.timestamp("us")
_THOUSANDFOLD: Final[Convert] = (1000).__mul__

_PRIMITIVES: Final[Mapping[str, TypedValue]] = {
    "boolean": TypedValue(BooleanType(), pa.bool_()),
    "int": TypedValue(IntegerType(), pa.int32()),
    "long": TypedValue(LongType(), pa.int64()),
    "float": TypedValue(FloatType(), pa.float32()),
    "double": TypedValue(DoubleType(), pa.float64()),
    "bytes": TypedValue(BinaryType(), pa.binary()),
    "string": TypedValue(StringType(), pa.string()),
    "enum": TypedValue(StringType(), pa.string()),
    "fixed": TypedValue(BinaryType(), pa.binary()),
}
_LOGICAL: Final[Mapping[tuple[str, str], TypedValue]] = {
    ("int", "date"): TypedValue(DateType(), pa.date32()),
    ("int", "time-millis"): TypedValue(IntegerType(), pa.int32(), milliseconds_of_day),
    ("long", "time-micros"): TypedValue(LongType(), pa.int64(), microseconds_of_day),
    ("long", "timestamp-millis"): TypedValue(TimestampType(), _UTC_TIME),
    ("long", "timestamp-micros"): TypedValue(TimestampType(), _UTC_TIME),
    ("long", "local-timestamp-millis"): TypedValue(TimestampNTZType(), _LOCAL_TIME),
    ("long", "local-timestamp-micros"): TypedValue(TimestampNTZType(), _LOCAL_TIME),
    ("string", "uuid"): TypedValue(StringType(), pa.string(), str),
}
"""Times of a day are whole numbers, as Avro has them."""

_OF_FASTAVRO: Final[Mapping[Any, TypedValue]] = {**_PRIMITIVES, **_LOGICAL}
_OF_JSON: Final[Mapping[Any, TypedValue]] = {
    **_PRIMITIVES,
    **{key: one._replace(convert=None) for key, one in _LOGICAL.items()},
    "float": _PRIMITIVES["float"]._replace(convert=_float_of_json),
    "double": _PRIMITIVES["double"]._replace(convert=_float_of_json),
    "bytes": _PRIMITIVES["bytes"]._replace(convert=_bytes_of_json),
    "fixed": _PRIMITIVES["fixed"]._replace(convert=_bytes_of_json),
    ("long", "timestamp-millis"): _LOGICAL["long", "timestamp-millis"]._replace(convert=_THOUSANDFOLD),
    ("long", "local-timestamp-millis"): _LOGICAL["long", "local-timestamp-millis"]._replace(convert=_THOUSANDFOLD),
}
"""JSON has numbers where fastavro makes dates and times of them."""

_MOST_DIGITS: Final = 38


class _Walk:
    """A walk through a definition. `known` has the named types that were defined on the way, by full name."""

    def __init__(self, types: Mapping[Any, TypedValue]) -> None:
        self._types = types
        self._is_json = types is _OF_JSON
        self._known: dict[str, TypedValue | None] = {}  # None while it is being defined

    def value(self, definition: Any, where: str, namespace: str) -> TypedValue:  # noqa: ANN401, PLR0911 - JSON; a type each
        """Return the type of a definition."""
        if isinstance(definition, list):
            return self._union(items_of(definition), where, namespace)
        if isinstance(definition, str):
            return self._types.get(definition) or self._named(definition, where, namespace)
        kind = definition["type"]
        if isinstance(kind, (list, dict)):
            return self.value(kind, where, namespace)
        logical = definition.get("logicalType")
        if logical == "decimal":
            return self._decimal(definition, where)
        if (kind, logical) in self._types:
            return self._types[kind, logical]
        match kind:
            case "record":
                return self._record(definition, where, namespace)
            case "array":
                return self._array(definition, where, namespace)
            case "map":
                return self._map(definition, where, namespace)
            case "enum" | "fixed":
                self._define(definition, namespace, self._types[kind])
                return self._types[kind]
            case _:
                return self.value(kind, where, namespace)

    def _named(self, name: str, where: str, namespace: str) -> TypedValue:
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        for one in (full_name, name):
            if one in self._known:
                known = self._known[one]
                if known is None:
                    raise _refusal(where, f"the record {name} contains itself")
                return known
        raise _refusal(where, f"the type {name} is not defined")

    def _define(self, definition: Mapping[str, Any], namespace: str, value: TypedValue | None) -> None:
        name = definition["name"]
        space = definition.get("namespace", namespace)
        self._known[name if "." in name or not space else f"{space}.{name}"] = value

    def _union(self, members: list[Any], where: str, namespace: str) -> TypedValue:
        others = [one for one in members if one != "null"]
        if len(others) != 1:
            raise _refusal(where, f"it is a union of {len(others)} types")
        return self.value(others[0], where, namespace)

    def _decimal(self, definition: Mapping[str, Any], where: str) -> TypedValue:
        precision, scale = definition["precision"], definition.get("scale", 0)
        if precision > _MOST_DIGITS:
            raise _refusal(where, f"it has {precision} digits, and Spark has {_MOST_DIGITS}")
        convert = _decimal_of_json if self._is_json else None
        return TypedValue(DecimalType(precision, scale), pa.decimal128(precision, scale), convert)

    def _array(self, definition: Mapping[str, Any], where: str, namespace: str) -> TypedValue:
        item = self.value(definition["items"], f"{where}[]", namespace)
        each = _or_none(item)
        convert = None if each is None else _in_list(each)
        return TypedValue(ArrayType(item.spark), pa.list_(pa.field("element", item.arrow)), convert)

    def _map(self, definition: Mapping[str, Any], where: str, namespace: str) -> TypedValue:
        item = self.value(definition["values"], f"{where}{{}}", namespace)
        pairs = _in_pairs(_or_none(item) or same)
        return TypedValue(MapType(StringType(), item.spark), pa.map_(pa.string(), item.arrow), pairs)

    def _record(self, definition: Mapping[str, Any], where: str, namespace: str) -> TypedValue:
        namespace = definition.get("namespace", definition["name"].rpartition(".")[0] or namespace)
        self._define(definition, namespace, None)
        fields = {
            field["name"]: self.value(field["type"], f"{where}.{field['name']}", namespace)._replace(
                default=field.get("default")
            )
            for field in definition["fields"]
        }
        spark = StructType([StructField(name, one.spark) for name, one in fields.items()])
        arrow = pa.struct([pa.field(name, one.arrow) for name, one in fields.items()])
        value = TypedValue(spark, arrow, self._record_converter(fields))
        self._define(definition, namespace, value)
        return value

    def _record_converter(self, fields: Mapping[str, TypedValue]) -> Convert | None:
        each = {name: convert for name, one in fields.items() if (convert := _or_none(one)) is not None}
        defaults = {name: one.default for name, one in fields.items() if one.default is not None}
        if self._is_json and defaults:
            return lambda record: _converted({**defaults, **record}, each)
        return (lambda record: _converted({**record}, each)) if each else None


def _in_list(each: Convert) -> Convert:
    def convert(values: list[Any]) -> list[Any]:
        return [each(one) for one in values]

    return convert


def _in_pairs(each: Convert) -> Convert:
    def convert(pairs: dict[str, Any]) -> list[tuple[str, Any]]:
        return [(key, each(one)) for key, one in pairs.items()]

    return convert


def _converted(record: dict[str, Any], each: Mapping[str, Convert]) -> dict[str, Any]:
    for name, convert in each.items():
        record[name] = convert(record.get(name))
    return record


def _or_none(value: TypedValue) -> Convert | None:
    """Return the conversion of values that may be None, or that a record may lack."""
    convert = value.convert
    return None if convert is None else lambda one: None if one is None else convert(one)


def same(value: Any) -> Any:  # noqa: ANN401 - any value
    """Return a value as it is."""
    return value


def _refusal(where: str, what: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"{where} of the topic's schema has no type in Spark: {what}. To read bytes, say valueAs=bytes"
    )
