"""The keepalive of one connection: a PING in each interval, and the end if no PONG has come by the next one.

A part of the connection's machine. It starts when the broker has accepted the client. It detects a peer that has gone
without closing the connection: otherwise producers and consumers would wait for such a peer for ever.

Only a PONG counts. Other traffic, and the peer's own PING, do not show that the peer reads what this client writes. The
connection's own chart answers the peer's PING, also during the handshake.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.machines.chart import Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_events import BrokerAccepted, ConnectionOver, KeepaliveDue, Ponged, WriteCommand
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.wire.PulsarApi_pb2 import CommandPing


@unique
class State(Enum):
    """The states of a connection's keepalive."""

    STOPPED = "The broker has not accepted the client yet, or the connection has ended."
    ALIVE = "Every PING so far has its PONG; the next PING is sent when the interval is over."
    PING_SENT = "A PING is sent and has no PONG yet."
    SILENT = "No PONG came within an interval: the connection ends."


STOPPED, ALIVE, PING_SENT, SILENT = State

# fmt: off
ROWS: Final = (
    #   trigger         source                      dest       guard  does
    Row(BrokerAccepted, STOPPED,                    ALIVE,     None,  "start_timer"),
    Row(KeepaliveDue,   ALIVE,                      PING_SENT, None,  "send_ping"),
    Row(Ponged,         PING_SENT,                  ALIVE),
    Row(KeepaliveDue,   PING_SENT,                  SILENT),
    Row(ConnectionOver, (ALIVE, PING_SENT, SILENT), STOPPED),
)

IGNORES: Final = (
    Ignore(ConnectionOver, STOPPED),
    Ignore(KeepaliveDue,   (STOPPED, SILENT)),
    Ignore(Ponged,         (STOPPED, ALIVE, SILENT)),
)
# fmt: on

CHART: Final = Chart(
    "connection_keepalive",
    states=State,
    initial=STOPPED,
    final=(),
    ours=(),
    rows=ROWS,
    ignores=IGNORES,
    inner=(BrokerAccepted, ConnectionOver),
)


class ConnectionKeepalive(StateMachine, chart=CHART):
    """The keepalive of one connection: the actions in the chart's order."""

    __slots__ = ("_interval",)

    def __init__(self, connection: StateMachine, interval: float) -> None:
        super().__init__(connection)
        self._interval = interval

    def start_timer(self, event: BrokerAccepted, now: float) -> Effects:
        """Begin the first interval."""
        return [self.timers.start(KeepaliveDue, self._interval)]

    def send_ping(self, event: KeepaliveDue, now: float) -> Effects:
        """Send PING, and begin the interval in which the PONG has to come."""
        return [WriteCommand(CommandPing()), self.timers.start(KeepaliveDue, self._interval)]
