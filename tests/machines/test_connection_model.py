"""Whatever broker, network and caller do to a connection, each of its requests is answered once, and it ends once."""

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pulsar_actors.machines.chart import INTERNAL, Chart, Row
from pulsar_actors.machines.connection import CHART, Connection, ConnectionSettings, State
from pulsar_actors.machines.connection_events import (
    Answered,
    Arrived,
    Ask,
    Challenged,
    Close,
    CloseSocket,
    Connected,
    CredentialsFailed,
    CredentialsFetched,
    Dial,
    Failed,
    Lost,
    OpenSocket,
    Pinged,
    Ponged,
    Reply,
    Route,
    SocketLost,
    StreamBroken,
    TcpOpened,
    TlsAgreed,
    Write,
)
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.wire.errors import FrameTooSmall
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAuthChallenge,
    CommandConnected,
    CommandError,
    CommandLookupTopic,
    CommandSuccess,
    ServerError,
)

SETTINGS = ConnectionSettings(hosts=(("a", 1), ("b", 2)), client_version="test", tls=True)

SPEECH = st.sampled_from([Arrived(("frame",)), Pinged(), Ponged(), Challenged(CommandAuthChallenge())])
OUT_OF_TURN = [
    TcpOpened(),
    TlsAgreed(),
    CredentialsFetched("token", b"x"),
    Connected(CommandConnected(server_version="broker")),
]
FAULTS = [SocketLost("reset"), StreamBroken(FrameTooSmall("a frame of no bytes", 0, 0)), CredentialsFailed("none")]
LUCK = [None] * 16  # most steps go well, or a connection would hardly live long enough to do wrong
NEXT_STEP = {
    State.IDLE: Dial(),
    State.DIALING: TcpOpened(),
    State.SECURING: TlsAgreed(),
    State.AUTHENTICATING: CredentialsFetched("token", b"x"),
    State.CONNECTING: Connected(CommandConnected(server_version="broker")),
    State.CHALLENGED: CredentialsFetched("token", b"x"),
}


class AnyConnection(RuleBasedStateMachine):
    """A connection, and a ledger of what was asked of it and what it answered."""

    machine_class: Any = Connection

    def __init__(self) -> None:
        super().__init__()
        self.machine = self.machine_class(SETTINGS)
        self.now = 0.0
        self.asked = 0
        self.answered: list[object] = []
        self.on_the_wire: list[int] = []
        self.timers: list[StartTimer] = []
        self.lost = 0
        self.open = False
        self.accepted = False

    def tell(self, event: Any) -> None:
        for effect in self.machine.handle(event, self.now):
            self.perform(effect)

    def perform(self, effect: Any) -> None:
        match effect:
            case Reply(token, _):
                self.answered.append(token)
            case Write(command, _):
                assert self.open, "written to a socket that is not there"
                assert self.accepted or not hasattr(command, "request_id"), "asked before the broker accepted"
                if isinstance(command, CommandLookupTopic):
                    self.on_the_wire.append(command.request_id)
            case OpenSocket():
                self.open = True
            case CloseSocket():
                self.open = False
            case Route():
                assert self.accepted, "handed on what a stranger said"
            case Lost():
                self.lost += 1
            case StartTimer():
                self.timers.append(effect)
            case _:
                pass

    @initialize(steps=st.sampled_from([0, 1, 2, 3, 4, 5, 5, 5, 5]))  # five lead to READY, where most can happen
    def go_some_way(self, steps: int) -> None:
        for _ in range(steps):
            self.go_on()

    @rule()
    def go_on(self) -> None:
        if self.machine.state in NEXT_STEP:
            self.meet(NEXT_STEP[self.machine.state])

    @rule(timeout=st.sampled_from([0.0, 1.0, 30.0]))
    def ask(self, timeout: float) -> None:
        self.tell(Ask(CommandLookupTopic(topic="t", request_id=0), self.asked, timeout))
        self.asked += 1

    @rule(event=SPEECH)
    def hear(self, event: Any) -> None:
        self.tell(event)

    @rule(event=st.sampled_from([*LUCK, *FAULTS, *OUT_OF_TURN, Close()]))
    def suffer(self, event: Any) -> None:
        if event is not None:
            self.meet(event)

    def meet(self, event: Any) -> None:
        self.accepted |= isinstance(event, Connected) and self.machine.state is State.CONNECTING
        self.tell(event)

    @rule(data=st.data(), refused=st.booleans())
    def answer(self, data: st.DataObject, *, refused: bool) -> None:
        request_id = data.draw(st.sampled_from([*reversed(self.on_the_wire), 99]))
        error = CommandError(request_id=request_id, error=ServerError.UnknownError, message="")
        self.tell(Failed(error) if refused else Answered(CommandSuccess(request_id=request_id)))

    @precondition(lambda self: self.timers)
    @rule(data=st.data())
    def time_passes(self, data: st.DataObject) -> None:
        timer = self.timers.pop(data.draw(st.integers(0, len(self.timers) - 1)))
        self.now += timer.delay
        self.tell(timer.event)

    @invariant()
    def no_request_is_answered_twice(self) -> None:
        assert len(self.answered) == len(set(self.answered)), "answered more than once"

    @invariant()
    def no_request_id_is_used_twice(self) -> None:
        assert len(self.on_the_wire) == len(set(self.on_the_wire))

    @invariant()
    def it_ends_once_and_then_holds_nothing(self) -> None:
        ended = self.machine.state in {State.CLOSING, State.CLOSED}
        assert self.lost == ended, "ended, or not, against what was said"
        if ended:
            assert set(self.answered) == set(range(self.asked)), "asked but not answered"

    def teardown(self) -> None:
        """Bring any run to its end, where everything asked must have been answered."""
        self.tell(Close())
        self.it_ends_once_and_then_holds_nothing()


MODEL = settings(max_examples=100, stateful_step_count=25)
HUNT = settings(MODEL, max_examples=5_000, phases=[Phase.generate], database=None, print_blob=False)


def test_each_request_is_answered_once_and_the_connection_ends_once() -> None:
    run_state_machine_as_test(AnyConnection, settings=MODEL)


def row(does: str, trigger: type) -> Row:
    (found,) = [row for row in CHART.rows if row.does == does and row.trigger is trigger]
    return found


def with_row_changed(original: Row, **changed: Any) -> Any:
    """Make the model of a connection whose chart has one row changed."""
    rows = [row._replace(**changed) if row == original else row for row in CHART.rows]
    chart = Chart("connection", states=State, initial=CHART.initial, final=CHART.final, ours=CHART.ours, rows=rows)
    mutant = type("Mutant", (Connection,), {"__slots__": ()}, chart=chart)
    return type("AnyMutant", (AnyConnection,), {"machine_class": mutant})


@pytest.mark.parametrize(
    ("original", "changed", "complaint"),
    [
        (row("end_cut_off", SocketLost), {"does": None}, "against what was said"),
        (row("finish", Close), {"does": None}, "against what was said"),
        (row("refuse", Ask), {"does": None}, "asked but not answered"),
        (row("refuse", Ask), {"does": "request"}, "not there"),
        (row("hold", Ask), {"does": None}, "asked but not answered"),
        (row("hold", Ask), {"does": "request"}, "not there|before the broker accepted|not answered"),
        (row("give_refusal", Failed), {"does": "end_refused"}, "against what was said"),
        (row("end_out_of_turn", Arrived), {"dest": INTERNAL, "does": "route"}, "handed on what a stranger said"),
    ],
    ids=str,
)
def test_a_chart_that_breaks_a_promise_is_found_out(original: Row, changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        run_state_machine_as_test(with_row_changed(original, **changed), settings=HUNT)
