"""A small service: it takes orders from one topic, and sends an invoice for each to another.

`test_invoices.py` beside it tests it on an embedded broker, also with network faults.
"""

import json
import sys

import pulsar_actors as pulsar

PRICES = {"apple": 30, "pear": 45}


def invoice(order: bytes) -> bytes:
    """Return the invoice for an order. A ValueError says what is wrong with the order."""
    match json.loads(order):
        case {"id": int(number), "item": str(item), "count": int(count)} if item in PRICES:
            return json.dumps({"order": number, "cents": PRICES[item] * count}).encode()
        case {"id": int(), "item": str(item), "count": int()}:
            raise ValueError(f"nobody here sells {item[:40]!a}")
        case _:
            raise ValueError("an order is a JSON object with a number as id, a text as item and a number as count")


class Invoices:
    """The service. `run` serves until `close` is called, from another thread."""

    def __init__(self, client: pulsar.Client) -> None:
        self._orders = client.subscribe(
            "orders", "invoices", pulsar.ConsumerType.Shared, initial_position=pulsar.InitialPosition.Earliest
        )
        self._invoices = client.create_producer("invoices")
        self._rejected = client.create_producer("rejected")

    def run(self) -> None:
        """Serve until `close` is called. An order is acknowledged when its invoice or its rejection is stored."""
        for order in self._orders:
            try:
                self._invoices.send(invoice(order.data()))
            except (ValueError, RecursionError) as fault:  # RecursionError: JSON that is nested too deeply
                self._rejected.send(order.data(), properties={"why": str(fault)})
            try:
                self._orders.acknowledge(order)
            except pulsar.AlreadyClosed:
                return  # `close` was called; the order is delivered again to the next service

    def close(self) -> None:
        """End `run`."""
        self._orders.close()


def main(service_url: str) -> None:
    """Serve until Ctrl-C."""
    with pulsar.Client(service_url) as client:
        service = Invoices(client)
        print("serving", flush=True)
        service.run()


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "pulsar://localhost:6650")
    except KeyboardInterrupt:
        print("stopped")
