"""How far the user of a consumer is: where it resumes, and what a reader of all there is wants to know besides.

What was opened is only the half of it: a reader that waits for the end of a topic must not wait for entries that it is
given nothing of.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.machines.left_out import LeftOut, Unreadable
from pulsar_actors.wire.message_id import MessageId

MOST_LEFT_OUT: Final = 1000
"""The latest are kept, for readers that ask."""


class Progress:
    """Of one consumer: the last entry `opened`, the last one `passed` once nothing is queued, and what was left out."""

    __slots__ = ("_corrupt", "_forgotten", "_keeps_left_out", "_left_out", "opened", "passed")

    def __init__(self, *, keeps_left_out: bool) -> None:
        self.opened: MessageId | None = None
        self.passed: EntryKey | None = None
        self._keeps_left_out = keeps_left_out
        self._left_out: deque[LeftOut] = deque()
        self._forgotten = 0  # of what was left out
        self._corrupt: EntryKey | None = None  # the last one that was

    def found_corrupt(self, what: Unreadable) -> None:
        """Note an entry that could not be opened."""
        self.leave_out([what])
        self._corrupt = what.entry

    def leave_out(self, some: Iterable[LeftOut]) -> None:
        """Keep it for who asks, as far as there is room."""
        if not self._keeps_left_out:
            return
        self._left_out.extend(some)
        while len(self._left_out) > MOST_LEFT_OUT:
            self._left_out.popleft()
            self._forgotten += 1

    def take_left_out(self) -> tuple[list[LeftOut], int]:
        """Give what is kept, and how much more there was."""
        kept = [self._left_out.popleft() for _ in range(len(self._left_out))]
        forgotten, self._forgotten = self._forgotten, 0
        return kept, forgotten

    def begin_again(self) -> None:
        """Forget what was opened, for it comes again."""
        self.opened = self._corrupt = None
        self._left_out.clear()
        self._forgotten = 0

    @property
    def furthest(self) -> EntryKey | None:
        """Give the last entry of which nothing is left to take, where nothing is queued."""
        opened = None if self.opened is None else self.opened.position
        return max((one for one in (opened, self._corrupt, self.passed) if one is not None), default=None)
