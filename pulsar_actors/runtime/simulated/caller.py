"""A caller: code of a user that blocks, under a clock that does not wait.

It has a thread, because only a thread can stop in the middle of a function; but the thread runs only while it has the
baton, and whoever hands it over stands still until it comes back. So there is never more than one of them running, and
nothing depends on how the system schedules threads. One lock is the way there, another the way back.

A caller that waits is on no agenda until what it waits for has come, or its deadline. Being woken is no promise: others
may have had their turn in between, so it looks again, as after any wait on a condition.
"""

import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType
from typing import Any, TypeAlias

from pulsar_actors.runtime.simulated.agenda import Agenda, Lane
from pulsar_actors.runtime.simulated.errors import Abandoned, Failure, Unresponsive
from pulsar_actors.runtime.simulated.history import label

Condition: TypeAlias = "Callable[[], bool] | Future[Any]"

PATIENCE = 60.0
"""Real seconds that a caller may take for one step: far more than any takes that does not wait for something real."""


def is_there(wait_for: Condition) -> Callable[[], bool]:
    """Give what tells whether it has come."""
    return wait_for if callable(wait_for) else wait_for.done


class Caller:
    """A function in a thread of its own, which takes turns with everything else."""

    def __init__(self, name: str, function: Callable[[], Any], agenda: Agenda, failures: list[Failure]) -> None:
        self.name = name
        self.ended = False
        self.lane = Lane(name)
        self.condition: Callable[[], bool] | None = None
        """What must be looked at after each step, because it cannot say by itself that it has come true."""
        self._function = function
        self._agenda = agenda
        self._failures = failures
        self._value: Any = None
        self._failure: Failure | None = None
        self._waits_for: Condition | None = None
        self._turn = 0  # counts what it is resumed for: whoever wakes it for an earlier one is too late
        self._abandoned = False
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread: threading.Thread | None = None
        agenda.add(self.lane, self.resume, 0)

    def result(self) -> Any:  # noqa: ANN401 - whatever the function gives
        """Give what the function gave, or raise what it raised: then that is no failure of the run any longer."""
        if not self.ended:
            raise Unresponsive(f"{self.name} has not ended: {self.whereabouts()}")
        if self._failure is None:
            return self._value
        if self._failure in self._failures:
            self._failures.remove(self._failure)
        raise self._failure.error

    def whereabouts(self) -> str:
        """Tell where it is and what it waits for."""
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
        """Hand it the baton, unless it has gone on from there by now, and wait to have it back."""
        if turn != self._turn or self.ended:
            return
        self._turn += 1
        self.condition = None
        self._hand_over()

    def wake(self, turn: int) -> None:
        """Let it have its turn."""
        self._agenda.add(self.lane, self.resume, turn)

    def look(self) -> None:
        """Wake it if what it waits for has come true; if looking fails, it shall hear of that itself."""
        condition = self.condition
        if condition is None:
            return
        try:
            is_true = condition()
        except Exception:  # noqa: BLE001 - it looks again when it has its turn
            is_true = True
        if is_true:
            self.condition = None
            self.wake(self._turn)

    def abandon(self) -> None:
        """End its thread, wherever that is."""
        self._abandoned = True
        self._agenda.close(self.lane)
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
        """Tell whether this is its thread."""
        return self._thread is threading.current_thread()

    def yield_turn(self) -> None:
        """Let something else go first, perhaps."""
        self._check_abandoned()
        self.wake(self._turn)
        self._pause()

    def wait(self, condition: Condition, deadline: float) -> bool:
        """Give the baton back until the condition holds or the time is over; tell whether it holds."""
        self._check_abandoned()
        is_true = is_there(condition)
        if not callable(condition):
            condition.add_done_callback(self._future_is_done)
        while not is_true():
            if self._agenda.now >= deadline:
                return False
            self._agenda.at(deadline, self.lane, self.resume, self._turn)
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
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            self._failure = Failure(self._agenda.now, self.name, error)
            if not self._abandoned:
                self._failures.append(self._failure)
        finally:
            self.ended = True
            self._back.release()
