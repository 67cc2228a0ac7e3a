"""Listeners: tasks of the event loop that call a user's function, which may be a coroutine function.

A listener is called once at a time, in order. An error that it raises is logged, and the next call follows. `wait`
waits for the end of the running call, except in this call itself and in the tasks that it made: a listener may close
the consumer that calls it. Such tasks inherit the context of the listener, which names it.
"""

import asyncio
import inspect
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from pulsar_actors.asyncio.completions import Completions
from pulsar_actors.client.interceptors import ConsumerEventListener
from pulsar_actors.client.message import Message
from pulsar_actors.client.receiving import MessageReceiver
from pulsar_actors.exceptions import AlreadyClosed, TopicTerminated
from pulsar_actors.runtime.log import LOG

_calling: ContextVar["frozenset[ListenerTask]"] = ContextVar("pulsar_actors_listeners", default=frozenset())
"""The listeners in whose calls this code runs."""

_running: "set[ListenerTask]" = set()
"""The loop has only weak references to tasks, and a paused listener may have no other."""


class ListenerTask(ABC):
    """The task that calls one listener. `name` is for the log."""

    def __init__(self, listener: Callable[..., object], name: str) -> None:
        self._listener = listener
        self._name = name
        self._is_stopped = False
        self._wake_up = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())
        _running.add(self)
        self._task.add_done_callback(lambda _: _running.discard(self))

    def stop(self) -> None:
        """Call the listener no more, after its current call. Called on the loop, or after its end."""
        self._is_stopped = True
        if self._loop.is_closed():
            _running.discard(self)
        else:
            self._wake_up.set()

    async def wait(self) -> None:
        """Wait until the task has ended, unless this is called by the listener."""
        if self not in _calling.get():
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        _calling.set(_calling.get() | {self})
        await self._call_with_all()

    @abstractmethod
    async def _call_with_all(self) -> None:
        """Call the listener until it is stopped."""

    async def _call(self, *given: object) -> None:
        try:
            await called(self._listener, *given)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            LOG.exception("the listener of %s was cancelled by its own code", self._name)
        except Exception:  # noqa: BLE001 - it is not ours
            LOG.exception("the listener of %s raised", self._name)


async def called(function: Callable[..., object], *given: object) -> None:
    """Call a function, and await the result if it is a coroutine."""
    result = function(*given)
    if inspect.isawaitable(result):
        await result


def _is_cancelled() -> bool:
    """Return whether the running task itself is cancelled. Before Python 3.11 nobody knows; assume it."""
    cancelling: Callable[[], int] | None = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0


class MessageListener(ListenerTask):
    """Calls a listener with the messages of a consumer or reader, until it is closed or its topic is read to the end.

    `receive` returns the next message, which has not passed the interceptors of the receiver.
    """

    def __init__(
        self,
        handle: object,
        receiver: MessageReceiver,
        receive: Callable[[], Awaitable[Message]],
        listener: Callable[..., object],
        *,
        is_paused: bool,
    ) -> None:
        super().__init__(listener, repr(handle))
        self._handle = handle
        self._receiver = receiver
        self._receive = receive
        if not is_paused:
            self._wake_up.set()

    def pause(self) -> None:
        """Stop calling the listener, after its current message."""
        if not self._is_stopped:
            self._wake_up.clear()

    def resume(self) -> None:
        """Call the listener again."""
        self._wake_up.set()

    async def _call_with_all(self) -> None:
        while True:
            await self._wake_up.wait()
            try:
                message = await self._receive()
            except (AlreadyClosed, TopicTerminated):
                return
            except Exception:  # noqa: BLE001 - the error that has ended the consumer
                LOG.exception("%s receives nothing more", self._name)
                return
            if self._is_stopped:
                return
            if self._wake_up.is_set():
                await self._call(self._handle, self._receiver.intercepted(message))
            else:  # it was paused meanwhile, and a seek may make the message void before it goes on
                self._receiver.give_back([message])


class UpdatesListener(ListenerTask):
    """Calls a listener with the values and updates of a table view, which other threads `post`."""

    def __init__(self, completions: Completions, listener: Callable[..., object], name: str) -> None:
        self._completions = completions
        self._updates: deque[_Update] = deque()
        self._starter = 0
        self._values_left = 0
        self._has_all_values = False  # the listener may be called with the first values before the last are posted
        self._called_with_values: asyncio.Future[None] = completions.loop.create_future()
        super().__init__(listener, name)

    def post(self, key: str, value: object) -> None:
        """Call the listener with a value or an update. Called on any thread."""
        self._completions.add(_Update(self, key, value, is_first=threading.get_ident() == self._starter))

    def listen(self, begin: Callable[[Callable[[str, Any], object]], object]) -> None:
        """Begin to listen, in a thread that may wait. What is posted in this thread are the first values."""
        self._starter = threading.get_ident()
        try:
            begin(self.post)
        finally:
            self._starter = 0

    async def called_with_values(self) -> None:
        """Wait until the listener was called with the first values; raise the error that it raises."""
        self._has_all_values = True
        if not self._values_left:
            self._end_first_calls(None)
        await self._called_with_values

    def add(self, update: "_Update") -> None:
        """Take an update, on the loop."""
        if not self._is_stopped:
            self._values_left += update.is_first
            self._updates.append(update)
            self._wake_up.set()

    async def _call_with_all(self) -> None:
        while not self._is_stopped:
            await self._wake_up.wait()
            while self._updates and not self._is_stopped:
                update = self._updates.popleft()
                if update.is_first:
                    await self._call_with_value(update)
                else:
                    await self._call(update.key, update.value)
            if not self._is_stopped:
                self._wake_up.clear()
        self._end_first_calls(AlreadyClosed(f"{self._name} is closed"))

    async def _call_with_value(self, update: "_Update") -> None:
        try:
            await called(self._listener, update.key, update.value)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is the caller's
            self.stop()
            self._end_first_calls(error)
            return
        self._values_left -= 1
        if self._has_all_values and not self._values_left:
            self._end_first_calls(None)

    def _end_first_calls(self, error: BaseException | None) -> None:
        if self._called_with_values.done():
            return
        if error is None:
            self._called_with_values.set_result(None)
        else:
            self._called_with_values.set_exception(error)
            self._called_with_values.exception()  # nobody needs to wait for it


class _Update:
    """A value or an update on its way to the loop."""

    __slots__ = ("_listener", "is_first", "key", "value")

    def __init__(self, listener: UpdatesListener, key: str, value: object, *, is_first: bool) -> None:
        self._listener = listener
        self.key = key
        self.value = value
        self.is_first = is_first

    def complete(self) -> None:
        """Hand it over, on the loop."""
        self._listener.add(self)


class LoopEventListener(ConsumerEventListener):
    """Passes the events of a Failover consumer on to a listener of the event loop, with the consumer of asyncio."""

    def __init__(self, completions: Completions, listener: Any) -> None:  # noqa: ANN401 - what the program has
        self._completions = completions
        self._listener = listener
        self._consumer: weakref.ref[Any] | None = None
        self._early: list[_Event] = []
        self._calls: set[asyncio.Task[None]] = set()

    def start(self, consumer: object) -> None:
        """Pass this consumer on, from now on, on the loop."""
        self._consumer = weakref.ref(consumer)
        for event in self._early:
            event.complete()
        self._early.clear()

    def became_active(self, consumer: object, partition: int) -> None:  # noqa: ARG002 - the synchronous one
        """Note that the consumer gets the messages now."""
        self._completions.add(_Event(self, self._listener.became_active, partition))

    def became_inactive(self, consumer: object, partition: int) -> None:  # noqa: ARG002 - the synchronous one
        """Note that another consumer gets the messages now."""
        self._completions.add(_Event(self, self._listener.became_inactive, partition))

    def call(self, event: "_Event") -> None:
        """Call the listener in a task, on the loop; once the consumer is there."""
        if self._consumer is None:
            self._early.append(event)
            return
        consumer = self._consumer()
        if consumer is not None:
            task = self._completions.loop.create_task(_safely(event.function, consumer, event.partition))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)


class _Event:
    """An event on its way to the loop."""

    __slots__ = ("_listener", "function", "partition")

    def __init__(self, listener: LoopEventListener, function: Callable[..., object], partition: int) -> None:
        self._listener = listener
        self.function = function
        self.partition = partition

    def complete(self) -> None:
        """Hand it over, on the loop."""
        self._listener.call(self)


async def _safely(function: Callable[..., object], *given: object) -> None:
    try:
        await called(function, *given)
    except Exception:  # noqa: BLE001 - it is not ours
        LOG.exception("a consumer event listener raised")
