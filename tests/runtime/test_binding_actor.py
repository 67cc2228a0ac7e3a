"""What producers and consumers share, shown on a producer."""

from typing import Any

import pytest
from binding_bench import BROKER, LOST
from loop_in_hand import LoopInHand, effects_of, of_kind
from producer_bench import ProducerBench

from pulsar_actors.exceptions import AlreadyClosed, ConnectError, ProducerBusy, Timeout, TopicNotFound
from pulsar_actors.machines import binding_events
from pulsar_actors.machines.binding_events import EndAtOnce
from pulsar_actors.machines.connection_events import Drop, Leave
from pulsar_actors.runtime.binding_actor import BindingActor
from pulsar_actors.runtime.binding_messages import (
    AttachMember,
    BrokerFound,
    CloseHandle,
    FindBroker,
    Joining,
    Place,
    Retired,
    StillLooking,
)
from pulsar_actors.runtime.members import Bound, Unbound
from pulsar_actors.runtime.ties import Ties
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseProducer,
    CommandProducer,
    CommandSuccess,
    CommandTopicMigrated,
)


@pytest.fixture
def bench() -> ProducerBench:
    return ProducerBench()


def test_every_effect_of_the_chart_is_performed_and_every_question_has_its_outcomes() -> None:
    effects = effects_of(binding_events)
    assert set(BindingActor.PERFORMS) == effects
    assert set(BindingActor.OUTCOMES) == {effect for effect in effects if effect.__name__.startswith("Ask")}


def test_it_looks_up_attaches_asks_and_is_there(bench: ProducerBench) -> None:
    ((find),) = of_kind(FindBroker, bench.to_guardian())
    assert (find.topic, find.cluster_url) == ("persistent://public/default/t", None)
    bench.tell(BrokerFound(find.asker.question, BROKER))
    attach = bench.join()
    assert (attach.broker, attach.slot, attach.member.kind, attach.member.id) == (BROKER, 1, "producer", 7)
    assert bench.to_connection() == []
    bench.bind()
    ask = bench.asked()
    assert isinstance(ask.command, CommandProducer)
    assert not bench.ties.created.done()
    bench.reply(ask, bench.success())
    assert bench.ties.created.result(0) is None
    assert bench.ties.vitals.attachments == 1


def test_a_lookup_that_fails_for_good_is_the_end_of_it(bench: ProducerBench) -> None:
    ((find),) = of_kind(FindBroker, bench.to_guardian())
    error = TopicNotFound("TopicNotFound", "no such topic")
    bench.tell(BrokerFound(find.asker.question, error))
    assert bench.ties.created.exception(0) is error
    assert bench.ties.vitals.last_error is error
    assert bench.to_guardian() == [Retired(bench.actor)]
    assert not bench.actor.is_alive()


def test_a_lookup_that_may_work_later_is_made_again(bench: ProducerBench) -> None:
    ((find),) = of_kind(FindBroker, bench.to_guardian())
    bench.tell(BrokerFound(find.asker.question, ConnectError("nobody listens")))
    bench.loop.pass_time(1.0)
    assert of_kind(FindBroker, bench.to_guardian())


def test_what_an_unfinished_lookup_has_met_is_told_when_time_is_up(bench: ProducerBench) -> None:
    ((find),) = of_kind(FindBroker, bench.to_guardian())
    down = ConnectError("nobody listens")
    bench.tell(StillLooking(find.asker.question, down))
    assert bench.ties.vitals.last_error is down
    bench.loop.pass_time(30.1)
    error = bench.ties.created.exception(0)
    assert isinstance(error, Timeout)
    assert str(error).endswith("still LOOKING_UP; the last failure was: nobody listens")


def test_an_answer_to_an_earlier_question_is_ignored(bench: ProducerBench) -> None:
    bench.tell(BrokerFound(99, BROKER))
    assert of_kind(AttachMember, bench.to_guardian()) == []


def test_a_refusal_that_trying_again_would_not_cure_fails_the_creation(bench: ProducerBench) -> None:
    error = ProducerBusy("ProducerBusy", "taken")
    bench.reply(bench.attach(), error)
    assert bench.ties.created.exception(0) is error
    assert bench.to_connection() == [Leave(bench.member())]
    assert Retired(bench.actor) in bench.to_guardian()


def test_a_question_out_of_time_is_followed_by_a_close(bench: ProducerBench) -> None:
    bench.reply(bench.attach(), Timeout("no answer"))
    assert isinstance(bench.ties.vitals.last_error, Timeout)
    close = bench.asked()
    assert isinstance(close.command, CommandCloseProducer)
    bench.reply(close, CommandSuccess(request_id=1))
    bench.loop.pass_time(1.0)
    assert bench.attach()


@pytest.mark.parametrize("answer", [TopicNotFound("UnknownError", "what?"), Timeout("no answer")], ids=repr)
def test_a_close_that_is_refused_or_not_answered_ends_it_all_the_same(bench: ProducerBench, answer: Exception) -> None:
    bench.create()
    bench.tell(CloseHandle())
    bench.reply(bench.asked(), answer)
    assert bench.ties.ended.result(0) is None
    assert not bench.actor.is_alive()


def test_an_answer_that_is_the_end_of_a_connection_is_left_to_the_word_of_that_end(bench: ProducerBench) -> None:
    ask = bench.attach()
    bench.reply(ask, LOST)
    assert bench.to_connection() == []
    bench.lose()
    assert bench.ties.vitals.last_error is LOST
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
    bench.tell(Unbound(old, LOST), Bound(old, bench.connection, 5))
    bench.hears(CommandCloseProducer(producer_id=7, request_id=1), number=old)
    assert bench.machine.is_bound
    assert bench.ties.vitals.attachments == 2


def test_a_connection_that_comes_when_it_is_not_wanted_any_longer_is_left(bench: ProducerBench) -> None:
    bench.find()
    ((attach),) = of_kind(AttachMember, bench.to_guardian())
    bench.tell(Unbound(attach.member.number, LOST), Joining(attach.member.number, bench.connection))
    assert bench.to_connection() == [Leave(attach.member)]


def test_a_connection_that_comes_after_the_end_is_left(bench: ProducerBench) -> None:
    bench.find()
    ((attach),) = of_kind(AttachMember, bench.to_guardian())
    bench.tell(EndAtOnce(LOST), Joining(attach.member.number, bench.connection))
    assert bench.to_connection() == [Leave(attach.member)]


def test_without_a_connection_nothing_is_said(bench: ProducerBench) -> None:
    bench.find()
    ((attach),) = of_kind(AttachMember, bench.to_guardian())
    bench.tell(Bound(attach.member.number, bench.connection, 1000))  # though `Joining` always comes first
    assert bench.to_connection() == []


def test_a_broker_that_closes_it_is_left_and_looked_for_again(bench: ProducerBench) -> None:
    bench.create()
    bench.hears(CommandCloseProducer(producer_id=7, request_id=2**64 - 1))
    assert bench.to_connection() == [Leave(bench.member())]
    bench.loop.pass_time(1.0)
    assert bench.attach()


def test_a_broker_that_names_another_is_believed(bench: ProducerBench) -> None:
    bench.create()
    bench.hears(CommandCloseProducer(producer_id=7, request_id=2**64 - 1, assignedBrokerServiceUrl="pulsar://c:6650"))
    ((attach),) = of_kind(AttachMember, bench.to_guardian())
    assert attach.broker == "pulsar://c:6650"


def test_a_topic_that_has_migrated_is_looked_up_in_its_new_cluster(bench: ProducerBench) -> None:
    bench.create()
    bench.hears(
        CommandTopicMigrated(
            resource_id=7, resource_type=CommandTopicMigrated.Producer, brokerServiceUrl="pulsar://other:6650"
        )
    )
    ((find),) = of_kind(FindBroker, bench.to_guardian())
    assert find.cluster_url == "pulsar://other:6650"


def test_a_command_that_means_nothing_to_it_is_ignored(bench: ProducerBench) -> None:
    bench.create()
    bench.hears(CommandSuccess(request_id=5))
    assert bench.machine.is_bound


def test_a_close_says_goodbye_to_the_broker_and_then_to_everybody(bench: ProducerBench) -> None:
    bench.create()
    bench.tell(CloseHandle())
    close = bench.asked()
    assert isinstance(close.command, CommandCloseProducer)
    assert not bench.ties.ended.done()
    bench.reply(close, CommandSuccess(request_id=1))
    assert bench.to_connection() == [Leave(bench.member())]
    assert bench.to_guardian() == [Retired(bench.actor)]
    assert bench.ties.ended.result(0) is None
    assert isinstance(bench.ties.debts.closed, AlreadyClosed)


def test_a_close_before_there_is_a_broker_is_over_at_once_and_the_creation_has_failed(bench: ProducerBench) -> None:
    bench.tell(CloseHandle())
    assert bench.ties.ended.done()
    assert isinstance(bench.ties.created.exception(0), AlreadyClosed)


def test_one_that_the_broker_has_ended_stays_until_it_is_closed(bench: ProducerBench) -> None:
    bench.create()
    error = TopicNotFound("TopicTerminatedError", "terminated")
    bench.lose()
    bench.loop.pass_time(1.0)
    bench.reply(bench.attach(), error)
    assert bench.actor.is_alive()
    assert bench.ties.debts.closed is error
    bench.tell(CloseHandle())
    assert bench.ties.ended.done()
    assert not bench.actor.is_alive()


def test_one_that_ends_at_once_fails_everything_and_leaves(bench: ProducerBench) -> None:
    bench.create()
    owed: Any = bench.ties.debts.owe(type(bench.ties.created)())
    shut_down = AlreadyClosed("the client is shut down")
    bench.tell(EndAtOnce(shut_down))
    assert owed.exception(0) is shut_down
    assert bench.to_connection() == [Leave(bench.member())]
    assert bench.to_guardian() == [Retired(bench.actor)]
    assert bench.ties.ended.done()


def test_one_that_was_over_already_goes_when_the_client_ends(bench: ProducerBench) -> None:
    bench.create()
    bench.lose()
    bench.loop.pass_time(1.0)
    bench.reply(bench.attach(), TopicNotFound("TopicTerminatedError", "terminated"))
    assert bench.actor.is_alive()
    bench.tell(EndAtOnce(AlreadyClosed("the client is shut down")))
    assert bench.ties.ended.done()
    assert not bench.actor.is_alive()


def test_one_that_cannot_trust_its_connection_says_so_to_it(bench: ProducerBench) -> None:
    bench.reply(bench.attach(), Timeout("no answer"))
    bench.reply(bench.asked(), Timeout("none either"))
    ((drop),) = of_kind(Drop, bench.to_connection())
    assert drop.error is bench.ties.vitals.last_error


def test_an_answer_to_another_question_ends_the_connection_and_is_what_stats_tell(bench: ProducerBench) -> None:
    bench.reply(bench.attach(), CommandSuccess(request_id=1))
    ((drop),) = of_kind(Drop, bench.to_connection())
    assert drop.error is bench.ties.vitals.last_error
    assert str(drop.error) == "the broker broke the protocol: it answered AskToCreate with CommandSuccess"


def test_what_every_kind_has_to_say_for_itself(bench: ProducerBench) -> None:
    loop = LoopInHand()
    bare: Any = BindingActor(loop, Place("producer", 1, bench.guardian, 0), Ties())
    for method, argument in ((bare.hear, ()), (bare.bound, None), (bare.call, None)):
        with pytest.raises(NotImplementedError):
            method(argument)
    bare.before_closing()
