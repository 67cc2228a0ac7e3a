"""The sizes of the batches that one consumer has got and not acknowledged, for ids that a program has made itself.

Such an id has the index of a message in its batch. But it has not the size of the batch, without which one message
would acknowledge all of them. The ids that a consumer returns have both, also after `serialize`.

The consumer's actor notes and drops sizes. Callers look one up on their own threads, which reads a dict once. Only the
last batches are known: otherwise a consumer that acknowledges nothing would need ever more memory.
"""

from itertools import islice
from typing import Final

from pulsar_actors.machines.trackers.entry_map import EntryKey

MOST_KNOWN: Final = 20_000
"""If there are more batches, the earlier half is forgotten."""

_NONE: Final[dict[EntryKey, int]] = {}
"""It stays empty. All consumers that have no batch share it, to save memory."""


class BatchSizes:
    """The number of messages of each batch of one consumer."""

    __slots__ = ("_sizes",)

    def __init__(self) -> None:
        self._sizes = _NONE

    def note(self, entry: EntryKey, size: int) -> None:
        """Note the size of a batch that has arrived."""
        sizes = self._sizes
        if sizes is _NONE:
            sizes = self._sizes = {}
        sizes[entry] = size
        if len(sizes) > MOST_KNOWN:
            self._sizes = dict(islice(sizes.items(), MOST_KNOWN // 2, None))

    def of(self, entry: EntryKey) -> int:
        """Return the size of a batch; 0 if it is not known. Any thread may call this."""
        return self._sizes.get(entry, 0)

    def drop(self, entry: EntryKey) -> None:
        """Forget a batch that is acknowledged."""
        self._sizes.pop(entry, None)

    def drop_up_to(self, last: EntryKey) -> None:
        """Forget a batch and those before it. Where acknowledgements are cumulative, batches arrive in their order."""
        sizes = self._sizes
        while sizes:
            first = next(iter(sizes))
            if first > last:
                return
            del sizes[first]

    def clear(self) -> None:
        """Forget all."""
        self._sizes = _NONE
