"""The open handles of a client: for `stats`, to keep listeners alive, and to warn of producers left open at exit.

A producer, consumer or reader ends with the last reference to it. Only handles with a listener are kept alive here,
since a program need not hold a consumer that calls it. The actor must not keep its handle alive, or neither would end.
"""

import atexit
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

from pulsar_actors.client.producer import Producer
from pulsar_actors.client.stats import ClientStats, ConsumerStats
from pulsar_actors.runtime.pending_calls import ClientCounters

T = TypeVar("T")


class WeakCollection(Generic[T]):
    """A collection of weak references. Any thread may use it.

    A standard weak set must not change while another thread iterates over it. Here each change, and each copy, is one
    step for the interpreter. A lock could be held by another thread when the process forks, or when the garbage
    collector runs.
    """

    __slots__ = ("_things",)

    def __init__(self) -> None:
        self._things: dict[int, weakref.ref[T]] = {}

    def add(self, thing: T) -> None:
        """List a thing as long as it is alive."""
        number, things = id(thing), self._things
        things[number] = weakref.ref(thing, lambda _: things.pop(number, None))

    def discard(self, thing: T) -> None:
        """Remove a thing."""
        self._things.pop(id(thing), None)

    def __iter__(self) -> Iterator[T]:
        alive = [reference() for reference in list(self._things.values())]
        return iter([thing for thing in alive if thing is not None])


class OpenReceivingHandle(Protocol):
    """A consumer or a reader. Their modules are not loaded before there is one."""

    @property
    def is_open(self) -> bool:
        """Tell whether it can be used."""
        ...

    def stats(self) -> ConsumerStats:
        """Return its statistics."""
        ...


class OpenHandles:
    """The handles of one client."""

    def __init__(self) -> None:
        self.producers: WeakCollection[Producer] = WeakCollection()
        self._consumers: WeakCollection[OpenReceivingHandle] = WeakCollection()
        self._listening: dict[int, OpenReceivingHandle] = {}

    def add(self, handle: OpenReceivingHandle) -> None:
        """List a consumer or a reader."""
        self._consumers.add(handle)

    def keep_until_ended(self, handle: OpenReceivingHandle, ended: "Future[None]") -> None:
        """Keep a handle with a listener alive until it ends."""
        number = id(handle)
        self._listening[number] = handle
        ended.add_done_callback(_weak_callback(weakref.WeakMethod(self._release), number))

    def clear(self) -> None:
        """Keep no handle alive any longer."""
        self._listening.clear()

    def stats(self, counters: ClientCounters) -> ClientStats:
        """Return the statistics of the client and its open handles."""
        producers = tuple(producer.stats() for producer in self.producers if producer.is_open)
        consumers = tuple(consumer.stats() for consumer in self._consumers if consumer.is_open)
        return ClientStats(
            connections=counters.connections,
            pending_lookups=counters.lookups,
            pending_bytes=sum(one.pending_bytes for one in producers),
            producers=producers,
            consumers=consumers,
        )

    def _release(self, number: int) -> None:
        self._listening.pop(number, None)


def _weak_callback(
    method: "weakref.WeakMethod[Callable[[int], None]]", number: int
) -> "Callable[[Future[None]], None]":
    """Make a future's callback of a method, without keeping its object alive."""

    def call(_: "Future[None]") -> None:
        alive = method()
        if alive is not None:
            alive(number)

    return call


MAX_NAMED = 5

OPEN_CLIENTS: WeakCollection[OpenHandles] = WeakCollection()
"""Those of all clients that have not been closed."""


@atexit.register
def warn_of_open_producers() -> None:
    """Warn of open producers when the interpreter exits: nothing is flushed any more."""
    names = sorted(
        {producer.topic() for open_handles in OPEN_CLIENTS for producer in open_handles.producers if producer.is_open}
    )
    if names:
        some = ", ".join(names[:MAX_NAMED])
        warnings.warn(f"producers were left open, and may have lost messages: {some}", ResourceWarning, stacklevel=1)
