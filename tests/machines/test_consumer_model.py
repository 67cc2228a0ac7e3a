"""Whatever brokers, networks and users do to a consumer, its promises hold; a chart that breaks one is found out."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pulsar_actors.exceptions import AlreadyClosed, BrokerRefusal, ConnectError, ConnectionLost, Timeout
from pulsar_actors.machines import consumer_acks, consumer_messages, consumer_queries, consumer_seek_unsubscribe
from pulsar_actors.machines.chart import INTERNAL
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
from pulsar_actors.machines.consumer import CHART, FINAL, STATES, ConsumerMachine, State
from pulsar_actors.machines.consumer_events import (
    Acknowledge,
    AcknowledgeUpTo,
    AckReceiptsDue,
    AcksAnswered,
    AcksDue,
    AcksSettled,
    AcksVoided,
    AskToAck,
    AskToGetConsumerStats,
    AskToGetLastMessageId,
    AskToSeek,
    AskToSubscribe,
    AskToUnsubscribe,
    Bound,
    CallTimedOut,
    ClearQueue,
    Closing,
    ConsumerAttached,
    ConsumerCallDone,
    ConsumerOpened,
    ConsumerStatsAnswered,
    DeadLetterFailed,
    DeadLetterSent,
    Ended,
    EntryCorrupt,
    EntryUndecryptable,
    FlushAcks,
    GetConsumerStats,
    GetLastMessageId,
    HandedOut,
    LastMessageIdAnswered,
    MessagesArrived,
    MessagesDiscarded,
    NegativeAcknowledge,
    QueryFailed,
    QueueEntries,
    RedeliverUnacknowledged,
    RedeliveryDue,
    Seek,
    SeekAnswered,
    SeekFailed,
    SeekTimedOut,
    SendConsumerCommand,
    SendToDeadLetters,
    Sought,
    Subscribed,
    Unbound,
    Unsubscribe,
    UnsubscribeAnswered,
    UnsubscribeFailed,
)
from pulsar_actors.machines.incoming_entries import DeliveredEntry
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.trackers.ack_set import from_words, full, to_words
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.negative_acks_tracker import SHORTEST_SET_ASIDE, SHORTEST_STEP
from pulsar_actors.machines.trackers.unacked_message_tracker import STEPS_PER_TIMEOUT
from pulsar_actors.wire.batch import is_batch
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandCloseConsumer,
    CommandConsumerStatsResponse,
    CommandFlow,
    CommandGetLastMessageIdResponse,
    CommandProducerSuccess,
    CommandRedeliverUnacknowledgedMessages,
    CommandTopicMigrated,
    MessageIdData,
)
from tests.machines.handler_faults import handler_faults
from tests.machines.mutants import Fault, Hunt, fault, hunting
from tests.support.consumer_bench import MAX_MESSAGE_SIZE, NOW_MS, consumer, incoming

QUEUE = 4
ENTRIES = 9
REDELIVERY_DELAY = 1.0
ACK_TIMEOUT = 5.0
LOST = ConnectionLost("reset")
NOT_READY = BrokerRefusal("ServiceNotReady", "starting")
NOT_FOUND = BrokerRefusal("MetadataError", "Consumer not found")
GONE = BrokerRefusal("TopicNotFound", "gone")
NO_ANSWER = Timeout("no answer in time")
NO_ID = 2**64 - 1
CLOSES = [
    CommandCloseConsumer(consumer_id=7, request_id=NO_ID),
    CommandCloseConsumer(consumer_id=7, request_id=NO_ID, assignedBrokerServiceUrl="pulsar://b"),
]
MIGRATION = CommandTopicMigrated(
    resource_id=7, resource_type=CommandTopicMigrated.Consumer, brokerServiceUrl="pulsar://c"
)
STATS = CommandConsumerStatsResponse(request_id=1, msgBacklog=3)
LAST = CommandGetLastMessageIdResponse(last_message_id=MessageIdData(ledgerId=1, entryId=8), request_id=1)
SELDOM = st.sampled_from([False, False, True])  # or a consumer would hardly live long enough to do wrong
AGES = st.sampled_from([0, 0, 0, 1])
Place = tuple[int, int]  # entry, index in its batch
CREATION = -1
RAISES_DOUBT = (  # what may be the last failure from then on, or may have ended what failed
    LookupFailed, Detached, RequestRefused, RequestTimedOut, CloseTimedOut, BrokerClosed, WrongAnswer, SeekFailed,
    SeekTimedOut, UnsubscribeFailed, QueryFailed, TopicMigrated,
)  # fmt: skip

CallState = consumer_seek_unsubscribe.State
MessagesState = consumer_messages.State
AcksState = consumer_acks.State
QueriesState = consumer_queries.State
BOUND = (State.READY, CallState.SEEKING, CallState.UNSUBSCRIBING)

OWED: dict[State | CallState, type] = {  # what was asked for last, in each state that waits for an answer
    State.LOOKING_UP: LookUp,
    State.CONNECTING: Attach,
    State.SUBSCRIBING: AskToSubscribe,
    CallState.SEEKING: AskToSeek,
    State.SEEKING_UNBOUND: AskToSeek,
    CallState.UNSUBSCRIBING: AskToUnsubscribe,
    State.CLOSE_PENDING: AskToClose,
    State.WAITING: RetryDue,
    State.CLOSING: AskToClose,
}


def size_of(entry: int) -> int | None:
    """Every third entry is a plain message; the others are batches of three."""
    return None if entry % 3 == 0 else 3


def message_id(place: Place) -> MessageId:
    entry, index = place
    size = size_of(entry)
    return MessageId(1, entry) if size is None else MessageId(1, entry, -1, index, size)


def all_of(entry: int) -> set[Place]:
    return {(entry, index) for index in range(size_of(entry) or 1)}


class Seen(NamedTuple):
    """A message that the user got."""

    generation: Generation
    place: Place


class AnyConsumer(RuleBasedStateMachine):
    """A consumer, its user with a queue, and a broker that counts permits and remembers what it was told."""

    machine_class: type[ConsumerMachine] = ConsumerMachine
    messages_class = consumer_messages.ConsumerMessages
    acks_class = consumer_acks.ConsumerAcks
    calls_class = consumer_seek_unsubscribe.SeekAndUnsubscribe
    queries_class = consumer_queries.ConsumerQueries
    unlucky = False
    starts: tuple[int, ...] = (0, 2, 4, 4, 4, 4)  # four steps lead to READY, where most can happen

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.attempt = 0
        self.timers: list[StartTimer] = []
        self.newest: dict[type, StartTimer] = {}  # of each kind; the others are stale
        self.refused: dict[int, float] = {}  # entries that have to be asked for again, and when at the latest
        self.undecryptable_until: dict[int, float] = {}  # when these come again at the latest
        self.undecryptable: Counter[int] = Counter()  # the permits that entries hold which were not delivered
        self.dead: list[tuple[Generation, MessageId]] = []  # on their way to the dead letter topic
        self.owed: set[int] = set()  # entries that the dead letter topic has, and that are not acknowledged yet
        self.permits = 0
        self.queue: list[DeliveredEntry] = []
        self.unreported = 0
        self.seen: list[Seen] = []
        self.acknowledged: set[Place] = set()
        self.brokers_acknowledged: set[Place] = set()  # those that it had when it sent the entry last
        self.unanswered_acks: list[int] = []
        self.questions: list[int] = []  # the calls that ask for the last message
        self.unanswered: list[
            AskToGetLastMessageId | AskToGetConsumerStats
        ] = []  # the questions that the broker has now
        self.epoch = self.brokers_epoch = 0
        self.in_the_middle = False
        self.asked: type | None = None
        self.bound = False
        self.may_be_bound = False  # a SUBSCRIBE was given up, and neither its close nor its connection ended it
        self.seek_is_open = self.seek_is_done = self.unsubscribe_is_open = False
        self.seeks: set[int] = set()
        self.flows: list[int] = []
        self.calls = self.stumbles = 0
        self.failures: dict[object, str] = {}  # by call: the last one that there is no doubt about
        self.ends: Counter[object] = Counter()
        self.opened = self.failed = self.ended = 0

    @initialize(data=st.data(), ordered=st.booleans(), receipts=st.booleans())
    def begin(self, data: st.DataObject, *, ordered: bool, receipts: bool) -> None:
        self.ordered = ordered
        options = {"queue_size": QUEUE, "ordered": ordered, "receipts": receipts, "ack_timeout": ACK_TIMEOUT}
        self.machine = consumer(self.machine_class, **options, max_redeliver_count=3)
        self.machine.messages.__class__ = self.messages_class
        self.machine.acks.__class__ = self.acks_class
        self.machine.calls.__class__ = self.calls_class
        self.machine.queries.__class__ = self.queries_class
        for _ in range(data.draw(st.sampled_from(self.starts))):
            self.advance()

    # What the consumer does.

    def tell(self, event: Any) -> list[Any]:
        self.in_the_middle = True
        if isinstance(event, RAISES_DOUBT) and getattr(event, "error", None) is not NO_ANSWER:
            self.failures = {}
        effects = self.machine.handle(event, self.now)
        for effect in effects:
            self.perform(effect)
        self.in_the_middle = False
        return effects

    def perform(self, effect: Any) -> None:
        self.attempt = max(self.attempt, getattr(effect, "attempt", 0))
        kind = type(effect.event if isinstance(effect, StartTimer) else effect)
        self.asked = kind if kind in OWED.values() else self.asked
        match effect:
            case StartTimer():
                self.timers.append(effect)
                self.newest[kind] = effect
            case ClearQueue(generation):
                assert generation.epoch >= self.epoch, "the epoch went back"
                self.epoch = generation.epoch
                self.queue, self.unreported, self.refused = [], 0, {}
                self.undecryptable.clear()
            case QueueEntries(entries):
                self.queue += entries
            case SendToDeadLetters(entries):
                self.dead += [(self.machine.messages.generation, one.message_id) for one in entries]
                self.ask_again(one.message_id.entry_id for one in entries)
            case Detach():
                self.bound = self.unsubscribe_is_open = False
            case DropConnection():
                self.bound = self.may_be_bound = False
            case (
                AskToSubscribe()
                | AskToSeek()
                | AskToUnsubscribe()
                | AskToAck()
                | AskToGetLastMessageId()
                | AskToGetConsumerStats()
                | SendConsumerCommand()
            ):
                self.hear(effect)
            case _:
                self.count_end(effect)

    def count_end(self, effect: Any) -> None:
        match effect:
            case ConsumerOpened():
                self.opened += 1
            case FirstCreationFailed(error):
                self.failed += 1
                self.hear_why(CREATION, error)
            case HandleEnded():
                self.ended += 1
            case ConsumerCallDone(token) | Fail(token, _):
                self.ends[token] += 1
                self.hear_why(token, getattr(effect, "error", None))
                assert self.seek_is_done or token not in self.seeks or isinstance(effect, Fail), "a seek was not done"
            case AcksSettled(tokens, _):
                self.ends.update(tokens)
            case _:
                pass

    def hear_why(self, call: object, error: Exception | None) -> None:
        """Check the error as the caller would read it."""
        if isinstance(error, Timeout | ConnectError):
            assert self.failures.get(call, "") in str(error), "not told what went wrong last"

    def hear(self, effect: Any) -> None:
        """Be the broker."""
        if isinstance(effect, AskToSubscribe):
            assert not self.may_be_bound, "subscribed while a close was owed"
            assert effect.command.consumer_epoch == self.epoch, "the epoch is not that of the last redelivery"
            self.brokers_epoch = effect.command.consumer_epoch
            return
        assert self.bound, "spoke without a binding"
        if isinstance(effect, AskToSeek | AskToUnsubscribe):
            assert not self.seek_is_open, "asked while another call was open"
            assert not self.unsubscribe_is_open, "asked while another call was open"
        if isinstance(effect, AskToUnsubscribe):
            self.unsubscribe_is_open = True
        if isinstance(effect, AskToSeek):
            self.seek_is_open, self.seek_is_done = True, False
        if isinstance(effect, AskToAck):
            self.unanswered_acks.append(effect.ack)
        if isinstance(effect, AskToGetLastMessageId | AskToGetConsumerStats):
            self.unanswered.append(effect)
        self.obey(effect.command)

    def obey(self, command: Any) -> None:
        match command:
            case CommandFlow():
                self.permits += command.messagePermits
                self.flows.append(command.messagePermits)
            case CommandRedeliverUnacknowledgedMessages():
                holds = self.machine.messages.trackers.ack_grouping.is_holding
                assert self.seek_is_open or not holds, "asked for again before acknowledgements were sent"
                assert len(command.message_ids) <= 1000
                assert command.consumer_epoch == (self.epoch if self.ordered or not command.message_ids else 0)
                if not command.message_ids:
                    self.brokers_epoch = command.consumer_epoch
                self.ask_again([one.entryId for one in command.message_ids] or self.refused)
            case CommandAck():
                if not command.HasField("validation_error"):  # nobody can read what is corrupt, before a seek or after
                    assert not self.seek_is_open, "acknowledged where a seek may have gone by now"
                    covered = self.covered(command)
                    assert covered <= self.acknowledged, "acknowledged what the user has not"
                    self.owed -= {entry for entry in self.owed if all_of(entry) <= covered | self.brokers_acknowledged}
            case _:
                pass

    def ask_again(self, entries: Iterable[int]) -> None:
        """Note entries that come again, or are dead: the permits of those that were not delivered are free."""
        asked = tuple(entries)
        self.settle(asked)
        for entry in asked:
            if self.undecryptable_until.get(entry, self.now) <= self.now:
                self.undecryptable.pop(entry, None)

    def settle(self, entries: Iterable[int]) -> None:
        """Note entries that need not be asked for any longer."""
        for entry in tuple(entries):
            self.refused.pop(entry, None)

    def covered(self, command: CommandAck) -> set[Place]:
        covered: set[Place] = set()
        for data in command.message_id:
            missing = from_words(data.ack_set)
            entry = MessageId.from_data(data).entry_id
            covered |= {place for place in all_of(entry) if not missing >> place[1] & 1} if entry >= 0 else set()
            if command.ack_type == CommandAck.Cumulative:
                covered |= {place for before in range(entry) for place in all_of(before)}
        return covered

    # What the lookup, the connection and the broker do.

    @rule()
    def go_on(self) -> None:
        self.advance()

    def advance(self) -> None:
        """Let the next thing go well."""
        retries = [timer for timer in self.timers if isinstance(timer.event, RetryDue)]
        step = {
            State.IDLE: Open(),
            State.LOOKING_UP: LookedUp(self.attempt, "broker"),
            State.CONNECTING: ConsumerAttached(self.connection, None, MAX_MESSAGE_SIZE, NOW_MS, "first"),
            State.SUBSCRIBING: Subscribed(self.attempt),
            CallState.SEEKING: SeekAnswered(self.attempt),
            State.SEEKING_UNBOUND: SeekAnswered(self.attempt),
            CallState.UNSUBSCRIBING: UnsubscribeFailed(self.attempt, NOT_READY),
            State.CLOSE_PENDING: CloseAnswered(self.attempt),
            State.CLOSING: CloseAnswered(self.attempt),
            State.WAITING: retries[-1].event if retries else None,
        }.get(self.state)
        if step is not None:
            self.meet(step)

    def meet(self, event: Any) -> None:
        """Let something happen, and draw the conclusions that a broker would."""
        state, seek = self.state, isinstance(event, SeekAnswered | SeekFailed | SeekTimedOut)
        if state is State.SUBSCRIBING and isinstance(event, RequestTimedOut | BrokerClosed | TopicMigrated):
            self.may_be_bound = True
        if isinstance(event, CloseAnswered | Detached):
            self.may_be_bound = False
        if isinstance(event, BrokerClosed | Detached | TopicMigrated):
            self.bound = False
        if isinstance(event, UnsubscribeFailed | Detached):  # nobody is left to say that it was done
            self.unsubscribe_is_open = False
        if isinstance(event, Detached | TopicMigrated) or (seek and self.seek_is_open):
            self.seek_is_open = False
            if isinstance(event, SeekAnswered):
                self.acknowledged, self.owed, self.brokers_acknowledged = set(), set(), set()
                self.seek_is_done = True
        if state is State.SUBSCRIBING and isinstance(event, Subscribed):
            self.bound, self.permits, self.flows, self.unanswered = True, 0, [], []
        effects = self.tell(event)
        if isinstance(event, UnsubscribeFailed) and self.state is State.READY:
            assert any(isinstance(effect, AskToGetLastMessageId) for effect in effects), "does not ask if it is known"
        if state is State.SUBSCRIBING and isinstance(event, Subscribed):
            assert self.flows == [QUEUE], "not granted exactly once after subscribing"
            assert not self.machine.messages.trackers.ack_grouping.is_holding, "held for ever"

    @property
    def state(self) -> Any:
        """The state of the binding, or of a call that runs on it."""
        state, call = self.machine.state, self.machine.calls.state
        if state is not State.READY:
            return state
        if call in consumer_seek_unsubscribe.ANY_UNSUBSCRIBING:
            return CallState.UNSUBSCRIBING
        return call if call is CallState.SEEKING else state

    @property
    def connection(self) -> int:
        return self.machine.connection

    @rule(happens=SELDOM, error=st.sampled_from([NOT_READY, NOT_FOUND, NOT_READY, GONE]), age=AGES)
    def question_fails(self, *, happens: bool, error: BrokerRefusal, age: int) -> None:
        """Fail what was asked last: a lookup, a subscribe, a seek or an unsubscribe."""
        kinds = {
            State.LOOKING_UP: LookupFailed,
            State.SUBSCRIBING: RequestRefused,
            CallState.SEEKING: SeekFailed,
            State.SEEKING_UNBOUND: SeekFailed,
            CallState.UNSUBSCRIBING: UnsubscribeFailed,
        }
        if happens or self.unlucky:
            self.meet_aged(kinds.get(self.state, RequestRefused)(self.attempt - age, error), age)

    @rule(happens=SELDOM, age=AGES)
    def nobody_answers(self, *, happens: bool, age: int) -> None:
        attempt = self.attempt - age
        close, seek = CloseTimedOut(attempt), SeekTimedOut(attempt, Timeout("late"))
        events = {
            State.CLOSE_PENDING: close,
            State.CLOSING: close,
            CallState.SEEKING: seek,
            State.SEEKING_UNBOUND: seek,
        }
        if happens or self.unlucky:
            self.meet_aged(events.get(self.state, RequestTimedOut(attempt)), age)

    @precondition(lambda self: self.state is State.LOOKING_UP)
    @rule(age=AGES)
    def lookup_stumbles(self, age: int) -> None:
        """Have the lookup that goes on meet something; all who wait are to hear of it, should they wait in vain."""
        self.stumbles += 1
        failure = f"stumble {self.stumbles}."
        self.tell(LookupAttemptFailed(self.attempt - age, ConnectError(failure)))
        if not age:
            self.failures = dict.fromkeys((CREATION, *range(1, self.calls + 1)), failure)

    @rule(happens=SELDOM, age=AGES)
    def lose_connection(self, *, happens: bool, age: int) -> None:
        if happens or self.unlucky:
            was_bound = self.state in BOUND
            self.meet_aged(Detached(self.connection - age, LOST), age)
            if was_bound and not age:
                self.failures = dict.fromkeys(range(1, self.calls + 1), str(LOST))

    @precondition(lambda self: self.state in {*STATES.found, *BOUND, State.CLOSING})
    @rule(happens=SELDOM)
    def broker_mixes_up(self, *, happens: bool) -> None:
        """Give the answer to another question; the end of the connection follows."""
        if happens or self.unlucky:
            effects = self.tell(WrongAnswer(AskToSubscribe, CommandProducerSuccess(request_id=1, producer_name="p")))
            assert any(isinstance(effect, DropConnection) for effect in effects), (
                "went on with one that mixes things up"
            )
            self.meet(Detached(self.connection, LOST))

    @rule(happens=SELDOM, command=st.sampled_from(CLOSES), age=AGES)
    def broker_closes(self, *, happens: bool, command: CommandCloseConsumer, age: int) -> None:
        if happens or self.unlucky:
            self.meet_aged(BrokerClosed(self.connection - age, command), age)

    @rule(happens=SELDOM, age=AGES)
    def topic_migrates(self, *, happens: bool, age: int) -> None:
        if happens or self.unlucky:
            self.meet_aged(TopicMigrated(self.connection - age, MIGRATION), age)

    def meet_aged(self, event: Any, age: int) -> None:
        if age:
            assert self.tell(event) == [], "listened to the past"
        else:
            self.meet(event)

    @rule(happens=SELDOM)
    def unsubscribe_succeeds(self, *, happens: bool) -> None:
        if (happens or self.unlucky) and self.unsubscribe_is_open and self.state is not State.CLOSING:
            self.meet(UnsubscribeAnswered(self.attempt))
            assert self.state in FINAL, "lives on without its subscription"

    @precondition(lambda self: self.bound and self.state in BOUND and self.permits > 0)
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        messages: list[Any] = []
        for entry in data.draw(st.lists(st.integers(0, ENTRIES - 1), min_size=1, max_size=3)):
            size = size_of(entry)
            mask = data.draw(st.sampled_from([0b111, 0b111, 0b101])) if size else 1
            batch, used = data.draw(st.sampled_from([(size, mask.bit_count())] * 5 + [(0, 1)]))
            epoch = data.draw(st.sampled_from([self.epoch, self.epoch, max(0, self.epoch - 1)]))
            count = data.draw(st.sampled_from([0, 0, 3, 4]))
            words = to_words(mask) if size and mask != full(size) else []
            has = {place for place in all_of(entry) if not mask >> place[1] & 1}
            self.acknowledged |= has
            self.brokers_acknowledged = self.brokers_acknowledged - all_of(entry) | has
            self.settle([entry])
            messages.append(incoming(entry, batch=batch, epoch=epoch, count=count, ack_set=words))
            self.permits -= used
        self.tell(MessagesArrived(self.connection, tuple(messages), NOW_MS))

    @precondition(lambda self: self.unanswered_acks)
    @rule(refused=st.booleans())
    def answer_acks(self, *, refused: bool) -> None:
        self.tell(AcksAnswered(self.unanswered_acks.pop(0), NOT_READY if refused else None))

    @precondition(lambda self: self.unanswered)
    @rule(refusal=st.sampled_from([None, None, NOT_READY, NOT_FOUND]), silently=st.booleans())
    def answer_query(self, refusal: BrokerRefusal | None, *, silently: bool) -> None:
        asked = self.unanswered.pop(0)
        if refusal is not None:
            is_ready = self.state is State.READY
            self.bound = self.bound and not (is_ready and refusal is NOT_FOUND)
            self.tell(QueryFailed(asked.query_number, refusal))
            if refusal is NOT_FOUND:  # it has given the consumer up, and may say so next
                assert not is_ready or self.state is State.CLOSE_PENDING, "goes on where nobody knows it"
                if not (is_ready and silently):
                    self.meet(BrokerClosed(self.connection, CLOSES[0]))
        elif isinstance(asked, AskToGetLastMessageId):
            self.tell(LastMessageIdAnswered(asked.query_number, LAST))
        else:
            self.tell(ConsumerStatsAnswered(asked.query_number, STATS))

    @precondition(lambda self: self.unanswered)
    @rule(happens=SELDOM)
    def question_has_no_answer(self, *, happens: bool) -> None:
        if happens or self.unlucky:
            self.tell(QueryFailed(self.unanswered.pop(0).query_number, NO_ANSWER))

    @precondition(lambda self: self.timers)
    @rule(data=st.data())
    def time_passes(self, data: st.DataObject) -> None:
        timer = self.timers.pop(data.draw(st.integers(0, len(self.timers) - 1)))
        self.now += timer.delay
        is_redelivery = self.newest.get(RedeliveryDue) is timer and self.state in BOUND
        due = {entry for entry, at in self.refused.items() if at <= self.now}
        self.meet(timer.event)
        assert not is_redelivery or not due & set(self.refused), "refused, and not asked for again"

    @precondition(lambda self: self.acknowledged)
    @rule()
    def group_of_acks_ends(self) -> None:
        self.tell(AcksDue())
        if self.state is State.READY:
            assert not self.owed, "in both topics for ever"
            assert not self.machine.messages.trackers.ack_grouping.is_holding, "held for ever"

    @precondition(lambda self: self.dead)
    @rule(sent=st.booleans())
    def dead_letter_ends(self, *, sent: bool) -> None:
        generation, message_id = self.dead.pop(0)
        entry, was_bound = message_id.entry_id, self.state in BOUND
        if not sent:
            self.tell(DeadLetterFailed(generation, message_id))
            counts = was_bound and generation.still_acknowledges(self.machine.messages.generation)
            self.refused |= {entry: self.now + SHORTEST_SET_ASIDE + SHORTEST_STEP} if counts else {}
            return
        if generation.still_acknowledges(self.machine.messages.generation) and not self.is_over():
            self.acknowledged |= all_of(entry)
            self.owed.add(entry)
            self.settle([entry])
        self.tell(DeadLetterSent(generation, message_id))

    # What the user does.

    @precondition(lambda self: self.queue)
    @rule(data=st.data(), late=st.booleans())
    def open_entry(self, data: st.DataObject, *, late: bool) -> None:
        one = self.queue.pop(0)
        generation, entry = self.machine.messages.generation, one.message_id.entry_id
        fate = data.draw(st.sampled_from([*[HandedOut] * 3, MessagesDiscarded, EntryCorrupt, EntryUndecryptable]))
        self.unreported += one.messages
        if fate is EntryCorrupt:
            self.report(EntryCorrupt(generation, (1, entry), one.messages, CommandAck.ValidationError.ChecksumMismatch))
        elif fate is EntryUndecryptable:
            self.hold(generation, one)
        elif fate is MessagesDiscarded:
            self.report(MessagesDiscarded(generation, one.messages))
        else:
            size = size_of(entry) or 1
            self.seen += [Seen(generation, (entry, index)) for index in range(size) if one.wanted >> index & 1]
            assert is_batch(one.entry.metadata) == (size > 1)
            if not late:
                self.report(HandedOut(generation, one.messages, (one.message_id,)))

    def hold(self, generation: Generation, one: DeliveredEntry) -> None:
        """Deliver nothing of an entry, which has to come again."""
        entry, count = one.message_id.entry_id, one.redelivery_count
        if self.state in BOUND:
            self.undecryptable[entry] += one.messages
            step = ACK_TIMEOUT / STEPS_PER_TIMEOUT
            due = math.ceil((self.now + ACK_TIMEOUT) / step) * step
            self.refused[entry] = self.undecryptable_until[entry] = due
        self.report(EntryUndecryptable(generation, one.message_id, count, one.messages))

    def report(self, event: Any) -> None:
        self.unreported -= event.messages
        self.tell(event)

    @precondition(lambda self: self.unreported)
    @rule()
    def report_late(self) -> None:
        self.report(HandedOut(self.machine.messages.generation, self.unreported))

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), up_to=st.sampled_from([False, False, True]))
    def acknowledge(self, data: st.DataObject, *, up_to: bool) -> None:
        seen = data.draw(st.sampled_from(self.seen))
        counts = seen.generation.still_acknowledges(self.machine.messages.generation) and not self.is_over()
        if counts:
            before = {place for entry in range(ENTRIES) for place in all_of(entry) if place <= seen.place}
            self.acknowledged |= before if up_to else {seen.place}
            self.settle(range(seen.place[0] + 1) if up_to else [seen.place[0]])
        token = self.new_call()
        if up_to:
            self.tell(AcknowledgeUpTo(seen.generation, message_id(seen.place), token))
        else:
            self.tell(Acknowledge(seen.generation, (message_id(seen.place),), (token,)))

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        seen = data.draw(st.sampled_from(self.seen))
        self.tell(NegativeAcknowledge(seen.generation, ((message_id(seen.place), 0),)))
        if self.state in BOUND and seen.generation.still_delivers(self.machine.messages.generation):
            self.refused[seen.place[0]] = self.now + REDELIVERY_DELAY + SHORTEST_STEP

    @precondition(lambda self: self.state is not State.IDLE)
    @rule()
    def redeliver(self) -> None:
        before = self.epoch
        self.tell(RedeliverUnacknowledged())
        assert self.is_over() or self.epoch == before + 1, "no new epoch"

    @precondition(lambda self: self.opened)
    @rule(entry=st.integers(0, ENTRIES - 1))
    def seek(self, entry: int) -> None:
        call = self.new_call()
        self.seeks.add(call)
        self.begin_call(Seek(call, MessageId(1, entry)))

    @precondition(lambda self: self.opened)
    @rule(patience=st.sampled_from([1.0, 30.0]), ask=st.sampled_from([GetLastMessageId, GetConsumerStats]))
    def ask_query(self, patience: float, ask: type) -> None:
        call = self.new_call()
        self.questions.append(call)
        self.tell(ask(call, self.now + patience))

    @precondition(lambda self: self.opened)
    @rule(really=st.sampled_from([False, False, True]))
    def unsubscribe(self, *, really: bool) -> None:
        if really:
            self.begin_call(Unsubscribe(self.new_call()))

    def begin_call(self, call: Seek | Unsubscribe) -> None:
        """Make a call. It ends the connection if an unsubscribe has no answer."""
        is_late = self.machine.calls.state is CallState.UNSUBSCRIBING_LATE
        if any(isinstance(effect, DropConnection) for effect in self.tell(call)):
            self.meet(Detached(self.connection, LOST))
        assert not is_late or self.state is State.WAITING, "waits for a late answer"

    @rule(really=st.sampled_from([False] * 9 + [True]))
    def close(self, *, really: bool) -> None:
        if really:
            self.tell(Close())

    @rule(really=st.sampled_from([False] * 9 + [True]))
    def end_at_once(self, *, really: bool) -> None:
        if really:
            self.tell(EndAtOnce(AlreadyClosed("shut down")))

    def new_call(self) -> int:
        self.calls += 1
        return self.calls

    # What must hold.

    def is_over(self) -> bool:
        return self.state in {State.CLOSING, *FINAL}

    @invariant()
    def no_permit_is_lost_or_minted(self) -> None:
        if self.state in BOUND:
            here = sum(one.messages for one in self.queue) + self.unreported + self.undecryptable.total()
            freed = QUEUE - self.permits - here
            assert freed >= 0, "permits were minted"
            assert freed < QUEUE // 2, "permits were lost"

    @invariant()
    def a_state_that_waits_has_asked(self) -> None:
        assert OWED.get(self.state, self.asked) is self.asked, "waits for nothing"

    @invariant()
    def a_bound_consumer_has_asked_all_it_was_asked(self) -> None:
        if self.bound and self.state in BOUND:
            waiting = sum(call not in self.ends for call in self.questions)
            assert waiting <= len(self.unanswered), "a question was not asked"

    @invariant()
    def the_broker_knows_the_epoch(self) -> None:
        assert not self.bound or self.state not in BOUND or self.brokers_epoch == self.epoch, "an epoch nobody was told"

    @invariant()
    def nothing_ends_twice(self) -> None:
        assert max(self.ends.values(), default=1) == 1, "a call ended twice"
        assert self.opened + self.failed <= 1, "the first subscribe ended twice"
        assert self.ended == (self.state in FINAL), "over, or not, against what was said"

    def teardown(self) -> None:
        """Bring any run to its end, where every call must have ended, but for those that have broken a promise."""
        if self.in_the_middle or not hasattr(self, "machine"):
            return
        was_opened = self.state is not State.IDLE
        self.tell(Close())
        due = [timer.event for timer in self.timers if isinstance(timer.event, DrainTimedOut)]
        if due and self.state not in {State.CLOSING, *FINAL}:
            self.tell(due[-1])
        if self.state is State.CLOSING:
            self.meet(CloseAnswered(self.attempt))
        self.nothing_ends_twice()
        assert set(self.ends) == set(range(1, self.calls + 1)), "a call did not end"
        assert self.opened + self.failed == was_opened or self.state is State.CLOSED, "the first subscribe did not end"


MODEL = settings(max_examples=120, stateful_step_count=40, deadline=None)
HUNT = hunting(MODEL, 20)


def test_every_promise_of_a_consumer_holds() -> None:
    run_state_machine_as_test(AnyConsumer, settings=MODEL)


def grant_too_much(self: consumer_messages.ConsumerMessages, event: MessagesArrived, now: float) -> list[Any]:
    return [*self.take_in(event, now), SendConsumerCommand(CommandFlow(consumer_id=7, messagePermits=1))]


def free_undecryptable(self: consumer_messages.ConsumerMessages, event: EntryUndecryptable, now: float) -> list[Any]:
    free = self.free_discarded(MessagesDiscarded(event.generation, event.messages), now)
    return [*self.keep_undecryptable(event, now), *free]


def redeliver_holding(self: consumer_messages.ConsumerMessages, event: RedeliveryDue, now: float) -> list[Any]:
    effects = self.redeliver_due(event, now)
    is_flow = [isinstance(one, SendConsumerCommand) and isinstance(one.command, CommandFlow) for one in effects]
    return [one for one, is_one in zip(effects, is_flow, strict=True) if not is_one]


def grant_twice(self: consumer_messages.ConsumerMessages, event: Bound, now: float) -> list[Any]:
    return [*self.grant_whole_queue(event, now), SendConsumerCommand(CommandFlow(consumer_id=7, messagePermits=QUEUE))]


def end_forgetting_the_call(self: ConsumerMachine, event: Close, now: float) -> list[Any]:
    return [effect for effect in self.end_unbound(event, now) if not isinstance(effect, Fail)]


def hold_another(self: consumer_acks.ConsumerAcks, event: Acknowledge, now: float) -> list[Any]:
    other = tuple(message_id._replace(entry_id=message_id.entry_id + 3) for message_id in event.message_ids)
    return [*self.hold(event._replace(message_ids=other), now)]


def hold_cumulative_of_another(self: consumer_acks.ConsumerAcks, event: AcknowledgeUpTo, now: float) -> list[Any]:
    other = event.message_id._replace(entry_id=event.message_id.entry_id + 3)
    return [*self.hold_cumulative(event._replace(message_id=other), now)]


def subscribe_in_an_old_epoch(self: ConsumerMachine, event: ConsumerAttached, now: float) -> list[Any]:
    [ask] = self.ask_to_subscribe(event, now)
    assert isinstance(ask, AskToSubscribe)
    ask.command.consumer_epoch = 0
    return [ask]


def finish_silently(self: consumer_seek_unsubscribe.SeekAndUnsubscribe, event: SeekAnswered, now: float) -> list[Any]:
    return [effect for effect in self.finish_seek(event, now) if not isinstance(effect, ConsumerCallDone)]


def finish_twice(self: consumer_seek_unsubscribe.SeekAndUnsubscribe, event: SeekAnswered, now: float) -> list[Any]:
    effects = self.finish_seek(event, now)
    return [*effects, *(effect for effect in effects if isinstance(effect, ConsumerCallDone))]


def fail_receipts_twice(self: consumer_acks.ConsumerAcks, event: AckReceiptsDue, now: float) -> list[Any]:
    effects = [*self.fail_late(event, now)]
    return [*effects, *(effect for effect in effects if isinstance(effect, AcksSettled))]


def methods(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {function.__name__: function for function in functions}


FURTHER = methods(subscribe_in_an_old_epoch, end_forgetting_the_call)
FURTHER_MESSAGES = methods(grant_too_much, grant_twice, free_undecryptable, redeliver_holding)
FURTHER_ACKS = methods(hold_another, hold_cumulative_of_another, fail_receipts_twice)
FURTHER_CALLS = methods(finish_silently, finish_twice)


# fmt: off
FAULTS = [
    *handler_faults(STATES, without_answer="end_and_drop"),
    fault(HandedOut, MessagesState.BOUND, "return_permits", {"does": None},
          "permits were lost", "send", "open_entry", "redeliver"),
    fault(MessagesDiscarded, MessagesState.BOUND, "free_discarded", {"does": None},
          "permits were lost", "send", "open_entry", "redeliver"),
    fault(EntryCorrupt, MessagesState.BOUND, "refuse_corrupt", {"does": None},
          "permits were lost", "send", "open_entry", "redeliver"),
    fault(EntryUndecryptable, MessagesState.BOUND, "keep_undecryptable", {"does": None},
          "not asked for again|permits were lost", "send", "open_entry", "time_passes", "go_on"),
    fault(EntryUndecryptable, MessagesState.BOUND, "keep_undecryptable", {"does": "free_undecryptable"},
          "permits were minted", "send", "open_entry", "go_on"),
    fault(RedeliveryDue, MessagesState.BOUND, "redeliver_due", {"does": "redeliver_holding"},
          "permits were lost", "send", "open_entry", "time_passes", "go_on"),
    fault(MessagesArrived, MessagesState.BOUND, "take_in", {"does": "grant_too_much"},
          "permits were minted", "send", "redeliver"),
    fault(Bound, MessagesState.UNBOUND, "grant_whole_queue", {"does": "grant_twice"},
          "not granted exactly once", "go_on"),
    fault(Acknowledge, AcksState.SENDING, "hold", {"does": "hold_another"},
          "acknowledged what the user has not", "send", "open_entry", "acknowledge", "close", "group_of_acks_ends"),
    fault(AcknowledgeUpTo, AcksState.SENDING, "hold_cumulative", {"does": "hold_cumulative_of_another"},
          "acknowledged what the user has not", "send", "open_entry", "acknowledge", "close", "group_of_acks_ends"),
    fault(AcksDue, AcksState.HELD, None, {"does": "send_all"},
          "acknowledged where a seek may have gone", "send", "open_entry", "acknowledge", "seek", "group_of_acks_ends"),
    fault(FlushAcks, AcksState.HELD, None, {"does": "send_all"},
          "acknowledged where a seek may have gone", "send", "open_entry", "acknowledge", "seek", "close"),
    fault(FlushAcks, AcksState.SENDING, "send_all", {"does": None},
          "before acknowledgements were sent", "send", "open_entry", "acknowledge", "redeliver"),
    fault(RedeliverUnacknowledged, MessagesState.BOUND, "redeliver_all", {"does": None},
          "no new epoch", "redeliver"),
    fault(RedeliverUnacknowledged, MessagesState.UNBOUND, "begin_epoch", {"does": None},
          "no new epoch", "redeliver", "lose_connection"),
    fault(Bound, MessagesState.UNBOUND, "announce_epoch_and_grant", {"does": "grant_whole_queue"},
          "an epoch nobody was told", "redeliver", "go_on"),
    fault(ConsumerAttached, State.CONNECTING, "ask_to_subscribe", {"does": "subscribe_in_an_old_epoch"},
          "not that of the last redelivery", "redeliver", "lose_connection", "go_on"),
    fault(NegativeAcknowledge, MessagesState.BOUND, "note_negative_acks", {"does": None},
          "not asked for again", "send", "open_entry", "refuse", "time_passes"),
    fault(RedeliveryDue, MessagesState.BOUND, "redeliver_due", {"does": None},
          "not asked for again", "send", "open_entry", "refuse", "time_passes"),
    fault(DeadLetterFailed, MessagesState.BOUND, "set_dead_letter_aside", {"does": "forget_dead_letter"},
          "not asked for again", "send", "open_entry", "dead_letter_ends", "time_passes", "go_on"),
    fault(DeadLetterSent, MessagesState.BOUND, "acknowledge_dead_letter", {"does": None},
          "in both topics", "send", "dead_letter_ends", "group_of_acks_ends", "go_on"),
    fault(Sought, MessagesState.BOUND, "seek_while_bound", {"does": "seek"},
          "permits were lost", "send", "seek", "go_on"),
    fault(AcksVoided, AcksState.HELD, "end_void", {"does": None},
          "acknowledged what the user has not",
          "send", "open_entry", "acknowledge", "seek", "go_on", "group_of_acks_ends"),
    fault(AcksDue, AcksState.SENDING, "send_all", {"does": None},
          "held for ever", "send", "open_entry", "acknowledge", "group_of_acks_ends"),
    fault(Bound, AcksState.UNBOUND, "send_kept", {"does": None},
          "held for ever", "send", "open_entry", "acknowledge", "lose_connection", "go_on"),
    fault(CallTimedOut, CallState.QUEUED, "fail_unsent", {"does": None},
          "a call did not end", "seek", "lose_connection", "time_passes"),
    fault(CallTimedOut, CallState.SOUGHT, "fail_unbound", {"does": None},
          "a call did not end", "seek", "broker_closes", "go_on", "time_passes"),
    fault(CallTimedOut, CallState.UNSUBSCRIBING, "fail_unanswered", {"does": None},
          "a call did not end", "unsubscribe", "time_passes"),
    fault(SeekAnswered, CallState.SEEKING, "finish_seek", {"does": "finish_silently"},
          "a call did not end", "seek", "go_on"),
    fault(SeekAnswered, CallState.SEEKING, "finish_seek", {"does": "finish_twice"},
          "a call ended twice", "seek", "go_on"),
    fault(Seek, CallState.IDLE, "queue_call", {"dest": INTERNAL, "does": None},
          "a call did not end", "seek", "lose_connection"),
    fault(Bound, CallState.QUEUED, "unqueue_seek", {"does": None},
          "waits for nothing", "seek", "lose_connection", "go_on"),
    fault(Close, State.WAITING, "end_unbound", {"does": "end_forgetting_the_call"},
          "a call did not end", "seek", "lose_connection", "close"),
    fault(Close, State.WAITING, "leave", {"does": None},
          "a call did not end", "send", "open_entry", "acknowledge", "lose_connection", "close"),
    fault(DrainTimedOut, State.WAITING, "end_unsent", {"does": None},
          "over, or not", "send", "open_entry", "acknowledge", "lose_connection", "close", "time_passes"),
    fault(GetLastMessageId, QueriesState.BOUND, "send", {"does": "keep"},
          "a question was not asked", "ask_query"),
    fault(Bound, QueriesState.UNBOUND, "send_waiting", {"does": None},
          "a question was not asked", "ask_query", "lose_connection", "go_on"),
    fault(LastMessageIdAnswered, QueriesState.BOUND, "answer_last_message_id", {"does": None},
          "a question was not asked", "ask_query", "answer_query"),
    fault(ConsumerStatsAnswered, QueriesState.BOUND, "answer_stats", {"does": None},
          "a question was not asked", "ask_query", "answer_query"),
    fault(AckReceiptsDue, AcksState.SENDING, "fail_late", {"does": "fail_receipts_twice"},
          "a call ended twice", "send", "open_entry", "acknowledge", "time_passes"),
    fault(SeekFailed, CallState.SEEKING, "queue_again", {"dest": CallState.SOUGHT},
          "was not done", "seek", "question_fails", "go_on"),
    fault(Unsubscribe, CallState.UNSUBSCRIBING_LATE, "drop_and_queue", {"does": "queue_call"},
          "waits for a late answer", "unsubscribe", "time_passes"),
    fault(Seek, CallState.UNSUBSCRIBING_LATE, "drop_and_queue", {"does": "queue_call"},
          "waits for a late answer", "unsubscribe", "time_passes", "seek"),
    fault(UnsubscribeAnswered, State.READY, "end_unsubscribed", {"dest": INTERNAL, "does": None},
          "without its subscription", "unsubscribe", "unsubscribe_succeeds"),
    fault(UnsubscribeFailed, State.READY, "ask_if_known", {"does": None},
          "does not ask if it is known", "unsubscribe", "go_on"),
    fault(QueryFailed, State.READY, "close_to_subscribe", {"dest": INTERNAL, "does": None},
          "where nobody knows it", "ask_query", "answer_query"),
    fault(Unbound, CallState.SEEKING, "fail_lost_seek", {"does": None},
          "a call did not end", "seek", "lose_connection"),
    fault(Closing, CallState.SEEKING, "fail_in_doubt", {"does": None},
          "a call did not end", "seek", "close"),
    fault(Closing, QueriesState.BOUND, "fail_all", {"does": None},
          "a call did not end", "ask_query", "close"),
    fault(Ended, AcksState.CLOSING, "fail_unanswered", {"does": None},
          "a call did not end", "send", "open_entry", "acknowledge", "close"),
    fault(GetLastMessageId, QueriesState.UNBOUND, "keep", {"does": None},
          "a call did not end", "ask_query", "lose_connection"),
    fault(QueryFailed, QueriesState.BOUND, "fail_late_query", {"does": "fail_query"},
          "not told what went wrong last", "ask_query", "lose_connection", "go_on", "question_has_no_answer"),
]
# fmt: on


class UnluckyConsumer(AnyConsumer):
    """A consumer to which happens what can happen: it meets a fault sooner."""

    unlucky = True


HUNTS: dict[type, Hunt] = {
    State: Hunt(CHART, ConsumerMachine, UnluckyConsumer, FURTHER, HUNT),
    MessagesState: Hunt(
        consumer_messages.CHART,
        consumer_messages.ConsumerMessages,
        UnluckyConsumer,
        FURTHER_MESSAGES,
        HUNT,
        "messages_class",
    ),
    AcksState: Hunt(consumer_acks.CHART, consumer_acks.ConsumerAcks, UnluckyConsumer, FURTHER_ACKS, HUNT, "acks_class"),
    CallState: Hunt(
        consumer_seek_unsubscribe.CHART,
        consumer_seek_unsubscribe.SeekAndUnsubscribe,
        UnluckyConsumer,
        FURTHER_CALLS,
        HUNT,
        "calls_class",
    ),
    QueriesState: Hunt(
        consumer_queries.CHART, consumer_queries.ConsumerQueries, UnluckyConsumer, {}, HUNT, "queries_class"
    ),
}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    begins: dict[Any, int] = {
        State.IDLE: 0, State.LOOKING_UP: 1, State.CONNECTING: 2, State.SUBSCRIBING: 3, State.CLOSE_PENDING: 3,
    }  # fmt: skip
    HUNTS[type(fault.state)].find_out(fault, 3 if fault.trigger is Bound else begins.get(fault.state, 4))
