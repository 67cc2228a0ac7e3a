"""The renewal of credentials on a connection in use: AUTH_CHALLENGE, and the AUTH_RESPONSE that answers it.

A part of the connection's machine. When the client's credentials expire, the broker sends a challenge, and expects new
ones. Requests and messages continue meanwhile. A challenge during the handshake is a step of the handshake, and is in
the connection's own chart.

While credentials are fetched, another challenge may come. Only the last one is kept, and answered after the current
one, so that a broker cannot cause an unlimited number of fetches. If credentials cannot be fetched, or are refused by
the broker, the connection's own chart ends the connection.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.machines.chart import Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_events import (
    BrokerAccepted,
    Challenged,
    ConnectionOver,
    ConnectionSettings,
    CredentialsFetched,
    FetchCredentials,
    WriteCommand,
)
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthResponse,
    CommandConnect,
    FeatureFlags,
)

PROTOCOL_VERSION: Final = 21


@unique
class State(Enum):
    """The states of the credentials of a connection in use."""

    UNUSED = "The broker has not accepted the client yet, or the connection has ended."
    ACCEPTED = "The broker has accepted the credentials, or was sent new ones; no challenge is open."
    FETCHING = "The broker sent a challenge; new credentials are being fetched."
    CHALLENGED_AGAIN = "Another challenge came while credentials were being fetched; they will be fetched once more."


UNUSED, ACCEPTED, FETCHING, CHALLENGED_AGAIN = State
IN_USE: Final = (ACCEPTED, FETCHING, CHALLENGED_AGAIN)

# fmt: off
ROWS: Final = (
    #   trigger             source                        dest              guard  does
    Row(BrokerAccepted,     UNUSED,                       ACCEPTED),
    Row(Challenged,         ACCEPTED,                     FETCHING,         None,  "fetch"),
    Row(Challenged,         (FETCHING, CHALLENGED_AGAIN), CHALLENGED_AGAIN, None,  "keep_last_challenge"),
    Row(CredentialsFetched, FETCHING,                     ACCEPTED,         None,  "answer"),
    Row(CredentialsFetched, CHALLENGED_AGAIN,             FETCHING,         None,  "answer_and_fetch_again"),
    Row(ConnectionOver,     IN_USE,                       UNUSED),
)

IGNORES: Final = (
    Ignore((Challenged, ConnectionOver), UNUSED),
    Ignore(CredentialsFetched,           (UNUSED, ACCEPTED)),
)
# fmt: on

CHART: Final = Chart(
    "connection_credentials",
    states=State,
    initial=UNUSED,
    final=(),
    ours=(),
    rows=ROWS,
    ignores=IGNORES,
    inner=(BrokerAccepted, ConnectionOver),
)


class ConnectionCredentials(StateMachine, chart=CHART):
    """The credentials of one connection in use: the actions in the chart's order."""

    __slots__ = ("_last_challenge", "_settings")

    def __init__(self, connection: StateMachine, settings: ConnectionSettings) -> None:
        super().__init__(connection)
        self._settings = settings
        self._last_challenge = b""  # the last challenge that came while credentials were fetched

    def fetch(self, event: Challenged, now: float) -> Effects:
        """Fetch credentials for the challenge."""
        return [FetchCredentials(event.command.challenge.auth_data)]

    def keep_last_challenge(self, event: Challenged, now: float) -> Effects:
        """Keep this challenge in place of an earlier one."""
        self._last_challenge = event.command.challenge.auth_data
        return []

    def answer(self, event: CredentialsFetched, now: float) -> Effects:
        """Send AUTH_RESPONSE."""
        return [WriteCommand(auth_response(self._settings, event))]

    def answer_and_fetch_again(self, event: CredentialsFetched, now: float) -> Effects:
        """Answer the earlier challenge, and fetch credentials for the last one."""
        return [*self.answer(event, now), FetchCredentials(self._last_challenge)]


def connect_command(settings: ConnectionSettings, credentials: CredentialsFetched) -> CommandConnect:
    """Write CONNECT, with the credentials and the features of this client."""
    connect = CommandConnect(
        client_version=settings.client_version,
        auth_method_name=credentials.method,
        auth_data=credentials.data,
        protocol_version=PROTOCOL_VERSION,
        feature_flags=FeatureFlags(
            supports_auth_refresh=True,
            supports_broker_entry_metadata=True,
            supports_partial_producer=True,
            supports_topic_watchers=True,
        ),
    )
    if settings.proxy_to_broker_url is not None:
        connect.proxy_to_broker_url = settings.proxy_to_broker_url
    return connect


def auth_response(settings: ConnectionSettings, credentials: CredentialsFetched) -> CommandAuthResponse:
    """Write AUTH_RESPONSE."""
    response = AuthData(auth_method_name=credentials.method, auth_data=credentials.data)
    return CommandAuthResponse(
        client_version=settings.client_version, response=response, protocol_version=PROTOCOL_VERSION
    )
