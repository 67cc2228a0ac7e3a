"""A thread on which listeners are called, one task after the other. It begins with the first task.

The thread is a daemon: an interpreter that ends does not wait for it.
"""

import threading
from queue import SimpleQueue

from pulsar_actors.runtime.engine import Task, Worker


class ThreadWorker(Worker):
    """A thread that does tasks."""

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._name = name
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, task: Task) -> None:
        """Start the thread if it is the first task."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._tasks.put(task)

    def stop(self, timeout: float) -> None:
        """End the thread after the task in hand."""
        self._tasks.put(None)
        if self._thread is not None and not self.is_here():
            self._thread.join(timeout)

    def is_here(self) -> bool:
        """Tell whether the caller is this thread."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # while the thread waits it keeps nothing alive
