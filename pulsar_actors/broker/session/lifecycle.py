"""One connection of a client, as the broker decides it: the handshake, keep-alive, fresh credentials, and the end.

`SessionLifecycle` decides whom to accept and when to end a connection. It leaves the check of credentials to
`connect.py`, which hands over the result, the bytes to the session, and every other command to its handler.

A client is accepted with CONNECTED, or refused with an error that answers no request; the connection then ends. An
accepted client's token may end while it is connected. The broker then asks for a fresh one, if the client knows that
command. The connection ends if the client does not know it, if the answer is no good, and if none comes in time.

After each keep-alive interval the broker sends a PING. Any byte from the client is an answer to it. A client that sent
none in a whole interval is given up, and so is one that sent no CONNECT in the first.
"""

from enum import Enum, unique
from typing import Final, NamedTuple

from google.protobuf.message import Message

from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.web.lookups import PULSAR_VERSION
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthChallenge,
    CommandConnect,
    CommandConnected,
    CommandPing,
    FeatureFlags,
    ProtocolVersion,
)

REFRESH_SECONDS: Final = 60.0
"""How long a client has to send fresh credentials."""

_SERVER_VERSION: Final = f"pulsar_actors, as Pulsar Server{PULSAR_VERSION}"
_SERVER_PROTOCOL_VERSION: Final = ProtocolVersion.v21
_CHALLENGE: Final = AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")
"""Pulsar's own clients know by this text that the broker started the refresh."""
_FEATURES: Final = FeatureFlags(
    supports_topic_watchers=True,
    supports_get_partitioned_metadata_without_auto_creation=True,
    supports_repl_dedup_by_lid_and_eid=True,
    supports_topic_watcher_reconcile=True,
)


class CredentialsChecked(NamedTuple):
    """The result of a check. `fault` is why they are refused, empty if they are not; None as `expires_in`: never.

    `subject` is empty where the broker wants no credentials.
    """

    subject: str = ""
    expires_in: float | None = None
    fault: str = ""


# Events of the session itself.


class SessionOpened(NamedTuple):
    """The transport is open."""


# Events of the client and of timers.


class ConnectReceived(NamedTuple):
    """CONNECT came."""

    connect: CommandConnect
    credentials: CredentialsChecked


class AuthResponseReceived(NamedTuple):
    """AUTH_RESPONSE came."""

    credentials: CredentialsChecked


class SessionEnded(NamedTuple):
    """The transport was lost, or the session closed it for another reason."""


class KeepaliveDue(NamedTuple):
    """An interval has passed."""

    generation: int


class TokenExpired(NamedTuple):
    """The token that the client was accepted with has ended."""

    generation: int


class RefreshTimedOut(NamedTuple):
    """The client had its time for fresh credentials."""

    generation: int


# Effects.


class AcceptClient(NamedTuple):
    """Take every command from now on; the client has these features and this version."""

    connect: CommandConnect


class SendCommand(NamedTuple):
    """Send the client a command."""

    command: Message


class RefuseCredentials(NamedTuple):
    """Send the client an error, and end the connection when it has left."""

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
OPEN: Final = (CONNECTING, *CONNECTED)

# fmt: off
ROWS: Final = (
    #   trigger               source                  dest        guard               does
    Row(SessionOpened,        CONNECTING,             INTERNAL,   None,               "start_keepalive"),
    Row(ConnectReceived,      CONNECTING,             ENDED,      "is_refused",       "refuse_credentials"),
    Row(ConnectReceived,      CONNECTING,             ACCEPTED,   None,               "accept"),
    Row(ConnectReceived,      CONNECTED,              ENDED,      None,               "end_after_second_connect"),
    Row(KeepaliveDue,         CONNECTING,             ENDED,      None,               "end_without_connect"),
    Row(KeepaliveDue,         CONNECTED,              ENDED,      "is_silent",        "end_silent"),
    Row(KeepaliveDue,         CONNECTED,              INTERNAL,   None,               "ping"),
    Row(TokenExpired,         ACCEPTED,               REFRESHING, "knows_refresh",    "ask_for_fresh_credentials"),
    Row(TokenExpired,         ACCEPTED,               ENDED,      None,               "end_with_token"),
    Row(AuthResponseReceived, REFRESHING,             ENDED,      "is_refused",       "refuse_credentials"),
    Row(AuthResponseReceived, REFRESHING,             ENDED,      "is_somebody_else", "refuse_somebody_else"),
    Row(AuthResponseReceived, REFRESHING,             ACCEPTED,   None,               "take_fresh_credentials"),
    Row(AuthResponseReceived, (CONNECTING, ACCEPTED), ENDED,      None,               "refuse_unasked"),
    Row(RefreshTimedOut,      REFRESHING,             ENDED,      None,               "end_without_refresh"),
    Row(SessionEnded,         OPEN,                   ENDED),
)

# Timers that were stopped or belong to another state, and events that were on their way when the session ended.
IGNORES: Final = (
    #      event                                                                      states
    Ignore((ConnectReceived, AuthResponseReceived, SessionEnded, KeepaliveDue),       ENDED),
    Ignore(TokenExpired,                                                              (CONNECTING, REFRESHING, ENDED)),
    Ignore(RefreshTimedOut,                                                           (CONNECTING, ACCEPTED, ENDED)),
)
# fmt: on

CHART: Final = Chart(
    "broker_session",
    states=State,
    initial=CONNECTING,
    final=[ENDED],
    ours=(SessionOpened,),
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
        """Take the bytes that came for a sign of life; called for each read, so it is no event."""
        self._awaits_pong = False

    def start_keepalive(self, _: SessionOpened, __: float) -> Effects:
        """Start the first interval."""
        return [self.timers.start(KeepaliveDue, self._keepalive)]

    def is_refused(self, event: ConnectReceived | AuthResponseReceived, _: float) -> bool:
        """Tell whether the check found a fault."""
        return bool(event.credentials.fault)

    def refuse_credentials(self, event: ConnectReceived | AuthResponseReceived, _: float) -> Effects:
        """Answer with the fault."""
        return [RefuseCredentials(event.credentials.fault)]

    def accept(self, event: ConnectReceived, _: float) -> Effects:
        """Answer with the lower protocol version of both sides, and watch the token."""
        connect = event.connect
        connected = CommandConnected(
            server_version=_SERVER_VERSION,
            protocol_version=min(connect.protocol_version, _SERVER_PROTOCOL_VERSION),
            max_message_size=self._settings.max_message_size,
            feature_flags=_FEATURES,
        )
        self._subject = event.credentials.subject
        self._knows_refresh = connect.feature_flags.supports_auth_refresh
        return [AcceptClient(connect), SendCommand(connected), *self._watch_token(event.credentials)]

    def end_after_second_connect(self, _: ConnectReceived, __: float) -> Effects:
        """End the connection: CONNECT comes once."""
        return [EndSession("a second CONNECT")]

    def end_without_connect(self, _: KeepaliveDue, __: float) -> Effects:
        """End a connection on which no CONNECT came in the first interval."""
        return [EndSession("no CONNECT in time")]

    def is_silent(self, _: KeepaliveDue, __: float) -> bool:
        """Tell whether nothing came since the last PING."""
        return self._awaits_pong

    def end_silent(self, _: KeepaliveDue, __: float) -> Effects:
        """End the connection of a client that is gone."""
        return [EndSession("the client does not answer PING")]

    def ping(self, _: KeepaliveDue, __: float) -> Effects:
        """Ask for a sign of life, and start the next interval."""
        self._awaits_pong = True
        return [SendCommand(CommandPing()), self.timers.start(KeepaliveDue, self._keepalive)]

    def knows_refresh(self, _: TokenExpired, __: float) -> bool:
        """Tell whether the client declared that it answers AUTH_CHALLENGE."""
        return self._knows_refresh

    def ask_for_fresh_credentials(self, _: TokenExpired, __: float) -> Effects:
        """Give the client some time to send a token that has not ended."""
        challenge = CommandAuthChallenge(
            server_version=_SERVER_VERSION, challenge=_CHALLENGE, protocol_version=_SERVER_PROTOCOL_VERSION
        )
        return [SendCommand(challenge), self.timers.start(RefreshTimedOut, REFRESH_SECONDS)]

    def end_with_token(self, _: TokenExpired, __: float) -> Effects:
        """End the connection of a client that does not know AUTH_CHALLENGE."""
        return [EndSession("its token has ended")]

    def is_somebody_else(self, event: AuthResponseReceived, _: float) -> bool:
        """Tell whether the fresh token has another subject than the first one."""
        return event.credentials.subject != self._subject

    def refuse_somebody_else(self, _: AuthResponseReceived, __: float) -> Effects:
        """Refuse: the producers and consumers of the connection belong to the first subject."""
        return [RefuseCredentials("the fresh token is somebody else's")]

    def take_fresh_credentials(self, event: AuthResponseReceived, _: float) -> Effects:
        """Watch the fresh token; the client gets no answer."""
        self.timers.stop(RefreshTimedOut)
        return self._watch_token(event.credentials)

    def refuse_unasked(self, _: AuthResponseReceived, __: float) -> Effects:
        """Refuse an answer without a question."""
        return [RefuseCredentials("nobody asked for fresh credentials")]

    def end_without_refresh(self, _: RefreshTimedOut, __: float) -> Effects:
        """End the connection of a client that did not answer."""
        return [EndSession("no fresh credentials in time")]

    def _watch_token(self, credentials: CredentialsChecked) -> Effects:
        if credentials.expires_in is None:
            return []
        return [self.timers.start(TokenExpired, max(0.0, credentials.expires_in))]
