from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.exceptions import ConnectionLost
from pulsar_actors.machines.connection_handler_events import Detached, LookedUp, Open, RetryDue
from pulsar_actors.machines.consumer import State
from pulsar_actors.machines.consumer_events import (
    Acknowledge,
    AcknowledgeInTransaction,
    AcknowledgeUpTo,
    AcksDue,
    AcksHeld,
    AskToAck,
    AskToAckInTransaction,
    AskToSubscribe,
    ClearQueue,
    ConsumerAttached,
    DeadLetterFailed,
    DeadLetterSent,
    EntryCorrupt,
    EntryUndecryptable,
    HandedOut,
    MessagesDiscarded,
    NegativeAcknowledge,
    NotePassed,
    NoteSkipped,
    QueueEntries,
    RedeliverUnacknowledged,
    RedeliveryDue,
    RedeliveryRequested,
    ResizeQueue,
    ResizeReceiverQueue,
    Seek,
    SeekAnswered,
    SendConsumerCommand,
    SendToDeadLetters,
    Subscribed,
)
from pulsar_actors.machines.incoming_entries import CorruptEntry, IncompleteChunks
from pulsar_actors.machines.trackers.chunked_messages import KEPT
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.machines.trackers.transactional_acks import TransactionalAck
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, CommandFlow, CommandRedeliverUnacknowledgedMessages
from pulsar_actors.wire.transaction_id import TransactionId
from tests.support.consumer_bench import MAX_MESSAGE_SIZE, NOW_MS, Subscriber, flows, incoming, plain, ready, rebinding

Fault = CommandAck.ValidationError


def chunk(entry: int, chunk_id: int, **options: Any) -> Any:
    parts: dict[str, Any] = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 14}
    return incoming(entry, chunk_id=chunk_id, **(parts | options))


def asked_for(driven: Subscriber) -> list[int]:
    commands = driven.said(CommandRedeliverUnacknowledgedMessages)
    return [one.entryId for command in commands for one in command.message_ids]


def test_each_kind_of_fault_is_refused_in_a_command_of_its_own_at_once() -> None:
    driven = ready()
    bad_chunks = [chunk(entry, 0, broken=True) for entry in (0, 1)]
    driven.receive(*bad_chunks, incoming(2, batch=0))
    said = [([one.entryId for one in ack.message_id], ack.validation_error) for ack in driven.said(CommandAck)]
    assert said == [([0, 1], Fault.ChecksumMismatch), ([2], Fault.BatchDeSerializeError)]


@pytest.mark.parametrize("batch", [None, 3])
def test_an_entry_that_comes_again_before_its_time_is_not_requested_then(batch: int | None) -> None:
    driven = ready()
    driven.receive(incoming(3, batch=batch), incoming(4, batch=batch))
    (handed,) = driven.did(QueueEntries)
    driven.tell(NegativeAcknowledge(driven.generation, tuple((one.message_id, 0) for one in handed.entries)))
    driven.receive(incoming(3, batch=batch))
    assert driven.did(QueueEntries)
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == [4]


def test_acknowledging_or_refusing_a_chunked_message_covers_every_chunk() -> None:
    driven = ready(ack_timeout=10.0)
    driven.receive(chunk(0, 0), chunk(1, 1))
    (handed,) = driven.did(QueueEntries)
    (one,) = handed.entries
    driven.tell(HandedOut(driven.generation, 1, (one.message_id,)))
    driven.tell(NegativeAcknowledge(driven.generation, ((one.message_id, 0),)))
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == [0, 1]
    driven.tell(Acknowledge(driven.generation, (one.message_id,)))
    driven.tell(AcksDue())
    (ack,) = driven.said(CommandAck)
    assert [chunk.entryId for chunk in ack.message_id] == [0, 1]


def test_a_chunked_message_that_is_acknowledged_after_it_was_asked_for_again_is_acknowledged_with_every_chunk() -> None:
    driven = ready(ack_timeout=10.0)
    parts = {"num_chunks_from_msg": 3, "total_chunk_msg_size": 21}
    driven.receive(*(chunk(entry, entry, **parts) for entry in range(3)))
    (handed,) = driven.did(QueueEntries)
    (one,) = handed.entries
    driven.tell(HandedOut(driven.generation, 1, (one.message_id,)))
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == [0, 1, 2]
    driven.tell(Acknowledge(driven.generation, (one.message_id,)))
    driven.tell(AcksDue())
    assert acked(driven) == [0, 1, 2]


@pytest.mark.parametrize("ordered", [False, True])
def test_chunks_whose_message_is_never_finished_are_acknowledged_in_the_end(*, ordered: bool) -> None:
    driven = ready(ordered=ordered)
    driven.receive(chunk(0, 0))
    if not ordered:  # the broker may have the others for another consumer
        driven.fire(RedeliveryDue)
        assert asked_for(driven) == [0]
        driven.receive(chunk(0, 0, count=1))
    assert driven.timers[RedeliveryDue].delay == 60.0
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == []
    assert driven.did(AcksHeld)
    driven.tell(AcksDue())
    assert [ack.message_id[0].entryId for ack in driven.said(CommandAck)] == [0]


def test_chunks_do_not_expire_while_their_message_cannot_go_on_as_the_queue_is_full() -> None:
    driven = ready(queue_size=4)
    driven.receive(*(incoming(entry) for entry in range(3)), chunk(3, 0))
    assert RedeliveryDue not in driven.timers
    (queued,) = driven.did(QueueEntries)
    driven.now += 1000.0
    for one in queued.entries:
        driven.tell(HandedOut(driven.generation, 1, (one.message_id,)))
    assert driven.said(CommandFlow)
    assert driven.timers[RedeliveryDue].delay == 60.0
    driven.receive(chunk(4, 1))
    assert driven.did(QueueEntries)


def test_chunks_do_not_expire_after_a_batch_for_which_there_were_not_enough_permits() -> None:
    driven = ready(queue_size=4)
    driven.receive(chunk(0, 0), incoming(1, batch=20))
    driven.now += 1000.0
    driven.tell(HandedOut(driven.generation, 2, ()))
    assert driven.said(CommandFlow), "but the broker has still none"
    assert RedeliveryDue not in driven.timers
    driven.tell(HandedOut(driven.generation, 18, ()))
    assert driven.timers[RedeliveryDue].delay == 60.0


def test_chunks_of_a_topic_that_is_not_stored_expire_while_the_queue_is_full_as_the_others_are_dropped() -> None:
    driven = ready(queue_size=4, persistent=False)
    driven.receive(*(incoming(0) for _ in range(3)), chunk(0, 0))
    assert driven.timers[RedeliveryDue].delay == 60.0
    driven.fire(RedeliveryDue)
    assert driven.machine.messages.trackers.chunks.next_expiry() is None


def test_in_a_backlog_a_cumulative_acknowledgement_goes_on_once_much_later_entries_have_come() -> None:
    driven = ready(queue_size=1, ordered=True)
    driven.receive(chunk(3, 0))
    for minute in range(30):
        last, now_ms = plain(4 + minute), NOW_MS + minute * 60_000
        driven.receive(incoming(last.entry_id, published=now_ms - 600_000), now_ms=now_ms)  # ten minutes behind
        delay = driven.timers[RedeliveryDue].delay
        driven.fire(RedeliveryDue)
        if driven.did(AcksHeld):
            break
        driven.tell(AcknowledgeUpTo(driven.generation, last))
        assert up_to(driven) == ([2] if minute == 0 else [])
        driven.tell(HandedOut(driven.generation, 1, (last,)))
    assert (minute, delay) == (17, 0.0), "ten minutes behind, and clocks may differ"
    assert up_to(driven) == [last.entry_id - 1]


def test_chunks_of_a_message_for_which_there_was_no_room_are_asked_for_together_and_it_comes_out_whole() -> None:
    driven = ready(queue_size=100)
    parts = {"num_chunks_from_msg": 3, "total_chunk_msg_size": 21, "published": NOW_MS - 600_000}
    topic = [chunk(2 + part, part, **parts) for part in range(3)]
    driven.receive(chunk(0, 0, uuid="x"), chunk(1, 0, uuid="y"), topic[0])
    driven.now += 5.0
    driven.receive(topic[1], chunk(5, 1, uuid="x"))
    driven.now += 5.1
    driven.tell(driven.timers[RedeliveryDue].event)
    assert asked_for(driven) == [2, 3]
    driven.receive(*topic)
    assert [one.message_id.entry_id for handed in driven.did(QueueEntries) for one in handed.entries] == [4]


def test_a_stray_chunk_is_asked_for_again_after_a_rest() -> None:
    driven = ready()
    for turn in range(1, 50):
        driven.receive(chunk(1, 1, count=turn - 1))
        assert asked_for(driven) == []
        driven.fire(RedeliveryDue)
        assert asked_for(driven) == [1]
        assert driven.now >= 100.0 + 10.0 * turn


def test_a_stray_chunk_in_order_is_given_up_and_nothing_comes_again_for_it() -> None:
    driven = ready(ordered=True)
    driven.receive(chunk(1, 1), incoming(2))
    assert [one.message_id.entry_id for handed in driven.did(QueueEntries) for one in handed.entries] == [2]
    assert driven.did(AcksHeld)
    driven.tell(AcksDue())
    assert acked(driven) == [1]
    assert RedeliveryDue not in driven.timers


def up_to(driven: Subscriber) -> list[int]:
    driven.tell(AcksDue())
    return [ack.message_id[0].entryId for ack in driven.said(CommandAck) if ack.ack_type == CommandAck.Cumulative]


def test_more_chunked_messages_than_there_is_room_for_come_out_whole_although_all_before_is_acknowledged() -> None:
    driven = ready(queue_size=100, ordered=True)
    topic = [(one, part) for part in (0, 1) for one in range(5)]
    whole: list[int] = []
    acknowledged = 0
    for _ in range(3):
        for place, (one, part) in enumerate(topic):
            if place < acknowledged:
                continue  # the broker sends only what is not acknowledged there
            driven.receive(chunk(place, part, uuid=str(one), epoch=driven.generation.epoch))
            for handed in driven.did(QueueEntries):
                whole.append(one)
                driven.tell(AcknowledgeUpTo(driven.generation, handed.entries[0].message_id))
                acknowledged = max([acknowledged, *(last + 1 for last in up_to(driven))])
        if RedeliveryDue in driven.timers:
            driven.fire(RedeliveryDue)
    assert whole == [0, 1, 2, 3, 4]
    assert acknowledged == len(topic)


def test_a_message_for_which_there_is_no_room_comes_again_although_all_behind_it_is_acknowledged() -> None:
    driven = ready(queue_size=100, ordered=True)
    topic = [("a", 0), ("b", 0), ("c", 0), ("c", 1), ("a", 1), ("b", 1)]
    driven.receive(*(chunk(place, part, uuid=uuid) for place, (uuid, part) in enumerate(topic)))
    driven.tell(AcknowledgeUpTo(driven.generation, MessageId(1, 5, first_chunk=MessageId(1, 1))))
    assert up_to(driven) == [1]
    driven.fire(RedeliveryDue)
    assert driven.said(CommandRedeliverUnacknowledgedMessages)
    epoch = driven.generation.epoch
    driven.receive(*(chunk(place, topic[place][1], uuid=topic[place][0], epoch=epoch) for place in (2, 3, 4, 5)))
    assert [one.message_id.entry_id for handed in driven.did(QueueEntries) for one in handed.entries] == [3]
    driven.tell(AcknowledgeUpTo(driven.generation, MessageId(1, 3)))
    assert up_to(driven) == [5]


def test_a_cumulative_acknowledgement_goes_on_when_the_incomplete_message_expires() -> None:
    driven = ready(ordered=True)
    driven.receive(chunk(3, 0), incoming(4))
    driven.tell(AcknowledgeUpTo(driven.generation, MessageId(1, 4)))
    assert up_to(driven) == [2]
    driven.fire(RedeliveryDue)
    assert driven.did(AcksHeld)
    assert up_to(driven) == [4]


def test_a_cumulative_acknowledgement_goes_on_when_the_incomplete_message_does_not_come_again() -> None:
    driven = ready(ordered=True)
    driven.receive(chunk(3, 0), incoming(4))
    driven.tell(AcknowledgeUpTo(driven.generation, MessageId(1, 4)))
    assert up_to(driven) == [2]
    reconnect(driven)
    driven.receive(incoming(5))
    assert driven.did(AcksHeld)
    assert up_to(driven) == [4]


def up_to_in_transaction(driven: Subscriber, message_id: MessageId) -> AcknowledgeInTransaction:
    transaction = TransactionId(0, 0)
    ack = TransactionalAck(driven.generation, (message_id,), True, transaction, message_id)  # noqa: FBT003
    return AcknowledgeInTransaction(ack)


def sent_in_transaction(driven: Subscriber) -> list[int]:
    return [one.entryId for ask in driven.did(AskToAckInTransaction) for one in ask.command.message_id]


def test_in_a_transaction_acknowledgements_that_a_message_holds_back_are_sent_before_its_own() -> None:
    driven = ready(ordered=True)
    driven.receive(incoming(2), chunk(3, 0), incoming(4), chunk(5, 1))
    for entry, sent in ((2, [2]), (4, [])):
        driven.tell(up_to_in_transaction(driven, MessageId(1, entry)))
        assert sent_in_transaction(driven) == sent
    driven.tell(up_to_in_transaction(driven, MessageId(1, 5, first_chunk=MessageId(1, 3))))
    assert sent_in_transaction(driven) == [4, 5]


def expires(driven: Subscriber) -> None:
    driven.fire(RedeliveryDue)


def comes_no_more(driven: Subscriber) -> None:
    reconnect(driven)
    assert sent_in_transaction(driven) == []
    driven.receive(incoming(5))


@pytest.mark.parametrize("ends", [expires, comes_no_more])
def test_in_a_transaction_a_cumulative_acknowledgement_goes_on_when_the_message_before_it_is_dropped(
    ends: Callable[[Subscriber], None],
) -> None:
    driven = ready(ordered=True)
    driven.receive(chunk(3, 0), incoming(4))
    driven.tell(up_to_in_transaction(driven, MessageId(1, 4)))
    assert sent_in_transaction(driven) == []
    ends(driven)
    assert driven.did(AcksHeld)
    driven.tell(AcksDue())
    assert sent_in_transaction(driven) == [4]


def test_a_message_that_ends_behind_what_is_acknowledged_comes_whole_in_a_redelivery() -> None:
    driven = ready(ordered=True)
    driven.receive(chunk(3, 0), incoming(4), chunk(5, 1))
    driven.tell(AcknowledgeUpTo(driven.generation, MessageId(1, 4)))
    assert up_to(driven) == [2]
    driven.tell(RedeliverUnacknowledged())
    epoch = driven.generation.epoch
    driven.receive(chunk(3, 0, epoch=epoch), incoming(4, epoch=epoch), chunk(5, 1, epoch=epoch))
    assert [one.message_id.entry_id for handed in driven.did(QueueEntries) for one in handed.entries] == [5]


def test_everything_is_requested_for_a_message_once_only_because_it_comes_again_then() -> None:
    driven = ready(ordered=True)
    driven.receive(incoming(3))
    opened = driven.generation
    driven.tell(RedeliverUnacknowledged(opened))
    assert driven.said(CommandRedeliverUnacknowledgedMessages)
    assert driven.tell(RedeliverUnacknowledged(opened)) == []
    driven.receive(incoming(3, epoch=driven.generation.epoch))
    driven.tell(RedeliverUnacknowledged(driven.generation))
    assert driven.said(CommandRedeliverUnacknowledgedMessages)


def test_more_chunked_messages_than_there_is_room_for_come_out_whole_in_order_too() -> None:
    driven = ready(queue_size=100, ordered=True)
    parts = [(one, part) for part in (0, 1) for one in range(5)]
    whole: set[int] = set()
    turns = 0
    while len(whole) < 5:
        for place, (one, part) in enumerate(parts):
            if one not in whole:
                driven.receive(chunk(place, part, uuid=str(one), epoch=driven.generation.epoch))
                for handed in driven.did(QueueEntries):
                    whole.add(one)
                    driven.tell(Acknowledge(driven.generation, (handed.entries[0].message_id,)))
        turns += 1
        driven.fire(RedeliveryDue)
    assert turns == 3
    assert driven.generation.epoch <= 3


def test_a_chunked_message_is_acknowledged_with_every_chunk_although_all_was_asked_for_again() -> None:
    driven = ready(ordered=True)
    parts = {"num_chunks_from_msg": 3, "total_chunk_msg_size": 21}
    driven.receive(*(chunk(entry, entry, **parts) for entry in range(3)))
    (handed,) = driven.did(QueueEntries)
    before = driven.generation
    driven.tell(RedeliverUnacknowledged())
    driven.tell(Acknowledge(before, (handed.entries[0].message_id,)))
    driven.tell(AcksDue())
    assert acked(driven) == [0, 1, 2]


def test_the_chunks_of_a_refused_message_are_forgotten_when_it_is_given_to_others() -> None:
    driven = ready()
    driven.receive(chunk(0, 0), chunk(1, 1))
    (handed,) = driven.did(QueueEntries)
    driven.tell(NegativeAcknowledge(driven.generation, ((handed.entries[0].message_id, 0),)))
    driven.fire(RedeliveryDue)
    (asked,) = driven.said(CommandRedeliverUnacknowledgedMessages)
    assert [one.entryId for one in asked.message_ids] == [0, 1]
    assert not driven.machine.messages.trackers.chunks.has_chunk("a", (1, 1))


def test_unfinished_chunks_are_left_to_whoever_gets_them_after_a_reconnect() -> None:
    driven = ready()
    driven.receive(chunk(0, 0))
    reconnect(driven)
    driven.now += 100.0
    driven.tell(driven.timers[RedeliveryDue].event)
    assert not driven.machine.messages.trackers.ack_grouping.is_holding


def reconnect(driven: Subscriber) -> None:
    driven.tell(Detached(driven.connection, ConnectionLost("reset")))
    driven.fire(RetryDue)
    driven.subscribe()


def acked(driven: Subscriber) -> list[int]:
    return [one.entryId for ack in driven.said(CommandAck) for one in ack.message_id]


def refuse(driven: Subscriber) -> None:
    driven.tell(NegativeAcknowledge(driven.generation, ((plain(1), 0),)))
    driven.fire(RedeliveryDue)


def acknowledge_too_late(driven: Subscriber) -> None:
    driven.tell(HandedOut(driven.generation, 1, (plain(1),)))
    driven.fire(RedeliveryDue)


def receive_a_stray_chunk(driven: Subscriber) -> None:
    driven.receive(chunk(3, 1))
    driven.fire(RedeliveryDue)


def ask_for_everything(driven: Subscriber) -> None:
    driven.tell(RedeliverUnacknowledged())


ASKING_AGAIN = pytest.mark.parametrize(
    ("way", "ordered"),
    [
        (refuse, False),
        (refuse, True),
        (acknowledge_too_late, False),
        (acknowledge_too_late, True),
        (receive_a_stray_chunk, False),  # in order, its beginning cannot come
        (ask_for_everything, False),
        (ask_for_everything, True),
    ],
)


@ASKING_AGAIN
def test_what_is_acknowledged_is_said_before_anything_is_asked_for_again(
    way: Callable[[Subscriber], None],
    ordered: bool,  # noqa: FBT001 - a case
) -> None:
    driven = ready(ordered=ordered, ack_timeout=100.0)
    driven.machine.messages.trackers.ack_grouping.batch_index_acks = True
    driven.receive(incoming(0), incoming(1), incoming(2, batch=2))
    driven.tell(Acknowledge(driven.generation, (plain(0), MessageId(1, 2, -1, 0, 2))))
    way(driven)
    ack, redeliver = [
        tell.command for tell in driven.did(SendConsumerCommand) if not isinstance(tell.command, CommandFlow)
    ]
    assert [(one.entryId, [*one.ack_set]) for one in ack.message_id] == [(0, []), (2, [0b10])]
    assert isinstance(redeliver, CommandRedeliverUnacknowledgedMessages)
    assert not driven.machine.messages.trackers.ack_grouping.is_holding


@ASKING_AGAIN
def test_of_a_topic_that_is_not_stored_nothing_queued_is_dropped_to_come_again(
    way: Callable[[Subscriber], None],
    ordered: bool,  # noqa: FBT001 - a case
) -> None:
    driven = ready(ordered=ordered, ack_timeout=100.0, persistent=False)
    driven.receive(incoming(0), incoming(1), incoming(2))
    before = driven.generation
    way(driven)
    assert not driven.did(ClearQueue)
    assert not driven.did(SendConsumerCommand)
    assert driven.generation == before


def test_of_a_topic_that_is_not_stored_nothing_is_dropped_without_a_binding_either() -> None:
    driven = ready(ordered=True, persistent=False)
    driven.tell(Detached(driven.connection, ConnectionLost("reset")))
    assert driven.tell(RedeliverUnacknowledged()) == []


def test_an_undecryptable_entry_of_a_topic_that_is_not_stored_gives_its_permits_back() -> None:
    driven = ready(ordered=True, ack_timeout=10.0, persistent=False)
    driven.receive(incoming(0))
    driven.tell(EntryUndecryptable(driven.generation, MessageId(1, 0), 0, 1))
    assert driven.machine.messages.trackers.permits.held == 0


def test_what_is_queued_of_a_topic_that_is_not_stored_outlives_a_connection_and_keeps_its_permits() -> None:
    driven = ready(queue_size=10, ordered=True, persistent=False)
    driven.receive(*(incoming(0) for _ in range(8)))
    queued = driven.generation
    driven.tell(Detached(driven.connection, ConnectionLost("reset")))
    driven.tell(HandedOut(queued, 1))
    driven.tell(MessagesDiscarded(queued, 1))
    driven.tell(EntryCorrupt(queued, (0, 0), 1, Fault.ChecksumMismatch))
    driven.tell(EntryUndecryptable(queued, MessageId(0, 0), 0, 1))
    driven.fire(RetryDue)
    driven.tell(LookedUp(driven.attempt, "broker"))
    assert not driven.did(ClearQueue)
    driven.tell(ConsumerAttached(driven.connection, None, MAX_MESSAGE_SIZE, NOW_MS, "first"))
    driven.tell(Subscribed(driven.attempt))
    assert flows(driven) == [6]
    driven.tell(HandedOut(queued, 4))
    assert flows(driven) == []
    driven.receive(*(incoming(0) for _ in range(6)))
    driven.tell(HandedOut(queued, 1))
    assert flows(driven) == [5]


@pytest.mark.parametrize("ack_timeout", [None, 10.0])
def test_an_undecryptable_entry_of_a_topic_that_is_not_stored_holds_nothing_over_a_reconnect(
    ack_timeout: float | None,
) -> None:
    driven = ready(queue_size=2, ack_timeout=ack_timeout, persistent=False)
    for _ in range(5):
        driven.receive(incoming(0))
        driven.tell(EntryUndecryptable(driven.generation, MessageId(0, 0), 0, 1))
        reconnect(driven)
        assert flows(driven) == [2]


def test_what_is_acknowledged_is_said_before_anything_is_asked_for_again_with_receipts_too() -> None:
    driven = ready(receipts=True)
    driven.receive(incoming(0), incoming(1))
    driven.tell(Acknowledge(driven.generation, (plain(0),), ("token",)))
    refuse(driven)
    sent = [type(effect) for effect in driven.effects if isinstance(effect, AskToAck | SendConsumerCommand)]
    assert sent == [AskToAck, SendConsumerCommand]


def test_what_is_acknowledged_before_its_hand_out_is_reported_is_not_asked_for_again() -> None:
    driven = ready(ack_timeout=10.0)
    driven.receive(incoming(0), incoming(1))
    driven.tell(Acknowledge(driven.generation, (MessageId(1, 0),)))
    driven.tell(HandedOut(driven.generation, 2, (MessageId(1, 0), MessageId(1, 1))))
    driven.tell(AcksDue())
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == [1]


def test_an_undecryptable_entry_keeps_its_permits_until_it_is_asked_for_again() -> None:
    driven = ready(ack_timeout=10.0)
    permits = driven.machine.messages.trackers.permits
    driven.receive(incoming(0), incoming(1))
    for entry in range(2):
        driven.tell(EntryUndecryptable(driven.generation, MessageId(1, entry), 0, 1))
    assert (permits.held, driven.said(CommandFlow)) == (2, [])
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == [0, 1]
    assert permits.held == 0


def test_an_undecryptable_entry_of_an_earlier_connection_holds_nothing() -> None:
    driven = ready(ack_timeout=10.0)
    before = driven.generation
    driven.receive(incoming(0))
    driven.tell(EntryUndecryptable(before, MessageId(1, 0), 0, 1))
    driven.tell(Seek("seek", MessageId(1, 0)))
    driven.tell(SeekAnswered(driven.attempt))
    assert driven.tell(EntryUndecryptable(before, MessageId(1, 0), 0, 1)) == []
    assert driven.machine.messages.trackers.permits.held == 0


@pytest.mark.parametrize(
    "start", [lambda driven: driven.tell(RedeliverUnacknowledged()), reconnect], ids=["all", "new"]
)
def test_an_undecryptable_entry_is_not_asked_for_after_everything_comes_again(
    start: Callable[[Subscriber], Any],
) -> None:
    driven = ready(ack_timeout=10.0)
    driven.receive(incoming(0))
    driven.tell(EntryUndecryptable(driven.generation, MessageId(1, 0), 0, 1))
    start(driven)
    assert driven.machine.messages.trackers.permits.held == 0
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == []


def test_without_an_acknowledgement_timeout_an_undecryptable_entry_comes_again_with_the_next_connection() -> None:
    driven = ready()
    driven.receive(incoming(0))
    assert driven.tell(EntryUndecryptable(driven.generation, MessageId(1, 0), 0, 1)) == []
    assert driven.machine.messages.trackers.permits.held == 1


def test_a_dead_letter_that_can_not_be_sent_rests_before_each_new_try() -> None:
    driven = ready(max_redeliver_count=1)
    for turn in range(1, 50):
        driven.receive(incoming(1, count=1 + turn))
        (dead,) = driven.did(SendToDeadLetters)
        driven.tell(DeadLetterFailed(driven.generation, dead.entries[0].message_id))
        assert asked_for(driven) == []
        driven.fire(RedeliveryDue)
        assert asked_for(driven) == [1]
        assert driven.now >= 100.0 + 10.0 * turn


def test_no_chunk_of_a_message_on_its_way_to_the_dead_letter_topic_is_asked_for_again() -> None:
    driven = ready(max_redeliver_count=1)
    driven.receive(chunk(0, 0, count=1), chunk(1, 1, count=1))
    (handed,) = driven.did(QueueEntries)
    driven.tell(NegativeAcknowledge(driven.generation, ((handed.entries[0].message_id, 1),)))
    driven.fire(RedeliveryDue)
    assert driven.did(SendToDeadLetters)
    assert asked_for(driven) == []


def test_a_message_whose_chunks_were_set_aside_often_is_handed_out_before_it_is_a_dead_letter() -> None:
    driven = ready(max_redeliver_count=2)
    driven.receive(chunk(0, 0), chunk(1, 1, count=9), chunk(2, 0, uuid="v", count=8), chunk(3, 1, uuid="v", count=9))
    (handed,) = driven.did(QueueEntries)
    assert [(one.message_id.entry_id, one.redelivery_count) for one in handed.entries] == [(1, 0), (3, 2)]
    refused = tuple((one.message_id, one.redelivery_count) for one in handed.entries)
    driven.tell(NegativeAcknowledge(driven.generation, refused))
    driven.fire(RedeliveryDue)
    assert [one.message_id.entry_id for one in driven.did(SendToDeadLetters)[0].entries] == [3]


@pytest.mark.parametrize("how", ["acknowledged", "disconnected"])
def test_last_tries_are_remembered_no_longer_than_they_can_fail(how: str) -> None:
    driven = ready(max_redeliver_count=1, ordered=True)
    driven.receive(*(incoming(entry, count=1) for entry in range(4)))
    if how == "acknowledged":
        driven.tell(AcknowledgeUpTo(driven.generation, MessageId(1, 3)))
    else:
        reconnect(driven)
    assert driven.machine.messages.trackers.dead_letters.last_try_failed((1, 3)) == ()


def test_chunked_messages_acknowledged_cumulatively_are_not_remembered() -> None:
    driven = ready()
    driven.receive(chunk(0, 0), chunk(1, 1))
    (handed,) = driven.did(QueueEntries)
    driven.tell(AcknowledgeUpTo(driven.generation, MessageId(1, 5)))
    assert driven.machine.messages.trackers.chunks.chunks_of(
        handed.entries[0].message_id._replace(first_chunk=None)
    ) == ((1, 1),)


def test_how_far_batches_got_is_not_remembered_over_many_reconnects() -> None:
    driven = ready()
    for _ in range(3):
        driven.tell(Acknowledge(driven.generation, (MessageId(1, driven.attempt, -1, 0, 2),)))
        reconnect(driven)
    assert len(driven.machine.messages.trackers.ack_grouping._unacknowledged._former) == 1


def test_many_chunked_messages_that_are_somebody_elses_are_not_remembered_over_several_reconnects() -> None:
    driven = ready()
    for number in range(KEPT + 1):
        driven.receive(chunk(2 * number, 0), chunk(2 * number + 1, 1))
    for _ in range(2):
        reconnect(driven)
    assert driven.machine.messages.trackers.chunks.chunks_of(MessageId(1, 1)) == ((1, 1),)


@pytest.mark.parametrize("size", [0, -1])
def test_a_broker_that_names_no_largest_message_means_the_usual_one(size: int) -> None:
    driven = Subscriber(Open())
    driven.tell(LookedUp(driven.attempt, "broker"))
    driven.tell(ConsumerAttached(driven.connection, None, size, NOW_MS, "first"))
    driven.tell(Subscribed(driven.attempt))
    driven.receive(incoming(0, batch=3))
    assert driven.did(QueueEntries)


def test_an_entry_found_corrupt_after_a_seek_is_left_alone() -> None:
    driven = ready()
    before = driven.generation
    driven.receive(incoming(0))
    driven.tell(Seek("seek", MessageId(1, 0)))
    driven.tell(SeekAnswered(driven.attempt))
    assert driven.tell(EntryCorrupt(before, (1, 0), 1, Fault.ChecksumMismatch)) == []


def test_answers_about_dead_letters_mean_little_to_a_consumer_that_has_no_policy() -> None:
    driven = ready()
    driven.tell(DeadLetterFailed(driven.generation, MessageId(1, 0)))
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == [0]
    driven.tell(DeadLetterSent(driven.generation, MessageId(1, 0)))
    driven.tell(AcksDue())
    assert driven.said(CommandAck)
    driven.tell(Detached(driven.connection, ConnectionLost("reset")))
    assert driven.tell(DeadLetterFailed(driven.generation, MessageId(1, 0))) == []


def test_a_queue_that_becomes_larger_gets_permits_now_or_with_the_next_binding() -> None:
    driven = ready(queue_size=4)
    assert driven.tell(ResizeQueue(10))[0] == ResizeReceiverQueue(10)
    assert flows(driven) == [6]
    driven.tell(ResizeQueue(2))
    assert flows(driven) == []
    driven = rebinding(State.SUBSCRIBING, queue_size=4)
    driven.tell(ResizeQueue(10))
    assert flows(driven) == []
    driven.tell(Subscribed(driven.attempt))
    assert flows(driven) == [10]


def test_permits_that_come_back_at_once_are_granted_again() -> None:
    driven = ready()
    driven.receive(incoming(0, batch=0), incoming(1, batch=0))
    assert [tell.command for tell in driven.did(SendConsumerCommand)][-1] == CommandFlow(
        consumer_id=7, messagePermits=2
    )


def test_what_impossible_batches_cost_is_granted_in_numbers_that_a_broker_can_read() -> None:
    driven = ready()
    at_broker = 4
    for entries in (3, 2, 1):
        driven.receive(*(incoming(entry, 2**31 - 1, payload=b"payload") for entry in range(entries)))
        flows = [flow.messagePermits for flow in driven.said(CommandFlow)]
        assert all(0 < permits <= 2**31 - 1 for permits in flows)
        for change in (*[1 - 2**31] * entries, *flows):
            at_broker = (at_broker + change + 2**31) % 2**32 - 2**31  # as Java adds
        assert at_broker == 4
        assert len(driven.said(CommandAck)) == 1


def test_refusing_what_is_no_message_asks_for_nothing() -> None:
    driven = ready()
    nonsense = (MessageId(2**63, 0), MessageId(1, 3, first_chunk=MessageId(1, -5)))
    driven.tell(NegativeAcknowledge(driven.generation, tuple((one, 0) for one in nonsense)))
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == [3]


def test_an_entry_without_an_id_is_refused_and_the_consumer_goes_on() -> None:
    driven = ready()
    lost = incoming(2**64 - 1)
    driven.receive(lost, incoming(0))
    (ack,) = driven.said(CommandAck)
    assert (ack.message_id[0].entryId, ack.validation_error) == (2**64 - 1, Fault.ChecksumMismatch)
    (handed,) = driven.did(QueueEntries)
    assert [one.message_id.entry_id for one in handed.entries] == [0]


def test_a_reader_of_a_topic_that_is_not_stored_skips_nothing_after_a_reconnect() -> None:
    driven = ready(persistent=False, start=StartMessageId(LATEST, durable=False))
    driven.tell(Detached(driven.connection, ConnectionLost("reset")))
    driven.fire(RetryDue)
    driven.subscribe(opened=MessageId(0, 0))
    driven.receive(incoming(0))
    assert driven.did(QueueEntries)


def piece(uuid: str, entry: int, chunk_id: int, of: int = 2) -> Any:
    sizes = {"num_chunks_from_msg": of, "total_chunk_msg_size": 7 * of}
    return incoming(entry, uuid=uuid, chunk_id=chunk_id, **sizes)


def test_a_reader_loses_and_repeats_nothing_when_chunks_lie_around_what_it_opened_last() -> None:
    topic = [piece("a", 0, 0), piece("b", 1, 0), incoming(2), piece("b", 3, 1), incoming(4), piece("a", 5, 1)]
    for received in range(3, 7):
        driven = ready(queue_size=10, start=StartMessageId(EARLIEST, durable=False))
        driven.receive(*topic[:received])
        (handed,) = driven.did(QueueEntries)
        for read in range(1, len(handed.entries) + 1):
            before = [one.message_id.entry_id for one in handed.entries[:read]]
            assert before + resumed(topic, received, handed.entries[read - 1].message_id) == [2, 3, 4, 5]


def resumed(topic: list[Any], received: int, opened: MessageId) -> list[int]:
    """Receive so much, lose the connection after opening a message, and give what comes after that."""
    driven = ready(queue_size=10, start=StartMessageId(EARLIEST, durable=False))
    driven.receive(*topic[:received])
    driven.tell(Detached(driven.connection, ConnectionLost("reset")))
    driven.fire(RetryDue)
    driven.attach(opened.entry)
    (ask,) = driven.did(AskToSubscribe)
    driven.tell(Subscribed(driven.attempt))
    start = MessageId.from_data(ask.command.start_message_id)
    driven.receive(*(one for one in topic if one[0].message_id.entryId >= start.entry_id + (start.batch_index < 0)))
    return [one.message_id.entry_id for handed in driven.did(QueueEntries) for one in handed.entries]


def test_a_reader_hears_of_what_it_is_not_given_before_and_of_how_far_it_is_behind_what_it_is() -> None:
    driven = ready(is_reader=True)
    chunks = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 14}
    heard = (NoteSkipped, QueueEntries, NotePassed)
    driven.receive(incoming(0), incoming(1, 1, payload=b""), incoming(2, chunk_id=1, **chunks))
    passed, handed, left_out = (driven.did(kind) for kind in reversed(heard))
    assert left_out == [
        NoteSkipped((CorruptEntry((1, 1), CommandAck.BatchDeSerializeError), IncompleteChunks((1, 2), "u", NOW_MS)))
    ]
    assert passed == [NotePassed((1, 2))]
    assert len(handed) == 1


def test_a_reader_that_is_given_everything_hears_no_more_and_a_consumer_never_does() -> None:
    for driven, message in ((ready(is_reader=True), incoming(0)), (ready(), incoming(0, 1, payload=b""))):
        driven.receive(message)
        assert not driven.did(NoteSkipped)
        assert not driven.did(NotePassed)


@pytest.mark.parametrize(("is_reader", "ids"), [(False, (MessageId(1, 0),)), (True, ())])
def test_nothing_is_acknowledged_that_was_not_read_or_is_for_the_user_to_acknowledge(
    *, is_reader: bool, ids: tuple[MessageId, ...]
) -> None:
    driven = ready(is_reader=is_reader)
    driven.receive(incoming(0))
    driven.tell(HandedOut(driven.generation, 1, ids))
    assert not driven.machine.messages.trackers.ack_grouping.is_holding


def test_what_is_asked_for_again_is_told_by_its_reason() -> None:
    driven = ready(ack_timeout=5.0)
    driven.receive(incoming(1), incoming(2))
    driven.tell(NegativeAcknowledge(driven.generation, ((plain(1), 0),)))
    driven.fire(RedeliveryDue)
    assert driven.did(RedeliveryRequested) == [RedeliveryRequested(((1, 1),), ())]


def test_an_acknowledgement_of_an_earlier_delivery_leaves_no_undecryptable_entry_behind() -> None:
    driven = ready(ack_timeout=10.0)
    permits = driven.machine.messages.trackers.permits
    driven.receive(incoming(0))
    driven.tell(EntryUndecryptable(driven.generation, MessageId(1, 0), 0, 1))
    driven.tell(Acknowledge(driven.generation, (MessageId(1, 0),)))
    driven.fire(RedeliveryDue)
    assert permits.held == 0
