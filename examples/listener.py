"""A listener: a function that the client calls with each message, on one of its listener threads.

The listener acknowledges each message that it has processed. A message that it negatively acknowledges is delivered
again after the delay that `subscribe` was given. A message on which it raises is delivered again after the consumer is
closed. The program never calls `receive`.
"""

import threading

from where import fresh, service_url

import pulsar_actors as pulsar

ORDERS = ("3 apples", "no pears today", "2 plums")


class Desk:
    """A listener that takes orders.

    An order without a number is negatively acknowledged once, and so delivered again.
    """

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.is_done = threading.Event()

    def hear(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        """Take one order. The client calls this for one message after another."""
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
    """Send some orders, and wait until all are taken."""
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
