"""What a client and a broker say to each other, while they do.

A tap stands between the two, and clients come to it by the service URL. They stay with it, for a broker that is alone
has them come through the address that they have; likewise a proxy.
"""

from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from google.protobuf.message import Message

from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand, MessageMetadata
from tests.real_broker.exchange import until
from tests.support.tap import Recorded, Tap

C = TypeVar("C", bound=Message)


class Said(NamedTuple):
    """One frame: who said it, over which connection, the command, and what follows it."""

    connection: int
    sender: str
    command: Any
    rest: bytes
    size: int


class Entry(NamedTuple):
    """What follows a command that carries a payload, taken apart by hand."""

    of_the_broker: bytes | None
    checksum: int
    summed: bytes
    metadata: MessageMetadata
    payload: bytes


def entry_of(rest: bytes) -> Entry:
    of_the_broker = None
    if rest[:2] == b"\x0e\x02":
        size = int.from_bytes(rest[2:6], "big")
        of_the_broker, rest = rest[6 : 6 + size], rest[6 + size :]
    assert rest[:2] == b"\x0e\x01"
    size = int.from_bytes(rest[6:10], "big")
    metadata = MessageMetadata.FromString(rest[10 : 10 + size])
    return Entry(of_the_broker, int.from_bytes(rest[2:6], "big"), rest[6:], metadata, rest[10 + size :])


class Wiretap:
    """A tap before the broker of a service URL.

    What is of the kind to `withhold` does not reach the other side, but for the first `spared` of them. The next of the
    kind to `damage` reaches it with another last byte.
    """

    withhold: type[Message] | None = None
    spared = 0
    damage: type[Message] | None = None

    def __init__(self, service_url: str) -> None:
        self._tap = Tap(self._pass_on)
        self._tap.target = urlsplit(service_url).port or 0
        self.service_url = f"pulsar://127.0.0.1:{self._tap.port}"
        self.close = self._tap.close

    @property
    def said(self) -> list[Said]:
        """All that has passed, in its order."""
        return [_read(each) for each in self._tap.passed()]

    def sent(self, kind: type[C]) -> list[C]:
        """What the client has said of one kind."""
        return [each.command for each in self.said if each.sender == "client" and isinstance(each.command, kind)]

    def came(self, kind: type[C]) -> list[C]:
        """What the broker has said of one kind."""
        return [each.command for each in self.said if each.sender == "broker" and isinstance(each.command, kind)]

    def one_sent(self, kind: type[C]) -> C:
        """Wait for the one that the client says."""
        (only,) = until(lambda: self.sent(kind))
        return only

    def one_came(self, kind: type[C]) -> C:
        """Wait for the one that the broker says."""
        (only,) = until(lambda: self.came(kind))
        return only

    def frames(self, kind: type[Message]) -> list[Said]:
        """All frames with such a command, entries included."""
        return [each for each in self.said if isinstance(each.command, kind)]

    def entries(self, kind: type[Message]) -> list[Entry]:
        """What followed each such command."""
        return [entry_of(each.rest) for each in self.frames(kind)]

    def order(self, *kinds: type[Message]) -> list[type[Message]]:
        """The kinds of such commands, as they passed."""
        return [type(each.command) for each in self.said if isinstance(each.command, kinds)]

    def _pass_on(self, frame: bytes) -> bytes:
        kind = type(_said_in(_command_of(frame)))
        if kind is self.withhold:
            self.spared -= 1
            if self.spared < 0:
                return b""
        if kind is self.damage:
            self.damage = None
            return frame[:-1] + bytes([frame[-1] ^ 1])
        return frame


def _command_of(frame: bytes) -> BaseCommand:
    return BaseCommand.FromString(frame[8 : 8 + int.from_bytes(frame[4:8], "big")])


def _said_in(whole: BaseCommand) -> Any:
    (command,) = (value for field, value in whole.ListFields() if field.number == whole.type)
    return command


def _read(recorded: Recorded) -> Said:
    command = _said_in(_command_of(recorded.frame))
    rest = recorded.frame[8 + int.from_bytes(recorded.frame[4:8], "big") :]
    return Said(recorded.connection, recorded.sender, command, rest, len(recorded.frame))
