import gc
from typing import Any

import pytest

from pulsar_actors.client.consuming.announcer import Announcer
from pulsar_actors.runtime.engine import Task, Worker


class Handle:
    """Whatever a user holds."""


class Later(Worker):
    """A listener's thread that does nothing before it is told to."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def submit(self, task: Task) -> None:
        self._tasks.append(task)

    def run(self) -> None:
        while self._tasks:
            self._tasks.pop(0)()


def test_what_is_said_before_there_is_a_handle_waits_for_it_in_its_order() -> None:
    worker, heard, handle = Later(), list[Any](), Handle()
    announcer = Announcer(worker, "t")
    announcer.say(lambda one: heard.append(("first", one)))
    worker.run()
    announcer.say(lambda one: heard.append(("second", one)))
    announcer.begin(handle)
    announcer.say(lambda one: heard.append(("third", one)))
    assert heard == [], "called on the thread of whoever said it"
    worker.run()
    assert heard == [("first", handle), ("second", handle), ("third", handle)]


def test_a_handle_that_nobody_holds_is_told_nothing_but_its_end() -> None:
    worker, heard, handle = Later(), list[Any](), Handle()
    announcer = Announcer(worker, "t")
    announcer.begin(handle)
    worker.run()
    del handle
    gc.collect()
    announcer.say(heard.append)
    announcer.do(lambda: heard.append("the end"))
    worker.run()
    assert heard == ["the end"]


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_what_raises_is_logged_and_the_next_is_called(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    worker, heard = Later(), list[Any]()
    announcer = Announcer(worker, "t")

    def fail() -> None:
        raise error

    announcer.do(fail)
    announcer.do(lambda: heard.append("next"))
    worker.run()
    assert heard == ["next"]
    assert [record.message for record in caplog.records] == ["a listener or interceptor of t raised"]
