from typing import Any

import pytest

from pulsar_actors.machines.connection_events import (
    BrokerAccepted,
    ConnectionOver,
    Dial,
    HandlerAccepted,
    HandlerRejected,
    NotifyConnectionLost,
    RegisterHandler,
    RemoveHandler,
    SocketLost,
    TcpOpened,
)
from pulsar_actors.machines.registered_handlers import CHART, RegisteredHandlers, State
from tests.machines.connection_bench import (
    CREDENTIALS,
    MEMBER,
    ONE_HOST,
    OPENING,
    WELCOME,
    Member,
    made,
    ready,
)
from tests.machines.mutants import Fault, Hunt, fault
from tests.machines.test_connection_model import HUNT, AnyConnection, always, never


def test_producers_and_consumers_wait_until_the_broker_accepts_and_later_ones_do_not() -> None:
    later = Member("producer", 1)
    driven = made(ONE_HOST, Dial(), RegisterHandler(MEMBER), TcpOpened(), CREDENTIALS)
    assert driven.did(HandlerAccepted) == []
    driven.tell(WELCOME)
    assert driven.did(HandlerAccepted) == [HandlerAccepted(MEMBER, 1000, can_watch=False)]
    assert driven.tell(RegisterHandler(later)) == [HandlerAccepted(later, 1000, can_watch=False)]


def test_a_handler_that_was_removed_before_the_broker_accepts_is_not_told() -> None:
    leaves = Member("producer", 1)
    driven = made(
        ONE_HOST,
        RegisterHandler(MEMBER),
        RegisterHandler(leaves),
        RemoveHandler(leaves),
        *OPENING,
        CREDENTIALS,
        WELCOME,
    )
    assert driven.did(HandlerAccepted) == [HandlerAccepted(MEMBER, 1000, can_watch=False)]


def test_handlers_that_wait_when_a_connection_ends_are_rejected_with_the_reason() -> None:
    driven = made(ONE_HOST, Dial(), RegisterHandler(MEMBER), SocketLost("nobody listens"))
    (turned_away,) = driven.did(HandlerRejected)
    assert turned_away.handler == MEMBER
    assert "nobody listens" in str(turned_away.error)


def test_handlers_that_use_a_connection_hear_once_that_it_has_ended() -> None:
    driven = ready()
    driven.tell(RegisterHandler(MEMBER), SocketLost("reset"))
    (lost,) = driven.did(NotifyConnectionLost)
    assert driven.did(HandlerRejected) == [HandlerRejected(MEMBER, lost.error)]
    assert driven.tell(SocketLost("again")) == []


def test_removing_an_earlier_registration_leaves_the_later_one() -> None:
    later = MEMBER._replace(number=2)
    driven = ready()
    driven.tell(RegisterHandler(MEMBER), RegisterHandler(later), RemoveHandler(MEMBER))
    assert driven.machine.handlers.by_id == {("consumer", 1): later}
    driven.tell(RemoveHandler(later))
    assert driven.machine.handlers.by_id == {}


def remove_any(self: RegisteredHandlers, event: RemoveHandler, now: float) -> list[Any]:
    self.by_id.pop((event.handler.kind, event.handler.id), None)
    return []


# fmt: off
FAULTS = [
    fault(BrokerAccepted, State.WAITING, "accept_all", {"does": None},
          "kept waiting for nothing", "join", "go_on"),
    fault(RegisterHandler, State.OPEN, "accept", {"does": "hold"},
          "kept waiting for nothing", "join"),
    fault(RemoveHandler, State.OPEN, "remove", {"does": None},
          "told twice, or after it had left", "join"),
    fault(RemoveHandler, State.OPEN, "remove", {"guard": "always", "does": "remove_any"},
          "left with a connection that has ended", "join"),
    fault(RemoveHandler, State.WAITING, "remove", {"guard": "never"},
          "told twice, or after it had left", "join"),
    fault(ConnectionOver, State.OPEN, "reject_all", {"does": None},
          "left with a connection that has ended", "join"),
    fault(ConnectionOver, State.WAITING, "reject_all", {"does": None},
          "left waiting for a connection that has ended", "join"),
]
# fmt: on
FURTHER = {"always": always, "never": never, "remove_any": remove_any}
STEPS_TO: dict[Any, int] = {State.WAITING: 4, State.OPEN: 5}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    Hunt(CHART, RegisteredHandlers, AnyConnection, FURTHER, HUNT, "handlers_class").find_out(
        fault, STEPS_TO[fault.state]
    )
