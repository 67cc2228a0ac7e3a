"""The footprint of a Python client: the time to start, and the memory of idle handles and pending messages.

Each turn has a process of its own, because a process reuses the memory of earlier producers.
"""

import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.benchmarks.client_process import ANSWER_SECONDS, HERE, MODULES, Worker, environment
from tests.benchmarks.interpreters import Build
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


def footprint(service_url: str, rounds: int, builds: Sequence[Build]) -> Iterator[Line]:
    """Measure, client by client and round by round, the builds of one interpreter."""
    ours = [("ours", build) for build in builds]
    everybody = [*ours, ("official", builds[0])]
    started: dict[tuple[str, Build], list[tuple[float, float]]] = {one: [] for one in everybody}
    for _ in range(rounds):
        for client, build in everybody:
            started[client, build].append(_start(client, build, service_url))
    for place, name in enumerate(("import of the package", "Client() to the first message that is stored")):
        values = {one: [each[place] * 1e3 for each in times] for one, times in started.items()}
        yield from _lines(name, "ms", values, builds)
    for name, ask, count in HELD:
        held: dict[tuple[str, Build], list[float]] = {one: [] for one in everybody}
        for _ in range(rounds):
            for client, build in everybody:
                held[client, build].append(_hold(client, build, service_url, ask, count) / count / 1024)
        yield from _lines(name, "KiB", held, builds)


def _lines(
    name: str, unit: str, values: Mapping[tuple[str, Build], Sequence[float]], builds: Sequence[Build]
) -> Iterator[Line]:
    for build in builds:
        beside = {"ours": values["ours", build], "official": values["official", builds[0]]}
        yield Line(name, unit, beside, {}, build.name)


def _start(client: str, build: Build, service_url: str) -> tuple[float, float]:
    words = [build.python, str(HERE / "workers" / "start.py"), MODULES[client], service_url]
    done = subprocess.run(  # noqa: S603 - our own words
        words,
        env=environment(installed=build.compiled),
        capture_output=True,
        text=True,
        check=True,
        timeout=ANSWER_SECONDS,
    )
    imported, sent = map(float, done.stdout.split()[-2:])
    return imported, sent


def _hold(client: str, build: Build, service_url: str, ask: dict[str, Any], count: int) -> float:
    with Worker(client, build.python, installed=build.compiled) as worker:
        worker.connect(service_url)
        topic = f"persistent://public/default/measured-{uuid.uuid4().hex[:12]}"
        answer = worker.ask(**ask, topic=topic, count=count)
    return float(answer["bytes"])
