import pytest
from google.protobuf.message import Message
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pulsar_actors.exceptions import UnsupportedVersionError
from pulsar_actors.machines.pending_requests import NO_REQUEST, SINCE, PendingRequests, objection_to
from pulsar_actors.wire.frames import DEFAULT_FRAME_LIMIT
from pulsar_actors.wire.PulsarApi_pb2 import CommandLookupTopic


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
