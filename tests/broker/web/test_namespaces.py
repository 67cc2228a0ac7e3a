from typing import Any

import pytest


def test_a_namespace_is_made_with_the_policies_that_are_named(web: Any) -> None:
    wanted = {
        "deduplicationEnabled": True,
        "max_unacked_messages_per_consumer": 5,
        "encryption_required": True,
        "autoTopicCreationOverride": {
            "allowAutoTopicCreation": True,
            "topicType": "partitioned",
            "defaultNumPartitions": 2,
        },
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


def test_a_namespace_of_partitioned_topics_is_not_empty(web: Any) -> None:
    web.ask("PUT", "/admin/v2/namespaces/public/n")
    web.ask("PUT", "/admin/v2/persistent/public/n/p/partitions", 1)
    assert web.refusal("DELETE", "/admin/v2/namespaces/public/n")[0] == 409


def test_a_namespace_is_never_deleted_by_force(web: Any) -> None:
    assert web.refusal("DELETE", "/admin/v2/namespaces/public/default?force=true")[0] == 405
