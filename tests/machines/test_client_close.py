"""Whatever ends first and whoever closes, a client keeps its promises; a chart that breaks one is found out.

The machine is small enough to be walked through whole: every order of events, from every number of producers, consumers
and connections up to two of each.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.machines.client_close import (
    CHART,
    ClientClose,
    CloseClient,
    CloseConnections,
    CloseHandles,
    CloseLateHandle,
    ConnectionRequested,
    EndHandle,
    EndHandles,
    HandleStarted,
    LookupRequested,
    QueryRequested,
    RefuseRequest,
    Remaining,
    ReportClosed,
    ServeRequest,
    ShutDownClient,
    State,
    StopLookups,
    StopQueries,
)
from tests.machines.mutants import Fault, fault, planted

MOST = 2
"""Handles, and connections, at once."""

REQUESTS = {"query": QueryRequested, "lookup": LookupRequested, "connection": ConnectionRequested}


class World(NamedTuple):
    """What surrounds the machine: what is left, and what has been done about the end."""

    state: State
    tokens: tuple[object, ...]
    handles: int
    connections: int
    late: int = 0  # handles that started while the client closed
    waiting: int = 0  # callers who close
    shut_down: bool = False
    queries_stopped: bool = False
    lookups_stopped: bool = False
    handles_told: bool = False
    handles_ended_at_once: bool = False
    connections_told: bool = False
    is_over: bool = False

    @property
    def begun(self) -> bool:
        """True once somebody has closed the client."""
        return self.waiting > 0


def after(world: World, effects: list[Any]) -> World:  # noqa: C901, PLR0912 - a few lines for each effect
    """Do what the machine has decided; complain if that breaks a promise."""
    for effect in effects:
        assert not world.is_over, "did something after the end"
        match effect:
            case ServeRequest("query"):
                assert not world.begun, "began something new while closing"
            case ServeRequest("lookup"):
                assert not world.lookups_stopped, "began a lookup that nobody stops"
            case ServeRequest("connection"):
                assert not world.connections_told, "opened a connection that nobody closes"
                world = world._replace(connections=world.connections + 1)
            case RefuseRequest("query"):
                assert world.begun, "refused something while open"
            case RefuseRequest("lookup"):
                assert world.begun, "refused something while open"
                assert world.shut_down or not world.handles, "kept a handle that closes from its broker"
            case RefuseRequest("connection"):
                assert world.begun, "refused something while open"
                assert not world.handles, "kept a handle that closes from its broker"
            case StopQueries():
                assert not world.queries_stopped, "stopped queries twice"
                world = world._replace(queries_stopped=True)
            case StopLookups():
                assert not world.lookups_stopped, "stopped lookups twice"
                assert world.shut_down or not world.handles, "kept a handle that closes from its broker"
                world = world._replace(queries_stopped=True, lookups_stopped=True)
            case CloseHandles():
                assert not world.handles_told, "closed handles twice"
                world = world._replace(handles_told=True)
            case CloseLateHandle("late"):
                assert world.begun, "closed a handle while open"
            case EndHandle("late", AlreadyClosed()):
                assert world.begun, "ended a handle while open"
            case EndHandles(AlreadyClosed()):
                assert world.shut_down, "did not wait for brokers"
                world = world._replace(handles_told=True, handles_ended_at_once=True)
            case CloseConnections():
                assert world.begun, "closed connections while open"
                assert not world.handles, "closed connections before the handles had ended"
                assert not world.connections_told, "closed connections twice"
                world = world._replace(connections_told=True)
            case ReportClosed(tokens):
                assert not world.handles + world.late, "was closed before the handles had ended"
                assert not world.connections, "was closed before the connections had ended"
                assert len(set(tokens)) == world.waiting, "did not tell everybody of the end"
                world = world._replace(is_over=True)
            case _:
                raise AssertionError(f"did something else: {effect}")
    return world


def promise(world: World) -> None:
    """Complain if something that is due has not been done."""
    if not world.begun:
        return
    assert world.queries_stopped, "left queries waiting"
    ending = world.shut_down or world.connections_told or world.is_over
    assert world.lookups_stopped or not ending, "left lookups waiting"
    assert world.handles_told or not world.handles, "did not close the handles"
    assert world.handles_ended_at_once or not (world.shut_down and world.handles), "lets handles wait for brokers"
    handles = world.handles + world.late
    assert world.connections_told or handles or not world.connections, "did not close the connections"
    assert world.is_over or handles or world.connections, "waits for nothing"


def moves(machine_class: type[ClientClose], world: World) -> Iterator[World]:  # noqa: C901 - every way on, one after the other
    """Go on from here in every way."""

    def handle(world: World, *events: Any) -> World:
        machine: Any = machine_class()
        machine.state, machine.tokens = world.state, world.tokens
        for event in events:
            made = machine.handle(event, 0.0)
            world = after(world._replace(state=machine.state, tokens=machine.tokens), made)
            if isinstance(event, tuple(REQUESTS.values())):
                assert [type(effect) for effect in made] in ([ServeRequest], [RefuseRequest]), (
                    "did not answer a request"
                )
            if isinstance(event, HandleStarted) and world.begun:
                expected = CloseLateHandle if event.has_messages and not world.lookups_stopped else EndHandle
                assert [type(effect) for effect in made] == [expected], "kept a handle that came too late"
        promise(world)
        return world

    def left(world: World) -> Remaining:
        return Remaining(world.handles + world.late, world.connections)

    if not world.is_over:
        for name, event in REQUESTS.items():
            if world.connections < MOST:
                yield handle(world, event(name))
        if world.begun and world.late < MOST:
            for has_messages in (False, True):
                yield handle(world._replace(late=world.late + 1), HandleStarted("late", has_messages))
        if not world.begun and world.handles < MOST:
            yield handle(world._replace(handles=world.handles + 1), HandleStarted("early"))
        if world.waiting < MOST:
            closing = world._replace(waiting=world.waiting + 1)
            yield handle(closing, CloseClient(world.waiting), left(world))
            yield handle(closing._replace(shut_down=True), ShutDownClient(world.waiting), left(world))
    if world.handles:
        fewer = world._replace(handles=world.handles - 1)
        yield handle(fewer, left(fewer))
    if world.late:
        fewer = world._replace(late=world.late - 1)
        yield handle(fewer, left(fewer))
    if world.connections:
        fewer = world._replace(connections=world.connections - 1)
        yield handle(fewer, left(fewer))
    yield handle(world, left(world))  # something else has ended: lookups, say


def walk(machine_class: type[ClientClose]) -> set[World]:
    """Follow every order of events."""
    seen: set[World] = set()
    ahead = [World(State.OPEN, (), *numbers) for numbers in product(range(MOST + 1), repeat=2)]
    while ahead:
        world = ahead.pop()
        if world not in seen:
            seen.add(world)
            ahead += moves(machine_class, world)
    return seen


def test_in_every_order_handles_end_before_connections_and_everybody_is_told_of_the_end() -> None:
    worlds = walk(ClientClose)
    assert {world.state for world in worlds} == set(State)
    assert all(world.is_over == (world.state is State.CLOSED) for world in worlds)
    assert {world.waiting for world in worlds if world.is_over} == {1, 2}


# fmt: off
FAULTS = [
    fault(HandleStarted, State.CLOSING_HANDLES, "close_late_handle", {"does": "ignore"}, "came too late"),
    fault(HandleStarted, State.CLOSING_HANDLES, "close_late_handle", {"does": "end_late_handle"}, "came too late"),
    fault(HandleStarted, State.CLOSING_HANDLES, "end_late_handle", {"does": "close_late_handle"}, "came too late"),
    fault(HandleStarted, State.ENDING_HANDLES, "end_late_handle", {"does": "close_late_handle"}, "came too late"),
    fault(HandleStarted, State.CLOSING_CONNECTIONS, "end_late_handle", {"does": "ignore"}, "came too late"),
    fault(HandleStarted, State.OPEN, None, {"does": "end_late_handle"}, "did something else"),
    fault(QueryRequested, State.CLOSING_HANDLES, "refuse", {"does": "serve"}, "began something new"),
    fault(QueryRequested, State.CLOSING_HANDLES, "refuse", {"does": "ignore"}, "did not answer a request"),
    fault(LookupRequested, State.CLOSING_HANDLES, "serve", {"does": "refuse"}, "refused|kept a handle"),
    fault(LookupRequested, State.ENDING_HANDLES, "refuse", {"does": "serve"}, "that nobody stops"),
    fault(LookupRequested, State.CLOSING_CONNECTIONS, "refuse", {"does": "ignore"}, "did not answer a request"),
    fault(ConnectionRequested, State.CLOSING_HANDLES, "serve", {"does": "refuse"}, "refused|kept a handle"),
    fault(ConnectionRequested, State.CLOSING_CONNECTIONS, "refuse", {"does": "serve"}, "that nobody closes"),
    fault(ShutDownClient, State.OPEN, "end_handles", {"dest": State.CLOSING_CONNECTIONS},
          "did not close|before the handles had ended|kept a handle"),
    fault(CloseClient, State.OPEN, "close_handles", {"does": "await_end"}, "left queries waiting"),
    fault(CloseClient, State.CLOSING_HANDLES, "await_end", {"does": "close_handles"}, "stopped queries twice"),
    fault(CloseClient, State.CLOSING_HANDLES, "await_end", {"does": "ignore"}, "did not tell everybody"),
    fault(ShutDownClient, State.OPEN, "end_handles", {"does": "close_handles"},
          "left lookups waiting|lets handles wait for brokers"),
    fault(ShutDownClient, State.CLOSING_HANDLES, "end_closing_handles", {"does": "await_end"},
          "left lookups waiting|lets handles wait for brokers"),
    fault(ShutDownClient, State.CLOSING_HANDLES, "end_closing_handles", {"does": "end_handles"},
          "did not tell everybody"),
    fault(ShutDownClient, State.CLOSING_CONNECTIONS, "await_end", {"does": "ignore"}, "did not tell everybody"),
    fault(Remaining, State.CLOSING_HANDLES, "end_without_handles", {"guard": "never"}, "waits for nothing"),
    fault(Remaining, State.CLOSING_HANDLES, "end_without_handles", {"does": "report_closed"}, "left lookups waiting"),
    fault(Remaining, State.CLOSING_HANDLES, "end_without_handles", {"guard": "no_handle_is_left"},
          "before the connections had ended"),
    fault(Remaining, State.CLOSING_HANDLES, "close_the_rest", {"guard": "always"},
          "kept a handle|closed connections before the handles had ended"),
    fault(Remaining, State.CLOSING_HANDLES, "close_the_rest", {"guard": "never"},
          "did not close the connections"),
    fault(Remaining, State.CLOSING_HANDLES, "close_the_rest", {"does": "close_connections"},
          "left lookups waiting"),
    fault(Remaining, State.ENDING_HANDLES, "close_connections", {"guard": "always"},
          "closed connections before the handles had ended"),
    fault(Remaining, State.CLOSING_CONNECTIONS, "report_closed", {"guard": "never"}, "waits for nothing"),
    fault(Remaining, State.CLOSING_CONNECTIONS, "report_closed", {"guard": "always"},
          "before the connections had ended"),
    fault(Remaining, State.CLOSED, None, {"does": "report_closed"}, "did something after the end"),
    fault(Remaining, State.OPEN, None, {"does": "close_connections"}, "closed connections while open"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    with pytest.raises(AssertionError, match=fault.complaint):
        walk(planted(CHART, ClientClose, fault))
