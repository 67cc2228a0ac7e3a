"""Clients whose service URL is of HTTP: a program notices no difference."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import Settings
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.runtime.tls import server_context
from pulsar_actors.wire.topic_name import TopicName
from tests.support.certificates import Authority
from tests.support.life import MILLISECONDS, SOON, InThread, Relay, client_of, closed_port, works
from tests.support.web_server import Said, web_server

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
    name = TopicName.parse("parts")
    broker.call(lambda inside: inside.cluster.create_partitioned(name, 3))
    with client_of(broker.web_url) as client:
        assert client.get_topic_partitions("parts") == [f"{name}-partition-{number}" for number in range(3)]
        assert client.get_topic_partitions("other") == ["persistent://public/default/other"]


def test_the_broker_that_has_the_topic_is_found(broker: EmbeddedBroker) -> None:
    second = broker.add_listener()
    broker.assign("moved", second)
    with client_of(broker.web_url) as client:
        works(client, "moved")


def test_the_address_of_the_listener_that_a_client_names_is_told_over_http(broker: EmbeddedBroker) -> None:
    with Relay(broker.service_url) as relay:
        broker.advertise("outside", relay.service_url)
        with client_of(broker.web_url, listener_name="outside") as client:
            works(client)
        assert relay.connections


def test_a_listener_that_the_broker_does_not_have_is_named_when_time_is_up(broker: EmbeddedBroker) -> None:
    with (
        client_of(broker.web_url, listener_name="nowhere", operation_timeout_seconds=0.3) as client,
        pytest.raises(pulsar.Timeout, match=r"the last failure was: .*do not have nowhere listener"),
    ):
        client.create_producer("t")


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


def test_a_client_closes_while_it_asks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = pulsar.Client(f"http://127.0.0.1:{silent.getsockname()[1]}")
        creating = InThread(lambda: client.create_producer("t"))
        silent.settimeout(SOON)
        accepted, _ = silent.accept()
        client.close()
        assert isinstance(creating.error(SOON), pulsar.AlreadyClosed)
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


def test_tokens_go_along_and_a_bad_one_is_refused_at_once() -> None:
    tokens = Tokens(b"a secret of the tests")
    with EmbeddedBroker(tokens=tokens) as broker:
        good = pulsar.AuthenticationToken(tokens.issue("me"))
        with client_of(broker.web_url, authentication=good) as client:
            works(client)
        with client_of(broker.web_url) as client, pytest.raises(pulsar.AuthenticationError):
            client.create_producer("t")


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
            creating = InThread(lambda: client.create_producer("t"))
            error = creating.error()
            assert isinstance(error, pulsar.LookupError)
            assert reason in str(error)
            assert creating.seconds < 2.0
        assert plain.connections == 0
