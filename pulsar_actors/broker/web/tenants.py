"""Tenants: who they are, and that they come before their namespaces.

A tenant is no more than its name here. What it is created with is checked as Pulsar checks it, so that a script which
would fail there fails here; but nobody needs a role on this broker, and there is one cluster, so nothing is kept of it.
"""

import re
from typing import Final

from pulsar_actors.broker.web.bodies import as_object
from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import DONE, Response, as_json
from pulsar_actors.broker.web.routes import Route

__all__ = ["NAMED_ENTITY", "TENANT_ROUTES"]

NAMED_ENTITY: Final = re.compile(r"[-=:.\w]+", re.ASCII)


def _list_tenants(call: Call) -> Response:
    return as_json(sorted(call.cluster.tenants))


def _tell_tenant(call: Call) -> Response:
    if call.parts["tenant"] not in call.cluster.tenants:
        raise HttpRefusal(404, "Tenant does not exist")
    return as_json({"adminRoles": [], "allowedClusters": [call.cluster.settings.cluster_name]})


def _create_tenant(call: Call) -> Response:
    tenant = call.parts["tenant"]
    info = call.value()
    if not NAMED_ENTITY.fullmatch(tenant):
        raise HttpRefusal(412, "Tenant name is not valid")
    _check_info(call, info)
    if tenant in call.cluster.tenants:
        raise HttpRefusal(409, "Tenant already exist")
    call.cluster.create_tenant(tenant)
    return DONE


def _update_tenant(call: Call) -> Response:
    tenant = call.parts["tenant"]
    _check_info(call, call.value())
    if tenant not in call.cluster.tenants:
        raise HttpRefusal(404, f"Tenant {tenant} not found")
    return DONE


def _delete_tenant(call: Call) -> Response:
    tenant = call.parts["tenant"]
    if tenant not in call.cluster.tenants:
        raise HttpRefusal(404, "Tenant doesn't exist")
    if any(name.startswith(f"{tenant}/") for name in call.cluster.namespaces):
        raise HttpRefusal(409, "The tenant still has active namespaces")
    call.cluster.delete_tenant(tenant)
    return DONE


def _check_info(call: Call, info: object) -> None:
    """Refuse what Pulsar refuses to create a tenant with."""
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


TENANT_ROUTES: Final = (
    Route("GET", "/admin/v2/tenants", _list_tenants),
    Route("GET", "/admin/v2/tenants/{tenant}", _tell_tenant),
    Route("PUT", "/admin/v2/tenants/{tenant}", _create_tenant),
    Route("POST", "/admin/v2/tenants/{tenant}", _update_tenant),
    Route("DELETE", "/admin/v2/tenants/{tenant}", _delete_tenant),
)
