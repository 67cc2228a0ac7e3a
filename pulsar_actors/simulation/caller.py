"""A caller: blocking code, in a thread that runs only during its own turn.

It has a thread, because only a thread can stop in the middle of a function. But the thread runs only during its turn,
while the world's own thread waits. So only one of them runs at a time, and the operating system's scheduling has no
influence. One lock passes the turn to the caller, another passes it back.

A caller that waits is not scheduled until its condition is true or its deadline has come. When it is woken, the
condition may be false again, because others may have run in between. So it checks again, as after any wait on a
condition.
"""

import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType
from typing import Any, TypeAlias

from pulsar_actors.simulation.scheduler import Abandoned, Scheduler, TaskFailure, TaskQueue, Unresponsive, label

Condition: TypeAlias = "Callable[[], bool] | Future[Any]"

PATIENCE = 60.0
"""Real seconds for one step of a caller. No step takes as long, unless it waits for a real event."""


def is_there(wait_for: Condition) -> Callable[[], bool]:
    """Return a function that tells if the condition is true, or the future is done."""
    return wait_for if callable(wait_for) else wait_for.done


class Caller:
    """A function in its own thread, which takes turns with all other steps."""

    def __init__(
        self, name: str, function: Callable[[], Any], scheduler: Scheduler, failures: list[TaskFailure]
    ) -> None:
        self.name = name
        self.ended = False
        self.queue = TaskQueue(name)
        self.condition: Callable[[], bool] | None = None
        """A condition to check after each step, because no event reports that it is true."""
        self._function = function
        self._scheduler = scheduler
        self._failures = failures
        self._value: Any = None
        self._failure: TaskFailure | None = None
        self._waits_for: Condition | None = None
        self._turn = 0  # the number of the caller's turn: a wake-up for an earlier turn is stale
        self._abandoned = False
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread: threading.Thread | None = None
        scheduler.add(self.queue, self.resume, 0)

    def result(self) -> Any:  # noqa: ANN401 - whatever the function gives
        """Return the function's result, or raise its error. A raised error does not count as a failure of the run."""
        if not self.ended:
            raise Unresponsive(f"{self.name} has not ended: {self.whereabouts()}")
        if self._failure is None:
            return self._value
        if self._failure in self._failures:
            self._failures.remove(self._failure)
        raise self._failure.error

    def whereabouts(self) -> str:
        """Describe the caller's position in its code, and the condition that it waits for."""
        if self._thread is None:
            return f"{self.name} has not begun"
        waits_for = self._waits_for
        if waits_for is None:
            reason = "can go on"
        elif callable(waits_for):
            reason = f"waits for {label(waits_for)}"
        else:
            reason = f"waits for a {type(waits_for).__name__}"
        frames: dict[int, FrameType] = sys._current_frames()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - Python's own way to ask
        frame = frames.get(self._thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        return f"{self.name} {reason}:\n{stack}"

    # On the world's thread

    def resume(self, turn: int) -> None:
        """Give the caller its turn, unless the wake-up is stale, and wait until it returns the turn."""
        if turn != self._turn or self.ended:
            return
        self._turn += 1
        self.condition = None
        self._hand_over()

    def wake(self, turn: int) -> None:
        """Schedule its turn."""
        self._scheduler.add(self.queue, self.resume, turn)

    def look(self) -> None:
        """Wake the caller if its condition is true. If the check raises, wake it too: its own check raises again."""
        condition = self.condition
        if condition is None:
            return
        try:
            is_true = condition()
        except Exception:  # noqa: BLE001 - the caller looks again
            is_true = True
        if is_true:
            self.condition = None
            self.wake(self._turn)

    def abandon(self) -> None:
        """End the caller's thread, wherever it waits."""
        self._abandoned = True
        self._scheduler.close(self.queue)
        if self._thread is not None and not self.ended:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        else:
            self._go.release()
        if not self._back.acquire(timeout=PATIENCE):
            raise Unresponsive(f"for {PATIENCE:.0f} real seconds no sign of {self.whereabouts()}")
        if self.ended:
            self._thread.join()

    # On its own thread

    def is_here(self) -> bool:
        """Return whether this is its thread."""
        return self._thread is threading.current_thread()

    def yield_turn(self) -> None:
        """Let another ready step run first, if there is one."""
        self._check_abandoned()
        self.wake(self._turn)
        self._pause()

    def wait(self, condition: Condition, deadline: float) -> bool:
        """Return the turn until the condition holds or the time is over; return whether it holds."""
        self._check_abandoned()
        is_true = is_there(condition)
        if not callable(condition):
            condition.add_done_callback(self._future_is_done)
        while not is_true():
            if self._scheduler.now >= deadline:
                return False
            self._scheduler.at(deadline, self.queue, self.resume, self._turn)
            self.condition = is_true if callable(condition) else None
            self._waits_for = condition
            self._pause()
            self._waits_for = None
        return True

    def _future_is_done(self, _: object) -> None:
        self.wake(self._turn)

    def _pause(self) -> None:
        self._back.release()
        self._go.acquire()
        self._check_abandoned()

    def _check_abandoned(self) -> None:
        if self._abandoned:
            raise Abandoned

    def _run(self) -> None:
        try:
            self._value = self._function()
        except Abandoned:
            pass
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            self._failure = TaskFailure(self._scheduler.now, self.name, error)
            if not self._abandoned:
                self._failures.append(self._failure)
        finally:
            self.ended = True
            self._back.release()
