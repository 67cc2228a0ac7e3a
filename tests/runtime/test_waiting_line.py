from typing import Any

import pytest

from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.waiting_line import WaitingLine


def line_of(count: int) -> tuple[WaitingLine, list[SlimFuture[Any]]]:
    waiters: list[SlimFuture[Any]] = [SlimFuture() for _ in range(count)]
    return WaitingLine(waiters), waiters


@pytest.mark.parametrize("most", [0, 1, 2, 3, 9])
def test_so_many_are_woken_from_the_front(most: int) -> None:
    line, waiters = line_of(3)
    line.wake(most)
    assert [waiter.done() for waiter in waiters] == [place < most for place in range(3)]
    assert list(line) == waiters[most:]


def test_everybody_is_woken_and_those_who_came_while_that_was_done() -> None:
    line, waiters = line_of(2)
    late: SlimFuture[Any] = SlimFuture()
    waiters[1].add_done_callback(lambda _: line.append(late))
    line.wake_all()
    assert all(waiter.done() for waiter in (*waiters, late))


def test_two_threads_may_wake_at_once() -> None:
    class Contested(WaitingLine):
        """Says that somebody waits when another thread has just woken it."""

        def __bool__(self) -> bool:
            return True

        def __len__(self) -> int:
            return 1

    Contested().wake_all()
    Contested().wake(1)
