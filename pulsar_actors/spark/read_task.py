"""A task that reads the messages of one span of a partition, as record batches.

A task reads from the start of its span up to the end, and `SparkSpan` decides when it is finished and what is lost. The
message at the end may not exist yet, so the task does not wait for it: the last message before the end is recognised by
its index in its entry. If entries before the end are missing, or are chunks of a message whose last chunk is after the
end, no message shows that the end is reached. Then the broker is asked if it has more messages. It is asked at gaps,
too, if it has skipped messages, but not at each one: of the gaps since the last question, the first is decisive.

A message in chunks belongs to the span that has its last chunk. If its first chunk is before the span, the reader
reports the last chunk as incomplete. All chunks have the publish time of their message, so a second reader seeks to
that time, and reads up to the last chunk. A broker may use its own clock for the seek, so the second reader starts a
little earlier, and if that was not enough, much earlier. If the last chunk of a message was sent twice, the message
belongs to the first of the two. A producer may give several messages the same uuid: then the last of these that ends
with the chunk, or before it, is the message.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerCryptoFailureAction
from pulsar_actors.client.message_id import MessageId, new_message_id
from pulsar_actors.client.reader import Reader
from pulsar_actors.client.receiving import receiving_internals
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.machines.chart import Event
from pulsar_actors.machines.incoming_entries import IncompleteChunks
from pulsar_actors.machines.spark_progress import FailOnDataLoss
from pulsar_actors.machines.spark_span import (
    CompleteMessage,
    EndReached,
    EntryUnreadable,
    FirstMessage,
    GapSeen,
    MessageIncomplete,
    MessagesEnded,
    SkipsForgotten,
    SparkSpan,
)
from pulsar_actors.machines.trackers.entry_map import EntryKey
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.opened_entry import EntryContents
from pulsar_actors.spark.client_pool import POOL
from pulsar_actors.spark.columns import Columns
from pulsar_actors.spark.offsets import Span
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck
from pulsar_actors.wire.topic_position import TopicPosition

__all__ = [
    "MISS_NOTHING",
    "NoMessageInTime",
    "clipped",
    "complete_chunked_messages",
    "entries_in",
    "fail_on_data_loss",
    "first_position",
    "grouped_for_arrow",
    "next_entry",
    "none_came",
    "position_after",
    "record_batches",
]


MISS_NOTHING: Final[Mapping[str, Any]] = {
    "max_pending_chunked_message": 0,
    "expire_time_of_incomplete_chunked_message_ms": 0,
    "crypto_failure_action": ConsumerCryptoFailureAction.DISCARD,
}
"""Options of a reader that keeps all chunks until their message is complete, as dropped messages would be lost.

It reports encrypted entries like corrupt ones. With FAIL it would keep them until there is a key.
"""

NO_KEYS: Final = "it is encrypted, and Spark has no keys"


def record_batches(partition: InputPartition, options: ReadOptions, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Read the rows of one task. If there is nothing to read, Spark passes a partition of its own, which has none."""
    if isinstance(partition, Span):
        for entries in grouped_for_arrow(entries_in(partition, options)):
            yield columns.batch(entries)


def entries_in(span: Span, options: ReadOptions) -> Iterator[EntryContents]:
    """Read the messages of a span, entry by entry."""
    with POOL.lend(options.cluster) as pooled:
        reader = pooled.client.create_reader(
            span.topic,
            new_message_id(span.start.message_id),
            start_message_id_inclusive=True,
            subscription_role_prefix=options.prefix,
            **options.reader,
            **MISS_NOTHING,
        )
        with reader:
            yield from _SpanReader(pooled.client, reader, span, options).entries()


GAP_PAUSE: Final = 0.1
"""Seconds between two questions about gaps, of which a topic with transactions has many."""


class _SpanReader:
    """The reader of one span."""

    def __init__(self, client: Client, reader: Reader, span: Span, options: ReadOptions) -> None:
        self._client = client
        self._reader = reader
        self._span = span
        self._options = options
        is_compacted = bool(options.reader.get("is_read_compacted"))
        self._decisions = SparkSpan(span.start, span.end, span.moved, is_compacted=is_compacted)
        self._next = span.start
        self._gap: TopicPosition | None = None  # the first of those that the broker was not asked about
        self._follows: TopicPosition | None = None  # what follows the last entry, without a gap
        self._ask_from = time.monotonic()
        self._completed: list[EntryContents] = []  # chunked messages that began before the span, not returned yet

    def entries(self) -> Iterator[EntryContents]:
        """Read until the end is reached, or there are no more messages before it."""
        entries = self._next_entries() if self._next < self._span.end else None
        if entries:
            self._decide(FirstMessage(first_position(entries[0])))
        while entries:
            for contents in entries:
                messages = clipped(contents, self._next, self._span.end)  # the broker may send an entry twice
                if messages is not None:
                    self._next = position_after(messages)
                    yield messages
            is_at_end = self._next >= self._span.end or position_after(entries[-1]) > self._span.end
            entries = None if is_at_end else self._next_entries()
        if entries is not None:
            self._note_gap(self._span.end)
        self._ask_about_gap()
        self._decide(EndReached() if entries is None else MessagesEnded(self._last_entry, self._next))

    def _next_entries(self) -> Sequence[EntryContents]:
        """Return the next entry, after completed messages that come before it; nothing, if the topic has no more."""
        try:
            contents = next_entry(self._reader, self._options.poll_timeout_ms)
            self._completed += self._complete_skipped()
        except NoMessageInTime:
            raise none_came(self._span.topic, self._next.text(-1), self._options) from None
        if contents is not None:
            self._note_entry(TopicPosition(*contents.entry.message_id.position))
        entries = [] if contents is None else [contents]
        if not self._completed:
            return entries
        now = self._span.end if contents is None else first_position(contents)
        due = [one for one in self._completed if first_position(one) < now]
        self._completed = [one for one in self._completed if first_position(one) > now]
        return [*sorted(due, key=first_position), *entries]

    def _note_entry(self, entry: TopicPosition) -> None:
        self._note_gap(entry)
        if time.monotonic() >= self._ask_from:
            self._ask_about_gap()
        follows = entry._replace(entry_id=entry.entry_id + 1)
        self._follows = follows if self._follows is None else max(self._follows, follows)  # one may come twice

    def _note_gap(self, end: TopicPosition) -> None:
        """Note if entries before this one did not come. Of the first entry, `FirstMessage` tells."""
        if self._gap is None and self._follows is not None and self._follows < end:
            self._gap = self._follows

    def _ask_about_gap(self) -> None:
        """Ask the broker if it has skipped messages, if some did not come."""
        if self._gap is not None:
            skipped = receiving_internals(self._reader).last_message().skipped_up_to
            self._decide(GapSeen(self._gap, skipped))
            self._gap, self._ask_from = None, time.monotonic() + GAP_PAUSE

    def _complete_skipped(self) -> Sequence[EntryContents]:
        """Feed the chart the skipped entries, and complete chunked messages. Both may be far ahead."""
        skipped, forgotten = receiving_internals(self._reader).take_skipped()
        incomplete: list[IncompleteChunks] = []
        for one in skipped:
            if isinstance(one, IncompleteChunks):
                incomplete += self._decide(MessageIncomplete(one, self._next))
            else:
                is_encrypted = one.fault == CommandAck.ValidationError.DecryptionError
                fault = NO_KEYS if is_encrypted else CommandAck.ValidationError.Name(one.fault)
                self._decide(EntryUnreadable(TopicPosition(*one.entry), self._next, fault))
        if forgotten:  # after the others, because an error that names an entry is better
            self._decide(SkipsForgotten(forgotten, self._next))
        return (
            complete_chunked_messages(self._client, self._span.topic, incomplete, self._options) if incomplete else ()
        )

    @property
    def _last_entry(self) -> EntryKey | None:
        return receiving_internals(self._reader).furthest

    def _decide(self, event: Event) -> list[IncompleteChunks]:
        """Feed the chart an event, and return the chunked messages to complete."""
        effects = self._decisions.handle(event, time.monotonic())
        for effect in effects:
            if isinstance(effect, FailOnDataLoss):
                fail_on_data_loss(f"{self._span.topic} has lost messages, it seems: {effect.what}", self._options)
        return [effect.chunks for effect in effects if isinstance(effect, CompleteMessage)]


class NoMessageInTime(Timeout):
    """The topic has messages, but the broker has not sent any in time."""


def none_came(topic: str, start: str, options: ReadOptions) -> Timeout:
    """Return the error for it: the topic has messages from this place on."""
    longest = f"{options.poll_timeout_ms:,} ms, which is pollTimeoutMs"
    return Timeout(f"{topic} has messages from {start} on, and none came within {longest}")


POLL_MS: Final = 500
"""Milliseconds to wait for a message before the broker is asked if there are more."""


def next_entry(reader: Reader, timeout_ms: int) -> EntryContents | None:
    """Return the next entry; None, if the topic has no more. The timeout begins again with each skipped entry."""
    internals = receiving_internals(reader)
    furthest, deadline = internals.furthest, time.monotonic() + timeout_ms / 1000
    while True:
        try:
            return internals.read_entry(min(POLL_MS, timeout_ms))
        except Timeout as nothing:
            if not reader.has_message_available():
                return None
            if internals.furthest != furthest:
                furthest, deadline = internals.furthest, time.monotonic() + timeout_ms / 1000
            elif time.monotonic() >= deadline:
                raise NoMessageInTime(str(nothing)) from None


def first_position(contents: EntryContents) -> TopicPosition:
    """Return the position of the first message."""
    return TopicPosition(*contents.entry.message_id.position, contents.indexes[0])


def position_after(contents: EntryContents) -> TopicPosition:
    """Return the position after the last message: in its batch, or after its entry."""
    ledger_id, entry_id = contents.entry.message_id.position
    next_index = contents.indexes[-1] + 1
    if next_index < contents.entry.size:
        return TopicPosition(ledger_id, entry_id, next_index)
    return TopicPosition(ledger_id, entry_id + 1)


def clipped(contents: EntryContents, start: TopicPosition, end: TopicPosition) -> EntryContents | None:
    """Return the messages from the start up to the end; None, if there are none."""
    entry = contents.entry.message_id.position
    if start[:2] < entry < end[:2]:
        return contents
    if not start[:2] <= entry <= end[:2]:
        return None
    stored, payloads, opened, indexes = contents[:4]
    first = bisect_left(indexes, start.batch_index) if entry == start[:2] else 0
    last = bisect_left(indexes, end.batch_index) if entry == end[:2] else len(indexes)
    if first >= last:
        return None
    return EntryContents(stored[first:last], payloads[first:last], opened, indexes[first:last])


LOOKBACK_MS: Final = (5_000, 60_000, 3_600_000)
"""Milliseconds before the publish time at which the second reader starts, for each attempt."""


def complete_chunked_messages(
    client: Client, topic: str, incomplete: Sequence[IncompleteChunks], options: ReadOptions
) -> list[EntryContents]:
    """Return the messages that end with these chunks, if all of their chunks still exist."""
    found: dict[EntryKey, EntryContents] = {}
    for lookback_ms in LOOKBACK_MS:
        missing = [one for one in incomplete if one.entry not in found]
        if missing:
            found |= _read_back(client, topic, missing, lookback_ms, options)
    for one in incomplete:
        if one.entry not in found:
            where = TopicPosition(*one.entry).text(-1)
            LOG.warning("%s: of the message whose last chunk is at %s, the first are gone: left out", topic, where)
    return list({first_position(contents): contents for contents in found.values()}.values())


def _read_back(
    client: Client, topic: str, missing: Sequence[IncompleteChunks], lookback_ms: int, options: ReadOptions
) -> dict[EntryKey, EntryContents]:
    """Read messages again, and return each by its last chunk."""
    reader = client.create_reader(
        topic, MessageId.latest, subscription_role_prefix=options.prefix, **options.reader, **MISS_NOTHING
    )
    with reader:
        reader.seek(max(0, min(one.publish_time for one in missing) - lookback_ms))
        return _collect(reader, missing, options)


def _collect(
    reader: Reader, missing: Sequence[IncompleteChunks], options: ReadOptions
) -> dict[EntryKey, EntryContents]:
    """Read up to the last of these chunks. Of messages with the same uuid, the latest that ends there is the one."""
    found: dict[EntryKey, EntryContents] = {}
    last = max(one.entry for one in missing)
    position: EntryKey | None = None
    while position != last:
        contents = next_entry(reader, options.poll_timeout_ms)
        if contents is None or contents.entry.message_id.position > last:
            break
        position, uuid = contents.entry.message_id.position, contents.entry.metadata.uuid
        found |= {one.entry: contents for one in missing if one.uuid == uuid and position <= one.entry}
    return found


BATCH_MESSAGES: Final = 20_000
BATCH_BYTES: Final = 4 * 1024 * 1024
"""A record batch ends with the entry that reaches one of these limits.

Its fixed cost is small then, and it fits in memory.
"""


def grouped_for_arrow(entries: Iterable[EntryContents]) -> Iterator[list[EntryContents]]:
    """Group entries for record batches."""
    group: list[EntryContents] = []
    messages = size = 0
    for contents in entries:
        group.append(contents)
        messages += len(contents.payloads)
        size += sum(map(len, contents.payloads))
        if messages >= BATCH_MESSAGES or size >= BATCH_BYTES:
            yield group
            group, messages, size = [], 0, 0
    if group:
        yield group


def fail_on_data_loss(what: str, options: ReadOptions) -> None:
    """Raise an error, or log a warning, as the option `failOnDataLoss` says."""
    if options.fail_on_data_loss:
        raise PulsarException(f"{what}. To go on with what there is, set failOnDataLoss to false")
    LOG.warning("%s", what)
