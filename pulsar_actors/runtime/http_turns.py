"""The turns of lookups over HTTP: a few requests are sent at once, each by its own executor; the others wait in order.

An executor has one request at a time. So no request waits in an executor, where its time would pass unnoticed, and a
server that is slow holds up one executor for each request. A lookup that ends withdraws its request if that still
waits: it is not sent later.
"""

from collections import OrderedDict
from typing import Generic, TypeVar

R = TypeVar("R")


class HttpTurns(Generic[R]):
    """The turns of one client's lookups, of which `at_once` are sent at once. Each lookup has one request at a time."""

    __slots__ = ("_free", "_waiting", "executors")

    def __init__(self, at_once: int) -> None:
        self.executors = tuple(f"lookups-{number}" for number in range(1, at_once + 1))
        self._free = list(reversed(self.executors))  # the one that was released last is used next: its thread runs
        self._waiting: OrderedDict[int, R] = OrderedDict()

    def wait(self, lookup_id: int, request: R) -> None:
        """Put a lookup's request behind the others."""
        self._waiting[lookup_id] = request

    def withdraw(self, lookup_id: int) -> None:
        """Withdraw the request of a lookup that has ended, if it waits. One that has been sent is not affected."""
        self._waiting.pop(lookup_id, None)

    def take(self) -> tuple[int, R, str] | None:
        """Return the next lookup, its request and the executor; None if no request waits, or no executor is free."""
        if not self._waiting or not self._free:
            return None
        lookup_id, request = self._waiting.popitem(last=False)
        return lookup_id, request, self._free.pop()

    def release(self, executor: str) -> None:
        """Note that an executor has done its request."""
        self._free.append(executor)
