"""Deliveries to shops that may be closed: a delivery that fails is retried later, with a longer delay each time.

Other deliveries do not wait meanwhile. A delivery that is retried is not in memory: it is on the retry topic, and the
broker delivers it again when its delay is over. Its properties have the number of retries, and what the next try has to
know. After a few tries it becomes a dead letter.
"""

from where import fresh, service_url

import pulsar_actors as pulsar

OPENS_AT_TRY = {"apples": 1, "pears": 3, "plums": 99}
MOST_RETRIES = 3


def deliver(goods: str, tries: int) -> None:
    """Deliver: the work of the service. It raises if the shop is closed."""
    if tries < OPENS_AT_TRY[goods]:
        raise ConnectionError(f"nobody is in to take {goods}")


def serve_one(deliveries: pulsar.Consumer) -> None:
    """Receive one delivery, and acknowledge it or retry it later."""
    message = deliveries.receive(30_000)
    goods, retries = message.data().decode(), int(message.properties().get("RECONSUMETIMES", "0"))
    try:
        deliver(goods, retries + 1)
    except ConnectionError as fault:
        delay_ms = 100 * 2**retries
        print(f"{fault}: again in {delay_ms} ms")
        deliveries.reconsume_later(message, delay_ms, {"last fault": str(fault)})
    else:
        print(f"delivered: {goods}, after {retries} retries")
        deliveries.acknowledge(message)


def main() -> None:
    """Deliver what can be delivered, and read the dead letters."""
    with service_url(__doc__) as url, pulsar.Client(url) as client:
        topic = fresh("deliveries")
        dead_letters = client.subscribe(f"{topic}-carrier-DLQ", "undertaker")
        deliveries = client.subscribe(
            topic,
            "carrier",
            pulsar.ConsumerType.Shared,
            enable_retry=True,
            dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(MOST_RETRIES),
        )
        producer = client.create_producer(topic)
        for goods in OPENS_AT_TRY:
            producer.send(goods.encode())

        for _ in range(1 + 3 + 1 + MOST_RETRIES):
            serve_one(deliveries)
        letter = dead_letters.receive(30_000)
        print(f"given up: {letter.data().decode()}, for {letter.properties()['last fault']}")
        dead_letters.acknowledge(letter)


if __name__ == "__main__":
    main()
