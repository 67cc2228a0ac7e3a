from typing import Any

import pytest

from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.exceptions import InvalidArgument


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_message_size": 0}, "max_message_size is 1 or more, not 0"),
        ({"max_unacked_per_consumer": -1}, "max_unacked_per_consumer is 0 or more, not -1"),
        ({"max_unacked_per_subscription": -1}, "max_unacked_per_subscription is 0 or more, not -1"),
        ({"failover_delay": float("nan")}, "failover_delay is 0 or more, not nan"),
        ({"kept_bytes": -1}, "kept_bytes is 0 or more, not -1"),
    ],
)
def test_what_cannot_work_is_refused_at_once(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        Settings(**settings)


def test_a_size_that_is_no_number_is_refused_before_there_is_a_broker_that_answers_nobody() -> None:
    size: Any = "5000"
    with pytest.raises(TypeError):
        Settings(max_message_size=size)


def test_0_of_what_is_not_acknowledged_is_no_limit_and_is_taken() -> None:
    assert Settings(max_unacked_per_consumer=0, max_unacked_per_subscription=0).max_unacked_per_consumer == 0
