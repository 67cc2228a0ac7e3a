"""The footprint of a Python client: the time to start, and the memory of idle handles and pending messages.

Each turn has a process of its own, because a process reuses the memory of earlier producers.
"""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any, Final

from tests.benchmarks.client_process import HERE, MODULES, Worker
from tests.benchmarks.measured import Line

IDLE: Final = 200
"""Producers or consumers, each on a topic of its own, to tell what one takes."""

PENDING: Final = 10_000
WAITING: Final[dict[str, Any]] = {
    "batching_enabled": True,
    "batching_max_publish_delay_ms": 600_000,
    "batching_max_messages": 10 * PENDING,
    "batching_max_allowed_size_in_bytes": 100_000_000,
    "max_pending_messages": 10 * PENDING,
}
"""With these options a message stays in the queue until `flush`."""

HELD: Final = (
    ("memory of an idle producer", {"do": "hold_producers"}, IDLE),
    ("memory of an idle consumer", {"do": "hold_consumers"}, IDLE),
    (
        "memory of a pending message of 100 B",
        {"do": "hold_messages", "options": WAITING, "payload": "x" * 100},
        PENDING,
    ),
)


def footprint(service_url: str, alternations: int) -> Iterator[Line]:
    """Measure, client by client and turn by turn."""
    started = {client: list[tuple[float, float]]() for client in MODULES}
    for _ in range(alternations):
        for client in MODULES:
            started[client].append(_start(client, service_url))
    for place, name in enumerate(("import of the package", "Client() to the first message that is stored")):
        values = {client: [each[place] * 1e3 for each in times] for client, times in started.items()}
        yield Line(name, "ms", values, {}, (1, None) if place else (None, None))
    for name, ask, count in HELD:
        held: dict[str, list[float]] = {client: [] for client in MODULES}
        for _ in range(alternations):
            for client in MODULES:
                held[client].append(_hold(client, service_url, ask, count) / count / 1024)
        yield Line(name, "KiB", held, {}, (1, None))


def _start(client: str, service_url: str) -> tuple[float, float]:
    words = [sys.executable, str(HERE / "workers" / "start.py"), MODULES[client], service_url]
    # What is installed is compiled, so a client is not to be compiled anew in each turn.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own words
    told = done.stdout
    imported, sent = map(float, told.split()[-2:])
    return imported, sent


def _hold(client: str, service_url: str, ask: dict[str, Any], count: int) -> float:
    with Worker(client) as worker:
        worker.ask(do="connect", url=service_url)
        topic = f"persistent://public/default/measured-{uuid.uuid4().hex[:12]}"
        answer = worker.ask(**ask, topic=topic, count=count)
    return float(answer["bytes"])
