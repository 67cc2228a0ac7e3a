"""What a broker adds to what producers wrote, where it is set up to tell consumers; its pings; its listeners."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from pulsar_actors.wire import PulsarApi_pb2 as wire
from tests.real_broker.exchange import receive, send_all, send_batch, until
from tests.real_broker.wiretap import Wiretap
from tests.support.subjects import client_module

NOW = 60_000  # milliseconds by which clocks of one machine may differ


@pytest.fixture
def tapped(exposing: Any) -> Iterator[Wiretap]:
    with closing(Wiretap(exposing.service_url)) as tapped:
        yield tapped


@pytest.fixture
def ours(tapped: Wiretap, connect_to: Any) -> Any:
    return connect_to(client_module("ours"), tapped.service_url)


@pytest.mark.shows("Payload commands", "magicNumberOfBrokerEntryMetadata", "brokerEntryMetadataSize")
@pytest.mark.shows("Payload commands", "brokerEntryMetadata")
@pytest.mark.shows("Broker entry metadata", "broker_timestamp", "index")
@pytest.mark.shows("Feature flags", "supports_broker_entry_metadata")
def test_a_message_says_when_the_broker_got_it_and_how_many_came_before(ours: Any, topic: str, tapped: Wiretap) -> None:
    consumer = ours.subscribe(topic, "s")
    send_all(ours.create_producer(topic), [b"a", b"b"])
    messages = receive(consumer, 2)
    assert [each.index() for each in messages] == [0, 1]
    for each in messages:
        assert abs(each.broker_publish_timestamp() - time.time() * 1000) < NOW
    rest = tapped.frames(wire.CommandMessage)[0].rest
    size = int.from_bytes(rest[2:6], "big")
    assert rest[:2] == b"\x0e\x02"
    assert wire.BrokerEntryMetadata.FromString(rest[6 : 6 + size]).index == 0
    assert rest[6 + size : 8 + size] == b"\x0e\x01"
    assert tapped.sent(wire.CommandConnect)[0].feature_flags.supports_broker_entry_metadata


def test_each_message_of_a_batch_has_an_index(ours: Any, topic: str) -> None:
    consumer = ours.subscribe(topic, "s")
    ours.create_producer(topic).send(b"before")
    send_batch(client_module("ours"), ours, topic, [b"a", b"b", b"c"])
    assert [each.index() for each in receive(consumer, 4)] == [0, 1, 2, 3]


@pytest.mark.shows("Keep alive", "Ping", "Pong")
@pytest.mark.parametrize("name", ["official", "ours"])
def test_a_ping_of_the_broker_is_answered_and_the_connection_stays(
    name: str, topic: str, tapped: Wiretap, connect_to: Any
) -> None:
    client = connect_to(client_module(name), tapped.service_url)
    producer = client.create_producer(topic)
    connections = len(tapped.sent(wire.CommandConnect))
    until(lambda: len(tapped.came(wire.CommandPing)) >= 3 * connections)
    assert len(tapped.sent(wire.CommandPong)) >= 2 * connections
    assert producer.is_connected()
    assert len(tapped.sent(wire.CommandConnect)) == connections


@pytest.mark.shows("Keep alive", "Ping", "Pong")
def test_the_broker_answers_our_pings(topic: str, tapped: Wiretap, connect_to: Any) -> None:
    client = connect_to(client_module("ours"), tapped.service_url, keep_alive_interval_seconds=0.3)
    producer = client.create_producer(topic)
    connections = len(tapped.sent(wire.CommandConnect))
    until(lambda: len(tapped.came(wire.CommandPong)) >= 2 * connections)
    assert len(tapped.sent(wire.CommandPing)) >= 2 * connections
    assert producer.is_connected()
    assert len(tapped.sent(wire.CommandConnect)) == connections


@pytest.mark.shows("Command LookupTopic", "advertised_listener_name")
@pytest.mark.parametrize("name", ["official", "ours"])
def test_a_client_may_ask_for_the_address_of_a_listener(
    name: str, topic: str, tapped: Wiretap, connect_to: Any
) -> None:
    client = connect_to(client_module(name), tapped.service_url, listener_name="outside")
    client.create_producer(topic).send(b"a")
    assert {each.advertised_listener_name for each in tapped.sent(wire.CommandLookupTopic)} == {"outside"}
    assert tapped.came(wire.CommandLookupTopicResponse)[0].brokerServiceUrl.startswith("pulsar://localhost:")


@pytest.mark.parametrize("name", ["official", "ours"])
def test_a_listener_that_the_broker_does_not_have_leads_nowhere(
    name: str, topic: str, tapped: Wiretap, connect_to: Any
) -> None:
    module = client_module(name)
    client = connect_to(module, tapped.service_url, listener_name="nowhere", operation_timeout_seconds=1)
    with pytest.raises(module.PulsarException) as raised:
        client.create_producer(topic)
    if name == "ours":  # which says so at once
        assert isinstance(raised.value, module.ListenerNotFound)
        assert len(tapped.came(wire.CommandLookupTopicResponse)) == 1
    refused = tapped.came(wire.CommandLookupTopicResponse)[0]
    assert (refused.response, refused.error) == (
        wire.CommandLookupTopicResponse.Failed,
        wire.ServerError.ServiceNotReady,
    )


def service_urls(exposing: Any, query: str = "", **headers: str) -> Any:
    """Look a topic up without a client, and give the address that is told."""
    url = f"{exposing.web_url}/lookup/v2/topic/persistent/public/default/looked-up{query}"
    with urlopen(Request(url, headers=headers)) as answer:  # noqa: S310 -- of our own broker
        return json.load(answer)["brokerUrl"]


@pytest.mark.shows("Command LookupTopic", "advertised_listener_name")
def test_the_address_of_a_listener_is_told_over_http_to_whoever_names_it_in_the_query_or_a_header(
    exposing: Any,
) -> None:
    inside, outside = exposing.service_url, exposing.service_url.replace("127.0.0.1", "localhost")
    assert service_urls(exposing) == inside
    assert service_urls(exposing, "?listenerName=outside") == outside
    named = {"X-Pulsar-ListenerName": "outside"}
    assert service_urls(exposing, **named) == service_urls(exposing, "?listenerName=", **named) == outside
    for query, headers in (("?listenerName=nowhere", {}), ("", {"X-Pulsar-ListenerName": "nowhere"})):
        with pytest.raises(HTTPError, match="500") as refused:
            service_urls(exposing, query, **headers)
        refused.value.close()


def test_our_client_asks_for_the_address_of_a_listener_over_http_too(
    topic: str, exposing: Any, connect_to: Any
) -> None:
    module = client_module("ours")
    connect_to(module, exposing.web_url, listener_name="outside").create_producer(topic).send(b"a")
    client = connect_to(module, exposing.web_url, listener_name="nowhere", operation_timeout_seconds=1)
    with pytest.raises(module.ListenerNotFound, match="nowhere listener"):
        client.create_producer(topic)
