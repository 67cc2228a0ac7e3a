"""What a reader is not given, of what its broker sends: who must miss nothing will want to know."""

from typing import NamedTuple, TypeAlias

from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck


class Unreadable(NamedTuple):
    """An entry that is corrupt."""

    entry: EntryKey
    fault: "CommandAck.ValidationError.ValueType"


class Unfinished(NamedTuple):
    """The last chunk of a message of which something is missing, as where reading began behind its first chunk.

    Its time is that of all its chunks, in milliseconds since 1970.
    """

    entry: EntryKey
    uuid: str
    publish_time: int


LeftOut: TypeAlias = Unreadable | Unfinished
