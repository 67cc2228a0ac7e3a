"""Tests of the service against a broker that runs in the test: no mocks, no installation, no fixed ports.

Each test has a broker of its own, without messages. Run them with `python -m pytest` in this folder.
"""
# ruff: noqa: D103 - a test's name is the sentence that it proves

import json
import threading
from collections.abc import Iterator

import pytest
from invoices import Invoices

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    with pulsar.Client(broker.service_url) as made:
        yield made


@pytest.fixture
def service(client: pulsar.Client) -> Iterator[Invoices]:
    invoices = Invoices(client)
    thread = threading.Thread(target=invoices.run)
    thread.start()
    yield invoices
    invoices.close()
    thread.join()


def order(client: pulsar.Client, item: str, count: int = 1) -> None:
    with client.create_producer("orders") as orders:
        orders.send(json.dumps({"id": 7, "item": item, "count": count}).encode())


def first_of(client: pulsar.Client, topic: str) -> pulsar.Message:
    with client.create_reader(topic, pulsar.MessageId.earliest) as reader:
        return reader.read_next(timeout_millis=10_000)


@pytest.mark.usefixtures("service")
def test_an_order_gets_an_invoice(client: pulsar.Client) -> None:
    order(client, "apple", count=3)
    assert json.loads(first_of(client, "invoices").data()) == {"order": 7, "cents": 90}


@pytest.mark.usefixtures("service")
def test_an_order_for_what_is_not_sold_is_rejected_with_the_reason(client: pulsar.Client) -> None:
    order(client, "melon")
    assert first_of(client, "rejected").properties() == {"why": "nobody here sells 'melon'"}


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(
    "order",
    [
        *(b"no JSON", b"\xff", b"[1]", b"7", b"{}", b'{"id": 1, "item": ["pear"], "count": 2}'),
        *(b'{"id": 1, "item": "\\ud800", "count": 2}', b"[" * 100_000),
    ],
)
def test_what_is_no_order_is_rejected_and_the_next_one_served(client: pulsar.Client, order: bytes) -> None:
    with client.create_producer("orders") as orders:
        orders.send(order)
        orders.send(b'{"id": 8, "item": "pear", "count": 1}')
    rejected = first_of(client, "rejected")
    assert (rejected.data(), "why" in rejected.properties()) == (order, True)
    assert json.loads(first_of(client, "invoices").data()) == {"order": 8, "cents": 45}


@pytest.mark.usefixtures("service")
def test_an_order_is_served_even_if_the_connection_fails_in_the_middle_of_it(
    broker: EmbeddedBroker, client: pulsar.Client
) -> None:
    order(client, "pear")
    first_of(client, "invoices")  # the service is at work
    # The second of the next two receipts is the invoice's. It is lost, and so is the connection: the service does not
    # learn that the invoice is stored, and cannot acknowledge the order. So invoices may repeat, and none may be
    # missing.
    fault = broker.faults.on("receipt", nth=2).close_connection()
    order(client, "apple")
    fault.wait(timeout=10)
    order(client, "apple", count=2)
    expected, bills = [45, 30, 60], list[int]()
    with client.create_reader("invoices", pulsar.MessageId.earliest) as invoices:
        while expected[-1] not in bills:
            bills.append(json.loads(invoices.read_next(timeout_millis=10_000).data())["cents"])
    assert list(dict.fromkeys(bills)) == expected
