"""Lookups: over HTTP, where a program notices no difference; and how many are on their way at once."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import Settings
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.machines import lookup
from pulsar_actors.runtime.http_client import MOST_AT_ONCE
from pulsar_actors.runtime.tls import server_context
from pulsar_actors.wire.PulsarApi_pb2 import CommandPartitionedTopicMetadata, CommandPartitionedTopicMetadataResponse
from tests.support import topics
from tests.support.certificates import Authority
from tests.support.life import MILLISECONDS, SOON, InThread, client_of, closed_port, full_backlog, until, works
from tests.support.relay import Relay
from tests.support.web_server import Asked, Said, web_server

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def broker(clean: None) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def test_everything_works_also_after_a_cut(broker: EmbeddedBroker) -> None:
    with client_of(broker.web_url) as client:
        works(client)
        producer = client.create_producer("t")
        broker.cut_connections()
        producer.send(b"after")
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        assert reader.read_next(MILLISECONDS).data() == b"x"


def test_partitions_are_told(broker: EmbeddedBroker) -> None:
    topics.create_partitioned(broker, "parts", 3)
    with client_of(broker.web_url) as client:
        here = "persistent://public/default"
        assert client.get_topic_partitions("parts") == [f"{here}/parts-partition-{number}" for number in range(3)]
        assert client.get_topic_partitions("other") == [f"{here}/other"]


def test_the_address_of_the_listener_that_a_client_names_is_told_over_http(broker: EmbeddedBroker) -> None:
    with Relay(broker.service_url) as relay:
        broker.advertise("outside", relay.service_url)
        with client_of(broker.web_url, listener_name="outside") as client:
            works(client)
        assert relay.connections


@pytest.mark.parametrize("over_http", [False, True])
def test_a_listener_that_the_broker_does_not_have_is_named_at_once(
    broker: EmbeddedBroker,
    over_http: bool,  # noqa: FBT001 - a case
) -> None:
    url = broker.web_url if over_http else broker.service_url
    with client_of(url, listener_name="nowhere", operation_timeout_seconds=60) as client:
        error = InThread(lambda: client.create_producer("t")).error()
    assert isinstance(error, pulsar.ListenerNotFound)
    assert isinstance(error, pulsar.InvalidConfiguration)
    assert "do not have nowhere listener" in str(error)


def test_hosts_are_tried_in_turn(broker: EmbeddedBroker) -> None:
    with closed_port() as down:
        dead = down.removeprefix("pulsar://")
        with client_of(f"http://{dead},{broker.web_url.removeprefix('http://')}") as client:
            for number in range(4):
                client.create_producer(f"t{number}")


def test_a_topic_that_is_not_there_is_said_so_at_once() -> None:
    settings = Settings(allow_auto_topic_creation=False)
    with EmbeddedBroker(settings=settings) as broker, client_of(broker.web_url) as client:
        with pytest.raises(pulsar.TopicNotFound):
            client.create_producer("t")
        with pytest.raises(pulsar.TopicNotFound):
            client.get_topic_partitions("t")


def test_a_name_that_has_no_path_is_refused(broker: EmbeddedBroker) -> None:
    with client_of(broker.web_url) as client, pytest.raises(pulsar.InvalidTopicName):
        client.create_producer("persistent://public/default/..")


def test_a_host_that_is_silent_costs_no_more_than_the_operation_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with client_of(url, operation_timeout_seconds=0.5) as client:
            assert isinstance(InThread(lambda: client.create_producer("t")).error(SOON), pulsar.Timeout)


def test_a_host_that_cannot_be_connected_to_costs_the_connection_timeout(broker: EmbeddedBroker) -> None:
    with full_backlog() as silent:
        url = f"{silent.replace('pulsar:', 'http:')},{broker.web_url.removeprefix('http://')}"
        with client_of(url, connection_timeout_ms=200, operation_timeout_seconds=60) as client:
            for number in range(2):  # one of them is sent to that host first
                InThread(lambda number=number: client.get_topic_partitions(f"t{number}")).result()


@pytest.mark.parametrize("call", ["create_producer", "get_topic_partitions"])
def test_if_no_host_can_be_connected_to_a_call_says_so_after_the_connection_timeout(call: str) -> None:
    with full_backlog() as silent:
        url = silent.replace("pulsar:", "http:")
        with client_of(url, connection_timeout_ms=200, operation_timeout_seconds=60) as client:
            error = InThread(lambda: getattr(client, call)("t")).error()  # in much less than the operation timeout
    assert isinstance(error, pulsar.ConnectTimeout)
    assert f"no connection to {silent.removeprefix('pulsar://')} within 0.2 s" in str(error)


def test_a_client_closes_while_it_asks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = pulsar.Client(f"http://127.0.0.1:{silent.getsockname()[1]}")
        creating = InThread(lambda: client.create_producer("t"))
        silent.settimeout(SOON)
        accepted, _ = silent.accept()
        client.close()
        assert isinstance(creating.error(SOON), pulsar.AlreadyClosed)
        accepted.close()


def test_a_server_that_is_silent_does_not_keep_a_connection_from_being_made() -> None:
    """Its name is resolved off the loop, as lookups are made there."""
    go_on = threading.Event()
    with EmbeddedBroker(host="localhost") as broker, web_server() as server:

        def answer(asked: Asked) -> Said:
            assert "slow" not in asked.path or go_on.wait(2 * SOON)
            return Said(200, json.dumps({"brokerUrl": broker.service_url, "partitions": 0}).encode())

        server.answer = answer
        with client_of(server.url, operation_timeout_seconds=2 * SOON) as client:
            producer = client.create_producer("t")
            slow = InThread(lambda: client.create_producer("slow"))
            until(lambda: "slow" in server.asked[-1].path)
            broker.assign("t", broker.add_listener())
            InThread(lambda: producer.send(b"there")).result()
            go_on.set()
            slow.result()


class Provider(pulsar.ServiceInfoProvider):
    """Moves a client when a test says so."""

    def __init__(self, first: str) -> None:
        self.first = first
        self.go_to: Callable[[pulsar.ServiceInfo], None] = lambda _: None

    def initial_service_info(self) -> pulsar.ServiceInfo:
        return pulsar.ServiceInfo(self.first)

    def initialize(self, on_service_info_update: Callable[[pulsar.ServiceInfo], None]) -> None:
        self.go_to = on_service_info_update


def test_a_lookup_at_a_server_that_is_silent_is_made_elsewhere_when_the_client_goes_there(
    broker: EmbeddedBroker,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SOON)
        provider = Provider(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with contextlib.closing(pulsar.Client(provider, operation_timeout_seconds=3 * SOON)) as client:
            creating = InThread(lambda: client.create_producer("t"))
            accepted, _ = silent.accept()
            provider.go_to(pulsar.ServiceInfo(broker.web_url))
            creating.result()
            accepted.close()


def test_a_server_that_redirects_for_ever_is_said_to() -> None:
    with web_server() as server:
        server.answer = lambda asked: Said(307, headers=(("Location", f"{server.url}/round"),))
        with client_of(server.url) as client, pytest.raises(pulsar.PulsarException, match="more than 20 times"):
            client.create_producer("t")
        assert len(server.asked) == 21


def test_a_server_at_fault_is_asked_again(broker: EmbeddedBroker) -> None:
    with web_server() as server:
        found = json.dumps({"brokerUrl": broker.service_url, "partitions": 0}).encode()
        server.answer = lambda _: Said(200, found) if len(server.asked) > 2 else Said(503)
        with client_of(server.url) as client:
            works(client)


def test_a_token_follows_a_redirect_only_to_a_host_of_the_service_url() -> None:
    tokens = Tokens(b"a secret of the tests")
    with EmbeddedBroker(tokens=tokens) as broker:
        second = broker.add_listener()
        broker.assign("moved", second)
        good = pulsar.AuthenticationToken(tokens.issue("me"))
        with (
            client_of(broker.web_url, authentication=good) as client,
            pytest.raises(pulsar.AuthenticationError, match="put this host into the service URL"),
        ):
            client.create_producer("moved")
        both = f"{broker.web_url},{second.web_url.removeprefix('http://')}"
        with client_of(both, authentication=good) as client:
            works(client, "moved")


def test_https_leads_to_encrypted_connections_and_the_certificate_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.certify(("localhost", "127.0.0.1"))
    with EmbeddedBroker(certificate_file=files.certificate, private_key_file=files.key) as broker:
        second = broker.add_listener()
        broker.assign("moved", second)
        with client_of(broker.web_url_tls, tls_trust_certs_file_path=authority.file) as client:
            works(client)
            works(client, "moved")
        with client_of(broker.web_url_tls) as client, pytest.raises(pulsar.CertificateRefused):
            client.create_producer("t")


INTO_THE_OPEN: dict[str, tuple[Callable[[str], Said], str]] = {
    "a redirect to http": (
        lambda plain: Said(307, headers=(("Location", f"http://{plain}/lookup/v2/topic/persistent/a/b/c"),)),
        "a redirect leads from https to 'http': not followed",
    ),
    "a redirect to a broker": (
        lambda plain: Said(307, headers=(("Location", f"pulsar://{plain}"),)),
        "a redirect leads from https to 'pulsar': not followed",
    ),
    "an answer without an encrypted address": (
        lambda plain: Said(200, json.dumps({"brokerUrl": f"pulsar://{plain}", "partitions": 0}).encode()),
        "names no broker: brokerServiceUrlTls is ''",
    ),
    "an answer with a plain one in its place": (
        lambda plain: Said(200, json.dumps({"brokerUrlTls": f"pulsar://{plain}", "partitions": 0}).encode()),
        "names no broker: brokerServiceUrlTls is 'pulsar://",
    ),
}


@pytest.mark.parametrize("how", INTO_THE_OPEN)
def test_what_leads_from_https_into_the_open_is_not_followed(tmp_path: Path, broker: EmbeddedBroker, how: str) -> None:
    say, reason = INTO_THE_OPEN[how]
    authority = Authority(tmp_path)
    with web_server(server_context(*authority.certify())) as server, Relay(broker.service_url) as plain:
        server.answer = lambda _: say(plain.service_url.removeprefix("pulsar://"))
        with client_of(
            server.url,
            authentication=pulsar.AuthenticationToken("open-sesame"),
            tls_trust_certs_file_path=authority.file,
        ) as client:
            error = InThread(lambda: client.create_producer("t")).error()
            assert isinstance(error, pulsar.LookupError)
            assert reason in str(error)
        assert plain.connections == 0


# How many are on their way at once, and what becomes of the others.


def ask_for(client: pulsar.Client, count: int) -> list[InThread]:
    """Ask so many questions at once."""
    return [InThread(lambda number=number: client.get_topic_partitions(f"t{number}")) for number in range(count)]


@pytest.mark.shows("Topic lookup")
@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_lookups_than_allowed_are_on_their_way_and_each_that_ends_lets_another_begin(limit: int) -> None:
    at_once = [0]

    def count(seen: Any) -> None:
        if isinstance(seen.command, CommandPartitionedTopicMetadata):
            at_once.append(at_once[-1] + 1)
        elif isinstance(seen.command, CommandPartitionedTopicMetadataResponse):
            at_once.append(at_once[-1] - 1)

    with EmbeddedBroker() as broker:
        broker.faults.on(CommandPartitionedTopicMetadata, times=None).delay(0.02)
        broker.faults.control(count)
        with client_of(broker.service_url, concurrent_lookup_requests=limit) as client:
            for asking in ask_for(client, 12):
                asking.result()
    assert len(at_once) == 1 + 2 * 12
    assert max(at_once) == limit


@pytest.mark.shows("Topic lookup")
@pytest.mark.parametrize("limit", [1, 3, 50])
def test_over_http_no_more_than_allowed_are_on_their_way_either(limit: int) -> None:
    lock, at_once, most = threading.Lock(), 0, 0

    def answer(_: Asked) -> Said:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.01)  # what is being answered lasts a while
        with lock:
            at_once -= 1
        return Said(200, json.dumps({"partitions": 0}).encode())

    with web_server() as server:
        server.answer = answer
        with client_of(server.url, concurrent_lookup_requests=limit) as client:
            for asking in ask_for(client, 12):
                asking.result()
    assert len(server.asked) == 12
    assert 0 < most <= min(limit, MOST_AT_ONCE)


@pytest.mark.shows("Topic lookup")
def test_over_http_several_are_on_their_way_at_once() -> None:
    at_once = threading.Barrier(MOST_AT_ONCE)

    def answer(_: Asked) -> Said:
        at_once.wait(SOON)  # each is answered only together with the others
        return Said(200, json.dumps({"partitions": 0}).encode())

    with web_server() as server:
        server.answer = answer
        with client_of(server.url) as client:
            for asking in ask_for(client, 3 * MOST_AT_ONCE):
                asking.result()
    assert len(server.asked) == 3 * MOST_AT_ONCE


@pytest.mark.shows("Topic lookup")
@pytest.mark.parametrize("over_http", [False, True])
def test_whoever_comes_when_the_line_is_too_long_is_turned_away_at_once(
    monkeypatch: pytest.MonkeyPatch,
    over_http: bool,  # noqa: FBT001 - a case
) -> None:
    monkeypatch.setattr(lookup, "MAX_LOOKUPS", 5)
    go_on = threading.Event()

    def answer(_: Asked) -> Said:
        assert go_on.wait(SOON)
        return Said(200, json.dumps({"partitions": 0}).encode())

    with EmbeddedBroker() as broker, web_server() as server:
        server.answer = answer
        stalled = broker.faults.on(CommandPartitionedTopicMetadata).stall()
        url = server.url if over_http else broker.service_url
        with client_of(url, concurrent_lookup_requests=2) as client:
            five = ask_for(client, 5)
            until(lambda: client.stats().pending_lookups == 5)
            assert isinstance(
                InThread(lambda: client.get_topic_partitions("late")).error(), pulsar.TooManyLookupRequestException
            )
            until(lambda: all(one.waits() for one in five))
            go_on.set()
            stalled.release()
            assert [len(one.result()) for one in five] == [1] * 5
            assert len(client.get_topic_partitions("later")) == 1
