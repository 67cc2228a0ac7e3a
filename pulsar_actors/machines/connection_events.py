"""What a connection hears and what it answers with: the events and effects of `connection.py`.

Each event's class is its trigger in the chart. Nothing here decides anything.
"""

from typing import Any, NamedTuple

from google.protobuf.message import Message

from pulsar_actors.exceptions import PulsarException, WireError
from pulsar_actors.wire.PulsarApi_pb2 import CommandAuthChallenge, CommandConnected, CommandError

# Events of our own side.


class Dial(NamedTuple):
    """Connect."""


class Ask(NamedTuple):
    """Send a command that has an answer, and give the answer to the token within the timeout, which starts now."""

    command: Any  # a sub-command with a request_id, which the connection fills in
    token: object
    timeout: float


class Tell(NamedTuple):
    """Send a command that has no answer."""

    command: Message


class Ship(NamedTuple):
    """Send what a producer has packed."""

    parcels: tuple[Any, ...]


class Join(NamedTuple):
    """A producer or consumer wants to be told when it can be served here, which may be at once."""

    member: object


class Leave(NamedTuple):
    """It does not want to any longer."""

    member: object


class Retire(NamedTuple):
    """End, unless somebody uses it."""


class Close(NamedTuple):
    """Let what is written leave, then end."""


class Drop(NamedTuple):
    """End at once: what a producer or consumer met shows that it cannot be trusted, or the client goes elsewhere."""

    error: PulsarException


# Events of the socket, of the helper that fetches credentials, and of timers.


class TcpOpened(NamedTuple):
    """The socket is connected."""


class TlsAgreed(NamedTuple):
    """The TLS handshake is done and the certificate is good."""


class SocketLost(NamedTuple):
    """The socket could not be opened, or is gone; `is_distrusted` if the peer's certificate is the reason."""

    reason: str
    is_distrusted: bool = False


class StreamBroken(NamedTuple):
    """The peer sent bytes that break the protocol."""

    error: WireError


class CredentialsFetched(NamedTuple):
    """What to answer to the broker's question who we are."""

    method: str
    data: bytes

    def __repr__(self) -> str:
        """Keep the secret out of logs and errors."""
        return f"CredentialsFetched(method={self.method!r})"


class CredentialsFailed(NamedTuple):
    """There are no credentials to be had."""

    reason: str


class HandshakeTimedOut(NamedTuple):
    """Dialling a host, TLS and CONNECT have taken too long together."""

    generation: int


class KeepaliveDue(NamedTuple):
    """One keepalive interval has passed."""

    generation: int


class RequestsDue(NamedTuple):
    """The oldest unanswered request may have timed out."""

    generation: int


class FlushTimedOut(NamedTuple):
    """What was written has not left in time."""

    generation: int


# Events of the broker: one for each kind of command that the connection itself understands.


class Connected(NamedTuple):
    """The broker accepts us."""

    command: CommandConnected


class Challenged(NamedTuple):
    """The broker asks who we are, once more."""

    command: CommandAuthChallenge


class Refused(NamedTuple):
    """The broker answers a request, or CONNECT, with an error."""

    command: CommandError


class Answered(NamedTuple):
    """The broker answers a request."""

    command: Any  # a sub-command with a request_id


class Arrived(NamedTuple):
    """The broker speaks to a producer or a consumer: all such commands of one read, in their order."""

    frames: tuple[Any, ...]


class Pinged(NamedTuple):
    """The broker wants to know whether we are alive."""


class Ponged(NamedTuple):
    """The broker is alive."""


# Effects.


class OpenSocket(NamedTuple):
    """Open TCP, over which TLS is to be agreed if `tls`; answer with `TcpOpened` or `SocketLost`.

    With `no_delay` small writes do not wait for larger ones.
    """

    host: str
    port: int
    no_delay: bool = True
    tls: bool = False


class StartTls(NamedTuple):
    """Agree on TLS, for this host; answer with `TlsAgreed` or `SocketLost`."""

    host: str


class FetchCredentials(NamedTuple):
    """Fetch credentials, for the broker's challenge if there is one; answer with one of the Credentials events."""

    challenge: bytes | None


class CredentialsJudged(NamedTuple):
    """Tell whoever keeps credentials whether the broker has accepted those of this connection."""

    accepted: bool


class Write(NamedTuple):
    """Write a command."""

    command: Message

    def __repr__(self) -> str:
        """Name the command only: CONNECT and AUTH_RESPONSE carry secrets."""
        return f"Write({type(self.command).__name__})"


class WriteParcels(NamedTuple):
    """Write what a producer has packed."""

    parcels: tuple[Any, ...]


class AllowFrames(NamedTuple):
    """Accept frames up to this size."""

    limit: int


class Welcome(NamedTuple):
    """Tell a producer or consumer that it can be served here."""

    member: object
    command: CommandConnected


class TurnAway(NamedTuple):
    """Tell a producer or consumer that it cannot be served here."""

    member: object
    error: PulsarException


class Reply(NamedTuple):
    """Give the token what became of its request: the answer, or the error in its place."""

    token: object
    answer: Any  # a sub-command, or a PulsarException


class Unawaited(NamedTuple):
    """Note an answer, or an error, that nobody waits for: it comes twice, too late, or unasked."""

    command: Any


class Route(NamedTuple):
    """Hand commands to the producers and consumers they name."""

    frames: tuple[Any, ...]


class CloseSocket(NamedTuple):
    """Close the socket: after what is written has left, or at once."""

    flush: bool


class StillUsed(NamedTuple):
    """Say that it goes on."""


class Lost(NamedTuple):
    """Tell everybody who was made welcome that it has ended, and why."""

    error: PulsarException
