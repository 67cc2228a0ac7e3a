"""What one client has made and somebody still holds: for `stats`, and to keep listeners alive.

A producer, consumer or reader ends with the last reference to it. Only one with a listener is kept here as well, for a
program need not hold what calls it by itself. Its actor must not keep it, or nothing would ever end.
"""

import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from pulsar_actors.client.living import Living
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.client.stats import ClientStats, ConsumerStats
from pulsar_actors.runtime.tally import Tally


class Receiver(Protocol):
    """A consumer or a reader, neither of which is loaded before there is one."""

    @property
    def is_open(self) -> bool:
        """Tell whether it can be used."""
        ...

    def stats(self) -> ConsumerStats:
        """Tell how it stands."""
        ...


class Roll:
    """The handles of one client."""

    def __init__(self) -> None:
        self.producers: Living[Producer] = Living()
        self._consumers: Living[Receiver] = Living()
        self._listening: dict[int, Receiver] = {}

    def enter(self, handle: Receiver) -> None:
        """Note a consumer or a reader."""
        self._consumers.add(handle)

    def keep(self, handle: Receiver, ended: "Future[None]") -> None:
        """Keep one that has a listener, until it ends."""
        number = id(handle)
        self._listening[number] = handle
        ended.add_done_callback(_calling(weakref.WeakMethod(self._let_go), number))

    def clear(self) -> None:
        """Keep nothing any longer."""
        self._listening.clear()

    def stats(self, tally: Tally) -> ClientStats:
        """Take a snapshot of those that are open."""
        producers = tuple(producer.stats() for producer in self.producers if producer.is_open)
        consumers = tuple(consumer.stats() for consumer in self._consumers if consumer.is_open)
        return ClientStats(
            connections=tally.connections,
            pending_lookups=tally.lookups,
            pending_bytes=sum(one.pending_bytes for one in producers),
            producers=producers,
            consumers=consumers,
        )

    def _let_go(self, number: int) -> None:
        self._listening.pop(number, None)


def _calling(method: "weakref.WeakMethod[Callable[[int], None]]", number: int) -> "Callable[[Future[None]], None]":
    """Make a future's callback of a method, without keeping alive whose it is."""

    def call(_: "Future[None]") -> None:
        alive = method()
        if alive is not None:
            alive(number)

    return call
