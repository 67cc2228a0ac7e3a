"""Acknowledgements as they were left, one by one, into as few events as say the same.

Most are of messages of batches, which were handed out in their order, and acknowledged so: a whole run of them becomes
one set of an entry's messages.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pulsar_actors.machines.consumer_events import Acknowledge, AcknowledgeUpTo
from pulsar_actors.machines.ledgers.ack_command import Token
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.opened import Opened, places
from pulsar_actors.wire.message_id import MessageId


class Receipt(NamedTuple):
    """Whom to tell what the broker says of an acknowledgement, and whether that is waited for."""

    token: Token
    at_once: bool


Left = tuple[Generation, MessageId, bool, Receipt | None]
"""What a message belongs to, its id, whether all before it count as well, and whom to tell."""


class _Gathering:
    """The acknowledgements of one generation since the last that counts for all before it."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.ids: list[MessageId] = []
        self.receipts: list[Receipt] = []
        self.parts: list[tuple[MessageId, int]] = []

    def event(self) -> Acknowledge:
        """Say it."""
        tokens = tuple(receipt.token for receipt in self.receipts) or None
        at_once = any(receipt.at_once for receipt in self.receipts)
        return Acknowledge(self.generation, tuple(self.ids), tokens, at_once, tuple(self.parts))


def gathered(left: Iterable[tuple[Left | Opened, Sequence[int]]]) -> list[Acknowledge | AcknowledgeUpTo]:
    """Give the events: each that is left says all by itself, or is an entry, with the places that are acknowledged."""
    gatherings: list[_Gathering | AcknowledgeUpTo] = []
    for one, indexes in left:
        if isinstance(one, Opened):
            _gather_of_entry(_last_of(gatherings, one.generation), one, indexes)
        elif one[2]:
            gatherings.append(_up_to(one))
        else:
            _gather(_last_of(gatherings, one[0]), one)
    return [each.event() if isinstance(each, _Gathering) else each for each in gatherings]


def _last_of(gatherings: list[_Gathering | AcknowledgeUpTo], generation: Generation) -> _Gathering:
    """Give the last gathering, if it is of this generation; otherwise begin one."""
    last = gatherings[-1] if gatherings else None
    if not isinstance(last, _Gathering) or last.generation != generation:
        last = _Gathering(generation)
        gatherings.append(last)
    return last


def _gather(gathering: _Gathering, left: Left) -> None:
    gathering.ids.append(left[1])
    if left[3] is not None:
        gathering.receipts.append(left[3])


def _gather_of_entry(gathering: _Gathering, opened: Opened, indexes: Sequence[int]) -> None:
    if opened.size:
        gathering.parts.append((opened.message_id._replace(batch_size=opened.size), _set_of(indexes)))
    else:
        gathering.ids.append(opened.message_id)


def _up_to(left: Left) -> AcknowledgeUpTo:
    generation, message_id, _, receipt = left
    if receipt is None:
        return AcknowledgeUpTo(generation, message_id)
    return AcknowledgeUpTo(generation, message_id, receipt.token, receipt.at_once)


def _set_of(indexes: Sequence[int]) -> int:
    """Make a set of them, all at once where they follow each other."""
    first, count = indexes[0], len(indexes)
    if tuple(indexes) == places(first, first + count):
        return (1 << count) - 1 << first
    messages = 0
    for index in indexes:
        messages |= 1 << index
    return messages
