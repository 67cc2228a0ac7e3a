"""The asyncio client in a simulated world: an event loop with virtual time, whose turns are steps like all others.

Callers use it through the calls of the synchronous client, so that a scenario can have either: each call becomes a task
of the loop, and the caller waits for it. So the tasks of all callers share one loop, as those of a service do.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

from pulsar_actors import asyncio as aio
from pulsar_actors.asyncio.client import client_on
from pulsar_actors.asyncio.transaction import Transaction
from pulsar_actors.client.client import Client
from pulsar_actors.exceptions import Timeout
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import World
from pulsar_actors.testing.event_loop import SimulatedEventLoop

CANCELLED = 0.3
"""The probability that a wait for a message ends by being cancelled, and not by its own timeout."""


class AsyncioClient:
    """A client of asyncio, on its event loop, for callers of a world."""

    def __init__(self, world: World, client: Client) -> None:
        self.world = world
        self.dice = Dice(world.seed, "asyncio")
        self._loop = SimulatedEventLoop(world)
        self._made = client_on(client, world.spawn)
        self._caller = world.spawn(self._run, "event loop")

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def begin(self, coroutine: "Coroutine[Any, Any, Any]") -> "Future[Any]":
        """Start a task."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, coroutine: "Coroutine[Any, Any, Any]") -> Any:
        """Start a task, and wait for it."""
        future = self.begin(coroutine)
        self.world.block(future)
        return future.result()

    def create_producer(self, topic: str, **options: Any) -> "_Producer":
        return _Producer(self, self.call(self._made.create_producer(topic, **options)))

    def subscribe(self, topic: Any, subscription: str, **options: Any) -> "_Consumer":
        return _Consumer(self, self.call(self._made.subscribe(topic, subscription, **options)))

    def create_reader(self, topic: str, start: Any, **options: Any) -> "_Consumer":
        return _Consumer(self, self.call(self._made.create_reader(topic, start, **options)))

    def new_transaction(self, timeout: Any) -> "_Transaction":
        return _Transaction(self, self.call(self._made.new_transaction(timeout)))

    def close(self) -> None:
        """Close the client, and end its loop."""
        self.call(self._made.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.world.block(lambda: self._caller.ended)


class _Transaction:
    def __init__(self, client: AsyncioClient, made: Transaction) -> None:
        self.made = made
        self.txn_id = made.txn_id
        self._client = client

    def commit(self) -> None:
        self._client.call(self.made.commit())

    def abort(self) -> None:
        self._client.call(self.made.abort())


def _of_asyncio(options: dict[str, Any]) -> dict[str, Any]:
    if isinstance(transaction := options.get("transaction"), _Transaction):
        return {**options, "transaction": transaction.made}
    return options


class _Producer:
    def __init__(self, client: AsyncioClient, made: aio.Producer) -> None:
        self._client = client
        self._made = made
        self._sent: list[Future[Any]] = []

    def send(self, content: bytes, **options: Any) -> Any:
        return self._client.call(self._made.send(content, **_of_asyncio(options)))

    def send_async(self, content: bytes, **options: Any) -> "Future[Any]":
        return self._begin(self._made.send(content, **_of_asyncio(options)))

    def send_many(self, contents: Sequence[bytes], **options: Any) -> "Future[Any]":
        return self._begin(self._made.send_many(contents, **_of_asyncio(options)))

    def _begin(self, coroutine: "Coroutine[Any, Any, Any]") -> "Future[Any]":
        self._sent.append(self._client.begin(coroutine))
        return self._sent[-1]

    def flush(self) -> None:
        """Wait for the tasks, too: what waits for room is in no queue yet."""
        for future in self._sent:
            self._client.world.block(future)
        self._client.call(self._made.flush())

    def close(self) -> None:
        self._client.call(self._made.close())


class _Consumer:
    """A consumer or a reader."""

    def __init__(self, client: AsyncioClient, made: Any) -> None:
        self._client = client
        self._made = made

    def receive(self, timeout_ms: int) -> Any:
        return self._take(self._made.receive, timeout_ms)

    def read_next(self, timeout_ms: int) -> Any:
        return self._take(self._made.read_next, timeout_ms)

    def receive_many(self, most: int, timeout_ms: int) -> Any:
        return self._client.call(self._made.receive_many(most, timeout_ms))

    def batch_receive(self) -> Any:
        return self._client.call(self._made.batch_receive())

    def get_broker_consumer_stats(self) -> Any:
        return self._client.call(self._made.get_broker_consumer_stats())

    def acknowledge(self, message: Any, **options: Any) -> None:
        self._client.call(self._made.acknowledge(message, **_of_asyncio(options)))

    def acknowledge_cumulative(self, message: Any, **options: Any) -> None:
        self._client.call(self._made.acknowledge_cumulative(message, **_of_asyncio(options)))

    def negative_acknowledge(self, message: Any) -> None:
        self._client.call(self._made.negative_acknowledge(message))

    def close(self) -> None:
        self._client.call(self._made.close())

    def _take(self, take: Any, timeout_ms: int) -> Any:
        if not self._client.dice.happens(CANCELLED):
            return self._client.call(take(timeout_ms))

        async def until_cancelled() -> Any:
            try:
                return await asyncio.wait_for(take(), timeout_ms / 1000)
            except asyncio.TimeoutError:
                raise Timeout("cancelled") from None

        return self._client.call(until_cancelled())
