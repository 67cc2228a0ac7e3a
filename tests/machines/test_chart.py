from enum import Enum
from typing import Any, NamedTuple

import pytest
from transitions import EventData, Transition
from transitions import Machine as LibraryMachine
from transitions.core import Event as LibraryEvent

from pulsar_actors.machines.chart import INTERNAL, Chart, ChartError, Ignore, IllegalEvent, Row, RowFailed
from pulsar_actors.machines.state_machine import StateMachine


class Door(Enum):
    OPEN = "People can walk through."
    SHUT = "People have to open it."
    GONE = "There is a wall."


class Push(NamedTuple):
    force: int


class Wind(NamedTuple):
    pass


class BrickUp(NamedTuple):
    pass


OPEN, SHUT, GONE = Door
ROWS = (
    Row(Push, OPEN, SHUT, does="slam"),
    Row(Push, SHUT, OPEN, guard="is_strong", does="creak"),
    Row(Push, SHUT, INTERNAL, does="rattle"),
    Row(BrickUp, (OPEN, SHUT), GONE),
)
IGNORES = (Ignore(Wind, (OPEN, SHUT)), Ignore(Wind, GONE))


def chart(rows: Any = ROWS, **changed: Any) -> Chart:
    declared: dict[str, Any] = {
        "states": Door,
        "initial": OPEN,
        "final": [GONE],
        "ours": [Push, BrickUp],
        "rows": rows,
        "ignores": IGNORES,
    }
    return Chart("door", **declared | changed)


class DoorMachine(StateMachine, chart=chart()):
    def is_strong(self, event: Push, now: float) -> bool:
        return event.force > 1 + 0 // (event.force - 13)

    def slam(self, event: Push, now: float) -> list[object]:
        return ["bang", now]

    def creak(self, event: Push, now: float) -> list[object]:
        return ["creak"]

    def rattle(self, event: Push, now: float) -> list[object]:
        if event.force == 0:
            raise ZeroDivisionError
        return ["rattle"]


def door(state: Door) -> DoorMachine:
    machine = DoorMachine()
    machine.state = state
    return machine


def test_an_event_moves_the_machine_and_gives_the_effects_of_its_row() -> None:
    machine = DoorMachine()
    assert machine.state is OPEN
    assert machine.handle(Push(1), now=5.0) == ["bang", 5.0]
    assert machine.state is SHUT


def test_the_first_row_whose_guard_holds_is_taken_and_the_last_one_otherwise() -> None:
    assert (machine := door(SHUT)).handle(Push(9), 0.0) == ["creak"]
    assert machine.state is OPEN
    assert (machine := door(SHUT)).handle(Push(-5), 0.0) == ["rattle"]
    assert machine.state is SHUT


def test_machines_of_one_chart_do_not_share_their_state() -> None:
    first, second = DoorMachine(), DoorMachine()
    first.handle(BrickUp(), 0.0)
    assert (first.state, second.state) == (GONE, OPEN)


def test_an_event_that_is_not_listed_is_illegal_and_the_error_says_what_would_be_legal() -> None:
    machine = door(GONE)
    with pytest.raises(IllegalEvent, match="door: push is illegal in GONE; legal there: wind"):
        machine.handle(Push(1), 0.0)
    assert machine.state is GONE


@pytest.mark.parametrize("state", Door)
def test_an_ignored_event_changes_nothing(state: Door) -> None:
    machine = door(state)
    assert machine.handle(Wind(), 0.0) == []
    assert machine.state is state


def test_several_events_can_be_ignored_in_several_states() -> None:
    ignores = (*IGNORES, Ignore((Push, BrickUp), GONE))
    assert chart(ignores=ignores).legal(GONE) == {Push, Wind, BrickUp}


def test_a_row_with_a_guard_is_tried_before_the_event_is_ignored() -> None:
    class Barred(DoorMachine, chart=chart(without(2), ignores=(*IGNORES, Ignore(Push, SHUT)))):
        pass

    machine = Barred()
    machine.state = SHUT
    assert machine.handle(Push(-5), 0.0) == []
    assert machine.state is SHUT
    assert machine.handle(Push(9), 0.0) == ["creak"]
    assert machine.state is OPEN


def test_an_event_of_another_chart_is_illegal() -> None:
    with pytest.raises(IllegalEvent, match="door: DoorMachine is no event of this chart"):
        DoorMachine().handle(DoorMachine(), 0.0)


def test_an_exception_in_an_action_leaves_the_state_and_names_the_row() -> None:
    machine = door(SHUT)
    with pytest.raises(
        RowFailed, match=r"action 'rattle' of row push / rattle: SHUT -> stays raised ZeroDivisionError"
    ):
        machine.handle(Push(0), 0.0)
    assert machine.state is SHUT


def test_an_exception_in_the_action_of_a_moving_row_leaves_the_state_where_it_was() -> None:
    class Broken(StateMachine, chart=chart([row._replace(guard=None) for row in ROWS[:2]] + list(ROWS[3:]))):
        slam = creak = lambda self, event, now: [] if event.force else 1 / 0

    machine = Broken()
    with pytest.raises(RowFailed, match="action 'slam'"):
        machine.handle(Push(0), 0.0)
    assert machine.state is OPEN


def test_an_exception_in_a_guard_leaves_the_state_and_names_the_row() -> None:
    machine = door(SHUT)
    with pytest.raises(RowFailed, match=r"guard 'is_strong' of row push \[is_strong\] / creak: SHUT -> OPEN"):
        machine.handle(Push(13), 0.0)
    assert machine.state is SHUT


def test_rows_are_transitions_of_the_library_and_can_be_taken_in_its_way() -> None:
    machine, effects = door(SHUT), list[object]()
    event = DoorMachine.running._events[Push]
    assert isinstance(event, LibraryEvent)
    assert isinstance(event.machine, LibraryMachine)
    strong, weak = event.transitions["SHUT"]
    assert isinstance(strong, Transition)
    data = EventData(None, event, event.machine, machine, (Push(1), 5.0, effects), {})
    assert not strong.execute(data)
    assert weak.execute(data)
    assert (machine.state, effects) == (SHUT, ["rattle"])
    assert [condition.func for condition in strong.conditions] == [DoorMachine.is_strong]
    assert strong.before == [DoorMachine.creak]


def test_legal_gives_the_events_of_a_state() -> None:
    assert DoorMachine.running.chart.legal(OPEN) == {Push, Wind, BrickUp}
    assert DoorMachine.running.chart.legal(GONE) == {Wind}


class Elsewhere(Enum):
    NOWHERE = "Not a state of the door."


def without(*indexes: int) -> list[Row]:
    return [row for index, row in enumerate(ROWS) if index not in indexes]


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"rows": [*ROWS, Row(BrickUp, OPEN, Elsewhere.NOWHERE)]}, "unknown state Elsewhere.NOWHERE"),
        ({"rows": [*ROWS, Row(BrickUp, Elsewhere.NOWHERE, OPEN)]}, "unknown state Elsewhere.NOWHERE"),
        ({"initial": Elsewhere.NOWHERE}, "unknown state Elsewhere.NOWHERE"),
        ({"final": [GONE, Elsewhere.NOWHERE]}, "unknown state Elsewhere.NOWHERE"),
        ({"rows": without(0, 3), "ours": [Push]}, "SHUT cannot be reached"),
        ({"rows": [*without(1, 2, 3), Row(BrickUp, OPEN, GONE)]}, "SHUT is a dead end and not declared final"),
        ({"final": []}, "GONE is a dead end and not declared final"),
        ({"final": [GONE, SHUT]}, "SHUT is declared final and yet left"),
        ({"rows": without(2)}, "push in SHUT has no row for when no guard holds"),
        ({"rows": [*ROWS, Row(Push, OPEN, INTERNAL)]}, "push in OPEN comes after one without a guard"),
        ({"ignores": [Ignore(Wind, (OPEN, GONE))]}, "wind comes from outside but is not listed in SHUT"),
        ({"ignores": [*IGNORES, Ignore(Push, OPEN)]}, "push in OPEN comes after one without a guard"),
        ({"ignores": [*IGNORES, Ignore(Wind, GONE)]}, "wind in GONE comes after one without a guard"),
        ({"ignores": [*IGNORES, Ignore(Push, Elsewhere.NOWHERE)]}, "unknown state Elsewhere.NOWHERE"),
        ({"ours": [BrickUp]}, "push comes from outside but is not listed in GONE"),
        ({"ours": [Push, BrickUp, str]}, "no row is for str"),
        ({"ignores": [*IGNORES, Ignore(type("Wind", (), {}), tuple(Door))]}, "two events are called wind"),
        ({"ignores": [Ignore(Wind, tuple(Door))]}, "wind is ignored in every state"),
    ],
)
def test_a_chart_that_contradicts_itself_can_not_be_built(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ChartError, match=complaint):
        chart(**changed)


@pytest.mark.parametrize("part", ["guard", "does"])
def test_a_misspelt_guard_or_action_is_refused_when_the_class_is_made(part: str) -> None:
    rows = [row._replace(**{part: "is_stong"}) if getattr(row, part) else row for row in ROWS[:2]] + list(ROWS[2:])
    with pytest.raises(ChartError, match="Misspelt has no method 'is_stong'"):

        class Misspelt(DoorMachine, chart=chart(rows)):
            pass
