"""The span of messages that one Spark task reads: when it is finished, and which of its messages are lost.

A task has one of these machines, on an executor. It is in `machines` with the other charts, because it does not use
Spark. `spark/read_task.py` reads the messages and keeps the position up to which it has read. Most messages are no
events for this machine: it gets only the first message, entries that cannot be read, and the end.

The message at the end of a span may not exist yet. So a task is finished when a message shows that the end is reached,
or when the broker has no more messages. In the latter case messages before the end may have been deleted, with three
exceptions. If the span ends at the beginning of a ledger, the last entry of the ledger before is unknown, so no loss is
reported. In a compacted topic, missing messages are normal. The last entries before the end may be chunks of a message
whose last chunk is after the end: then the last entry that was read shows that none is missing.

If others have moved the subscription, that alone is no loss: brokers delete whole ledgers, and not at once. So the
first message decides. If it is in the ledger at the start of the span, nothing is deleted. If it is in a later ledger,
that ledger is deleted, or was read to its end before the span: offsets do not tell where a ledger ends. Then a loss is
reported although nothing may be lost, rather than that a loss is hidden.

A message TTL moves the task's own reader, too, beyond messages that are still stored. The task cannot see it: ids may
have gaps, for example where a transaction ended. So it asks the broker at gaps. It acknowledges nothing, so that a
position beyond the beginning of a gap is not its own. If that position came later than the gap, a loss is reported
although nothing is lost.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.incoming_entries import IncompleteChunks
from pulsar_actors.machines.spark_progress import FailOnDataLoss
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.entry_map import EntryKey
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition

# Events: what the task reads. `read_up_to` is the position up to which it has read.


class FirstMessage(NamedTuple):
    """The first message of the broker has come."""

    position: TopicPosition


class EntryUnreadable(NamedTuple):
    """The reader has skipped a damaged entry, which may be far ahead."""

    position: TopicPosition
    read_up_to: TopicPosition
    fault: str


class MessageIncomplete(NamedTuple):
    """The reader has skipped the last chunk of a message, which may be far ahead: it has not read the first chunk."""

    chunks: IncompleteChunks
    read_up_to: TopicPosition


class SkipsForgotten(NamedTuple):
    """The reader has skipped so many entries that it has not kept these."""

    number: int
    read_up_to: TopicPosition


class GapSeen(NamedTuple):
    """The entry at `start`, and maybe others, did not come. `skipped_up_to` is the last that the broker has skipped."""

    start: TopicPosition
    skipped_up_to: EntryKey


class EndReached(NamedTuple):
    """A message shows that no message before the end of the span is left, or the span is empty."""


class MessagesEnded(NamedTuple):
    """The broker has no more messages. `last` is the last entry that came, maybe a chunk; None if none came."""

    last: EntryKey | None
    read_up_to: TopicPosition


# Effects; the other one is `FailOnDataLoss`.


class CompleteMessage(NamedTuple):
    """Read the chunked message again, from before the span: it belongs to the span that has its last chunk."""

    chunks: IncompleteChunks


@unique
class State(Enum):
    """States of the reading of one span."""

    STARTING = "No message has come yet."
    READING = "Messages come."
    FINISHED = "The end of the span is reached, or there are no more messages before it."


STARTING, READING, FINISHED = State
UNFINISHED: Final = (STARTING, READING)

# fmt: off
ROWS: Final = (
    #   trigger            source      dest      guard                does
    Row(FirstMessage,      STARTING,   READING,  "is_after_deletion", "fail_on_moved"),
    Row(FirstMessage,      STARTING,   READING),

    # Entries that the reader has skipped.
    Row(EntryUnreadable,   UNFINISHED, INTERNAL, "is_outside"),
    Row(EntryUnreadable,   UNFINISHED, INTERNAL, None,                "fail_on_unreadable"),
    Row(MessageIncomplete, UNFINISHED, INTERNAL, "ends_outside"),
    Row(MessageIncomplete, UNFINISHED, INTERNAL, None,                "complete_message"),
    Row(SkipsForgotten,    UNFINISHED, INTERNAL, None,                "fail_on_forgotten"),

    # Entries that did not come.
    Row(GapSeen,           UNFINISHED, INTERNAL, "may_have_gaps"),
    Row(GapSeen,           UNFINISHED, INTERNAL, "is_not_skipped"),
    Row(GapSeen,           UNFINISHED, INTERNAL, None,                "fail_on_skipped"),

    # The end.
    Row(EndReached,        UNFINISHED, FINISHED),
    Row(MessagesEnded,     UNFINISHED, FINISHED, "is_compacted"),
    Row(MessagesEnded,     UNFINISHED, FINISHED, "ends_with_ledger"),
    Row(MessagesEnded,     UNFINISHED, FINISHED, "has_come_to_end"),
    Row(MessagesEnded,     UNFINISHED, FINISHED, None,                "fail_on_missing"),
)
# fmt: on

CHART: Final = Chart(
    "spark_span",
    states=State,
    initial=STARTING,
    final=[FINISHED],
    ours=(FirstMessage, EndReached, MessagesEnded),
    rows=ROWS,
    ignores=[Ignore((EntryUnreadable, MessageIncomplete, SkipsForgotten, GapSeen), FINISHED)],
)


class SparkSpan(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order.

    `moved` is set if others have moved the subscription beyond the start: a clause for the error message.
    """

    __slots__ = ("_end", "_is_compacted", "_moved", "_start")

    def __init__(self, start: TopicPosition, end: TopicPosition, moved: str | None, *, is_compacted: bool) -> None:
        super().__init__()
        self._start = start
        self._end = end
        self._moved = moved
        self._is_compacted = is_compacted

    def is_after_deletion(self, event: FirstMessage, now: float) -> bool:
        """Return whether the subscription was moved, and the ledger at the start is deleted, or was read to its end."""
        return (
            self._moved is not None and self._start != TOPIC_START and event.position.ledger_id > self._start.ledger_id
        )

    def fail_on_moved(self, event: FirstMessage, now: float) -> Effects:
        """Report the loss, and its possible cause."""
        start, first = self._start.text(-1), event.position.text(-1)
        return [
            FailOnDataLoss(
                f"{self._moved}; the next message to read was at {start}, and the first that is left is at {first}"
            )
        ]

    def is_outside(self, event: EntryUnreadable, now: float) -> bool:
        """Return whether the entry was read before, or belongs to another span."""
        return self._is_outside(event.position, event.read_up_to)

    def fail_on_unreadable(self, event: EntryUnreadable, now: float) -> Effects:
        """Report the loss."""
        return [FailOnDataLoss(f"what is stored at {event.position.text(-1)} cannot be read: {event.fault}")]

    def ends_outside(self, event: MessageIncomplete, now: float) -> bool:
        """Return whether the last chunk was read before, or belongs to another span."""
        return self._is_outside(TopicPosition(*event.chunks.entry), event.read_up_to)

    def complete_message(self, event: MessageIncomplete, now: float) -> Effects:
        """Read the message again."""
        return [CompleteMessage(event.chunks)]

    def fail_on_forgotten(self, event: SkipsForgotten, now: float) -> Effects:
        """Report the loss."""
        where = event.read_up_to.text(-1)
        return [FailOnDataLoss(f"{event.number:,} entries from {where} on, or more, cannot be read")]

    def may_have_gaps(self, event: GapSeen, now: float) -> bool:
        """Return whether the topic is read compacted: messages are missing on purpose."""
        return self._is_compacted

    def is_not_skipped(self, event: GapSeen, now: float) -> bool:
        """Return whether the broker has not moved the reader beyond the beginning of the gap."""
        return event.skipped_up_to < event.start[:2]

    def fail_on_skipped(self, event: GapSeen, now: float) -> Effects:
        """Report the loss, and its probable cause."""
        start, up_to = event.start.text(-1), TopicPosition(*event.skipped_up_to).text(-1)
        return [
            FailOnDataLoss(
                f"the broker has skipped messages from {start} up to {up_to} while they were read, as it does with "
                "messages that a TTL has expired"
            )
        ]

    def is_compacted(self, event: MessagesEnded, now: float) -> bool:
        """Return whether the topic is read compacted: messages are missing on purpose."""
        return self._is_compacted

    def ends_with_ledger(self, event: MessagesEnded, now: float) -> bool:
        """Return whether the span ends at the beginning of a ledger."""
        return self._end.is_first_of_its_ledger

    def has_come_to_end(self, event: MessagesEnded, now: float) -> bool:
        """Return whether the last entry before the end has come, though maybe as a chunk of a later message."""
        return event.last is not None and TopicPosition(event.last[0], event.last[1] + 1) >= self._end

    def fail_on_missing(self, event: MessagesEnded, now: float) -> Effects:
        """Report the loss."""
        end, read_up_to = self._end.text(-1), event.read_up_to.text(-1)
        return [FailOnDataLoss(f"messages up to {end} were to be read, and there is nothing from {read_up_to} on")]

    def _is_outside(self, where: TopicPosition, read_up_to: TopicPosition) -> bool:
        return where[:2] < read_up_to[:2] or where >= self._end
