import threading
from typing import Any

import pytest
from life import until

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.client.consuming.consumer_event_listener import ConsumerEventListener
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.topic_name import TopicName


class Witness(ConsumerEventListener):
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


def failover(client: Client, topic: str, name: str, priority: int = 0) -> tuple[Any, Witness]:
    witness = Witness()
    consumer = client.subscribe(
        topic, "s", ConsumerType.Failover, consumer_name=name, consumer_event_listener=witness, priority_level=priority
    )
    return consumer, witness


def test_a_failover_consumer_hears_whether_it_is_served(broker: EmbeddedBroker, client: Client, topic: str) -> None:
    broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse(topic), 2))
    partition = f"{topic}-partition-1"
    second, heard_second = failover(client, partition, "b", priority=1)
    until(lambda: heard_second.heard == [(second, 1, True)])
    first, heard_first = failover(client, partition, "a")
    until(lambda: heard_first.heard == [(first, 1, True)])
    until(lambda: heard_second.heard == [(second, 1, True), (second, 1, False)])
    first.close()
    until(lambda: heard_second.heard[-1] == (second, 1, True))
    second.close()
    (thread,) = heard_second.threads
    assert thread.startswith("pulsar-listener")


def test_the_consumers_of_a_lower_level_come_first(client: Client, topic: str) -> None:
    first, heard_first = failover(client, topic, "z", priority=3)
    until(lambda: heard_first.heard == [(first, -1, True)])
    second, heard_second = failover(client, topic, "y", priority=2)
    until(lambda: heard_first.heard == [(first, -1, True), (first, -1, False)])
    assert heard_second.heard == [(second, -1, True)]
    first.close()
    second.close()


def test_a_listener_that_raises_is_logged_and_told_of_the_next(
    client: Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Raising(Witness):
        def became_active(self, consumer: Any, partition: int) -> None:
            super().became_active(consumer, partition)
            raise RuntimeError

    witness = Raising()
    consumer = client.subscribe(topic, "s", ConsumerType.Failover, consumer_event_listener=witness, priority_level=1)
    until(lambda: len(witness.heard) == 1)
    other, _ = failover(client, topic, "a")
    until(lambda: len(witness.heard) == 2)
    assert [record.message for record in caplog.records] == [f"a listener or interceptor of {topic} raised"]
    consumer.close()
    other.close()


def test_one_that_hears_nothing_is_a_listener_too(client: Client, topic: str) -> None:
    options: dict[str, Any] = {"consumer_type": ConsumerType.Failover}
    with client.subscribe(topic, "s", consumer_event_listener=ConsumerEventListener(), **options):
        client.subscribe(topic, "s", **options).close()
    with pytest.raises(InvalidArgument, match="consumer_event_listener"):
        client.subscribe(topic, "s", consumer_event_listener=print)  # type: ignore[arg-type]
