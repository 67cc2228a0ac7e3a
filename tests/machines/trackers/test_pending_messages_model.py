from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pulsar_actors.machines.trackers.pending_messages import (
    STORED_BEFORE,
    FailedSend,
    PendingMessages,
    PendingSend,
    ReceiptVerdict,
    SendQuota,
    StoredSend,
)


@dataclass
class _Model:
    """One send as the test remembers it."""

    item: PendingSend[int]
    written: bool = False
    ever: int = 0
    receipts: list[tuple[int, int]] = field(default_factory=list)


def _has(sent: _Model, sequence_id: int) -> bool:
    return sent.item.lowest_sequence_id <= sequence_id <= sent.item.highest_sequence_id


class EverySendEndsOnceAndInOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.messages, self.memory = SendQuota(12), SendQuota(0)
        self.queue = PendingMessages[int](self.messages, self.memory)
        self.model: list[_Model] = []
        self.ended: list[int] = []
        self.stored: list[int] = []
        self.sent = self.next_id = self.generation = 0
        self.bound = False
        self.now = 0.0

    @rule(
        count=st.integers(1, 4), size=st.integers(0, 20), frames=st.sampled_from([1, 1, 3]), patience=st.integers(3, 9)
    )
    def send(self, count: int, size: int, frames: int, patience: int) -> None:
        messages = 1 if frames > 1 else count
        pending = sum(m.item.messages for m in self.model)
        assert self.messages.has_place(messages - 1) is (pending + messages <= 12)
        if pending + messages <= 12:
            self.queue.reserve(messages, size)
            last = self.next_id + messages - 1
            item = PendingSend(self.sent, self.next_id, last, messages, size, self.now + patience, frames)
            self.queue.add(item)
            self.model.append(_Model(item))
            self.sent, self.next_id = self.sent + 1, last + 1

    @rule(sequence_id=st.integers(0, 40), frames=st.sampled_from([1, 1, 3]))
    def send_an_old_id_again(self, sequence_id: int, frames: int) -> None:
        if sequence_id < self.next_id and self.messages.has_place(0):
            self.queue.reserve(1, 5)
            deadline = max([self.now, *(sent.item.deadline or 0.0 for sent in self.model)])
            item = PendingSend(self.sent, sequence_id, sequence_id, 1, 5, deadline, frames)
            self.queue.add(item)
            self.model.append(_Model(item))
            self.sent += 1

    @rule(size=st.integers(0, 20))
    def send_what_can_not_be_encoded(self, size: int) -> None:
        self.queue.reserve(1, size)
        self.queue.give_back(1, size)

    @rule(known=st.integers(-1, 40))
    def connect(self, known: int) -> None:
        self.generation += 1
        self.queue.bind(self.generation, 0.0, known)
        self.bound = True
        for sent in self.model:
            sent.written = False
            if sent.ever and sent.item.frames > 1 and sent.item.highest_sequence_id <= known:
                sent.receipts = [STORED_BEFORE] * (sent.item.frames - 1)
            elif STORED_BEFORE in sent.receipts:
                sent.receipts = []

    @precondition(lambda self: self.bound)
    @rule()
    def lose_the_connection(self) -> None:
        self.queue.unbind()
        self.bound = False
        for sent in self.model:
            sent.written = False

    @rule()
    def write(self) -> None:
        expected = [sent for sent in self.model if not sent.written] if self.bound else []
        assert self.queue.take_unwritten() == [sent.item for sent in expected]
        assert [sent.item.next_frame for sent in expected] == [len(sent.receipts) for sent in expected]
        for sent in expected:
            sent.written, sent.ever = True, sent.ever + 1

    @rule(sequence_id=st.integers(0, 40), old=st.integers(0, 1), dropped=st.booleans())
    def any_receipt(self, sequence_id: int, old: int, dropped: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        written = [sent for sent in self.model if sent.written] if self.bound and not old else []
        addressed = [sent for sent in written if _has(sent, sequence_id)]
        message_id = STORED_BEFORE if dropped else (9, sequence_id)
        skips = self.queue.skips_head(self.generation - old, sequence_id, message_id)
        answer = self.queue.receipt(self.generation - old, sequence_id, message_id)
        if addressed and (addressed[0] is written[0] or (dropped and self._is_older_than_all_before(addressed[0]))):
            assert not skips
            self._receipt_for(addressed[0], message_id, answer)
        elif addressed and sequence_id > written[0].item.highest_sequence_id:
            assert skips
            assert answer is ReceiptVerdict.SKIPS_HEAD
        else:
            assert not skips
            assert answer is ReceiptVerdict.IGNORED

    def _is_older_than_all_before(self, sent: _Model) -> bool:
        before = self.model[: self.model.index(sent)]
        return all(sent.item.lowest_sequence_id < one.item.lowest_sequence_id for one in before)

    @precondition(lambda self: self.model and self.model[0].written)
    @rule(data=st.data(), dropped=st.booleans())
    def receipt_for_the_head(self, data: st.DataObject, dropped: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        head = self.model[0]
        sequence_id = data.draw(st.integers(head.item.lowest_sequence_id, head.item.highest_sequence_id))
        message_id = STORED_BEFORE if dropped else (9, data.draw(st.integers(0, 3)))
        answer = self.queue.receipt(self.generation, sequence_id, message_id)
        self._receipt_for(head, message_id, answer)
        if isinstance(answer, StoredSend):
            place = STORED_BEFORE if STORED_BEFORE in head.receipts else max(head.receipts)
            assert answer.message_ids[-1] == place

    def _receipt_for(self, sent: _Model, message_id: tuple[int, int], answer: StoredSend | ReceiptVerdict) -> None:
        if sent.item.frames > 1 and message_id != STORED_BEFORE and message_id in sent.receipts:
            assert answer is ReceiptVerdict.IGNORED  # it is of a chunk that has one
            return
        sent.receipts.append(message_id)
        if len(sent.receipts) < sent.item.frames and message_id != STORED_BEFORE:
            assert answer is ReceiptVerdict.CHUNK
            return
        assert isinstance(answer, StoredSend)
        assert answer.token == sent.item.token
        assert sorted(answer.message_ids) == sorted(sent.receipts)
        assert answer.overtook == (sent is not self.model[0])
        if not answer.overtook:
            self.stored.append(answer.token)
        self._end(sent)

    @precondition(lambda self: any(sent.written for sent in self.model))
    @rule(data=st.data())
    def refuse_one(self, data: st.DataObject) -> None:
        sent = data.draw(st.sampled_from([sent for sent in self.model if sent.written]))
        sequence_id = data.draw(st.integers(sent.item.lowest_sequence_id, sent.item.highest_sequence_id))
        written = [each for each in self.model if each.written and _has(each, sequence_id)]
        named = next((each for each in written if each.item.highest_sequence_id == sequence_id), written[0])
        found = self.queue.find(self.generation, sequence_id)
        assert found is not None
        assert found is named.item
        assert self.queue.fail(found) == FailedSend(named.item.token, may_be_stored=named.ever > 1)
        self._end(named)

    @rule(seconds=st.integers(0, 3))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        head_is_late = bool(self.model) and (self.model[0].item.deadline or 0.0) <= self.now
        assert self.queue.is_late(self.now) == head_is_late
        if head_is_late:
            self.close()

    @rule()
    def close(self) -> None:
        failed, doomed = self.queue.fail_all(), list(self.model)
        assert failed == [FailedSend(sent.item.token, may_be_stored=sent.ever > 0) for sent in doomed]
        for sent in doomed:
            self._end(sent)

    def _end(self, sent: _Model) -> None:
        self.model.remove(sent)
        self.ended.append(sent.item.token)

    @invariant()
    def nothing_is_lost_or_ended_twice(self) -> None:
        pending = [sent.item.token for sent in self.model]
        assert sorted(self.ended + pending) == list(range(self.sent))
        assert len(self.queue) == len(pending)

    @invariant()
    def successes_come_in_order(self) -> None:
        assert self.stored == sorted(self.stored)

    @invariant()
    def what_is_pending_and_nothing_else_holds_permits_and_memory(self) -> None:
        assert self.messages.used == sum(sent.item.messages for sent in self.model)
        assert self.memory.used == sum(sent.item.size for sent in self.model)

    @invariant()
    def the_head_has_the_next_deadline(self) -> None:
        assert self.queue.next_deadline() == (self.model[0].item.deadline if self.model else None)


TestEverySendEndsOnceAndInOrder = EverySendEndsOnceAndInOrder.TestCase
TestEverySendEndsOnceAndInOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
