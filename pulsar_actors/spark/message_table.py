"""Messages as columns of Arrow's, in less time than a look at each message would take.

Many messages share most of what they say. Those of one entry have its topic, its producer and its time; messages
without a key or properties have one and the same metadata. What they share is made once, and Arrow repeats it. The ids
of an entry's messages begin alike, and end as those of all entries of that size do.
"""

from array import array
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import chain, repeat
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pulsar_actors.runtime.opened import Contents, Opened
from pulsar_actors.spark.arrow import (
    Array,
    counted,
    first_said,
    joined,
    made,
    one_after_another,
    repeated,
    whole_numbers,
)
from pulsar_actors.wire.batch import metadata_of
from pulsar_actors.wire.ids import signed
from pulsar_actors.wire.PulsarApi_pb2 import MessageIdData, MessageMetadata, SingleMessageMetadata

__all__ = ["MessageTable", "Own"]

Own: TypeAlias = SingleMessageMetadata | MessageMetadata
"""What is said of a message alone: by the entry, if that is no batch."""

MANY: Final = 8
"""Messages of one entry, on average, from which on it pays to call Arrow for each entry."""


class MessageTable:
    """The messages of some entries, of which there is at least one."""

    def __init__(self, entries: Sequence[Contents]) -> None:
        self._contents = entries
        self._payloads = [one if isinstance(one, bytes) else bytes(one) for each in entries for one in each.payloads]
        self._stored = list(chain.from_iterable(contents.stored for contents in entries))
        self._count = len(self._payloads)
        self._owns, self._numbers_of_own = self._own_metadata()

    def _own_metadata(self) -> tuple[list[Own], Sequence[int]]:
        """Give what is said of messages alone, each once, and which of it is whose."""
        stored = self._stored
        first = stored[0]
        if first is not None and stored[-1] is first and len(set(map(id, stored))) == 1:
            return [metadata_of(first)], [0] * self._count
        said = [each.entry.metadata if one is None else one for each in self._contents for one in each.stored]
        numbers: dict[int, int] = {}
        of_each = [numbers.setdefault(id(one), len(numbers)) for one in said]
        distinct = {id(one): one for one in said}.values()
        return [one if isinstance(one, MessageMetadata) else metadata_of(one) for one in distinct], of_each

    def entry_at(self, row: int) -> Opened:
        """Give the entry of a message."""
        return self._contents[self._entry_numbers[row]].entry

    def of_entries(self, of: Callable[[Opened], Any], kind: pa.DataType) -> Array:
        """Make a column of what an entry says."""
        column = made([of(contents.entry) for contents in self._contents], kind)
        return column if len(column) == self._count else repeated(column, self._entry_of_each)

    def of_messages(self, of: Callable[[Own], Any], kind: pa.DataType) -> Array:
        """Make a column of what messages say of themselves."""
        column = made(list(map(of, self._owns)), kind)
        return column if len(column) == self._count else repeated(column, self._own_of_each)

    @cached_property
    def _entry_numbers(self) -> "array[int]":
        sizes = (len(contents.payloads) for contents in self._contents)
        return array("i", chain.from_iterable(repeat(*one) for one in enumerate(sizes)))

    @cached_property
    def _entry_of_each(self) -> Array:
        return whole_numbers(self._entry_numbers)

    @cached_property
    def _own_of_each(self) -> Array:
        return whole_numbers(array("i", self._numbers_of_own))

    def values(self) -> Array:
        """Make the column of the payloads; those of tombstones are null."""
        payloads: Sequence[bytes | None] = self._payloads
        if any(own.null_value for own in self._owns):
            owns = map(self._owns.__getitem__, self._numbers_of_own)
            payloads = [None if own.null_value else one for own, one in zip(owns, payloads, strict=True)]
        return made(payloads, pa.binary())

    def message_ids(self) -> Array:
        """Make the column of the ids, as `MessageId.serialize` writes them."""
        heads = self.of_entries(lambda entry: entry.message_id.serialize(), pa.binary())
        return joined(heads, self._ends_of_ids())

    def _ends_of_ids(self) -> Array:
        if self._count >= MANY * len(self._contents):
            entries = ((one.entry.size, array("i", one.indexes)) for one in self._contents)
            return one_after_another([repeated(_all_ends(size), whole_numbers(indexes)) for size, indexes in entries])
        return made([_end_of_id(index, one.entry.size) for one in self._contents for index in one.indexes], pa.binary())

    def sequence_ids(self) -> Array:
        """Make the column of the sequence ids: what a message says itself, or what follows from what its entry says."""
        first = self.of_entries(lambda entry: signed(entry.metadata.sequence_id), pa.int64())
        step = self.of_entries(_step_of, pa.int64())
        indexes = array("q", chain.from_iterable(contents.indexes for contents in self._contents))
        said = self.of_messages(_said_sequence_id, pa.int64())
        return first_said(said, counted(first, step, whole_numbers(indexes)))


def _step_of(entry: Opened) -> int:
    """Tell how the sequence ids of an entry's messages go on.

    A batch says its lowest and its highest. If there are as many between as it has messages, they are one after the
    other; of others nobody knows more than the lowest.
    """
    metadata = entry.metadata
    return int(metadata.highest_sequence_id - metadata.sequence_id + 1 == entry.size)


def _said_sequence_id(own: Own) -> int | None:
    return signed(own.sequence_id) if own.HasField("sequence_id") else None


@lru_cache(maxsize=100_000)
def _end_of_id(index: int, size: int) -> bytes:
    """Write what the id of a message has behind that of its entry: nothing, if that is no batch."""
    if not size:
        return b""
    return MessageIdData(ledgerId=0, entryId=0, batch_index=index, batch_size=size).SerializeToString()[_ENTRY_ZERO:]


@lru_cache(maxsize=256)
def _all_ends(size: int) -> Array:
    return made([_end_of_id(index, size) for index in range(max(1, size))], pa.binary())


_ENTRY_ZERO: Final = len(MessageIdData(ledgerId=0, entryId=0).SerializeToString())
