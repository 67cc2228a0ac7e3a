"""The official client, which is given nothing but the HTTP address."""

import re
from collections.abc import Iterator

import pulsar
import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.stats import topic_stats
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.wire.topic_name import TopicName


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def client_of(url: str, **options: object) -> pulsar.Client:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(url, operation_timeout_seconds=5, logger=quiet, **options)


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    client = client_of(broker.web_url)
    yield client
    client.close()


@pytest.mark.parametrize(
    "topic", ["plain", "with space", "\u65e5\u672c", "a?b#c%25", "non-persistent://public/default/t"]
)
def test_it_finds_a_topic_and_sends_and_receives(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"hello")
    assert consumer.receive(5000).data() == b"hello"


def test_it_learns_how_many_partitions_there_are(client: pulsar.Client, broker: EmbeddedBroker) -> None:
    broker.call(lambda inside: inside.cluster.create_partitioned(topic_name("parted"), 3))
    names = client.get_topic_partitions("parted")
    assert names == [f"persistent://public/default/parted-partition-{index}" for index in range(3)]
    consumer = client.subscribe("parted", "s")
    producer = client.create_producer("parted")
    for number in range(6):
        producer.send(str(number).encode())
    assert {consumer.receive(5000).data() for _ in range(6)} == {str(number).encode() for number in range(6)}


def test_it_finds_the_topics_of_a_pattern(client: pulsar.Client) -> None:
    for name in ("fruit-apple", "fruit-pear", "stone"):
        client.create_producer(name).send(name.encode())
    consumer = client.subscribe(
        re.compile("persistent://public/default/fruit-.*"),
        "s",
        initial_position=pulsar.InitialPosition.Earliest,
    )
    assert {consumer.receive(5000).data() for _ in range(2)} == {b"fruit-apple", b"fruit-pear"}


def test_it_is_told_that_there_is_no_such_namespace(client: pulsar.Client) -> None:
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("persistent://public/nix/t")


def test_it_follows_a_redirect_to_the_broker_that_has_the_topic(client: pulsar.Client, broker: EmbeddedBroker) -> None:
    other = broker.add_listener()
    broker.assign("persistent://public/default/moved", other)
    producer = client.create_producer("moved")
    producer.send(b"x")
    port = broker.call(lambda _: other.service_url).rpartition(":")[2]
    assert port != broker.service_url.rpartition(":")[2]
    assert broker.call(lambda inside: topic_stats(inside.cluster.find_topic(topic_name("moved")))["msgInCounter"]) == 1


def test_it_shows_its_token() -> None:
    tokens = Tokens(b"a secret of thirty-two bytes or more")
    with EmbeddedBroker(tokens=tokens) as broker:
        good = client_of(broker.web_url, authentication=pulsar.AuthenticationToken(tokens.issue("me")))
        good.create_producer("t").send(b"x")
        good.close()
        nobody = client_of(broker.web_url)
        with pytest.raises(pulsar.PulsarException):
            nobody.create_producer("t")
        nobody.close()


def topic_name(name: str) -> TopicName:
    return TopicName.parse(name)
