from typing import Any


def test_a_broker_that_only_encrypts_is_named_by_its_encrypted_address(make_web: Any) -> None:
    web = make_web()
    web.site.name = "safe"
    assert web.told("GET", "/admin/v2/brokers/leaderBroker") == {
        "serviceUrl": "https://safe:4",
        "brokerId": "safe:4",
    }
    assert web.told("GET", "/admin/v2/clusters/standalone") == {
        "serviceUrlTls": "https://safe:4",
        "brokerServiceUrlTls": "pulsar+ssl://safe:2",
    }


def test_there_is_one_broker_in_one_cluster(web: Any) -> None:
    assert web.told("GET", "/admin/v2/brokers") == ["here:3"]
    assert web.refusal("GET", "/admin/v2/brokers/other") == (404, "Cluster does not exist")
