"""One connection of a client: frames in, commands to their handlers, commands out.

Each family of commands has its own file of handlers; `SessionContext.handlers` is the table of them. A session does
what all commands need: it answers refusals of the model, and it ends the connection after invalid bytes and after a bug
of ours, which is logged. `lifecycle.py` decides which clients are accepted, which commands may come before that, and
when the connection of a silent client, or of one whose token has expired, ends.

Scripted faults apply to commands of the client and to commands of the broker.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from google.protobuf.message import Message

from pulsar_actors.broker.fault_rules import Side
from pulsar_actors.broker.faults import Faults
from pulsar_actors.broker.log import LOG
from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.session.answers import refusal_answer
from pulsar_actors.broker.session.directory import Directory, Node
from pulsar_actors.broker.session.fault_injection import FaultInjector
from pulsar_actors.broker.session.lifecycle import (
    AcceptClient,
    CommandBeforeAccepted,
    EndSession,
    RefuseCredentials,
    SendToClient,
    SessionEnded,
    SessionLifecycle,
    SessionOpened,
)
from pulsar_actors.broker.session.write_queue import SessionWriteQueue
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.exceptions import InternalError, InvalidTopicName
from pulsar_actors.machines.chart import Effect, Event
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.loop import Buffer, Loop, Transport
from pulsar_actors.wire.errors import BadCommand, FrameError, excerpt
from pulsar_actors.wire.frames import (
    CARRIERS,
    Frame,
    FrameReader,
    decode_command,
    encode_command,
    encode_payload_command,
    frame_limit,
)
from pulsar_actors.wire.protobuf import as_bytes
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConnect,
    FeatureFlags,
    ServerError,
)

__all__ = ["AttachedConsumer", "AttachedProducer", "CommandHandler", "CommandHandlers", "Session", "SessionContext"]


CommandHandler: TypeAlias = Callable[[Any, Any, bytes], object]
"""A function of the session, the command, and the bytes after the command."""

CommandHandlers: TypeAlias = Mapping[type[Message], CommandHandler]


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Shared by all connections of a broker.

    `certificates` is true if a client may prove its name with a certificate, `keepalive` is in seconds. With neither
    `tokens` nor `passwords` nor `certificates` the broker accepts every client.
    """

    loop: Loop
    cluster: Cluster
    directory: Directory
    faults: Faults
    handlers: CommandHandlers
    tokens: Tokens | None
    passwords: Mapping[str, str] | None = field(repr=False)
    certificates: bool
    keepalive: float
    broker_entry_metadata: bool


class AttachedConsumer(NamedTuple):
    """A consumer, its subscription, and the partition in the ids of its messages (-1 for a topic without)."""

    consumer: Consumer
    subscription: Subscription
    partition: int


class AttachedProducer(NamedTuple):
    """A producer, and its topic."""

    producer: Producer
    topic: Topic


class Session:
    """One connection, from its first byte to its end.

    `certificate_name` returns the name in the client's certificate; None if the client showed none that the broker
    trusts.
    """

    __slots__ = (
        "_inbound_faults",
        "_on_closed",
        "_out",
        "_outbound_faults",
        "_reader",
        "certificate_name",
        "closed",
        "closed_producers",
        "consumers",
        "context",
        "features",
        "lifecycle",
        "node",
        "number",
        "peer",
        "producers",
        "version",
        "watchers",
    )

    def __init__(  # noqa: PLR0913 - what the listener knows of a new connection
        self,
        context: SessionContext,
        node: Node,
        transport: Transport,
        number: int,
        peer: str,
        *,
        on_closed: Callable[["Session"], object],
        certificate_name: Callable[[], str | None],
    ) -> None:
        self.context = context
        self.node = node
        self.number = number
        self.peer = peer
        self.certificate_name = certificate_name
        self._on_closed = on_closed
        self.closed = False
        self.version = ""  # the client's version text
        self.features = FeatureFlags()
        self.producers: dict[int, AttachedProducer] = {}
        self.closed_producers: set[int] = set()  # producers that the broker has closed: their messages are ignored
        self.consumers: dict[int, AttachedConsumer] = {}
        self.watchers: dict[int, Callable[[], None]] = {}
        self._out = SessionWriteQueue(context.loop, transport, self._resume)
        self._reader = FrameReader(frame_limit(context.cluster.settings.max_message_size))
        self._inbound_faults = FaultInjector(context.loop, context.faults, self, Side.CLIENT, self._handle_injected)
        self._outbound_faults = FaultInjector(context.loop, context.faults, self, Side.BROKER, self._write)
        self.lifecycle = SessionLifecycle(context.cluster.settings, context.keepalive)
        self.decide(SessionOpened())

    def __str__(self) -> str:
        return f"connection {self.number} from {self.peer}"

    # For the transport.

    def opened(self) -> None:
        """Do nothing: an accepted connection is open from the start."""

    def received(self, data: bytes) -> None:
        """Cut the bytes into frames, and handle each."""
        self.lifecycle.note_bytes()
        trouble: FrameError | None = None
        try:
            frames = self._reader.feed(data)
        except FrameError as fault:
            frames, trouble = self._reader.frames_before_fault, fault
        for frame in frames:
            if self.closed:
                return
            self._handle_frame(frame)
        if trouble is not None:
            self.close(str(trouble))

    def writable(self) -> None:
        """Send more of the queued answers."""
        self._out.writable()

    def lost(self, reason: str) -> None:
        """Close the producers and consumers of the client."""
        self._end(reason)

    # For handlers.

    def decide(self, event: Event) -> None:
        """Feed the state chart an event, and perform its effects."""
        for effect in self.lifecycle.handle(event, self.context.loop.now()):
            self._perform(effect)

    def send(self, command: Message, entry: Sequence[Buffer] = ()) -> None:
        """Send the client a command and the entry after it, unless a fault applies to it."""
        if self._outbound_faults.is_idle:
            self._write(command, entry)
        else:
            self._outbound_faults.take(command, entry)

    def reply(self, command: Message) -> None:
        """Send the answer of a fault. No other fault applies to it."""
        self._write(command, ())

    def refuse(self, command: Message, refusal: Refusal) -> None:
        """Answer a command with a refusal, in the form that this command has for it."""
        code = ServerError.Name(refusal.code)
        LOG.info("a %s of %s is refused with %s: %s", type(command).__name__, self, code, refusal.reason)
        answer = refusal_answer(command, refusal.code, refusal.reason)
        if answer is not None:
            self.send(answer)

    def has_room(self) -> bool:
        """Return whether messages may be sent; if not, all consumers are resumed when there is room again."""
        return self._out.has_room()

    def close(self, reason: str) -> None:
        """End the connection at once."""
        if not self.closed:
            self._out.close()
            self._end(reason)

    def release(self) -> None:
        """Handle and send the commands that a fault has stalled."""
        self._inbound_faults.release()
        self._outbound_faults.release()

    def _handle_frame(self, frame: Frame) -> None:
        try:
            command = decode_command(frame.command)
        except BadCommand as fault:
            self.close(str(fault))
            return
        if self._inbound_faults.is_idle:
            self._handle(command, frame.rest)
        else:
            self._inbound_faults.take(command, (frame.rest,))

    def _handle_injected(self, command: Message, entry: Sequence[Buffer]) -> None:
        self._handle(command, as_bytes(entry[0]))

    def _handle(self, command: Message, rest: bytes) -> None:
        if self.closed:
            return
        kind = type(command)
        handler = self.context.handlers.get(kind)
        if handler is None:
            self.close(f"{kind.__name__} is not for a broker")
            return
        if self.lifecycle.awaits_connect:
            self.decide(CommandBeforeAccepted(kind))
        if not self.closed:
            self._call(handler, command, rest)

    def _call(self, handler: CommandHandler, command: Message, rest: bytes) -> None:
        try:
            handler(self, command, rest)
        except Refusal as refusal:
            self.refuse(command, refusal)
        except InvalidTopicName as fault:
            self.refuse(command, Refusal(ServerError.InvalidTopicName, str(fault)))
        except Exception:  # noqa: BLE001 - a bug ends this connection, and no other
            LOG.exception("the broker cannot handle a %s of %s", type(command).__name__, self)
            self.close("a bug of the broker")

    def _write(self, command: Message, entry: Sequence[Buffer]) -> None:
        if self.closed:
            return
        if self._out.is_overfull():  # ended after this call: the model may be in the middle of deliveries
            self.context.loop.post(self.close, "the client does not read its answers")
            return
        if type(command) in CARRIERS:
            self._out.put(encode_payload_command(command, *entry))  # type: ignore[arg-type] # nobody writes a bytearray
        else:
            self._out.put((encode_command(command),))

    def _resume(self) -> None:
        for attached in list(self.consumers.values()):
            attached.subscription.resume(attached.consumer)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case SendToClient(command):
                self.send(command)
            case StartTimer(event, delay):
                self.context.loop.later(delay, self.decide, event)
            case AcceptClient(connect):
                self.version = connect.client_version
                self.features.CopyFrom(connect.feature_flags)
                LOG.info("%s is accepted: %s", self, excerpt(connect.client_version))
            case RefuseCredentials(reason):
                refusal = Refusal(ServerError.AuthenticationError, f"Failed to authenticate: {reason}")
                self.refuse(CommandConnect(), refusal)
                self._close_when_sent("its credentials were refused")
            case EndSession(reason):
                self.close(reason)
            case _:
                raise InternalError(f"no effect of a session: {effect!r}")

    def _close_when_sent(self, reason: str) -> None:
        """End the connection when the last answer is written."""
        self._out.close_when_sent()
        self._end(reason)

    def _end(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        self.decide(SessionEnded())
        LOG.info("%s has ended: %s", self, reason)
        # Those that wait leave first: none may get the topic of another one that leaves with this connection.
        producers = sorted(self.producers.values(), key=lambda each: each.producer.ready)
        consumers = list(self.consumers.values())
        self.producers.clear()
        self.consumers.clear()
        for producer, topic in producers:
            topic.remove_producer(producer)
        for consumer, subscription, _ in consumers:
            subscription.detach(consumer)
        for stop in self.watchers.values():
            stop()
        self._on_closed(self)
