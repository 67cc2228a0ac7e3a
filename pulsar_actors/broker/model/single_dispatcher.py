"""Exclusive and Failover: one consumer gets everything, in order.

Nothing is remembered of single entries. To deliver again, for a new consumer or on demand, is to go back to the first
entry that is not acknowledged; there is no telling how often an entry was delivered. A demand may carry a new epoch,
which is sent along with every entry from then on: by it the consumer knows what was on its way before.

In Failover the next consumer begins a while after it was chosen, in the hope that the acknowledgements of the one
before arrive first; then all of them hear whose turn it is.
"""

from collections.abc import Sequence

from pulsar_actors.broker.model.active_consumer import ActiveConsumer
from pulsar_actors.broker.model.clock import Clock
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.dispatcher import Dispatcher
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.links import Delivery
from pulsar_actors.broker.model.parcel import Parcel
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe


class SingleDispatcher(Dispatcher):
    """The dispatcher of an Exclusive or Failover subscription; `delay` is that of a new active consumer."""

    __slots__ = ("_active", "_change", "_changing", "_clock", "_cursor", "_delay")

    def __init__(
        self,
        kind: "CommandSubscribe.SubType.ValueType",
        choice: ActiveConsumer,
        cursor: Cursor,
        clock: Clock,
        delay: float,
    ) -> None:
        super().__init__(kind, choice)
        self._active = choice
        self._cursor = cursor
        self._clock = clock
        self._delay = delay if kind == CommandSubscribe.SubType.Failover else 0.0
        self._change = 0  # tells a timer of the latest change from those before
        self._changing = False

    def attach(self, consumer: Consumer) -> None:
        """Take one more, which may become the active one."""
        before = self._active.active
        self._active.add(consumer)
        if self._active.active is before:
            consumer.link.active(False)  # noqa: FBT003 - as the command says it
        else:
            self._begin_change()

    def detach(self, consumer: Consumer) -> None:
        """Let one go; if it was the active one, another takes over."""
        before = self._active.active
        self._active.remove(consumer)
        if not self.consumers:
            self._changing = False
            self._change += 1
        elif self._active.active is not before:
            self._begin_change()

    def flowed(self, consumer: Consumer) -> None:
        """Give out what the active consumer can take."""
        del consumer
        self.dispatch()

    def dispatch(self) -> None:
        """Give out what the active consumer can take."""
        consumer = self._active.active
        if consumer is None or self._changing:
            return
        cursor = self._cursor
        parcel = Parcel(consumer, consumer.epoch)
        now_ms = self._clock.wall_clock_ms()
        while consumer.available and (entry := cursor.next()) is not None:
            consumer.charge(entry, cursor.remaining(entry))
            parcel.add(Delivery(entry, 0, cursor.partial.get(entry.offset)))
            if parcel.full:
                parcel.send(now_ms)
        parcel.send(now_ms)

    def acknowledge(self, consumer: Consumer, entry: StoredEntry, mask: int | None) -> int:
        """Acknowledge an entry, or a part of it."""
        del consumer
        before = self._cursor.remaining(entry)
        self._cursor.acknowledge(entry, mask)
        return before - self._cursor.remaining(entry)

    def redeliver(self, consumer: Consumer, entries: Sequence[StoredEntry] | None, epoch: int) -> None:
        """Go back to the first entry that is not acknowledged, whatever is asked for, if the active one asks."""
        del entries
        consumer.epoch = max(consumer.epoch, epoch)
        if consumer is self._active.active and not self._changing:
            self._cursor.rewind()
            self.dispatch()

    def dismiss_active(self) -> None:
        """Let the active consumer go, and tell it."""
        if self._active.active is not None:
            self._active.active.dismiss(None)

    def _begin_change(self) -> None:
        if self._delay <= 0:
            self._finish_change()
        elif not self._changing:
            self._changing = True
            self._clock.later(self._delay, self._changed, self._change)

    def _changed(self, change: int) -> None:
        if change == self._change:
            self._change += 1
            self._changing = False
            self._finish_change()

    def _finish_change(self) -> None:
        self._cursor.rewind()
        self._active.announce()
        self.dispatch()
