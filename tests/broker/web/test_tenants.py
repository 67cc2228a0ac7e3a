from typing import Any

import pytest

INFO = {"allowedClusters": ["standalone"]}


def test_a_tenant_is_there_until_it_is_deleted(web: Any) -> None:
    assert web.ask("PUT", "/admin/v2/tenants/t1", {**INFO, "adminRoles": ["me"]}).status == 204
    assert web.told("GET", "/admin/v2/tenants") == ["public", "t1"]
    assert web.told("GET", "/admin/v2/tenants/t1") == {"adminRoles": [], "allowedClusters": ["standalone"]}
    assert web.ask("DELETE", "/admin/v2/tenants/t1").status == 204
    assert web.told("GET", "/admin/v2/tenants") == ["public"]


@pytest.mark.parametrize(
    ("status", "body"),
    [(400, []), (400, 3), (400, {"allowedClusters": {}}), (412, {}), (412, None), (412, {"allowedClusters": ["x"]})],
)
def test_a_tenant_is_not_made_of_what_pulsar_would_refuse(web: Any, status: int, body: object) -> None:
    assert web.refusal("PUT", "/admin/v2/tenants/t1", body)[0] == status
    assert web.refusal("GET", "/admin/v2/tenants/t1")[0] == 404
