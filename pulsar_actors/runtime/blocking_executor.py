"""The executor of blocking work: name resolution, credentials, HTTP, certificates.

A loop may not wait, so such work goes to a thread, one job after another, and each outcome is posted to the loop. The
queue of jobs belongs to the loop, which gives the thread a job when it is idle. The thread knows only its current job,
so no lock is needed.

The loop watches the deadlines, too. A job that is not done at its deadline is answered with a TimeoutError, even if it
still waits. If it was running, its thread may be busy for ever. So the thread is given up: it ends with the job, the
job's outcome is dropped, and the next job gets a new thread. A job that hangs therefore delays other jobs by one
deadline at most. Work that may be slow by itself, such as a user's credentials, has a separate executor; lookups over
HTTP have several (`http_turns.py`). Each host name that is resolved has one, too, which ends with it.

The threads are daemons, and nothing ever waits for them, neither `stop` nor the end of the interpreter.
"""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from pulsar_actors.runtime.loop import Loop

T = TypeVar("T")


class _Job:
    """A piece of work that has not been answered."""

    __slots__ = ("done", "loop", "timeout", "work")

    def __init__(self, loop: Loop, work: Callable[[], object], done: Callable[[Any], object], timeout: float) -> None:
        self.loop = loop
        self.work = work
        self.done: Callable[[Any], object] | None = done
        self.timeout = timeout

    def answer(self, outcome: object) -> None:
        """Call `done` with the outcome, unless the job has been answered before."""
        done, self.done = self.done, None
        if done is not None:
            done(outcome)


_Inbox: TypeAlias = "SimpleQueue[_Job | None]"


class BlockingExecutor:
    """An executor of one loop. The first job starts the thread. Used on the loop only."""

    __slots__ = ("_inbox", "_name", "_running", "_stopped", "_waiting")

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: deque[_Job] = deque()
        self._running: _Job | None = None
        self._inbox: _Inbox | None = None  # of the thread, if there is one
        self._stopped = False

    def submit(
        self, loop: Loop, work: Callable[[], T], done: Callable[[T | Exception], object], timeout: float
    ) -> None:
        """Run the work in the thread, and call `done` on the loop with its result or error, or with a TimeoutError.

        After `stop`, no work is run and no job is answered.
        """
        if self._stopped:
            return
        job = _Job(loop, work, done, timeout)
        self._waiting.append(job)
        loop.later(timeout, self._time_out, job)
        self._start_next()

    def stop(self) -> None:
        """Let the thread end after its current job, and answer no job from now on."""
        self._stopped = True
        self._give_up_thread()

    def _start_next(self) -> None:
        while self._waiting and self._running is None:
            job = self._waiting.popleft()
            if job.done is None:  # it timed out in the queue
                continue
            self._running = job
            try:
                if self._inbox is None:
                    self._inbox = self._start_thread()
            except RuntimeError as refusal:  # there are too many threads, or the interpreter is ending
                job.loop.post(self._finished, (job, refusal))
            else:
                self._inbox.put(job)

    def _start_thread(self) -> _Inbox:
        inbox: _Inbox = SimpleQueue()
        threading.Thread(target=_serve, args=(inbox, self._finished), name=self._name, daemon=True).start()
        return inbox

    def _give_up_thread(self) -> None:
        if self._inbox is not None:
            self._inbox.put(None)
        self._inbox = self._running = None

    def _finished(self, finished: tuple[_Job, object]) -> None:
        job, outcome = finished
        if self._stopped:
            return
        if job is self._running:
            self._running = None
            self._start_next()
        job.answer(outcome)

    def _time_out(self, job: _Job) -> None:
        if self._stopped:
            return
        if job is self._running:
            self._give_up_thread()
            self._start_next()
        job.answer(TimeoutError(f"it was not done within {round(job.timeout, 2):g} seconds"))


def _serve(inbox: _Inbox, finished: Callable[[tuple[_Job, object]], object]) -> None:
    """Run one job after another in the thread, until None comes in place of a job."""
    while (job := inbox.get()) is not None:
        job.loop.post(finished, (job, _outcome_of(job.work)))
        del job  # a thread that waits keeps nothing alive


def _outcome_of(work: Callable[[], object]) -> object:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - it is the outcome
        return error
    except BaseException as end:  # noqa: BLE001 - a sys.exit() does not end this thread
        bug = RuntimeError(f"what ran off the loop raised {end!r}")
        bug.__cause__ = end
        return bug
