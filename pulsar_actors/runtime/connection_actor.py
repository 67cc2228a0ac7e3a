"""The actor of one connection to a broker, between its socket and the producers, consumers and lookups that use it.

It decodes the frames of each read into commands. Commands for the connection itself and answers to requests become
events of the machine. Commands for producers, consumers and topic list watchers are routed by id; each of these gets
all its commands of one read in one message. The machine decides everything else.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

from google.protobuf.message import Message

from pulsar_actors.exceptions import AlreadyClosed, BrokerRefusal, ConnectionLost, InternalError, PulsarException
from pulsar_actors.machines.connection import ConnectionMachine
from pulsar_actors.machines.connection_commands import TO_HANDLERS, event_of, handler_key
from pulsar_actors.machines.connection_events import (
    AllowFrames,
    Arrived,
    AwaitActivity,
    CloseSocket,
    ConnectionSettings,
    CredentialsFailed,
    CredentialsFetched,
    CredentialsJudged,
    FetchCredentials,
    GiveReply,
    HandlerAccepted,
    HandlerRejected,
    NotifyConnectionLost,
    OpenSocket,
    RegisterHandler,
    RouteFrames,
    SendRequest,
    SocketLost,
    StartTls,
    StillUsed,
    TcpOpened,
    Unawaited,
    WriteCommand,
    WriteFrames,
)
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorDied, ActorRef, MachineActor, tell
from pulsar_actors.runtime.http_client import HttpClient
from pulsar_actors.runtime.log import LOG, Fields
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.messages import (
    CommandsReceived,
    ConnectionReady,
    ConnectionUnavailable,
    HandlerRef,
    ReplyTo,
    RequestAnswered,
)
from pulsar_actors.runtime.observer import ClientObserver
from pulsar_actors.runtime.socket_actor import FramesReceived, MakeTlsContext, SocketActor, SocketEvent
from pulsar_actors.runtime.transport import EncodedBytes
from pulsar_actors.wire.errors import BadCommand, UnknownEnumValue
from pulsar_actors.wire.frames import Frame, decode_command, encode_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandError,
)

Credentials = tuple[str, bytes]
"""The name of the authentication method, and its data."""


class ServiceAccess(NamedTuple):
    """Access to one service: credentials, TLS, and an HTTP client for lookups over HTTP.

    `report_verdict` is called, from any thread, with True if a broker accepted the credentials and False if it refused
    them.
    """

    fetch_credentials: Callable[[bytes | None], Credentials]
    make_context: MakeTlsContext
    http: HttpClient
    report_verdict: Callable[[bool], object] = lambda _: None


class ServiceAnswered(NamedTuple):
    """To the guardian: a broker of the service has accepted or refused the client: this host and port."""

    connection: ActorRef
    host: tuple[str, int]


class ConnectionInUse(NamedTuple):
    """To the guardian: the connection has users and stays open."""

    connection: ActorRef


class ConnectionUnusable(NamedTuple):
    """To the guardian: the connection has ended."""

    connection: ActorRef


class ConnectionEnded(NamedTuple):
    """To the guardian: the connection's socket has ended too."""

    connection: ActorRef


class ConnectionActor(MachineActor[ConnectionMachine]):
    """The actor of one connection.

    `_handlers` are the producers, consumers and watchers registered with the machine.
    """

    def __init__(
        self,
        loop: Loop,
        guardian: ActorRef,
        settings: ConnectionSettings,
        access: ServiceAccess,
        observer: ClientObserver | None = None,
    ) -> None:
        super().__init__(loop, guardian)
        self._observer = observer
        self._was_accepted = False
        self.machine = ConnectionMachine(settings)
        self._settings = settings
        self._access = access
        self._socket_serial = 0
        self._socket: ActorRef | None = None
        self._host = ("", 0)
        self._peer = "no host yet"
        self._warnings = ProtocolWarnings()
        self._handlers: Mapping[tuple[str, int], HandlerRef] = self.machine.handlers.by_id

    def __str__(self) -> str:
        return f"the connection to {self._peer}"

    def log_fields(self) -> Fields:
        """Return the address that is dialled."""
        return {"pulsar_broker": self._peer}

    def receive(self, message: object) -> None:
        """Take events of the socket, and events of the machine from the connection's users."""
        if type(message) is SocketEvent:  # a frequent one: `match` would look up its fields by name
            if message.serial == self._socket_serial:
                event = message.event
                if isinstance(event, FramesReceived):
                    self._receive_frames(event.frames)
                else:
                    self.feed(event)
        elif isinstance(message, ActorDied):
            if message.who is self._socket:
                self.feed(SocketLost(str(message.bug)))
        else:
            self.feed(message)

    def abandon(self, bug: InternalError) -> None:
        """Fail all requests, and tell all users that the connection is lost: they connect again."""
        if self._socket is not None:
            tell(self._socket, CloseSocket(flush=False))
        for effect in self.machine.abandon(bug):
            self.PERFORMS[type(effect)](self, effect)

    def missed(self, message: object) -> None:
        """Answer requests and registrations that come after the end."""
        error = ConnectionLost("the connection has ended")
        match message:
            case SendRequest(_, ReplyTo() as token):
                tell(token.address, RequestAnswered(token.request, error))
            case RegisterHandler(HandlerRef() as handler):
                tell(handler.address, ConnectionUnavailable(handler.number, error))
            case _:
                pass

    def over(self) -> None:
        """End the actor."""
        if not self.actor_stopped.is_set():
            if self._observer is not None:
                self._observe_end(self._observer)
            self.tell_guardian(ConnectionEnded(self.actor_ref))
            self.finish()

    def _observe_end(self, observer: ClientObserver) -> None:
        if self._was_accepted:
            observer.connection_closed()
        else:
            changes = self.machine.history.changes()
            observer.connection_failed(at_tcp=all(change.step.row.trigger is not TcpOpened for change in changes))

    # Commands of the broker.

    def _receive_frames(self, frames: list[Frame]) -> None:
        """Decode the frames of one read. Consecutive commands for producers and consumers are one event."""
        routed: list[tuple[Message, bytes]] = []
        for data, rest in frames:
            try:
                command = decode_command(data)
            except BadCommand as fault:
                known = self._known_part(fault)
                if known is None:
                    continue
                command = known
            if type(command) in TO_HANDLERS:
                routed.append((command, rest))
                continue
            if routed:
                self.feed(Arrived(tuple(routed)))
                routed = []
            self._receive_command(command)
        if routed:
            self.feed(Arrived(tuple(routed)))

    def _known_part(self, fault: BadCommand) -> Message | None:
        """Return a command of a newer protocol as far as it is known. Any other is skipped; the connection goes on."""
        if isinstance(fault, UnknownEnumValue):
            self._warnings.newer(fault, self._peer)
            return fault.command
        self._warnings.undecodable(fault, self._peer)
        return None

    def _receive_command(self, command: Message) -> None:
        event = event_of(command)
        if event is None:
            self._warnings.unexpected(command, self._peer)
        else:
            self.feed(event)

    def _route(self, effect: RouteFrames) -> None:
        by_handler: dict[tuple[str, int], list[tuple[Message, bytes]]] = {}
        for received in effect.frames:
            key = handler_key(received[0])
            if key in by_handler:
                by_handler[key].append(received)
            else:
                by_handler[key] = [received]
        for key, commands in by_handler.items():
            handler = self._handlers.get(key)
            if handler is not None:
                tell(handler.address, CommandsReceived(handler.number, tuple(commands)))
                continue
            for command, _ in commands:
                self._warnings.unaddressed(command, self._peer)

    # The other effects.

    def _open_socket(self, effect: OpenSocket) -> None:
        self._socket_serial += 1
        self._host = (effect.host, effect.port)
        self._peer = f"{effect.host}:{effect.port}"
        make_context = self._access.make_context
        self._socket = SocketActor.start(self.loop, self.actor_ref, self._socket_serial, make_context, effect)

    def _to_socket(self, effect: object) -> None:
        if self._socket is not None:
            tell(self._socket, effect)

    def _allow_frames(self, effect: AllowFrames) -> None:
        LOG.info("connected to %s", self._peer, about=self.log_fields())
        self._was_accepted = True
        if self._observer is not None:
            self._observer.connection_opened()
        self._to_socket(effect)

    def _write_command(self, effect: WriteCommand) -> None:
        self._to_socket(WriteFrames((EncodedBytes(encode_command(effect.command)),)))

    def _close_socket(self, effect: CloseSocket) -> None:
        self._to_socket(effect)
        if not effect.flush:
            self._socket = None

    def _fetch_credentials(self, effect: FetchCredentials) -> None:
        fetch = self._access.fetch_credentials
        timeout = self._settings.handshake_timeout
        self.run_blocking(
            lambda: fetch(effect.challenge), self._credentials_fetched, timeout=timeout, executor="credentials"
        )

    def _credentials_fetched(self, fetched: Credentials | Exception) -> None:
        if isinstance(fetched, Exception):
            self.feed(CredentialsFailed(f"no credentials could be had: {_credentials_error(fetched)}"))
        else:
            self.feed(CredentialsFetched(*fetched))

    def _report_verdict(self, effect: CredentialsJudged) -> None:
        self.tell_guardian(ServiceAnswered(self.actor_ref, self._host))
        self._access.report_verdict(effect.accepted)

    def _accept_handler(self, effect: HandlerAccepted) -> None:
        handler = effect.handler
        assert isinstance(handler, HandlerRef)  # noqa: S101 - the only handlers that register
        ready = ConnectionReady(handler.number, self.actor_ref, effect.max_message_size, effect.can_watch)
        tell(handler.address, ready)

    def _reject_handler(self, effect: HandlerRejected) -> None:
        handler = effect.handler
        assert isinstance(handler, HandlerRef)  # noqa: S101 - the only handlers that register
        tell(handler.address, ConnectionUnavailable(handler.number, effect.error))

    def _reply(self, effect: GiveReply) -> None:
        token = effect.token
        assert isinstance(token, ReplyTo)  # noqa: S101 - the only token of requests
        tell(token.address, RequestAnswered(token.request, effect.answer))

    def _note_unawaited(self, effect: Unawaited) -> None:
        self._warnings.unawaited(effect.command, self._peer)

    def _report_used(self, effect: StillUsed) -> None:
        self.tell_guardian(ConnectionInUse(self.actor_ref))

    def _notify_lost(self, effect: NotifyConnectionLost) -> None:
        if isinstance(effect.error, AlreadyClosed):
            LOG.info("the connection to %s is closed", self._peer, about=self.log_fields())
        else:
            LOG.warning("%s (%s)", effect.error, self._peer, about=self.log_fields())
        self.tell_guardian(ConnectionUnusable(self.actor_ref))

    PERFORMS: ClassVar = {
        OpenSocket: _open_socket,
        StartTls: _to_socket,
        AllowFrames: _allow_frames,
        AwaitActivity: _to_socket,
        CloseSocket: _close_socket,
        WriteCommand: _write_command,
        WriteFrames: _to_socket,
        FetchCredentials: _fetch_credentials,
        CredentialsJudged: _report_verdict,
        HandlerAccepted: _accept_handler,
        HandlerRejected: _reject_handler,
        GiveReply: _reply,
        RouteFrames: _route,
        StillUsed: _report_used,
        Unawaited: _note_unawaited,
        NotifyConnectionLost: _notify_lost,
    }


def _credentials_error(fault: Exception) -> str:
    """Describe why there are no credentials. An error of the user's own code is named by its class as well."""
    if isinstance(fault, BrokerRefusal):
        return fault.reason or fault.code
    is_ours = isinstance(fault, (PulsarException, TimeoutError))
    return str(fault) if is_ours else f"{type(fault).__name__}: {fault}"


_ONCE = "%s (%s; further ones are not logged)"


class ProtocolWarnings:
    """Warnings about commands that are ignored: one line for each kind of fault and class of command.

    A faulty or newer broker may send such a command with every message. They do no harm, so the connection goes on, and
    a line for each would fill the log. A connection remembers the classes of commands, of which there are few.
    """

    __slots__ = ("_warned",)

    def __init__(self) -> None:
        self._warned: set[tuple[str, type]] = set()

    def newer(self, fault: UnknownEnumValue, peer: str) -> None:
        """Log a command with an enum value that this client does not know."""
        self._warn("newer", fault, f"a command of a newer protocol was read as far as possible: {fault}", peer)

    def undecodable(self, fault: BadCommand, peer: str) -> None:
        """Log a command that cannot be decoded."""
        self._warn("bad", fault, f"a command was ignored: {fault}", peer)

    def unexpected(self, command: Message, peer: str) -> None:
        """Log a command that only clients send, or that this client does not know."""
        self._warn("unexpected", command, f"a command that no broker sends was ignored: {_command_name(command)}", peer)

    def unawaited(self, command: Message, peer: str) -> None:
        """Log an answer that is repeated, late, or belongs to no request."""
        if isinstance(command, CommandError):
            text = f"the broker reports an error that answers nothing: {command.message!r:.200}"
            self._warn("unawaited", command, text, peer)
        elif self._is_first("unawaited", command):
            LOG.info(_ONCE, f"an answer to no pending request was ignored: {_command_name(command)}", peer)

    def unaddressed(self, command: Message, peer: str) -> None:
        """Log a command for a producer or consumer that is not registered here. After a close this is normal."""
        if self._is_first("unaddressed", command):
            LOG.info(
                _ONCE,
                f"{_command_name(command)} is for no producer or consumer of this connection, and was ignored",
                peer,
            )

    def _warn(self, kind: str, thing: object, text: str, peer: str) -> None:
        if self._is_first(kind, thing):
            LOG.warning(_ONCE, text, peer, about={"pulsar_broker": peer})

    def _is_first(self, kind: str, thing: object) -> bool:
        warned = (kind, type(thing))
        if warned in self._warned:
            return False
        self._warned.add(warned)
        return True


def _command_name(command: Message) -> str:
    return type(command).__name__
