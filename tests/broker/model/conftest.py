"""A cluster in the hands of a test: a clock that stands still, and links that write down what they are told.

world.topic("t")                        a topic, made if need be
world.producer("t")                     a producer; `.send(b"x", key="k")` gives the position
world.consumer("t", "s", SHARED)        a consumer with 1,000 permits; `.got` is what it was given
world.pass_time(1.5)                    lets the clock go on, and fires what was set
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest

from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.consumer import AckedEntry, Consumer
from pulsar_actors.broker.model.entry import Position
from pulsar_actors.broker.model.interfaces import Address, Delivery, Refusal
from pulsar_actors.broker.model.requests import ProducerRequest, SubscribeRequest
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.model.storage import IN_MEMORY, Storage
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, MessageMetadata
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import TransactionId, set_transaction

START_MS = 1_700_000_000_000


class FakeClock:
    def __init__(self) -> None:
        self.now_ms = START_MS
        self._timers: list[tuple[float, int, Callable[[Any], object], Any]] = []
        self._order = count()

    def wall_clock_ms(self) -> int:
        return self.now_ms

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:
        heappush(self._timers, (self.now_ms + delay * 1000, next(self._order), function, argument))

    @property
    def timers(self) -> int:
        return len(self._timers)

    def advance(self, seconds: float) -> None:
        end = self.now_ms + round(seconds * 1000)
        while self._timers and self._timers[0][0] <= end:
            when, _, function, argument = heappop(self._timers)
            self.now_ms = max(self.now_ms, round(when))
            function(argument)
        self.now_ms = end


class Sender:
    """A producer and its link."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.made: Any = None
        self.topic: Any = None
        self._next = 0

    def ready(self) -> None:
        self.heard.append("ready")

    def refused(self, refusal: Refusal) -> None:
        self.heard.append(refusal)

    def closed(self, moved_to: Address | None) -> None:
        self.heard.append(("closed", moved_to))

    def send(
        self,
        data: bytes = b"x",
        *,
        sequence_id: int | None = None,
        highest: int = -1,
        transaction: TransactionId | None = None,
        **fields: Any,
    ) -> Position:
        first = self._next if sequence_id is None else sequence_id
        self._next = first + 1
        known = {"producer_name": self.made.name, "sequence_id": first, "publish_time": 1, **fields}
        metadata = MessageMetadata(**known)
        if transaction is not None:
            set_transaction(metadata, transaction)
        ids = {"sequence_id": first, "highest_sequence_id": highest, "transaction": transaction}
        return self.topic.publish(self.made, data, metadata, **ids)

    def close(self) -> None:
        self.topic.remove_producer(self.made)

    def send_all(self, payloads: Sequence[bytes], **fields: Any) -> list[Position]:
        return [self.send(payload, **fields) for payload in payloads]


class Receiver:
    """A consumer and its link."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.epochs: list[int] = []
        self.heard: list[object] = []
        self.room = True
        self.most = 1 << 30
        self.parcels: list[int] = []
        self.made: Any = None
        self.subscription: Any = None

    def has_room(self) -> bool:
        return self.room and len(self.deliveries) < self.most

    def deliver(self, deliveries: Sequence[Delivery], consumer_epoch: int) -> None:
        self.parcels.append(len(deliveries))
        self.deliveries += deliveries
        self.epochs += [consumer_epoch] * len(deliveries)

    def active(self, is_active: bool) -> None:  # noqa: FBT001 - as the command says it
        self.heard.append("active" if is_active else "standby")

    def reached_end(self) -> None:
        self.heard.append("end")

    def closed(self, moved_to: Address | None) -> None:
        self.heard.append(("closed", moved_to))

    @property
    def got(self) -> list[bytes]:
        return [delivery.entry.data for delivery in self.deliveries]

    @property
    def counts(self) -> list[int]:
        return [delivery.redelivery_count for delivery in self.deliveries]

    def take(self) -> list[bytes]:
        """What came since the last time."""
        taken = self.got
        self.deliveries.clear()
        return taken

    def position_of(self, data: bytes) -> Position:
        return next(each.entry.position for each in reversed(self.deliveries) if each.entry.data == data)

    def ack(self, *what: bytes, ack_set: int | None = None) -> None:
        self.subscription.acknowledge(self.made, [AckedEntry(self.position_of(each), ack_set) for each in what])

    def ack_up_to(self, what: bytes, ack_set: int | None = None) -> None:
        self.subscription.acknowledge_cumulative(AckedEntry(self.position_of(what), ack_set))

    def ack_in(self, transaction: TransactionId, *what: bytes, ack_set: int | None = None) -> None:
        acked = [AckedEntry(self.position_of(each), ack_set) for each in what]
        self.subscription.acknowledge_in_transaction(self.made, transaction, acked)

    def ack_up_to_in(self, transaction: TransactionId, what: bytes, ack_set: int | None = None) -> None:
        acked = AckedEntry(self.position_of(what), ack_set)
        self.subscription.acknowledge_cumulative_in_transaction(transaction, acked)

    def nack(self, *what: bytes) -> None:
        self.redeliver([self.position_of(each) for each in what])

    def redeliver(self, positions: Sequence[Position] = (), epoch: int = -1) -> None:
        self.subscription.redeliver(self.made, positions, epoch)

    def flow(self, permits: int) -> None:
        self.subscription.flow(self.made, permits)

    def resume(self) -> None:
        self.subscription.resume(self.made)

    def unsubscribe(self, *, force: bool = False) -> None:
        self.subscription.unsubscribe(self.made, force=force)

    def close(self) -> None:
        self.subscription.detach(self.made)


class World:
    def __init__(self, settings: Settings | None = None, storage: Storage = IN_MEMORY) -> None:
        self.clock = FakeClock()
        self.settings = settings or Settings()
        self.cluster = Cluster(self.clock, self.settings, storage)
        self._ids = count()

    def topic(self, name: str = "t") -> Topic:
        return self.cluster.open_topic(TopicName.parse(name))

    def producer(self, topic: str = "t", **fields: Any) -> Sender:
        sender = Sender()
        fields = {"connection": sender, "producer_id": next(self._ids), **fields}
        sender.topic = self.topic(topic)
        sender.made = sender.topic.add_producer(ProducerRequest(**fields), sender)
        return sender

    def consumer(
        self,
        topic: str = "t",
        subscription: str = "s",
        subscription_type: Any = CommandSubscribe.SubType.Exclusive,
        *,
        permits: int = 1000,
        **fields: Any,
    ) -> Receiver:
        receiver = Receiver()
        number = next(self._ids)
        fields = {"connection": receiver, "consumer_id": number, "name": f"c{number}", **fields}
        request = SubscribeRequest(subscription=subscription, subscription_type=subscription_type, **fields)
        receiver.made = self.topic(topic).subscribe(request, receiver)
        assert isinstance(receiver.made, Consumer)
        receiver.subscription = self.topic(topic).subscriptions[subscription]
        if permits:
            receiver.flow(permits)
        return receiver

    def failover_pair(self) -> list[Receiver]:
        """Two consumers of a Failover subscription to the topic fo-3; the first is active."""
        kind = CommandSubscribe.SubType.Failover
        pair = [self.consumer("fo-3", subscription_type=kind, name=name) for name in ("alpha", "beta")]
        self.pass_time(1)
        return pair

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)


@pytest.fixture(scope="session")
def make_world() -> type[World]:
    """For tests that need a new one for each example."""
    return World


@pytest.fixture
def world() -> World:
    return World()
