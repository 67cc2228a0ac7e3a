"""Whatever brokers, networks and users do to a producer, its promises hold; a chart that breaks one is found out."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

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

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    ConnectError,
    ConnectionLost,
    ProducerFenced,
    PulsarException,
    Timeout,
)
from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.connection_handler_events import (
    AskToClose,
    Attach,
    BrokerClosed,
    Close,
    CloseAnswered,
    CloseTimedOut,
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
from pulsar_actors.machines.producer import CHART, FINAL, STATES, ProducerMachine, ProducerSettings, State
from pulsar_actors.machines.producer_events import (
    AskIfTaken,
    AskToCreate,
    Drained,
    FeedRemainingReceipts,
    Flush,
    Flushed,
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
)
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.pending_messages import PendingMessages, PendingSend, SendQuota
from pulsar_actors.machines.trackers.producer_identity import SequenceIds
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseProducer,
    CommandProducer,
    CommandProducerSuccess,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    CommandTopicMigrated,
    MessageIdData,
    ServerError,
)
from tests.machines.handler_faults import CLOSE_ANSWERED, TWO_BINDINGS, UNASKED, handler_faults
from tests.machines.mutants import Fault, Hunt, fault, hunting

LOST = ConnectionLost("reset")
DOWN = ConnectError("down")
GONE = BrokerRefusal("TopicNotFound", "gone")
CLOSE_URLS = [{}, {}, {"assignedBrokerServiceUrl": "pulsar://a"}, {"assignedBrokerServiceUrl": "pulsar://b"}]
CREATE_ANSWERS = ["success"] * 4 + ["time out"] * 2 + ["ServiceNotReady", "ProducerBusy", "ProducerFenced"]
SEND_ERRORS = [
    ServerError.PersistenceError,
    ServerError.ChecksumError,
    ServerError.NotAllowedError,
    ServerError.TopicTerminatedError,
    ServerError.ProducerFenced,
]


RAISES_DOUBT = (  # what may be the last failure from then on, or may have ended what failed
    LookupFailed, Detached, RequestRefused, RequestTimedOut, CloseTimedOut, BrokerClosed, WrongAnswer,
    SendRefused, ProducerCreated, ReceiptsArrived, LineChecked, LineCheckTimedOut,
)  # fmt: skip


OWED: dict[State, type] = {  # what was asked for last, in each state that waits for an answer
    State.LOOKING_UP: LookUp,
    State.CONNECTING: Attach,
    State.CREATING: AskToCreate,
    State.QUEUED: AskToCreate,
    State.CLOSE_PENDING: AskToClose,
    State.WAITING: RetryDue,
    State.CLOSING: AskToClose,
}


@dataclass
class Wire:
    """One connection to one broker. What the client has given up is still owed by the broker."""

    alive: bool = True
    largest: int = 2  # the size of the largest entry that the broker takes
    bound: bool = False
    create_owed: bool = False
    closes_owed: int = 0
    creates: list[int] = field(default_factory=list[int])
    closes: list[int] = field(default_factory=list[int])
    attachments: list[int] = field(default_factory=list[int])


class AnyProducer(RuleBasedStateMachine):
    """A producer, the brokers it meets, and a record of what its users were told."""

    machine_class: Any = ProducerMachine
    starts: tuple[int, ...] = (0, 1, 2, 2, 2, 3, 3, 3, 3)  # three steps lead to READY, where most can happen
    leaves_after: int = 5  # messages, so that most runs do not end before much has happened

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.corrupt = False
        self.quota = SendQuota(0)
        command = CommandProducer(topic="t", producer_id=1)
        self.machine: ProducerMachine = self.machine_class(
            ProducerSettings(command, self.is_intact, lambda token, first: self.sizes[token]),
            PendingMessages[Any](self.quota, SendQuota(0)),
            SequenceIds(),
            Backoff(lambda: 0.0),
        )
        self.timers: list[StartTimer] = []
        self.lookups: list[tuple[int, str]] = []
        self.attaching: list[int] = []
        self.questions: list[int] = []
        self.pool: dict[str, Wire] = {}
        self.wires: dict[int, Wire] = {}
        self.connection = 0
        self.close_attempt = 0
        self.epoch = -1
        self.items: list[PendingSend[Any]] = []
        self.sizes: dict[int, int] = {}  # of the entries of items, and of the largest that brokers take from now on
        self.largest = 2
        self.ended: set[int] = set()
        self.out_of_turn_allowed = False
        self.in_the_middle = False
        self.written: dict[int, list[int]] = {}
        self.flushes_asked: list[int] = []
        self.flushes_ended: list[object] = []
        self.told: list[type] = []
        self.failure = ""  # the last one that there is no doubt about
        self.stumbles = 0
        self.asked: type | None = None
        self.closed = False

    @property
    def open(self) -> list[int]:
        """What was published and has not ended, in order."""
        return [number for number in range(len(self.items)) if number not in self.ended]

    @property
    def close_has_time(self) -> bool:
        """Whether a close may not give up yet what it has not sent."""
        return any(isinstance(timer.event, DrainTimedOut) and timer.delay > self.now for timer in self.timers)

    def is_intact(self, token: object) -> bool:
        return not self.corrupt

    # What the producer does.

    def tell(self, event: Any, *, alone: bool = False) -> None:
        self.out_of_turn_allowed = alone
        self.in_the_middle = True
        if isinstance(event, RAISES_DOUBT):
            self.failure = ""
        for effect in self.machine.handle(event, self.now):
            if isinstance(effect, FeedRemainingReceipts):
                assert len(effect.event.commands) < len(event.commands), "receipts that are heard for ever"
                self.tell(effect.event, alone=alone)
            elif isinstance(effect, StopDraining):
                self.drained()
            else:
                self.perform(effect)
        self.in_the_middle = False

    def drained(self) -> None:
        """Tell that what the queue held has failed, or is published."""
        self.machine.pending.held = ()
        self.tell(Drained())

    def perform(self, effect: Any) -> None:  # noqa: C901 - one case for each effect
        kind = type(effect.event if isinstance(effect, StartTimer) else effect)
        self.asked = kind if kind in OWED.values() else self.asked
        match effect:
            case StartTimer():
                self.timers.append(effect._replace(delay=self.now + effect.delay))  # the time when it is due
            case LookUp(attempt, _, cluster):
                self.lookups.append((attempt, cluster or ""))
            case Attach(connection, broker):
                self.attach(connection, str(getattr(broker, "url", broker)))
            case DropConnection(connection):
                self.cut(self.wires[connection])
            case AskToCreate(attempt, command):
                self.ask_to_create(attempt, command)
            case AskIfTaken(attempt):
                self.questions.append(attempt)
            case AskToClose(attempt):
                self.ask_to_close(attempt)
            case SendBatches(connection, items):
                self.write(connection, [item.token for item in items])
            case SendsCompleted() | Fail() | Flushed():
                self.hear(getattr(effect, "error", None))
                self.answer(effect)
            case ProducerOpened() | FirstCreationFailed() | HandleEnded():
                self.hear(getattr(effect, "error", None))
                self.told.append(type(effect))
            case _:
                pass

    def hear(self, error: Exception | None) -> None:
        """Check the error as the caller would read it."""
        if isinstance(error, Timeout) and "to the close" not in str(error):
            assert self.failure in str(error), "not told what went wrong last"

    def answer(self, effect: Any) -> None:
        if isinstance(effect, SendsCompleted):
            for stored in effect.items:
                self.end(stored.token)
        elif effect.token in self.flushes_asked:
            self.flushes_ended.append(effect.token)
        else:
            self.end(effect.token)

    def attach(self, connection: int, broker: str) -> None:
        if broker not in self.pool or not self.pool[broker].alive:
            self.pool[broker] = Wire(largest=self.largest)
        self.connection = connection
        self.wires[connection] = self.pool[broker]
        self.wires[connection].attachments.append(connection)
        self.attaching.append(connection)

    def cut(self, wire: Wire) -> None:
        wire.alive = wire.bound = False
        wire.creates.clear()
        wire.closes.clear()

    def ask_to_create(self, attempt: int, command: CommandProducer) -> None:
        wire = self.wires[self.connection]
        assert command.epoch > self.epoch, "an epoch that does not grow"
        self.epoch = command.epoch
        if wire.alive:
            assert not wire.closes_owed, "a create while a close is unanswered"
            assert not wire.create_owed, "a create while another is unanswered"
            wire.create_owed = True
            wire.creates.append(attempt)

    def ask_to_close(self, attempt: int) -> None:
        wire = self.wires[self.connection]
        self.close_attempt = attempt
        if wire.alive:
            wire.closes_owed += 1
            wire.closes.append(attempt)

    def write(self, connection: int, tokens: list[int]) -> None:
        wire, written = self.wires[connection], self.written.setdefault(connection, [])
        assert wire.bound or not wire.alive, "written without a binding"
        assert tokens == [number for number in self.open if number not in written], "written out of order"
        assert all(self.sizes[number] <= wire.largest for number in tokens), "written, and over the broker's limit"
        written.extend(tokens)

    def end(self, number: int) -> None:
        assert number not in self.ended, "ended twice"
        in_turn = number == self.open[0]
        self.ended.add(number)
        oversized = self.connection in self.wires and self.sizes[number] > self.wires[self.connection].largest
        assert in_turn or self.out_of_turn_allowed or oversized, "ended out of turn"

    # What users do.

    @initialize(data=st.data(), patience=st.sampled_from([1.0, 30.0, None]))
    def go_some_way(self, data: st.DataObject, patience: float | None) -> None:
        self.patience = patience
        self.tell(Open())
        self.advance(data.draw(st.sampled_from(self.starts)))

    @rule(steps=st.integers(1, 4))
    def go_on(self, steps: int) -> None:
        self.advance(steps)

    def advance(self, steps: int) -> None:
        """Do what leads to READY, by the same broker each time."""
        for _ in range(steps):
            match self.machine.state:
                case State.WAITING:
                    self.pause_ends()
                case State.LOOKING_UP if self.lookups:
                    attempt, cluster = self.lookups.pop()
                    self.tell(LookedUp(attempt, f"{cluster}pulsar://a"))
                case State.CONNECTING if self.connection in self.attaching:
                    self.attaching.remove(self.connection)
                    self.answer_attach(self.connection)
                case State.CREATING if self.wires[self.connection].creates:
                    self.answer_create(self.wires[self.connection], "success")
                case _:
                    return

    def pause_ends(self) -> None:
        timer = next(timer for timer in reversed(self.timers) if isinstance(timer.event, RetryDue))
        self.timers.remove(timer)
        self.tell(timer.event)

    @rule(batches=st.lists(st.integers(1, 3), min_size=1, max_size=3), size=st.sampled_from([1, 2]))
    def publish(self, batches: list[int], size: int = 1) -> None:
        items: list[PendingSend[Any]] = []
        for count in batches:
            self.machine.pending.reserve(count, 1)
            first = self.machine.sequence_ids.take(count)
            deadline = None if self.patience is None else self.now + self.patience
            items.append(PendingSend(len(self.items) + len(items), first, first + count - 1, count, 1, deadline))
            self.sizes[items[-1].token] = min(size, self.machine.pending.largest)  # as it is packed
        turned_away = self.machine.state in {State.CLOSING, *FINAL}
        self.items += items
        self.tell(Publish(tuple(items)), alone=turned_away)

    @rule()
    def flush(self) -> None:
        token = -1 - len(self.flushes_asked)
        self.flushes_asked.append(token)
        self.tell(Flush(token))

    @precondition(lambda self: len(self.items) > self.leaves_after)
    @rule(holds=st.booleans())
    def close(self, *, holds: bool) -> None:
        state, before = self.machine.state, self.open
        if holds and not self.closed and state not in {State.CLOSING, *FINAL}:
            self.machine.pending.held = (b"payload", "tag")
        self.tell(Close())
        self.closed = True
        assert self.open == before or state is State.IDLE, "dropped by a close"

    @precondition(lambda self: self.machine.pending.held)
    @rule()
    def coordinator_answers(self) -> None:
        self.publish([1])
        self.drained()

    @precondition(lambda self: len(self.items) > self.leaves_after)
    @rule()
    def end_at_once(self) -> None:
        self.tell(EndAtOnce(AlreadyClosed("shut down")))

    @precondition(lambda self: self.timers)
    @rule(data=st.data())
    def time_passes(self, data: st.DataObject) -> None:
        timer = self.timers.pop(data.draw(st.integers(0, len(self.timers) - 1)))
        self.now = max(self.now, timer.delay)
        is_late = isinstance(timer.event, SendTimeoutDue) and self.head_deadline <= self.now
        self.tell(timer.event)
        if isinstance(timer.event, DrainTimedOut):
            assert self.machine.state is not State.DRAINING, "waits for ever for a coordinator"
            assert self.machine.state not in STATES.opened, "goes on for ever"
        assert not is_late or self.head_deadline > self.now, "pending after its time"

    @rule(largest=st.sampled_from([1, 2]))
    def brokers_are_configured(self, largest: int) -> None:
        self.largest = largest

    @rule()
    def a_second_passes(self) -> None:
        self.now += 1

    # What lookups and networks do.

    @precondition(lambda self: self.lookups)
    @rule(answer=st.sampled_from(["pulsar://a", "pulsar://a", "pulsar://b", DOWN, GONE]), data=st.data())
    def answer_lookup(self, answer: str | PulsarException, data: st.DataObject) -> None:
        attempt, cluster = self.lookups.pop(data.draw(st.integers(0, len(self.lookups) - 1)))
        failed = isinstance(answer, PulsarException)
        self.tell(LookupFailed(attempt, answer) if failed else LookedUp(attempt, cluster + answer))

    @precondition(lambda self: self.lookups)
    @rule(age=st.sampled_from([0, 0, 0, 1]))
    def lookup_stumbles(self, age: int) -> None:
        """Have the lookup that goes on meet something, or an earlier one."""
        self.stumbles += 1
        failure = f"stumble {self.stumbles}."
        attempt = max(number for number, _ in self.lookups)
        self.tell(LookupAttemptFailed(attempt - age, ConnectError(failure)))
        if self.machine.state is State.LOOKING_UP and not age:
            self.failure = failure

    @precondition(lambda self: self.attaching)
    @rule(data=st.data())
    def finish_attaching(self, data: st.DataObject) -> None:
        connection = self.attaching.pop(data.draw(st.integers(0, len(self.attaching) - 1)))
        self.answer_attach(connection)

    def answer_attach(self, connection: int) -> None:
        wire = self.wires[connection]
        self.tell(ProducerAttached(connection, wire.largest) if wire.alive else Detached(connection, LOST))

    @precondition(lambda self: self.wires)
    @rule(data=st.data())
    def lose_connection(self, data: st.DataObject) -> None:
        wire = self.wires[data.draw(st.sampled_from(sorted(self.wires)))]
        before = self.open
        self.cut(wire)
        for connection in wire.attachments:
            self.tell(Detached(connection, LOST))
        assert self.open == before or not self.close_has_time, "dropped by a close"

    # What brokers do.

    @precondition(lambda self: self.machine.state in {*STATES.found, State.DRAINING, State.CLOSING})
    @rule()
    def broker_mixes_up(self) -> None:
        self.tell(WrongAnswer(AskToCreate, CommandSuccess(request_id=1)))
        assert not self.wires[self.connection].alive, "went on with a broker that mixes answers up"

    @precondition(lambda self: any(wire.creates for wire in self.wires.values()))
    @rule(kind=st.sampled_from(CREATE_ANSWERS), data=st.data())
    def broker_answers_create(self, kind: str, data: st.DataObject) -> None:
        self.answer_create(self.draw_asked(data), kind)

    @precondition(lambda self: any(wire.creates for wire in self.wires.values()))
    @rule(data=st.data())
    def broker_queues_create(self, data: st.DataObject) -> None:
        self.answer_create(self.draw_asked(data), "queue")

    def draw_asked(self, data: st.DataObject) -> Wire:
        """Choose a connection on which a creation waits for its answer."""
        asked = [connection for connection, wire in self.wires.items() if wire.creates]
        return self.wires[data.draw(st.sampled_from(asked))]

    def answer_create(self, wire: Wire, kind: str) -> None:
        attempt = wire.creates[0]
        if kind != "queue":
            wire.creates.pop(0)
        if kind == "time out":
            self.tell(RequestTimedOut(attempt))
        elif kind in {"success", "queue"}:
            wire.bound = ready = kind == "success"
            wire.create_owed = not ready
            answer = CommandProducerSuccess(request_id=0, producer_name="p", producer_ready=ready, last_sequence_id=4)
            self.tell(ProducerCreated(attempt, answer))
        else:
            wire.create_owed = False
            self.tell(RequestRefused(attempt, BrokerRefusal(kind, "no")))

    @precondition(lambda self: self.questions)
    @rule(answer=st.sampled_from(["taken", "epoch has already moved", None]))
    def broker_is_asked_if_the_topic_is_taken(self, answer: str | None) -> None:
        attempt = self.questions.pop()
        refused = ProducerFenced("ProducerFenced", answer or "")
        self.tell(LineCheckTimedOut(attempt) if answer is None else LineChecked(attempt, refused))

    @precondition(lambda self: any(wire.closes for wire in self.wires.values()))
    @rule(in_time=st.booleans(), data=st.data())
    def broker_answers_close(self, *, in_time: bool, data: st.DataObject) -> None:
        before = self.open
        asked = [connection for connection, wire in self.wires.items() if wire.closes]
        wire = self.wires[data.draw(st.sampled_from(asked))]
        attempt = wire.closes.pop(0)
        if in_time:
            wire.closes_owed -= 1
            wire.create_owed = wire.bound = False
            wire.creates.clear()  # a broker answers in order: what it has closed by now it will not create
        self.tell(CloseAnswered(attempt) if in_time else CloseTimedOut(attempt))
        assert self.open == before or not (in_time and self.close_has_time), "dropped by a close"

    @precondition(lambda self: self.wires)
    @rule(urls=st.sampled_from(CLOSE_URLS), data=st.data())
    def broker_closes(self, urls: dict[str, str], data: st.DataObject) -> None:
        connection = data.draw(st.sampled_from(sorted(self.wires)))
        if connection == self.connection:  # a newer attachment may be to the same broker, and bound
            self.wires[connection].bound = False
        self.tell(BrokerClosed(connection, CommandCloseProducer(producer_id=1, request_id=0, **urls)))
        if connection == self.connection and self.open and self.close_has_time:
            assert self.machine.state is not State.CLOSING, "dropped by a close"

    @precondition(lambda self: self.wires)
    @rule(url=st.sampled_from(["", "pulsar://new"]))
    def topic_migrates(self, url: str) -> None:
        kind = CommandTopicMigrated.ResourceType.Producer
        command = CommandTopicMigrated(resource_id=1, resource_type=kind, brokerServiceUrl=url)
        self.tell(TopicMigrated(self.connection, command))

    @precondition(lambda self: self.written)
    @rule(
        data=st.data(),
        places=st.sampled_from([[0], [0], [0], [1], [-1], [0, 1], [0, 1, 2], [0, 0, 1], [0, 2]]),
        last=st.booleans(),
    )
    def broker_stores(self, data: st.DataObject, places: list[int], *, last: bool) -> None:
        connection = data.draw(st.sampled_from(sorted(self.written)))
        where = MessageIdData(ledgerId=1, entryId=2)
        items = [self.written_item(connection, place) for place in places]
        ids = [item.highest_sequence_id if last else item.lowest_sequence_id for item in items]
        commands = [CommandSendReceipt(producer_id=1, sequence_id=one, message_id=where) for one in ids]
        self.tell(ReceiptsArrived(connection, tuple(commands)))

    @precondition(lambda self: self.written)
    @rule(error=st.sampled_from(SEND_ERRORS), place=st.integers(-1, 1), corrupt=st.booleans())
    def broker_refuses_send(self, error: "ServerError.ValueType", place: int, *, corrupt: bool) -> None:
        self.corrupt = corrupt
        connection = max(self.written)
        item = self.written_item(connection, place)
        command = CommandSendError(producer_id=1, sequence_id=item.lowest_sequence_id, error=error, message="no")
        alone = error in {ServerError.NotAllowedError, ServerError.ChecksumError}
        leaving = self.machine.state in {State.DRAINING, State.CLOSING}
        at_broker = (leaving or self.machine.state is State.READY) and connection == self.connection
        self.tell(SendRefused(connection, command), alone=alone or leaving)
        if at_broker and error is ServerError.NotAllowedError:
            assert item.token in self.ended, "refused, and pending still"

    def written_item(self, connection: int, place: int) -> PendingSend[Any]:
        """Give what was written there: the head that is open (0), what is behind it (1), or what has ended (-1)."""
        written = self.written[connection]
        heads = [index for index, number in enumerate(written) if number not in self.ended]
        index = (heads[0] if heads else len(written) - 1) + place
        return self.items[written[max(0, min(index, len(written) - 1))]]

    # What holds all the time.

    @invariant()
    def what_is_pending_is_written_while_bound(self) -> None:
        if self.machine.state in {State.READY, State.DRAINING} and self.wires[self.connection].alive:
            assert not set(self.open) - set(self.written.get(self.connection, [])), "bound, and yet not written"

    @property
    def head_deadline(self) -> float:
        """When what is pending first has to end."""
        deadline = self.items[self.open[0]].deadline if self.open else None
        return math.inf if deadline is None else deadline

    @invariant()
    def what_has_to_end_in_time_has_a_timer(self) -> None:
        timers = [timer for timer in self.timers if isinstance(timer.event, SendTimeoutDue)]
        assert timers or self.head_deadline == math.inf, "pending without a timer"

    @invariant()
    def a_state_that_waits_has_asked(self) -> None:
        assert OWED.get(self.machine.state, self.asked) is self.asked, "waits for nothing"
        if self.machine.state is State.DRAINING or (self.closed and self.machine.state in STATES.opened):
            assert any(isinstance(timer.event, DrainTimedOut) for timer in self.timers), "waits for nothing"

    @invariant()
    def room_is_taken_by_what_is_open_and_nothing_else(self) -> None:
        assert self.quota.used == sum(self.items[number].messages for number in self.open)

    @invariant()
    def a_flush_ends_once_and_none_is_left_when_nothing_is_pending(self) -> None:
        assert len(self.flushes_ended) == len(set(self.flushes_ended)), "flushed twice"
        assert self.open or set(self.flushes_ended) == set(self.flushes_asked), "a flush was forgotten"

    @invariant()
    def users_hear_once_how_the_creation_and_the_producer_ended(self) -> None:
        created = [told for told in self.told if told is not HandleEnded]
        assert len(created) <= 1, "two answers to one creation"
        over = self.machine.state in FINAL
        assert self.told.count(HandleEnded) == over, "ended, or not, against what was said"
        if over:
            assert created, "a creation without an answer"
            assert not self.open, "sends that never end"
        leaves = self.machine.state is State.DRAINING or (self.closed and not over)
        assert not self.machine.pending.held or leaves, "messages that are held for ever"

    def teardown(self) -> None:
        """Bring any run to its end, but for those that have broken a promise already."""
        if self.in_the_middle:
            return
        self.tell(Close())
        if self.machine.state is State.DRAINING:
            self.drained()
        due = [timer.event for timer in self.timers if isinstance(timer.event, DrainTimedOut)]
        if due and self.machine.state not in {State.CLOSING, *FINAL}:
            self.tell(due[-1])
        if self.machine.state not in FINAL:
            self.tell(CloseTimedOut(self.close_attempt))
        assert self.machine.state in FINAL, "does not end"
        self.users_hear_once_how_the_creation_and_the_producer_ended()
        self.a_flush_ends_once_and_none_is_left_when_nothing_is_pending()
        self.room_is_taken_by_what_is_open_and_nothing_else()


MODEL = settings(max_examples=100, stateful_step_count=30)
HUNT = hunting(MODEL)


class HuntedProducer(AnyProducer):
    leaves_after = 0


def test_every_promise_of_a_producer_holds() -> None:
    run_state_machine_as_test(AnyProducer, settings=MODEL)


def complete_twice(self: ProducerMachine, event: ReceiptsArrived, now: float) -> list[Any]:
    return [*self.match_receipts(event, now)] * 2


def create_in_an_old_epoch(self: ProducerMachine, event: ProducerAttached, now: float) -> list[Any]:
    [ask] = self.create(event, now)
    assert isinstance(ask, AskToCreate)
    ask.command.epoch = 0
    return [ask]


def write_newest_first(self: ProducerMachine, event: ProducerCreated, now: float) -> list[Any]:
    effects = self.bind(event, now)
    return [each._replace(items=each.items[::-1]) if isinstance(each, SendBatches) else each for each in effects]


def write_whatever_its_size(self: ProducerMachine, event: ProducerCreated, now: float) -> list[Any]:
    self.pending.largest = sys.maxsize
    return self.bind(event, now)


FURTHER: dict[str, Callable[..., Any]] = {
    method.__name__: method
    for method in (complete_twice, create_in_an_old_epoch, write_newest_first, write_whatever_its_size)
}


# fmt: off
FAULTS = [
    *handler_faults(STATES, without_answer="end_unanswered"),
    fault(ReceiptsArrived, State.READY, "match_receipts", {"does": "complete_twice"},
          "ended twice", "publish", "broker_stores"),
    fault(ReceiptsArrived, State.CLOSING, "drop_out_of_order", {"dest": INTERNAL, "does": "match_receipts"},
          "heard for ever", "publish", "close", "broker_stores"),
    fault(ReceiptsArrived, State.CLOSING, "drop_skipping_receipts", {"does": "match_receipts"},
          "heard for ever", "publish", "close", "time_passes", "broker_stores"),
    fault(Publish, State.WAITING, "keep", {"does": "fail_sends_after_end"},
          "ended out of turn", "publish", "lose_connection"),
    fault(Publish, State.CLOSED, "fail_sends_after_end", {"does": "keep"},
          "never end", "publish", "end_at_once"),
    fault(Publish, State.READY, "write", {"does": "keep"},
          "bound, and yet not written", "publish"),
    fault(LineChecked, State.QUEUED, "register_again", {"dest": State.WAITING, "does": "release_and_back_off"},
          TWO_BINDINGS, "broker_queues_create", "time_passes", "broker_is_asked_if_the_topic_is_taken", "go_on"),
    fault(ProducerCreated, State.CREATING, "bind", {"does": "write_newest_first"},
          "written out of order", "publish", "go_on"),
    fault(ProducerCreated, State.CREATING, "bind", {"does": "write_whatever_its_size"},
          "over the broker's limit", "publish", "brokers_are_configured", "lose_connection", "go_on"),
    fault(ProducerAttached, State.CONNECTING, "create", {"does": "create_in_an_old_epoch"},
          "epoch that does not grow", "lose_connection", "go_on"),
    fault(RequestRefused, State.CREATING, "end_refused", {"does": None},
          "against what was said", "broker_answers_create", "flush", guard="is_fenced"),
    fault(SendRefused, State.READY, "end_send_refused", {"does": None},
          "against what was said", "publish", "broker_refuses_send", guard="is_fenced"),
    fault(SendRefused, State.READY, "end_send_refused", {"does": None},
          "against what was said", "publish", "broker_refuses_send", guard="is_terminated"),
    fault(SendRefused, State.READY, "drop_refusing", {"does": None},
          "waits for nothing", "publish", "broker_refuses_send"),
    fault(SendRefused, State.READY, "fail_one", {"does": None},
          "refused, and pending still", "publish", "broker_refuses_send"),
    fault(SendRefused, State.CLOSING, "fail_one", {"does": None},
          "refused, and pending still", "publish", "close", "broker_refuses_send"),
    fault(SendRefused, State.CLOSING, "drop_refusing", {"does": None},
          UNASKED, "publish", "close", "broker_refuses_send"),
    fault(ReceiptsArrived, State.READY, "drop_out_of_order", {"does": None},
          "waits for nothing", "publish", "broker_stores"),
    fault(Close, State.READY, "leave", {"does": None},
          UNASKED, "publish", "close"),
    fault(Publish, State.DRAINING, "write", {"does": "keep"},
          "bound, and yet not written", "publish", "close"),
    fault(Drained, State.DRAINING, "close_drained", {"does": None},
          "does not end", "publish", "close", "coordinator_answers"),
    fault(DrainTimedOut, State.DRAINING, "stop_draining", {"does": None},
          "waits for ever for a coordinator", "publish", "close", "time_passes"),
    fault(Detached, State.DRAINING, "back_off", {"does": None},
          UNASKED, "publish", "close", "lose_connection"),
    fault(BrokerClosed, State.DRAINING, "release_after_close", {"does": None},
          UNASKED, "publish", "close", "broker_closes"),
    fault(BrokerClosed, State.DRAINING, "move", {"does": None},
          UNASKED, "publish", "close", "broker_closes"),
    fault(Close, State.WAITING, "leave", {"dest": State.CLOSED, "does": "end_unbound"},
          "dropped by a close", "publish", "lose_connection", "close"),
    fault(Close, State.CREATING, "leave", {"dest": State.CLOSING, "does": "close_while_creating"},
          "dropped by a close", "publish", "close"),
    fault(Close, State.WAITING, "leave", {"does": None},
          UNASKED, "publish", "lose_connection", "close"),
    fault(DrainTimedOut, State.WAITING, "end_unsent", {"dest": None},
          "goes on for ever|against what was said|does not end", "publish", "lose_connection", "close", "time_passes"),
    fault(DrainTimedOut, State.CREATING, "give_up_leaving", {"does": None},
          UNASKED, "publish", "close", "time_passes"),
    fault(ProducerCreated, State.CREATING, "bind_and_close", {"does": "bind_and_drain"},
          UNASKED, "publish", "close", "go_on"),
    fault(ProducerCreated, State.CREATING, "bind_and_drain", {"dest": State.CLOSING},
          UNASKED, "publish", "close", "go_on"),
    fault(Detached, State.CLOSING, "back_off", {"dest": State.CLOSED, "does": "end_closed"},
          "dropped by a close", "publish", "close", "lose_connection"),
    fault(CloseAnswered, State.CLOSING, "release_unconfirmed", {"dest": State.CLOSED, "does": "end_closed"},
          "dropped by a close", "publish", "close", *CLOSE_ANSWERED),
    fault(BrokerClosed, State.CLOSING, "release_after_close", {"dest": INTERNAL, "does": None},
          "dropped by a close", "publish", "close", "broker_closes"),
    fault(BrokerClosed, State.CLOSING, "move", {"does": None},
          UNASKED, "publish", "close", "broker_closes"),
    fault(SendTimeoutDue, State.READY, "fail_late", {"does": None},
          "pending after its time", "publish", "time_passes"),
    fault(SendTimeoutDue, State.READY, "watch_again", {"does": None},
          "pending without a timer", "publish", "time_passes", "a_second_passes", "broker_stores"),
    fault(Flush, State.READY, "register_flush", {"does": None},
          "a flush was forgotten", "publish", "flush"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    starts = {
        State.IDLE: 0, State.LOOKING_UP: 0, State.CONNECTING: 1, State.CREATING: 2, State.CLOSE_PENDING: 2,
        State.CLOSED: 0, State.QUEUED: 2,
    }  # fmt: skip
    steps = starts.get(fault.state, 3)
    Hunt(CHART, ProducerMachine, HuntedProducer, FURTHER, HUNT).find_out(fault, steps)
