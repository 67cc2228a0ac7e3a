import sys
from enum import Enum
from typing import NamedTuple

import pytest

from pulsar_actors.exceptions import ConnectionLost
from pulsar_actors.machines.chart import INTERNAL, Chart, Row, RowFailed, Step
from pulsar_actors.machines.machine_history import MOST, Change
from pulsar_actors.machines.state_machine import StateMachine


class Door(Enum):
    OPEN = "People can walk through."
    SHUT = "People have to open it."


class Latch(Enum):
    UP = "Nothing holds the door."
    DOWN = "It holds the door."


class Push(NamedTuple):
    payload: bytes = b""


class Look(NamedTuple):
    pass


class Storm(NamedTuple):
    error: Exception


class Drop(NamedTuple):
    pass


OPEN, SHUT = Door
UP, DOWN = Latch
PUSHED_SHUT, PUSHED_OPEN = Row(Push, OPEN, SHUT, None, "bang"), Row(Push, SHUT, OPEN)
LOOKED, STORMY = Row(Look, (OPEN, SHUT), INTERNAL, None, "bang"), Row(Storm, OPEN, SHUT)
DROPPED = Row(Drop, UP, DOWN)

LATCH_CHART = Chart("latch", states=Latch, initial=UP, final=[DOWN], ours=[Drop], rows=[DROPPED])
DOOR_CHART = Chart(
    "door",
    states=Door,
    initial=OPEN,
    final=[],
    ours=[Push, Look, Storm],
    rows=[PUSHED_SHUT, PUSHED_OPEN, LOOKED, STORMY],
)


class LatchMachine(StateMachine, chart=LATCH_CHART):
    pass


class DoorMachine(StateMachine, chart=DOOR_CHART, parts={"latch": LatchMachine}):
    def __init__(self) -> None:
        super().__init__()
        self.latch = LatchMachine(self)

    def bang(self, event: object, now: float) -> list[object]:
        return []


def test_each_change_of_state_is_recorded_with_its_time_and_its_row() -> None:
    door = DoorMachine()
    door.handle(Push(), 1.5)
    door.handle(Push(), 2.5)
    assert door.history.changes() == [
        Change(1.5, Step("door", OPEN, PUSHED_SHUT), None),
        Change(2.5, Step("door", SHUT, PUSHED_OPEN), None),
    ]
    assert door.history.changes()[0].step.dest is SHUT


def test_a_row_that_stays_in_its_state_is_not_recorded() -> None:
    door = DoorMachine()
    door.handle(Look(), 1.0)
    assert door.history.changes() == []
    assert door.history.recorded == 0


def test_a_part_records_into_the_history_of_the_whole() -> None:
    door = DoorMachine()
    door.handle(Push(), 1.0)
    door.handle(Drop(), 2.0)
    assert [change.step.chart for change in door.history.changes()] == ["door", "latch"]
    assert door.history is door.latch.history


def test_of_an_error_only_its_class_is_kept() -> None:
    door = DoorMachine()
    door.handle(Storm(ConnectionLost("token=secret")), 1.0)
    (change,) = door.history.changes()
    assert change.error is ConnectionLost


def test_only_the_last_changes_are_kept_and_all_are_counted() -> None:
    door = DoorMachine()
    for number in range(3 * MOST):
        door.handle(Push(b"payload"), float(number))
    assert [change.now for change in door.history.changes()] == [float(2 * MOST + at) for at in range(MOST)]
    assert door.history.recorded == 3 * MOST


def test_a_full_history_takes_less_than_two_kilobytes() -> None:
    door = DoorMachine()
    for number in range(3 * MOST):
        door.handle(Push(), 0.5 + number)
    history = door.history
    changes = history.changes()
    assert len({id(change.step) for change in changes}) == len((PUSHED_SHUT, PUSHED_OPEN)), "steps are the chart's"
    own = [history, history._entries, history.recorded, *(change.now for change in changes)]
    assert len(changes) == MOST
    assert sum(map(sys.getsizeof, own)) < 2_000


class StuckDoor(
    StateMachine, chart=Chart("stuck", states=Door, initial=OPEN, final=[SHUT], ours=[Push], rows=[PUSHED_SHUT])
):
    def bang(self, event: object, now: float) -> list[object]:
        raise ZeroDivisionError


def test_an_action_that_raises_changes_nothing_and_is_not_recorded() -> None:
    door = StuckDoor()
    with pytest.raises(RowFailed):
        door.handle(Push(), 1.0)
    assert door.history.changes() == []
