"""One message on its way out, from the caller's thread to the producer's actor.

It is a bare tuple, for there may be a million of them in a second, and most need nothing but the payload.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from pulsar_actors.wire.PulsarApi_pb2 import SingleMessageMetadata


class Alone(NamedTuple):
    """What a batch has no place for, so that the message travels as an entry of its own."""

    deliver_at_ms: int | None = None
    replicate_to: tuple[str, ...] = ()


Outgoing: TypeAlias = tuple[bytes, SingleMessageMetadata | None, Alone | None, Any]
"""The payload; what is said of it, if anything is; what makes it travel alone; and whatever the caller wants back.

A sequence id that the user chose stands in the metadata."""


SAID: Final = itemgetter(1)
ALONE: Final = itemgetter(2)
"""Whether there is any such thing among many messages: `any(map(SAID, messages))` does not leave C."""


class SentTo(NamedTuple):
    """Where messages were stored: the (ledger, entry) of each frame, and whether they were a batch."""

    positions: tuple[tuple[int, int], ...]
    batched: bool


Report: TypeAlias = Callable[[Sequence[Outgoing], SentTo | Exception], None]
"""Tell the senders of some messages what became of them."""
