import re
from typing import Any

import pytest

from pulsar_actors.exceptions import InvalidTopicName
from pulsar_actors.machines.ledgers.topic_pattern import TopicPattern

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
