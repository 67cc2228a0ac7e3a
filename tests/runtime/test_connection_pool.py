import pytest

from pulsar_actors.runtime.connection_pool import ConnectionIndex

KEY = ("pulsar://a:1", "pulsar://a:1", "0")
IDLE_AFTER = 60.0


@pytest.fixture
def pool() -> ConnectionIndex[str]:
    """A pool with one connection."""
    pool: ConnectionIndex[str] = ConnectionIndex(IDLE_AFTER)
    pool.add(KEY, "first", 0.0)
    return pool


def test_a_connection_is_found_by_its_key_and_no_other(pool: ConnectionIndex[str]) -> None:
    assert pool.find(KEY, 1.0) == "first"
    assert pool.find((*KEY[:2], "1"), 1.0) is None


def test_one_that_was_left_is_not_found_and_comes_back_with_its_turn(pool: ConnectionIndex[str]) -> None:
    assert pool.leave("first")
    assert pool.find(KEY, 1.0) is None
    assert pool.left(KEY) == ["first"]
    pool.add(KEY, "second", 2.0)
    assert not pool.leave("first"), "another has its place already"
    assert pool.find(KEY, 3.0) == "second"
    assert pool.leave("second")
    pool.add(KEY, "first", 4.0)
    assert pool.left(KEY) == ["second"]
    assert not pool.leave("stranger")


def test_one_that_was_left_is_idle_as_others_are_and_not_given_while_it_is_asked_to_close(
    pool: ConnectionIndex[str],
) -> None:
    pool.leave("first")
    assert pool.take_idle(IDLE_AFTER) == ["first"]
    assert pool.left(KEY) == []


def test_one_that_has_ended_is_not_found(pool: ConnectionIndex[str]) -> None:
    pool.remove("first")
    assert pool.find(KEY, 1.0) is None
    assert pool.take_idle(IDLE_AFTER) == []


def test_removing_one_that_was_replaced_keeps_its_successor(pool: ConnectionIndex[str]) -> None:
    pool.take_idle(IDLE_AFTER)
    pool.add(KEY, "second", IDLE_AFTER)
    pool.remove("first")
    assert pool.find(KEY, IDLE_AFTER) == "second"


def test_removing_what_nobody_knows_does_nothing(pool: ConnectionIndex[str]) -> None:
    pool.remove("stranger")
    assert pool.find(KEY, 1.0) == "first"


def test_one_that_nobody_asked_for_in_a_while_is_idle_and_not_found_again(pool: ConnectionIndex[str]) -> None:
    assert pool.take_idle(IDLE_AFTER - 1) == []
    assert pool.take_idle(IDLE_AFTER) == ["first"]
    assert pool.find(KEY, IDLE_AFTER) is None


def test_one_that_was_idle_is_not_asked_again_before_it_has_answered(pool: ConnectionIndex[str]) -> None:
    pool.take_idle(IDLE_AFTER)
    assert pool.take_idle(3 * IDLE_AFTER) == []
    pool.put_back("first", 3 * IDLE_AFTER)
    assert pool.take_idle(4 * IDLE_AFTER) == ["first"]


def test_being_asked_for_keeps_it_from_being_idle(pool: ConnectionIndex[str]) -> None:
    pool.find(KEY, 30.0)
    assert pool.take_idle(IDLE_AFTER) == []
    assert pool.take_idle(30.0 + IDLE_AFTER) == ["first"]


def test_one_that_is_put_back_is_found_and_idle_again_only_after_as_long(pool: ConnectionIndex[str]) -> None:
    pool.take_idle(IDLE_AFTER)
    pool.put_back("first", IDLE_AFTER)
    assert pool.find(KEY, IDLE_AFTER) == "first"
    assert pool.take_idle(IDLE_AFTER + 1) == []


def test_one_that_is_put_back_does_not_displace_its_successor_and_is_asked_again(pool: ConnectionIndex[str]) -> None:
    pool.take_idle(IDLE_AFTER)
    pool.add(KEY, "second", IDLE_AFTER)
    pool.put_back("first", IDLE_AFTER)
    assert pool.find(KEY, 2 * IDLE_AFTER) == "second"
    assert pool.take_idle(2 * IDLE_AFTER) == ["first"]


def test_one_that_has_ended_meanwhile_is_not_put_back(pool: ConnectionIndex[str]) -> None:
    pool.take_idle(IDLE_AFTER)
    pool.remove("first")
    pool.put_back("first", IDLE_AFTER)
    assert pool.find(KEY, IDLE_AFTER) is None
