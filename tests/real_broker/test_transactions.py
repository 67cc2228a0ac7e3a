"""Transactions of our client. The official Python client has none; it reads what they have sent."""

import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.client.shared_transaction import join_transaction, open_shared_transaction
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.transaction_work import SubscriptionAcks, TransactionWork
from tests.real_broker.exchange import (
    LETTERS,
    NEVER_BY_TIME,
    SOON,
    acknowledged_all,
    contents,
    nothing_comes,
    read_rest,
    receive,
    rest,
    send_all,
    send_batch,
    stored,
    until,
)
from tests.support.admin import Admin, path_of
from tests.support.jars import jars, tool
from tests.support.subjects import Broker, client_module

pulsar_actors = client_module("ours")
LONG = timedelta(minutes=5)
SHORT = timedelta(seconds=2)
JAVA_SECONDS = 60.0
KINDS = ["Exclusive", "Failover", "Shared", "KeyShared"]
DISTRIBUTING = ["Shared", "KeyShared"]


@pytest.fixture
def ours(connect: Callable[..., Any], admin: Admin) -> Any:
    """Our client, with a broker whose coordinator is there."""
    until(admin.coordinators)
    return connect(pulsar_actors)


@pytest.fixture
def begin(ours: Any) -> Callable[..., Any]:
    """Open a transaction that does not time out during the test."""
    return lambda timeout=LONG: ours.new_transaction(timeout=timeout)


def consumer_of(client: Any, topic: str, kind: str = "Exclusive", **options: Any) -> Any:
    return client.subscribe(topic, "s", consumer_type=getattr(pulsar_actors.ConsumerType, kind), **options)


def backlog(admin: Admin, topic: str) -> Any:
    return admin.stats(topic)["subscriptions"]["s"]["msgBacklog"]


# Messages.


@pytest.mark.parametrize("options", [{}, NEVER_BY_TIME, {"compression_type": pulsar_actors.CompressionType.LZ4}])
def test_messages_become_visible_with_the_commit_all_at_once_and_in_order(
    ours: Any, topic: str, begin: Any, options: dict[str, Any]
) -> None:
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic, **options)
    with begin() as transaction:
        send_all(producer, LETTERS, transaction=transaction)
        assert nothing_comes(pulsar_actors, consumer)
    assert contents(receive(consumer, 5)) == LETTERS
    assert transaction.state.name == "COMMITTED"


@pytest.mark.parametrize("options", [{}, NEVER_BY_TIME])
def test_messages_of_an_aborted_transaction_never_become_visible(  # noqa: PLR0913 -- two clients
    pulsar: Any, client: Any, ours: Any, topic: str, begin: Any, options: dict[str, Any]
) -> None:
    producer = ours.create_producer(topic, **options)
    transaction = begin()
    with pytest.raises(ZeroDivisionError), transaction:
        send_all(producer, LETTERS, transaction=transaction).insert(1 // 0, None)
    assert transaction.state.name == "ABORTED"
    send_all(producer, [b"plain"])
    with begin() as transaction:
        send_all(producer, [b"committed"], transaction=transaction)
    assert stored(pulsar, client, topic) == [b"plain", b"committed"]


def test_plain_messages_wait_behind_an_open_transaction_and_come_in_the_order_of_writing(
    ours: Any, topic: str, begin: Any
) -> None:
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic)
    producer.send(b"before")
    transaction = begin()
    producer.send(b"in", transaction=transaction)
    producer.send(b"after")
    assert rest(pulsar_actors, consumer) == [b"before"]
    producer.send(b"in, too", transaction=transaction)
    transaction.commit()
    assert rest(pulsar_actors, consumer) == [b"in", b"after", b"in, too"]


def test_the_oldest_open_transaction_holds_back_those_that_ended_behind_it(ours: Any, topic: str, begin: Any) -> None:
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic)
    first, second = begin(), begin()
    producer.send(b"first", transaction=first)
    producer.send(b"second", transaction=second)
    second.commit()
    assert nothing_comes(pulsar_actors, consumer)
    first.abort()
    assert rest(pulsar_actors, consumer) == [b"second"]


def test_a_batch_is_of_one_transaction_or_of_none(ours: Any, topic: str, begin: Any) -> None:
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic, **NEVER_BY_TIME)
    kept, dropped = begin(), begin()
    for number in range(9):
        transaction = {0: kept, 1: dropped, 2: None}[number % 3]
        fields = {} if transaction is None else {"transaction": transaction}
        producer.send_async(b"%d" % number, lambda *_: None, **fields)
    producer.flush()
    dropped.abort()
    kept.commit()
    assert sorted(rest(pulsar_actors, consumer)) == [b"0", b"2", b"3", b"5", b"6", b"8"]


def test_a_large_message_is_a_part_of_a_transaction_with_all_its_chunks(ours: Any, topic: str, begin: Any) -> None:
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic, chunking_enabled=True)
    large = b"x" * 6_000_000
    dropped, kept = begin(), begin()
    producer.send(large, transaction=dropped)
    producer.send(large + b"!", transaction=kept)
    dropped.abort()
    kept.commit()
    assert consumer.receive(SOON).data() == large + b"!"
    assert nothing_comes(pulsar_actors, consumer)


def test_a_transaction_reaches_all_partitions_and_topics(
    ours: Any, partitioned: str, new_topic: Callable[..., str], begin: Any
) -> None:
    other = new_topic()
    consumers = [consumer_of(ours, each) for each in (partitioned, other)]
    producers = [ours.create_producer(each) for each in (partitioned, other)]
    with begin() as transaction:
        for producer in producers:
            send_all(producer, LETTERS, transaction=transaction)
        assert all(nothing_comes(pulsar_actors, consumer) for consumer in consumers)
    for consumer in consumers:
        assert sorted(contents(receive(consumer, 5))) == LETTERS


def test_a_reader_and_a_seek_see_what_a_consumer_sees(ours: Any, topic: str, begin: Any) -> None:
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic)
    producer.send(b"plain")
    for payload, commit in ((b"kept", True), (b"dropped", False)):
        transaction = begin()
        producer.send(payload, transaction=transaction)
        (transaction.commit if commit else transaction.abort)()
    open_one = begin()
    producer.send(b"open", transaction=open_one)
    reader = ours.create_reader(topic, pulsar_actors.MessageId.earliest)
    assert read_rest(reader) == [b"plain", b"kept"]
    assert not reader.has_message_available()
    acknowledged_all(consumer, receive(consumer, 2))
    consumer.seek(pulsar_actors.MessageId.earliest)
    assert rest(pulsar_actors, consumer) == [b"plain", b"kept"]
    open_one.commit()
    assert read_rest(reader) == [b"open"]


def test_an_unload_of_the_topic_does_not_end_a_transaction(ours: Any, topic: str, begin: Any, admin: Admin) -> None:
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic)
    kept, dropped = begin(), begin()
    for transaction, payload in ((kept, b"kept"), (dropped, b"dropped")):
        producer.send(payload, transaction=transaction)
    admin.unload(topic)
    producer.send(b"plain")  # it is sent again if the unload meets it, and a message of a transaction is not
    producer.send(b"kept, too", transaction=kept)
    dropped.abort()
    assert nothing_comes(pulsar_actors, consumer)
    kept.commit()
    assert rest(pulsar_actors, consumer) == [b"kept", b"plain", b"kept, too"]


def test_what_a_producer_sends_twice_is_dropped_though_its_transaction_was_aborted(
    ours: Any, topic: str, begin: Any, admin: Admin
) -> None:
    admin.create(topic)
    admin.set_deduplication(topic, on=True)
    until(lambda: admin.is_deduplicating(topic))
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic, "p")
    for number in range(2):
        transaction = begin()
        producer.send(b"x", sequence_id=7, transaction=transaction)
        (transaction.commit if number else transaction.abort)()
    assert nothing_comes(pulsar_actors, consumer)


# Acknowledgements.


@pytest.mark.parametrize("kind", KINDS)
def test_acknowledgements_count_with_the_commit(ours: Any, topic: str, begin: Any, admin: Admin, kind: str) -> None:
    consumer = consumer_of(ours, topic, kind)
    send_all(ours.create_producer(topic), LETTERS)
    messages = receive(consumer, 5)
    with begin() as transaction:
        consumer.acknowledge(messages[:2], transaction=transaction)
        consumer.acknowledge(messages[3], transaction=transaction)
        assert backlog(admin, topic) == 5
    assert backlog(admin, topic) == 2
    consumer.close()
    assert sorted(rest(pulsar_actors, consumer_of(ours, topic, kind))) == [b"c", b"e"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_acknowledged_in_a_transaction_comes_again_after_an_abort_and_not_before(
    ours: Any, topic: str, begin: Any, kind: str
) -> None:
    consumer = consumer_of(ours, topic, kind)
    send_all(ours.create_producer(topic), LETTERS)
    messages = receive(consumer, 5)
    transaction = begin()
    consumer.acknowledge(messages[1:3], transaction=transaction)
    consumer.redeliver_unacknowledged_messages()
    assert sorted(rest(pulsar_actors, consumer)) == [b"a", b"d", b"e"]
    transaction.abort()
    again = sorted(rest(pulsar_actors, consumer))
    assert again == ([b"b", b"c"] if kind in DISTRIBUTING else LETTERS)


@pytest.mark.parametrize("kind", DISTRIBUTING)
def test_a_message_that_comes_again_after_an_abort_is_counted(ours: Any, topic: str, begin: Any, kind: str) -> None:
    consumer = consumer_of(ours, topic, kind)
    ours.create_producer(topic).send(b"x")
    transaction = begin()
    consumer.acknowledge(consumer.receive(SOON), transaction=transaction)
    transaction.abort()
    assert consumer.receive(SOON).redelivery_count() == 1


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_messages_of_one_batch_are_acknowledged_in_several_transactions(
    ours: Any, topic: str, begin: Any, admin: Admin, kind: str
) -> None:
    consumer = consumer_of(ours, topic, kind, batch_index_ack_enabled=True)
    send_batch(pulsar_actors, ours, topic, LETTERS)
    messages = receive(consumer, 5)
    kept, dropped = begin(), begin()
    consumer.acknowledge(messages[:2], transaction=kept)
    consumer.acknowledge(messages[2], transaction=dropped)
    kept.commit()
    dropped.abort()
    consumer.close()
    consumer = consumer_of(ours, topic, kind, batch_index_ack_enabled=True)
    again = receive(consumer, 3)
    assert contents(again) == [b"c", b"d", b"e"]
    with begin() as transaction:
        consumer.acknowledge(again, transaction=transaction)
    assert backlog(admin, topic) == 0


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
@pytest.mark.parametrize("options", [{}, NEVER_BY_TIME], ids=["alone", "batched"])
def test_a_cumulative_acknowledgement_counts_with_the_commit(
    ours: Any, topic: str, begin: Any, kind: str, options: dict[str, Any]
) -> None:
    consumer = consumer_of(ours, topic, kind, batch_index_ack_enabled=True)
    send_all(ours.create_producer(topic, **options), LETTERS)
    with begin() as transaction:
        consumer.acknowledge_cumulative(receive(consumer, 3)[-1], transaction=transaction)
    consumer.close()
    assert rest(pulsar_actors, consumer_of(ours, topic, kind, batch_index_ack_enabled=True)) == [b"d", b"e"]


def test_after_the_abort_of_a_cumulative_acknowledgement_all_comes_again(ours: Any, topic: str, begin: Any) -> None:
    consumer = consumer_of(ours, topic)
    send_all(ours.create_producer(topic), LETTERS)
    transaction = begin()
    consumer.acknowledge_cumulative(receive(consumer, 3)[-1], transaction=transaction)
    transaction.abort()
    assert rest(pulsar_actors, consumer)[-5:] == LETTERS  # others may still be in the queue


@pytest.mark.parametrize("first", ["in the same transaction", "in another", "without"])
def test_a_second_acknowledgement_is_a_conflict_and_its_transaction_cannot_be_committed(
    ours: Any, topic: str, begin: Any, first: str
) -> None:
    consumer = consumer_of(ours, topic, "Shared", ack_receipt_enabled=True)
    producer = ours.create_producer(topic)
    producer.send(b"x")
    message = consumer.receive(SOON)
    transaction, other = begin(), begin()
    if first == "without":
        consumer.acknowledge(message)
    else:
        consumer.acknowledge(message, transaction=other if first == "in another" else transaction)
    producer.send(b"result", transaction=transaction)
    with pytest.raises(pulsar_actors.TransactionConflict):
        consumer.acknowledge(message, transaction=transaction)
    with pytest.raises(pulsar_actors.TransactionHasOperationFailed):
        transaction.commit()
    assert transaction.state.name == "ABORTED"
    other.commit()
    assert contents(stored_in(ours, topic)) == [b"x"]


def stored_in(client: Any, topic: str) -> list[Any]:
    reader = client.create_reader(topic, pulsar_actors.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(SOON))
    return found


def test_one_transaction_at_a_time_has_a_cumulative_acknowledgement(ours: Any, topic: str, begin: Any) -> None:
    consumer = consumer_of(ours, topic)
    send_all(ours.create_producer(topic), LETTERS)
    messages = receive(consumer, 5)
    first, second = begin(), begin()
    consumer.acknowledge_cumulative(messages[1], transaction=first)
    consumer.acknowledge_cumulative(messages[2], transaction=first)
    with pytest.raises(pulsar_actors.TransactionConflict):
        consumer.acknowledge_cumulative(messages[3], transaction=second)
    first.commit()
    second.abort()


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let our client acknowledge as several programs could that know nothing of each other."""
    monkeypatch.setattr(SubscriptionAcks, "claim", lambda *_, **__: None)


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("commit", [True, False])
def test_while_one_acknowledges_cumulatively_a_broker_confirms_the_ends_of_others_and_does_nothing(
    ours: Any, topic: str, begin: Any, admin: Admin, *, commit: bool
) -> None:
    consumer = consumer_of(ours, topic)
    send_all(ours.create_producer(topic), LETTERS)
    messages = receive(consumer, 5)
    cumulative, single = begin(), begin()
    consumer.acknowledge(messages[3], transaction=single)
    consumer.acknowledge_cumulative(messages[1], transaction=cumulative)
    (single.commit if commit else single.abort)()
    cumulative.commit()
    assert backlog(admin, topic) == 3
    consumer.redeliver_unacknowledged_messages()
    assert rest(pulsar_actors, consumer)[-2:] == [b"c", b"e"]  # and b"d" is hidden
    with pytest.raises(pulsar_actors.TransactionHasOperationFailed), begin() as another:
        consumer.acknowledge_async(messages[3], transaction=another)


@pytest.mark.usefixtures("unguarded")
def test_a_broker_commits_only_the_cumulative_acknowledgement_of_a_transaction_with_both_kinds(
    ours: Any, topic: str, begin: Any, admin: Admin
) -> None:
    consumer = consumer_of(ours, topic)
    send_all(ours.create_producer(topic), LETTERS)
    messages = receive(consumer, 5)
    with begin() as transaction:
        consumer.acknowledge(messages[3], transaction=transaction)
        consumer.acknowledge_cumulative(messages[1], transaction=transaction)
    assert backlog(admin, topic) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_an_acknowledgement_behind_the_end_of_its_transaction_is_undone_at_the_end_of_the_next(
    ours: Any, topic: str, begin: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumer_of(ours, topic, kind)
    send_all(ours.create_producer(topic), LETTERS)
    messages = receive(consumer, 5)
    ended, later = begin(), begin()
    ended.commit()
    monkeypatch.setattr(TransactionWork, "begin_as", lambda *_: None)
    monkeypatch.setattr(TransactionWork, "register_subscription", lambda *_: settled())
    consumer.acknowledge(messages[1], transaction=ended)
    monkeypatch.undo()
    consumer.redeliver_unacknowledged_messages()
    assert sorted(rest(pulsar_actors, consumer)) == [b"a", b"c", b"d", b"e"]
    consumer.acknowledge(messages[0], transaction=later)
    later.commit()
    if kind in DISTRIBUTING:
        assert rest(pulsar_actors, consumer) == [b"b"]
    else:
        assert nothing_comes(pulsar_actors, consumer)
        consumer.redeliver_unacknowledged_messages()
        assert rest(pulsar_actors, consumer) == [b"b", b"c", b"d", b"e"]


def settled() -> Any:
    future: SlimFuture[None] = SlimFuture()
    future.set_result(None)
    return future


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_what_was_read_and_what_was_made_of_it_take_effect_together(
    ours: Any, topic: str, new_topic: Callable[..., str], begin: Any, end: str
) -> None:
    results = new_topic()
    source, out = consumer_of(ours, topic, "Shared"), consumer_of(ours, results)
    producer = ours.create_producer(results, batching_enabled=True)
    send_batch(pulsar_actors, ours, topic, LETTERS)
    messages = receive(source, 5)
    transaction = begin()
    send_all(producer, [each.data().upper() for each in messages], transaction=transaction)
    source.acknowledge(messages, transaction=transaction)
    getattr(transaction, end)()
    if end == "commit":
        assert contents(receive(out, 5)) == [b"A", b"B", b"C", b"D", b"E"]
        assert nothing_comes(pulsar_actors, source)
    else:
        assert contents(receive(source, 5)) == LETTERS
        assert nothing_comes(pulsar_actors, out)


# Ends.


def test_a_transaction_times_out_and_holds_nothing_back_any_longer(ours: Any, topic: str, begin: Any) -> None:
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic)
    transaction = begin(SHORT)
    producer.send(b"in", transaction=transaction)
    producer.send(b"plain")
    assert rest(pulsar_actors, consumer) == [b"plain"]
    until(lambda: transaction.state.name == "TIME_OUT")
    with pytest.raises(pulsar_actors.InvalidTxnStatusError):
        transaction.commit()
    with pytest.raises(pulsar_actors.InvalidTxnStatusError):
        producer.send(b"late", transaction=transaction)


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_transaction_ends_once(ours: Any, topic: str, begin: Any, end: str) -> None:
    producer = ours.create_producer(topic)
    transaction = begin()
    producer.send(b"in", transaction=transaction)
    getattr(transaction, end)()
    for again in ("commit", "abort"):
        with pytest.raises(pulsar_actors.InvalidTxnStatusError):
            getattr(transaction, again)()
    with pytest.raises(pulsar_actors.InvalidTxnStatusError):
        producer.send(b"late", transaction=transaction)


def test_a_transaction_that_an_administrator_has_aborted_cannot_be_committed(
    ours: Any, topic: str, begin: Any, admin: Admin
) -> None:
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic)
    transaction = begin()
    producer.send(b"in", transaction=transaction)
    producer.send(b"plain")
    most, least = transaction.txn_id
    admin.call("POST", f"transactions/abortTransaction/{most}/{least}", version=3)
    assert rest(pulsar_actors, consumer) == [b"plain"]
    with pytest.raises((pulsar_actors.TransactionNotFound, pulsar_actors.InvalidTxnStatusError)):
        transaction.commit()


def test_a_commit_that_is_asked_for_twice_at_once_is_refused_only_where_it_is_forgotten(
    ours: Any, connect: Callable[..., Any], topic: str
) -> None:
    other, producer = connect(pulsar_actors), ours.create_producer(topic)
    for number in range(20):
        transaction = open_shared_transaction(ours, LONG, 0)
        joined = join_transaction(other, transaction.txn_id, LONG)
        producer.send(b"%d" % number, transaction=transaction)
        errors = [ended.exception(JAVA_SECONDS) for ended in [each.commit_async() for each in (transaction, joined)]]
        assert None in errors
        assert all(error is None or isinstance(error, pulsar_actors.TransactionNotFound) for error in errors)
    assert contents(stored_in(ours, topic)) == [b"%d" % number for number in range(20)]


def test_the_close_of_a_client_aborts_its_transactions(ours: Any, connect: Callable[..., Any], topic: str) -> None:
    consumer = consumer_of(ours, topic)
    other = connect(pulsar_actors)
    producer = other.create_producer(topic)
    transaction = other.new_transaction(timeout=LONG)
    producer.send(b"in", transaction=transaction)
    producer.send(b"plain")
    assert nothing_comes(pulsar_actors, consumer)
    other.close()
    assert rest(pulsar_actors, consumer) == [b"plain"]


def test_an_unload_of_the_coordinator_is_not_noticed(ours: Any, topic: str, begin: Any, admin: Admin) -> None:
    consumer, producer = consumer_of(ours, topic), ours.create_producer(topic)
    transaction = begin()
    admin.reload_coordinators()
    producer.send(b"in", transaction=transaction)
    admin.reload_coordinators()
    transaction.commit()
    assert contents(receive(consumer, 1)) == [b"in"]
    admin.reload_coordinators()
    begin().abort()


def test_the_statistics_of_a_topic_count_transactions(ours: Any, topic: str, begin: Any, admin: Admin) -> None:
    producer = ours.create_producer(topic)
    transactions = [begin() for _ in range(3)]
    for transaction in transactions:
        producer.send(b"x", transaction=transaction)
    transactions[0].commit()
    transactions[1].abort()
    stats = admin.stats(topic)
    assert [stats[f"{what}TxnCount"] for what in ("ongoing", "aborted", "committed")] == [1, 1, 1]
    most, least = transactions[2].txn_id
    path = f"{path_of(topic).partition('/')[2]}/{most}/{least}"
    part = admin.json("GET", f"transactions/transactionInBufferStats/{path}", version=3)
    assert not part["aborted"]
    transactions[2].abort()
    part = admin.json("GET", f"transactions/transactionInBufferStats/{path}", version=3)
    assert part == {"aborted": True}


# With the official Java client: no other has transactions. It takes some seconds of a processor.


def java_copies(service_url: str, source: str, results: str, count: int) -> None:
    """Have the Java client read so many messages in a transaction, abort it, and do it again in one that it commits."""
    program = str(Path(__file__).with_name("JavaTransactions.java"))
    command = [tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", program]
    subprocess.run(  # noqa: S603 -- our own words
        [*command, service_url, source, results, str(count)], capture_output=True, timeout=JAVA_SECONDS, check=True
    )


@pytest.mark.real_broker
@pytest.mark.parametrize("options", [{}, NEVER_BY_TIME], ids=["alone", "batched"])
def test_ours_and_the_java_client_see_what_the_other_commits_and_not_what_it_aborts(  # noqa: PLR0913 -- two topics
    ours: Any, broker: Broker, topic: str, new_topic: Callable[..., str], begin: Any, options: dict[str, Any]
) -> None:
    results = new_topic()
    producer = ours.create_producer(topic, **options)
    kept, dropped = begin(), begin()
    send_all(producer, [b"a"], transaction=kept)
    send_all(producer, [b"x", b"y"], transaction=dropped)
    send_all(producer, [b"b", b"c"], transaction=kept)
    dropped.abort()
    kept.commit()
    java_copies(broker.service_url, topic, results, 3)
    assert sorted(stored(pulsar_actors, ours, results)) == [b"a committed", b"b committed", b"c committed"]
    assert backlog(broker.admin, topic) == 0


# Of the embedded broker alone.


@pytest.fixture
def embedded_with(connect_to: Callable[..., Any]) -> Iterator[Callable[[int], Any]]:
    """Start a broker with so many coordinators, and give a client of it."""
    brokers: list[EmbeddedBroker] = []

    def start(coordinators: int) -> Any:
        broker = EmbeddedBroker(settings=Settings(transaction_coordinators=coordinators))
        broker.start()
        brokers.append(broker)
        return connect_to(pulsar_actors, broker.service_url)

    yield start
    for broker in brokers:
        broker.stop()


def test_several_coordinators_take_turns(embedded_with: Callable[[int], Any], topic: str) -> None:
    client = embedded_with(3)
    consumer, producer = consumer_of(client, topic), client.create_producer(topic)
    transactions = [client.new_transaction() for _ in range(6)]
    assert sorted(each.txn_id for each in transactions) == [(most, least) for most in range(3) for least in range(2)]
    for transaction in transactions:
        producer.send(str(transaction.txn_id).encode(), transaction=transaction)
    for transaction in reversed(transactions):
        transaction.commit()
    assert rest(pulsar_actors, consumer) == [str(each.txn_id).encode() for each in transactions]


def test_a_cluster_without_coordinators_has_no_transactions(embedded_with: Callable[[int], Any]) -> None:
    with pytest.raises(pulsar_actors.OperationNotSupported, match="transactionCoordinatorEnabled"):
        embedded_with(0).new_transaction()
