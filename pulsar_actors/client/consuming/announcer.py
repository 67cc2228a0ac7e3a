"""Calls of a user's objects that begin on a loop: they are made on a listener's thread, in their order.

Some begin before there is a handle for them to be given, and wait for it; those to a handle that nobody holds any
longer are left out. What waits is touched on the listener's thread only, so nothing is locked.
"""

import weakref
from collections.abc import Callable
from typing import Any

from pulsar_actors.runtime.engine import Worker
from pulsar_actors.runtime.log import LOG

Call = Callable[[Any], object]


class Announcer:
    """The way of one consumer's or reader's news to the user's objects. `name` is for the log."""

    __slots__ = ("_early", "_handle", "_name", "_worker")

    def __init__(self, worker: Worker, name: str) -> None:
        self._worker = worker
        self._name = name
        self._early: list[Call] = []
        self._handle: weakref.ref[Any] | None = None

    def begin(self, handle: object) -> None:
        """Call with this handle from now on, which the announcer does not keep alive."""
        held = weakref.ref(handle)
        self._worker.submit(lambda: self._begin(held))

    def say(self, call: Call) -> None:
        """Have it called with the handle. From any thread."""
        self._worker.submit(lambda: self._say(call))

    def do(self, call: Callable[[], object]) -> None:
        """Have it called, whether there is a handle or not."""
        self._worker.submit(lambda: self._make(lambda _: call(), None))

    def _begin(self, handle: "weakref.ref[Any]") -> None:
        self._handle = handle
        early, self._early = self._early, []
        for call in early:
            self._say(call)

    def _say(self, call: Call) -> None:
        if self._handle is None:
            self._early.append(call)
            return
        handle = self._handle()
        if handle is not None:
            self._make(call, handle)

    def _make(self, call: Call, handle: object) -> None:
        try:
            call(handle)
        except BaseException:  # noqa: BLE001 - it is not ours; sys.exit() does not end the thread, which others share
            LOG.exception("a listener or interceptor of %s raised", self._name)
