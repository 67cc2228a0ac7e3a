"""The state chart of one connection at the broker: the handshake, keep-alive, new credentials, and the end.

`SessionLifecycle` decides which clients are accepted, and when a connection ends. It does not check credentials:
`connect.py` does, and passes the result. The session handles bytes, and handlers all other commands. Commands become
events only until the client is accepted: before CONNECT a client may send only PING, PONG and AUTH_RESPONSE.

A client is accepted with CONNECTED, or refused with an error that answers no request; the connection then ends. The
token of an accepted client may expire while the client is connected. The broker then asks for a new one with
AUTH_CHALLENGE, if the client supports that command. The connection ends if the client does not support it, if the new
credentials are refused, or if none come in time.

After each keep-alive interval the broker sends a PING. Any byte from the client counts as an answer. The connection
ends if the client sent no byte in a whole interval, or no CONNECT in the first one.
"""

from enum import Enum, unique
from typing import Final

from google.protobuf.message import Message

from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.web.lookups import PULSAR_VERSION
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    CommandPing,
    CommandPong,
    FeatureFlags,
    ProtocolVersion,
)

REFRESH_SECONDS: Final = 60.0
"""Seconds for a client to send new credentials."""

_SERVER_VERSION: Final = f"pulsar_actors, as Pulsar Server{PULSAR_VERSION}"
_SERVER_PROTOCOL_VERSION: Final = ProtocolVersion.v21
_CHALLENGE: Final = AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")
"""Pulsar's own clients recognise a refresh by this text."""
_FEATURES: Final = FeatureFlags(
    supports_topic_watchers=True,
    supports_get_partitioned_metadata_without_auto_creation=True,
    supports_repl_dedup_by_lid_and_eid=True,
    supports_topic_watcher_reconcile=True,
)

_BEFORE_ACCEPTED: Final = frozenset({CommandConnect, CommandAuthResponse, CommandPing, CommandPong})


class CredentialsChecked(NamedTuple):
    """The result of a check of credentials. `fault` is the reason of a refusal, or empty. `expires_in` None is never.

    `subject` is empty if the broker requires no credentials.
    """

    subject: str = ""
    expires_in: float | None = None
    fault: str = ""


# Events of the session itself.


class SessionOpened(NamedTuple):
    """The transport is open."""


# Events of the client and of timers.


class CommandBeforeAccepted(NamedTuple):
    """A command of this class came from a client that is not accepted yet."""

    kind: type[Message]


class ConnectReceived(NamedTuple):
    """CONNECT came."""

    connect: CommandConnect
    credentials: CredentialsChecked


class AuthResponseReceived(NamedTuple):
    """AUTH_RESPONSE came."""

    credentials: CredentialsChecked


class SessionEnded(NamedTuple):
    """The transport was lost, or the session closed it for another reason."""


class SessionKeepaliveDue(NamedTuple):
    """An interval has passed."""

    generation: int


class TokenExpired(NamedTuple):
    """The token that the client was accepted with has ended."""

    generation: int


class RefreshTimedOut(NamedTuple):
    """The time for new credentials is over."""

    generation: int


# Effects.


class AcceptClient(NamedTuple):
    """Handle all commands from now on. `connect` has the client's features and version."""

    connect: CommandConnect


class SendToClient(NamedTuple):
    """Send the client a command."""

    command: Message


class RefuseCredentials(NamedTuple):
    """Send the client an error, and end the connection when it is written."""

    reason: str


class EndSession(NamedTuple):
    """End the connection at once."""

    reason: str


@unique
class State(Enum):
    """The states of a session."""

    CONNECTING = "The transport is open; CONNECT has to come."
    ACCEPTED = "The client may send every command."
    REFRESHING = "The client's token has ended, and the broker asked for a fresh one."
    ENDED = "The connection has ended, or ends when the last answer has left."


CONNECTING, ACCEPTED, REFRESHING, ENDED = State
CONNECTED: Final = (ACCEPTED, REFRESHING)
NOT_ENDED: Final = (CONNECTING, *CONNECTED)

# fmt: off
ROWS: Final = (
    #   trigger                source                  dest        guard               does
    Row(SessionOpened,         CONNECTING,             INTERNAL,   None,               "start_keepalive"),
    Row(CommandBeforeAccepted, CONNECTING,             INTERNAL,   "may_come_before"),
    Row(CommandBeforeAccepted, CONNECTING,             ENDED,      None,               "end_before_connect"),
    Row(ConnectReceived,       CONNECTING,             ENDED,      "is_refused",       "refuse_credentials"),
    Row(ConnectReceived,       CONNECTING,             ACCEPTED,   None,               "accept"),
    Row(ConnectReceived,       CONNECTED,              ENDED,      None,               "end_after_second_connect"),
    Row(SessionKeepaliveDue,   CONNECTING,             ENDED,      None,               "end_without_connect"),
    Row(SessionKeepaliveDue,   CONNECTED,              ENDED,      "is_silent",        "end_silent"),
    Row(SessionKeepaliveDue,   CONNECTED,              INTERNAL,   None,               "ping"),
    Row(TokenExpired,          ACCEPTED,               REFRESHING, "knows_refresh",    "ask_for_fresh_credentials"),
    Row(TokenExpired,          ACCEPTED,               ENDED,      None,               "end_with_token"),
    Row(AuthResponseReceived,  REFRESHING,             ENDED,      "is_refused",       "refuse_credentials"),
    Row(AuthResponseReceived,  REFRESHING,             ENDED,      "is_somebody_else", "refuse_somebody_else"),
    Row(AuthResponseReceived,  REFRESHING,             ACCEPTED,   None,               "take_fresh_credentials"),
    Row(AuthResponseReceived,  (CONNECTING, ACCEPTED), ENDED,      None,               "refuse_unasked"),
    Row(RefreshTimedOut,       REFRESHING,             ENDED,      None,               "end_without_refresh"),
    Row(SessionEnded,          NOT_ENDED,              ENDED),
)

# Timers that were stopped or belong to another state, and events that came when the session had ended.
IGNORES: Final = (
    #      event                                                                         states
    Ignore((ConnectReceived, AuthResponseReceived, SessionEnded, SessionKeepaliveDue),   ENDED),
    Ignore(TokenExpired,                                              (CONNECTING, REFRESHING, ENDED)),
    Ignore(RefreshTimedOut,                                           (CONNECTING, ACCEPTED, ENDED)),
)
# fmt: on

CHART: Final = Chart(
    "broker_session",
    states=State,
    initial=CONNECTING,
    final=[ENDED],
    ours=(SessionOpened, CommandBeforeAccepted),
    rows=ROWS,
    ignores=IGNORES,
)


class SessionLifecycle(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order. `keepalive` is in seconds."""

    __slots__ = ("_awaits_pong", "_keepalive", "_knows_refresh", "_settings", "_subject")

    def __init__(self, settings: Settings, keepalive: float) -> None:
        super().__init__()
        self._settings = settings
        self._keepalive = keepalive
        self._subject = ""
        self._knows_refresh = False
        self._awaits_pong = False

    def note_bytes(self) -> None:
        """Note that bytes have come, which answers a PING. Called for each read, so it is no event."""
        self._awaits_pong = False

    @property
    def awaits_connect(self) -> bool:
        """True until the client is accepted or refused."""
        return self.state is CONNECTING

    def start_keepalive(self, _: SessionOpened, __: float) -> Effects:
        """Start the first interval."""
        return [self.timers.start(SessionKeepaliveDue, self._keepalive)]

    def may_come_before(self, event: CommandBeforeAccepted, _: float) -> bool:
        """Return whether a client may send this before it is accepted: CONNECT, PING, PONG, and AUTH_RESPONSE."""
        return event.kind in _BEFORE_ACCEPTED

    def end_before_connect(self, event: CommandBeforeAccepted, _: float) -> Effects:
        """End the connection of a client that does not begin with CONNECT."""
        return [EndSession(f"{event.kind.__name__} before CONNECT")]

    def is_refused(self, event: ConnectReceived | AuthResponseReceived, _: float) -> bool:
        """Return whether the check found a fault."""
        return bool(event.credentials.fault)

    def refuse_credentials(self, event: ConnectReceived | AuthResponseReceived, _: float) -> Effects:
        """Answer with the fault, and end."""
        return [RefuseCredentials(event.credentials.fault)]

    def accept(self, event: ConnectReceived, _: float) -> Effects:
        """Answer with the lower protocol version of both sides, and start the timer for the token's expiry."""
        connect = event.connect
        connected = CommandConnected(
            server_version=_SERVER_VERSION,
            protocol_version=min(connect.protocol_version, _SERVER_PROTOCOL_VERSION),
            max_message_size=self._settings.max_message_size,
            feature_flags=_FEATURES,
        )
        self._subject = event.credentials.subject
        self._knows_refresh = connect.feature_flags.supports_auth_refresh
        return [AcceptClient(connect), SendToClient(connected), *self._watch_token(event.credentials)]

    def end_after_second_connect(self, _: ConnectReceived, __: float) -> Effects:
        """End the connection: CONNECT comes once."""
        return [EndSession("a second CONNECT")]

    def end_without_connect(self, _: SessionKeepaliveDue, __: float) -> Effects:
        """End a connection on which no CONNECT came in the first interval."""
        return [EndSession("no CONNECT in time")]

    def is_silent(self, _: SessionKeepaliveDue, __: float) -> bool:
        """Return whether nothing came since the last PING."""
        return self._awaits_pong

    def end_silent(self, _: SessionKeepaliveDue, __: float) -> Effects:
        """End the connection of a client that does not answer."""
        return [EndSession("the client does not answer PING")]

    def ping(self, _: SessionKeepaliveDue, __: float) -> Effects:
        """Send a PING, and start the next interval."""
        self._awaits_pong = True
        return [SendToClient(CommandPing()), self.timers.start(SessionKeepaliveDue, self._keepalive)]

    def knows_refresh(self, _: TokenExpired, __: float) -> bool:
        """Return whether the client declared that it answers AUTH_CHALLENGE."""
        return self._knows_refresh

    def ask_for_fresh_credentials(self, _: TokenExpired, __: float) -> Effects:
        """Ask the client for a token that has not expired, and start the time limit."""
        challenge = CommandAuthChallenge(
            server_version=_SERVER_VERSION, challenge=_CHALLENGE, protocol_version=_SERVER_PROTOCOL_VERSION
        )
        return [SendToClient(challenge), self.timers.start(RefreshTimedOut, REFRESH_SECONDS)]

    def end_with_token(self, _: TokenExpired, __: float) -> Effects:
        """End the connection of a client that does not know AUTH_CHALLENGE."""
        return [EndSession("its token has ended")]

    def is_somebody_else(self, event: AuthResponseReceived, _: float) -> bool:
        """Return whether the fresh token has another subject than the first one."""
        return event.credentials.subject != self._subject

    def refuse_somebody_else(self, _: AuthResponseReceived, __: float) -> Effects:
        """Refuse another subject: the producers and consumers of the connection belong to the first one."""
        return [RefuseCredentials("the fresh token has another subject")]

    def take_fresh_credentials(self, event: AuthResponseReceived, _: float) -> Effects:
        """Start the timer for the new token's expiry. The client gets no answer."""
        self.timers.stop(RefreshTimedOut)
        return self._watch_token(event.credentials)

    def refuse_unasked(self, _: AuthResponseReceived, __: float) -> Effects:
        """Refuse credentials that the broker has not asked for."""
        return [RefuseCredentials("fresh credentials were not requested")]

    def end_without_refresh(self, _: RefreshTimedOut, __: float) -> Effects:
        """End the connection of a client that did not answer."""
        return [EndSession("no fresh credentials in time")]

    def _watch_token(self, credentials: CredentialsChecked) -> Effects:
        if credentials.expires_in is None:
            return []
        return [self.timers.start(TokenExpired, max(0.0, credentials.expires_in))]
