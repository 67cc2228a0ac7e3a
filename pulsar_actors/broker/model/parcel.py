"""Entries that go to one consumer together: enough to be worth a write, few enough to keep the peak of memory low."""

from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.links import Delivery


class Parcel:
    """Entries for one consumer, of the epoch that they are sent in; -1 is none."""

    __slots__ = ("_bytes", "consumer", "deliveries", "epoch")

    MOST_ENTRIES = 100
    MOST_BYTES = 1024 * 1024

    def __init__(self, consumer: Consumer, epoch: int = -1) -> None:
        self.consumer = consumer
        self.epoch = epoch
        self.deliveries: list[Delivery] = []
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether it has to leave before more is added."""
        return len(self.deliveries) >= self.MOST_ENTRIES or self._bytes >= self.MOST_BYTES

    def add(self, delivery: Delivery) -> None:
        """Put an entry in."""
        self.deliveries.append(delivery)
        self._bytes += len(delivery.entry.data)

    def send(self, now_ms: int) -> None:
        """Hand over what is in it, if anything is; it is empty again."""
        if self.deliveries:
            self.consumer.counters.sent(now_ms)
            self.consumer.link.deliver(self.deliveries, self.epoch)
            self.deliveries = []
            self._bytes = 0
