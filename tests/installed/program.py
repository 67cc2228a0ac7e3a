"""A user's program, as it is written: it is checked by mypy and pyright against the installed package, and then run.

`.ci/artefacts` copies it out of the checkout. It uses what is typed in ways that matter: overloads, generics, options.
"""

from datetime import timedelta

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker


class Words:
    """Keeps what a listener gets."""

    def __init__(self) -> None:
        self.got: list[str] = []

    def listen(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        self.got.append(message.data().decode())
        consumer.acknowledge(message)


def main() -> None:
    words = Words()
    with EmbeddedBroker() as broker, pulsar.Client(broker.service_url, operation_timeout_seconds=20) as client:
        client.subscribe("words", "listener", message_listener=words.listen)
        consumer: pulsar.Consumer = client.subscribe("words", "reader", consumer_type=pulsar.ConsumerType.Shared)
        producer: pulsar.Producer = client.create_producer("words", schema=pulsar.schema.StringSchema())
        message_id: pulsar.MessageId = producer.send("one", deliver_after=timedelta(0))
        ids: list[pulsar.MessageId] = producer.send_many(["two", "three"], ids=True).result(20)
        found = [consumer.receive(20_000) for _ in range(3)]
        data: list[bytes] = [message.data() for message in found]
        consumer.acknowledge(found)
        stats: pulsar.ClientStats = client.stats()
        with client.inspect(broker=broker) as page:
            assert page.url.startswith("http://127.0.0.1:")
        assert sorted(data) == [b"one", b"three", b"two"]
        assert len({message_id, *ids}) == 3
        assert stats.pending == 0
    print("it works")  # noqa: T201 - it is a program


if __name__ == "__main__":
    main()
