"""Counts the messages of a stream's next batch, so that `maxOffsetsPerTrigger` is exact.

How many messages an entry has, only the entry itself says. So the driver reads the entries of a batch, as its tasks do
later, and counts. It has a reader for each partition, which goes on from batch to batch and reads ahead. That costs the
driver as much network traffic as a batch has bytes, and some microseconds for each entry.
"""

from collections.abc import Mapping

from pulsar_actors.client.client import Client
from pulsar_actors.client.message_id import new_message_id
from pulsar_actors.client.reader import Reader
from pulsar_actors.client.receiving import receiving_internals
from pulsar_actors.runtime.opened_entry import EntryContents
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.read_task import MISS_NOTHING, clipped, next_entry, position_after
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TopicPosition

__all__ = ["MessageCounters"]


class MessageCounters:
    """The counters of one stream, for partitions with a backlog."""

    def __init__(self, client: Client, options: ReadOptions) -> None:
        self._client = client
        self._options = options
        self._counters: dict[TopicName, _Counter] = {}
        self._turn = 0

    def positions_after(
        self,
        most: int,
        starts: Mapping[TopicName, TopicPosition],
        ends: Mapping[TopicName, TopicPosition],
        weights: Mapping[TopicName, float],
    ) -> tuple[int, dict[TopicName, TopicPosition]]:
        """Return the number of messages from the starts on, so many at most, and the positions after them.

        Each partition gets a share by its weight. What one does not need goes to the others.
        """
        counters: list[_Counter] = [self._counter(topic, starts[topic], ends[topic]) for topic in starts]
        left = most - sum(counter.count for counter in counters)
        first = self._turn % max(1, len(counters))
        self._turn += 1  # if there are more partitions than messages, others come first each time
        waiting: list[_Counter] = counters[first:] + counters[:first]
        while left > 0 and waiting:
            total = sum(weights[counter.topic] for counter in waiting)
            share = left / total if total else 0.0
            for counter in waiting:
                left -= counter.go_on(min(left, max(1, int(share * weights[counter.topic]))))
            waiting = [counter for counter in waiting if not counter.is_at_end]
        return most - left, {counter.topic: counter.position for counter in counters}

    def _counter(self, topic: TopicName, start: TopicPosition, end: TopicPosition) -> "_Counter":
        counter = self._counters.get(topic)
        if counter is None or not counter.begin(start):
            if counter is not None:
                counter.close()
            counter = self._counters[topic] = _Counter(self._client, topic, start, self._options)
        counter.end = end
        return counter

    def close_others(self, topics: Mapping[TopicName, TopicPosition]) -> None:
        """Close the readers of partitions that do not exist any longer."""
        for topic in set(self._counters) - set(topics):
            self._counters.pop(topic).close()


class _Counter:
    """The counter of one partition. `position` is that after the messages that are counted, from `start` on."""

    def __init__(self, client: Client, topic: TopicName, start: TopicPosition, options: ReadOptions) -> None:
        self.topic = topic
        self.start = self.position = self.end = start
        self.count = 0
        self._poll_timeout_ms = options.poll_timeout_ms
        self._entry: EntryContents | None = None  # one of which not all messages are counted
        self._reader: Reader = client.create_reader(
            str(topic),
            new_message_id(start.message_id),
            start_message_id_inclusive=True,
            subscription_role_prefix=options.prefix,
            **options.reader,
            **MISS_NOTHING,
        )

    def begin(self, start: TopicPosition) -> bool:
        """Begin a batch there; return whether this can be done without another reader."""
        if start == self.position:
            self.start, self.count = start, 0
        return start == self.start

    @property
    def is_at_end(self) -> bool:
        return self.position >= self.end

    def go_on(self, most: int) -> int:
        """Count so many messages more, if there are so many before the end."""
        before = self.count
        while self.count - before < most and not self.is_at_end:
            entry = self._next_entry()
            messages = None if entry is None else clipped(entry, self.position, self.end)
            if entry is None:
                self.position = self.end  # what is missing before the end is no message, or is lost
            elif messages is not None:
                self._count(entry, messages, most - (self.count - before))
            elif position_after(entry) > self.end:
                self._entry, self.position = entry, self.end
        return self.count - before

    def _count(self, entry: EntryContents, messages: EntryContents, most: int) -> None:
        size = len(messages.indexes)
        if size > most:
            ledger_id, entry_id = entry.entry.message_id.position
            self._entry, self.position = entry, TopicPosition(ledger_id, entry_id, messages.indexes[most])
        else:
            self.position = position_after(messages)
            if self.position < position_after(entry):
                self._entry = entry
        self.count += min(size, most)

    def _next_entry(self) -> EntryContents | None:
        entry, self._entry = self._entry, None
        if entry is None:
            entry = next_entry(self._reader, self._poll_timeout_ms)
            receiving_internals(self._reader).take_skipped()  # the tasks find out what that means
        return entry

    def close(self) -> None:
        self._reader.close()
