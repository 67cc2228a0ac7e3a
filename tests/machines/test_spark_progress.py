"""Where the batches of a Spark stream end, what its tasks read, and which losses it reports."""

from typing import Any

import pytest

from pulsar_actors.machines.spark_progress import (
    BeginBatch,
    EndBatch,
    FailOnDataLoss,
    LookAtPartition,
    PartitionMissing,
    PartitionSeen,
    PlanSpan,
    ReadSpan,
    SparkProgress,
    State,
    StopAt,
)
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition
from tests.machines.driven import Driven

A, B, C = TopicPosition(7, 1), TopicPosition(7, 5), TopicPosition(7, 9)
NEXT_LEDGER = TopicPosition(8, 0)
TRUNCATED = FailOnDataLoss("ends at 7:1, and was read up to 7:5: it was truncated, or made anew")


def progress(*events: Any) -> Driven:
    return Driven(SparkProgress(), *events)


def test_a_batch_ends_where_the_partition_ends() -> None:
    assert progress(BeginBatch(A)).tell(PartitionSeen(C, A)) == [EndBatch(C)]


def test_a_partition_that_the_offsets_do_not_name_is_read_from_its_first_message() -> None:
    stream = progress(BeginBatch(None))
    assert stream.tell(PartitionSeen(C, TOPIC_START)) == [EndBatch(C)]
    assert stream.tell(PlanSpan(TOPIC_START, C)) == [ReadSpan(TOPIC_START, C)]


@pytest.mark.parametrize(
    ("start", "cursor", "end"), [(B, C, B), (None, C, C), (None, None, TOPIC_START), (TOPIC_START, C, TOPIC_START)]
)
def test_a_batch_of_an_empty_partition_ends_where_it_starts(
    start: TopicPosition | None, cursor: TopicPosition | None, end: TopicPosition
) -> None:
    assert progress(BeginBatch(start)).tell(PartitionSeen(TOPIC_START, cursor)) == [EndBatch(end)]


EARLIER = pytest.mark.parametrize(
    "earlier",
    [[], [BeginBatch(A), PartitionSeen(B, A)], [BeginBatch(A), PartitionSeen(C, A)]],
    ids=["unknown", "no backlog seen", "backlog seen"],
)
"""Batches before one that starts at B."""


@EARLIER
def test_a_later_batch_of_a_partition_that_is_empty_now_ends_where_it_starts(earlier: list[Any]) -> None:
    assert progress(*earlier, BeginBatch(B)).tell(PartitionSeen(TOPIC_START, A)) == [EndBatch(B)]


@EARLIER
def test_a_partition_that_ends_before_what_was_read_is_reported_and_read_from_its_first_message(
    earlier: list[Any],
) -> None:
    stream = progress(*earlier, BeginBatch(B))
    assert stream.tell(PartitionSeen(A, A)) == [TRUNCATED, EndBatch(A)]
    assert stream.tell(PlanSpan(B, A)) == [ReadSpan(TOPIC_START, A)]


def test_nothing_is_planned_where_there_is_nothing_to_read() -> None:
    assert progress().tell(PlanSpan(B, B)) == []
    assert progress(BeginBatch(B), PartitionSeen(B, A)).tell(PlanSpan(B, B)) == []


# A query that is to end.


@pytest.mark.parametrize(("stop", "end"), [(B, B), (C, C), (TOPIC_START, A)])
def test_a_query_goes_no_further_than_where_it_is_to_end_and_never_back(
    stop: TopicPosition, end: TopicPosition
) -> None:
    assert progress(StopAt(stop), BeginBatch(A)).tell(PartitionSeen(C, A)) == [EndBatch(end)]


def test_an_empty_partition_is_not_read_beyond_where_the_query_is_to_end() -> None:
    assert progress(StopAt(TOPIC_START), BeginBatch(None)).tell(PartitionSeen(TOPIC_START, C)) == [
        EndBatch(TOPIC_START)
    ]


def test_a_partition_that_was_not_there_when_the_query_was_to_end_is_not_read() -> None:
    assert progress(StopAt(None), BeginBatch(None)).tell(PartitionSeen(C, TOPIC_START)) == []
    assert progress(StopAt(None), BeginBatch(B)).tell(PartitionSeen(A, A)) == [TRUNCATED]


# A subscription that somebody else has moved.


def test_a_subscription_that_was_moved_within_a_ledger_is_reported() -> None:
    stream = progress(BeginBatch(A), PartitionSeen(C, B))
    assert stream.tell(PlanSpan(A, C)) == [ReadSpan(A, C, moved_to=B)]


@pytest.mark.parametrize("cursor", [None, TOPIC_START, A], ids=["unknown", "behind", "where it was left"])
def test_a_subscription_that_was_not_moved_beyond_the_start_is_not_reported(cursor: TopicPosition | None) -> None:
    stream = progress(BeginBatch(A), PartitionSeen(C, A), BeginBatch(A), PartitionSeen(C, cursor))
    assert stream.machine.state is State.BACKLOG_SEEN
    assert stream.tell(PlanSpan(A, C)) == [ReadSpan(A, C)]


def test_a_subscription_that_was_moved_before_anything_was_read_is_not_reported() -> None:
    stream = progress(BeginBatch(TOPIC_START), PartitionSeen(C, B))
    assert stream.tell(PlanSpan(TOPIC_START, C)) == [ReadSpan(TOPIC_START, C)]


def test_a_subscription_at_the_beginning_of_a_ledger_may_have_been_moved_by_the_broker_itself() -> None:
    stream = progress(BeginBatch(A), PartitionSeen(A, A), BeginBatch(A), PartitionSeen(NEXT_LEDGER, NEXT_LEDGER))
    assert stream.machine.state is State.NO_BACKLOG_SEEN
    assert stream.tell(PlanSpan(A, NEXT_LEDGER)) == [ReadSpan(A, NEXT_LEDGER)]


def test_a_subscription_that_left_unread_messages_for_another_ledger_is_reported() -> None:
    stream = progress(BeginBatch(A), PartitionSeen(C, A), BeginBatch(B), PartitionSeen(NEXT_LEDGER, NEXT_LEDGER))
    assert stream.machine.state is State.BACKLOG_SEEN
    assert stream.tell(PlanSpan(B, NEXT_LEDGER)) == [ReadSpan(B, NEXT_LEDGER, moved_to=NEXT_LEDGER)]


def test_unread_messages_are_remembered_when_the_partition_ends_earlier_since() -> None:
    seen = [BeginBatch(A), PartitionSeen(C, A), BeginBatch(A), PartitionSeen(A, A), BeginBatch(A)]
    stream = progress(*seen, PartitionSeen(NEXT_LEDGER, NEXT_LEDGER))
    assert stream.tell(PlanSpan(A, NEXT_LEDGER)) == [ReadSpan(A, NEXT_LEDGER, moved_to=NEXT_LEDGER)]


def test_a_stream_that_has_read_all_it_saw_has_caught_up_again() -> None:
    stream = progress(BeginBatch(A), PartitionSeen(C, A), BeginBatch(B), BeginBatch(C))
    assert stream.machine.state is State.NO_BACKLOG_SEEN


# A driver that restarts.


def test_a_batch_that_was_planned_before_a_restart_waits_for_a_look_at_the_partition() -> None:
    stream = progress(PlanSpan(A, C))
    assert stream.effects == [LookAtPartition()]
    assert stream.tell(PartitionSeen(C, A)) == [ReadSpan(A, C)]
    assert stream.machine.end == C


LATER = TopicPosition(8, 3)


@pytest.mark.parametrize(
    ("end", "cursor", "moved_to"),
    [
        (C, A, None),
        (C, B, B),
        (C, NEXT_LEDGER, NEXT_LEDGER),  # over the messages before C, which the stream has not acknowledged
        (NEXT_LEDGER, NEXT_LEDGER, None),  # A may be the end of its ledger
        (NEXT_LEDGER, TopicPosition(9, 0), None),
        (LATER, NEXT_LEDGER, None),
        (LATER, TopicPosition(9, 0), TopicPosition(9, 0)),
    ],
)
def test_a_move_of_the_subscription_is_noticed_by_that_look(
    end: TopicPosition, cursor: TopicPosition, moved_to: TopicPosition | None
) -> None:
    assert progress(PlanSpan(A, end)).tell(PartitionSeen(end, cursor)) == [ReadSpan(A, end, moved_to)]


def test_that_look_counts_for_nothing_in_later_batches() -> None:
    stream = progress(PlanSpan(A, B), PartitionSeen(C, A), BeginBatch(B))
    assert stream.machine.state is State.NO_BACKLOG_SEEN


def test_a_look_that_failed_is_taken_again() -> None:
    stream = progress(PlanSpan(A, C))
    assert stream.tell(PlanSpan(A, C)) == [LookAtPartition()]
    assert stream.tell(BeginBatch(A), PartitionSeen(B, A)) == [EndBatch(B)]


# A partition that is gone.


@pytest.mark.parametrize("events", [[], [PlanSpan(A, C)], [BeginBatch(A), PartitionSeen(C, A)]])
def test_a_partition_that_is_gone_is_reported_if_it_was_to_be_read(events: list[Any]) -> None:
    assert progress(*events).tell(PartitionMissing(is_in_offsets=True)) == [FailOnDataLoss("is gone")]
    stream = progress(*events)
    assert stream.tell(PartitionMissing(is_in_offsets=False)) == []
    assert stream.machine.is_over
    assert stream.tell(PartitionSeen(C, A), PartitionMissing(is_in_offsets=True)) == []
