"""One connection to one broker, from the first packet to the last.

The machine decides when to dial, what to answer in the handshake, whether the peer is still alive, which request an
answer belongs to, and what ends the connection. The socket actor handles bytes, the blocking executor fetches
credentials, and the machines of producers and consumers interpret the commands that are meant for them.

The hosts of the service URL are dialled one after the other. TLS is agreed with the one that answers, for its name;
then the credentials are fetched, and CONNECT carries them. A broker may challenge the client before it accepts or at
any time after, and gets fresh credentials. Each host has the handshake timeout for all of this.

A request gets exactly one reply: the answer, the broker's error, a timeout, or the loss of the connection. Only a
producer that has to queue for its topic gets two: first that it is queued, then the outcome.

A connection is used once. When it ends, it fails what was asked of it, gives `NotifyConnectionLost`, and is thrown
away; reconnecting makes a new one. So nothing can be left over from an earlier connection: no request id, no timer.
"""

from enum import Enum, unique
from typing import Any, Final

from google.protobuf.message import Message

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
from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Ignore, Row
from pulsar_actors.machines.connection_events import (
    AbortConnection,
    AllowFrames,
    Answered,
    Arrived,
    Challenged,
    CloseGracefully,
    CloseIfUnused,
    CloseSocket,
    Connected,
    ConnectionSettings,
    CredentialsFailed,
    CredentialsFetched,
    CredentialsJudged,
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
    Pinged,
    Ponged,
    Refused,
    RegisterHandler,
    RemoveHandler,
    RequestsDue,
    RouteFrames,
    SendCommand,
    SendRequest,
    SocketLost,
    StartTls,
    StillUsed,
    StreamBroken,
    TcpOpened,
    TlsAgreed,
    Unawaited,
    WriteCommand,
    WriteFrames,
)
from pulsar_actors.machines.pending_requests import NO_REQUEST, PendingRequests, objection_to
from pulsar_actors.machines.state_machine import StartTimer, StateMachine
from pulsar_actors.machines.trackers.server_errors import refusal
from pulsar_actors.wire.frames import DEFAULT_FRAME_LIMIT, frame_limit
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    CommandPing,
    CommandPong,
    CommandProducerSuccess,
    FeatureFlags,
    ServerError,
)

PROTOCOL_VERSION: Final = 21


@unique
class State(Enum):
    """The states of a connection."""

    IDLE = "Created, but not asked to connect yet."
    DIALING = "TCP is being opened, to one host of the service URL after the other."
    SECURING = "TCP is open and TLS is being agreed."
    AUTHENTICATING = "TCP is open, and TLS agreed if it is used; the credentials for CONNECT are being fetched."
    CONNECTING = "CONNECT is sent; the broker has to accept, refuse, or send a challenge."
    CHALLENGED = "The broker sent a challenge before it accepted; fresh credentials are being fetched."
    READY = "The broker has accepted the client: requests, messages and keepalive flow."
    CLOSING = "Closed by the client; what was written before is still leaving."
    CLOSED = "Ended, and everything asked of it has been answered."


IDLE, DIALING, SECURING, AUTHENTICATING, CONNECTING, CHALLENGED, READY, CLOSING, CLOSED = State

HANDSHAKE: Final = (DIALING, SECURING, AUTHENTICATING, CONNECTING, CHALLENGED)
OPENING: Final = (IDLE, *HANDSHAKE)
REACHING: Final = (DIALING, SECURING, CONNECTING)  # a host that fails now is left for the next one
LOGGING_IN: Final = (AUTHENTICATING, CONNECTING, CHALLENGED)
UNACCEPTED: Final = (SECURING, *LOGGING_IN)  # bytes may come, but the broker has not accepted the client
TALKING: Final = (*LOGGING_IN, READY)
NO_STREAM: Final = (IDLE, DIALING, CLOSING, CLOSED)  # a command that comes now was on its way too long
ENDED: Final = (CLOSING, CLOSED)


# fmt: off
ROWS: Final = (
    #   trigger             source          dest            guard                   does
    Row(Dial,               IDLE,           DIALING,        None,                   "dial_first"),
    Row(TcpOpened,          DIALING,        SECURING,       "uses_tls",             "start_tls"),
    Row(TcpOpened,          DIALING,        AUTHENTICATING, None,                   "fetch_credentials"),
    Row(TlsAgreed,          SECURING,       AUTHENTICATING, None,                   "fetch_credentials"),
    Row(SocketLost,         REACHING,       DIALING,        "has_another_host",     "dial_next"),
    Row(SocketLost,         SECURING,       CLOSED,         "no_host_is_trusted",   "end_untrusted"),
    Row(SocketLost,         HANDSHAKE,      CLOSED,         None,                   "end_unreachable"),
    Row(CredentialsFetched, AUTHENTICATING, CONNECTING,     None,                   "send_connect"),
    Row(CredentialsFailed,  AUTHENTICATING, CLOSED,         None,                   "end_credentials_failed"),
    Row(Connected,          CONNECTING,     READY,          None,                   "become_ready"),
    Row(Challenged,         CONNECTING,     CHALLENGED,     None,                   "fetch_for_challenge"),
    Row(Refused,            CONNECTING,     CLOSED,         "concerns_credentials", "end_credentials_refused"),
    Row(Refused,            CONNECTING,     CLOSED,         None,                   "end_refused"),
    Row(CredentialsFetched, CHALLENGED,     CONNECTING,     None,                   "answer_challenge"),
    Row(CredentialsFailed,  CHALLENGED,     CLOSED,         None,                   "end_credentials_failed"),
    Row(Refused,            CHALLENGED,     CLOSED,         "concerns_credentials", "end_credentials_refused"),
    Row(Refused,            CHALLENGED,     CLOSED,         None,                   "end_refused"),
    Row(HandshakeTimedOut,  REACHING,       DIALING,        "has_another_host",     "dial_next_after_timeout"),
    Row(HandshakeTimedOut,  HANDSHAKE,      CLOSED,         None,                   "end_handshake_timed_out"),

    # Asked before it is ready.
    Row(SendRequest,     OPENING, INTERNAL, None, "hold_request"),
    Row(RequestsDue,     OPENING, INTERNAL, None, "expire_held_requests"),
    Row(RegisterHandler, OPENING, INTERNAL, None, "hold_handler"),
    Row(RemoveHandler,   OPENING, INTERNAL, None, "forget_handler"),
    Row(CloseIfUnused,   OPENING, INTERNAL, None, "report_still_used"),

    # In use.
    Row(SendRequest,        READY, INTERNAL, "is_unsupported",          "reject_unsupported"),
    Row(SendRequest,        READY, INTERNAL, None,                      "write_request"),
    Row(SendCommand,        READY, INTERNAL, None,                      "write_command"),
    Row(WriteFrames,        READY, INTERNAL, None,                      "pass_frames_on"),
    Row(RegisterHandler,    READY, INTERNAL, None,                      "accept_handler"),
    Row(RemoveHandler,      READY, INTERNAL, None,                      "forget_handler"),
    Row(CloseIfUnused,      READY, CLOSING,  "is_unused",               "start_closing"),
    Row(CloseIfUnused,      READY, INTERNAL, None,                      "report_still_used"),
    Row(Arrived,            READY, INTERNAL, None,                      "pass_commands_on"),
    Row(Answered,           READY, INTERNAL, "is_queued",               "give_queued_answer"),
    Row(Answered,           READY, INTERNAL, "is_awaited",              "give_answer"),
    Row(Answered,           READY, INTERNAL, None,                      "report_unawaited"),
    Row(Refused,            READY, INTERNAL, "is_awaited",              "give_refusal"),
    Row(Refused,            READY, CLOSED,   "rejects_our_credentials", "end_credentials_revoked"),
    Row(Refused,            READY, INTERNAL, None,                      "report_unawaited"),
    Row(RequestsDue,        READY, INTERNAL, None,                      "expire_requests"),
    Row(Challenged,         READY, INTERNAL, "is_fetching",             "note_challenge"),
    Row(Challenged,         READY, INTERNAL, None,                      "fetch_for_challenge"),
    Row(CredentialsFetched, READY, INTERNAL, "was_challenged_again",    "answer_and_fetch_again"),
    Row(CredentialsFetched, READY, INTERNAL, None,                      "answer_challenge"),
    Row(CredentialsFailed,  READY, CLOSED,   None,                      "end_credentials_not_renewed"),
    Row(KeepaliveDue,       READY, CLOSED,   "peer_is_silent",          "end_silent"),
    Row(KeepaliveDue,       READY, INTERNAL, None,                      "send_ping"),
    Row(Pinged,             READY, INTERNAL, None,                      "answer_ping"),
    Row(Ponged,             READY, INTERNAL, None,                      "note_pong"),

    # The end.
    Row(CloseGracefully, IDLE,                 CLOSED,  None, "end_unopened"),
    Row(CloseGracefully, HANDSHAKE,            CLOSED,  None, "end_handshake"),
    Row(CloseGracefully, READY,                CLOSING, None, "start_closing"),
    Row(AbortConnection, (*HANDSHAKE, READY),  CLOSED,  None, "end_aborted"),
    Row(SocketLost,      READY,                CLOSED,  None, "end_lost"),
    Row(StreamBroken,    (*UNACCEPTED, READY), CLOSED,  None, "end_broken"),
    Row(SocketLost,      CLOSING,              CLOSED),
    Row(FlushTimedOut,   CLOSING,              CLOSED,  None, "end_unflushed"),

    # Out of turn: a broker that speaks before its time cannot be trusted.
    Row(Connected,  (SECURING, AUTHENTICATING, CHALLENGED, READY), CLOSED,   None, "end_out_of_turn"),
    Row(Challenged, (SECURING, AUTHENTICATING, CHALLENGED),        CLOSED,   None, "end_out_of_turn"),
    Row(Refused,    (SECURING, AUTHENTICATING),                    CLOSED,   None, "end_refused"),
    Row(Answered,   UNACCEPTED,                                    CLOSED,   None, "end_out_of_turn"),
    Row(Arrived,    UNACCEPTED,                                    CLOSED,   None, "end_out_of_turn"),
    Row(Pinged,     SECURING,                                      CLOSED,   None, "end_out_of_turn"),
    Row(Ponged,     SECURING,                                      CLOSED,   None, "end_out_of_turn"),
    Row(Pinged,     LOGGING_IN,                                    INTERNAL, None, "answer_ping"),

    # After the end.
    Row(SendRequest,     ENDED, INTERNAL, None, "reject_request"),
    Row(RegisterHandler, ENDED, INTERNAL, None, "reject_handler"),
)

# Too late, or too early to mean anything.
IGNORES: Final = (
    #      events                                                            states
    Ignore((Connected, Challenged, Refused, Answered, Arrived),              NO_STREAM),
    Ignore((Pinged, Ponged, StreamBroken),                                   NO_STREAM),
    Ignore(Ponged,                                                           LOGGING_IN),
    Ignore((RemoveHandler, CloseIfUnused, CloseGracefully, AbortConnection), ENDED),
    Ignore((SendCommand, WriteFrames, KeepaliveDue),                  (*OPENING, *ENDED)),
    Ignore(TcpOpened,                                                        (IDLE, SECURING, *TALKING, *ENDED)),
    Ignore(TlsAgreed,                                                        (*TALKING, *NO_STREAM)),
    Ignore(SocketLost,                                                       (IDLE, CLOSED)),
    Ignore((CredentialsFetched, CredentialsFailed),                          (SECURING, CONNECTING, *NO_STREAM)),
    Ignore(HandshakeTimedOut,                                                (IDLE, READY, *ENDED)),
    Ignore(RequestsDue,                                                      ENDED),
    Ignore(FlushTimedOut,                                                    (*OPENING, READY, CLOSED)),
)
# fmt: on

OURS: Final = (
    Dial,
    SendRequest,
    SendCommand,
    WriteFrames,
    RegisterHandler,
    RemoveHandler,
    CloseIfUnused,
    CloseGracefully,
    AbortConnection,
)

CHART: Final = Chart("connection", states=State, initial=IDLE, final=[CLOSED], ours=OURS, rows=ROWS, ignores=IGNORES)


class ConnectionMachine(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order."""

    __slots__ = (
        "_all_untrusted", "_connected", "_ended_with", "_frame_limit", "_handlers", "_held_handlers", "_held_requests",
        "_is_fetching", "_next_challenge", "_next_host", "_requests", "_settings", "_unanswered_ping",
    )  # fmt: skip

    def __init__(self, settings: ConnectionSettings) -> None:
        super().__init__()
        self._settings = settings
        self._next_host = 0
        self._all_untrusted = True  # the hosts that were dialled so far
        self._is_fetching = False  # credentials for a challenge
        self._next_challenge: bytes | None = None  # the last one that came meanwhile
        self._connected = CommandConnected()
        self._frame_limit = DEFAULT_FRAME_LIMIT
        self._unanswered_ping = False
        self._requests: PendingRequests[object] = PendingRequests()
        self._held_requests: list[Any] = []  # commands with their request ids, until the broker accepts us
        self._handlers: list[object] = []  # producers and consumers that use the connection
        self._held_handlers: list[object] = []  # those of them that wait until the broker accepts us
        self._ended_with: PulsarException = AlreadyClosed("the connection is closed")

    def abandon(self) -> tuple[list[object], list[object]]:
        """Return the tokens and the handlers that still wait, after a bug has stopped the actor of this machine."""
        waiting, self._held_handlers = self._held_handlers, []
        return self._requests.drain(), waiting

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
        return self._dial()

    def no_host_is_trusted(self, event: SocketLost, now: float) -> bool:
        """Return whether every host showed a bad certificate; one that was down may yet show a good one."""
        return self._all_untrusted and event.is_distrusted

    def end_untrusted(self, event: SocketLost, now: float) -> Effects:
        """End with the hosts that were tried: dialling again would not help."""
        return self._end(CertificateRefused(f"no connection to {self._hosts()}: {event.reason}"))

    def end_unreachable(self, event: SocketLost, now: float) -> Effects:
        """End with the hosts that were tried and the last reason."""
        return self._end(ConnectError(f"no connection to {self._hosts()}: {event.reason}"))

    def send_connect(self, event: CredentialsFetched, now: float) -> Effects:
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
                supports_topic_watchers=True,
            ),
        )
        if self._settings.proxy_to_broker_url is not None:
            connect.proxy_to_broker_url = self._settings.proxy_to_broker_url
        return [WriteCommand(connect)]

    def end_credentials_failed(self, event: CredentialsFailed, now: float) -> Effects:
        """End rather than connect without credentials."""
        return self._end(ErrorGettingAuthenticationData("AuthenticationError", event.reason))

    def become_ready(self, event: Connected, now: float) -> Effects:
        """Adopt the broker's frame limit and version, start the keepalive, and send the requests that were held."""
        self._connected = event.command
        self._frame_limit = frame_limit(event.command.max_message_size)
        self.timers.stop(HandshakeTimedOut)
        waiting, self._held_handlers = self._held_handlers, []
        return [
            CredentialsJudged(accepted=True),
            AllowFrames(self._frame_limit),
            *(HandlerAccepted(handler, event.command) for handler in waiting),
            self._start_keepalive(),
            *self._send_held_requests(),
        ]

    def fetch_for_challenge(self, event: Challenged, now: float) -> Effects:
        """Ask for fresh credentials."""
        self._is_fetching = True
        return [FetchCredentials(event.command.challenge.auth_data)]

    def concerns_credentials(self, event: Refused, now: float) -> bool:
        """Return whether the broker refuses the credentials, and not just for the moment to serve anybody."""
        return event.command.error == ServerError.AuthenticationError

    def end_credentials_refused(self, event: Refused, now: float) -> Effects:
        """End with the broker's error, and report the credentials, so that cached ones are not shown again."""
        return [CredentialsJudged(accepted=False), *self.end_refused(event, now)]

    def end_refused(self, event: Refused, now: float) -> Effects:
        """End with the broker's error: dialling another host would not help."""
        return self._end(refusal(event.command.error, event.command.message))

    def answer_challenge(self, event: CredentialsFetched, now: float) -> Effects:
        """Send AUTH_RESPONSE."""
        self._is_fetching = False
        return [self._auth_response(event)]

    def dial_next_after_timeout(self, event: HandshakeTimedOut, now: float) -> Effects:
        """Leave a host that does not answer, and dial the one after it."""
        self._all_untrusted = False
        return [CloseSocket(flush=False), *self._dial()]

    def end_handshake_timed_out(self, event: HandshakeTimedOut, now: float) -> Effects:
        """End with the step of the handshake that was not finished."""
        seconds, step = self._settings.handshake_timeout, self.state.name
        return self._end(ConnectError(f"no connection within {seconds:g} s: still {step}"))

    # Before the broker accepts.

    def hold_request(self, event: SendRequest, now: float) -> Effects:
        """Keep the request until the broker accepts us; its timeout runs already."""
        command, timer = self._track(event, now)
        self._held_requests.append(command)
        return timer

    def expire_held_requests(self, event: RequestsDue, now: float) -> Effects:
        """Fail requests that were never sent."""
        return self._expire(ConnectError(f"it was not sent: still {self.state.name}"), now)

    def hold_handler(self, event: RegisterHandler, now: float) -> Effects:
        """Let a producer or consumer wait until the broker accepts us."""
        self._handlers.append(event.handler)
        self._held_handlers.append(event.handler)
        return []

    def forget_handler(self, event: RemoveHandler, now: float) -> Effects:
        """Forget a producer or consumer, whether it waits or not."""
        for handlers in (self._handlers, self._held_handlers):
            if event.handler in handlers:
                handlers.remove(event.handler)
        return []

    def report_still_used(self, event: CloseIfUnused, now: float) -> Effects:
        """Stay open."""
        return [StillUsed()]

    # In use.

    def is_unsupported(self, event: SendRequest, now: float) -> bool:
        """Return whether the command is larger than the broker takes, or newer than its version of the protocol."""
        return self._objection_to(event.command) is not None

    def reject_unsupported(self, event: SendRequest, now: float) -> Effects:
        """Reply with what the broker would not take."""
        return [GiveReply(event.token, self._objection_to(event.command))]

    def write_request(self, event: SendRequest, now: float) -> Effects:
        """Give the request its id and send it."""
        command, timer = self._track(event, now)
        return [WriteCommand(command), *timer]

    def write_command(self, event: SendCommand, now: float) -> Effects:
        """Send a command that has no answer."""
        return [WriteCommand(event.command)]

    def pass_frames_on(self, event: WriteFrames, now: float) -> Effects:
        """Send the batches of a producer."""
        return [event]

    def accept_handler(self, event: RegisterHandler, now: float) -> Effects:
        """Let a producer or consumer use the connection at once."""
        self._handlers.append(event.handler)
        return [HandlerAccepted(event.handler, self._connected)]

    def is_unused(self, event: CloseIfUnused, now: float) -> bool:
        """Return whether there is no producer, no consumer, and no unanswered request."""
        return not self._handlers and not len(self._requests)

    def start_closing(self, event: CloseGracefully | CloseIfUnused, now: float) -> Effects:
        """Fail what is still unanswered and let the last writes leave."""
        error = AlreadyClosed("the connection was closed")
        return [
            *self._fail_all(error, error),
            CloseSocket(flush=True),
            self.timers.start(FlushTimedOut, self._settings.flush_timeout),
        ]

    def pass_commands_on(self, event: Arrived, now: float) -> Effects:
        """Hand the commands to the producers and consumers that they name."""
        return [RouteFrames(event.frames)]

    def is_queued(self, event: Answered, now: float) -> bool:
        """Return whether a producer has to wait its turn: its request is answered again when the turn comes."""
        command = event.command
        return (
            isinstance(command, CommandProducerSuccess)
            and not command.producer_ready
            and command.request_id in self._requests
        )

    def give_queued_answer(self, event: Answered, now: float) -> Effects:
        """Reply that the producer is queued, and await the final answer for as long as it takes."""
        return [GiveReply(self._requests.drop_deadline(event.command.request_id), event.command)]

    def is_awaited(self, event: Answered | Refused, now: float) -> bool:
        """Return whether the request is pending: it has not timed out, and was not answered before."""
        return event.command.request_id in self._requests

    def give_answer(self, event: Answered, now: float) -> Effects:
        """Reply to the request with the answer."""
        return [GiveReply(self._requests.resolve(event.command.request_id), event.command)]

    def report_unawaited(self, event: Answered | Refused, now: float) -> Effects:
        """Drop an answer to no request, but report it for the log."""
        return [Unawaited(event.command)]

    def give_refusal(self, event: Refused, now: float) -> Effects:
        """Reply to the request with the broker's error."""
        error = refusal(event.command.error, event.command.message)
        return [GiveReply(self._requests.resolve(event.command.request_id), error)]

    def rejects_our_credentials(self, event: Refused, now: float) -> bool:
        """Return whether the broker no longer accepts the client's credentials; such an error answers no request."""
        command = event.command
        return command.request_id == NO_REQUEST and command.error == ServerError.AuthenticationError

    def end_credentials_revoked(self, event: Refused, now: float) -> Effects:
        """End with the reason, before the broker does so without one. Pending requests may have been carried out."""
        error = refusal(event.command.error, event.command.message)
        lost = ConnectionLost(f"the credentials were not accepted any longer: {error}")
        return [CredentialsJudged(accepted=False), *self._end(error, lost)]

    def expire_requests(self, event: RequestsDue, now: float) -> Effects:
        """Fail the requests whose time is up."""
        return self._expire(Timeout("the broker has not answered in time; it may still do what was asked"), now)

    def is_fetching(self, event: Challenged, now: float) -> bool:
        """Return whether credentials are being fetched for an earlier challenge."""
        return self._is_fetching

    def note_challenge(self, event: Challenged, now: float) -> Effects:
        """Answer the challenge after the earlier one. Only the last is kept: a broker must not pile up work here."""
        self._next_challenge = event.command.challenge.auth_data
        return []

    def was_challenged_again(self, event: CredentialsFetched, now: float) -> bool:
        """Return whether another challenge has come while these credentials were fetched."""
        return self._next_challenge is not None

    def answer_and_fetch_again(self, event: CredentialsFetched, now: float) -> Effects:
        """Answer the earlier challenge, and fetch credentials for the last one."""
        challenge, self._next_challenge = self._next_challenge, None
        return [self._auth_response(event), FetchCredentials(challenge)]

    def end_credentials_not_renewed(self, event: CredentialsFailed, now: float) -> Effects:
        """End rather than go on with credentials that may have expired. Requests were sent under accepted ones."""
        error = AuthenticationError("AuthenticationError", event.reason)
        return self._end(error, ConnectionLost(f"the credentials could not be renewed: {event.reason}"))

    def peer_is_silent(self, event: KeepaliveDue, now: float) -> bool:
        """Return whether the last PING got no PONG; other traffic does not prove that the peer reads."""
        return self._unanswered_ping

    def end_silent(self, event: KeepaliveDue, now: float) -> Effects:
        """End a connection that looks open and is not."""
        return self._end(ConnectionLost(f"no PONG for {self._settings.keepalive_interval:g} s"))

    def send_ping(self, event: KeepaliveDue, now: float) -> Effects:
        """Send PING."""
        effects = [WriteCommand(CommandPing()), self._start_keepalive()]
        self._unanswered_ping = True
        return effects

    def answer_ping(self, event: Pinged, now: float) -> Effects:
        """Send PONG."""
        return [WriteCommand(CommandPong())]

    def note_pong(self, event: Ponged, now: float) -> Effects:
        """Note that the peer is alive."""
        self._unanswered_ping = False
        return []

    # The end.

    def end_unopened(self, event: CloseGracefully, now: float) -> Effects:
        """End without a socket to close."""
        error = AlreadyClosed("the connection was closed before it was opened")
        return self._fail_all(error, error)

    def end_handshake(self, event: CloseGracefully, now: float) -> Effects:
        """End in the middle of the handshake."""
        return self._end(AlreadyClosed("the connection was closed while it was being opened"))

    def end_aborted(self, event: AbortConnection, now: float) -> Effects:
        """End for all producers and consumers, as if the network had: those that remain connect again."""
        return self._end(self._lost(f"the connection was dropped: {event.error}"))

    def end_lost(self, event: SocketLost, now: float) -> Effects:
        """End because the peer or the network has closed the socket."""
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

    def reject_request(self, event: SendRequest, now: float) -> Effects:
        """Reply to a request that came after the end."""
        return [GiveReply(event.token, self._ended_with)]

    def reject_handler(self, event: RegisterHandler, now: float) -> Effects:
        """Answer a producer or consumer that came after the end."""
        return [HandlerRejected(event.handler, self._ended_with)]

    def _dial(self) -> Effects:
        host, port = self._settings.hosts[self._next_host]
        self._next_host += 1
        return [
            self.timers.start(HandshakeTimedOut, self._settings.handshake_timeout),
            OpenSocket(host, port, self._settings.tcp_no_delay, self._settings.tls),
        ]

    def _hosts(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self._settings.hosts)

    def _auth_response(self, event: CredentialsFetched) -> WriteCommand:
        response = AuthData(auth_method_name=event.method, auth_data=event.data)
        client = self._settings.client_version
        return WriteCommand(
            CommandAuthResponse(client_version=client, response=response, protocol_version=PROTOCOL_VERSION)
        )

    def _start_keepalive(self) -> StartTimer:
        return self.timers.start(KeepaliveDue, self._settings.keepalive_interval)

    def _track(self, event: SendRequest, now: float) -> tuple[Any, Effects]:
        """Copy the command, which is the caller's, and give the copy a request id."""
        command = type(event.command)()
        command.CopyFrom(event.command)
        command.request_id = self._requests.track(event.token, now + event.timeout)
        return command, self._watch_requests(now)

    def _watch_requests(self, now: float) -> Effects:
        return self.timers.ensure(RequestsDue, self._requests.next_deadline(), now)

    def _expire(self, error: PulsarException, now: float) -> Effects:
        return [*(GiveReply(token, error) for token in self._requests.expire(now)), *self._watch_requests(now)]

    def _objection_to(self, command: Message) -> PulsarException | None:
        return objection_to(command, self._frame_limit, self._connected.protocol_version)

    def _send_held_requests(self) -> Effects:
        """Send the requests that were held, except those that have timed out and those that the broker cannot take."""
        held, self._held_requests = self._held_requests, []
        effects: list[Effect] = []
        for command in held:
            if command.request_id not in self._requests:
                continue
            objection = self._objection_to(command)
            if objection is None:
                effects.append(WriteCommand(command))
            else:
                effects.append(GiveReply(self._requests.resolve(command.request_id), objection))
        return effects

    def _lost(self, why: str) -> PulsarException:
        """Return the error for a connection that ends: no request was sent before the broker accepted."""
        return ConnectionLost(why) if self.state is READY else ConnectError(why)

    def _end(self, error: PulsarException, answer: PulsarException | None = None) -> Effects:
        """End at once. Pending requests get `answer`, if it is given, and the error otherwise."""
        if not isinstance(error, AlreadyClosed):
            self._ended_with = ConnectError(f"it was not sent: {error}")
        return [CloseSocket(flush=False), *self._fail_all(error, answer or error)]

    def _fail_all(self, error: PulsarException, answer: PulsarException) -> Effects:
        self._held_requests = []
        waiting, self._held_handlers = self._held_handlers, []
        return [
            *(GiveReply(token, answer) for token in self._requests.drain()),
            *(HandlerRejected(handler, error) for handler in waiting),
            NotifyConnectionLost(error),
        ]
