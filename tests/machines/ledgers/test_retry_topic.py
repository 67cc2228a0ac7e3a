import pytest

from pulsar_actors.machines.ledgers.retry_topic import (
    Origin,
    dead_letter_properties,
    dead_letter_topic,
    put_off,
    retry_topic,
)

ORIGIN = Origin("persistent://public/default/orders-partition-0", "billing", "7:3:0")


def test_the_names_follow_from_topic_and_subscription() -> None:
    assert dead_letter_topic(ORIGIN.topic, "billing") == "persistent://public/default/orders-partition-0-billing-DLQ"
    assert retry_topic(ORIGIN.topic, "billing") == "persistent://public/default/orders-partition-0-billing-RETRY"


def test_the_first_origin_is_kept() -> None:
    marked = dead_letter_properties({"colour": "red"}, ORIGIN)
    assert marked == {
        "colour": "red",
        "REAL_TOPIC": ORIGIN.topic,
        "REAL_SUBSCRIPTION": "billing",
        "ORIGIN_MESSAGE_ID": "7:3:0",
    }
    assert dead_letter_properties(marked, Origin("elsewhere", "other", "9:9:9")) == marked


def test_a_message_put_off_too_often_is_dead() -> None:
    properties: dict[str, str] = {}
    for time in range(1, 17):
        properties, is_dead = put_off(properties, ORIGIN, delay_ms=500)
        assert (properties["RECONSUMETIMES"], properties["DELAY_TIME"], is_dead) == (str(time), "500", False)
    assert put_off(properties, ORIGIN, delay_ms=-5).is_dead


@pytest.mark.parametrize("count", ["", "many", "-3", "٣", "9" * 5000])
def test_a_count_that_is_no_number_is_none(count: str) -> None:
    assert put_off({"RECONSUMETIMES": count}, ORIGIN, 0, 16).properties["RECONSUMETIMES"] == "1"


def test_a_limit_of_retries_of_ones_own_counts() -> None:
    assert put_off({"RECONSUMETIMES": "1"}, ORIGIN, 0, max_retries=1).is_dead
