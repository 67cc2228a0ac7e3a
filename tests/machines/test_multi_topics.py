from functools import partial
from typing import Any

import pytest

from pulsar_actors.exceptions import AlreadyClosed, ConsumerBusy, ProducerBusy, Timeout, TopicNotFound, TopicTerminated
from pulsar_actors.machines.connection_handler_events import Close, Fail, FirstCreationFailed, HandleEnded, Open
from pulsar_actors.machines.multi_topics import MultiTopics, State
from pulsar_actors.machines.multi_topics_events import (
    AskMember,
    AskMembers,
    CloseMember,
    CountPartitions,
    CreateMember,
    DiscoveryDue,
    ListTopics,
    MatchingTopicsListed,
    MemberAnswered,
    MemberLost,
    MemberOpened,
    MembersDone,
    MemberWanted,
    MultiTopicsOpened,
    MultiTopicsSettings,
    PartitionsCounted,
    PartitionsGrown,
    TopicListChanged,
    UnsubscribeAll,
    UpdateMembers,
    WatchTopics,
)
from pulsar_actors.machines.partition_discovery import TOPICS_CHANGED_PAUSE
from pulsar_actors.machines.state_machine import StartTimer
from tests.machines.driven import Driven
from tests.support.steps import steps

A, B = "persistent://public/default/a", "persistent://public/default/b"
CLOSED = AlreadyClosed("closed")
GONE = TopicNotFound("TopicNotFound", "gone")
ENDED = TopicTerminated("TopicTerminated", "over")


def part(number: int) -> str:
    return f"{A}-partition-{number}"


def made(topics: dict[str, int | None], **further: Any) -> Driven:
    """A set that is being made, and has asked for what it wants to know."""
    return Driven(MultiTopics(MultiTopicsSettings("the set", topics, look_again=60.0, **further)), Open())


def ready(topics: dict[str, int | None], **further: Any) -> Driven:
    """One that is there, with members from 1 on."""
    driven = made(topics, **further)
    while orders := driven.did(CreateMember):
        driven.effects = [effect for order in orders for effect in driven.tell(MemberOpened(order.member, "name"))]
    assert driven.machine.state is State.READY
    return driven


def test_all_members_are_made_at_once_and_the_user_hears_when_the_last_is_there() -> None:
    driven = made({A: 3})
    assert [order.topic for order in driven.did(CreateMember)] == [part(0), part(1), part(2)]
    assert [order.among for order in driven.did(CreateMember)] == [3, 3, 3]
    driven.tell(MemberOpened(1, ""), MemberOpened(3, ""))
    assert driven.effects == []
    driven.tell(MemberOpened(2, ""))
    assert driven.did(MultiTopicsOpened)
    assert driven.did(UpdateMembers) == [UpdateMembers({part(0): 1, part(1): 2, part(2): 3})]


def test_topics_that_nobody_has_asked_about_are_counted_first() -> None:
    driven = made({A: None, B: 0})
    assert driven.did(CountPartitions) == [CountPartitions(1, A)]
    driven.tell(PartitionsCounted(1, A, 2))
    assert {order.topic for order in driven.did(CreateMember)} == {B, part(0), part(1)}


def test_the_first_producer_gives_its_name_to_the_others() -> None:
    driven = made({A: 3}, first=1)
    assert [(order.topic, order.name) for order in driven.did(CreateMember)] == [(part(1), "")]
    driven.tell(MemberOpened(1, "chosen"))
    assert [(order.topic, order.name) for order in driven.did(CreateMember)] == [
        (part(0), "chosen"),
        (part(2), "chosen"),
    ]


def test_a_refusal_closes_the_others_before_the_user_hears_of_it_with_its_topic() -> None:
    driven = made({A: 2})
    driven.tell(MemberOpened(1, ""), MemberLost(2, ProducerBusy("ProducerBusy", "taken")))
    assert driven.did(CloseMember) == [CloseMember(2), CloseMember(1)]
    assert not driven.did(FirstCreationFailed)
    driven.tell(MemberLost(1, CLOSED))
    (failed,) = driven.did(FirstCreationFailed)
    assert isinstance(failed.error, ProducerBusy)
    assert part(1) in str(failed.error)
    assert driven.machine.state is State.FAILED


def test_a_set_that_could_not_be_created_in_time_names_the_member_that_was_not_and_what_went_wrong_there() -> None:
    driven = made({A: 2})
    late = Timeout("the producer could not be created within 30 s: still LOOKING_UP; the last failure was: reset")
    driven.tell(MemberOpened(1, ""), MemberLost(2, late), MemberLost(1, CLOSED))
    (failed,) = driven.did(FirstCreationFailed)
    assert isinstance(failed.error, Timeout)
    assert str(failed.error) == f"{part(1)}: {late}"


def test_a_call_to_all_that_was_not_done_in_time_names_each_member_and_what_went_wrong_there() -> None:
    driven = ready({A: 2})
    driven.tell(AskMembers("call", lambda _: None))
    (one, other) = driven.did(AskMember)
    driven.tell(MemberAnswered(one.call, one.member, "done"))
    driven.tell(MemberAnswered(other.call, other.member, Timeout("not in time; the last failure was: reset")))
    (failed,) = driven.did(Fail)
    assert isinstance(failed.error, Timeout)
    assert f"{part(1)}: not in time; the last failure was: reset" in str(failed.error)


def test_a_close_while_members_are_made_ends_with_the_last_of_them() -> None:
    driven = made({A: 2})
    driven.tell(Close())
    assert driven.did(FirstCreationFailed)
    assert driven.did(CloseMember) == [CloseMember(1), CloseMember(2)]
    driven.tell(MemberLost(1, CLOSED))
    assert not driven.did(HandleEnded)
    driven.tell(MemberLost(2, CLOSED))
    assert driven.did(HandleEnded) == [HandleEnded(None)]


def test_partitions_that_were_added_get_members_and_are_told_of_once() -> None:
    driven = ready({A: 1})
    driven.fire(DiscoveryDue)
    (question,) = driven.did(CountPartitions)
    driven.tell(PartitionsCounted(question.discovery, A, 3))
    assert driven.did(PartitionsGrown) == [PartitionsGrown(A, 3)]
    assert [order.topic for order in driven.did(CreateMember)] == [part(1), part(2)]
    driven.fire(DiscoveryDue)
    driven.tell(PartitionsCounted(driven.machine.discovery, A, 3))
    assert driven.did(PartitionsGrown) == []


def test_a_cluster_where_the_topic_has_fewer_partitions_changes_nothing() -> None:
    driven = ready({A: 3})
    driven.fire(DiscoveryDue)
    driven.tell(PartitionsCounted(driven.machine.discovery, A, 1))
    assert driven.did(CloseMember) == driven.did(PartitionsGrown) == []
    assert driven.machine.state is State.READY


def test_a_lazy_set_makes_what_is_wanted_and_nothing_else() -> None:
    driven = ready({A: 3}, first=0, lazy=True)
    driven.tell(MemberWanted(part(2)))
    assert [order.topic for order in driven.did(CreateMember)] == [part(2)]
    assert driven.tell(MemberWanted(part(2))) == []


def test_a_member_that_ends_leaves_the_others_at_work_and_the_last_one_ends_the_set() -> None:
    driven = ready({A: 2})
    driven.tell(MemberLost(1, ENDED))
    assert driven.did(UpdateMembers) == [UpdateMembers({}, gone=(part(0),))]
    driven.tell(MemberLost(2, ENDED))
    (ended,) = driven.did(HandleEnded)
    assert isinstance(ended.error, TopicTerminated)


def test_topics_of_a_pattern_come_and_go() -> None:
    driven = made({}, has_pattern=True, watches=True)
    (question,) = driven.did(ListTopics)
    driven.tell(MatchingTopicsListed(question.discovery, {}))
    assert driven.did(MultiTopicsOpened)
    assert driven.did(WatchTopics)
    driven.tell(TopicListChanged())
    discovery = driven.machine.discovery
    driven.tell(MatchingTopicsListed(discovery, {B: (B,)}), PartitionsCounted(discovery, B, 0))
    (order,) = driven.did(CreateMember)
    driven.tell(MemberOpened(order.member, ""), TopicListChanged())
    driven.tell(MatchingTopicsListed(driven.machine.discovery, {}))
    assert driven.did(CloseMember) == [CloseMember(order.member)]
    assert driven.did(UpdateMembers) == [UpdateMembers({}, gone=(B,))]


def crowd(size: int) -> list[str]:
    return [f"persistent://public/default/t-{number}" for number in range(size)]


def come_and_go(driven: Driven, topics: list[str]) -> list[UpdateMembers]:
    """Have topics come under a pattern, and all their members open, and end, one by one."""
    told: list[UpdateMembers] = []
    driven.tell(TopicListChanged())
    discovery = driven.machine.discovery
    driven.tell(MatchingTopicsListed(discovery, {topic: (topic,) for topic in topics}))
    driven.tell(*(PartitionsCounted(discovery, topic, 0) for topic in topics))
    members = [order.member for order in driven.did(CreateMember)]
    for member in members:
        driven.tell(MemberOpened(member, ""))
        told += driven.did(UpdateMembers)
    for member in members:
        driven.tell(MemberLost(member, ENDED))
        told += driven.did(UpdateMembers)
    return told


def vanish(driven: Driven, topics: list[str]) -> list[UpdateMembers]:
    """Have topics come that are gone when their members are being made."""
    driven.tell(MatchingTopicsListed(1, {topic: (topic,) for topic in topics}))
    driven.tell(*(PartitionsCounted(1, topic, 0) for topic in topics))
    for order in driven.did(CreateMember):
        driven.tell(MemberLost(order.member, GONE))
    return driven.did(UpdateMembers)


def be_wanted(driven: Driven, topics: list[str]) -> list[UpdateMembers]:
    """Have all partitions of a lazy producer be wanted, one by one."""
    told: list[UpdateMembers] = []
    for number in range(1, len(topics)):
        driven.tell(MemberWanted(part(number)))
        (order,) = driven.did(CreateMember)
        driven.tell(MemberOpened(order.member, ""))
        told += driven.did(UpdateMembers)
    return told


def under_a_pattern(_: list[str]) -> Driven:
    driven = made({}, has_pattern=True)
    driven.tell(MatchingTopicsListed(1, {}))
    return driven


def not_there_yet(_: list[str]) -> Driven:
    return made({}, has_pattern=True)


def lazy(topics: list[str]) -> Driven:
    return ready({A: len(topics)}, first=0, lazy=True)


def test_callers_are_told_of_each_member_once_when_it_comes_and_once_when_it_goes() -> None:
    topics = crowd(500)
    told = come_and_go(under_a_pattern(topics), topics)
    assert [topic for each in told for topic in each.members] == topics
    assert [topic for each in told for topic in each.gone] == topics


@pytest.mark.parametrize(
    ("begun", "happens"), [(under_a_pattern, come_and_go), (not_there_yet, vanish), (lazy, be_wanted)]
)
def test_twice_as_many_members_take_twice_as_many_steps(begun: Any, happens: Any) -> None:
    taken: list[int] = []
    for size in (100, 200):
        topics = crowd(size)
        driven = begun(topics)
        taken.append(steps(lambda driven=driven, topics=topics: happens(driven, topics)))
    assert taken[1] < 2.2 * taken[0]


def test_a_lazy_set_tells_which_partitions_have_a_place_only() -> None:
    driven = made({A: 3}, first=1, lazy=True)
    driven.tell(MemberOpened(1, "name"))
    assert driven.did(UpdateMembers) == [UpdateMembers({part(1): 1}), UpdateMembers({}, uncreated=(part(0), part(2)))]


@pytest.mark.parametrize(("before", "after"), [(3, 0), (0, 3), (1, 0), (3, 1)])
def test_a_topic_of_a_pattern_that_was_made_anew_between_two_looks_has_the_members_of_the_new_one(
    before: int, after: int
) -> None:
    names = {count: tuple(part(number) for number in range(count)) or (A,) for count in (before, after)}
    driven = made({}, has_pattern=True)
    driven.tell(MatchingTopicsListed(driven.machine.discovery, {A: names[before]}))
    driven.tell(PartitionsCounted(driven.machine.discovery, A, before))
    members = {order.topic: order.member for order in driven.did(CreateMember)}
    driven.tell(*(MemberOpened(member, "") for member in members.values()), TopicListChanged())
    driven.tell(MatchingTopicsListed(driven.machine.discovery, {A: names[after]}))
    driven.tell(PartitionsCounted(driven.machine.discovery, A, after))
    old, new = set(names[before]) - set(names[after]), set(names[after]) - set(names[before])
    assert driven.did(CloseMember) == [CloseMember(members[topic]) for topic in members if topic in old]
    assert {order.topic for order in driven.did(CreateMember)} == new
    assert driven.did(UpdateMembers) == [UpdateMembers({}, tuple(topic for topic in members if topic in old))]


def test_a_topic_that_is_named_beside_a_pattern_stays_whatever_the_pattern_finds() -> None:
    driven = made({A: None}, has_pattern=True)
    driven.tell(MatchingTopicsListed(1, {B: (B,)}))
    assert driven.did(CountPartitions) == [
        CountPartitions(1, A, may_create=True),
        CountPartitions(1, B, may_create=False),
    ]
    driven.tell(PartitionsCounted(1, A, 0), PartitionsCounted(1, B, 0))
    assert [(order.topic, order.may_create) for order in driven.did(CreateMember)] == [(A, True), (B, False)]
    driven.tell(MemberOpened(1, ""), MemberOpened(2, ""), TopicListChanged(), MatchingTopicsListed(2, {}))
    assert driven.did(CloseMember) == [CloseMember(2)]
    assert driven.did(UpdateMembers)[-1] == UpdateMembers({}, gone=(B,))


def test_a_topic_that_is_named_beside_a_pattern_has_to_be_there() -> None:
    for answers in ((PartitionsCounted(1, A, GONE),), (PartitionsCounted(1, A, 0), MemberLost(1, GONE))):
        driven = made({A: None}, has_pattern=True)
        driven.tell(MatchingTopicsListed(1, {}), *answers)
        (failed,) = driven.did(FirstCreationFailed)
        assert isinstance(failed.error, TopicNotFound)


def test_an_answer_to_an_earlier_look_means_nothing() -> None:
    driven = made({}, has_pattern=True)
    driven.tell(MatchingTopicsListed(1, {}), TopicListChanged(), MatchingTopicsListed(2, {}), TopicListChanged())
    assert driven.tell(MatchingTopicsListed(2, {B: (B,)})) == []


def test_topics_that_come_without_end_do_not_keep_a_look_from_its_end() -> None:
    driven = made({}, has_pattern=True)
    driven.tell(MatchingTopicsListed(1, {}), TopicListChanged())
    for _ in range(3):
        assert driven.tell(TopicListChanged()) == []
    driven.tell(MatchingTopicsListed(2, {B: (B,)}), PartitionsCounted(2, B, 0))
    assert [order.topic for order in driven.did(CreateMember)] == [B]
    (timer,) = driven.did(StartTimer)
    assert timer.delay == TOPICS_CHANGED_PAUSE
    driven.fire(DiscoveryDue)
    driven.tell(MatchingTopicsListed(3, {}))
    (timer,) = driven.did(StartTimer)
    assert timer.delay == 60.0


def test_a_topic_that_goes_while_its_partitions_are_subscribed_to_costs_the_others_nothing() -> None:
    driven = made({}, has_pattern=True)
    driven.tell(
        MatchingTopicsListed(1, {A: (part(0), part(1)), B: (B,)}),
        PartitionsCounted(1, A, 2),
        PartitionsCounted(1, B, 0),
    )
    driven.tell(MemberOpened(3, ""), MemberLost(1, TopicNotFound("TopicNotFound", "gone")))
    assert driven.did(CloseMember) == [CloseMember(1), CloseMember(2)]
    driven.tell(MemberLost(2, CLOSED))
    assert driven.did(MultiTopicsOpened)
    assert driven.did(UpdateMembers) == [UpdateMembers({B: 3})]


def test_a_topic_that_is_named_beside_one_of_its_partitions_has_one_member_for_each() -> None:
    driven = made({A: 2, part(0): 0})
    assert [order.topic for order in driven.did(CreateMember)] == [part(0), part(1)]
    assert [order.among for order in driven.did(CreateMember)] == [2, 2]


def test_what_is_asked_of_all_ends_with_the_last_answer_and_has_that_of_each_topic() -> None:
    driven = ready({A: 2})
    driven.tell(AskMembers("token", partial(tuple)))
    calls = driven.did(AskMember)
    assert [one.member for one in calls] == [1, 2]
    driven.tell(MemberAnswered(calls[0].call, 1, "one"))
    assert driven.effects == []
    driven.tell(MemberAnswered(calls[0].call, 2, "two"))
    assert driven.effects == [MembersDone("token", {part(0): "one", part(1): "two"})]


def test_what_brokers_only_know_of_stored_topics_is_asked_of_those_alone() -> None:
    unstored = "non-persistent://public/default/c"
    driven = ready({A: 0, unstored: 0})
    (asked,) = driven.tell(AskMembers("token", partial(tuple), persistent=True))
    assert asked.member == 1
    (done,) = driven.tell(MemberAnswered(asked.call, 1, "last"))
    assert done == MembersDone("token", {A: "last"})
    assert ready({unstored: 0}).tell(AskMembers("token", partial(tuple), persistent=True)) == [MembersDone("token", {})]


def test_an_unsubscribe_that_one_topic_refuses_names_it_and_the_set_goes_on_there() -> None:
    driven = ready({A: 2})
    driven.tell(UnsubscribeAll("token", partial(tuple)))
    (call, _) = driven.did(AskMember)
    driven.tell(
        MemberAnswered(call.call, 1, None),
        MemberLost(1, CLOSED),
        MemberAnswered(call.call, 2, ConsumerBusy("ConsumerBusy", "others are there")),
    )
    (failed,) = driven.did(Fail)
    assert part(1) in str(failed.error)
    assert part(0) not in str(failed.error)
    assert driven.machine.state is State.READY
    driven.fire(DiscoveryDue)
    driven.tell(PartitionsCounted(driven.machine.discovery, A, 2))
    assert driven.did(CreateMember) == []  # or the subscription would come back
