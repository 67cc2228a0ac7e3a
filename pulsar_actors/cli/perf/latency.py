"""`perf latency`: how long messages take from end to end, at a rate.

Each message says when it was due, so nobody's clock but this process's counts, and a message that left late has waited
since then. Sender and receiver are threads of one process: what they cost each other is in the figures.
"""

import secrets
import struct
import threading
import time
from argparse import ArgumentParser, Namespace
from typing import Final

from pulsar_actors.cli.command import Command
from pulsar_actors.cli.perf.arguments import connecting, producer_options, producing, receiving, running, sending
from pulsar_actors.cli.perf.contents import Content, contents
from pulsar_actors.cli.perf.measurement import Work, measure
from pulsar_actors.cli.perf.pace import Pace
from pulsar_actors.cli.perf.produce import payloads
from pulsar_actors.cli.perf.receiver import Goal, Receiver
from pulsar_actors.cli.perf.report import Words
from pulsar_actors.cli.perf.sender import Sender, Track, timed_one_of
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import Result
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId

WORDS: Final = Words("received", "from when a message was due to its receipt by a consumer")

_STAMP: Final = struct.Struct("!d")


class StampingTrack(Track):
    """Its messages begin with the time at which they were due."""

    __slots__ = ()

    def send(self, content: Content, pace: Pace, number: int) -> None:
        """Send one."""
        payload, fields = content
        super().send((_STAMP.pack(pace.due_at(number)) + payload[_STAMP.size :], fields), pace, number)

    def heard(self, result: Result, _: MessageId) -> None:
        """Count what failed alone: what is through, the receiver counts."""
        if result is not Result.Ok:
            self.tally.failed += 1


class StampReader(Receiver):
    """It reads that time."""

    def age(self, message: Message) -> float:
        """Tell for how many seconds a message has been due."""
        (due,) = _STAMP.unpack_from(message.data())
        return time.perf_counter() - float(due)


def run(arguments: Namespace) -> int:
    """Measure, and give 0 if nothing failed."""
    return measure(arguments, WORDS, set_up)


def set_up(arguments: Namespace, client: Client, over: threading.Event) -> Work:
    """Subscribe, and make a producer."""
    limit = arguments.num_messages or None
    subscription = f"perf-{secrets.token_hex(4)}"
    consumer = client.subscribe(arguments.topic, subscription, receiver_queue_size=arguments.receiver_queue_size)
    receiver = StampReader(consumer, Goal(limit, over), timed_one_of(arguments.rate))
    producer = client.create_producer(arguments.topic, **producer_options(arguments))
    track = StampingTrack(producer, arguments.size, timed_one_of(0))
    sent = contents(payloads(arguments), arguments.message_key_generation_mode, dict(arguments.property))
    sender = Sender([track], sent, Pace(arguments.rate, limit, over))
    return Work([receiver.run, sender.run], [receiver.tally, track.tally], consumer.unsubscribe)


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("topic")
    connecting(parser, "a broker in memory, in a process of its own")
    running(parser)
    sending(parser, rate=1000.0)
    producing(parser)
    receiving(parser)


LATENCY: Final = Command(
    name="latency",
    summary="Send messages at a rate and receive them, and time each from end to end.",
    configure=configure,
    run=run,
)
