"""Messages on their way out, from the caller's thread to the producer's actor.

There may be a million of them in a second, and of most there is nothing but the payload, and the reply: whatever the
caller wants back, a callback, a future or nothing. So these two are all that is kept of a message, side by side in a
list: a tuple for each would keep the garbage collector busy. Of what more is said of a message, `Said` stands in the
place of its reply, and has it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from pulsar_actors.wire.fields import serialise
from pulsar_actors.wire.PulsarApi_pb2 import SingleMessageMetadata


class Alone(NamedTuple):
    """What a batch has no place for, so that the message travels as an entry of its own."""

    deliver_at_ms: int | None = None
    replicate_to: tuple[str, ...] = ()


class Said(NamedTuple):
    """What is said of a message: a SingleMessageMetadata, as it is written; what of that is looked at; and the rest.

    A `sequence_id` is one that the user chose.
    """

    metadata: bytes
    partition_key: str | None
    ordering_key: bytes | None
    sequence_id: int | None
    alone: Alone | None
    reply: object

    @classmethod
    def of(cls, single: SingleMessageMetadata, alone: Alone | None, reply: object) -> "Said":
        """Say what stands in a metadata object."""
        return cls(
            serialise(single),
            single.partition_key if single.HasField("partition_key") else None,
            single.ordering_key if single.HasField("ordering_key") else None,
            single.sequence_id if single.HasField("sequence_id") else None,
            alone,
            reply,
        )


_tuple: Any = tuple
new_said: Callable[[tuple[bytes, str | None, bytes | None, int | None, Alone | None, object]], Said] = partial(
    _tuple.__new__, Said
)
"""Make one, in a third of the time."""


def reply_of(place: object) -> object:
    """Give the reply that a place has, or what is said there."""
    return place.reply if type(place) is Said else place


class Outgoing:
    """Some messages in their order, as columns. Each of `places` has a reply, or a `Said`; `says` tells if any has."""

    __slots__ = ("payloads", "places", "says", "sizes")

    def __init__(self, payloads: Sequence[bytes], places: Sequence[object]) -> None:
        self.payloads = payloads
        self.places = places
        self.sizes: Sequence[int] = list(map(len, payloads))
        self.says = Said in map(type, places)  # without leaving C, as a million messages a second want it

    @classmethod
    def from_flat(cls, flat: Sequence[object]) -> "Outgoing":
        """Take what an outbox has: payloads and places in turn."""
        return cls(flat[::2], flat[1::2])  # type: ignore[arg-type] # the list has both

    def __len__(self) -> int:
        return len(self.payloads)

    def at(self, positions: Sequence[int]) -> "Outgoing":
        """Give those at some positions, which rise."""
        if len(positions) == len(self):
            return self
        if isinstance(positions, range):
            part = slice(positions.start, positions.stop)
            return Outgoing(self.payloads[part], self.places[part])
        return Outgoing([self.payloads[one] for one in positions], [self.places[one] for one in positions])

    @property
    def size(self) -> int:
        """All bytes of the payloads."""
        return sum(self.sizes)

    @property
    def said(self) -> Iterable[Said | None]:
        """What is said of each."""
        return (place if type(place) is Said else None for place in self.places)

    @property
    def alone(self) -> Collection[int]:
        """The positions of those that travel alone."""
        if not self.says:
            return ()
        return {
            position for position, place in enumerate(self.places) if type(place) is Said and place.alone is not None
        }

    @property
    def replies(self) -> Sequence[object]:
        """The replies alone."""
        if not self.says:
            return self.places
        return [place.reply if type(place) is Said else place for place in self.places]  # `reply_of`, without the calls


class SentTo(NamedTuple):
    """Where messages were stored: the (ledger, entry) of each frame, whether they were a batch, and all their bytes."""

    positions: tuple[tuple[int, int], ...]
    batched: bool
    size: int


Ended: TypeAlias = tuple[Sequence[object], SentTo | Exception]
"""The replies of messages that travelled together, and what became of them."""

Report: TypeAlias = Callable[[Iterable[Ended]], None]
"""Tell senders."""
