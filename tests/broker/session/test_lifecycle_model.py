"""Whatever a client does, a broker's session keeps the rules of its connection; a chart that breaks one is found out.

The machine is small enough to be walked through whole: every order of commands, timers, bytes and the end.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from google.protobuf.message import Message

from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.session.lifecycle import (
    CHART,
    AcceptClient,
    AuthResponseReceived,
    CommandBeforeAccepted,
    ConnectReceived,
    CredentialsChecked,
    EndSession,
    RefreshTimedOut,
    RefuseCredentials,
    SendToClient,
    SessionEnded,
    SessionKeepaliveDue,
    SessionLifecycle,
    SessionOpened,
    State,
    TokenExpired,
)
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    CommandPing,
    CommandPong,
    CommandSend,
    FeatureFlags,
)
from tests.machines.mutants import Fault, fault, planted

MEMORY = ("_awaits_pong", "_knows_refresh", "_subject")
ME, ENDING, YOU, NOBODY = (
    CredentialsChecked("me"),
    CredentialsChecked("me", expires_in=10.0),
    CredentialsChecked("you"),
    CredentialsChecked(fault="no such token"),
)
CONNECTS = {
    knows: CommandConnect(client_version="c", feature_flags=FeatureFlags(supports_auth_refresh=knows))
    for knows in (False, True)
}


class World(NamedTuple):
    """The machine's state and memory, the timers that run, and what the client has done."""

    state: Any
    memory: tuple[Any, ...]
    timers: frozenset[Any]
    is_accepted: bool = False
    knows_refresh: bool = False
    is_asked: bool = False  # for fresh credentials
    is_silent: bool = False  # since the last PING
    is_over: bool = False


def handle(machine_class: type[SessionLifecycle], world: World, event: Any) -> tuple[list[Any], World]:
    """Handle one event. A timer comes with the number that it was started with."""
    machine: Any = machine_class(Settings(), 30.0)
    machine.state = world.state
    for name, value in zip(MEMORY, world.memory, strict=True):
        setattr(machine, name, value)
    running = {kind: machine.timers.start(kind, 1.0).event for kind in world.timers}
    fired = event if isinstance(event, type) else None
    effects = machine.handle(event if fired is None else running.pop(fired), 0.0)
    running |= {type(effect.event): effect.event for effect in effects if isinstance(effect, StartTimer)}
    timers = frozenset(kind for kind, timer in running.items() if machine.timers.take(timer))
    memory = tuple(getattr(machine, name) for name in MEMORY)
    return effects, world._replace(state=machine.state, memory=memory, timers=timers)


def is_fault(world: World, event: Any) -> bool:
    """Tell whether the session has to end now."""
    match event:
        case CommandBeforeAccepted(kind):
            return kind is CommandSend
        case ConnectReceived(_, credentials):
            return world.is_accepted or bool(credentials.fault)
        case AuthResponseReceived(credentials):
            return not world.is_asked or credentials.subject != "me"
        case SessionEnded():
            return True
    if event is SessionKeepaliveDue:
        return not world.is_accepted or world.is_silent
    return event is RefreshTimedOut or (event is TokenExpired and not world.knows_refresh)


def after(world: World, event: Any, effects: list[Any], after: World) -> World:
    """Note what the session has done; complain if that breaks a rule."""
    if world.is_over:
        assert (effects, after.state) == ([], world.state), "did something after the end"
        return after
    ends = [effect for effect in effects if isinstance(effect, EndSession | RefuseCredentials)]
    is_end = is_fault(world, event)
    assert (after.state is State.ENDED) == is_end, "is wrong about the end"
    assert len(ends) == (is_end and not isinstance(event, SessionEnded)), "does not end the connection once"
    is_refusal = is_end and (
        isinstance(event, AuthResponseReceived) or (isinstance(event, ConnectReceived) and not world.is_accepted)
    )
    assert not ends or isinstance(ends[0], RefuseCredentials) == is_refusal, "does not say why"
    if is_refusal and event.credentials.fault and world.is_asked == isinstance(event, AuthResponseReceived):
        assert ends == [RefuseCredentials(event.credentials.fault)], "does not say why"
    said: list[type[Message]] = [type(effect.command) for effect in effects if isinstance(effect, SendToClient)]
    accepted = [effect for effect in effects if isinstance(effect, AcceptClient)]
    if is_end:
        assert not said, "talks while it ends"
        assert not accepted, "accepted a client that it refuses"
        return after._replace(is_over=True)
    if isinstance(event, ConnectReceived):
        assert accepted, "does not accept a client"
        assert said == [CommandConnected], "does not answer CONNECT"
        knows = event.connect.feature_flags.supports_auth_refresh
        after = after._replace(is_accepted=True, knows_refresh=knows)
    elif event is SessionKeepaliveDue:
        assert said == [CommandPing], "does not ask a silent client"
        after = after._replace(is_silent=True)
    elif event is TokenExpired:
        assert said == [CommandAuthChallenge], "does not ask for fresh credentials"
        after = after._replace(is_asked=True)
    else:
        assert not said, "said something else"
    if isinstance(event, AuthResponseReceived):
        after = after._replace(is_asked=False)
    if isinstance(event, ConnectReceived | AuthResponseReceived):
        assert (TokenExpired in after.timers) == (event.credentials is ENDING), "does not watch the token"
    assert SessionKeepaliveDue in after.timers, "does not watch the client"
    assert (RefreshTimedOut in after.timers) == after.is_asked, "does not limit the time for fresh credentials"
    return after


def moves(machine_class: type[SessionLifecycle], world: World) -> Iterator[World]:
    """Go on from here in every way."""
    credentials = (ME, ENDING, YOU, NOBODY)
    events: list[Any] = [SessionEnded(), *map(AuthResponseReceived, credentials), *world.timers]
    events += [ConnectReceived(CONNECTS[knows], one) for knows, one in product(CONNECTS, (ME, ENDING, NOBODY))]
    if not world.is_accepted and not world.is_over:
        kinds = (CommandConnect, CommandAuthResponse, CommandPing, CommandPong, CommandSend)
        events += map(CommandBeforeAccepted, kinds)
    for event in events:
        yield after(world, event, *handle(machine_class, world, event))
    heard = machine_class(Settings(), 30.0)
    heard.note_bytes()
    yield world._replace(memory=(heard._awaits_pong, *world.memory[1:]), is_silent=False)


def walk(machine_class: type[SessionLifecycle]) -> set[World]:
    """Follow every order of events."""
    effects, opened = handle(machine_class, World(State.CONNECTING, (False, False, ""), frozenset()), SessionOpened())
    assert [type(effect) for effect in effects] == [StartTimer], "does not watch the client"
    ahead, worlds = [opened], set[World]()
    while ahead:
        world = ahead.pop()
        if world not in worlds:
            worlds.add(world)
            ahead += moves(machine_class, world)
    return worlds


def test_a_session_takes_whom_it_must_and_ends_once_whatever_the_order_of_events() -> None:
    worlds = walk(SessionLifecycle)
    assert {world.state for world in worlds} == set(State)
    assert all(world.is_over == (world.state is State.ENDED) for world in worlds)


CONNECTING, ACCEPTED, REFRESHING, ENDED = State

# fmt: off
FAULTS = [
    fault(SessionOpened, CONNECTING, "start_keepalive", {"does": "ignore"}, "does not watch the client"),
    fault(CommandBeforeAccepted, CONNECTING, None, {"guard": "never"}, "wrong about the end"),
    fault(CommandBeforeAccepted, CONNECTING, None, {"guard": "always"}, "wrong about the end"),
    fault(CommandBeforeAccepted, CONNECTING, "end_before_connect", {"does": "ignore"}, "does not end the connection"),
    fault(ConnectReceived, CONNECTING, "refuse_credentials", {"guard": "never"}, "wrong about the end"),
    fault(ConnectReceived, CONNECTING, "refuse_credentials", {"does": "end_after_second_connect"}, "does not say why"),
    fault(ConnectReceived, CONNECTING, "accept", {"does": "ignore"}, "does not accept"),
    fault(ConnectReceived, CONNECTING, "accept", {"dest": REFRESHING}, "wrong about the end|does not ask"),
    fault(ConnectReceived, ACCEPTED, "end_after_second_connect", {"dest": None}, "wrong about the end"),
    fault(SessionKeepaliveDue, CONNECTING, "end_without_connect", {"does": "ping"}, "does not end the connection"),
    fault(SessionKeepaliveDue, ACCEPTED, "end_silent", {"guard": "never"}, "wrong about the end"),
    fault(SessionKeepaliveDue, ACCEPTED, "end_silent", {"guard": "always"}, "wrong about the end"),
    fault(SessionKeepaliveDue, ACCEPTED, "ping", {"does": "start_keepalive"}, "does not ask a silent client"),
    fault(TokenExpired, ACCEPTED, "ask_for_fresh_credentials", {"guard": "never"}, "wrong about the end"),
    fault(TokenExpired, ACCEPTED, "ask_for_fresh_credentials", {"guard": "always"}, "wrong about the end"),
    fault(TokenExpired, ACCEPTED, "ask_for_fresh_credentials", {"does": "end_with_token"}, "does not end the"),
    fault(TokenExpired, ACCEPTED, "end_with_token", {"does": "ask_for_fresh_credentials"}, "does not end"),
    fault(AuthResponseReceived, REFRESHING, "refuse_credentials", {"guard": "never"}, "does not say why"),
    fault(AuthResponseReceived, REFRESHING, "refuse_somebody_else", {"guard": "never"}, "wrong about the end"),
    fault(AuthResponseReceived, REFRESHING, "take_fresh_credentials", {"does": "ignore"}, "does not"),
    fault(AuthResponseReceived, REFRESHING, "take_fresh_credentials", {"dest": None}, "wrong about the end"),
    fault(AuthResponseReceived, ACCEPTED, "refuse_unasked", {"dest": None}, "wrong about the end"),
    fault(RefreshTimedOut, REFRESHING, "end_without_refresh", {"dest": ACCEPTED}, "wrong about the end"),
    fault(SessionEnded, ACCEPTED, None, {"does": "end_silent"}, "does not end the connection once"),
    fault(SessionKeepaliveDue, ENDED, None, {"does": "ping"}, "did something after the end"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_rule_is_found_out(fault: Fault) -> None:
    with pytest.raises(AssertionError, match=fault.complaint):
        walk(planted(CHART, SessionLifecycle, fault))
