from typing import Any

import pytest

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    BrokerRefusal,
    CertificateRefused,
    InvalidUrl,
    OutcomeUnknown,
    Timeout,
)
from pulsar_actors.machines import consumer_messages
from pulsar_actors.machines.chart import IllegalEvent
from pulsar_actors.machines.connection_handler_events import (
    AskToClose,
    Attach,
    BrokerClosed,
    Close,
    CloseAnswered,
    CloseTimedOut,
    Detach,
    Detached,
    DrainTimedOut,
    DropConnection,
    EndAtOnce,
    Fail,
    FirstCreationFailed,
    FirstCreationTimedOut,
    HandleEnded,
    LookedUp,
    LookUp,
    LookupFailed,
    Open,
    RequestRefused,
    RequestTimedOut,
    RetryDue,
    TopicMigrated,
)
from pulsar_actors.machines.consumer import State
from pulsar_actors.machines.consumer_events import (
    Acknowledge,
    AcknowledgeUpTo,
    AcksAnswered,
    AcksDue,
    AcksHeld,
    AcksSettled,
    ActiveConsumerChanged,
    AskToAck,
    AskToSubscribe,
    ClearQueue,
    ConsumerOpened,
    DeadLetterFailed,
    DeadLetterSent,
    EndOfTopicReached,
    EntryCorrupt,
    GetLastMessageId,
    HandedOut,
    MarkEndOfTopic,
    MessagesArrived,
    MessagesDiscarded,
    NegativeAcknowledge,
    NotifyActiveConsumerChange,
    QueueEntries,
    ReceiverGaveUp,
    ReceiverWaits,
    RedeliverUnacknowledged,
    RedeliveryDue,
    Seek,
    SeekAnswered,
    SendConsumerCommand,
    SendToDeadLetters,
    Subscribed,
    Unbound,
    Unsubscribe,
)
from pulsar_actors.machines.lookup_events import AssignedBroker
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.wire.message_id import EARLIEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandFlow,
    CommandRedeliverUnacknowledgedMessages,
    CommandTopicMigrated,
)
from tests.support.consumer_bench import (
    CLOSE,
    LOST,
    MIGRATE,
    MOVE,
    NOT_READY,
    NOW_MS,
    Subscriber,
    acked,
    acknowledge,
    entries,
    flows,
    incoming,
    plain,
    ready,
    rebinding,
    seeking,
)

EXPIRED = CertificateRefused("expired")
BUSY = BrokerRefusal("ConsumerBusy", "taken")
GONE = BrokerRefusal("TopicNotFound", "gone")
NOWHERE = CommandTopicMigrated(resource_id=7, resource_type=CommandTopicMigrated.Consumer)


# Getting bound.


def test_opening_looks_up_attaches_subscribes_and_grants_the_queue_once() -> None:
    driven = Subscriber(Open())
    (look_up,) = driven.did(LookUp)
    assert (look_up.topic, look_up.cluster_url) == ("t", None)
    cleared, attach = driven.tell(LookedUp(driven.attempt, "broker"))
    assert (cleared, attach) == (ClearQueue(driven.generation), Attach(1, "broker"))
    (ask,) = driven.attach()
    assert isinstance(ask, AskToSubscribe)
    assert (ask.command.consumer_id, ask.command.consumer_epoch, ask.timeout) == (7, 0, 30.0)
    assert not ask.command.HasField("start_message_id")
    driven.tell(Subscribed(driven.attempt))
    assert driven.did(ConsumerOpened) == [ConsumerOpened()]
    assert flows(driven) == [4]


@pytest.mark.parametrize("error", [BUSY, GONE, BrokerRefusal("AuthorizationError", "no")])
def test_what_a_retry_can_not_cure_fails_the_first_subscribe_at_once(error: BrokerRefusal) -> None:
    driven = Subscriber(Open())
    driven.attach()
    driven.tell(RequestRefused(driven.attempt, error))
    assert driven.effects == [FirstCreationFailed(error), Detach(1), HandleEnded(error)]
    assert driven.machine.state is State.FAILED


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (GONE, State.FAILED),
        (InvalidUrl("?"), State.FAILED),
        (EXPIRED, State.FAILED),
        (Timeout(""), State.WAITING),
        (NOT_READY, State.WAITING),
    ],
)
def test_a_failed_lookup_ends_a_first_subscribe_unless_it_may_pass(error: Any, state: State) -> None:
    driven = Subscriber(Open())
    driven.tell(LookupFailed(driven.attempt, error))
    assert driven.machine.state is state


@pytest.mark.parametrize("where", [State.CONNECTING, State.SUBSCRIBING])
def test_refused_credentials_fail_the_first_subscribe_at_once(where: State) -> None:
    driven = Subscriber(Open())
    driven.tell(LookedUp(driven.attempt, "broker"))
    if where is State.SUBSCRIBING:
        driven.attach()
    driven.tell(Detached(1, AuthenticationError("AuthenticationError", "who?")))
    assert driven.machine.state is State.FAILED
    assert driven.did(FirstCreationFailed)


def test_a_refused_certificate_fails_the_first_subscribe_and_is_waited_out_by_one_that_had_a_binding() -> None:
    driven = Subscriber(Open())
    driven.tell(LookedUp(driven.attempt, "broker"), Detached(1, EXPIRED))
    assert driven.effects == [FirstCreationFailed(EXPIRED), Detach(1), HandleEnded(EXPIRED)]
    driven = ready()
    driven.tell(Detached(1, LOST))
    driven.fire(RetryDue)
    driven.tell(LookupFailed(driven.attempt, EXPIRED))
    driven.fire(RetryDue)
    driven.tell(LookedUp(driven.attempt, "broker"), Detached(2, EXPIRED))
    assert driven.machine.state is State.WAITING
    driven.fire(RetryDue)
    driven.subscribe()
    assert driven.machine.state is State.READY


def test_what_may_pass_is_retried_until_the_operation_timeout() -> None:
    driven = Subscriber(Open())
    driven.attach()
    driven.tell(RequestRefused(driven.attempt, NOT_READY))
    assert driven.did(Detach) == [Detach(1)]
    driven.fire(RetryDue)
    assert driven.did(LookUp)
    driven.fire(FirstCreationTimedOut)
    (failed,) = driven.did(FirstCreationFailed)
    assert str(failed.error) == (
        "the consumer could not be created within 30 s: still LOOKING_UP; "
        "the last failure was: ServiceNotReady: starting"
    )
    assert driven.did(HandleEnded) == [HandleEnded(failed.error)]


def test_a_consumer_that_was_subscribed_outlives_what_would_fail_its_creation() -> None:
    driven = ready()
    driven.tell(Detached(1, LOST))
    for error in (BUSY, NOT_READY, BrokerRefusal("AuthorizationError", "no")):
        driven.fire(RetryDue)
        driven.attach()
        driven.tell(RequestRefused(driven.attempt, error))
        assert driven.machine.state is State.WAITING
    driven.fire(RetryDue)
    driven.attach()
    driven.tell(RequestRefused(driven.attempt, GONE))
    assert driven.did(HandleEnded) == [HandleEnded(GONE)]


def test_the_first_subscribes_clock_is_stopped_by_success() -> None:
    driven = ready()
    assert driven.fire(FirstCreationTimedOut) == []


def test_answers_to_earlier_questions_mean_nothing() -> None:
    driven = Subscriber(Open())
    assert driven.tell(LookedUp(driven.attempt - 1, "broker")) == []
    driven.attach()
    assert driven.tell(Subscribed(driven.attempt - 1)) == []
    assert driven.machine.state is State.SUBSCRIBING


# A SUBSCRIBE that was given up.


def timed_out() -> Subscriber:
    driven = Subscriber(Open())
    driven.attach()
    driven.tell(RequestTimedOut(driven.attempt))
    return driven


@pytest.mark.shows("Consumer", "close before creating again")
def test_an_unanswered_subscribe_is_closed_before_the_next() -> None:
    driven = timed_out()
    (ask,) = driven.effects
    assert isinstance(ask, AskToClose)
    assert ask.command.consumer_id == 7
    driven.tell(CloseAnswered(driven.attempt))
    driven.fire(RetryDue)
    assert driven.did(LookUp)


def test_an_unanswered_close_drops_the_connection_and_a_new_one_owes_none() -> None:
    driven = timed_out()
    driven.tell(CloseTimedOut(driven.attempt))
    (drop,) = driven.did(DropConnection)
    assert drop.connection == 1
    driven.fire(RetryDue)
    driven.subscribe()
    assert driven.did(ConsumerOpened)


def test_a_lost_connection_takes_the_owed_close_with_it() -> None:
    driven = timed_out()
    driven.tell(Detached(1, LOST))
    driven.fire(RetryDue)
    assert driven.subscribe()


@pytest.mark.parametrize("event", [BrokerClosed(1, MOVE), TopicMigrated(1, MIGRATE)])
def test_a_broker_that_moves_the_topic_during_a_subscribe_is_closed_first(event: Any) -> None:
    for driven in (timed_out(), Subscriber(Open())):
        if driven.machine.state is State.LOOKING_UP:
            driven.attach()
            driven.tell(event)
            assert len(driven.did(AskToClose)) == 1
        else:
            driven.tell(event)
            assert [*driven.did(AskToClose), *driven.did(Attach), *driven.did(LookUp)] == []
        driven.tell(CloseAnswered(driven.attempt))
        if isinstance(event, BrokerClosed):
            assert driven.did(Attach) == [Attach(2, AssignedBroker("pulsar://b"))]
        else:
            (look_up,) = driven.fire(RetryDue)
            assert look_up.cluster_url == "pulsar://c"


def test_time_running_out_during_a_subscribe_tells_the_user_and_closes_what_may_come_of_it() -> None:
    driven = Subscriber(Open())
    driven.attach()
    driven.fire(FirstCreationTimedOut)
    assert driven.did(FirstCreationFailed)
    assert driven.did(AskToClose)
    driven.tell(CloseAnswered(driven.attempt))
    assert driven.did(FirstCreationFailed) == []
    assert driven.did(HandleEnded) == [HandleEnded(None)]


def test_time_running_out_while_a_close_is_owed_waits_for_it() -> None:
    driven = timed_out()
    driven.fire(FirstCreationTimedOut)
    assert driven.did(AskToClose) == []
    assert driven.did(FirstCreationFailed)
    assert driven.machine.state is State.CLOSING


# The broker closes, moves, goes away.


def test_a_broker_sent_close_keeps_the_connection_is_not_answered_and_looks_up_again() -> None:
    driven = ready()
    driven.tell(BrokerClosed(1, CLOSE))
    assert driven.did(Detach) == [Detach(1)]
    assert driven.did(AskToClose) == driven.did(SendConsumerCommand) == []
    driven.fire(RetryDue)
    assert driven.did(LookUp)


@pytest.mark.shows("Command CloseConsumer", "assignedBrokerServiceUrl")
@pytest.mark.parametrize(("tls", "url"), [(False, "pulsar://b"), (True, "pulsar+ssl://b")])
def test_an_assigned_broker_is_gone_to_at_once(tls: bool, url: str) -> None:  # noqa: FBT001 - a case
    driven = ready(tls=tls)
    driven.tell(BrokerClosed(1, MOVE))
    assert driven.effects == [Detach(1), ClearQueue(driven.generation), Attach(2, AssignedBroker(url))]


@pytest.mark.shows("Command TopicMigrated")
def test_a_migrated_topic_is_looked_up_in_its_new_cluster_from_then_on() -> None:
    driven = ready()
    driven.tell(TopicMigrated(1, MIGRATE))
    (look_up,) = driven.did(LookUp)
    assert look_up.cluster_url == "pulsar://c"
    assert ready(tls=True).tell(TopicMigrated(1, MIGRATE)) == [], "no URL of our kind"


def test_a_new_binding_clears_the_queue_and_grants_it_once_more() -> None:
    driven = ready()
    before = driven.generation
    driven.receive(incoming(0), incoming(1))
    driven.tell(Detached(1, LOST))
    driven.fire(RetryDue)
    driven.tell(LookedUp(driven.attempt, "broker"))
    assert driven.did(ClearQueue) == [ClearQueue(before.attached_to(before.connection + 1, broker_resends=True))]
    driven.subscribe()
    assert flows(driven) == [4]
    assert driven.did(ConsumerOpened) == []
    assert driven.tell(HandedOut(before, 2)) == [], "permits of the earlier connection"


@pytest.mark.parametrize("durable", [True, False])
def test_opened_messages_are_dropped_for_a_new_binding_only_if_they_come_again(*, durable: bool) -> None:
    driven = ready(start=StartMessageId(None if durable else EARLIEST, durable=durable))
    before = driven.generation
    driven.tell(Detached(1, LOST))
    driven.fire(RetryDue)
    driven.tell(LookedUp(driven.attempt, "broker"))
    (cleared,) = driven.did(ClearQueue)
    assert before.still_delivers(cleared.generation) is not durable


def test_what_comes_over_an_earlier_connection_is_dropped() -> None:
    driven = ready()
    driven.tell(BrokerClosed(1, CLOSE))
    driven.fire(RetryDue)
    driven.subscribe()
    assert driven.tell(MessagesArrived(1, (incoming(0),), NOW_MS)) == []
    assert driven.tell(Detached(1, LOST)) == []
    assert driven.machine.state is State.READY


def test_a_reader_goes_on_after_the_last_entry_that_was_opened() -> None:
    driven = Subscriber(Open(), start=StartMessageId(EARLIEST, durable=False))
    (ask,) = driven.attach()
    assert ask.command.start_message_id == EARLIEST.to_data()
    driven.tell(Subscribed(driven.attempt), Detached(1, LOST))
    driven.fire(RetryDue)
    (ask,) = driven.attach(opened=plain(5))
    assert MessageId.from_data(ask.command.start_message_id) == plain(5)


# Messages.


@pytest.mark.shows("Flow control", "half of the queue")
def test_entries_are_handed_over_and_permits_come_back_by_the_half_queue() -> None:
    driven = ready()
    driven.receive(incoming(0), incoming(1, batch=3))
    assert entries(driven) == [0, 1]
    assert driven.tell(HandedOut(driven.generation, 1)) == []
    driven.tell(HandedOut(driven.generation, 1))
    assert flows(driven) == [2]
    driven.tell(MessagesDiscarded(driven.generation, 2))
    assert flows(driven) == [2]


def test_a_queue_of_size_0_asks_for_one_message_while_somebody_waits() -> None:
    driven = ready(queue_size=0)
    assert flows(driven) == []
    driven.tell(ReceiverWaits())
    assert flows(driven) == [1]
    driven.tell(ReceiverGaveUp(), ReceiverWaits())
    assert flows(driven) == [], "a permit is out"
    driven.tell(BrokerClosed(1, CLOSE))
    assert driven.tell(ReceiverWaits()) == []
    driven.fire(RetryDue)
    driven.subscribe()
    assert flows(driven) == [1]


@pytest.mark.shows("Command Ack", "validation_error")
def test_a_corrupt_entry_is_acknowledged_with_its_fault_and_its_permits_return() -> None:
    driven = ready()
    driven.receive(incoming(0, batch=3))
    driven.tell(EntryCorrupt(driven.generation, (1, 0), 3, CommandAck.ValidationError.ChecksumMismatch))
    (ack,) = driven.said(CommandAck)
    assert (acked(ack), ack.validation_error) == ([0], CommandAck.ValidationError.ChecksumMismatch)
    assert flows(driven) == [3]


def test_the_end_of_the_topic_is_passed_on_and_the_binding_stays() -> None:
    driven = ready()
    assert driven.tell(EndOfTopicReached(1)) == [MarkEndOfTopic()]
    assert driven.machine.state is State.READY


@pytest.mark.parametrize("early", [False, True])
def test_a_change_of_the_active_consumer_is_passed_on_even_before_the_subscribe_is_answered(early: bool) -> None:  # noqa: FBT001 - a case
    driven = Subscriber(Open()) if early else ready()
    if early:
        driven.attach()
    assert driven.tell(ActiveConsumerChanged(1, is_active=True)) == [NotifyActiveConsumerChange(is_active=True)]


def test_a_consumer_that_is_not_the_active_one_any_more_leaves_incomplete_messages_to_the_active_one() -> None:
    driven = ready(ordered=True)
    parts = [incoming(at, chunk_id=at, uuid="u", num_chunks_from_msg=2, total_chunk_msg_size=14) for at in (0, 1)]
    driven.receive(parts[0])
    driven.tell(ActiveConsumerChanged(1, is_active=False))
    driven.fire(RedeliveryDue)
    driven.tell(AcksDue())
    assert driven.said(CommandAck) == [], "they are not its own to acknowledge"
    driven.tell(ActiveConsumerChanged(1, is_active=True))
    driven.receive(*parts)
    assert entries(driven) == [1]


# Acknowledgements.


def test_acknowledgements_wait_for_their_group() -> None:
    driven = ready()
    acknowledge(driven, plain(0))
    assert driven.did(SendConsumerCommand) == []
    acknowledge(driven, plain(1))
    driven.tell(AcksDue())
    (ack,) = driven.said(CommandAck)
    assert acked(ack) == [0, 1]


def test_receipts_end_the_callers_who_wait_for_them() -> None:
    driven = ready(receipts=True)
    acknowledge(driven, plain(0), token="kept")
    driven.tell(AcksDue())
    (ask,) = driven.did(AskToAck)
    driven.tell(AcksAnswered(ask.ack, None))
    assert driven.effects == [AcksSettled(("kept",), None)]
    assert driven.tell(AcksAnswered(ask.ack, None)) == []
    driven.tell(AcknowledgeUpTo(driven.generation, plain(3), "lost"))
    driven.tell(AcksDue())
    (ask,) = driven.did(AskToAck)
    assert driven.tell(AcksAnswered(ask.ack, NOT_READY)) == [AcksSettled(("lost",), NOT_READY)]


def test_acknowledgements_made_without_a_binding_leave_with_the_next_before_the_permits() -> None:
    driven = ready()
    acknowledge(driven, plain(0))
    driven.tell(Detached(1, LOST))
    acknowledge(driven, plain(1))
    assert driven.tell(AcksDue()) == []
    driven.fire(RetryDue)
    driven.subscribe()
    ack, flow = (tell.command for tell in driven.did(SendConsumerCommand))
    assert acked(ack) == [0, 1]
    assert isinstance(flow, CommandFlow)
    assert ack.consumer_id == 7


def test_unanswered_acknowledgements_are_sent_again_on_the_next_binding() -> None:
    driven = ready(receipts=True)
    acknowledge(driven, plain(0), token="kept")
    driven.tell(AcksDue())
    (first,) = driven.did(AskToAck)
    driven.tell(Detached(1, LOST))
    driven.fire(RetryDue)
    driven.subscribe()
    (second,) = driven.did(AskToAck)
    assert acked(second.command) == [0]
    assert driven.tell(AcksAnswered(first.ack, LOST)) == [], "a late answer to the first"
    assert driven.tell(AcksAnswered(second.ack, None)) == [AcksSettled(("kept",), None)]


# Again, please.


def test_a_refused_message_comes_again_after_its_delay_unless_it_is_acknowledged_meanwhile() -> None:
    driven = ready()
    driven.tell(NegativeAcknowledge(driven.generation, ((plain(0), 0), (plain(1), 0))))
    acknowledge(driven, plain(1))
    driven.fire(RedeliveryDue)
    (command,) = driven.said(CommandRedeliverUnacknowledgedMessages)
    assert [one.entryId for one in command.message_ids] == [0]
    assert not command.HasField("consumer_epoch")


def test_no_more_than_a_thousand_are_asked_for_in_one_command() -> None:
    driven = ready()
    driven.tell(NegativeAcknowledge(driven.generation, tuple((plain(entry), 0) for entry in range(1500))))
    driven.fire(RedeliveryDue)
    commands = driven.said(CommandRedeliverUnacknowledgedMessages)
    assert [len(command.message_ids) for command in commands] == [1000, 500]


def test_what_is_not_acknowledged_in_time_comes_again() -> None:
    driven = ready(ack_timeout=10.0)
    driven.receive(incoming(0), incoming(1), incoming(2))
    driven.tell(HandedOut(driven.generation, 3, (plain(0), plain(1), plain(2))))
    driven.tell(AcknowledgeUpTo(driven.generation, plain(0)))
    acknowledge(driven, plain(1))
    driven.fire(RedeliveryDue)
    (command,) = driven.said(CommandRedeliverUnacknowledgedMessages)
    assert [one.entryId for one in command.message_ids] == [2]


@pytest.mark.shows("Command Subscribe", "consumer_epoch")
@pytest.mark.shows("Command Message", "consumer_epoch")
def test_in_order_everything_comes_again_in_a_new_epoch_and_what_is_here_goes() -> None:
    driven = ready(ordered=True, ack_timeout=10.0)
    before = driven.generation
    driven.receive(incoming(0, epoch=0), incoming(1, epoch=0))
    driven.tell(NegativeAcknowledge(before, ((plain(0), 0),)))
    driven.fire(RedeliveryDue)
    (cleared,) = driven.did(ClearQueue)
    assert cleared.generation == before.redelivered_to(1)
    (command,) = driven.said(CommandRedeliverUnacknowledgedMessages)
    assert (list(command.message_ids), command.consumer_epoch) == ([], 1)
    assert flows(driven) == [2]
    driven.receive(incoming(2, epoch=0), incoming(0, epoch=1))
    assert entries(driven) == [0], "sent before the broker heard of it"
    assert driven.tell(NegativeAcknowledge(before, ((plain(0), 0),))) == [], "it came again already"
    assert driven.tell(HandedOut(before, 1, (plain(0),))) == []


def test_of_a_compacted_read_nothing_is_dropped_as_its_messages_have_no_epoch() -> None:
    driven = ready(ordered=True)
    driven.receive(incoming(0), incoming(1))
    driven.tell(RedeliverUnacknowledged())
    driven.receive(incoming(2), incoming(0), incoming(1), incoming(2))
    assert entries(driven) == [2, 0, 1, 2], "the first was on its way, and comes again"


def test_a_redelivery_without_a_binding_is_told_with_the_next_subscribe() -> None:
    driven = ready(ordered=True, ack_timeout=10.0)
    driven.tell(Detached(1, LOST), RedeliverUnacknowledged())
    assert driven.effects == [ClearQueue(driven.generation)]
    driven.fire(RetryDue)
    (ask,) = driven.attach()
    assert ask.command.consumer_epoch == 1


def test_the_user_can_ask_for_everything_again() -> None:
    driven = ready()
    driven.tell(RedeliverUnacknowledged())
    assert driven.said(CommandRedeliverUnacknowledgedMessages)


def test_without_a_binding_refusals_are_left_to_the_next_which_brings_all_again() -> None:
    driven = ready()
    driven.tell(NegativeAcknowledge(driven.generation, ((plain(0), 0),)), Detached(1, LOST))
    driven.tell(NegativeAcknowledge(driven.generation, ((plain(1), 0),)))
    driven.fire(RetryDue)
    driven.subscribe()
    assert RedeliveryDue not in [type(timer.event) for timer in driven.did(type(driven.timers[RedeliveryDue]))]
    driven.fire(RedeliveryDue)
    assert driven.effects == []


# Dead letters.


def test_a_message_tried_too_often_goes_to_the_dead_letter_topic_and_is_acknowledged_once_it_is_there() -> None:
    driven = ready(max_redeliver_count=2)
    driven.receive(incoming(0, count=3), incoming(1, count=3))
    (sent,) = driven.did(SendToDeadLetters)
    assert [one.message_id for one in sent.entries] == [plain(0), plain(1)]
    assert driven.did(QueueEntries) == []
    assert flows(driven) == [2]
    driven.tell(DeadLetterSent(driven.generation, plain(0)))
    assert driven.did(AcksHeld)
    driven.tell(AcksDue())
    assert [acked(ack) for ack in driven.said(CommandAck)] == [[0]]
    driven.tell(DeadLetterFailed(driven.generation, plain(1)))
    driven.fire(RedeliveryDue)
    (command,) = driven.said(CommandRedeliverUnacknowledgedMessages)
    assert [one.entryId for one in command.message_ids] == [1]


def test_a_message_refused_on_its_last_try_goes_there_without_what_was_acknowledged() -> None:
    driven = ready(max_redeliver_count=2, ack_timeout=10.0)
    driven.receive(incoming(0, batch=3, count=2), incoming(1, count=2), incoming(2, count=2))
    assert entries(driven) == [0, 1, 2]
    acknowledge(driven, MessageId(1, 0, -1, 1, 3), plain(2))
    driven.tell(NegativeAcknowledge(driven.generation, ((plain(0), 2), (plain(1), 2))))
    driven.fire(RedeliveryDue)
    (sent,) = driven.did(SendToDeadLetters)
    assert [(one.message_id.entry_id, one.wanted) for one in sent.entries] == [(0, 0b101), (1, 1)]
    assert driven.said(CommandRedeliverUnacknowledgedMessages) == []


def test_dead_letters_that_end_without_a_binding_are_acknowledged_later_or_come_again() -> None:
    driven = ready(max_redeliver_count=2)
    driven.receive(incoming(0, count=3), incoming(1, count=3))
    driven.tell(Detached(1, LOST), DeadLetterSent(driven.generation, plain(0)))
    assert driven.tell(DeadLetterFailed(driven.generation, plain(1))) == []
    driven.fire(RetryDue)
    driven.subscribe()
    assert [acked(ack) for ack in driven.said(CommandAck)] == [[0]]
    driven.receive(incoming(1, count=3))
    assert driven.did(SendToDeadLetters)


def test_a_message_that_a_seek_asks_for_comes_although_it_is_on_its_way_to_the_dead_letter_topic() -> None:
    driven = ready(max_redeliver_count=2)
    driven.receive(incoming(0, count=3), incoming(1, count=3))
    before = driven.generation
    driven.tell(Seek("seek", EARLIEST))
    driven.tell(SeekAnswered(driven.attempt))
    driven.receive(incoming(0), incoming(1, count=3))
    assert entries(driven) == [0]
    assert [one.message_id for (dead,) in [driven.did(SendToDeadLetters)] for one in dead.entries] == [plain(1)]
    assert driven.tell(DeadLetterSent(before, plain(0))) == []
    assert driven.tell(DeadLetterFailed(before, plain(1))) == []
    driven.receive(incoming(1, count=3))
    assert driven.did(SendToDeadLetters) == [], "the second copy is still being sent"


# The end.


def test_closing_sends_the_acknowledgements_first_and_waits_for_the_answer() -> None:
    driven = ready(receipts=True)
    acknowledge(driven, plain(0), token="kept")
    ack, ask = driven.tell(Close())
    assert (type(ack), type(ask)) == (AskToAck, AskToClose)
    assert driven.tell(AcksAnswered(ack.ack, None)) == [AcksSettled(("kept",), None)]
    assert driven.tell(CloseAnswered(driven.attempt)) == [Detach(1), HandleEnded(None)]


@pytest.mark.parametrize(
    ("event", "error"),
    [(CloseAnswered(3), OutcomeUnknown), (Detached(1, LOST), OutcomeUnknown), (CloseTimedOut(3), Timeout)],
)
def test_a_close_ends_whatever_the_broker_does_and_no_token_is_forgotten(event: Any, error: type[Exception]) -> None:
    driven = ready(receipts=True)
    acknowledge(driven, plain(0), token="kept")
    driven.tell(Close(), event)
    assert driven.did(HandleEnded) == [HandleEnded(None)]
    (acked_,) = driven.did(AcksSettled)
    assert acked_.tokens == ("kept",)
    assert type(acked_.error) is error
    driven.tell(GetLastMessageId("late", driven.now + 1.0))
    (failed,) = driven.did(Fail)
    assert type(failed.error) is AlreadyClosed


def test_closing_while_a_seek_is_unbound_has_nothing_to_close() -> None:
    driven = seeking()
    driven.tell(BrokerClosed(1, CLOSE), Close())
    assert driven.did(AskToClose) == []
    assert driven.did(HandleEnded) == [HandleEnded(None)]


@pytest.mark.parametrize("state", [State.WAITING, State.LOOKING_UP, State.SUBSCRIBING])
def test_a_closed_consumer_subscribes_once_more_to_send_the_acknowledgements_that_it_holds(state: State) -> None:
    driven = rebinding(state, receipts=True)
    acknowledge(driven, plain(0), token="kept")
    driven.tell(Close())
    over = driven.now + 30.0
    driven.tell(Close())  # the client closes, too
    assert driven.machine.state is state
    assert driven.did(AskToClose) == driven.did(HandleEnded) == []
    if state is State.WAITING:
        driven.fire(RetryDue)
    driven.now += 12.0
    driven.attach()
    ack, ask = driven.tell(Subscribed(driven.attempt))
    assert acked(ack.command) == [0]
    assert (type(ask), ask.timeout) == (AskToClose, over - driven.now)
    assert driven.tell(AcksAnswered(ack.ack, None)) == [AcksSettled(("kept",), None)]
    assert driven.tell(CloseAnswered(driven.attempt))[-1] == HandleEnded(None)


def test_a_closed_consumer_without_a_broker_gives_its_acknowledgements_up_when_the_operation_timeout_is_over() -> None:
    driven = ready(receipts=True)
    driven.tell(Detached(1, LOST))
    driven.tell(GetLastMessageId("waits", driven.now + 60.0))
    acknowledge(driven, plain(0), token="kept")
    driven.tell(Close())
    (failed,) = driven.did(Fail)
    assert (failed.token, type(failed.error)) == ("waits", AlreadyClosed)
    driven.fire(DrainTimedOut)
    (settled,) = driven.did(AcksSettled)
    assert (settled.tokens, type(settled.error)) == (("kept",), AlreadyClosed)
    assert driven.did(HandleEnded) == [HandleEnded(None)]


def test_an_end_at_once_says_nothing_to_the_broker_and_forgets_no_token() -> None:
    driven = ready(receipts=True)
    acknowledge(driven, plain(0), token="kept")
    end = EndAtOnce(AlreadyClosed("shut down"))
    assert driven.tell(end) == [AcksSettled(("kept",), end.error), Detach(1), HandleEnded(end.error)]
    assert driven.tell(end) == []


@pytest.mark.parametrize("state", [State.IDLE, State.LOOKING_UP, State.SUBSCRIBING, State.CLOSE_PENDING])
def test_closing_before_the_consumer_exists_fails_its_creation(state: State) -> None:
    driven = (
        Subscriber() if state is State.IDLE else timed_out() if state is State.CLOSE_PENDING else Subscriber(Open())
    )
    if state is State.SUBSCRIBING:
        driven.attach()
    driven.tell(Close())
    assert len(driven.did(FirstCreationFailed)) == (state is not State.IDLE)
    asked = bool(driven.did(AskToClose))
    assert asked == (state is State.SUBSCRIBING)
    assert bool(driven.did(HandleEnded)) == (state in {State.IDLE, State.LOOKING_UP})


def test_what_comes_after_the_end_is_turned_away() -> None:
    driven = ready()
    driven.tell(Close())
    for _ in range(2):
        for call in (Seek("x", plain(0)), Unsubscribe("x")):
            (failed,) = driven.tell(call)
            assert isinstance(failed.error, AlreadyClosed)
        (late,) = driven.tell(Acknowledge(driven.generation, (plain(0),), ("x",)))
        assert isinstance(late.error, AlreadyClosed)
        (late,) = driven.tell(AcknowledgeUpTo(driven.generation, plain(0), "x"))
        assert isinstance(late.error, AlreadyClosed)
        assert driven.tell(Acknowledge(driven.generation, (plain(0),))) == []
        assert driven.tell(AcknowledgeUpTo(driven.generation, plain(0))) == []
        assert driven.tell(Close()) == []
        driven.tell(CloseAnswered(driven.attempt))


def test_a_migration_without_an_address_is_left_to_the_close_that_follows() -> None:
    driven = ready()
    assert driven.tell(TopicMigrated(1, NOWHERE)) == []
    assert driven.machine.state is State.READY


def test_what_is_asked_for_again_while_subscribing_is_told_to_the_broker_before_it_may_send() -> None:
    driven = Subscriber(Open(), ordered=True)
    driven.attach()
    (before,) = driven.did(AskToSubscribe)
    driven.tell(RedeliverUnacknowledged())
    driven.tell(Subscribed(driven.attempt))
    redeliver, flow = (tell.command for tell in driven.did(SendConsumerCommand))
    assert redeliver.consumer_epoch == before.command.consumer_epoch + 1
    assert isinstance(flow, CommandFlow)
    driven.receive(incoming(0, epoch=redeliver.consumer_epoch))
    assert entries(driven) == [0]


def test_a_queue_of_size_0_asks_no_more_for_callers_who_were_served_from_an_earlier_connection() -> None:
    driven = ready(queue_size=0)
    driven.tell(ReceiverWaits())
    before = driven.generation
    driven.receive(incoming(0))
    driven.tell(Detached(driven.connection, LOST))
    driven.tell(HandedOut(before, 1))
    driven.fire(RetryDue)
    driven.subscribe()
    assert flows(driven) == []


def test_what_tells_a_part_of_a_binding_is_no_event_of_the_consumer() -> None:
    driven = ready()
    with pytest.raises(IllegalEvent):
        driven.tell(Unbound("made up"))
    assert driven.machine.messages.state is consumer_messages.BOUND
