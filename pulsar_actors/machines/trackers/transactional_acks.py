"""The acknowledgements of one consumer that are parts of transactions.

Each is sent at once, in a command of its own, and answered by the broker. It is never grouped with others, because the
outcome of its transaction decides about it. The command of a message of a batch has the set of the other messages
(see `ack_set.py`), and the size of the batch, with which the broker counts. A later acknowledgement in the same
transaction names only its own messages: the broker refuses a message that is acknowledged twice.

So an acknowledgement is sent once only. If the connection is lost before the answer, nobody can tell a second one from
a conflict, and it fails.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers import ack_set
from pulsar_actors.machines.trackers.ack_grouping_tracker import AckToken, id_fault
from pulsar_actors.machines.trackers.entry_map import EntryKey, Generation
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.protobuf import unsigned
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck
from pulsar_actors.wire.transaction_id import TransactionId, set_transaction


class TransactionalAck(NamedTuple):
    """Messages to acknowledge in a transaction: one by one, or all up to the only one."""

    generation: Generation
    message_ids: tuple[MessageId, ...]
    cumulative: bool
    transaction: TransactionId
    token: AckToken

    def fault(self, largest_batch: int) -> InvalidArgument | None:
        """Return why one of the ids is no message's."""
        faults = (id_fault(message_id, largest_batch) for message_id in self.message_ids)
        return next((fault for fault in faults if fault is not None), None)

    def left(self, chunks_of: Callable[[MessageId], Iterable[EntryKey]]) -> dict[EntryKey, tuple[int, int]]:
        """Return for each entry the set of messages that are not acknowledged here, and the size of the batch."""
        entries: dict[EntryKey, tuple[int, int]] = {}
        for message_id in self.message_ids:
            key, index, size = message_id.position, message_id.batch_index, message_id.batch_size
            if index < 0:
                chunks = [key] if message_id.first_chunk is None or self.cumulative else chunks_of(message_id)
                entries.update(dict.fromkeys(chunks, (0, 0)))
                continue
            mask, _ = entries.get(key, (ack_set.full(size), size))
            entries[key] = (
                ack_set.without_up_to(mask, index) if self.cumulative else mask & ~(1 << index),
                size,
            )
        return entries


def transactional_command(consumer_id: int, ack: TransactionalAck, left: dict[EntryKey, tuple[int, int]]) -> CommandAck:
    """Write an acknowledgement as a CommandAck. It is answered."""
    command = CommandAck(
        consumer_id=consumer_id,
        ack_type=CommandAck.AckType.Cumulative if ack.cumulative else CommandAck.AckType.Individual,
    )
    set_transaction(command, ack.transaction)
    for (ledger_id, entry_id), (messages, size) in left.items():
        message_id = command.message_id.add()
        message_id.ledgerId, message_id.entryId = unsigned(ledger_id), unsigned(entry_id)
        if messages:
            message_id.ack_set.extend(ack_set.to_words(messages))
            message_id.batch_size = size
    return command


_NONE: Final[dict[int, Any]] = {}
"""The empty dict of all consumers that have sent none, because one for each would take memory."""


class TransactionalAcks:
    """The acknowledgements that wait for a binding or a chunked message, and those that wait for their answer."""

    __slots__ = ("_held", "_sent", "_unanswered")

    def __init__(self) -> None:
        self._held: tuple[TransactionalAck, ...] = ()
        self._unanswered: dict[int, TransactionalAck] = _NONE
        self._sent = 0

    def hold(self, ack: TransactionalAck) -> None:
        """Keep an acknowledgement until it can be sent."""
        self._held += (ack,)

    @property
    def is_holding(self) -> bool:
        """True while there is something to send."""
        return bool(self._held)

    def take_held(self) -> Sequence[TransactionalAck]:
        """Take out those that wait to be sent."""
        held, self._held = self._held, ()
        return held

    def drop_held(self, tokens: Iterable[AckToken]) -> tuple[AckToken, ...]:
        """Drop those whose callers wait no longer: their transactions cannot be committed. Return the tokens."""
        late = set(tokens)
        dropped = tuple(ack.token for ack in self._held if ack.token in late)
        self._held = tuple(ack for ack in self._held if ack.token not in late)
        return dropped

    def drop_of(self, transaction: TransactionId) -> tuple[AckToken, ...]:
        """Drop those of a transaction, and return their tokens."""
        dropped = [ack for ack in (*self._held, *self._unanswered.values()) if ack.transaction == transaction]
        self._held = tuple(ack for ack in self._held if ack.transaction != transaction)
        self._unanswered = {number: ack for number, ack in self._unanswered.items() if ack.transaction != transaction}
        return tuple(ack.token for ack in dropped)

    def sent(self, ack: TransactionalAck) -> int:
        """Note that one is sent, and return its number, which the answer has."""
        if self._unanswered is _NONE:
            self._unanswered = {}
        self._sent += 1
        self._unanswered[self._sent] = ack
        return self._sent

    def answered(self, number: int) -> tuple[AckToken, ...]:
        """End the one that the broker has answered. A late answer ends nothing."""
        return (self._unanswered.pop(number).token,) if number in self._unanswered else ()

    def drop_unanswered(self) -> tuple[AckToken, ...]:
        """Drop those that were sent, and return their tokens."""
        unanswered, self._unanswered = self._unanswered, _NONE
        return tuple(ack.token for ack in unanswered.values())
