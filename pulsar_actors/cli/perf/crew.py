"""Threads that work side by side until all have done their work, one has failed, or they are told to stop."""

import threading
from collections.abc import Callable, Sequence


class Crew:
    """`over` tells them to stop, and is set when there is nothing left to wait for; `fault` is what one failed with."""

    def __init__(self, over: threading.Event, works: Sequence[Callable[[], None]]) -> None:
        self.over = over
        self.fault: Exception | None = None
        self._left = len(works)
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._do, args=(work,), name=f"perf-{number}", daemon=True)
            for number, work in enumerate(works, 1)
        ]

    def start(self) -> None:
        """Let all begin."""
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float) -> bool:
        """Tell them to stop, and say whether all have in time."""
        self.over.set()
        for thread in self._threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits is told
            self.fault = self.fault or error
            self.over.set()
        with self._lock:
            self._left -= 1
            if not self._left:
                self.over.set()
