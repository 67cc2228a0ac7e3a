"""How many entries a partition has, ledger by ledger: what limits and splits go by.

Message ids have gaps. How many entries lie between two of them is in what a broker tells its administrators: each
ledger with its entries and its bytes. Messages are not counted there; how many an entry has on average is worked out
from what came since the topic was loaded, and where nothing came, an entry counts as one. So limits are soft.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from pulsar_actors.spark.position import Position

__all__ = ["Ledger", "Ledgers"]


class Ledger(NamedTuple):
    """One ledger: how many entries it has, and of how many bytes all together."""

    ledger_id: int
    entries: int
    size: int


class Ledgers(NamedTuple):
    """Those of one partition, in their order; `messages_per_entry` is an average."""

    ledgers: Sequence[Ledger]
    messages_per_entry: float

    def entries(self, start: Position, end: Position) -> int:
        """Count the entries between two positions, those included of which a part is."""
        return sum(last - first for _, first, last in self._parts(start, end))

    def messages(self, start: Position, end: Position) -> int:
        """Estimate the messages between two positions."""
        return round(self.entries(start, end) * self.messages_per_entry)

    def size(self, start: Position, end: Position) -> float:
        """Estimate the bytes between two positions."""
        return sum((last - first) * ledger.size / ledger.entries for ledger, first, last in self._parts(start, end))

    def after_messages(self, start: Position, end: Position, most: float) -> Position:
        """Find how far one gets from a position with so many messages: one entry at least, and not beyond the end."""
        return self._after(start, end, max(1, int(most / self.messages_per_entry)))

    def after_bytes(self, start: Position, end: Position, most: float) -> Position:
        """Find how far one gets with so many bytes: likewise."""
        entries = 0
        left = most
        for ledger, first, last in self._parts(start, end):
            each = ledger.size / ledger.entries
            fit = last - first if not each else min(last - first, int(left / each))
            entries += fit
            left -= fit * each
            if fit < last - first:
                break
        return self._after(start, end, max(1, entries))

    def split(self, start: Position, end: Position, parts: int) -> list[tuple[Position, Position]]:
        """Cut what lies between two positions into parts of about as many entries, no more parts than entries."""
        count = self.entries(start, end)
        parts = max(1, min(parts, count))
        cuts = [start, *(self._after(start, end, count * part // parts) for part in range(1, parts)), end]
        return [(first, last) for first, last in pairwise(cuts) if first < last]

    def _after(self, start: Position, end: Position, entries: int) -> Position:
        for ledger, first, last in self._parts(start, end):
            if entries < last - first:
                return Position(ledger.ledger_id, first + entries)
            entries -= last - first
            if not entries:
                return min(end, Position(ledger.ledger_id, last))
        return end

    def _parts(self, start: Position, end: Position) -> Iterator[tuple[Ledger, int, int]]:
        """Give the ledgers between two positions, and of each the first entry, and the one behind the last."""
        for ledger in self.ledgers:
            first = start.entry_id if ledger.ledger_id == start.ledger_id else 0
            last = ledger.entries
            if ledger.ledger_id == end.ledger_id:
                last = min(last, end.entry_id + (1 if end.batch_index else 0))
            is_between = start.ledger_id <= ledger.ledger_id <= end.ledger_id
            if is_between and first < last:
                yield ledger, first, last
