"""The state machine of one connection to a broker, from the first packet to the last.

The chart here decides when to dial, what to send in the handshake, and what ends the connection. The socket actor
handles bytes, the blocking executor fetches credentials, and the machines of producers and consumers handle their own
commands. Four parts have charts of their own: `connection_requests.py`, `registered_handlers.py`,
`connection_keepalive.py`, and `connection_credentials.py` for fresh credentials later on. An event of a part goes to
the part first. The chart here tells the parts when the broker has accepted the client, and when the connection has
ended.

The hosts of the service URL are dialled one after the other. With the one that answers, TLS is negotiated for its name;
then the credentials are fetched, and CONNECT carries them. A broker may challenge the client before it accepts or at
any time after, and gets new credentials. Each host has the handshake timeout for all of this.

A connection is used once. When it ends, it fails its pending requests, returns `NotifyConnectionLost`, and is
discarded; a reconnect creates a new one. So no request id and no timer of an earlier connection can be left over.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    CertificateRefused,
    ConnectError,
    ConnectionLost,
    ConnectTimeout,
    ErrorGettingAuthenticationData,
    InternalError,
    PulsarException,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_credentials import ConnectionCredentials, auth_response, connect_command
from pulsar_actors.machines.connection_events import (
    AbortConnection,
    AllowFrames,
    Answered,
    Arrived,
    BrokerAccepted,
    Challenged,
    CloseGracefully,
    CloseIfUnused,
    CloseSocket,
    Connected,
    ConnectionOver,
    ConnectionSettings,
    CredentialsFailed,
    CredentialsFetched,
    CredentialsJudged,
    Dial,
    FetchCredentials,
    FlushTimedOut,
    GiveReply,
    HandlerRejected,
    HandshakeTimedOut,
    KeepaliveDue,
    NotifyConnectionLost,
    OpenSocket,
    Pinged,
    Refused,
    RouteFrames,
    SendCommand,
    SocketLost,
    StartTls,
    StillUsed,
    StreamBroken,
    TcpOpened,
    TlsAgreed,
    WriteCommand,
    WriteFrames,
)
from pulsar_actors.machines.connection_keepalive import SILENT, ConnectionKeepalive
from pulsar_actors.machines.connection_requests import ConnectionRequests, revokes_credentials
from pulsar_actors.machines.registered_handlers import WAITING as HANDLERS_WAIT
from pulsar_actors.machines.registered_handlers import RegisteredHandlers
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.server_errors import refusal
from pulsar_actors.wire.frames import frame_limit
from pulsar_actors.wire.PulsarApi_pb2 import CommandPong, ServerError


@unique
class State(Enum):
    """The states of a connection."""

    IDLE = "Created, but not opened yet."
    DIALING = "TCP is being opened, to one host of the service URL after the other."
    SECURING = "TCP is open and TLS is being negotiated."
    AUTHENTICATING = "TCP is open, and TLS agreed if it is used; the credentials for CONNECT are being fetched."
    CONNECTING = "CONNECT is sent; the broker has to accept, refuse, or send a challenge."
    CHALLENGED = "The broker sent a challenge before it accepted; new credentials are being fetched."
    READY = "The broker has accepted the client: requests, messages and pings are sent."
    CLOSING = "Closed by the client; queued bytes are still being written."
    CLOSED = "Ended; every request has been answered."


IDLE, DIALING, SECURING, AUTHENTICATING, CONNECTING, CHALLENGED, READY, CLOSING, CLOSED = State

HANDSHAKE: Final = (DIALING, SECURING, AUTHENTICATING, CONNECTING, CHALLENGED)
BEFORE_READY: Final = (IDLE, *HANDSHAKE)
REACHING: Final = (DIALING, SECURING, CONNECTING)  # if the host fails now, the next one is tried
LOGGING_IN: Final = (AUTHENTICATING, CONNECTING, CHALLENGED)
FETCHING_AUTH: Final = (AUTHENTICATING, CHALLENGED)
INTRODUCED: Final = (CONNECTING, CHALLENGED)  # CONNECT is sent
TALKING: Final = (*LOGGING_IN, READY)
NO_STREAM: Final = (IDLE, DIALING, SECURING, CLOSING, CLOSED)  # a command is too late, or cannot come yet
ENDING: Final = (CLOSING, CLOSED)


# fmt: off
ROWS: Final = (
    #   trigger             source          dest            guard                      does
    Row(Dial,               IDLE,           DIALING,        None,                      "dial_first"),
    Row(TcpOpened,          DIALING,        SECURING,       "uses_tls",                "start_tls"),
    Row(TcpOpened,          DIALING,        AUTHENTICATING, None,                      "fetch_credentials"),
    Row(TlsAgreed,          SECURING,       AUTHENTICATING, None,                      "fetch_credentials"),
    Row(SocketLost,         REACHING,       DIALING,        "has_another_host",        "dial_next"),
    Row(SocketLost,         SECURING,       CLOSED,         "no_host_is_trusted",      "end_untrusted"),
    Row(SocketLost,         HANDSHAKE,      CLOSED,         None,                      "end_unreachable"),
    Row(CredentialsFetched, AUTHENTICATING, CONNECTING,     None,                      "send_connect"),
    Row(CredentialsFailed,  FETCHING_AUTH,  CLOSED,         None,                      "end_credentials_failed"),
    Row(Connected,          CONNECTING,     READY,          None,                      "become_ready"),
    Row(Challenged,         CONNECTING,     CHALLENGED,     None,                      "fetch_for_challenge"),
    Row(Refused,            INTRODUCED,     CLOSED,         "concerns_credentials",    "end_credentials_refused"),
    Row(Refused,            LOGGING_IN,     CLOSED,         None,                      "end_refused"),
    Row(CredentialsFetched, CHALLENGED,     CONNECTING,     None,                      "answer_challenge"),
    Row(HandshakeTimedOut,  REACHING,       DIALING,        "has_another_host",        "dial_next_after_timeout"),
    Row(HandshakeTimedOut,  REACHING,       CLOSED,         "no_host_answers",         "end_unanswered"),
    Row(HandshakeTimedOut,  HANDSHAKE,      CLOSED,         None,                      "end_handshake_timed_out"),

    # In use.
    Row(Arrived,            READY,          INTERNAL,       None,                      "pass_commands_on"),
    Row(WriteFrames,        READY,          INTERNAL,       None,                      "pass_frames_on"),
    Row(SendCommand,        READY,          INTERNAL,       None,                      "write_command"),
    Row(Pinged,             TALKING,        INTERNAL,       None,                      "answer_ping"),
    Row(CloseIfUnused,      READY,          CLOSING,        "is_unused",               "start_closing"),
    Row(CloseIfUnused,      (*HANDSHAKE, READY), INTERNAL,  None,                      "report_still_used"),

    # The end.
    Row(CloseGracefully,    HANDSHAKE,      CLOSED,         None,                      "end_handshake"),
    Row(CloseGracefully,    READY,          CLOSING,        None,                      "start_closing"),
    Row(AbortConnection,    (*HANDSHAKE, READY), CLOSED,    None,                      "end_aborted"),
    Row(SocketLost,         READY,          CLOSED,         None,                      "end_lost"),
    Row(StreamBroken,       TALKING,        CLOSED,         None,                      "end_broken"),
    Row(KeepaliveDue,       READY,          CLOSED,         "peer_is_silent",          "end_silent"),
    Row(Refused,            READY,          CLOSED,         "rejects_our_credentials", "end_credentials_revoked"),
    Row(CredentialsFailed,  READY,          CLOSED,         None,                      "end_credentials_not_renewed"),
    Row(SocketLost,         CLOSING,        CLOSED),
    Row(FlushTimedOut,      CLOSING,        CLOSED,         None,                      "end_unflushed"),

    # Out of turn: a broker that sends commands in the wrong order cannot be trusted.
    Row(Connected,          (*FETCHING_AUTH, READY), CLOSED, None,                     "end_out_of_turn"),
    Row(Challenged,         FETCHING_AUTH,  CLOSED,         None,                      "end_out_of_turn"),
    Row(Answered,           LOGGING_IN,     CLOSED,         None,                      "end_out_of_turn"),
    Row(Arrived,            LOGGING_IN,     CLOSED,         None,                      "end_out_of_turn"),
)

# Events that are too late, too early, or only for a part.
IGNORES: Final = (
    #      events                                             states
    Ignore((Connected, Arrived, Pinged, StreamBroken),        NO_STREAM),
    Ignore((Challenged, Refused, Answered),                   (*NO_STREAM, READY)),
    Ignore(KeepaliveDue,                                      (*BEFORE_READY, *ENDING)),
    Ignore(KeepaliveDue,                                      READY),  # not silent: the part has sent PING
    Ignore((CloseIfUnused, CloseGracefully, AbortConnection), ENDING),
    Ignore((SendCommand, WriteFrames),                        (*BEFORE_READY, *ENDING)),
    Ignore(TcpOpened,                                         (IDLE, SECURING, *TALKING, *ENDING)),
    Ignore(TlsAgreed,                                         (IDLE, DIALING, *TALKING, *ENDING)),
    Ignore(SocketLost,                                        (IDLE, CLOSED)),
    Ignore(CredentialsFetched,                                (CONNECTING, READY, *NO_STREAM)),
    Ignore(CredentialsFailed,                                 (CONNECTING, *NO_STREAM)),
    Ignore(HandshakeTimedOut,                                 (IDLE, READY, *ENDING)),
    Ignore(FlushTimedOut,                                     (*BEFORE_READY, READY, CLOSED)),
)
# fmt: on

OURS: Final = (Dial, SendCommand, WriteFrames, CloseIfUnused, CloseGracefully, AbortConnection)

CHART: Final = Chart("connection", states=State, initial=IDLE, final=[CLOSED], ours=OURS, rows=ROWS, ignores=IGNORES)

# Events that are neither in a row nor ignored are for one of these.
PARTS: Final = {
    "requests": ConnectionRequests,
    "handlers": RegisteredHandlers,
    "keepalive": ConnectionKeepalive,
    "credentials": ConnectionCredentials,
}


class ConnectionMachine(StateMachine, chart=CHART, parts=PARTS):
    """The guards and actions of the connection's own chart, in its order."""

    __slots__ = (
        "_all_silent",
        "_all_untrusted",
        "_next_host",
        "_settings",
        "credentials",
        "handlers",
        "keepalive",
        "requests",
    )

    def __init__(self, settings: ConnectionSettings) -> None:
        super().__init__()
        self._settings = settings
        self._next_host = 0
        self._all_untrusted = not settings.others_have_answered  # the hosts that were dialled so far
        self._all_silent = not settings.others_have_answered  # the same hosts
        self.requests = ConnectionRequests(self)
        self.handlers = RegisteredHandlers(self)
        self.keepalive = ConnectionKeepalive(self, settings.keepalive_interval)
        self.credentials = ConnectionCredentials(self, settings)

    def abandon(self, bug: InternalError) -> Effects:
        """Return the effects that end everything after a bug has stopped the actor of this machine.

        Producers and consumers that use the connection connect again. Those that wait for it, or for an answer, get the
        bug.
        """
        lost = ConnectionLost(str(bug))
        error = bug if self.handlers.state is HANDLERS_WAIT else lost
        return [
            *(GiveReply(token, bug) for token in self.requests.drain()),
            *(HandlerRejected(handler, error) for handler in self.handlers.drain()),
            NotifyConnectionLost(lost),
        ]

    # The handshake.

    def dial_first(self, event: Dial, now: float) -> Effects:
        """Dial the first host of the service URL."""
        return self._dial()

    def uses_tls(self, event: TcpOpened, now: float) -> bool:
        """Return whether the service URL is pulsar+ssl."""
        return self._settings.tls

    def start_tls(self, event: TcpOpened, now: float) -> Effects:
        """Agree on TLS with the host that was dialled, whose name the certificate must carry."""
        return [StartTls(self._settings.hosts[self._next_host - 1][0])]

    def fetch_credentials(self, event: TcpOpened | TlsAgreed, now: float) -> Effects:
        """Ask for the credentials that CONNECT carries."""
        return [FetchCredentials(None)]

    def has_another_host(self, event: SocketLost | HandshakeTimedOut, now: float) -> bool:
        """Return whether a host of the service URL has not been tried."""
        return self._next_host < len(self._settings.hosts)

    def dial_next(self, event: SocketLost, now: float) -> Effects:
        """Dial the host after the one that failed."""
        self._all_untrusted = self._all_untrusted and event.is_distrusted
        self._all_silent = False
        return self._dial()

    def no_host_is_trusted(self, event: SocketLost, now: float) -> bool:
        """Return whether every host showed a bad certificate. A host that was down may show a good one later."""
        return self._all_untrusted and event.is_distrusted

    def end_untrusted(self, event: SocketLost, now: float) -> Effects:
        """End with the hosts that were tried. Another attempt would not help."""
        return self._end(CertificateRefused(f"no connection to {self._hosts()}: {event.reason}"), now)

    def end_unreachable(self, event: SocketLost, now: float) -> Effects:
        """End with the hosts that were tried and the last reason."""
        return self._end(ConnectError(f"no connection to {self._hosts()}: {event.reason}"), now)

    def send_connect(self, event: CredentialsFetched, now: float) -> Effects:
        """Send CONNECT."""
        return [WriteCommand(connect_command(self._settings, event))]

    def end_credentials_failed(self, event: CredentialsFailed, now: float) -> Effects:
        """End, because CONNECT needs credentials."""
        return self._end(ErrorGettingAuthenticationData("AuthenticationError", event.reason), now)

    def become_ready(self, event: Connected, now: float) -> Effects:
        """Adopt the broker's frame limit, and let handlers and requests use the connection, also those that wait."""
        self.timers.stop(HandshakeTimedOut)
        accepted = BrokerAccepted(event.command)
        return [
            CredentialsJudged(accepted=True),
            AllowFrames(frame_limit(event.command.max_message_size)),
            *self.handlers.handle(accepted, now),
            *self.keepalive.handle(accepted, now),
            *self.credentials.handle(accepted, now),
            *self.requests.handle(accepted, now),
        ]

    def fetch_for_challenge(self, event: Challenged, now: float) -> Effects:
        """Ask for fresh credentials."""
        return [FetchCredentials(event.command.challenge.auth_data)]

    def concerns_credentials(self, event: Refused, now: float) -> bool:
        """Return whether the broker refuses the credentials, and not all clients for the moment."""
        return event.command.error == ServerError.AuthenticationError

    def end_credentials_refused(self, event: Refused, now: float) -> Effects:
        """End with the broker's error, and report the credentials, so that cached ones are not shown again."""
        return [CredentialsJudged(accepted=False), *self.end_refused(event, now)]

    def end_refused(self, event: Refused, now: float) -> Effects:
        """End with the broker's error. Another host would not help."""
        return self._end(refusal(event.command.error, event.command.message), now)

    def answer_challenge(self, event: CredentialsFetched, now: float) -> Effects:
        """Send AUTH_RESPONSE."""
        return [WriteCommand(auth_response(self._settings, event))]

    def dial_next_after_timeout(self, event: HandshakeTimedOut, now: float) -> Effects:
        """Leave a host that does not answer, and dial the one after it."""
        self._all_untrusted = False
        return [CloseSocket(flush=False), *self._dial()]

    def no_host_answers(self, event: HandshakeTimedOut, now: float) -> bool:
        """Return whether every host has let the time pass, and none is left. One that has refused may be starting.

        Hosts that have answered before are in trouble, or are starting. With others the service URL may be wrong.
        """
        return self._all_silent and not self._settings.silence_may_end

    def end_unanswered(self, event: HandshakeTimedOut, now: float) -> Effects:
        """End with the hosts that were tried. Another attempt would take as long."""
        seconds, step = self._settings.handshake_timeout, self.state.name
        why = f"no connection to {self._hosts()} within {seconds:g} s: still {step}"
        return self._end(ConnectTimeout(why), now)

    def end_handshake_timed_out(self, event: HandshakeTimedOut, now: float) -> Effects:
        """End with the step of the handshake that was not finished."""
        seconds, step = self._settings.handshake_timeout, self.state.name
        return self._end(ConnectError(f"no connection within {seconds:g} s: still {step}"), now)

    # In use.

    def pass_commands_on(self, event: Arrived, now: float) -> Effects:
        """Pass the commands to the producers and consumers that they name."""
        return [RouteFrames(event.frames)]

    def pass_frames_on(self, event: WriteFrames, now: float) -> Effects:
        """Send the batches of a producer."""
        return [event]

    def write_command(self, event: SendCommand, now: float) -> Effects:
        """Send a command that has no answer."""
        return [WriteCommand(event.command)]

    def answer_ping(self, event: Pinged, now: float) -> Effects:
        """Send PONG."""
        return [WriteCommand(CommandPong())]

    def is_unused(self, event: CloseIfUnused, now: float) -> bool:
        """Return whether there is no producer, no consumer, and no unanswered request."""
        return not self.handlers.by_id and not self.requests.has_pending

    def start_closing(self, event: CloseGracefully | CloseIfUnused, now: float) -> Effects:
        """Fail unanswered requests, and wait until all is written."""
        return [
            *self._tell_end(AlreadyClosed("the connection was closed"), now),
            CloseSocket(flush=True),
            self.timers.start(FlushTimedOut, self._settings.flush_timeout),
        ]

    def report_still_used(self, event: CloseIfUnused, now: float) -> Effects:
        """Stay open, and report it."""
        return [StillUsed()]

    # The end.

    def end_handshake(self, event: CloseGracefully, now: float) -> Effects:
        """End in the middle of the handshake."""
        return self._end(AlreadyClosed("the connection was closed while it was being opened"), now)

    def end_aborted(self, event: AbortConnection, now: float) -> Effects:
        """End as if the network had failed: producers and consumers that remain connect again."""
        return self._end(self._lost(f"the connection was dropped: {event.error}"), now)

    def end_lost(self, event: SocketLost, now: float) -> Effects:
        """End because the peer or the network has closed the socket."""
        return self._end(ConnectionLost(event.reason), now)

    def end_broken(self, event: StreamBroken, now: float) -> Effects:
        """End, because the peer's bytes break the protocol."""
        return self._end(self._lost(f"the broker broke the protocol: {event.error}"), now)

    def peer_is_silent(self, event: KeepaliveDue, now: float) -> bool:
        """Return whether the peer was not active since the last PING."""
        return self.keepalive.state is SILENT

    def end_silent(self, event: KeepaliveDue, now: float) -> Effects:
        """End a connection whose peer does not answer."""
        return self._end(ConnectionLost(f"the peer was silent for {self._settings.keepalive_interval:g} s"), now)

    def rejects_our_credentials(self, event: Refused, now: float) -> bool:
        """Return whether the broker no longer accepts the client's credentials; such an error answers no request."""
        return revokes_credentials(event.command)

    def end_credentials_revoked(self, event: Refused, now: float) -> Effects:
        """End with the reason, before the broker ends the connection without one.

        Pending requests may have been done.
        """
        error = refusal(event.command.error, event.command.message)
        lost = ConnectionLost(f"the credentials were not accepted any longer: {error}")
        return [CredentialsJudged(accepted=False), *self._end(error, now, lost)]

    def end_credentials_not_renewed(self, event: CredentialsFailed, now: float) -> Effects:
        """End, because the credentials may have expired. Pending requests were sent with accepted ones."""
        error = AuthenticationError("AuthenticationError", event.reason)
        return self._end(error, now, ConnectionLost(f"the credentials could not be renewed: {event.reason}"))

    def end_unflushed(self, event: FlushTimedOut, now: float) -> Effects:
        """Stop waiting for a peer that does not read."""
        return [CloseSocket(flush=False)]

    def end_out_of_turn(self, event: object, now: float) -> Effects:
        """End because the command belongs to another state."""
        what = type(event).__name__.lower()
        return self._end(self._lost(f"the broker broke the protocol: {what} while {self.state.name}"), now)

    def _dial(self) -> Effects:
        host, port = self._settings.hosts[self._next_host]
        self._next_host += 1
        return [
            self.timers.start(HandshakeTimedOut, self._settings.handshake_timeout),
            OpenSocket(host, port, self._settings.tcp_no_delay, self._settings.tls),
        ]

    def _hosts(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self._settings.hosts)

    def _lost(self, why: str) -> PulsarException:
        """Return the error for a connection that ends: no request was sent before the broker accepted."""
        return ConnectionLost(why) if self.state is READY else ConnectError(why)

    def _end(self, error: PulsarException, now: float, answer: PulsarException | None = None) -> Effects:
        """End at once. Pending requests get `answer`, if it is given, and the error otherwise."""
        return [CloseSocket(flush=False), *self._tell_end(error, now, answer)]

    def _tell_end(self, error: PulsarException, now: float, answer: PulsarException | None = None) -> Effects:
        later: PulsarException = AlreadyClosed("the connection is closed")
        if not isinstance(error, AlreadyClosed):
            later = ConnectError(f"it was not sent: {error}")
        over = ConnectionOver(error, answer or error, later)
        parts = (self.requests, self.handlers, self.keepalive, self.credentials)
        return [*(effect for part in parts for effect in part.handle(over, now)), NotifyConnectionLost(error)]
