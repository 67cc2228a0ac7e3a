import pytest

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.dead_letters import DeadLetters, Verdict


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
    assert letters.failed((1, 1)) == ("a",)
    assert letters.failed((1, 1)) == ()
    assert letters.arrived((1, 1), 2, ("a",)) is Verdict.DEAD


def test_messages_acknowledged_cumulatively_on_their_last_try_are_not() -> None:
    letters: DeadLetters[str] = DeadLetters(3)
    for entry in range(4):
        letters.arrived((1, entry), 3, ("a",))
    letters.acknowledged_up_to((1, 2))
    assert [letters.refused((1, entry)) for entry in range(4)] == [(), (), (), ("a",)]


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
