import pickle
import re
from typing import Any

import pytest

from pulsar_actors.client.consumer_options import ConsumerOptions, ReaderOptions
from pulsar_actors.client.enums import ConsumerType, SubscriptionMode
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy, ConsumerKeySharedPolicy, MultiplierRedeliveryBackoff
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, InvalidTopicName

SHARED = {"consumer_type": ConsumerType.Shared}
RETRIES = {"enable_retry": True, **SHARED}
R = "persistent://public/default/r"
NOT_KEPT = "non-persistent://public/default/r"
PATTERN = re.compile(r"persistent://public/default/t-.*")


@pytest.mark.parametrize(
    ("topic", "kept", "topics"),
    [("t", "t", ("t",)), (["a", "b"], ("a", "b"), ("a", "b")), (("a",), ("a",), ("a",)), (PATTERN, PATTERN, ())],
)
def test_a_topic_is_one_or_several_or_a_pattern(topic: Any, kept: Any, topics: tuple[str, ...]) -> None:
    options = ConsumerOptions(topic, "s")
    assert (options.topic, options.topics) == (kept, topics)


@pytest.mark.parametrize("topic", [[], (), ["a", None]])
def test_what_is_no_topic_is_refused(topic: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^topic(\[\d\])? takes a topic's name"):
        ConsumerOptions(topic, "s")


@pytest.mark.parametrize("topic", ["", "a/b", ["fine", "a/b"]])
def test_a_wrong_topic_is_refused_as_that(topic: Any) -> None:
    with pytest.raises(InvalidTopicName):
        ConsumerOptions(topic, "s")


WRONG: list[tuple[str, Any]] = [
    *((name, -1) for name in ("receiver_queue_size", "max_total_receiver_queue_size_across_partitions")),
    *((name, -1) for name in ("unacked_messages_timeout_ms", "negative_ack_redelivery_delay_ms")),
    *((name, -1) for name in ("max_pending_chunked_message", "expire_time_of_incomplete_chunked_message_ms")),
    *(("ack_grouping_time_ms", -1), ("ack_grouping_max_size", 0), ("pattern_auto_discovery_period", 0)),
    *(("priority_level", -1), ("priority_level", 2**31), ("interceptors", "ab")),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_argument_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name}(\['a'\])? takes "):
        ConsumerOptions(**{"topic": "t", "subscription_name": "s", name: value})


@pytest.mark.parametrize(
    ("topic", "together"),
    [
        (["a", "b"], {"receiver_queue_size": 0}),
        (PATTERN, {"receiver_queue_size": 0}),
        ("t", {"is_read_compacted": True, "consumer_type": ConsumerType.Shared}),
        ("t", {"is_read_compacted": True, "consumer_type": ConsumerType.KeyShared}),
        ("non-persistent://a/b/c", {"is_read_compacted": True}),
        ("t", {"start_paused": True}),
        ("t", {"ack_timeout_redelivery_backoff": MultiplierRedeliveryBackoff()}),
        ("t", {"enable_retry": True}),
        ("t", {"enable_retry": True, "consumer_type": ConsumerType.Failover}),
        ("t", {"dead_letter_policy": ConsumerDeadLetterPolicy(1, retry_letter_topic="r"), **SHARED}),
        ("t", {"subscription_mode": SubscriptionMode.NonDurable, **RETRIES}),
        ("t", {"receiver_queue_size": 0, **RETRIES}),
        (PATTERN, RETRIES),
        (PATTERN, {"dead_letter_policy": ConsumerDeadLetterPolicy(1, "d"), **RETRIES}),
        ("non-persistent://public/default/t", RETRIES),
        ("t", {"dead_letter_policy": ConsumerDeadLetterPolicy(1, retry_letter_topic=NOT_KEPT), **RETRIES}),
        ("t", {"dead_letter_policy": ConsumerDeadLetterPolicy(1, "r", retry_letter_topic=R), **RETRIES}),
    ],
)
def test_what_excludes_each_other_is_refused_as_a_configuration(topic: Any, together: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfiguration):
        ConsumerOptions(topic, "s", **together)


@pytest.mark.parametrize(
    ("topic", "together"),
    [
        ("t", {"receiver_queue_size": 0}),
        ("t", {"is_read_compacted": True}),
        (PATTERN, {"is_read_compacted": True, "consumer_type": ConsumerType.Failover}),
        ("t", {"unacked_messages_timeout_ms": 0}),
        ("t", {"unacked_messages_timeout_ms": 50}),
        ("t", {"unacked_messages_timeout_ms": 50, "ack_timeout_redelivery_backoff": MultiplierRedeliveryBackoff()}),
        ("t", {"start_paused": True, "message_listener": print}),
        ("t", {"key_shared_policy": ConsumerKeySharedPolicy(), "dead_letter_policy": ConsumerDeadLetterPolicy(1)}),
    ],
)
def test_what_goes_together_is_taken(topic: Any, together: dict[str, Any]) -> None:
    options = ConsumerOptions(topic, "s", **together)
    assert {name: getattr(options, name) for name in together} == together


@pytest.mark.parametrize(
    ("topic", "given", "known"),
    [
        ("t", None, (16, f"{R[:-1]}t-s-RETRY", f"{R[:-1]}t-s-DLQ", "")),
        (["t-b", "t-a"], None, (16, f"{R[:-1]}t-a-s-RETRY", f"{R[:-1]}t-a-s-DLQ", "")),
        ("t-partition-3", None, (16, f"{R[:-1]}t-partition-3-s-RETRY", f"{R[:-1]}t-partition-3-s-DLQ", "")),
        ("t", ConsumerDeadLetterPolicy(2, None, "first"), (2, f"{R[:-1]}t-s-RETRY", f"{R[:-1]}t-s-DLQ", "first")),
        ("t", ConsumerDeadLetterPolicy(2, "d", retry_letter_topic="r"), (2, R, f"{R[:-1]}d", "")),
        (PATTERN, ConsumerDeadLetterPolicy(2, "d", retry_letter_topic="r"), (2, R, f"{R[:-1]}d", "")),
        (NOT_KEPT, ConsumerDeadLetterPolicy(2, "d", retry_letter_topic="r"), (2, R, f"{R[:-1]}d", "")),
    ],
)
def test_where_retries_go_is_said_or_follows_from_the_topic(topic: Any, given: Any, known: tuple[Any, ...]) -> None:
    options = ConsumerOptions(topic, "s", dead_letter_policy=given, **RETRIES)
    policy: Any = options.dead_letter_policy
    names = (policy.retry_letter_topic, policy.dead_letter_topic, policy.initial_subscription_name)
    assert (policy.max_redeliver_count, *names) == known
    assert options.known_topics[-1] == policy.retry_letter_topic


@pytest.mark.parametrize(
    ("subscription", "policy"),
    [("s" * 3_000_000, None), ("s", (1, "d" * 6_000_000)), ("s", (1, "d" * 3_000_000, "i" * 3_000_000))],
    ids=["the retry topic", "the dead letter topic", "its first subscription"],
)
def test_names_of_further_topics_that_no_broker_takes_are_refused(subscription: str, policy: Any) -> None:
    with pytest.raises(InvalidArgument, match="takes no more than 5,242,880 bytes"):
        ConsumerOptions("t", subscription, dead_letter_policy=policy and ConsumerDeadLetterPolicy(*policy), **RETRIES)


def test_the_retry_topic_counts_once_if_it_is_one_of_the_topics() -> None:
    policy = ConsumerDeadLetterPolicy(1, retry_letter_topic="r")
    assert ConsumerOptions(["t", "r"], "s", dead_letter_policy=policy, **RETRIES).known_topics == (f"{R[:-1]}t", R)


def test_options_can_be_pickled_but_not_be_changed() -> None:
    options = ConsumerOptions(["a", "b"], "s", properties={"a": "b"}, message_listener=print)
    twin = pickle.loads(pickle.dumps(options))  # noqa: S301 - our own pickle
    assert (twin.topic, twin.properties, twin.message_listener) == (("a", "b"), {"a": "b"}, print)
    with pytest.raises(AttributeError):
        options.topic = "another"  # type: ignore[misc]


@pytest.mark.parametrize(("name", "value"), [("topic", []), ("receiver_queue_size", -1)])
def test_a_wrong_argument_of_a_reader_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name} takes "):
        ReaderOptions(**{"topic": "t", "start_message_id": MessageId.earliest, name: value})


def test_a_wrong_topic_of_a_reader_is_refused_as_that() -> None:
    with pytest.raises(InvalidTopicName):
        ReaderOptions("a/b", MessageId.latest)


def test_a_topic_that_is_never_compacted_has_no_compacted_view() -> None:
    with pytest.raises(InvalidConfiguration):
        ReaderOptions("non-persistent://a/b/c", MessageId.latest, is_read_compacted=True)


def test_options_of_a_reader_can_be_pickled_but_not_be_changed() -> None:
    options = ReaderOptions("t", MessageId(1, 2, 3, 4), is_read_compacted=True, reader_name="")
    twin = pickle.loads(pickle.dumps(options))  # noqa: S301 - our own pickle
    assert (twin.start_message_id, twin.is_read_compacted, twin.reader_name) == (MessageId(1, 2, 3, 4), True, None)
    with pytest.raises(AttributeError):
        options.topic = "another"  # type: ignore[misc]
