"""The totals of a client for monitoring systems: counts of each topic, those of handles that have ended included.

A count of a monitoring system must never fall. So the counts of each producer and consumer are kept when it ends. That
costs nothing while nobody asks: a client has `Totals` only with the first exporter.

Counts are read when somebody asks, and not noted for each message.
"""

import threading
from functools import partial
from typing import Any, Final

from pulsar_actors.client.consumer_state import ConsumerState
from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.handle import HandleState
from pulsar_actors.client.producer_state import ProducerState
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.fork import forget_on_fork
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["COUNTED", "ConsumerKey", "ConsumerTotals", "ProducerTotals", "Snapshot", "Totals", "totals_of"]


class ProducerTotals(NamedTuple):
    """The producers of one topic. The first six count from the beginning; the others are of this moment."""

    opened: int = 0
    closed: int = 0
    sent: int = 0
    sent_bytes: int = 0
    failed: int = 0
    reconnects: int = 0
    open: int = 0
    pending: int = 0
    pending_bytes: int = 0


class ConsumerTotals(NamedTuple):
    """The consumers of one subscription of a topic. The first ten count; the others are of this moment."""

    opened: int = 0
    closed: int = 0
    received: int = 0
    received_bytes: int = 0
    acknowledged: int = 0
    negatively_acknowledged: int = 0
    undecryptable: int = 0
    ack_timeouts: int = 0
    dead_letters: int = 0
    reconnects: int = 0
    open: int = 0
    queued: int = 0
    queued_bytes: int = 0


class ConsumerKey(NamedTuple):
    """A subscription of a topic; readers have none, since each has one of its own."""

    topic: str
    subscription: str


COUNTED: Final = {ProducerTotals: 6, ConsumerTotals: 10}
"""The number of fields that are counters: they are kept when a handle ends."""


class Snapshot(NamedTuple):
    """The totals at a moment. A topic with partitions is one topic."""

    connections: int
    pending_lookups: int
    producers: dict[str, ProducerTotals]
    consumers: dict[ConsumerKey, ConsumerTotals]


class Totals:
    """The totals of one client. Any thread may use them."""

    def __init__(self, context: ClientContext) -> None:
        self._counters = context.counters
        self._lock = threading.Lock()
        self._open: dict[int, ProducerState | ConsumerState] = {}
        self._ended: dict[str | ConsumerKey, tuple[int, ...]] = {}
        forget_on_fork(self)
        context.watchers = (*context.watchers, self._follow)
        for state in context.open_states:
            self._follow(state)

    def snapshot(self) -> Snapshot:
        """Return the totals of now."""
        with self._lock:
            sums: dict[str | ConsumerKey, tuple[int, ...]] = dict(self._ended)
            for state in self._open.values():
                key, totals = totals_of(state)
                sums[key] = _sum(sums.get(key, ()), totals)
        producers = {key: ProducerTotals(*values) for key, values in sums.items() if isinstance(key, str)}
        consumers = {key: ConsumerTotals(*values) for key, values in sums.items() if isinstance(key, ConsumerKey)}
        return Snapshot(self._counters.connections, self._counters.lookups, producers, consumers)

    def forget_everything(self) -> None:
        """Replace the lock, in a forked child: another thread may have held it during the fork."""
        self._lock = threading.Lock()

    def _follow(self, state: HandleState[Any]) -> None:
        if isinstance(state, (ProducerState, ConsumerState)):  # of several topics, each has one of these
            with self._lock:
                known = self._open.setdefault(id(state), state)
            if known is state:
                state.link.ended.add_done_callback(partial(self._keep, state))

    def _keep(self, state: ProducerState | ConsumerState, _: object) -> None:
        """Keep the counts of a handle that has ended."""
        with self._lock:
            if self._open.pop(id(state), None) is not None:
                key, totals = totals_of(state)
                counted = tuple(totals)[: COUNTED[type(totals)]]
                self._ended[key] = _sum(self._ended.get(key, ()), counted)


def totals_of(state: ProducerState | ConsumerState) -> tuple[str | ConsumerKey, ProducerTotals | ConsumerTotals]:
    """Return the totals of one producer or consumer, and whose they are."""
    counters = state.link.counters
    is_open = 0 if state.closed is not None else 1
    opened = 1 if counters.attachments else 0
    closed = opened - is_open * opened
    if isinstance(state, ProducerState):
        callbacks = state.send_callbacks
        pending, pending_bytes = state.send_queue.used()
        failed = callbacks.failed + callbacks.refused
        return _topic(state.machine.topic), ProducerTotals(
            opened, closed, callbacks.sent, callbacks.sent_bytes, failed, counters.reconnects,
            is_open, pending * is_open, pending_bytes * is_open,
        )  # fmt: skip
    command, queue = state.machine.command, state.receiver_queue
    key = ConsumerKey(_topic(command.topic), "" if state.machine.messages.is_reader else command.subscription)
    received = max(0, queue.opened_messages - queue.opened_count)
    received_bytes = max(0, queue.opened_bytes - queue.opened_size)
    return key, ConsumerTotals(
        opened, closed, received, received_bytes, state.ack_queue.drained, state.negatively_acknowledged,
        queue.undecryptable, counters.ack_timeouts, counters.dead_letters, counters.reconnects,
        is_open, queue.queued * is_open, queue.queued_size() * is_open,
    )  # fmt: skip


def _topic(name: str) -> str:
    return str(TopicName.parse(name).base)


def _sum(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    longer, shorter = (first, second) if len(first) > len(second) else (second, first)
    return tuple(value + (shorter[at] if at < len(shorter) else 0) for at, value in enumerate(longer))
