"""An embedded broker and a client of it, for all tests of one file, and a topic for each test."""

from collections.abc import Iterator
from itertools import count

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client

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
