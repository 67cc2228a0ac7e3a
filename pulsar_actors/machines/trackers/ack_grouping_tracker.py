"""The acknowledgements of one consumer: marked per message, sent per entry, in as few commands as say the same.

Users acknowledge messages; the broker counts entries. An entry that is a batch is acknowledged when all its messages
are, so the tracker keeps a set of what is missing of each batch that is partly acknowledged (see `ack_set`). When the
broker keeps such sets too (`batch_index_acks`), the missing set is sent each time it shrinks. A batch with nothing
missing goes out as a plain entry, with or without this.

A cumulative acknowledgement covers a message and everything before it. In the middle of a batch it is sent with the
missing set, or else for the entry before, which is all that a broker without sets can be told without losing messages.

Acknowledgements are grouped once: `runtime/ack_queue.py` collects those of callers for the group time, and what it
hands over is marked and held here until `AcksDue` says that the group is complete. The tracker itself has no timer.

What is held, or sent and not yet answered, is not lost with a connection: it goes out again on the next. What was sent
without asking for a receipt counts as done. What was refused counts as never acknowledged. A seek makes
acknowledgements of earlier messages void.

A missing set is dropped when a whole binding passes without anybody asking for it: the entries may be another
consumer's by now. A held set outlives that. The next acknowledgement of the same batch leaves out what is left out by
either of the two.

What must hold: no command ever covers a message that the user has not acknowledged.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers import ack_set
from pulsar_actors.machines.trackers.ack_set import to_words
from pulsar_actors.machines.trackers.chunked_messages import known_entries
from pulsar_actors.machines.trackers.entry_map import EntryKey, EntryMap, Generation, is_real
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.protobuf import unsigned
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, MessageIdData

AckPosition = tuple[int, int, int]
AckToken = Any  # what the caller wants back when the acknowledgement has ended

WHOLE_ENTRY = sys.maxsize
"""The batch index after all messages of an entry."""

BEFORE_EVERYTHING: AckPosition = (-1, -1, -1)
"""Before every position."""


class AwaitedAck(NamedTuple):
    """One acknowledgement that waits for a receipt."""

    message_id: MessageId
    token: AckToken


class AckGroup(NamedTuple):
    """The contents of one CommandAck: entries, each with the set that is missing (0: nothing is)."""

    entries: tuple[tuple[EntryKey, int], ...]
    cumulative: bool = False
    validation_error: "CommandAck.ValidationError.ValueType | None" = None
    acknowledged: tuple[AwaitedAck, ...] = ()

    @property
    def position(self) -> AckPosition:
        """How far a cumulative group reaches."""
        (ledger_id, entry_id), missing = self.entries[0]
        lowest = (missing & -missing).bit_length() - 1
        return (ledger_id, entry_id, lowest - 1 if missing else WHOLE_ENTRY)

    def command(self, consumer_id: int) -> CommandAck:
        """Make the command."""
        return CommandAck(
            consumer_id=consumer_id,
            ack_type=CommandAck.AckType.Cumulative if self.cumulative else CommandAck.AckType.Individual,
            message_id=[
                MessageIdData(ledgerId=unsigned(ledger_id), entryId=unsigned(entry_id), ack_set=to_words(missing))
                for (ledger_id, entry_id), missing in self.entries
            ],
            validation_error=self.validation_error,
        )


def corrupt_group(entries: Iterable[EntryKey], error: "CommandAck.ValidationError.ValueType") -> AckGroup:
    """Make the group that acknowledges corrupt entries; it is not held."""
    return AckGroup(tuple((entry, 0) for entry in entries), validation_error=error)


class AckOutcome(NamedTuple):
    """The immediate outcome of a call: whole entries, all up to one, and tokens that wait for no answer.

    `faults` are the refused ids: the token of each, if it has one, and the error.
    """

    entries: Sequence[EntryKey] = ()
    up_to: EntryKey | None = None
    tokens: tuple[AckToken, ...] = ()
    faults: tuple[tuple[AckToken | None, InvalidArgument], ...] = ()


class AckAnswer(NamedTuple):
    """The outcome of a group: the tokens that end, and the entries that are not acknowledged after all."""

    tokens: tuple[AckToken, ...] = ()
    refused: tuple[EntryKey, ...] = ()


def id_fault(message_id: MessageId, largest_batch: int) -> InvalidArgument | None:
    """Refuse an id that no message has: users may have read it from anywhere.

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


class AckGroupingTracker:
    """The acknowledgements of one consumer of one partition."""

    __slots__ = (
        "_chunks_of", "_confirmed", "_cumulative", "_cumulative_receipts", "_floor", "_held", "_missing", "_receipts",
        "_unanswered", "batch_index_acks", "generation", "largest_batch", "receipts",
    )  # fmt: skip

    def __init__(
        self,
        *,
        batch_index_acks: bool = False,
        receipts: bool = False,
        chunks_of: Callable[[MessageId], Iterable[EntryKey]] = known_entries,
    ) -> None:
        self._chunks_of = chunks_of
        self.largest_batch = ack_set.largest_batch(DEFAULT_MAX_MESSAGE_SIZE)  # until a broker says otherwise
        self.batch_index_acks = batch_index_acks
        self.receipts = receipts
        self.generation = Generation()
        self._missing: EntryMap[int] = EntryMap()  # 0: complete, but the broker may still refuse that
        self._held: dict[EntryKey, int] = {}
        self._cumulative: AckGroup | None = None  # without its receipts
        self._cumulative_receipts: list[AwaitedAck] = []
        self._receipts: dict[EntryKey, list[AwaitedAck]] = {}
        self._unanswered: dict[int, AckGroup] = {}
        self._confirmed = BEFORE_EVERYTHING
        self._floor = BEFORE_EVERYTHING

    def delivered(self, entry: EntryKey, missing: int) -> None:
        """Note the missing set of a batch of which the broker has some messages acknowledged already."""
        self._missing.put(entry, missing)

    def forget(self, entries: Iterable[EntryKey]) -> None:
        """Forget the missing sets of batches that the broker is to redeliver."""
        for entry in entries:
            self._missing.pop(entry)

    def rebound(self) -> None:
        """Begin on a new connection."""
        self._missing.drop_unused()

    def is_acknowledged(self, message_id: MessageId) -> bool:
        """Tell whether a delivered message, or without a batch index a whole entry, is acknowledged already."""
        ledger_id, entry_id, index = message_id.ledger_id, message_id.entry_id, message_id.batch_index
        if (ledger_id, entry_id, WHOLE_ENTRY if index < 0 else index) <= self._floor:
            return True
        held = self._held.get((ledger_id, entry_id))
        return held is not None and (not held or (index >= 0 and not held >> index & 1))

    def unacknowledged_of(self, entry: EntryKey, messages: int) -> int:
        """Remove from a set of messages of a batch those that are acknowledged."""
        left = messages & (self._missing.get(entry) or messages)
        return left & (self._held.get(entry) or left)

    def acknowledge(
        self,
        message_ids: Sequence[MessageId],
        generation: Generation,
        tokens: Sequence[AckToken] | None = None,
    ) -> AckOutcome:
        """Acknowledge messages one by one, whatever is wrong with others; `tokens`, if given, has one for each."""
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

    def _mark(self, message_id: MessageId, done: list[EntryKey]) -> bool:
        """Mark one message, and tell whether it gets a receipt."""
        key = message_id.position
        index = message_id.batch_index
        if message_id.first_chunk is not None:
            for chunk in self._chunks_of(message_id):
                self._held[chunk] = 0
                done.append(chunk)
            return True
        if index >= 0:
            return self._mark_in_batch(message_id, 1 << index, done)
        self._held[key] = 0
        done.append(key)
        return True

    def _mark_in_batch(self, entry: MessageId, messages: int, done: list[EntryKey]) -> bool:
        """Mark a set of a batch's messages, and tell whether something is sent for it."""
        key = entry.position
        if self._held.get(key) == 0:
            return True
        missing = self._missing_of(entry)
        missing ^= missing & messages
        if missing:
            self._missing.put(key, missing)
            if self.batch_index_acks:
                self._held[key] = missing
            return self.batch_index_acks
        self._complete(key)
        self._held[key] = 0
        done.append(key)
        return True

    def _missing_of(self, message_id: MessageId) -> int:
        """Give the missing set of a batch: what neither the last known set nor the held one leaves out."""
        missing = self._missing.get(message_id.position)
        if missing is None:
            missing = ack_set.full(message_id.batch_size)
        return missing & self._held.get(message_id.position, missing)

    def _complete(self, entry: EntryKey) -> None:
        """Note that nothing of an entry is missing; with receipts, as long as a refusal may take that back."""
        if self.receipts:
            self._missing.put(entry, 0)
        else:
            self._missing.pop(entry)

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
        missing = 0
        if message_id.batch_index >= 0:
            missing = ack_set.without_up_to(self._missing_of(message_id), message_id.batch_index)
        up_to = (ledger_id, entry_id - 1) if missing else key
        said = (key, missing) if self.batch_index_acks else (up_to, 0)
        self._missing.pop_up_to(key)
        if missing:
            self._missing.put(key, missing)
        group = AckGroup((said,), cumulative=True)
        if group.position <= self._confirmed:
            return AckOutcome(up_to=up_to, tokens=ended)
        if not missing:
            self._complete(key)
        self._hold_cumulative(group)
        if not self.receipts:
            return AckOutcome(up_to=up_to, tokens=ended)
        self._cumulative_receipts.append(AwaitedAck(message_id, token))
        return AckOutcome(up_to=up_to)

    def _hold_cumulative(self, group: AckGroup) -> None:
        """Keep the further of two cumulative groups."""
        if self._cumulative is None or group.position > self._cumulative.position:
            self._cumulative = group
        self._floor = max(self._floor, group.position)

    @property
    def is_holding(self) -> bool:
        """True while there is something to send."""
        return bool(self._held) or self._cumulative is not None

    def drain(self) -> list[AckGroup]:
        """Take out all that is held, to be sent now."""
        groups: list[AckGroup] = []
        if self._cumulative is not None:
            groups.append(self._cumulative._replace(acknowledged=tuple(self._cumulative_receipts)))
            if not self.receipts:
                self._confirmed = max(self._confirmed, self._cumulative.position)
        entries = tuple(self._held.items())
        for start in range(0, len(entries), MAX_ENTRIES):
            part = entries[start : start + MAX_ENTRIES]
            waiting = tuple(one for entry, _ in part for one in self._receipts.get(entry, ()))
            groups.append(AckGroup(part, acknowledged=waiting))
        self._clear_held()
        return groups

    def _clear_held(self) -> None:
        self._cumulative = None
        self._cumulative_receipts = []
        self._held = {}
        self._receipts = {}

    def awaits(self, number: int, group: AckGroup) -> None:
        """Note that a group was sent, under a number that its answer carries."""
        self._unanswered[number] = group

    def answered(self, number: int, *, failed: bool) -> AckAnswer:
        """End a group by the broker's answer; a late answer ends nothing."""
        group = self._unanswered.pop(number, None)
        if group is None:
            return AckAnswer()
        for message_id, _ in group.acknowledged:
            self._settle(message_id, failed=failed, cumulative=group.cumulative)
        if group.cumulative and not failed:
            self._confirmed = max(self._confirmed, group.position)
        self._set_floor()
        tokens = tuple(token for _, token in group.acknowledged if token is not None)
        return AckAnswer(tokens, self._not_sent_again(group) if failed else ())

    def _not_sent_again(self, group: AckGroup) -> tuple[EntryKey, ...]:
        """Give the entries of a group that are not held as a whole; of a cumulative group, those that callers named."""
        entries = [one.message_id.position for one in group.acknowledged] if group.cumulative else dict(group.entries)
        return tuple(entry for entry in entries if self._held.get(entry) != 0)

    def _settle(self, message_id: MessageId, *, failed: bool, cumulative: bool) -> None:
        """Count a refused message of a batch as missing again; keep no set of a batch that is complete or untouched."""
        entry, index = message_id.position, message_id.batch_index
        if self._held.get(entry) == 0:
            return  # it is sent again
        whole = ack_set.full(message_id.batch_size)
        missing = self._missing.pop(entry)
        missing = whole if missing is None else missing
        if failed and index >= 0:
            missing |= ack_set.full(index + 1) if cumulative else 1 << index
        if missing not in (0, whole):
            self._missing.put(entry, missing)

    def _set_floor(self) -> None:
        asked = [group.position for group in self._unanswered.values() if group.cumulative]
        if self._cumulative is not None:
            asked.append(self._cumulative.position)
        self._floor = max([self._confirmed, *asked])

    def disconnected(self) -> None:
        """Hold again what was sent and not answered. The broker remembers what it confirmed."""
        for group in self._unanswered.values():
            if group.cumulative:
                self._hold_cumulative(group._replace(acknowledged=()))
                self._cumulative_receipts += group.acknowledged
                continue
            for entry, missing in group.entries:
                self._held[entry] = missing & self._held.get(entry, missing)
            for one in group.acknowledged:
                key = one.message_id.position
                self._receipts.setdefault(key, []).append(one)
        self._unanswered = {}
        self._confirmed = BEFORE_EVERYTHING
        self._set_floor()

    def abandon(self) -> tuple[AckToken, ...]:
        """Drop everything at the consumer's end, and give the tokens that will have no answer."""
        groups = [*self.drain(), *self._unanswered.values()]
        self._unanswered = {}
        return tuple(token for group in groups for _, token in group.acknowledged if token is not None)

    def sought(self, generation: Generation) -> tuple[AckToken, ...]:
        """Begin after a seek: earlier acknowledgements are void, and what was held has been sent before."""
        tokens = self.abandon()
        self.generation = generation
        self._missing.clear()
        self._confirmed = BEFORE_EVERYTHING
        self._set_floor()
        return tokens


class AckReceipts:
    """The callers of one consumer that wait for a receipt, by token. Times are monotonic seconds.

    An acknowledgement outlives its connection: it is held until there is a broker to take it. Its caller does not wait
    for as long as that may take. Each token ends once: by the broker's answer, or by its deadline, after which the
    answer is ignored. All wait equally long, so deadlines pass in the order in which the tokens came.
    """

    __slots__ = ("_deadlines", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._deadlines: dict[AckToken, float] = {}

    def awaited(self, tokens: Iterable[AckToken], now: float) -> None:
        """Begin to wait for these."""
        deadline = now + self.timeout
        for token in tokens:
            self._deadlines[token] = deadline

    def ended(self, tokens: Iterable[AckToken]) -> tuple[AckToken, ...]:
        """End the waiting of these, and give those that still waited."""
        return tuple(token for token in tokens if self._deadlines.pop(token, None) is not None)

    def next_deadline(self) -> float | None:
        """Give the time to call `expire`; None if nobody waits."""
        return next(iter(self._deadlines.values()), None)

    def expire(self, now: float) -> tuple[AckToken, ...]:
        """End the waiting of those whose deadline has passed, and give them."""
        late: list[AckToken] = []
        for token, deadline in self._deadlines.items():
            if deadline > now:
                break
            late.append(token)
        return self.ended(late)
