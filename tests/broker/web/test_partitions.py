from typing import Any

import pytest

TOPICS = "/admin/v2/persistent/public/default"


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


def test_a_partitioned_topic_that_somebody_is_connected_to_is_only_deleted_by_force(web: Any) -> None:
    web.ask("PUT", f"{TOPICS}/p/partitions", 2)
    web.connect("p-partition-1")
    assert web.refusal("DELETE", f"{TOPICS}/p/partitions")[0] == 412
    assert web.ask("DELETE", f"{TOPICS}/p/partitions?force=true").status == 204
    assert web.told("GET", TOPICS) == []


def test_the_statistics_of_the_partitions_can_be_left_out(web: Any) -> None:
    web.ask("PUT", f"{TOPICS}/p/partitions", 2)
    web.publish("p-partition-0", b"x")
    web.publish("p-partition-1", b"y")
    stats = web.told("GET", f"{TOPICS}/p/partitioned-stats")
    assert (stats["msgInCounter"], stats["metadata"]["partitions"]) == (2, 2)
    assert [each["msgInCounter"] for each in stats["partitions"].values()] == [1, 1]
    assert web.told("GET", f"{TOPICS}/p/partitioned-stats?perPartition=false")["partitions"] == {}
