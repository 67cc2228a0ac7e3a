"""The types of Avro, in Spark and in Arrow: topics with an AVRO or a JSON schema define their records in Avro.

A type that Spark does not have, such as a union of several types or a record that contains itself, is refused: such
topics can be read as bytes. Everything may be null in Spark, as a tombstone has nothing, and JSON may lack a field.
"""

from collections.abc import Mapping
from typing import Any, Final

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

from pulsar_actors.exceptions import InvalidConfiguration, WrongContent
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.schema.codec import items_of

__all__ = ["TEXT", "FieldType", "ValueType", "null_refused", "value_type"]


class ValueType(NamedTuple):
    """A type: its kind and logical type in Avro, and what it is in Spark and in Arrow."""

    kind: str
    spark: DataType
    arrow: Any
    logical: str | None = None
    name: str = ""
    """The name of a record, an enum or a fixed, without its namespace."""
    fields: "tuple[FieldType, ...]" = ()
    """Those of a record."""
    item: "ValueType | None" = None
    """The type of the items of an array, or of the values of a map."""
    symbols: tuple[str, ...] = ()
    size: int = 0
    """The bytes of a `fixed`."""
    value_branch: int | None = None
    """The number of the type in a union with null; None if it stands alone."""
    null_branch: int | None = None

    @property
    def of_items(self) -> "ValueType":
        """`item` of an array or a map."""
        assert self.item is not None  # noqa: S101 - for type checkers
        return self.item

    @property
    def is_in_milliseconds(self) -> bool:
        """True for a timestamp in milliseconds; Spark and Arrow have microseconds."""
        return self.logical in {"timestamp-millis", "local-timestamp-millis"}


class FieldType(NamedTuple):
    """A field of a record. `default` is None also where null is the default."""

    name: str
    type: ValueType
    has_default: bool = False
    default: Any = None
    has_aliases: bool = False


def value_type(definition: Any) -> ValueType:  # noqa: ANN401 - JSON
    """Return the type that a schema defines."""
    return _Walk().value(definition, "value", "")


_UTC_TIME: Final = pa.timestamp("us", "UTC")
_LOCAL_TIME: Final = pa.timestamp("us")

_TYPES: Final[Mapping[Any, ValueType]] = {
    "boolean": ValueType("boolean", BooleanType(), pa.bool_()),
    "int": ValueType("int", IntegerType(), pa.int32()),
    "long": ValueType("long", LongType(), pa.int64()),
    "float": ValueType("float", FloatType(), pa.float32()),
    "double": ValueType("double", DoubleType(), pa.float64()),
    "bytes": ValueType("bytes", BinaryType(), pa.binary()),
    "string": ValueType("string", StringType(), pa.string()),
    ("int", "date"): ValueType("int", DateType(), pa.date32(), "date"),
    ("int", "time-millis"): ValueType("int", IntegerType(), pa.int32(), "time-millis"),
    ("long", "time-micros"): ValueType("long", LongType(), pa.int64(), "time-micros"),
    ("long", "timestamp-millis"): ValueType("long", TimestampType(), _UTC_TIME, "timestamp-millis"),
    ("long", "timestamp-micros"): ValueType("long", TimestampType(), _UTC_TIME, "timestamp-micros"),
    ("long", "local-timestamp-millis"): ValueType("long", TimestampNTZType(), _LOCAL_TIME, "local-timestamp-millis"),
    ("long", "local-timestamp-micros"): ValueType("long", TimestampNTZType(), _LOCAL_TIME, "local-timestamp-micros"),
    ("string", "uuid"): ValueType("string", StringType(), pa.string(), "uuid"),
}
"""Times of a day are whole numbers, as Avro has them."""

TEXT: Final = _TYPES["string"]
"""The type of the keys of a map."""
_MOST_DIGITS: Final = 38


class _Walk:
    """A walk through a definition. `known` has the named types that were defined on the way, by full name."""

    def __init__(self) -> None:
        self._known: dict[str, ValueType | None] = {}  # None while it is being defined

    def value(self, definition: Any, where: str, namespace: str) -> ValueType:  # noqa: ANN401 - JSON
        """Return the type of a definition."""
        if isinstance(definition, list):
            return self._union(items_of(definition), where, namespace)
        if isinstance(definition, str):
            return _TYPES.get(definition) or self._named(definition, where, namespace)
        kind = definition["type"]
        if isinstance(kind, (list, dict)):
            return self.value(kind, where, namespace)
        logical = definition.get("logicalType")
        return _TYPES.get((kind, logical)) or self._complex(definition, where, namespace)

    def _complex(self, definition: Mapping[str, Any], where: str, namespace: str) -> ValueType:  # noqa: PLR0911 - a type each
        match definition["type"]:
            case "record":
                return self._record(definition, where, namespace)
            case "array":
                item = self.value(definition["items"], f"{where}[]", namespace)
                listed = pa.list_(pa.field("element", item.arrow))
                return ValueType("array", ArrayType(item.spark), listed, item=item)
            case "map":
                item = self.value(definition["values"], f"{where}{{}}", namespace)
                mapped = pa.map_(pa.string(), item.arrow)
                return ValueType("map", MapType(StringType(), item.spark), mapped, item=item)
            case "enum":
                symbols = tuple(definition["symbols"])
                return self._define(definition, namespace, _TYPES["string"]._replace(kind="enum", symbols=symbols))
            case "fixed":
                fixed = ValueType("fixed", BinaryType(), pa.binary(), size=definition["size"])
                return self._define(definition, namespace, _with_decimals(fixed, definition, where))
            case "bytes":
                return _with_decimals(_TYPES["bytes"], definition, where)
            case name:
                return self.value(name, where, namespace)

    def _named(self, name: str, where: str, namespace: str) -> ValueType:
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        for one in (full_name, name):
            if one in self._known:
                known = self._known[one]
                if known is None:
                    raise _refusal(where, f"the record {name} contains itself")
                return known
        raise _refusal(where, f"the type {name} is not defined")

    def _define(self, definition: Mapping[str, Any], namespace: str, value: ValueType) -> ValueType:
        name = _full_name(definition, namespace)
        self._known[name] = named = value._replace(name=name.rpartition(".")[2])
        return named

    def _union(self, members: list[Any], where: str, namespace: str) -> ValueType:
        others = [number for number, one in enumerate(members) if one != "null"]
        if len(others) != 1:
            raise _refusal(where, f"it is a union of {len(others)} types")
        (number,) = others
        null = members.index("null") if "null" in members else None
        return self.value(members[number], where, namespace)._replace(value_branch=number, null_branch=null)

    def _record(self, definition: Mapping[str, Any], where: str, namespace: str) -> ValueType:
        self._known[_full_name(definition, namespace)] = None
        inner = definition.get("namespace", definition["name"].rpartition(".")[0] or namespace)
        fields = tuple(
            FieldType(
                one["name"],
                self.value(one["type"], f"{where}.{one['name']}", inner),
                "default" in one,
                one.get("default"),
                "aliases" in one,
            )
            for one in definition["fields"]
        )
        spark = StructType([StructField(one.name, one.type.spark) for one in fields])
        arrow = pa.struct([pa.field(one.name, one.type.arrow) for one in fields])
        return self._define(definition, namespace, ValueType("record", spark, arrow, fields=fields))


def _full_name(definition: Mapping[str, Any], namespace: str) -> str:
    name, space = definition["name"], definition.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"


def _with_decimals(plain: ValueType, definition: Mapping[str, Any], where: str) -> ValueType:
    if definition.get("logicalType") != "decimal":
        return plain
    precision, scale = definition["precision"], definition.get("scale", 0)
    if precision > _MOST_DIGITS:
        raise _refusal(where, f"it has {precision} digits, and Spark has {_MOST_DIGITS}")
    spark, arrow = DecimalType(precision, scale), pa.decimal128(precision, scale)
    return plain._replace(spark=spark, arrow=arrow, logical="decimal")


def null_refused(name: str) -> WrongContent:
    """Return the error of a null in a field that may not be null."""
    return WrongContent(f"the field {name} is null, and the schema of the topic says that it is not")


def _refusal(where: str, what: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"{where} of the topic's schema has no type in Spark: {what}. To read bytes, say valueAs=bytes"
    )
