"""Ctrl-C, deferred to the end of a block.

Python raises KeyboardInterrupt between any two steps of the main thread, and so also in the middle of steps that belong
together. If a message were counted twice, or a report not sent, a consumer would stall later. So steps of a caller's
thread that belong together run in `DeferInterrupts`, unless they are done for every message: the interrupt is noted,
and raised at the end. Only Python's own handler is replaced; a program's own handler stays.
"""

import sys
import threading
from collections.abc import Callable
from threading import get_ident
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from signal import SIG_DFL, SIG_IGN, SIGINT, default_int_handler, getsignal, signal, valid_signals
else:  # the same functions, which `signal` wraps: it looks for each number and handler in an enum, ten times as long
    from _signal import SIG_DFL, SIG_IGN, SIGINT, default_int_handler, getsignal, signal, valid_signals

_SIGNALS: Final = tuple(valid_signals())
_HARMLESS: Final = frozenset({None, SIG_DFL, SIG_IGN, default_int_handler})
_DEPTH_NEEDED: Final = 150
_undisturbed: Final[set[int]] = set()  # threads in an `Undisturbed` block
_main_thread = threading.main_thread().ident  # kept here, because each message that is waited for asks


def forget_main_thread() -> None:
    """Note the main thread of a forked child: the one that forked."""
    global _main_thread  # noqa: PLW0603 - it belongs to the process
    _main_thread = get_ident()


def is_main_thread() -> bool:
    """Return whether the caller is the main thread, the only one that gets Ctrl-C."""
    return get_ident() == _main_thread


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C, which only the main thread gets: code may raise a KeyboardInterrupt, too."""
    return isinstance(error, KeyboardInterrupt) and is_for_main(error)


def is_for_main(error: BaseException) -> bool:
    """Return whether an error must end the main thread: Ctrl-C, or sys.exit(), which a signal handler may call."""
    return not isinstance(error, Exception) and is_main_thread() and get_ident() not in _undisturbed


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
            signal(SIGINT, default_int_handler)
        if self._noted:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = True


class Undisturbed(DeferInterrupts):
    """The same in a thread where nothing else can interrupt the block. Made by `undisturbed`."""

    __slots__ = ("_caller",)

    def __init__(self, thread: int) -> None:
        self._noted = self._replaced = False
        self._caller = thread

    def __enter__(self) -> None:
        if self._caller == _main_thread and getsignal(SIGINT) is default_int_handler:
            self._replaced = _set_handler(self._note)
        _undisturbed.add(self._caller)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _undisturbed.discard(self._caller)
        if self._replaced:
            super().__exit__(kind, error, traceback)


def undisturbed() -> Undisturbed | None:
    """Return a block for code that must not end in the middle, or None if it cannot run in this thread.

    In the main thread a signal handler of the program may raise between any two steps. Deep in a recursion any call may
    fail.
    """
    thread = get_ident()
    try:
        if thread == _main_thread and not _HARMLESS.issuperset(map(getsignal, _SIGNALS)):
            return None
        sys._getframe(sys.getrecursionlimit() - _DEPTH_NEEDED)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - raises if the stack is not so deep
    except ValueError:
        return Undisturbed(thread)
    except TypeError:  # a handler of the program has no hash
        return None
    return None


def _set_handler(handler: Callable[[int, FrameType | None], Any]) -> bool:
    try:
        signal(SIGINT, handler)
    except ValueError:  # the main thread of a subinterpreter, where signals never arrive
        return False
    return True
