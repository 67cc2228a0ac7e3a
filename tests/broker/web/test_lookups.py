import json
from typing import Any

import pytest

from pulsar_actors.broker.model.interfaces import Address

LOOKUP = "/lookup/v2/topic/persistent/public/default"


def test_a_topic_is_served_by_whoever_is_asked_if_it_was_given_to_nobody(web: Any) -> None:
    assert web.told("GET", f"{LOOKUP}/t") == {
        "brokerUrl": "pulsar://here:1",
        "httpUrl": "http://here:3",
        "nativeUrl": "pulsar://here:1",
        "brokerUrlSsl": "pulsar+ssl://here:2",
    }


def test_whoever_asks_over_tls_is_sent_on_over_tls(web: Any) -> None:
    web.urls["there"] = web.urls["there"]._replace(web_url_tls="https://there:5")
    web.context.encrypted = True
    web.cluster.assign("persistent://public/default/a", "there")
    answer = web.ask("GET", f"{LOOKUP}/a")
    assert dict(answer.headers)["Location"].startswith("https://there:5/")


@pytest.mark.parametrize(("owner", "base"), [("there", "http://there:3"), ("safe", "https://safe:4")])
@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("", ""),
        ("?authoritative=false", ""),
        ("?listenerName=l&authoritative=false&x=%20", "&listenerName=l&x=%20"),
    ],
)
def test_the_question_is_sent_on_to_the_broker_that_has_the_topic(
    web: Any, owner: str, base: str, query: str, kept: str
) -> None:
    web.cluster.assign("persistent://public/default/a b", owner)
    answer = web.ask("GET", f"{LOOKUP}/a%20b{query}")
    assert answer.status == 307
    assert dict(answer.headers) == {"Location": f"{base}{LOOKUP}/a%20b?authoritative=true{kept}"}


OUTSIDE = ("pulsar://outside:1", "pulsar+ssl://outside:2")


@pytest.mark.shows("Command LookupTopic", "advertised_listener_name")
@pytest.mark.parametrize(
    ("query", "header", "address"),
    [
        ("?listenerName=out+side", "", OUTSIDE),
        ("", "out side", OUTSIDE),
        ("?listenerName=", "out side", OUTSIDE),
        ("?listenerName=out%20side", "inside", OUTSIDE),
        ("?listenerName=", "", ("pulsar://here:1", "pulsar+ssl://here:2")),
    ],
)
def test_the_address_of_a_listener_is_told_to_whoever_names_it_in_the_query_or_else_in_the_header(
    web: Any, query: str, header: str, address: tuple[str, str]
) -> None:
    web.urls["here"] = web.urls["here"]._replace(
        advertised={"out side": Address(*OUTSIDE), "inside": Address("pulsar://inside:1", "")}
    )
    told = json.loads(web.ask("GET", f"{LOOKUP}/t{query}", **{"x-pulsar-listenername": header}).body)
    assert (told["brokerUrl"], told["brokerUrlSsl"]) == address
    assert (told["nativeUrl"], told["httpUrl"]) == (address[0], "http://here:3")


def test_a_listener_that_the_broker_does_not_have_is_refused(web: Any) -> None:
    assert web.refusal("GET", f"{LOOKUP}/t?listenerName=no") == (500, "the broker do not have no listener")


def test_a_listener_named_in_the_header_is_named_in_the_address_to_which_the_question_is_sent_on(web: Any) -> None:
    web.cluster.assign("persistent://public/default/a", "there")
    answer = web.ask("GET", f"{LOOKUP}/a?listenerName=", **{"x-pulsar-listenername": "out side"})
    assert dict(answer.headers)["Location"].endswith("?authoritative=true&listenerName=&listenerName=out+side")


def test_a_topic_of_this_broker_is_not_sent_on(web: Any) -> None:
    web.cluster.assign("persistent://public/default/t", "here")
    assert web.told("GET", f"{LOOKUP}/t")["brokerUrl"] == "pulsar://here:1"


def test_a_name_of_the_older_form_is_looked_up_on_its_own_path(web: Any) -> None:
    path = "persistent/t/standalone/n/a%2Fb"
    assert web.refusal("GET", f"/lookup/v2/destination/{path}") == (404, "Namespace not found")
    assert web.refusal("GET", f"/admin/{path}/partitions") == (404, "Namespace not found")


def test_a_topic_whose_path_holds_another_form_of_name_is_refused(web: Any) -> None:
    assert web.refusal("GET", f"{LOOKUP}/a%2Fb")[0] == 412
    assert web.refusal("GET", f"{LOOKUP}/%20")[0] == 412
    assert web.refusal("GET", "/lookup/v2/topic/persistent/a%2Fb/c/d")[0] == 412


def test_a_broker_that_only_encrypts_is_named_by_its_encrypted_address(web: Any) -> None:
    web.context.name = "safe"
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
