"""Values of single messages, as fastavro and Python's `json` decode them, made those that Arrow takes."""

from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable, Mapping
from datetime import time
from decimal import Decimal
from typing import Any, Final, TypeAlias

from pulsar_actors.spark.avro_types import ValueType

__all__ = ["Convert", "from_fastavro", "from_json", "microseconds_of_day", "milliseconds_of_day"]

Convert: TypeAlias = Callable[[Any], Any]


def from_fastavro(kind: ValueType) -> Convert | None:
    """Return the conversion of what fastavro decodes; None if there is nothing to convert."""
    simple = _OF_FASTAVRO.get(kind.logical)
    return simple or _of_items(kind, from_fastavro)


def from_json(kind: ValueType) -> Convert | None:
    """Return the conversion of what `json` decodes: numbers for times, texts for bytes; a record gets its defaults."""
    return _OF_JSON.get((kind.kind, kind.logical)) or _of_items(kind, from_json, defaults=True)


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


_OF_FASTAVRO: Final[Mapping[str | None, Convert]] = {
    "time-millis": milliseconds_of_day,
    "time-micros": microseconds_of_day,
    "uuid": str,
}
_OF_JSON: Final[Mapping[tuple[str, str | None], Convert]] = {
    ("float", None): _float_of_json,
    ("double", None): _float_of_json,
    ("bytes", None): _bytes_of_json,
    ("fixed", None): _bytes_of_json,
    ("bytes", "decimal"): _decimal_of_json,
    ("fixed", "decimal"): _decimal_of_json,
    ("long", "timestamp-millis"): (1000).__mul__,
    ("long", "local-timestamp-millis"): (1000).__mul__,
}


def _of_items(
    kind: ValueType, converter: Callable[[ValueType], Convert | None], *, defaults: bool = False
) -> Convert | None:
    match kind.kind:
        case "array":
            item = converter(kind.of_items)
            return None if item is None else _in_list(item)
        case "map":
            return _in_pairs(converter(kind.of_items))
        case "record":
            converts = {field.name: one for field in kind.fields if (one := converter(field.type)) is not None}
            missing = {one.name: one.default for one in kind.fields if one.default is not None} if defaults else {}
            return _in_record(converts, missing) if converts or missing else None
        case _:
            return None


def _in_list(each: Convert) -> Convert:
    def convert(values: list[Any]) -> list[Any]:
        return [None if one is None else each(one) for one in values]

    return convert


def _in_pairs(each: Convert | None) -> Convert:
    def convert(pairs: dict[str, Any]) -> list[tuple[str, Any]]:
        return [(key, one if each is None or one is None else each(one)) for key, one in pairs.items()]

    return convert


def _in_record(converts: Mapping[str, Convert], missing: Mapping[str, Any]) -> Convert:
    def convert(record: dict[str, Any]) -> dict[str, Any]:
        converted = {**missing, **record}
        for name, each in converts.items():
            one = converted.get(name)
            converted[name] = None if one is None else each(one)
        return converted

    return convert
