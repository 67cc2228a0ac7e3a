"""The permits of one consumer: the number of messages that the broker may still push (FLOW).

The broker sends nothing without a permit. Each SUBSCRIBE is followed by as many permits as the queue has room for, and
every message that leaves the queue, handed out or dropped, frees room for one. Freed room is granted again once half of
the queue is free, so that one command serves many messages. Three numbers always add up to the queue's size:

    permits at the broker  +  messages held here  +  freed room not yet granted  =  queue size

The tracker stores the first two, and the third follows from them. A broker sends a whole batch as soon as one permit is
left, so the permits at the broker may go below zero. A negative number is kept, and not set to 0: otherwise permits
would be lost with each such batch, and the consumer would stall in the end.

The flow cannot stall: with nothing held, the broker has the queue's size less what is not granted, which is less than
half of it.

The size may change, as the queues of several topics share their room. If it becomes less, the room not yet granted is
negative until enough messages have left the queue.

A queue of size 0 requests one message at a time, and only while a caller waits and nothing is held.

Counts of another generation are ignored: the broker forgot those permits together with the connection. The queue of a
non-persistent topic is kept when its connection is lost, and its generation with it: so its messages still count.

The number of messages in a batch is what its producer wrote, and it may be wrong. It is counted as it is, because the
broker deducts the same number: a consumer that did not return as many permits would get nothing more. The broker counts
in 32 bits and lets them overflow, so such numbers may be returned in parts.
"""

from pulsar_actors.exceptions import InternalError, InvalidArgument
from pulsar_actors.machines.trackers.entry_map import Generation

MOST_PERMITS = 2**31 - 1
"""The most permits in one FLOW: the field has room for twice as many, but brokers read it as signed."""


def queue_size_of_partition(queue_size: int, across_partitions: int, partitions: int) -> int:
    """Return the queue size of each partition, so that all together hold no more than `across_partitions`."""
    return min(queue_size, max(1, across_partitions // partitions))


def grant_threshold(queue_size: int) -> int:
    """Return the freed room from which on permits are granted again."""
    return max(1, queue_size // 2)


class FlowPermits:
    """The permits of one consumer. Methods that return a number return the permits to send in FLOW now; 0 is none."""

    __slots__ = ("at_broker", "generation", "held", "queue_size", "threshold", "waiting")

    def __init__(self, queue_size: int) -> None:
        if not 0 <= queue_size <= MOST_PERMITS:
            raise InvalidArgument(f"receiver_queue_size must be 0 to {MOST_PERMITS:,} messages, not {queue_size:,}")
        self.resize(queue_size)
        self.generation: Generation | None = None
        self.at_broker = 0
        self.held = 0
        self.waiting = 0

    def resize(self, queue_size: int) -> None:
        """Change the size of the queue. More room is granted with the next `returned`."""
        self.queue_size = queue_size
        self.threshold = grant_threshold(queue_size)

    @property
    def freed(self) -> int:
        """The room that is free and not granted yet. A queue of size 0 has none."""
        return self.queue_size - self.held - self.at_broker if self.queue_size else 0

    def subscribed(self, generation: Generation) -> int:
        """Start on a new connection: the broker has no permits, and the queue is empty, unless it was not cleared."""
        self.at_broker = 0
        if generation != self.generation:
            self.generation = generation
            self.held = 0
        return self._grant()

    def cleared(self, generation: Generation) -> int:
        """Start a new epoch, or go on after a seek, on this connection: the queue is empty, and its room free."""
        self.generation = generation
        self.held = 0
        return self._grant()

    def arrived(self, generation: Generation, count: int) -> None:
        """Count messages that used permits: those of an entry, but not those masked by the broker's `ack_set`."""
        if count < 0:
            raise InternalError(f"{count} messages cannot have arrived")
        if generation == self.generation:
            self.at_broker -= count
            self.held += count

    def handed_out(self, generation: Generation, count: int) -> int:
        """Free the room of messages that were handed out."""
        self.waiting_served(count)
        return self._grant() if self._free(generation, count) else 0

    def waiting_served(self, count: int) -> None:
        """Count down the waiting callers: so many have got their message, from any connection."""
        self.waiting = max(0, self.waiting - count)

    def freed_unbound(self, generation: Generation, count: int) -> None:
        """Free the room of messages while there is no connection. The next one gets the permits."""
        self._free(generation, count)

    def returned(self, generation: Generation, count: int) -> int:
        """Free the room of messages that are never handed out: corrupt ones, duplicates, chunks and the like."""
        return self._grant() if self._free(generation, count) else 0

    def add_waiting(self) -> None:
        """Count a caller that waits while there is no connection. The next connection gets the permit."""
        self.waiting += 1

    def add_waiting_and_grant(self) -> int:
        """Count a caller that waits for one message, for which a queue of size 0 grants a permit."""
        self.add_waiting()
        return self._grant() if self.generation is not None else 0

    def remove_waiting(self) -> None:
        """Count one waiting caller less. A permit at the broker stays there, and serves the next caller."""
        self.waiting = max(0, self.waiting - 1)

    def _free(self, generation: Generation, count: int) -> bool:
        if generation != self.generation:
            return False
        if not 0 <= count <= self.held:
            raise InternalError(f"{count} messages cannot leave a queue that holds {self.held}")
        self.held -= count
        return True

    def _grant(self) -> int:
        due = self.freed if self.queue_size else self._due_to_waiting()
        if due < self.threshold:
            return 0
        self.at_broker += due
        return due

    def _due_to_waiting(self) -> int:
        return 1 - self.at_broker if self.waiting and not self.held else 0
