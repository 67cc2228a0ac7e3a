from collections.abc import Iterator

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.broker.official_client import Official


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def official(broker: EmbeddedBroker) -> Iterator[Official]:
    """The official client, on the module's broker."""
    made = Official(broker.service_url)
    yield made
    made.close()
    broker.faults.clear()
