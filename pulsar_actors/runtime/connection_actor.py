"""The actor of one connection: between a socket, a machine, and the producers and consumers that share them.

It reads commands and turns them into the machine's events; it routes what is meant for producers and consumers, all of
one read in one message each. The machine decides everything else.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from google.protobuf.message import Message

from pulsar_actors.exceptions import AlreadyClosed, BrokerRefusal, ConnectionLost, InternalError, PulsarException
from pulsar_actors.machines.connection import Connection
from pulsar_actors.machines.connection_events import (
    AllowFrames,
    Answered,
    Arrived,
    Ask,
    CloseSocket,
    CredentialsFailed,
    CredentialsFetched,
    CredentialsJudged,
    FetchCredentials,
    Join,
    Leave,
    Lost,
    OpenSocket,
    Reply,
    Route,
    SocketLost,
    StartTls,
    StillUsed,
    TurnAway,
    Unawaited,
    Welcome,
    Write,
    WriteParcels,
)
from pulsar_actors.machines.connection_settings import ConnectionSettings
from pulsar_actors.runtime.actor import Address, Died, MachineActor, tell
from pulsar_actors.runtime.addressees import ANSWERS, CONTROL, TO_MEMBERS, addressee
from pulsar_actors.runtime.http import Http
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import Bound, Heard, Member, Replied, Token, Unbound
from pulsar_actors.runtime.oddities import Oddities
from pulsar_actors.runtime.socket_actor import Frames, FromSocket, MakeContext, SocketActor, WriteOut
from pulsar_actors.runtime.write_queue import Bytes
from pulsar_actors.wire.commands import encode_command

Credentials = tuple[str, bytes]
FetchFrom = Callable[[bytes | None], Credentials]
Judge = Callable[[bool], object]


class Entrance(NamedTuple):
    """What a connection needs of the world: credentials, TLS, and HTTP for those who ask about topics that way.

    `judge` is told whether credentials were accepted. It is called on a loop, or off it.
    """

    fetch_credentials: FetchFrom
    make_context: MakeContext
    http: Http
    judge: Judge = lambda _: None


class Used(NamedTuple):
    """To the guardian: the connection goes on."""

    connection: Address


class Gone(NamedTuple):
    """To the guardian: the connection has ended, and is of no use to anybody."""

    connection: Address


class Buried(NamedTuple):
    """To the guardian: nothing is left of the connection, its socket included."""

    connection: Address


class ConnectionActor(MachineActor[Connection]):
    """One connection."""

    def __init__(self, loop: Loop, guardian: Address, settings: ConnectionSettings, entrance: Entrance) -> None:
        super().__init__(loop, guardian)
        self.machine = Connection(settings)
        self._settings = settings
        self._entrance = entrance
        self._sockets = 0
        self._peer = "no host yet"
        self._oddities = Oddities()
        self._socket: Address | None = None
        self._members: dict[tuple[str, int], Member] = {}

    def receive(self, message: object) -> None:
        """Take what a socket, a producer or a consumer says."""
        match message:
            case FromSocket(serial, event):
                if serial == self._sockets:
                    self._hear(event)
            case Died(who, bug):
                if who is self._socket:
                    self.feed(SocketLost(str(bug)))
            case Leave(Member() as member):
                self._part_with(member)
            case _:
                self.feed(message)

    def abandon(self, bug: InternalError) -> None:
        """Have everybody connect again, and answer what was asked."""
        if self._socket is not None:
            tell(self._socket, CloseSocket(flush=False))
        tokens, joining = self.machine.abandon()
        for token in tokens:
            self._reply(Reply(token, bug))
        for member in joining:
            self._turn_away(TurnAway(member, bug))
        self._lose(Lost(ConnectionLost(str(bug))))

    def missed(self, message: object) -> None:
        """Answer whoever still counts on the connection."""
        error = ConnectionLost("the connection has ended")
        match message:
            case Ask(_, Token() as token):
                tell(token.address, Replied(token.question, error))
            case Join(Member() as member):
                tell(member.address, Unbound(member.number, error))
            case _:
                pass

    def over(self) -> None:
        """Go: nothing is left to do."""
        if not self.actor_stopped.is_set():
            self.tell_guardian(Buried(self.actor_ref))
            self.finish()

    def _hear(self, event: object) -> None:
        if not isinstance(event, Frames):
            self.feed(event)
            return
        spoken: list[tuple[Message, memoryview]] = []
        for arrived in self._oddities.commands(event.frames, self._peer):
            command = arrived[0]
            if type(command) in TO_MEMBERS:
                spoken.append(arrived)
                continue
            if spoken:
                self.feed(Arrived(tuple(spoken)))
                spoken = []
            self._hear_control(command)
        if spoken:
            self.feed(Arrived(tuple(spoken)))

    def _hear_control(self, command: Message) -> None:
        kind = type(command)
        if kind in CONTROL:
            self.feed(CONTROL[kind](command))
        elif kind in ANSWERS:
            self.feed(Answered(command))
        else:
            self._oddities.unexpected(command, self._peer)

    def _part_with(self, member: Member) -> None:
        if self._members.get((member.kind, member.id)) == member:
            del self._members[member.kind, member.id]
        self.feed(Leave(member))

    # One method for each effect.

    def _open_socket(self, effect: OpenSocket) -> None:
        self._sockets += 1
        self._peer = f"{effect.host}:{effect.port}"
        make_context = self._entrance.make_context
        self._socket = SocketActor.start(self.loop, self.actor_ref, self._sockets, make_context, effect)

    def _allow_frames(self, effect: AllowFrames) -> None:
        LOG.info("connected to %s", self._peer)
        self._to_socket(effect)

    def _to_socket(self, effect: object) -> None:
        if self._socket is not None:
            tell(self._socket, effect)

    def _close_socket(self, effect: CloseSocket) -> None:
        self._to_socket(effect)
        if not effect.flush:
            self._socket = None

    def _write(self, effect: Write) -> None:
        self._to_socket(WriteOut((Bytes(encode_command(effect.command)),)))

    def _write_parcels(self, effect: WriteParcels) -> None:
        self._to_socket(WriteOut(effect.parcels))

    def _fetch_credentials(self, effect: FetchCredentials) -> None:
        fetch = self._entrance.fetch_credentials
        timeout = self._settings.handshake_timeout
        self.off_loop(lambda: fetch(effect.challenge), self._fetched, timeout=timeout, helper="credentials")

    def _fetched(self, fetched: Credentials | Exception) -> None:
        if isinstance(fetched, Exception):
            self.feed(CredentialsFailed(f"no credentials could be had: {_why(fetched)}"))
        else:
            self.feed(CredentialsFetched(*fetched))

    def _judge_credentials(self, effect: CredentialsJudged) -> None:
        self._entrance.judge(effect.accepted)

    def _welcome(self, effect: Welcome) -> None:
        member = effect.member
        assert isinstance(member, Member)  # noqa: S101 - nobody else joins
        self._members[member.kind, member.id] = member
        connected = effect.command
        can_watch = connected.feature_flags.supports_topic_watchers
        tell(member.address, Bound(member.number, self.actor_ref, connected.max_message_size, can_watch))

    def _turn_away(self, effect: TurnAway) -> None:
        member = effect.member
        assert isinstance(member, Member)  # noqa: S101 - nobody else joins
        tell(member.address, Unbound(member.number, effect.error))

    def _reply(self, effect: Reply) -> None:
        token = effect.token
        assert isinstance(token, Token)  # noqa: S101 - nobody else asks
        tell(token.address, Replied(token.question, effect.answer))

    def _route(self, effect: Route) -> None:
        heard: dict[tuple[str, int], list[tuple[Message, memoryview]]] = {}
        for spoken in effect.frames:
            heard.setdefault(addressee(spoken[0]), []).append(spoken)
        for whom, commands in heard.items():
            member = self._members.get(whom)
            if member is not None:
                tell(member.address, Heard(member.number, tuple(commands)))
                continue
            for command, _ in commands:
                self._oddities.unaddressed(command, self._peer)

    def _lose(self, effect: Lost) -> None:
        if isinstance(effect.error, AlreadyClosed):
            LOG.info("the connection to %s is closed", self._peer)
        else:
            LOG.warning("%s (%s)", effect.error, self._peer)
        members, self._members = self._members, {}
        for member in members.values():
            tell(member.address, Unbound(member.number, effect.error))
        self.tell_guardian(Gone(self.actor_ref))

    def _say_used(self, effect: StillUsed) -> None:
        self.tell_guardian(Used(self.actor_ref))

    def _note_unawaited(self, effect: Unawaited) -> None:
        self._oddities.unawaited(effect.command, self._peer)

    PERFORMS: ClassVar = {
        OpenSocket: _open_socket,
        StartTls: _to_socket,
        AllowFrames: _allow_frames,
        CloseSocket: _close_socket,
        Write: _write,
        WriteParcels: _write_parcels,
        FetchCredentials: _fetch_credentials,
        CredentialsJudged: _judge_credentials,
        Welcome: _welcome,
        TurnAway: _turn_away,
        Reply: _reply,
        Route: _route,
        StillUsed: _say_used,
        Unawaited: _note_unawaited,
        Lost: _lose,
    }


def _why(fault: Exception) -> str:
    """Say what came in the place of credentials; whose code raised it knows it by its class as well."""
    if isinstance(fault, BrokerRefusal):
        return fault.reason or fault.code
    is_ours = isinstance(fault, (PulsarException, TimeoutError))
    return str(fault) if is_ours else f"{type(fault).__name__}: {fault}"
