from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    ConnectError,
    InvalidArgument,
    Timeout,
    UnsupportedVersionError,
)
from pulsar_actors.machines.connection import State
from pulsar_actors.machines.connection_events import (
    Answered,
    BrokerAccepted,
    CloseGracefully,
    Connected,
    ConnectionOver,
    Dial,
    GiveReply,
    Refused,
    RequestsDue,
    SendRequest,
    SocketLost,
    TcpOpened,
    Unawaited,
    WriteCommand,
)
from pulsar_actors.machines.connection_requests import (
    CHART,
    NO_REQUEST,
    SINCE,
    ConnectionRequests,
    PendingRequests,
    objection_to,
)
from pulsar_actors.machines.connection_requests import State as RequestsState
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.wire.frames import DEFAULT_FRAME_LIMIT, encode_command, frame_limit
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConnected,
    CommandError,
    CommandGetLastMessageId,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandProducer,
    CommandProducerSuccess,
    CommandSuccess,
    ServerError,
)
from tests.machines.connection_bench import (
    CREDENTIALS,
    LOOKUP,
    ONE_HOST,
    OPENING,
    WELCOME,
    asked,
    made,
    ready,
)
from tests.machines.mutants import Fault, Hunt, fault
from tests.machines.test_connection_model import HUNT, SETTINGS, AnyConnection, always, never


@pytest.mark.parametrize("held", [True, False])
def test_the_time_for_the_answer_starts_when_the_request_is_sent(*, held: bool) -> None:
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    if held:
        driven.tell(SendRequest(LOOKUP, "token", 30.0, 5.0))
        driven.now += 9.0
        driven.tell(WELCOME)
    else:
        driven.tell(WELCOME, SendRequest(LOOKUP, "token", 30.0, 5.0))
    sent = driven.now
    driven.fire(RequestsDue)
    ((reply),) = driven.did(GiveReply)
    assert isinstance(reply.answer, Timeout)
    assert driven.now == sent + 5.0


def test_what_was_never_sent_does_not_claim_to_be_unknown() -> None:
    driven = made(ONE_HOST, SendRequest(LOOKUP, "token", 30.0), *OPENING, CREDENTIALS, SocketLost("reset"))
    (reply,) = driven.did(GiveReply)
    assert isinstance(reply.answer, ConnectError)


SMALL_BROKER = Connected(CommandConnected(server_version="x", max_message_size=1000))
ROOM = 1000 + 10 * 1024 - 64


def lookup_of(size: int) -> CommandLookupTopic:
    """Make a command of this size."""
    empty = CommandLookupTopic(topic="x" * 1000, request_id=0).ByteSize() - 1000
    return CommandLookupTopic(topic="x" * (size - empty), request_id=0)


@pytest.mark.parametrize("early", [False, True])
def test_a_command_that_the_broker_does_not_take_is_refused_and_costs_nobody_the_connection(early: bool) -> None:  # noqa: FBT001 - a case
    asks = [SendRequest(lookup_of(ROOM + 1), "large", 30.0), SendRequest(lookup_of(ROOM), "fits", 30.0)]
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(*asks, SMALL_BROKER) if early else driven.tell(SMALL_BROKER)
    effects = driven.effects if early else [effect for ask in asks for effect in driven.tell(ask)]
    (reply,) = [effect for effect in effects if isinstance(effect, GiveReply)]
    assert (reply.token, type(reply.answer)) == ("large", InvalidArgument)
    assert str(reply.answer) == (
        "CommandLookupTopic takes 11,177 bytes, and the broker takes 11,176 at most: names and properties have to be"
        " shorter"
    )
    (written,) = [effect for effect in effects if isinstance(effect, WriteCommand)]
    frame_size = len(encode_command(written.command))
    assert ROOM < frame_size <= frame_limit(1000)
    assert driven.machine.state is State.READY


@pytest.mark.parametrize("early", [False, True])
def test_a_command_that_the_broker_is_too_old_for_is_refused_with_both_versions(early: bool) -> None:  # noqa: FBT001 - a case
    last = CommandGetLastMessageId(consumer_id=1, request_id=0)
    asks = [SendRequest(last, "last", 30.0), SendRequest(LOOKUP, "lookup", 30.0)]
    old = Connected(CommandConnected(server_version="x", protocol_version=11))
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(*asks, old) if early else driven.tell(old)
    effects = driven.effects if early else [effect for ask in asks for effect in driven.tell(ask)]
    (reply,) = [effect for effect in effects if isinstance(effect, GiveReply)]
    assert (reply.token, type(reply.answer)) == ("last", UnsupportedVersionError)
    assert reply.answer.reason == (
        "CommandGetLastMessageId came with version 12 of the protocol, and the broker speaks version 11"
    )
    (written,) = [effect for effect in effects if isinstance(effect, WriteCommand)]
    assert isinstance(written.command, CommandLookupTopic)


def test_a_request_after_the_network_has_ended_the_connection_may_be_repeated_elsewhere() -> None:
    driven = ready()
    driven.tell(SocketLost("reset"))
    (reply,) = driven.tell(SendRequest(LOOKUP, "token", 30.0))
    assert (type(reply.answer), str(reply.answer)) == (ConnectError, "it was not sent: reset")


def test_what_is_asked_before_the_connection_is_ready_is_sent_once_it_is() -> None:
    driven = made(
        ONE_HOST, SendRequest(LOOKUP, "first", 30.0), *OPENING, CREDENTIALS, SendRequest(LOOKUP, "second", 30.0)
    )
    assert driven.effects == []
    driven.tell(WELCOME)
    assert [write.command.request_id for write in driven.did(WriteCommand)] == [0, 1]
    (reply,) = driven.tell(Answered(CommandLookupTopicResponse(request_id=1)))
    assert reply.token == "second"


def test_each_request_has_an_id_of_its_own_and_its_answer_finds_it() -> None:
    driven = ready()
    first, second = asked(driven, "first"), asked(driven, "second")
    assert first != second
    answer = CommandLookupTopicResponse(request_id=first)
    assert driven.tell(Answered(answer)) == [GiveReply("first", answer)]


def test_the_callers_command_is_not_changed_by_being_sent() -> None:
    driven = ready()
    asked(driven)
    asked(driven)
    assert LOOKUP.request_id == 0


def test_an_error_in_place_of_an_answer_reaches_the_request_with_the_brokers_words() -> None:
    driven = ready()
    error = CommandError(request_id=asked(driven), error=ServerError.TopicNotFound, message="no such topic")
    (reply,) = driven.tell(Refused(error))
    assert isinstance(reply.answer, BrokerRefusal)
    assert str(reply.answer) == "TopicNotFound: no such topic"


def test_a_request_is_answered_once() -> None:
    driven = ready()
    answer = Answered(CommandSuccess(request_id=asked(driven)))
    assert [type(effect) for effect in driven.tell(answer)] == [GiveReply]
    assert driven.tell(answer) == [Unawaited(answer.command)]


def test_a_request_without_an_answer_times_out_and_a_late_answer_is_dropped() -> None:
    driven = ready()
    first = asked(driven, "first", timeout=5.0)
    asked(driven, "second", timeout=8.0)
    (reply, timer) = driven.fire(RequestsDue)
    assert (reply.token, type(reply.answer)) == ("first", Timeout)
    assert timer.delay == pytest.approx(3.0)
    late = CommandSuccess(request_id=first)
    assert driven.tell(Answered(late)) == [Unawaited(late)]
    error = CommandError(request_id=first, error=ServerError.UnknownError, message="")
    assert driven.tell(Refused(error)) == [Unawaited(error)]


def test_the_time_of_a_request_runs_while_the_connection_is_being_made() -> None:
    driven = made(ONE_HOST, SendRequest(LOOKUP, "token", 5.0), Dial())
    driven.now += 4.0
    driven.tell(TcpOpened(), CREDENTIALS, WELCOME)
    assert driven.timers[RequestsDue].delay == 5.0
    driven.now += 1.0
    (reply,) = driven.tell(driven.timers[RequestsDue].event)
    assert (reply.token, type(reply.answer)) == ("token", Timeout)


def test_a_request_that_times_out_before_the_broker_accepts_is_never_sent() -> None:
    driven = made(ONE_HOST, SendRequest(LOOKUP, "late", 1.0), SendRequest(LOOKUP, "patient", 30.0), Dial())
    (reply, _) = driven.fire(RequestsDue)
    assert (reply.token, type(reply.answer)) == ("late", ConnectError)
    assert str(reply.answer) == "it was not sent: still DIALING"
    driven.tell(TcpOpened(), CREDENTIALS, WELCOME)
    assert len(driven.did(WriteCommand)) == 1


def test_a_shorter_timeout_moves_the_timer_forward() -> None:
    driven = ready()
    asked(driven, "slow", timeout=30.0)
    asked(driven, "quick", timeout=1.0)
    assert [reply.token for reply in driven.fire(RequestsDue) if isinstance(reply, GiveReply)] == ["quick"]


def test_one_timer_serves_all_requests_that_are_answered_before_it_is_due() -> None:
    driven = ready()
    first = driven.tell(SendRequest(LOOKUP, "first", 5.0))
    assert [type(effect) for effect in first] == [WriteCommand, StartTimer]
    driven.tell(Answered(CommandSuccess(request_id=first[0].command.request_id)))
    driven.now += 2.0
    assert [type(effect) for effect in driven.tell(SendRequest(LOOKUP, "second", 5.0))] == [WriteCommand]
    driven.now += 3.0
    (timer,) = driven.tell(driven.timers[RequestsDue].event)
    assert timer.delay == pytest.approx(2.0)
    (reply,) = driven.fire(RequestsDue)
    assert (reply.token, type(reply.answer)) == ("second", Timeout)


def test_a_producer_that_has_to_queue_waits_without_a_timeout_and_hears_the_end() -> None:
    driven = ready()
    producer = CommandProducer(topic="t", producer_id=1, request_id=0)
    request_id = asked(driven, "creation", timeout=5.0, command=producer)
    queued = CommandProducerSuccess(request_id=request_id, producer_name="p", producer_ready=False)
    assert driven.tell(Answered(queued)) == [GiveReply("creation", queued)]
    assert driven.fire(RequestsDue) == []
    ready_now = CommandProducerSuccess(request_id=request_id, producer_name="p")
    assert driven.tell(Answered(ready_now)) == [GiveReply("creation", ready_now)]


@pytest.mark.parametrize("ending", [(CloseGracefully(),), (CloseGracefully(), SocketLost("closed"))])
def test_what_is_asked_after_the_end_is_refused_at_once(ending: Any) -> None:
    driven = ready()
    driven.tell(*ending)
    (reply,) = driven.tell(SendRequest(LOOKUP, "late", 30.0))
    assert (reply.token, type(reply.answer)) == ("late", AlreadyClosed)


def answer_twice(self: ConnectionRequests, event: Answered, now: float) -> list[Any]:
    return [*self.give_answer(event, now)] * 2


def send_held_requests_reversed(self: ConnectionRequests, event: BrokerAccepted, now: float) -> list[Any]:
    return [*self.send_held_requests(event, now)][::-1]


def send_expired_requests(self: ConnectionRequests, event: BrokerAccepted, now: float) -> list[Any]:
    held = [command for command, _ in self._held]
    sent = self.send_held_requests(event, now)
    return [*sent, *(WriteCommand(command) for command in held if command.request_id not in self._pending)]


def expire_all(self: ConnectionRequests, event: RequestsDue, now: float) -> list[Any]:
    return [*self.expire_requests(event, now + SETTINGS.keepalive_interval)]


FURTHER = {
    method.__name__: method
    for method in (always, never, answer_twice, send_held_requests_reversed, send_expired_requests, expire_all)
}
STEPS_TO: dict[Any, int] = {RequestsState.WAITING: 4, RequestsState.OPEN: 5, RequestsState.OVER: 5}


# fmt: off
FAULTS = [
    fault(Answered, RequestsState.OPEN, "give_answer", {"does": "answer_twice"},
          "answered more than once", "ask", "answer"),
    fault(Answered, RequestsState.OPEN, "give_answer", {"guard": "always"},
          "nobody waits for", "answer"),
    fault(Refused, RequestsState.OPEN, "give_refusal", {"guard": "never"},
          "an answer was lost", "ask", "answer"),
    fault(Answered, RequestsState.OPEN, "give_queued_answer", {"does": "give_answer"},
          "an answer was lost|asked but not answered", "ask", "answer"),
    fault(SendRequest, RequestsState.OVER, "reject_request", {"does": None},
          "asked but not answered", "ask", "close"),
    fault(SendRequest, RequestsState.WAITING, "hold_request", {"does": None},
          "asked but not answered", "ask", "close"),
    fault(BrokerAccepted, RequestsState.WAITING, "send_held_requests", {"does": None},
          "asked and not sent", "ask", "go_on"),
    fault(BrokerAccepted, RequestsState.WAITING, "send_held_requests", {"does": "send_held_requests_reversed"},
          "asked out of order", "ask", "go_on"),
    fault(SendRequest, RequestsState.WAITING, "hold_request", {"does": "write_request"},
          "before the broker accepted", "ask"),
    fault(RequestsDue, RequestsState.WAITING, "expire_held_requests", {"does": None},
          "waited beyond the timeout", "ask", "time_passes"),
    fault(BrokerAccepted, RequestsState.WAITING, "send_held_requests", {"does": "send_expired_requests"},
          "asked after it was given up", "ask", "time_passes", "go_on"),
    fault(RequestsDue, RequestsState.OPEN, "expire_requests", {"does": None},
          "waited beyond the timeout", "ask", "time_passes"),
    fault(RequestsDue, RequestsState.OPEN, "expire_requests", {"does": "expire_all"},
          "given up too early", "ask", "time_passes"),
    fault(SendRequest, RequestsState.OVER, "reject_request", {"does": "write_request"},
          "did something after the end", "ask", "close"),
    fault(ConnectionOver, RequestsState.OPEN, "fail_requests", {"does": None},
          "asked but not answered", "ask"),
    fault(Refused, RequestsState.OPEN, None, {"guard": "never"},
          "reported as an answer to no request", "disown"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    Hunt(CHART, ConnectionRequests, AnyConnection, FURTHER, HUNT, "requests_class").find_out(
        fault, STEPS_TO[fault.state]
    )


def test_ids_start_at_0_and_are_not_used_twice() -> None:
    requests = PendingRequests[str]()
    assert [requests.track("q", 1.0) for _ in range(3)] == [0, 1, 2]
    assert requests.resolve(2) == "q"
    assert requests.track("q", 1.0) == 3


def test_an_answer_to_a_timed_out_or_unknown_request_is_dropped() -> None:
    requests = PendingRequests[str]()
    late = requests.track("late", 1.0)
    assert requests.expire(1.0) == ["late"]
    assert requests.resolve(late) is None
    assert requests.resolve(77) is None


def test_a_second_answer_is_dropped() -> None:
    requests = PendingRequests[str]()
    only = requests.track("only", 1.0)
    assert only in requests
    assert requests.resolve(only) == "only"
    assert only not in requests
    assert requests.resolve(only) is None


def test_the_id_that_wants_no_answer_is_never_handed_out_nor_answered() -> None:
    requests = PendingRequests[str]()
    requests.track("first", 9.0)
    requests._next = NO_REQUEST - 1
    assert requests.track("last", 9.0) == NO_REQUEST - 1
    assert requests.resolve(NO_REQUEST) is None
    assert requests.track("wrapped", 9.0) == 1


def test_a_queued_request_outlives_its_deadline() -> None:
    requests = PendingRequests[str]()
    patient = requests.track("patient", 1.0)
    assert requests.drop_deadline(patient) == "patient"
    assert requests.next_deadline() is None
    assert requests.expire(100.0) == []
    assert requests.resolve(patient) == "patient"
    assert requests.drop_deadline(patient) is None


def test_the_end_of_a_connection_ends_every_request_in_the_order_asked() -> None:
    requests = PendingRequests[str]()
    for token, deadline in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        requests.track(token, deadline)
    assert requests.drain() == ["a", "b", "c"]
    assert len(requests) == 0
    assert requests.next_deadline() is None


class EveryRequestEndsOnce(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.requests = PendingRequests[int]()
        self.model: dict[int, tuple[int, float]] = {}
        self.now = 0.0
        self.asked = 0

    @rule(patience=st.integers(0, 5))
    def ask(self, patience: int) -> None:
        self.asked += 1
        request_id = self.requests.track(self.asked, self.now + patience)
        assert request_id not in self.model
        self.model[request_id] = (self.asked, self.now + patience)

    @rule(request_id=st.integers(0, 30))
    def answer(self, request_id: int) -> None:
        token, _ = self.model.pop(request_id, (None, 0))
        assert self.requests.resolve(request_id) == token

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def queue(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.model)))
        token, _ = self.model[request_id]
        assert self.requests.drop_deadline(request_id) == token
        self.model[request_id] = (token, float("inf"))

    @rule(seconds=st.integers(0, 4))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        late = [(deadline, key) for key, (_, deadline) in self.model.items() if deadline <= self.now]
        assert self.requests.expire(self.now) == [self.model.pop(key)[0] for _, key in sorted(late)]

    @invariant()
    def the_next_deadline_is_the_earliest(self) -> None:
        finite = [deadline for _, deadline in self.model.values() if deadline != float("inf")]
        assert self.requests.next_deadline() == min(finite, default=None)
        assert len(self.requests) == len(self.model)


TestEveryRequestEndsOnce = EveryRequestEndsOnce.TestCase
TestEveryRequestEndsOnce.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("kind", SINCE)
def test_a_request_is_for_brokers_that_speak_its_version_or_a_later_one(kind: type[Message]) -> None:
    since = SINCE[kind]
    assert isinstance(objection_to(kind(), DEFAULT_FRAME_LIMIT, since - 1), UnsupportedVersionError)
    assert objection_to(kind(), DEFAULT_FRAME_LIMIT, since) is None
    assert objection_to(kind(), DEFAULT_FRAME_LIMIT, since + 1) is None


def test_what_every_client_needs_is_for_all_brokers() -> None:
    assert objection_to(CommandLookupTopic(), DEFAULT_FRAME_LIMIT, 0) is None
