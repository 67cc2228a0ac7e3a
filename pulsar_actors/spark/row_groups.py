"""How many messages go into a record batch: so many that what each batch costs is nothing, and no more than fit."""

from collections.abc import Iterable, Iterator
from typing import Final

from pulsar_actors.runtime.opened import Contents

__all__ = ["grouped"]

ENOUGH: Final = 5000
"""Messages."""
ENOUGH_BYTES: Final = 4 * 1024 * 1024


def grouped(entries: Iterable[Contents]) -> Iterator[list[Contents]]:
    """Put entries together until it is enough."""
    group: list[Contents] = []
    messages = size = 0
    for contents in entries:
        group.append(contents)
        messages += len(contents.payloads)
        size += sum(map(len, contents.payloads))
        if messages >= ENOUGH or size >= ENOUGH_BYTES:
            yield group
            group, messages, size = [], 0, 0
    if group:
        yield group
