"""A listener: a function that is called with each message, on a thread of the client's.

The listener acknowledges what it has dealt with. What it refuses comes again, after the delay that the consumer was
made with, and so does what it raises on, once the consumer is gone. Nobody has to call `receive`.
"""

import threading

from where import fresh, service_url

import pulsar_actors as pulsar

ORDERS = ("3 apples", "no pears today", "2 plums")


class Desk:
    """Takes orders. The first one that it cannot understand at once, it asks to hear again."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.is_done = threading.Event()

    def hear(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        """Take one order. Called for one message after the other."""
        order = message.data().decode()
        if not order[0].isdigit() and message.redelivery_count() == 0:
            print(f"again, please: {order}")
            consumer.negative_acknowledge(message)
            return
        print(f"taken: {order}")
        consumer.acknowledge(message)
        self.taken.append(order)
        if len(self.taken) == len(ORDERS):
            self.is_done.set()


def main() -> None:
    """Send some orders, and listen until all are taken."""
    with service_url(__doc__) as url, pulsar.Client(url) as client:
        topic, desk = fresh("orders"), Desk()
        consumer = client.subscribe(
            topic,
            "desk",
            pulsar.ConsumerType.Shared,
            message_listener=desk.hear,
            negative_ack_redelivery_delay_ms=200,
        )
        producer = client.create_producer(topic)
        for order in ORDERS:
            producer.send(order.encode())
        if not desk.is_done.wait(30):
            raise SystemExit("not all orders were taken")
        consumer.unsubscribe()
        print(f"{len(desk.taken)} orders taken")


if __name__ == "__main__":
    main()
