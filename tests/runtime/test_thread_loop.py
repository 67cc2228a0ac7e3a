"""What the contract of loops (`test_loop_contract.py`) does not say of the loop on a thread."""

import os
import threading

import pytest

from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.thread_loop import ThreadLoop

PATIENCE = 20.0


def test_its_thread_is_a_daemon_with_the_loops_name_and_ends_with_it() -> None:
    loop = ThreadLoop("of this test")
    loop.start()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "of this test"]
    assert thread.daemon
    loop.stop(PATIENCE)
    assert not thread.is_alive()
    loop.post(print, "after the end")
    assert not any(thread.name == "of this test" for thread in threading.enumerate())


def test_a_caller_cannot_attend_a_loop_that_has_ended() -> None:
    loop = ThreadLoop("ended")
    loop.start()
    loop.stop(PATIENCE)
    called: list[str] = []
    loop.attend(lambda: loop.post(called.append, "after the end"), SlimFuture(), PATIENCE)
    assert not called
    assert not loop.is_here()


def test_what_raises_where_a_caller_attends_is_logged_and_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: None) -> None:
        raise KeyboardInterrupt("planted")

    loop = ThreadLoop("attended")
    future: SlimFuture[None] = SlimFuture()
    loop.attend(lambda: (loop.post(fail, None), loop.post(future.set_result, None)), future, PATIENCE)
    assert future.done()
    assert "planted" in caplog.text
    loop.forget_everything()


def test_what_raises_on_it_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: None) -> None:
        raise ValueError("planted")

    loop = ThreadLoop("fails")
    loop.start()
    loop.post(fail, None)
    loop.stop(PATIENCE)
    assert "something on an I/O thread raised" in caplog.text
    assert "planted" in caplog.text


def test_a_waker_that_is_full_is_no_harm() -> None:
    loop = ThreadLoop("never started")
    for _ in range(100_000):
        loop._wake()
        if not loop._waker.fileno():
            break
    loop.forget_everything()


def test_in_a_forked_child_it_lets_go_of_its_descriptors_and_does_nothing() -> None:
    loop = ThreadLoop("inherited")
    listener = loop.listen("127.0.0.1", 0, lambda *_: None)  # type: ignore[arg-type, return-value]
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a Path would cost a descriptor, too
    assert listener.port
    loop.forget_everything()
    assert len(os.listdir("/proc/self/fd")) < before  # noqa: PTH208 - the same
    loop.forget_everything()
