"""A producer of a partitioned topic, as users hold it: one that has a producer for each partition behind it."""

from functools import partial

from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.producing.producer_parts import ProducerParts
from pulsar_actors.client.sets.producer_set_parts import ProducerSetParts
from pulsar_actors.machines.topic_set_events import Ask
from pulsar_actors.runtime.producer_actor import FlushAll


class PartitionedProducer(Producer):
    """The producers of all partitions, in one. What they have in common is asked of the set, the rest of each."""

    def __init__(self, parts: ProducerSetParts, options: ProducerOptions, client: object) -> None:
        super().__init__(parts, options, client)
        self._set = parts
        self._crew = parts.crew

    def producer_name(self) -> str:
        """Return the name that was given, or that the broker chose; all partitions have it."""
        return self._options.producer_name or self._set.machine.name

    def last_sequence_id(self) -> int:
        """Return the highest sequence id that a broker has stored, on any partition; -1 for none."""
        return max((parts.machine.sequence_ids.last_published for parts in self._members()), default=-1)

    def is_connected(self) -> bool:
        """Tell whether brokers serve all its partitions now, or those that have been started."""
        return self._crew.closed is None and all(parts.machine.is_bound for parts in self._members())

    def flush(self) -> None:
        """Wait until everything sent so far is stored or has failed."""
        self._set.engine.refuse_inside("flush()", "the callbacks of send_async()")
        self._call(partial(Ask, request=FlushAll), f"flush() of {self._topic}")

    def _members(self) -> list[ProducerParts]:
        """Give the parts of those that have been started."""
        return [parts for parts in self._crew.partitions if hasattr(parts, "machine")]
