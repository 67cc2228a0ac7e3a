"""Compares `message.value()` with the official client's decoding, in turns within one run: messages a second.

python tests/benchmarks/schema_values.py
"""

import time
from collections.abc import Callable
from statistics import median
from types import SimpleNamespace
from typing import Any

import pulsar.schema

import pulsar_actors.schema as ours
from pulsar_actors.client.message import Message

ROUNDS = 15
MESSAGES = 2000


def record(module: Any) -> tuple[Any, Any]:
    class Item(module.Record):  # type: ignore[misc]
        name = module.String()
        count = module.Integer()
        price = module.Double()
        tags = module.Array(module.String())
        parts = module.Map(module.Long())

    return Item, Item(name="item 7", count=7, price=1.25, tags=["a", "b"], parts={"x": 1, "y": 2})


def our_value(schema: Any, data: bytes) -> Callable[[], object]:
    entry: Any = SimpleNamespace(
        metadata=SimpleNamespace(schema_version=b"", null_value=False), schemas=None, decode=schema.decode_message
    )
    return Message(data, None, entry, 0).value


def official_value(schema: Any, data: bytes) -> Callable[[], object]:
    schema.attach_client(None)
    message = SimpleNamespace(data=lambda: data)
    return lambda: schema.decode_message(message)


def rate(value: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(MESSAGES):
        value()
    return MESSAGES / (time.perf_counter() - began)


def main() -> None:
    for kind in ("StringSchema", "JsonSchema", "AvroSchema"):
        sides: list[Callable[[], object]] = []
        for module, make in ((ours, our_value), (pulsar.schema, official_value)):
            item, value = record(module)
            schema = getattr(module, kind)() if kind == "StringSchema" else getattr(module, kind)(item)
            sides.append(make(schema, schema.encode("some text" if kind == "StringSchema" else value)))
        rates = [[rate(side) for side in sides] for _ in range(ROUNDS)]
        mine, official = (median(column) for column in zip(*rates, strict=True))
        print(f"{kind:14} ours {mine:>12,.0f}/s  official {official:>12,.0f}/s  ratio {mine / official:.2f}")


if __name__ == "__main__":
    main()
