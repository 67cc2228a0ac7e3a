"""The producers of one topic: whose it is, who waits for it, and who has to go.

A topic is shared until a producer comes that wants it alone. Exclusive gets it only if there is nobody else;
WaitForExclusive waits in line for it; ExclusiveWithFencing sends everybody away, those who wait included. Each time
that the topic becomes somebody's alone its epoch goes up. A producer that comes back names the epoch it had, so that
one that was sent away meanwhile is recognised and does not fight the one that has the topic now.

No two producers of one name are connected at once; but if one asks again on its own connection, with a higher epoch, it
takes its own place.
"""

from collections import deque

from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.wire.PulsarApi_pb2 import ProducerAccessMode, ServerError


class Producers:
    """The producers of one topic. `epoch` is None until somebody has had it alone."""

    __slots__ = ("_exclusive", "_name", "connected", "epoch", "waiting")

    def __init__(self, topic_name: str) -> None:
        self._name = topic_name
        self._exclusive: Producer | None = None
        self.connected: dict[str, Producer] = {}
        self.waiting: deque[Producer] = deque()
        self.epoch: int | None = None

    def admit(self, producer: Producer) -> None:
        """Connect a producer, or let it wait; Refusal says why neither."""
        mode = producer.request.access_mode
        if mode == ProducerAccessMode.Shared:
            self._admit_to_share(producer)
            return
        if mode == ProducerAccessMode.Exclusive:
            self._refuse_if_taken()
        elif mode == ProducerAccessMode.WaitForExclusive and (self._exclusive or self.connected):
            producer.ready = False
            self.waiting.append(producer)
            return
        self._refuse_if_outdated(producer)
        if mode == ProducerAccessMode.ExclusiveWithFencing:
            self._send_everybody_away()
        self._make_exclusive(producer)

    def remove(self, producer: Producer) -> None:
        """Let one go; the topic may be free for another."""
        if producer in self.waiting:
            self.waiting.remove(producer)
            return
        del self.connected[producer.name]
        if self._exclusive is producer:
            self._exclusive = None
        if self.waiting and not self.connected:
            successor = self.waiting.popleft()
            successor.ready = True
            self._make_exclusive(successor)
            successor.link.ready()

    def dismiss_connected(self, moved_to: Address | None = None) -> None:
        """Let everybody go who is connected now, and tell them."""
        for producer in list(self.connected.values()):
            producer.dismiss(moved_to)

    def dismiss_waiting(self, refusal: Refusal) -> None:
        """End the wait of everybody in line."""
        waiting = list(self.waiting)
        self.waiting.clear()
        for producer in waiting:
            producer.connected = False
            producer.link.refused(refusal)

    def _admit_to_share(self, producer: Producer) -> None:
        if self._exclusive or self.waiting:
            owner = self._exclusive.name if self._exclusive else None
            raise Refusal(ServerError.ProducerBusy, f"Topic has an existing exclusive producer: {owner}")
        other = self.connected.get(producer.name)
        if other is not None:
            if not producer.is_successor_of(other):
                raise Refusal(
                    ServerError.ProducerBusy,
                    f"Producer with name '{producer.name}' is already connected to topic '{self._name}'",
                )
            other.connected = False
        self.connected[producer.name] = producer
        producer.topic_epoch = self.epoch

    def _refuse_if_taken(self) -> None:
        if self._exclusive or self.waiting:
            owner = self._exclusive.name if self._exclusive else None
            raise Refusal(ServerError.ProducerFenced, f"Topic has an existing exclusive producer: {owner}")
        if self.connected:
            raise Refusal(ServerError.ProducerFenced, "Topic has existing shared producers")

    def _refuse_if_outdated(self, producer: Producer) -> None:
        """Refuse one that was sent away meanwhile; before others are, where a real broker does so first."""
        epoch = producer.request.topic_epoch
        if epoch is not None and self.epoch is not None and epoch < self.epoch:
            raise Refusal(
                ServerError.ProducerFenced,
                f"Topic epoch has already moved. Current epoch: {self.epoch}, Producer epoch: {epoch}",
            )

    def _send_everybody_away(self) -> None:
        self.dismiss_waiting(Refusal(ServerError.ProducerFenced, "Fenced out"))
        self.dismiss_connected()

    def _make_exclusive(self, producer: Producer) -> None:
        asked = producer.request.topic_epoch
        self.epoch = asked if asked is not None else (-1 if self.epoch is None else self.epoch) + 1
        producer.topic_epoch = self.epoch
        self._exclusive = producer
        self.connected[producer.name] = producer
