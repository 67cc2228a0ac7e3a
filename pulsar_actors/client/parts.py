"""What a handle shares with its actor, and how that ends where there is no actor any longer to end it.

The workshop puts the parts together before it is settled whether there will be an actor; `address` and `machine` come
with that. Parts know of no handle: they outlive it while the actor closes, and end with the client at the latest.
"""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.runtime.actor import Address
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import settle
from pulsar_actors.runtime.ties import Ties

M = TypeVar("M")


class Parts(ABC, Generic[M]):
    """The parts of a producer, a consumer, a reader, or a set of them."""

    __slots__ = ("__weakref__", "address", "engine", "machine", "ties")

    address: Address
    machine: M

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ties = Ties(engine.interleaving)

    @property
    @abstractmethod
    def closed(self) -> Exception | None:
        """Tell why it is of no use any longer, if that is so."""

    def end(self, error: PulsarException) -> None:
        """End everything, where there is no actor any longer to do so."""
        self.ties.debts.end(error)
        settle(self.ties.ended, None)

    def forget(self, error: Exception) -> None:
        """Become useless, in a forked child."""
        self.ties.debts.closed = error
