"""Schemas that a topic may have, in versions that fit each other, and the values that readers of each version see."""

from collections.abc import Callable
from dataclasses import asdict, field, make_dataclass
from typing import Any

from google.protobuf.message import Message as Command

from pulsar_actors.client.schema import Schema, StringSchema
from pulsar_actors.exceptions import Timeout
from pulsar_actors.schema import (
    AvroSchema,
    Int64Schema,
    JsonSchema,
    KeyValueEncodingType,
    KeyValueSchema,
)
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetSchema, CommandGetSchemaResponse
from tests.scenarios.scene import TEMPORARY, Scene
from tests.scenarios.troubles import ERRORS

NOT_NOW = (*TEMPORARY, Timeout)
"""Errors of a value whose schema cannot be looked up for the moment."""

ADDED = (("one", int, 1), ("two", str, "none"), ("three", float, 0.5))
VERSIONS = tuple(
    make_dataclass(
        "Value", [("text", str), *((name, kind, field(default=value)) for name, kind, value in ADDED[:count])]
    )
    for count in range(len(ADDED) + 1)
)
"""A class for each version: each has one more field than the one before, with a default."""


class Records:
    """Records of Avro or JSON."""

    versions = len(VERSIONS)

    def __init__(self, kind: Callable[[Any], Schema]) -> None:
        self._kind = kind

    def schema(self, version: int) -> Schema:
        return self._kind(VERSIONS[version])

    def value(self, version: int, number: int) -> Any:
        """Make a value, each of whose fields depends on its number; or a null."""
        if number % 5 == 4:
            return None
        return VERSIONS[version](f"value {number}", *(number, f"two of {number}", number / 4)[:version])

    def seen(self, value: Any, version: int) -> Any:
        """Return a value as a reader of another version sees it."""
        if value is None:
            return None
        return VERSIONS[version](**{name: each for name, each in asdict(value).items() if name in fields_of(version)})

    def generic(self, value: Any) -> Any:
        """Return a value as a reader sees it who knows no schema."""
        return None if value is None else asdict(value)


def fields_of(version: int) -> set[str]:
    """Name the fields of a version."""
    return {"text", *(name for name, _, _ in ADDED[:version])}


class Pairs(Records):
    """Keys of text, and values that are records."""

    def __init__(self, kind: Callable[[Any], Schema], encoding: KeyValueEncodingType) -> None:
        super().__init__(kind)
        self._encoding = encoding

    def schema(self, version: int) -> Schema:
        return KeyValueSchema(StringSchema(), super().schema(version), self._encoding)

    def value(self, version: int, number: int) -> Any:
        return f"key {number % 3}", super().value(version, number)

    def seen(self, value: Any, version: int) -> Any:
        key, own = value
        return key, super().seen(own, version)

    def generic(self, value: Any) -> Any:
        key, own = value
        return key, super().generic(own)


class Plain:
    """Values that are no records: their schema has one version."""

    versions = 1

    def __init__(self, schema: Schema, make: Callable[[int], Any]) -> None:
        self._schema = schema
        self._make = make

    def schema(self, version: int) -> Schema:
        return self._schema

    def value(self, version: int, number: int) -> Any:
        return self._make(number)

    def seen(self, value: Any, version: int) -> Any:
        return value

    def generic(self, value: Any) -> Any:
        return value


Family = Records | Plain

FAMILIES: tuple[Family, ...] = (
    Records(AvroSchema),
    Records(JsonSchema),
    Pairs(AvroSchema, KeyValueEncodingType.INLINE),
    Pairs(AvroSchema, KeyValueEncodingType.SEPARATED),
    Pairs(JsonSchema, KeyValueEncodingType.SEPARATED),
    Plain(StringSchema(), "text {}".format),
    Plain(Int64Schema(), int),
)


def trouble_lookups(scene: Scene) -> None:
    """Let some lookups of schemas fail, or be answered late, twice, or never."""
    dice = Dice(scene.world.seed, "lookups of schemas")
    for _ in range(dice.below(5)):
        at = 10.0 ** (dice.chance() * 4 - 3)
        scene.world.after(at, _trouble(scene, dice))


def _trouble(scene: Scene, dice: Dice) -> Callable[[], object]:
    assert scene.broker is not None
    faults = scene.broker.faults
    command: type[Command] = (CommandGetSchema, CommandGetSchemaResponse)[dice.below(2)]
    how, times, error = dice.below(6), 1 + dice.below(3), ERRORS[dice.below(len(ERRORS))]
    seconds = 10.0 ** (dice.chance() * 3 - 2)

    def happen() -> None:
        if scene.is_calm:
            return
        scene.troubled["lookup of a schema"] += 1
        trigger = faults.on(command, times=times)
        actions: tuple[Callable[[], object], ...] = (
            trigger.drop, trigger.duplicate, trigger.reorder, trigger.close_connection,
            lambda: trigger.delay(seconds), lambda: faults.on(CommandGetSchema, times=times).refuse(error, "not now"),
        )  # fmt: skip
        actions[how]()

    return happen
