"""One connection of a client: frames in, commands to their handlers, commands out.

What a command means is its handler's business, one file for each family of commands; the table of them comes with the
surroundings. What holds for all is here: nothing but CONNECT before a connection is accepted, an answer for whatever
the model refuses, and the end of the connection for bytes that make no sense, for a client that does not answer a PING,
and for a bug of ours, which is logged.

A command passes two gates at which scripted faults may meet it, one on its way in and one on its way out.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from google.protobuf.message import Message

from pulsar_actors.broker.log import LOG
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.session.answers import refusal_of
from pulsar_actors.broker.session.directory import Node
from pulsar_actors.broker.session.fault_actions import Side
from pulsar_actors.broker.session.gate import Gate
from pulsar_actors.broker.session.outgoing import Outgoing
from pulsar_actors.broker.session.surroundings import Handler, Surroundings
from pulsar_actors.broker.tokens import Identity
from pulsar_actors.exceptions import InvalidTopicName
from pulsar_actors.runtime.loop import Buffer, Transport
from pulsar_actors.wire.commands import CARRIERS, decode_command, encode_command
from pulsar_actors.wire.errors import BadCommand, FrameError
from pulsar_actors.wire.frames import Frame, FrameReader, encode_payload_command, frame_limit
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAuthResponse,
    CommandConnect,
    CommandPing,
    CommandPong,
    FeatureFlags,
    ServerError,
)

__all__ = ["Attached", "Session"]

_FIRST = frozenset({CommandConnect, CommandAuthResponse, CommandPing, CommandPong})
"""What a client may say before it is accepted."""


class Attached(NamedTuple):
    """A consumer, and the partition that the ids of its messages name: -1 where the topic is none."""

    consumer: Consumer
    partition: int


class Session:
    """One connection, from its first byte to its end."""

    __slots__ = (
        "_awaits_sign",
        "_gate_in",
        "_gate_out",
        "_on_end",
        "_out",
        "_reader",
        "accepted",
        "certified_as",
        "closed",
        "closed_producers",
        "consumers",
        "features",
        "here",
        "identity",
        "node",
        "number",
        "peer",
        "producers",
        "refreshing",
        "version",
        "watchers",
    )

    certified_as: Callable[[], str | None]
    """Gives the name in the certificate that the client has shown, if it is to be trusted."""

    def __init__(self, here: Surroundings, node: Node, transport: Transport, number: int, peer: str) -> None:
        self.here = here
        self.node = node
        self.number = number
        self.peer = peer
        self.certified_as = _nobody
        self.accepted = False
        self.closed = False
        self.version = ""  # what the client calls itself
        self.features = FeatureFlags()
        self.identity: Identity | None = None
        self.refreshing = False  # fresh credentials were asked for
        self.producers: dict[int, Producer] = {}
        self.closed_producers: set[int] = set()  # by the broker: what comes for them was on its way
        self.consumers: dict[int, Attached] = {}
        self.watchers: dict[int, Callable[[], None]] = {}
        self._out = Outgoing(here.loop, transport, self._resume)
        self._reader = FrameReader(frame_limit(here.cluster.settings.max_message_size))
        self._gate_in = Gate(here.loop, here.faults, self, Side.CLIENT, self._let_in)
        self._gate_out = Gate(here.loop, here.faults, self, Side.BROKER, self._put)
        self._on_end: list[Callable[[Session], object]] = []
        self._awaits_sign = False
        here.loop.later(here.keepalive, self._keep_alive, None)

    def __str__(self) -> str:
        return f"connection {self.number} from {self.peer}"

    def at_end(self, function: Callable[["Session"], object]) -> None:
        """Call it when the connection has ended."""
        self._on_end.append(function)

    # What the transport says.

    def opened(self) -> None:
        """Hear nothing: an accepted connection is open from the start."""

    def received(self, data: bytes) -> None:
        """Cut what came into frames, and take each."""
        self._awaits_sign = False
        trouble: FrameError | None = None
        try:
            frames = self._reader.feed(data)
        except FrameError as fault:
            frames, trouble = self._reader.frames_before_fault, fault
        for frame in frames:
            if self.closed:
                return
            self._take(frame)
        if trouble is not None:
            self.close(str(trouble))

    def writable(self) -> None:
        """Write on."""
        self._out.writable()

    def lost(self, reason: str) -> None:
        """Let go of all that the client had here."""
        self._end(reason)

    # What handlers do.

    def send(self, command: Message, entry: Sequence[Buffer] = ()) -> None:
        """Send the client a command, and the entry that belongs to it."""
        if self._gate_out.is_idle:
            self._put(command, entry)
        else:
            self._gate_out.take(command, entry)

    def reply(self, command: Message) -> None:
        """Send it past the gate: it is a fault's own answer."""
        self._put(command, ())

    def refuse(self, command: Message, refusal: Refusal) -> None:
        """Answer a command with a refusal, in the form that it has for this command."""
        code = ServerError.Name(refusal.code)
        LOG.info("a %s of %s is refused with %s: %s", type(command).__name__, self, code, refusal.reason)
        answer = refusal_of(command, refusal.code, refusal.reason)
        if answer is not None:
            self.send(answer)

    def has_room(self) -> bool:
        """Tell whether messages may be sent; consumers that were told no are resumed in time."""
        return self._out.has_room()

    def close(self, reason: str) -> None:
        """End the connection at once."""
        if not self.closed:
            self._out.close()
            self._end(reason)

    def close_when_sent(self, reason: str) -> None:
        """End the connection when the last words have left."""
        self._out.close_when_sent()
        self._end(reason)

    def release(self) -> None:
        """Let everything go on that a fault has stalled."""
        self._gate_in.release()
        self._gate_out.release()

    # The rest.

    def _take(self, frame: Frame) -> None:
        try:
            command = decode_command(frame.command)
        except BadCommand as fault:
            self.close(str(fault))
            return
        if self._gate_in.is_idle:
            self._handle(command, frame.rest)
        else:
            self._gate_in.take(command, (frame.rest,))

    def _let_in(self, command: Message, entry: Sequence[Buffer]) -> None:
        self._handle(command, memoryview(entry[0]))

    def _handle(self, command: Message, rest: memoryview) -> None:
        if self.closed:
            return
        kind = type(command)
        handler = self.here.handlers.get(kind)
        if handler is None:
            self.close(f"{kind.__name__} is not for a broker")
        elif not self.accepted and kind not in _FIRST:
            self.close(f"{kind.__name__} before CONNECT")
        else:
            self._call(handler, command, rest)

    def _call(self, handler: Handler, command: Message, rest: memoryview) -> None:
        try:
            handler(self, command, rest)
        except Refusal as refusal:
            self.refuse(command, refusal)
        except InvalidTopicName as fault:
            self.refuse(command, Refusal(ServerError.InvalidTopicName, str(fault)))
        except Exception:  # noqa: BLE001 - a bug, whatever it is, costs the connection that met it and no other
            LOG.exception("the broker cannot handle a %s of %s", type(command).__name__, self)
            self.close("a bug of the broker")

    def _put(self, command: Message, entry: Sequence[Buffer]) -> None:
        if self.closed:
            return
        if self._out.is_overfull():  # the end is told later: the model may be in the middle of a round of deliveries
            self.here.loop.post(self.close, "the client does not read its answers")
            return
        if type(command) in CARRIERS:
            self._out.put(encode_payload_command(command, *entry))  # type: ignore[arg-type] # nobody writes a bytearray
        else:
            self._out.put((encode_command(command),))

    def _resume(self) -> None:
        for attached in list(self.consumers.values()):
            attached.consumer.resume()

    def _keep_alive(self, _: None) -> None:
        """Ask for a sign of life after each interval, and end what gave none in the last one."""
        if self.closed:
            return
        if not self.accepted:
            self.close("no CONNECT in time")
        elif self._awaits_sign:
            self.close("the client does not answer PING")
        else:
            self.send(CommandPing())
            self._awaits_sign = True
            self.here.loop.later(self.here.keepalive, self._keep_alive, None)

    def _end(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        LOG.info("%s has ended: %s", self, reason)
        producers, consumers = list(self.producers.values()), list(self.consumers.values())
        self.producers.clear()
        self.consumers.clear()
        for producer in producers:
            producer.close()
        for attached in consumers:
            attached.consumer.close()
        for stop in self.watchers.values():
            stop()
        for function in self._on_end:
            function(self)


def _nobody() -> None:
    """Answer for a client whose connection shows no certificate."""
