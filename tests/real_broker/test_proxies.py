"""A Pulsar proxy in front of either broker: everything goes through it, for both clients."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from pulsar_actors.wire.PulsarApi_pb2 import CommandConnect
from tests.real_broker.exchange import SOON, contents, receive, send_all, until
from tests.real_broker.wiretap import Wiretap
from tests.support.admin import Admin
from tests.support.guards import LIFETIME_SECONDS, ME, RENEWED_TWICE_SECONDS, STRANGER, TOKENS, Guarded, GuardedProxy
from tests.support.standalone import Proxy
from tests.support.subjects import Broker

NUMBERS = [b"%d" % number for number in range(100)]


@pytest.fixture(params=["binary", "http"])
def proxied(request: pytest.FixtureRequest, pulsar: Any, connect_to: Any, proxy: Proxy) -> Any:
    """A client that knows the proxy alone."""
    return connect_to(pulsar, proxy.service_url if request.param == "binary" else proxy.web_url)


@pytest.mark.shows("Command LookupTopicResponse", "proxy_through_service_url")
def test_messages_travel(proxied: Any, topic: str) -> None:
    consumer = proxied.subscribe(topic, "s")
    send_all(proxied.create_producer(topic, batching_enabled=True), NUMBERS)
    assert contents(receive(consumer, 100)) == NUMBERS


def test_partitions_are_told(proxied: Any, partitioned: str) -> None:
    assert len(proxied.get_topic_partitions(partitioned)) == 3


def test_a_topic_that_is_unloaded_is_found_again(proxied: Any, topic: str, admin: Admin) -> None:
    producer = proxied.create_producer(topic)
    producer.send(b"before")
    admin.unload(topic)
    producer.send(b"after")


def test_a_large_message_travels(proxied: Any, topic: str) -> None:
    consumer = proxied.subscribe(topic, "s")
    proxied.create_producer(topic).send(bytes(5_000_000))
    assert len(consumer.receive(SOON).data()) == 5_000_000


def test_messages_of_all_partitions_travel(proxied: Any, partitioned: str) -> None:
    consumer = proxied.subscribe(partitioned, "s")
    producer = proxied.create_producer(partitioned)
    parts = {producer.send(number, partition_key=number.decode()).partition() for number in NUMBERS}
    messages = receive(consumer, 100)
    assert sorted(contents(messages), key=int) == NUMBERS
    assert {each.message_id().partition() for each in messages} == parts == {0, 1, 2}


def test_the_topics_of_a_pattern_are_found_and_consumed(proxied: Any, topic: str) -> None:
    topics = [f"{topic}-{letter}" for letter in "abc"]
    producers = [proxied.create_producer(each) for each in topics]
    consumer = proxied.subscribe(re.compile(f"{topic}-[ac]"), "s")
    for producer in producers:
        producer.send(producer.topic().encode())
    assert sorted(contents(receive(consumer, 2))) == [topics[0].encode(), topics[2].encode()]


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one looks once a minute
def test_topics_of_a_pattern_that_come_later_are_consumed(pulsar: Any, proxied: Any, topic: str) -> None:
    """A proxy passes no watches on, so they are looked for."""
    consumer = proxied.subscribe(
        re.compile(f"{topic}-.*"),
        "s",
        pattern_auto_discovery_period=1,
        initial_position=pulsar.InitialPosition.Earliest,
    )
    proxied.create_producer(f"{topic}-a").send(b"x")
    assert contents(receive(consumer, 1)) == [b"x"]


@pytest.fixture
def tapped_proxy(proxy: Proxy) -> Iterator[Wiretap]:
    with closing(Wiretap(proxy.service_url)) as tapped:
        yield tapped


@pytest.mark.shows("Command Connect", "proxy_to_broker_url")
def test_connect_names_the_broker_behind_the_proxy_and_nobody_else_is_dialled(
    pulsar: Any, connect_to: Any, tapped_proxy: Wiretap, topic: str, broker: Broker
) -> None:
    client = connect_to(pulsar, tapped_proxy.service_url)
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"x")
    assert consumer.receive(SOON).data() == b"x"
    named = [each.proxy_to_broker_url for each in tapped_proxy.sent(CommandConnect)]
    assert sorted(named) == ["", broker.service_url.removeprefix("pulsar://")]


def test_a_proxy_that_starts_anew_is_used_on(pulsar: Any, connect_to: Any, proxy: Proxy, topic: str) -> None:
    client = connect_to(pulsar, proxy.service_url)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"before")
    consumer.acknowledge(consumer.receive(SOON))
    proxy.kill()
    proxy.start()
    producer.send(b"after")
    while consumer.receive(SOON).data() != b"after":
        pass


# Who a client is, told to the broker by the proxy.


@pytest.fixture(params=["binary", "over TLS", "http"])
def way(request: pytest.FixtureRequest, guarded_proxy: GuardedProxy, guarded_apache: Guarded) -> dict[str, Any]:
    """What a client needs to know to come there, less who it is."""
    if request.param == "over TLS":
        trust = {"tls_trust_certs_file_path": guarded_apache.authority.file, "tls_validate_hostname": True}
        return {"service_url": guarded_proxy.service_url_tls, **trust}
    return {"service_url": guarded_proxy.web_url if request.param == "http" else guarded_proxy.service_url}


def test_a_token_passes_the_proxy(
    pulsar: Any, connect_to: Any, way: dict[str, Any], guarded_apache: Guarded, topic: str
) -> None:
    client = connect_to(pulsar, **way, authentication=pulsar.AuthenticationToken(TOKENS.issue(ME)))
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"x")
    assert consumer.receive(SOON).data() == b"x"
    assert list(guarded_apache.admin.stats(topic)["subscriptions"]) == ["s"]


def test_whoever_may_not_is_told_so_by_the_broker(
    pulsar: Any, connect_to: Any, guarded_proxy: GuardedProxy, topic: str
) -> None:
    """The proxy knows the stranger and may do everything itself, so it is the broker that has heard who asks."""
    stranger = pulsar.AuthenticationToken(TOKENS.issue(STRANGER))
    client = connect_to(pulsar, guarded_proxy.service_url, authentication=stranger)
    with pytest.raises(pulsar.AuthorizationError):
        client.create_producer(topic)


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one tries on until its time is up
def test_a_token_that_is_not_known_is_refused_by_the_proxy_at_once(
    pulsar: Any, connect_to: Any, way: dict[str, Any], topic: str
) -> None:
    client = connect_to(pulsar, **way, authentication=pulsar.AuthenticationToken("nonsense"))
    with pytest.raises(pulsar.AuthenticationError):
        client.create_producer(topic)


def test_a_token_that_runs_out_is_renewed_through_the_proxy(
    pulsar: Any, connect_to: Any, guarded_proxy: GuardedProxy, guarded_apache: Guarded, topic: str
) -> None:
    issued: list[str] = []

    def issue() -> str:
        issued.append(TOKENS.issue(ME, lifetime_seconds=LIFETIME_SECONDS))
        return issued[-1]

    client = connect_to(pulsar, guarded_proxy.service_url, authentication=pulsar.AuthenticationToken(issue))
    producer = client.create_producer(topic)
    so_far = len(issued)
    (before,) = guarded_apache.admin.stats(topic)["publishers"]
    until(lambda: len(issued) > so_far + 1, RENEWED_TWICE_SECONDS)
    producer.send(b"still here")
    (after,) = guarded_apache.admin.stats(topic)["publishers"]
    assert before["address"] == after["address"]
