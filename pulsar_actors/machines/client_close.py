"""The close of a client: the order in which its actors end, and the requests that are refused meanwhile.

First all lookups fail, and new ones are refused, so no producer or consumer waits for one. Then producers and consumers
close; connections stay open for their last commands, and new ones are still made for them. Then connections write what
is queued and close, and the client is closed. After that the client's actor answers every request with an error. A
shutdown ends producers and consumers without a request to any broker, even if a close has begun before. Producers,
consumers and connections each have a time limit of their own, so there is no timer here.

The client's actor has the lists of the actors of producers and consumers, called handles here, and of connections. It
reports the number of those left when a close begins, and whenever one of them has ended, normally or by a bug.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.named_tuple import NamedTuple

# Events of our own side. A token is a caller's future, completed when the client is closed. A request is passed on.


class CloseClient(NamedTuple):
    """Close producers and consumers with their brokers, then connections."""

    token: object


class ShutDownClient(NamedTuple):
    """End producers and consumers without waiting for brokers, then close connections."""

    token: object


class HandleStarted(NamedTuple):
    """The actor of a producer or consumer has started."""

    handle: object


class LookupRequested(NamedTuple):
    """A lookup or another query to a broker is requested."""

    request: object


class ConnectionRequested(NamedTuple):
    """A producer, a consumer or a lookup needs a connection."""

    request: object


# Events of actors that have ended.


class Remaining(NamedTuple):
    """The numbers of producers and consumers, and of connections, that have not ended yet."""

    handles: int
    connections: int


# Effects.


class ServeRequest(NamedTuple):
    """Perform the request."""

    request: object


class RefuseRequest(NamedTuple):
    """Answer a request with an error: the client is closed."""

    request: object


class EndHandle(NamedTuple):
    """End one producer or consumer at once."""

    handle: object
    error: AlreadyClosed


class StopLookups(NamedTuple):
    """Fail all lookups."""


class CloseHandles(NamedTuple):
    """Close all producers and consumers."""


class EndHandles(NamedTuple):
    """End all producers and consumers at once. Their pending messages and calls fail with this error."""

    error: AlreadyClosed


class CloseConnections(NamedTuple):
    """Let all connections write what is queued, then close them."""


class ReportClosed(NamedTuple):
    """Complete these tokens: the client is closed."""

    tokens: tuple[object, ...]


@unique
class State(Enum):
    """The states of a client."""

    OPEN = "Requests are performed."
    CLOSING_HANDLES = "Waits for its producers and consumers to end."
    CLOSING_CONNECTIONS = "Waits for its connections to close."
    CLOSED = "All producers, consumers and connections have ended."


OPEN, CLOSING_HANDLES, CLOSING_CONNECTIONS, CLOSED = State
IN_PROGRESS: Final = (CLOSING_HANDLES, CLOSING_CONNECTIONS)

# fmt: off
ROWS: Final = (
    #   trigger              source                   dest                 guard                does
    Row(LookupRequested,     OPEN,                    INTERNAL,            None,                "serve"),
    Row(ConnectionRequested, (OPEN, CLOSING_HANDLES), INTERNAL,            None,                "serve"),
    Row(CloseClient,         OPEN,                    CLOSING_HANDLES,     None,                "close_handles"),
    Row(ShutDownClient,      OPEN,                    CLOSING_HANDLES,     None,                "end_handles"),
    Row(ShutDownClient,      CLOSING_HANDLES,         INTERNAL,            None,                "end_closing_handles"),
    Row(Remaining,           CLOSING_HANDLES,         CLOSED,              "nothing_is_left",   "report_closed"),
    Row(Remaining,           CLOSING_HANDLES,         CLOSING_CONNECTIONS, "no_handle_is_left", "close_connections"),
    Row(Remaining,           CLOSING_CONNECTIONS,     CLOSED,              "nothing_is_left",   "report_closed"),

    # Too late.
    Row(HandleStarted,       IN_PROGRESS,             INTERNAL,            None,                "end_late_handle"),
    Row(LookupRequested,     IN_PROGRESS,             INTERNAL,            None,                "refuse"),
    Row(ConnectionRequested, CLOSING_CONNECTIONS,     INTERNAL,            None,                "refuse"),
    Row(CloseClient,         IN_PROGRESS,             INTERNAL,            None,                "await_end"),
    Row(ShutDownClient,      CLOSING_CONNECTIONS,     INTERNAL,            None,                "await_end"),
)

IGNORES: Final = (
    #      events                     states
    Ignore((HandleStarted, Remaining), OPEN),
    Ignore(Remaining, IN_PROGRESS),  # some are left
    Ignore(Remaining, CLOSED),
)
# fmt: on

OURS: Final = (CloseClient, ShutDownClient, HandleStarted, LookupRequested, ConnectionRequested)

CHART: Final = Chart("client_close", states=State, initial=OPEN, final=[CLOSED], ours=OURS, rows=ROWS, ignores=IGNORES)


class ClientClose(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order. `tokens` are those of the callers that wait for the end."""

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        super().__init__()
        self.tokens: tuple[object, ...] = ()

    def serve(self, event: LookupRequested | ConnectionRequested, now: float) -> Effects:
        """Perform the request."""
        return [ServeRequest(event.request)]

    def close_handles(self, event: CloseClient, now: float) -> Effects:
        """Fail all lookups, and close producers and consumers."""
        self.tokens = (event.token,)
        return [StopLookups(), CloseHandles()]

    def end_handles(self, event: ShutDownClient, now: float) -> Effects:
        """Fail all lookups, and end producers and consumers at once."""
        self.tokens = (event.token,)
        return [StopLookups(), EndHandles(AlreadyClosed("the client is shut down"))]

    def end_closing_handles(self, event: ShutDownClient, now: float) -> Effects:
        """End producers and consumers at once, without waiting for brokers any longer."""
        self.tokens += (event.token,)
        return [EndHandles(AlreadyClosed("the client is shut down"))]

    def nothing_is_left(self, event: Remaining, now: float) -> bool:
        """Return whether all producers, consumers and connections have ended."""
        return not event.handles and not event.connections

    def report_closed(self, event: Remaining, now: float) -> Effects:
        """Complete the tokens of all callers that wait."""
        return [ReportClosed(self.tokens)]

    def no_handle_is_left(self, event: Remaining, now: float) -> bool:
        """Return whether all producers and consumers have ended."""
        return not event.handles

    def close_connections(self, event: Remaining, now: float) -> Effects:
        """Close the connections."""
        return [CloseConnections()]

    def end_late_handle(self, event: HandleStarted, now: float) -> Effects:
        """End a producer or consumer that was created while the client closes."""
        return [EndHandle(event.handle, AlreadyClosed("the client is closed"))]

    def refuse(self, event: LookupRequested | ConnectionRequested, now: float) -> Effects:
        """Refuse the request: the client is closing."""
        return [RefuseRequest(event.request)]

    def await_end(self, event: CloseClient | ShutDownClient, now: float) -> Effects:
        """Let the caller wait for the close that is running."""
        self.tokens += (event.token,)
        return []
