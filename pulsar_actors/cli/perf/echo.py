"""`perf echo`: measures the time of a round trip, one message at a time.

Another thread of this process receives each message and sends it back, on a second topic with `-echo` after its name.
No message is batched.
"""

import contextlib
import secrets
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any, Final

from pulsar_actors.cli.arguments import COMPRESSIONS
from pulsar_actors.cli.command import Command
from pulsar_actors.cli.perf.arguments import (
    add_broker_arguments,
    add_message_arguments,
    add_run_arguments,
)
from pulsar_actors.cli.perf.load import Pace, PayloadAndOptions, endless_contents
from pulsar_actors.cli.perf.produce import payloads_of
from pulsar_actors.cli.perf.runner import Work, measure
from pulsar_actors.cli.perf.stats import Counts, ReportLabels
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.message import Message
from pulsar_actors.client.producer import Producer
from pulsar_actors.exceptions import Timeout

LABELS: Final = ReportLabels("answered", "from when a message was due, or sent, to the receipt of its answer")

_POLL_MS: Final = 200


def receive_one(consumer: Consumer, done: threading.Event) -> Message | None:
    """Receive a message and acknowledge it; return None when the run is over."""
    while not done.is_set():
        with contextlib.suppress(Timeout):
            message = consumer.receive(_POLL_MS)
            consumer.acknowledge(message)
            return message
    return None


class Responder:
    """The work of the answering thread."""

    def __init__(self, consumer: Consumer, producer: Producer, done: threading.Event) -> None:
        self._consumer = consumer
        self._producer = producer
        self._done = done

    def run(self) -> None:
        """Send each message back."""
        while (message := receive_one(self._consumer, self._done)) is not None:
            self._producer.send(message.data())


class Requester:
    """The work of the asking thread, which times the answers."""

    def __init__(
        self, producer: Producer, consumer: Consumer, sent: Iterator[PayloadAndOptions], done: threading.Event
    ) -> None:
        self.counts = Counts()
        self._producer = producer
        self._consumer = consumer
        self._sent = sent
        self._done = done

    def run(self, pace: Pace) -> None:
        """Send a message, wait for its answer, and send the next one."""
        pace.begin()
        number = 0
        while pace.next(1):
            due = pace.due_at(number)
            payload, fields = next(self._sent)
            self._producer.send_async(payload, None, **fields)
            if receive_one(self._consumer, self._done) is None:
                return
            self.counts.latencies.record(time.perf_counter() - due)
            self.counts.messages += 1
            self.counts.payload_bytes += len(payload)
            number += 1


def run(arguments: Namespace) -> int:
    """Measure; the exit status is 0 if nothing failed."""
    return measure(arguments, LABELS, set_up)


def set_up(arguments: Namespace, client: Client, done: threading.Event) -> Work:
    """Create the consumers and producers of both threads."""
    there, back = arguments.topic, f"{arguments.topic}-echo"
    subscription = f"perf-{secrets.token_hex(4)}"
    options: dict[str, Any] = {"compression_type": COMPRESSIONS[arguments.compression], "send_timeout_millis": 0}
    consumers = [client.subscribe(topic, subscription) for topic in (there, back)]
    producers = [client.create_producer(topic, **options) for topic in (back, there)]
    sent = endless_contents(payloads_of(arguments), arguments.message_key_generation_mode, dict(arguments.property))
    requester = Requester(producers[1], consumers[1], sent, done)
    responder = Responder(consumers[0], producers[0], done)
    pace = Pace(arguments.rate, arguments.num_messages or None, done)

    def request() -> None:
        requester.run(pace)
        done.set()

    def clean_up() -> None:
        for consumer in consumers:
            consumer.unsubscribe()

    return Work([request, responder.run], [requester.counts], clean_up)


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("topic")
    add_broker_arguments(parser, "a broker in memory, in a process of its own")
    add_run_arguments(parser)
    add_message_arguments(parser, rate=0.0)


ECHO: Final = Command(
    name="echo",
    summary="Send one message after the other, each when the answer to the last has come, and time the round trips.",
    configure=configure,
    run=run,
)
