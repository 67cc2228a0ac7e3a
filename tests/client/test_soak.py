"""A few seconds of everything at once, on real threads and sockets that fail: each message is accounted for.

The simulation looks for what goes wrong by seeds, again and again; this is for what only threads can do.
"""

import random
import threading
from collections import Counter
from typing import Any

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.wire.PulsarApi_pb2 import CommandFlow, CommandMessage, CommandSend, CommandSendReceipt
from pulsar_actors.wire.topic_name import TopicName
from tests.support.life import SOON, nothing_left, until

TOPIC = "soak"
MESSAGES = 600
TROUBLES = 12
KINDS = (
    pulsar.ConsumerType.Exclusive,
    pulsar.ConsumerType.Failover,
    pulsar.ConsumerType.Shared,
    pulsar.ConsumerType.KeyShared,
)


class Tally:
    """What was stored and what came, under the names of messages."""

    def __init__(self) -> None:
        self.stored: set[str] = set()
        self.failed: Counter[str] = Counter()
        self.received: dict[pulsar.ConsumerType, Counter[str]] = {kind: Counter() for kind in KINDS}

    def report(self, name: str) -> Any:
        """Make a callback that notes what became of a message."""

        def done(result: pulsar.Result, _: object) -> None:
            if result == pulsar.Result.Ok:
                self.stored.add(name)
            else:
                self.failed[str(result)] += 1

        return done

    def missing(self) -> set[str]:
        return {name for received in self.received.values() for name in self.stored - received.keys()}


def publish(client: pulsar.Client, tally: Tally, number: int) -> None:
    with client.create_producer(
        TOPIC, batching_enabled=bool(number), block_if_queue_full=True, max_pending_messages=20
    ) as producer:
        for count in range(MESSAGES):
            name = f"{number}-{count}"
            producer.send_async(name.encode(), tally.report(name), partition_key=str(count % 7))
        producer.flush()


def receive(consumer: pulsar.Consumer, received: Counter[str], dice: random.Random) -> None:
    for message in consumer:
        received[message.data().decode()] += 1
        if dice.random() < 0.01:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)


def trouble(broker: EmbeddedBroker, dice: random.Random) -> None:
    kind = dice.choice((CommandSend, CommandSendReceipt, CommandMessage, CommandFlow))
    match dice.randrange(4):
        case 0:
            broker.cut_connections()
        case 1:
            broker.call(lambda inside: inside.cluster.unload(TopicName.parse(TOPIC)))
        case 2:
            broker.faults.on(kind, nth=dice.randrange(1, 9)).close_connection()
        case _:
            broker.faults.on(kind).stall().wait(timeout=SOON)
            broker.faults.clear()


def test_whatever_fails_all_that_was_stored_is_received_and_nothing_is_left() -> None:
    dice, tally = random.Random(1), Tally()  # noqa: S311 - chance, not a secret
    with nothing_left(), EmbeddedBroker() as broker:
        client = pulsar.Client(
            broker.service_url, initial_backoff_interval_ms=5, max_backoff_interval_ms=50, io_threads=2
        )
        consumers = [
            (kind, client.subscribe(TOPIC, kind.name, kind, receiver_queue_size=9, negative_ack_redelivery_delay_ms=50))
            for kind in KINDS
        ]
        threads = [
            *(threading.Thread(target=publish, args=(client, tally, number), daemon=True) for number in range(2)),
            *(
                threading.Thread(target=receive, args=(each, tally.received[kind], dice), daemon=True)
                for kind, each in consumers
            ),
        ]
        for thread in threads:
            thread.start()
        for moment in range(1, TROUBLES + 1):
            until(lambda moment=moment: len(tally.stored) >= 2 * MESSAGES * moment // (TROUBLES + 8), "progress")
            trouble(broker, dice)
        broker.faults.clear()
        until(lambda: len(tally.stored) == 2 * MESSAGES, "storing all")
        until(lambda: not tally.missing(), "receiving all")
        assert not tally.failed
        assert client.stats().pending == 0
        client.close()
        for thread in threads:
            thread.join(SOON)
            assert not thread.is_alive()
        consumers.clear()
        threads.clear()
        del client
