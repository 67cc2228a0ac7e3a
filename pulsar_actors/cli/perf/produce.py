"""`perf produce`: how fast messages can be sent, and how long it takes until the broker has them."""

import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final

from pulsar_actors.cli.command import Command
from pulsar_actors.cli.perf.arguments import (
    connecting,
    producer_options,
    producing,
    running,
    sending,
    topic_names,
    topics,
)
from pulsar_actors.cli.perf.contents import contents, from_file, letters
from pulsar_actors.cli.perf.measurement import Work, measure
from pulsar_actors.cli.perf.pace import Pace
from pulsar_actors.cli.perf.report import Words
from pulsar_actors.cli.perf.sender import Sender, Track, timed_one_of
from pulsar_actors.cli.perf.tally import Tally
from pulsar_actors.cli.whole_number import whole_number
from pulsar_actors.client.client import Client

WORDS: Final = Words("sent", "from when a message was due, or its call of send_async, to the broker's receipt")

_count = whole_number(1, 10_000)


def run(arguments: Namespace) -> int:
    """Measure, and give 0 if nothing failed."""
    return measure(arguments, WORDS, set_up)


def set_up(arguments: Namespace, client: Client, over: threading.Event) -> Work:
    """Make the producers, with a sender on each thread."""
    found = payloads(arguments)
    threads: int = arguments.num_test_threads
    options = producer_options(arguments)
    todo: list[Callable[[], None]] = []
    tallies: list[Tally] = []
    for thread in range(threads):
        tracks = [
            Track(client.create_producer(topic, **options), fmean(map(len, found)), timed_one_of(arguments.rate))
            for topic in topic_names(arguments)
            for _ in range(arguments.num_producers)
        ]
        pace = Pace(arguments.rate / threads, share(arguments.num_messages, thread, threads), over)
        sent = contents(found, arguments.message_key_generation_mode, dict(arguments.property))
        todo.append(Sender(tracks, sent, pace).run)
        tallies += [track.tally for track in tracks]
    return Work(todo, tallies)


def payloads(arguments: Namespace) -> Sequence[bytes]:
    """Give what is sent, in turn."""
    if arguments.payload_file:
        return from_file(arguments.payload_file, arguments.payload_delimiter)
    return [letters(arguments.size)]


def share(messages: int, place: int, places: int) -> int | None:
    """Give one thread's share of so many messages; of 0, which is without end, it has no limit either."""
    return messages // places + (place < messages % places) if messages else None


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    topics(parser)
    connecting(parser, "a broker in memory, in a process of its own")
    running(parser)
    sending(parser, rate=100.0)
    producing(parser)
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
