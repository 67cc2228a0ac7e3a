"""Two brokers of one cluster, and either client between them: who is asked, in which words, and where it leads.

The official client is the witness: what both clients do alike is said of Pulsar and not of this client.
"""

import contextlib
import importlib
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from google.protobuf.message import Message

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.session.directory import Node
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support.life import MILLISECONDS, nothing_left, until

C = TypeVar("C", bound=Message)


class Heard:
    """All commands that either broker said or was told."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._commands: list[Message] = []
        self._control = broker.faults.control(lambda seen: self._commands.append(seen.command))

    def of(self, kind: type[C]) -> list[C]:
        return [each for each in list(self._commands) if isinstance(each, kind)]

    def forget(self) -> None:
        self._commands.clear()


@pytest.fixture(scope="module")
def second(broker: EmbeddedBroker) -> Node:
    return broker.add_listener()


@pytest.fixture
def heard(broker: EmbeddedBroker, second: Node) -> Iterator[Heard]:
    yield Heard(broker)
    broker.faults.clear()


@pytest.fixture(params=["pulsar", "pulsar_actors"], ids=["official", "ours"])
def pulsar(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


@pytest.fixture
def connect(pulsar: Any) -> Iterator[Callable[[str], Any]]:
    silent = logging.getLogger("silent-client")
    silent.setLevel(logging.CRITICAL + 1)
    with nothing_left(), contextlib.ExitStack() as opened:
        yield lambda url: opened.enter_context(contextlib.closing(pulsar.Client(url, logger=silent)))


def works(client: Any, topic: str) -> bool:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"x")
    return bool(consumer.receive(MILLISECONDS).data() == b"x")


@pytest.mark.shows("Topic lookup", "authoritative")
@pytest.mark.shows("Command LookupTopicResponse", "Redirect", "authoritative")
def test_a_redirect_is_followed_with_the_flag_that_it_carries(
    connect: Any, broker: EmbeddedBroker, second: Node, heard: Heard, topic: str
) -> None:
    broker.assign(topic, second)
    assert works(connect(broker.service_url), topic)
    redirects = [
        each
        for each in heard.of(pb.CommandLookupTopicResponse)
        if each.response == pb.CommandLookupTopicResponse.LookupType.Redirect
    ]
    assert {each.brokerServiceUrl for each in redirects} == {second.service_url}
    asked = [each.authoritative for each in heard.of(pb.CommandLookupTopic)]
    assert asked == [False, redirects[0].authoritative] * len(redirects)


def test_a_redirect_without_the_flag_is_followed_without_it(
    connect: Any, broker: EmbeddedBroker, second: Node, heard: Heard, topic: str
) -> None:
    broker.assign(topic, second)
    turns = itertools.cycle([True, False])  # whoever is asked first sends on
    redirect = pb.CommandLookupTopicResponse(
        response=pb.CommandLookupTopicResponse.Redirect, brokerServiceUrl=second.service_url, authoritative=False
    )
    broker.faults.on(pb.CommandLookupTopic, times=None, when=lambda _: next(turns)).answer(redirect)
    assert works(connect(broker.service_url), topic)
    assert [each.authoritative for each in heard.of(pb.CommandLookupTopic)] == [False, False] * 2


@pytest.mark.shows("Topic lookup", "HTTP")
def test_a_redirect_over_http_is_followed(
    connect: Any, broker: EmbeddedBroker, second: Node, heard: Heard, topic: str
) -> None:
    broker.assign(topic, second)
    assert works(connect(broker.web_url), topic)
    assert heard.of(pb.CommandLookupTopic) == []


@pytest.mark.shows("Command CloseProducer", "assignedBrokerServiceUrl")
@pytest.mark.shows("Command CloseConsumer", "assignedBrokerServiceUrl")
def test_who_is_sent_to_another_broker_goes_there_without_a_lookup(
    connect: Any, broker: EmbeddedBroker, second: Node, heard: Heard, topic: str
) -> None:
    client = connect(broker.service_url)
    consumer, producer = client.subscribe(topic, "s"), client.create_producer(topic)
    producer.send(b"before")
    heard.forget()
    broker.assign(topic, second)
    producer.send(b"after")
    until(lambda: heard.of(pb.CommandSubscribe))
    found = {consumer.receive(MILLISECONDS).data() for _ in range(2)}
    assert found == {b"before", b"after"}
    sent_away = [*heard.of(pb.CommandCloseProducer), *heard.of(pb.CommandCloseConsumer)]
    assert [each.assignedBrokerServiceUrl for each in sent_away] == [second.service_url] * 2
    assert len(heard.of(pb.CommandProducer)) == len(heard.of(pb.CommandSubscribe)) == 1
    assert heard.of(pb.CommandLookupTopic) == []


@pytest.mark.shows("Authentication and authorisation", "authorisation")
@pytest.mark.parametrize("command", [pb.CommandLookupTopic, pb.CommandProducer])
def test_who_may_not_is_told_so(
    pulsar: Any, connect: Any, broker: EmbeddedBroker, topic: str, command: type[Message]
) -> None:
    fault = broker.faults.on(command, times=None).refuse(pb.ServerError.AuthorizationError, "not you")
    client = connect(broker.service_url)
    with pytest.raises(pulsar.AuthorizationError):
        client.create_producer(topic)
    assert fault.happened == 1
    fault.remove()
