"""A broker and a client for each test, for one of the two is hurt; and nothing is left of either."""

import contextlib
from collections.abc import Iterator

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.support.life import SOON


@pytest.fixture
def broker(clean: None) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    client = pulsar.Client(broker.service_url, operation_timeout_seconds=SOON, initial_backoff_interval_ms=10)
    with contextlib.closing(client):
        yield client
