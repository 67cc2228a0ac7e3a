"""What producers and consumers share, shown on a producer."""

from typing import Any

import pytest

from pulsar_actors.exceptions import AlreadyClosed, ConnectError, ProducerBusy, Timeout, TopicNotFound
from pulsar_actors.machines import connection_handler_events
from pulsar_actors.machines.connection_events import AbortConnection, RemoveHandler
from pulsar_actors.machines.connection_handler_events import EndAtOnce
from pulsar_actors.machines.lookup_events import AssignedBroker, LookupTarget
from pulsar_actors.runtime import messages
from pulsar_actors.runtime.handler_actor import HandlerActor
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.runtime.handler_bench import BROKER, LOST, ProducerBench
from tests.support.manual_loop import effects_of, of_kind


@pytest.fixture
def bench() -> ProducerBench:
    return ProducerBench()


def test_every_effect_of_the_chart_is_performed_and_every_question_has_its_outcomes() -> None:
    effects = effects_of(connection_handler_events)
    assert set(HandlerActor.PERFORMS) == effects
    assert set(HandlerActor.OUTCOMES) == {effect for effect in effects if effect.__name__.startswith("Ask")}


def test_it_looks_up_attaches_asks_and_is_there(bench: ProducerBench) -> None:
    ((find),) = of_kind(messages.FindBroker, bench.to_guardian())
    assert (find.topic, find.cluster_url) == ("persistent://public/default/t", None)
    bench.tell(messages.BrokerFound(find.reply_to.request, BROKER))
    attach = bench.join()
    assert (attach.broker, attach.slot, attach.handler.kind, attach.handler.id) == (BROKER, 1, "producer", 7)
    assert bench.to_connection() == []
    bench.bind()
    ask = bench.asked()
    assert isinstance(ask.command, pb.CommandProducer)
    assert not bench.link.created.done()
    bench.reply(ask, bench.success())
    assert bench.link.created.result(0) is None
    assert bench.link.counters.attachments == 1


def test_a_lookup_that_fails_for_good_is_the_end_of_it(bench: ProducerBench) -> None:
    ((find),) = of_kind(messages.FindBroker, bench.to_guardian())
    error = TopicNotFound("TopicNotFound", "no such topic")
    bench.tell(messages.BrokerFound(find.reply_to.request, error))
    assert repr(bench.link.created.exception(0)) == repr(error)
    assert bench.link.counters.last_error is error
    assert bench.to_guardian() == [messages.ActorEnded(bench.actor)]
    assert not bench.actor.is_alive()


def test_what_an_unfinished_lookup_has_met_is_told_when_time_is_up(bench: ProducerBench) -> None:
    ((find),) = of_kind(messages.FindBroker, bench.to_guardian())
    down = ConnectError("nobody listens")
    bench.tell(messages.LookupRetrying(find.reply_to.request, down))
    assert bench.link.counters.last_error is down
    bench.loop.pass_time(30.1)
    error = bench.link.created.exception(0)
    assert isinstance(error, Timeout)
    assert str(error).endswith("still LOOKING_UP; the last failure was: nobody listens")


def test_an_answer_to_an_earlier_question_is_ignored(bench: ProducerBench) -> None:
    bench.tell(messages.BrokerFound(99, BROKER))
    assert of_kind(messages.AttachHandler, bench.to_guardian()) == []


def test_a_refusal_that_trying_again_would_not_cure_fails_the_creation(bench: ProducerBench) -> None:
    error = ProducerBusy("ProducerBusy", "taken")
    bench.reply(bench.attach(), error)
    assert repr(bench.link.created.exception(0)) == repr(error)
    assert bench.to_connection() == [RemoveHandler(bench.member())]
    assert messages.ActorEnded(bench.actor) in bench.to_guardian()


def test_a_question_out_of_time_is_followed_by_a_close(bench: ProducerBench) -> None:
    bench.reply(bench.attach(), Timeout("no answer"))
    assert isinstance(bench.link.counters.last_error, Timeout)
    close = bench.asked()
    assert isinstance(close.command, pb.CommandCloseProducer)
    bench.reply(close, pb.CommandSuccess(request_id=1))
    bench.loop.pass_time(1.0)
    assert bench.attach()


@pytest.mark.parametrize("answer", [TopicNotFound("UnknownError", "what?"), Timeout("no answer")], ids=repr)
def test_a_close_that_is_refused_or_not_answered_ends_it_all_the_same(bench: ProducerBench, answer: Exception) -> None:
    bench.create()
    bench.tell(messages.CloseHandle())
    bench.reply(bench.asked(), answer)
    assert bench.link.ended.result(0) is None
    assert not bench.actor.is_alive()


def test_an_answer_that_is_the_end_of_a_connection_is_left_to_the_word_of_that_end(bench: ProducerBench) -> None:
    ask = bench.attach()
    bench.reply(ask, LOST)
    assert bench.to_connection() == []
    bench.lose()
    assert bench.link.counters.last_error is LOST
    bench.loop.pass_time(1.0)
    assert bench.attach()


def test_a_lost_connection_is_replaced_and_what_comes_late_from_the_old_one_counts_for_nothing(
    bench: ProducerBench,
) -> None:
    bench.create()
    old = bench.number
    bench.lose()
    assert not bench.machine.is_bound
    bench.loop.pass_time(1.0)
    bench.reply(bench.attach(), bench.success())
    assert bench.machine.is_bound
    bench.tell(messages.ConnectionUnavailable(old, LOST), messages.ConnectionReady(old, bench.connection, 5))
    bench.hears(pb.CommandCloseProducer(producer_id=7, request_id=1), number=old)
    assert bench.machine.is_bound
    assert bench.link.counters.attachments == 2


@pytest.mark.parametrize("ended", ["the connection", "the producer"])
def test_a_connection_that_comes_when_it_is_not_wanted_any_longer_is_left(bench: ProducerBench, ended: str) -> None:
    bench.find()
    ((attach),) = of_kind(messages.AttachHandler, bench.to_guardian())
    number = attach.handler.number
    bench.tell(messages.ConnectionUnavailable(number, LOST) if ended == "the connection" else EndAtOnce(LOST))
    bench.tell(messages.ConnectionAssigned(number, bench.connection))
    assert bench.to_connection() == [RemoveHandler(attach.handler)]


def test_without_a_connection_nothing_is_said(bench: ProducerBench) -> None:
    bench.find()
    ((attach),) = of_kind(messages.AttachHandler, bench.to_guardian())
    bench.tell(
        messages.ConnectionReady(attach.handler.number, bench.connection, 1000)
    )  # though `ConnectionAssigned` always comes first
    assert bench.to_connection() == []


def test_a_broker_that_closes_it_is_left_and_looked_for_again(bench: ProducerBench) -> None:
    bench.create()
    bench.hears(pb.CommandCloseProducer(producer_id=7, request_id=2**64 - 1))
    assert bench.to_connection() == [RemoveHandler(bench.member())]
    bench.loop.pass_time(1.0)
    assert bench.attach()


@pytest.mark.parametrize("proxied", [False, True])
def test_a_broker_that_names_another_is_believed(bench: ProducerBench, *, proxied: bool) -> None:
    bench.find(LookupTarget("pulsar://b:6650", None) if proxied else BROKER)
    bench.join()
    bench.bind()
    bench.reply(bench.asked(), bench.success())
    bench.hears(
        pb.CommandCloseProducer(producer_id=7, request_id=2**64 - 1, assignedBrokerServiceUrl="pulsar://c:6650")
    )
    ((attach),) = of_kind(messages.AttachHandler, bench.to_guardian())
    assert attach.broker == AssignedBroker("pulsar://c:6650", proxied)


def test_a_topic_that_has_migrated_is_looked_up_in_its_new_cluster(bench: ProducerBench) -> None:
    bench.create()
    bench.hears(
        pb.CommandTopicMigrated(
            resource_id=7, resource_type=pb.CommandTopicMigrated.Producer, brokerServiceUrl="pulsar://other:6650"
        )
    )
    ((find),) = of_kind(messages.FindBroker, bench.to_guardian())
    assert find.cluster_url == "pulsar://other:6650"


def test_a_command_that_means_nothing_to_it_is_ignored(bench: ProducerBench) -> None:
    bench.create()
    bench.hears(pb.CommandSuccess(request_id=5))
    assert bench.machine.is_bound


def test_a_close_says_goodbye_to_the_broker_and_then_to_everybody(bench: ProducerBench) -> None:
    bench.create()
    bench.tell(messages.CloseHandle())
    close = bench.asked()
    assert isinstance(close.command, pb.CommandCloseProducer)
    assert not bench.link.ended.done()
    bench.reply(close, pb.CommandSuccess(request_id=1))
    assert bench.to_connection() == [RemoveHandler(bench.member())]
    assert bench.to_guardian() == [messages.ActorEnded(bench.actor)]
    assert bench.link.ended.result(0) is None
    assert isinstance(bench.link.pending_calls.closed, AlreadyClosed)


def test_a_close_before_there_is_a_broker_is_over_at_once_and_the_creation_has_failed(bench: ProducerBench) -> None:
    bench.tell(messages.CloseHandle())
    assert bench.link.ended.done()
    assert isinstance(bench.link.created.exception(0), AlreadyClosed)


@pytest.mark.parametrize("end", [messages.CloseHandle(), EndAtOnce(AlreadyClosed("shut down"))], ids=repr)
def test_one_that_the_broker_has_ended_stays_until_it_is_closed_or_the_client_ends(
    bench: ProducerBench, end: object
) -> None:
    bench.create()
    error = TopicNotFound("TopicTerminatedError", "terminated")
    bench.lose()
    bench.loop.pass_time(1.0)
    bench.reply(bench.attach(), error)
    assert bench.actor.is_alive()
    assert repr(bench.link.pending_calls.closed) == repr(error)
    bench.tell(end)
    assert bench.link.ended.done()
    assert not bench.actor.is_alive()


def test_one_that_ends_at_once_fails_everything_and_leaves(bench: ProducerBench) -> None:
    bench.create()
    owed: Any = bench.link.pending_calls.track(type(bench.link.created)())
    shut_down = AlreadyClosed("the client is shut down")
    bench.tell(EndAtOnce(shut_down))
    assert repr(owed.exception(0)) == repr(shut_down)
    assert bench.to_connection() == [RemoveHandler(bench.member())]
    assert bench.to_guardian() == [messages.ActorEnded(bench.actor)]
    assert bench.link.ended.done()


def test_one_that_was_over_already_goes_when_the_client_ends(bench: ProducerBench) -> None:
    bench.create()
    bench.lose()
    bench.loop.pass_time(1.0)
    bench.reply(bench.attach(), TopicNotFound("TopicTerminatedError", "terminated"))
    assert bench.actor.is_alive()
    bench.tell(EndAtOnce(AlreadyClosed("the client is shut down")))
    assert bench.link.ended.done()
    assert not bench.actor.is_alive()


def test_one_that_cannot_trust_its_connection_says_so_to_it(bench: ProducerBench) -> None:
    bench.reply(bench.attach(), Timeout("no answer"))
    bench.reply(bench.asked(), Timeout("none either"))
    ((drop),) = of_kind(AbortConnection, bench.to_connection())
    assert drop.error is bench.link.counters.last_error


def test_an_answer_to_another_question_ends_the_connection_and_is_what_stats_tell(bench: ProducerBench) -> None:
    bench.reply(bench.attach(), pb.CommandSuccess(request_id=1))
    ((drop),) = of_kind(AbortConnection, bench.to_connection())
    assert drop.error is bench.link.counters.last_error
    assert str(drop.error) == "the broker broke the protocol: it answered AskToCreate with CommandSuccess"
