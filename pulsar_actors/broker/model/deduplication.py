"""Which sequence ids a topic has seen of each producer name, so that what was sent again is stored once.

An entry is a duplicate if its first sequence id is not above the highest one seen. The chunks of a message share one
id, so only the last chunk is looked at, and counts. Names are remembered for good; switching it off forgets them all.
"""

from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata


class Deduplication:
    """The sequence ids of one topic."""

    __slots__ = ("_highest",)

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def last_of(self, producer: str) -> int:
        """Give the highest sequence id of a name, -1 for none."""
        return self._highest.get(producer, -1)

    def is_duplicate(self, producer: str, first: int, last: int, metadata: MessageMetadata) -> bool:
        """Tell whether the topic has it already; what it has not is taken for stored."""
        if metadata.HasField("chunk_id") and metadata.chunk_id != metadata.num_chunks_from_msg - 1:
            return False
        if first <= self.last_of(producer):
            return True
        self._highest[producer] = last
        return False

    def forget(self) -> None:
        """Begin anew."""
        self._highest.clear()
