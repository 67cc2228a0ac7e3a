from typing import Any

import pytest

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    ConnectError,
    ConnectionLost,
    ConsumerNotFound,
    InvalidArgument,
    OutcomeUnknown,
    PulsarException,
    SubscriptionNotFound,
    Timeout,
)
from pulsar_actors.machines.connection_handler_events import (
    AskToClose,
    Attach,
    BrokerClosed,
    Close,
    CloseAnswered,
    Detach,
    Detached,
    DropConnection,
    EndAtOnce,
    Fail,
    HandleEnded,
    LookedUp,
    LookUp,
    LookupAttemptFailed,
    LookupFailed,
    RequestRefused,
    RetryDue,
    TopicMigrated,
)
from pulsar_actors.machines.consumer import State
from pulsar_actors.machines.consumer_events import (
    Acknowledge,
    AcksDue,
    AcksHeld,
    AcksSettled,
    AskToAck,
    AskToGetLastMessageId,
    AskToSeek,
    AskToUnsubscribe,
    CallTimedOut,
    ClearQueue,
    ConsumerCallDone,
    GetLastMessageId,
    LastMessageIdAnswered,
    QueryFailed,
    ReceiverWaits,
    RedeliverUnacknowledged,
    Seek,
    SeekAnswered,
    SeekFailed,
    SeekTimedOut,
    Subscribed,
    Unsubscribe,
    UnsubscribeAnswered,
    UnsubscribeFailed,
)
from pulsar_actors.machines.lookup_events import AssignedBroker
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandCloseConsumer,
    CommandFlow,
    CommandGetLastMessageIdResponse,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
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

NOT_FOUND = BrokerRefusal("MetadataError", "Consumer not found")

# Seek.


def test_acknowledgements_leave_before_a_seek_and_wait_after_it() -> None:
    driven = seeking()
    ack, ask = driven.effects
    assert acked(ack.command) == [5]
    assert isinstance(ask, AskToSeek)
    assert MessageId.from_data(ask.command.message_id) == plain(3)
    acknowledge(driven, plain(6))
    assert driven.tell(AcksDue()) == []


def test_a_seek_of_a_consumer_that_stays_bound_is_done_with_its_answer() -> None:
    driven = seeking(ack_timeout=10.0, max_redeliver_count=2)
    before = driven.generation
    driven.tell(SeekAnswered(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("seek")]
    assert driven.did(ClearQueue) == [ClearQueue(before.sought())]
    assert flows(driven) == [2]
    assert driven.tell(Acknowledge(before, (plain(6),), ("void",))) == [AcksSettled(("void",), None)]


def test_a_seek_that_closes_the_consumer_is_done_when_it_is_bound_again() -> None:
    driven = seeking(start=StartMessageId(EARLIEST, durable=False))
    assert driven.tell(BrokerClosed(1, CLOSE)) == []
    driven.tell(SeekAnswered(driven.attempt))
    assert driven.did(ConsumerCallDone) == []
    assert driven.did(LookUp)
    driven.tell(Seek("second", plain(4)))
    (refused,) = driven.did(Fail)
    assert isinstance(refused.error, InvalidArgument)
    (ask,) = driven.attach()
    assert MessageId.from_data(ask.command.start_message_id) == plain(3)
    driven.tell(Subscribed(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("seek")]
    assert flows(driven) == [4]


def test_a_seek_that_names_its_next_broker_goes_there() -> None:
    driven = seeking()
    driven.tell(BrokerClosed(1, CLOSE), BrokerClosed(1, MOVE), SeekAnswered(driven.attempt))
    assert driven.did(Attach) == [Attach(2, AssignedBroker("pulsar://b"))]
    driven.subscribe()


@pytest.mark.parametrize("closed", [False, True])
def test_a_failed_seek_fails_its_caller_and_leaves_the_place(closed: bool) -> None:  # noqa: FBT001 - a case
    driven = seeking()
    if closed:
        driven.tell(BrokerClosed(1, CLOSE))
    driven.tell(SeekFailed(driven.attempt, NOT_READY))
    assert driven.did(Fail) == [Fail("seek", NOT_READY)]
    assert driven.machine.state is (State.WAITING if closed else State.READY)
    assert driven.did(ClearQueue) == []


def test_acknowledgements_held_during_a_failed_seek_leave_after_it() -> None:
    driven = seeking()
    acknowledge(driven, plain(6))
    driven.tell(AcksDue())
    driven.tell(SeekFailed(driven.attempt, NOT_READY))
    assert driven.did(AcksHeld)
    driven.tell(AcksDue())
    assert [acked(ack) for ack in driven.said(CommandAck)] == [[6]]


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("event", [Detached(1, LOST), TopicMigrated(1, MIGRATE)])
def test_a_seek_that_loses_its_broker_fails_as_unknown_and_the_consumer_lives_on(closed: bool, event: Any) -> None:  # noqa: FBT001 - a case
    driven = seeking()
    if closed:
        driven.tell(BrokerClosed(1, CLOSE))
    driven.tell(event)
    (failed,) = driven.did(Fail)
    assert isinstance(failed.error, ConnectionLost)
    assert "may have taken effect" in str(failed.error)
    if driven.machine.state is State.WAITING:
        driven.fire(RetryDue)
    driven.subscribe()
    assert driven.did(ConsumerCallDone) == []
    assert driven.machine.state is State.READY


def test_a_second_seek_is_refused_while_one_runs() -> None:
    driven = seeking()
    driven.tell(Seek("second", plain(4)))
    (failed,) = driven.did(Fail)
    assert str(failed.error) == "a running seek has to end first: wait for it"
    assert failed.token == "second"


CALLS = [(Seek("x", plain(4)), AskToSeek, SeekAnswered), (Unsubscribe("x"), AskToUnsubscribe, UnsubscribeAnswered)]


def time_left(driven: Subscriber, ask: type) -> float:
    """For how long somebody waits for the call: for a seek the connection, for an unsubscribe the machine."""
    (sent,) = driven.did(ask)
    return driven.timers[CallTimedOut].delay if ask is AskToUnsubscribe else sent.timeout


def bind(driven: Subscriber) -> None:
    """Let all go well from wherever it is."""
    if driven.machine.state is State.CLOSE_PENDING:
        driven.tell(CloseAnswered(driven.attempt))
    if driven.machine.state is State.WAITING:
        driven.fire(RetryDue)
    if driven.machine.state is State.LOOKING_UP:
        driven.attach()
    driven.tell(Subscribed(driven.attempt))


@pytest.mark.parametrize("state", [State.WAITING, State.LOOKING_UP, State.SUBSCRIBING, State.CLOSE_PENDING])
@pytest.mark.parametrize(("call", "ask", "answer"), CALLS)
def test_a_call_without_a_binding_waits_for_the_next_and_leaves_with_it(
    call: Any, ask: Any, answer: Any, state: State
) -> None:
    driven = rebinding(state)
    driven.tell(call)
    assert driven.did(Fail) == []
    driven.now += 5.0
    deadline = driven.now + 25.0
    bind(driven)
    assert flows(driven) == [4]
    assert time_left(driven, ask) == deadline - driven.now
    driven.tell(answer(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("x")]


@pytest.mark.parametrize(("call", "what"), [(Seek("x", plain(4)), "seek"), (Unsubscribe("x"), "unsubscribe")])
def test_a_call_that_finds_no_binding_in_time_fails_as_not_done_and_says_why(call: Any, what: str) -> None:
    driven = rebinding(State.LOOKING_UP)
    deadline = driven.now + 30.0
    driven.tell(call)
    driven.tell(LookupFailed(driven.attempt, NOT_READY))
    driven.fire(CallTimedOut)
    (failed,) = driven.did(Fail)
    assert (failed.token, type(failed.error), driven.now) == ("x", ConnectError, deadline)
    assert str(failed.error) == (
        f"the {what} of t was not sent in time: the consumer is WAITING;"
        " the last failure was: ServiceNotReady: starting"
    )
    bind(driven)
    assert driven.machine.state is State.READY
    assert driven.did(AskToSeek) == driven.did(AskToUnsubscribe) == []


@pytest.mark.parametrize("close", [CLOSE, MOVE])
def test_a_seek_that_is_done_but_for_the_binding_does_not_wait_for_that_longer_than_was_agreed(
    close: CommandCloseConsumer,
) -> None:
    driven = seeking()
    driven.now += 10.0
    driven.tell(BrokerClosed(1, close), SeekAnswered(driven.attempt))
    driven.tell(LookupFailed(driven.attempt, LOST) if close is CLOSE else Detached(2, LOST))
    driven.fire(CallTimedOut)
    (failed,) = driven.did(Fail)
    assert (failed.token, type(failed.error), driven.now) == ("seek", Timeout, 130.0)
    assert "the seek of t is done, but" in str(failed.error)
    assert "the last failure was: reset" in str(failed.error)
    bind(driven)
    assert driven.did(ConsumerCallDone) == []


def test_a_seek_that_was_sent_is_timed_by_its_request_alone() -> None:
    driven = rebinding(State.SUBSCRIBING)
    driven.tell(Seek("x", plain(4)))
    bind(driven)
    assert driven.fire(CallTimedOut) == []
    driven.tell(SeekAnswered(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("x")]


def test_a_second_call_is_refused_while_one_waits_for_a_binding() -> None:
    driven = rebinding(State.WAITING)
    driven.tell(Unsubscribe("x"))
    for second in (Seek("second", plain(4)), Unsubscribe("second")):
        (failed,) = driven.tell(second)
        assert (failed.token, str(failed.error)) == ("second", "a running unsubscribe has to end first: wait for it")


def test_a_call_that_waits_for_a_binding_was_not_sent_when_the_consumer_ends() -> None:
    driven = rebinding(State.WAITING)
    driven.tell(Unsubscribe("x"), Close())
    (failed,) = driven.did(Fail)
    assert (failed.token, type(failed.error)) == ("x", AlreadyClosed)


def test_a_seek_that_waited_is_sent_after_the_epoch_of_a_redelivery_meanwhile() -> None:
    driven = rebinding(State.SUBSCRIBING)
    driven.tell(RedeliverUnacknowledged(), Seek("x", plain(4)))
    bind(driven)
    kinds = [type(getattr(effect, "command", None)) for effect in driven.effects]
    epoch, seek = kinds.index(CommandRedeliverUnacknowledgedMessages), kinds.index(CommandSeek)
    assert epoch < kinds.index(CommandFlow) < seek


def enter_cluster(driven: Subscriber) -> list[Any]:
    """Find the topic in another cluster, and subscribe there. Return everything that this does."""
    driven.tell(LookedUp(driven.attempt, "broker", home=1))
    entered = driven.effects
    driven.attach()
    return [*entered, *driven.tell(Subscribed(driven.attempt))]


def without_a_binding(target: Any, *, is_done: bool) -> Subscriber:
    """A consumer without a binding whose seek was not sent yet, or was done."""
    driven = ready() if is_done else rebinding(State.WAITING)
    driven.tell(Seek("x", target))
    if is_done:
        driven.tell(BrokerClosed(1, CLOSE))
        driven.tell(SeekAnswered(driven.attempt))
    else:
        driven.fire(RetryDue)
    return driven


@pytest.mark.parametrize("is_done", [False, True], ids=["not sent", "done, but for the binding"])
def test_a_seek_to_a_message_of_the_former_cluster_fails_as_it_is_left(*, is_done: bool) -> None:
    driven = without_a_binding(plain(4), is_done=is_done)
    effects = enter_cluster(driven)
    (failed,) = [each for each in effects if isinstance(each, Fail)]
    assert (failed.token, type(failed.error)) == ("x", ConnectionLost if is_done else ConnectError)
    assert ("was not sent" in str(failed.error)) is not is_done
    assert "the message stays in the former one" in str(failed.error)
    assert [each for each in effects if isinstance(each, (AskToSeek, ConsumerCallDone))] == []


@pytest.mark.parametrize("target", [EARLIEST, LATEST, 12345], ids=["earliest", "latest", "a time"])
@pytest.mark.parametrize("is_done", [False, True], ids=["not sent", "done, but for the binding"])
def test_a_seek_that_means_something_in_every_cluster_goes_to_the_next_one(*, is_done: bool, target: Any) -> None:
    driven = without_a_binding(target, is_done=is_done)
    effects = enter_cluster(driven)
    assert len([each for each in effects if isinstance(each, AskToSeek)]) == 1
    assert [each for each in effects if isinstance(each, (Fail, ConsumerCallDone))] == []
    driven.tell(SeekAnswered(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("x")]


def test_a_seek_goes_to_a_time_into_a_batch_or_to_the_first_chunk() -> None:
    (ask,) = ready().tell(Seek("x", 12345))
    assert (ask.command.message_publish_time, ask.command.HasField("message_id")) == (12345, False)
    (ask,) = ready().tell(Seek("x", MessageId(1, 2, -1, 1, 3)))
    assert list(ask.command.message_id.ack_set) == [0b110]
    assert ask.command.message_id.batch_index == -1
    (ask,) = ready().tell(Seek("x", MessageId(1, 9, first_chunk=plain(7))))
    assert ask.command.message_id.entryId == 7


def test_a_seek_to_a_time_is_where_a_reader_subscribes_again() -> None:
    driven = ready(start=StartMessageId(EARLIEST, durable=False))
    driven.tell(Seek("x", NOW_MS - 5000), BrokerClosed(1, CLOSE))
    driven.tell(SeekAnswered(driven.attempt))
    (ask,) = driven.attach()
    assert ask.command.start_message_rollback_duration_sec == 0  # the broker has put it there, to the millisecond
    driven.tell(Subscribed(driven.attempt), Detached(driven.connection, LOST))
    driven.fire(RetryDue)
    (ask,) = driven.attach()
    assert ask.command.start_message_rollback_duration_sec == 5


@pytest.mark.parametrize("failure", ["refused", "lost"])
def test_a_seek_to_a_time_is_repeated_once_the_subscribe_after_it_has_failed(failure: str) -> None:
    driven = ready(start=StartMessageId(EARLIEST, durable=False))
    driven.tell(Seek("x", NOW_MS - 5000), BrokerClosed(1, CLOSE))
    driven.tell(SeekAnswered(driven.attempt))
    driven.attach()
    refused = RequestRefused(driven.attempt, NOT_READY)
    driven.tell(refused if failure == "refused" else Detached(driven.connection, LOST))
    driven.fire(RetryDue)
    driven.subscribe()
    (again,) = driven.did(AskToSeek)
    assert again.command.message_publish_time == NOW_MS - 5000
    assert not driven.did(ConsumerCallDone)
    driven.tell(BrokerClosed(driven.connection, CLOSE), SeekAnswered(driven.attempt))
    (ask,) = driven.attach()
    assert ask.command.start_message_rollback_duration_sec == 0
    driven.tell(Subscribed(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("x")]
    assert not driven.did(AskToSeek)


@pytest.mark.parametrize(
    "trouble", ["another connection", "another broker", "failed lookup", "failed attempt of a lookup"]
)
def test_a_seek_to_a_time_is_repeated_if_the_topic_may_have_moved_before_the_subscribe_after_it(trouble: str) -> None:
    driven = ready(start=StartMessageId(EARLIEST, durable=False))
    driven.tell(Seek("x", NOW_MS - 5000), BrokerClosed(1, MOVE if trouble == "another broker" else CLOSE))
    driven.tell(SeekAnswered(driven.attempt))
    if trouble == "failed lookup":
        driven.tell(LookupFailed(driven.attempt, NOT_READY))
        driven.fire(RetryDue)
    elif trouble == "failed attempt of a lookup":
        driven.tell(LookupAttemptFailed(driven.attempt, NOT_READY))
    connection_id = "first" if trouble.startswith("failed") else "second"
    (ask,) = driven.attach(connection_id=connection_id)
    assert ask.command.start_message_rollback_duration_sec == 5
    driven.tell(Subscribed(driven.attempt))
    (again,) = driven.did(AskToSeek)
    assert again.command.message_publish_time == NOW_MS - 5000
    assert not driven.did(ConsumerCallDone)
    driven.tell(BrokerClosed(driven.connection, CLOSE), SeekAnswered(driven.attempt))
    (ask,) = driven.attach(connection_id=connection_id)
    assert ask.command.start_message_rollback_duration_sec == 0
    driven.tell(Subscribed(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("x")]
    assert not driven.did(AskToSeek)


def sought_and_lost() -> Subscriber:
    """Return a reader that has sought a time, lost its connection before a message came, and subscribed again."""
    driven = ready(start=StartMessageId(EARLIEST, durable=False), queue_size=4)
    driven.tell(Seek("x", NOW_MS - 5400), BrokerClosed(1, CLOSE))
    driven.tell(SeekAnswered(driven.attempt))
    driven.subscribe()
    driven.tell(Detached(driven.connection, LOST))
    driven.fire(RetryDue)
    (ask,) = driven.attach()
    assert ask.command.start_message_rollback_duration_sec == 6
    (again,) = driven.tell(Subscribed(driven.attempt))  # and so no permits, before SEEK is answered
    assert again.command.message_publish_time == NOW_MS - 5400
    return driven


def test_a_reader_that_subscribes_at_a_rough_time_gets_its_permits_after_a_seek_to_the_exact_one() -> None:
    driven = sought_and_lost()
    assert driven.tell(ReceiverWaits()) == []
    assert not [effect for effect in driven.tell(GetLastMessageId("last", 200.0)) if not isinstance(effect, StartTimer)]
    assert driven.tell(BrokerClosed(driven.connection, CLOSE)) == []
    driven.tell(SeekAnswered(driven.attempt))
    (ask,) = driven.attach()
    assert ask.command.start_message_rollback_duration_sec == 0  # the broker has put it there, to the millisecond
    driven.tell(Subscribed(driven.attempt))
    assert flows(driven) == [4]
    assert driven.did(AskToGetLastMessageId)
    assert not driven.did(AskToSeek)


def test_a_reader_at_a_rough_time_whose_broker_does_not_close_it_for_the_seek_gets_its_permits() -> None:
    driven = sought_and_lost()
    driven.tell(SeekAnswered(driven.attempt))
    assert flows(driven) == [4]


@pytest.mark.parametrize("error", [NOT_FOUND, NOT_READY, Timeout("no answer")])
def test_a_reader_at_a_rough_time_whose_seek_fails_is_closed_and_tries_again(error: PulsarException) -> None:
    driven = sought_and_lost()
    driven.tell(SeekFailed(driven.attempt, error))
    assert driven.did(AskToClose)
    driven.tell(CloseAnswered(driven.attempt))
    driven.fire(RetryDue)
    driven.subscribe()
    assert driven.did(AskToSeek)
    assert not flows(driven)


def test_a_call_of_a_reader_at_a_rough_time_follows_the_seek_to_that() -> None:
    driven = sought_and_lost()
    driven.tell(Seek("y", plain(3)))
    assert not driven.did(AskToSeek)
    driven.tell(SeekAnswered(driven.attempt))
    (mine,) = driven.did(AskToSeek)
    assert MessageId.from_data(mine.command.message_id) == plain(3)
    driven.tell(SeekAnswered(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("y")]


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (lambda connection: Detached(connection, LOST), State.WAITING),
        (lambda connection: TopicMigrated(connection, MIGRATE), State.LOOKING_UP),
        (lambda _: Close(), State.CLOSING),
        (lambda _: EndAtOnce(AlreadyClosed("over")), State.CLOSED),
    ],
    ids=["lost", "migrated", "closed", "ended"],
)
def test_a_reader_at_a_rough_time_may_lose_its_broker_or_end(event: Any, state: State) -> None:
    driven = sought_and_lost()
    driven.tell(event(driven.connection))
    assert driven.machine.state is state


def test_a_seek_to_a_time_that_ended_no_consumer_names_the_time_when_something_else_does() -> None:
    driven = ready(start=StartMessageId(EARLIEST, durable=False))
    driven.tell(Seek("x", NOW_MS - 5000))
    driven.tell(SeekAnswered(driven.attempt), Detached(driven.connection, LOST))
    driven.fire(RetryDue)
    (ask,) = driven.attach()
    assert ask.command.start_message_rollback_duration_sec == 5


def test_receipts_that_a_seek_makes_void_end_their_callers() -> None:
    driven = seeking(receipts=True)
    acknowledge(driven, plain(6), token="void")
    driven.tell(SeekAnswered(driven.attempt))
    assert driven.did(AcksSettled) == [AcksSettled(("void",), None)]


# Unsubscribe.


def test_unsubscribing_sends_the_acknowledgements_and_ends_the_consumer() -> None:
    driven = ready()
    acknowledge(driven, plain(0))
    driven.tell(Unsubscribe("call", force=True))
    (ask,) = driven.did(AskToUnsubscribe)
    assert ask.command.force
    assert driven.said(CommandAck)
    driven.tell(UnsubscribeAnswered(driven.attempt))
    assert driven.effects == [ConsumerCallDone("call"), Detach(1), HandleEnded(None)]


def test_an_unsubscribe_that_is_answered_late_fails_as_unknown_and_ends_the_consumer_all_the_same() -> None:
    driven = ready()
    driven.tell(Unsubscribe("call"))
    attempt = driven.attempt
    driven.fire(CallTimedOut)
    (failed,) = driven.did(Fail)
    assert (failed.token, type(failed.error)) == ("call", Timeout)
    assert str(failed.error) == "the unsubscribe may have taken effect, or not: the broker has not answered in time"
    driven.receive(incoming(0))
    assert entries(driven) == [0]
    driven.tell(UnsubscribeAnswered(attempt))
    assert driven.effects == [Detach(1), HandleEnded(None)]


@pytest.mark.parametrize(("call", "ask", "answer"), CALLS)
def test_a_call_after_an_unsubscribe_without_an_answer_is_sent_over_the_next_connection(
    call: Any, ask: Any, answer: Any
) -> None:
    driven = ready()
    driven.tell(Unsubscribe("unanswered"))
    late = driven.attempt
    driven.fire(CallTimedOut)
    driven.tell(call)
    assert driven.did(DropConnection)
    assert driven.tell(UnsubscribeAnswered(late)) == []
    driven.tell(Seek("second", plain(3)))
    assert [one.token for one in driven.did(Fail)] == ["second"]
    driven.tell(Detached(1, LOST))
    driven.fire(RetryDue)
    driven.subscribe()
    assert driven.did(ask)
    driven.tell(answer(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("x")]


@pytest.mark.parametrize("asked", ["subscribe", "unsubscribe"])
def test_an_unsubscribe_from_what_is_gone_is_done(asked: str) -> None:
    driven = ready() if asked == "unsubscribe" else rebinding(State.SUBSCRIBING)
    driven.tell(Unsubscribe("call"))
    refused = UnsubscribeFailed if asked == "unsubscribe" else RequestRefused
    driven.tell(refused(driven.attempt, SubscriptionNotFound("SubscriptionNotFound", "gone")))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("call")]
    assert driven.did(Fail) == []
    assert driven.did(HandleEnded)


@pytest.mark.parametrize("refusal", [BrokerRefusal("MetadataError", "Consumer not found"), ConsumerNotFound("x", "y")])
@pytest.mark.parametrize("closed", [False, True])
def test_a_seek_that_a_broker_refuses_because_it_has_given_the_topic_away_is_made_at_the_next(
    refusal: BrokerRefusal,
    closed: bool,  # noqa: FBT001 - a case
) -> None:
    driven = ready()
    driven.tell(Seek("seek", plain(3)))
    if closed:
        driven.tell(BrokerClosed(1, CLOSE))
    driven.tell(SeekFailed(driven.attempt, refusal))
    assert driven.did(Detach) == [Detach(1)]
    assert not driven.did(Fail)
    driven.fire(RetryDue)
    driven.subscribe()
    (ask,) = driven.did(AskToSeek)
    assert ask.command.message_id.entryId == 3
    driven.tell(SeekAnswered(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("seek")]


def test_a_seek_that_is_made_again_does_not_wait_longer_than_was_agreed() -> None:
    driven = ready()
    driven.tell(Seek("seek", plain(3)))
    driven.now += 29
    driven.tell(SeekFailed(driven.attempt, NOT_FOUND))
    assert driven.timers[CallTimedOut].delay == 1.0
    driven.fire(CallTimedOut)
    (failed,) = driven.did(Fail)
    assert isinstance(failed.error, ConnectError)


def test_an_unsubscribe_that_a_broker_refuses_because_it_has_given_the_topic_away_is_made_at_the_next() -> None:
    driven = ready()
    driven.tell(Unsubscribe("call"), UnsubscribeFailed(driven.attempt + 1, NOT_FOUND))
    driven.fire(RetryDue)
    driven.subscribe()
    assert driven.did(AskToUnsubscribe)
    driven.tell(UnsubscribeAnswered(driven.attempt))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("call")]


def test_a_refused_unsubscribe_of_a_consumer_that_the_broker_still_knows_changes_nothing() -> None:
    driven = ready()
    driven.tell(Unsubscribe("call"))
    driven.receive(incoming(0))
    assert entries(driven) == [0]
    driven.tell(Unsubscribe("second"))
    (failed,) = driven.did(Fail)
    assert str(failed.error) == "a running unsubscribe has to end first: wait for it"
    driven.tell(UnsubscribeFailed(driven.attempt, NOT_READY))
    failed, check = driven.effects
    assert failed == Fail("call", NOT_READY)
    assert driven.tell(LastMessageIdAnswered(check.query_number, CommandGetLastMessageIdResponse())) == []
    assert driven.machine.state is State.READY


def test_a_consumer_that_its_broker_has_closed_before_it_refused_the_unsubscribe_subscribes_again() -> None:
    driven = ready(receipts=True)
    driven.tell(Unsubscribe("call"), UnsubscribeFailed(driven.attempt + 1, NOT_READY))
    (check,) = driven.did(AskToGetLastMessageId)
    acknowledge(driven, plain(0), token="kept")
    driven.tell(AcksDue())
    assert driven.did(AskToAck)
    driven.tell(QueryFailed(check.query_number, NOT_FOUND))
    assert driven.did(AskToClose)
    acknowledge(driven, plain(1))
    assert driven.tell(AcksDue()) == []
    driven.tell(CloseAnswered(driven.attempt))
    driven.fire(RetryDue)
    driven.subscribe()
    assert [acked(ask.command) for ask in driven.did(AskToAck)] == [[0, 1]]
    assert flows(driven) == [4]
    assert not driven.did(AskToUnsubscribe)


def test_a_broker_that_does_not_know_a_consumer_while_it_deletes_the_subscription_has_the_last_word() -> None:
    driven = ready()
    driven.tell(GetLastMessageId("last", driven.now + 30.0), Unsubscribe("call"))
    assert driven.tell(QueryFailed(1, NOT_FOUND)) == []
    driven.tell(UnsubscribeAnswered(driven.attempt))
    assert ConsumerCallDone("call") in driven.effects
    assert driven.machine.state is State.CLOSED


@pytest.mark.parametrize("event", [Detached(1, LOST), TopicMigrated(1, MIGRATE), BrokerClosed(1, CLOSE)])
def test_an_unsubscribe_that_loses_its_broker_fails_as_unknown(event: Any) -> None:
    driven = ready()
    driven.tell(Unsubscribe("call"), event)
    (failed,) = driven.did(Fail)
    assert isinstance(failed.error, ConnectionLost)


def test_an_unsubscribe_waits_for_a_seek_to_be_bound_again() -> None:
    driven = seeking()
    driven.tell(BrokerClosed(1, CLOSE), SeekAnswered(driven.attempt), Unsubscribe("call"))
    (failed,) = driven.did(Fail)
    assert isinstance(failed.error, InvalidArgument)


# Time limits and the end.


def test_a_seek_that_is_made_again_and_has_no_answer_names_what_the_first_has_met() -> None:
    driven = ready()
    driven.tell(Seek("seek", plain(3)), SeekFailed(driven.attempt + 1, NOT_FOUND))
    driven.fire(RetryDue)
    driven.subscribe()
    driven.tell(SeekTimedOut(driven.attempt, Timeout("the broker has not answered in time")))
    (failed,) = driven.did(Fail)
    assert str(failed.error) == (
        "the broker has not answered in time; the last failure was: MetadataError: Consumer not found"
    )


@pytest.mark.parametrize("has_closed", [False, True])
def test_a_seek_without_an_answer_in_time_gives_up_its_connection(*, has_closed: bool) -> None:
    driven = ready()
    driven.tell(Seek("seek", plain(3)))
    if has_closed:
        driven.tell(BrokerClosed(1, CLOSE))
    late = Timeout("late")
    driven.tell(SeekTimedOut(driven.attempt, late))
    assert driven.did(Fail) == [Fail("seek", late)]
    assert driven.did(DropConnection) == [DropConnection(1, late)]
    assert driven.machine.state is State.WAITING
    driven.tell(Seek("another", plain(3)))
    driven.fire(RetryDue)
    driven.subscribe()
    assert len(driven.did(AskToSeek)) == 1


def test_an_unsubscribe_that_waited_and_has_no_answer_names_why_it_had_to_wait() -> None:
    driven = rebinding(State.WAITING)
    driven.tell(Unsubscribe("call"))
    bind(driven)
    driven.fire(CallTimedOut)
    (failed,) = driven.did(Fail)
    assert str(failed.error) == (
        "the unsubscribe may have taken effect, or not: the broker has not answered in time;"
        " the last failure was: reset"
    )


def test_a_call_made_while_all_is_well_blames_nothing() -> None:
    driven = rebinding(State.WAITING)
    bind(driven)
    driven.tell(Unsubscribe("call"))
    driven.fire(CallTimedOut)
    (failed,) = driven.did(Fail)
    assert str(failed.error).endswith("the broker has not answered in time")


@pytest.mark.parametrize("call", [Seek("token", plain(0)), Unsubscribe("token")])
@pytest.mark.parametrize("end", [Close(), EndAtOnce(AlreadyClosed("shut down"))])
def test_closing_does_not_claim_to_know_what_became_of_a_call_on_its_way(end: Any, call: Any) -> None:
    driven = ready()
    driven.tell(call)
    driven.tell(end)
    (failed,) = driven.did(Fail)
    assert (failed.token, type(failed.error)) == ("token", OutcomeUnknown)
