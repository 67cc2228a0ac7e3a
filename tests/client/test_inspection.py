"""What the page of a client shows, on the embedded broker."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors import asyncio as pulsar_asyncio
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.client.inspection import Inspector
from pulsar_actors.inspector.snapshot import MOST_ACTORS
from tests.support.life import run_program, until


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    with pulsar.Client(broker.service_url) as client:
        yield client


@pytest.fixture
def page(client: pulsar.Client, broker: EmbeddedBroker) -> Iterator[Inspector]:
    with client.inspect(broker=broker) as page:
        yield page


def snapshot(page: Inspector) -> Any:
    with urllib.request.urlopen(f"{page.url}snapshot", timeout=20) as answer:  # noqa: S310 - our own
        return json.load(answer)


def shown(page: Inspector, start: str) -> Any:
    """Return what is shown of the only actor whose name begins so."""
    [one] = [one for one in snapshot(page)["shown"] if one["name"].startswith(start)]
    return one


def states(page: Inspector, start: str) -> dict[str, str]:
    return {machine["chart"]: machine["state"] for machine in shown(page, start)["machines"]}


def test_a_new_client_is_shown_alone(client: pulsar.Client, broker: EmbeddedBroker, page: Inspector) -> None:
    told = snapshot(page)
    assert told["title"] == "A client of pulsar_actors"
    assert told["facts"] == {"service": broker.service_url, "connections": "0"}
    assert [one["name"] for one in told["shown"]] == ["client"]
    assert states(page, "client") == {"client_close": "OPEN"}
    assert told["changes"] == []


def test_each_machine_is_shown_with_its_parts_and_its_state(client: pulsar.Client, page: Inspector) -> None:
    consumer = client.subscribe("t", "s")
    producer = client.create_producer("t")
    assert states(page, "producer") == {"producer": "READY"}
    assert states(page, "connection") == {
        "connection": "READY",
        "connection_requests": "OPEN",
        "registered_handlers": "OPEN",
        "connection_keepalive": "ALIVE",
        "connection_credentials": "ACCEPTED",
    }
    assert states(page, "consumer")["consumer"] == "READY"
    producer.close()
    consumer.close()
    until(lambda: [one["name"].partition(" ")[0] for one in snapshot(page)["shown"]] == ["client", "connection"])


def test_numbers_are_those_of_the_statistics(client: pulsar.Client, page: Inspector) -> None:
    consumer = client.subscribe("t", "s")
    producer = client.create_producer("t")
    for _ in range(3):
        producer.send(b"four")
    until(lambda: consumer.stats().queued == 3)
    consumer.acknowledge(consumer.receive(10_000))
    until(lambda: consumer.stats().acknowledged == 1)
    counters, gauges = shown(page, "producer")["counters"], shown(page, "producer")["gauges"]
    assert (counters, gauges) == (
        {"sent": 3, "sent bytes": 12, "failed": 0, "reconnects": 0},
        {"pending": 0, "pending bytes": 0},
    )
    counters, gauges = shown(page, "consumer")["counters"], shown(page, "consumer")["gauges"]
    assert (counters["received"], counters["received bytes"], counters["acknowledged"]) == (1, 4, 1)
    assert gauges == {"queued": 2, "queued bytes": 8}


def test_changes_are_those_of_the_history(client: pulsar.Client, page: Inspector) -> None:
    client.create_producer("t").close()
    told = [(change["actor"], change["text"]) for change in snapshot(page)["changes"]]
    assert told == [(change.actor, change.without_actor()) for change in client.history()]


def test_a_fault_that_is_clicked_hits_and_is_shown(client: pulsar.Client, page: Inspector) -> None:
    producer = client.create_producer("t")
    at = snapshot(page)["faults"].index("cut all connections")
    request = urllib.request.Request(f"{page.url}faults/{at}", method="POST")  # noqa: S310 - our own
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - the same
        assert answer.status == 204
    until(lambda: producer.stats().reconnects == 1)
    assert any(change["failed"] and "ConnectionLost" in change["text"] for change in snapshot(page)["changes"])


def test_without_an_embedded_broker_there_are_no_faults(client: pulsar.Client) -> None:
    with client.inspect() as page:
        assert snapshot(page)["faults"] == []


def test_partitions_are_shown_each(client: pulsar.Client, broker: EmbeddedBroker, page: Inspector) -> None:
    broker.create_topic("p", 3)
    producer = client.create_producer("p")
    producer.send(b"x")
    names = [one["name"] for one in snapshot(page)["shown"] if "partition-" in one["name"]]
    assert len(names) == 3
    assert {"multi_topics", "partition_discovery"} <= {
        machine["chart"] for one in snapshot(page)["shown"] for machine in one["machines"]
    }


def test_of_very_many_the_first_are_shown_and_the_others_counted(client: pulsar.Client, page: Inspector) -> None:
    readers = [client.create_reader("t", pulsar.MessageId.earliest) for _ in range(MOST_ACTORS)]
    told = snapshot(page)
    assert len(told["shown"]) == MOST_ACTORS
    assert told["left_out"] == 2  # besides the readers there are the client and its connection
    assert len(readers) == MOST_ACTORS


def test_the_page_outlives_the_client_and_keeps_none_alive(broker: EmbeddedBroker) -> None:
    client = pulsar.Client(broker.service_url)
    with client.inspect() as page:
        client.create_producer("t")
        client.close()
        until(lambda: states(page, "client") == {"client_close": "CLOSED"})
        abandoned = pulsar.Client(broker.service_url)
        with abandoned.inspect() as other:
            abandoned.create_producer("t")
            del abandoned
            until(lambda: states(other, "client") == {"client_close": "CLOSED"})


def test_the_asynchronous_client_has_one_too(broker: EmbeddedBroker) -> None:
    import asyncio  # noqa: PLC0415 - for this test only

    async def use() -> None:
        async with pulsar_asyncio.Client(broker.service_url) as client:
            await client.create_producer("t")
            with client.inspect(broker=broker) as page:
                assert states(page, "producer") == {"producer": "READY"}
                assert snapshot(page)["faults"]

    asyncio.run(use())


def test_a_program_ends_although_its_page_is_open() -> None:
    program = """
        import pulsar_actors as pulsar

        client = pulsar.Client("pulsar://127.0.0.1:1")
        print(client.inspect())
        client.close()
    """
    ran = run_program(program)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("<Inspector at http://127.0.0.1:")


@pytest.mark.parametrize("port", [-1, 65_536, "8080", None, True, 1.0])
def test_a_port_that_is_none_is_refused(client: pulsar.Client, port: Any) -> None:
    with pytest.raises(pulsar.InvalidArgument, match="port takes a whole number from 0 to 65,535"):
        client.inspect(port=port)


def test_a_broker_that_is_none_is_refused(client: pulsar.Client) -> None:
    with pytest.raises(pulsar.InvalidArgument, match="broker takes an EmbeddedBroker, or None, got 'pulsar://h'"):
        client.inspect(broker="pulsar://h")  # type: ignore[arg-type] # the usual slip
