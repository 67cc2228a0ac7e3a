"""In whatever order a machine ends and its handle is released, the actor goes once, and not before both.

The machine is small enough to be walked through whole.
"""

from itertools import permutations
from typing import Any

import pytest

from pulsar_actors.machines.handle_lifetime import (
    CHART,
    EndMachine,
    HandleLifetime,
    HandleNotCreated,
    HandleReleased,
    MachineEnded,
    Retire,
    State,
)
from tests.machines.mutants import Fault, fault, planted

EVENTS = (HandleReleased("close"), HandleReleased("at once"), HandleNotCreated(), MachineEnded())


def orders() -> list[tuple[Any, ...]]:
    """Give every order of some of the events. A creation fails before the machine ends, if it fails."""

    def is_possible(order: tuple[Any, ...]) -> bool:
        kinds = list(map(type, order))
        return MachineEnded not in kinds or HandleNotCreated not in kinds[kinds.index(MachineEnded) :]

    chosen = (order for count in range(len(EVENTS) + 1) for order in permutations(EVENTS, count))
    return list(filter(is_possible, chosen))


def promise(machine_class: type[HandleLifetime]) -> None:
    """Walk through all orders, and complain of what is wrong in one of them."""
    for order in orders():
        machine, retired, ended, released = machine_class(), 0, False, False
        for event in order:
            if retired:  # the actor has ended, and takes nothing more
                break
            effects = machine.handle(event, 0.0)
            if isinstance(event, HandleReleased):
                expected = [Retire()] if ended else [EndMachine(event.request)]
                assert list(map(repr, effects)) == list(map(repr, expected)), "did not pass a request on, or retire"
            ended = ended or isinstance(event, MachineEnded)
            released = released or not isinstance(event, MachineEnded)
            retired += sum(isinstance(effect, Retire) for effect in effects)
            assert retired == (ended and released), "did not retire when both had happened"
            assert machine.is_over == bool(retired), "is in a wrong state"


def test_an_actor_retires_once_its_machine_has_ended_and_its_handle_was_released() -> None:
    promise(HandleLifetime)


# fmt: off
FAULTS = [
    fault(HandleReleased, State.HELD, "end_machine", {"does": "ignore"}, "did not pass"),
    fault(HandleReleased, State.HELD, "end_machine", {"dest": None}, "did not retire"),
    fault(HandleReleased, State.RELEASED, "end_machine", {"does": "ignore"}, "did not pass"),
    fault(HandleReleased, State.ENDED, "retire", {"does": "end_machine"}, "did not pass"),
    fault(HandleNotCreated, State.HELD, None, {"dest": None}, "did not retire"),
    fault(MachineEnded, State.HELD, None, {"does": "retire"}, "did not retire"),
    fault(MachineEnded, State.RELEASED, "retire", {"does": "ignore"}, "did not retire"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    with pytest.raises(AssertionError, match=fault.complaint):
        promise(planted(CHART, HandleLifetime, fault))
