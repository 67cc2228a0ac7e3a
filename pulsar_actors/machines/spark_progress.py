"""The progress of a Spark stream on one partition: where its batches end, what tasks read, and which messages are lost.

A stream has one of these machines for each partition of its topics, on Spark's driver. For each batch Spark asks twice.
First, how far the batch can go: the stream asks the broker where the partition ends, and this machine answers where the
batch ends. Then, what its tasks have to read: this machine answers with a span of messages. Along the way it notices
what others have done to the topic: deleted it, truncated it, or moved the stream's subscription.

A driver that restarts from a checkpoint knows nothing but the offsets there: it begins UNSEEN. A batch that was planned
before the restart may be asked for again without a look at the partition, so the machine takes that look itself.

Brokers move a subscription that has read all of a ledger to the beginning of the next ledger. So a subscription that
stands at the beginning of a ledger has been moved by somebody else only if there were unread messages before that,
which is known in BEHIND alone.

An empty topic reports no end, even if it had messages once: then a batch ends where it starts. A topic that is deleted
and created again is another topic, with a progress of its own, which is read from its first message.
"""

from enum import Enum, unique
from typing import Final, NamedTuple

from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Ignore, Row
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.wire.topic_position import EARLIEST, TopicPosition

# Events: what Spark asks of the stream.


class BeginBatch(NamedTuple):
    """The next batch starts here; None for a partition that the offsets do not name yet: it is read from its start."""

    start: TopicPosition | None


class PlanSpan(NamedTuple):
    """The tasks of a batch are to read from `start` up to `end`."""

    start: TopicPosition
    end: TopicPosition


class StopAt(NamedTuple):
    """The query ends here; None for a partition that was not there when Spark asked the query to end."""

    end: TopicPosition | None


# Events: what the broker reports.


class PartitionSeen(NamedTuple):
    """Where the partition ends, and what its subscription reads next; the latter is None where brokers do not tell."""

    end: TopicPosition
    cursor: TopicPosition | None


class PartitionMissing(NamedTuple):
    """The partition does not exist. `is_in_offsets` is true if the batch at hand names it."""

    is_in_offsets: bool


# Effects.


class EndBatch(NamedTuple):
    """The batch ends here, as far as this partition is concerned."""

    end: TopicPosition


class ReadSpan(NamedTuple):
    """A task reads these messages. `moved_to` is where the subscription is, if somebody else has moved it."""

    start: TopicPosition
    end: TopicPosition
    moved_to: TopicPosition | None = None


class LookAtPartition(NamedTuple):
    """Ask the broker about the partition; answer with `PartitionSeen`."""


class ReportMissing(NamedTuple):
    """Messages are lost: the partition is gone."""


class ReportTruncated(NamedTuple):
    """Messages are lost: the partition ends before what has been read of it."""

    end: TopicPosition
    read_up_to: TopicPosition


@unique
class State(Enum):
    """States of the progress on one partition."""

    UNSEEN = "The driver has not looked at the partition since it started."
    PLANNING = "The driver restarted within a batch, and asks the broker before it plans the batch again."
    CAUGHT_UP = "When the batch began, no message after its start had been seen."
    BEHIND = "When the batch began, messages after its start had been seen."
    MISSING = "The partition does not exist."


UNSEEN, PLANNING, CAUGHT_UP, BEHIND, MISSING = State
SEEN: Final = (CAUGHT_UP, BEHIND)
NOT_SEEN: Final = (UNSEEN, PLANNING)
EXISTING: Final = (UNSEEN, PLANNING, CAUGHT_UP, BEHIND)

# fmt: off
ROWS: Final = (
    #   trigger           source               dest       guard                     does
    # How far the next batch goes.
    Row(BeginBatch,       NOT_SEEN,            UNSEEN,    None,                     "begin"),
    Row(BeginBatch,       SEEN,                BEHIND,    "has_seen_more",          "begin"),
    Row(BeginBatch,       SEEN,                CAUGHT_UP, None,                     "begin"),
    Row(PartitionSeen,    (UNSEEN, CAUGHT_UP), CAUGHT_UP, "ends_before_start",      "report_truncated"),
    Row(PartitionSeen,    (UNSEEN, CAUGHT_UP), CAUGHT_UP, "is_empty",               "end_where_it_starts"),
    Row(PartitionSeen,    (UNSEEN, CAUGHT_UP), CAUGHT_UP, None,                     "end_where_it_ends"),
    Row(PartitionSeen,    BEHIND,              INTERNAL,  "ends_before_start",      "report_truncated"),
    Row(PartitionSeen,    BEHIND,              INTERNAL,  "is_empty",               "end_where_it_starts"),
    Row(PartitionSeen,    BEHIND,              INTERNAL,  None,                     "end_where_it_ends"),
    Row(StopAt,           EXISTING,            INTERNAL,  None,                     "go_no_further"),

    # What tasks read.
    Row(PlanSpan,         EXISTING,            INTERNAL,  "has_nothing_to_read"),
    Row(PlanSpan,         CAUGHT_UP,           INTERNAL,  "is_moved_in_ledger",     "read_and_report_move"),
    Row(PlanSpan,         BEHIND,              INTERNAL,  "is_moved",               "read_and_report_move"),
    Row(PlanSpan,         SEEN,                INTERNAL,  None,                     "read"),
    Row(PlanSpan,         NOT_SEEN,            PLANNING,  None,                     "look"),
    Row(PartitionSeen,    PLANNING,            CAUGHT_UP, "was_moved_in_ledger",    "read_planned_and_report_move"),
    Row(PartitionSeen,    PLANNING,            CAUGHT_UP, None,                     "read_planned"),

    # The partition is gone.
    Row(PartitionMissing, EXISTING,            MISSING,   "was_to_be_read",         "report_missing"),
    Row(PartitionMissing, EXISTING,            MISSING),
)
# fmt: on

CHART: Final = Chart(
    "spark_progress",
    states=State,
    initial=UNSEEN,
    final=[MISSING],
    ours=(BeginBatch, PlanSpan, StopAt),
    rows=ROWS,
    ignores=[Ignore((PartitionSeen, PartitionMissing), MISSING)],
)


class SparkProgress(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order. `end` is where the partition ended, as last seen."""

    __slots__ = ("_bound", "_cursor", "_furthest_end", "_is_bounded", "_planned", "_start", "end")

    def __init__(self) -> None:
        super().__init__()
        self.end: TopicPosition | None = None
        self._start: TopicPosition | None = None  # of the batch at hand; None if the offsets do not name the partition
        self._cursor: TopicPosition | None = None  # what the subscription reads next, as last seen
        self._furthest_end = EARLIEST  # of all ends that were seen; an end may come closer when messages are deleted
        self._planned = PlanSpan(EARLIEST, EARLIEST)  # what is planned once the broker has answered
        self._is_bounded = False  # true once the query is to end
        self._bound: TopicPosition | None = None  # where the query ends; None if it reads nothing of the partition

    def begin(self, event: BeginBatch, now: float) -> Effects:
        """Note where the batch starts."""
        self._start = event.start
        return ()

    def has_seen_more(self, event: BeginBatch, now: float) -> bool:
        """Tell whether messages after the start were seen before this batch."""
        return (event.start or EARLIEST) < self._furthest_end

    def ends_before_start(self, event: PartitionSeen, now: float) -> bool:
        """Tell whether the partition ends before the start of the batch: it was truncated, or created anew."""
        return event.end != EARLIEST and event.end < self._read_up_to

    def report_truncated(self, event: PartitionSeen, now: float) -> Effects:
        """Report the loss; the batch has what the partition has now."""
        self._note(event)
        return [ReportTruncated(event.end, self._read_up_to), *self._end_batch(event.end)]

    def is_empty(self, event: PartitionSeen, now: float) -> bool:
        """Tell whether the partition has no messages, and so reports no end."""
        return event.end == EARLIEST

    def end_where_it_starts(self, event: PartitionSeen, now: float) -> Effects:
        """Read nothing. A new partition starts where its subscription is."""
        self._note(event)
        start = event.cursor if self._start is None else self._start
        return self._end_batch(start or EARLIEST)

    def end_where_it_ends(self, event: PartitionSeen, now: float) -> Effects:
        """Read all that the partition has."""
        self._note(event)
        return self._end_batch(event.end)

    def go_no_further(self, event: StopAt, now: float) -> Effects:
        """Note where the query ends."""
        self._is_bounded, self._bound = True, event.end
        return ()

    def has_nothing_to_read(self, event: PlanSpan, now: float) -> bool:
        """Tell whether the batch has no messages of the partition."""
        return event.start == event.end

    def is_moved_in_ledger(self, event: PlanSpan, now: float) -> bool:
        """Tell whether the subscription is after the start of the batch, and not at the beginning of a ledger."""
        return _is_moved_in_ledger(self._cursor, event)

    def is_moved(self, event: PlanSpan, now: float) -> bool:
        """Tell whether the subscription is after the start of the batch."""
        return _is_moved(self._cursor, event)

    def read_and_report_move(self, event: PlanSpan, now: float) -> Effects:
        """Read the span. The task reports the loss, if the first messages are gone indeed."""
        return _read(event, self._cursor)

    def read(self, event: PlanSpan, now: float) -> Effects:
        """Read the span."""
        return _read(event)

    def look(self, event: PlanSpan, now: float) -> Effects:
        """Ask the broker first."""
        self._planned = event
        return [LookAtPartition()]

    def was_moved_in_ledger(self, event: PartitionSeen, now: float) -> bool:
        """Tell the same of the planned span, now that the broker has told where the subscription is."""
        return _is_moved_in_ledger(event.cursor, self._planned)

    def read_planned_and_report_move(self, event: PartitionSeen, now: float) -> Effects:
        """Read the planned span. The task reports the loss, if the first messages are gone indeed."""
        self.end, self._cursor = event
        return _read(self._planned, event.cursor)

    def read_planned(self, event: PartitionSeen, now: float) -> Effects:
        """Read the planned span."""
        self.end, self._cursor = event
        return _read(self._planned)

    def was_to_be_read(self, event: PartitionMissing, now: float) -> bool:
        """Tell whether the batch at hand names the partition."""
        return event.is_in_offsets

    def report_missing(self, event: PartitionMissing, now: float) -> Effects:
        """Report the loss."""
        return [ReportMissing()]

    @property
    def _read_up_to(self) -> TopicPosition:
        return EARLIEST if self._start is None else self._start

    def _note(self, event: PartitionSeen) -> None:
        self.end, self._cursor = event
        self._furthest_end = max(event.end, self._furthest_end)

    def _end_batch(self, end: TopicPosition) -> Effects:
        if not self._is_bounded:
            return [EndBatch(end)]
        return [] if self._bound is None else [EndBatch(min(end, max(self._bound, self._read_up_to)))]


def _is_moved(cursor: TopicPosition | None, span: PlanSpan) -> bool:
    return cursor is not None and cursor > span.start != EARLIEST


def _is_moved_in_ledger(cursor: TopicPosition | None, span: PlanSpan) -> bool:
    return cursor is not None and _is_moved(cursor, span) and not cursor.is_first_of_its_ledger


def _read(span: PlanSpan, moved_to: TopicPosition | None = None) -> list[Effect]:
    """Read a span; from the beginning, if the partition was created anew and ends before the start."""
    return [ReadSpan(span.start if span.start < span.end else EARLIEST, span.end, moved_to)]
