"""Events, effects and settings of the machines of a connection."""

import math
from typing import Any

from google.protobuf.message import Message

from pulsar_actors.exceptions import PulsarException, WireError
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import CommandAuthChallenge, CommandConnected, CommandError


class ConnectionSettings(NamedTuple):
    """The hosts to dial, in their order, and the timeouts in seconds."""

    hosts: tuple[tuple[str, int], ...]
    client_version: str
    tls: bool = False
    proxy_to_broker_url: str | None = None
    handshake_timeout: float = 10.0
    keepalive_interval: float = 30.0
    flush_timeout: float = 1.0
    tcp_no_delay: bool = True
    others_have_answered: bool = False  # the other hosts of the service URL, which are not dialled here
    silence_may_end: bool = False  # the hosts have answered before, or the client can change to another cluster


# Events of the client.


class Dial(NamedTuple):
    """Start to connect."""


class SendRequest(NamedTuple):
    """Send a command that has an answer. The token gets a reply within the timeout, which starts now.

    `answer_within` starts when the command is sent: the broker has to answer within so many seconds.
    """

    command: Any  # a command with a request_id, which the connection fills in
    token: object
    timeout: float
    answer_within: float = math.inf


class SendCommand(NamedTuple):
    """Send a command that has no answer."""

    command: Message


class RegisterHandler(NamedTuple):
    """Register a producer or consumer, which uses the connection as soon as the broker accepts the client."""

    handler: Any  # with the `kind` and the `id` by which commands name it


class RemoveHandler(NamedTuple):
    """Remove a producer or consumer, which does not use the connection any longer, or does not wait for it."""

    handler: Any


class CloseIfUnused(NamedTuple):
    """End, unless a producer, a consumer or a request uses the connection."""


class CloseGracefully(NamedTuple):
    """Write what is queued, then end."""


class AbortConnection(NamedTuple):
    """End at once: the broker has broken the protocol, or the client moves to another cluster."""

    error: PulsarException


# Events of the socket, of fetched credentials, and of timers.


class TcpOpened(NamedTuple):
    """The socket is connected."""


class TlsAgreed(NamedTuple):
    """The TLS handshake is done, and the certificate is trusted."""


class SocketLost(NamedTuple):
    """The socket could not be opened, or was closed. `is_distrusted` if the peer's certificate is the reason."""

    reason: str
    is_distrusted: bool = False


class StreamBroken(NamedTuple):
    """The peer sent bytes that break the protocol."""

    error: WireError


class CredentialsFetched(NamedTuple):
    """Credentials for CONNECT or AUTH_RESPONSE."""

    method: str
    data: bytes

    def __repr__(self) -> str:
        """Keep the secret out of logs and errors."""
        return f"CredentialsFetched(method={self.method!r})"


class CredentialsFailed(NamedTuple):
    """Fetching credentials has failed."""

    reason: str


class HandshakeTimedOut(NamedTuple):
    """Dialling a host, TLS and CONNECT together have taken too long."""

    generation: int


class KeepaliveDue(NamedTuple):
    """One keepalive interval has passed."""

    generation: int


class RequestsDue(NamedTuple):
    """The oldest unanswered request may have timed out."""

    generation: int


class FlushTimedOut(NamedTuple):
    """The socket has not written all bytes in time."""

    generation: int


# Events of the broker: the commands for the connection itself, answers, and the commands for producers and consumers.


class Connected(NamedTuple):
    """The broker accepts the client: CONNECTED."""

    command: CommandConnected


class Challenged(NamedTuple):
    """The broker asks for credentials once more: AUTH_CHALLENGE."""

    command: CommandAuthChallenge


class Refused(NamedTuple):
    """The broker answers a request, or CONNECT, with an error: ERROR."""

    command: CommandError


class Answered(NamedTuple):
    """The broker answers a request."""

    command: Any  # a command with a request_id


class Arrived(NamedTuple):
    """All commands for producers and consumers of one read, in order."""

    frames: tuple[Any, ...]


class Pinged(NamedTuple):
    """The broker checks that the client is alive: PING."""


class PeerActive(NamedTuple):
    """The peer has sent a PONG or other bytes, or has taken bytes for which there was no room before."""


# Events of the connection's own chart, for its parts.


class BrokerAccepted(NamedTuple):
    """The broker has accepted the client, with this CONNECTED."""

    command: CommandConnected


class ConnectionOver(NamedTuple):
    """The connection has ended. Unanswered requests get `answer`, and later requests get `refusal`."""

    error: PulsarException
    answer: PulsarException
    refusal: PulsarException


# Effects.


class OpenSocket(NamedTuple):
    """Open a TCP connection; answer with `TcpOpened` or `SocketLost`. `tls` is True if TLS follows.

    With `no_delay` (TCP_NODELAY) small writes are sent at once.
    """

    host: str
    port: int
    no_delay: bool = True
    tls: bool = False


class StartTls(NamedTuple):
    """Start TLS for this host name; answer with `TlsAgreed` or `SocketLost`."""

    host: str


class FetchCredentials(NamedTuple):
    """Fetch credentials, for the challenge if there is one; answer with `CredentialsFetched` or `CredentialsFailed`."""

    challenge: bytes | None


class CredentialsJudged(NamedTuple):
    """Report if the broker accepts the credentials, so that refused ones are not used again."""

    accepted: bool


class WriteCommand(NamedTuple):
    """Write a command to the socket."""

    command: Message

    def __repr__(self) -> str:
        """Name the command only: CONNECT and AUTH_RESPONSE carry secrets."""
        return f"WriteCommand({type(self.command).__name__})"


class AwaitActivity(NamedTuple):
    """Report once, with `PeerActive`, that the peer sends bytes, or takes some for which there is no room now."""


class WriteFrames(NamedTuple):
    """Write a producer's frames. An event too: the machine passes on the tuple that it is given.

    Each item has `buffers()`: the frames of one batch, or nothing if the batch has ended meanwhile.
    """

    frames: tuple[Any, ...]


class AllowFrames(NamedTuple):
    """Accept frames up to this size from now on."""

    limit: int


class HandlerAccepted(NamedTuple):
    """Tell a producer or consumer that it can use the connection; `can_watch` is a feature flag of the broker."""

    handler: Any
    max_message_size: int
    can_watch: bool


class HandlerRejected(NamedTuple):
    """Tell a producer or consumer that it cannot use the connection, or cannot use it any longer."""

    handler: Any
    error: PulsarException


class GiveReply(NamedTuple):
    """Reply to a request with the answer or an error."""

    token: object
    answer: Any  # a command, or a PulsarException


class Unawaited(NamedTuple):
    """Report an answer, or an error, that belongs to no pending request: it comes twice, too late, or unasked."""

    command: Any


class RouteFrames(NamedTuple):
    """Pass commands to the producers and consumers that they name."""

    frames: tuple[Any, ...]


class CloseSocket(NamedTuple):
    """Close the socket: after writing what is queued, or at once."""

    flush: bool


class StillUsed(NamedTuple):
    """Report that the connection stays open."""


class NotifyConnectionLost(NamedTuple):
    """Report that the connection has ended, and why."""

    error: PulsarException
