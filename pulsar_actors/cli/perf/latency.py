"""`perf latency`: measures the end-to-end latency of messages that are sent at a fixed rate.

Each message contains the time at which it was due. So only the clock of this process is used, and the wait of a message
that is sent late is part of its latency. Sender and receiver are threads of one process, and slow each other down; the
latencies include that.
"""

import secrets
import struct
import threading
import time
from argparse import ArgumentParser, Namespace
from typing import Final

from pulsar_actors.cli.command import Command
from pulsar_actors.cli.perf.arguments import (
    add_broker_arguments,
    add_consumer_arguments,
    add_message_arguments,
    add_producer_arguments,
    add_run_arguments,
    producer_options_of,
)
from pulsar_actors.cli.perf.consume import ReceiveGoal, TimedReceiver
from pulsar_actors.cli.perf.load import Pace, PayloadAndOptions, endless_contents
from pulsar_actors.cli.perf.produce import PacedSender, TimedProducer, payloads_of, timed_one_of
from pulsar_actors.cli.perf.runner import Work, measure
from pulsar_actors.cli.perf.stats import ReportLabels
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import Result
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId

LABELS: Final = ReportLabels("received", "from when a message was due to its receipt by a consumer")

_STAMP: Final = struct.Struct("!d")


class StampingProducer(TimedProducer):
    """A producer whose messages begin with the time at which they were due."""

    __slots__ = ()

    def send(self, content: PayloadAndOptions, pace: Pace, number: int) -> None:
        """Send a message that begins with its due time."""
        payload, fields = content
        super().send((_STAMP.pack(pace.due_at(number)) + payload[_STAMP.size :], fields), pace, number)

    def on_receipt(self, result: Result, _: MessageId) -> None:
        """Count failures; the receiver counts the others."""
        if result is not Result.Ok:
            self.counts.failed += 1


class StampReceiver(TimedReceiver):
    """A receiver that times messages from the moment at which they were due."""

    def age(self, message: Message) -> float:
        """Return the seconds since a message was due."""
        (due,) = _STAMP.unpack_from(message.data())
        return time.perf_counter() - float(due)


def run(arguments: Namespace) -> int:
    """Measure; the exit status is 0 if nothing failed."""
    return measure(arguments, LABELS, set_up)


def set_up(arguments: Namespace, client: Client, done: threading.Event) -> Work:
    """Create the consumer and the producer."""
    limit = arguments.num_messages or None
    subscription = f"perf-{secrets.token_hex(4)}"
    consumer = client.subscribe(arguments.topic, subscription, receiver_queue_size=arguments.receiver_queue_size)
    receiver = StampReceiver(consumer, ReceiveGoal(limit, done), timed_one_of(arguments.rate))
    producer = client.create_producer(arguments.topic, **producer_options_of(arguments))
    timed_producer = StampingProducer(producer, arguments.size, timed_one_of(0))
    sent = endless_contents(payloads_of(arguments), arguments.message_key_generation_mode, dict(arguments.property))
    sender = PacedSender([timed_producer], sent, Pace(arguments.rate, limit, done))
    return Work([receiver.run, sender.run], [receiver.counts, timed_producer.counts], consumer.unsubscribe)


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("topic")
    add_broker_arguments(parser, "a broker in memory, in a process of its own")
    add_run_arguments(parser)
    add_message_arguments(parser, rate=1000.0)
    add_producer_arguments(parser)
    add_consumer_arguments(parser)


LATENCY: Final = Command(
    name="latency",
    summary="Send messages at a rate and receive them, and time each from end to end.",
    configure=configure,
    run=run,
)
