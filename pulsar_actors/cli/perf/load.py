"""The load of a measurement: payloads, keys and properties of messages, and the pace at which they are sent.

Payloads are made before the run, so that making them is not measured. A sender that is late sends all due messages at
once. Latencies count from the moment when a message was due: counted from a late start they would not include the wait.
"""

import itertools
import random
import string
import threading
import time
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

_KEY_COUNT: Final = 10_000


class KeyMode(Enum):
    """The ways to choose the keys of messages, with the names of pulsar-perf."""

    none = "none"
    random = "random"
    increment = "autoIncrement"


PayloadAndOptions = tuple[bytes, dict[str, Any]]  # a payload, and the other arguments of `send_async`


def random_letters(size: int) -> bytes:
    """Return a payload of random letters, which compress to some extent."""
    dice = random.Random(size)  # noqa: S311 - the same in each run
    return "".join(dice.choices(string.ascii_uppercase, k=size)).encode()


def payloads_from_file(path: Path, delimiter: str) -> list[bytes]:
    """Read the payloads of a file, which are separated by a delimiter."""
    found = path.read_bytes().split(delimiter.encode().decode("unicode_escape").encode())
    payloads = [each for each in found if each]
    if not payloads:
        raise ValueError(f"{path} has no payload")
    return payloads


def endless_contents(
    payloads: Sequence[bytes], keys: KeyMode, properties: dict[str, str]
) -> Iterator[PayloadAndOptions]:
    """Return messages without end, with the payloads in turn."""
    always = {"properties": properties} if properties else {}
    each = itertools.cycle(payloads)
    if keys is KeyMode.none:
        return ((payload, always) for payload in each)
    numbers = itertools.count() if keys is KeyMode.increment else _random_numbers()
    return ((payload, {"partition_key": str(number), **always}) for payload, number in zip(each, numbers, strict=False))


def _random_numbers() -> Iterator[int]:
    dice = random.Random(_KEY_COUNT)  # noqa: S311 - the same in each run
    return (dice.randrange(_KEY_COUNT) for _ in itertools.count())


MESSAGES_PER_CHECK: Final = 200
"""Messages that a sender without a rate may send before it checks if the run is over."""

_LONGEST_WAIT: Final = 0.5


class Pace:
    """The pace of one sender. A rate of 0 is as fast as possible; without a limit there is no end."""

    __slots__ = ("_done", "_limit", "_rate", "_sent", "start")

    def __init__(self, rate: float, limit: int | None, done: threading.Event) -> None:
        self.start = 0.0
        self._rate = rate
        self._limit = limit
        self._done = done
        self._sent = 0

    def begin(self) -> None:
        """Make the first message due now."""
        self.start = time.perf_counter()

    def next(self, most: int = MESSAGES_PER_CHECK) -> int:
        """Wait until messages are due, and return how many; 0 if there are no more."""
        while not self._done.is_set():
            left = most if self._limit is None else min(most, self._limit - self._sent)
            due = min(left, self._due_by(time.perf_counter()))
            if due or not left:
                self._sent += due
                return due
            self._done.wait(min(_LONGEST_WAIT, max(0.0, self.due_at(self._sent) - time.perf_counter())))
        return 0

    def due_at(self, number: int) -> float:
        """Return when a message is due, by `time.perf_counter`. The first message has the number 0."""
        return self.start + number / self._rate if self._rate else time.perf_counter()

    def _due_by(self, now: float) -> int:
        if not self._rate:
            return self._sent + MESSAGES_PER_CHECK
        return int((now - self.start) * self._rate) + 1 - self._sent
