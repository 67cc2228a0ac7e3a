"""How a connection comes to be accepted: from the first packet to the broker's word, and who we are later on.

The hosts of the service URL are dialled one after the other; TLS is agreed with the one that answers, for its name; the
credentials are fetched, and CONNECT carries them. A broker may ask for more, before it accepts or at any time after,
and gets fresh ones. Each host has the handshake's time for all of this. Whoever keeps credentials hears whether they
were accepted.

The rows that name these guards and actions stand in `connection.py`.
"""

from abc import ABC, abstractmethod
from typing import Final

from pulsar_actors.exceptions import CertificateRefused, ConnectError, ErrorGettingAuthenticationData, PulsarException
from pulsar_actors.machines.chart import Effects
from pulsar_actors.machines.connection_events import (
    Challenged,
    CloseSocket,
    CredentialsFailed,
    CredentialsFetched,
    CredentialsJudged,
    Dial,
    FetchCredentials,
    HandshakeTimedOut,
    OpenSocket,
    Refused,
    SocketLost,
    StartTls,
    TcpOpened,
    TlsAgreed,
    Write,
)
from pulsar_actors.machines.connection_requests import Requests
from pulsar_actors.machines.connection_settings import ConnectionSettings
from pulsar_actors.machines.ledgers.server_errors import refusal
from pulsar_actors.wire.PulsarApi_pb2 import AuthData, CommandAuthResponse, CommandConnect, FeatureFlags, ServerError

PROTOCOL_VERSION: Final = 21


class Handshake(Requests, ABC):
    """The guards and actions for the handshake, in the order of the connection's chart."""

    __slots__ = ("_all_distrusted", "_is_fetching", "_next_challenge", "_next_host", "_settings")

    def __init__(self, settings: ConnectionSettings) -> None:
        super().__init__()
        self._settings = settings
        self._next_host = 0
        self._all_distrusted = True  # the hosts that were tried and left
        self._is_fetching = False  # for a challenge
        self._next_challenge: bytes | None = None  # the last one that came meanwhile

    @abstractmethod
    def end(self, error: PulsarException) -> Effects:
        """End the connection, and tell everybody who waits for it why."""

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
        return self.end(CertificateRefused(f"no connection to {self._hosts()}: {event.reason}"))

    def give_up_dialling(self, event: SocketLost, now: float) -> Effects:
        """Say which hosts were tried, and what the last one answered."""
        return self.end(ConnectError(f"no connection to {self._hosts()}: {event.reason}"))

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
                supports_topic_watchers=True,
            ),
        )
        if self._settings.proxy_to_broker_url is not None:
            connect.proxy_to_broker_url = self._settings.proxy_to_broker_url
        return [Write(connect)]

    def end_without_credentials(self, event: CredentialsFailed, now: float) -> Effects:
        """Do not go on as nobody."""
        return self.end(ErrorGettingAuthenticationData("AuthenticationError", event.reason))

    def fetch_for_challenge(self, event: Challenged, now: float) -> Effects:
        """Ask for fresh credentials."""
        self._is_fetching = True
        return [FetchCredentials(event.command.challenge.auth_data)]

    def is_fetching(self, event: Challenged, now: float) -> bool:
        """Hold while credentials are being fetched for an earlier challenge."""
        return self._is_fetching

    def note_challenge(self, event: Challenged, now: float) -> Effects:
        """Answer it after that one, unless there is a later one by then: a broker may not heap up work here."""
        self._next_challenge = event.command.challenge.auth_data
        return []

    def was_challenged_again(self, event: CredentialsFetched, now: float) -> bool:
        """Hold when another challenge has come while these were fetched."""
        return self._next_challenge is not None

    def answer_and_fetch_again(self, event: CredentialsFetched, now: float) -> Effects:
        """Answer the earlier challenge, and turn to the last."""
        following, self._next_challenge = self._next_challenge, None
        return [self._response(event), FetchCredentials(following)]

    def is_about_credentials(self, event: Refused, now: float) -> bool:
        """Hold when it is these that the broker does not like, rather than the moment."""
        return event.command.error == ServerError.AuthenticationError

    def end_unaccepted(self, event: Refused, now: float) -> Effects:
        """Pass the refusal on, and have those that are kept not be shown again."""
        return [CredentialsJudged(accepted=False), *self.end_refused(event, now)]

    def end_refused(self, event: Refused, now: float) -> Effects:
        """Pass the broker's refusal on: dialling again would not help."""
        return self.end(refusal(event.command.error, event.command.message))

    def answer_challenge(self, event: CredentialsFetched, now: float) -> Effects:
        """Send AUTH_RESPONSE."""
        self._is_fetching = False
        return [self._response(event)]

    def end_slow_handshake(self, event: HandshakeTimedOut, now: float) -> Effects:
        """Say how far it came."""
        seconds, stage = self._settings.handshake_timeout, self.state.name
        return self.end(ConnectError(f"no connection within {seconds:g} s: still {stage}"))

    def _response(self, event: CredentialsFetched) -> Write:
        response = AuthData(auth_method_name=event.method, auth_data=event.data)
        client = self._settings.client_version
        return Write(CommandAuthResponse(client_version=client, response=response, protocol_version=PROTOCOL_VERSION))

    def _dial(self) -> Effects:
        host, port = self._settings.hosts[self._next_host]
        self._next_host += 1
        return [
            self.timers.start(HandshakeTimedOut, self._settings.handshake_timeout),
            OpenSocket(host, port, self._settings.tcp_no_delay, self._settings.tls),
        ]

    def _hosts(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self._settings.hosts)
