"""Messages that come: counted, acknowledged, and timed, or one of so many is, since they were published.

Brokers and their clients may have clocks of their own, and a time of publishing is of whole milliseconds: a latency of
less than that says little.
"""

import itertools
import math
import threading
import time
from typing import Final

from pulsar_actors.cli.perf.tally import Tally
from pulsar_actors.client.consuming.consumer import Consumer
from pulsar_actors.client.message import Message
from pulsar_actors.exceptions import Timeout

_LOOK_UP_MS: Final = 200


class Goal:
    """How many messages several receivers take together, and that it is over when they have them; None is no end."""

    def __init__(self, messages: int | None, over: threading.Event) -> None:
        self._messages = math.inf if messages is None else messages
        self._numbers = itertools.count(1)
        self.over = over

    def count_one(self) -> None:
        """Count one more; whichever thread has it, each number is given once."""
        if next(self._numbers) >= self._messages:
            self.over.set()


class Receiver:
    """What one thread does: it takes messages from one consumer until that is over."""

    def __init__(self, consumer: Consumer, goal: Goal, one_of: int) -> None:
        self.tally = Tally()
        self._consumer = consumer
        self._goal = goal
        self._one_of = one_of

    def run(self) -> None:
        """Receive and acknowledge."""
        receive, acknowledge = self._consumer.receive, self._consumer.acknowledge
        tally, one_of, goal = self.tally, self._one_of, self._goal
        while not goal.over.is_set():
            try:
                message = receive(_LOOK_UP_MS)
            except Timeout:
                continue
            tally.octets += len(message.data())
            tally.messages += 1
            acknowledge(message)
            if tally.messages % one_of == 0:
                tally.times.record(self.age(message))
            goal.count_one()

    def age(self, message: Message) -> float:
        """Tell for how many seconds a message has been on its way."""
        return time.time() - message.publish_timestamp() / 1e3
