"""A task names what is lost of its span, and nothing else; a chart that does not is found out.

The machine is small enough to be walked through whole: every kind of span, and whatever may come in each state.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

from pulsar_actors.machines.incoming_entries import IncompleteChunks
from pulsar_actors.machines.spark_progress import FailOnDataLoss
from pulsar_actors.machines.spark_span import (
    CHART,
    CompleteMessage,
    EndReached,
    EntryUnreadable,
    FirstMessage,
    GapSeen,
    MessageIncomplete,
    MessagesEnded,
    SkipsForgotten,
    SparkSpan,
    State,
)
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition
from tests.machines.mutants import Fault, fault, planted

A, LAST, END, LATER = TopicPosition(7, 1), TopicPosition(7, 4), TopicPosition(7, 5), TopicPosition(8, 0)


class Kind(NamedTuple):
    """The span that a task reads."""

    start: TopicPosition
    end: TopicPosition
    moved: str | None
    is_compacted: bool


KINDS = [Kind(*one) for one in product((TOPIC_START, A), (END, LATER), (None, "somebody moved it"), (False, True))]


def losses(kind: Kind, event: Any) -> bool:
    """Tell whether the event shows a loss."""
    match event:
        case FirstMessage(position):
            return kind.moved is not None and kind.start == A and position.ledger_id > A.ledger_id
        case EntryUnreadable(position, read_up_to, _):
            return read_up_to <= position < kind.end
        case GapSeen(start, skipped_up_to):
            return not kind.is_compacted and skipped_up_to >= start[:2]
        case MessagesEnded(last, _):
            return not kind.is_compacted and kind.end == END and last != LAST[:2]
        case _:
            return isinstance(event, SkipsForgotten)


def events(state: Any) -> Iterator[Any]:
    """Give what may come in a state."""
    for position, read_up_to in product((A, LAST, END, LATER), (A, LAST)):
        yield EntryUnreadable(position, read_up_to, "ChecksumMismatch")
        yield MessageIncomplete(IncompleteChunks(position[:2], "uuid", 1), read_up_to)
    yield SkipsForgotten(1000, A)
    for skipped in (TOPIC_START, A, LAST, LATER):
        yield GapSeen(A._replace(entry_id=2), skipped[:2])
    if state is State.STARTING:
        yield from map(FirstMessage, (A, LATER))
    if state is not State.FINISHED:
        yield from (EndReached(), MessagesEnded(None, A), MessagesEnded(A[:2], LAST), MessagesEnded(LAST[:2], LAST))


def walk(machine_class: type[SparkSpan]) -> set[Any]:
    """Let every event come in every state of every span."""
    seen: set[Any] = set()
    for kind in KINDS:
        ahead: list[Any] = [State.STARTING]
        while ahead:
            state = ahead.pop()
            if (kind, state) not in seen:
                seen.add((kind, state))
                ahead += [after(machine_class, kind, state, event) for event in events(state)]
    return {state for _, state in seen}


def after(machine_class: type[SparkSpan], kind: Kind, state: Any, event: Any) -> Any:
    """Give the state after an event, and complain of what is wrong with it."""
    machine = machine_class(kind.start, kind.end, kind.moved, is_compacted=kind.is_compacted)
    machine.state = state
    effects = machine.handle(event, 0.0)
    if state is State.FINISHED:
        assert (effects, machine.state) == ([], state), "did something after the end"
        return state
    named = [effect for effect in effects if isinstance(effect, FailOnDataLoss)]
    assert len(named) == losses(kind, event), "is wrong about a loss"
    completed = [effect.chunks for effect in effects if isinstance(effect, CompleteMessage)]
    if isinstance(event, MessageIncomplete):
        is_within = event.read_up_to <= (*event.chunks.entry, 0) < kind.end
        assert completed == [event.chunks] * is_within, "is wrong about a message in chunks"
    assert len(named + completed) == len(effects), "did something else"
    assert machine.is_over == isinstance(event, EndReached | MessagesEnded), "does not end with its span"
    assert machine.state is not State.STARTING or not isinstance(event, FirstMessage), "awaits a second first message"
    return machine.state


def test_a_task_names_every_loss_and_completes_messages_in_chunks() -> None:
    assert walk(SparkSpan) == set(State)


OPENING, GOING = State.STARTING, State.READING

# fmt: off
FAULTS = [
    fault(FirstMessage, OPENING, "fail_on_moved", {"guard": "never"}, "wrong about a loss"),
    fault(FirstMessage, OPENING, "fail_on_moved", {"guard": "always"}, "wrong about a loss"),
    fault(FirstMessage, OPENING, "fail_on_moved", {"does": "ignore"}, "wrong about a loss"),
    fault(FirstMessage, OPENING, "fail_on_moved", {"dest": None}, "a second first message"),
    fault(FirstMessage, OPENING, None, {"does": "fail_on_moved"}, "wrong about a loss"),
    fault(EntryUnreadable, GOING, None, {"guard": "never"}, "wrong about a loss"),
    fault(EntryUnreadable, GOING, None, {"guard": "always"}, "wrong about a loss"),
    fault(EntryUnreadable, GOING, "fail_on_unreadable", {"does": "ignore"}, "wrong about a loss"),
    fault(EntryUnreadable, State.FINISHED, None, {"does": "fail_on_unreadable"}, "after the end"),
    fault(MessageIncomplete, GOING, None, {"guard": "never"}, "about a message in chunks"),
    fault(MessageIncomplete, GOING, "complete_message", {"does": "ignore"}, "about a message in chunks"),
    fault(MessageIncomplete, State.FINISHED, None, {"does": "complete_message"}, "after the end"),
    fault(SkipsForgotten, OPENING, "fail_on_forgotten", {"does": "ignore"}, "wrong about a loss"),
    fault(GapSeen, GOING, None, {"guard": "never"}, "wrong about a loss", guard="may_have_gaps"),
    fault(GapSeen, GOING, None, {"guard": "never"}, "wrong about a loss", guard="is_not_skipped"),
    fault(GapSeen, GOING, "fail_on_skipped", {"does": "ignore"}, "wrong about a loss"),
    fault(GapSeen, State.FINISHED, None, {"does": "fail_on_skipped"}, "after the end"),
    fault(EndReached, GOING, None, {"dest": None}, "does not end with its span"),
    fault(MessagesEnded, GOING, None, {"guard": "never"}, "wrong about a loss", guard="is_compacted"),
    fault(MessagesEnded, GOING, None, {"guard": "never"}, "wrong about a loss", guard="ends_with_ledger"),
    fault(MessagesEnded, GOING, None, {"guard": "never"}, "wrong about a loss", guard="has_come_to_end"),
    fault(MessagesEnded, GOING, None, {"guard": "always"}, "wrong about a loss", guard="has_come_to_end"),
    fault(MessagesEnded, GOING, "fail_on_missing", {"does": "ignore"}, "wrong about a loss"),
    fault(MessagesEnded, GOING, "fail_on_missing", {"dest": None}, "does not end with its span"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_is_wrong_about_losses_is_found_out(fault: Fault) -> None:
    with pytest.raises(AssertionError, match=fault.complaint):
        walk(planted(CHART, SparkSpan, fault))
