"""Compares `message.value()` with the official client's decoding, in turns within one run: messages a second.

python tests/benchmarks/schema_values.py
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pulsar
import pulsar.schema

import pulsar_actors
from pulsar_actors.broker import EmbeddedBroker

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


def rate(value: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(MESSAGES):
        value()
    return MESSAGES / (time.perf_counter() - began)


def main() -> None:
    with EmbeddedBroker() as broker:
        clients = [
            (module, module.Client(broker.service_url, logger=module.ConsoleLogger(module.LoggerLevel.Error)))
            for module in (pulsar_actors, pulsar)
        ]
        for kind in ("StringSchema", "JsonSchema", "AvroSchema"):
            sides: list[Callable[[], object]] = []
            for module, client in clients:
                item, value = record(module.schema)
                schema = module.schema.StringSchema() if kind == "StringSchema" else getattr(module.schema, kind)(item)
                client.create_producer(kind, schema=schema).send("some text" if kind == "StringSchema" else value)
                reader = client.create_reader(kind, module.MessageId.earliest, schema=schema)
                sides.append(reader.read_next(10_000).value)
            rates = [[rate(side) for side in sides] for _ in range(ROUNDS)]
            mine, official = (median(column) for column in zip(*rates, strict=True))
            print(f"{kind:14} ours {mine:>12,.0f}/s  official {official:>12,.0f}/s  ratio {mine / official:.2f}")
        for _, client in clients:
            client.close()


if __name__ == "__main__":
    main()
