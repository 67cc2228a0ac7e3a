"""Whatever brokers, connections and callers do to a lookup, its promises hold; a chart that breaks one is found out."""

import sys
from collections.abc import Callable
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

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    BrokerRefusal,
    ConnectError,
    ConnectionLost,
    Timeout,
)
from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.lookup import CHART, FINAL, MAX_PARTITIONS, SERVICE_URL, LookupMachine, State
from pulsar_actors.machines.lookup_events import (
    AcquireLookupPermit,
    AttachTo,
    AttemptFailed,
    BackoffOver,
    Cancel,
    Enqueue,
    Found,
    LookupAnswered,
    LookupAttached,
    LookupPermitGranted,
    LookupRefused,
    LookupTarget,
    NotFound,
    OperationTimedOut,
    Redirected,
    ReleaseLookupPermit,
    SendLookup,
    ServiceChanged,
)
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    ServerError,
)
from tests.machines.mutants import Fault, Hunt, fault, hunting

TIMEOUT = 30.0
TOPIC = CommandLookupTopic(topic="t", request_id=0, advertised_listener_name="inside")
PARTITIONS = CommandPartitionedTopicMetadata(topic="t", request_id=0)
TOPICS = CommandGetTopicsOfNamespace(namespace="n", request_id=0)
SCHEMA = CommandGetSchema(topic="t", request_id=0)
QUESTIONS = (TOPIC, TOPIC, TOPIC, PARTITIONS, TOPICS, SCHEMA)

WILL_PASS = [
    ConnectError("down"),
    ConnectionLost("reset"),
    Timeout("slow"),
    BrokerRefusal("ServiceNotReady", "starting"),
    BrokerRefusal("TooManyRequests", "later"),
]
WILL_NOT_PASS = [
    BrokerRefusal("TopicNotFound", "gone"),
    AuthenticationError("AuthenticationError", "no"),
    AlreadyClosed("closed"),
]
PASSING_CODES = [ServerError.ServiceNotReady, ServerError.TooManyRequests, ServerError.MetadataError]
LASTING_CODES = [ServerError.TopicNotFound, ServerError.AuthorizationError]
LATE = [
    LookupAttached(),
    LookupRefused(WILL_PASS[0]),
    BackoffOver(0),
    OperationTimedOut(0),
    Redirected("http://b/"),
]


class Outcome(NamedTuple):
    """What has to become of an event, and what shows it."""

    name: str
    effects: frozenset[type]


FOLLOW = Outcome("follow", frozenset({AttachTo}))
PAUSE = Outcome("pause", frozenset({StartTimer, ReleaseLookupPermit, AttemptFailed}))
FAIL = Outcome("fail", frozenset({ReleaseLookupPermit, NotFound}))
FIND = Outcome("find", frozenset({ReleaseLookupPermit, Found}))
ASK = Outcome("ask", frozenset({SendLookup}))


def topic_answer(kind: str, broker: str = "b", **fields: Any) -> CommandLookupTopicResponse:
    urls = {"brokerServiceUrl": f"pulsar://{broker}", "brokerServiceUrlTls": f"pulsar+ssl://{broker}"} if broker else {}
    response: Any = CommandLookupTopicResponse.LookupType.Value(kind)
    return CommandLookupTopicResponse(request_id=0, response=response, **urls, **fields)


def good_answer(question: Any, *, proxy: bool = False) -> Any:
    match question:
        case CommandLookupTopic():
            return topic_answer("Connect", proxy_through_service_url=proxy)
        case CommandPartitionedTopicMetadata():
            return CommandPartitionedTopicMetadataResponse(request_id=0, partitions=4)
        case CommandGetTopicsOfNamespace():
            return CommandGetTopicsOfNamespaceResponse(request_id=0, topics=["t"])
        case _:
            return CommandGetSchemaResponse(request_id=0, schema_version=b"1")


def refusal(question: Any, code: "ServerError.ValueType") -> Any:
    """Give the event by which a broker refuses: not every kind of answer has room for an error."""
    match question:
        case CommandLookupTopic():
            return LookupAnswered(topic_answer("Failed", error=code, message="no"))
        case CommandPartitionedTopicMetadata():
            failed = CommandPartitionedTopicMetadataResponse.Failed
            answer = CommandPartitionedTopicMetadataResponse(request_id=0, response=failed, error=code, message="no")
            return LookupAnswered(answer)
        case CommandGetSchema():
            return LookupAnswered(CommandGetSchemaResponse(request_id=0, error_code=code, error_message="no"))
        case _:
            return LookupRefused(BrokerRefusal(ServerError.Name(code), "no"))


class AnyLookup(RuleBasedStateMachine):
    """A lookup, the queue in which it stands, the brokers it asks, and a record of what its caller was told."""

    machine_class: Any = LookupMachine
    questions: tuple[Any, ...] = QUESTIONS
    starts: tuple[int, ...] = (0, 1, 2, 3, 3, 3, 3)  # three steps lead to ASKING, where most can happen

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.deadline = TIMEOUT
        self.event: Any = None
        self.timers: list[tuple[float, Any]] = []
        self.in_line = self.begun = self.attaching = self.asked = False
        self.permits = self.ended = self.redirects = 0
        self.way: tuple[LookupTarget, bool] = (SERVICE_URL, False)  # whom to ask next, and whether it has the last word
        self.failure = self.told_of = ""
        self.pausing: BackoffOver | None = None
        self.pause = 0.0

    @initialize(data=st.data(), tls=st.booleans())
    def go_some_way(self, data: st.DataObject, *, tls: bool) -> None:
        self.question = data.draw(st.sampled_from(self.questions))
        self.tls = tls
        self.machine: LookupMachine = self.machine_class(
            self.question, tls=tls, backoff=Backoff(lambda: 0.0), timeout=TIMEOUT
        )
        for _ in range(data.draw(st.sampled_from(self.starts))):
            self.advance()

    @property
    def state(self) -> Any:
        return self.machine.state

    # What the lookup does.

    def tell(self, event: Any) -> list[Any]:
        self.event = event
        self.pausing = None if event is self.pausing else self.pausing
        before = self.question.SerializeToString()
        effects = self.machine.handle(event, self.now)
        assert self.question.SerializeToString() == before, "the caller's own question was changed"
        for effect in effects:
            self.perform(effect)
        return effects

    def meet(self, event: Any, outcome: Outcome) -> None:
        """Let something happen that the lookup waits for, unless it has ended by now."""
        expected: frozenset[type] = frozenset() if self.ended else outcome.effects
        if outcome is PAUSE:
            self.way, self.redirects = (SERVICE_URL, False), 0
        effects = self.tell(event)
        kinds: set[type] = {type(effect) for effect in effects}
        assert kinds == expected, f"had to {outcome.name}"

    def perform(self, effect: Any) -> None:
        assert not self.ended or isinstance(effect, (ReleaseLookupPermit, Found, NotFound)), (
            "did something after the end"
        )
        match effect:
            case AcquireLookupPermit():
                assert not self.in_line, "in line twice"
                self.in_line = True
            case ReleaseLookupPermit():
                assert self.in_line, "released a permit that it had not"
                self.in_line = self.begun = False
                self.permits = 0
            case AttachTo() | SendLookup():
                self.ask(effect)
            case StartTimer(timer, delay):
                self.timers.append((self.now + delay, timer))
                self.note_pause(timer, delay)
            case AttemptFailed(error):
                self.told_of = str(error)
            case Found() | NotFound():
                assert not self.ended, "ended twice"
                self.ended = 1
                self.hear(effect)
            case _:
                pass

    def ask(self, effect: AttachTo | SendLookup) -> None:
        assert self.permits, "asked without a permit"
        assert not self.attaching, "does two things at once"
        assert not self.asked, "does two things at once"
        target, authoritative = self.way
        if isinstance(effect, AttachTo):
            assert self.redirects <= 20, "followed more than twenty redirects"
            assert effect.target == target, "went to another broker"
            self.attaching = True
        else:
            expected = type(self.question)()
            expected.CopyFrom(self.question)
            if isinstance(expected, CommandLookupTopic):
                assert effect.command.authoritative == authoritative, "asked with another flag than the broker's"
                expected.authoritative = authoritative
            assert effect.command == expected, "asked something else"
            assert 0 <= effect.timeout <= max(0.0, self.deadline - self.now), "asked beyond its timeout"
            self.asked = True

    def note_pause(self, timer: Any, delay: float) -> None:
        if isinstance(timer, BackoffOver):
            assert delay > self.pause, "pauses that do not grow"
            self.pause, self.pausing = delay, timer

    def hear(self, effect: Found | NotFound) -> None:
        """Be the caller."""
        if isinstance(effect, Found):
            assert type(effect.command) is type(good_answer(self.question)), "took the answer to another question"
            assert effect.command is self.event.command, "another answer than the broker's"
            is_topic = self.question is TOPIC
            assert effect.target == (self.named(effect.command) if is_topic else None), "another broker than was named"
        elif isinstance(self.event, LookupRefused):
            assert effect.error is self.event.error, "another error than what happened"
        elif isinstance(self.event, OperationTimedOut):
            assert self.now >= self.deadline, "gave up too early"
            assert isinstance(effect.error, Timeout), "not told that time was up"
            assert self.failure in str(effect.error), "forgot what went wrong"
        elif isinstance(self.event, Cancel):
            assert isinstance(effect.error, AlreadyClosed), "not told that it was cancelled"

    def named(self, answer: CommandLookupTopicResponse) -> LookupTarget:
        broker = answer.brokerServiceUrlTls if self.tls else answer.brokerServiceUrl
        return LookupTarget(broker, None if answer.proxy_through_service_url else broker)

    # What happens to it.

    @rule()
    def go_on(self) -> None:
        self.advance()

    def advance(self) -> None:
        """Let the next step towards asking go well."""
        if self.state is State.IDLE:
            self.deadline = self.now + TIMEOUT
            self.tell(Enqueue())
        elif self.in_line and not self.begun:
            self.take_turn()
        elif self.attaching:
            self.answer_attach(None)
        elif self.pausing is not None:
            self.now = max(self.now, *(at for at, timer in self.timers if timer is self.pausing))
            self.wake_up()

    @precondition(lambda self: self.in_line and not self.begun)
    @rule()
    def permit_is_granted(self) -> None:
        self.take_turn()

    def take_turn(self) -> None:
        self.begun = True
        self.permits = 1
        self.tell(LookupPermitGranted())

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0, 30.0]), asleep=st.sampled_from([False, False, False, True]))
    def time_passes(self, seconds: float, *, asleep: bool) -> None:
        """Let time pass; a loop that is busy elsewhere finds out later."""
        self.now += seconds
        if not asleep:
            self.wake_up()

    def wake_up(self) -> None:
        while due := [timer for timer in self.timers if timer[0] <= self.now]:
            first = min(due, key=lambda timer: timer[0])
            self.timers.remove(first)
            self.tell(first[1])
        assert self.ended or self.state is State.IDLE or self.now < self.deadline, "ran past its timeout"

    @precondition(lambda self: self.state is not State.IDLE)
    @rule(really=st.sampled_from([False] * 5 + [True]))
    def cancel(self, *, really: bool) -> None:
        if really:
            self.lose_interest()

    def lose_interest(self) -> None:
        self.tell(Cancel())
        assert self.ended, "not to be cancelled"

    # What connections and brokers do.

    @precondition(lambda self: self.attaching)
    @rule(error=st.sampled_from([None, None, None, *WILL_PASS, *WILL_NOT_PASS]))
    def attach(self, error: Any) -> None:
        self.answer_attach(error)

    def answer_attach(self, error: Any) -> None:
        self.attaching = False
        if error is None:
            self.meet(LookupAttached(), ASK)
        else:
            self.go_wrong(LookupRefused(error), str(error), passes=error in WILL_PASS)

    def go_wrong(self, event: Any, failure: str, *, passes: bool) -> None:
        if not self.failure or self.now < self.deadline:  # or it is want of time, which says less than what was before
            self.failure = failure
        self.meet(event, PAUSE if passes else FAIL)
        assert self.ended or self.told_of == self.failure, "did not tell what went wrong last"

    @precondition(lambda self: self.asked and self.question is TOPIC)
    @rule(broker=st.sampled_from("abc"), authoritative=st.booleans(), proxy=st.booleans(), reached=st.booleans())
    def redirect(self, broker: str, *, authoritative: bool, proxy: bool, reached: bool) -> None:
        self.follow(topic_answer("Redirect", broker, authoritative=authoritative, proxy_through_service_url=proxy))
        if reached and self.attaching:
            self.answer_attach(None)

    def follow(self, answer: CommandLookupTopicResponse) -> None:
        self.asked = False
        self.way = (self.named(answer), answer.authoritative)
        self.redirects += 1
        self.meet(LookupAnswered(answer), FOLLOW if self.redirects <= 20 else FAIL)

    @precondition(lambda self: self.asked and self.question is TOPIC)
    @rule(times=st.integers(18, 22), authoritative=st.booleans())
    def redirect_in_circles(self, times: int, *, authoritative: bool) -> None:
        for _ in range(times):
            if self.asked and not self.ended:
                self.follow(topic_answer("Redirect", authoritative=authoritative))
            if self.attaching:
                self.answer_attach(None)

    @precondition(lambda self: self.asked)
    @rule(scheme=st.sampled_from(["http", "https", "pulsar", ""]), times=st.sampled_from([1, 1, 1, 22]))
    def redirect_over_http(self, scheme: str, times: int) -> None:
        for _ in range(times):
            if self.asked and not self.ended:
                self.follow_address(f"{scheme}://b:8080/lookup?authoritative=true")
            if self.attaching:
                self.answer_attach(None)

    def follow_address(self, url: str) -> None:
        self.asked = False
        self.way = (LookupTarget(url, url), self.way[1])
        allowed = ("https:",) if self.tls else ("http:", "https:")
        follows = url.startswith(allowed) and self.redirects < 20
        self.redirects += follows
        self.meet(Redirected(url), FOLLOW if follows else FAIL)

    @precondition(lambda self: self.state is not State.IDLE)
    @rule(tls=st.booleans())
    def move(self, *, tls: bool) -> None:
        """Have the service URL lead elsewhere."""
        self.tls = tls
        self.attaching = self.asked = False
        rested, self.pausing = self.pausing is not None, None
        self.way, self.redirects = (SERVICE_URL, False), 0
        effects = self.tell(ServiceChanged(tls))
        again: list[type] = [AttachTo] if self.begun else [AcquireLookupPermit] if rested else []
        assert [type(effect) for effect in effects] == ([] if self.ended else again), "did not start over"

    @precondition(lambda self: self.asked)
    @rule(proxy=st.booleans())
    def answer(self, *, proxy: bool) -> None:
        self.asked = False
        self.meet(LookupAnswered(good_answer(self.question, proxy=proxy)), FIND)

    @precondition(lambda self: self.asked)
    @rule(code=st.sampled_from([*PASSING_CODES, *LASTING_CODES]))
    def refuse(self, code: "ServerError.ValueType") -> None:
        self.asked = False
        self.go_wrong(refusal(self.question, code), f"{ServerError.Name(code)}: no", passes=code in PASSING_CODES)

    @precondition(lambda self: self.asked)
    @rule(error=st.sampled_from([*WILL_PASS, *WILL_NOT_PASS]))
    def give_no_answer(self, error: Any) -> None:
        self.asked = False
        self.go_wrong(LookupRefused(error), str(error), passes=error in WILL_PASS)

    @precondition(lambda self: self.asked)
    @rule(code=st.sampled_from([*PASSING_CODES, *LASTING_CODES]))
    def refuse_as_a_proxy_does(self, code: "ServerError.ValueType") -> None:
        """Refuse whatever it is as if a topic had been asked for."""
        self.asked = False
        self.go_wrong(refusal(TOPIC, code), f"{ServerError.Name(code)}: no", passes=code in PASSING_CODES)

    @precondition(lambda self: self.asked)
    @rule(kind=st.sampled_from(["Connect", "Redirect", "another"]))
    def answer_nonsense(self, kind: str) -> None:
        """Answer another question, or send the asker to a broker without an address."""
        self.asked = False
        another = good_answer(PARTITIONS if self.question is TOPIC else TOPIC)
        nameless = self.question is TOPIC and kind != "another"
        self.meet(LookupAnswered(topic_answer(kind, "") if nameless else another), FAIL)

    @precondition(lambda self: self.asked and self.question is PARTITIONS)
    @rule(too_many=st.integers(MAX_PARTITIONS + 1, 2**32 - 1))
    def claim_partitions(self, too_many: int) -> None:
        self.asked = False
        self.meet(LookupAnswered(CommandPartitionedTopicMetadataResponse(request_id=0, partitions=too_many)), FAIL)

    @rule(event=st.sampled_from([*LATE, LookupAnswered(good_answer(TOPIC))]))
    def speak_unasked(self, event: Any) -> None:
        is_waited_for = (self.attaching and isinstance(event, LookupAttached | LookupRefused)) or (
            self.asked and isinstance(event, LookupAnswered | LookupRefused | Redirected)
        )
        if not is_waited_for:
            assert self.tell(event) == [], "listened to what it had not asked for"

    # What holds all the time.

    @invariant()
    def it_ends_once(self) -> None:
        assert self.ended == (self.state in FINAL), "ended, or not, against what was said"

    @invariant()
    def it_has_a_turn_for_as_long_as_it_needs_one(self) -> None:
        assert not (self.ended and self.permits), "kept its permit after the end"
        assert not (self.ended and self.in_line), "kept its place after the end"
        assert self.ended or self.permits == self.begun, "released its permit before the end"

    @invariant()
    def it_waits_for_exactly_one_thing(self) -> None:
        waits = [self.in_line and not self.begun, self.attaching, self.asked, self.pausing is not None]
        assert self.ended or self.state is State.IDLE or any(waits), "waits for nothing"
        assert self.ended or sum(waits) <= 1, "waits for two things at once"

    def teardown(self) -> None:
        """Bring any run to its end, unless it has broken a promise already."""
        if sys.exc_info()[0] is None:
            if self.state is not State.IDLE:
                self.lose_interest()
            self.it_ends_once()
            self.it_has_a_turn_for_as_long_as_it_needs_one()


MODEL = settings(max_examples=100, stateful_step_count=25)
HUNT = hunting(MODEL)


def test_every_promise_of_a_lookup_holds() -> None:
    run_state_machine_as_test(AnyLookup, settings=MODEL)


def find_twice(self: LookupMachine, event: LookupAnswered, now: float) -> list[Any]:
    effects = [*self.end_with_answer(event, now)]
    return [*effects, effects[-1]]


def wait_without_a_clock(self: LookupMachine, event: Enqueue, now: float) -> list[Any]:
    return [*self.request_permit(event, now)][1:]


def back_off_as_before(self: Any, event: LookupRefused, now: float) -> list[Any]:
    self._backoff.reset()
    return [*self.back_off(event, now)]


def back_off_and_forget(self: Any, event: LookupRefused, now: float) -> list[Any]:
    effects = self.back_off(event, now)
    self._last_error = event.error
    return [*effects]


def back_off_silently(self: Any, event: LookupRefused, now: float) -> list[Any]:
    return [effect for effect in self.back_off(event, now) if not isinstance(effect, AttemptFailed)]


def send_without_authority(self: Any, event: LookupAttached, now: float) -> list[Any]:
    self._authoritative = False
    return [*self.send_request(event, now)]


def send_with_authority(self: Any, event: LookupAttached, now: float) -> list[Any]:
    self._authoritative = True
    return [*self.send_request(event, now)]


def send_with_full_timeout(self: LookupMachine, event: LookupAttached, now: float) -> list[Any]:
    return [
        effect._replace(timeout=TIMEOUT) for effect in self.send_request(event, now) if isinstance(effect, SendLookup)
    ]


def resume_at_once(self: Any, event: BackoffOver, now: float) -> list[Any]:
    return [AttachTo(SERVICE_URL)]


def time_out_and_keep_the_permit(self: Any, event: OperationTimedOut, now: float) -> list[Any]:
    return [*self.time_out(event, now)][1:]


def cancel_and_keep_the_place(self: Any, event: Cancel, now: float) -> list[Any]:
    return [*self.cancel(event, now)][1:]


def redirect_to_service_url(self: Any, event: Redirected, now: float) -> list[Any]:
    return [AttachTo(SERVICE_URL)]


FURTHER: dict[str, Callable[..., Any]] = {
    method.__name__: method
    for method in (
        find_twice,
        wait_without_a_clock,
        back_off_as_before,
        back_off_and_forget,
        back_off_silently,
        send_without_authority,
        send_with_authority,
        send_with_full_timeout,
        resume_at_once,
        redirect_to_service_url,
        time_out_and_keep_the_permit,
        cancel_and_keep_the_place,
    )
}


# fmt: off
FAULTS = [
    # It ends once.
    fault(LookupAnswered, State.ASKING, "end_with_answer", {"does": "find_twice"},
          "ended twice", "answer"),
    fault(LookupRefused, State.ASKING, "fail", {"does": "back_off"},
          "had to fail", "give_no_answer"),
    fault(Cancel, State.ASKING, "cancel", {"does": None},
          "not to be cancelled", "cancel"),
    fault(LookupAnswered, State.ASKING, "reject_wrong_answer", {"dest": State.DONE, "does": "end_with_answer"},
          "took the answer to another question", "answer_nonsense"),
    fault(LookupAnswered, State.ASKING, "fail_refused", {"dest": State.DONE, "does": "end_with_answer"},
          "had to fail", "refuse"),
    # Its permit is released once.
    fault(OperationTimedOut, State.ASKING, "time_out", {"does": "time_out_and_keep_the_permit"},
          "kept its permit after the end", "time_passes"),
    fault(Cancel, State.QUEUED, "cancel", {"does": "cancel_and_keep_the_place"},
          "kept its (permit|place) after the end", "cancel"),
    fault(LookupAttached, State.ATTACHING, "send_request", {"does": None},
          "had to ask", "attach"),
    # Redirects.
    fault(LookupAnswered, State.ASKING, "fail_too_many_redirects", {"dest": State.ATTACHING, "does": "follow_redirect"},
          "more than twenty redirects", "redirect_in_circles"),
    fault(LookupAnswered, State.ASKING, "follow_redirect", {"does": "start_at_service_url"},
          "went to another broker", "redirect"),
    fault(LookupAnswered, State.ASKING, "reject_missing_broker", {"dest": State.ATTACHING, "does": "follow_redirect"},
          "went to another broker|had to fail", "answer_nonsense"),
    fault(LookupAnswered, State.ASKING, "reject_partition_count", {"dest": State.DONE, "does": "end_with_answer"},
          "had to fail", "claim_partitions"),
    fault(LookupAttached, State.ATTACHING, "send_request", {"does": "send_without_authority"},
          "another flag than the broker's", "redirect", "attach"),
    fault(LookupAttached, State.ATTACHING, "send_request", {"does": "send_with_authority"},
          "another flag than the broker's", "attach"),
    fault(Redirected, State.ASKING, "fail_too_many_redirects",
          {"dest": State.ATTACHING, "does": "follow_redirect_address"},
          "had to fail", "redirect_over_http"),
    fault(Redirected, State.ASKING, "reject_unsafe_redirect",
          {"dest": State.ATTACHING, "does": "follow_redirect_address"},
          "had to fail", "redirect_over_http", "move"),
    fault(Redirected, State.ASKING, "follow_redirect_address", {"does": "redirect_to_service_url"},
          "went to another broker", "redirect_over_http"),
    # The service URL leads elsewhere.
    fault(ServiceChanged, State.ASKING, "restart", {"dest": INTERNAL, "does": "note_tls"},
          "did not start over", "move"),
    fault(ServiceChanged, State.QUEUED, "note_tls", {"does": None},
          "another broker than was named|had to", "move", "answer", "redirect_over_http"),
    # What may pass.
    fault(LookupRefused, State.ATTACHING, "back_off", {"dest": State.FAILED, "does": "fail"},
          "had to pause", "attach"),
    fault(LookupRefused, State.ASKING, "back_off", {"does": None},
          "had to pause", "give_no_answer"),
    fault(LookupRefused, State.ASKING, "back_off", {"does": "back_off_as_before"},
          "pauses that do not grow", "give_no_answer"),
    fault(LookupRefused, State.ASKING, "back_off", {"does": "back_off_silently"},
          "had to pause", "give_no_answer"),
    fault(LookupRefused, State.ASKING, "back_off", {"does": "back_off_and_forget"},
          "forgot what went wrong", "give_no_answer", "time_passes"),
    fault(BackoffOver, State.WAITING, "request_permit_again", {"does": "resume_at_once"},
          "asked without a permit", "give_no_answer"),
    fault(BackoffOver, State.WAITING, "request_permit_again", {"does": None},
          "waits for nothing", "give_no_answer"),
    # The end is the end, and comes in time.
    fault(LookupRefused, State.DONE, None, {"does": "back_off"},
          "did something after the end|listened to what", "answer", "speak_unasked"),
    fault(Cancel, State.DONE, None, {"does": "cancel"},
          "a permit that it had not", "answer", "cancel"),
    fault(OperationTimedOut, State.DONE, None, {"does": "time_out"},
          "a permit that it had not", "answer", "time_passes"),
    fault(LookupAnswered, State.ATTACHING, None, {"does": "end_with_answer"},
          "listened to what|took|ended", "speak_unasked"),
    fault(ServiceChanged, State.DONE, None, {"does": "restart"},
          "did something after the end", "answer", "move"),
    fault(Enqueue, State.IDLE, "request_permit", {"does": "wait_without_a_clock"},
          "ran past its timeout", "time_passes"),
    fault(OperationTimedOut, State.QUEUED, "time_out", {"dest": INTERNAL, "does": None},
          "ran past its timeout", "time_passes"),
    fault(OperationTimedOut, State.WAITING, "time_out_without_permit", {"dest": INTERNAL, "does": None},
          "ran past its timeout", "give_no_answer", "time_passes"),
    fault(OperationTimedOut, State.WAITING, "time_out_without_permit", {"does": "time_out"},
          "a permit that it had not", "give_no_answer", "time_passes"),
    fault(OperationTimedOut, State.WAITING, "time_out_without_permit", {"does": "cancel_without_permit"},
          "not told that time was up", "give_no_answer", "time_passes"),
    fault(LookupAttached, State.ATTACHING, "send_request", {"does": "send_with_full_timeout"},
          "asked beyond its timeout", "time_passes", "attach"),
]
# fmt: on
STEPS_TO: dict[Any, int] = {State.IDLE: 0, State.QUEUED: 1, State.FAILED: 1, State.ATTACHING: 2}


def marked(fault: Fault) -> Any:
    """Set apart what takes thousands of runs to be found, half a minute with bad luck."""
    takes_long = fault.changed.get("does") == "back_off_and_forget"
    return pytest.param(fault, marks=[pytest.mark.long] * takes_long)


@pytest.mark.parametrize("fault", [marked(fault) for fault in FAULTS], ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    never_stuck = fault._replace(rules=fault.rules | {"go_on"})  # most of the others wait for something
    Hunt(CHART, LookupMachine, AnyLookup, FURTHER, HUNT).find_out(never_stuck, STEPS_TO.get(fault.state, 3))
