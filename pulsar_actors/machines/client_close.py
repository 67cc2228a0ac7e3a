"""The close of a client: the order in which its actors end, and the requests that it refuses meanwhile.

Lookups end at once, so that nobody waits for a broker that is still being searched for. Producers and consumers close
next, while connections stay open for what they still have to send. Then connections write what is left and close, and
the client is closed. A shutdown ends producers and consumers without asking any broker, also after a close has begun.
Each of these actors limits its own time, so there is no timer here.

The guardian actor knows its producers, consumers and connections. It reports how many are left, here called handles and
connections, when a close begins and whenever one of them has ended, as planned or by a bug.
"""

from enum import Enum, unique
from typing import Final, NamedTuple

from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.state_machine import StateMachine

# Events of our own side. A token is told when the client is closed; a request is passed on in an effect.


class CloseClient(NamedTuple):
    """Close producers and consumers in good order, then connections."""

    token: object


class ShutDownClient(NamedTuple):
    """End producers and consumers without waiting for brokers, then close connections."""

    token: object


class HandleStarted(NamedTuple):
    """A producer or consumer has been created."""

    handle: object


class LookupRequested(NamedTuple):
    """A broker is to be found, or asked about a topic."""

    request: object


class ConnectionRequested(NamedTuple):
    """A producer, a consumer or a lookup needs a connection."""

    request: object


# Events of actors that have ended.


class Remaining(NamedTuple):
    """So many producers and consumers, and so many connections, have not ended yet."""

    handles: int
    connections: int


# Effects.


class Serve(NamedTuple):
    """Do what was requested."""

    request: object


class Refuse(NamedTuple):
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
    """End all producers and consumers at once; what is pending fails with this error."""

    error: AlreadyClosed


class CloseConnections(NamedTuple):
    """Let all connections write what is left, then close them."""


class ReportClosed(NamedTuple):
    """Tell these tokens that the client is closed."""

    tokens: tuple[object, ...]


@unique
class State(Enum):
    """Where a client can be."""

    OPEN = "Serves requests."
    CLOSING_HANDLES = "Waits for its producers and consumers to end."
    CLOSING_CONNECTIONS = "Waits for its connections to close."
    CLOSED = "Nothing is left."


OPEN, CLOSING_HANDLES, CLOSING_CONNECTIONS, CLOSED = State
CLOSING: Final = (CLOSING_HANDLES, CLOSING_CONNECTIONS)

# fmt: off
ROWS: Final = (
    #   trigger              source                   dest                 guard                 does
    Row(LookupRequested,     OPEN,                    INTERNAL,            None,                 "serve"),
    Row(ConnectionRequested, (OPEN, CLOSING_HANDLES), INTERNAL,            None,                 "serve"),
    Row(CloseClient,         OPEN,                    CLOSING_HANDLES,     None,                 "close_handles"),
    Row(ShutDownClient,      OPEN,                    CLOSING_HANDLES,     None,                 "end_handles"),
    Row(ShutDownClient,      CLOSING_HANDLES,         INTERNAL,            None,                 "hurry"),
    Row(Remaining,           CLOSING_HANDLES,         CLOSED,              "nothing_is_left",    "report_closed"),
    Row(Remaining,           CLOSING_HANDLES,         CLOSING_CONNECTIONS, "no_handle_is_left",  "close_connections"),
    Row(Remaining,           CLOSING_CONNECTIONS,     CLOSED,              "nothing_is_left",    "report_closed"),

    # Too late.
    Row(HandleStarted,       CLOSING,                 INTERNAL,            None,                 "end_late_handle"),
    Row(LookupRequested,     CLOSING,                 INTERNAL,            None,                 "refuse"),
    Row(ConnectionRequested, CLOSING_CONNECTIONS,     INTERNAL,            None,                 "refuse"),
    Row(CloseClient,         CLOSING,                 INTERNAL,            None,                 "await_end"),
    Row(ShutDownClient,      CLOSING_CONNECTIONS,     INTERNAL,            None,                 "await_end"),
)

IGNORES: Final = (
    #      events                     states
    Ignore((HandleStarted, Remaining), OPEN),
    Ignore(Remaining, CLOSING),  # there are others
    Ignore(Remaining, CLOSED),
)
# fmt: on

OURS: Final = (CloseClient, ShutDownClient, HandleStarted, LookupRequested, ConnectionRequested)

CHART: Final = Chart("client_close", states=State, initial=OPEN, final=[CLOSED], ours=OURS, rows=ROWS, ignores=IGNORES)


class ClientClose(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order. `tokens` wait for the end."""

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        super().__init__()
        self.tokens: tuple[object, ...] = ()

    def serve(self, event: LookupRequested | ConnectionRequested, now: float) -> Effects:
        """Pass the request on."""
        return [Serve(event.request)]

    def close_handles(self, event: CloseClient, now: float) -> Effects:
        """Begin to close."""
        self.tokens = (event.token,)
        return [StopLookups(), CloseHandles()]

    def end_handles(self, event: ShutDownClient, now: float) -> Effects:
        """Begin to shut down."""
        self.tokens = (event.token,)
        return [StopLookups(), EndHandles(AlreadyClosed("the client is shut down"))]

    def hurry(self, event: ShutDownClient, now: float) -> Effects:
        """Wait for brokers no longer."""
        self.tokens += (event.token,)
        return [EndHandles(AlreadyClosed("the client is shut down"))]

    def nothing_is_left(self, event: Remaining, now: float) -> bool:
        """Hold when everything has ended."""
        return not event.handles and not event.connections

    def report_closed(self, event: Remaining, now: float) -> Effects:
        """Tell everybody who waits."""
        return [ReportClosed(self.tokens)]

    def no_handle_is_left(self, event: Remaining, now: float) -> bool:
        """Hold when nobody has anything left to send."""
        return not event.handles

    def close_connections(self, event: Remaining, now: float) -> Effects:
        """Close the connections."""
        return [CloseConnections()]

    def end_late_handle(self, event: HandleStarted, now: float) -> Effects:
        """End what was created while the client closes."""
        return [EndHandle(event.handle, AlreadyClosed("the client is closed"))]

    def refuse(self, event: LookupRequested | ConnectionRequested, now: float) -> Effects:
        """Begin nothing new."""
        return [Refuse(event.request)]

    def await_end(self, event: CloseClient | ShutDownClient, now: float) -> Effects:
        """Wait for the end that has begun."""
        self.tokens += (event.token,)
        return []
