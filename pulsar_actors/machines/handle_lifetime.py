"""The lifetime of the actor behind a handle: of a producer or consumer, of one topic or of several.

The actor ends when the machine of the producer or consumer has ended *and* the handle has been released. If the machine
ends first, the actor stays, because the user may still close the handle and wait for the actor. A client that closes
releases all its handles. A handle that could not be created counts as released.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.named_tuple import NamedTuple

# Events of callers, who may release a handle at any time, and more than once.


class HandleReleased(NamedTuple):
    """The handle is closed, or was garbage-collected, or its client closes. `request` is `Close` or `EndAtOnce`."""

    request: object


# Events of our own side.


class HandleNotCreated(NamedTuple):
    """The creation has failed."""


class MachineEnded(NamedTuple):
    """The machine is in a final state."""


# Effects.


class EndMachine(NamedTuple):
    """Pass the request on to the machine."""

    request: object


class Retire(NamedTuple):
    """Complete the close of the handle, and end the actor."""


@unique
class State(Enum):
    """The states of an actor's lifetime."""

    HELD = "The handle is in use, or is being created."
    RELEASED = "The handle has been released, or could not be created; the machine has not ended yet."
    ENDED = "The machine has ended; the handle is not released yet."
    GONE = "The actor has ended."


HELD, RELEASED, ENDED, GONE = State

# fmt: off
ROWS: Final = (
    #   trigger           source    dest      guard  does
    Row(HandleReleased,   HELD,     RELEASED, None,  "end_machine"),
    Row(HandleReleased,   RELEASED, INTERNAL, None,  "end_machine"),
    Row(HandleReleased,   ENDED,    GONE,     None,  "retire"),
    Row(HandleNotCreated, HELD,     RELEASED, None,  None),
    Row(MachineEnded,     HELD,     ENDED,    None,  None),
    Row(MachineEnded,     RELEASED, GONE,     None,  "retire"),
)

IGNORES: Final = (
    Ignore(HandleReleased, GONE),
    Ignore(HandleNotCreated, RELEASED),  # the handle was closed while it was being created
)
# fmt: on

OURS: Final = (HandleNotCreated, MachineEnded)

CHART: Final = Chart("handle_lifetime", states=State, initial=HELD, final=[GONE], ours=OURS, rows=ROWS, ignores=IGNORES)


class HandleLifetime(StateMachine, chart=CHART):
    """The actions of the chart."""

    __slots__ = ()

    def end_machine(self, event: HandleReleased, now: float) -> Effects:
        """Pass the request to the machine. A second one may be more urgent: an `EndAtOnce` after a `Close`."""
        return [EndMachine(event.request)]

    def retire(self, event: HandleReleased | MachineEnded, now: float) -> Effects:
        """End the actor: the machine has ended, and the handle is released."""
        return [Retire()]
