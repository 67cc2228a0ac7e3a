"""What a producer publishes at a time: messages planned into batches, packed, and split where they turn out too large.

What cannot be packed is refused, with the reason; the rest becomes pending.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pulsar_actors.exceptions import MessageTooBig, PulsarException
from pulsar_actors.machines.ledgers.batching import Batch, BatchLimits, halves, plan_batches, plan_key_batches
from pulsar_actors.machines.ledgers.pending_sends import Pending
from pulsar_actors.runtime.outgoing import Outgoing, Said
from pulsar_actors.runtime.packing import (
    Moment,
    Packed,
    Sender,
    pack_alone,
    pack_batch,
    pack_chunks,
    pack_each,
    refusal_of,
)
from pulsar_actors.wire.compression import NONE
from pulsar_actors.wire.PulsarApi_pb2 import CompressionType


class Manner(NamedTuple):
    """How a producer sends.

    `send_timeout` is in seconds, None for never. `largest_chunk` is 0 for as much as the broker takes.
    """

    codec: "CompressionType.ValueType"
    send_timeout: float | None
    by_key: bool
    in_chunks: bool
    largest_chunk: int = 0


class Publication:
    """Messages with their sequence ids; then `items`, and what is `refused`. `limits` is None without batches."""

    __slots__ = ("_ids", "_manner", "_messages", "_moment", "_sender", "items", "refused")

    def __init__(self, messages: Outgoing, ids: Sequence[int], sender: Sender, manner: Manner, moment: Moment) -> None:
        self._messages = messages
        self._ids = ids
        self._sender = sender
        self._manner = manner
        self._moment = moment
        self.items: list[Pending[Packed]] = []
        self.refused: list[tuple[Outgoing, PulsarException]] = []

    def pack(self, limits: BatchLimits | None) -> None:
        """Pack all of it."""
        is_plain = self._manner.codec == NONE and not self._manner.in_chunks
        if limits is None and is_plain and not self._messages.says:
            self._pack_plain()
            return
        for batch in self._plan(limits):
            self._pack_or_split(batch)

    def _pack_plain(self) -> None:
        """Do the same with messages that travel alone and say nothing, in less time."""
        _, deadline, largest = self._moment
        packed = pack_each(self._messages, self._ids, self._sender, self._moment)
        for position, ((one, entry_size), number) in enumerate(zip(packed, self._ids, strict=True)):
            if entry_size > largest:
                self.refused.append((self._messages.at(range(position, position + 1)), refusal_of(entry_size, largest)))
            else:
                self.items.append(Pending(one, number, number, 1, one.size, deadline))

    def _plan(self, limits: BatchLimits | None) -> Sequence[Batch]:
        messages, ids = self._messages, self._ids
        if limits is None:
            return [Batch((place,), one, None, batched=False) for place, one in enumerate(ids)]
        if self._manner.by_key:
            return plan_key_batches(ids, messages.sizes, list(map(_key, messages.said)), limits, messages.alone)
        return plan_batches(ids, messages.sizes, limits, messages.alone)

    def _pack_or_split(self, batch: Batch) -> None:
        """Pack a batch; of one that is too large, what is not."""
        members = self._messages.at(batch.positions)
        try:
            packed = self._pack(batch, members)
        except PulsarException as error:
            parts = halves(batch, self._ids) if isinstance(error, MessageTooBig) else ()
            if not parts:
                self.refused.append((members, error))
            for part in parts:
                self._pack_or_split(part)
            return
        last = batch.sequence_id if batch.highest_sequence_id is None else batch.highest_sequence_id
        count, frames = len(members), packed.frame_count
        self.items.append(Pending(packed, batch.sequence_id, last, count, packed.size, self._moment.deadline, frames))

    def _pack(self, batch: Batch, members: Outgoing) -> Packed:
        sequence_id, sender, moment = batch.sequence_id, self._sender, self._moment
        if batch.batched:
            return pack_batch(members, (sequence_id, batch.highest_sequence_id), sender, moment)
        if not self._manner.in_chunks:
            return pack_alone(members, sequence_id, sender, moment)
        return pack_chunks(members, sequence_id, sender, moment, self._manner.largest_chunk or moment.largest)


def _key(said: Said | None) -> object:
    """Give what a key-based batch is of: the ordering key, or else the key."""
    return None if said is None else said.ordering_key or said.partition_key or None
