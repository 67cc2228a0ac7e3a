"""A queue of requests. Requests that fail again and again become dead letters.

A request that fails is negatively acknowledged, and is delivered again after a delay. Once it has failed on every try,
the consumer sends it to the dead letter topic and acknowledges it, so that it does not hold up other requests. A second
consumer reads the dead letters, which have the content and properties of the original, and its topic and id.
"""

import json

from where import fresh, service_url

import pulsar_actors as pulsar

TRIES = 3


def handle(request: bytes) -> float:
    """Divide two numbers: the work of the service. It raises on a bad request."""
    numbers = json.loads(request)
    return numbers["a"] / numbers["b"]


def serve_one(requests: pulsar.Consumer) -> None:
    """Receive one request, and acknowledge it, or negatively acknowledge it."""
    request = requests.receive(30_000)
    try:
        answer = handle(request.data())
    except (ValueError, KeyError, TypeError, ArithmeticError) as fault:
        print(f"try {request.redelivery_count() + 1} of {request.properties()['id']}: {type(fault).__name__}")
        requests.negative_acknowledge(request)
    else:
        print(f"answer to {request.properties()['id']}: {answer:g}")
        requests.acknowledge(request)


def main() -> None:
    """Send good and bad requests, serve them, and read the dead letters."""
    with service_url(__doc__) as url, pulsar.Client(url) as client:
        topic = fresh("requests")
        dead_letters = client.subscribe(f"{topic}-dead", "undertaker")
        requests = client.subscribe(
            topic,
            "service",
            pulsar.ConsumerType.Shared,
            negative_ack_redelivery_delay_ms=200,
            dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(
                max_redeliver_count=TRIES - 1, dead_letter_topic=f"{topic}-dead"
            ),
        )
        producer = client.create_producer(topic)
        for number, request in enumerate((b'{"a": 6, "b": 2}', b'{"a": 1, "b": 0}', b"not even JSON")):
            producer.send(request, properties={"id": str(number)})

        for _ in range(1 + 2 * TRIES):
            serve_one(requests)
        for _ in range(2):
            letter = dead_letters.receive(30_000)
            print(f"given up: {letter.data().decode()} (request {letter.properties()['id']})")
            dead_letters.acknowledge(letter)


if __name__ == "__main__":
    main()
