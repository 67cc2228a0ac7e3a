"""What a broker says over one connection that leads to nothing: each kind of it has one line in the log.

A broker with a bug, or a newer one, may say it with every message. None of it does any harm, so the connection goes on;
but a log that gets a line each time is full before anybody has read the first.
"""

from collections.abc import Iterator

from google.protobuf.message import Message

from pulsar_actors.runtime.log import LOG
from pulsar_actors.wire.commands import decode_command
from pulsar_actors.wire.errors import BadCommand, UnknownEnumValue
from pulsar_actors.wire.frames import Frame
from pulsar_actors.wire.PulsarApi_pb2 import CommandError

__all__ = ["Oddities"]

_ONCE = "%s (%s; of what else is like it nothing more is said)"


class Oddities:
    """Those of one connection. The kinds are classes, so there are only so many."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: set[tuple[str, type]] = set()

    def commands(self, frames: list[Frame], peer: str) -> Iterator[tuple[Message, memoryview]]:
        """Read the commands of frames; one that makes no sense costs itself and nothing else."""
        for frame in frames:
            try:
                yield decode_command(frame.command), frame.rest
            except UnknownEnumValue as newer:
                self._warn("newer", newer, f"a command of a newer protocol was read as far as possible: {newer}", peer)
                yield newer.command, frame.rest
            except BadCommand as bad:
                self._warn("bad", bad, f"a command was ignored: {bad}", peer)

    def unexpected(self, command: Message, peer: str) -> None:
        """Note a command that is a client's to say, or that means nothing to this client."""
        self._warn("unexpected", command, f"a command that no broker sends was ignored: {_name(command)}", peer)

    def unawaited(self, command: Message, peer: str) -> None:
        """Note an answer that comes twice, too late, or to a question that nobody asked."""
        if isinstance(command, CommandError):
            text = f"the broker reports an error that answers nothing: {command.message!r:.200}"
            self._warn("unawaited", command, text, peer)
        elif self._is_first("unawaited", command):
            LOG.info(_ONCE, f"an answer that nobody waits for was ignored: {_name(command)}", peer)

    def unaddressed(self, command: Message, peer: str) -> None:
        """Note what is for a producer or consumer that is not here; after a close that is nothing unusual."""
        if self._is_first("unaddressed", command):
            LOG.info(_ONCE, f"{_name(command)} is for nobody who is here, and was ignored", peer)

    def _warn(self, kind: str, thing: object, text: str, peer: str) -> None:
        if self._is_first(kind, thing):
            LOG.warning(_ONCE, text, peer)

    def _is_first(self, kind: str, thing: object) -> bool:
        said = (kind, type(thing))
        if said in self._said:
            return False
        self._said.add(said)
        return True


def _name(command: Message) -> str:
    return type(command).__name__
