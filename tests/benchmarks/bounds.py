"""The memory of a client when others are slow: a broker that does not read, and a program that does not receive.

The broker process is stopped and continued: afterwards all pending messages have to be stored.
"""

import uuid
from collections.abc import Iterator
from typing import Final

from tests.benchmarks.client_process import MODULES, Worker
from tests.benchmarks.contests import BEST
from tests.support.standalone import Standalone

SIZE: Final = 10_000
"""Bytes in a message."""

FILLED: Final = 100_000
"""Messages that a program could receive, and does not."""

LIMITS: Final = (1000, 10_000)
"""Messages that may be pending, or wait to be received."""

HEAD_STALLED: Final = (
    "| messages that may be pending | client | batches | taken | MiB of these | MiB that it grew by | stored |\n"
    "|---|---|---|---|---|---|---|\n"
)
HEAD_NEGLECTED: Final = "| messages that may wait | client | MiB of these | MiB that it grew by |\n|---|---|---|---|\n"


def stalled(broker: Standalone) -> Iterator[str]:
    """Return the rows of a table: each client sends to a broker that is stopped."""
    for pending in LIMITS:
        for batched in (False, True):
            for client in MODULES:
                with Worker(client) as worker:
                    worker.ask(do="connect", url=broker.service_url)
                    options = {"batching_enabled": batched, "max_pending_messages": pending}
                    worker.ask(do="ready", topic=_new_topic(), options=options)
                    with broker.stalled():
                        told = worker.ask(do="overfill", size=SIZE)
                    stored = worker.ask(do="settle")["stored"]
                taken, grown = told["taken"], told["bytes"] / 2**20
                size = taken * SIZE / 2**20
                yield (
                    f"| {pending:,} | {client} | {'yes' if batched else 'no'} | {taken:,} | {size:.3g} | {grown:.3g} | "
                    f"{stored:,} |\n"
                )


def neglected(service_url: str) -> Iterator[str]:
    """Return the rows of a table: each client subscribes to a topic with messages, and receives none."""
    topic = _new_topic()
    with Worker("ours") as worker:
        worker.ask(do="connect", url=service_url)
        worker.ask(do="produce", topics=[topic], messages=FILLED, payload="x" * SIZE, options=BEST)
    for waiting in LIMITS:
        for client in MODULES:
            with Worker(client) as worker:
                worker.ask(do="connect", url=service_url)
                told = worker.ask(do="neglect", topic=topic, options={"receiver_queue_size": waiting})
            grown = told["bytes"] / 2**20
            yield f"| {waiting:,} | {client} | {waiting * SIZE / 2**20:.3g} | {grown:.3g} |\n"


def _new_topic() -> str:
    return f"persistent://public/default/bounds-{uuid.uuid4().hex[:12]}"
