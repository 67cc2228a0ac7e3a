"""The consumers of several topics: how each is made, and how callers get at them, all by one queue.

The places of the queue are shared out: together they are no more than the options allow. A consumer's messages go into
its own lane, from where it has its permits; the lanes are those of one fan-in.

Where a reader's topic gets partitions, it reads them from their first message on: all that they have came after it had
begun. Of a subscription that lasts, brokers see to that: they make it on each new partition, at its start.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from pulsar_actors.client.consuming.consumer_machine import Start
from pulsar_actors.client.consuming.consumer_making import consumer_parts, start_consumer
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming.consumer_parts import ConsumerParts
from pulsar_actors.client.consuming.news import News
from pulsar_actors.client.sets.consumer_set_parts import ConsumerSetParts
from pulsar_actors.client.sets.crew import Report, watch
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.topic_set_events import Admit, MakeMember
from pulsar_actors.runtime.consumer_actor import DeadLetterBox
from pulsar_actors.runtime.fan_in import Lane
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.topic_set_actor import Placed
from pulsar_actors.wire.message_id import EARLIEST

Dead = Callable[[ConsumerOptions], DeadLetterBox | None]
"""Make what takes the dead letters of one topic."""


class ConsumerCrew:
    """The consumers of one set. The actor calls its methods on its loop."""

    __slots__ = ("_dead", "_made", "_news", "_parts", "_start", "_workshop")

    def __init__(
        self, workshop: Workshop, parts: ConsumerSetParts, start: Start | None, dead: Dead, news: News
    ) -> None:
        self._workshop = workshop
        self._parts = parts
        self._start = start
        self._dead = dead
        self._news = news
        self._made: dict[int, ConsumerParts] = {}

    def make(self, order: MakeMember, report: Report) -> None:
        """Make the consumer of a topic."""
        member, topic, _, among, may_create, later = order
        fan_in, options, start = self._parts.hand_off, self._options_of(topic, among), self._start
        if later and start is not None:
            start = Start(EARLIEST, inclusive=True)
        parts = consumer_parts(self._workshop, options, start, partial(Lane, fan_in))
        parts.pump = self._parts.pump
        self._made[member] = parts
        watch(parts, member, report, lambda: "")
        start_consumer(
            self._workshop,
            parts,
            options,
            start,
            self._dead(options),
            self._news,
            may_create=may_create,
            placed=lambda address: report(Placed(member, address)),
        )

    def owe(self, member: int, call: SlimFuture[Any]) -> None:
        """Have the consumer owe the end of a call."""
        self._made[member].ties.debts.owe(call)

    def lose(self, member: int, _: Report) -> None:
        """Let go of a consumer."""
        self._made.pop(member, None)

    def admit(self, admission: Admit, _: Report) -> None:
        """Let callers use some, and others no longer."""
        fan_in, members = self._parts.hand_off, self._parts.members
        came = {topic: self._made[member] for topic, member in admission.members.items()}
        for topic in admission.gone:
            members.pop(topic, None)
        members.update(came)
        fan_in.dismiss(admission.gone)
        fan_in.admit({topic: cast("Lane", parts.hand_off) for topic, parts in came.items()})
        self._pump()

    def grow(self, topic: str, partitions: int) -> None:
        """Tell interceptors."""
        if self._news.interceptors is not None:
            self._news.interceptors.partitions_changed(topic, partitions)

    def serve(self) -> None:
        """Give messages to the futures that want one."""
        self._parts.hand_off.serve()

    def end(self, error: PulsarException) -> None:
        """Hand out nothing more."""
        self._parts.hand_off.end(error)
        self._pump()

    def _pump(self) -> None:
        """Have the listener called with what is there."""
        if self._parts.pump is not None:
            self._parts.pump.arrived()

    def _options_of(self, topic: str, among: int) -> ConsumerOptions:
        options = self._parts.options
        together = options.max_total_receiver_queue_size_across_partitions
        size = options.receiver_queue_size
        return replace(options, topic=topic, receiver_queue_size=max(1, min(size, together // among)))
