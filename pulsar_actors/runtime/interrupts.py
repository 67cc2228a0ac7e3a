"""Ctrl-C, deferred to the end of a block.

Python raises KeyboardInterrupt between any two steps of the main thread, and so also in the middle of steps that belong
together. If a message were counted twice, or a report not sent, a consumer would stall later. So steps of a caller's
thread that belong together run in `DeferInterrupts`, unless they are done for every message: the interrupt is noted,
and raised at the end. Only Python's own handler is replaced; a program's own handler stays.
"""

import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from signal import SIGINT, default_int_handler, getsignal, signal
else:  # the same functions, which `signal` wraps: it looks for each number and handler in an enum, ten times as long
    from _signal import SIGINT, default_int_handler, getsignal, signal


def is_main_thread() -> bool:
    """Return whether the caller is the main thread, the only one that gets Ctrl-C."""
    return threading.get_ident() == threading.main_thread().ident


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C, which only the main thread gets: code may raise a KeyboardInterrupt, too."""
    return isinstance(error, KeyboardInterrupt) and is_main_thread()


def is_for_main(error: BaseException) -> bool:
    """Return whether an error must end the main thread: Ctrl-C, or sys.exit(), which a signal handler may call."""
    return not isinstance(error, Exception) and is_main_thread()


class DeferInterrupts:
    """A `with` block that Ctrl-C interrupts only at its end."""

    __slots__ = ("_noted", "_replaced")

    def __init__(self) -> None:
        self._noted = False
        self._replaced = False

    def __enter__(self) -> None:
        if not is_main_thread():
            return
        if getsignal(SIGINT) is default_int_handler:
            self._replaced = _set_handler(self._note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._replaced:
            _set_handler(default_int_handler)
        if self._noted:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = True


def _set_handler(handler: Callable[[int, FrameType | None], Any]) -> bool:
    try:
        signal(SIGINT, handler)
    except ValueError:  # the main thread of a subinterpreter, where signals never arrive
        return False
    return True
