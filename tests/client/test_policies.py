import pickle
from typing import Any

import pulsar
import pytest

from pulsar_actors.client import policies
from pulsar_actors.client.enums import KeySharedMode
from pulsar_actors.client.policies import (
    ConsumerBatchReceivePolicy,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    MultiplierRedeliveryBackoff,
)
from pulsar_actors.exceptions import InvalidArgument

Sticky = KeySharedMode.Sticky


DEAD_LETTER = ("max_redeliver_count", "dead_letter_topic", "initial_subscription_name")
KEY_SHARED = ("key_shared_mode", "allow_out_of_order_delivery", "sticky_ranges")


@pytest.mark.parametrize(
    ("kind", "asked", "given"),
    [
        *(("ConsumerDeadLetterPolicy", DEAD_LETTER, given) for given in ((1,), (3, "dead"), (3, "dead", "first"))),
        *(("ConsumerDeadLetterPolicy", DEAD_LETTER, given) for given in ((3, None, "first"), (3, "", ""))),
        *(("ConsumerKeySharedPolicy", KEY_SHARED, given) for given in ((), (KeySharedMode.AutoSplit, True))),
        ("ConsumerKeySharedPolicy", KEY_SHARED, (Sticky, False, [(6, 65535), (0, 5)])),
    ],
)
def test_a_policy_has_the_properties_of_the_official_one(
    kind: str, asked: tuple[str, ...], given: tuple[Any, ...]
) -> None:
    ours, official = getattr(policies, kind)(*given), getattr(pulsar, kind)(*map(as_official, given))
    assert [getattr(ours, ask) for ask in asked] == [getattr(official, ask) for ask in asked]


def as_official(argument: Any) -> Any:
    return getattr(pulsar.KeySharedMode, argument.name) if isinstance(argument, KeySharedMode) else argument


@pytest.mark.parametrize("given", [(10, -1, -1), (1, 2, 3), (0, 0, 1), (-1, 5, 0)])
def test_a_batch_receive_policy_has_the_limits_of_the_official_one(given: tuple[int, ...]) -> None:
    ours, official = ConsumerBatchReceivePolicy(*given), pulsar.ConsumerBatchReceivePolicy(*given).policy()
    limits = (official.getMaxNumMessages(), official.getMaxNumBytes(), official.getTimeoutMs())
    assert (ours.max_num_message, ours.max_num_bytes, ours.timeout_ms) == limits


REFUSED_BY_BOTH: list[tuple[Any, Any, tuple[Any, ...], str]] = [
    (ConsumerDeadLetterPolicy, pulsar.ConsumerDeadLetterPolicy, (0,), "max_redeliver_count"),
    (ConsumerDeadLetterPolicy, pulsar.ConsumerDeadLetterPolicy, (None,), "max_redeliver_count"),
    (ConsumerDeadLetterPolicy, pulsar.ConsumerDeadLetterPolicy, ("3",), "max_redeliver_count"),
    (ConsumerBatchReceivePolicy, pulsar.ConsumerBatchReceivePolicy, (0, 0, 0), "one of max_num_message"),
    (ConsumerBatchReceivePolicy, pulsar.ConsumerBatchReceivePolicy, (-1, -1, -1), "one of max_num_message"),
    (ConsumerBatchReceivePolicy, pulsar.ConsumerBatchReceivePolicy, ("1", 1, 1), "max_num_message"),
    (ConsumerBatchReceivePolicy, pulsar.ConsumerBatchReceivePolicy, (1, None, 1), "max_num_bytes"),
    (ConsumerBatchReceivePolicy, pulsar.ConsumerBatchReceivePolicy, (1, 1, "x"), "timeout_ms"),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy, (Sticky,), "sticky_ranges"),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy, (Sticky, False, []), "sticky_ranges"),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy, (Sticky, False, [(0, 65536)]), "the last hash"),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy, (Sticky, False, [(-1, 3)]), "the first hash"),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy, (Sticky, False, [(0, 5), (5, 8)]), "sticky_ranges"),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy, (Sticky, False, [(4, 9), (0, 5)]), "sticky_ranges"),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy, (Sticky, False, [(1, 2, 3)]), "sticky_ranges"),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy, (Sticky, False, [7]), "sticky_ranges"),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy, (Sticky, False, 7), "sticky_ranges"),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy, ("Sticky",), "key_shared_mode"),
]


@pytest.mark.parametrize(("ours", "official", "given", "name"), REFUSED_BY_BOTH)
def test_what_the_official_client_refuses_is_refused_here_by_name(
    ours: Any, official: Any, given: tuple[Any, ...], name: str
) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}"):
        ours(*given)
    with pytest.raises((ValueError, TypeError)):
        official(*map(as_official, given))


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ConsumerDeadLetterPolicy, (True,)),
        (ConsumerDeadLetterPolicy, (1, "a/b")),
        (ConsumerDeadLetterPolicy, (1, None, 5)),
        (ConsumerBatchReceivePolicy, (True, 1, 1)),
        (ConsumerKeySharedPolicy, (Sticky, False, [(5, 3)])),
        (ConsumerKeySharedPolicy, (KeySharedMode.AutoSplit, None)),
    ],
)
def test_what_could_never_work_is_refused_though_the_official_client_takes_it(
    kind: Any, given: tuple[Any, ...]
) -> None:
    with pytest.raises(InvalidArgument):
        kind(*given)


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (ConsumerDeadLetterPolicy(3, "dead", retry_letter_topic="again"), "dead_letter_topic"),
        (ConsumerBatchReceivePolicy(1, 2, 3), "timeout_ms"),
        (ConsumerKeySharedPolicy(Sticky, sticky_ranges=[(0, 1)]), "sticky_ranges"),
    ],
)
def test_a_policy_can_be_pickled_and_not_be_changed(policy: Any, field: str) -> None:
    assert pickle.loads(pickle.dumps(policy)) == policy  # noqa: S301 - our own pickle
    with pytest.raises(AttributeError):
        setattr(policy, field, 5)


def test_a_retry_topic_is_checked_as_a_dead_letter_topic_is() -> None:
    with pytest.raises(InvalidArgument, match="a/b"):
        ConsumerDeadLetterPolicy(1, retry_letter_topic="a/b")
    assert ConsumerDeadLetterPolicy(1, retry_letter_topic="").retry_letter_topic == ""
    assert ConsumerDeadLetterPolicy(1) == ConsumerDeadLetterPolicy(1, retry_letter_topic=None)


def test_a_backoff_has_the_java_clients_defaults_and_is_a_value() -> None:
    backoff = MultiplierRedeliveryBackoff()
    assert (backoff.min_delay_ms, backoff.max_delay_ms, backoff.multiplier) == (10_000, 600_000, 2.0)
    assert backoff == MultiplierRedeliveryBackoff(10_000, multiplier=2)
    assert pickle.loads(pickle.dumps(backoff)) == backoff  # noqa: S301 - our own pickle


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ((-1,), "min_delay_ms"),
        ((10, 9), "max_delay_ms"),
        ((10, 10**18), "max_delay_ms"),
        ((10, 20, 1), "multiplier"),
        ((10, 20, float("nan")), "multiplier"),
        ((10, 20, float("inf")), "multiplier"),
    ],
)
def test_a_backoff_that_does_not_grow_or_has_no_end_is_refused(given: tuple[Any, ...], name: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name} takes "):
        MultiplierRedeliveryBackoff(*given)
