"""Compares Avro schemas, which the types AVRO, JSON and PROTOBUF have, as brokers do by default (FULL).

Two definitions are the same if they are equal when parsed, without documentation. A new schema is compatible if each of
the two can read what the other wrote: so a field that only one of them has needs a default.
"""

# JSON has no types that a checker could know.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
from typing import Any, Final, cast

__all__ = ["are_compatible", "parsed"]

_PROMOTIONS: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_DOCUMENTATION: Final = "doc"


def parsed(data: bytes) -> Any:  # noqa: ANN401 - JSON
    """Parse a definition without its documentation; None if it is no JSON."""
    try:
        return json.loads(data, object_hook=lambda one: {key: one[key] for key in one if key != _DOCUMENTATION})
    except (ValueError, RecursionError):
        return None


def are_compatible(latest: Any, new: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether each schema reads what the other wrote."""
    return _Reading(latest, new).reads(latest, new) and _Reading(new, latest).reads(new, latest)


class _Reading:
    """Compares the schema of a writer with that of a reader."""

    def __init__(self, writer: Any, reader: Any) -> None:  # noqa: ANN401 - JSON
        self._writer_names: dict[str, Any] = {}
        self._reader_names: dict[str, Any] = {}
        _collect(writer, self._writer_names)
        _collect(reader, self._reader_names)
        self._compared: set[tuple[str, str]] = set()

    def reads(self, writer: Any, reader: Any) -> bool:  # noqa: ANN401, PLR0911 - JSON; a line for each type
        """Return whether the reader's schema reads what the writer's wrote."""
        writer, reader = _resolved(writer, self._writer_names), _resolved(reader, self._reader_names)
        if isinstance(writer, list):
            return all(self.reads(one, reader) for one in writer)
        if isinstance(reader, list):
            return any(self.reads(writer, one) for one in reader)
        written, read = _type_of(writer), _type_of(reader)
        if written != read:
            return read in _PROMOTIONS.get(written, ())
        match written:
            case "record":
                return self._reads_record(writer, reader)
            case "enum":
                return "default" in reader or set(writer["symbols"]) <= set(reader["symbols"])
            case "array":
                return self.reads(writer["items"], reader["items"])
            case "map":
                return self.reads(writer["values"], reader["values"])
            case _:
                return True

    def _reads_record(self, writer: Any, reader: Any) -> bool:  # noqa: ANN401 - JSON
        names = writer["name"], reader["name"]
        if names in self._compared:  # a record that contains itself
            return True
        self._compared.add(names)
        fields = {field["name"]: field["type"] for field in writer["fields"]}
        return all(
            self.reads(fields[field["name"]], field["type"]) if field["name"] in fields else "default" in field
            for field in reader["fields"]
        )


def _type_of(schema: Any) -> str:  # noqa: ANN401 - JSON
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _resolved(schema: Any, names: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(schema, str):
        return names.get(schema.rpartition(".")[2], schema)
    if isinstance(schema, dict) and isinstance(schema["type"], (dict, list)):
        return cast("dict[str, Any]", schema)["type"]
    return schema


def _collect(schema: Any, names: dict[str, Any]) -> None:  # noqa: ANN401 - JSON
    """Note all named types of a schema, by their names without the namespace."""
    if isinstance(schema, list):
        for one in schema:
            _collect(one, names)
    elif isinstance(schema, dict):
        inner = cast("dict[str, Any]", schema)
        if "name" in inner and inner.get("type") in ("record", "enum", "fixed"):
            names[str(inner["name"]).rpartition(".")[2]] = inner
        for key in ("type", "items", "values", "fields"):
            _collect(inner.get(key), names)
