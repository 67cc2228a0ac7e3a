"""How a task reads its span: from the position where it starts, up to the one where it ends.

The message at the end belongs to somebody else, and so it is not waited for: the last one before it shows that it is
the last, by its place in its entry. Where entries are missing that would have been before the end, nothing shows that,
and the broker is asked whether there is anything left to come. Nor does a message in chunks show how far it is, whose
last chunk is behind the end: but the reader knows how far it came.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pulsar_actors.client.client import Client
from pulsar_actors.client.consuming.reader import Reader, furthest_of, left_out_by
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import Timeout
from pulsar_actors.machines.left_out import Unfinished
from pulsar_actors.runtime.opened import Contents
from pulsar_actors.spark.beginnings import ALL_CHUNKS, put_together
from pulsar_actors.spark.columns import Columns
from pulsar_actors.spark.entries import NothingCame, behind, between, next_entry, position_of
from pulsar_actors.spark.loss import lose
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.pool import POOL
from pulsar_actors.spark.position import EARLIEST, Position
from pulsar_actors.spark.row_groups import grouped
from pulsar_actors.spark.span import Span
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck

__all__ = ["entries_in", "record_batches"]


def record_batches(partition: InputPartition, options: ReadOptions, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Read a part into rows. Where there is nothing to be read, Spark asks for a part of its own making."""
    if isinstance(partition, Span):
        for entries in grouped(entries_in(partition, options)):
            yield columns.batch(entries)


def entries_in(span: Span, options: ReadOptions) -> Iterator[Contents]:
    """Read the messages of a span, entry by entry."""
    with POOL.lend(options.cluster) as kept:
        reader = kept.client.create_reader(
            span.topic,
            MessageId.wrap(span.start.message_id),
            start_message_id_inclusive=True,
            subscription_role_prefix=options.prefix,
            **options.reader,
            **ALL_CHUNKS,
        )
        with reader:
            yield from _Reading(kept.client, reader, span, options).entries()


class _Reading:
    """One span, as far as it has been read."""

    def __init__(self, client: Client, reader: Reader, span: Span, options: ReadOptions) -> None:
        self._client = client
        self._reader = reader
        self._span = span
        self._options = options
        self._next = span.start
        self._begun_before: list[Contents] = []  # whose turn has not come

    def entries(self) -> Iterator[Contents]:
        """Read until the end is reached, or nothing is left before it."""
        is_first = True
        while self._next < self._span.end:
            some = self._some()
            if not some:
                self._miss()
                return
            if is_first:
                self._check_start(position_of(some[0]))
                is_first = False
            for contents in some:
                wanted = between(contents, self._next, self._span.end)  # the broker may send what was read again
                if wanted is not None:
                    self._next = behind(wanted)
                    yield wanted
            if behind(some[-1]) > self._span.end:
                return

    def _some(self) -> Sequence[Contents]:
        """Wait for an entry, and give it behind what began before the span; nothing, if the topic has no more."""
        try:
            contents = next_entry(self._reader, self._options.poll_timeout_ms)
            self._begun_before += self._put_together()
        except NothingCame:
            raise self._late() from None
        some = [] if contents is None else [contents]
        if not self._begun_before:
            return some
        now = self._span.end if contents is None else position_of(contents)
        due = [one for one in self._begun_before if position_of(one) < now]
        self._begun_before = [one for one in self._begun_before if position_of(one) > now]
        return [*sorted(due, key=position_of), *some]

    def _put_together(self) -> Sequence[Contents]:
        """Hear what the reader was not given, which may be far ahead, and give what of that can be found."""
        unfinished: list[Unfinished] = []
        left_out, forgotten = left_out_by(self._reader)
        if forgotten:
            self._lose(f"{forgotten:,} entries from {self._next.text(-1)} on, or more, cannot be read")
        for one in left_out:
            where = Position(*one.entry)
            if one.entry < self._next[:2] or where >= self._span.end:
                continue
            if isinstance(one, Unfinished):
                unfinished.append(one)
            else:
                fault = CommandAck.ValidationError.Name(one.fault)
                self._lose(f"what is stored at {where.text(-1)} cannot be read: {fault}")
        return put_together(self._client, self._span.topic, unfinished, self._options) if unfinished else ()

    def _check_start(self, first: Position) -> None:
        """See whether what was to come first may have been deleted: with the ledger that it was in."""
        start, moved = self._span.start, self._span.moved
        if moved is not None and start != EARLIEST and first.ledger_id > start.ledger_id:
            self._lose(
                f"{moved}; what was to be read next was at {start.text(-1)}, and the first there is now is at "
                f"{first.text(-1)}"
            )

    def _miss(self) -> None:
        """Say what is not there. Nothing need be missing before the beginning of a ledger, nor what was compacted."""
        if self._options.reader.get("is_read_compacted"):
            return
        last = furthest_of(self._reader)  # may be a chunk, of a message that ends behind the span
        is_through = last is not None and Position(last[0], last[1] + 1) >= self._span.end
        if not self._span.end.is_first_of_its_ledger and not is_through:
            self._lose(
                f"messages up to {self._span.end.text(-1)} were to be read, and there is nothing from "
                f"{self._next.text(-1)} on"
            )

    def _lose(self, what: str) -> None:
        lose(f"{self._span.topic} has lost messages, it seems: {what}", fails=self._options.fails_on_loss)

    def _late(self) -> Timeout:
        return Timeout(
            f"{self._span.topic} has messages from {self._next.text(-1)} on, and none came within "
            f"{self._options.poll_timeout_ms:,} ms, which is pollTimeoutMs"
        )
