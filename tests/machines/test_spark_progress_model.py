"""Whatever Spark asks and others do to a partition, a stream promises no message twice and loses none in silence.

The machine is small enough to be walked through whole, on a partition with a few positions in two ledgers.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

from pulsar_actors.machines.spark_progress import (
    CHART,
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
from tests.machines.mutants import Fault, fault, planted

A, B, NEXT_LEDGER = TopicPosition(7, 1), TopicPosition(7, 5), TopicPosition(8, 0)
ENDS = (TOPIC_START, A, B, NEXT_LEDGER)
SEEN = [PartitionSeen(*one) for one in product(ENDS, (None, B, NEXT_LEDGER))]
MEMORY = sorted({*SparkProgress.__slots__} - {"end"})


class World(NamedTuple):
    """The machine's state and memory; and what a stream must know by now."""

    state: Any
    memory: tuple[Any, ...]
    is_known: bool = False  # the broker has been asked since the driver started
    cursor: TopicPosition | None = None
    shown: TopicPosition = TOPIC_START  # the last message that a batch could have had
    has_backlog: bool = False  # there was a later message when the batch began
    stop: StopAt | None = None


def handle(machine_class: type[SparkProgress], world: World, event: Any) -> tuple[list[Any], World]:
    machine = machine_class()
    machine.state = world.state
    for name, value in zip(MEMORY, world.memory, strict=True):
        setattr(machine, name, value)
    effects = machine.handle(event, 0.0)
    if isinstance(event, PartitionSeen) and world.state not in {State.UNKNOWN, State.MISSING}:
        assert machine.end == event.end, "does not know the end of the partition"
    return effects, world._replace(state=machine.state, memory=tuple(getattr(machine, name) for name in MEMORY))


def check_batch(world: World, start: TopicPosition | None, seen: PartitionSeen, effects: list[Any]) -> None:
    """Complain of a batch that ends where it must not."""
    is_empty, read_up_to = seen.end == TOPIC_START, start or TOPIC_START
    losses = [effect for effect in effects if isinstance(effect, FailOnDataLoss)]
    assert len(losses) == (not is_empty and seen.end < read_up_to), "is wrong about a truncated partition"
    ends = [effect.end for effect in effects if isinstance(effect, EndBatch)]
    assert len(losses + ends) == len(effects), "did something else"
    is_unasked = world.stop is not None and world.stop.end is None
    assert len(ends) == (not is_unasked), "is wrong about a partition that the query has or has not"
    for end in ends:
        existing = (start or seen.cursor or TOPIC_START) if is_empty else seen.end
        bound = existing if world.stop is None or world.stop.end is None else world.stop.end
        assert end <= existing, "promised messages that are not there"
        assert end >= min(existing, bound), "left messages unread"
        assert end <= max(bound, read_up_to), "went beyond the end of the query"
        assert losses or end >= read_up_to, "went back"


def check_plan(world: World, plan: PlanSpan, effects: list[Any], *, is_planned_again: bool = False) -> None:
    """Complain of a span that is not what Spark asked for, and of moves that are forgotten or made up."""
    start, end = plan
    assert [type(effect) for effect in effects] == [ReadSpan], "did not read a span"
    (span,) = effects
    assert (span.start, span.end) == (start if start < end else TOPIC_START, end), "reads another span"
    cursor = world.cursor
    is_moved = cursor is not None and TOPIC_START != start < cursor
    had_messages = world.has_backlog or (is_planned_again and start < end != NEXT_LEDGER)
    if is_moved and cursor == NEXT_LEDGER and not had_messages:
        assert span.moved_to is None, "took a move of the broker for another's"
    else:
        assert span.moved_to == (cursor if is_moved else None), "is wrong about a move"


def missing(machine_class: type[SparkProgress], world: World) -> None:
    """Let the broker have no such partition."""
    for is_in_offsets in (False, True):
        effects, gone = handle(machine_class, world, PartitionMissing(is_in_offsets))
        assert effects == [FailOnDataLoss("is gone")] * is_in_offsets, "is wrong about a missing partition"
        assert gone.state is State.MISSING, "goes on without its partition"
        for late in (SEEN[0], PartitionMissing(is_in_offsets=True)):
            assert handle(machine_class, gone, late) == ([], gone), "did something after the end"


def moves(machine_class: type[SparkProgress], world: World) -> Iterator[World]:
    """Go on from here in every way."""
    missing(machine_class, world)
    for start in (None, *ENDS[:3]):
        effects, begun = handle(machine_class, world, BeginBatch(start))
        assert effects == [LookAtPartition()], "did not ask the broker"
        missing(machine_class, begun)
        for seen in SEEN:
            effects, planned = handle(machine_class, begun, seen)
            check_batch(world, start, seen, effects)
            has_backlog = (start or TOPIC_START) < world.shown
            yield planned._replace(
                is_known=True, cursor=seen.cursor, shown=max(world.shown, seen.end), has_backlog=has_backlog
            )
    for plan in map(PlanSpan._make, product(ENDS, ENDS)):
        effects, asking = handle(machine_class, world, plan)
        if plan.start == plan.end:
            assert effects == [], "plans nothing"
        elif world.is_known:
            check_plan(world, plan, effects)
        else:
            assert effects == [LookAtPartition()], "did not ask the broker"
            missing(machine_class, asking)
            for seen in SEEN:
                effects, planned = handle(machine_class, asking, seen)
                planned = planned._replace(is_known=True, cursor=seen.cursor)
                check_plan(planned, plan, effects, is_planned_again=True)
                yield planned
        yield asking
    for stop in (StopAt(None), StopAt(A)) if world.stop is None else ():
        effects, stopped = handle(machine_class, world, stop)
        assert effects == [], "did something else"
        yield stopped._replace(stop=stop)
    if not world.is_known and world.state is State.UNKNOWN:
        assert handle(machine_class, world, SEEN[0])[0] == [], "did something else"


def walk(machine_class: type[SparkProgress]) -> set[World]:
    """Follow every order of events."""
    machine = machine_class()
    ahead, worlds = [World(machine.state, tuple(getattr(machine, name) for name in MEMORY))], set[World]()
    while ahead:
        world = ahead.pop()
        if world not in worlds:
            worlds.add(world)
            ahead += map(settled, moves(machine_class, world))
    return worlds


def settled(world: World) -> World:
    """Leave out of the memory what the next event sets anew."""
    memory = dict(zip(MEMORY, world.memory, strict=True)) | {"_start": None}
    if world.state is not State.PLANNING_AGAIN:
        memory["_planned"] = None
    return world._replace(memory=tuple(memory.values()))


def test_a_stream_reads_all_there_is_and_names_what_is_lost_whatever_the_order_of_events() -> None:
    worlds = walk(SparkProgress)
    assert {world.state for world in worlds} == {*State} - {State.MISSING}
    assert {world.has_backlog for world in worlds if world.state is State.BACKLOG_SEEN} == {True}
    assert {world.has_backlog for world in worlds if world.state is State.NO_BACKLOG_SEEN} == {False}


NO_BACKLOG, BACKLOG = State.NO_BACKLOG_SEEN, State.BACKLOG_SEEN

# fmt: off
FAULTS = [
    fault(BeginBatch, State.UNKNOWN, "begin", {"does": "ignore"}, "did not ask the broker"),
    fault(BeginBatch, NO_BACKLOG, "begin", {"guard": "never"}, "wrong about a move", guard="has_seen_backlog"),
    fault(BeginBatch, NO_BACKLOG, "begin", {"guard": "always"}, "move of the broker", guard="has_seen_backlog"),
    fault(BeginBatch, BACKLOG, "begin", {"dest": State.BACKLOG_SEEN}, "move of the broker"),
    fault(PartitionSeen, NO_BACKLOG, "fail_on_truncated", {"guard": "never"}, "that the query has or has not"),
    fault(PartitionSeen, NO_BACKLOG, "fail_on_truncated", {"does": "read_nothing"}, "about a truncated partition"),
    fault(PartitionSeen, BACKLOG, "fail_on_truncated_and_end", {"guard": "never"}, "about a truncated partition"),
    fault(PartitionSeen, BACKLOG, "fail_on_truncated_and_end", {"does": "end_where_it_ends"}, "a truncated partition"),
    fault(PartitionSeen, NO_BACKLOG, "read_nothing", {"guard": "never"}, "that the query has or has not"),
    fault(PartitionSeen, NO_BACKLOG, "read_nothing", {"does": "ignore"}, "does not know the end"),
    fault(PartitionSeen, NO_BACKLOG, "end_with_query", {"guard": "never"}, "went beyond the end of the query"),
    fault(PartitionSeen, NO_BACKLOG, "end_with_query", {"does": "end_where_it_starts"}, "unread|not there|beyond"),
    fault(PartitionSeen, NO_BACKLOG, "end_where_it_starts", {"guard": "never"}, "left messages unread|went back"),
    fault(PartitionSeen, BACKLOG, "end_where_it_ends", {"does": "end_where_it_starts"}, "left messages unread"),
    fault(StopAt, State.UNKNOWN, "go_no_further", {"does": "ignore"}, "that the query has|went beyond"),
    fault(PlanSpan, State.UNKNOWN, None, {"guard": "never"}, "plans nothing"),
    fault(PlanSpan, NO_BACKLOG, "read_after_move", {"guard": "never"}, "wrong about a move"),
    fault(PlanSpan, NO_BACKLOG, "read_after_move", {"guard": "is_moved"}, "move of the broker"),
    fault(PlanSpan, BACKLOG, "read_after_move", {"guard": "is_moved_in_ledger"}, "wrong about a move"),
    fault(PlanSpan, NO_BACKLOG, "read", {"does": "look"}, "did not read a span"),
    fault(PlanSpan, State.UNKNOWN, "look", {"does": "read"}, "did not ask the broker"),
    fault(PlanSpan, State.UNKNOWN, "look", {"does": "ignore"}, "did not ask the broker"),
    fault(PartitionSeen, State.PLANNING_AGAIN, "read_planned_after_move", {"guard": "never"}, "wrong about a move"),
    fault(PartitionSeen, State.PLANNING_AGAIN, "read_planned_after_move", {"guard": "always"}, "a move"),
    fault(PartitionSeen, State.PLANNING_AGAIN, "read_planned", {"dest": None}, "did not read|did something else|plan"),
    fault(PartitionMissing, NO_BACKLOG, "fail_on_missing", {"guard": "never"}, "about a missing partition"),
    fault(PartitionMissing, State.UNKNOWN, "fail_on_missing", {"guard": "always"}, "about a missing partition"),
    fault(PartitionMissing, BACKLOG, None, {"dest": None}, "goes on without its partition"),
    fault(PartitionMissing, State.MISSING, None, {"does": "fail_on_missing"}, "did something after the end"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_loses_messages_is_found_out(fault: Fault) -> None:
    with pytest.raises(AssertionError, match=fault.complaint):
        walk(planted(CHART, SparkProgress, fault))
