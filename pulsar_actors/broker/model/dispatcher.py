"""What every type of subscription does, and the plain form of it that is enough where nothing is stored.

A dispatcher hands entries to the consumers that its choice names. `dispatch` gives out as much as they can take; it is
called whenever that may have become more: an entry came, a consumer has permits, something was acknowledged.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pulsar_actors.broker.model.active_consumer import ActiveConsumer
from pulsar_actors.broker.model.choices import Choice
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.links import Delivery
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe


class Dispatcher(ABC):
    """The consumers of one subscription, and what is on its way to them."""

    __slots__ = ("choice", "kind")

    def __init__(self, kind: "CommandSubscribe.SubType.ValueType", choice: Choice) -> None:
        self.kind = kind
        self.choice = choice

    @property
    def consumers(self) -> list[Consumer]:
        """Those attached."""
        return self.choice.consumers

    @property
    def delayed(self) -> int:
        """How many entries wait for their time."""
        return 0

    @property
    def replaying(self) -> int:
        """How many entries wait to be delivered again."""
        return 0

    def can_unsubscribe(self, consumer: Consumer) -> bool:
        """Tell whether the subscription is this consumer's alone."""
        return self.consumers == [consumer]

    @abstractmethod
    def attach(self, consumer: Consumer) -> None:
        """Take one more; Refusal if that cannot be."""

    @abstractmethod
    def detach(self, consumer: Consumer) -> None:
        """Let one go; what it has not acknowledged is delivered again."""

    @abstractmethod
    def flowed(self, consumer: Consumer) -> None:
        """Give out what this consumer can take now."""

    @abstractmethod
    def dispatch(self) -> None:
        """Give out what the consumers can take."""

    @abstractmethod
    def acknowledge(self, consumer: Consumer, entry: StoredEntry, mask: int | None) -> int:
        """Acknowledge an entry, or the messages of it that the mask does not have; gives how many messages that is."""

    @abstractmethod
    def redeliver(self, consumer: Consumer, entries: Sequence[StoredEntry] | None, epoch: int) -> None:
        """Deliver these again, or all that this consumer has not acknowledged."""

    def settle(self) -> None:  # noqa: B027 - where nothing is remembered of single entries there is nothing to do
        """Look again at what is on its way: some of it was acknowledged behind the consumers' backs."""


class PassingDispatcher(Dispatcher):
    """A dispatcher of a topic that stores nothing: an entry that nobody can take at once is dropped."""

    __slots__ = ("dropped",)

    def __init__(self, kind: "CommandSubscribe.SubType.ValueType", choice: Choice) -> None:
        super().__init__(kind, choice)
        self.dropped = 0

    def attach(self, consumer: Consumer) -> None:
        """Take one more."""
        self.choice.add(consumer)
        self._announce()

    def detach(self, consumer: Consumer) -> None:
        """Let one go."""
        self.choice.remove(consumer)
        self._announce()

    def flowed(self, consumer: Consumer) -> None:
        """There is nothing to give out."""

    def dispatch(self) -> None:
        """There is nothing to give out."""

    def offer(self, entry: StoredEntry) -> None:
        """Give an entry to somebody, or drop it."""
        consumer = self.choice.of(entry)
        if consumer is None:
            self.dropped += entry.messages
            return
        consumer.charge(entry, entry.messages)
        consumer.counters.sent(entry.broker_timestamp)
        consumer.link.deliver([Delivery(entry, 0, None)], consumer.epoch)

    def acknowledge(self, consumer: Consumer, entry: StoredEntry, mask: int | None) -> int:
        """There is nothing to acknowledge."""
        del consumer, entry, mask
        return 0

    def redeliver(self, consumer: Consumer, entries: Sequence[StoredEntry] | None, epoch: int) -> None:
        """There is nothing to deliver again, but the epoch counts from now on."""
        del entries
        consumer.epoch = max(consumer.epoch, epoch)

    def _announce(self) -> None:
        if isinstance(self.choice, ActiveConsumer):
            self.choice.announce()
