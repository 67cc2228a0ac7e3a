import pickle
import re
from typing import Any

import pytest

from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy, ConsumerKeySharedPolicy
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, InvalidTopicName, OperationNotSupported

PATTERN = re.compile(r"persistent://public/default/t-.*")


@pytest.mark.parametrize(
    ("topic", "kept", "topics"),
    [
        ("t", "t", ("t",)),
        (["a", "b"], ("a", "b"), ("a", "b")),
        (("a",), ("a",), ("a",)),
        (PATTERN, PATTERN, ()),
    ],
)
def test_a_topic_is_one_or_several_or_a_pattern(topic: Any, kept: Any, topics: tuple[str, ...]) -> None:
    options = ConsumerOptions(topic, "s")
    assert (options.topic, options.topics) == (kept, topics)


@pytest.mark.parametrize("topic", [None, 5, [], (), {"a"}, re.compile(rb"bytes"), [5], ["a", None]])
def test_what_is_no_topic_is_refused(topic: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^topic(\[\d\])? takes a topic's name"):
        ConsumerOptions(topic, "s")


@pytest.mark.parametrize("topic", ["", "a/b", ["fine", "a/b"]])
def test_a_wrong_topic_is_refused_as_that(topic: Any) -> None:
    with pytest.raises(InvalidTopicName):
        ConsumerOptions(topic, "s")


WRONG: list[tuple[str, Any]] = [
    *(("subscription_name", ""), ("subscription_name", None), ("consumer_type", 1), ("schema", None)),
    *(("message_listener", "f"), ("receiver_queue_size", -1), ("receiver_queue_size", True)),
    *(("max_total_receiver_queue_size_across_partitions", -1), ("consumer_name", 5)),
    *(("unacked_messages_timeout_ms", -1), ("broker_consumer_stats_cache_time_ms", "1")),
    *(("negative_ack_redelivery_delay_ms", -1), ("is_read_compacted", 1), ("properties", {"a": 1})),
    *(("pattern_auto_discovery_period", 0), ("initial_position", 0), ("replicate_subscription_state_enabled", None)),
    *(("max_pending_chunked_message", -1), ("auto_ack_oldest_chunked_message_on_queue_full", 0)),
    *(("start_message_id_inclusive", 1), ("batch_receive_policy", 10), ("key_shared_policy", "Sticky")),
    *(("batch_index_ack_enabled", 1), ("regex_subscription_mode", 0), ("dead_letter_policy", 3)),
    ("crypto_failure_action", 0),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_argument_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name}(\['a'\])? takes "):
        ConsumerOptions(**{"topic": "t", "subscription_name": "s", name: value})


def test_encryption_is_refused_for_now() -> None:
    with pytest.raises(OperationNotSupported, match="crypto_key_reader"):
        ConsumerOptions("t", "s", crypto_key_reader=object())


@pytest.mark.parametrize(
    ("topic", "together"),
    [
        (["a", "b"], {"receiver_queue_size": 0}),
        (PATTERN, {"receiver_queue_size": 0}),
        ("t", {"is_read_compacted": True, "consumer_type": ConsumerType.Shared}),
        ("t", {"is_read_compacted": True, "consumer_type": ConsumerType.KeyShared}),
        ("non-persistent://a/b/c", {"is_read_compacted": True}),
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
        ("t", {"key_shared_policy": ConsumerKeySharedPolicy(), "dead_letter_policy": ConsumerDeadLetterPolicy(1)}),
    ],
)
def test_what_goes_together_is_taken(topic: Any, together: dict[str, Any]) -> None:
    options = ConsumerOptions(topic, "s", **together)
    assert {name: getattr(options, name) for name in together} == together


def test_options_can_be_pickled_but_not_be_changed() -> None:
    options = ConsumerOptions(["a", "b"], "s", properties={"a": "b"}, message_listener=print)
    twin = pickle.loads(pickle.dumps(options))  # noqa: S301 - our own pickle
    assert (twin.topic, twin.properties, twin.message_listener) == (("a", "b"), {"a": "b"}, print)
    with pytest.raises(AttributeError):
        options.topic = "another"  # type: ignore[misc]
