"""Whatever broker, network and caller do to a connection, its promises hold; a chart that breaks one is found out."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pulsar_actors.exceptions import ConnectError, PulsarException, Timeout
from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.connection import (
    CHART,
    ENDING,
    HANDSHAKE,
    PARTS,
    REACHING,
    TALKING,
    ConnectionMachine,
    State,
)
from pulsar_actors.machines.connection_credentials import ConnectionCredentials
from pulsar_actors.machines.connection_events import (
    AbortConnection,
    AllowFrames,
    Answered,
    Arrived,
    Challenged,
    CloseGracefully,
    CloseSocket,
    Connected,
    ConnectionSettings,
    CredentialsFailed,
    CredentialsFetched,
    Dial,
    FetchCredentials,
    FlushTimedOut,
    GiveReply,
    HandlerAccepted,
    HandlerRejected,
    HandshakeTimedOut,
    KeepaliveDue,
    NotifyConnectionLost,
    OpenSocket,
    PeerActive,
    Pinged,
    Refused,
    RegisterHandler,
    RemoveHandler,
    RequestsDue,
    RouteFrames,
    SendCommand,
    SendRequest,
    SocketLost,
    StartTls,
    StreamBroken,
    TcpOpened,
    TlsAgreed,
    Unawaited,
    WriteCommand,
    WriteFrames,
)
from pulsar_actors.machines.connection_keepalive import ConnectionKeepalive
from pulsar_actors.machines.connection_requests import ConnectionRequests
from pulsar_actors.machines.registered_handlers import RegisteredHandlers
from pulsar_actors.machines.state_machine import StartTimer, StateMachine
from pulsar_actors.wire.errors import FrameTooSmall
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    CommandError,
    CommandFlow,
    CommandLookupTopic,
    CommandPing,
    CommandPong,
    CommandProducer,
    CommandProducerSuccess,
    CommandSuccess,
    ServerError,
)
from tests.machines.connection_bench import Member
from tests.machines.mutants import Fault, Hunt, fault, hunting

SETTINGS = ConnectionSettings(hosts=(("a", 1), ("b", 2)), client_version="test")
CREDENTIALS = CredentialsFetched("token", b"x")
WELCOME = Connected(CommandConnected(server_version="broker", protocol_version=21))
CHALLENGE = Challenged(CommandAuthChallenge())
ARRIVED = Arrived(("one", "two"))
FLOW = CommandFlow(consumer_id=1, messagePermits=1)
NOTHING_ASKED = 99

BLOWS = [
    SocketLost("reset"),
    SocketLost("expired", is_distrusted=True),
    StreamBroken(FrameTooSmall("a frame of no bytes", 0, 0)),
    CredentialsFailed("none"),
]
OUT_OF_TURN = [TcpOpened(), TlsAgreed(), WELCOME]
NOBODY = 2**64 - 1
NEXT_STEP = {
    State.IDLE: Dial(),
    State.DIALING: TcpOpened(),
    State.SECURING: TlsAgreed(),
    State.AUTHENTICATING: CREDENTIALS,
    State.CONNECTING: WELCOME,
    State.CHALLENGED: CREDENTIALS,
}
FETCHING = (State.AUTHENTICATING, State.CHALLENGED)
SPEECH_OF_STRANGERS = (StreamBroken, Answered, Arrived, Refused)
ENDS: dict[Any, tuple[type, ...]] = {  # besides what ends a connection anywhere
    State.AUTHENTICATING: (*SPEECH_OF_STRANGERS, Connected, Challenged, SocketLost, CredentialsFailed),
    State.CONNECTING: SPEECH_OF_STRANGERS,
    State.CHALLENGED: (*SPEECH_OF_STRANGERS, Connected, Challenged, SocketLost, CredentialsFailed),
    State.READY: (StreamBroken, Connected, SocketLost, CredentialsFailed),
}


@dataclass
class Request:
    """What was asked, and what has become of it."""

    command: Any
    deadline: float | None
    request_id: int | None = None
    ended: bool = False


class AnyConnection(RuleBasedStateMachine):
    """A connection, its socket, and a record of its requests and replies."""

    machine_class: Any = ConnectionMachine
    requests_class = ConnectionRequests
    handlers_class = RegisteredHandlers
    keepalive_class = ConnectionKeepalive
    credentials_class = ConnectionCredentials
    starts: tuple[int, ...] = (0, 1, 2, 3, 4, 4, 5, 5, 5, 5, 5)  # five lead to READY, where most can happen

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.event: Any = None
        self.clock: Any = None  # the handshake's, of the host that was dialled last
        self.requests: list[Request] = []
        self.waiting: list[Member] = []
        self.using: list[Member] = []
        self.members = 0
        self.timers: list[tuple[float, Any]] = []
        self.hosts: list[str] = []
        self.tls = self.agreeing = self.secured = self.has_socket = False
        self.introduced = self.accepted = self.pong_owed = False
        self.fetching = self.lost = 0
        self.challenged_again = False
        self.since = 0.0  # when the handshake, the last interval of the keepalive, or the flush began

    @initialize(data=st.data(), tls=st.sampled_from([True, True, False]))
    def go_some_way(self, data: st.DataObject, *, tls: bool) -> None:
        self.tls = tls
        self.machine: ConnectionMachine = self.machine_class(SETTINGS._replace(tls=tls))
        for part in PARTS:
            getattr(self.machine, part).__class__ = getattr(self, f"{part}_class")
        for _ in range(data.draw(st.sampled_from(self.starts))):
            self.advance()

    @property
    def state(self) -> Any:
        return self.machine.state

    @property
    def ready(self) -> bool:
        return self.state is State.READY

    @property
    def open(self) -> list[Request]:
        return [request for request in self.requests if not request.ended]

    # What the connection does.

    def tell(self, event: Any) -> list[Any]:
        """Say something, see whether that ends the connection as it should, and to what else it leads."""
        must_end = self.must_end(event)
        self.event = event
        self.has_socket = self.has_socket and not isinstance(event, SocketLost)
        self.secured |= self.agreeing and isinstance(event, TlsAgreed)
        self.since = self.now if isinstance(event, Dial) else self.since
        effects = self.machine.handle(event, self.now)
        ends = any(isinstance(effect, NotifyConnectionLost) for effect in effects)
        assert ends or not must_end, "went on where it had to end"
        assert must_end or not ends, "ended where it had to go on"
        for effect in effects:
            self.perform(effect)
        return effects

    def must_end(self, event: Any) -> bool:
        match event:
            case CloseGracefully() | AbortConnection():
                return not self.lost
            case HandshakeTimedOut():
                return event == self.clock and self.state in HANDSHAKE and not self.may_try_another()
            case KeepaliveDue():
                return self.ready and self.pong_owed
            case SocketLost() if self.state in REACHING:
                return not self.may_try_another()
            case Refused(command) if command.request_id == NOBODY and self.state is State.READY:
                return True
            case _:
                return isinstance(event, ENDS.get(self.state, ()))

    def may_try_another(self) -> bool:
        return self.state in REACHING and len(self.hosts) < len(SETTINGS.hosts)

    def perform(self, effect: Any) -> None:
        assert not self.lost or isinstance(effect, GiveReply | CloseSocket | StartTimer | HandlerRejected), (
            "did something after the end"
        )
        match effect:
            case GiveReply(token, answer):
                assert token is not None, "an answer that nobody waits for"
                self.take(self.requests[int(str(token))], answer)
            case WriteCommand(command):
                assert self.has_socket, "written to a socket that is not there"
                self.read(command)
            case StartTimer(timer, delay):
                self.timers.append((self.now + delay, timer))
                self.clock = timer if isinstance(timer, HandshakeTimedOut) else self.clock
            case FetchCredentials():
                self.fetching += 1
                assert self.fetching == 1 or self.state is not State.READY, "a broker heaps up work"
            case RouteFrames(frames):
                assert self.accepted, "handed on what a stranger said"
                assert frames == ARRIVED.frames
            case NotifyConnectionLost():
                assert not self.open, "asked but not answered"
                assert not self.waiting, "left waiting for a connection that has ended"
                assert not self.using, "left with a connection that has ended"
                self.lost += 1
                self.since = self.now
            case HandlerAccepted(member):
                assert self.ready, "welcome where nobody can be served"
                self.leave(member, self.waiting)
                self.using.append(member)
            case HandlerRejected(member):
                assert not self.ready, "turned away by a connection that can be used"
                self.leave(member, self.using if member in self.using else self.waiting)
            case AllowFrames():
                assert not self.accepted, "accepted twice"
                self.accepted, self.since = True, self.now
            case _:
                self.use_socket(effect)

    def use_socket(self, effect: Any) -> None:
        match effect:
            case OpenSocket(host, _):
                assert not self.has_socket, "two sockets"
                assert host not in self.hosts, "dialled in vain again"
                self.hosts.append(host)
                self.introduced, self.since = False, self.now
                self.has_socket, self.agreeing, self.secured = True, False, not self.tls
            case StartTls(host):
                assert self.tls, "TLS that nobody wants"
                assert self.hosts[-1] == host, "a certificate of another host"
                self.agreeing = True
            case CloseSocket(flush):
                self.has_socket = self.has_socket and flush
            case _:
                pass

    def take(self, request: Request, answer: Any) -> None:
        """Be the sender of the request."""
        assert not request.ended, "answered more than once"
        queued = isinstance(answer, CommandProducerSuccess) and not answer.producer_ready
        if isinstance(self.event, Answered | Refused) and self.ready:
            assert self.event.command.request_id == request.request_id, "an answer went astray"
        if isinstance(self.event, Answered) and self.ready:
            assert answer is self.event.command, "an answer was changed"
        elif isinstance(self.event, RequestsDue):
            assert isinstance(answer, ConnectError if request.request_id is None else Timeout)
            assert request.deadline is not None
            assert self.now >= request.deadline, "given up too early"
        else:
            assert isinstance(answer, PulsarException), "something else in place of an answer"
        request.ended = not queued
        request.deadline = None

    def read(self, command: Any) -> None:
        """Be the broker."""
        match command:
            case CommandConnect():
                assert self.secured, "credentials in the clear"
                assert not self.introduced, "introduced itself twice"
                self.introduced = True
            case CommandAuthResponse():
                assert self.secured, "credentials in the clear"
            case CommandPing():
                self.pong_owed, self.since = True, self.now
            case CommandLookupTopic(topic=token) | CommandProducer(topic=token):
                assert self.accepted, "asked before the broker accepted"
                self.note_id(self.requests[int(token)], command)
            case _:
                pass

    def note_id(self, request: Request, command: Any) -> None:
        assert request.request_id is None, "asked twice"
        assert all(one.request_id != command.request_id for one in self.requests), "an id was used twice"
        assert not request.ended, "asked after it was given up"
        request.request_id = command.request_id
        written = [one for one in self.requests if one.request_id is not None]
        assert written[-1] is request, "asked out of order"

    # What happens to it.

    @rule()
    def go_on(self) -> None:
        self.advance()

    def advance(self) -> None:
        """Let the next step towards READY go well."""
        step = NEXT_STEP.get(self.state)
        if step is not None and (step is not CREDENTIALS or self.fetching):
            before = self.state
            self.meet(step)
            assert self.state is not before, "a good step leads nowhere"

    @rule(event=st.sampled_from([*BLOWS, *OUT_OF_TURN]), luck=st.integers(0, 3))
    def suffer(self, event: Any, luck: int) -> None:
        """Meet with a fault, though not often once in use, where most can go wrong."""
        if not (luck and self.ready):
            self.meet(event)

    def meet(self, event: Any) -> None:
        expected = [] if self.lost else [WriteCommand, *([FetchCredentials] if self.challenged_again else [])]
        if isinstance(event, CredentialsFetched):
            self.fetching -= 1
            self.challenged_again = False
        effects = self.tell(event)
        if isinstance(event, CredentialsFetched):
            assert [type(effect) for effect in effects] == expected, "a challenge without an answer"

    @precondition(lambda self: self.state in {State.DIALING, State.SECURING})
    @rule()
    def lose_host(self) -> None:
        self.meet(BLOWS[0])

    @precondition(lambda self: self.fetching)
    @rule(event=st.sampled_from([CREDENTIALS, CREDENTIALS, BLOWS[-1]]))
    def credentials_come(self, event: Any) -> None:
        self.meet(event)

    @rule(seconds=st.sampled_from([0.5, 1.0, 10.0, 30.0]), asleep=st.sampled_from([False, False, False, True]))
    def time_passes(self, seconds: float, *, asleep: bool) -> None:
        """Let time pass; a loop that is busy elsewhere finds out later."""
        if asleep:
            self.now += seconds
        else:
            self.pass_time(seconds)

    @rule(ponging=st.booleans())
    def nothing_happens(self, *, ponging: bool) -> None:
        """Let time pass by the interval of the keepalive, before a peer that lives or does not."""
        for _ in range(3):
            self.pass_time(SETTINGS.keepalive_interval)
            if ponging:
                self.be_active()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        while due := [timer for timer in self.timers if timer[0] <= self.now]:
            first = min(due, key=lambda timer: timer[0])
            self.timers.remove(first)
            self.tell(first[1])
        waiting = [request.deadline for request in self.open if request.deadline is not None]
        assert min(waiting, default=self.now + 1) > self.now, "waited beyond the timeout"
        assert self.state not in HANDSHAKE or self.now < self.since + SETTINGS.handshake_timeout, "a handshake for ever"
        assert not self.ready or self.now < self.since + SETTINGS.keepalive_interval, "no ping when one was due"
        assert self.state is not State.CLOSING or self.now < self.since + SETTINGS.flush_timeout, "closes for ever"

    # What callers do.

    @rule(timeouts=st.lists(st.sampled_from([0.0, 1.0, 30.0]), min_size=1, max_size=3), creates=st.booleans())
    def ask(self, timeouts: list[float], *, creates: bool) -> None:
        for timeout in timeouts:
            self.ask_once(timeout, creates=creates)

    def ask_once(self, timeout: float, *, creates: bool) -> None:
        token = len(self.requests)
        topic = str(token)
        creation = CommandProducer(topic=topic, request_id=0, producer_id=1)
        command = creation if creates else CommandLookupTopic(topic=topic, request_id=0)
        self.requests.append(Request(command, self.now + timeout))
        self.tell(SendRequest(command, token, timeout))
        assert not command.request_id, "the caller's own command was changed"
        assert self.state not in ENDING or not self.open, "asked but not answered"

    @precondition(lambda self: self.state is not State.IDLE)
    @rule(really=st.sampled_from([False, False, False, True]))
    def close(self, *, really: bool) -> None:
        if really:
            self.tell(CloseGracefully())

    @precondition(lambda self: self.state is not State.IDLE)
    @rule(really=st.sampled_from([False, False, False, True]))
    def drop(self, *, really: bool) -> None:
        if really:
            self.tell(AbortConnection(Timeout("no answer to a close")))

    @rule()
    def tell_without_an_answer(self) -> None:
        expected = [WriteCommand(FLOW)] if self.ready else []
        assert self.tell(SendCommand(FLOW)) == expected, "said and not written, or written too early"

    @rule()
    def ship(self) -> None:
        expected = [WriteFrames(("frames",))] if self.ready else []
        assert self.tell(WriteFrames(("frames",))) == expected, "packed and not written, or written too early"

    @precondition(lambda self: not self.lost)
    @rule(leaving=st.booleans(), returning=st.booleans())
    def join(self, *, leaving: bool, returning: bool) -> None:
        self.members += 1
        member = Member("consumer", self.members)
        self.register(member)
        if returning:
            self.leave(member, self.using if self.ready else self.waiting)
            self.register(member._replace(number=2))
            self.tell(RemoveHandler(member))
        if leaving and (self.waiting or self.using):
            self.tell(RemoveHandler((self.waiting or self.using).pop(0)))
        assert not self.ready or not self.waiting, "kept waiting for nothing"

    def register(self, member: Member) -> None:
        self.waiting.append(member)
        self.tell(RegisterHandler(member))

    def leave(self, member: Member, members: list[Member]) -> None:
        assert member in members, "told twice, or after it had left"
        members.remove(member)

    # What brokers do.

    @rule()
    def ping(self) -> None:
        talks = self.state in TALKING
        assert self.tell(Pinged()) == [WriteCommand(CommandPong())] or not talks, "a ping and no pong"

    @rule()
    def act(self) -> None:
        self.be_active()

    def be_active(self) -> None:
        self.pong_owed = False
        assert self.tell(PeerActive()) == []

    @rule()
    def send_frames(self) -> None:
        was_ready = self.ready
        effects = self.tell(ARRIVED)
        assert not was_ready or effects == [RouteFrames(ARRIVED.frames)], "frames were lost"

    @rule()
    def challenge(self) -> None:
        is_another = self.ready and self.fetching > 0
        fetching = self.fetching + (self.state in {State.CONNECTING, State.READY} and not is_another)
        self.challenged_again = self.challenged_again or is_another
        self.tell(CHALLENGE)
        assert self.fetching == fetching, "a challenge without an answer"

    @rule(data=st.data(), how=st.sampled_from(["final", "queued", "refused"]))
    def answer(self, data: st.DataObject, how: str) -> None:
        """Answer something that was asked, ever, or that nobody asked."""
        known = [request for request in reversed(self.requests) if request.request_id is not None]
        awaited = [request for request in known if not request.ended]
        request = data.draw(st.sampled_from([*awaited, *known, Request(None, None, NOTHING_ASKED, ended=True)]))
        kind = (Unawaited if request.ended else GiveReply) if self.ready else None
        command = CommandError(request_id=request.request_id, error=ServerError.UnknownError, message="")
        event = Refused(command) if how == "refused" else Answered(answer_to(request, queued=how == "queued"))
        effects = self.tell(event)
        assert kind is None or [type(effect) for effect in effects] == [kind], (
            "an answer was lost, or came too late and was not dropped"
        )

    @rule(luck=st.integers(0, 3))
    def disown(self, luck: int) -> None:
        """Be a broker that takes the client for nobody, though not often once in use."""
        if not (luck and self.ready):
            error = CommandError(request_id=NOBODY, error=ServerError.AuthenticationError, message="")
            assert Unawaited(error) not in self.tell(Refused(error)), "reported as an answer to no request"

    # What holds all the time.

    @invariant()
    def it_ends_once(self) -> None:
        assert self.lost == (self.state in ENDING), "ended, or not, against what was said"
        assert self.state is not State.CLOSED or not self.has_socket, "left a socket open"

    @invariant()
    def it_lives_on_a_socket(self) -> None:
        assert self.has_socket or self.state in {State.IDLE, State.CLOSED}, "goes on without a socket"
        assert self.fetching or self.state not in FETCHING, "nobody fetches the credentials"

    @invariant()
    def what_is_asked_is_on_its_way(self) -> None:
        assert not self.ready or all(one.request_id is not None for one in self.open), "asked and not sent"

    def teardown(self) -> None:
        """Bring any run to its end, unless it has broken a promise already."""
        if sys.exc_info()[0] is None and self.state is not State.IDLE:
            self.tell(CloseGracefully())
            self.it_ends_once()


def answer_to(request: Request, *, queued: bool) -> Any:
    if isinstance(request.command, CommandProducer):
        return CommandProducerSuccess(request_id=request.request_id, producer_name="p", producer_ready=not queued)
    return CommandSuccess(request_id=request.request_id)


MODEL = settings(max_examples=150, stateful_step_count=15)  # most connections do not live for longer
HUNT = hunting(MODEL)


def test_every_promise_of_a_connection_holds() -> None:
    run_state_machine_as_test(AnyConnection, settings=MODEL)


def never(self: StateMachine, event: Any, now: float) -> bool:
    return False


def always(self: StateMachine, event: Any, now: float) -> bool:
    return True


def dial_without_a_clock(self: ConnectionMachine, event: Dial, now: float) -> list[Any]:
    return [*self.dial_first(event, now)][1:]


def end_silently(self: ConnectionMachine, event: CloseGracefully, now: float) -> list[Any]:
    return [*self.end_handshake(event, now)][1:]


def route_and_end(self: ConnectionMachine, event: Arrived, now: float) -> list[Any]:
    return [*self.pass_commands_on(event, now), *self.end_out_of_turn(event, now)]


FURTHER: dict[str, Callable[..., Any]] = {
    method.__name__: method for method in (never, always, dial_without_a_clock, end_silently, route_and_end)
}


# fmt: off
FAULTS = [
    # It ends once, and that is that.
    fault(CloseGracefully, State.READY, "start_closing", {"does": "end_unflushed"},
          "went on where it had to end", "ask"),
    fault(SocketLost, State.READY, "end_lost", {"does": None},
          "went on where it had to end", "suffer"),
    fault(Refused, State.READY, "end_credentials_revoked", {"guard": "always"},
          "ended where it had to go on", "ask", "answer"),
    fault(Refused, State.READY, "end_credentials_revoked", {"dest": INTERNAL, "does": None},
          "went on where it had to end", "disown"),
    fault(AbortConnection, State.READY, "end_aborted", {"dest": INTERNAL, "does": None},
          "went on where it had to end", "drop"),
    fault(StreamBroken, State.READY, "end_broken", {"dest": INTERNAL, "does": None},
          "went on where it had to end", "suffer"),
    fault(CloseGracefully, State.CONNECTING, "end_handshake", {"does": "end_silently"},
          "left a socket open", "close"),
    fault(FlushTimedOut, State.CLOSING, "end_unflushed", {"does": None},
          "left a socket open", "close", "time_passes"),
    fault(FlushTimedOut, State.CLOSING, "end_unflushed", {"dest": INTERNAL, "does": None},
          "closes for ever", "close", "time_passes"),
    fault(SocketLost, State.CLOSING, None, {"dest": INTERNAL},
          "without a socket", "close", "suffer"),
    fault(SocketLost, State.DIALING, "dial_next", {"does": None},
          "without a socket", "lose_host"),
    # The handshake.
    fault(Dial, State.IDLE, "dial_first", {"does": "dial_without_a_clock"},
          "a handshake for ever", "go_on", "time_passes"),
    fault(TcpOpened, State.DIALING, "start_tls", {"guard": "never"},
          "credentials in the clear", "go_on"),
    fault(TlsAgreed, State.SECURING, "fetch_credentials", {"dest": INTERNAL},
          "leads nowhere", "go_on"),
    fault(SocketLost, State.SECURING, "dial_next", {"does": None},
          "without a socket", "lose_host"),
    fault(CredentialsFetched, State.CHALLENGED, "answer_challenge", {"does": "send_connect"},
          "introduced itself twice", "challenge", "go_on"),
    fault(SocketLost, State.SECURING, "end_unreachable", {"does": None},
          "went on where it had to end", "lose_host", "go_on"),
    fault(Refused, State.CONNECTING, "end_refused", {"does": None},
          "went on where it had to end", "answer"),
    fault(CredentialsFailed, State.AUTHENTICATING, "end_credentials_failed", {"does": None},
          "went on where it had to end", "credentials_come", "go_on"),
    fault(CredentialsFailed, State.CHALLENGED, "end_credentials_failed", {"dest": INTERNAL, "does": None},
          "went on where it had to end", "challenge", "credentials_come"),
    fault(Arrived, State.CONNECTING, "end_out_of_turn", {"does": "route_and_end"},
          "what a stranger said", "send_frames"),
    fault(Arrived, State.DIALING, None, {"does": "pass_commands_on"},
          "what a stranger said", "send_frames"),
    # What is ignored.
    fault(CredentialsFailed, State.READY, "end_credentials_not_renewed", {"dest": INTERNAL, "does": None},
          "went on where it had to end", "challenge", "credentials_come"),
    fault(CloseGracefully, State.CLOSING, None, {"does": "start_closing"},
          "did something after the end|ended where it had to go on", "close"),
    fault(TcpOpened, State.READY, None, {"does": "fetch_credentials"},
          "heaps up work|did something after the end", "suffer"),
    fault(SendCommand, State.CONNECTING, None, {"does": "write_command"},
          "written too early|not there", "tell_without_an_answer"),
    # In use.
    fault(Arrived, State.READY, "pass_commands_on", {"does": None},
          "frames were lost", "send_frames"),
    fault(SendCommand, State.READY, "write_command", {"does": None},
          "said and not written", "tell_without_an_answer"),
    fault(Pinged, State.CONNECTING, "answer_ping", {"does": None},
          "a ping and no pong", "ping"),
    fault(KeepaliveDue, State.READY, "end_silent", {"dest": INTERNAL, "does": None},
          "went on where it had to end", "time_passes"),
]
# fmt: on
STEPS_TO: dict[Any, int] = {
    State.CLOSED: 0,
    State.IDLE: 0,
    State.DIALING: 1,
    State.SECURING: 2,
    State.AUTHENTICATING: 3,
    State.CONNECTING: 4,
    State.CHALLENGED: 4,
}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    Hunt(CHART, ConnectionMachine, AnyConnection, FURTHER, HUNT).find_out(fault, STEPS_TO.get(fault.state, 5))
