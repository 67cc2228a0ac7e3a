import pytest

from pulsar_actors.machines.ledgers.retry_topic import (
    DEFAULT_MAX_RETRIES,
    Origin,
    dead_letter_properties,
    dead_letter_topic,
    put_off,
    retry_topic,
)

NOW = 1_700_000_000_000
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
        "ORIGIN_MESSAGE_IDY_TIME": "7:3:0",
    }
    assert dead_letter_properties(marked, Origin("elsewhere", "other", "9:9:9")) == marked


def test_a_message_is_delivered_after_its_delay_and_says_how_long_that_was() -> None:
    put = put_off({"colour": "red"}, ORIGIN, 500, NOW, 16)
    assert (put.deliver_at_ms, put.is_dead) == (NOW + 500, False)
    assert put.properties == {
        **dead_letter_properties({"colour": "red"}, ORIGIN),
        "RECONSUMETIMES": "1",
        "DELAY_TIME": "500",
    }


def test_without_a_delay_it_is_delivered_at_once() -> None:
    assert put_off({}, ORIGIN, 0, NOW, 16).deliver_at_ms is None


def test_a_message_put_off_too_often_is_dead_at_once() -> None:
    properties: dict[str, str] = {}
    for time in range(1, 17):
        properties, is_dead, _ = put_off(properties, ORIGIN, 500, NOW, DEFAULT_MAX_RETRIES)
        assert (properties["RECONSUMETIMES"], is_dead) == (str(time), False)
    put = put_off(properties, ORIGIN, 500, NOW, DEFAULT_MAX_RETRIES)
    assert (put.is_dead, put.deliver_at_ms) == (True, None)
    assert (put.properties["RECONSUMETIMES"], put.properties["DELAY_TIME"]) == ("17", "500")


@pytest.mark.parametrize("count", ["", "many", "-3", "٣", "9" * 5000])
def test_a_count_that_is_no_number_is_none(count: str) -> None:
    assert put_off({"RECONSUMETIMES": count}, ORIGIN, 0, NOW, 16).properties["RECONSUMETIMES"] == "1"


def test_a_limit_of_retries_of_ones_own_counts() -> None:
    assert put_off({"RECONSUMETIMES": "1"}, ORIGIN, 0, NOW, max_retries=1).is_dead
