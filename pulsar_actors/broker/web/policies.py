"""The policies of a namespace that this broker heeds, each read, set and removed on a path of its own.

A policy that is not here is not implemented, and its path says so: to take it and do nothing would be worse. In the
table, `leaf` ends the path, `document` is the policy's name in the description of the whole namespace, and a policy
that always has a value cannot be removed.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from pulsar_actors.broker.model.policies import Policies
from pulsar_actors.broker.web.bodies import MOST_PARTITIONS, as_count, as_flag, as_object
from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import DONE, EMPTY, Response, as_json
from pulsar_actors.broker.web.routes import Route
from pulsar_actors.wire.excerpt import excerpt

__all__ = ["POLICIES", "POLICY_ROUTES", "Policy"]


class Policy(NamedTuple):
    """One policy."""

    leaf: str
    document: str
    check: Callable[[object], None]
    get: Callable[[Policies], Any]
    set: Callable[[Policies, Any], None]
    removable: bool = True


def _check_flag(value: object) -> None:
    as_flag(value, "the value")


def _check_count(value: object) -> None:
    as_count(value, "the value")


def _check_topic_creation(value: object) -> None:
    given = as_object(value, "autoTopicCreation")
    if not as_flag(given.get("allowAutoTopicCreation", False), "allowAutoTopicCreation"):
        return
    kind, count = given.get("topicType"), given.get("defaultNumPartitions")
    if kind not in ("partitioned", "non-partitioned"):
        raise HttpRefusal(412, f"topicType is partitioned or non-partitioned, not {excerpt(kind)}")
    if kind == "partitioned" and not (type(count) is int and 0 < count <= MOST_PARTITIONS):
        raise HttpRefusal(412, f"defaultNumPartitions is a number from 1 to {MOST_PARTITIONS}, not {excerpt(count)}")


def _get_topic_creation(policies: Policies) -> dict[str, object] | None:
    allowed = policies.allow_auto_topic_creation
    if not allowed:
        return None if allowed is None else {"allowAutoTopicCreation": False}
    count = policies.auto_topic_partitions
    if not count:
        return {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
    return {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": count}


def _set_topic_creation(policies: Policies, value: dict[str, Any] | None) -> None:
    given = value or {}
    allowed = bool(given.get("allowAutoTopicCreation"))
    policies.allow_auto_topic_creation = None if value is None else allowed
    has_partitions = allowed and given["topicType"] == "partitioned"
    policies.auto_topic_partitions = given["defaultNumPartitions"] if has_partitions else 0


def _check_subscription_creation(value: object) -> None:
    given = as_object(value, "autoSubscriptionCreation")
    as_flag(given.get("allowAutoSubscriptionCreation", False), "allowAutoSubscriptionCreation")


def _get_subscription_creation(policies: Policies) -> dict[str, object] | None:
    allowed = policies.allow_auto_subscription_creation
    return None if allowed is None else {"allowAutoSubscriptionCreation": allowed}


def _set_subscription_creation(policies: Policies, value: dict[str, Any] | None) -> None:
    allowed = None if value is None else bool(value.get("allowAutoSubscriptionCreation"))
    policies.allow_auto_subscription_creation = allowed


def _check_delays(value: object) -> None:
    given = as_object(value, "delayedDelivery")
    if not as_flag(given.get("active", False), "active"):
        raise HttpRefusal(412, "active is true: this broker always heeds delivery times")
    as_count(given.get("maxDeliveryDelayInMillis", 0), "maxDeliveryDelayInMillis")


def _get_delays(policies: Policies) -> dict[str, object] | None:
    longest = policies.longest_delay_ms
    return {"active": True, "tickTime": 1, "maxDeliveryDelayInMillis": longest} if longest else None


def _set_delays(policies: Policies, value: dict[str, Any] | None) -> None:
    policies.longest_delay_ms = (value or {}).get("maxDeliveryDelayInMillis", 0)


def _field(leaf: str, document: str, name: str, check: Callable[[object], None], *, removable: bool = True) -> Policy:
    """Make a policy that is one field of the model's."""

    def get(policies: Policies) -> Any:  # noqa: ANN401 - whatever the field holds
        return getattr(policies, name)

    def set_it(policies: Policies, value: Any) -> None:  # noqa: ANN401 - the same
        setattr(policies, name, value)

    return Policy(leaf, document, check, get, set_it, removable)


# fmt: off
POLICIES: Final = (
    _field("deduplication", "deduplicationEnabled", "deduplication", _check_flag),
    _field("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer", "max_unacked_per_consumer",
           _check_count),
    _field("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription", "max_unacked_per_subscription",
           _check_count),
    _field("encryptionRequired", "encryption_required", "encryption_required", _check_flag, removable=False),
    _field("schemaValidationEnforced", "schema_validation_enforced", "schema_validation_enforced", _check_flag,
           removable=False),
    Policy("autoTopicCreation", "autoTopicCreationOverride",
           _check_topic_creation, _get_topic_creation, _set_topic_creation),
    Policy("autoSubscriptionCreation", "autoSubscriptionCreationOverride",
           _check_subscription_creation, _get_subscription_creation, _set_subscription_creation),
    Policy("delayedDelivery", "delayed_delivery_policies", _check_delays, _get_delays, _set_delays),
)
# fmt: on


def _tell(policy: Policy, call: Call) -> Response:
    value = policy.get(call.namespace().policies)
    return EMPTY if value is None else as_json(value)


def _decide(policy: Policy, call: Call) -> Response:
    """Set it; `null` removes it where that is possible."""
    policies = call.namespace().policies
    value = call.value()
    if value is not None or not policy.removable:
        policy.check(value)
    policy.set(policies, value)
    return DONE


def _remove(policy: Policy, call: Call) -> Response:
    policy.set(call.namespace().policies, None)
    return DONE


def _routes() -> Iterator[Route]:
    for policy in POLICIES:
        path = f"/admin/v2/namespaces/{{tenant}}/{{namespace}}/{policy.leaf}"
        yield Route("GET", path, partial(_tell, policy))
        yield Route("POST", path, partial(_decide, policy))
        if policy.removable:
            yield Route("DELETE", path, partial(_remove, policy))


POLICY_ROUTES: Final = tuple(_routes())
