"""Namespaces: made, listed, described, unloaded, deleted. Their policies one by one are in `policies.py`."""

from typing import Final

from pulsar_actors.broker.web.bodies import as_object
from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.policies import POLICIES
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import DONE, Response, as_json
from pulsar_actors.broker.web.routes import Route
from pulsar_actors.broker.web.tenants import NAMED_ENTITY

__all__ = ["NAMESPACE_ROUTES"]

_BUNDLES: Final[dict[str, object]] = {
    "boundaries": ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"],
    "numBundles": 4,
}
_UNDECIDED: Final[dict[str, object]] = {
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
"""What Pulsar says of policies that nobody has set; those that this broker does not have always read like this."""


def _list_namespaces(call: Call) -> Response:
    tenant = call.parts["tenant"]
    if tenant not in call.cluster.tenants:
        raise HttpRefusal(404, "Tenant not found")
    return as_json(sorted(name for name in call.cluster.namespaces if name.startswith(f"{tenant}/")))


def _describe(call: Call) -> Response:
    policies = call.namespace().policies
    decided = {policy.document: policy.get(policies) for policy in POLICIES}
    return as_json(
        {
            **_UNDECIDED,
            "replication_clusters": [call.cluster.settings.cluster_name],
            **{name: value for name, value in decided.items() if value is not None},
        }
    )


def _create(call: Call) -> Response:
    """Make one, with the policies that the body names and this broker has."""
    tenant, namespace = call.parts["tenant"], call.parts["namespace"]
    given = as_object(call.value() or {}, "the description of a namespace")
    if not NAMED_ENTITY.fullmatch(namespace):
        raise HttpRefusal(412, "Namespace name is not valid")
    if tenant not in call.cluster.tenants:
        raise HttpRefusal(404, "Tenant does not exist")
    if f"{tenant}/{namespace}" in call.cluster.namespaces:
        raise HttpRefusal(409, "Namespace already exists")
    wanted = [(policy, given[policy.document]) for policy in POLICIES if given.get(policy.document) is not None]
    for policy, value in wanted:
        policy.check(value)
    policies = call.cluster.create_namespace(f"{tenant}/{namespace}").policies
    for policy, value in wanted:
        policy.set(policies, value)
    return DONE


def _delete(call: Call) -> Response:
    name = f"{call.parts['tenant']}/{call.parts['namespace']}"
    if name not in call.cluster.namespaces:
        raise HttpRefusal(404, f"Namespace {name} does not exist.")
    if call.flag("force"):  # Pulsar has a setting for it, which is off unless somebody turns it on
        raise HttpRefusal(405, "Broker doesn't allow forced deletion of namespaces")
    if call.cluster.topics_of(name) or call.cluster.namespaces[name].partitioned:
        raise HttpRefusal(409, "Cannot delete non empty namespace")
    call.cluster.delete_namespace(name)
    return DONE


def _unload(call: Call) -> Response:
    name = f"{call.parts['tenant']}/{call.parts['namespace']}"
    if name not in call.cluster.namespaces:
        raise HttpRefusal(404, "Namespace not found")
    call.cluster.unload_namespace(name)
    return DONE


def _tell_bundles(call: Call) -> Response:
    call.namespace()
    return as_json(_BUNDLES)


_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"
NAMESPACE_ROUTES: Final = (
    Route("GET", "/admin/v2/namespaces/{tenant}", _list_namespaces),
    Route("GET", _NAMESPACE, _describe),
    Route("PUT", _NAMESPACE, _create),
    Route("DELETE", _NAMESPACE, _delete),
    Route("PUT", f"{_NAMESPACE}/unload", _unload),
    Route("GET", f"{_NAMESPACE}/bundles", _tell_bundles),
)
