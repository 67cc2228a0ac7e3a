"""The JSON schema of a class of records."""

import json
from typing import Any, Final

from pulsar_actors.client.schema import Schema, SchemaType
from pulsar_actors.exceptions import WrongContent
from pulsar_actors.schema.codec import finite
from pulsar_actors.schema.definition import RecordMeta
from pulsar_actors.schema.record_types import encoded, record_type_of, undecodable

__all__ = ["JsonSchema"]

_FAULTS: Final = (TypeError, ValueError, AttributeError, KeyError, ArithmeticError, RecursionError)
"""What codecs raise. Numbers that are too large, and texts that are no decimal, are an ArithmeticError."""


class JsonSchema(Schema):
    """JSON, of a `Record` or of a class with type hints: a dataclass, a TypedDict, a pydantic model and others.

    The definition in the registry is an Avro schema, as Pulsar wants it. Unknown fields are ignored, and missing ones
    get their default.

    Records are written as the official client writes them, but compact: enums by value, bytes as text, and with nulls.
    With `java_style` they are written as Java writes them: enums by name, bytes in base 64, NaN and infinities as text,
    and without nulls. Classes with type hints are always written like that.
    """

    def __init__(self, record_cls: Any, *, java_style: bool = False) -> None:  # noqa: ANN401 - a type, or a hint
        kind = record_type_of(record_cls, as_json=True, java_style=java_style)
        super().__init__(kind.instances, SchemaType.JSON, kind.avro, "JSON")
        self._arguments = record_cls, java_style
        self._dump, self._load = kind.codec
        self._has_nan = isinstance(record_cls, RecordMeta) and not java_style  # as in the official client
        self._writes_text = getattr(record_cls, "model_dump_json", None) is not None

    def encode(self, value: object) -> bytes:
        """Encode a record."""
        if not isinstance(value, self._record_cls or object):
            expected = getattr(self._record_cls, "__name__", self._record_cls)
            raise WrongContent(f"{self!r} takes {expected}, not {type(value).__name__}")
        try:
            dumped = value if self._dump is None else self._dump(value)
            if self._writes_text:
                return str(dumped).encode()
            return self._text(dumped).encode()
        except _FAULTS as fault:
            raise encoded(self, fault) from fault

    def _text(self, dumped: object) -> str:
        if self._has_nan:
            return json.dumps(dumped, separators=(",", ":"), ensure_ascii=False)
        try:
            return json.dumps(dumped, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        except ValueError:
            return json.dumps(finite(dumped), separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    def decode(self, data: bytes) -> object:
        """Decode a record."""
        try:
            value = data if self._writes_text else json.loads(data)
            return value if self._load is None else self._load(value)
        except _FAULTS as fault:
            raise undecodable(self, fault) from fault

    def __reduce__(self) -> tuple[Any, ...]:
        record_cls, java_style = self._arguments
        return _json_schema, (record_cls, java_style)

    def __repr__(self) -> str:
        record_cls = self._arguments[0]
        return f"JsonSchema({getattr(record_cls, '__name__', record_cls)})"


def _json_schema(record_cls: object, java_style: bool) -> JsonSchema:
    return JsonSchema(record_cls, java_style=java_style)
