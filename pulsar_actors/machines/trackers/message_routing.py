"""The routing of messages to partitions.

A message with a key goes to the partition of the key, so messages of one key stay in order. Without a key, a producer
uses either one partition only, or all in turn (round robin). With batching, round robin stays on a partition until a
batch is full there, by count, bytes or time: changing with each message would make many small batches. Each producer
starts at a random partition (`jitter`), or a thousand producers would all burden the first one at the same time.

The number of partitions is an argument of every call, because topics grow. `now` is in monotonic seconds.

All producers of a topic must agree on the hash of keys, or messages of one key land on two partitions and lose their
order. The Java client's default is its language's string hash, the C++ family (and so the official Python client) uses
the hash of the Boost library; Murmur3 is the one that both offer. Java hashes UTF-16 units, the others UTF-8 bytes.
Results are cut to 31 bits, because Java has no unsigned numbers.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import accumulate
from operator import index
from types import MappingProxyType
from typing import Generic, TypeVar

from pulsar_actors.compiling import Given
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.batching import BatchLimits

M = TypeVar("M")

KeyHash = Callable[[str], int]


class SinglePartition:
    """Sends all messages without a key to one partition, which is chosen once."""

    __slots__ = ("_chosen", "_hash", "_jitter")

    def __init__(self, key_hash: KeyHash, jitter: Callable[[], float]) -> None:
        self._hash = key_hash
        self._jitter = jitter
        self._chosen: int | None = None

    def route(self, key: str | None, size: int, partitions: int, now: float) -> int:
        """Choose the partition of one message."""
        if key is not None:
            return self._hash(key) % partitions
        if self._chosen is None:
            self._chosen = int(self._jitter() * partitions)
        return self._chosen

    def route_run(self, sizes: Sequence[int], partitions: int, now: float) -> tuple[int, int]:
        """Choose the partition of the first of several messages without a key, and count those that follow it there."""
        return self.route(None, sizes[0], partitions, now), len(sizes)


class RoundRobin:
    """Sends messages without a key to all partitions in turn: a batch at a time, or one message if `limits` is None."""

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
        limits, cursor = self._limits, self._cursor
        if cursor is None:
            cursor = self._move(int(self._jitter() * partitions), now)
        elif (
            limits is None
            or self._messages >= limits.messages
            or self._bytes + size > limits.size
            or now >= self._since + limits.delay
        ):  # the batch is full without this message
            cursor = self._move(cursor + 1, now)
        self._messages += 1
        self._bytes += size
        return cursor % partitions

    def route_run(self, sizes: Sequence[int], partitions: int, now: float) -> tuple[int, int]:
        """Choose the partition of the first of several messages without a key, and count those that follow it there."""
        partition = self.route(None, sizes[0], partitions, now)
        limits = self._limits
        if limits is None or now >= self._since + limits.delay:
            return partition, 1
        places = 1 + limits.messages - self._messages
        totals = list(accumulate(sizes[1:places], initial=self._bytes))
        run = bisect_right(totals, max(limits.size, self._bytes))
        self._messages += run - 1
        self._bytes = totals[run - 1]
        return partition, run

    def _move(self, cursor: int, now: float) -> int:
        self._cursor = cursor
        self._messages = self._bytes = 0
        self._since = now
        return cursor


class CustomRouting(Generic[M]):
    """The user chooses, and the answer is checked."""

    __slots__ = ("_choose",)

    def __init__(self, choose: Callable[[M, int], Given[int]]) -> None:
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


_31_BITS = 0x7FFFFFFF
_32_BITS = 0xFFFFFFFF
_64_BITS = 0xFFFFFFFFFFFFFFFF

# As `memoryview.cast` reads it: in the byte order of the machine, and with no mark in front.
_UTF_16 = f"utf-16-{sys.byteorder[0]}e"

_BOOST_STEP = 0x9E3779B97F4A7C15
_BOOST_FACTOR = 0xDF442D22CE4859B9
_MURMUR_C1 = 0xCC9E2D51
_MURMUR_C2 = 0x1B873593


class HashName(Enum):
    """The names under which users choose a hash."""

    JAVA_STRING = "JavaStringHash"
    MURMUR3_32 = "Murmur3_32Hash"
    BOOST = "BoostHash"


def _encoded(key: str, encoding: str) -> bytes:
    try:
        return key.encode(encoding)
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"a key is Unicode text, got {key!r}: {error.reason}") from error


def java_string_hash(key: str) -> int:
    """Return the value of Java's `String.hashCode`, without its sign bit."""
    units = memoryview(_encoded(key, _UTF_16)).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & _32_BITS
    return value & _31_BITS


def _murmur_mixed(block: int) -> int:
    block = block * _MURMUR_C1 & _32_BITS
    return ((block << 15 | block >> 17) & _32_BITS) * _MURMUR_C2 & _32_BITS


def murmur3_32(data: bytes) -> int:
    """Return the 32-bit MurmurHash3 with seed 0, all 32 bits of it."""
    whole = len(data) & ~3
    value = 0
    for at in range(0, whole, 4):
        value ^= _murmur_mixed(int.from_bytes(data[at : at + 4], "little"))
        value = ((value << 13 | value >> 19) * 5 + 0xE6546B64) & _32_BITS
    value ^= _murmur_mixed(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & _32_BITS
    value = (value ^ value >> 13) * 0xC2B2AE35 & _32_BITS
    return value ^ value >> 16


def _boost_folded(left: int, right: int) -> int:
    product = (left & _64_BITS) * right
    return (product ^ product >> 64) & _64_BITS


_BOOST_FIRST = _boost_folded(_BOOST_STEP, _BOOST_FACTOR)


def _boost_tail(rest: bytes) -> int:
    """Read 0 to 7 bytes; the shorter forms overlap rather than branch, as the original does."""
    size = len(rest)
    if size >= 4:  # noqa: PLR2004 - two 32-bit words that overlap cover 4 to 7 bytes
        return int.from_bytes(rest[-4:], "little") << 8 * (size - 4) | int.from_bytes(rest[:4], "little")
    if size == 0:
        return 0
    middle, last = (size - 1) & 2, size >> 1
    return rest[middle] << 8 * middle | rest[last] << 8 * last | rest[0]


def boost_64(data: bytes) -> int:
    """Return Boost's 64-bit string hash, with all 64 bits."""
    step = _BOOST_FIRST
    value = step ^ len(data)
    whole = len(data) & ~7
    blocks = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    for block in (*blocks, _boost_tail(data[whole:])):
        step += _BOOST_STEP
        value ^= _boost_folded(block + step, _BOOST_FACTOR)
    return _boost_folded(value + step, _BOOST_FACTOR)


HASHES: Mapping[HashName, Callable[[str], int]] = MappingProxyType(
    {
        HashName.JAVA_STRING: java_string_hash,
        HashName.MURMUR3_32: lambda key: murmur3_32(_encoded(key, "utf-8")) & _31_BITS,
        HashName.BOOST: lambda key: boost_64(_encoded(key, "utf-8")) & _31_BITS,
    }
)
