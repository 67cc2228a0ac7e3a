"""The client of Spark's tests, which sends what Spark reads, and reads what Spark has written.

With the real broker it is the official client. With the embedded broker it is this package: these tests also run with
the oldest supported versions, and the oldest official client sometimes crashes, and the test process with it.
"""

import time
from collections.abc import Callable
from contextlib import closing
from types import TracebackType
from typing import Any, TypeAlias

import pulsar_actors

PATIENCE = 300.0


def until(true: Callable[[], Any]) -> Any:
    """Wait until a condition holds, and return its value. Spark is slow, above all on a busy machine."""
    deadline = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


Count: TypeAlias = Callable[[list[str], int], int]
"""Checks that all numbers from 0 on are there, so many; returns how many are repeated."""


class Traffic:
    """One client of a broker."""

    def __init__(self, service_url: str, module: Any = pulsar_actors, **options: Any) -> None:
        self._module = module
        logger = module.FileLogger(module.LoggerLevel.Error, "/dev/null")
        self._client = module.Client(service_url, logger=logger, **options)

    def send(self, topic: str, contents: list[str], *, per_batch: int = 0, **options: Any) -> list[Any]:
        """Send texts, so many in each batch, or each by itself; return their message ids."""
        batching = {
            "batching_enabled": per_batch > 0,
            "batching_max_messages": per_batch or 1000,
            "batching_max_publish_delay_ms": 10_000,
        }
        producer = self._client.create_producer(topic, block_if_queue_full=True, **batching)
        ids: list[Any] = []
        for content in contents:
            producer.send_async(content.encode(), lambda result, one: ids.append((result, one)), **options)
        producer.flush()
        producer.close()
        assert [result for result, _ in ids] == [self._module.Result.Ok] * len(contents)
        return [one for _, one in ids]

    def read(self, topic: str) -> list[Any]:
        """Read all messages of a topic."""
        reader = self._client.create_reader(topic, self._module.MessageId.earliest)
        messages: list[Any] = []
        while reader.has_message_available():
            messages.append(reader.read_next(20_000))
        reader.close()
        return messages

    def texts(self, topic: str) -> list[str]:
        """Read the texts."""
        return [message.data().decode() for message in self.read(topic)]

    def subscribed(self, topic: str) -> Any:
        """Subscribe, sharing the messages; to be used in a `with`."""
        return closing(self._client.subscribe(topic, "traffic", consumer_type=self._module.ConsumerType.Shared))

    def __enter__(self) -> "Traffic":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()
