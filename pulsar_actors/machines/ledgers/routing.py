"""Which partition a message goes to.

A key always decides, so that messages of one key stay in order. Without a key, a producer either keeps to one partition
for life, or goes round. Going round message by message would make many small batches, so with batching on it stays on a
partition until a batch is full there, by count, by bytes or by time. Each producer starts at a partition of its own
choosing (`jitter`), or a thousand producers would all burden the first one at the same time.

The number of partitions is an argument of every call, because topics grow. `now` is in monotonic seconds.
"""

from collections.abc import Callable
from operator import index
from typing import Generic, TypeVar

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.batching import BatchLimits

M = TypeVar("M")

KeyHash = Callable[[str], int]


class SinglePartition:
    """Everything without a key to one partition, chosen once."""

    __slots__ = ("_chosen", "_hash", "_jitter")

    def __init__(self, key_hash: KeyHash, jitter: Callable[[], float]) -> None:
        self._hash = key_hash
        self._jitter = jitter
        self._chosen: int | None = None

    def route(self, key: str | None, size: int, partitions: int, now: float) -> int:
        """Choose for one message."""
        if key is not None:
            return self._hash(key) % partitions
        if self._chosen is None:
            self._chosen = int(self._jitter() * partitions)
        return self._chosen


class RoundRobin:
    """Messages without a key go round, a batch at a time; a message at a time where `limits` is None."""

    __slots__ = ("_bytes", "_cursor", "_hash", "_jitter", "_limits", "_messages", "_since")

    def __init__(self, key_hash: KeyHash, jitter: Callable[[], float], limits: BatchLimits | None) -> None:
        self._hash = key_hash
        self._jitter = jitter
        self._limits = limits
        self._cursor: int | None = None
        self._messages = 0
        self._bytes = 0
        self._since = 0.0

    def route(self, key: str | None, size: int, partitions: int, now: float) -> int:
        """Choose for one message of `size` bytes."""
        if key is not None:
            return self._hash(key) % partitions
        if self._cursor is None:
            self._move(int(self._jitter() * partitions), now)
        elif self._is_full(size, now):
            self._move(self._cursor + 1, now)
        self._messages += 1
        self._bytes += size
        return (self._cursor or 0) % partitions

    def _is_full(self, size: int, now: float) -> bool:
        """Tell before the message is added, unlike `BatchLimits.full`: it would go to the next partition."""
        limits = self._limits
        return (
            limits is None
            or self._messages >= limits.messages
            or self._bytes + size > limits.size
            or now >= self._since + limits.delay
        )

    def _move(self, cursor: int, now: float) -> None:
        self._cursor = cursor
        self._messages = self._bytes = 0
        self._since = now


class CustomRouting(Generic[M]):
    """The user chooses, and the answer is checked."""

    __slots__ = ("_choose",)

    def __init__(self, choose: Callable[[M, int], int]) -> None:
        self._choose = choose

    def route(self, message: M, partitions: int) -> int:
        """Ask the user's function for one message."""
        answer = self._choose(message, partitions)
        try:
            partition = index(answer)
        except TypeError:
            raise InvalidArgument(f"a message router returns a partition's number, got {answer!r}") from None
        if not 0 <= partition < partitions:
            raise InvalidArgument(f"a message router returns a number from 0 to {partitions - 1}, got {partition}")
        return partition
