"""Listeners: the calls of a user's objects, with messages and events, on a listener thread.

Each consumer uses one worker thread, and several consumers may share a worker: after `MAX_CALLS_IN_A_ROW` messages of a
consumer it is the turn of the others. Both classes get the handle that they pass on in `start`, and keep only a weak
reference to it, so that the consumer still closes when the program's last reference to the handle is gone.
"""

import weakref
from collections.abc import Callable
from typing import Any, Final

from pulsar_actors.runtime.engine import Worker
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.receiver_queue_base import ReceiverQueueBase

MAX_CALLS_IN_A_ROW: Final = 100

ListenerFunction = Callable[[Any, Any], object]
HandleCall = Callable[[Any], object]


class ListenerRunner:
    """Calls the listener of one consumer or reader with its messages, one after the other. `name` is for the log.

    The worker marks the runner as idle and *then* looks for messages once more. The loop adds messages and *then* calls
    `messages_arrived`. So one of the two sees the other (the rule "append, then look" of `runtime/loop.py`).
    """

    __slots__ = ("_busy", "_listener", "_name", "_paused", "_request", "_source", "_worker")

    def __init__(self, worker: Worker, listener: ListenerFunction, name: str) -> None:
        self._worker = worker
        self._listener = listener
        self._name = name
        self._busy = False
        self._paused = True
        self._source: tuple[weakref.ref[Any], ReceiverQueueBase] | None = None
        self._request: SlimFuture[None] | None = None  # of a message that was not taken yet; done once there may be one

    def start(self, handle: object, receiver_queue: ReceiverQueueBase, *, paused: bool = False) -> None:
        """Call the listener from now on, with this consumer or reader and the messages of its queue."""
        self._source = weakref.ref(handle), receiver_queue
        if not paused:
            self.resume()

    def messages_arrived(self) -> None:
        """Let the worker look for messages. Called on any thread."""
        if not self._busy and not self._paused:
            self._busy = True
            self._worker.submit(self._run)

    def pause(self) -> None:
        """Stop calling the listener, after its current message."""
        self._paused = True

    def resume(self) -> None:
        """Call the listener again."""
        self._paused = False
        self.messages_arrived()

    def _run(self) -> None:
        if self._source is None:
            return
        handle, receiver_queue = self._source
        for _ in range(MAX_CALLS_IN_A_ROW):
            message = None if self._paused else receiver_queue.take()
            if message is None:
                break
            if self._request is not None:
                self._end_request(receiver_queue, empty_handed=False)
            self._call(handle(), message)
        else:
            self._worker.submit(self._run)
            return
        self._busy = False
        receiver_queue.checkpoint()
        if receiver_queue.has_messages:
            self.messages_arrived()
        elif not receiver_queue.prefetches and not self._paused:
            self._request_one(receiver_queue)

    def _request_one(self, receiver_queue: ReceiverQueueBase) -> None:
        """Ask the broker for a message, unless one is still to come: a queue of size 0 prefetches none."""
        if self._request is None or self._request.done():
            self._end_request(receiver_queue, empty_handed=True)
            self._request = SlimFuture()
            self._request.add_done_callback(lambda _: self.messages_arrived())
            receiver_queue.wait(self._request)

    def _end_request(self, receiver_queue: ReceiverQueueBase, *, empty_handed: bool) -> None:
        """Forget the message that was asked for. The next one that is taken serves the request, whatever it is."""
        request, self._request = self._request, None
        if request is not None:
            receiver_queue.stop_waiting(request, empty_handed=empty_handed)

    def _call(self, handle: object, message: object) -> None:
        try:
            self._listener(handle, message)
        except BaseException:  # noqa: BLE001 - it is not ours; sys.exit() does not end the thread, which others share
            LOG.exception("the listener of %s raised; the message is not acknowledged", self._name)


class EventCaller:
    """Calls a user's objects, on the worker, about events that occur on a loop, in order. `name` is for the log.

    Calls that need the handle wait until `start`, and are dropped when the handle is gone. Only the worker's thread
    uses the list of waiting calls, so there is no lock.
    """

    __slots__ = ("_early", "_handle", "_name", "_worker")

    def __init__(self, worker: Worker, name: str) -> None:
        self._worker = worker
        self._name = name
        self._early: list[HandleCall] = []
        self._handle: weakref.ref[Any] | None = None

    def start(self, handle: object) -> None:
        """Pass this handle to calls from now on."""
        held = weakref.ref(handle)
        self._worker.submit(lambda: self._start(held))

    def call_with_handle(self, call: HandleCall) -> None:
        """Call a function with the handle, on the worker. Called on any thread."""
        self._worker.submit(lambda: self._call_or_keep(call))

    def call_without_handle(self, call: Callable[[], object]) -> None:
        """Call a function without the handle, on the worker. Called on any thread."""
        self._worker.submit(lambda: self._call_safely(lambda _: call(), None))

    def _start(self, handle: "weakref.ref[Any]") -> None:
        self._handle = handle
        early, self._early = self._early, []
        for call in early:
            self._call_or_keep(call)

    def _call_or_keep(self, call: HandleCall) -> None:
        if self._handle is None:
            self._early.append(call)
            return
        handle = self._handle()
        if handle is not None:
            self._call_safely(call, handle)

    def _call_safely(self, call: HandleCall, handle: object) -> None:
        try:
            call(handle)
        except BaseException:  # noqa: BLE001 - it is not ours; sys.exit() does not end the thread, which others share
            LOG.exception("a listener or interceptor of %s raised", self._name)
