import re
from collections.abc import Callable
from typing import Any

import pytest
from loop_in_hand import Confidants, LoopInHand, effects_of, of_kind

from pulsar_actors.exceptions import AlreadyClosed, ConnectError, ProducerBusy
from pulsar_actors.machines import topic_set_events
from pulsar_actors.machines.binding_events import CreationFailed, EndAtOnce, Ended, Fail
from pulsar_actors.machines.ledgers.topic_pattern import TopicPattern
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.machines.topic_set import TopicSet
from pulsar_actors.machines.topic_set_events import Ask, MakeMember, MemberLost, MemberOpened
from pulsar_actors.machines.topic_set_settings import TopicSetSettings
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.binding_messages import CloseHandle, Place, Retired
from pulsar_actors.runtime.client_actor import Admit
from pulsar_actors.runtime.consumer_actor import After, Serve
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.lookup_actor import Question
from pulsar_actors.runtime.members import WATCHER
from pulsar_actors.runtime.ties import Ties
from pulsar_actors.runtime.topic_set_actor import Placed, Search, TopicSetActor
from pulsar_actors.runtime.watch_actor import TopicsChanged, WatchEnded
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetTopicsOfNamespaceResponse,
    CommandPartitionedTopicMetadataResponse,
)

TOPIC = "persistent://public/default/t"
PATTERN = TopicPattern(re.compile("public/default/t-.*"))
CLOSED = AlreadyClosed("closed")


class Crew:
    """It makes no members, and notes what it is told."""

    def __init__(self) -> None:
        self.orders: list[MakeMember] = []
        self.admitted: list[tuple[str, ...]] = []
        self.lost: list[int] = []
        self.owed: list[SlimFuture[Any]] = []
        self.grown: list[tuple[str, int]] = []
        self.served = 0
        self.ended: list[Exception] = []

    def make(self, order: MakeMember, report: Callable[[object], None]) -> None:
        del report
        self.orders.append(order)

    def owe(self, member: int, call: SlimFuture[Any]) -> None:
        del member
        self.owed.append(call)

    def lose(self, member: int, _: object) -> None:
        self.lost.append(member)

    def admit(self, admission: Any, _: object) -> None:
        self.admitted.append(tuple(admission.members))

    def grow(self, topic: str, partitions: int) -> None:
        self.grown.append((topic, partitions))

    def serve(self) -> None:
        self.served += 1

    def end(self, error: Exception) -> None:
        self.ended.append(error)


class Bench:
    """A set whose guardian and members are played by a test."""

    def __init__(self, search: Search | None = None, **settings: Any) -> None:
        self.loop = LoopInHand()
        self.confidants = Confidants(self.loop)
        self.guardian = self.confidants.make()
        self.crew, self.ties = Crew(), Ties()
        given = TopicSetSettings("the set", {TOPIC: 2}, **settings) if search is None else settings["settings"]
        machine = TopicSet(given)
        place = Place("topic set", 1, self.guardian, 0)
        self.set = TopicSetActor.start(self.loop, place, self.ties, machine, self.crew, search or Search())
        self.loop.run()

    def tell(self, *messages: object) -> None:
        for message in messages:
            tell(self.set, message)
        self.loop.run()

    def place(self, member: int) -> Address:
        address = self.confidants.make()
        self.tell(Placed(member, address))
        return address

    def opened(self) -> list[Address]:
        """Have all members open, and give their addresses."""
        addresses = [self.place(order.member) for order in self.crew.orders]
        self.tell(*(MemberOpened(order.member, "name") for order in self.crew.orders))
        return addresses

    def asked(self) -> list[Any]:
        return self.confidants.heard(self.guardian)


def pattern_bench(**settings: Any) -> Bench:
    given = TopicSetSettings("the set", {}, has_pattern=True, **settings)
    return Bench(Search(PATTERN), settings=given)


def test_every_effect_of_the_chart_is_performed() -> None:
    others = {StartTimer, CreationFailed, Ended, Fail}
    assert effects_of(topic_set_events) == set(TopicSetActor.PERFORMS) - others


def test_the_user_hears_when_all_members_are_there() -> None:
    bench = Bench()
    assert [order.topic for order in bench.crew.orders] == [f"{TOPIC}-partition-{index}" for index in range(2)]
    assert not bench.ties.created.done()
    bench.opened()
    assert bench.ties.created.exception(0) is None
    assert bench.crew.admitted[-1] == (f"{TOPIC}-partition-0", f"{TOPIC}-partition-1")


def test_a_refusal_is_told_once_the_others_have_gone_and_then_it_can_be_let_go_of() -> None:
    bench = Bench()
    members = [bench.place(1), bench.place(2)]
    bench.tell(MemberLost(2, ProducerBusy("ProducerBusy", "taken")))
    assert of_kind(CloseHandle, bench.confidants.heard(members[0]))
    assert not bench.ties.created.done()
    bench.tell(MemberLost(1, CLOSED))
    with pytest.raises(ProducerBusy):
        bench.ties.created.result(0)
    assert of_kind(Retired, bench.asked())


def test_what_is_for_a_member_whose_address_is_not_known_yet_waits_for_it() -> None:
    bench = Bench(lazy=True, first=0)
    bench.tell(MemberOpened(1, "name"))
    done: SlimFuture[Any] = SlimFuture()
    bench.tell(Ask(done, lambda future: ("please", future)))
    address = bench.place(1)
    ((word, future),) = bench.confidants.heard(address)
    assert word == "please"
    assert bench.crew.owed == [future]
    bench.ties.debts.owe(done)
    future.set_result(5)
    bench.loop.run()
    assert done.result(0) == {f"{TOPIC}-partition-0": 5}


def test_a_close_closes_all_members_and_ends_with_the_last() -> None:
    bench = Bench()
    members = bench.opened()
    bench.asked()
    bench.tell(CloseHandle())
    assert bench.crew.ended  # callers are refused from the first moment
    assert all(of_kind(CloseHandle, bench.confidants.heard(each)) for each in members)
    bench.tell(MemberLost(1, CLOSED))
    assert not bench.ties.ended.done()
    bench.tell(MemberLost(2, CLOSED))
    assert bench.ties.ended.done()
    assert of_kind(Retired, bench.asked())


def test_a_client_that_is_shut_down_waits_for_nobody() -> None:
    bench = Bench()
    bench.tell(EndAtOnce(CLOSED))
    with pytest.raises(AlreadyClosed):
        bench.ties.created.result(0)
    assert bench.ties.ended.done()


def test_a_member_that_was_made_too_late_is_closed_again() -> None:
    bench = Bench()
    bench.tell(EndAtOnce(CLOSED))
    late = bench.place(1)
    assert of_kind(CloseHandle, bench.confidants.heard(late))


def test_futures_are_served_and_timed_on_its_loop() -> None:
    bench = Bench()
    bench.opened()
    ended: list[int] = []
    bench.tell(Serve(), After(5.0, lambda: ended.append(1)))
    assert bench.crew.served == 1
    assert not ended
    bench.loop.pass_time(5.0)
    assert ended == [1]


def test_new_partitions_are_told_to_the_crew() -> None:
    bench = Bench(look_again=60.0)
    bench.opened()
    bench.asked()
    bench.loop.pass_time(60.0)
    (question,) = of_kind(Question, bench.asked())
    assert question.command.topic == TOPIC
    question.answered(CommandPartitionedTopicMetadataResponse(request_id=0, partitions=4))
    bench.loop.run()
    assert bench.crew.grown == [(TOPIC, 4)]
    assert len(bench.crew.orders) == 4


def test_a_pattern_asks_for_its_namespace_and_keeps_what_matches() -> None:
    bench = pattern_bench()
    (question,) = of_kind(Question, bench.asked())
    assert question.command.namespace == "public/default"
    topics = ["persistent://public/default/t-a", "persistent://public/default/other"]
    question.answered(CommandGetTopicsOfNamespaceResponse(request_id=0, topics=topics))
    (count,) = of_kind(Question, bench.asked())
    assert (count.command.topic, count.command.metadata_auto_creation_enabled) == (topics[0], False)


def test_a_pattern_watches_its_namespace_and_looks_again_when_topics_of_it_change() -> None:
    bench = pattern_bench(watches=True)
    (question,) = of_kind(Question, bench.asked())
    question.answered(CommandGetTopicsOfNamespaceResponse(request_id=0))
    (admission,) = of_kind(Admit, bench.asked())
    assert admission.kind == WATCHER
    watch = bench.confidants.make()
    bench.tell(TopicsChanged(watch, ("persistent://public/default/other",), ()))
    assert bench.asked() == []
    bench.tell(TopicsChanged(watch, ("persistent://public/default/t-a",), ()))
    assert of_kind(Question, bench.asked())


def test_a_watch_that_ends_is_no_loss() -> None:
    bench = pattern_bench(look_again=60.0)
    (question,) = of_kind(Question, bench.asked())
    question.answered(CommandGetTopicsOfNamespaceResponse(request_id=0))
    bench.tell(WatchEnded(bench.confidants.make(), ConnectError("no watching here")))
    assert bench.ties.created.done()
    bench.loop.pass_time(60.0)
    assert of_kind(Question, bench.asked())
