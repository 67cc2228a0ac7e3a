"""`perf echo`: how long it takes for a message to get to somebody and for an answer to come back, one at a time.

The somebody is another thread of this process: it sends back what it gets, on a second topic that has `-echo` after its
name. No message is batched.
"""

import contextlib
import secrets
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any, Final

from pulsar_actors.cli.command import Command
from pulsar_actors.cli.perf.arguments import COMPRESSIONS, connecting, running, sending
from pulsar_actors.cli.perf.contents import Content, contents
from pulsar_actors.cli.perf.measurement import Work, measure
from pulsar_actors.cli.perf.pace import Pace
from pulsar_actors.cli.perf.produce import payloads
from pulsar_actors.cli.perf.report import Words
from pulsar_actors.cli.perf.tally import Tally
from pulsar_actors.client.client import Client
from pulsar_actors.client.consuming.consumer import Consumer
from pulsar_actors.client.message import Message
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.exceptions import Timeout

WORDS: Final = Words("answered", "from when a message was due, or sent, to the receipt of its answer")

_LOOK_UP_MS: Final = 200


def received(consumer: Consumer, over: threading.Event) -> Message | None:
    """Take a message and acknowledge it; None when it is over."""
    while not over.is_set():
        with contextlib.suppress(Timeout):
            message = consumer.receive(_LOOK_UP_MS)
            consumer.acknowledge(message)
            return message
    return None


class Echo:
    """Who answers."""

    def __init__(self, consumer: Consumer, producer: Producer, over: threading.Event) -> None:
        self._consumer = consumer
        self._producer = producer
        self._over = over

    def run(self) -> None:
        """Send back what comes."""
        while (message := received(self._consumer, self._over)) is not None:
            self._producer.send(message.data())


class Asker:
    """Who asks, and times the answers."""

    def __init__(self, producer: Producer, consumer: Consumer, sent: Iterator[Content], over: threading.Event) -> None:
        self.tally = Tally()
        self._producer = producer
        self._consumer = consumer
        self._sent = sent
        self._over = over

    def run(self, pace: Pace) -> None:
        """Send one, wait for it to come back, and then send the next."""
        pace.begin()
        number = 0
        while pace.next(1):
            due = pace.due_at(number)
            payload, fields = next(self._sent)
            self._producer.send_async(payload, None, **fields)
            if received(self._consumer, self._over) is None:
                return
            self.tally.times.record(time.perf_counter() - due)
            self.tally.messages += 1
            self.tally.octets += len(payload)
            number += 1


def run(arguments: Namespace) -> int:
    """Measure, and give 0 if nothing failed."""
    return measure(arguments, WORDS, set_up)


def set_up(arguments: Namespace, client: Client, over: threading.Event) -> Work:
    """Make both ends."""
    there, back = arguments.topic, f"{arguments.topic}-echo"
    subscription = f"perf-{secrets.token_hex(4)}"
    options: dict[str, Any] = {"compression_type": COMPRESSIONS[arguments.compression], "send_timeout_millis": 0}
    ears = [client.subscribe(topic, subscription) for topic in (there, back)]
    mouths = [client.create_producer(topic, **options) for topic in (back, there)]
    sent = contents(payloads(arguments), arguments.message_key_generation_mode, dict(arguments.property))
    asker = Asker(mouths[1], ears[1], sent, over)
    echo = Echo(ears[0], mouths[0], over)
    pace = Pace(arguments.rate, arguments.num_messages or None, over)

    def ask() -> None:
        asker.run(pace)
        over.set()

    def tidy() -> None:
        for each in ears:
            each.unsubscribe()

    return Work([ask, echo.run], [asker.tally], tidy)


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("topic")
    connecting(parser, "a broker in memory, in a process of its own")
    running(parser)
    sending(parser, rate=0.0)


ECHO: Final = Command(
    name="echo",
    summary="Send one message after the other, each when the answer to the last has come, and time the round trips.",
    configure=configure,
    run=run,
)
