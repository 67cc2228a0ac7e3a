"""The producers of a partitioned topic: how each is made, and which of them callers may use.

Callers see a list, which only grows: partitions that were added count from the moment at which all before them, and
they, have a producer. One that has ended keeps its place, and refuses what is meant for it.

A lazy crew has a place for every partition from the start. A message for one without a producer goes into its outbox,
and the set hears that it is wanted. If it then cannot be made, what is there fails, and the place is made anew: the
next message tries again.
"""

from dataclasses import replace
from typing import Any

from pulsar_actors.client.producing.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producing.producer_making import producer_parts, start_producer
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.producing.producer_parts import ProducerParts
from pulsar_actors.client.sets.crew import Report, watch
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.ledgers.send_quota import pending_limit
from pulsar_actors.machines.topic_set_events import Admit, MakeMember, Wanted
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.producer_actor import TakeAll
from pulsar_actors.runtime.topic_set_actor import Placed


class ProducerCrew:
    """The producers of one set. The actor calls its methods on its loop; callers read `partitions` and `closed`."""

    __slots__ = (
        "_beyond", "_initial_subscription", "_made", "_options", "_places", "_workshop",
        "closed", "interceptors", "partitions",
    )  # fmt: skip

    def __init__(self, workshop: Workshop, options: ProducerOptions, initial_subscription: str = "") -> None:
        self.closed: Exception | None = None
        self.partitions: list[ProducerParts] = []
        self.interceptors: ProducerInterceptors | None = None
        self._workshop = workshop
        self._options = options
        self._initial_subscription = initial_subscription
        self._made: dict[int, ProducerParts] = {}
        self._places: dict[str, ProducerParts] = {}  # by topic
        self._beyond: dict[int, ProducerParts] = {}  # by number, where one before them has no place yet

    def make(self, order: MakeMember, report: Report) -> None:
        """Make the producer of a partition."""
        member, topic, name, among, *_ = order
        options = self._options_of(topic, among)
        parts = self._places.get(topic) or producer_parts(self._workshop, options)
        self._made[member] = parts

        def placed(address: Address) -> None:
            report(Placed(member, address))
            tell(address, TakeAll())  # what callers have left while there was nobody to tell

        watch(parts, member, report, lambda: parts.machine.identity.name)
        first = self._initial_subscription
        start_producer(self._workshop, parts, options, initial_subscription=first, name=name, placed=placed)

    def owe(self, member: int, call: SlimFuture[Any]) -> None:
        """Have the producer owe the end of a call."""
        self._made[member].ties.debts.owe(call)

    def lose(self, member: int, report: Report) -> None:
        """Let go of a producer. If it never was there, callers get another place for its partition."""
        parts = self._made.pop(member, None)
        if parts is None or parts.ties.created.exception() is None:
            return
        topic = parts.reports.topic
        if self._places.get(topic) is parts:
            self._place(self._resting(topic, len(self._places), report))

    def admit(self, admission: Admit, report: Report) -> None:
        """Let callers use what is there, and wake what is not. What has gone keeps its place."""
        for member in admission.members.values():
            self._place(self._made[member])
        resting = [topic for topic in admission.resting if topic not in self._places]
        among = len(self._places) + len(resting)
        for topic in resting:
            self._place(self._resting(topic, among, report))

    def grow(self, topic: str, partitions: int) -> None:
        """Tell interceptors."""
        if self.interceptors is not None:
            self.interceptors.partitions_changed(topic, partitions)

    def serve(self) -> None:
        """Do nothing: that is for consumers."""

    def end(self, error: PulsarException) -> None:
        """Refuse what comes, and fail what waits for a producer that will not be made."""
        if self.closed is None:
            self.closed = error
        made = set(map(id, self._made.values()))
        for place in self._places.values():
            if id(place) not in made:
                place.end(error)

    def forget(self, error: Exception) -> None:
        """Refuse everything, in a forked child."""
        self.closed = error
        for place in self._places.values():
            place.forget(error)

    def _place(self, parts: ProducerParts) -> None:
        """Have a partition in its place, and show callers those up to the first that has none."""
        shown, partition = self.partitions, parts.reports.partition
        self._places[parts.reports.topic] = parts
        if partition < len(shown):
            shown[partition] = parts
            return
        self._beyond[partition] = parts
        while len(shown) in self._beyond:
            shown.append(self._beyond.pop(len(shown)))

    def _resting(self, topic: str, among: int, report: Report) -> ProducerParts:
        """Make a place without a producer."""
        parts = producer_parts(self._workshop, self._options_of(topic, among))
        parts.door.tell = lambda _: report(Wanted(topic))
        if self.closed is not None:
            parts.outbox.end(self.closed)
        return parts

    def _options_of(self, topic: str, among: int) -> ProducerOptions:
        options = self._options
        limit = pending_limit(options.max_pending_messages, options.max_pending_messages_across_partitions, among)
        return replace(options, topic=topic, max_pending_messages=limit)
