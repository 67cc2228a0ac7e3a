"""Interceptors and listeners of consumers that write down what they hear, and from which threads."""

import threading
from collections.abc import Set as AbstractSet
from typing import Any

import pulsar_actors as pulsar


class Witness(pulsar.ConsumerInterceptor):
    """An interceptor that hears everything and changes nothing."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.threads: set[str] = set()

    def _hear(self, *what: Any) -> None:
        self.heard.append(what)
        self.threads.add(threading.current_thread().name)

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [what[1:] for what in self.heard if what[0] == kind]

    def before_consume(self, consumer: Any, message: pulsar.Message) -> pulsar.Message:
        self._hear("before", consumer, message.data())
        return message

    def on_acknowledge(self, consumer: Any, message_id: pulsar.MessageId, error: Exception | None) -> None:
        self._hear("acknowledge", consumer, message_id, error)

    def on_acknowledge_cumulative(self, consumer: Any, message_id: pulsar.MessageId, error: Exception | None) -> None:
        self._hear("cumulative", consumer, message_id, error)

    def on_negative_acks_send(self, consumer: Any, message_ids: AbstractSet[pulsar.MessageId]) -> None:
        self._hear("refused", consumer, set(message_ids))

    def on_ack_timeout_send(self, consumer: Any, message_ids: AbstractSet[pulsar.MessageId]) -> None:
        self._hear("late", consumer, set(message_ids))

    def on_partitions_change(self, topic: str, partitions: int) -> None:
        self._hear("partitions", topic, partitions)

    def close(self) -> None:
        self._hear("close")


class EventWitness(pulsar.ConsumerEventListener):
    """A listener of a failover consumer."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, int, bool]] = []
        self.threads: set[str] = set()

    def became_active(self, consumer: Any, partition: int) -> None:
        self._hear(consumer, partition, is_active=True)

    def became_inactive(self, consumer: Any, partition: int) -> None:
        self._hear(consumer, partition, is_active=False)

    def _hear(self, consumer: Any, partition: int, *, is_active: bool) -> None:
        self.heard.append((consumer, partition, is_active))
        self.threads.add(threading.current_thread().name)
