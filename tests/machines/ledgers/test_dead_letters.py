import pytest

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.dead_letters import (
    DeadLetters,
    Origin,
    Verdict,
    dead_letter_properties,
    dead_letter_topic,
    put_off,
    retry_topic,
)

ORIGIN = Origin("persistent://public/default/orders-partition-0", "billing", "7:3:0")


def test_the_names_follow_from_topic_and_subscription() -> None:
    assert dead_letter_topic(ORIGIN.topic, "billing") == "persistent://public/default/orders-partition-0-billing-DLQ"
    assert retry_topic(ORIGIN.topic, "billing") == "persistent://public/default/orders-partition-0-billing-RETRY"


def test_a_message_below_the_limit_is_delivered_and_not_remembered() -> None:
    letters: DeadLetters[str] = DeadLetters(3)
    assert letters.arrived((1, 1), 2, ("a",)) is Verdict.DELIVER
    assert letters.refused((1, 1)) == ()


def test_a_message_refused_on_its_last_try_is_sent_away() -> None:
    letters: DeadLetters[str] = DeadLetters(3)
    assert letters.arrived((1, 1), 3, ("a", "b")) is Verdict.LAST_TRY
    assert letters.refused((1, 1)) == ("a", "b")
    assert letters.refused((1, 1)) == (), "once"


def test_a_message_acknowledged_on_its_last_try_is_not() -> None:
    letters: DeadLetters[str] = DeadLetters(3)
    letters.arrived((1, 1), 3, ("a",))
    letters.acknowledged((1, 1))
    assert letters.refused((1, 1)) == ()


def test_a_message_over_the_limit_is_sent_once_however_often_it_comes() -> None:
    letters: DeadLetters[str] = DeadLetters(3)
    assert letters.arrived((1, 1), 4, ("a",)) is Verdict.DEAD
    assert letters.arrived((1, 1), 5, ("a",)) is Verdict.SENDING
    letters.sent((1, 1))
    assert letters.arrived((1, 1), 5, ("a",)) is Verdict.DEAD


def test_a_message_that_could_not_be_sent_is_tried_anew() -> None:
    letters: DeadLetters[str] = DeadLetters(1)
    letters.arrived((1, 1), 1, ("a",))
    letters.refused((1, 1))
    letters.failed((1, 1))
    assert letters.arrived((1, 1), 2, ("a",)) is Verdict.DEAD


def test_a_seek_forgets_last_tries_but_not_what_is_on_its_way() -> None:
    letters: DeadLetters[str] = DeadLetters(1)
    letters.arrived((1, 1), 1, ("a",))
    letters.arrived((1, 2), 2, ("b",))
    letters.clear()
    assert letters.refused((1, 1)) == ()
    assert letters.arrived((1, 2), 2, ("b",)) is Verdict.SENDING


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="greater than 0, not 0"):
        DeadLetters(0)


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
        properties, is_dead = put_off(properties, ORIGIN, delay_ms=500, max_retries=16)
        assert (properties["RECONSUMETIMES"], properties["DELAY_TIME"], is_dead) == (str(time), "500", False)
    assert put_off(properties, ORIGIN, delay_ms=-5, max_retries=16).is_dead


@pytest.mark.parametrize("count", ["", "many", "-3", "٣", "9" * 5000])
def test_a_count_that_is_no_number_is_none(count: str) -> None:
    assert put_off({"RECONSUMETIMES": count}, ORIGIN, 0, 16).properties["RECONSUMETIMES"] == "1"
