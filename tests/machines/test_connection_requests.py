from typing import Any

import pytest
from connection_bench import CREDENTIALS, LOOKUP, ONE_HOST, OPENING, WELCOME, asked, made, ready

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    BrokerRefusal,
    ConnectError,
    ConnectionLost,
    InvalidArgument,
    Timeout,
    UnsupportedVersionError,
)
from pulsar_actors.machines.connection import State
from pulsar_actors.machines.connection_events import (
    Answered,
    Ask,
    Challenged,
    Close,
    Connected,
    CredentialsFailed,
    Dial,
    Lost,
    Refused,
    Reply,
    RequestsDue,
    SocketLost,
    TcpOpened,
    Unawaited,
    Write,
)
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.wire.commands import encode_command
from pulsar_actors.wire.frames import frame_limit
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAuthChallenge,
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


def test_what_was_never_sent_does_not_claim_to_be_unknown() -> None:
    driven = made(ONE_HOST, Ask(LOOKUP, "token", 30.0), *OPENING, CREDENTIALS, SocketLost("reset"))
    (reply,) = driven.did(Reply)
    assert isinstance(reply.answer, ConnectError)


SMALL_BROKER = Connected(CommandConnected(server_version="x", max_message_size=1000))
ROOM = 1000 + 10 * 1024 - 64


def lookup_of(size: int) -> CommandLookupTopic:
    """Make a command of this size."""
    empty = CommandLookupTopic(topic="x" * 1000, request_id=0).ByteSize() - 1000
    return CommandLookupTopic(topic="x" * (size - empty), request_id=0)


@pytest.mark.parametrize("early", [False, True])
def test_a_command_that_the_broker_does_not_take_is_refused_and_costs_nobody_the_connection(early: bool) -> None:  # noqa: FBT001 - a case
    asks = [Ask(lookup_of(ROOM + 1), "large", 30.0), Ask(lookup_of(ROOM), "fits", 30.0)]
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(*asks, SMALL_BROKER) if early else driven.tell(SMALL_BROKER)
    effects = driven.effects if early else [effect for ask in asks for effect in driven.tell(ask)]
    (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
    assert (reply.token, type(reply.answer)) == ("large", InvalidArgument)
    assert str(reply.answer) == (
        "CommandLookupTopic takes 11,177 bytes, and the broker takes 11,176 at most: names and properties have to be"
        " shorter"
    )
    (written,) = [effect for effect in effects if isinstance(effect, Write)]
    frame_size = len(encode_command(written.command))
    assert ROOM < frame_size <= frame_limit(1000)
    assert driven.machine.state is State.READY


@pytest.mark.parametrize("early", [False, True])
def test_a_command_that_the_broker_is_too_old_for_is_refused_with_both_versions(early: bool) -> None:  # noqa: FBT001 - a case
    last = CommandGetLastMessageId(consumer_id=1, request_id=0)
    asks = [Ask(last, "last", 30.0), Ask(LOOKUP, "lookup", 30.0)]
    old = Connected(CommandConnected(server_version="x", protocol_version=11))
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(*asks, old) if early else driven.tell(old)
    effects = driven.effects if early else [effect for ask in asks for effect in driven.tell(ask)]
    (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
    assert (reply.token, type(reply.answer)) == ("last", UnsupportedVersionError)
    assert reply.answer.reason == (
        "CommandGetLastMessageId came with version 12 of the protocol, and the broker speaks version 11"
    )
    (written,) = [effect for effect in effects if isinstance(effect, Write)]
    assert isinstance(written.command, CommandLookupTopic)


def test_a_request_after_the_network_has_ended_the_connection_may_be_repeated_elsewhere() -> None:
    driven = ready()
    driven.tell(SocketLost("reset"))
    (reply,) = driven.tell(Ask(LOOKUP, "token", 30.0))
    assert (type(reply.answer), str(reply.answer)) == (ConnectError, "it was not sent: reset")


def test_when_credentials_can_not_be_renewed_what_was_asked_is_unknown() -> None:
    driven = ready()
    asked(driven)
    driven.tell(Challenged(CommandAuthChallenge()), CredentialsFailed("expired"))
    (reply,), (lost,) = driven.did(Reply), driven.did(Lost)
    assert (type(reply.answer), type(lost.error)) == (ConnectionLost, AuthenticationError)


def test_what_is_asked_before_the_connection_is_ready_is_sent_once_it_is() -> None:
    driven = made(ONE_HOST, Ask(LOOKUP, "first", 30.0), *OPENING, CREDENTIALS, Ask(LOOKUP, "second", 30.0))
    assert driven.effects == []
    driven.tell(WELCOME)
    assert [write.command.request_id for write in driven.did(Write)] == [0, 1]
    (reply,) = driven.tell(Answered(CommandLookupTopicResponse(request_id=1)))
    assert reply.token == "second"


def test_each_request_has_an_id_of_its_own_and_its_answer_finds_it() -> None:
    driven = ready()
    first, second = asked(driven, "first"), asked(driven, "second")
    assert first != second
    answer = CommandLookupTopicResponse(request_id=first)
    assert driven.tell(Answered(answer)) == [Reply("first", answer)]


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
    assert [type(effect) for effect in driven.tell(answer)] == [Reply]
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
    driven = made(ONE_HOST, Ask(LOOKUP, "token", 5.0), Dial())
    driven.now += 4.0
    driven.tell(TcpOpened(), CREDENTIALS, WELCOME)
    assert driven.timers[RequestsDue].delay == 5.0
    driven.now += 1.0
    (reply,) = driven.tell(driven.timers[RequestsDue].event)
    assert (reply.token, type(reply.answer)) == ("token", Timeout)


def test_a_request_that_times_out_before_the_broker_accepts_is_never_sent() -> None:
    driven = made(ONE_HOST, Ask(LOOKUP, "late", 1.0), Ask(LOOKUP, "patient", 30.0), Dial())
    (reply, _) = driven.fire(RequestsDue)
    assert (reply.token, type(reply.answer)) == ("late", ConnectError)
    assert str(reply.answer) == "it was not sent: still DIALING"
    driven.tell(TcpOpened(), CREDENTIALS, WELCOME)
    assert len(driven.did(Write)) == 1


def test_a_shorter_timeout_moves_the_timer_forward() -> None:
    driven = ready()
    asked(driven, "slow", timeout=30.0)
    asked(driven, "quick", timeout=1.0)
    assert [reply.token for reply in driven.fire(RequestsDue) if isinstance(reply, Reply)] == ["quick"]


def test_one_timer_serves_all_requests_that_are_answered_before_it_is_due() -> None:
    driven = ready()
    first = driven.tell(Ask(LOOKUP, "first", 5.0))
    assert [type(effect) for effect in first] == [Write, StartTimer]
    driven.tell(Answered(CommandSuccess(request_id=first[0].command.request_id)))
    driven.now += 2.0
    assert [type(effect) for effect in driven.tell(Ask(LOOKUP, "second", 5.0))] == [Write]
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
    assert driven.tell(Answered(queued)) == [Reply("creation", queued)]
    assert driven.fire(RequestsDue) == []
    ready_now = CommandProducerSuccess(request_id=request_id, producer_name="p")
    assert driven.tell(Answered(ready_now)) == [Reply("creation", ready_now)]


@pytest.mark.parametrize("ending", [(Close(),), (Close(), SocketLost("closed"))])
def test_what_is_asked_after_the_end_is_refused_at_once(ending: Any) -> None:
    driven = ready()
    driven.tell(*ending)
    (reply,) = driven.tell(Ask(LOOKUP, "late", 30.0))
    assert (reply.token, type(reply.answer)) == ("late", AlreadyClosed)
