"""The contests: a table of the requests that are compared.

All clients get the same settings: in one run those with which each client is at its best, and in a second run the
defaults of each. Only one setting is the same in both: a full queue blocks, as nothing can be measured otherwise.
`targets` are the ratios to reach against the official Python client and the Java client.
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


class Contest(NamedTuple):
    """One line of the table.

    `ask` goes to a worker, with a topic and a number of messages. Of a `consume`, `fill` says what is there before. A
    client that takes long for a message is asked for fewer: `slow` of `messages`.
    """

    name: str
    unit: str
    messages: int
    slow: float
    ask: dict[str, Any]
    fill: dict[str, Any] | None = None
    targets: tuple[float | None, float | None] = (None, None)
    topics: int = 1
    partitions: int = 0
    python_only: bool = False
    ours_only: bool = False

    def is_for(self, client: str) -> bool:
        """Return whether a client takes part."""
        return client == "ours" or not (self.ours_only or (self.python_only and client == "java"))


class Curve(NamedTuple):
    """What becomes of a rate as something grows: the values of that, and a contest for each."""

    name: str
    points: tuple[tuple[int, Contest], ...]


def _produce(  # noqa: PLR0913 - a line of the table
    name: str,
    messages: int,
    targets: tuple[float | None, float | None] = (None, None),
    *,
    topics: int = 1,
    partitions: int = 0,
    python_only: bool = False,
    slow: float = 0.1,
    **ask: Any,
) -> Contest:
    whole = {"do": "produce", "payload": HUNDRED, "options": BEST, **ask}
    return Contest(name, "msg/s", messages, slow, whole, None, targets, topics, partitions, python_only)


def _consume(name: str, targets: tuple[float | None, float | None], mode: str = "receive", **fill: Any) -> Contest:
    whole = {"payload": HUNDRED, "options": BEST, **fill}
    return Contest(
        name, "msg/s", 200_000, 1.0, {"do": "consume", "mode": mode, "options": BEST_CONSUMER}, whole, targets
    )


def _by_one_call(name: str, messages: int, **ask: Any) -> Contest:
    """Make a contest of calls for many messages, which only our client has."""
    sends = ask["do"] == "produce"
    whole = {"options": BEST if sends else BEST_CONSUMER, **ask}
    fill = None if sends else {"payload": HUNDRED, "options": BEST}
    if sends:
        whole["payload"] = HUNDRED
    return Contest(name, "msg/s", messages, 1.0, whole, fill, ours_only=True)


def _timed(
    name: str, messages: int, targets: tuple[float | None, float | None], *, python_only: bool = False, **ask: Any
) -> Contest:
    whole = {"payload": HUNDRED, "options": UNBATCHED, **ask}
    return Contest(name, "ms", messages, 1.0, whole, None, targets, python_only=python_only)


def _awaited(name: str, messages: int, **ask: Any) -> Contest:
    """Make a contest of the asyncio clients, which Java has none of."""
    sends = ask["do"] == "asyncio_produce"
    whole = {"options": BEST if sends else BEST_CONSUMER, **ask}
    fill = None
    if sends:
        whole["payload"] = HUNDRED
    else:
        fill = {"payload": HUNDRED, "options": BEST}
    return Contest(name, "msg/s", messages, 0.3 if sends else 1.0, whole, fill, (3, None), python_only=True)


def _values(schema: str, messages: int) -> Contest:
    ask = {"do": "values", "schema": schema}
    return Contest(f"value() of {schema}", "msg/s", messages, 1.0, ask, None, (1, None), python_only=True)


def _squeezed(codec: str) -> dict[str, Any]:
    return {"payload": TEXT[:1024], "options": {**BEST, "compression_type": codec}}


CONTESTS: Final = (
    _produce("produce, batched, callback", 500_000, (30, 1)),
    _by_one_call("send_many", 2_000_000, do="produce", mode="many"),
    _produce("produce, key and 3 properties", 200_000, (10, None), key="customer-4711", properties=PROPERTIES),
    _produce("produce, batching off", 60_000, (6, None), slow=0.3, options=UNBATCHED),
    _produce("produce, futures", 200_000, (12, None), mode="future", python_only=True),
    _produce("produce, 1 KB", 200_000, (5, None), slow=0.2, payload="x" * 1024),
    _produce(
        "produce, 64 KB",
        5000,
        (1.6, None),
        slow=1.0,
        payload="x" * 65536,
        options={**BEST, "max_pending_messages": 500},
    ),
    *(
        _produce(f"produce, {codec}", 100_000, (3, None), slow=0.3, **_squeezed(codec))
        for codec in ("LZ4", "ZLib", "ZSTD")
    ),
    _produce("produce, 8 threads", 400_000, (10, None), threads=8, python_only=True),
    _produce("produce, 100 topics", 200_000, (10, None), topics=100),
    _produce("produce, 16 partitions", 200_000, (10, None), partitions=16),
    _consume("receive, data, acknowledge", (4.5, 1)),
    _by_one_call("receive_many, data, acknowledge", 1_000_000, do="consume", mode="many"),
    _consume("receive, batches of 10", (3, None), options={**BEST, "batching_max_messages": 10}),
    _consume("receive, key and 3 properties", (3, None), key="customer-4711", properties=PROPERTIES),
    _consume("listener", (2, None), mode="listener"),
    *(_consume(f"receive, {codec}", (3, None), **_squeezed(codec)) for codec in ("LZ4", "ZLib", "ZSTD")),
    _awaited("await send, 5,000 at once", 100_000, do="asyncio_produce", mode="gather", at_once=5000),
    _awaited("await send, 1,000 in flight", 100_000, do="asyncio_produce", mode="bounded", at_once=1000),
    _awaited("await receive", 200_000, do="asyncio_consume", mode="receive"),
    _awaited("await receive, await acknowledge", 200_000, do="asyncio_consume", mode="acknowledge"),
    _values("StringSchema", 200_000),
    _values("JsonSchema", 20_000),
    _values("AvroSchema", 20_000),
    _timed("sync send, batching off", 500, (1, 1), do="sync"),
    _timed(
        "sync send, batching on",
        300,
        (1, 1),
        do="sync",
        options={"batching_enabled": True, "batching_max_publish_delay_ms": 10},
    ),
    _timed("sync send beside a busy thread", 200, (1, None), do="sync", busy=True, python_only=True),
    _timed("end to end, 1,000/s", 2000, (1, None), do="latency", rate=1000, options=BEST),
    _timed("end to end, 10,000/s", 20_000, (1, None), do="latency", rate=10_000, options=BEST),
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
