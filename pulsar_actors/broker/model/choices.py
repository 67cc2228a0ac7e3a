"""Who of several consumers gets an entry: the part of a subscription's type that does not depend on what is stored.

Exclusive has one consumer, and Failover one at a time; Shared takes turns; Key_Shared goes by the key's hash. Each of
these is a choice here. Dispatchers ask them, for topics that are stored and for those that are not alike.
"""

from abc import ABC, abstractmethod

from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.entry import StoredEntry


class Choice(ABC):
    """The consumers of a subscription, and who gets what."""

    __slots__ = ("consumers",)

    def __init__(self) -> None:
        self.consumers: list[Consumer] = []

    @abstractmethod
    def add(self, consumer: Consumer) -> None:
        """Take one more; Refusal if that cannot be."""

    @abstractmethod
    def remove(self, consumer: Consumer) -> None:
        """Let one go."""

    @abstractmethod
    def of(self, entry: StoredEntry) -> Consumer | None:
        """Give the one that gets an entry, if there is one and it can take it now."""


class KeyChoice(Choice):
    """The consumers of a Key_Shared subscription: each has some of the numbers that the hashes of keys fall on."""

    __slots__ = ()

    @abstractmethod
    def slot(self, key_hash: int) -> int:
        """Give the number that a hash falls on."""

    @abstractmethod
    def owner(self, slot: int) -> Consumer | None:
        """Give the consumer that has a number, if any has it."""

    @abstractmethod
    def ranges(self, consumer: Consumer) -> list[tuple[int, int]]:
        """Give the numbers that a consumer has, as ranges with both ends."""

    def of(self, entry: StoredEntry) -> Consumer | None:
        """Give the consumer that has the entry's key, if it can take it now."""
        consumer = self.owner(self.slot(entry.key_hash))
        return consumer if consumer is not None and consumer.available else None
