"""A thread for what may block: names to addresses, credentials, HTTP, certificates.

A loop may not wait, so such work goes to this thread, one job after the other, and its outcome comes back as something
posted to the loop. All the bookkeeping is done on the loop, which hands the thread a job when it is idle: the thread
itself knows of nothing but the job in hand, and there is nothing to lock.

Time is kept by the loop as well. A job that is not done at its deadline is answered with a TimeoutError then, whether
it has begun or still waits for its turn. If it was the one in hand, nobody can tell when its thread will be back, so
that thread is given up: it ends when the job does, what comes of it is thrown away, and the next job gets a new thread.
A name server that hangs delays others for one deadline, then. What may be slow by somebody else's doing, such as a
user's way of having credentials, has a helper of its own, and delays nothing but the like.

The threads are daemons and nobody ever waits for them, neither `stop` nor the end of the interpreter.
"""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from pulsar_actors.runtime.loop import Loop

T = TypeVar("T")


class _Job:
    """Something to do, until it is answered."""

    __slots__ = ("done", "loop", "timeout", "work")

    def __init__(self, loop: Loop, work: Callable[[], object], done: Callable[[Any], object], timeout: float) -> None:
        self.loop = loop
        self.work = work
        self.done: Callable[[Any], object] | None = done
        self.timeout = timeout

    def answer(self, outcome: object) -> None:
        """Give the outcome, if there has been none."""
        done, self.done = self.done, None
        if done is not None:
            done(outcome)


_Inbox: TypeAlias = "SimpleQueue[_Job | None]"


class HelperThread:
    """A helper of one loop. There is no thread before the first job. Used on the loop only."""

    __slots__ = ("_in_hand", "_inbox", "_name", "_stopped", "_waiting")

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: deque[_Job] = deque()
        self._in_hand: _Job | None = None
        self._inbox: _Inbox | None = None  # that of the thread, if there is one
        self._stopped = False

    def submit(
        self, loop: Loop, work: Callable[[], T], done: Callable[[T | Exception], object], timeout: float
    ) -> None:
        """Do the work in the thread, and give its result or error to `done` on the loop; a TimeoutError after so long.

        After `stop` nothing is done and nobody is answered.
        """
        if self._stopped:
            return
        job = _Job(loop, work, done, timeout)
        self._waiting.append(job)
        loop.later(timeout, self._time_out, job)
        self._hand_out()

    def stop(self) -> None:
        """End the thread when it can, and answer nobody from now on."""
        self._stopped = True
        self._give_up_thread()

    def _hand_out(self) -> None:
        while self._waiting and self._in_hand is None:
            job = self._waiting.popleft()
            if job.done is None:  # its time ran out in the queue
                continue
            self._in_hand = job
            try:
                if self._inbox is None:
                    self._inbox = self._start_thread()
            except RuntimeError as refusal:  # no more threads can be had, or the interpreter is ending
                job.loop.post(self._take_back, (job, refusal))
            else:
                self._inbox.put(job)

    def _start_thread(self) -> _Inbox:
        inbox: _Inbox = SimpleQueue()
        threading.Thread(target=_serve, args=(inbox, self._take_back), name=self._name, daemon=True).start()
        return inbox

    def _give_up_thread(self) -> None:
        if self._inbox is not None:
            self._inbox.put(None)
        self._inbox = self._in_hand = None

    def _take_back(self, finished: tuple[_Job, object]) -> None:
        job, outcome = finished
        if self._stopped:
            return
        if job is self._in_hand:
            self._in_hand = None
            self._hand_out()
        job.answer(outcome)

    def _time_out(self, job: _Job) -> None:
        if self._stopped:
            return
        if job is self._in_hand:
            self._give_up_thread()
            self._hand_out()
        job.answer(TimeoutError(f"it was not done within {round(job.timeout, 2):g} seconds"))


def _serve(inbox: _Inbox, take_back: Callable[[tuple[_Job, object]], object]) -> None:
    """Do one job after the other, in the thread, until told to end."""
    while (job := inbox.get()) is not None:
        job.loop.post(take_back, (job, _outcome_of(job.work)))
        del job  # while the thread waits it keeps nothing alive


def _outcome_of(work: Callable[[], object]) -> object:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - whoever asked for the work judges it
        return error
    except BaseException as end:  # noqa: BLE001 - somebody's sys.exit() does not end this thread
        bug = RuntimeError(f"what ran off the loop raised {end!r}")
        bug.__cause__ = end
        return bug
