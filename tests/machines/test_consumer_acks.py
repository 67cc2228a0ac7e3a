import pytest

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    ConnectError,
    ConnectionLost,
    InvalidArgument,
    InvalidTxnStatusError,
    OutcomeUnknown,
    PulsarException,
    Timeout,
)
from pulsar_actors.machines.connection_handler_events import BrokerClosed, Close, Detached, EndAtOnce, RetryDue
from pulsar_actors.machines.consumer import State
from pulsar_actors.machines.consumer_events import (
    Acknowledge,
    AcknowledgeInTransaction,
    AcknowledgeUpTo,
    AckReceiptsDue,
    AcksAnswered,
    AcksDue,
    AcksHeld,
    AcksSettled,
    AskToAck,
    AskToAckInTransaction,
    AskToSeek,
    ClearQueue,
    DropTransactionalAcks,
    HandedOut,
    QueueEntries,
    RedeliveryDue,
    Seek,
    SeekAnswered,
    SeekFailed,
    SeekTimedOut,
    TransactionalAckAnswered,
)
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.machines.trackers.transactional_acks import TransactionalAck
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, CommandRedeliverUnacknowledgedMessages
from pulsar_actors.wire.transaction_id import TransactionId
from tests.support.consumer_bench import CLOSE, LOST, Subscriber, acknowledge, incoming, plain, ready

NO = BrokerRefusal("MetadataError", "no")


def asked_for(driven: Subscriber) -> list[int]:
    commands = driven.said(CommandRedeliverUnacknowledgedMessages)
    return [one.entryId for command in commands for one in command.message_ids]


def acked(driven: Subscriber) -> list[int]:
    return [one.entryId for ack in driven.said(CommandAck) for one in ack.message_id]


def test_what_the_broker_refused_to_acknowledge_is_asked_for_again() -> None:
    driven = ready(ack_timeout=10.0, receipts=True)
    driven.receive(incoming(0))
    driven.tell(HandedOut(driven.generation, 1, (MessageId(1, 0),)))
    driven.tell(Acknowledge(driven.generation, (MessageId(1, 0),), ("token",)))
    driven.tell(AcksDue())
    (ask,) = driven.did(AskToAck)
    refusal = BrokerRefusal("PersistenceError", "no")
    driven.tell(AcksAnswered(ask.ack, refusal))
    assert driven.did(AcksSettled) == [AcksSettled(("token",), refusal)]
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == [0]


def test_an_acknowledgement_that_counts_starts_no_wait() -> None:
    driven = ready(ack_timeout=10.0, receipts=True)
    driven.receive(incoming(0))
    driven.tell(Acknowledge(driven.generation, (MessageId(1, 0),)))
    driven.tell(AcksDue())
    (ask,) = driven.did(AskToAck)
    driven.tell(AcksAnswered(ask.ack, None))
    driven.tell(HandedOut(driven.generation, 1, (MessageId(1, 0),)))
    assert driven.machine.messages.trackers.next_redelivery() is None


def test_acknowledging_what_is_no_message_fails_alone() -> None:
    driven = ready(receipts=True)
    nonsense, entry = MessageId(2**63, 0), MessageId(1, 0)
    for call, token in (
        (Acknowledge(driven.generation, (entry, nonsense), ("a", "b")), "b"),
        (AcknowledgeUpTo(driven.generation, nonsense, "c"), "c"),
    ):
        failed = [(ended.tokens, type(ended.error)) for ended in driven.tell(call) if isinstance(ended, AcksSettled)]
        assert failed == [((token,), InvalidArgument)]
    assert driven.tell(Acknowledge(driven.generation, (nonsense,))) == []
    assert driven.tell(AcknowledgeUpTo(driven.generation, nonsense)) == []
    driven.tell(AcksDue())
    (ask,) = driven.did(AskToAck)
    assert [one.entryId for one in ask.command.message_id] == [0]
    driven.tell(AcksAnswered(ask.ack, None))
    assert driven.did(AcksSettled) == [AcksSettled(("a",), None)]


def test_without_tokens_the_good_ids_beside_a_bad_one_count() -> None:
    driven = ready()
    driven.tell(Acknowledge(driven.generation, (MessageId(1, 0), MessageId(-1, -1), MessageId(1, 1))))
    driven.tell(AcksDue())
    assert acked(driven) == [0, 1]


def test_messages_of_a_topic_that_is_not_stored_are_not_taken_for_each_other() -> None:
    driven = ready(persistent=False)
    for _ in range(3):
        driven.receive(incoming(0))
        (handed,) = driven.did(QueueEntries)
        driven.tell(Acknowledge(driven.generation, (handed.entries[0].message_id,), ("token",)))
        assert driven.effects == [AcksSettled(("token",), None)]


def test_a_cumulative_acknowledgement_on_a_topic_that_is_not_stored_ends_at_once() -> None:
    driven = ready(persistent=False)
    driven.receive(incoming(0))
    assert driven.tell(AcknowledgeUpTo(driven.generation, MessageId(0, 0), "token")) == [AcksSettled(("token",), None)]
    assert driven.tell(AcknowledgeUpTo(driven.generation, MessageId(0, 0))) == []


def test_a_reader_acknowledges_what_was_handed_out_and_all_before_it_by_itself() -> None:
    driven = ready(is_reader=True)
    driven.receive(incoming(0), incoming(1), incoming(2))
    driven.tell(HandedOut(driven.generation, 2, (MessageId(1, 0), MessageId(1, 1))))
    assert driven.did(AcksHeld)
    driven.tell(AcksDue())
    (ack,) = driven.said(CommandAck)
    assert (ack.ack_type, [one.entryId for one in ack.message_id]) == (CommandAck.Cumulative, [1])


def asked(driven: Subscriber) -> AskToAck:
    (ask,) = driven.did(AskToAck)
    return ask


def sent(driven: Subscriber, *entries: int, token: str) -> AskToAck:
    driven.receive(*map(incoming, entries))
    acknowledge(driven, *map(plain, entries), token=token)
    driven.tell(AcksDue())
    return asked(driven)


@pytest.mark.parametrize("error", [None, NO])
def test_who_waits_for_a_receipt_hears_what_the_broker_says(error: BrokerRefusal | None) -> None:
    driven = ready(receipts=True)
    ask = sent(driven, 1, token="a")
    assert driven.did(AcksSettled) == []
    driven.tell(AcksAnswered(ask.ack, error))
    assert driven.did(AcksSettled) == [AcksSettled(("a",), error)]


def test_without_a_binding_a_receipt_is_not_waited_for_longer_than_was_agreed_and_its_acknowledgement_leaves() -> None:
    driven = ready(receipts=True)
    driven.receive(incoming(1))
    driven.tell(Detached(1, LOST))
    acknowledge(driven, plain(1), token="a")
    assert driven.timers[AckReceiptsDue].delay == 30.0
    driven.fire(AckReceiptsDue)
    (acked,) = driven.did(AcksSettled)
    assert (acked.tokens, type(acked.error)) == (("a",), Timeout)
    assert "still on its way: the consumer of t is WAITING; the last failure was: reset" in str(acked.error)
    driven.fire(RetryDue)
    driven.subscribe()
    ask = asked(driven)
    driven.tell(AcksAnswered(ask.ack, None))
    assert driven.did(AcksSettled) == [], "was told twice"


def test_what_went_wrong_while_a_receipt_was_waited_for_is_named_until_all_have_theirs() -> None:
    driven = ready(receipts=True)
    sent(driven, 1, token="a")
    driven.tell(Detached(1, LOST))
    driven.fire(RetryDue)
    driven.subscribe()
    driven.fire(AckReceiptsDue)
    (late,) = driven.did(AcksSettled)
    assert str(late.error).endswith("the consumer of t is READY; the last failure was: reset")
    ask = sent(driven, 2, token="b")
    driven.tell(AcksAnswered(ask.ack, None))
    sent(driven, 3, token="c")
    driven.fire(AckReceiptsDue)
    (late,) = driven.did(AcksSettled)
    assert str(late.error).endswith("the consumer of t is READY")


def test_one_timer_serves_all_who_wait_for_receipts() -> None:
    driven = ready(receipts=True)
    ask = sent(driven, 1, token="a")
    driven.now += 10
    sent(driven, 2, token="b")
    driven.tell(AcksAnswered(ask.ack, None))
    assert driven.timers[AckReceiptsDue].delay == 30.0
    driven.now += 19.9
    driven.tell(driven.timers[AckReceiptsDue].event)
    assert driven.did(AcksSettled) == []
    driven.fire(AckReceiptsDue)
    assert [one.tokens for one in driven.did(AcksSettled)] == [("b",)]


def in_transaction(driven: Subscriber, *message_ids: MessageId, token: str = "a") -> AcknowledgeInTransaction:
    return AcknowledgeInTransaction(
        TransactionalAck(driven.generation, message_ids, False, TransactionId(0, 0), token)  # noqa: FBT003
    )


def settled(driven: Subscriber) -> list[tuple[tuple[object, ...], type | None]]:
    return [(one.tokens, None if one.error is None else type(one.error)) for one in driven.did(AcksSettled)]


@pytest.mark.parametrize("error", [None, NO])
def test_an_acknowledgement_in_a_transaction_is_sent_at_once_and_ends_with_its_answer(
    error: BrokerRefusal | None,
) -> None:
    driven = ready()
    driven.receive(incoming(0))
    driven.tell(in_transaction(driven, MessageId(1, 0)))
    (ask,) = driven.did(AskToAckInTransaction)
    assert [one.entryId for one in ask.command.message_id] == [0]
    driven.tell(TransactionalAckAnswered(ask.ack, error))
    assert driven.did(AcksSettled) == [AcksSettled(("a",), error)]
    assert driven.tell(TransactionalAckAnswered(ask.ack, error)) == [], "was told twice"


@pytest.mark.parametrize("bound", [True, False])
def test_an_acknowledgement_in_a_transaction_that_is_over_is_never_sent(*, bound: bool) -> None:
    driven = ready()
    if not bound:
        driven.tell(Detached(1, LOST))
    over = InvalidTxnStatusError("InvalidTxnStatus", "it was open for too long")
    driven.tell(in_transaction(driven, MessageId(1, 0))._replace(dropped=over))
    assert driven.did(AcksSettled) == [AcksSettled(("a",), over)]
    if not bound:
        driven.fire(RetryDue)
        driven.subscribe()
    assert driven.did(AskToAckInTransaction) == []


def test_an_acknowledgement_in_a_transaction_stops_the_wait_for_its_message() -> None:
    driven = ready(ack_timeout=10.0)
    driven.receive(incoming(0))
    driven.tell(HandedOut(driven.generation, 1, (MessageId(1, 0),)))
    driven.tell(in_transaction(driven, MessageId(1, 0)))
    assert driven.machine.messages.trackers.next_redelivery() is None


def of_batch(entry: int, index: int) -> MessageId:
    return MessageId(1, entry, -1, index, 3)


def handed_out_batches(*, batches: int) -> Subscriber:
    driven = ready(ack_timeout=10.0)
    ids = tuple(of_batch(entry, index) for entry in range(batches) for index in range(3))
    driven.receive(*map(incoming, range(batches)))
    driven.tell(HandedOut(driven.generation, batches, ids))
    return driven


@pytest.mark.parametrize("plain_last", [False, True])
def test_the_messages_of_a_batch_that_are_acknowledged_one_by_one_in_transactions_are_awaited_until_the_last(
    *, plain_last: bool
) -> None:
    driven = handed_out_batches(batches=1)
    for index in (0, 2):
        driven.tell(in_transaction(driven, of_batch(0, index)))
    assert driven.machine.messages.trackers.next_redelivery() is not None
    last = of_batch(0, 1)
    driven.tell(Acknowledge(driven.generation, (last,)) if plain_last else in_transaction(driven, last))
    assert driven.machine.messages.trackers.next_redelivery() is None


def test_up_to_the_middle_of_a_batch_in_a_transaction_the_batches_before_are_not_awaited() -> None:
    driven = handed_out_batches(batches=2)
    up_to = TransactionalAck(driven.generation, (of_batch(1, 0),), True, TransactionId(0, 0), "a")  # noqa: FBT003
    driven.tell(AcknowledgeInTransaction(up_to))
    driven.fire(RedeliveryDue)
    assert asked_for(driven) == [1]


def test_one_that_was_sent_fails_with_its_connection_and_is_not_sent_again() -> None:
    driven = ready()
    driven.tell(in_transaction(driven, MessageId(1, 0)), Detached(1, LOST))
    assert settled(driven) == [(("a",), ConnectionLost)]
    driven.fire(RetryDue)
    driven.subscribe()
    assert driven.did(AskToAckInTransaction) == []


def test_without_a_binding_one_waits_for_it_but_no_longer_than_its_caller() -> None:
    driven = ready()
    driven.tell(Detached(1, LOST), in_transaction(driven, MessageId(1, 0), token="late"))
    driven.fire(AckReceiptsDue)
    assert settled(driven) == [(("late",), Timeout)]
    driven.tell(in_transaction(driven, MessageId(1, 1), token="b"))
    driven.fire(RetryDue)
    driven.subscribe()
    asked = [[one.entryId for one in ask.command.message_id] for ask in driven.did(AskToAckInTransaction)]
    assert asked == [[1]], "only that whose caller still waits"


def test_during_a_seek_one_waits_and_is_void_once_the_seek_succeeds() -> None:
    driven = ready()
    driven.tell(Seek("seek", MessageId(1, 0)))
    assert driven.did(AskToSeek)
    driven.tell(in_transaction(driven, MessageId(1, 0)))
    assert driven.did(AskToAckInTransaction) == []
    driven.tell(SeekAnswered(driven.attempt))
    assert settled(driven) == [(("a",), None)]


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("has_closed", [False, True])
def test_after_a_seek_that_may_have_taken_effect_what_was_held_is_not_sent(*, has_closed: bool, is_late: bool) -> None:
    driven = in_doubt(has_closed=has_closed, is_late=is_late)
    ended = {token: type(each.error) for each in driven.did(AcksSettled) for token in each.tokens}
    assert ended == {"sent": ConnectionLost, "held": ConnectError, "a": ConnectError}
    driven.fire(RetryDue)
    driven.subscribe()
    assert driven.machine.state is State.READY
    driven.tell(AcksDue())
    assert driven.did(AskToAck) == driven.did(AskToAckInTransaction) == []
    assert driven.said(CommandAck) == []


@pytest.mark.parametrize("is_bound", [False, True])
def test_what_was_received_before_a_seek_that_may_have_taken_effect_is_not_acknowledged_after_it(
    *, is_bound: bool
) -> None:
    driven = in_doubt(has_closed=False, is_late=False)
    before = Generation()
    if is_bound:
        driven.fire(RetryDue)
        driven.subscribe()
    late = in_transaction(driven, MessageId(1, 2))
    for event, ended in (
        (Acknowledge(before, (MessageId(1, 0),), ("one",)), ["one"]),
        (AcknowledgeUpTo(before, MessageId(1, 1), "up to"), ["up to"]),
        (late._replace(ack=late.ack._replace(generation=before, token="in one")), ["in one"]),
        (Acknowledge(before, (MessageId(1, 0),), None), []),
        (AcknowledgeUpTo(before, MessageId(1, 1), None), []),
    ):
        driven.tell(event)
        failed = [token for each in driven.did(AcksSettled) for token in each.tokens]
        assert (failed, {type(each.error) for each in driven.did(AcksSettled)} <= {ConnectionLost}) == (ended, True)
    assert not driven.machine.acks.is_holding
    driven.tell(Acknowledge(driven.generation, (MessageId(1, 0),), ("new",)))
    assert driven.machine.acks.is_holding


def test_a_consumer_that_keeps_its_own_position_goes_on_with_its_messages_after_a_seek_in_doubt() -> None:
    driven = ready(start=StartMessageId(MessageId(1, 0), durable=False))
    before = driven.generation
    driven.tell(Seek("seek", MessageId(1, 0)))
    driven.tell(Detached(1, LOST))
    assert driven.did(ClearQueue) == []
    driven.fire(RetryDue)
    driven.subscribe(MessageId(1, 3))
    assert before.still_delivers(driven.generation)
    driven.tell(Acknowledge(before, (MessageId(1, 3),), ("one",)))
    assert driven.machine.acks.is_holding


def in_doubt(*, has_closed: bool, is_late: bool) -> Subscriber:
    """Return a consumer whose seek has no answer. It has acknowledged before that, and before SEEK."""
    driven = ready(receipts=True)
    before = driven.generation
    driven.tell(Acknowledge(before, (MessageId(1, 0),), ("sent",)), Seek("seek", MessageId(1, 0)))
    driven.tell(Acknowledge(before, (MessageId(1, 1),), ("held",)), in_transaction(driven, MessageId(1, 2)))
    if has_closed:
        driven.tell(BrokerClosed(1, CLOSE))
    driven.tell(SeekTimedOut(driven.attempt, Timeout("late")) if is_late else Detached(1, LOST))
    return driven


def test_after_a_seek_that_is_refused_one_is_sent() -> None:
    driven = ready()
    driven.tell(Seek("seek", MessageId(1, 0)), in_transaction(driven, MessageId(1, 0)))
    driven.tell(SeekFailed(driven.attempt, NO))
    assert len(driven.did(AskToAckInTransaction)) == 1


@pytest.mark.parametrize(("end", "error"), [(AlreadyClosed, AlreadyClosed), (OutcomeUnknown, ConnectError)])
def test_one_that_was_never_sent_was_not_done_whatever_ends_its_consumer(
    end: type[PulsarException], error: type[PulsarException]
) -> None:
    driven = ready()
    driven.tell(Detached(1, LOST), in_transaction(driven, MessageId(1, 0)), EndAtOnce(end("ended")))
    assert settled(driven) == [(("a",), error)]


def test_with_its_consumer_one_fails() -> None:
    driven = ready()
    driven.tell(in_transaction(driven, MessageId(1, 0)), EndAtOnce(AlreadyClosed("closed")))
    assert settled(driven) == [(("a",), OutcomeUnknown)]
    driven.tell(in_transaction(driven, MessageId(1, 0)))
    assert settled(driven) == [(("a",), AlreadyClosed)]


def test_what_was_sent_before_a_close_may_still_be_answered() -> None:
    driven = ready()
    driven.tell(in_transaction(driven, MessageId(1, 0)))
    (ask,) = driven.did(AskToAckInTransaction)
    driven.tell(Close(), TransactionalAckAnswered(ask.ack, None))
    assert settled(driven) == [(("a",), None)]


def test_acknowledging_what_is_no_message_in_a_transaction_fails() -> None:
    driven = ready()
    driven.tell(in_transaction(driven, MessageId(1, 0), MessageId(-1, -1)))
    assert settled(driven) == [(("a",), InvalidArgument)]


def test_with_its_transaction_one_fails_and_is_not_sent_any_more() -> None:
    driven = ready()
    driven.tell(Detached(1, LOST), in_transaction(driven, MessageId(1, 0)))
    driven.tell(DropTransactionalAcks(TransactionId(0, 0), NO))
    assert driven.did(AcksSettled) == [AcksSettled(("a",), NO)]
    driven.fire(RetryDue)
    driven.subscribe()
    assert driven.did(AskToAckInTransaction) == []
