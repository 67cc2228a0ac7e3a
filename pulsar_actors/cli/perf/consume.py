"""`perf consume`: how fast messages come, and how old they are."""

import threading
from argparse import ArgumentParser, Namespace
from typing import Final

from pulsar_actors.cli.command import Command
from pulsar_actors.cli.perf.arguments import (
    POSITIONS,
    SUBSCRIPTION_TYPES,
    connecting,
    receiving,
    running,
    topic_names,
    topics,
)
from pulsar_actors.cli.perf.measurement import Work, measure
from pulsar_actors.cli.perf.receiver import Goal, Receiver
from pulsar_actors.cli.perf.report import Words
from pulsar_actors.cli.perf.sender import ONE_OF
from pulsar_actors.cli.whole_number import whole_number
from pulsar_actors.client.client import Client

LOCAL: Final = "pulsar://localhost:6650"

WORDS: Final = Words("received", "from when a message was published to its receipt")

_count = whole_number(1, 10_000)


def run(arguments: Namespace) -> int:
    """Measure, and give 0 if nothing failed."""
    arguments.service_url = arguments.service_url or LOCAL  # a broker of our own would have nothing to receive
    return measure(arguments, WORDS, set_up)


def set_up(arguments: Namespace, client: Client, over: threading.Event) -> Work:
    """Subscribe, with a thread for each consumer."""
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
        for topic in topic_names(arguments)
        for subscription in subscriptions
        for _ in range(arguments.num_consumers)
    ]
    goal = Goal(arguments.num_messages or None, over)
    receivers = [Receiver(consumer, goal, ONE_OF) for consumer in consumers]
    return Work([one.run for one in receivers], [one.tally for one in receivers])


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    topics(parser)
    connecting(parser, LOCAL)
    running(parser)
    receiving(parser)
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
