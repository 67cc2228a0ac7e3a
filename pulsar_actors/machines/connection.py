"""One connection to one broker: from the first packet to the last.

The machine decides when to dial, what to answer in the handshake, whether the peer is still alive, which request an
answer belongs to, and what ends the connection. It leaves sockets to the socket actor, credentials to whoever fetches
them, and the meaning of everything between producers, consumers and the broker to their own machines.

A connection lives once. When it ends, it fails what was asked of it, says `Lost`, and is thrown away; reconnecting
makes a new one. Nothing can therefore be left over from an earlier life: no request id, no owed close, no timer.

A request is anything that has an answer. The connection gives it its id, because ids are unique per connection, and
hands the answer, the broker's error, a timeout or the loss of the connection to the token that came with it: exactly
one of these, exactly once. Only a producer that has to queue for its topic hears twice: first that it waits, then how
it ended.
"""

from enum import Enum, unique
from typing import Any, Final, NamedTuple

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    CertificateRefused,
    ConnectError,
    ConnectionLost,
    ErrorGettingAuthenticationData,
    PulsarException,
    Timeout,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Row
from pulsar_actors.machines.connection_events import (
    AllowFrames,
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
    Drop,
    FetchCredentials,
    FlushTimedOut,
    HandshakeTimedOut,
    Join,
    KeepaliveDue,
    Leave,
    Lost,
    OpenSocket,
    Pinged,
    Ponged,
    Refused,
    Reply,
    RequestsDue,
    Retire,
    Route,
    Ship,
    SocketLost,
    StartTls,
    StillUsed,
    StreamBroken,
    TcpOpened,
    Tell,
    TlsAgreed,
    TurnAway,
    Welcome,
    Write,
    WriteParcels,
)
from pulsar_actors.machines.ledgers.request_ids import RequestIds
from pulsar_actors.machines.ledgers.server_errors import refusal
from pulsar_actors.machines.machine import StateMachine
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.wire.frames import frame_limit
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    CommandPing,
    CommandPong,
    CommandProducerSuccess,
    FeatureFlags,
)

PROTOCOL_VERSION: Final = 21


@unique
class State(Enum):
    """Where a connection can be."""

    IDLE = "Made, but not asked to connect yet."
    DIALING = "TCP is being opened, to one host of the service URL after the other."
    SECURING = "TCP is open and TLS is being agreed."
    AUTHENTICATING = "The channel is open; the credentials for CONNECT are being fetched."
    CONNECTING = "CONNECT is sent; the broker has to accept, refuse, or ask for more."
    CHALLENGED = "The broker asked for more before accepting; fresh credentials are being fetched."
    READY = "Accepted: requests, messages and keepalive flow."
    CLOSING = "Closed by our side; what was written before is still leaving."
    CLOSED = "Over, and everything asked of it has been answered."


IDLE, DIALING, SECURING, AUTHENTICATING, CONNECTING, CHALLENGED, READY, CLOSING, CLOSED = State

REACHING: Final = (DIALING, SECURING, CONNECTING)
HANDSHAKE: Final = (DIALING, SECURING, AUTHENTICATING, CONNECTING, CHALLENGED)
TALKING: Final = (AUTHENTICATING, CONNECTING, CHALLENGED, READY)
SHUT: Final = (IDLE, DIALING, CLOSING, CLOSED)
OPENING: Final = (IDLE, *HANDSHAKE)
HEARD: Final = (SECURING, *TALKING)
UNEXPECTED: Final = (SECURING, AUTHENTICATING, CONNECTING, CHALLENGED)
ENDED: Final = (CLOSING, CLOSED)


# fmt: off
ROWS: Final = (
    #   trigger             source            dest             guard                      does
    Row(Dial,               IDLE,             DIALING,         None,                      "dial_first"),
    Row(TcpOpened,          DIALING,          SECURING,        "uses_tls",                "start_tls"),
    Row(TcpOpened,          DIALING,          AUTHENTICATING,  None,                      "fetch_credentials"),
    Row(TlsAgreed,          SECURING,         AUTHENTICATING,  None,                      "fetch_credentials"),
    Row(SocketLost,         REACHING,         DIALING,         "has_another_host",        "dial_next"),
    Row(SocketLost,         SECURING,         CLOSED,          "no_host_is_trusted",      "give_up_distrusting"),
    Row(SocketLost,         HANDSHAKE,        CLOSED,          None,                      "give_up_dialling"),
    Row(CredentialsFetched, AUTHENTICATING,   CONNECTING,      None,                      "introduce"),
    Row(CredentialsFailed,  AUTHENTICATING,   CLOSED,          None,                      "end_without_credentials"),
    Row(Connected,          CONNECTING,       READY,           None,                      "begin"),
    Row(Challenged,         CONNECTING,       CHALLENGED,      None,                      "fetch_for_challenge"),
    Row(Refused,             CONNECTING,       CLOSED,          None,                      "end_refused"),
    Row(CredentialsFetched, CHALLENGED,       CONNECTING,      None,                      "answer_challenge"),
    Row(CredentialsFailed,  CHALLENGED,       CLOSED,          None,                      "end_without_credentials"),
    Row(Refused,             CHALLENGED,       CLOSED,          None,                      "end_refused"),
    Row(HandshakeTimedOut,  REACHING,         DIALING,         "has_another_host",        "dial_instead"),
    Row(HandshakeTimedOut,  HANDSHAKE,        CLOSED,          None,                      "end_slow_handshake"),

    # Asked before it is ready.
    Row(Ask,                OPENING,          INTERNAL,        None,                      "hold"),
    Row(RequestsDue,        OPENING,          INTERNAL,        None,                      "expire_held"),
    Row(Join,               OPENING,          INTERNAL,        None,                      "have_wait"),
    Row(Leave,              OPENING,          INTERNAL,        None,                      "let_go"),
    Row(Retire,             OPENING,          INTERNAL,        None,                      "say_used"),

    # In use.
    Row(Ask,                READY,            INTERNAL,        None,                      "request"),
    Row(Tell,               READY,            INTERNAL,        None,                      "write"),
    Row(Ship,               READY,            INTERNAL,        None,                      "write_packed"),
    Row(Join,               READY,            INTERNAL,        None,                      "welcome_now"),
    Row(Leave,              READY,            INTERNAL,        None,                      "let_go"),
    Row(Retire,             READY,            CLOSING,         "is_unused",               "finish"),
    Row(Retire,             READY,            INTERNAL,        None,                      "say_used"),
    Row(Arrived,            READY,            INTERNAL,        None,                      "route"),
    Row(Answered,           READY,            INTERNAL,        "means_queued",            "give_interim_answer"),
    Row(Answered,           READY,            INTERNAL,        "is_awaited",              "give_answer"),
    Row(Answered,           READY,            INTERNAL),
    Row(Refused,             READY,            INTERNAL,        "is_awaited",              "give_refusal"),
    Row(Refused,             READY,            INTERNAL),
    Row(RequestsDue,        READY,            INTERNAL,        None,                      "expire_requests"),
    Row(Challenged,         READY,            INTERNAL,        None,                      "fetch_for_challenge"),
    Row(CredentialsFetched, READY,            INTERNAL,        None,                      "answer_challenge"),
    Row(CredentialsFailed,  READY,            CLOSED,          None,                      "end_with_old_credentials"),
    Row(KeepaliveDue,       READY,            CLOSED,          "peer_is_silent",          "end_silent"),
    Row(KeepaliveDue,       READY,            INTERNAL,        None,                      "ping"),
    Row(Pinged,             READY,            INTERNAL,        None,                      "pong"),
    Row(Ponged,             READY,            INTERNAL,        None,                      "note_pong"),

    # The end.
    Row(Close,              IDLE,             CLOSED,          None,                      "end_unused"),
    Row(Close,              HANDSHAKE,        CLOSED,          None,                      "end_on_request"),
    Row(Close,              READY,            CLOSING,         None,                      "finish"),
    Row(Drop,               READY,            CLOSED,          None,                      "end_distrusted"),
    Row(SocketLost,         READY,            CLOSED,          None,                      "end_cut_off"),
    Row(StreamBroken,       HEARD,            CLOSED,          None,                      "end_broken"),
    Row(SocketLost,         CLOSING,          CLOSED),
    Row(FlushTimedOut,      CLOSING,          CLOSED,          None,                      "end_unflushed"),

    # Out of turn: a broker that speaks before its time cannot be trusted.
    Row(Connected,          (SECURING, AUTHENTICATING, CHALLENGED, READY), CLOSED,   None, "end_out_of_turn"),
    Row(Challenged,         (SECURING, AUTHENTICATING, CHALLENGED),        CLOSED,   None, "end_out_of_turn"),
    Row(Refused,             (SECURING, AUTHENTICATING),                    CLOSED,   None, "end_refused"),
    Row(Answered,           UNEXPECTED,                                    CLOSED,   None, "end_out_of_turn"),
    Row(Arrived,            UNEXPECTED,                                    CLOSED,   None, "end_out_of_turn"),
    Row(Pinged,             SECURING,                                      CLOSED,   None, "end_out_of_turn"),
    Row(Ponged,             SECURING,                                      CLOSED,   None, "end_out_of_turn"),
    Row(Pinged,             (AUTHENTICATING, CONNECTING, CHALLENGED),      INTERNAL, None, "pong"),
    Row(Ponged,             (AUTHENTICATING, CONNECTING, CHALLENGED),      INTERNAL),

    # Too late, or too early to mean anything.
    Row(Ask,                ENDED,                                 INTERNAL, None,        "refuse"),
    Row(Join,               ENDED,                                 INTERNAL, None,        "turn_away"),
    Row(Leave,              ENDED,                                 INTERNAL),
    Row(Retire,             ENDED,                                 INTERNAL),
    Row(Tell,               (IDLE, *HANDSHAKE, *ENDED),            INTERNAL),
    Row(Ship,               (IDLE, *HANDSHAKE, *ENDED),            INTERNAL),
    Row(Close,              ENDED,                                 INTERNAL),
    Row(Drop,               ENDED,                                 INTERNAL),
    Row(TcpOpened,          (IDLE, SECURING, *TALKING, *ENDED),    INTERNAL),
    Row(TlsAgreed,          (*TALKING, *SHUT),                     INTERNAL),
    Row(SocketLost,         (IDLE, CLOSED),                        INTERNAL),
    Row(StreamBroken,       SHUT,                                  INTERNAL),
    Row(CredentialsFetched, (SECURING, CONNECTING, *SHUT),         INTERNAL),
    Row(CredentialsFailed,  (SECURING, CONNECTING, *SHUT),         INTERNAL),
    Row(HandshakeTimedOut,  (IDLE, READY, *ENDED),                 INTERNAL),
    Row(KeepaliveDue,       (IDLE, *HANDSHAKE, *ENDED),            INTERNAL),
    Row(RequestsDue,        ENDED,                                 INTERNAL),
    Row(FlushTimedOut,      (IDLE, *HANDSHAKE, READY, CLOSED),     INTERNAL),
    Row(Connected,          SHUT,                                  INTERNAL),
    Row(Challenged,         SHUT,                                  INTERNAL),
    Row(Refused,             SHUT,                                  INTERNAL),
    Row(Answered,           SHUT,                                  INTERNAL),
    Row(Arrived,            SHUT,                                  INTERNAL),
    Row(Pinged,             SHUT,                                  INTERNAL),
    Row(Ponged,             SHUT,                                  INTERNAL),
)
# fmt: on

OURS: Final = (Dial, Ask, Tell, Ship, Join, Leave, Retire, Close, Drop)

CHART: Final = Chart("connection", states=State, initial=IDLE, final=[CLOSED], ours=OURS, rows=ROWS)


class ConnectionSettings(NamedTuple):
    """What a connection is told when it is made."""

    hosts: tuple[tuple[str, int], ...]
    client_version: str
    tls: bool = False
    proxy_to_broker_url: str | None = None
    handshake_timeout: float = 10.0
    keepalive_interval: float = 30.0
    flush_timeout: float = 1.0


class Connection(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order."""

    __slots__ = (
        "_all_distrusted", "_connected", "_held", "_joining", "_members", "_next_host", "_over", "_pong_owed",
        "_requests", "_settings",
    )  # fmt: skip

    def __init__(self, settings: ConnectionSettings) -> None:
        super().__init__()
        self._settings = settings
        self._next_host = 0
        self._all_distrusted = True  # the hosts that were tried and left
        self._held: list[Any] = []  # commands with a request_id each, that wait for the broker to accept us
        self._members: list[object] = []  # producers and consumers that use it
        self._joining: list[object] = []  # those among them that wait until it can be used
        self._connected = CommandConnected()
        self._requests: RequestIds[object] = RequestIds()
        self._pong_owed = False
        self._over: PulsarException = AlreadyClosed("the connection is closed")

    def abandon(self) -> tuple[list[object], list[object]]:
        """Give the tokens and the members that still wait, when a bug has ended what carries this machine out."""
        joining, self._joining = self._joining, []
        return self._requests.drain(), joining

    # Handshake.

    def dial_first(self, event: Dial, now: float) -> Effects:
        """Try the first host."""
        return self._dial()

    def uses_tls(self, event: TcpOpened, now: float) -> bool:
        """Hold for pulsar+ssl."""
        return self._settings.tls

    def start_tls(self, event: TcpOpened, now: float) -> Effects:
        """Agree on TLS with the host that was dialled, whose name the certificate must carry."""
        return [StartTls(self._settings.hosts[self._next_host - 1][0])]

    def fetch_credentials(self, event: TcpOpened | TlsAgreed, now: float) -> Effects:
        """Ask for the credentials that CONNECT carries."""
        return [FetchCredentials(None)]

    def has_another_host(self, event: SocketLost | HandshakeTimedOut, now: float) -> bool:
        """Hold while a host of the service URL has not been tried."""
        return self._next_host < len(self._settings.hosts)

    def dial_next(self, event: SocketLost, now: float) -> Effects:
        """Try the host after the one that failed."""
        self._all_distrusted = self._all_distrusted and event.is_distrusted
        return self._dial()

    def dial_instead(self, event: HandshakeTimedOut, now: float) -> Effects:
        """Leave a host that does not answer, and try the one after it."""
        self._all_distrusted = False
        return [CloseSocket(flush=False), *self._dial()]

    def no_host_is_trusted(self, event: SocketLost, now: float) -> bool:
        """Hold when every host showed a certificate that was refused. One that was away may yet show a good one."""
        return self._all_distrusted and event.is_distrusted

    def give_up_distrusting(self, event: SocketLost, now: float) -> Effects:
        """Say which hosts were tried: dialling again would not help."""
        return self._end(CertificateRefused(f"no connection to {self._hosts()}: {event.reason}"))

    def give_up_dialling(self, event: SocketLost, now: float) -> Effects:
        """Say which hosts were tried, and what the last one answered."""
        return self._end(ConnectError(f"no connection to {self._hosts()}: {event.reason}"))

    def introduce(self, event: CredentialsFetched, now: float) -> Effects:
        """Send CONNECT."""
        connect = CommandConnect(
            client_version=self._settings.client_version,
            auth_method_name=event.method,
            auth_data=event.data,
            protocol_version=PROTOCOL_VERSION,
            feature_flags=FeatureFlags(
                supports_auth_refresh=True,
                supports_broker_entry_metadata=True,
                supports_partial_producer=True,
            ),
        )
        if self._settings.proxy_to_broker_url is not None:
            connect.proxy_to_broker_url = self._settings.proxy_to_broker_url
        return [Write(connect)]

    def end_without_credentials(self, event: CredentialsFailed, now: float) -> Effects:
        """Do not go on as nobody."""
        return self._end(ErrorGettingAuthenticationData("AuthenticationError", event.reason))

    def begin(self, event: Connected, now: float) -> Effects:
        """Adopt the broker's limit, start the keepalive, and send what was asked meanwhile."""
        limit = frame_limit(event.command.max_message_size)
        self.timers.stop(HandshakeTimedOut)
        held, self._held = self._held, []
        joining, self._joining = self._joining, []
        self._connected = event.command
        asked = [Write(command) for command in held if command.request_id in self._requests]
        welcomed = [Welcome(member, event.command) for member in joining]
        return [AllowFrames(limit), *welcomed, self._keepalive(), *asked]

    def fetch_for_challenge(self, event: Challenged, now: float) -> Effects:
        """Ask for fresh credentials."""
        return [FetchCredentials(event.command.challenge.auth_data)]

    def end_refused(self, event: Refused, now: float) -> Effects:
        """Pass the broker's refusal on: dialling again would not help."""
        return self._end(refusal(event.command.error, event.command.message))

    def answer_challenge(self, event: CredentialsFetched, now: float) -> Effects:
        """Send AUTH_RESPONSE."""
        response = AuthData(auth_method_name=event.method, auth_data=event.data)
        client = self._settings.client_version
        return [Write(CommandAuthResponse(client_version=client, response=response, protocol_version=PROTOCOL_VERSION))]

    def end_slow_handshake(self, event: HandshakeTimedOut, now: float) -> Effects:
        """Say how far it came."""
        seconds, stage = self._settings.handshake_timeout, self.state.name
        return self._end(ConnectError(f"no connection within {seconds:g} s: still {stage}"))

    def hold(self, event: Ask, now: float) -> Effects:
        """Keep the request until the broker accepts us; its time runs already."""
        command, watch = self._register(event, now)
        self._held.append(command)
        return watch

    def expire_held(self, event: RequestsDue, now: float) -> Effects:
        """Fail requests that never left."""
        return self._expire(ConnectError(f"it was not sent: still {self.state.name}"), now)

    def have_wait(self, event: Join, now: float) -> Effects:
        """Have a producer or consumer wait until the broker accepts us."""
        self._members.append(event.member)
        self._joining.append(event.member)
        return []

    def let_go(self, event: Leave, now: float) -> Effects:
        """Forget one, whether it waits or not."""
        for members in (self._members, self._joining):
            if event.member in members:
                members.remove(event.member)
        return []

    def say_used(self, event: Retire, now: float) -> Effects:
        """Go on."""
        return [StillUsed()]

    # In use.

    def request(self, event: Ask, now: float) -> Effects:
        """Give the request its id and send it."""
        command, watch = self._register(event, now)
        return [Write(command), *watch]

    def write(self, event: Tell, now: float) -> Effects:
        """Send it."""
        return [Write(event.command)]

    def write_packed(self, event: Ship, now: float) -> Effects:
        """Send it."""
        return [WriteParcels(event.parcels)]

    def welcome_now(self, event: Join, now: float) -> Effects:
        """Serve it at once."""
        self._members.append(event.member)
        return [Welcome(event.member, self._connected)]

    def is_unused(self, event: Retire, now: float) -> bool:
        """Hold when no producer or consumer is here and no answer is awaited."""
        return not self._members and not len(self._requests)

    def route(self, event: Arrived, now: float) -> Effects:
        """Hand them on."""
        return [Route(event.frames)]

    def means_queued(self, event: Answered, now: float) -> bool:
        """Hold for a producer that waits its turn: the same request is answered again when the turn comes."""
        command = event.command
        return (
            isinstance(command, CommandProducerSuccess)
            and not command.producer_ready
            and command.request_id in self._requests
        )

    def give_interim_answer(self, event: Answered, now: float) -> Effects:
        """Pass the word on, and await the final answer for as long as it takes."""
        return [Reply(self._requests.queued(event.command.request_id), event.command)]

    def is_awaited(self, event: Answered | Refused, now: float) -> bool:
        """Hold unless the request timed out before its answer came."""
        return event.command.request_id in self._requests

    def give_answer(self, event: Answered, now: float) -> Effects:
        """Match the answer with its request."""
        return [Reply(self._requests.answered(event.command.request_id), event.command)]

    def give_refusal(self, event: Refused, now: float) -> Effects:
        """Match the error with its request."""
        return [
            Reply(
                self._requests.answered(event.command.request_id), refusal(event.command.error, event.command.message)
            )
        ]

    def expire_requests(self, event: RequestsDue, now: float) -> Effects:
        """Fail the requests whose time is up, and look again when the next one's is."""
        return self._expire(Timeout("the broker has not answered in time; it may still do what was asked"), now)

    def end_with_old_credentials(self, event: CredentialsFailed, now: float) -> Effects:
        """Do not go on as somebody who may be somebody else by now. What was asked had been accepted."""
        error = AuthenticationError("AuthenticationError", event.reason)
        return self._end(error, ConnectionLost(f"the credentials could not be renewed: {event.reason}"))

    def peer_is_silent(self, event: KeepaliveDue, now: float) -> bool:
        """Hold when the last PING got no PONG; other traffic proves nothing about who reads ours."""
        return self._pong_owed

    def end_silent(self, event: KeepaliveDue, now: float) -> Effects:
        """End a connection that looks open and is not."""
        return self._end(ConnectionLost(f"no PONG for {self._settings.keepalive_interval:g} s"))

    def ping(self, event: KeepaliveDue, now: float) -> Effects:
        """Ask for a sign of life."""
        effects = [Write(CommandPing()), self._keepalive()]
        self._pong_owed = True
        return effects

    def pong(self, event: Pinged, now: float) -> Effects:
        """Give a sign of life."""
        return [Write(CommandPong())]

    def note_pong(self, event: Ponged, now: float) -> Effects:
        """Remember the sign of life."""
        self._pong_owed = False
        return []

    # The end.

    def end_unused(self, event: Close, now: float) -> Effects:
        """End without a socket to close."""
        error = AlreadyClosed("the connection was closed before it was opened")
        return self._fail_all(error, error)

    def end_on_request(self, event: Close, now: float) -> Effects:
        """End in the middle of the handshake."""
        return self._end(AlreadyClosed("the connection was closed while it was being opened"))

    def finish(self, event: Close | Retire, now: float) -> Effects:
        """Fail what is still unanswered and let the last writes leave."""
        error = AlreadyClosed("the connection was closed")
        return [
            *self._fail_all(error, error),
            CloseSocket(flush=True),
            self.timers.start(FlushTimedOut, self._settings.flush_timeout),
        ]

    def end_distrusted(self, event: Drop, now: float) -> Effects:
        """End for everybody, as if the network had: those who are left connect again."""
        return self._end(ConnectionLost(f"the connection was dropped: {event.error}"))

    def end_cut_off(self, event: SocketLost, now: float) -> Effects:
        """End because the other side, or the network, did."""
        return self._end(ConnectionLost(event.reason))

    def end_broken(self, event: StreamBroken, now: float) -> Effects:
        """End because the bytes make no sense any more."""
        return self._end(self._lost(f"the broker broke the protocol: {event.error}"))

    def end_unflushed(self, event: FlushTimedOut, now: float) -> Effects:
        """Stop waiting for a peer that does not read."""
        return [CloseSocket(flush=False)]

    def end_out_of_turn(self, event: object, now: float) -> Effects:
        """End because the command belongs to another state."""
        what = type(event).__name__.lower()
        return self._end(self._lost(f"the broker broke the protocol: {what} while {self.state.name}"))

    def refuse(self, event: Ask, now: float) -> Effects:
        """Answer a request that came after the end."""
        return [Reply(event.token, self._over)]

    def turn_away(self, event: Join, now: float) -> Effects:
        """Answer a producer or consumer that came after the end."""
        return [TurnAway(event.member, self._over)]

    def _dial(self) -> Effects:
        host, port = self._settings.hosts[self._next_host]
        self._next_host += 1
        return [self.timers.start(HandshakeTimedOut, self._settings.handshake_timeout), OpenSocket(host, port)]

    def _hosts(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self._settings.hosts)

    def _keepalive(self) -> StartTimer:
        return self.timers.start(KeepaliveDue, self._settings.keepalive_interval)

    def _register(self, event: Ask, now: float) -> tuple[Any, Effects]:
        command = type(event.command)()
        command.CopyFrom(event.command)
        deadline, first_deadline = now + event.timeout, self._requests.next_deadline()
        command.request_id = self._requests.ask(event.token, deadline)
        return command, [] if first_deadline is not None and first_deadline <= deadline else self._watch_requests(now)

    def _expire(self, error: PulsarException, now: float) -> Effects:
        return [*(Reply(token, error) for token in self._requests.expire(now)), *self._watch_requests(now)]

    def _watch_requests(self, now: float) -> Effects:
        deadline = self._requests.next_deadline()
        return [] if deadline is None else [self.timers.start(RequestsDue, max(0.0, deadline - now))]

    def _lost(self, why: str) -> PulsarException:
        """Nothing that was asked has left before the broker has accepted."""
        return ConnectionLost(why) if self.state is READY else ConnectError(why)

    def _end(self, error: PulsarException, answer: PulsarException | None = None) -> Effects:
        if not isinstance(error, AlreadyClosed):
            self._over = ConnectError(f"it was not sent: {error}")
        return [CloseSocket(flush=False), *self._fail_all(error, answer or error)]

    def _fail_all(self, error: PulsarException, answer: PulsarException) -> Effects:
        self._held = []
        joining, self._joining = self._joining, []
        turned_away = [TurnAway(member, error) for member in joining]
        return [*(Reply(token, answer) for token in self._requests.drain()), *turned_away, Lost(error)]
