"""The keepalive of one connection: a PING in each interval, and the end if the peer is silent until the next one.

A part of the connection's machine. It starts when the broker has accepted the client. It detects a peer that has gone
without closing the connection: otherwise producers and consumers would wait for such a peer for ever.

A PONG is not the only sign of life. On a slow link it waits behind the bytes of large messages, and the PING waits
behind what this client writes. A connection that was given up then would begin these messages again, and never end
them. So whatever bytes the peer sends count, as they do for Java and for brokers, and so does room that the peer makes
for bytes that wait to be written. A peer that is gone does neither. One that only reads, or only writes, has a
keepalive of its own, and ends the connection.

The connection's own chart answers the peer's PING, also during the handshake.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.machines.chart import Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_events import (
    AwaitActivity,
    BrokerAccepted,
    ConnectionOver,
    KeepaliveDue,
    PeerActive,
    WriteCommand,
)
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.wire.PulsarApi_pb2 import CommandPing


@unique
class State(Enum):
    """The states of a connection's keepalive."""

    STOPPED = "The broker has not accepted the client yet, or the connection has ended."
    ALIVE = "The peer was active after every PING so far; the next PING is sent when the interval is over."
    PING_SENT = "A PING is sent, and the peer was not active since."
    SILENT = "The peer was not active for an interval: the connection ends."


STOPPED, ALIVE, PING_SENT, SILENT = State

# fmt: off
ROWS: Final = (
    #   trigger         source                      dest       guard  does
    Row(BrokerAccepted, STOPPED,                    ALIVE,     None,  "start_timer"),
    Row(KeepaliveDue,   ALIVE,                      PING_SENT, None,  "send_ping"),
    Row(PeerActive,     PING_SENT,                  ALIVE),
    Row(KeepaliveDue,   PING_SENT,                  SILENT),
    Row(ConnectionOver, (ALIVE, PING_SENT, SILENT), STOPPED),
)

IGNORES: Final = (
    Ignore(ConnectionOver, STOPPED),
    Ignore(KeepaliveDue,   (STOPPED, SILENT)),
    Ignore(PeerActive,     (STOPPED, ALIVE, SILENT)),
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
        """Send PING, and begin the interval in which the peer has to be active."""
        return [AwaitActivity(), WriteCommand(CommandPing()), self.timers.start(KeepaliveDue, self._interval)]
