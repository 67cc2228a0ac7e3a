"""`perf consume`: measures the rate of received messages, and the time since they were published.

Each message is counted and acknowledged, and every n-th is timed from its publish time. Publish times are whole
milliseconds of the producer's clock, which limits the precision of the latencies.
"""

import itertools
import math
import threading
import time
from argparse import ArgumentParser, Namespace
from typing import Final

from pulsar_actors.cli.arguments import POSITIONS, SUBSCRIPTION_TYPES
from pulsar_actors.cli.command import Command, integer_argument
from pulsar_actors.cli.perf.arguments import (
    add_broker_arguments,
    add_consumer_arguments,
    add_run_arguments,
    add_topic_arguments,
    topic_names_of,
)
from pulsar_actors.cli.perf.produce import TIMED_ONE_OF
from pulsar_actors.cli.perf.runner import Work, measure
from pulsar_actors.cli.perf.stats import Counts, ReportLabels
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.message import Message
from pulsar_actors.exceptions import Timeout

_POLL_MS: Final = 200


class ReceiveGoal:
    """The number of messages that all receivers take together, after which `done` is set; None is no end."""

    def __init__(self, messages: int | None, done: threading.Event) -> None:
        self._messages = math.inf if messages is None else messages
        self._numbers = itertools.count(1)
        self.done = done

    def count_one(self) -> None:
        """Count one message. Each thread gets a different number, because a step of `count` is atomic."""
        if next(self._numbers) >= self._messages:
            self.done.set()


class TimedReceiver:
    """The work of one thread: receive from one consumer until all are done."""

    def __init__(self, consumer: Consumer, goal: ReceiveGoal, one_of: int) -> None:
        self.counts = Counts()
        self._consumer = consumer
        self._goal = goal
        self._one_of = one_of

    def run(self) -> None:
        """Receive and acknowledge messages."""
        receive, acknowledge = self._consumer.receive, self._consumer.acknowledge
        counts, one_of, goal = self.counts, self._one_of, self._goal
        while not goal.done.is_set():
            try:
                message = receive(_POLL_MS)
            except Timeout:
                continue
            counts.payload_bytes += len(message.data())
            counts.messages += 1
            acknowledge(message)
            if counts.messages % one_of == 0:
                counts.latencies.record(self.age(message))
            goal.count_one()

    def age(self, message: Message) -> float:
        """Return the seconds since a message was published."""
        return time.time() - message.publish_timestamp() / 1e3


LOCAL: Final = "pulsar://localhost:6650"

LABELS: Final = ReportLabels("received", "from when a message was published to its receipt")

_count = integer_argument(1, 10_000)


def run(arguments: Namespace) -> int:
    """Measure; the exit status is 0 if nothing failed."""
    arguments.service_url = arguments.service_url or LOCAL  # a broker in memory would have no messages
    return measure(arguments, LABELS, set_up)


def set_up(arguments: Namespace, client: Client, done: threading.Event) -> Work:
    """Subscribe; each consumer has a thread."""
    numbers = range(arguments.num_subscriptions)
    name = arguments.subscriber_name
    subscriptions = [name] if len(numbers) == 1 else [f"{name}-{number}" for number in numbers]
    consumers = [
        client.subscribe(
            topic,
            subscription,
            consumer_type=SUBSCRIPTION_TYPES[arguments.subscription_type],
            initial_position=POSITIONS[arguments.subscription_position],
            receiver_queue_size=arguments.receiver_queue_size,
        )
        for topic in topic_names_of(arguments)
        for subscription in subscriptions
        for _ in range(arguments.num_consumers)
    ]
    goal = ReceiveGoal(arguments.num_messages or None, done)
    receivers = [TimedReceiver(consumer, goal, TIMED_ONE_OF) for consumer in consumers]
    return Work([receiver.run for receiver in receivers], [receiver.counts for receiver in receivers])


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_topic_arguments(parser)
    add_broker_arguments(parser, LOCAL)
    add_run_arguments(parser)
    add_consumer_arguments(parser)
    group = parser.add_argument_group("subscriptions")
    group.add_argument("-ss", "--subscriber-name", default="sub", help="of several, each has -0, -1, ... after it")
    group.add_argument(
        "-ns", "--num-subscriptions", type=_count, default=1, help="of each topic (default: %(default)s)"
    )
    group.add_argument(
        "-n", "--num-consumers", type=_count, default=1, help="of each subscription (default: %(default)s)"
    )
    group.add_argument(
        "-st", "--subscription-type", choices=SUBSCRIPTION_TYPES, default="Exclusive", help="(default: %(default)s)"
    )
    group.add_argument(
        "-sp", "--subscription-position", choices=POSITIONS, default="Latest", help="to begin at (default: %(default)s)"
    )


CONSUME: Final = Command(
    name="consume",
    summary="Receive and acknowledge messages, and tell how old they are.",
    configure=configure,
    run=run,
)
