"""Acknowledgements as they were left, one by one, into as few events as say the same.

Most are of messages of batches, which were handed out in their order, and acknowledged so: a whole run of them becomes
one set of an entry's messages.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pulsar_actors.machines.consumer_events import Acknowledge, AcknowledgeUpTo
from pulsar_actors.machines.ledgers.ack_command import Token
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.opened import Opened
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


def gathered(owners: Sequence[Opened | Left], indexes: Sequence[int]) -> list[Acknowledge | AcknowledgeUpTo]:
    """Give the events: each owner is an entry, of which the index is acknowledged, or says all by itself."""
    gatherings: list[_Gathering | AcknowledgeUpTo] = []
    start, count = 0, len(owners)
    while start < count:
        owner = owners[start]
        stop = _end_of_run(owners, start)
        if isinstance(owner, tuple) and owner[2]:
            gatherings.append(_up_to(owner))
        else:
            _gather(_last_of(gatherings, owner), owner, indexes[start:stop])
        start = stop
    return [each.event() if isinstance(each, _Gathering) else each for each in gatherings]


def _end_of_run(owners: Sequence[Opened | Left], start: int) -> int:
    """Tell how far the same owner goes: mostly as far as its entry has messages, so that is found out at once."""
    owner, stop = owners[start], start + 1
    if isinstance(owner, Opened) and owner.size:
        first = owners[start : start + owner.size]
        if first.count(owner) == len(first):
            stop = start + len(first)
    while stop < len(owners) and owners[stop] is owner:
        stop += 1
    return stop


def _last_of(gatherings: list[_Gathering | AcknowledgeUpTo], owner: Opened | Left) -> _Gathering:
    """Give the last gathering, if it is of the owner's generation; otherwise begin one."""
    generation = owner[0] if isinstance(owner, tuple) else owner.generation
    last = gatherings[-1] if gatherings else None
    if not isinstance(last, _Gathering) or last.generation != generation:
        last = _Gathering(generation)
        gatherings.append(last)
    return last


def _gather(gathering: _Gathering, owner: Opened | Left, indexes: Sequence[int]) -> None:
    if isinstance(owner, tuple):
        gathering.ids.append(owner[1])
        if owner[3] is not None:
            gathering.receipts.append(owner[3])
    elif owner.size:
        gathering.parts.append((owner.message_id._replace(batch_size=owner.size), _set_of(indexes)))
    else:
        gathering.ids.append(owner.message_id)


def _up_to(left: Left) -> AcknowledgeUpTo:
    generation, message_id, _, receipt = left
    if receipt is None:
        return AcknowledgeUpTo(generation, message_id)
    return AcknowledgeUpTo(generation, message_id, receipt.token, receipt.at_once)


def _set_of(indexes: Sequence[int]) -> int:
    """Make a set of them, all at once where they follow each other."""
    first, count = indexes[0], len(indexes)
    if list(indexes) == list(range(first, first + count)):
        return (1 << count) - 1 << first
    messages = 0
    for index in indexes:
        messages |= 1 << index
    return messages
