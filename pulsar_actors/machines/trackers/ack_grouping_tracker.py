"""The acknowledgements of one consumer: marked by message, sent by entry, and in as few commands as possible.

A broker acknowledges entries. An entry that is a batch is acknowledged when all its messages are. So for each partly
acknowledged batch the tracker keeps the set of messages that are still unacknowledged (see `ack_set`). When the broker
keeps such sets too (`batch_index_acks`), the unacknowledged set is sent each time it shrinks. A batch whose messages
are all acknowledged is sent as a plain entry in either case.

A cumulative acknowledgement covers a message and everything before it. In the middle of a batch it is sent with the
unacknowledged set. To a broker without such sets it is sent for the entry before: naming the batch itself would
acknowledge the rest of the batch, too. The chunks of a message lie among other entries. So a cumulative acknowledgement
is sent only up to the first chunk of a message that is not read yet, and is held for the rest until that message is
acknowledged or dropped. A caller that waits for the receipt waits for the rest: a success before would be untrue. If
that takes too long, the call ends with a timeout, and the acknowledgement goes on.

When a group ends is decided in `runtime/ack_queue.py`, which collects the acknowledgements of callers. The tracker
marks them and holds them until the event `AcksDue` says that the group is complete. The tracker itself has no timer.

Acknowledgements that are held, or sent and not yet answered, survive the loss of the connection: they are sent again on
the next. One that was sent without a request for a receipt counts as done. One that the broker refused counts as never
made. A seek makes acknowledgements of earlier messages void.

A broker may *withhold* messages of a batch that it delivers: they are acknowledged, or somebody has acknowledged them
in a transaction, which may be aborted yet. The batch is complete when its other messages are acknowledged. But no
command acknowledges what is withheld, for it may come with a later delivery.

An acknowledgement in a transaction is sent elsewhere. Here only the set of messages that the transactions have left of
a batch is kept, until the batch is delivered again. An entry of which nothing is left needs no redelivery.

An unacknowledged set is dropped if it was neither read nor written between two reconnects: the broker may have given
the batch to another consumer by then. A held set, which is still unsent, is kept. The next acknowledgement of the same
batch sends only the messages that are unacknowledged in both.

An id that a program has made itself lacks the size of its batch, which `batch_sizes.py` keeps for it.

What must hold: no command ever covers a message that the user has not acknowledged.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers import ack_set
from pulsar_actors.machines.trackers.ack_set import to_words
from pulsar_actors.machines.trackers.batch_sizes import BatchSizes
from pulsar_actors.machines.trackers.entry_map import EntryKey, EntryMap, Generation, is_real
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.message_id import EARLIEST, MessageId
from pulsar_actors.wire.protobuf import unsigned
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck

AckPosition = tuple[int, int, int]
AckToken = Any  # the caller's own object, which is returned to it when the acknowledgement has ended

WHOLE_ENTRY = sys.maxsize
"""The batch index after all messages of an entry."""

BEFORE_EVERYTHING: AckPosition = (-1, -1, -1)
"""Before every position."""


class AwaitedAck(NamedTuple):
    """One acknowledgement that waits for a receipt."""

    message_id: MessageId
    token: AckToken
    was_sent: bool = False
    """It was sent, its connection was lost before the receipt, and it waits to be sent again."""


class AckGroup(NamedTuple):
    """The contents of one CommandAck: entries, each with its set of unacknowledged messages (0: none)."""

    entries: tuple[tuple[EntryKey, int], ...]
    cumulative: bool = False
    validation_error: "CommandAck.ValidationError.ValueType | None" = None
    acknowledged: tuple[AwaitedAck, ...] = ()

    @property
    def position(self) -> AckPosition:
        """The last message that a cumulative group acknowledges."""
        (ledger_id, entry_id), unacknowledged = self.entries[0]
        lowest = (unacknowledged & -unacknowledged).bit_length() - 1
        return (ledger_id, entry_id, lowest - 1 if unacknowledged else WHOLE_ENTRY)

    def command(self, consumer_id: int) -> CommandAck:
        """Write the group as a CommandAck."""
        command = CommandAck(
            consumer_id=consumer_id,
            ack_type=CommandAck.AckType.Cumulative if self.cumulative else CommandAck.AckType.Individual,
            validation_error=self.validation_error,
        )
        add = command.message_id.add  # in place, in a quarter of the time
        for (ledger_id, entry_id), unacknowledged in self.entries:
            message_id = add()
            message_id.ledgerId, message_id.entryId = unsigned(ledger_id), unsigned(entry_id)
            if unacknowledged:
                message_id.ack_set.extend(to_words(unacknowledged))
        return command


def corrupt_group(entries: Iterable[EntryKey], error: "CommandAck.ValidationError.ValueType") -> AckGroup:
    """Make the group that acknowledges corrupt entries; it is not held."""
    return AckGroup(tuple((entry, 0) for entry in entries), validation_error=error)


class AckOutcome(NamedTuple):
    """The immediate outcome of a call: acknowledged entries, or all up to one, and tokens that wait for no answer.

    `faults` are the refused ids: the token of each, if it has one, and the error.
    """

    entries: Sequence[EntryKey] = ()
    up_to: EntryKey | None = None
    tokens: tuple[AckToken, ...] = ()
    faults: tuple[tuple[AckToken | None, InvalidArgument], ...] = ()


class DroppedAcks(NamedTuple):
    """The tokens that get no answer: of what was never sent, and of what the broker may have."""

    never_sent: tuple[AckToken, ...]
    sent: tuple[AckToken, ...]


class AckAnswer(NamedTuple):
    """The outcome of a group: the tokens that end, and the entries that are not acknowledged after all."""

    tokens: tuple[AckToken, ...] = ()
    refused: tuple[EntryKey, ...] = ()


def id_fault(message_id: MessageId, largest_batch: int) -> InvalidArgument | None:
    """Refuse an id that no message can have: users may have read the id from anywhere.

    A batch index needs the size of its batch, or one message would acknowledge all of them. A batch larger than a
    broker stores is refused too: a set of its size would take the memory before the broker could refuse it.
    """
    ledger_id, entry_id, partition, index, size, first_chunk = message_id
    if not is_real((ledger_id, entry_id)) or (first_chunk is not None and not is_real(first_chunk.position)):
        what = "the ids of its ledger and its entry must be 0 to 2^63 - 1"
    elif not (-1 < index < size <= largest_batch or index == -1):
        what = f"batch_index must be below batch_size, and that at most {largest_batch:,}, not {size:,}"
    else:
        return None
    return InvalidArgument(f"({ledger_id},{entry_id},{partition},{index}) is no message: {what}")


MAX_ENTRIES = 1000
"""The most entries in one command."""


_UNKNOWN_BATCH: Final = (
    "but not how many there are, and the consumer has no such batch that is unacknowledged: acknowledge the message, "
    "its message_id(), or what serialize() gave"
)

_NOTHING_LEFT: Final[EntryMap[int]] = EntryMap()
"""It stays empty. Most consumers have no transactions, and share it to save memory."""


class Chunks(Protocol):
    """The ledger of chunked messages, as far as acknowledgements ask it: see `ChunkedMessages`."""

    def take_chunks_of(self, message_id: MessageId) -> Iterable[EntryKey]:
        """Return the entries of a message that is acknowledged."""
        ...

    def first_unread(self, up_to: EntryKey) -> EntryKey | None:
        """Return the first chunk that an acknowledgement of everything up to an entry must not cover."""
        ...


class AckGroupingTracker:
    """The acknowledgements of one consumer of one partition."""

    __slots__ = (
        "_batch_sizes", "_chunks", "_confirmed", "_cumulative", "_cumulative_receipts", "_floor",
        "_held", "_left_by_transactions", "_receipts", "_unacknowledged", "_unanswered", "_withheld",
        "batch_index_acks", "generation", "largest_batch", "receipts",
    )  # fmt: skip

    def __init__(
        self,
        chunks: Chunks,
        *,
        batch_index_acks: bool = False,
        receipts: bool = False,
    ) -> None:
        self._chunks = chunks
        self.largest_batch = ack_set.largest_batch(DEFAULT_MAX_MESSAGE_SIZE)  # until a broker says otherwise
        self.batch_index_acks = batch_index_acks
        self.receipts = receipts
        self.generation = Generation()
        self._batch_sizes = BatchSizes()
        self._unacknowledged: EntryMap[int] = EntryMap()  # also of complete ones: the broker may still refuse that
        self._withheld: EntryMap[int] = EntryMap()  # what the last delivery of a batch was without
        self._left_by_transactions: EntryMap[int] = _NOTHING_LEFT
        self._held: dict[EntryKey, int] = {}
        self._cumulative: AckGroup | None = None  # without its receipts
        self._cumulative_receipts: list[AwaitedAck] = []
        self._receipts: dict[EntryKey, list[AwaitedAck]] = {}
        self._unanswered: dict[int, AckGroup] = {}
        self._confirmed = BEFORE_EVERYTHING
        self._floor = BEFORE_EVERYTHING

    def note_delivery(self, entry: EntryKey, messages: int, batch_size: int) -> None:
        """Note which messages of a batch the broker has delivered."""
        self._batch_sizes.note(entry, batch_size)
        self._left_by_transactions.pop(entry)
        withheld = ack_set.full(batch_size) & ~messages
        if withheld:
            self._withheld.put(entry, withheld)
        else:
            self._withheld.pop(entry)

    def forget(self, entries: Iterable[EntryKey]) -> None:
        """Forget the unacknowledged sets of batches that will be redelivered."""
        for entry in entries:
            self._unacknowledged.pop(entry)
            self._withheld.pop(entry)
            self._left_by_transactions.pop(entry)

    def rebound(self) -> None:
        """Drop the sets that were not used since the reconnect before."""
        self._unacknowledged.drop_unused()
        self._withheld.drop_unused()
        self._left_by_transactions.drop_unused()

    def is_acknowledged(self, entry: EntryKey) -> bool:
        """Return whether all of an entry is acknowledged already."""
        return self._held.get(entry) == 0 or (*entry, WHOLE_ENTRY) <= self._floor

    def unacknowledged_of(self, entry: EntryKey, messages: int) -> int:
        """Remove from a set of messages of a batch those that are acknowledged."""
        left = messages & (self._unacknowledged.get(entry) or messages)
        return left & (self._held.get(entry) or left)

    def known_id(self, message_id: MessageId) -> MessageId:
        """Return the id with the size of its batch, or raise if no message can have it. Any thread may call this.

        EARLIEST is no message either. But a cumulative acknowledgement may name it, and then covers nothing.
        """
        known = message_id
        if message_id.batch_index >= 0 and not message_id.batch_size:
            known = message_id._replace(batch_size=self._batch_sizes.of(message_id.position))
            if not known.batch_size:
                raise InvalidArgument(f"{message_id} names one message of a batch, {_UNKNOWN_BATCH}")
        fault = id_fault(known, self.largest_batch)
        if fault is not None and known != EARLIEST:
            raise fault
        return known

    def acknowledge(
        self,
        message_ids: Sequence[MessageId],
        generation: Generation,
        tokens: Sequence[AckToken] | None = None,
    ) -> AckOutcome:
        """Acknowledge messages. A refused id does not stop the others. `tokens`, if given, has one for each message."""
        is_void = not generation.still_acknowledges(self.generation)
        done: list[EntryKey] = []
        ended: list[AckToken] = []
        faults: list[tuple[AckToken | None, InvalidArgument]] = []
        for place, message_id in enumerate(message_ids):
            token = tokens[place] if tokens else None
            fault = id_fault(message_id, self.largest_batch)
            if fault is not None:
                faults.append((token, fault))
            elif not is_void and self._mark(message_id, done) and self.receipts:
                self._receipts.setdefault(message_id.position, []).append(AwaitedAck(message_id, token))
            elif tokens:
                ended.append(token)
        return AckOutcome(done, tokens=tuple(ended), faults=tuple(faults))

    def acknowledge_parts(self, parts: Iterable[tuple[MessageId, int]], generation: Generation) -> AckOutcome:
        """Acknowledge sets of messages of batches; these have no tokens."""
        done: list[EntryKey] = []
        if generation.still_acknowledges(self.generation):
            for entry, messages in parts:
                if id_fault(entry, self.largest_batch) is None:
                    self._mark_in_batch(entry, messages, done)
        return AckOutcome(done)

    def acknowledge_in_transaction(self, left: Mapping[EntryKey, tuple[int, int]], *, cumulative: bool) -> AckOutcome:
        """Note an acknowledgement in a transaction: for each entry the messages that it leaves, and the batch's size.

        Nothing is held for it. An abort has the messages delivered again.
        """
        done = [entry for entry, (messages, _) in left.items() if not self._leaves(entry, messages)]
        for entry in done:
            self._batch_sizes.drop(entry)
        if not cumulative:
            return AckOutcome(done)
        ((ledger_id, entry_id),) = left
        up_to = (ledger_id, entry_id if done else entry_id - 1)
        self._left_by_transactions.pop_up_to(up_to)
        return AckOutcome(up_to=up_to)

    def _leaves(self, entry: EntryKey, messages: int) -> int:
        """Keep the messages of an entry that transactions leave, and return those that nobody has acknowledged."""
        known = self._left_by_transactions.get(entry)
        messages = messages if known is None else messages & known
        unacknowledged = self._unacknowledged.get(entry)
        left = messages if unacknowledged is None else messages & unacknowledged
        left = self._without_withheld(entry, left & self._held.get(entry, left))
        if left:
            if self._left_by_transactions is _NOTHING_LEFT:
                self._left_by_transactions = EntryMap()
            self._left_by_transactions.put(entry, messages)
        else:
            self._left_by_transactions.pop(entry)
        return left

    def _mark(self, message_id: MessageId, done: list[EntryKey]) -> bool:
        """Mark one message as acknowledged, and return whether a command will be sent for it."""
        key = message_id.position
        index = message_id.batch_index
        if message_id.first_chunk is not None:
            for chunk in self._chunks.take_chunks_of(message_id):
                self._held[chunk] = 0
                done.append(chunk)
            return True
        if index >= 0:
            return self._mark_in_batch(message_id, 1 << index, done)
        self._held[key] = self._withheld.pop(key) or 0
        done.append(key)
        return True

    def _mark_in_batch(self, entry: MessageId, messages: int, done: list[EntryKey]) -> bool:
        """Mark messages of a batch as acknowledged, and return whether a command will be sent for them."""
        key = entry.position
        if self._held.get(key) == 0:
            return True
        unacknowledged = self._last_unacknowledged(entry)
        unacknowledged ^= unacknowledged & messages
        if self._without_withheld(key, unacknowledged):
            self._unacknowledged.put(key, unacknowledged)
            if self.batch_index_acks:
                self._held[key] = unacknowledged
            left = self._left_by_transactions.get(key)
            if left is not None and not self._leaves(key, left):
                done.append(key)
            return self.batch_index_acks
        self._complete(key, unacknowledged)
        self._held[key] = unacknowledged  # only what is withheld
        done.append(key)
        return True

    def _last_unacknowledged(self, message_id: MessageId) -> int:
        """Return the unacknowledged set of a batch: the messages in both the last known set and the held one."""
        unacknowledged = self._unacknowledged.get(message_id.position)
        if unacknowledged is None:
            unacknowledged = ack_set.full(message_id.batch_size)
        return unacknowledged & self._held.get(message_id.position, unacknowledged)

    def _without_withheld(self, entry: EntryKey, messages: int) -> int:
        """Return those of a set of messages that the broker has delivered."""
        return messages & ~(self._withheld.get(entry) or 0)

    def _complete(self, entry: EntryKey, withheld: int) -> None:
        """Note that an entry is acknowledged completely, but for what was not delivered.

        With receipts the note is kept, because the broker may refuse.
        """
        self._batch_sizes.drop(entry)
        self._withheld.pop(entry)
        if self.receipts:
            self._unacknowledged.put(entry, withheld)
        else:
            self._unacknowledged.pop(entry)

    def acknowledge_up_to(
        self, message_id: MessageId, generation: Generation, token: AckToken | None = None
    ) -> AckOutcome:
        """Acknowledge a message and all before it."""
        fault = id_fault(message_id, self.largest_batch)
        if fault is not None:
            return AckOutcome(faults=((token, fault),))
        ended = () if token is None else (token,)
        if not generation.still_acknowledges(self.generation):
            return AckOutcome(tokens=ended)
        ledger_id, entry_id = key = message_id.position
        unacknowledged = 0
        if message_id.batch_index >= 0:
            unacknowledged = ack_set.without_up_to(self._last_unacknowledged(message_id), message_id.batch_index)
            unacknowledged = unacknowledged if self._without_withheld(key, unacknowledged) else 0
        up_to = (ledger_id, entry_id - 1) if unacknowledged else key
        said = (key, unacknowledged) if self.batch_index_acks else (up_to, 0)
        self._unacknowledged.pop_up_to(key)
        self._withheld.pop_up_to(up_to)
        self._batch_sizes.drop_up_to(up_to)
        if unacknowledged:
            self._unacknowledged.put(key, unacknowledged)
        group = AckGroup((said,), cumulative=True)
        if group.position <= self._confirmed:
            return AckOutcome(up_to=up_to, tokens=ended)
        if not unacknowledged:
            self._complete(key, 0)
        self._hold_cumulative(group)
        if not self.receipts:
            return AckOutcome(up_to=up_to, tokens=ended)
        self._cumulative_receipts.append(AwaitedAck(message_id, token))
        return AckOutcome(up_to=up_to)

    def _hold_cumulative(self, group: AckGroup) -> None:
        """Hold a cumulative group, unless the one that is held reaches further."""
        if self._cumulative is None or group.position > self._cumulative.position:
            self._cumulative = group
        self._floor = max(self._floor, group.position)

    @property
    def is_holding(self) -> bool:
        """True while there is something to send."""
        return bool(self._held) or self._cumulative is not None

    @property
    def is_holding_cumulative(self) -> bool:
        """True while a cumulative acknowledgement waits to be sent, maybe for a message that is not read yet."""
        return self._cumulative is not None

    def drain(self) -> list[AckGroup]:
        """Take out all that can be sent."""
        groups = self._take_cumulative()
        entries = tuple(self._held.items())
        for start in range(0, len(entries), MAX_ENTRIES):
            part = entries[start : start + MAX_ENTRIES]
            waiting = tuple(one for entry, _ in part for one in self._receipts.get(entry, ()))
            groups.append(AckGroup(part, acknowledged=waiting))
        self._held = {}
        self._receipts = {}
        return groups

    def _take_cumulative(self) -> list[AckGroup]:
        """Take out the cumulative group, or what comes before a message that is not read."""
        group = self._cumulative
        if group is None:
            return []
        first = self._chunks.first_unread(group.position[:2])
        if first is None:
            group = group._replace(acknowledged=tuple(self._cumulative_receipts))
            self._cumulative = None
            self._cumulative_receipts = []
        else:
            group = AckGroup((((first[0], first[1] - 1), 0),), cumulative=True)
            if any(group.position <= asked for asked in self._asked()):
                return []
        if not self.receipts:
            self._confirmed = max(self._confirmed, group.position)
        return [group]

    def _asked(self) -> list[AckPosition]:
        """Return the positions up to which a broker has acknowledged, or was asked to."""
        return [self._confirmed, *(group.position for group in self._unanswered.values() if group.cumulative)]

    def awaits(self, number: int, group: AckGroup) -> None:
        """Note that a group was sent. Its answer carries this number."""
        self._unanswered[number] = group

    def answered(self, number: int, *, failed: bool) -> AckAnswer:
        """End the group that the broker has answered. A late answer ends nothing."""
        group = self._unanswered.pop(number, None)
        if group is None:
            return AckAnswer()
        for one in group.acknowledged:
            self._settle(one.message_id, failed=failed, cumulative=group.cumulative)
        if group.cumulative and not failed:
            self._confirmed = max(self._confirmed, group.position)
        self._set_floor()
        tokens = tuple(one.token for one in group.acknowledged if one.token is not None)
        return AckAnswer(tokens, self._not_sent_again(group) if failed else ())

    def _not_sent_again(self, group: AckGroup) -> tuple[EntryKey, ...]:
        """Return the entries of a group that are not held as a whole; if cumulative, those that callers named."""
        entries = [one.message_id.position for one in group.acknowledged] if group.cumulative else dict(group.entries)
        return tuple(entry for entry in entries if self._held.get(entry) != 0)

    def _settle(self, message_id: MessageId, *, failed: bool, cumulative: bool) -> None:
        """Count a refused message of a batch as unacknowledged again.

        No set is kept of a batch that is complete or untouched.
        """
        entry, index = message_id.position, message_id.batch_index
        if self._held.get(entry) == 0:
            return  # it is sent again
        whole = ack_set.full(message_id.batch_size)
        unacknowledged = self._unacknowledged.pop(entry)
        unacknowledged = whole if unacknowledged is None else unacknowledged
        if failed and index >= 0:
            unacknowledged |= ack_set.full(index + 1) if cumulative else 1 << index
            self._batch_sizes.note(entry, message_id.batch_size)
        if unacknowledged not in (0, whole):
            self._unacknowledged.put(entry, unacknowledged)

    def _set_floor(self) -> None:
        held = [] if self._cumulative is None else [self._cumulative.position]
        self._floor = max([*self._asked(), *held])

    def disconnected(self) -> None:
        """Hold again the groups that were sent and not answered. The broker remembers those that it confirmed."""
        for group in self._unanswered.values():
            if group.cumulative:
                self._hold_cumulative(group._replace(acknowledged=()))
                self._cumulative_receipts += tuple(one._replace(was_sent=True) for one in group.acknowledged)
                continue
            for entry, unacknowledged in group.entries:
                self._held[entry] = unacknowledged & self._held.get(entry, unacknowledged)
            for one in group.acknowledged:
                key = one.message_id.position
                self._receipts.setdefault(key, []).append(one._replace(was_sent=True))
        self._unanswered = {}
        self._confirmed = BEFORE_EVERYTHING
        self._set_floor()

    def drop_all(self) -> DroppedAcks:
        """Drop everything at the consumer's end, and return the tokens that will get no answer."""
        self.disconnected()
        waiting = [*self._cumulative_receipts, *(one for several in self._receipts.values() for one in several)]
        self._cumulative, self._cumulative_receipts, self._held, self._receipts = None, [], {}, {}
        dropped = [one for one in waiting if one.token is not None]
        return DroppedAcks(
            tuple(one.token for one in dropped if not one.was_sent), tuple(one.token for one in dropped if one.was_sent)
        )

    def sought(self, generation: Generation) -> tuple[AckToken, ...]:
        """Start again after a seek: earlier acknowledgements are void.

        Those that were held have been sent before the SEEK.
        """
        never_sent, sent = self.drop_all()
        self.generation = generation
        self._batch_sizes.clear()
        self._unacknowledged.clear()
        self._withheld.clear()
        self._left_by_transactions.clear()
        self._confirmed = BEFORE_EVERYTHING
        self._set_floor()
        return (*never_sent, *sent)


class AckReceipts:
    """The callers of one consumer that wait for a receipt, by token. Times are monotonic seconds.

    An acknowledgement survives its connection: it is held until a broker takes it. Its caller waits no longer than the
    timeout. Each token ends once: by the broker's answer, or at its deadline, after which the answer is ignored. All
    callers wait equally long, so deadlines pass in the order of the calls.
    """

    __slots__ = ("_deadlines", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._deadlines: dict[AckToken, float] = {}

    def awaited(self, tokens: Iterable[AckToken], now: float) -> None:
        """Start the timeout of these callers."""
        deadline = now + self.timeout
        for token in tokens:
            self._deadlines[token] = deadline

    def ended(self, tokens: Iterable[AckToken]) -> tuple[AckToken, ...]:
        """End the wait of these tokens, and return those that were still waiting."""
        return tuple(token for token in tokens if self._deadlines.pop(token, None) is not None)

    def next_deadline(self) -> float | None:
        """Return the time to call `expire`; None if no caller waits."""
        return next(iter(self._deadlines.values()), None)

    def expire(self, now: float) -> tuple[AckToken, ...]:
        """End the wait of the tokens whose deadline has passed, and return them."""
        late: list[AckToken] = []
        for token, deadline in self._deadlines.items():
            if deadline > now:
                break
            late.append(token)
        return self.ended(late)
