import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InternalError, InvalidArgument
from pulsar_actors.machines.ledgers.memory_limit import MemoryLimit


def test_messages_are_taken_until_the_limit_is_reached() -> None:
    memory = MemoryLimit(10)
    assert [memory.take(4) for _ in range(4)] == [True, True, True, False]
    assert memory.used == 12, "the one that reached the limit may pass it"


def test_a_message_over_the_whole_limit_finds_room_while_there_is_some() -> None:
    memory = MemoryLimit(10)
    memory.take(9)
    assert memory.take(1000)


def test_whoever_makes_room_learns_that_there_was_none() -> None:
    memory = MemoryLimit(10)
    memory.take(8)
    memory.take(8)
    assert [memory.free(4), memory.free(4), memory.free(4)] == [False, True, False]


def test_freeing_more_than_was_taken_is_an_error_and_changes_nothing() -> None:
    memory = MemoryLimit(10)
    memory.take(5)
    with pytest.raises(InternalError, match="something ended twice"):
        memory.free(6)
    assert memory.used == 5


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_a_positive_number(limit: int) -> None:
    with pytest.raises(InvalidArgument, match=str(limit)):
        MemoryLimit(limit)


@given(st.integers(1, 50), st.lists(st.integers(0, 30)))
def test_the_limit_is_passed_by_one_message_at_most(limit: int, sizes: list[int]) -> None:
    memory = MemoryLimit(limit)
    taken = [size for size in sizes if memory.take(size)]
    assert memory.used == sum(taken)
    assert sum(taken[:-1]) < limit
