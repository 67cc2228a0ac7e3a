"""The admin calls for tenants, namespaces, and the policies of namespaces.

A tenant is only a name here. Its description is checked as in Pulsar, so that a script that fails there fails here, but
it is not stored: this broker has no roles, and one cluster.

Each policy that this broker implements is read, set and removed on a path of its own. The path of any other policy is
refused as not implemented, because a policy that is accepted and ignored would mislead.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from pulsar_actors.broker.model.settings import Policies
from pulsar_actors.broker.web.calls import MAX_PARTITIONS, Route, WebCall, as_count, as_flag, as_object
from pulsar_actors.broker.web.http import EMPTY_OK, NO_CONTENT, HttpRefusal, Response, json_response
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import excerpt

__all__ = ["NAMESPACE_ROUTES"]


_NAMESPACE_PATH: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_NAMED_ENTITY: Final = re.compile(r"[-=:.\w]+", re.ASCII)


def _list_tenants(call: WebCall) -> Response:
    return json_response(sorted(call.cluster.tenants))


def _get_tenant(call: WebCall) -> Response:
    if call.parts["tenant"] not in call.cluster.tenants:
        raise HttpRefusal(404, "Tenant does not exist")
    return json_response({"adminRoles": [], "allowedClusters": [call.cluster.settings.cluster_name]})


def _create_tenant(call: WebCall) -> Response:
    tenant = call.parts["tenant"]
    info = call.value()
    if not _NAMED_ENTITY.fullmatch(tenant):
        raise HttpRefusal(412, "Tenant name is not valid")
    _check_info(call, info)
    if tenant in call.cluster.tenants:
        raise HttpRefusal(409, "Tenant already exist")
    call.cluster.create_tenant(tenant)
    return NO_CONTENT


def _update_tenant(call: WebCall) -> Response:
    tenant = call.parts["tenant"]
    _check_info(call, call.value())
    if tenant not in call.cluster.tenants:
        raise HttpRefusal(404, f"Tenant {tenant} not found")
    return NO_CONTENT


def _delete_tenant(call: WebCall) -> Response:
    tenant = call.parts["tenant"]
    if tenant not in call.cluster.tenants:
        raise HttpRefusal(404, "Tenant doesn't exist")
    if any(name.startswith(f"{tenant}/") for name in call.cluster.namespaces):
        raise HttpRefusal(409, "The tenant still has active namespaces")
    call.cluster.delete_tenant(tenant)
    return NO_CONTENT


def _check_info(call: WebCall, info: object) -> None:
    """Refuse a description of a tenant that Pulsar refuses."""
    if info is None:
        raise HttpRefusal(412, "TenantInfo is null")
    clusters = as_object(info, "a tenant").get("allowedClusters")
    if clusters is None:
        raise HttpRefusal(412, "Clusters cannot be null")
    if not isinstance(clusters, list):
        raise HttpRefusal(400, "allowedClusters is a list of names")
    if not clusters:
        raise HttpRefusal(412, "Clusters cannot be empty or blank")
    if clusters != [call.cluster.settings.cluster_name]:
        raise HttpRefusal(412, "Clusters do not exist")


class Policy(NamedTuple):
    """One policy: `path_end` ends its path, `field` is its name in the description of the whole namespace.

    A policy that always has a value cannot be removed.
    """

    path_end: str
    field: str
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
    topic_type, count = given.get("topicType"), given.get("defaultNumPartitions")
    if topic_type not in ("partitioned", "non-partitioned"):
        raise HttpRefusal(412, f"topicType is partitioned or non-partitioned, not {excerpt(topic_type)}")
    if topic_type == "partitioned" and not (type(count) is int and 0 < count <= MAX_PARTITIONS):
        raise HttpRefusal(412, f"defaultNumPartitions is a number from 1 to {MAX_PARTITIONS}, not {excerpt(count)}")


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


def _field_policy(
    path_end: str, field: str, attribute: str, check: Callable[[object], None], *, removable: bool = True
) -> Policy:
    """Create a policy that is one attribute of `Policies`."""

    def get(policies: Policies) -> Any:  # noqa: ANN401 - the type of the attribute
        return getattr(policies, attribute)

    def set_it(policies: Policies, value: Any) -> None:  # noqa: ANN401 - the same
        setattr(policies, attribute, value)

    return Policy(path_end, field, check, get, set_it, removable)


# fmt: off
_POLICIES: Final = (
    _field_policy("deduplication", "deduplicationEnabled", "deduplication", _check_flag),
    _field_policy("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer",
                  "max_unacked_per_consumer", _check_count),
    _field_policy("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription",
                  "max_unacked_per_subscription", _check_count),
    _field_policy("encryptionRequired", "encryption_required", "encryption_required", _check_flag, removable=False),
    _field_policy("schemaValidationEnforced", "schema_validation_enforced", "schema_validation_enforced",
                  _check_flag, removable=False),
    Policy("autoTopicCreation", "autoTopicCreationOverride",
           _check_topic_creation, _get_topic_creation, _set_topic_creation),
    Policy("autoSubscriptionCreation", "autoSubscriptionCreationOverride",
           _check_subscription_creation, _get_subscription_creation, _set_subscription_creation),
    Policy("delayedDelivery", "delayed_delivery_policies", _check_delays, _get_delays, _set_delays),
)
# fmt: on


def _get_policy(policy: Policy, call: WebCall) -> Response:
    value = policy.get(call.namespace().policies)
    return EMPTY_OK if value is None else json_response(value)


def _set_policy(policy: Policy, call: WebCall) -> Response:
    """Set a policy. `null` removes it, if that is possible."""
    namespace = call.namespace()
    value = call.value()
    if value is not None or not policy.removable:
        policy.check(value)
    policy.set(namespace.policies, value)
    namespace.changed()
    return NO_CONTENT


def _remove_policy(policy: Policy, call: WebCall) -> Response:
    namespace = call.namespace()
    policy.set(namespace.policies, None)
    namespace.changed()
    return NO_CONTENT


def _policy_routes() -> Iterator[Route]:
    for policy in _POLICIES:
        path = f"{_NAMESPACE_PATH}/{policy.path_end}"
        yield Route("GET", path, partial(_get_policy, policy))
        yield Route("POST", path, partial(_set_policy, policy))
        if policy.removable:
            yield Route("DELETE", path, partial(_remove_policy, policy))


_BUNDLES: Final[dict[str, object]] = {
    "boundaries": ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"],
    "numBundles": 4,
}
_UNSET_POLICIES: Final[dict[str, object]] = {
    "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
    "allowed_clusters": [],
    "bundles": _BUNDLES,
    "backlog_quota_map": {},
    "clusterDispatchRate": {},
    "topicDispatchRate": {},
    "subscriptionDispatchRate": {},
    "replicatorDispatchRate": {},
    "clusterSubscribeRate": {},
    "publishMaxMessageRate": {},
    "latency_stats_sample_rate": {},
    "deleted": False,
    "subscription_auth_mode": "None",
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
    "schema_compatibility_strategy": "UNDEFINED",
    "is_allow_auto_update_schema": True,
    "subscription_types_enabled": [],
    "properties": {},
    "migrated": False,
}
"""The values of unset policies. Policies that this broker does not implement always have them."""


def _list_namespaces(call: WebCall) -> Response:
    tenant = call.parts["tenant"]
    if tenant not in call.cluster.tenants:
        raise HttpRefusal(404, "Tenant not found")
    return json_response(sorted(name for name in call.cluster.namespaces if name.startswith(f"{tenant}/")))


def _get_namespace(call: WebCall) -> Response:
    policies = call.namespace().policies
    is_set = {policy.field: policy.get(policies) for policy in _POLICIES}
    return json_response(
        {
            **_UNSET_POLICIES,
            "replication_clusters": [call.cluster.settings.cluster_name],
            **{name: value for name, value in is_set.items() if value is not None},
        }
    )


def _create_namespace(call: WebCall) -> Response:
    """Create a namespace with the policies in the body that this broker implements."""
    tenant, namespace = call.parts["tenant"], call.parts["namespace"]
    given = as_object(call.value() or {}, "the description of a namespace")
    if not _NAMED_ENTITY.fullmatch(namespace):
        raise HttpRefusal(412, "Namespace name is not valid")
    if tenant not in call.cluster.tenants:
        raise HttpRefusal(404, "Tenant does not exist")
    if f"{tenant}/{namespace}" in call.cluster.namespaces:
        raise HttpRefusal(409, "Namespace already exists")
    wanted = [(policy, given[policy.field]) for policy in _POLICIES if given.get(policy.field) is not None]
    for policy, value in wanted:
        policy.check(value)
    policies = call.cluster.create_namespace(f"{tenant}/{namespace}").policies
    for policy, value in wanted:
        policy.set(policies, value)
    return NO_CONTENT


def _delete_namespace(call: WebCall) -> Response:
    name = f"{call.parts['tenant']}/{call.parts['namespace']}"
    if name not in call.cluster.namespaces:
        raise HttpRefusal(404, f"Namespace {name} does not exist.")
    if call.flag("force"):  # Pulsar has a setting that allows it, which is off by default
        raise HttpRefusal(405, "Broker doesn't allow forced deletion of namespaces")
    if call.cluster.topics_of(name) or call.cluster.namespaces[name].partitioned:
        raise HttpRefusal(409, "Cannot delete non empty namespace")
    call.cluster.delete_namespace(name)
    return NO_CONTENT


def _unload_namespace(call: WebCall) -> Response:
    name = f"{call.parts['tenant']}/{call.parts['namespace']}"
    if name not in call.cluster.namespaces:
        raise HttpRefusal(404, "Namespace not found")
    call.cluster.unload_namespace(name)
    return NO_CONTENT


def _get_bundles(call: WebCall) -> Response:
    call.namespace()
    return json_response(_BUNDLES)


NAMESPACE_ROUTES: Final = (
    Route("GET", "/admin/v2/tenants", _list_tenants),
    Route("GET", "/admin/v2/tenants/{tenant}", _get_tenant),
    Route("PUT", "/admin/v2/tenants/{tenant}", _create_tenant),
    Route("POST", "/admin/v2/tenants/{tenant}", _update_tenant),
    Route("DELETE", "/admin/v2/tenants/{tenant}", _delete_tenant),
    Route("GET", "/admin/v2/namespaces/{tenant}", _list_namespaces),
    Route("GET", _NAMESPACE_PATH, _get_namespace),
    Route("PUT", _NAMESPACE_PATH, _create_namespace),
    Route("DELETE", _NAMESPACE_PATH, _delete_namespace),
    Route("PUT", f"{_NAMESPACE_PATH}/unload", _unload_namespace),
    Route("GET", f"{_NAMESPACE_PATH}/bundles", _get_bundles),
    *_policy_routes(),
)
