"""A consumer that is attached to a subscription: its permits, and what it was given and has not acknowledged.

It is given as many messages as it has permits for, which a batch may overdraw: the whole entry goes out as long as one
permit is left. What is masked of a batch because it is acknowledged costs nothing.

Where stored entries are spread over several consumers (Shared, Key_Shared) a consumer's unacknowledged entries are
known one by one: `pending`. Has it too many, it is blocked: permits that come now are put aside until half of that
many are left.

What a consumer asks for is done by its subscription.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from pulsar_actors.broker.model.consumer_counters import ConsumerCounters
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.links import Address, ConsumerLink
from pulsar_actors.broker.model.position import Position
from pulsar_actors.broker.model.requests import SubscribeRequest
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe


class Acknowledged(NamedTuple):
    """What one message id of an ACK says.

    `ack_set` is the messages of the batch that are NOT acknowledged, as a mask; None: the whole entry is acknowledged.
    """

    position: Position
    ack_set: int | None = None


class Subscribed(Protocol):
    """The subscription, as its consumers see it."""

    name: str

    def now_ms(self) -> int:
        """Read the clock."""
        ...

    def backlog(self) -> int:
        """Count the entries that are not acknowledged."""
        ...

    def stats_of(self, consumer: "Consumer") -> dict[str, Any]:
        """Give the statistics of one consumer."""
        ...

    def mark_position(self) -> Position:
        """Give the position up to which all is acknowledged."""
        ...

    def last_message(self) -> tuple[Position, int]:
        """Give the position of the topic's last message and its index in the batch."""
        ...

    def flowed(self, consumer: "Consumer") -> None:
        """Hear that it can take more."""
        ...

    def acknowledge(self, consumer: "Consumer", acknowledged: Sequence[Acknowledged]) -> None:
        """Acknowledge each of these."""
        ...

    def acknowledge_cumulative(self, acknowledged: Acknowledged) -> None:
        """Acknowledge this one and all before it."""
        ...

    def redeliver(self, consumer: "Consumer", positions: Sequence[Position], epoch: int) -> None:
        """Deliver these again, or all."""
        ...

    def reset(self, position: Position, ack_set: int | None = None) -> None:
        """Seek."""
        ...

    def reset_to_time(self, publish_time_ms: int) -> None:
        """Seek."""
        ...

    def unsubscribe(self, consumer: "Consumer", *, force: bool) -> None:
        """Delete the subscription."""
        ...

    def detach(self, consumer: "Consumer") -> None:
        """Let the consumer go."""
        ...


class Consumer:
    """One consumer. Made by `Topic.subscribe`."""

    __slots__ = (
        "_withheld",
        "blocked",
        "connected",
        "counters",
        "epoch",
        "link",
        "most_unacked",
        "name",
        "pending",
        "permits",
        "request",
        "subscription",
        "told_end",
        "unacked",
    )

    def __init__(
        self, request: SubscribeRequest, link: ConsumerLink, subscription: Subscribed, most_unacked: int, now_ms: int
    ) -> None:
        self.request = request
        self.link = link
        self.subscription = subscription
        self.name = request.name or ""
        self.epoch = request.consumer_epoch
        self.connected = True
        self.permits = 0
        self.blocked = False
        self.unacked = 0
        self.most_unacked = most_unacked  # 0: any number
        self.pending: dict[int, StoredEntry] = {}  # by offset, what it has not acknowledged
        self.told_end = False
        self.counters = ConsumerCounters(now_ms)
        self._withheld = 0

    @property
    def kind(self) -> "CommandSubscribe.SubType.ValueType":
        """The type of subscription that it asked for."""
        return self.request.kind

    @property
    def available(self) -> bool:
        """Whether it can be given an entry now."""
        return self.permits > 0 and not self.blocked and self.link.has_room()

    def flow(self, permits: int) -> None:
        """Let the broker send so many messages more."""
        self.counters.flowed(self.subscription.now_ms())
        if self.blocked:
            self._withheld += permits
            return
        self.permits += permits
        self.subscription.flowed(self)

    def resume(self) -> None:
        """Go on, now that the connection has room again."""
        self.subscription.flowed(self)

    def acknowledge(self, acknowledged: Sequence[Acknowledged]) -> None:
        """Acknowledge each of these."""
        self.subscription.acknowledge(self, acknowledged)

    def acknowledge_cumulative(self, acknowledged: Acknowledged) -> None:
        """Acknowledge this one and all before it; ignored where Pulsar ignores it (Shared, Key_Shared)."""
        self.subscription.acknowledge_cumulative(acknowledged)

    def redeliver(self, positions: Sequence[Position] = (), epoch: int = -1) -> None:
        """Deliver these again, or with none given all that it has not acknowledged.

        Exclusive and Failover deliver all again in either case, for the order's sake.
        """
        self.subscription.redeliver(self, positions, epoch)

    def seek(self, position: Position, ack_set: int | None = None) -> None:
        """Move the subscription to an entry, or to the messages of the mask in it.

        On a persistent topic this closes the consumers of the subscription (`ConsumerLink.closed`).
        """
        self.subscription.reset(position, ack_set)

    def seek_to_time(self, publish_time_ms: int) -> None:
        """Move the subscription to the first entry that was published then or later."""
        self.subscription.reset_to_time(publish_time_ms)

    def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription; Refusal if others are connected and it is not forced."""
        self.subscription.unsubscribe(self, force=force)

    def last_position(self) -> tuple[Position, int]:
        """Give the position of the topic's last entry and the index of its last message in the batch, -1 for none."""
        return self.subscription.last_message()

    def mark_delete_position(self) -> Position:
        """Give the position up to which all is acknowledged."""
        return self.subscription.mark_position()

    def stats(self) -> dict[str, Any]:
        """Give what the statistics of a topic say of it, under Pulsar's names."""
        return self.subscription.stats_of(self)

    def close(self) -> None:
        """Let it go; what it has not acknowledged is for others, or for the next. Doing it again does nothing."""
        if self.connected:
            self.subscription.detach(self)

    def dismiss(self, moved_to: Address | None) -> None:
        """Let it go, and tell it."""
        self.close()
        self.link.closed(moved_to)

    def reach_end(self) -> None:
        """Tell it, once, that the topic has ended."""
        if not self.told_end:
            self.told_end = True
            self.link.reached_end()

    def charge(self, entry: StoredEntry, messages: int) -> None:
        """Count an entry that it is given, of which so many messages are not acknowledged."""
        self.permits -= messages
        counters = self.counters
        counters.entries_out += 1
        counters.messages_out += entry.messages
        counters.bytes_out += len(entry.data)
        counters.chunks_out += entry.chunk_of is not None

    def owe(self, entry: StoredEntry, messages: int) -> None:
        """Remember an entry that it has to acknowledge, or so many messages of it."""
        self.pending[entry.offset] = entry
        self.unacked += messages
        if 0 < self.most_unacked <= self.unacked:
            self.blocked = True

    def relieve(self, messages: int) -> None:
        """Count messages that it has acknowledged, or has to be given again."""
        self.unacked -= messages
        if self.blocked and self.unacked <= self.most_unacked // 2:
            self.release()

    def release(self) -> None:
        """Block it no longer."""
        self.blocked = False
        self.permits += self._withheld
        self._withheld = 0
