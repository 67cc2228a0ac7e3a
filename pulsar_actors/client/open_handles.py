"""The open handles of a client: for `stats`, to keep listeners alive, and to warn of producers that are open at exit.

A producer, consumer or reader ends with the last reference to it. Only handles with a listener are kept alive here,
because a program need not keep a reference to a consumer that calls its listener. The actor must not keep its handle
alive: otherwise neither would end.
"""

import atexit
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pulsar_actors.client.producer import Producer
from pulsar_actors.runtime.handle_link import ClientCounters

if TYPE_CHECKING:
    from pulsar_actors.client.stats import ClientStats, ConsumerStats

T = TypeVar("T")


class WeakCollection(Generic[T]):
    """A collection of weak references. Any thread may use it.

    A `WeakSet` must not change while another thread iterates over it. Here each change and each copy is atomic. There
    is no lock, because another thread could hold it when the process forks, or when the garbage collector runs.
    """

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: dict[weakref.ref[T], None] = {}  # no set: the simulation needs an order

    def add(self, thing: T) -> None:
        """Add an object. It is removed when it is collected."""
        self._references[weakref.ref(thing, self._references.pop)] = None

    def discard(self, thing: T) -> None:
        """Remove an object."""
        self._references.pop(weakref.ref(thing), None)

    def __iter__(self) -> Iterator[T]:
        alive = [reference() for reference in list(self._references)]
        return iter([thing for thing in alive if thing is not None])


class OpenReceivingHandle(Protocol):
    """A consumer or a reader. Their modules are loaded only with the first of them."""

    @property
    def is_open(self) -> bool:
        """Return whether the handle can be used."""
        ...

    def stats(self) -> "ConsumerStats":
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

    def stats(self, counters: ClientCounters) -> "ClientStats":
        """Return the statistics of the client and its open handles."""
        from pulsar_actors.client.stats import ClientStats  # noqa: PLC0415 - many programs never ask

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
    """Make a callback of a future that calls a method, and does not keep the method's object alive."""

    def call(_: "Future[None]") -> None:
        alive = method()
        if alive is not None:
            alive(number)

    return call


MAX_NAMED = 5

OPEN_CLIENTS: WeakCollection[OpenHandles] = WeakCollection()
"""The open handles of every client that is not closed."""


@atexit.register
def warn_of_open_producers() -> None:
    """Warn of open producers when the interpreter exits: their pending messages are not sent any more."""
    names = sorted(
        {producer.topic() for open_handles in OPEN_CLIENTS for producer in open_handles.producers if producer.is_open}
    )
    if names:
        some = ", ".join(names[:MAX_NAMED])
        warnings.warn(f"producers were left open, and may have lost messages: {some}", ResourceWarning, stacklevel=1)
