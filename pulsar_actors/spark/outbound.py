"""Record batches into messages: the columns that a writer takes."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from pulsar_actors.exceptions import InvalidConfiguration, InvalidMessage
from pulsar_actors.spark.arrow import Array, bytes_of, column, values_of
from pulsar_actors.spark.drafts import NOTHING, Traits, said_of

__all__ = ["Outbound"]

_BYTES: Final = ("string", "binary")
_TIMES: Final = ("timestamp", "bigint")

_TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "value": _BYTES,
    "__key": _BYTES,
    "__topic": ("string",),
    "__orderingKey": _BYTES,
    "__eventTime": _TIMES,
    "__deliverAt": _TIMES,
    "__messageProperties": ("map<string,string>",),
}
"""By the names that Spark has for types, which are the same where nulls may be and where not."""
_OF_THE_BROKER: Final = {"__messageId", "__publishTime", "__sequenceId", "__producerName", "__redeliveryCount"}
"""What a message that was read says of itself, and no message that is written: it is passed over."""

_TRAITS: Final[Mapping[str, str]] = {
    "__key": "key",
    "__orderingKey": "ordering_key",
    "__eventTime": "event_time",
    "__deliverAt": "deliver_at",
    "__messageProperties": "properties",
}


class Outbound:
    """The columns of one query, as far as messages are made of them; `topic` is for rows that name none."""

    def __init__(self, schema: StructType, topic: str | None, sequence_column: str | None) -> None:
        names = schema.fieldNames()
        self._sequence_column = sequence_column
        if sequence_column is not None:
            _check_sequence(schema, sequence_column)
        if "value" not in names:
            hint = "rename the column, or make one of several: to_json(struct('*')).alias('value')"
            raise InvalidConfiguration(f"the rows to write have no column value, but {', '.join(names)}: {hint}")
        for field in schema.fields:
            if field.name == sequence_column:
                continue
            takes = _TAKES.get(field.name)
            if takes is None and field.name not in _OF_THE_BROKER:
                raise InvalidConfiguration(
                    f"a message has no place for the column {field.name}: {_hint(field.name)}. The columns are "
                    f"{', '.join(_TAKES)}"
                )
            if takes is not None and field.dataType.simpleString() not in takes:
                what = f"is of type {' or '.join(takes)}, not {field.dataType.simpleString()}"
                raise InvalidConfiguration(f"{field.name} {what}")
        if topic is None and "__topic" not in names:
            raise InvalidConfiguration("where to? Give the option topic, or a column __topic")
        self._topic = topic
        self._traits = {name: trait for name, trait in _TRAITS.items() if name in names}
        if sequence_column is not None:
            self._traits[sequence_column] = "sequence_id"

    def messages(self, batch: pa.RecordBatch) -> tuple[list[bytes], list[object]]:
        """Make the payloads of rows, and what is said of each."""
        payloads: list[Any] = bytes_of(column(batch, "value"))
        everything: dict[str, Array] = {name: column(batch, name) for name in self._traits}
        columns = {name: one for name, one in everything.items() if one.null_count < batch.num_rows}
        if not columns and None not in payloads:
            return payloads, [None] * len(payloads)
        traits = [NOTHING] * len(payloads)
        if columns:
            names = [self._traits[name] for name in columns]
            rows = zip(*(values_of(one) for one in columns.values()), strict=True)
            traits = [Traits(**dict(zip(names, row, strict=True))) for row in rows]
        said: list[object] = [
            said_of(len(payload or b""), one, is_null=payload is None)
            for payload, one in zip(payloads, traits, strict=True)
        ]
        return [payload or b"" for payload in payloads], said

    def sequence(self, batch: pa.RecordBatch) -> list[Any]:
        """Give the numbers of the rows, if they have a column for that."""
        return [] if self._sequence_column is None else values_of(column(batch, self._sequence_column))

    def topics(self, batch: pa.RecordBatch) -> Sequence[str] | None:
        """Give the topic of each row; None, if it is one for all."""
        if self._topic is not None:
            return None
        topics = values_of(column(batch, "__topic"))
        if None in topics:
            raise InvalidMessage("a row has no __topic, and there is no option topic for those")
        return topics


def _hint(name: str) -> str:
    near = get_close_matches(f"__{name.lstrip('_')}", _TAKES, 1)
    rather = f"{near[0]} is one, if that is meant; or else " if near else ""
    return f"{rather}put it into value, with to_json(), or into __messageProperties"


def _check_sequence(schema: StructType, name: str) -> None:
    if name in _TAKES:
        raise InvalidConfiguration(f"sequenceColumn names {name}, which says something of the message itself: copy it")
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    if name not in kinds:
        raise InvalidConfiguration(f"sequenceColumn names {name}, and the rows have no such column")
    if kinds[name] not in {"int", "bigint"}:
        raise InvalidConfiguration(f"{name} is to have whole numbers, not {kinds[name]}")
