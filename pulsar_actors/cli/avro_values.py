"""Values of Avro in JSON: what `consume --json` writes, `produce --schema avro:FILE` reads.

Bytes are text, a character for each, as in Avro's JSON. Decimals, dates and times are text, too: "1.25", "2020-01-31",
"2020-01-31 12:00:00+00:00". A value of a union does not say its type: it is the first that the value can be, and a text
is a string if it can be one.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast

from pulsar_actors.exceptions import WrongContent
from pulsar_actors.schema.codec import AvroType, items_of
from pulsar_actors.schema.schema_avro import fastavro_module

__all__ = ["AvroValues"]


class AvroValues:
    """Makes the values of one schema. What does not fit it at all is left as it is: the encoder refuses that."""

    def __init__(self, definition: AvroType) -> None:
        self._named: dict[str, Any] = {}
        self._schema = fastavro_module().parse_schema(definition, self._named)

    def value_of(self, given: object) -> object:
        """Return the value for an object of JSON. Raise WrongContent for a text that is no value of its type."""
        return self._value(self._schema, given)

    def _value(self, schema: Any, given: Any) -> Any:  # noqa: ANN401 - JSON
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self._of_union(items_of(schema), given)
        kind = _kind(schema)
        match given:
            case str():
                return _of_text(kind, schema, given)
            case list() if kind == "array":
                return [self._value(schema["items"], one) for one in items_of(given)]
            case dict() if kind == "map":
                return {key: self._value(schema["values"], one) for key, one in _object(given).items()}
            case dict() if kind == "record":
                return self._of_record(schema, _object(given))
            case _:
                return given

    def _of_record(self, schema: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        record = dict(given)
        for field in schema["fields"]:
            name = field["name"]
            if name in given:
                try:
                    record[name] = self._value(field["type"], given[name])
                except ValueError as fault:
                    raise WrongContent(f"{name}: {fault}") from None
        return record

    def _of_union(self, union: list[Any], given: Any) -> Any:  # noqa: ANN401 - JSON
        for one in sorted(union, key=lambda one: _kind(one) != "string"):
            schema = self._resolved(one)
            if isinstance(given, str):
                try:
                    return _of_text(_kind(schema), schema, given)
                except ValueError:
                    continue
            if _holds(schema, given):
                return self._value(schema, given)
        return given

    def _resolved(self, schema: Any) -> Any:  # noqa: ANN401 - JSON
        return self._named.get(schema, schema) if isinstance(schema, str) else schema


def _kind(schema: Any) -> str:  # noqa: ANN401 - JSON
    return schema if isinstance(schema, str) else schema["type"]


def _object(given: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return cast("dict[str, Any]", given)


def _holds(schema: Any, given: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether a list or an object can be a value of the type, by the names in it."""
    kind = _kind(schema)
    if kind != "record" or not isinstance(given, dict):
        return (kind, type(given)) in {("array", list), ("map", dict)}
    needed = {field["name"] for field in schema["fields"] if "default" not in field}
    return needed <= _object(given).keys() <= {field["name"] for field in schema["fields"]}


def _of_text(kind: str, schema: Any, text: str) -> Any:  # noqa: ANN401 - JSON
    details: Mapping[str, Any] = {} if isinstance(schema, str) else schema
    read = _TEXTS.get((kind, details.get("logicalType")), _TEXTS.get((kind, None)))
    if read is None or text not in details.get("symbols", [text]):
        raise WrongContent(f"{text!r} is no value of the type {kind}")
    return read(text)


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise WrongContent(f"{text!r} has characters that are no bytes") from None


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise WrongContent(f"{text!r} is no decimal") from None


def _local(text: str) -> datetime:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is not None:
        raise WrongContent(f"{text!r} has a time zone, and a local time has none")
    return moment


def _timestamp(text: str) -> datetime:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise WrongContent(f"{text!r} needs a time zone: a point in time has one")
    return moment


_TEXTS: Final[Mapping[tuple[str, str | None], Callable[[str], object]]] = {
    ("string", None): str,
    ("enum", None): str,
    ("bytes", None): _bytes,
    ("fixed", None): _bytes,
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("int", "date"): date.fromisoformat,
    ("int", "time-millis"): time.fromisoformat,
    ("long", "time-micros"): time.fromisoformat,
    ("long", "timestamp-millis"): _timestamp,
    ("long", "timestamp-micros"): _timestamp,
    ("long", "local-timestamp-millis"): _local,
    ("long", "local-timestamp-micros"): _local,
}
