"""One connection to one broker: from the first packet to the last.

The machine decides when to dial, what to answer in the handshake, whether the peer is still alive, which request an
answer belongs to, and what ends the connection. It leaves sockets to the socket actor, credentials to whoever fetches
them, and the meaning of everything between producers, consumers and the broker to their own machines.

A connection lives once. When it ends, it fails what was asked of it, says `Lost`, and is thrown away; reconnecting
makes a new one. Nothing can therefore be left over from an earlier life: no request id, no owed close, no timer.

How it comes to be accepted is told in `connection_handshake.py`, and what becomes of a request in
`connection_requests.py`, with the actions for it.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    ConnectError,
    ConnectionLost,
    PulsarException,
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
    CredentialsJudged,
    Dial,
    Drop,
    FlushTimedOut,
    HandshakeTimedOut,
    Join,
    KeepaliveDue,
    Leave,
    Lost,
    Pinged,
    Ponged,
    Refused,
    RequestsDue,
    Retire,
    Route,
    Ship,
    SocketLost,
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
from pulsar_actors.machines.connection_handshake import Handshake
from pulsar_actors.machines.connection_settings import ConnectionSettings
from pulsar_actors.machines.ledgers.server_errors import refusal
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.wire.frames import frame_limit
from pulsar_actors.wire.ids import signed
from pulsar_actors.wire.PulsarApi_pb2 import CommandConnected, CommandPing, CommandPong, ServerError

NOBODY: Final = -1
"""The request that an error answers which is about the connection itself."""


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
    Row(Refused,            CONNECTING,       CLOSED,          "is_about_credentials",    "end_unaccepted"),
    Row(Refused,            CONNECTING,       CLOSED,          None,                      "end_refused"),
    Row(CredentialsFetched, CHALLENGED,       CONNECTING,      None,                      "answer_challenge"),
    Row(CredentialsFailed,  CHALLENGED,       CLOSED,          None,                      "end_without_credentials"),
    Row(Refused,            CHALLENGED,       CLOSED,          "is_about_credentials",    "end_unaccepted"),
    Row(Refused,            CHALLENGED,       CLOSED,          None,                      "end_refused"),
    Row(HandshakeTimedOut,  REACHING,         DIALING,         "has_another_host",        "dial_instead"),
    Row(HandshakeTimedOut,  HANDSHAKE,        CLOSED,          None,                      "end_slow_handshake"),

    # Asked before it is ready.
    Row(Ask,                OPENING,          INTERNAL,        None,                      "hold"),
    Row(RequestsDue,        OPENING,          INTERNAL,        None,                      "expire_held"),
    Row(Join,               OPENING,          INTERNAL,        None,                      "have_wait"),
    Row(Leave,              OPENING,          INTERNAL,        None,                      "let_go"),
    Row(Retire,             OPENING,          INTERNAL,        None,                      "say_used"),

    # In use.
    Row(Ask,                READY,            INTERNAL,        "is_beyond_broker",        "refuse_beyond_broker"),
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
    Row(Answered,           READY,            INTERNAL,        None,                      "note_unawaited"),
    Row(Refused,            READY,            INTERNAL,        "is_awaited",              "give_refusal"),
    Row(Refused,            READY,            CLOSED,          "is_meant_for_us",         "end_disowned"),
    Row(Refused,            READY,            INTERNAL,        None,                      "note_unawaited"),
    Row(RequestsDue,        READY,            INTERNAL,        None,                      "expire_requests"),
    Row(Challenged,         READY,            INTERNAL,        "is_fetching",             "note_challenge"),
    Row(Challenged,         READY,            INTERNAL,        None,                      "fetch_for_challenge"),
    Row(CredentialsFetched, READY,            INTERNAL,        "was_challenged_again",    "answer_and_fetch_again"),
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
    Row(Drop,               (*HANDSHAKE, READY), CLOSED,       None,                      "end_distrusted"),
    Row(SocketLost,         READY,            CLOSED,          None,                      "end_cut_off"),
    Row(StreamBroken,       HEARD,            CLOSED,          None,                      "end_broken"),
    Row(SocketLost,         CLOSING,          CLOSED),
    Row(FlushTimedOut,      CLOSING,          CLOSED,          None,                      "end_unflushed"),

    # Out of turn: a broker that speaks before its time cannot be trusted.
    Row(Connected,          (SECURING, AUTHENTICATING, CHALLENGED, READY), CLOSED,   None, "end_out_of_turn"),
    Row(Challenged,         (SECURING, AUTHENTICATING, CHALLENGED),        CLOSED,   None, "end_out_of_turn"),
    Row(Refused,            (SECURING, AUTHENTICATING),                    CLOSED,   None, "end_refused"),
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
    Row(Refused,            SHUT,                                  INTERNAL),
    Row(Answered,           SHUT,                                  INTERNAL),
    Row(Arrived,            SHUT,                                  INTERNAL),
    Row(Pinged,             SHUT,                                  INTERNAL),
    Row(Ponged,             SHUT,                                  INTERNAL),
)
# fmt: on

OURS: Final = (Dial, Ask, Tell, Ship, Join, Leave, Retire, Close, Drop)

CHART: Final = Chart("connection", states=State, initial=IDLE, final=[CLOSED], ours=OURS, rows=ROWS)


class Connection(Handshake, chart=CHART):
    """The guards and actions of the chart, in its order."""

    __slots__ = ("_connected", "_joining", "_members", "_pong_owed")

    def __init__(self, settings: ConnectionSettings) -> None:
        super().__init__(settings)
        self._members: list[object] = []  # producers and consumers that use it
        self._joining: list[object] = []  # those among them that wait until it can be used
        self._connected = CommandConnected()
        self._pong_owed = False

    def abandon(self) -> tuple[list[object], list[object]]:
        """Give the tokens and the members that still wait, when a bug has ended what carries this machine out."""
        joining, self._joining = self._joining, []
        return self._requests.drain(), joining

    # Accepted.

    def begin(self, event: Connected, now: float) -> Effects:
        """Adopt the broker's limit and version, start the keepalive, and send what was asked meanwhile."""
        accepted = CredentialsJudged(accepted=True)
        limit = self._frame_limit = frame_limit(event.command.max_message_size)
        self.timers.stop(HandshakeTimedOut)
        joining, self._joining = self._joining, []
        self._connected = event.command
        self._spoken = event.command.protocol_version
        welcomed = [Welcome(member, event.command) for member in joining]
        return [accepted, AllowFrames(limit), *welcomed, self._keepalive(), *self.send_held()]

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

    def is_meant_for_us(self, event: Refused, now: float) -> bool:
        """Hold when the broker does not take us for who we were any longer; that answers no request."""
        command = event.command
        return signed(command.request_id) == NOBODY and command.error == ServerError.AuthenticationError

    def end_disowned(self, event: Refused, now: float) -> Effects:
        """End with the reason, before the broker does so without one. What was asked may have been done."""
        error = refusal(event.command.error, event.command.message)
        lost = ConnectionLost(f"the credentials were not accepted any longer: {error}")
        return [CredentialsJudged(accepted=False), *self.end(error, lost)]

    def end_with_old_credentials(self, event: CredentialsFailed, now: float) -> Effects:
        """Do not go on as somebody who may be somebody else by now. What was asked had been accepted."""
        error = AuthenticationError("AuthenticationError", event.reason)
        return self.end(error, ConnectionLost(f"the credentials could not be renewed: {event.reason}"))

    def peer_is_silent(self, event: KeepaliveDue, now: float) -> bool:
        """Hold when the last PING got no PONG; other traffic proves nothing about who reads ours."""
        return self._pong_owed

    def end_silent(self, event: KeepaliveDue, now: float) -> Effects:
        """End a connection that looks open and is not."""
        return self.end(ConnectionLost(f"no PONG for {self._settings.keepalive_interval:g} s"))

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
        return self.end(AlreadyClosed("the connection was closed while it was being opened"))

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
        return self.end(self._lost(f"the connection was dropped: {event.error}"))

    def end_cut_off(self, event: SocketLost, now: float) -> Effects:
        """End because the other side, or the network, did."""
        return self.end(ConnectionLost(event.reason))

    def end_broken(self, event: StreamBroken, now: float) -> Effects:
        """End because the bytes make no sense any more."""
        return self.end(self._lost(f"the broker broke the protocol: {event.error}"))

    def end_unflushed(self, event: FlushTimedOut, now: float) -> Effects:
        """Stop waiting for a peer that does not read."""
        return [CloseSocket(flush=False)]

    def end_out_of_turn(self, event: object, now: float) -> Effects:
        """End because the command belongs to another state."""
        what = type(event).__name__.lower()
        return self.end(self._lost(f"the broker broke the protocol: {what} while {self.state.name}"))

    def turn_away(self, event: Join, now: float) -> Effects:
        """Answer a producer or consumer that came after the end."""
        return [TurnAway(event.member, self._over)]

    def _keepalive(self) -> StartTimer:
        return self.timers.start(KeepaliveDue, self._settings.keepalive_interval)

    def _lost(self, why: str) -> PulsarException:
        """Nothing that was asked has left before the broker has accepted."""
        return ConnectionLost(why) if self.state is READY else ConnectError(why)

    def end(self, error: PulsarException, answer: PulsarException | None = None) -> Effects:
        """End, with another answer for what was asked if one is given."""
        if not isinstance(error, AlreadyClosed):
            self._over = ConnectError(f"it was not sent: {error}")
        return [CloseSocket(flush=False), *self._fail_all(error, answer or error)]

    def _fail_all(self, error: PulsarException, answer: PulsarException) -> Effects:
        joining, self._joining = self._joining, []
        turned_away = [TurnAway(member, error) for member in joining]
        return [*self.fail_requests(answer), *turned_away, Lost(error)]
