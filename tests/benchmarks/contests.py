"""The contests: a table of the requests that are compared.

All clients get the same settings, those with which each is at its best: the same batches, window and receiver queue,
and no compression unless the contest is one of codecs. Some contests are held a second time, with the defaults of each
client. Only one setting is the same then: a full queue blocks, as nothing can be measured otherwise.
"""

import json
from typing import Any, Final, NamedTuple

BEST: Final[dict[str, Any]] = {
    "batching_enabled": True,
    "batching_max_publish_delay_ms": 1,
    "batching_max_messages": 1000,
    "max_pending_messages": 10_000,
    "block_if_queue_full": True,
}
BEST_CONSUMER: Final[dict[str, Any]] = {"receiver_queue_size": 10_000}
DEFAULTS: Final[dict[str, Any]] = {"block_if_queue_full": True}
UNBATCHED: Final = {**BEST, "batching_enabled": False}

HUNDRED: Final = "x" * 100
TEXT: Final = json.dumps([{"id": at, "name": f"item {at}", "price": at * 1.25, "tags": ["a", "b"]} for at in range(40)])
PROPERTIES: Final = {"region": "north", "attempt": "1", "trace": "5b0cd1f2"}

ALL: Final = ("ours", "official", "java")
PYTHON: Final = ("ours", "official")
OURS: Final = ("ours",)


class Contest(NamedTuple):
    """One line of the table.

    `ask` goes to a worker, with a topic and a number of messages. Of a `consume`, `fill` says what is there before. A
    client that takes long for a message is asked for fewer: `slow` of `messages`. `clients` are those that take part.

    Every contest is held on a warm broker, with each client's build of the first interpreter. `everywhere`: with those
    of all interpreters. `fresh`: also on brokers that have just started. `defaults`: also with the clients' defaults.
    """

    name: str
    unit: str
    messages: int
    slow: float
    ask: dict[str, Any]
    fill: dict[str, Any] | None = None
    topics: int = 1
    partitions: int = 0
    clients: tuple[str, ...] = ALL
    everywhere: bool = False
    fresh: bool = False
    defaults: bool = False


class Curve(NamedTuple):
    """What becomes of a rate as something grows: the values of that, and a contest for each."""

    name: str
    points: tuple[tuple[int, Contest], ...]


def _produce(  # noqa: PLR0913 - a line of the table
    name: str,
    messages: int,
    *,
    topics: int = 1,
    partitions: int = 0,
    clients: tuple[str, ...] = ALL,
    slow: float = 0.1,
    **ask: Any,
) -> Contest:
    whole = {"do": "produce", "payload": HUNDRED, "options": BEST, **ask}
    return Contest(name, "msg/s", messages, slow, whole, None, topics, partitions, clients)


def _consume(name: str, mode: str = "receive", **fill: Any) -> Contest:
    whole = {"payload": HUNDRED, "options": BEST, **fill}
    return Contest(name, "msg/s", 200_000, 1.0, {"do": "consume", "mode": mode, "options": BEST_CONSUMER}, whole)


def _by_one_call(name: str, messages: int, **ask: Any) -> Contest:
    """Make a contest of calls for many messages, which only our client has."""
    sends = ask["do"] == "produce"
    whole = {"options": BEST if sends else BEST_CONSUMER, **ask}
    fill = None if sends else {"payload": HUNDRED, "options": BEST}
    if sends:
        whole["payload"] = HUNDRED
    return Contest(name, "msg/s", messages, 1.0, whole, fill, clients=OURS)


def _timed(name: str, messages: int, *, clients: tuple[str, ...] = ALL, **ask: Any) -> Contest:
    whole = {"payload": HUNDRED, "options": UNBATCHED, **ask}
    return Contest(name, "ms", messages, 1.0, whole, clients=clients)


def _awaited(name: str, messages: int, **ask: Any) -> Contest:
    """Make a contest of the asyncio clients, which Java has none of."""
    sends = ask["do"] == "asyncio_produce"
    whole = {"options": BEST if sends else BEST_CONSUMER, **ask}
    fill = None
    if sends:
        whole["payload"] = HUNDRED
    else:
        fill = {"payload": HUNDRED, "options": BEST}
    return Contest(name, "msg/s", messages, 0.3 if sends else 1.0, whole, fill, clients=PYTHON)


def _values(schema: str, messages: int) -> Contest:
    ask = {"do": "values", "schema": schema}
    return Contest(f"value() of {schema}", "msg/s", messages, 1.0, ask, clients=PYTHON)


def _squeezed(codec: str) -> dict[str, Any]:
    return {"payload": TEXT[:1024], "options": {**BEST, "compression_type": codec}}


PRODUCE: Final = _produce("produce, batched, callback", 500_000)._replace(everywhere=True, fresh=True, defaults=True)
CONSUME: Final = _consume("receive, data, acknowledge")._replace(everywhere=True, fresh=True, defaults=True)

CONTESTS: Final = (
    PRODUCE,
    _by_one_call("send_many", 2_000_000, do="produce", mode="many"),
    _produce("produce, key and 3 properties", 200_000, key="customer-4711", properties=PROPERTIES)._replace(
        everywhere=True
    ),
    _produce("produce, batching off", 60_000, slow=0.3, options=UNBATCHED)._replace(everywhere=True),
    _produce("produce, futures", 200_000, mode="future", clients=PYTHON),
    _produce("produce, 1 KB", 200_000, slow=0.2, payload="x" * 1024),
    _produce("produce, 64 KB", 5000, slow=1.0, payload="x" * 65536, options={**BEST, "max_pending_messages": 500}),
    *(_produce(f"produce, {codec}", 100_000, slow=0.3, **_squeezed(codec)) for codec in ("LZ4", "ZLib", "ZSTD")),
    _produce("produce, 8 threads", 400_000, threads=8, clients=PYTHON),
    _produce("produce, 100 topics", 200_000, topics=100),
    _produce("produce, 16 partitions", 200_000, partitions=16),
    CONSUME,
    _by_one_call("receive_many, data, acknowledge", 1_000_000, do="consume", mode="many"),
    _consume("receive, batches of 10", options={**BEST, "batching_max_messages": 10}),
    _consume("receive, key and 3 properties", key="customer-4711", properties=PROPERTIES)._replace(everywhere=True),
    _consume("listener", mode="listener")._replace(everywhere=True, defaults=True),
    *(_consume(f"receive, {codec}", **_squeezed(codec)) for codec in ("LZ4", "ZLib", "ZSTD")),
    _awaited("await send, 5,000 at once", 100_000, do="asyncio_produce", mode="gather", at_once=5000),
    _awaited("await send, 1,000 in flight", 100_000, do="asyncio_produce", mode="bounded", at_once=1000),
    _awaited("await receive", 200_000, do="asyncio_consume", mode="receive"),
    _awaited("await receive, await acknowledge", 200_000, do="asyncio_consume", mode="acknowledge"),
    _values("StringSchema", 200_000),
    _values("JsonSchema", 20_000),
    _values("AvroSchema", 20_000),
    _timed("sync send, batching off", 500, do="sync")._replace(everywhere=True),
    _timed(
        "sync send, batching on",
        300,
        do="sync",
        options={"batching_enabled": True, "batching_max_publish_delay_ms": 10},
    ),
    _timed("sync send beside a busy thread", 200, do="sync", busy=True, clients=PYTHON),
    _timed("end to end, 1,000/s", 2000, do="latency", rate=1000, options=BEST)._replace(defaults=True),
    _timed("end to end, 10,000/s", 20_000, do="latency", rate=10_000, options=BEST)._replace(defaults=True),
)


def _of_size(size: int) -> Contest:
    messages = min(200_000, 150_000_000 // size)
    pending = min(10_000, max(10, 60_000_000 // size))
    return _produce(
        f"messages of {size:,} B",
        messages,
        slow=0.1 if size <= 1000 else 0.5,
        payload="x" * size,
        options={**BEST, "max_pending_messages": pending},
    )


def _with(name: str, value: int, messages: int, slow: float = 0.1) -> Contest:
    return _produce(f"{name}={value:,}", messages, slow=slow, options={**BEST, name: value})


CURVES: Final = (
    Curve("topics", tuple((n, _produce(f"{n:,} topics", 100_000, topics=n)) for n in (1, 10, 100, 1000, 10_000))),
    Curve("partitions", tuple((n, _produce(f"{n} partitions", 100_000, partitions=n)) for n in (1, 4, 16, 64))),
    Curve("bytes in a message", tuple((n, _of_size(n)) for n in (1, 10, 100, 1000, 10_000, 100_000, 4_000_000))),
    Curve(
        "messages in a batch",
        tuple((n, _with("batching_max_messages", n, min(200_000, 20_000 * n))) for n in (2, 10, 100, 1000, 10_000)),
    ),
    Curve(
        "messages pending",
        tuple(
            (n, _with("max_pending_messages", n, min(200_000, 300 * n))) for n in (1, 10, 100, 1000, 10_000, 100_000)
        ),
    ),
)
