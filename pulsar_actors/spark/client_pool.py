"""The clients of a worker process, and the sender of a task's messages.

Spark gives a worker one task after the other. The pool keeps a client for each cluster, with the producers that tasks
have used, for later tasks. Idle clients and the least recently used producers are closed. The client of a failed task
is closed at once, and pending messages are dropped: such a task must not send any more.

A worker ends without notice, and its connections end with it. So a task ends only when the broker has stored all its
messages: when `TaskSender.finish` returns. Each call of `send_many` has a future, by which a task knows its own failed
messages, also if it shares the producer with another task.
"""

import math
import os
import random
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ProducerAccessMode
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.transaction import Transaction
from pulsar_actors.exceptions import (
    BrokerRefusal,
    InvalidConfiguration,
    ProducerBusy,
    ProducerFenced,
    PulsarException,
    SendManyFailed,
)
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.send_queue import MessageHeader
from pulsar_actors.spark.cluster_access import ClusterAccess, identity_of
from pulsar_actors.wire.topic_name import TopicName

__all__ = [
    "POOL",
    "PRODUCER_DEFAULTS",
    "ClientPool",
    "PooledClient",
    "ProducerRecipe",
    "TaskSender",
    "check_access_mode",
    "refusal_about",
]


IDLE_SECONDS: Final = 60.0
"""Seconds without a task after which a client is closed."""
MOST_IDLE_CLIENTS: Final = 8
MOST_PRODUCERS: Final = 200
"""The most producers of one client."""
BUSY_SECONDS: Final = 60.0
"""Seconds to wait for a producer's name, or for a topic: a worker that is being stopped may keep it for a while."""
SHORTEST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 1.0


class _Turn(NamedTuple):
    """The way in which a task waits for its turn with a topic or a producer's name."""

    asks_for: ProducerAccessMode
    waits_out: tuple[type[BrokerRefusal], ...]
    seconds: float


_TURNS: Final[Mapping[ProducerAccessMode, _Turn]] = {
    ProducerAccessMode.Shared: _Turn(ProducerAccessMode.Shared, (ProducerBusy,), BUSY_SECONDS),
    ProducerAccessMode.Exclusive: _Turn(ProducerAccessMode.Exclusive, (ProducerBusy, ProducerFenced), BUSY_SECONDS),
    ProducerAccessMode.WaitForExclusive: _Turn(ProducerAccessMode.Exclusive, (ProducerBusy, ProducerFenced), math.inf),
}
"""A task with WaitForExclusive asks again and again, and does not wait at the broker, where each partition has a queue.
Of two tasks that wait there, each may get some partitions of a topic, and wait for the others for ever. A task that is
refused keeps none."""


def check_access_mode(arguments: Mapping[str, Any], *, one_topic: bool) -> None:
    """Refuse an access mode with which tasks would end one another, or wait for one another for ever."""
    mode = arguments.get("access_mode", ProducerAccessMode.Shared)
    if mode not in _TURNS:
        raise InvalidConfiguration(
            f"access_mode={mode.name} is not for tasks: one that runs beside another, or is run again, would fence the "
            "other's producer, whose messages fail for good. With WaitForExclusive tasks take turns"
        )
    if mode is ProducerAccessMode.WaitForExclusive and not one_topic:
        raise InvalidConfiguration(
            "access_mode=WaitForExclusive takes one topic for all rows: of tasks that write to several, each may have "
            "some, and wait for the others for ever"
        )


class ClientPool:
    """The clients that a worker process keeps for its tasks."""

    def __init__(self, idle: float = IDLE_SECONDS) -> None:
        self._idle = idle
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._clients: dict[str, PooledClient] = {}
        self._timer_is_set = False

    @contextmanager
    def lend(self, cluster: ClusterAccess) -> Generator["PooledClient", None, None]:
        """Give a task the client of a cluster for a `with` block. If the task fails, the client is closed."""
        pooled = self._take(cluster)
        try:
            yield pooled
        except GeneratorExit:  # the task needs no more rows
            raise
        except BaseException:
            pooled.is_failed = True
            raise
        finally:
            self._give_back(cluster, pooled)

    def _take(self, cluster: ClusterAccess) -> "PooledClient":
        if self._pid != os.getpid():  # in a forked child, the parent's clients do not work
            self._reset()
        with self._lock:
            pooled = self._clients.get(cluster.identity)
            if pooled is None or pooled.is_failed:
                pooled = self._clients[cluster.identity] = PooledClient(cluster.client())
            pooled.users += 1
        return pooled

    def _give_back(self, cluster: ClusterAccess, pooled: "PooledClient") -> None:
        with self._lock:
            pooled.users -= 1
            pooled.idle_since = time.monotonic()
            if pooled.is_failed and self._clients.get(cluster.identity) is pooled:
                del self._clients[cluster.identity]
            is_unused = pooled.is_failed and not pooled.users
        if is_unused:
            pooled.client.shutdown()
        self.sweep()

    def sweep(self) -> None:
        """Close clients that have been idle for too long, or are too many. Set a timer if clients are left."""
        with self._lock:
            idle = sorted((one for one in self._clients.items() if not one[1].users), key=lambda one: one[1].idle_since)
            latest = time.monotonic() - self._idle
            too_many = max(0, len(idle) - MOST_IDLE_CLIENTS)
            removed = [one for index, one in enumerate(idle) if index < too_many or one[1].idle_since <= latest]
            for identity, _ in removed:
                del self._clients[identity]
            if self._clients and not self._timer_is_set:
                self._timer_is_set = True
                timer = threading.Timer(self._idle, self._sweep_later)
                timer.daemon = True
                timer.start()
        for _, pooled in removed:
            _close(pooled.client)

    def _sweep_later(self) -> None:
        self._timer_is_set = False
        self.sweep()


def _close(client: Client) -> None:
    try:
        client.close()
    except PulsarException as error:
        LOG.warning("%r was idle, and did not close in good order: %s", client, error)


POOL: Final = ClientPool()
"""The pool of this process."""


class ProducerRecipe:
    """The arguments of a task's producers; equal arguments have equal identities."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.turn = _TURNS[arguments.get("access_mode", ProducerAccessMode.Shared)]
        self.arguments: Mapping[str, Any] = {**arguments, "access_mode": self.turn.asks_for}
        self.identity = identity_of(sorted(arguments.items()))


class PooledClient:
    """A client with its producers, of which the most recently used are kept."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.users = 0
        self.idle_since = 0.0
        self.is_failed = False
        self._producers: OrderedDict[tuple[str, str], Producer] = OrderedDict()
        self._lock = threading.Lock()

    def producer(self, topic: str, recipe: ProducerRecipe) -> Producer:
        """Return the producer of a topic: an open one with the same arguments, or a new one. Wait for its turn."""
        deadline = time.monotonic() + recipe.turn.seconds
        backoff = Backoff(random.random, SHORTEST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                with self._lock:
                    return self._open_or_new(topic, recipe)
            except recipe.turn.waits_out as refusal:
                if time.monotonic() >= deadline:
                    raise refusal_about(f"no producer on {topic}", refusal, _TOO_LONG) from refusal
            except BrokerRefusal as refusal:
                raise refusal_about(f"no producer on {topic}", refusal) from refusal
            time.sleep(backoff.next_delay())

    def _open_or_new(self, topic: str, recipe: ProducerRecipe) -> Producer:
        key = topic, recipe.identity
        producer = self._producers.pop(key, None)
        if producer is None or not producer.is_open:
            if recipe.turn.asks_for is ProducerAccessMode.Exclusive and self.users == 1:
                self._close_other_producers_of(topic, recipe)
            producer = self.client.create_producer(topic, **recipe.arguments)
        self._producers[key] = producer
        if len(self._producers) > MOST_PRODUCERS:
            _, oldest = self._producers.popitem(last=False)
            oldest.close()  # after the receipts of all its messages
        return producer

    def _close_other_producers_of(self, topic: str, recipe: ProducerRecipe) -> None:
        """Close those that earlier tasks have used: the topic would never be free for the only task of this client.

        Those with its own recipe it may use itself, for other partitions.
        """
        base = TopicName.parse(topic).base
        others = [key for key in self._producers if key[1] != recipe.identity and TopicName.parse(key[0]).base == base]
        for key in others:
            self._producers.pop(key).close()


_TOO_LONG: Final = (
    f"; this has waited for {BUSY_SECONDS:g} s. If other tasks need longer, use access_mode=WaitForExclusive: that "
    "waits without a limit"
)


def refusal_about(what: str, refusal: BrokerRefusal, hint: str = "") -> BrokerRefusal:
    """Return the same refusal, with the refused operation in its text, and a hint."""
    return type(refusal)(refusal.code, f"{what}: {refusal.reason}{hint}")


PRODUCER_DEFAULTS: Final[Mapping[str, Any]] = {
    "batching_enabled": True,
    "max_pending_messages": 10_000,
    "block_if_queue_full": True,
}
"""Defaults for a task's producers: a task sends many messages and waits for none of them."""


class TaskSender:
    """Sends the messages of one task with a client of the pool."""

    def __init__(
        self, pooled: PooledClient, arguments: Mapping[str, Any], transaction: Transaction | None = None
    ) -> None:
        self._pooled = pooled
        self._transaction = transaction
        self._recipe = ProducerRecipe({**PRODUCER_DEFAULTS, **arguments})
        access = arguments.get("access_mode", ProducerAccessMode.Shared)
        self._is_exclusive = access is not ProducerAccessMode.Shared or arguments.get("producer_name") is not None
        self._calls: dict[Producer, deque[Future[int]]] = {}  # those whose end is not known
        self.messages = 0
        self.size = 0

    def send(self, topic: str, payloads: Sequence[bytes], headers: Sequence[MessageHeader | None]) -> None:
        """Enqueue messages for a topic, each with its metadata; wait while the queue is full.

        Raise an error if messages of this task have failed.
        """
        producer = self._pooled.producer(topic, self._recipe)
        if producer not in self._calls:
            self._forget_closed()
        calls = self._calls.setdefault(producer, deque())
        _raise_failed(producer, calls)
        calls.append(producer.send_encoded(payloads, headers, self._transaction))
        self.messages += len(payloads)
        self.size += sum(map(len, payloads))

    def _forget_closed(self) -> None:
        """Forget the producers that the pool has closed: all their messages have ended."""
        for producer, calls in list(self._calls.items()):
            if not producer.is_open:
                _raise_failed(producer, calls)
                if not calls:
                    del self._calls[producer]

    def finish(self) -> None:
        """Wait until all messages are stored. An exclusive producer is closed, as another worker may need its name."""
        for producer in self._calls:
            if producer.is_open:  # one that the pool has closed was flushed before
                producer.flush()
        for producer, calls in self._calls.items():
            _raise_failed(producer, calls, waits=True)
            if self._is_exclusive:
                producer.close()


def _raise_failed(producer: Producer, calls: "deque[Future[int]]", *, waits: bool = False) -> None:
    """Forget the calls that have ended, and raise an error if messages of theirs were not stored."""
    failed: list[Exception] = []
    while calls and (waits or calls[0].done()):
        error = calls.popleft().exception()
        if isinstance(error, SendManyFailed):
            failed += error.errors.values()
    if failed:
        raise PulsarException(
            f"{len(failed):,} of the messages that this task sent to {producer.topic()} were not stored; the last of "
            f"them: {type(failed[-1]).__name__}: {failed[-1]}"
        )
