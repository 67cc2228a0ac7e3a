from typing import Any

import pytest


def test_a_namespace_is_made_with_the_policies_that_are_named(web: Any) -> None:
    wanted = {
        "deduplicationEnabled": True,
        "max_unacked_messages_per_consumer": 5,
        "encryption_required": True,
        "autoTopicCreationOverride": PARTITIONED,
        "autoSubscriptionCreationOverride": {"allowAutoSubscriptionCreation": False},
    }
    assert web.ask("PUT", "/admin/v2/namespaces/public/n", {**wanted, "bundles": {"numBundles": 16}}).status == 204
    told = web.told("GET", "/admin/v2/namespaces/public/n")
    assert {name: told[name] for name in wanted} == wanted
    assert web.told("GET", "/admin/v2/namespaces/public") == ["public/default", "public/n"]


@pytest.mark.parametrize("body", [[1], {"deduplicationEnabled": 1}, {"autoTopicCreationOverride": True}])
def test_a_namespace_with_policies_that_make_no_sense_is_not_made(web: Any, body: object) -> None:
    assert web.refusal("PUT", "/admin/v2/namespaces/public/n", body)[0] == 400
    assert web.refusal("GET", "/admin/v2/namespaces/public/n")[0] == 404


def test_a_namespace_is_never_deleted_by_force(web: Any) -> None:
    assert web.refusal("DELETE", "/admin/v2/namespaces/public/default?force=true")[0] == 405


def test_a_tenant_is_there_until_it_is_deleted(web: Any) -> None:
    path = "/admin/v2/tenants"
    assert web.ask("PUT", f"{path}/t1", {"allowedClusters": ["standalone"], "adminRoles": ["me"]}).status == 204
    assert web.told("GET", path) == ["public", "pulsar", "t1"]
    assert web.ask("DELETE", f"{path}/t1").status == 204
    assert web.told("GET", path) == ["public", "pulsar"]


@pytest.mark.parametrize(
    ("status", "body"),
    [(400, []), (400, 3), (400, {"allowedClusters": {}}), (412, {}), (412, None), (412, {"allowedClusters": ["x"]})],
)
def test_a_tenant_is_not_made_of_what_pulsar_would_refuse(web: Any, status: int, body: object) -> None:
    assert web.refusal("PUT", "/admin/v2/tenants/t1", body)[0] == status
    assert web.refusal("GET", "/admin/v2/tenants/t1")[0] == 404


PARTITIONED = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}
NAMESPACE = "/admin/v2/namespaces/public/default"


def test_a_policy_that_is_set_to_null_is_as_before(web: Any) -> None:
    web.ask("POST", f"{NAMESPACE}/deduplication", body=True)
    assert web.cluster.namespace("public/default").policies.deduplication is True
    assert web.ask("POST", f"{NAMESPACE}/deduplication", body=None).status == 204
    assert web.cluster.namespace("public/default").policies.deduplication is None


def test_a_policy_that_always_has_a_value_is_not_set_to_null(web: Any) -> None:
    assert web.refusal("POST", f"{NAMESPACE}/encryptionRequired", None)[0] == 400
    assert web.ask("DELETE", f"{NAMESPACE}/encryptionRequired").status == 405


@pytest.mark.parametrize(
    ("status", "leaf", "body"),
    [
        (400, "deduplication", 1),
        (400, "maxUnackedMessagesPerConsumer", "many"),
        (412, "maxUnackedMessagesPerSubscription", -1),
        (400, "autoTopicCreation", {"allowAutoTopicCreation": "yes"}),
        (412, "autoTopicCreation", {**PARTITIONED, "topicType": "round"}),
        (412, "autoTopicCreation", {**PARTITIONED, "topicType": ["partitioned"]}),
        (412, "autoTopicCreation", {**PARTITIONED, "defaultNumPartitions": 0}),
        (412, "autoTopicCreation", {**PARTITIONED, "defaultNumPartitions": True}),
        (400, "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": None}),
        (412, "delayedDelivery", {"active": False}),
        (412, "delayedDelivery", {"active": True, "maxDeliveryDelayInMillis": -1}),
    ],
)
def test_a_value_that_makes_no_sense_changes_nothing(web: Any, status: int, leaf: str, body: object) -> None:
    before = web.told("GET", NAMESPACE)
    assert web.refusal("POST", f"{NAMESPACE}/{leaf}", body)[0] == status
    assert web.told("GET", NAMESPACE) == before


def test_a_policy_that_this_broker_does_not_have_is_not_taken(web: Any) -> None:
    status, reason = web.refusal("POST", f"{NAMESPACE}/retention", {"retentionTimeInMinutes": 1})
    assert status == 404
    assert "not implemented" in reason


def test_the_longest_delay_of_a_message_is_told_and_taken_back(web: Any) -> None:
    wanted = {"active": True, "tickTime": 1, "maxDeliveryDelayInMillis": 5000}
    assert web.ask("POST", f"{NAMESPACE}/delayedDelivery", wanted).status == 204
    assert web.told("GET", f"{NAMESPACE}/delayedDelivery") == wanted
    assert web.ask("DELETE", f"{NAMESPACE}/delayedDelivery").status == 204
    assert web.cluster.namespace("public/default").policies.longest_delay_ms == 0
