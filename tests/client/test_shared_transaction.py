import gc
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.shared_transaction import SharedTransaction, join_transaction, open_shared_transaction
from pulsar_actors.client.transaction import TransactionState
from pulsar_actors.testing import Simulation
from pulsar_actors.wire import PulsarApi_pb2 as pb

TIMEOUT = timedelta(seconds=60)


def opened(client: pulsar.Client) -> SharedTransaction:
    return open_shared_transaction(client, TIMEOUT, 0)


def visible(client: pulsar.Client, topic: str) -> list[bytes]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(10_000).data())
    return found


def test_what_several_clients_send_is_committed_by_one_of_them(broker: EmbeddedBroker) -> None:
    url = broker.service_url
    with pulsar.Client(url) as first, pulsar.Client(url) as second, pulsar.Client(url) as third:
        with opened(first) as transaction:
            first.create_producer("shared").send(b"1", transaction=transaction)
        with join_transaction(second, transaction.txn_id, TIMEOUT) as joined:
            second.create_producer("shared").send(b"2", transaction=joined)
        assert visible(third, "shared") == []
        last = join_transaction(third, transaction.txn_id, TIMEOUT)
        third.create_producer("shared").send(b"3", transaction=last)
        last.commit()
        assert visible(third, "shared") == [b"1", b"2", b"3"]
        assert last.state is TransactionState.COMMITTED


@pytest.mark.parametrize("end", ["closes", "forgets"])
def test_a_client_that_does_not_leave_a_transaction_leaves_it_to_the_others(broker: EmbeddedBroker, end: str) -> None:
    with pulsar.Client(broker.service_url) as other:
        client = pulsar.Client(broker.service_url)
        transaction: Any = opened(client)
        ours = transaction.txn_id
        client.create_producer(end).send(b"1", transaction=transaction)
        if end == "forgets":
            del transaction
            gc.collect()
        client.close()
        join_transaction(other, ours, TIMEOUT).commit()
        assert visible(other, end) == [b"1"]


def test_one_that_is_open_for_too_long_is_aborted_by_its_opener_though_its_coordinator_runs_nowhere() -> None:
    with Simulation() as simulation:
        client = simulation.client()
        transaction = open_shared_transaction(client, timedelta(seconds=5), 0)
        join_transaction(client, transaction.txn_id, TIMEOUT)
        producer, other = client.create_producer("t"), client.create_producer("t")
        producer.send(b"hidden", transaction=transaction)
        other.send(b"behind")
        simulation.broker.call(lambda broker: [each.unload() for each in broker.cluster.coordinators])
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        assert reader.read_next(10_000).data() == b"behind"


def test_a_transaction_of_which_a_part_failed_is_left_with_an_error(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        producer = client.create_producer("part")
        transaction = opened(client)
        with pytest.raises(pulsar.MessageTooBig):
            producer.send(bytes(6 << 20), transaction=transaction)
        with pytest.raises(pulsar.TransactionHasOperationFailed, match="a part of it failed: an entry of"):
            transaction.leave()


def test_nothing_is_sent_in_a_transaction_that_is_left(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        with opened(client) as transaction:
            pass
        with pytest.raises(pulsar.InvalidTxnStatusError, match="is left"):
            client.create_producer("late").send(b"1", transaction=transaction)
        with pytest.raises(pulsar.InvalidTxnStatusError, match="is LEFT, and cannot be left"):
            transaction.leave()


def test_a_message_whose_topic_cannot_be_registered_any_more_fails_at_once(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client, pulsar.Client(broker.service_url) as other:
        transaction = opened(client)
        join_transaction(other, transaction.txn_id, TIMEOUT).abort()
        producer = client.create_producer("unregistered")
        sent = [producer.send_async(b"1", transaction=transaction) for _ in range(3)]
        for done in sent:
            with pytest.raises(pulsar.TransactionNotFound):
                done.result(timeout=10)
        producer.send(b"none")


def entries(client: pulsar.Client, topic: str) -> list[int]:
    """Return how many messages each entry has that are visible."""
    ids = []
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    while reader.has_message_available():
        ids.append(reader.read_next(10_000).message_id().entry_id())
    return list(Counter(ids).values())


UNTIL_A_FLUSH = {"batching_enabled": True, "batching_max_publish_delay_ms": 3_600_000}


def test_a_batch_is_not_cut_where_its_topic_is_registered(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        transaction = opened(client)
        producer = client.create_producer("whole", **UNTIL_A_FLUSH)
        producer.send_async(b"1", transaction=transaction)
        transaction._work.register_partition(producer.topic()).result(10)
        client.get_topic_partitions("any")  # the I/O thread has then told the producer as well
        for content in (b"2", b"3"):
            producer.send_async(content, transaction=transaction)
        producer.flush()
        transaction.commit()
        assert entries(client, "whole") == [3]


@pytest.mark.parametrize("waits", ["send", "flush", "commit"])
def test_what_a_caller_waits_for_is_sent_once_its_topic_is_registered(broker: EmbeddedBroker, waits: str) -> None:
    with pulsar.Client(broker.service_url) as client:
        broker.faults.on(pb.CommandAddPartitionToTxnResponse).delay(0.05)
        transaction = opened(client)
        producer = client.create_producer(waits, **UNTIL_A_FLUSH)
        producer.send_async(b"1", transaction=transaction)
        if waits == "send":
            producer.send(b"2", transaction=transaction)
        elif waits == "flush":
            producer.flush()
        transaction.commit()
        assert visible(client, waits) == [b"1", b"2"][: 1 + (waits == "send")]


def test_a_batch_that_is_not_complete_is_not_sent_by_a_block_that_fails(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client, pulsar.Client(broker.service_url) as other:
        producer = client.create_producer("incomplete", batching_max_messages=2, **UNTIL_A_FLUSH)
        transaction = opened(client)
        sent = [producer.send_async(content, transaction=transaction) for content in (b"1", b"2", b"3")]
        assert [future.result(10) for future in sent[:2]]
        with pytest.raises(ZeroDivisionError), transaction:
            raise ZeroDivisionError
        assert isinstance(sent[2].exception(10), pulsar.InvalidTxnStatusError)
        producer.flush()
        join_transaction(other, transaction.txn_id, TIMEOUT).commit()
        assert visible(other, "incomplete") == [b"1", b"2"]
