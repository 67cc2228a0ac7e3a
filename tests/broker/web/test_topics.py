from typing import Any

import pytest

TOPICS = "/admin/v2/persistent/public/default"


@pytest.mark.parametrize("body", [[], {"a": 1}, "x"])
def test_a_topic_is_not_made_with_other_things_than_properties(web: Any, body: object) -> None:
    assert web.refusal("PUT", f"{TOPICS}/t", body)[0] == 400
    assert web.told("GET", TOPICS) == []


def test_a_partition_that_is_missing_can_be_made_again(web: Any) -> None:
    web.ask("PUT", f"{TOPICS}/p/partitions", 2)
    for method in ("DELETE", "PUT"):
        assert web.ask(method, f"{TOPICS}/p-partition-1").status == 204
    assert web.told("GET", TOPICS) == [f"persistent://public/default/p-partition-{index}" for index in range(2)]


def test_a_topic_that_somebody_is_connected_to_is_only_deleted_by_force(web: Any) -> None:
    web.connect("t")
    status, reason = web.refusal("DELETE", f"{TOPICS}/t")
    assert status == 412
    assert reason == "Topic has 1 clients connected Including 0 consumers, 1 producers, and 0 replicators."
    assert web.ask("DELETE", f"{TOPICS}/t?force=true").status == 204
    assert web.told("GET", TOPICS) == []


def test_the_last_message_id_is_that_of_the_last_message_in_a_batch(web: Any) -> None:
    first = web.publish("t", b"x")
    path = f"{TOPICS}/t/lastMessageId"
    plain = {"ledgerId": first.ledger_id, "entryId": 0, "partitionIndex": -1, "batchSize": 0, "batchIndex": -1}
    assert web.told("GET", path) == plain
    web.publish("t", b"", num_messages_in_batch=3)
    assert web.told("GET", path) == {**plain, "entryId": 1, "batchSize": 3, "batchIndex": 2}


def test_a_terminated_topic_tells_where_it_ends(web: Any) -> None:
    last = web.publish("t", b"x")
    end = {"ledgerId": last.ledger_id, "entryId": 0, "partitionIndex": -1, "batchSize": 0, "batchIndex": -1}
    assert web.told("POST", f"{TOPICS}/t/terminate") == end
    assert web.cluster.find_topic(web.name("t")).terminated


def test_deduplication_of_a_topic_is_its_own_or_that_of_its_namespace(web: Any) -> None:
    web.ask("PUT", f"{TOPICS}/t")
    path = f"{TOPICS}/t/deduplicationEnabled"
    assert web.told("GET", f"{path}?applied=true") is False
    web.ask("POST", "/admin/v2/namespaces/public/default/deduplication", body=True)
    assert web.told("GET", f"{path}?applied=true") is True
    assert web.ask("GET", path).body == b""
    web.ask("POST", path, body=False)
    assert web.told("GET", f"{path}?applied=true") is False
    web.ask("POST", path, body=None)
    assert web.told("GET", f"{path}?applied=true") is True
    assert web.refusal("POST", path, "yes")[0] == 400


def test_the_statistics_name_the_broker(web: Any) -> None:
    web.publish("t", b"hello")
    stats = web.told("GET", f"{TOPICS}/t/stats")
    assert (stats["ownerBroker"], stats["msgInCounter"]) == ("here:3", 1)


def test_an_unload_closes_whoever_is_connected(web: Any) -> None:
    producer = web.connect("t")
    assert web.ask("PUT", f"{TOPICS}/t/unload").status == 204
    assert not producer.connected


def test_the_number_of_partitions_may_come_in_an_object(web: Any) -> None:
    kind = {"content-type": "application/vnd.partitioned-topic-metadata+json"}
    assert web.ask("PUT", f"{TOPICS}/p/partitions", {"partitions": 2, "properties": {}}, **kind).status == 204
    assert web.told("GET", f"{TOPICS}/p/partitions") == {"partitions": 2, "deleted": False}


@pytest.mark.parametrize(
    ("status", "body"), [(400, True), (400, 2.0), (400, "2"), (400, {}), (400, None), (406, 0), (406, 100_001)]
)
def test_a_topic_is_not_made_with_other_numbers_of_partitions(web: Any, status: int, body: object) -> None:
    assert web.refusal("PUT", f"{TOPICS}/p/partitions", body)[0] == status
    assert web.told("GET", f"{TOPICS}/partitioned") == []
