"""Many producers and consumers in one process: memory, threads, and the time to create and to use them.

Each handle has a topic of its own, which is created with its producer. Each number of handles has a process of its own.
"""

import uuid
from collections.abc import Iterator
from typing import Any, Final

from tests.benchmarks.client_process import MODULES, Worker

COUNTS: Final = (10, 100, 1000, 10_000)
HEAD: Final = (
    "| producers and consumers, each | client | ms to make a pair | CPU ms for a pair | ms for a message of each | "
    "KiB for a pair | threads |\n|---|---|---|---|---|---|---|\n"
)


def crowd(service_url: str) -> Iterator[str]:
    """Measure, and return the rows of a table."""
    for count in COUNTS:
        for client in MODULES:
            with Worker(client) as worker:
                worker.ask(do="connect", url=service_url)
                prefix = f"persistent://public/default/crowd-{uuid.uuid4().hex[:12]}"
                yield _row(client, count, worker.ask(do="crowd", topic=prefix, count=count))


def _row(client: str, count: int, told: dict[str, Any]) -> str:
    cells = (
        f"{count:,}",
        client,
        f"{told['making'] / count * 1e3:.3g}",
        f"{told['cpu'] / count * 1e3:.3g}",
        f"{told['passing'] / count * 1e3:.3g}",
        f"{told['bytes'] / count / 1024:.3g}",
        f"{told['threads']}",
    )
    return f"| {' | '.join(cells)} |\n"
