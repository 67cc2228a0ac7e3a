"""Acknowledgements, gathered until a command of them is worth sending.

Users acknowledge messages; the broker counts entries. An entry that is a batch is acknowledged when all its messages
are, so for each batch that is partly acknowledged a set of what is missing is kept (see `ack_set`). When the broker
keeps such sets too (`batch_index_acks`), the missing set is sent each time it shrinks; a batch with nothing missing
goes out as a plain entry, with or without this.

A cumulative acknowledgement says "this and everything before it". In the middle of a batch it is sent with the missing
set, or else for the entry before, which is all that a broker without sets can be told without losing messages.

Everything is held for `group_time` or until `group_size` entries are held, or no longer if somebody waits for it. What
is held, or sent and not yet answered, is not lost with a connection: it goes out again on the next. What was sent
without asking for a receipt counts as done. What was refused counts as never acknowledged. A seek makes
acknowledgements of earlier messages void.

What is missing of a batch is kept for as long as somebody asks for it: what a whole binding did not touch is dropped at
the next, for its entries may be another consumer's by now. A set that is held outlives that, and what is said of its
batch next leaves out what either of the two leaves out.

What must hold: no command ever covers a message that the user has not acknowledged.
"""

from collections.abc import Callable, Iterable, Sequence

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers import ack_set, acknowledgeable
from pulsar_actors.machines.ledgers.ack_command import NOWHERE, WHOLE, AckGroup, Acknowledged, Token
from pulsar_actors.machines.ledgers.ack_outcome import Answer, Outcome
from pulsar_actors.machines.ledgers.chunks import ends
from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.machines.ledgers.entry_map import EntryMap
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.message_id import MessageId

MAX_ENTRIES = 1000
"""In one command."""

GROUP_TIME = 0.1


class AckGroups:
    """The acknowledgements of one consumer of one partition. Times are monotonic seconds."""

    __slots__ = (
        "_confirmed", "_cumulative", "_cumulative_receipts", "_floor", "_held", "_missing", "_receipts", "_unanswered",
        "batch_index_acks", "chunks_of", "due_at", "generation", "group_size", "group_time", "largest_batch",
        "receipts",
    )  # fmt: skip

    def __init__(
        self,
        *,
        batch_index_acks: bool = False,
        receipts: bool = False,
        group_time: float = GROUP_TIME,
        group_size: int = MAX_ENTRIES,
    ) -> None:
        self.chunks_of: Callable[[MessageId], Iterable[EntryKey]] = ends  # until somebody knows those between
        self.largest_batch = ack_set.largest_batch(DEFAULT_MAX_MESSAGE_SIZE)  # until a broker says otherwise
        self.batch_index_acks = batch_index_acks
        self.receipts = receipts
        self.group_time = group_time
        self.group_size = group_size
        self.generation = Generation()
        self.due_at: float | None = None
        self._missing: EntryMap[int] = EntryMap()  # 0: complete, but the broker may still refuse that
        self._held: dict[EntryKey, int] = {}
        self._cumulative: AckGroup | None = None  # without its receipts
        self._cumulative_receipts: list[Acknowledged] = []
        self._receipts: dict[EntryKey, list[Acknowledged]] = {}
        self._unanswered: dict[int, AckGroup] = {}
        self._confirmed = NOWHERE
        self._floor = NOWHERE

    def delivered(self, entry: EntryKey, missing: int) -> None:
        """Note what is missing of a batch of which the broker has some acknowledged already."""
        self._missing.put(entry, missing)

    def forget(self, entries: Iterable[EntryKey]) -> None:
        """Forget how far batches got, because the broker was asked to deliver them again."""
        for entry in entries:
            self._missing.pop(entry)

    def rebound(self) -> None:
        """Begin on a new binding."""
        self._missing.turn()

    def is_acknowledged(self, message_id: MessageId) -> bool:
        """Tell whether a delivery is of something acknowledged already; no batch index stands for the whole entry."""
        ledger_id, entry_id, index = message_id.ledger_id, message_id.entry_id, message_id.batch_index
        if (ledger_id, entry_id, WHOLE if index < 0 else index) <= self._floor:
            return True
        held = self._held.get((ledger_id, entry_id))
        return held is not None and (not held or (index >= 0 and not held >> index & 1))

    def left_of(self, entry: EntryKey, messages: int) -> int:
        """Give a set of messages of a batch without those that are acknowledged."""
        left = messages & (self._missing.get(entry) or messages)
        return left & (self._held.get(entry) or left)

    def acknowledge(
        self,
        message_ids: Sequence[MessageId],
        generation: Generation,
        now: float,
        tokens: Sequence[Token] | None = None,
    ) -> Outcome:
        """Acknowledge messages one by one, whatever is wrong with others; `tokens`, if given, is one for each."""
        is_void = not generation.still_acknowledges(self.generation)
        done: list[EntryKey] = []
        ended: list[Token] = []
        faults: list[tuple[Token | None, InvalidArgument]] = []
        for place, message_id in enumerate(message_ids):
            token = tokens[place] if tokens else None
            fault = acknowledgeable.fault(message_id, self.largest_batch)
            if fault is not None:
                faults.append((token, fault))
            elif not is_void and self._mark(message_id, done) and self.receipts:
                self._receipts.setdefault(message_id.position, []).append(Acknowledged(message_id, token))
            elif tokens:
                ended.append(token)
        self._start_waiting(now)
        return Outcome(done, tokens=tuple(ended), faults=tuple(faults))

    def acknowledge_parts(self, parts: Iterable[tuple[MessageId, int]], generation: Generation, now: float) -> Outcome:
        """Acknowledge sets of messages that were delivered in batches; nobody waits for receipts of these."""
        done: list[EntryKey] = []
        if generation.still_acknowledges(self.generation):
            for entry, messages in parts:
                if acknowledgeable.fault(entry, self.largest_batch) is None:
                    self._mark_in_batch(entry, messages, done)
            self._start_waiting(now)
        return Outcome(done)

    def _mark(self, message_id: MessageId, done: list[EntryKey]) -> bool:
        """Mark one message, and tell whether something is to be sent for it."""
        key = message_id.position
        index = message_id.batch_index
        if message_id.first_chunk is not None:
            for chunk in self.chunks_of(message_id):
                self._held[chunk] = 0
                done.append(chunk)
            return True
        if index >= 0:
            return self._mark_in_batch(message_id, 1 << index, done)
        self._held[key] = 0
        done.append(key)
        return True

    def _mark_in_batch(self, entry: MessageId, messages: int, done: list[EntryKey]) -> bool:
        """Mark a set of a batch's messages, and tell whether something is to be sent for it."""
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
        """Give what is missing of a batch, by what is known of it and what is held for it."""
        missing = self._missing.get(message_id.position)
        if missing is None:
            missing = ack_set.full(message_id.batch_size)
        return missing & self._held.get(message_id.position, missing)

    def _complete(self, entry: EntryKey) -> None:
        """Note that nothing of an entry is missing, for as long as that may be taken back."""
        if self.receipts:
            self._missing.put(entry, 0)
        else:
            self._missing.pop(entry)

    def acknowledge_up_to(
        self, message_id: MessageId, generation: Generation, now: float, token: Token | None = None
    ) -> Outcome:
        """Acknowledge a message and all before it."""
        fault = acknowledgeable.fault(message_id, self.largest_batch)
        if fault is not None:
            return Outcome(faults=((token, fault),))
        ended = () if token is None else (token,)
        if not generation.still_acknowledges(self.generation):
            return Outcome(tokens=ended)
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
            return Outcome(up_to=up_to, tokens=ended)
        if not missing:
            self._complete(key)
        self._hold_cumulative(group)
        self._start_waiting(now)
        if not self.receipts:
            return Outcome(up_to=up_to, tokens=ended)
        self._cumulative_receipts.append(Acknowledged(message_id, token))
        return Outcome(up_to=up_to)

    def _hold_cumulative(self, group: AckGroup) -> None:
        """Keep the furthest of two."""
        if self._cumulative is None or group.position > self._cumulative.position:
            self._cumulative = group
        self._floor = max(self._floor, group.position)

    def _start_waiting(self, now: float) -> None:
        if self.due_at is None and (self._held or self._cumulative):
            self.due_at = now + self.group_time

    def hurry(self, now: float) -> None:
        """Hold what is held no longer."""
        self.due_at = None if self.due_at is None else min(now, self.due_at)

    def is_due(self, now: float) -> bool:
        """Tell whether what is held should go out now."""
        return self.due_at is not None and (now >= self.due_at or len(self._held) >= self.group_size)

    def drain(self) -> list[AckGroup]:
        """Take out all that is held, to be sent on a connection that is there."""
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
        self.due_at = None

    def awaits(self, number: int, group: AckGroup) -> None:
        """Note that a group was sent, under a number of our own."""
        self._unanswered[number] = group

    def answered(self, number: int, *, failed: bool) -> Answer:
        """End a group as the broker says; a late answer ends nothing."""
        group = self._unanswered.pop(number, None)
        if group is None:
            return Answer()
        for message_id, _ in group.acknowledged:
            self._settle(message_id, failed=failed, cumulative=group.cumulative)
        if group.cumulative and not failed:
            self._confirmed = max(self._confirmed, group.position)
        self._set_floor()
        tokens = tuple(token for _, token in group.acknowledged if token is not None)
        return Answer(tokens, self._not_said_again(group) if failed else ())

    def _not_said_again(self, group: AckGroup) -> tuple[EntryKey, ...]:
        """Give the entries of a group that are not held as a whole; of a cumulative one, those that calls named."""
        entries = [one.message_id.position for one in group.acknowledged] if group.cumulative else dict(group.entries)
        return tuple(entry for entry in entries if self._held.get(entry) != 0)

    def _settle(self, message_id: MessageId, *, failed: bool, cumulative: bool) -> None:
        """Count a message of a batch as missing again if need be, and keep nothing of batches that are all or none."""
        entry, index = message_id.position, message_id.batch_index
        if self._held.get(entry) == 0:
            return  # it will be said again
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

    def disconnected(self, now: float) -> None:
        """Hold again what was sent and not answered. What was confirmed is the broker's to remember."""
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
        self._confirmed = NOWHERE
        self._set_floor()
        self._start_waiting(now)

    def abandon(self) -> tuple[Token, ...]:
        """Drop everything, when the consumer ends, and give the tokens that will have no answer."""
        groups = [*self.drain(), *self._unanswered.values()]
        self._unanswered = {}
        return tuple(token for group in groups for _, token in group.acknowledged if token is not None)

    def sought(self, generation: Generation) -> tuple[Token, ...]:
        """Begin after a seek: earlier acknowledgements are void, and what is held should have been sent before."""
        tokens = self.abandon()
        self.generation = generation
        self._missing.clear()
        self._confirmed = NOWHERE
        self._set_floor()
        return tokens
