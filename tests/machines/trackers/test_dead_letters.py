import pytest

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.dead_letters import (
    DEFAULT_MAX_RETRIES,
    DeadLetters,
    DeadLetterVerdict,
    Origin,
    dead_letter_properties,
    dead_letter_topic,
    retry_letter_topic,
    retry_message,
)


def test_a_message_below_the_limit_is_delivered_and_not_remembered() -> None:
    letters: DeadLetters[str] = DeadLetters(3)
    assert letters.arrived((1, 1), 2, ("a",)) is DeadLetterVerdict.DELIVER
    assert letters.last_try_failed((1, 1)) == ()


def test_a_message_refused_on_its_last_try_is_sent_away() -> None:
    letters: DeadLetters[str] = DeadLetters(3)
    assert letters.arrived((1, 1), 3, ("a", "b")) is DeadLetterVerdict.LAST_TRY
    assert letters.last_try_failed((1, 1)) == ("a", "b")
    assert letters.last_try_failed((1, 1)) == (), "once"


def test_a_message_acknowledged_on_its_last_try_is_not() -> None:
    letters: DeadLetters[str] = DeadLetters(3)
    letters.arrived((1, 1), 3, ("a",))
    letters.acknowledged((1, 1))
    assert letters.last_try_failed((1, 1)) == ()


def test_a_message_over_the_limit_is_sent_once_however_often_it_comes() -> None:
    letters: DeadLetters[str] = DeadLetters(3)
    assert letters.arrived((1, 1), 4, ("a",)) is DeadLetterVerdict.DEAD
    assert letters.arrived((1, 1), 5, ("a",)) is DeadLetterVerdict.SENDING
    letters.sent((1, 1))
    assert letters.arrived((1, 1), 5, ("a",)) is DeadLetterVerdict.DEAD


def test_a_message_that_could_not_be_sent_is_tried_anew() -> None:
    letters: DeadLetters[str] = DeadLetters(1)
    letters.arrived((1, 1), 1, ("a",))
    letters.last_try_failed((1, 1))
    assert letters.failed((1, 1)) == ("a",)
    assert letters.failed((1, 1)) == ()
    assert letters.arrived((1, 1), 2, ("a",)) is DeadLetterVerdict.DEAD


def test_messages_acknowledged_cumulatively_on_their_last_try_are_not() -> None:
    letters: DeadLetters[str] = DeadLetters(3)
    for entry in range(4):
        letters.arrived((1, entry), 3, ("a",))
    letters.acknowledged_up_to((1, 2))
    assert [letters.last_try_failed((1, entry)) for entry in range(4)] == [(), (), (), ("a",)]


def test_what_comes_again_is_no_last_try_any_longer_but_what_is_on_its_way_stays_on_it() -> None:
    letters: DeadLetters[str] = DeadLetters(1)
    letters.arrived((1, 1), 1, ("a",))
    letters.arrived((1, 2), 2, ("b",))
    letters.clear()
    assert letters.last_try_failed((1, 1)) == ()
    assert letters.arrived((1, 2), 2, ("b",)) is DeadLetterVerdict.SENDING


def test_after_a_seek_a_message_on_its_way_is_a_new_one() -> None:
    letters: DeadLetters[str] = DeadLetters(1)
    letters.arrived((1, 1), 1, ("a",))
    letters.arrived((1, 2), 2, ("b",))
    letters.void()
    assert letters.last_try_failed((1, 1)) == ()
    assert letters.arrived((1, 2), 0, ("b",)) is DeadLetterVerdict.DELIVER


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="greater than 0, not 0"):
        DeadLetters(0)


NOW = 1_700_000_000_000
ORIGIN = Origin("persistent://public/default/orders-partition-0", "billing", "7:3:0")


def test_the_names_follow_from_topic_and_subscription() -> None:
    assert dead_letter_topic(ORIGIN.topic, "billing") == "persistent://public/default/orders-partition-0-billing-DLQ"
    assert retry_letter_topic(ORIGIN.topic, "billing") == "persistent://public/default/orders-partition-0-billing-RETRY"


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
    put = retry_message({"colour": "red"}, ORIGIN, 500, NOW, 16)
    assert (put.deliver_at_ms, put.is_dead) == (NOW + 500, False)
    assert put.properties == {
        **dead_letter_properties({"colour": "red"}, ORIGIN),
        "RECONSUMETIMES": "1",
        "DELAY_TIME": "500",
    }


def test_without_a_delay_it_is_delivered_at_once() -> None:
    assert retry_message({}, ORIGIN, 0, NOW, 16).deliver_at_ms is None


def test_a_message_put_off_too_often_is_dead_at_once() -> None:
    properties: dict[str, str] = {}
    for time in range(1, 17):
        properties, is_dead, _ = retry_message(properties, ORIGIN, 500, NOW, DEFAULT_MAX_RETRIES)
        assert (properties["RECONSUMETIMES"], is_dead) == (str(time), False)
    put = retry_message(properties, ORIGIN, 500, NOW, DEFAULT_MAX_RETRIES)
    assert (put.is_dead, put.deliver_at_ms) == (True, None)
    assert (put.properties["RECONSUMETIMES"], put.properties["DELAY_TIME"]) == ("17", "500")


@pytest.mark.parametrize("count", ["", "many", "-3", "٣", "9" * 5000])
def test_a_count_that_is_no_number_is_none(count: str) -> None:
    assert retry_message({"RECONSUMETIMES": count}, ORIGIN, 0, NOW, 16).properties["RECONSUMETIMES"] == "1"


def test_a_limit_of_retries_of_ones_own_counts() -> None:
    assert retry_message({"RECONSUMETIMES": "1"}, ORIGIN, 0, NOW, max_retries=1).is_dead
