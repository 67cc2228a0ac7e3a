"""Messages pushed to a user's listener: a consumer's queue emptied on a worker, one message after the other.

Each consumer has one worker, and a worker may have several consumers: after a number of messages it lets the others
have their turn. It says that it is idle and *then* looks again, as whoever adds messages looks after adding them.
"""

import weakref
from collections.abc import Callable
from typing import Any

from pulsar_actors.runtime.engine import Worker
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.supply import Supply

IN_A_ROW = 100


class Pump:
    """The way of one consumer's messages to its listener."""

    __slots__ = ("_busy", "_hand_off", "_handle", "_listener", "_name", "_paused", "_worker")

    def __init__(self, hand_off: Supply, worker: Worker, listener: Callable[[Any, Any], object], name: str) -> None:
        self._hand_off = hand_off
        self._worker = worker
        self._listener = listener
        self._name = name
        self._busy = False
        self._paused = True
        self._handle: weakref.ref[Any] | None = None

    def begin(self, handle: object, *, paused: bool = False) -> None:
        """Call the listener from now on, with this consumer or reader; the pump does not keep it alive."""
        self._handle = weakref.ref(handle)
        if not paused:
            self.resume()

    def arrived(self) -> None:
        """Hear that there may be messages. From any thread."""
        if not self._busy and not self._paused:
            self._busy = True
            self._worker.submit(self._run)

    def ask(self) -> None:
        """Have the broker send something, where the queue has no places of its own."""
        waiter: SlimFuture[None] = SlimFuture()
        waiter.add_done_callback(lambda _: self.arrived())
        self._hand_off.wait(waiter)

    def pause(self) -> None:
        """Call the listener no more, after the message in hand."""
        self._paused = True

    def resume(self) -> None:
        """Go on."""
        self._paused = False
        self.arrived()

    def _run(self) -> None:
        for _ in range(IN_A_ROW):
            message = None if self._paused else self._hand_off.take()
            if message is None:
                break
            self._call(message)
        else:
            self._worker.submit(self._run)
            return
        self._busy = False
        self._hand_off.checkpoint()
        if self._hand_off.has_messages:
            self.arrived()
        elif not self._hand_off.asks_by_itself and not self._paused:
            self.ask()

    def _call(self, message: Any) -> None:  # noqa: ANN401 - as the queue makes them
        handle = None if self._handle is None else self._handle()
        try:
            self._listener(handle, message)
        except BaseException:  # noqa: BLE001 - it is not ours; sys.exit() does not end the thread, which others share
            LOG.exception("the listener of %s raised; the message is not acknowledged", self._name)
