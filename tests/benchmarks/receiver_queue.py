"""Measure how large a receiver queue keeps a program busy that computes for each message.

    python tests/benchmarks/receiver_queue.py [--service-url pulsar://...] [--messages 100000] [--rounds 7]

While a program computes, it holds the interpreter's lock. The I/O thread waits for the lock up to a switch interval,
five milliseconds, each time before it hands over what has come, and before it grants further permits. Meanwhile the
program receives what is queued; if the queue is empty first, both wait.

The program of this measurement receives, computes for some microseconds, and acknowledges, for each queue size. It
computes in Python's steps, with the lock. The sizes take turns, so that other load of the machine affects all of them.
The table has the messages a second: medians, and the least and the most. After that is the share of the rate that the
largest queue reached in the same round, the median of all rounds.
"""

import argparse
import contextlib
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import pulsar_actors as pulsar
from tests.benchmarks.comparison import broker
from tests.benchmarks.contests import BEST

SIZES: Final = (100, 1000, 2000, 5000, 10_000, 20_000)
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
        for _ in range(steps):
            pass

    return compute


def seconds_of(compute: Callable[[], None]) -> float:
    """Return the CPU time of a call."""
    began = time.thread_time()
    compute()
    return time.thread_time() - began


def rate(client: Any, topic: str, messages: int, queue_size: int, compute: Callable[[], None]) -> float:
    """Return the messages a second that the program receives."""
    consumer = client.subscribe(
        topic, uuid.uuid4().hex, initial_position=pulsar.InitialPosition.Earliest, receiver_queue_size=queue_size
    )
    receive, acknowledge = consumer.receive, consumer.acknowledge
    acknowledge(receive(PATIENCE_MS))
    began = time.perf_counter()
    for _ in range(messages - 1):
        message = receive(PATIENCE_MS)
        message.data()
        compute()
        acknowledge(message)
    took = time.perf_counter() - began
    consumer.unsubscribe()
    return (messages - 1) / took


def table(rates: dict[tuple[int, float], list[float]], sizes: Sequence[int], microseconds: Sequence[float]) -> str:
    """Return the rates as text, a line for each queue size."""
    head = "".join(f"  {f'{each:g} us computing':>40}" for each in microseconds)
    lines = [f"{'queue size':>10}{head}"]
    for size in sizes:
        texts = [_cell(rates[size, each], rates[sizes[-1], each]) for each in microseconds]
        lines.append(f"{size:>10,}" + "".join(f"  {text:>40}" for text in texts))
    return "\n".join(lines)


def _cell(found: Sequence[float], largest: Sequence[float]) -> str:
    share = statistics.median(one / other for one, other in zip(found, largest, strict=True))
    return f"{statistics.median(found):,.0f} ({min(found):,.0f} to {max(found):,.0f}) {share:.0%}"


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
    rates: dict[tuple[int, float], list[float]] = {(size, each): [] for size in sizes for each in microseconds}
    for _ in range(rounds):
        for (size, each), found in rates.items():
            found.append(rate(client, topic, messages, size, computations[each]))
    return table(rates, sizes, microseconds)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        service_url = given.service_url or stack.enter_context(broker()).service_url
        client = stack.enter_context(contextlib.closing(pulsar.Client(service_url)))
        measure(client, given.messages, 1, SIZES[-1:])  # what is slow the first time
        print(measure(client, given.messages, given.rounds))


if __name__ == "__main__":
    main(sys.argv[1:])
