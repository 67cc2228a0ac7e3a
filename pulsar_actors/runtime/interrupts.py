"""Ctrl-C, put off for a moment.

Python raises KeyboardInterrupt between any two steps of the main thread, and so in the middle of what belongs together:
a message counted twice, or a report that was never sent, would end a consumer later. Where several steps of a caller's
thread belong together and are not taken for every message, they are taken here, with the interrupt noted, and raised
once they are done. Only Python's own handler is replaced: a program that has one of its own knows what it does.
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


def is_ctrl_c(error: BaseException) -> bool:
    """Tell Ctrl-C, which only ever comes to the main thread, from what somebody has raised."""
    return isinstance(error, KeyboardInterrupt) and threading.get_ident() == threading.main_thread().ident


def is_for_main(error: BaseException) -> bool:
    """Tell what is to end the main thread: Ctrl-C, or sys.exit(), which may come from the handler of a signal."""
    return not isinstance(error, Exception) and threading.get_ident() == threading.main_thread().ident


class PutOff:
    """A `with` block that Ctrl-C ends only at its end."""

    __slots__ = ("_noted", "_replaced")

    def __init__(self) -> None:
        self._noted = False
        self._replaced = False

    def __enter__(self) -> None:
        if threading.get_ident() != threading.main_thread().ident:
            return  # nothing is raised in other threads
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._replaced = _set_handler(self._note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._replaced:
            _set_handler(signal.default_int_handler)
        if self._noted:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = True


def _set_handler(handler: Callable[[int, FrameType | None], Any]) -> bool:
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:  # the main thread of a second interpreter in the process, where signals never arrive
        return False
    return True
