"""Compares Avro schemas, which the types AVRO, JSON and PROTOBUF have, as brokers do by default (FULL).

Two definitions are the same if they are equal when parsed, without documentation. A new schema is compatible if each of
the two can read what the other wrote: so a field that only one of them has needs a default. That of a consumer has only
to read.
"""

# JSON has no types that a checker could know.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
from typing import Any, Final, cast

__all__ = ["obstacle", "parsed"]

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


def obstacle(latest: Any, new: Any, *, only_reads: bool = False) -> str | None:  # noqa: ANN401 - JSON
    """Return what keeps one schema from reading what the other wrote; None if each reads the other's.

    If the new one `only_reads`, the latest one need not read what it would write.
    """
    both = ((latest, new, "the new schema"), (new, latest, "the latest schema"))
    for writer, reader, which in both[:1] if only_reads else both:
        reading = _Reading(writer, reader)
        if not reading.reads(writer, reader):
            field = "" if reading.field is None else f": see the field {reading.field!r}"
            return f"{which} cannot read what is written with the other{field}"
    return None


class _Reading:
    """Compares the schema of a writer with that of a reader. `field` is the innermost one that cannot be read."""

    def __init__(self, writer: Any, reader: Any) -> None:  # noqa: ANN401 - JSON
        self._writer_names: dict[str, Any] = {}
        self._reader_names: dict[str, Any] = {}
        _collect(writer, self._writer_names)
        _collect(reader, self._reader_names)
        self._compared: set[tuple[str, str]] = set()
        self.field: str | None = None

    def reads(self, writer: Any, reader: Any) -> bool:  # noqa: ANN401, PLR0911 - JSON; a line for each type
        """Return whether the reader's schema reads what the writer's wrote."""
        writer, reader = _resolved(writer, self._writer_names), _resolved(reader, self._reader_names)
        if isinstance(writer, list):
            return all(self.reads(one, reader) for one in writer)
        if isinstance(reader, list):
            if any(self.reads(writer, one) for one in reader):
                self.field = None  # of another branch
                return True
            return False
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
        for field in reader["fields"]:
            name = field["name"]
            if not (self.reads(fields[name], field["type"]) if name in fields else "default" in field):
                self.field = self.field or str(name)
                return False
        return True


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
