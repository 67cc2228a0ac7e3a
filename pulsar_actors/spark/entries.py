"""Entries as tasks read them: all their messages together, and where these are."""

import time
from bisect import bisect_left
from typing import Final

from pulsar_actors.client.consuming.reader import Reader, read_entry
from pulsar_actors.exceptions import Timeout
from pulsar_actors.runtime.opened import Contents
from pulsar_actors.spark.position import Position

__all__ = ["NothingCame", "behind", "between", "next_entry", "position_of"]


class NothingCame(Timeout):
    """The topic has messages, and the broker sends none."""


LOOK: Final = 500
"""Milliseconds to wait for a message before the broker is asked whether there is any."""


def next_entry(reader: Reader, patience_ms: int) -> Contents | None:
    """Give the next messages; None, if the topic has no more."""
    until = time.monotonic() + patience_ms / 1000
    while True:
        try:
            return read_entry(reader, min(LOOK, patience_ms))
        except Timeout as nothing:
            if not reader.has_message_available():
                return None
            if time.monotonic() >= until:
                raise NothingCame(str(nothing)) from None


def position_of(contents: Contents) -> Position:
    """Give the position of the first message."""
    return Position(*contents.entry.message_id.position, contents.indexes[0])


def behind(contents: Contents) -> Position:
    """Give the position behind the last message: in its batch, or behind its entry."""
    ledger_id, entry_id = contents.entry.message_id.position
    following = contents.indexes[-1] + 1
    if following < contents.entry.size:
        return Position(ledger_id, entry_id, following)
    return Position(ledger_id, entry_id + 1)


def between(contents: Contents, start: Position, end: Position) -> Contents | None:
    """Give those of the messages that are at the start or behind it, and before the end; None, if that is none."""
    entry = contents.entry.message_id.position
    if start[:2] < entry < end[:2]:
        return contents
    if not start[:2] <= entry <= end[:2]:
        return None
    stored, payloads, opened, indexes, _ = contents
    first = bisect_left(indexes, start.batch_index) if entry == start[:2] else 0
    last = bisect_left(indexes, end.batch_index) if entry == end[:2] else len(indexes)
    if first >= last:
        return None
    return Contents(stored[first:last], payloads[first:last], opened, indexes[first:last])
