"""What many producers and consumers in one process come to: memory, threads, and time to make and to use them all.

Each has a topic of its own, which is made with its producer. Each count has a process of its own.
"""

import uuid
from collections.abc import Iterator
from typing import Any, Final

from client_process import MODULES, Worker

COUNTS: Final = (10, 100, 1000, 10_000)
HEAD: Final = (
    "| producers and consumers, each | client | ms to make a pair | CPU ms for a pair | ms for a message of each | "
    "KiB for a pair | threads |\n|---|---|---|---|---|---|---|\n"
)


def crowd(service_url: str) -> Iterator[str]:
    """Measure it, and give the rows of a table."""
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
