"""What a producer does, told as scenarios: events in, effects out."""

from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    BrokerRefusal,
    CertificateRefused,
    ConnectError,
    ConnectionLost,
    InvalidArgument,
    InvalidTxnStatusError,
    MessageTooBig,
    MessageTooBigBeforeReceipt,
    OutcomeUnknown,
    ProducerBusy,
    ProducerFenced,
    ProducerFencedBeforeReceipt,
    PulsarException,
    Timeout,
    TopicNotFoundBeforeReceipt,
    TopicTerminatedBeforeReceipt,
)
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
    LookupAttemptFailed,
    LookupFailed,
    Open,
    RequestRefused,
    RequestTimedOut,
    RetryDue,
    TopicMigrated,
    WrongAnswer,
)
from pulsar_actors.machines.lookup_events import MIGRATED, AssignedBroker
from pulsar_actors.machines.producer import ProducerMachine, ProducerSettings, State
from pulsar_actors.machines.producer_events import (
    AskIfTaken,
    AskToCreate,
    Drained,
    DropTransaction,
    FeedRemainingReceipts,
    Flush,
    Flushed,
    LineCheckDue,
    LineChecked,
    LineCheckTimedOut,
    ProducerAttached,
    ProducerCreated,
    ProducerOpened,
    Publish,
    ReceiptsArrived,
    SendBatches,
    SendRefused,
    SendsCompleted,
    SendTimeoutDue,
    StopDraining,
    TakeWaiting,
)
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.pending_messages import PendingMessages, PendingSend, SendQuota, StoredSend
from pulsar_actors.machines.trackers.producer_identity import SequenceIds
from pulsar_actors.machines.trackers.server_errors import REFUSALS
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseProducer,
    CommandProducer,
    CommandProducerSuccess,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    CommandTopicMigrated,
    MessageIdData,
    ProducerAccessMode,
    ServerError,
)
from pulsar_actors.wire.transaction_id import TransactionId

MINUS_ONE = 2**64 - 1
LOST = ConnectionLost("reset")


def refusal(code: str) -> BrokerRefusal:
    return BrokerRefusal(code, "no")


class Stage:
    """A producer and everything around it, played by the test."""

    def __init__(self, command: CommandProducer | None = None, *, initial: int | None = None) -> None:
        self.corrupt: set[object] = set()
        self.sizes: dict[object, int] = {}  # of the largest entry of a token, if it matters
        chosen = command or CommandProducer(topic="persistent://t/n/orders", producer_id=7)
        settings = ProducerSettings(chosen, self.is_intact, self.largest_entry)
        self.quota = SendQuota(1000)
        pending = PendingMessages[Any](self.quota, SendQuota(0))
        self.machine = ProducerMachine(settings, pending, SequenceIds(initial), Backoff(lambda: 0.0))
        self.now = 0.0
        self.attempt = 0
        self.connection = 0
        self.timers: dict[type, StartTimer] = {}
        self.created: list[CommandProducer] = []

    @property
    def state(self) -> State:
        state = self.machine.state
        assert isinstance(state, State)
        return state

    def is_intact(self, token: object) -> bool:
        return token not in self.corrupt

    def largest_entry(self, token: object, first: int) -> int:
        return self.sizes.get(token, 1)

    def tell(self, event: Any) -> list[Any]:
        """Give the effects other than timers."""
        seen: list[Any] = []
        for effect in self.machine.handle(event, self.now):
            if isinstance(effect, StartTimer):
                self.timers[type(effect.event)] = effect
                continue
            self.attempt = getattr(effect, "attempt", self.attempt)
            if isinstance(effect, Attach):
                self.connection = effect.connection
            if isinstance(effect, AskToCreate):
                self.created.append(effect.command)
            seen.append(effect)
        return seen

    def wait(self, kind: type) -> list[Any]:
        """Let a timer run out."""
        timer = self.timers.pop(kind)
        self.now += timer.delay
        return self.tell(timer.event)

    def publish(self, *tokens: str, count: int = 1, patience: float | None = 30.0) -> list[Any]:
        items: list[PendingSend[Any]] = []
        for token in tokens:
            self.machine.pending.reserve(count, 10)
            first = self.machine.sequence_ids.take(count)
            deadline = None if patience is None else self.now + patience
            items.append(PendingSend(token, first, first + count - 1, count, 10, deadline))
        return self.tell(Publish(tuple(items)))

    def publish_in(self, transaction: TransactionId, token: str) -> list[Any]:
        """Publish a message of a transaction."""
        self.machine.pending.reserve(1, 10)
        first = self.machine.sequence_ids.take(1)
        return self.tell(Publish((PendingSend(token, first, first, 1, 10, None).in_transaction(transaction),)))

    def success(self, *, ready: bool = True, **fields: Any) -> list[Any]:
        command = CommandProducerSuccess(request_id=0, producer_name="broker-7", producer_ready=ready, **fields)
        return self.tell(ProducerCreated(self.attempt, command))

    def refuse(self, code: str) -> list[Any]:
        return self.tell(RequestRefused(self.attempt, refusal(code)))

    def receipt(self, sequence_id: int, ledger: int = 5, entry: int = 9) -> list[Any]:
        where = MessageIdData(ledgerId=ledger, entryId=entry)
        command = CommandSendReceipt(producer_id=7, sequence_id=sequence_id, message_id=where)
        return self.tell(ReceiptsArrived(self.connection, (command,)))

    def receipts(self, *sequence_ids: int) -> list[Any]:
        where = MessageIdData(ledgerId=5, entryId=9)
        commands = [CommandSendReceipt(producer_id=7, sequence_id=one, message_id=where) for one in sequence_ids]
        return self.tell(ReceiptsArrived(self.connection, tuple(commands)))

    def send_error(self, sequence_id: int, error: "ServerError.ValueType") -> list[Any]:
        command = CommandSendError(producer_id=7, sequence_id=sequence_id, error=error, message="no")
        return self.tell(SendRefused(self.connection, command))

    def broker_closes(self, **urls: str) -> list[Any]:
        return self.tell(BrokerClosed(self.connection, CommandCloseProducer(producer_id=7, request_id=0, **urls)))

    def migrates(self, **urls: str) -> list[Any]:
        kind = CommandTopicMigrated.ResourceType.Producer
        return self.tell(
            TopicMigrated(self.connection, CommandTopicMigrated(resource_id=7, resource_type=kind, **urls))
        )

    def lose(self, error: PulsarException = LOST) -> list[Any]:
        return self.tell(Detached(self.connection, error))


def opened() -> Stage:
    stage = Stage()
    stage.tell(Open())
    return stage


def waiting() -> Stage:
    stage = opened()
    stage.tell(LookupFailed(stage.attempt, ConnectError("down")))
    return stage


def connecting() -> Stage:
    stage = opened()
    stage.tell(LookedUp(stage.attempt, "broker-a"))
    return stage


def creating() -> Stage:
    stage = connecting()
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    return stage


def queued() -> Stage:
    stage = creating()
    stage.success(ready=False)
    return stage


def ready() -> Stage:
    stage = creating()
    stage.success()
    return stage


def close_pending() -> Stage:
    stage = creating()
    stage.tell(RequestTimedOut(stage.attempt))
    return stage


def closing() -> Stage:
    stage = ready()
    stage.tell(Close())
    return stage


def draining() -> Stage:
    stage = ready()
    stage.machine.pending.held = (b"payload", "tag")
    assert stage.tell(Close()) == []
    assert stage.state is State.DRAINING
    return stage


def waiting_again() -> Stage:
    stage = ready()
    stage.lose()
    return stage


def rebind(stage: Stage, *, largest: int = DEFAULT_MAX_MESSAGE_SIZE, **fields: Any) -> list[Any]:
    """From WAITING to READY; give what the broker's acceptance led to."""
    stage.wait(RetryDue)
    stage.tell(LookedUp(stage.attempt, "broker-a"))
    stage.tell(ProducerAttached(stage.connection, largest))
    return stage.success(**fields)


def tokens(effects: list[Any]) -> list[object]:
    ended = [effect.items if isinstance(effect, SendsCompleted) else (effect,) for effect in effects if is_end(effect)]
    return [item.token for items in ended for item in items]


def is_end(effect: Any) -> bool:
    return isinstance(effect, (Fail, SendsCompleted))


def complete(token: str, *message_ids: tuple[int, int], last: int = 0) -> SendsCompleted:
    return SendsCompleted((StoredSend(token, message_ids, last),))


def errors(effects: list[Any]) -> list[type]:
    return [type(effect.error) for effect in effects if isinstance(effect, Fail)]


# Getting bound.


def test_a_producer_is_looked_up_attached_and_created() -> None:
    stage = Stage()
    assert stage.tell(Open()) == [LookUp(1, "persistent://t/n/orders", None)]
    assert stage.timers[FirstCreationTimedOut].delay == 30.0
    assert stage.tell(LookedUp(1, "broker-a")) == [Attach(1, "broker-a")]
    [ask] = stage.tell(ProducerAttached(1, DEFAULT_MAX_MESSAGE_SIZE))
    assert ask.timeout == 30.0
    assert (ask.command.topic, ask.command.producer_id) == ("persistent://t/n/orders", 7)
    assert stage.success(schema_version=b"v1") == [ProducerOpened("broker-7")]
    assert stage.state is State.READY
    assert stage.machine.identity.schema_version == b"v1"


def test_the_epoch_goes_up_with_every_create() -> None:
    stage = ready()
    for _ in range(3):
        stage.lose()
        rebind(stage)
    assert [command.epoch for command in stage.created] == [0, 1, 2, 3]


def test_a_name_from_the_broker_is_used_again_and_still_not_the_users() -> None:
    stage = waiting_again()
    rebind(stage)
    first, second = stage.created
    assert not first.HasField("producer_name")
    assert second.producer_name == "broker-7"
    assert not first.user_provided_producer_name
    assert not second.user_provided_producer_name


def test_a_name_from_the_user_is_said_to_be_the_users() -> None:
    stage = Stage(CommandProducer(topic="t", producer_id=1, producer_name="mine"))
    stage.tell(Open())
    stage.tell(LookedUp(stage.attempt, "broker-a"))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    assert stage.created[0].user_provided_producer_name
    assert stage.created[0].producer_name == "mine"


@pytest.mark.shows("Command Producer", "topic_epoch")
@pytest.mark.shows("Command ProducerSuccess", "topic_epoch")
def test_the_topic_epoch_is_echoed() -> None:
    stage = creating()
    stage.success(topic_epoch=4)
    stage.lose()
    rebind(stage)
    stage.lose()
    rebind(stage)
    assert not stage.created[0].HasField("topic_epoch")
    assert [command.topic_epoch for command in stage.created[1:]] == [4, 4]


@pytest.mark.parametrize(("initial", "following"), [(None, 42), (9, 10)])
def test_the_last_sequence_id_is_adopted_unless_the_user_gave_one(initial: int | None, following: int) -> None:
    stage = Stage(initial=initial)
    stage.tell(Open())
    stage.tell(LookedUp(stage.attempt, "broker-a"))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    stage.success(last_sequence_id=41)
    assert stage.machine.sequence_ids.take() == following


def test_the_last_sequence_id_is_adopted_only_once() -> None:
    stage = waiting_again()
    stage.wait(RetryDue)
    stage.tell(LookedUp(stage.attempt, "broker-a"))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    stage.success(last_sequence_id=41)
    assert stage.machine.sequence_ids.take() == 0


FATAL_AT_FIRST = [
    "AuthorizationError", "ConsumerBusy", "TopicNotFound", "SubscriptionNotFound", "ProducerBusy",
    "IncompatibleSchema", "ConsumerAssignError", "NotAllowedError", "TransactionConflict", "AuthenticationError",
]  # fmt: skip
FATAL_ALWAYS = ["TopicNotFound", "SubscriptionNotFound"]


@pytest.mark.shows("Authentication and authorisation", "authorisation")
@pytest.mark.parametrize("code", FATAL_AT_FIRST)
@pytest.mark.parametrize("stand", [creating, queued])
def test_a_first_creation_fails_at_once_on_what_a_retry_would_not_cure(stand: Callable[[], Stage], code: str) -> None:
    stage = stand()
    failed, detach, ended = stage.refuse(code)
    assert failed == FirstCreationFailed(ended.error)
    assert (ended.error.code, detach) == (code, Detach(1))
    assert stage.state is State.FAILED


@pytest.mark.parametrize("code", sorted({*FATAL_AT_FIRST} - {*FATAL_ALWAYS}))
def test_a_producer_that_was_created_once_is_created_again_whatever_the_broker_says(code: str) -> None:
    stage = waiting_again()
    stage.wait(RetryDue)
    stage.tell(LookedUp(stage.attempt, "broker-a"))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    assert stage.refuse(code) == [Detach(2)]
    assert stage.state is State.WAITING
    assert rebind(stage) == []
    assert stage.state is State.READY


@pytest.mark.parametrize("code", FATAL_ALWAYS)
def test_a_topic_that_has_gone_ends_even_a_producer_that_was_created(code: str) -> None:
    stage = waiting_again()
    stage.publish("a")
    stage.wait(RetryDue)
    effects = stage.tell(LookupFailed(stage.attempt, refusal(code)))
    assert tokens(effects) == ["a"]
    assert isinstance(effects[-1], HandleEnded)
    assert not any(isinstance(effect, FirstCreationFailed) for effect in effects)
    assert stage.state is State.FAILED


@pytest.mark.parametrize(
    ("code", "end"), [("ProducerFenced", State.FENCED), ("TopicTerminatedError", State.TERMINATED)]
)
@pytest.mark.parametrize("stand", [creating, queued])
def test_a_fenced_producer_and_a_terminated_topic_end_the_creation(
    stand: Callable[[], Stage], code: str, end: State
) -> None:
    stage = stand()
    assert stage.refuse(code)[-1].error.code == code
    assert stage.state is end


def test_other_refusals_are_retried_with_growing_pauses_until_the_operation_timeout() -> None:
    stage = creating()
    pauses: list[float] = []
    for _ in range(4):
        stage.refuse("ServiceNotReady")
        pauses.append(stage.timers[RetryDue].delay)
        stage.wait(RetryDue)
        stage.tell(LookedUp(stage.attempt, "broker-a"))
        stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    assert pauses == [0.1, 0.2, 0.4, 0.8]
    stage.refuse("ServiceNotReady")
    failed, _, ended = stage.wait(FirstCreationTimedOut)
    assert isinstance(failed, FirstCreationFailed)
    assert isinstance(failed.error, Timeout)
    assert isinstance(ended, HandleEnded)
    assert stage.state is State.FAILED


def test_a_success_makes_the_next_pause_short_again() -> None:
    stage = creating()
    stage.refuse("ServiceNotReady")
    stage.wait(RetryDue)
    stage.tell(LookedUp(stage.attempt, "broker-a"))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    stage.success()
    stage.lose()
    assert stage.timers[RetryDue].delay == 0.1


@pytest.mark.parametrize("stand", [opened, connecting, waiting])
def test_a_first_creation_that_takes_too_long_fails_the_call(stand: Callable[[], Stage]) -> None:
    stage = stand()
    name = stage.state.name
    last = "; the last failure was: down" if stand is waiting else ""
    failed, _, ended = stage.wait(FirstCreationTimedOut)
    assert str(failed.error) == f"the producer could not be created within 30 s: still {name}{last}"
    assert ended == HandleEnded(failed.error)
    assert stage.state is State.FAILED


def stumbling() -> Stage:
    stage = opened()
    stage.tell(LookupAttemptFailed(stage.attempt, refusal("ServiceNotReady")))
    return stage


def unanswered() -> Stage:
    stage = close_pending()
    stage.tell(CloseAnswered(stage.attempt))
    return stage


def given_away() -> Stage:
    stage = creating()
    stage.broker_closes()
    return stage


def mixed_up() -> Stage:
    stage = creating()
    stage.tell(WrongAnswer(AskToCreate, CommandSuccess(request_id=1)))
    return stage


@pytest.mark.parametrize(
    ("stand", "last"),
    [
        (stumbling, "ServiceNotReady: no"),
        (unanswered, "the broker has not answered in time to the creation of the producer"),
        (given_away, "the broker closed the producer"),
        (mixed_up, "the broker broke the protocol: it answered AskToCreate with CommandSuccess"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_whatever_an_attempt_ended_in_is_named_when_the_creation_takes_too_long(
    stand: Callable[[], Stage], last: str
) -> None:
    failed, *_ = stand().wait(FirstCreationTimedOut)
    assert str(failed.error).endswith(f"; the last failure was: {last}")


def test_what_an_earlier_lookup_has_met_is_not_taken_for_the_last_failure() -> None:
    stage = waiting()
    stage.wait(RetryDue)
    stage.tell(LookupAttemptFailed(stage.attempt - 1, refusal("ServiceNotReady")))
    failed, *_ = stage.wait(FirstCreationTimedOut)
    assert str(failed.error).endswith("; the last failure was: down")


def test_a_send_that_times_out_names_what_went_wrong_last() -> None:
    stage = waiting_again()
    stage.publish("never written", patience=5.0)
    (late,) = stage.wait(SendTimeoutDue)
    assert str(late.error) == "no broker took it in time: it is not stored; the last failure was: reset"
    stage.publish("written", patience=5.0)
    rebind(stage)
    (late,) = stage.wait(SendTimeoutDue)
    assert str(late.error) == ("no receipt came in time: it may be stored all the same; the last failure was: reset")


def test_what_went_wrong_before_all_was_well_again_is_not_named() -> None:
    stage = waiting_again()
    stage.publish("stored", patience=5.0)
    rebind(stage)
    stage.receipt(0)
    stage.publish("lost", patience=5.0)
    (late,) = stage.wait(SendTimeoutDue)
    assert str(late.error) == "no receipt came in time: it may be stored all the same"
    stage.lose()
    rebind(stage)
    stage.publish("lost as well", patience=5.0)
    (late,) = stage.wait(SendTimeoutDue)
    assert str(late.error) == "no receipt came in time: it may be stored all the same"


def test_a_create_that_takes_too_long_fails_the_call_and_is_closed() -> None:
    stage = creating()
    failed, ask = stage.wait(FirstCreationTimedOut)
    assert isinstance(failed, FirstCreationFailed)
    assert isinstance(ask, AskToClose)
    assert stage.tell(CloseAnswered(stage.attempt)) == [Detach(1), HandleEnded(None)]


def test_a_call_that_fails_during_a_pending_close_awaits_the_answer_to_that_close() -> None:
    stage = close_pending()
    [failed] = stage.wait(FirstCreationTimedOut)
    assert isinstance(failed, FirstCreationFailed)
    assert stage.tell(CloseAnswered(stage.attempt)) == [Detach(1), HandleEnded(None)]


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (refusal("TopicNotFound"), State.FAILED),
        (refusal("InvalidTopicName"), State.FAILED),
        (InvalidArgument("20 redirects"), State.FAILED),
        (CertificateRefused("expired"), State.FAILED),
        (refusal("ServiceNotReady"), State.WAITING),
        (Timeout("no answer"), State.WAITING),
        (ConnectError("down"), State.WAITING),
    ],
)
def test_a_first_lookup_fails_the_call_on_what_a_retry_would_not_cure(error: PulsarException, end: State) -> None:
    stage = opened()
    effects = stage.tell(LookupFailed(stage.attempt, error))
    assert stage.state is end
    assert (FirstCreationFailed(error) in effects) == (end is State.FAILED)


@pytest.mark.parametrize(
    "error",
    [InvalidArgument("20 redirects"), refusal("InvalidTopicName"), Timeout("no answer"), CertificateRefused("expired")],
)
def test_a_later_lookup_is_repeated_for_ever(error: PulsarException) -> None:
    stage = waiting_again()
    stage.wait(RetryDue)
    stage.tell(LookupFailed(stage.attempt, error))
    assert stage.state is State.WAITING


@pytest.mark.parametrize("stand", [connecting, creating, queued])
def test_credentials_that_are_refused_fail_the_call_at_once(stand: Callable[[], Stage]) -> None:
    stage = stand()
    error = AuthenticationError("AuthenticationError", "who?")
    assert stage.lose(error)[0] == FirstCreationFailed(error)
    assert stage.state is State.FAILED


@pytest.mark.parametrize("stand", [connecting, creating, queued, close_pending, ready])
def test_a_lost_connection_leads_to_a_pause_and_a_new_lookup(stand: Callable[[], Stage]) -> None:
    stage = stand()
    assert stage.lose() == []
    assert stage.state is State.WAITING
    assert stage.wait(RetryDue) == [LookUp(stage.attempt, "persistent://t/n/orders", None)]


def test_a_queued_producer_waits_for_as_long_as_it_takes() -> None:
    stage = queued()
    assert stage.state is State.QUEUED
    late = stage.timers.pop(FirstCreationTimedOut)
    assert stage.tell(late.event) == []
    assert stage.tell(RequestTimedOut(stage.attempt)) == []
    assert stage.success(ready=False) == []
    assert stage.success() == [ProducerOpened("broker-7")]
    assert stage.state is State.READY


def asked_if_taken(stage: Stage) -> AskIfTaken:
    (ask,) = stage.wait(LineCheckDue)
    assert isinstance(ask, AskIfTaken)
    return ask


TAKEN = [
    ProducerFenced("ProducerFenced", "Topic has an existing exclusive producer: p"),
    ProducerFenced("ProducerFenced", "Topic has existing shared producers"),
    ProducerBusy("ProducerBusy", "Topic 't' reached max producers limit"),
]


@pytest.mark.parametrize("error", TAKEN, ids=str)
def test_a_queued_producer_asks_again_and_again_if_the_topic_is_taken_and_keeps_its_place(error: BrokerRefusal) -> None:
    stage = queued()
    for _ in range(3):
        ask = asked_if_taken(stage)
        assert stage.tell(LineChecked(ask.attempt, error)) == []
        assert stage.state is State.QUEUED
    assert stage.success() == [ProducerOpened("broker-7")]


FREE = ProducerFenced("ProducerFenced", "Topic epoch has already moved. Current epoch: 1, Producer epoch: -9")
ELSEWHERE = BrokerRefusal("ServiceNotReady", "Namespace bundle is not served by this instance")


@pytest.mark.parametrize("answer", [FREE, ELSEWHERE, None], ids=str)
def test_a_queued_producer_that_its_broker_has_forgotten_is_closed_and_registers_again(
    answer: BrokerRefusal | None,
) -> None:
    stage = queued()
    ask = asked_if_taken(stage)
    (close,) = stage.tell(LineCheckTimedOut(ask.attempt) if answer is None else LineChecked(ask.attempt, answer))
    assert isinstance(close, AskToClose)
    assert stage.tell(CloseAnswered(stage.attempt)) == [Detach(1)]
    assert rebind(stage) == [ProducerOpened("broker-7")]


def test_the_question_if_the_topic_is_taken_registers_nothing() -> None:
    command = asked_if_taken(queued()).command
    assert command.producer_id == 2**62 + 7, "the id of no producer"
    assert command.producer_access_mode == ProducerAccessMode.Exclusive
    assert command.topic_epoch == 2**63, "a negative number for a broker, so it is refused also if the topic is free"


def test_a_producer_that_had_to_queue_is_no_longer_bound_by_the_operation_timeout() -> None:
    stage = queued()
    stage.lose()
    assert stage.tell(stage.timers[FirstCreationTimedOut].event) == []
    assert rebind(stage) == [ProducerOpened("broker-7")]


# A create that was given up.


@pytest.mark.shows("Producer", "close before creating again")
def test_a_create_without_an_answer_is_closed_before_the_next_one() -> None:
    stage = creating()
    late = stage.attempt
    [ask] = stage.tell(RequestTimedOut(stage.attempt))
    assert isinstance(ask, AskToClose)
    assert (ask.command.producer_id, ask.timeout) == (7, 30.0)
    success = CommandProducerSuccess(request_id=0, producer_name="late")
    assert stage.tell(ProducerCreated(late, success)) == []
    assert stage.state is State.CLOSE_PENDING
    assert stage.tell(CloseAnswered(stage.attempt)) == [Detach(1)]
    assert rebind(stage) == [ProducerOpened("broker-7")]


def test_an_unanswered_close_drops_the_connection_and_a_new_one_owes_nothing() -> None:
    stage = close_pending()
    [drop] = stage.tell(CloseTimedOut(stage.attempt))
    assert isinstance(drop, DropConnection)
    assert drop.connection == 1
    assert stage.lose() == []
    assert rebind(stage) == [ProducerOpened("broker-7")]


@pytest.mark.parametrize("stand", [creating, queued])
def test_a_broker_that_closes_an_unanswered_create_is_asked_to_close_it_too(stand: Callable[[], Stage]) -> None:
    stage = stand()
    [ask] = stage.broker_closes(assignedBrokerServiceUrl="pulsar://b:6650")
    assert isinstance(ask, AskToClose)
    assert stage.tell(CloseAnswered(stage.attempt)) == [Detach(1), Attach(2, AssignedBroker("pulsar://b:6650"))]
    assert stage.state is State.CONNECTING


def test_a_broker_that_closes_while_a_close_is_pending_changes_only_where_to_go_next() -> None:
    stage = close_pending()
    assert stage.broker_closes(assignedBrokerServiceUrl="pulsar://b:6650") == []
    assert stage.broker_closes() == []
    assert stage.state is State.CLOSE_PENDING
    assert stage.tell(CloseAnswered(stage.attempt)) == [Detach(1), Attach(2, AssignedBroker("pulsar://b:6650"))]


@pytest.mark.parametrize("stand", [creating, queued, close_pending])
def test_a_topic_that_migrates_meanwhile_is_looked_up_in_its_new_cluster(stand: Callable[[], Stage]) -> None:
    stage = stand()
    stage.migrates(brokerServiceUrl="pulsar://new:6650")
    assert stage.state is State.CLOSE_PENDING
    stage.tell(CloseAnswered(stage.attempt))
    assert stage.wait(RetryDue) == [LookUp(stage.attempt, "persistent://t/n/orders", "pulsar://new:6650")]


def test_in_another_cluster_nothing_that_is_pending_of_transactions_is_sent() -> None:
    """They have the ids of transactions of others there."""
    stage = ready()
    stage.publish("plain")
    stage.publish_in(TransactionId(0, 0), "written")
    stage.lose()
    stage.publish_in(TransactionId(0, 0), "waits")
    stage.wait(RetryDue)
    effects = stage.tell(LookedUp(stage.attempt, "broker-b", home=1))
    assert tokens(effects) == ["written", "waits"]
    assert set(errors(effects)) == {InvalidTxnStatusError}
    assert effects[-2:] == [TakeWaiting(), Attach(2, "broker-b")]
    stage.tell(ProducerAttached(2, DEFAULT_MAX_MESSAGE_SIZE))
    [sends] = [effect for effect in stage.success() if isinstance(effect, SendBatches)]
    assert [item.token for item in sends.items] == ["plain"]


def test_a_message_in_chunks_is_sent_as_a_whole_to_the_cluster_that_its_topic_has_migrated_to() -> None:
    stage = ready()
    stage.machine.pending.reserve(1, 10)
    stage.tell(Publish((PendingSend("a", 0, 0, 1, 10, None, frames=2),)))
    assert stage.receipt(0, 1, 1) == []
    stage.migrates(brokerServiceUrl="pulsar://new:6650")
    stage.tell(LookedUp(stage.attempt, "broker-b", home=MIGRATED))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    effects = stage.success()
    assert [item.next_frame for effect in effects if isinstance(effect, SendBatches) for item in effect.items] == [0]


def test_a_transaction_of_an_earlier_cluster_is_refused_and_of_a_later_one_is_not() -> None:
    stage = waiting_again()
    assert stage.machine.foreign_error(0) is None
    stage.wait(RetryDue)
    stage.tell(LookedUp(stage.attempt, "broker-b", home=1))
    assert isinstance(stage.machine.foreign_error(0), InvalidTxnStatusError)
    assert [stage.machine.foreign_error(home) for home in (1, 2)] == [None, None]


def test_a_topic_that_has_migrated_takes_part_in_no_transaction() -> None:
    stage = ready()
    stage.publish_in(TransactionId(0, 0), "written")
    effects = stage.migrates(brokerServiceUrl="pulsar://new:6650")
    assert (tokens(effects), errors(effects)) == (["written"], [InvalidTxnStatusError])
    stage.tell(LookedUp(stage.attempt, "broker-b", home=MIGRATED))
    assert isinstance(stage.machine.foreign_error(0), InvalidTxnStatusError)


def test_a_topic_that_has_migrated_is_found_where_the_client_is_if_the_lookup_was_made_there() -> None:
    stage = ready()
    stage.migrates(brokerServiceUrl="pulsar://new:6650")
    stage.tell(LookedUp(stage.attempt, "broker-b", home=1))
    assert stage.machine.foreign_error(1) is None
    stage.lose()
    assert stage.wait(RetryDue) == [LookUp(stage.attempt, "persistent://t/n/orders", None)]


# Bound.


def test_what_was_pending_is_written_before_anything_new_and_in_order() -> None:
    stage = ready()
    stage.publish("a", "b")
    stage.publish("c")
    stage.receipt(0)
    stage.lose()
    assert stage.publish("d") == []
    [send] = rebind(stage)
    assert isinstance(send, SendBatches)
    assert [item.token for item in send.items] == ["b", "c", "d"]
    [later] = stage.publish("e")
    assert [item.token for item in later.items] == ["e"]
    assert later.connection == 2


@pytest.mark.parametrize("acknowledged", [0, 9])
def test_a_receipt_for_the_first_or_the_last_id_completes_a_batch(acknowledged: int) -> None:
    stage = ready()
    stage.publish("a", count=10)
    assert stage.receipt(acknowledged) == [complete("a", (5, 9), last=9)]
    assert stage.machine.sequence_ids.last_published == 9
    assert stage.quota.used == 0


def test_a_dropped_duplicate_is_told_apart() -> None:
    stage = ready()
    stage.publish("a")
    assert stage.receipt(0, MINUS_ONE, MINUS_ONE) == [complete("a", (-1, -1))]


def test_a_chunked_message_completes_with_its_last_chunk() -> None:
    stage = ready()
    stage.machine.pending.reserve(1, 10)
    stage.tell(Publish((PendingSend("a", 0, 0, 1, 10, None, frames=2),)))
    assert stage.receipt(0, 1, 1) == []
    assert stage.receipt(0, 1, 2) == [complete("a", (1, 1), (1, 2))]


@pytest.mark.parametrize(("away", "next_frame"), [(20.0, 1), (40.0, 0)])
def test_all_chunks_are_written_again_if_consumers_may_have_given_up_those_that_are_stored(
    away: float, next_frame: int
) -> None:
    stage = ready()
    stage.now = 1000.0
    stage.machine.pending.reserve(1, 10)
    stage.tell(Publish((PendingSend("a", 0, 0, 1, 10, None, frames=2),)))
    assert stage.receipt(0, 1, 1) == []
    stage.now += away
    stage.lose()
    effects = rebind(stage)
    items = [item for effect in effects if isinstance(effect, SendBatches) for item in effect.items]
    assert [item.next_frame for item in items] == [next_frame]


def test_of_a_message_that_the_broker_says_to_have_only_the_last_chunk_is_written_again() -> None:
    stage = ready()
    stage.machine.pending.reserve(1, 10)
    stage.tell(Publish((PendingSend("a", 0, 0, 1, 10, None, frames=3),)))
    stage.lose()
    effects = rebind(stage, last_sequence_id=0)
    assert [item.next_frame for effect in effects if isinstance(effect, SendBatches) for item in effect.items] == [2]
    assert stage.receipt(0, MINUS_ONE, MINUS_ONE) == [complete("a", (-1, -1), (-1, -1), (-1, -1))]


def test_receipts_that_come_together_end_what_each_is_for() -> None:
    stage = ready()
    stage.publish("a", "b", "c", "d")
    stage.tell(Flush("flush"))
    assert tokens(stage.receipts(0, 0, 1, 2)) == ["a", "b", "c"], "one is an echo"
    assert stage.receipts(3) == [complete("d", (5, 9), last=3), Flushed("flush")]


def test_of_receipts_that_come_together_those_before_one_that_skips_the_head_count_and_that_one_drops_it() -> None:
    stage = ready()
    stage.publish("a", "b", "c", "d")
    *ended, rest = stage.receipts(0, 1, 3)
    assert tokens(ended) == ["a", "b"]
    assert isinstance(rest, FeedRemainingReceipts)
    assert [command.sequence_id for command in rest.event.commands] == [3]
    assert isinstance(stage.tell(rest.event)[0], DropConnection)
    assert stage.machine.state is State.WAITING


def test_without_time_to_write_again_receipts_that_skip_the_head_are_passed_over_and_those_behind_them_count() -> None:
    stage = ready()
    stage.publish("a", "b", "c", "d", patience=None)
    stage.tell(Close())
    stage.wait(DrainTimedOut)
    *ended, skipping = stage.receipts(0, 2, 3, 1)
    assert tokens(ended) == ["a"]
    [rest] = stage.tell(skipping.event)
    assert [command.sequence_id for command in rest.event.commands] == [1]
    assert tokens(stage.tell(rest.event)) == ["b"]
    assert stage.receipts(3) == []
    effects = stage.tell(CloseAnswered(stage.attempt))
    assert tokens(effects) == ["c", "d"]
    assert errors(effects)[:2] == [OutcomeUnknown, OutcomeUnknown]


def test_a_repeated_receipt_is_ignored() -> None:
    stage = ready()
    stage.publish("a", "b")
    stage.receipt(0)
    assert stage.receipt(0) == []
    assert stage.receipt(MINUS_ONE) == []
    assert tokens(stage.receipt(1)) == ["b"]


def test_a_receipt_that_skips_the_head_drops_the_connection_and_all_is_sent_again() -> None:
    stage = ready()
    stage.publish("a", "b")
    [drop] = stage.receipt(1)
    assert isinstance(drop, DropConnection)
    assert stage.receipt(1) == []
    assert stage.publish("c") == []
    stage.lose()
    [send] = rebind(stage)
    assert [item.token for item in send.items] == ["a", "b", "c"]


def test_a_receipt_over_an_earlier_connection_is_ignored() -> None:
    stage = ready()
    stage.publish("a")
    stage.lose()
    rebind(stage)
    late = CommandSendReceipt(producer_id=7, sequence_id=0, message_id=MessageIdData(ledgerId=1, entryId=1))
    assert stage.tell(ReceiptsArrived(1, (late,))) == []
    assert tokens(stage.receipt(0)) == ["a"]


def test_a_corrupt_message_fails_alone_and_the_rest_goes_on() -> None:
    stage = ready()
    stage.publish("a", "b")
    stage.corrupt.add("a")
    [fail] = stage.send_error(0, ServerError.ChecksumError)
    assert (fail.token, fail.error.code) == ("a", "ChecksumError")
    assert tokens(stage.receipt(1)) == ["b"]


@pytest.mark.shows("Command SendError", "ChecksumError")
def test_an_intact_message_with_a_wrong_checksum_is_sent_again_on_a_new_connection() -> None:
    stage = ready()
    stage.publish("a")
    [drop] = stage.send_error(0, ServerError.ChecksumError)
    assert isinstance(drop, DropConnection)
    [send] = rebind(stage)
    assert [item.token for item in send.items] == ["a"]


@pytest.mark.shows("Command SendError", "NotAllowedError")
def test_a_message_that_is_not_allowed_fails_alone() -> None:
    stage = ready()
    stage.publish("a", "b")
    [fail] = stage.send_error(1, ServerError.NotAllowedError)
    assert (fail.token, fail.error.code) == ("b", "NotAllowedError")
    assert stage.state is State.READY


def test_a_refusal_of_what_was_sent_twice_leaves_the_outcome_unknown() -> None:
    stage = ready()
    stage.publish("a")
    stage.lose()
    rebind(stage)
    assert errors(stage.send_error(0, ServerError.NotAllowedError)) == [OutcomeUnknown]


@pytest.mark.parametrize("error", [ServerError.NotAllowedError, ServerError.ChecksumError])
def test_a_refusal_of_what_has_ended_already_is_ignored(error: "ServerError.ValueType") -> None:
    stage = ready()
    assert stage.send_error(3, error) == []
    assert stage.state is State.READY


@pytest.mark.shows("Command SendError", "TopicTerminatedError")
@pytest.mark.parametrize(
    ("error", "end"),
    [(ServerError.ProducerFenced, State.FENCED), (ServerError.TopicTerminatedError, State.TERMINATED)],
)
def test_fenced_or_terminated_fails_everything_in_order_and_stops(error: "ServerError.ValueType", end: State) -> None:
    stage = ready()
    stage.publish("a", "b")
    effects = stage.send_error(0, error)
    assert tokens(effects) == ["a", "b"]
    refused, unanswered = errors(effects)
    assert refused is REFUSALS[error]
    assert issubclass(unanswered, REFUSALS[error])
    assert issubclass(unanswered, OutcomeUnknown)  # b was written too, and nothing was said about it
    assert effects[2:3] == [Detach(1)]
    assert effects[3].error.code == ServerError.Name(error)
    assert stage.state is end
    assert errors(stage.publish("c")) == [REFUSALS[error]]


@pytest.mark.parametrize(
    ("error", "of_written"),
    [
        (ServerError.ProducerFenced, ProducerFencedBeforeReceipt),
        (ServerError.TopicTerminatedError, TopicTerminatedBeforeReceipt),
        (ServerError.TopicNotFound, TopicNotFoundBeforeReceipt),
    ],
)
def test_who_may_not_come_back_fails_everything_as_what_keeps_it_out_and_says_what_may_be_stored(
    error: "ServerError.ValueType", of_written: type[PulsarException]
) -> None:
    stage = ready()
    stage.publish("written")
    stage.broker_closes()
    stage.publish("kept")
    stage.wait(RetryDue)
    stage.tell(LookedUp(stage.attempt, "broker-a"))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    *failed, _, ended = stage.tell(RequestRefused(stage.attempt, REFUSALS[error](ServerError.Name(error), "no")))
    assert errors(failed) == [of_written, REFUSALS[error]]
    assert type(ended.error) is REFUSALS[error]
    assert errors(stage.publish("late")) == [REFUSALS[error]]


def test_any_other_refusal_drops_the_connection_and_all_is_sent_again() -> None:
    stage = ready()
    stage.publish("a", "b")
    [drop] = stage.send_error(0, ServerError.PersistenceError)
    assert isinstance(drop, DropConnection)
    [send] = rebind(stage)
    assert [item.token for item in send.items] == ["a", "b"]


def test_a_broker_that_closes_keeps_its_connection_and_gets_no_answer() -> None:
    stage = ready()
    assert stage.broker_closes() == [Detach(1)]
    assert stage.wait(RetryDue) == [LookUp(stage.attempt, "persistent://t/n/orders", None)]


@pytest.mark.shows("Command CloseProducer", "assignedBrokerServiceUrl")
@pytest.mark.parametrize(("tls", "url"), [(False, "pulsar://b:6650"), (True, "pulsar+ssl://b:6651")])
def test_a_broker_that_assigns_another_is_believed_without_a_lookup(*, tls: bool, url: str) -> None:
    stage = Stage()
    stage.tell(Open())
    stage.tell(LookedUp(stage.attempt, "broker-a", tls=tls))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    stage.success()
    stage.publish("a")
    urls = {"assignedBrokerServiceUrl": "pulsar://b:6650", "assignedBrokerServiceUrlTls": "pulsar+ssl://b:6651"}
    assert stage.broker_closes(**urls) == [Detach(1), Attach(2, AssignedBroker(url))]
    stage.tell(ProducerAttached(2, DEFAULT_MAX_MESSAGE_SIZE))
    [send] = stage.success()
    assert [item.token for item in send.items] == ["a"]


@pytest.mark.shows("Command TopicMigrated")
@pytest.mark.parametrize(("tls", "url"), [(False, "pulsar://new:6650"), (True, "pulsar+ssl://new:6651")])
def test_lookups_go_to_the_new_cluster_once_a_topic_has_migrated(*, tls: bool, url: str) -> None:
    stage = Stage()
    stage.tell(Open())
    stage.tell(LookedUp(stage.attempt, "broker-a", tls=tls))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    stage.success()
    effects = stage.migrates(brokerServiceUrl="pulsar://new:6650", brokerServiceUrlTls="pulsar+ssl://new:6651")
    assert effects == [TakeWaiting(), Detach(1), LookUp(stage.attempt, "persistent://t/n/orders", url)]
    stage.tell(LookupFailed(stage.attempt, Timeout("no answer")))
    assert stage.wait(RetryDue) == [LookUp(stage.attempt, "persistent://t/n/orders", url)]


def test_the_last_lookup_decides_which_of_two_addresses_is_gone_to() -> None:
    """The client may have gone from a cluster without TLS to one with it."""
    stage = waiting_again()
    stage.wait(RetryDue)
    stage.tell(LookedUp(stage.attempt, "broker-b", home=1, tls=True))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    stage.success()
    urls = {"assignedBrokerServiceUrl": "pulsar://c:6650", "assignedBrokerServiceUrlTls": "pulsar+ssl://c:6651"}
    assert stage.broker_closes(**urls) == [Detach(2), Attach(3, AssignedBroker("pulsar+ssl://c:6651"))]


@pytest.mark.parametrize("stand", [creating, queued, close_pending, ready])
def test_a_migration_without_a_url_of_our_kind_changes_nothing(stand: Callable[[], Stage]) -> None:
    stage = stand()
    before = stage.state
    assert stage.migrates(brokerServiceUrlTls="pulsar+ssl://new:6651") == []
    assert stage.state is before


# The limit of the broker.


def test_what_is_over_the_limit_of_the_next_broker_fails_and_the_rest_is_written_in_order() -> None:
    stage = ready()
    stage.sizes = {"large": 101, "larger": 300, "just fits": 100}
    stage.publish("a", "large", "just fits")
    stage.lose()
    stage.publish("larger", "b")
    effects = rebind(stage, largest=100)
    (sent,) = [effect for effect in effects if isinstance(effect, SendBatches)]
    assert [item.token for item in sent.items] == ["a", "just fits", "b"]
    written, never_written = effects[:2]
    assert (written.token, type(written.error)) == ("large", MessageTooBigBeforeReceipt)
    assert "it may be stored all the same" in str(written.error)
    assert (never_written.token, type(never_written.error)) == ("larger", MessageTooBig)
    assert str(never_written.error) == "an entry of 300 bytes, metadata included, is over the broker's limit of 100"
    assert stage.machine.pending.used == (3, 30)


def test_a_flush_of_messages_that_are_over_the_limit_of_the_next_broker_ends_with_them() -> None:
    stage = ready()
    stage.sizes = {"large": 101}
    stage.publish("large")
    assert stage.tell(Flush("f")) == []
    stage.lose()
    assert rebind(stage, largest=100)[1:] == [Flushed("f")]


def test_a_broker_that_a_producer_was_not_created_at_fails_nothing_by_its_limit() -> None:
    stage = ready()
    stage.sizes = {"large": 101}
    stage.publish("large")
    stage.lose()
    stage.wait(RetryDue)
    stage.tell(LookedUp(stage.attempt, "broker-a"))
    stage.tell(ProducerAttached(stage.connection, 100))
    assert errors(stage.refuse("ServiceNotReady")) == []
    assert errors(rebind(stage)) == []


# Whether bound or not.


@pytest.mark.parametrize("stand", [opened, waiting, connecting, creating, queued, close_pending, ready, waiting_again])
def test_a_send_timeout_fails_everything_in_order_whatever_the_state(stand: Callable[[], Stage]) -> None:
    stage = stand()
    before = stage.state
    stage.publish("a", patience=5.0)
    stage.now += 1
    stage.publish("b", patience=5.0)
    stage.now -= 1
    effects = stage.wait(SendTimeoutDue)
    assert tokens(effects) == ["a", "b"]
    assert errors(effects) == [Timeout, Timeout]
    said = "may be stored" if stand is ready else "is not stored"
    assert all(said in str(effect.error) for effect in effects)
    assert stage.quota.used == 0
    assert stage.state is before


def test_what_never_left_before_the_creation_took_too_long_does_not_claim_to_be_unknown() -> None:
    stage = opened()
    stage.publish("a")
    _, failed, *_ = stage.wait(FirstCreationTimedOut)
    assert (failed.token, type(failed.error)) == ("a", ConnectError)
    assert str(failed.error).startswith("it was not sent: the producer could not be created within 30 s")


def test_a_batch_that_every_broker_refuses_is_sent_again_after_pauses_that_grow() -> None:
    stage = ready()
    stage.publish("a", patience=None)
    pauses: list[float] = []
    for _ in range(3):
        stage.send_error(0, ServerError.PersistenceError)
        pauses.append(stage.timers[RetryDue].delay)
        stage.wait(RetryDue)
        stage.tell(LookedUp(stage.attempt, "broker-a"))
        stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
        stage.success()
    assert pauses == [0.1, 0.2, 0.4]
    stage.receipt(0)
    stage.lose()
    assert stage.timers[RetryDue].delay == 0.1


def test_a_timer_that_comes_after_its_batch_has_ended_looks_at_the_next() -> None:
    stage = ready()
    stage.publish("a", patience=5.0)
    stage.now = 2.0
    stage.publish("b", patience=5.0)
    stage.receipt(0)
    stage.now = 0.0
    assert stage.wait(SendTimeoutDue) == []
    assert stage.timers[SendTimeoutDue].delay == 2.0
    stage.receipt(1)
    assert stage.wait(SendTimeoutDue) == []
    assert SendTimeoutDue not in stage.timers
    stage.publish("c", patience=5.0)
    assert tokens(stage.wait(SendTimeoutDue)) == ["c"]


def test_no_timer_runs_where_sends_never_time_out() -> None:
    stage = ready()
    stage.publish("a", patience=None)
    assert SendTimeoutDue not in stage.timers


def test_a_flush_ends_with_what_was_pending_and_not_with_what_came_later() -> None:
    stage = ready()
    stage.publish("a", "b")
    assert stage.tell(Flush("f")) == []
    stage.publish("c")
    assert tokens(stage.receipt(0)) == ["a"]
    assert stage.receipt(1)[-1] == Flushed("f")


def test_a_flush_does_not_end_with_a_plain_message_that_overtakes_the_transaction_it_waits_for() -> None:
    stage = ready()
    stage.publish_in(TransactionId(0, 0), "of a transaction")
    stage.tell(Flush("f"))
    stage.publish("plain", "more")
    (completed,) = stage.receipts(1, 2)
    assert tokens([completed]) == ["plain", "more"]
    assert stage.state is State.READY
    assert stage.receipt(0)[-1] == Flushed("f")


def test_a_flush_of_nothing_ends_at_once_and_one_of_what_fails_ends_too() -> None:
    stage = ready()
    assert stage.tell(Flush("f")) == [Flushed("f")]
    stage.publish("a")
    stage.tell(Flush("g"))
    assert stage.send_error(0, ServerError.NotAllowedError)[-1] == Flushed("g")


# The end.


@pytest.mark.parametrize("stand", [opened, waiting, connecting])
def test_closing_without_a_create_ends_at_once(stand: Callable[[], Stage]) -> None:
    stage = stand()
    failed, detach, ended = stage.tell(Close())
    assert isinstance(failed.error, AlreadyClosed)
    assert (detach, ended) == (Detach(stage.connection), HandleEnded(None))
    assert stage.state is State.CLOSED


@pytest.mark.parametrize("stand", [opened, waiting, connecting, creating, queued, close_pending])
def test_closing_without_a_binding_waits_for_one_if_something_is_pending(stand: Callable[[], Stage]) -> None:
    stage = stand()
    stage.publish("a")
    before = stage.state
    assert stage.tell(Close()) == []
    stage.now += 12.0
    assert stage.tell(Close()) == []  # the client closes, too
    assert stage.state is before
    assert stage.timers[DrainTimedOut].delay == 30.0


def test_a_closed_producer_registers_once_more_writes_what_is_pending_and_closes() -> None:
    stage = waiting_again()
    stage.publish("a", "b")
    stage.tell(Close())
    stage.now += 12.0
    write, ask = rebind(stage)
    assert [item.token for item in write.items] == ["a", "b"]
    assert ask.timeout == 30.0 - stage.now
    assert tokens(stage.receipts(0, 1)) == ["a", "b"]
    assert stage.tell(CloseAnswered(stage.attempt))[-1] == HandleEnded(None)


def test_a_closed_producer_without_a_broker_gives_up_when_the_operation_timeout_is_over() -> None:
    stage = waiting_again()
    stage.publish("a")
    stage.tell(Close())
    effects = stage.wait(DrainTimedOut)
    assert errors(effects) == [AlreadyClosed]
    assert effects[-1] == HandleEnded(None)
    assert (stage.now, stage.state) == (30.0, State.CLOSED)


@pytest.mark.parametrize("stand", [creating, queued])
def test_a_closed_producer_that_gives_up_a_create_closes_what_the_broker_may_make(stand: Callable[[], Stage]) -> None:
    stage = stand()
    stage.publish("a", patience=None)
    stage.tell(Close())
    effects = stage.wait(DrainTimedOut)
    assert errors(effects) == [AlreadyClosed]
    assert effects[-1].timeout == 1.0
    assert stage.lose()[-1] == HandleEnded(None)


def test_a_closed_producer_that_is_not_created_in_time_has_the_rest_of_its_time_for_the_close() -> None:
    stage = creating()
    stage.publish("a", patience=None)
    stage.now += 5.0
    stage.tell(Close())
    stage.now += 25.0
    ask = stage.tell(stage.timers[FirstCreationTimedOut].event)[-1]
    assert ask.timeout == 5.0


def test_a_closed_producer_whose_batches_have_all_failed_does_not_go_on() -> None:
    stage = waiting_again()
    stage.publish("a", patience=5.0)
    stage.tell(Close())
    assert tokens(stage.wait(SendTimeoutDue)) == ["a"]
    assert stage.wait(RetryDue)[-1] == HandleEnded(None)


def test_a_closed_producer_does_not_write_again_what_would_count_twice_in_a_transaction() -> None:
    stage = ready()
    stage.publish_in(TransactionId(0, 0), "of a transaction")
    stage.publish("a")
    stage.lose()
    stage.tell(Close())
    failed, write, ask = rebind(stage, last_sequence_id=-1)
    assert (failed.token, type(failed.error)) == ("of a transaction", OutcomeUnknown)
    assert [item.token for item in write.items] == ["a"]
    assert isinstance(ask, AskToClose)


def test_closing_what_was_never_opened_fails_no_call() -> None:
    assert Stage().tell(Close()) == [Detach(0), HandleEnded(None)]


@pytest.mark.parametrize("stand", [creating, queued])
def test_closing_an_unanswered_create_closes_what_the_broker_may_make(stand: Callable[[], Stage]) -> None:
    stage = stand()
    failed, ask = stage.tell(Close())
    assert isinstance(failed, FirstCreationFailed)
    assert isinstance(ask, AskToClose)
    assert stage.tell(CloseAnswered(stage.attempt)) == [Detach(1), HandleEnded(None)]


def test_closing_while_a_close_is_pending_sends_no_second_one() -> None:
    stage = close_pending()
    [failed] = stage.tell(Close())
    assert isinstance(failed, FirstCreationFailed)
    assert stage.tell(CloseAnswered(stage.attempt)) == [Detach(1), HandleEnded(None)]


def test_receipts_still_count_while_a_close_is_awaited() -> None:
    stage = ready()
    stage.publish("a", "b", "c")
    [ask] = stage.tell(Close())
    assert isinstance(ask, AskToClose)
    assert tokens(stage.receipt(0)) == ["a"]
    assert tokens(stage.send_error(1, ServerError.NotAllowedError)) == ["b"]
    assert errors(stage.publish("d")) == [AlreadyClosed]
    assert stage.wait(DrainTimedOut) == []
    effects = stage.tell(CloseAnswered(stage.attempt))
    assert tokens(effects) == ["c"]
    assert errors(effects) == [OutcomeUnknown]
    assert effects[-1] == HandleEnded(None)
    assert stage.quota.used == 0


def test_a_close_without_an_answer_says_so_to_what_waited_for_it_alone() -> None:
    stage = ready()
    stage.publish("a")
    stage.tell(Close())
    effects = stage.tell(CloseTimedOut(stage.attempt))
    assert errors(effects) == [Timeout]
    assert effects[-1] == HandleEnded(None)
    assert errors(stage.publish("late")) == [AlreadyClosed]
    assert stage.state is State.CLOSED


def test_a_connection_that_is_lost_while_closing_closes() -> None:
    assert closing().lose()[-1] == HandleEnded(None)


def close_answered(stage: Stage) -> list[Any]:
    return stage.tell(CloseAnswered(stage.attempt))


@pytest.mark.parametrize("lost", [Stage.lose, Stage.broker_closes, close_answered])
def test_a_producer_that_loses_its_binding_while_closing_writes_again_what_has_no_receipt(
    lost: Callable[[Stage], list[Any]],
) -> None:
    stage = ready()
    stage.publish("a", "b")
    stage.tell(Close())
    assert tokens(stage.receipt(0)) == ["a"]
    stage.now += 12.0
    assert tokens(lost(stage)) == []
    write, ask = rebind(stage)
    assert [item.token for item in write.items] == ["b"]
    assert ask.timeout == 30.0 - stage.now
    assert tokens(stage.receipt(1)) == ["b"]
    assert stage.tell(CloseAnswered(stage.attempt))[-1] == HandleEnded(None)


def test_a_closing_broker_that_drops_messages_of_a_transaction_does_not_get_them_twice() -> None:
    stage = ready()
    stage.publish_in(TransactionId(0, 0), "of a transaction")
    stage.publish("a")
    stage.tell(Close())
    assert tokens(close_answered(stage)) == []
    failed, write, ask = rebind(stage, last_sequence_id=-1)
    assert (failed.token, type(failed.error)) == ("of a transaction", OutcomeUnknown)
    assert [item.token for item in write.items] == ["a"]
    assert isinstance(ask, AskToClose)


def test_what_no_broker_has_confirmed_when_the_close_has_no_time_left_fails_and_says_why() -> None:
    stage = ready()
    stage.publish("a", patience=None)
    stage.tell(Close())
    close_answered(stage)
    (failed, *_, ended) = stage.wait(DrainTimedOut)
    assert failed.token == "a"
    assert isinstance(failed.error, OutcomeUnknown)
    assert "before all receipts had come" in str(failed.error)
    assert ended == HandleEnded(None)


def test_a_producer_that_moves_while_closing_writes_to_the_assigned_broker() -> None:
    stage = ready()
    stage.publish("a")
    stage.tell(Close())
    *_, attach = stage.broker_closes(assignedBrokerServiceUrl="pulsar://b")
    assert attach == Attach(2, AssignedBroker("pulsar://b"))


def test_a_producer_that_came_through_a_proxy_moves_through_it() -> None:
    stage = Stage()
    stage.tell(Open())
    stage.tell(LookedUp(stage.attempt, "broker-a", proxied=True))
    stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
    stage.success()
    for moved in (2, 3):
        *_, attach = stage.broker_closes(assignedBrokerServiceUrl="pulsar://b")
        assert attach == Attach(moved, AssignedBroker("pulsar://b", proxied=True))
        stage.tell(ProducerAttached(stage.connection, DEFAULT_MAX_MESSAGE_SIZE))
        stage.success()


def test_a_connection_that_is_lost_when_the_close_has_no_time_left_ends_it() -> None:
    stage = ready()
    stage.publish("a", patience=None)
    stage.tell(Close())
    assert stage.wait(DrainTimedOut) == []
    effects = stage.lose()
    assert errors(effects) == [OutcomeUnknown]
    assert effects[-1] == HandleEnded(None)


def test_a_close_comes_after_what_waits_for_a_registration_and_both_together_have_the_operation_timeout() -> None:
    stage = draining()
    stage.now += 12.0
    (written,) = stage.publish("registered")
    assert [item.token for item in written.items] == ["registered"]
    [ask] = stage.tell(Drained())
    assert isinstance(ask, AskToClose)
    assert ask.timeout == 18.0
    assert tokens(stage.receipt(0)) == ["registered"]
    assert errors(stage.publish("late")) == [AlreadyClosed]
    assert stage.wait(DrainTimedOut) == []
    assert stage.tell(CloseAnswered(stage.attempt))[-1] == HandleEnded(None)


def test_a_registration_that_takes_too_long_is_given_up_and_what_is_behind_is_sent_before_the_close() -> None:
    stage = draining()
    [given_up] = stage.wait(DrainTimedOut)
    assert isinstance(given_up, StopDraining)
    assert isinstance(given_up.error, Timeout)
    assert stage.state is State.DRAINING
    assert isinstance(stage.publish("behind")[0], SendBatches)
    [ask] = stage.tell(Drained())
    assert ask.timeout == 1.0


def test_receipts_refusals_flushes_and_timeouts_count_while_a_producer_drains() -> None:
    stage = draining()
    publish_in(stage, TransactionId(0, 0), "of a transaction")
    stage.publish("a", "b", "c", patience=20.0)
    stage.tell(Flush("f"))
    dropped = DropTransaction(TransactionId(0, 0), InvalidTxnStatusError("InvalidTxnStatus", "over"))
    assert tokens(stage.tell(dropped)) == ["of a transaction"]
    assert tokens(stage.receipt(1)) == ["a"]
    assert tokens(stage.send_error(2, ServerError.NotAllowedError)) == ["b"]
    effects = stage.wait(SendTimeoutDue)
    assert tokens(effects) == ["c"]
    assert effects[-1] == Flushed("f")
    assert stage.state is State.DRAINING


@pytest.mark.parametrize(
    "fault", [lambda stage: stage.receipt(1), lambda stage: stage.send_error(0, ServerError.PersistenceError)]
)
@pytest.mark.parametrize("stand", [draining, ready])
def test_a_closed_producer_writes_again_what_has_lost_its_receipt_or_was_refused_for_now(
    stand: Callable[[], Stage], fault: Callable[[Stage], list[Any]]
) -> None:
    stage = stand()
    stage.publish("a", "b")
    stage.tell(Close())
    assert isinstance(fault(stage)[0], DropConnection)
    write = rebind(stage)[0]
    assert [item.token for item in write.items] == ["a", "b"]


def test_a_closed_producer_without_time_to_write_again_fails_what_is_refused_and_waits_for_no_lost_receipt() -> None:
    stage = ready()
    stage.publish("a", "b", "c", patience=None)
    stage.tell(Close())
    stage.wait(DrainTimedOut)
    assert stage.receipt(2) == []
    assert tokens(stage.send_error(1, ServerError.PersistenceError)) == ["b"]
    assert stage.state is State.CLOSING


@pytest.mark.parametrize("error", [ServerError.ProducerFenced, ServerError.TopicTerminatedError])
def test_a_closed_producer_writes_nothing_again_that_the_topic_takes_from_it_no_longer(error: Any) -> None:
    stage = ready()
    stage.publish("a", "b")
    stage.tell(Close())
    assert tokens(stage.send_error(0, error)) == ["a"]
    assert tokens(stage.send_error(1, error)) == ["b"]
    assert stage.tell(CloseAnswered(stage.attempt))[-1] == HandleEnded(None)


@pytest.mark.parametrize("lost", [Stage.lose, Stage.broker_closes])
def test_a_producer_that_drains_goes_on_with_another_binding(lost: Callable[[Stage], list[Any]]) -> None:
    stage = draining()
    stage.publish("written")
    lost(stage)
    (write,) = rebind(stage)
    assert [item.token for item in write.items] == ["written"]
    assert stage.state is State.DRAINING
    stage.publish("registered")
    stage.machine.pending.held = ()
    [ask] = stage.tell(Drained())
    assert isinstance(ask, AskToClose)


@pytest.mark.parametrize("stand", [creating, queued, close_pending])
def test_what_waits_for_a_registration_without_a_binding_fails_when_the_close_times_out(
    stand: Callable[[], Stage],
) -> None:
    stage = stand()
    stage.machine.pending.held = (b"payload", "tag")
    assert stage.tell(Close()) == []
    given_up = next(effect for effect in stage.wait(DrainTimedOut) if isinstance(effect, StopDraining))
    assert isinstance(given_up.error, AlreadyClosed)
    assert stage.state in {State.CLOSING, State.CLOSED}


@pytest.mark.parametrize(
    "stand", [Stage, opened, waiting, connecting, creating, queued, close_pending, ready, draining, closing]
)
def test_an_end_at_once_says_nothing_to_the_broker_and_comes_once(stand: Callable[[], Stage]) -> None:
    stage, end = stand(), EndAtOnce(AlreadyClosed("shut down"))
    effects = stage.tell(end)
    assert effects[-2:] == [Detach(stage.connection), HandleEnded(end.error)]
    assert AskToClose not in map(type, effects)
    assert stage.state is State.CLOSED
    assert stage.tell(end) == []


def test_an_end_at_once_keeps_apart_what_may_be_stored_and_what_never_left() -> None:
    stage = ready()
    stage.publish("a")
    stage.lose()
    stage.publish("b")
    effects = stage.tell(EndAtOnce(AlreadyClosed("shut down")))
    assert tokens(effects) == ["a", "b"]
    assert errors(effects) == [OutcomeUnknown, AlreadyClosed]


def test_a_broker_that_closes_while_we_close_changes_nothing() -> None:
    stage = closing()
    assert stage.broker_closes(assignedBrokerServiceUrl="pulsar://b:6650") == []
    assert stage.migrates(brokerServiceUrl="pulsar://new:6650") == []
    assert stage.tell(Close()) == []
    assert stage.state is State.CLOSING


def test_after_the_end_sends_and_flushes_fail_and_free_their_room() -> None:
    stage = closing()
    stage.tell(CloseAnswered(stage.attempt))
    assert errors(stage.publish("a")) == [AlreadyClosed]
    assert errors(stage.tell(Flush("f"))) == [AlreadyClosed]
    assert stage.quota.used == 0
    with pytest.raises(IllegalEvent, match="open is illegal in CLOSED"):
        stage.tell(Open())


def publish_in(stage: Any, transaction: TransactionId, token: str) -> list[Any]:
    stage.machine.pending.reserve(1, 10)
    first = stage.machine.sequence_ids.take(1)
    item = PendingSend(token, first, first, 1, 10, stage.now + 30.0).in_transaction(transaction)
    return stage.tell(Publish((item,)))


def test_what_is_pending_of_a_transaction_that_is_over_fails_alone_and_is_not_written_again() -> None:
    stage = ready()
    over, other = TransactionId(0, 0), TransactionId(0, 1)
    stage.publish("plain")
    publish_in(stage, over, "over")
    publish_in(stage, other, "other")
    error = InvalidTxnStatusError("InvalidTxnStatus", "too late")
    assert stage.tell(DropTransaction(over, error)) == [Fail("over", error)]
    assert stage.machine.pending.used == (2, 20)
    stage.tell(Detached(stage.connection, LOST))
    publish_in(stage, over, "waits")
    assert stage.tell(DropTransaction(over, error)) == [Fail("waits", error)]


def test_a_receipt_for_what_was_dropped_with_its_transaction_completes_nothing() -> None:
    stage = ready()
    publish_in(stage, TransactionId(0, 0), "over")
    stage.publish("plain")
    stage.tell(DropTransaction(TransactionId(0, 0), InvalidTxnStatusError("InvalidTxnStatus", "too late")))
    assert stage.receipt(0) == []
    (completed,) = stage.receipt(1)
    assert [stored.token for stored in completed.items] == ["plain"]


def test_a_plain_message_behind_a_transaction_has_its_send_timeout_and_fails_alone() -> None:
    stage = ready()
    publish_in(stage, TransactionId(0, 0), "of a transaction")
    stage.publish("plain")
    assert SendTimeoutDue in stage.timers
    (late,) = stage.wait(SendTimeoutDue)
    assert late.token == "plain"
    assert len(stage.machine.pending) == 1


def test_a_receipt_that_comes_after_the_send_timeout_of_what_overtook_a_transaction_disturbs_nothing() -> None:
    stage = ready()
    publish_in(stage, TransactionId(0, 0), "of a transaction")
    stage.publish("plain")
    assert tokens(stage.wait(SendTimeoutDue)) == ["plain"]
    stage.publish("next")
    assert stage.receipt(1) == []
    assert stage.state is State.READY
    assert [tokens(stage.receipt(sequence_id)) for sequence_id in (2, 0)] == [["next"], ["of a transaction"]]


def test_an_old_id_that_is_sent_again_ends_with_its_own_receipt_which_overtakes_those_of_new_ones() -> None:
    stage = ready()
    stage.publish("a", "b")
    stage.receipts(0, 1)
    stage.publish("new")
    stage.machine.pending.reserve(1, 10)
    stage.tell(Publish((PendingSend("b again", 1, 1, 1, 10, 30.0),)))
    assert stage.receipt(1, MINUS_ONE, MINUS_ONE) == [
        SendsCompleted((StoredSend("b again", ((-1, -1),), 1, overtook=True),))
    ]
    assert tokens(stage.receipt(2)) == ["new"]
    assert stage.machine.sequence_ids.last_published == 2


def test_a_message_in_a_transaction_has_no_send_timeout() -> None:
    stage = ready()
    publish_in(stage, TransactionId(0, 0), "a")
    assert SendTimeoutDue not in stage.timers


@pytest.mark.parametrize("last_stored", [-1, 0])
def test_what_was_written_of_a_transaction_is_written_again_only_where_repeats_are_dropped(last_stored: int) -> None:
    """The broker names the last sequence id of the producer if it drops repeats."""
    stage = ready()
    ours = TransactionId(0, 0)
    publish_in(stage, ours, "written")
    stage.publish("plain")
    stage.tell(Flush("f"))
    stage.tell(Detached(stage.connection, LOST))
    publish_in(stage, ours, "waits")
    effects = rebind(stage, last_sequence_id=last_stored)
    (sent,) = [effect for effect in effects if isinstance(effect, SendBatches)]
    kept = [item.token for item in sent.items]
    if last_stored < 0:
        assert errors(effects) == [OutcomeUnknown]
        assert "is not sent again" in str(effects[0].error)
        assert kept == ["plain", "waits"]
    else:
        assert errors(effects) == []
        assert kept == ["written", "plain", "waits"]
    assert stage.machine.pending.used == (len(kept), 10 * len(kept))


@pytest.mark.parametrize("last_stored", [2, 0])
@pytest.mark.parametrize(
    "met", [lambda stage: stage.receipt(2), lambda stage: stage.wait(SendTimeoutDue), lambda _: []]
)
def test_what_a_plain_message_may_have_overtaken_is_not_written_again_as_the_broker_might_drop_it_unseen(
    met: Callable[[Stage], list[Any]], last_stored: int
) -> None:
    """It may not be stored, and have a lower id than the plain one that is stored, or soon will be."""
    stage = ready()
    stage.publish("before")
    stage.receipt(0)
    stage.publish_in(TransactionId(0, 0), "overtaken")
    stage.publish("plain", patience=5.0)
    met(stage)
    stage.publish_in(TransactionId(0, 0), "behind it")
    stage.lose()
    effects = rebind(stage, last_sequence_id=last_stored)
    assert [(one.token, type(one.error)) for one in effects if isinstance(one, Fail)] == [("overtaken", OutcomeUnknown)]
    assert "might take it for a repeat" in str(effects[0].error)
    assert effects[-1].items[-1].token == "behind it"


def test_what_is_stored_of_a_transaction_is_written_again_although_later_plain_messages_were_written() -> None:
    stage = ready()
    for number in range(2):
        stage.publish_in(TransactionId(0, 0), f"stored {number}")
    stage.publish("plain")
    stage.lose()
    effects = rebind(stage, last_sequence_id=1)
    assert [item.token for item in effects[-1].items] == ["stored 0", "stored 1", "plain"]


def test_a_flush_ends_with_what_was_not_written_again() -> None:
    stage = ready()
    publish_in(stage, TransactionId(0, 0), "written")
    stage.tell(Flush("f"))
    stage.tell(Detached(stage.connection, LOST))
    assert Flushed("f") in rebind(stage)
