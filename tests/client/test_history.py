"""What `history()` tells of a client and its handles, on the embedded broker."""

import asyncio
import json
import logging
import pickle
import re
import sys
import traceback
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors import asyncio as pulsar_asyncio
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.runtime.state_changes import NOTED
from tests.support.life import until


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    with pulsar.Client(broker.service_url) as client:
        yield client


def steps(history: pulsar.History, actor: str, chart: str) -> list[str]:
    """List the states that one chart of an actor went to."""
    return [change.dest for change in history if actor in change.actor and change.chart == chart]


def test_a_producer_tells_how_it_came_to_its_broker_and_how_it_closed(client: pulsar.Client) -> None:
    producer = client.create_producer("t")
    assert steps(producer.history(), "producer", "producer") == ["LOOKING_UP", "CONNECTING", "CREATING", "READY"]
    producer.close()
    assert steps(producer.history(), "producer", "producer")[-2:] == ["CLOSING", "CLOSED"]


def test_messages_and_acknowledgements_are_in_no_history(client: pulsar.Client) -> None:
    producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
    before = client.history()
    for _ in range(50):
        producer.send(b"x")
        consumer.acknowledge(consumer.receive(10_000))
    assert client.history() == before


def test_a_client_tells_of_all_that_it_has_in_the_order_in_which_it_happened(client: pulsar.Client) -> None:
    producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
    reader = client.create_reader("t", pulsar.MessageId.earliest)
    history = client.history()
    assert [change.time for change in history] == sorted(change.time for change in history)
    actors = {re.sub(r"\d+", "N", change.actor) for change in history}
    assert actors == {
        "connection to N.N.N.N:N",
        "lookup N of persistent://public/default/t (PartitionedTopicMetadata)",
        "lookup N of persistent://public/default/t (LookupTopic)",
        "producer N on persistent://public/default/t",
        "consumer N on persistent://public/default/t",
    }
    for handle in (producer, consumer, reader):
        assert set(handle.history()) < set(history)


def test_the_time_of_a_change_is_the_same_whoever_is_asked(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url, io_threads=4) as client:
        producers = [client.create_producer(f"t-{number}") for number in range(8)]
        whole = set(client.history())
        assert all(set(producer.history()) <= whole for producer in producers)


def test_what_has_ended_stays_in_the_history_of_the_client(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        client.create_producer("t").close()
        until(lambda: steps(client.history(), "producer", "handle_lifetime") == ["RELEASED", "GONE"])
    history = client.history()
    assert steps(history, "connection", "connection")[-2:] == ["CLOSING", "CLOSED"]
    assert steps(history, "client", "client_close")[-1] == "CLOSED"


def test_the_loss_of_a_connection_and_the_way_back_are_told_with_the_class_of_the_error(
    broker: EmbeddedBroker, client: pulsar.Client
) -> None:
    producer = client.create_producer("t")
    broker.faults.on("send").close_connection()
    producer.send(b"x")
    lost, found = [change for change in producer.history() if change.event in ("detached", "looked_up")][1:]
    assert (lost.source, lost.dest, lost.error) == ("READY", "WAITING", "ConnectionLost")
    assert (found.source, found.dest, found.error) == ("LOOKING_UP", "CONNECTING", None)
    assert steps(client.history(), "connection", "connection").count("READY") == 2


def test_a_table_view_tells_of_its_reader(client: pulsar.Client) -> None:
    view = client.create_table_view("t")
    assert steps(view.history(), "consumer", "consumer")[-1] == "READY"
    view.close()
    assert steps(view.history(), "consumer", "consumer")[-1] == "CLOSED"


def test_the_handles_of_several_topics_tell_of_each_of_them(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    broker.create_topic("p", partitions=2)
    for handle in (client.create_producer("p"), client.subscribe("p", "s"), client.subscribe(["a", "b"], "s")):
        history = handle.history()
        assert len({change.actor for change in history if change.dest == "READY"}) >= 2
        assert "multi_topics" in {change.chart for change in history}


def test_a_transaction_and_its_coordinator_are_in_the_history_of_the_client(client: pulsar.Client) -> None:
    with client.new_transaction() as transaction:
        client.create_producer("t").send(b"x", transaction=transaction)
    assert "COMMITTED" in steps(client.history(), "transaction 1", "transaction")
    assert "READY" in steps(client.history(), "transaction coordinator", "transaction_coordinator")


def test_a_transaction_tells_of_itself_alone_also_after_its_end(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        producer = client.create_producer("t")
        with client.new_transaction() as first:
            producer.send(b"x", transaction=first)
        second = client.new_transaction()
        assert steps(second.history(), "transaction 2", "transaction") == ["OPEN"]
        second.abort()
        assert set(second.history()) < set(client.history())
    history = first.history()
    assert {change.actor for change in history} == {"transaction 1 of transaction coordinator 0"}
    assert steps(history, "transaction 1", "transaction")[-1] == "COMMITTED"


def test_the_time_is_that_of_the_clock_on_the_wall(client: pulsar.Client) -> None:
    before = datetime.now(timezone.utc).timestamp()
    producer = client.create_producer("t")
    after = datetime.now(timezone.utc).timestamp()
    assert all(before - 0.1 < change.time < after + 0.1 for change in producer.history())


def test_a_line_tells_when_who_where_and_why() -> None:
    change = pulsar.StateChange(
        1_795_836_276.321,
        "producer 1 on t",
        "producer",
        "detached",
        "READY",
        "WAITING",
        None,
        "back_off",
        "ConnectionLost",
    )
    assert str(change) == (
        "2026-11-28 03:24:36.321Z producer 1 on t: producer READY -> WAITING on detached (ConnectionLost) / back_off"
    )
    assert str(change._replace(error=None, guard="is_final", action=None)) == (
        "2026-11-28 03:24:36.321Z producer 1 on t: producer READY -> WAITING on detached [is_final]"
    )
    assert str(pulsar.History([change, change])) == f"{change}\n{change}"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
def test_the_error_that_ends_a_handle_has_the_last_changes_as_a_note(
    broker: EmbeddedBroker, client: pulsar.Client
) -> None:
    producer = client.create_producer("t")
    broker.faults.on("producer").refuse("TopicTerminatedError", "it is over")
    broker.faults.on("send").close_connection()
    with pytest.raises(pulsar.TopicTerminated) as raised:
        producer.send(b"x")
    with pytest.raises(pulsar.TopicTerminated) as again:
        producer.send(b"x")
    (note,) = again.value.__notes__
    first, *lines = note.split("\n")
    assert first == "The last changes of state:"
    assert 4 <= len(lines) <= NOTED
    assert "producer CREATING -> TERMINATED on request_refused (TopicTerminated)" in lines[-1]
    assert note in "".join(traceback.format_exception(again.value))
    again.value.add_note("of the caller")
    with pytest.raises(pulsar.TopicTerminated) as third:
        producer.send(b"x")
    assert third.value.__notes__ == [note]
    assert raised.value is not again.value


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
def test_the_error_of_a_creation_has_a_note_which_is_pickled_with_it(
    broker: EmbeddedBroker, client: pulsar.Client
) -> None:
    broker.faults.on("subscribe").refuse("TopicNotFound", "there is none")
    with pytest.raises(pulsar.TopicNotFound) as raised:
        client.subscribe("t", "s")
    (note,) = raised.value.__notes__
    assert "SUBSCRIBING -> FAILED" in note
    assert pickle.loads(pickle.dumps(raised.value)).__notes__ == [note]  # noqa: S301 - our own


def test_each_change_is_a_line_of_the_log_at_level_debug(
    client: pulsar.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "pulsar_actors"):
        producer = client.create_producer("t")
        producer.close()
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    texts = {f"the {change.actor}: {change.without_actor()}" for change in producer.history()}
    assert texts <= set(lines)
    assert any(line.startswith("lookup 1 of persistent://public/default/t") for line in lines)


def test_a_saved_history_is_read_back_the_same(client: pulsar.Client, tmp_path: Path) -> None:
    client.create_producer("t")
    history = client.history()
    history.save(tmp_path / "history.json")
    assert pulsar.History.load(str(tmp_path / "history.json")) == history


GOOD = {
    "time": 1.5, "actor": "a", "chart": "c", "event": "e", "source": "A", "dest": "B",
    "guard": None, "action": None, "error": None,
}  # fmt: skip
FORMAT = "pulsar_actors history, version 1"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no JSON",
        "[]",
        "[" * 100_000,
        "{}",
        json.dumps({"format": "something else", "changes": []}),
        json.dumps({"format": FORMAT}),
        json.dumps({"format": FORMAT, "changes": 3}),
        json.dumps({"format": FORMAT, "changes": [3]}),
        json.dumps({"format": FORMAT, "changes": [{}]}),
        json.dumps({"format": FORMAT, "changes": [{**GOOD, "more": 1}]}),
        json.dumps({"format": FORMAT, "changes": [{**GOOD, "time": "now"}]}),
        json.dumps({"format": FORMAT, "changes": [{**GOOD, "time": True}]}),
        json.dumps({"format": FORMAT, "changes": [{**GOOD, "actor": None}]}),
        json.dumps({"format": FORMAT, "changes": [{**GOOD, "error": 1}]}),
    ],
)
def test_what_is_no_saved_history_is_refused_with_the_name_of_the_file(content: str, tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text(content)
    with pytest.raises(pulsar.InvalidArgument, match=r"history\.json' is no saved history: "):
        pulsar.History.load(tmp_path / "history.json")


def test_a_history_has_no_payload_and_no_credential(tmp_path: Path) -> None:
    tokens = Tokens(b"secret of the test")
    token = tokens.issue("somebody")
    with EmbeddedBroker(tokens=tokens) as broker:
        client = pulsar.Client(broker.service_url, authentication=pulsar.AuthenticationToken(token))
        with client:
            client.create_producer("t").send(b"payload-of-the-test", properties={"k": "property-of-the-test"})
        client.history().save(tmp_path / "history.json")
    text = (tmp_path / "history.json").read_text()
    assert token not in text
    assert not re.search("payload-of-the-test|property-of-the-test", text)


def test_with_asyncio_it_is_the_same(broker: EmbeddedBroker) -> None:
    async def run() -> tuple[Any, Any, Any]:
        async with pulsar_asyncio.Client(broker.service_url) as client:
            producer = await client.create_producer("t")
            async with await client.new_transaction() as transaction:
                pass
            return client.history(), producer.history(), transaction.history()

    client, producer, transaction = asyncio.run(run())
    assert steps(producer, "producer", "producer") == ["LOOKING_UP", "CONNECTING", "CREATING", "READY"]
    assert steps(transaction, "transaction 1", "transaction")[-1] == "COMMITTED"
    assert {*producer, *transaction} < set(client)
