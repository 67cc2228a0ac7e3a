import pytest

from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.connection import State
from pulsar_actors.machines.connection_events import (
    AwaitActivity,
    BrokerAccepted,
    ConnectionOver,
    KeepaliveDue,
    NotifyConnectionLost,
    PeerActive,
    WriteCommand,
)
from pulsar_actors.machines.connection_keepalive import CHART, ConnectionKeepalive
from pulsar_actors.machines.connection_keepalive import State as KeepaliveState
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandPing,
)
from tests.machines.connection_bench import (
    ready,
)
from tests.machines.mutants import Fault, Hunt, fault
from tests.machines.test_connection_model import HUNT, AnyConnection


@pytest.mark.shows("Keep alive", "Ping")
def test_keepalive_pings_and_ends_a_connection_whose_peer_is_silent() -> None:
    driven = ready()
    assert [write.command for write in driven.fire(KeepaliveDue) if isinstance(write, WriteCommand)] == [CommandPing()]
    driven.fire(KeepaliveDue)
    assert driven.machine.state is State.CLOSED
    (lost,) = driven.did(NotifyConnectionLost)
    assert str(lost.error) == "the peer was silent for 30 s"


def test_an_active_peer_keeps_the_connection() -> None:
    driven = ready()
    for _ in range(3):
        assert AwaitActivity() in driven.fire(KeepaliveDue)
        driven.tell(PeerActive())
    assert driven.machine.state is State.READY


def test_activity_before_a_ping_does_not_count_after_it() -> None:
    driven = ready()
    driven.tell(PeerActive())
    driven.fire(KeepaliveDue)
    driven.fire(KeepaliveDue)
    assert driven.machine.state is State.CLOSED


# fmt: off
FAULTS = [
    fault(BrokerAccepted, KeepaliveState.STOPPED, "start_timer", {"does": None},
          "no ping when one was due", "go_on", "time_passes"),
    fault(KeepaliveDue, KeepaliveState.ALIVE, "send_ping", {"does": None},
          "no ping when one was due", "time_passes"),
    fault(PeerActive, KeepaliveState.PING_SENT, None, {"dest": INTERNAL},
          "ended where it had to go on", "nothing_happens"),
    fault(ConnectionOver, KeepaliveState.ALIVE, None, {"dest": KeepaliveState.ALIVE},
          "did something after the end", "close", "time_passes"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    Hunt(CHART, ConnectionKeepalive, AnyConnection, {}, HUNT, "keepalive_class").find_out(
        fault, 4 if fault.trigger is BrokerAccepted else 5
    )
