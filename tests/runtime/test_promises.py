from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.runtime.promises import Promises

CLOSED = AlreadyClosed("closed")


class Basket:
    """Where messages come from: None is one that turns out to be corrupt."""

    def __init__(self, *messages: str | None, over: Exception | None = None) -> None:
        self.messages = list(messages)
        self.over = over
        self.meanwhile: Callable[[], object] = lambda: None

    def is_due(self) -> bool:
        self.meanwhile()
        return bool(self.messages) or self.over is not None

    def take(self) -> str | None:
        return self.messages.pop(0) if self.messages else None


def promised(count: int) -> tuple[Promises, list[Future[Any]]]:
    promises = Promises(lambda: None)
    return promises, [promises.make() for _ in range(count)]


def test_messages_go_to_those_who_asked_first() -> None:
    promises, futures = promised(3)
    promises.serve(Basket("a", "b"))
    assert [future.result(0) for future in futures[:2]] == ["a", "b"]
    assert futures[2].cancel(), "there is nothing for it yet"


def test_no_message_is_taken_for_one_that_was_cancelled() -> None:
    promises, (first, second) = promised(2)
    assert first.cancel()
    basket = Basket("a", "b")
    promises.serve(basket)
    assert (second.result(0), basket.messages) == ("a", ["b"])


def test_one_that_leaves_while_it_is_looked_whether_there_is_a_message_costs_none() -> None:
    promises, (future,) = promised(1)
    basket = Basket("a")
    basket.meanwhile = lambda: promises.take_back(future, CLOSED)
    promises.serve(basket)
    assert future.exception(0) is CLOSED
    assert basket.messages == ["a"]


def test_who_was_to_get_a_corrupt_message_gets_the_next_and_cannot_be_cancelled_meanwhile() -> None:
    promises, (future,) = promised(1)
    promises.serve(Basket(None))
    assert not future.cancel()
    assert not future.done()
    promises.serve(Basket("b"))
    assert future.result(0) == "b"


def test_when_there_will_be_no_message_all_fail_after_those_that_still_got_one() -> None:
    promises, futures = promised(3)
    promises.serve(Basket("a", over=CLOSED))
    assert [future.exception(0) for future in futures] == [None, CLOSED, CLOSED]


def test_one_that_is_taken_back_fails_unless_it_is_being_served() -> None:
    promises, (first, second) = promised(2)
    promises.serve(Basket(None))
    for future in (first, second):
        promises.take_back(future, CLOSED)
    assert not first.done()
    assert second.exception(0) is CLOSED
