"""A broker without threads and sockets: its loop is run by hand, and its clients exchange commands with it."""

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.options import BrokerOptions
from pulsar_actors.wire.entries import encode_entry
from pulsar_actors.wire.frames import CARRIERS, FrameReader, decode_command, encode_command, encode_payload_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConnect,
    CommandConnected,
    CommandError,
    CommandFlow,
    CommandMessage,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendReceipt,
    CommandSubscribe,
    CommandSuccess,
    FeatureFlags,
    MessageMetadata,
)
from tests.support.bench_loop import BenchLoop, Wire

TOPIC = "persistent://public/default/t"
NOBODY = 2**64 - 1


class Caller:
    """A client of this broker, which sends and receives commands."""

    def __init__(self, loop: BenchLoop, port: int) -> None:
        self._loop = loop
        self._reader = FrameReader(2**31)
        self.wire = Wire()
        self.owner = loop.open_ports[port](self.wire, "127.0.0.1:5")
        self.entries: list[bytes] = []
        """The bytes after the MESSAGE commands."""

    @property
    def is_closed(self) -> bool:
        return self.wire.closed

    def feed(self, data: bytes) -> list[Message]:
        """Send bytes, and return the commands that the broker sends."""
        self.owner.received(data)
        self._loop.run()
        return self.heard()

    def say(self, *commands: Message) -> list[Message]:
        """Send commands at once, and return the commands that the broker sends."""
        return self.feed(b"".join(encode_command(command) for command in commands))

    def ask(self, command: Message) -> Any:
        """Send a command, and return the one command that the broker sends."""
        (answer,) = self.say(command)
        return answer

    def refusal(self, command: Message) -> CommandError:
        """Send a command that the broker refuses."""
        error = self.ask(command)
        assert isinstance(error, CommandError), error
        return error

    def send(self, send: CommandSend, payload: bytes = b"payload", **metadata: Any) -> list[Message]:
        return self.feed(frame_of(send, payload, **metadata))

    def heard(self) -> list[Message]:
        """Return the commands since the last call."""
        data = bytes(self.wire.written)
        self.wire.written.clear()
        commands: list[Message] = []
        for frame in self._reader.feed(data):
            command = decode_command(frame.command)
            commands.append(command)
            if type(command) in CARRIERS:
                self.entries.append(frame.rest)
        return commands

    def make_room(self, room: int | None) -> list[Message]:
        """Let the broker write again."""
        self.wire.room = room
        self.wire.waiting = False
        self.owner.writable()
        self._loop.run()
        return self.heard()

    def hang_up(self) -> None:
        self.owner.lost("the client has gone")
        self._loop.run()

    def produce(self, topic: str = TOPIC, producer_id: int = 0, **fields: Any) -> CommandProducerSuccess:
        (answer,) = self.say(CommandProducer(topic=topic, producer_id=producer_id, request_id=100, **fields))
        assert isinstance(answer, CommandProducerSuccess), answer
        return answer

    def consume(self, topic: str = TOPIC, consumer_id: int = 0, permits: int = 0, **fields: Any) -> list[Message]:
        asked: dict[str, Any] = {"subscription": "s", "subType": CommandSubscribe.Exclusive, **fields}
        heard = self.say(CommandSubscribe(topic=topic, consumer_id=consumer_id, request_id=200, **asked))
        assert heard[0] == CommandSuccess(request_id=200), heard
        if permits:
            heard += self.say(CommandFlow(consumer_id=consumer_id, messagePermits=permits))
        return heard[1:]


class Bench:
    """A broker that listens on a loop that is run by hand."""

    def __init__(self, **options: Any) -> None:
        self.start(BenchLoop(), **options)

    def start(self, loop: BenchLoop, **options: Any) -> None:
        self.loop = loop
        self.broker = Broker(self.loop, BrokerOptions(**options))
        self.node = self.broker.listen()

    def call(self, node: Any = None) -> Caller:
        """Open a connection, without a CONNECT."""
        return Caller(self.loop, port_of((node or self.node).service_url))

    def client(self, node: Any = None, **connect: Any) -> Caller:
        """Open a connection that the broker has accepted."""
        caller = self.call(node)
        heard = caller.say(connect_command(**connect))
        assert [type(command) for command in heard] == [CommandConnected], heard
        return caller


def connect_command(**fields: Any) -> CommandConnect:
    said: dict[str, Any] = {
        "client_version": "bench",
        "protocol_version": 21,
        "feature_flags": FeatureFlags(supports_auth_refresh=True, supports_partial_producer=True),
        **fields,
    }
    return CommandConnect(**said)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def frame_of(send: CommandSend, payload: bytes = b"payload", **metadata: Any) -> bytes:
    fields = {"producer_name": "p", "sequence_id": send.sequence_id, "publish_time": 1, **metadata}
    return b"".join(encode_payload_command(send, *encode_entry(MessageMetadata(**fields), payload)))


def only(commands: Iterable[Message], kind: type[Message]) -> list[Any]:
    return [command for command in commands if isinstance(command, kind)]


def receipts(commands: Iterable[Message]) -> list[int]:
    return [receipt.sequence_id for receipt in only(commands, CommandSendReceipt)]


def messages(commands: Iterable[Message]) -> list[tuple[int, int]]:
    return [(each.message_id.ledgerId, each.message_id.entryId) for each in only(commands, CommandMessage)]
