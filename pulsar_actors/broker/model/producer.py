"""A producer of a topic, and the rules by which the producers of one topic share it or exclude each other.

A topic is shared until a producer wants exclusive access. Exclusive gets it only if there is no other producer;
WaitForExclusive waits in a queue; ExclusiveWithFencing disconnects all others, including waiting ones. Each time a
producer gets exclusive access, the topic epoch increases. A producer that reconnects names its last epoch. So a
producer that was fenced meanwhile is recognised, and does not fence its successor.

No two producers of one name are connected at once. Only a producer that asks again on its own connection, with a higher
epoch, replaces itself.
"""

from collections import deque
from collections.abc import Callable

from pulsar_actors.broker.model.interfaces import Address, ProducerLink, Refusal
from pulsar_actors.broker.model.requests import ProducerRequest
from pulsar_actors.wire.PulsarApi_pb2 import ProducerAccessMode, ServerError


class Producer:
    """One producer, created by `Topic.add_producer`.

    `last_sequence_id` is the highest that the topic has of this name, -1 for none; it is known only if deduplication is
    on. `ready` is false while the producer waits for the topic (WaitForExclusive). `schema_version` is as on the wire,
    and None for a producer without a schema.
    """

    __slots__ = (
        "bytes_in",
        "chunks_in",
        "connected",
        "connected_ms",
        "last_sequence_id",
        "link",
        "messages_in",
        "name",
        "ready",
        "request",
        "schema_version",
        "topic_epoch",
    )

    def __init__(self, request: ProducerRequest, link: ProducerLink, name: str, now_ms: int) -> None:
        self.request = request
        self.link = link
        self.name = name
        self.connected = True
        self.ready = True
        self.last_sequence_id = -1
        self.topic_epoch = request.topic_epoch
        self.schema_version: bytes | None = None
        self.connected_ms = now_ms
        self.messages_in = self.bytes_in = self.chunks_in = 0

    def is_successor_of(self, other: "Producer") -> bool:
        """Return whether the same connection has created the same producer again, with a higher epoch."""
        mine, theirs = self.request, other.request
        return (
            mine.connection == theirs.connection
            and mine.producer_id == theirs.producer_id
            and mine.epoch > theirs.epoch
        )


class TopicProducers:
    """The producers of one topic. `epoch` is None until a producer gets exclusive access.

    `epoch_changed` is called when it is another.
    """

    __slots__ = ("_epoch_changed", "_exclusive", "_name", "connected", "epoch", "waiting")

    def __init__(self, topic_name: str, epoch: int | None, epoch_changed: Callable[[], object]) -> None:
        self._name = topic_name
        self._epoch_changed = epoch_changed
        self._exclusive: Producer | None = None
        self.connected: dict[str, Producer] = {}
        self.waiting: deque[Producer] = deque()
        self.epoch = epoch

    def admit(self, producer: Producer) -> None:
        """Connect a producer, or let it wait; Refusal if neither is possible."""
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
            self._fence_out_others()
        self._make_exclusive(producer)

    def remove(self, producer: Producer) -> None:
        """Remove a producer; another one may get the topic. A second call does nothing."""
        if not producer.connected:
            return
        producer.connected = False
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

    def disconnect_connected(self, moved_to: Address | None = None) -> None:
        """Disconnect all producers that are connected now."""
        for producer in list(self.connected.values()):
            self.remove(producer)
            producer.link.closed(moved_to)

    def unload(self, refusal: Refusal, moved_to: Address | None) -> None:
        """Disconnect the producers. Of those that wait, refuse the first and forget the others, as a real broker does.

        The first one's turn comes with the end of the last producer, when the topic is closing already.
        """
        waiting, self.waiting = self.waiting, deque()
        self.disconnect_connected(moved_to)
        for producer in waiting:
            producer.connected = False
        for producer in list(waiting)[:1]:
            producer.link.refused(refusal)

    def refuse_waiting(self, refusal: Refusal) -> None:
        """End the wait of all waiting producers."""
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
        """Refuse a producer that was fenced meanwhile, before it fences others, as a real broker does."""
        epoch = producer.request.topic_epoch
        if epoch is not None and epoch < (-1 if self.epoch is None else self.epoch):
            raise Refusal(
                ServerError.ProducerFenced,
                f"Topic epoch has already moved. Current epoch: {self.epoch}, Producer epoch: {epoch}",
            )

    def _fence_out_others(self) -> None:
        self.refuse_waiting(Refusal(ServerError.ProducerFenced, "Fenced out"))
        self.disconnect_connected()

    def _make_exclusive(self, producer: Producer) -> None:
        asked = producer.request.topic_epoch
        self.epoch = asked if asked is not None else (-1 if self.epoch is None else self.epoch) + 1
        producer.topic_epoch = self.epoch
        self._exclusive = producer
        self.connected[producer.name] = producer
        self._epoch_changed()
