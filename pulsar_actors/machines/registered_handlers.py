"""The producers, consumers and topic list watchers that use one connection: its handlers.

A part of the connection's machine. A handler registers, and waits until the broker has accepted the client. It is told
once that it can use the connection, and once that the connection has ended. The connection pool gives nobody a
connection that is ending, and the actor of one that has ended answers by itself. `by_id` finds the handler that a
command of the broker names.

A handler that loses its broker may return to the same connection, and register again before its earlier registration is
removed. Commands go to the later registration, and a removal of the earlier one is ignored.
"""

from enum import Enum, unique
from typing import Any, Final

from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_events import (
    BrokerAccepted,
    ConnectionOver,
    HandlerAccepted,
    HandlerRejected,
    RegisterHandler,
    RemoveHandler,
)
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.wire.PulsarApi_pb2 import CommandConnected


@unique
class State(Enum):
    """The states of a connection's handlers."""

    WAITING = "The broker has not accepted the client yet: handlers wait."
    OPEN = "Handlers use the connection, and further ones can use it at once."
    OVER = "The connection has ended, and every handler was told."


WAITING, OPEN, OVER = State

# fmt: off
ROWS: Final = (
    #   trigger          source           dest      guard            does
    Row(RegisterHandler, WAITING,         INTERNAL, None,            "hold"),
    Row(BrokerAccepted,  WAITING,         OPEN,     None,            "accept_all"),
    Row(RegisterHandler, OPEN,            INTERNAL, None,            "accept"),
    Row(RemoveHandler,   (WAITING, OPEN), INTERNAL, "is_registered", "remove"),
    Row(ConnectionOver,  (WAITING, OPEN), OVER,     None,            "reject_all"),
)

IGNORES: Final = (
    Ignore(RemoveHandler,  (WAITING, OPEN)),  # for an earlier registration
    Ignore(RemoveHandler,  OVER),
    Ignore(ConnectionOver, OVER),
)
# fmt: on

CHART: Final = Chart(
    "registered_handlers",
    states=State,
    initial=WAITING,
    final=(OVER,),
    ours=(RegisterHandler,),
    rows=ROWS,
    ignores=IGNORES,
    inner=(BrokerAccepted, ConnectionOver),
)


class RegisteredHandlers(StateMachine, chart=CHART):
    """The handlers of one connection: the guards and actions in the chart's order."""

    __slots__ = ("_connected", "by_id")

    def __init__(self, connection: StateMachine) -> None:
        super().__init__(connection)
        self.by_id: dict[tuple[str, int], Any] = {}
        self._connected = CommandConnected()

    def drain(self) -> list[Any]:
        """Forget all handlers, and return them."""
        handlers = list(self.by_id.values())
        self.by_id.clear()
        return handlers

    def hold(self, event: RegisterHandler, now: float) -> Effects:
        """Let a producer or consumer wait until the broker accepts the client."""
        self._register(event.handler)
        return []

    def accept_all(self, event: BrokerAccepted, now: float) -> Effects:
        """Let those that wait use the connection."""
        self._connected = event.command
        return [self._accepted(handler) for handler in self.by_id.values()]

    def accept(self, event: RegisterHandler, now: float) -> Effects:
        """Let a producer or consumer use the connection at once."""
        self._register(event.handler)
        return [self._accepted(event.handler)]

    def is_registered(self, event: RemoveHandler, now: float) -> bool:
        """Return whether this registration is the latest of the producer or consumer."""
        return bool(self.by_id.get((event.handler.kind, event.handler.id)) == event.handler)

    def remove(self, event: RemoveHandler, now: float) -> Effects:
        """Remove a producer or consumer."""
        del self.by_id[event.handler.kind, event.handler.id]
        return []

    def reject_all(self, event: ConnectionOver, now: float) -> Effects:
        """Tell all that the connection has ended."""
        return [HandlerRejected(handler, event.error) for handler in self.drain()]

    def _register(self, handler: Any) -> None:  # noqa: ANN401 - see RegisterHandler
        self.by_id[handler.kind, handler.id] = handler

    def _accepted(self, handler: Any) -> HandlerAccepted:  # noqa: ANN401 - see RegisterHandler
        connected = self._connected
        return HandlerAccepted(handler, connected.max_message_size, connected.feature_flags.supports_topic_watchers)
