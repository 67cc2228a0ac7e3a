from typing import Any

import pytest

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    ConnectError,
    ConsumerNotFound,
    Timeout,
)
from pulsar_actors.machines.connection_handler_events import (
    AskToClose,
    Attach,
    BrokerClosed,
    Close,
    CloseAnswered,
    Detached,
    Fail,
    FirstCreationFailed,
    FirstCreationTimedOut,
    LookupAttemptFailed,
    RetryDue,
    TopicMigrated,
)
from pulsar_actors.machines.consumer import State
from pulsar_actors.machines.consumer_events import (
    AskToGetConsumerStats,
    AskToGetLastMessageId,
    AskToSubscribe,
    CallTimedOut,
    ConsumerCallDone,
    ConsumerOpened,
    ConsumerStatsAnswered,
    GetConsumerStats,
    GetLastMessageId,
    LastMessage,
    LastMessageIdAnswered,
    QueriesDue,
    QueryFailed,
    Seek,
    SeekAnswered,
    Subscribed,
)
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConsumerStatsResponse,
    CommandGetLastMessageIdResponse,
    MessageIdData,
)
from tests.support.consumer_bench import (
    CLOSE,
    LOST,
    MIGRATE,
    MOVE,
    NOT_READY,
    Subscriber,
    acknowledge,
    plain,
    ready,
    rebinding,
    seeking,
)

NOT_FOUND = BrokerRefusal("MetadataError", "Consumer not found")

STATS = CommandConsumerStatsResponse(request_id=1, msgBacklog=3)
LAST = CommandGetLastMessageIdResponse(last_message_id=MessageIdData(ledgerId=3, entryId=9), request_id=1)


def asked(driven: Subscriber) -> AskToGetLastMessageId:
    (ask,) = driven.did(AskToGetLastMessageId)
    assert isinstance(ask, AskToGetLastMessageId)
    return ask


def test_the_last_message_is_asked_for_and_told_with_what_was_acknowledged_if_the_broker_says() -> None:
    driven = ready()
    driven.tell(GetLastMessageId("first", driven.now + 30.0), GetLastMessageId("second", driven.now + 20.0))
    ask = asked(driven)
    assert (ask.query_number, ask.command.consumer_id, ask.timeout) == (2, 7, 20.0)
    assert driven.tell(LastMessageIdAnswered(1, LAST)) == [
        ConsumerCallDone("first", LastMessage(MessageId(3, 9), None))
    ]
    told = CommandGetLastMessageIdResponse()
    told.CopyFrom(LAST)
    told.consumer_mark_delete_position.CopyFrom(MessageIdData(ledgerId=3, entryId=4))
    assert driven.tell(LastMessageIdAnswered(2, told)) == [
        ConsumerCallDone("second", LastMessage(MessageId(3, 9), MessageId(3, 4)))
    ]
    assert driven.tell(LastMessageIdAnswered(2, told)) == []


def at_the_end(**options: Any) -> Subscriber:
    return ready(start=StartMessageId(LATEST, durable=False), **options)


def start_of_the_next(driven: Subscriber, opened: MessageId | None = None) -> MessageId:
    """Have it lose its connection, and see where it subscribes then."""
    driven.tell(Detached(driven.connection, LOST))
    driven.fire(RetryDue)
    driven.attach(opened)
    (ask,) = driven.did(AskToSubscribe)
    return MessageId.from_data(ask.command.start_message_id)


BEGAN_AFTER_4 = CommandGetLastMessageIdResponse(
    last_message_id=MessageIdData(ledgerId=1, entryId=9),
    request_id=1,
    consumer_mark_delete_position=MessageIdData(ledgerId=1, entryId=4),
)


def test_a_reader_that_began_at_the_end_goes_on_from_there_on_its_next_binding() -> None:
    driven = at_the_end()
    ask = asked(driven)
    assert (ask.query_number, ask.timeout) == (0, 30.0)
    assert driven.tell(LastMessageIdAnswered(0, BEGAN_AFTER_4)) == [ConsumerOpened()]
    assert start_of_the_next(driven) == plain(4)
    driven.tell(Subscribed(driven.attempt))
    assert driven.did(AskToGetLastMessageId) == []


def test_it_goes_on_from_what_it_opened_if_there_is_such() -> None:
    driven = at_the_end()
    driven.tell(LastMessageIdAnswered(0, BEGAN_AFTER_4))
    assert start_of_the_next(driven, plain(6)) == plain(6)


@pytest.mark.parametrize(
    "answer",
    [LastMessageIdAnswered(0, LAST), QueryFailed(0, BrokerRefusal("NotAllowedError", "no"))],
    ids=["unsaid", "refused"],
)
def test_a_broker_that_does_not_say_where_the_reader_began_is_asked_again_on_the_next_binding(answer: Any) -> None:
    driven = at_the_end()
    assert driven.tell(answer) == [ConsumerOpened()]
    assert start_of_the_next(driven) == LATEST
    driven.tell(Subscribed(driven.attempt))
    assert asked(driven).query_number == 0


def test_a_reader_at_the_end_is_created_again_if_the_broker_cannot_say_yet_where_that_is() -> None:
    driven = at_the_end()
    driven.tell(QueryFailed(0, NOT_READY))
    (ask,) = driven.did(AskToClose)
    assert driven.did(ConsumerOpened) == []
    driven.tell(CloseAnswered(ask.attempt))
    driven.fire(RetryDue)
    driven.subscribe()
    assert asked(driven).query_number == 0
    assert driven.tell(LastMessageIdAnswered(0, BEGAN_AFTER_4)) == [ConsumerOpened()]


@pytest.mark.parametrize("error", [NOT_READY, NOT_FOUND])
def test_a_reader_at_the_end_that_is_created_again_may_be_sent_to_another_broker(error: BrokerRefusal) -> None:
    driven = at_the_end()
    driven.tell(QueryFailed(0, error))
    driven.tell(BrokerClosed(driven.connection, MOVE), CloseAnswered(driven.attempt))
    assert driven.did(Attach)
    driven.attach()
    driven.tell(Subscribed(driven.attempt))
    assert driven.tell(LastMessageIdAnswered(0, BEGAN_AFTER_4)) == [ConsumerOpened()]


def test_nobody_is_told_of_a_reader_at_the_end_before_the_broker_has_said_where_that_is() -> None:
    driven = at_the_end()
    assert driven.did(ConsumerOpened) == []
    assert start_of_the_next(driven) == LATEST
    driven.tell(Subscribed(driven.attempt))
    assert driven.did(ConsumerOpened) == []
    assert driven.tell(LastMessageIdAnswered(0, BEGAN_AFTER_4)) == [ConsumerOpened()]


def test_a_reader_that_is_never_told_where_it_began_fails_in_time_and_leaves_nothing_behind() -> None:
    driven = at_the_end()
    driven.fire(FirstCreationTimedOut)
    assert driven.machine.state is State.CLOSING
    (failed,) = driven.did(FirstCreationFailed)
    assert isinstance(failed.error, Timeout)
    assert driven.did(AskToClose)


def test_a_reader_that_has_sought_the_end_asks_which_that_is_whether_the_broker_closed_it_or_not() -> None:
    driven = ready(start=StartMessageId(EARLIEST, durable=False))
    assert driven.did(AskToGetLastMessageId) == []
    driven.tell(Seek("seek", LATEST), SeekAnswered(driven.attempt + 1))
    assert asked(driven).query_number == 0
    driven.tell(Seek("seek", LATEST), BrokerClosed(1, CLOSE), SeekAnswered(driven.attempt + 1))
    driven.subscribe()
    assert asked(driven).query_number == 0


def test_what_was_told_of_the_end_counts_no_longer_once_another_place_was_sought() -> None:
    driven = at_the_end()
    driven.tell(Seek("seek", plain(3)), SeekAnswered(driven.attempt + 1), LastMessageIdAnswered(0, BEGAN_AFTER_4))
    assert start_of_the_next(driven) == plain(3)


def test_nobody_asks_a_topic_that_is_not_stored_or_a_broker_that_keeps_the_place() -> None:
    assert at_the_end(persistent=False).did(AskToGetLastMessageId) == []
    assert ready(start=StartMessageId(LATEST)).did(AskToGetLastMessageId) == []


def test_a_refusal_to_tell_the_last_message_is_passed_on() -> None:
    driven = ready()
    driven.tell(GetLastMessageId("x", driven.now + 30.0))
    assert driven.tell(QueryFailed(1, NOT_READY)) == [Fail("x", NOT_READY)]
    assert driven.tell(QueryFailed(1, NOT_READY)) == []


@pytest.mark.parametrize("event", [Detached(1, LOST), TopicMigrated(1, MIGRATE), BrokerClosed(1, CLOSE)])
def test_a_question_that_loses_its_broker_is_asked_again_as_soon_as_there_is_another(event: Any) -> None:
    driven = ready()
    driven.tell(GetLastMessageId("x", driven.now + 30.0), event)
    assert driven.did(Fail) == []
    if driven.machine.state is State.WAITING:
        driven.fire(RetryDue)
    driven.now += 5.0
    left = 130.0 - driven.now
    driven.subscribe()
    ask = asked(driven)
    assert (ask.query_number, ask.timeout) == (2, left)
    assert driven.tell(LastMessageIdAnswered(1, LAST), QueryFailed(1, NOT_READY)) == []
    assert driven.tell(LastMessageIdAnswered(2, LAST)) == [ConsumerCallDone("x", LastMessage(MessageId(3, 9), None))]


def test_a_question_may_be_asked_while_a_seek_runs_and_waits_where_that_has_closed_the_consumer() -> None:
    driven = seeking()
    driven.tell(GetLastMessageId("first", driven.now + 30.0))
    assert asked(driven).query_number == 1
    driven.tell(BrokerClosed(1, CLOSE), GetLastMessageId("second", driven.now + 30.0))
    assert driven.did(AskToGetLastMessageId) == []
    driven.tell(SeekAnswered(driven.attempt))
    driven.subscribe()
    assert [ask.query_number for ask in driven.did(AskToGetLastMessageId)] == [2, 3]


def test_questions_fail_when_their_time_is_up_and_name_the_topic_and_the_last_failure() -> None:
    driven = ready()
    driven.tell(
        GetLastMessageId("first", driven.now + 30.0), Detached(1, LOST), GetLastMessageId("second", driven.now + 40.0)
    )
    assert driven.effects == []
    driven.fire(QueriesDue)
    (failed,) = driven.did(Fail)
    assert (failed.token, type(failed.error)) == ("first", Timeout)
    assert str(failed.error) == (
        "which message of t is the last was not told in time: the consumer is WAITING; the last failure was: reset"
    )
    driven.fire(QueriesDue)
    assert [fail.token for fail in driven.did(Fail)] == ["second"]
    assert driven.now == 140.0
    driven.fire(RetryDue)
    driven.subscribe()
    assert driven.did(AskToGetLastMessageId) == []


def test_a_failure_from_before_the_binding_is_not_blamed_for_a_question_without_an_answer() -> None:
    driven = ready()
    driven.tell(Detached(1, LOST))
    driven.fire(RetryDue)
    driven.subscribe()
    driven.tell(GetLastMessageId("x", driven.now + 30.0))
    driven.fire(QueriesDue)
    (failed,) = driven.did(Fail)
    assert str(failed.error).endswith("the consumer is READY")


def test_a_failure_since_the_question_was_asked_is_named_though_there_is_a_binding_again() -> None:
    driven = ready()
    driven.tell(GetLastMessageId("x", driven.now + 30.0), Detached(1, LOST))
    driven.fire(RetryDue)
    driven.subscribe()
    driven.fire(QueriesDue)
    (failed,) = driven.did(Fail)
    assert str(failed.error).endswith("the consumer is READY; the last failure was: reset")


def test_an_asking_without_an_answer_names_what_the_one_before_has_met() -> None:
    driven = ready()
    driven.tell(GetLastMessageId("x", driven.now + 30.0), Detached(1, LOST))
    driven.fire(RetryDue)
    driven.subscribe()
    driven.tell(QueryFailed(asked(driven).query_number, Timeout("the broker has not answered in time")))
    (failed,) = driven.did(Fail)
    assert (failed.token, type(failed.error)) == ("x", Timeout)
    assert str(failed.error) == (
        "which message of t is the last was not told in time: the consumer is READY; the last failure was: reset"
    )


def test_an_asking_that_the_broker_did_not_know_the_consumer_for_is_named_too() -> None:
    driven = ready()
    driven.tell(GetConsumerStats("x", driven.now + 30.0), QueryFailed(1, NOT_FOUND))
    driven.fire(QueriesDue)
    (failed,) = driven.did(Fail)
    assert str(failed.error).endswith("; the last failure was: MetadataError: Consumer not found")


def test_a_question_is_not_told_of_failures_from_before_it_was_asked_however_many_others_they_met() -> None:
    driven = ready()
    driven.tell(GetLastMessageId("first", driven.now + 30.0), Detached(1, LOST))
    driven.fire(RetryDue)
    driven.subscribe()
    driven.tell(GetLastMessageId("second", driven.now + 30.0))
    driven.tell(QueryFailed(asked(driven).query_number, Timeout("late")))
    (failed,) = driven.did(Fail)
    assert failed.token == "second"
    assert str(failed.error).endswith("the consumer is READY")


def test_a_question_asked_while_bound_is_not_told_of_what_a_receipt_has_waited_through() -> None:
    driven = ready(receipts=True)
    acknowledge(driven, plain(0), token="waits")
    driven.tell(Detached(1, LOST))
    driven.fire(RetryDue)
    driven.subscribe()
    driven.tell(GetLastMessageId("x", driven.now + 1.0))
    driven.fire(QueriesDue)
    (failed,) = driven.did(Fail)
    assert str(failed.error).endswith("the consumer is READY")


def test_what_an_unfinished_lookup_has_met_is_named_by_a_call_and_a_question_that_wait_for_it() -> None:
    driven = rebinding(State.LOOKING_UP)
    driven.tell(Seek("seek", plain(3)), GetLastMessageId("last", driven.now + 30.0))
    driven.tell(
        LookupAttemptFailed(driven.attempt - 1, ConnectError("before")), LookupAttemptFailed(driven.attempt, NOT_READY)
    )
    driven.fire(CallTimedOut)
    driven.fire(QueriesDue)
    (last,) = driven.did(Fail)
    assert str(last.error).endswith("the consumer is LOOKING_UP; the last failure was: ServiceNotReady: starting")


def test_one_timer_serves_all_questions() -> None:
    driven = ready()
    driven.tell(GetLastMessageId("first", driven.now + 30.0))
    assert driven.did(StartTimer)
    driven.tell(LastMessageIdAnswered(1, LAST), GetLastMessageId("second", driven.now + 30.0))
    assert driven.did(StartTimer) == []
    driven.tell(GetLastMessageId("sooner", driven.now + 1.0))
    assert driven.did(StartTimer)


@pytest.mark.parametrize("bound", [True, False])
def test_an_open_question_ends_with_the_consumer(bound: bool) -> None:  # noqa: FBT001 - a case
    driven = ready()
    if not bound:
        driven.tell(Detached(1, LOST))
    driven.tell(GetLastMessageId("x", driven.now + 30.0), Close())
    (failed,) = driven.did(Fail)
    assert (failed.token, type(failed.error)) == ("x", AlreadyClosed)
    (late,) = driven.tell(GetLastMessageId("late", driven.now + 30.0))
    assert (late.token, type(late.error)) == ("late", AlreadyClosed)


def test_what_the_broker_counts_is_asked_for_and_told() -> None:
    driven = ready()
    driven.tell(GetConsumerStats("call", 130.0))
    (ask,) = driven.did(AskToGetConsumerStats)
    assert (ask.command.consumer_id, ask.timeout) == (7, 30.0)
    driven.tell(ConsumerStatsAnswered(ask.query_number, STATS))
    assert driven.effects == [ConsumerCallDone("call", STATS)]


@pytest.mark.parametrize("says_so", [False, True])
def test_a_question_about_a_consumer_that_the_broker_has_forgotten_is_put_to_the_next(*, says_so: bool) -> None:
    driven = ready()
    driven.tell(GetConsumerStats("call", 130.0))
    driven.tell(
        QueryFailed(driven.did(AskToGetConsumerStats)[0].query_number, ConsumerNotFound("ConsumerNotFound", "x"))
    )
    (close,) = driven.did(AskToClose)
    if says_so:
        driven.tell(BrokerClosed(1, CLOSE))
    driven.tell(CloseAnswered(close.attempt))
    driven.fire(RetryDue)
    driven.subscribe()
    (ask,) = driven.did(AskToGetConsumerStats)
    driven.tell(ConsumerStatsAnswered(ask.query_number, STATS))
    assert driven.did(ConsumerCallDone) == [ConsumerCallDone("call", STATS)]


def test_what_the_broker_counts_and_does_not_tell_in_time_is_named() -> None:
    driven = ready()
    driven.tell(GetConsumerStats("call", 101.0))
    driven.fire(QueriesDue)
    (failed,) = driven.did(Fail)
    assert str(failed.error) == "what the broker counts of a consumer of t was not told in time: the consumer is READY"
