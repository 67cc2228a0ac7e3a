"""The close of a client: the order in which its actors end, and the requests that are refused meanwhile.

First all queries of callers fail, and new ones are refused. Then producers and consumers close. Connections stay open
for their last commands. A producer or consumer that has to connect again, to send what is pending, still finds its
broker. A producer or consumer that starts meanwhile ends at once, unless messages wait for it: the closing producer of
a partitioned topic with lazy start creates the producers of partitions that have messages. Then lookups end,
connections write what is queued and close, and the client is closed. After that the client's actor answers every
request with an error. A shutdown ends lookups, producers and consumers without a request to any broker, even if a close
has begun before. Producers, consumers and connections each have a time limit of their own, so there is no timer here.

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
    """The actor of a producer or consumer has started. A lazy producer starts those with messages that wait."""

    handle: object
    has_messages: bool = False


class LookupRequested(NamedTuple):
    """A producer or consumer looks up the broker of its topic."""

    request: object


class QueryRequested(NamedTuple):
    """A caller, or a discovery of topics, asks a broker something else."""

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


class CloseLateHandle(NamedTuple):
    """Close one producer or consumer."""

    handle: object


class EndHandle(NamedTuple):
    """End one producer or consumer at once."""

    handle: object
    error: AlreadyClosed


class StopQueries(NamedTuple):
    """Fail all queries but the lookups of producers and consumers."""


class StopLookups(NamedTuple):
    """Fail all lookups and queries."""


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
    CLOSING_HANDLES = "Closed: waits for its producers and consumers to close."
    ENDING_HANDLES = "Shut down: waits for its producers and consumers to end."
    CLOSING_CONNECTIONS = "Waits for its connections to close."
    CLOSED = "All producers, consumers and connections have ended."


OPEN, CLOSING_HANDLES, ENDING_HANDLES, CLOSING_CONNECTIONS, CLOSED = State
WITH_HANDLES: Final = (CLOSING_HANDLES, ENDING_HANDLES)
TOO_LATE: Final = (ENDING_HANDLES, CLOSING_CONNECTIONS)
IN_PROGRESS: Final = (*WITH_HANDLES, CLOSING_CONNECTIONS)

# fmt: off
ROWS: Final = (
    #   trigger              source                   dest                 guard                does
    Row(QueryRequested,      OPEN,                    INTERNAL,            None,                "serve"),
    Row(LookupRequested,     (OPEN, CLOSING_HANDLES), INTERNAL,            None,                "serve"),
    Row(ConnectionRequested, (OPEN, *WITH_HANDLES),   INTERNAL,            None,                "serve"),
    Row(CloseClient,         OPEN,                    CLOSING_HANDLES,     None,                "close_handles"),
    Row(HandleStarted,       CLOSING_HANDLES,         INTERNAL,            "has_messages",      "close_late_handle"),
    Row(ShutDownClient,      OPEN,                    ENDING_HANDLES,      None,                "end_handles"),
    Row(ShutDownClient,      CLOSING_HANDLES,         ENDING_HANDLES,      None,                "end_closing_handles"),
    Row(Remaining,           CLOSING_HANDLES,         CLOSED,              "nothing_is_left",   "end_without_handles"),
    Row(Remaining,           CLOSING_HANDLES,         CLOSING_CONNECTIONS, "no_handle_is_left", "close_the_rest"),
    Row(Remaining,           ENDING_HANDLES,          CLOSED,              "nothing_is_left",   "report_closed"),
    Row(Remaining,           ENDING_HANDLES,          CLOSING_CONNECTIONS, "no_handle_is_left", "close_connections"),
    Row(Remaining,           CLOSING_CONNECTIONS,     CLOSED,              "nothing_is_left",   "report_closed"),

    # Too late.
    Row(HandleStarted,       IN_PROGRESS,             INTERNAL,            None,                "end_late_handle"),
    Row(QueryRequested,      IN_PROGRESS,             INTERNAL,            None,                "refuse"),
    Row(LookupRequested,     TOO_LATE,                INTERNAL,            None,                "refuse"),
    Row(ConnectionRequested, CLOSING_CONNECTIONS,     INTERNAL,            None,                "refuse"),
    Row(CloseClient,         IN_PROGRESS,             INTERNAL,            None,                "await_end"),
    Row(ShutDownClient,      TOO_LATE,                INTERNAL,            None,                "await_end"),
)

IGNORES: Final = (
    #      events                     states
    Ignore((HandleStarted, Remaining), OPEN),
    Ignore(Remaining, IN_PROGRESS),  # some are left
    Ignore(Remaining, CLOSED),
)
# fmt: on

OURS: Final = (CloseClient, ShutDownClient, HandleStarted, LookupRequested, QueryRequested, ConnectionRequested)

CHART: Final = Chart("client_close", states=State, initial=OPEN, final=[CLOSED], ours=OURS, rows=ROWS, ignores=IGNORES)


class ClientClose(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order. `tokens` are those of the callers that wait for the end."""

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        super().__init__()
        self.tokens: tuple[object, ...] = ()

    def serve(self, event: QueryRequested | LookupRequested | ConnectionRequested, now: float) -> Effects:
        """Perform the request."""
        return [ServeRequest(event.request)]

    def close_handles(self, event: CloseClient, now: float) -> Effects:
        """Fail all queries, and close producers and consumers."""
        self.tokens = (event.token,)
        return [StopQueries(), CloseHandles()]

    def has_messages(self, event: HandleStarted, now: float) -> bool:
        """Return whether messages wait for this producer."""
        return event.has_messages

    def close_late_handle(self, event: HandleStarted, now: float) -> Effects:
        """Close a producer that was created while the client closes, once its messages are sent."""
        return [CloseLateHandle(event.handle)]

    def end_handles(self, event: ShutDownClient, now: float) -> Effects:
        """Fail all lookups, and end producers and consumers at once."""
        self.tokens = (event.token,)
        return [StopLookups(), EndHandles(AlreadyClosed("the client is shut down"))]

    def end_closing_handles(self, event: ShutDownClient, now: float) -> Effects:
        """End producers and consumers at once, without waiting for brokers any longer."""
        self.tokens += (event.token,)
        return [StopLookups(), EndHandles(AlreadyClosed("the client is shut down"))]

    def nothing_is_left(self, event: Remaining, now: float) -> bool:
        """Return whether all producers, consumers and connections have ended."""
        return not event.handles and not event.connections

    def end_without_handles(self, event: Remaining, now: float) -> Effects:
        """Fail all lookups, which nobody needs now, and complete the tokens."""
        return [StopLookups(), *self.report_closed(event, now)]

    def report_closed(self, event: Remaining, now: float) -> Effects:
        """Complete the tokens of all callers that wait."""
        return [ReportClosed(self.tokens)]

    def no_handle_is_left(self, event: Remaining, now: float) -> bool:
        """Return whether all producers and consumers have ended."""
        return not event.handles

    def close_the_rest(self, event: Remaining, now: float) -> Effects:
        """Fail all lookups, which nobody needs now, and close the connections."""
        return [StopLookups(), *self.close_connections(event, now)]

    def close_connections(self, event: Remaining, now: float) -> Effects:
        """Close the connections."""
        return [CloseConnections()]

    def end_late_handle(self, event: HandleStarted, now: float) -> Effects:
        """End a producer or consumer that was created too late to close."""
        return [EndHandle(event.handle, AlreadyClosed("the client is closed"))]

    def refuse(self, event: QueryRequested | LookupRequested | ConnectionRequested, now: float) -> Effects:
        """Refuse the request: the client is closing."""
        return [RefuseRequest(event.request)]

    def await_end(self, event: CloseClient | ShutDownClient, now: float) -> Effects:
        """Let the caller wait for the close that is running."""
        self.tokens += (event.token,)
        return []
