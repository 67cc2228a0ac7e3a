"""What an administrator sees of a broker, and a small chart to draw."""

import json
from collections.abc import Callable
from urllib.request import urlopen

import pytest

from pulsar_actors.broker import EmbeddedBroker
from tests.support.kettle import altered_kettle, kettle

__all__ = ["altered_kettle", "kettle"]


@pytest.fixture
def subscriptions(broker: EmbeddedBroker) -> Callable[[], list[str]]:
    """Give every subscription on the broker."""

    def asked(what: str) -> list[str]:
        with urlopen(f"{broker.web_url}/admin/v2/persistent/{what}", timeout=10) as answer:  # noqa: S310 - our own broker
            return json.load(answer)

    def subscriptions() -> list[str]:
        names = [topic.removeprefix("persistent://") for topic in asked("public/default")]
        return [one for name in names for one in asked(f"{name}/subscriptions")]

    return subscriptions
