"""The clients of one worker process: one for each cluster, with the producers that its tasks have used.

Spark gives a worker one task after the other, and what one has connected serves the next. A client that no task has
used for a while is closed, and so are producers that are too many. What a failed task leaves behind is closed without
waiting for anything that is still on its way: such a task is to send no more.

A worker ends without a word, and its connections with it: no task ends before the broker has confirmed what it sent.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pulsar_actors.client.client import Client
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.exceptions import BrokerRefusal, ProducerBusy, PulsarException
from pulsar_actors.runtime.log import LOG
from pulsar_actors.spark.cluster import Cluster, identity_of
from pulsar_actors.spark.refusals import told_of

__all__ = ["POOL", "Kept", "Pool", "Recipe"]

IDLE: Final = 60.0
"""Seconds after the last task, until a client is closed."""
MOST_CLIENTS: Final = 8
"""Of those that no task uses."""
MOST_PRODUCERS: Final = 200
"""Of one client."""
BUSY: Final = 60.0
"""Seconds to wait for a producer's name: a worker that was told to stop lives on for some."""
PAUSE: Final = 0.25


class Recipe:
    """How the producers of a task are made: keyword arguments, and what is the same for the same."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = arguments
        self.identity = identity_of(sorted(arguments.items()))


class Kept:
    """A client, and its producers: the ones used last stay."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.users = 0
        self.idle_since = 0.0
        self.is_spoilt = False
        self._producers: OrderedDict[tuple[str, str], Producer] = OrderedDict()
        self._lock = threading.Lock()

    def producer(self, topic: str, recipe: Recipe) -> Producer:
        """Give the producer of a topic; one that was there before, if it was made alike."""
        key = topic, recipe.identity
        with self._lock:
            producer = self._producers.pop(key, None)
            if producer is None or not producer.is_open:
                producer = self._make(topic, recipe.arguments)
            self._producers[key] = producer
            if len(self._producers) > MOST_PRODUCERS:
                _, oldest = self._producers.popitem(last=False)
                oldest.close()  # once all is stored that was sent by it
        return producer

    def _make(self, topic: str, arguments: Mapping[str, Any]) -> Producer:
        until = time.monotonic() + BUSY
        while True:
            try:
                return self.client.create_producer(topic, **arguments)
            except BrokerRefusal as refusal:
                if not isinstance(refusal, ProducerBusy) or time.monotonic() >= until:
                    raise told_of(f"no producer on {topic}", refusal) from refusal
                time.sleep(PAUSE)


class Pool:
    """What a process keeps for its tasks."""

    def __init__(self, idle: float = IDLE) -> None:
        self._idle = idle
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._kept: dict[str, Kept] = {}
        self._sweeps = False  # a timer will

    @contextmanager
    def lend(self, cluster: Cluster) -> Generator[Kept, None, None]:
        """Lend the client of a cluster to a task. If the task fails, nobody gets that client again."""
        kept = self._take(cluster)
        try:
            yield kept
        except GeneratorExit:  # whoever read has read enough
            raise
        except BaseException:
            kept.is_spoilt = True
            raise
        finally:
            self._give_back(cluster, kept)

    def _take(self, cluster: Cluster) -> Kept:
        if self._pid != os.getpid():  # a forked child: the parent's clients are of no use here
            self._begin()
        with self._lock:
            kept = self._kept.get(cluster.identity)
            if kept is None or kept.is_spoilt:
                kept = self._kept[cluster.identity] = Kept(cluster.client())
            kept.users += 1
        return kept

    def _give_back(self, cluster: Cluster, kept: Kept) -> None:
        with self._lock:
            kept.users -= 1
            kept.idle_since = time.monotonic()
            if kept.is_spoilt and self._kept.get(cluster.identity) is kept:
                del self._kept[cluster.identity]
            is_unwanted = kept.is_spoilt and not kept.users
        if is_unwanted:
            kept.client.shutdown()
        self.sweep()

    def sweep(self) -> None:
        """Close what nobody has used for long, or what is too many; and look again later, if anything is left."""
        with self._lock:
            resting = sorted((one for one in self._kept.items() if not one[1].users), key=lambda one: one[1].idle_since)
            over = time.monotonic() - self._idle
            too_many = max(0, len(resting) - MOST_CLIENTS)
            ended = [one for at, one in enumerate(resting) if at < too_many or one[1].idle_since <= over]
            for identity, _ in ended:
                del self._kept[identity]
            if self._kept and not self._sweeps:
                self._sweeps = True
                timer = threading.Timer(self._idle, self._sweep_later)
                timer.daemon = True
                timer.start()
        for _, kept in ended:
            _close(kept.client)

    def _sweep_later(self) -> None:
        self._sweeps = False
        self.sweep()


def _close(client: Client) -> None:
    try:
        client.close()
    except PulsarException as error:
        LOG.warning("%r was idle, and did not close in good order: %s", client, error)


POOL: Final = Pool()
"""That of this process."""
