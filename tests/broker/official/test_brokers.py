from collections.abc import Iterator

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.session.directory import Node
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandLookupTopic,
    CommandMessage,
    CommandProducer,
    CommandSend,
    CommandSendReceipt,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName
from tests.broker.official_client import WAIT_MS, Official, contents, data, pulsar, receive, send_all, topic


@pytest.fixture(scope="module")
def second(broker: EmbeddedBroker) -> Node:
    return broker.add_listener()


@pytest.fixture
def at_second(broker: EmbeddedBroker, second: Node) -> Iterator[Official]:
    """The official client, which asks the second broker first."""
    made = Official(second.service_url)
    yield made
    made.close()


def echo(official: Official, name: str) -> bytes:
    client = official.client()
    consumer = client.subscribe(name, "s")
    client.create_producer(name).send(b"echo")
    answer: bytes = consumer.receive(WAIT_MS).data()
    return answer


def test_a_client_is_redirected_to_the_broker_that_has_the_topic(
    official: Official, at_second: Official, broker: EmbeddedBroker, second: Node
) -> None:
    name = topic()
    broker.assign(name, second)
    asked = broker.faults.control(lambda seen: None)
    assert echo(official, name) == b"echo"
    assert echo(at_second, topic()) == b"echo"
    asked.remove()


def test_a_client_that_asks_a_broker_that_is_not_the_leader_gets_there_too(
    at_second: Official, broker: EmbeddedBroker
) -> None:
    name = topic()
    first = broker.call(lambda inside: inside.nodes[0])
    broker.assign(name, first)
    assert echo(at_second, name) == b"echo"


def test_a_topic_that_moves_takes_its_clients_with_it(official: Official, broker: EmbeddedBroker, second: Node) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name)
    producer.send(b"before")
    broker.assign(name, second)
    producer.send(b"after")
    got = data(receive(consumer, 2))
    assert set(got) == {b"before", b"after"}


def test_a_client_may_ask_over_http(official: Official, broker: EmbeddedBroker, second: Node) -> None:
    over_http = Official(broker.web_url)
    try:
        assert echo(over_http, topic()) == b"echo"
        moved = topic()
        broker.assign(moved, second)
        assert echo(over_http, moved) == b"echo"
        broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse(f"{moved}-parts"), 3))
        assert len(over_http.client().get_topic_partitions(f"{moved}-parts")) == 3
    finally:
        over_http.close()


def test_an_unloaded_topic_goes_on(official: Official, broker: EmbeddedBroker) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name)
    for i in range(3):
        producer.send(b"%d" % i)
        broker.call(lambda inside: inside.cluster.unload(TopicName.parse(name)))
    producer.send(b"3")
    got = set()
    while len(got) < 4:
        message = consumer.receive(WAIT_MS)
        got.add(message.data())
        consumer.acknowledge(message)
    assert got == {b"0", b"1", b"2", b"3"}


def test_nothing_is_lost_when_connections_break(official: Official, broker: EmbeddedBroker) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name, max_pending_messages=10_000)
    ids = []
    for i in range(5):
        ids += send_all(producer, contents(*(f"{i}-{j}" for j in range(50))))
        broker.cut_connections()
    assert all(isinstance(each, type(ids[0])) for each in ids)
    wanted = {f"{i}-{j}".encode() for i in range(5) for j in range(50)}
    while wanted:
        message = consumer.receive(WAIT_MS)
        wanted.discard(message.data())
        consumer.acknowledge(message)


@pytest.mark.parametrize("kind", [CommandSend, CommandSendReceipt])
def test_a_message_whose_connection_ends_is_sent_again(official: Official, broker: EmbeddedBroker, kind: type) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name)
    fault = broker.faults.on(kind, nth=2).close_connection()
    for i in range(3):
        producer.send(b"%d" % i)
    fault.wait()
    got = set()
    while len(got) < 3:
        got.add(consumer.receive(WAIT_MS).data())
    assert got == {b"0", b"1", b"2"}


def test_a_broker_that_is_not_ready_is_asked_again(official: Official, broker: EmbeddedBroker) -> None:
    for kind in (CommandLookupTopic, CommandProducer):  # after SUBSCRIBE this client never asks again: a bug of its own
        fault = broker.faults.on(kind, times=2).refuse(ServerError.ServiceNotReady, "not yet")
        assert echo(official, topic()) == b"echo"
        assert fault.happened == 2


def test_a_connection_that_says_nothing_is_given_up(broker: EmbeddedBroker) -> None:
    slow = Official(broker.service_url)
    fault = broker.faults.on_accept().say_nothing()
    client = slow.client(connection_timeout_ms=500, operation_timeout_seconds=10)
    try:
        with pytest.raises(pulsar.ConnectError):
            client.create_producer(topic())
        fault.wait()
        client.create_producer(topic())
    finally:
        slow.close()
        broker.faults.clear()


def test_a_connection_that_breaks_in_the_middle_of_a_message_loses_nothing(
    official: Official, broker: EmbeddedBroker
) -> None:
    name = topic()
    official.client().create_producer(name).send(bytes(100_000))
    fault = broker.faults.on_accept().cut_after(sent=50_000)
    client = official.client()
    consumer = client.subscribe(name, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert consumer.receive(WAIT_MS).data() == bytes(100_000)
    fault.wait()


def test_a_message_that_came_broken_comes_again(official: Official, broker: EmbeddedBroker) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name)
    fault = broker.faults.on(CommandMessage).drop()
    producer.send(b"lost on its way")
    fault.wait()
    consumer.redeliver_unacknowledged_messages()
    assert consumer.receive(WAIT_MS).data() == b"lost on its way"
