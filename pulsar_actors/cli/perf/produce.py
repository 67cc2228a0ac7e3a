"""`perf produce`: measures the rate of sent messages, and the time until the broker has stored them.

Each message is sent when it is due. All messages, or every n-th, are timed until their receipt. The time counts from
the moment when the message was due, even if it was sent late. Receipts come in the order of the messages, so the number
of a receipt identifies its message.
"""

import threading
import time
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from statistics import fmean
from typing import Final

from pulsar_actors.cli.command import Command, integer_argument
from pulsar_actors.cli.perf.arguments import (
    add_broker_arguments,
    add_message_arguments,
    add_producer_arguments,
    add_run_arguments,
    add_topic_arguments,
    producer_options_of,
    topic_names_of,
)
from pulsar_actors.cli.perf.load import Pace, PayloadAndOptions, endless_contents, payloads_from_file, random_letters
from pulsar_actors.cli.perf.runner import Work, measure
from pulsar_actors.cli.perf.stats import Counts, ReportLabels
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producer import Producer

ALL_TIMED_UP_TO: Final = 10_000
"""Messages a second up to which each message is timed. At a higher rate, or without a rate, every 50th is."""

TIMED_ONE_OF: Final = 50


def timed_one_of(rate: float) -> int:
    """Return n if every n-th message is timed at this rate."""
    return 1 if 0 < rate <= ALL_TIMED_UP_TO else TIMED_ONE_OF


class TimedProducer:
    """A producer whose messages are counted, and timed; `size` is the mean size of a payload."""

    __slots__ = ("_ended", "_one_of", "_send", "_sent", "_size", "_timed", "counts", "producer")

    def __init__(self, producer: Producer, size: float, one_of: int) -> None:
        self.producer = producer
        self.counts = Counts()
        self._send = producer.send_async
        self._size = size
        self._one_of = one_of
        self._sent = 0
        self._ended = 0
        self._timed: deque[tuple[int, float]] = deque()

    def send(self, content: PayloadAndOptions, pace: Pace, number: int) -> None:
        """Send a message; its number says when it was due."""
        payload, fields = content
        self._sent += 1
        if self._sent % self._one_of == 0:
            self._timed.append((self._sent, pace.due_at(number)))
        self._send(payload, self.on_receipt, **fields)

    def on_receipt(self, result: Result, _: MessageId) -> None:
        """Count a message that was stored, or failed; runs on the event loop."""
        self._ended += 1
        counts = self.counts
        if result is Result.Ok:
            counts.messages += 1
            counts.payload_bytes += self._size
        else:
            counts.failed += 1
        timed = self._timed
        if timed and timed[0][0] == self._ended:
            counts.latencies.record(time.perf_counter() - timed.popleft()[1])


class PacedSender:
    """The work of one thread: send with several producers, in turn."""

    def __init__(
        self, timed_producers: Sequence[TimedProducer], contents: Iterator[PayloadAndOptions], pace: Pace
    ) -> None:
        self._timed_producers = timed_producers
        self._contents = contents
        self._pace = pace

    def run(self) -> None:
        """Send until there are no more messages; then wait for the receipts."""
        pace, turn, sent = self._pace, cycle(self._timed_producers), 0
        pace.begin()
        while due := pace.next():
            for number in range(sent, sent + due):
                next(turn).send(next(self._contents), pace, number)
            sent += due
        for timed_producer in self._timed_producers:
            timed_producer.producer.flush()


LABELS: Final = ReportLabels("sent", "from when a message was due, or its call of send_async, to the broker's receipt")

_count = integer_argument(1, 10_000)


def run(arguments: Namespace) -> int:
    """Measure; the exit status is 0 if nothing failed."""
    return measure(arguments, LABELS, set_up)


def set_up(arguments: Namespace, client: Client, done: threading.Event) -> Work:
    """Create the producers; each thread has producers of its own."""
    payloads = payloads_of(arguments)
    threads: int = arguments.num_test_threads
    options = producer_options_of(arguments)
    senders: list[Callable[[], None]] = []
    counts: list[Counts] = []
    for thread in range(threads):
        timed_producers = [
            TimedProducer(
                client.create_producer(topic, **options), fmean(map(len, payloads)), timed_one_of(arguments.rate)
            )
            for topic in topic_names_of(arguments)
            for _ in range(arguments.num_producers)
        ]
        pace = Pace(arguments.rate / threads, share_of_messages(arguments.num_messages, thread, threads), done)
        sent = endless_contents(payloads, arguments.message_key_generation_mode, dict(arguments.property))
        senders.append(PacedSender(timed_producers, sent, pace).run)
        counts += [timed_producer.counts for timed_producer in timed_producers]
    return Work(senders, counts)


def payloads_of(arguments: Namespace) -> Sequence[bytes]:
    """Return the payloads, which are sent in turn."""
    if arguments.payload_file:
        return payloads_from_file(arguments.payload_file, arguments.payload_delimiter)
    return [random_letters(arguments.size)]


def share_of_messages(messages: int, thread: int, threads: int) -> int | None:
    """Return one thread's share of the messages; None if there is no limit, which is 0 messages."""
    return messages // threads + (thread < messages % threads) if messages else None


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_topic_arguments(parser)
    add_broker_arguments(parser, "a broker in memory, in a process of its own")
    add_run_arguments(parser)
    add_message_arguments(parser, rate=100.0)
    add_producer_arguments(parser)
    parser.add_argument(
        "-n", "--num-producers", type=_count, default=1, help="of each topic and thread (default: %(default)s)"
    )
    parser.add_argument(
        "-threads",
        "--num-test-threads",
        type=_count,
        default=1,
        help="that send, each with producers of its own (default: %(default)s)",
    )


PRODUCE: Final = Command(
    name="produce",
    summary="Send messages, and time each until the broker has it.",
    configure=configure,
    run=run,
)
