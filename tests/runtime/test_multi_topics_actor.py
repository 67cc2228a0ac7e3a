import re
from typing import Any

import pytest

from pulsar_actors.exceptions import AlreadyClosed, ConnectError, ProducerBusy
from pulsar_actors.machines import multi_topics_events
from pulsar_actors.machines.connection_commands import WATCHER
from pulsar_actors.machines.connection_handler_events import EndAtOnce, Fail, FirstCreationFailed, HandleEnded
from pulsar_actors.machines.multi_topics import MultiTopics
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.trackers.subscribed_topics import TopicPattern
from pulsar_actors.runtime.actor import ActorRef
from pulsar_actors.runtime.client_actor import Registrations
from pulsar_actors.runtime.consumer_actor import RunAfter, ServeReceiveFutures
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.lookup_actor import BrokerQuery
from pulsar_actors.runtime.messages import ActorEnded, ActorStarted, AttachHandler, CloseHandle
from pulsar_actors.runtime.multi_topics_actor import MultiTopicsActor, TopicSearch
from pulsar_actors.runtime.producer_actor import FlushAll
from pulsar_actors.runtime.topic_list_watcher_actor import TopicListWatcherEnded, TopicsChanged
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetTopicsOfNamespaceResponse,
    CommandPartitionedTopicMetadataResponse,
)
from tests.support.manual_loop import ActorBench, RecordingActors, effects_of, of_kind

TOPIC = "persistent://public/default/t"
PATTERN = TopicPattern(re.compile("public/default/t-.*"))
CLOSED = AlreadyClosed("closed")


class Members:
    """It gives addresses for members, and notes what it is asked for."""

    def __init__(self, actors: RecordingActors) -> None:
        self.actors = actors
        self.addresses: dict[int, ActorRef] = {}
        self.orders: list[multi_topics_events.CreateMember] = []
        self.admitted: list[tuple[str, ...]] = []
        self.lost: list[int] = []
        self.owed: list[SlimFuture[Any]] = []
        self.grown: list[tuple[str, int]] = []
        self.served = 0
        self.ended: list[Exception] = []
        self.wanted: tuple[str, ...] = ()

    def create(self, order: multi_topics_events.CreateMember) -> ActorRef:
        self.orders.append(order)
        self.addresses[order.member] = address = self.actors.make()
        return address

    def track(self, member: int, call: SlimFuture[Any]) -> None:
        del member
        self.owed.append(call)

    def remove(self, member: int) -> None:
        self.lost.append(member)

    def update(self, update: Any) -> None:
        self.admitted.append(tuple(update.members))

    def partitions_grown(self, topic: str, partitions: int) -> None:
        self.grown.append((topic, partitions))

    def serve(self) -> None:
        self.served += 1

    def waited_for(self) -> tuple[str, ...]:
        return self.wanted

    def close(self, error: Exception) -> None:
        self.ended.append(error)

    def end(self, error: Exception) -> None:
        self.ended.append(error)


class Bench(ActorBench):
    """A set whose guardian and members are played by a test."""

    def __init__(self, search: TopicSearch | None = None, **settings: Any) -> None:
        super().__init__()
        self.members, self.link = Members(self.actors), HandleLink()
        given = (
            multi_topics_events.MultiTopicsSettings("the set", {TOPIC: 2}, **settings)
            if search is None
            else settings["settings"]
        )
        machine = MultiTopics(given)
        registrations = Registrations(self.guardian, [self.loop], 1)
        self.actor = MultiTopicsActor.start(
            registrations.new("topic set"),
            self.link,
            machine,
            lambda _: self.members,
            search or TopicSearch(),
            registrations,
        )
        self.loop.run()

    def opened(self) -> list[ActorRef]:
        """Have all members open, and give their addresses."""
        addresses = [self.members.addresses[order.member] for order in self.members.orders]
        self.tell(*(multi_topics_events.MemberOpened(order.member, "name") for order in self.members.orders))
        return addresses

    def asked(self) -> list[Any]:
        return self.actors.heard(self.guardian)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def pattern_bench(**settings: Any) -> Bench:
    given = multi_topics_events.MultiTopicsSettings("the set", {}, has_pattern=True, **settings)
    return Bench(TopicSearch(PATTERN), settings=given)


def test_every_effect_of_the_chart_is_performed() -> None:
    others = {StartTimer, FirstCreationFailed, HandleEnded, Fail}
    assert effects_of(multi_topics_events) == set(MultiTopicsActor.PERFORMS) - others


def test_the_user_hears_when_all_members_are_there(bench: Bench) -> None:
    assert [order.topic for order in bench.members.orders] == [f"{TOPIC}-partition-{index}" for index in range(2)]
    assert not bench.link.created.done()
    bench.opened()
    assert bench.link.created.exception(0) is None
    assert bench.members.admitted[-1] == (f"{TOPIC}-partition-0", f"{TOPIC}-partition-1")


def test_a_refusal_is_told_once_the_others_have_gone_and_then_it_can_be_let_go_of(bench: Bench) -> None:
    members = bench.members.addresses
    bench.tell(multi_topics_events.MemberLost(2, ProducerBusy("ProducerBusy", "taken")))
    assert of_kind(CloseHandle, bench.actors.heard(members[1]))
    assert not bench.link.created.done()
    bench.tell(multi_topics_events.MemberLost(1, CLOSED))
    with pytest.raises(ProducerBusy):
        bench.link.created.result(0)
    assert of_kind(ActorEnded, bench.asked())


def test_what_is_asked_of_all_is_asked_of_each_member_and_has_all_their_answers() -> None:
    bench = Bench(lazy=True, first=0)
    bench.tell(multi_topics_events.MemberOpened(1, "name"))
    done: SlimFuture[Any] = SlimFuture()
    bench.tell(multi_topics_events.AskMembers(done, lambda future: ("please", future)))
    ((word, future),) = bench.actors.heard(bench.members.addresses[1])
    assert word == "please"
    assert bench.members.owed == [future]
    bench.link.pending_calls.track(done)
    future.set_result(5)
    bench.loop.run()
    assert done.result(0) == {f"{TOPIC}-partition-0": 5}


def test_a_close_closes_all_members_and_ends_with_the_last(bench: Bench) -> None:
    members = bench.opened()
    bench.asked()
    bench.tell(CloseHandle())
    assert bench.members.ended  # callers are refused from the first moment
    assert all(of_kind(CloseHandle, bench.actors.heard(each)) for each in members)
    bench.tell(multi_topics_events.MemberLost(1, CLOSED))
    assert not bench.link.ended.done()
    bench.tell(multi_topics_events.MemberLost(2, CLOSED))
    assert bench.link.ended.done()
    assert of_kind(ActorEnded, bench.asked())


def test_a_close_first_creates_the_members_whose_messages_wait_and_closes_them_like_the_others() -> None:
    bench = Bench(lazy=True, first=0)
    bench.opened()
    bench.members.wanted = (f"{TOPIC}-partition-1",)
    bench.tell(CloseHandle())
    assert [order.topic for order in bench.members.orders] == [f"{TOPIC}-partition-{index}" for index in range(2)]
    assert all(of_kind(CloseHandle, bench.actors.heard(each)) for each in bench.members.addresses.values())
    bench.tell(multi_topics_events.MemberLost(1, CLOSED))
    assert not bench.link.ended.done()
    bench.tell(multi_topics_events.MemberLost(2, CLOSED))
    assert bench.link.ended.done()


def test_a_call_to_all_members_first_creates_those_whose_messages_wait() -> None:
    bench = Bench(lazy=True, first=0)
    bench.opened()
    bench.members.wanted = (f"{TOPIC}-partition-1",)
    flushed: SlimFuture[Any] = SlimFuture()
    bench.tell(multi_topics_events.AskMembers(flushed, request=FlushAll))
    assert [len(of_kind(FlushAll, bench.actors.heard(each))) for each in bench.members.addresses.values()] == [1, 1]
    assert not flushed.done()


def test_a_client_that_is_shut_down_waits_for_nobody(bench: Bench) -> None:
    bench.tell(EndAtOnce(CLOSED))
    with pytest.raises(AlreadyClosed):
        bench.link.created.result(0)
    assert bench.link.ended.done()


def test_futures_are_served_and_timed_on_its_loop(bench: Bench) -> None:
    bench.opened()
    ended: list[int] = []
    bench.tell(ServeReceiveFutures(), RunAfter(5.0, lambda: ended.append(1)))
    assert bench.members.served == 1
    assert not ended
    bench.loop.pass_time(5.0)
    assert ended == [1]


def test_new_partitions_are_passed_on_to_the_members() -> None:
    bench = Bench(look_again=60.0)
    bench.opened()
    bench.asked()
    bench.loop.pass_time(60.0)
    (question,) = of_kind(BrokerQuery, bench.asked())
    assert question.command.topic == TOPIC
    question.answered(CommandPartitionedTopicMetadataResponse(request_id=0, partitions=4))
    bench.loop.run()
    assert bench.members.grown == [(TOPIC, 4)]
    assert len(bench.members.orders) == 4


def test_a_pattern_asks_for_its_namespace_and_keeps_what_matches() -> None:
    bench = pattern_bench()
    (question,) = of_kind(BrokerQuery, bench.asked())
    assert question.command.namespace == "public/default"
    topics = ["persistent://public/default/t-a", "persistent://public/default/other"]
    question.answered(CommandGetTopicsOfNamespaceResponse(request_id=0, topics=topics))
    (count,) = of_kind(BrokerQuery, bench.asked())
    assert (count.command.topic, count.command.metadata_auto_creation_enabled) == (topics[0], False)


def test_a_pattern_watches_its_namespace_and_looks_again_when_topics_of_it_change() -> None:
    bench = pattern_bench(watches=True, look_again=60.0)
    (question,) = of_kind(BrokerQuery, bench.asked())
    question.answered(CommandGetTopicsOfNamespaceResponse(request_id=0))
    started, attaching = bench.asked()
    assert (type(started), type(attaching)) == (ActorStarted, AttachHandler)
    watch = started.who
    assert attaching.handler.kind == WATCHER
    bench.tell(TopicsChanged(watch, ("persistent://public/default/other",), ()))
    assert bench.asked() == []
    bench.tell(TopicsChanged(watch, ("persistent://public/default/t-a",), ()))
    assert of_kind(BrokerQuery, bench.asked())


def test_a_watch_that_ends_is_no_loss() -> None:
    bench = pattern_bench(look_again=60.0)
    (question,) = of_kind(BrokerQuery, bench.asked())
    question.answered(CommandGetTopicsOfNamespaceResponse(request_id=0))
    bench.tell(TopicListWatcherEnded(bench.actors.make(), ConnectError("no watching here")))
    assert bench.link.created.done()
    bench.loop.pass_time(60.0)
    assert of_kind(BrokerQuery, bench.asked())
