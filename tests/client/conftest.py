"""An embedded broker and a client of it, for all tests of one file; a topic for each test, and who sends and receives.

A file whose tests must leave nothing behind uses `clean`, and starts its brokers itself.
"""

from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.producer import Producer
from tests.support import topics
from tests.support.life import nothing_left
from tests.support.loops import LOOPS, Run, run_in

_NUMBERS = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def client(broker: EmbeddedBroker) -> Iterator[Client]:
    with Client(broker.service_url, operation_timeout_seconds=20) as client:
        yield client


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/topic-{next(_NUMBERS)}"


@pytest.fixture
def parts(broker: EmbeddedBroker, topic: str) -> str:
    """Create a topic of two partitions."""
    topics.create_partitioned(broker, topic, 2)
    return topic


@pytest.fixture(params=[0, 2], ids=["one topic", "partitions"])
def any_topic(request: pytest.FixtureRequest, broker: EmbeddedBroker, topic: str) -> str:
    """Name a topic without partitions, and one with."""
    if request.param:
        topics.create_partitioned(broker, topic, request.param)
    return topic


@pytest.fixture
def producer(client: Client, topic: str) -> Iterator[Producer]:
    with client.create_producer(topic) as producer:
        yield producer


@pytest.fixture
def consumer(client: Client, topic: str) -> Iterator[Consumer]:
    with client.subscribe(topic, "s") as consumer:
        yield consumer


@pytest.fixture
def clean() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine function in an event loop of its own."""
    return partial(run_in, request.param)
