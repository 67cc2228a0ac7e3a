"""Measure how large a receiver queue keeps a program busy that computes for each message.

    python tests/benchmarks/receiver_queue.py [--service-url pulsar://...] [--messages 60000] [--rounds 9]

While a program computes, it holds the interpreter's lock. The I/O thread waits for the lock up to a switch interval,
five milliseconds, each time before it hands over what has come, and before it grants further permits. Meanwhile the
program receives what is queued; if the queue is empty first, both wait.

The program of this measurement receives, computes for some microseconds, and acknowledges, for each queue size. It
computes in Python's steps, with the lock. The sizes take turns, so that other load of the machine affects all of them.

The table has medians, for each message: the CPU time of the process; and the time that the program's thread slept,
because there was no message. It does not sleep while it waits for a processor, so other load counts little. The rate
depends on other load the most: it has the least and the most beside it.
"""

import argparse
import contextlib
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, Final, NamedTuple

import pulsar_actors as pulsar
from tests.benchmarks.comparison import broker
from tests.benchmarks.contests import BEST

SIZES: Final = (100, 500, 1000, 2000, 5000, 10_000, 20_000)
MICROSECONDS: Final = (0, 2, 10)
PATIENCE_MS: Final = 60_000
_CALIBRATION: Final = 200_000


def computation(microseconds: float) -> Callable[[], None]:
    """Return a function that takes so long, in Python's steps."""
    if not microseconds:
        return _nothing
    fastest = min(seconds_of(_loop(_CALIBRATION)) for _ in range(5))
    return _loop(max(1, round(microseconds * 1e-6 / fastest * _CALIBRATION)))


def _nothing() -> None:
    """Do nothing."""


def _loop(steps: int) -> Callable[[], None]:
    def compute() -> None:
        for _ in repeat(None, steps):  # a range would make integers, and takes longer for large ones
            pass

    return compute


def seconds_of(compute: Callable[[], None]) -> float:
    """Return the CPU time of a call."""
    began = time.thread_time()
    compute()
    return time.thread_time() - began


class Figures(NamedTuple):
    """The messages a second, and the microseconds of CPU and of sleep for each message."""

    rate: float
    cpu: float
    asleep: float


def receive(client: Any, topic: str, messages: int, queue_size: int, compute: Callable[[], None]) -> Figures:
    """Receive so many messages, and compute for each."""
    consumer = client.subscribe(
        topic, uuid.uuid4().hex, initial_position=pulsar.InitialPosition.Earliest, receiver_queue_size=queue_size
    )
    take, acknowledge = consumer.receive, consumer.acknowledge
    acknowledge(take(PATIENCE_MS))
    began, cpu, awake = time.perf_counter(), time.process_time(), _awake()
    for _ in range(messages - 1):
        message = take(PATIENCE_MS)
        message.data()
        compute()
        acknowledge(message)
    took, cpu, awake = time.perf_counter() - began, time.process_time() - cpu, _awake() - awake
    consumer.unsubscribe()
    each = 1e6 / (messages - 1)
    return Figures(1e6 / (took * each), cpu * each, max(0.0, took - awake) * each)


def _awake() -> float:
    """Return the seconds that this thread has run or waited for a processor."""
    run, waited, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return (int(run) + int(waited)) / 1e9


def table(found: Mapping[tuple[float, int], Sequence[Figures]]) -> str:
    """Return the figures as text, a line for each computation and queue size."""
    lines = ["computing, us  queue size  CPU, us  asleep, us  messages a second"]
    for (microseconds, size), figures in found.items():
        rates, cpu, asleep = zip(*figures, strict=True)
        rate = f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
        times = f"{statistics.median(cpu):>7.2f}  {statistics.median(asleep):>10.2f}"
        lines.append(f"{microseconds:>13g}  {size:>10,}  {times}  {rate}")
    return "\n".join(lines)


def measure(
    client: Any,
    messages: int,
    rounds: int,
    sizes: Sequence[int] = SIZES,
    microseconds: Sequence[float] = MICROSECONDS,
) -> str:
    """Fill a topic, let the sizes take turns, and return the table."""
    topic = f"persistent://public/default/receiver-queue-{uuid.uuid4().hex[:12]}"
    client.subscribe(topic, "keeps the messages").close()
    producer = client.create_producer(topic, **BEST)
    producer.send_many([b"x" * 100] * messages).result(PATIENCE_MS / 1e3)
    producer.close()
    computations = {each: computation(each) for each in microseconds}
    found: dict[tuple[float, int], list[Figures]] = {(each, size): [] for each in microseconds for size in sizes}
    for _ in range(rounds):
        for (each, size), figures in found.items():
            figures.append(receive(client, topic, messages, size, computations[each]))
    return table(found)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url")
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        service_url = given.service_url or stack.enter_context(broker()).service_url
        client = stack.enter_context(contextlib.closing(pulsar.Client(service_url)))
        measure(client, given.messages, 1, SIZES[-1:])  # what is slow the first time
        print(measure(client, given.messages, given.rounds))


if __name__ == "__main__":
    main(sys.argv[1:])
