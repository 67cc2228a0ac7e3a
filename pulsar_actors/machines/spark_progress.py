"""The progress of a Spark stream on one partition: the ends of its batches, the spans of its tasks, and lost messages.

A stream has one of these machines for each partition of its topics, on Spark's driver. It is in `machines` with the
other charts because it does not use Spark: the charts can be drawn and tested without PySpark. `spark_span.py` decides
about losses within a span, in the task that reads it. The state is not stored: a driver that ends leaves only Spark's
checkpoint.

For each batch Spark makes two calls. The first asks for the end of the batch: this machine lets the stream ask the
broker for the end of the partition, and answers with the end of the batch. The second asks what the tasks have to read:
this machine answers with a span of messages. It also notices if others have deleted or truncated the topic, or moved
the stream's subscription.

A driver that restarts from a checkpoint has only the offsets there, so the state is UNKNOWN. Spark may ask again for a
batch that was planned before the restart; then the broker has to be asked first.

Brokers themselves move a subscription from the end of a ledger to the beginning of the next. So a subscription at the
beginning of a ledger was moved by others only if there were unread messages before it. That is known in BACKLOG_SEEN,
and of a batch that was planned before a restart, if the subscription is at or after its end: a batch that ends within a
ledger has a message.

An empty topic reports no end, even if it had messages before: then a batch ends at its start. A topic that is deleted
and created again counts as another topic. It has a new progress, and is read from its first message.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Ignore, Row
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition

# Events: the calls of Spark.


class BeginBatch(NamedTuple):
    """The next batch starts here. None for a partition that is not in the offsets yet, which is read from its start.

    There are such events only for partitions that the stream has discovered.
    """

    start: TopicPosition | None


class PlanSpan(NamedTuple):
    """The tasks of a batch have to read from `start` up to `end`."""

    start: TopicPosition
    end: TopicPosition


class StopAt(NamedTuple):
    """The query ends here. None for a partition that did not exist when Spark asked the query to end."""

    end: TopicPosition | None


# Events: the answers of the broker.


class PartitionSeen(NamedTuple):
    """The end of the partition, and the position of its subscription, None if the broker does not send it."""

    end: TopicPosition
    cursor: TopicPosition | None


class PartitionMissing(NamedTuple):
    """The partition does not exist. `is_in_offsets` is True if it is in the offsets of the current batch."""

    is_in_offsets: bool


# Effects.


class EndBatch(NamedTuple):
    """The batch ends here, on this partition."""

    end: TopicPosition


class ReadSpan(NamedTuple):
    """A task reads these messages. `moved_to` is the position of the subscription, if others have moved it."""

    start: TopicPosition
    end: TopicPosition
    moved_to: TopicPosition | None = None


class LookAtPartition(NamedTuple):
    """Ask the broker about the partition; answer with `PartitionSeen` or `PartitionMissing`."""


class FailOnDataLoss(NamedTuple):
    """Messages are lost: raise an error or log a warning, as Spark's option `failOnDataLoss` says.

    `what` completes a sentence that begins with the name of the partition.
    """

    what: str


@unique
class State(Enum):
    """States of the progress on one partition."""

    UNKNOWN = "The driver has started, and has not asked the broker about the partition."
    PLANNING_AGAIN = "The driver restarted within a batch, and asks the broker before it plans the batch again."
    NO_BACKLOG_SEEN = (
        "Before the batch began, the broker had shown no message after its start; there may have been some."
    )
    BACKLOG_SEEN = "Before the batch began, the broker had shown messages after its start."
    MISSING = "The partition does not exist."


UNKNOWN, PLANNING_AGAIN, NO_BACKLOG_SEEN, BACKLOG_SEEN, MISSING = State
IN_BATCH: Final = (NO_BACKLOG_SEEN, BACKLOG_SEEN)
RESTARTED: Final = (UNKNOWN, PLANNING_AGAIN)
EXISTING: Final = (*RESTARTED, *IN_BATCH)

# fmt: off
ROWS: Final = (
    #   trigger           source           dest             guard                       does
    # The end of the next batch.
    Row(BeginBatch,       EXISTING,        BACKLOG_SEEN,    "has_seen_backlog",         "begin"),
    Row(BeginBatch,       EXISTING,        NO_BACKLOG_SEEN, None,                       "begin"),
    Row(PartitionSeen,    IN_BATCH,        INTERNAL,        "is_truncated_and_unasked", "fail_on_truncated"),
    Row(PartitionSeen,    IN_BATCH,        INTERNAL,        "is_truncated",             "fail_on_truncated_and_end"),
    Row(PartitionSeen,    IN_BATCH,        INTERNAL,        "is_unasked",               "read_nothing"),
    Row(PartitionSeen,    IN_BATCH,        INTERNAL,        "goes_beyond_query",        "end_with_query"),
    Row(PartitionSeen,    IN_BATCH,        INTERNAL,        "is_empty",                 "end_where_it_starts"),
    Row(PartitionSeen,    IN_BATCH,        INTERNAL,        None,                       "end_where_it_ends"),
    Row(StopAt,           EXISTING,        INTERNAL,        None,                       "go_no_further"),

    # The spans of tasks.
    Row(PlanSpan,         EXISTING,        INTERNAL,        "has_nothing_to_read"),
    Row(PlanSpan,         NO_BACKLOG_SEEN, INTERNAL,        "is_moved_in_ledger",       "read_after_move"),
    Row(PlanSpan,         BACKLOG_SEEN,    INTERNAL,        "is_moved",                 "read_after_move"),
    Row(PlanSpan,         IN_BATCH,        INTERNAL,        None,                       "read"),
    Row(PlanSpan,         RESTARTED,       PLANNING_AGAIN,  None,                       "look"),
    Row(PartitionSeen,    PLANNING_AGAIN,  NO_BACKLOG_SEEN, "was_moved",                "read_planned_after_move"),
    Row(PartitionSeen,    PLANNING_AGAIN,  NO_BACKLOG_SEEN, None,                       "read_planned"),

    # The partition was deleted.
    Row(PartitionMissing, EXISTING,        MISSING,         "was_to_be_read",           "fail_on_missing"),
    Row(PartitionMissing, EXISTING,        MISSING),
)

IGNORES: Final = (
    #      event                               state
    Ignore(PartitionSeen,                      UNKNOWN),
    Ignore((PartitionSeen, PartitionMissing),  MISSING),
)
# fmt: on

CHART: Final = Chart(
    "spark_progress",
    states=State,
    initial=UNKNOWN,
    final=[MISSING],
    ours=(BeginBatch, PlanSpan, StopAt),
    rows=ROWS,
    ignores=IGNORES,
)


class SparkProgress(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order. `end` is the last known end of the partition."""

    __slots__ = ("_cursor", "_furthest_end", "_planned", "_start", "_stop", "end")

    def __init__(self) -> None:
        super().__init__()
        self.end: TopicPosition | None = None
        self._start: TopicPosition | None = None  # of the batch at hand; None if the offsets do not name the partition
        self._cursor: TopicPosition | None = None  # what the subscription reads next, as last seen
        self._furthest_end = TOPIC_START  # of all ends that were seen; an end may come closer when messages are deleted
        self._planned = PlanSpan(TOPIC_START, TOPIC_START)  # what is planned once the broker has answered
        self._stop: StopAt | None = None  # the end of the query, if it has one

    def has_seen_backlog(self, event: BeginBatch, now: float) -> bool:
        """Return whether messages after the start were seen before this batch."""
        return (event.start or TOPIC_START) < self._furthest_end

    def begin(self, event: BeginBatch, now: float) -> Effects:
        """Note the start of the batch, and ask the broker for the end of the partition."""
        self._start = event.start
        return [LookAtPartition()]

    def is_truncated_and_unasked(self, event: PartitionSeen, now: float) -> bool:
        """Return whether the partition was truncated, and the query ends without it."""
        return self.is_truncated(event, now) and self.is_unasked(event, now)

    def fail_on_truncated(self, event: PartitionSeen, now: float) -> Effects:
        """Report the loss."""
        read_up_to = self._read_up_to.text(-1)
        what = f"ends at {event.end.text(-1)}, and was read up to {read_up_to}: it was truncated, or made anew"
        self._note(event)
        return [FailOnDataLoss(what)]

    def is_truncated(self, event: PartitionSeen, now: float) -> bool:
        """Return whether the partition ends before the start of the batch: it was truncated, or created anew."""
        return event.end != TOPIC_START and event.end < self._read_up_to

    def fail_on_truncated_and_end(self, event: PartitionSeen, now: float) -> Effects:
        """Report the loss, and end the batch at the end of the partition."""
        return [*self.fail_on_truncated(event, now), EndBatch(event.end)]

    def is_unasked(self, event: PartitionSeen, now: float) -> bool:
        """Return whether the partition did not exist when Spark asked the query to end."""
        return self._stop is not None and self._stop.end is None

    def read_nothing(self, event: PartitionSeen, now: float) -> Effects:
        """Leave the partition out of the batch."""
        self._note(event)
        return []

    def goes_beyond_query(self, event: PartitionSeen, now: float) -> bool:
        """Return whether the batch would end after the query."""
        return self._stop is not None and self._end_of(event) > self._end_of_query

    def end_with_query(self, event: PartitionSeen, now: float) -> Effects:
        """Read up to the end of the query, but not to a position before the start."""
        self._note(event)
        return [EndBatch(self._end_of_query)]

    def is_empty(self, event: PartitionSeen, now: float) -> bool:
        """Return whether the partition has no messages, and so reports no end."""
        return event.end == TOPIC_START

    def end_where_it_starts(self, event: PartitionSeen, now: float) -> Effects:
        """End the batch at its start. A new partition starts at the position of its subscription."""
        self._note(event)
        return [EndBatch(self._start_of(event))]

    def end_where_it_ends(self, event: PartitionSeen, now: float) -> Effects:
        """End the batch at the end of the partition."""
        self._note(event)
        return [EndBatch(event.end)]

    def go_no_further(self, event: StopAt, now: float) -> Effects:
        """Note the end of the query."""
        self._stop = event
        return ()

    def has_nothing_to_read(self, event: PlanSpan, now: float) -> bool:
        """Return whether the batch has no messages of the partition."""
        return event.start == event.end

    def is_moved_in_ledger(self, event: PlanSpan, now: float) -> bool:
        """Return whether the subscription is after the start of the batch, and not at the beginning of a ledger."""
        return _is_moved_in_ledger(self._cursor, event)

    def is_moved(self, event: PlanSpan, now: float) -> bool:
        """Return whether the subscription is after the start of the batch."""
        return _is_moved(self._cursor, event)

    def read_after_move(self, event: PlanSpan, now: float) -> Effects:
        """Read the span. The task checks if the first messages are deleted."""
        return _read(event, self._cursor)

    def read(self, event: PlanSpan, now: float) -> Effects:
        """Read the span."""
        return _read(event)

    def look(self, event: PlanSpan, now: float) -> Effects:
        """Ask the broker about the partition, before the span is planned."""
        self._planned = event
        return [LookAtPartition()]

    def was_moved(self, event: PartitionSeen, now: float) -> bool:
        """Return whether the subscription was moved over messages of the planned span before the driver restarted."""
        return _is_moved_in_ledger(event.cursor, self._planned) or _is_moved_over(event.cursor, self._planned)

    def read_planned_after_move(self, event: PartitionSeen, now: float) -> Effects:
        """Read the planned span. The task checks if the first messages are deleted."""
        self.end, self._cursor = event
        return _read(self._planned, event.cursor)

    def read_planned(self, event: PartitionSeen, now: float) -> Effects:
        """Read the planned span."""
        self.end, self._cursor = event
        return _read(self._planned)

    def was_to_be_read(self, event: PartitionMissing, now: float) -> bool:
        """Return whether the partition is in the offsets of the current batch."""
        return event.is_in_offsets

    def fail_on_missing(self, event: PartitionMissing, now: float) -> Effects:
        """Report the loss."""
        return [FailOnDataLoss("is gone")]

    @property
    def _read_up_to(self) -> TopicPosition:
        return TOPIC_START if self._start is None else self._start

    @property
    def _end_of_query(self) -> TopicPosition:
        bound = None if self._stop is None else self._stop.end
        return max(bound or TOPIC_START, self._read_up_to)

    def _start_of(self, event: PartitionSeen) -> TopicPosition:
        start = event.cursor if self._start is None else self._start
        return start or TOPIC_START

    def _end_of(self, event: PartitionSeen) -> TopicPosition:
        """Return the end of a batch without limits."""
        return self._start_of(event) if self.is_empty(event, 0.0) else event.end

    def _note(self, event: PartitionSeen) -> None:
        self.end, self._cursor = event
        self._furthest_end = max(event.end, self._furthest_end)


def _is_moved(cursor: TopicPosition | None, span: PlanSpan) -> bool:
    return cursor is not None and cursor > span.start != TOPIC_START


def _is_moved_in_ledger(cursor: TopicPosition | None, span: PlanSpan) -> bool:
    return cursor is not None and _is_moved(cursor, span) and not cursor.is_first_of_its_ledger


def _is_moved_over(cursor: TopicPosition | None, span: PlanSpan) -> bool:
    """Return whether the subscription is behind a span that has a message: if it ends within a ledger, it has one."""
    return (
        _is_moved(cursor, span)
        and span.start < span.end <= (cursor or span.end)
        and not span.end.is_first_of_its_ledger
    )


def _read(span: PlanSpan, moved_to: TopicPosition | None = None) -> list[Effect]:
    """Read a span; from the beginning, if the partition was created again and ends before the start."""
    return [ReadSpan(span.start if span.start < span.end else TOPIC_START, span.end, moved_to)]
