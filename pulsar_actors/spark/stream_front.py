"""The side of a stream that is on the driver: where it begins, how far it can go, and what its batches are.

A partition that turns up while a stream runs is read from its first message on. One that has gone has taken its
messages with it, and so has a topic that was made anew under the same name: its end is before what has been read.

An empty topic tells of no end, whatever it had once: then the end is where reading has come to.

Brokers move a subscription that has all of a ledger to the beginning of the next one. So a subscription that stands
there was moved by somebody else only if it had not come to the end of its ledger, as far as that was seen.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from pulsar_actors.exceptions import InvalidConfiguration, PulsarException, TopicNotFound
from pulsar_actors.runtime.log import LOG
from pulsar_actors.spark.backlog import Backlog, Seen
from pulsar_actors.spark.loss import lose
from pulsar_actors.spark.offsets import Offsets
from pulsar_actors.spark.options import DEFAULT_PREFIX, ReadOptions
from pulsar_actors.spark.places import AtTime, Latest
from pulsar_actors.spark.planning import resolve, split_further
from pulsar_actors.spark.position import EARLIEST, Position
from pulsar_actors.spark.rate import Rate
from pulsar_actors.spark.span import Span
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["StreamFront"]

SURVEY: Final = 5.0
"""Seconds between two looks for new partitions."""


class StreamFront:
    """That of one query, with a client of its own."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._client = options.cluster.client()
        self._rate = Rate(options)
        self._backlog: Backlog | None = None
        self._topics: list[TopicName] | None = None
        self._surveyed = 0.0
        self._target: Mapping[TopicName, Position] | None = None
        self._seen: dict[TopicName, Seen] = {}
        self._furthest: dict[TopicName, Position] = {}  # that an end has been, as far as was seen
        self._had_more: set[TopicName] = set()  # behind the start of the batch, before it was planned
        self._last: Offsets | None = None

    def begin(self) -> Offsets:
        """Find where the stream begins, and have the brokers keep what comes after that."""
        options = self._options
        topics = self._survey()
        options.topics.require(topics)
        options.starting.check(topics, options.topics.awaited)
        backlog = self._backlog_of(self._name())
        backlog.watch(topics)
        self._refuse_a_time_ahead(topics)
        positions = {topic: self._beginning(backlog, topic) for topic in topics}
        backlog.release(positions)
        self._last = Offsets(backlog.subscription, positions)
        return self._last

    def aim(self) -> None:
        """Go no further from now on than the topics go at the moment."""
        self._target = {topic: resolve(self._client, topic, Latest(), self._options.prefix) for topic in self._survey()}

    def known_start(self) -> Offsets:
        """Give what is known of where a batch starts, where Spark does not say: nothing, in a query that goes on."""
        return self._last or Offsets(self._name(), {})

    def latest(self, start: Offsets, *, is_limited: bool) -> Offsets:
        """Say how far the next batch goes.

        What is before its start has been committed, of which Spark itself tells only when there is another batch.
        """
        ends = self._ends(start)
        self.release(start)
        if self._target is not None:
            known = {topic: end for topic, end in ends.items() if topic in self._target}
            ends = {topic: min(end, max(self._target[topic], start.at(topic))) for topic, end in known.items()}
        return Offsets(start.subscription, self._rate.limit(start, ends) if is_limited else ends)

    def outlook(self, read: Offsets) -> dict[str, Any]:
        """Tell how far one could go, and how many entries are left then, if the broker's statistics can be had."""
        ends = {topic: seen.end for topic, seen in self._seen.items()}
        try:
            entries = self._rate.entries_behind(read, ends)
        except PulsarException as fault:  # which is no reason for a query to end
            LOG.warning("how far the query is behind cannot be told: %s", fault)
            entries = None
        told = Offsets(read.subscription, ends).write()
        return told if entries is None else {**told, "entriesBehind": entries}

    def spans(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Give what each task of a batch is to read."""
        self._last = end
        spans: list[Span] = []
        there = set(self._survey())
        for topic, until in end.positions.items():
            begun = start.at(topic)
            if topic not in there:  # and it was, when this batch was begun for the first time
                self._lose(f"{topic} is gone")
            elif begun != until:
                spans.append(Span(str(topic), begun if begun < until else EARLIEST, until, self._moved(start, topic)))
        return split_further(spans, self._options)

    def release(self, read: Offsets) -> None:
        """Let the brokers go of what has been read."""
        self._backlog_of(read.subscription).release(read.positions)

    def close(self) -> None:
        """Leave the subscription as it is: a query that goes on from the checkpoint finds it there."""
        try:
            self._rate.close()
        finally:
            self._client.close()

    def _beginning(self, backlog: Backlog, topic: TopicName) -> Position:
        """Find where a partition begins: a subscription that somebody else made says so, unless the user does."""
        options = self._options
        if options.subscription is not None and not options.starting.says_of(topic):
            return backlog.look(topic).kept_from or EARLIEST
        return resolve(self._client, topic, options.starting.of(topic), options.prefix)

    def _refuse_a_time_ahead(self, topics: Sequence[TopicName]) -> None:
        """Refuse to begin with messages that are not there yet: what would be skipped until then, nobody could tell."""
        now = time.time() * 1000
        for topic in topics:
            place = self._options.starting.of(topic)
            if isinstance(place, AtTime) and place.ms > now:
                raise InvalidConfiguration(f"startingTime of {topic} is {place.ms - now:,.0f} ms ahead")

    def _ends(self, start: Offsets) -> dict[TopicName, Position]:
        """Ask how far the partitions go that there are."""
        self._had_more = {topic for topic, end in self._furthest.items() if start.at(topic) < end}
        self._seen = self._look(start)
        self._furthest = {
            topic: max(seen.end, self._furthest.get(topic, EARLIEST)) for topic, seen in self._seen.items()
        }
        ends: dict[TopicName, Position] = {}
        for topic, seen in self._seen.items():
            begun = start.at(topic)
            if topic not in start.positions and seen.end == EARLIEST and seen.kept_from is not None:
                ends[topic] = seen.kept_from
            else:
                ends[topic] = begun if seen.end == EARLIEST else seen.end
            if ends[topic] < begun:
                self._lose(
                    f"{topic} ends at {seen.end.text(-1)}, and was read up to {begun.text(-1)}: it was truncated, or "
                    "made anew"
                )
        gone = sorted(set(start.positions) - set(ends))
        if gone:
            self._lose(f"{', '.join(map(str, gone))} is gone")
        return ends

    def _look(self, start: Offsets) -> dict[TopicName, Seen]:
        """Look at the partitions that there are; what has gone is left."""
        topics = self._survey()
        backlog = self._backlog_of(start.subscription)
        for topic in set(start.positions) - set(topics):
            backlog.forget(topic)
        seen: dict[TopicName, Seen] = {}
        for topic in topics:
            try:
                seen[topic] = backlog.look(topic)
            except TopicNotFound:  # since the last survey
                backlog.forget(topic)
        return seen

    def _moved(self, start: Offsets, topic: TopicName) -> str | None:
        """Tell whether somebody has moved the subscription beyond what has been read."""
        seen = self._seen.get(topic)
        if seen is None:
            seen = self._seen[topic] = self._backlog_of(start.subscription).look(topic)
        begun = start.at(topic)
        if seen.kept_from is None or seen.kept_from <= begun or begun == EARLIEST:
            return None
        if seen.kept_from.is_first_of_its_ledger and topic not in self._had_more:
            return None
        return (
            f"the subscription {start.subscription} was moved to {seen.kept_from.text(-1)}, by an administrator, or by "
            "the broker, which keeps messages no longer than its time to live and its backlog quota allow"
        )

    def _name(self) -> str:
        """Name the subscription: as users say, or by chance, which a checkpoint then remembers."""
        return self._said_name() or f"{DEFAULT_PREFIX}-{secrets.token_hex(8)}"

    def _said_name(self) -> str | None:
        options = self._options
        return options.subscription or (None if options.prefix == DEFAULT_PREFIX else options.prefix)

    def _lose(self, what: str) -> None:
        lose(what, fails=self._options.fails_on_loss)

    def _backlog_of(self, subscription: str) -> Backlog:
        if self._backlog is None:
            said = self._said_name()
            if said not in {None, subscription}:
                raise InvalidConfiguration(
                    f"the subscription of this checkpoint is {subscription}, and the options name {said}: leave that "
                    "out, or begin with a new checkpoint"
                )
            self._backlog = Backlog(self._client, subscription)
        return self._backlog

    def _survey(self) -> list[TopicName]:
        """Look which partitions there are, unless that was done just now."""
        if self._topics is None or time.monotonic() - self._surveyed >= SURVEY:
            self._topics = self._options.topics.partitions(self._client)
            self._surveyed = time.monotonic()
        return self._topics
