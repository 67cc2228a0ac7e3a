"""Scenarios in which the broker speaks first: closes, the end of a topic, fencing, keepalive."""

import threading
import time
from typing import Any

from tests.vectors.scenarios import SETTLE_SECONDS, receive, refused
from tests.vectors.stage import Stage, pulsar


def broker_sent(stage: Stage) -> None:
    """What a broker sends by itself: closes on unload, the end of a topic; and refusals."""
    client = stage.client(operation_timeout_seconds=5)
    topic = stage.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="named")
    stage.step("producer and consumer busy")
    refused(lambda: client.create_producer(topic, producer_name="named"))
    refused(lambda: client.subscribe(topic, "s"))
    stage.step("unload")
    stage.broker.admin.unload(topic)
    time.sleep(1)
    stage.send(producer, b"after the unload")
    consumer.acknowledge(receive(consumer, 1)[0])
    time.sleep(SETTLE_SECONDS)
    stage.step("terminate")
    stage.broker.admin.terminate(topic)
    time.sleep(SETTLE_SECONDS)
    refused(lambda: producer.send(b"too late"))
    exclusive(stage, client)
    deduplicated(stage, client)


def exclusive(stage: Stage, client: Any) -> None:
    topic = stage.topic()
    modes = pulsar.ProducerAccessMode
    stage.step("exclusive producers")
    first = client.create_producer(topic, access_mode=modes.Exclusive)
    refused(lambda: client.create_producer(topic, access_mode=modes.Exclusive))
    stage.step("waiting for exclusive")
    waiting = threading.Thread(target=lambda: client.create_producer(topic, access_mode=modes.WaitForExclusive))
    waiting.start()
    time.sleep(SETTLE_SECONDS)
    first.close()
    waiting.join()
    stage.step("fencing")
    client.create_producer(topic, access_mode=modes.ExclusiveWithFencing)
    time.sleep(SETTLE_SECONDS)


def deduplicated(stage: Stage, client: Any) -> None:
    topic = stage.topic()
    stage.step("a duplicate")
    producer = client.create_producer(topic, producer_name="twice")
    stage.broker.admin.set_deduplication(topic, on=True)
    time.sleep(1)
    for sequence_id in (7, 7, 8):
        stage.send(producer, b"once", sequence_id=sequence_id)


def idle(stage: Stage) -> None:
    """A connection that is left alone longer than either side's keepalive."""
    client = stage.client()
    client.create_producer(stage.topic())
    stage.step("idle")
    time.sleep(32)
