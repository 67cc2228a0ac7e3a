from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    AuthorizationError,
    BrokerRefusal,
    CertificateRefused,
    ConnectError,
    ConnectionLost,
    InvalidArgument,
    LimitReached,
    Misdirected,
    Timeout,
)
from pulsar_actors.machines.lookup import MAX_REDIRECTS, LookupLimiter, LookupMachine, LookupPermit, State
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
    LookupPermitDenied,
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
from tests.machines.driven import Driven

SERVICE_URL = LookupTarget(None, None)
TOPIC = CommandLookupTopic(topic="t", request_id=0)
PARTITIONS = CommandPartitionedTopicMetadata(topic="t", request_id=0)
TOPICS = CommandGetTopicsOfNamespace(namespace="n", request_id=0)
SCHEMA = CommandGetSchema(topic="t", request_id=0)


class Asked(Driven):
    """A lookup that was asked for."""

    def __init__(self, question: Any = TOPIC, *, tls: bool = False, began: bool = True) -> None:
        permit = (LookupPermitGranted(), LookupAttached()) if began else ()
        super().__init__(
            LookupMachine(question, tls=tls, backoff=Backoff(lambda: 0.0), timeout=30.0), Enqueue(), *permit
        )

    def error(self) -> Exception:
        (lost,) = self.did(NotFound)
        return lost.error


def answer(kind: str, *, broker: str = "pulsar://b:6650", **fields: Any) -> LookupAnswered:
    response = CommandLookupTopicResponse.LookupType.Value(kind)
    return LookupAnswered(
        CommandLookupTopicResponse(request_id=0, response=response, brokerServiceUrl=broker, **fields)
    )


def test_a_lookup_waits_for_its_turn_and_then_asks_at_the_service_url() -> None:
    driven = Asked(began=False)
    assert driven.effects[1:] == [AcquireLookupPermit()]
    assert driven.tell(LookupPermitGranted()) == [AttachTo(SERVICE_URL)]
    (inquire,) = driven.tell(LookupAttached())
    assert isinstance(inquire, SendLookup)
    assert (inquire.command.topic, inquire.timeout) == ("t", 30.0)
    assert not inquire.command.authoritative


def test_the_brokers_answer_ends_it_and_gives_the_turn_to_the_next() -> None:
    connect = answer("Connect")
    driven = Asked()
    broker = LookupTarget("pulsar://b:6650", "pulsar://b:6650")
    assert driven.tell(connect) == [ReleaseLookupPermit(), Found(connect.command, broker)]
    assert driven.machine.state is State.DONE


@pytest.mark.shows("Command LookupTopicResponse", "proxy_through_service_url")
def test_behind_a_proxy_the_logical_broker_is_reached_at_the_service_url() -> None:
    _, found = Asked().tell(answer("Connect", proxy_through_service_url=True))
    assert found.target == LookupTarget(logical="pulsar://b:6650", physical=None)


def test_a_proxy_that_speaks_tls_may_know_its_brokers_by_their_plain_addresses() -> None:
    """They are dialled by the proxy alone; the client goes to the service URL."""
    plain = "pulsar://b:6650"
    _, found = Asked(tls=True).tell(answer("Connect", brokerServiceUrlTls=plain, proxy_through_service_url=True))
    assert found.target == LookupTarget(logical=plain, physical=None)


@pytest.mark.shows("Command LookupTopicResponse", "brokerServiceUrlTls")
def test_with_tls_the_tls_address_counts() -> None:
    _, found = Asked(tls=True).tell(answer("Connect", brokerServiceUrlTls="pulsar+ssl://b:6651"))
    assert found.target.physical == "pulsar+ssl://b:6651"


@pytest.mark.shows("Topic lookup", "authoritative")
@pytest.mark.shows("Command LookupTopicResponse", "Redirect", "authoritative")
@pytest.mark.parametrize("authoritative", [False, True])
def test_a_redirect_is_followed_with_the_flag_that_it_carries(*, authoritative: bool) -> None:
    driven = Asked()
    driven.tell(answer("Redirect", authoritative=authoritative))
    assert driven.effects == [AttachTo(LookupTarget("pulsar://b:6650", "pulsar://b:6650"))]
    (inquire,) = driven.tell(LookupAttached())
    assert inquire.command.authoritative is authoritative


def test_twenty_redirects_are_followed_and_the_next_fails_for_good() -> None:
    driven = Asked()
    for _ in range(MAX_REDIRECTS):
        driven.tell(answer("Redirect"), LookupAttached())
    assert driven.machine.state is State.ASKING
    driven.tell(answer("Redirect"))
    assert driven.machine.state is State.FAILED
    assert str(driven.error()) == "redirected more than 20 times: the brokers disagree"


def test_the_answer_after_twenty_redirects_is_taken() -> None:
    driven = Asked()
    for _ in range(MAX_REDIRECTS):
        driven.tell(answer("Redirect"), LookupAttached())
    driven.tell(answer("Connect"))
    assert driven.machine.state is State.DONE


@pytest.mark.parametrize(
    "failure",
    [
        answer("Failed", error=ServerError.ServiceNotReady, message="later"),
        LookupRefused(BrokerRefusal("TooManyRequests", "later")),
        LookupRefused(ConnectionLost("reset")),
        LookupRefused(Timeout("slow")),
    ],
)
def test_what_may_pass_is_asked_again_from_the_service_url_without_authority(failure: Any) -> None:
    driven = Asked()
    driven.tell(answer("Redirect", authoritative=True), LookupAttached(), failure)
    assert driven.machine.state is State.WAITING
    assert driven.fire(BackoffOver) == [AcquireLookupPermit()]
    assert driven.tell(LookupPermitGranted()) == [AttachTo(SERVICE_URL)]
    (inquire,) = driven.tell(LookupAttached())
    assert not inquire.command.authoritative


def test_the_last_of_several_hosts_may_take_all_the_time_that_is_left() -> None:
    driven = Asked(began=False)
    for half in (True, True, False, False):
        driven.tell(LookupPermitGranted())
        (inquire,) = driven.tell(LookupAttached(hosts=3))
        assert inquire.answer_within == (inquire.timeout / 2 if half else inquire.timeout)
        driven.tell(LookupRefused(Timeout("slow")))
        driven.fire(BackoffOver)


def test_each_wait_is_longer_than_the_one_before() -> None:
    driven = Asked()
    delays = []
    for _ in range(4):
        driven.tell(LookupRefused(ConnectionLost("reset")))
        delays.append(driven.timers[BackoffOver].delay)
        driven.fire(BackoffOver)
        driven.tell(LookupPermitGranted(), LookupAttached())
    assert delays == [0.1, 0.2, 0.4, 0.8]


def test_a_new_walk_may_be_redirected_twenty_times_again() -> None:
    driven = Asked()
    for _ in range(MAX_REDIRECTS):
        driven.tell(answer("Redirect"), LookupAttached())
    driven.tell(LookupRefused(ConnectionLost("reset")))
    driven.fire(BackoffOver)
    driven.tell(LookupPermitGranted(), LookupAttached(), answer("Redirect"))
    assert driven.machine.state is State.ATTACHING


def test_a_broker_that_can_not_be_reached_is_tried_again() -> None:
    driven = Asked(began=False)
    driven.tell(LookupPermitGranted(), LookupRefused(ConnectError("refused")))
    assert driven.machine.state is State.WAITING


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationError("AuthenticationError", "no"),
        CertificateRefused("expired"),
        AlreadyClosed("closed"),
        InvalidArgument("bad"),
    ],
)
def test_what_will_not_pass_fails_at_once(error: Any) -> None:
    reaching, asking = Asked(began=False), Asked()
    reaching.tell(LookupPermitGranted(), LookupRefused(error))
    asking.tell(LookupRefused(error))
    for driven in (reaching, asking):
        assert driven.effects == [ReleaseLookupPermit(), NotFound(error)]


@pytest.mark.parametrize(
    ("question", "refusal"),
    [
        (TOPIC, answer("Failed", error=ServerError.TopicNotFound, message="gone")),
        (
            PARTITIONS,
            LookupAnswered(
                CommandPartitionedTopicMetadataResponse(
                    request_id=0,
                    response=CommandPartitionedTopicMetadataResponse.Failed,
                    error=ServerError.TopicNotFound,
                    message="gone",
                )
            ),
        ),
        (
            SCHEMA,
            LookupAnswered(
                CommandGetSchemaResponse(request_id=0, error_code=ServerError.TopicNotFound, error_message="gone")
            ),
        ),
        (TOPICS, LookupRefused(BrokerRefusal("TopicNotFound", "gone"))),
    ],
)
def test_a_refusal_for_good_ends_it_with_the_brokers_words(question: Any, refusal: Any) -> None:
    driven = Asked(question)
    driven.tell(refusal)
    assert driven.machine.state is State.FAILED
    assert str(driven.error()) == "TopicNotFound: gone"


@pytest.mark.parametrize(
    ("question", "command"),
    [
        (PARTITIONS, CommandPartitionedTopicMetadataResponse(request_id=0, partitions=4)),
        (TOPICS, CommandGetTopicsOfNamespaceResponse(request_id=0, topics=["a", "b"])),
        (SCHEMA, CommandGetSchemaResponse(request_id=0, schema_version=b"1")),
    ],
)
def test_the_other_questions_are_answered_without_an_address(question: Any, command: Any) -> None:
    assert Asked(question).tell(LookupAnswered(command)) == [ReleaseLookupPermit(), Found(command, None)]


@pytest.mark.parametrize("kind", ["Connect", "Redirect"])
@pytest.mark.parametrize("broker", ["", "nonsense", "pulsar://", "http://b:8080", "pulsar+ssl://b:6651"])
def test_an_answer_that_names_no_broker_fails_and_says_so(kind: str, broker: str) -> None:
    driven = Asked()
    driven.tell(answer(kind, broker=broker))
    assert f"brokerServiceUrl is {broker!r}" in str(driven.error())


def test_a_number_of_partitions_that_cannot_be_meant_fails_and_says_so() -> None:
    driven = Asked(PARTITIONS)
    driven.tell(LookupAnswered(CommandPartitionedTopicMetadataResponse(request_id=0, partitions=2**32 - 1)))
    assert isinstance(driven.error(), Misdirected)
    assert "4,294,967,295 partitions" in str(driven.error())


def test_an_answer_without_a_tls_address_fails_a_lookup_that_needs_one() -> None:
    driven = Asked(tls=True)
    driven.tell(answer("Connect"))
    assert "brokerServiceUrlTls is ''" in str(driven.error())


@pytest.mark.parametrize("kind", ["Connect", "Redirect"])
def test_a_lookup_that_needs_tls_is_not_led_into_the_open(kind: str) -> None:
    driven = Asked(tls=True)
    driven.tell(answer(kind, brokerServiceUrlTls="pulsar://b:6650"))
    assert "brokerServiceUrlTls is 'pulsar://b:6650'" in str(driven.error())


def test_a_lookup_that_is_turned_away_fails_without_having_asked() -> None:
    driven = Asked(began=False)
    assert [type(effect) for effect in driven.tell(LookupPermitDenied())] == [NotFound]
    assert isinstance(driven.error(), LimitReached)


def test_an_answer_to_another_question_fails_it() -> None:
    driven = Asked(PARTITIONS)
    driven.tell(answer("Connect"))
    assert "CommandPartitionedTopicMetadata with CommandLookupTopicResponse" in str(driven.error())


def test_a_proxy_that_refuses_any_question_as_if_a_topic_was_asked_for_is_understood() -> None:
    driven = Asked(PARTITIONS)
    driven.tell(answer("Failed", error=ServerError.AuthorizationError, message="no"))
    assert isinstance(driven.error(), AuthorizationError)


def test_the_operation_timeout_counts_from_the_call_and_covers_retries() -> None:
    driven = Asked()
    driven.now += 20.0
    driven.tell(LookupRefused(ConnectionLost("reset by peer")))
    driven.fire(BackoffOver)
    driven.tell(LookupPermitGranted())
    (inquire,) = driven.tell(LookupAttached())
    assert inquire.timeout == pytest.approx(9.9)


@pytest.mark.parametrize(
    ("events", "last"),
    [((), ""), ((LookupRefused(ConnectionLost("reset by peer")),), "; the last failure was: reset by peer")],
)
def test_when_time_is_up_the_error_says_what_went_wrong_last(events: Any, last: str) -> None:
    driven = Asked()
    driven.tell(*events)
    driven.fire(OperationTimedOut)
    assert isinstance(driven.error(), Timeout)
    assert str(driven.error()) == f"no broker has answered in time{last}"
    has_permit = not events
    assert (ReleaseLookupPermit() in driven.effects) == has_permit


def test_a_lookup_that_backs_off_has_no_permit_and_gives_none_back_when_it_is_cancelled() -> None:
    driven = Asked()
    driven.tell(LookupRefused(ConnectionLost("reset")))
    assert ReleaseLookupPermit() in driven.effects
    driven.tell(Cancel())
    assert isinstance(driven.error(), AlreadyClosed)
    assert ReleaseLookupPermit() not in driven.effects


@pytest.mark.parametrize("at_the_end", [Timeout("no answer in time"), ConnectError("it was not sent: still DIALING")])
@pytest.mark.parametrize("left", [0.0, 0.0005])
def test_what_fails_for_want_of_time_does_not_hide_what_went_wrong_before(at_the_end: Exception, left: float) -> None:
    driven = Asked()
    driven.tell(LookupRefused(BrokerRefusal("ServiceNotReady", "starting")))
    driven.fire(BackoffOver)
    driven.tell(LookupPermitGranted(), LookupAttached())
    driven.now = 130.0 - left
    driven.tell(LookupRefused(at_the_end))
    driven.tell(driven.timers[OperationTimedOut].event)
    assert str(driven.error()) == "no broker has answered in time; the last failure was: ServiceNotReady: starting"


def test_each_failure_that_is_tried_again_is_told_at_once() -> None:
    lost, refused = ConnectionLost("reset"), ConnectError("refused")
    driven = Asked()
    driven.tell(LookupRefused(lost))
    assert driven.did(AttemptFailed) == [AttemptFailed(lost)]
    driven.fire(BackoffOver)
    driven.tell(LookupPermitGranted(), LookupRefused(refused))
    assert driven.did(AttemptFailed) == [AttemptFailed(refused)]
    driven.fire(BackoffOver)
    later = answer("Failed", error=ServerError.ServiceNotReady, message="later")
    driven.tell(LookupPermitGranted(), LookupAttached(), later)
    assert [str(one.error) for one in driven.did(AttemptFailed)] == ["ServiceNotReady: later"]


@pytest.mark.parametrize("began", [False, True])
def test_a_cancelled_lookup_ends_once_and_gives_back_its_turn_or_its_place_in_the_line(*, began: bool) -> None:
    driven = Asked(began=began)
    driven.tell(Cancel())
    assert isinstance(driven.error(), AlreadyClosed)
    assert ReleaseLookupPermit() in driven.effects
    assert driven.tell(Cancel()) == []


def test_a_redirect_over_http_is_followed_to_the_very_address() -> None:
    address = "http://b:8080/lookup/v2/topic/persistent/public/default/t?authoritative=true"
    assert Asked(PARTITIONS).tell(Redirected(address)) == [AttachTo(LookupTarget(address, address))]


def test_the_twenty_first_redirect_over_http_ends_the_lookup() -> None:
    driven = Asked(PARTITIONS)
    for _ in range(MAX_REDIRECTS):
        driven.tell(Redirected("http://b/"), LookupAttached())
    driven.tell(Redirected("http://b/"))
    assert "more than 20 times" in str(driven.error())


@pytest.mark.parametrize(
    ("tls", "url"),
    [(True, "http://b/"), (False, "pulsar://b"), (False, "file:///etc/passwd"), (True, "//b/"), (False, "")],
)
def test_a_redirect_leads_neither_into_the_open_nor_out_of_http(url: str, *, tls: bool) -> None:
    driven = Asked(PARTITIONS, tls=tls)
    driven.tell(Redirected(url))
    assert "not followed" in str(driven.error())


def test_when_the_service_url_changes_the_walk_begins_again_there_with_its_kind_of_address() -> None:
    driven = Asked()
    driven.tell(answer("Redirect", authoritative=True))
    assert driven.tell(ServiceChanged(tls=True)) == [AttachTo(SERVICE_URL)]
    (asked,) = driven.tell(LookupAttached())
    assert not asked.command.authoritative
    driven.tell(answer("Connect", broker="pulsar://b:6650", brokerServiceUrlTls="pulsar+ssl://b:6651"))
    (found,) = driven.did(Found)
    assert found.target == LookupTarget("pulsar+ssl://b:6651", "pulsar+ssl://b:6651")


def test_a_pause_ends_when_the_service_url_changes() -> None:
    driven = Asked()
    driven.tell(LookupRefused(ConnectError("down")))
    assert driven.tell(ServiceChanged(tls=False)) == [AcquireLookupPermit()]
    assert driven.fire(BackoffOver) == []


def test_so_many_begin_at_once_some_wait_and_the_rest_are_denied() -> None:
    limiter: LookupLimiter[int] = LookupLimiter(2, 4)
    assert [limiter.acquire(number) for number in range(6)] == [
        *[LookupPermit.NOW] * 2,
        *[LookupPermit.LATER] * 2,
        *[LookupPermit.NEVER] * 2,
    ]


def test_those_in_line_begin_in_the_order_in_which_they_came() -> None:
    limiter: LookupLimiter[str] = LookupLimiter(1, 4)
    for name in "abcd":
        limiter.acquire(name)
    assert [limiter.release(name) for name in "abcd"] == ["b", "c", "d", None]
    assert limiter.acquire("e") is LookupPermit.NOW


def test_whoever_leaves_the_line_makes_room_there_and_is_passed_over() -> None:
    limiter: LookupLimiter[str] = LookupLimiter(1, 3)
    for name in "abc":
        limiter.acquire(name)
    assert limiter.release("b") is None
    assert limiter.acquire("d") is LookupPermit.LATER
    assert limiter.acquire("e") is LookupPermit.NEVER
    assert [limiter.release(name) for name in "acd"] == ["c", "d", None]


def test_in_all_there_may_be_as_many_as_in_other_clients() -> None:
    limiter: LookupLimiter[int] = LookupLimiter(5_000)
    answers = [limiter.acquire(number) for number in range(50_001)]
    assert [answers.count(permit) for permit in LookupPermit] == [5_000, 45_000, 1]


@pytest.mark.parametrize(("limit", "together"), [(0, 10), (-1, 10), (11, 10)])
def test_a_limit_that_lets_nobody_through_is_refused(limit: int, together: int) -> None:
    with pytest.raises(InvalidArgument, match=f"not {limit}"):
        LookupLimiter(limit, together)


@given(st.lists(st.sampled_from(["acquire", "end", "leave"])), st.integers(1, 3), st.integers(0, 3))
def test_never_do_more_begin_than_may_and_nobody_waits_in_vain(steps: list[str], limit: int, line: int) -> None:
    limiter: LookupLimiter[int] = LookupLimiter(limit, limit + line)
    running, waiting = list[int](), list[int]()
    for number, step in enumerate(steps):
        if step == "acquire":
            permit = limiter.acquire(number)
            expected = (
                LookupPermit.NOW
                if len(running) < limit
                else LookupPermit.LATER
                if len(waiting) < line
                else LookupPermit.NEVER
            )
            assert permit is expected
            running += [number] if permit is LookupPermit.NOW else []
            waiting += [number] if permit is LookupPermit.LATER else []
        elif step == "leave" and waiting:
            assert limiter.release(waiting.pop()) is None
        elif running:
            following = limiter.release(running.pop(0))
            assert following == (waiting.pop(0) if waiting else None)
            running += [] if following is None else [following]
