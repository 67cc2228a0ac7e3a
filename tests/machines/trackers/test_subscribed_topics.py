import re
from typing import Any

import pytest

from pulsar_actors.exceptions import ConnectError, InvalidTopicName, ProducerBusy, PulsarException, Timeout
from pulsar_actors.machines.trackers.subscribed_topics import (
    MultiTopicsCalls,
    SubscribedTopics,
    TopicPattern,
    naming_topic,
)

A, B = "persistent://public/default/a", "persistent://public/default/b"


def opened(subscribed: SubscribedTopics) -> dict[str, int]:
    """Have a member for every topic."""
    numbers = {topic: subscribed.add(topic, source) for topic, source in subscribed.missing()}
    for number in numbers.values():
        subscribed.set_open(number)
    return numbers


def test_a_topic_is_one_member_and_a_partitioned_one_has_one_for_each_partition() -> None:
    subscribed = SubscribedTopics()
    subscribed.set_partitions(A, 2)
    subscribed.set_partitions(B, 0)
    assert subscribed.missing() == [(f"{A}-partition-0", A), (f"{A}-partition-1", A), (B, B)]
    assert subscribed.partitioned == (A,)


def test_only_partitions_that_were_added_are_missing_and_fewer_than_before_count_for_nothing() -> None:
    subscribed = SubscribedTopics()
    subscribed.set_partitions(A, 2)
    opened(subscribed)
    subscribed.set_partitions(A, 1)
    assert subscribed.missing() == []
    subscribed.set_partitions(A, 3)
    assert subscribed.missing() == [(f"{A}-partition-2", A)]


def test_what_ended_by_itself_is_not_missing_and_what_never_was_there_still_is() -> None:
    subscribed = SubscribedTopics()
    subscribed.set_partitions(A, 2)
    first, second = (subscribed.add(*each) for each in subscribed.missing())
    subscribed.set_open(first)
    subscribed.remove(first, again=False)
    subscribed.remove(second, again=False)
    assert subscribed.missing() == [(f"{A}-partition-1", A)]


def test_a_topic_that_went_and_came_again_is_missing() -> None:
    subscribed = SubscribedTopics()
    subscribed.set_partitions(A, 0)
    (number,) = opened(subscribed).values()
    assert subscribed.drop_source(A) == [number]
    subscribed.close_some([number])
    subscribed.set_partitions(A, 0)
    assert subscribed.missing() == []  # until the first one has gone
    subscribed.remove(number, again=False)
    assert subscribed.missing() == [(A, A)]


def test_one_that_was_told_to_close_stays_told_when_it_opens() -> None:
    subscribed = SubscribedTopics()
    subscribed.set_partitions(A, 0)
    number = subscribed.add(A, A)
    assert subscribed.close_all() == [number]
    subscribed.set_open(number)
    assert subscribed.open == {}
    assert subscribed.close_all() == []


def test_those_that_are_being_made_are_counted_whatever_becomes_of_them() -> None:
    subscribed = SubscribedTopics()
    subscribed.set_partitions(A, 3)
    one, two, three = (subscribed.add(*each) for each in subscribed.missing())
    assert subscribed.opening == 3
    subscribed.set_open(one)
    subscribed.close_some([two])
    subscribed.remove(three, again=False)
    assert subscribed.opening == 0
    assert subscribed.open == {one: f"{A}-partition-0"}
    subscribed.remove(two, again=False)
    assert subscribed.is_only_member(one)


def test_a_topic_that_was_given_up_gets_no_other_member() -> None:
    subscribed = SubscribedTopics()
    subscribed.set_partitions(A, 0)
    (number,) = opened(subscribed).values()
    subscribed.exclude(number)
    subscribed.remove(number, again=True)
    assert subscribed.missing() == []


def test_names_that_only_look_like_partitions_are_members_as_they_were_listed() -> None:
    subscribed = SubscribedTopics()
    subscribed.set_partitions(A, 0, [f"{A}-partition-7"])
    assert subscribed.missing() == [(f"{A}-partition-7", A)]


def test_what_was_made_anew_has_only_the_partitions_that_are_counted_or_listed() -> None:
    subscribed = SubscribedTopics()
    parts = [f"{A}-partition-{number}" for number in range(4)]
    subscribed.set_partitions(A, 4, parts, anew=True)
    numbers = opened(subscribed)
    assert not subscribed.set_partitions(A, 2, parts[:3], anew=True)  # a count older than the list costs nothing
    assert subscribed.size == 3
    assert subscribed.outdated(A) == [numbers[parts[3]]]
    subscribed.set_partitions(A, 0, [A], anew=True)
    assert subscribed.outdated(A) == list(numbers.values())
    assert subscribed.missing() == [(A, A)]


def test_a_topic_without_partitions_is_known_as_what_it_is_listed_as() -> None:
    subscribed = SubscribedTopics()
    subscribed.set_partitions(A, 0, [A])
    subscribed.set_partitions(B, 1)
    assert subscribed.is_known_as(A, (A,))
    assert not subscribed.is_known_as(A, (f"{A}-partition-0",))
    assert not subscribed.is_known_as(B, (B,))
    assert not subscribed.is_known_as("persistent://public/default/c", ("persistent://public/default/c",))


MEMBERS = {1: "a", 2: "b"}


def test_a_call_ends_with_the_last_answer_and_has_them_all_by_topic() -> None:
    calls = MultiTopicsCalls()
    call = calls.begin("token", MEMBERS)
    assert calls.answered(call, 2, "two") is None
    assert calls.ends_with(call, 1)
    assert calls.answered(call, 1, "one") == ("token", {"a": "one", "b": "two"}, None)
    assert calls.answered(call, 1, "again") is None


def test_a_call_that_failed_somewhere_names_the_topics_and_says_how_many_have_done_it() -> None:
    calls = MultiTopicsCalls()
    call = calls.begin("token", {**MEMBERS, 3: "c"})
    calls.answered(call, 1, ConnectError("down"))
    assert calls.has_failed(call)
    calls.answered(call, 2, None)
    outcome = calls.answered(call, 3, Timeout("late"))
    assert outcome is not None
    assert type(outcome.error) is ConnectError
    assert str(outcome.error) == "it failed for 2 and was done for 1 topics: a: down; c: late"


def test_calls_that_are_drained_hear_no_more_answers() -> None:
    calls = MultiTopicsCalls()
    call = calls.begin("token", MEMBERS)
    assert calls.drain() == ["token"]
    assert calls.answered(call, 1, None) is None
    assert calls.drain() == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectError("down"), "t: down"),
        (ConnectError("t is down"), "t is down"),
        (ProducerBusy("ProducerBusy", "no"), "ProducerBusy: t: no"),
    ],
    ids=repr,
)
def test_an_error_keeps_its_kind_and_names_the_topic(error: PulsarException, text: str) -> None:
    named = naming_topic("t", error)
    assert type(named) is type(error)
    assert str(named) == text


START = "persistent://public/default/"
TOPICS = [f"{START}orders", f"{START}orders-new", f"{START}p-partition-0", f"{START}p-partition-1", f"{START}Orders"]


@pytest.mark.parametrize(
    ("pattern", "bases"),
    [
        ("persistent://public/default/orders.*", ["orders", "orders-new"]),
        ("public/default/orders.*", ["orders", "orders-new"]),
        ("orders", ["orders"]),
        ("orders-.*", ["orders-new"]),
        ("rders", []),
        ("p", ["p"]),
        ("p-.*", []),
        (".*-0", []),
        (re.compile("orders", re.IGNORECASE), ["orders", "Orders"]),
        ("(?i)orders", ["orders", "Orders"]),
    ],
    ids=repr,
)
def test_the_whole_name_has_to_match_and_partitions_are_their_topic(pattern: Any, bases: list[str]) -> None:
    found = TopicPattern(re.compile(pattern)).sort(TOPICS)
    assert [name.removeprefix(START) for name in found] == bases


def test_the_names_under_which_a_topic_was_listed_are_kept() -> None:
    assert TopicPattern(re.compile("p")).sort(TOPICS) == {
        f"{START}p": (f"{START}p-partition-0", f"{START}p-partition-1")
    }


def test_the_namespace_is_that_of_the_pattern_and_the_domain_does_not_count() -> None:
    pattern = TopicPattern(re.compile("tenant/space/.*"))
    assert pattern.namespace == "tenant/space"
    assert pattern.text == "persistent://tenant/space/.*"
    assert list(pattern.sort(["non-persistent://tenant/space/x"])) == ["non-persistent://tenant/space/x"]


@pytest.mark.parametrize("nonsense", ["", "persistent://a", "garbage://x/y/z", "a/b/c/d/e", "persistent://a//b"])
def test_what_is_listed_and_is_no_name_matches_nothing(nonsense: str) -> None:
    assert list(TopicPattern(re.compile(".*")).sort([nonsense, f"{START}orders"])) == [f"{START}orders"]


def test_what_cannot_be_a_pattern_of_names_is_refused() -> None:
    with pytest.raises(InvalidTopicName):
        TopicPattern(re.compile("a/b/c/d"))
