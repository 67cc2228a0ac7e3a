import asyncio
import contextlib
import gc
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client import transactional_ack
from pulsar_actors.machines.trackers.repeated_ends import MOST_REPEATED
from pulsar_actors.machines.transaction import TransactionMachine
from pulsar_actors.runtime.actor import actor_of
from pulsar_actors.runtime.transaction_work import TransactionWork
from pulsar_actors.testing import Simulation
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAckResponse,
    CommandAddPartitionToTxn,
    CommandAddSubscriptionToTxn,
    CommandEndTxn,
    CommandLookupTopicResponse,
    CommandNewTxn,
    CommandSendReceipt,
    CommandTcClientConnectRequest,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName
from tests.support.admin import Admin
from tests.support.life import until


def values(reader: pulsar.Reader) -> list[bytes]:
    """Read what the topic shows now."""
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(10_000).data())
    return found


def transactions_of(client: pulsar.Client) -> list[TransactionMachine]:
    """Return the transactions of which the client keeps anything."""
    machines = actor_of(client._context.guardian).machines()
    return [machine for _, machine in machines if isinstance(machine, TransactionMachine)]


class Refusing(pulsar.ProducerInterceptor):
    """Lets no message be built."""

    def before_send(self, producer: Any, message: pulsar.MessageToSend) -> pulsar.MessageToSend:
        return message._replace(content=object())


@pytest.mark.parametrize("interceptors", [[], [Refusing()]], ids=["a mistake", "a mistake of an interceptor"])
def test_a_message_that_could_not_be_built_is_counted_once_and_does_not_keep_a_transaction_open(
    broker: EmbeddedBroker, interceptors: list[Any]
) -> None:
    with pulsar.Client(broker.service_url) as client:
        producer = client.create_producer("mistakes", interceptors=interceptors)
        transaction = client.new_transaction()
        with pytest.raises((TypeError, pulsar.PulsarException)):
            producer.send(b"x" if interceptors else object(), transaction=transaction)
        work = transaction._work
        assert work._begun == 0
        transaction.abort_async().result(timeout=10)


@pytest.mark.parametrize("deduplicates", [False, True])
def test_a_message_whose_receipt_was_lost_is_never_twice_in_a_transaction(
    broker: EmbeddedBroker, *, deduplicates: bool
) -> None:
    topic = f"persistent://public/default/receipts-{deduplicates}"
    admin = Admin(broker.web_url)
    admin.create(topic)
    admin.set_deduplication(topic, on=deduplicates)
    with pulsar.Client(broker.service_url) as client:
        producer = client.create_producer(topic)
        producer.send(b"before")
        transaction = client.new_transaction()
        broker.faults.on(CommandSendReceipt).close_connection()
        sent = producer.send_async(b"once", transaction=transaction)
        if deduplicates:
            sent.result(timeout=30)
            transaction.commit()
        else:
            with pytest.raises(pulsar.OutcomeUnknown, match="a message of a transaction is not sent again"):
                sent.result(timeout=30)
            with pytest.raises(pulsar.TransactionHasOperationFailed):
                transaction.commit()
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(10_000).data())
        assert found == ([b"before", b"once"] if deduplicates else [b"before"])


def test_a_transaction_that_is_forgotten_after_a_failure_keeps_no_client_alive(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def program() -> "weakref.ref[pulsar.Client]":
        client = pulsar.Client(broker.service_url)
        producer = client.create_producer("failures", max_pending_messages=1)
        sent = producer.send_many([b"1", b"2", b"3"], transaction=client.new_transaction())
        assert isinstance(sent.exception(timeout=10), pulsar.SendManyFailed)
        return weakref.ref(client)

    forgotten = program()
    until(lambda: (gc.collect(), forgotten() is None)[1], "the end of the client")
    assert "was neither committed nor aborted, and is aborted now" in caplog.text


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(lambda producer, transaction: producer.send(b"x", transaction=transaction), id="send"),
        pytest.param(
            lambda producer, transaction: producer.send_async(b"x", transaction=transaction).result(10), id="send_async"
        ),
        pytest.param(
            lambda producer, transaction: producer.send_many([b"x", b"y"], transaction=transaction).result(10),
            id="send_many",
        ),
    ],
)
def test_a_client_that_is_forgotten_after_a_full_queue_refused_a_message_of_a_transaction_is_collected(
    broker: EmbeddedBroker, refused: Callable[[pulsar.Producer, pulsar.Transaction], object]
) -> None:
    def program() -> "weakref.ref[pulsar.Client]":
        client = pulsar.Client(broker.service_url)
        producer = client.create_producer("full", max_pending_messages=1)
        transaction = client.new_transaction()  # first: behind a stalled receipt, its answer would be stalled, too
        receipts = broker.faults.on(CommandSendReceipt).stall()
        undo.callback(receipts.release)
        producer.send_async(b"plain")
        with pytest.raises(pulsar.PulsarException, match="max_pending_messages"):
            refused(producer, transaction)
        return weakref.ref(client)

    with contextlib.ExitStack() as undo:
        forgotten = program()
        until(lambda: (gc.collect(), forgotten() is None)[1], "the end of the client")


def no_way(message: pulsar.Message, partitions: int) -> int:
    raise ValueError("no way")


@pytest.mark.parametrize("call", ["send", "send_async", "send_many"])
@pytest.mark.parametrize(
    ("options", "content"),
    [
        pytest.param(
            {"message_routing_mode": pulsar.PartitionsRoutingMode.CustomPartition, "message_router": no_way},
            b"x",
            id="a router that raises",
        ),
        pytest.param(
            {"schema": pulsar.schema.StringSchema(), "interceptors": [pulsar.ProducerInterceptor()]},
            "\ud800",
            id="an error with a cause",
        ),
    ],
)
def test_a_client_that_is_forgotten_after_a_mistake_in_a_transaction_is_collected(
    broker: EmbeddedBroker, parts: str, options: dict[str, Any], content: object, call: str
) -> None:
    def program() -> "weakref.ref[pulsar.Client]":
        client = pulsar.Client(broker.service_url)
        producer = client.create_producer(parts, **options)
        with pytest.raises(ValueError):  # noqa: PT011 - the router's, or an InvalidMessage
            getattr(producer, call)([content] if call == "send_many" else content, transaction=client.new_transaction())
        return weakref.ref(client)

    forgotten = program()
    until(lambda: (gc.collect(), forgotten() is None)[1], "the end of the client")


def test_a_broker_that_gives_the_answer_to_another_request_is_at_fault_and_the_outcome_is_open(
    broker: EmbeddedBroker,
) -> None:
    other = CommandLookupTopicResponse(response=CommandLookupTopicResponse.LookupType.Failed)
    with pulsar.Client(broker.service_url, operation_timeout_seconds=10) as client:
        producer, consumer = client.create_producer("misled"), client.subscribe("misled", "s")
        producer.send(b"1")
        message = consumer.receive(10_000)
        broker.faults.on(CommandTcClientConnectRequest).answer(other)
        client.new_transaction().abort()
        broker.faults.on(CommandNewTxn).answer(other)
        with pytest.raises(pulsar.Misdirected):
            client.new_transaction()
        transaction = client.new_transaction()
        broker.faults.on(CommandAddPartitionToTxn).answer(other)
        with pytest.raises(pulsar.Misdirected):
            producer.send(b"2", transaction=transaction)
        broker.faults.on(CommandAddSubscriptionToTxn).answer(other)
        with pytest.raises(pulsar.Misdirected):
            consumer.acknowledge(message, transaction=transaction)
        transaction.abort()
        transaction = client.new_transaction()
        consumer.acknowledge(message, transaction=transaction)
        broker.faults.on(CommandEndTxn).answer(other)
        with pytest.raises(pulsar.OutcomeUnknown, match="CommandLookupTopicResponse"):
            transaction.commit()
        transaction.commit()


def test_a_commit_that_is_refused_with_an_error_of_the_log_may_be_called_again(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        producer, consumer = client.create_producer("refused"), client.subscribe("refused", "s")
        transaction = client.new_transaction()
        producer.send(b"1", transaction=transaction)
        fault = broker.faults.on(CommandEndTxn, times=None).refuse("PersistenceError", "log append timed out")
        with pytest.raises(pulsar.OutcomeUnknown, match="log append timed out"):
            transaction.commit()
        fault.remove()
        transaction.commit()
        assert consumer.receive(10_000).data() == b"1"


def test_a_shutdown_during_a_commit_leaves_its_outcome_open(broker: EmbeddedBroker) -> None:
    client = pulsar.Client(broker.service_url)
    transaction = client.new_transaction()
    fault = broker.faults.on("end_txn_response").drop()
    committed = transaction.commit_async()
    fault.wait(timeout=10)
    client.shutdown()
    with pytest.raises(pulsar.OutcomeUnknown):
        committed.result(10)


def test_after_its_timeout_what_was_acknowledged_cumulatively_is_delivered_again(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        producer, consumer = client.create_producer("late"), client.subscribe("late", "s")
        producer.send(b"1")
        message = consumer.receive(10_000)
        transaction = client.new_transaction(timedelta(seconds=0.5))
        consumer.acknowledge_cumulative(message, transaction=transaction)
        assert consumer.receive(10_000).data() == b"1"


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover])
def test_after_an_abort_messages_come_again_in_order_and_none_that_was_queued_before_them(
    broker: EmbeddedBroker, topic: str, kind: pulsar.ConsumerType
) -> None:
    numbers = [b"%d" % number for number in range(6)]
    with pulsar.Client(broker.service_url) as client:
        consumer = client.subscribe(topic, "s", kind)
        client.create_producer(topic).send_many(numbers).result(timeout=10)
        messages = [consumer.receive(10_000) for _ in range(3)]
        until(lambda: consumer.stats().queued == 3, "the rest")
        transaction = client.new_transaction()
        consumer.acknowledge(messages, transaction=transaction)
        transaction.abort()
        assert [consumer.receive(10_000).data() for _ in numbers] == numbers


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared])
def test_messages_of_a_transaction_that_fails_as_they_could_not_be_acknowledged_come_again(
    broker: EmbeddedBroker, topic: str, kind: pulsar.ConsumerType
) -> None:
    with pulsar.Client(broker.service_url) as client:
        consumer = client.subscribe(topic, "s", kind, negative_ack_redelivery_delay_ms=10)
        client.create_producer(topic).send_many([b"1", b"2"]).result(timeout=10)
        broker.faults.on(CommandAddSubscriptionToTxn).refuse(ServerError.NotAllowedError, "not now")
        with pytest.raises(pulsar.TransactionHasOperationFailed), client.new_transaction() as transaction:
            consumer.acknowledge_async([consumer.receive(10_000) for _ in range(2)], transaction=transaction)
        again = [consumer.receive(10_000) for _ in range(2)]
        assert {message.data() for message in again} == {b"1", b"2"}
        with client.new_transaction() as transaction:
            consumer.acknowledge_async(again, transaction=transaction)


KINDS = [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared]


@pytest.mark.parametrize("topics", ["a", ["a", "b"]], ids=["one topic", "two topics"])
@pytest.mark.parametrize("kind", KINDS)
def test_messages_whose_transaction_has_ended_before_they_are_acknowledged_come_again(
    kind: pulsar.ConsumerType, topics: Any
) -> None:
    with Simulation() as simulation:
        client = simulation.client()
        consumer = client.subscribe(topics, "s", kind, negative_ack_redelivery_delay_ms=1000)
        for topic in topics:
            client.create_producer(topic).send(topic.encode())
        transaction = client.new_transaction(timedelta(seconds=5))
        received = [consumer.receive(10_000) for _ in topics]
        time.sleep(10)  # the work, on virtual time
        with pytest.raises(pulsar.InvalidTxnStatusError):
            consumer.acknowledge(received, transaction=transaction)
        again = [consumer.receive(10_000) for _ in topics]
        assert {message.data() for message in again} == {topic.encode() for topic in topics}
        with client.new_transaction() as transaction:
            consumer.acknowledge(again, transaction=transaction)


@pytest.mark.parametrize("kind", KINDS)
def test_they_come_again_in_asyncio_too(kind: pulsar.ConsumerType) -> None:
    async def main(simulation: Simulation) -> bytes:
        async with simulation.asyncio_client() as client:
            consumer = await client.subscribe("a", "s", kind, negative_ack_redelivery_delay_ms=1000)
            await (await client.create_producer("a")).send(b"1")
            transaction = await client.new_transaction(timedelta(seconds=5))
            message = await consumer.receive(10_000)
            await asyncio.sleep(10)
            with pytest.raises(pulsar.InvalidTxnStatusError):
                await consumer.acknowledge(message, transaction=transaction)
            return (await consumer.receive(10_000)).data()

    with Simulation() as simulation:
        assert simulation.run_async(main(simulation)) == b"1"


def test_a_message_whose_acknowledgement_was_answered_too_late_comes_again_once() -> None:
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=5)
        consumer = client.subscribe("a", "s", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=10_000)
        client.create_producer("a").send(b"1")
        simulation.broker.faults.on(CommandAckResponse).drop()
        with pytest.raises(pulsar.Timeout), client.new_transaction() as transaction:
            consumer.acknowledge(consumer.receive(10_000), transaction=transaction)
        again = consumer.receive(1000)
        time.sleep(60)  # the work, on virtual time
        consumer.acknowledge(again)
        with pytest.raises(pulsar.Timeout):
            consumer.receive(60_000)


def acknowledge_as_it_ends(client: pulsar.Client, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
    """Acknowledge in a transaction whose timeout is over just when the acknowledgement has begun."""
    transaction = client.new_transaction(timedelta(seconds=0.5))
    begin = TransactionWork.begin_as

    def begin_and_stop(work: TransactionWork, future: Any) -> None:
        begin(work, future)
        until(lambda: work.dropped is not None)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TransactionWork, "begin_as", begin_and_stop)
        with pytest.raises(pulsar.InvalidTxnStatusError):
            consumer.acknowledge(message, transaction=transaction)


def test_a_message_comes_again_if_its_transaction_ends_just_when_its_acknowledgement_has_begun(
    broker: EmbeddedBroker, topic: str
) -> None:
    with pulsar.Client(broker.service_url) as client:
        consumer = client.subscribe(topic, "s")
        client.create_producer(topic).send(b"1")
        message = consumer.receive(10_000)
        acknowledge_as_it_ends(client, consumer, message)
        assert consumer.receive(10_000).data() == b"1"


@pytest.mark.parametrize("holder", ["the same transaction", "another transaction"])
@pytest.mark.parametrize("first", ["cumulatively", "one by one"])
def test_while_a_transaction_is_open_messages_of_the_subscription_are_acknowledged_in_its_way_only(
    broker: EmbeddedBroker, first: str, holder: str
) -> None:
    topic = f"ways {first} {holder}".replace(" ", "-")
    with pulsar.Client(broker.service_url) as client:
        consumer = client.subscribe(topic, "s")
        client.create_producer(topic).send_many([b"%d" % number for number in range(4)])
        messages = consumer.receive_many(4, 10_000)
        ways = [consumer.acknowledge_cumulative, consumer.acknowledge]
        one, other = ways if first == "cumulatively" else reversed(ways)
        opened = client.new_transaction()
        refused = opened if holder == "the same transaction" else client.new_transaction()
        one(messages[1], transaction=opened)
        with pytest.raises(pulsar.TransactionConflict, match=f"which is open, has acknowledged there {first}"):
            other(messages[2], transaction=refused)
        with pytest.raises(pulsar.TransactionHasOperationFailed):
            refused.commit()
        if refused is not opened:
            opened.commit()
        with client.new_transaction() as later:
            other(messages[3], transaction=later)


def test_only_one_open_transaction_of_a_client_acknowledges_cumulatively_on_a_subscription(
    broker: EmbeddedBroker,
) -> None:
    topic = "persistent://public/default/two-consumers"
    with pulsar.Client(broker.service_url) as client:
        failover = pulsar.ConsumerType.Failover
        consumers = [client.subscribe(topic, "s", failover, consumer_name=name) for name in "ab"]
        client.create_producer(topic).send_many([b"%d" % number for number in range(3)])
        messages = consumers[0].receive_many(3, 10_000)
        first, second = client.new_transaction(), client.new_transaction()
        for message in messages[:2]:
            consumers[0].acknowledge_cumulative(message, transaction=first)
        with pytest.raises(pulsar.TransactionConflict, match="which is open"):
            consumers[1].acknowledge_cumulative(messages[2], transaction=second)
        second.abort()
        first.commit()
        backlog = broker.call(
            lambda inside: inside.cluster.find_topic(TopicName.parse(topic)).subscriptions["s"].backlog()
        )
        assert backlog == 1


def test_a_transaction_that_ends_just_when_its_acknowledgement_has_begun_excludes_no_other(
    broker: EmbeddedBroker, topic: str
) -> None:
    with pulsar.Client(broker.service_url) as client:
        consumer = client.subscribe(topic, "s")
        client.create_producer(topic).send(b"1")
        message = consumer.receive(10_000)
        acknowledge_as_it_ends(client, consumer, message)
        with client.new_transaction() as later:
            consumer.acknowledge_cumulative(message, transaction=later)


def test_transactions_of_several_subscriptions_acknowledge_in_any_way(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        consumers = [client.subscribe(topic, name) for topic in ("x", "y") for name in "ab"]
        for topic in "xy":
            client.create_producer(topic).send(b"")
        with client.new_transaction() as transaction:
            for number, consumer in enumerate(consumers):
                way = consumer.acknowledge_cumulative if number % 2 else consumer.acknowledge
                way(consumer.receive(10_000), transaction=transaction)


@pytest.mark.parametrize(
    ("owner", "step", "comes_first"),
    [
        pytest.param(TransactionWork, "begin_as", True, id="after it has begun"),
        pytest.param(transactional_ack, "tell", False, id="before the consumer's actor is told"),
    ],
)
def test_an_acknowledgement_whose_caller_is_suspended_until_the_timeout_of_its_transaction_is_not_sent(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str, *, comes_first: bool
) -> None:
    with pulsar.Client(broker.service_url) as client:
        topic = f"suspended-{step}"
        producer = client.create_producer(topic)
        shared = pulsar.ConsumerType.Shared
        consumer = client.subscribe(topic, "s", consumer_type=shared, negative_ack_redelivery_delay_ms=10)
        for content in (b"first", b"second"):
            producer.send(content)
        first, second = (consumer.receive(timeout_millis=10_000) for _ in range(2))
        transaction = client.new_transaction(timedelta(seconds=1))
        consumer.acknowledge(first, transaction=transaction)
        plain = getattr(owner, step)

        def wait(*_: Any) -> None:
            until(lambda: transaction._work.dropped is not None)

        def suspended(*arguments: Any) -> None:
            for one in (plain, wait) if comes_first else (wait, plain):
                one(*arguments)

        monkeypatch.setattr(owner, step, suspended)
        acknowledged = consumer.acknowledge_async(second, transaction=transaction)
        with pytest.raises(pulsar.InvalidTxnStatusError):
            acknowledged.result(timeout=10)
        consumer.negative_acknowledge(second)
        assert {consumer.receive(timeout_millis=10_000).data() for _ in range(2)} == {b"first", b"second"}


@pytest.mark.parametrize("how", ["send", "send_async", "send_many"])
def test_the_first_messages_of_partitions_without_a_producer_are_in_their_transaction(
    broker: EmbeddedBroker, how: str
) -> None:
    topic = f"persistent://public/default/lazy-{how}"
    broker.create_topic(topic, 3)
    with pulsar.Client(broker.service_url) as client:
        producer = client.create_producer(
            topic, lazy_start_partitioned_producers=True, message_router=lambda message, _: int(message.data())
        )
        transaction = client.new_transaction()
        contents = [b"0", b"1", b"2"]
        if how == "send":
            for content in contents:
                producer.send(content, transaction=transaction)
        elif how == "send_async":
            for sent in [producer.send_async(content, transaction=transaction) for content in contents]:
                sent.result(timeout=30)
        else:
            producer.send_many(contents, transaction=transaction).result(timeout=30)
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        assert values(reader) == []
        transaction.abort()
        producer.send_many(contents).result(timeout=30)
        assert sorted(values(reader)) == contents


@pytest.mark.parametrize("call", ["send", "send_async", "send_many"])
def test_a_router_that_fails_does_not_keep_a_transaction_open(broker: EmbeddedBroker, call: str) -> None:
    Admin(broker.web_url).create_partitioned(f"persistent://public/default/{call}", 2)
    with pulsar.Client(broker.service_url) as client:
        routed = pulsar.PartitionsRoutingMode.CustomPartition
        producer = client.create_producer(call, message_routing_mode=routed, message_router=no_way)
        transaction = client.new_transaction()
        with pytest.raises(ValueError, match="no way"):
            getattr(producer, call)([b"x"] if call == "send_many" else b"x", transaction=transaction)
        with pytest.raises(pulsar.TransactionHasOperationFailed):
            transaction.commit_async().result(timeout=10)


def test_a_commit_waits_for_no_batching_delay(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        producer = client.create_producer("delays", batching_enabled=True, batching_max_publish_delay_ms=60_000)
        plain = producer.send_async(b"plain")
        with client.new_transaction() as transaction:
            producer.send_async(b"joins the batch that is being filled", transaction=transaction)
            transaction.commit_async().result(timeout=10)
        assert plain.done()


def test_a_flush_waits_for_messages_whose_topic_is_being_registered(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client:
        producer = client.create_producer("flushed")
        transaction = client.new_transaction()
        broker.faults.on(CommandAddPartitionToTxn).delay(0.2)
        sent = [producer.send_async(b"1", transaction=transaction), producer.send_async(b"2")]
        producer.flush()
        assert all(one.done() for one in sent)
        transaction.abort()


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_whose_end_has_no_answer_ends_when_nothing_refers_to_it(
    broker: EmbeddedBroker, *, commits: bool
) -> None:
    with pulsar.Client(broker.service_url, operation_timeout_seconds=1) as client:
        transaction = client.new_transaction()
        broker.faults.on("end_txn_response").drop()
        with pytest.raises(pulsar.OutcomeUnknown if commits else pulsar.Timeout):
            transaction.commit() if commits else transaction.abort()
        assert len(transactions_of(client)) == 1
        del transaction
        until(lambda: (gc.collect(), transactions_of(client) == [])[1])


def test_a_commit_is_not_waited_for_by_who_has_forgotten_the_transaction(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url, operation_timeout_seconds=1) as client:
        # All of them: a forgotten transaction of another test may end here, too.
        fault = broker.faults.on("end_txn_response", times=None).drop()
        committed = client.new_transaction().commit_async()
        fault.wait(timeout=10)
        gc.collect()
        with pytest.raises(pulsar.OutcomeUnknown) as raised:
            committed.result(timeout=10)
        fault.remove()
        assert "commit() may be called again" not in str(raised.value)
        until(lambda: transactions_of(client) == [])


def test_a_transaction_that_is_open_for_too_long_ends_though_its_coordinator_has_moved_and_runs_nowhere() -> None:
    with Simulation() as simulation:
        client = simulation.client()
        producer, other = client.create_producer("t"), client.create_producer("t")
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        transaction = client.new_transaction(timedelta(seconds=5))
        producer.send(b"hidden", transaction=transaction)
        other.send(b"behind")
        simulation.broker.call(lambda broker: [each.unload() for each in broker.cluster.coordinators])
        assert reader.read_next(10_000).data() == b"behind"
        assert transaction.state is pulsar.TransactionState.TIME_OUT


def commit_without_answer(transaction: pulsar.Transaction) -> None:
    with pytest.raises(pulsar.OutcomeUnknown, match="called again"):
        transaction.commit()


def abort_without_answer(transaction: pulsar.Transaction) -> None:
    with pytest.raises(pulsar.Timeout):
        transaction.abort()


@pytest.mark.parametrize(
    ("end", "read", "state"),
    [
        pytest.param(commit_without_answer, [b"hidden", b"behind"], pulsar.TransactionState.COMMITTED, id="commit"),
        pytest.param(abort_without_answer, [b"behind"], pulsar.TransactionState.ABORTED, id="abort"),
        pytest.param(lambda _: None, [b"behind"], pulsar.TransactionState.TIME_OUT, id="timeout"),
    ],
)
def test_an_end_that_was_lost_is_repeated_though_its_coordinator_has_moved_and_runs_nowhere(
    end: Callable[[pulsar.Transaction], None], read: list[bytes], state: pulsar.TransactionState
) -> None:
    with Simulation() as simulation:
        client = simulation.client()
        producer, other = client.create_producer("t"), client.create_producer("t")
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        transaction = client.new_transaction()
        producer.send(b"hidden", transaction=transaction)
        other.send(b"behind")
        simulation.broker.faults.on(CommandEndTxn).drop()
        end(transaction)
        simulation.broker.call(lambda broker: [each.unload() for each in broker.cluster.coordinators])
        assert [reader.read_next(200_000).data() for _ in read] == read
        simulation.sleep(1.0)
        assert transaction.state is state
        assert transactions_of(client) == []


def test_who_commits_again_is_told_of_the_answer_that_came_meanwhile() -> None:
    with Simulation() as simulation:
        client = simulation.client()
        transaction = client.new_transaction()
        simulation.broker.faults.on(CommandEndTxn).drop()
        commit_without_answer(transaction)
        simulation.sleep(60.0)
        transaction.commit()
        transaction.commit()
        with pytest.raises(pulsar.InvalidTxnStatusError, match="is COMMITTED, and cannot be aborted"):
            transaction.abort()


def test_a_forgotten_transaction_is_aborted_though_the_first_request_was_lost() -> None:
    with Simulation() as simulation:
        client = simulation.client()
        transaction = client.new_transaction(timedelta(days=1))
        client.create_producer("t").send(b"hidden", transaction=transaction)
        client.create_producer("t").send(b"behind")
        lost = simulation.broker.faults.on(CommandEndTxn).drop()
        del transaction
        gc.collect()
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        assert reader.read_next(60_000).data() == b"behind"
        assert lost.happened == 1


def test_an_end_is_repeated_after_growing_pauses_until_the_client_closes_and_the_close_does_not_wait() -> None:
    with Simulation() as simulation:
        client = simulation.client()
        transactions = [client.new_transaction(timedelta(seconds=10)) for _ in range(3)]
        lost = simulation.broker.faults.on(CommandEndTxn, times=None).drop()
        commit_without_answer(transactions[0])
        simulation.sleep(600.0)
        asked = lost.happened
        assert 15 < asked < 45
        began = simulation.now
        client.close()
        assert simulation.now - began < 1.0
        simulation.sleep(600.0)
        assert lost.happened == asked


IS_COMMITTING = "Expect Txn `(0,1)` to be in OPEN status but it is in COMMITTING status"


@pytest.mark.parametrize(("code", "text"), [("AuthorizationError", "not allowed"), ("InvalidTxnStatus", IS_COMMITTING)])
def test_a_transaction_whose_end_was_refused_is_not_kept_and_not_asked_for_again(code: str, text: str) -> None:
    with Simulation() as simulation:
        client = simulation.client()
        refused = simulation.broker.faults.on(CommandEndTxn, times=None).refuse(code, text)
        transaction = client.new_transaction(timedelta(seconds=10))
        commit_without_answer(transaction)
        assert len(transactions_of(client)) == 1
        asked = refused.happened
        simulation.sleep(3600.0)
        commit_without_answer(transaction)
        assert 1 <= refused.happened - asked <= 2
        asked = refused.happened
        del transaction
        gc.collect()
        simulation.sleep(3600.0)
        assert (len(transactions_of(client)), refused.happened) == (0, asked)


def test_a_coordinator_that_answers_nothing_for_long_is_asked_for_the_end_of_so_many_transactions_only() -> None:
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=1)
        lost = simulation.broker.faults.on(CommandEndTxn, times=None).drop()
        transactions = [client.new_transaction(timedelta(seconds=10)) for _ in range(MOST_REPEATED + 50)]
        for each in transactions:
            each.commit_async()
        del each
        simulation.sleep(60.0)
        transactions.clear()
        gc.collect()
        simulation.sleep(600.0)
        kept = transactions_of(client)
        asked = lost.happened
        simulation.sleep(600.0)
        assert len(kept) == MOST_REPEATED
        assert lost.happened - asked < 12 * MOST_REPEATED
        lost.remove()
        simulation.sleep(120.0)
        assert transactions_of(client) == []


def test_a_client_that_is_forgotten_while_an_end_is_repeated_is_collected(broker: EmbeddedBroker) -> None:
    def program() -> "weakref.ref[pulsar.Client]":
        client = pulsar.Client(broker.service_url, operation_timeout_seconds=1)
        consumer = client.subscribe("repeated", "s")
        client.create_producer("repeated").send(b"1")
        transaction = client.new_transaction()
        consumer.acknowledge(consumer.receive(10_000), transaction=transaction)
        abort_without_answer(transaction)
        return weakref.ref(client)

    lost = broker.faults.on(CommandEndTxn, times=None).drop()
    forgotten = program()
    until(lambda: (gc.collect(), forgotten() is None)[1], "the end of the client")
    lost.remove()


@pytest.mark.parametrize("closes", ["producer", "client"])
def test_a_close_sends_messages_whose_topic_is_being_registered(
    broker: EmbeddedBroker, any_topic: str, closes: str
) -> None:
    with pulsar.Client(broker.service_url) as reading, pulsar.Client(broker.service_url) as client:
        reader = reading.create_reader(any_topic, pulsar.MessageId.earliest)
        producer = client.create_producer(any_topic)
        transaction = client.new_transaction()
        slow = broker.faults.on(CommandAddPartitionToTxn, times=None).delay(0.3)
        sent = [
            producer.send_async(content, transaction=None if content.startswith(b"plain") else transaction)
            for content in (b"1", b"2", b"plain 1", b"plain 2")
        ]
        (producer if closes == "producer" else client).close()
        slow.remove()
        assert all(one.result(timeout=0) for one in sent)
        with pytest.raises(pulsar.AlreadyClosed):
            producer.send(b"late")
        if closes == "producer":
            transaction.commit()
        plain = [b"plain 1", b"plain 2"]
        assert sorted(values(reader)) == (plain if closes == "client" else [b"1", b"2", *plain])


@pytest.mark.parametrize("answer", ["a refusal", "none"])
def test_a_close_fails_only_the_transaction_whose_topic_is_not_registered(
    broker: EmbeddedBroker, any_topic: str, answer: str
) -> None:
    with pulsar.Client(broker.service_url, operation_timeout_seconds=2) as client:
        reader = client.create_reader(any_topic, pulsar.MessageId.earliest)
        producer = client.create_producer(any_topic)
        transaction = client.new_transaction()
        fault = broker.faults.on(CommandAddPartitionToTxn, times=None)
        stuck = fault.drop() if answer == "none" else fault.refuse("InvalidTxnStatus", "no")
        sent = [producer.send_async(content, transaction=transaction) for content in (b"1", b"2")]
        plain = [producer.send_async(content) for content in (b"plain 1", b"plain 2")]
        began = time.monotonic()
        producer.close()
        assert time.monotonic() - began < 4
        stuck.remove()
        expected = pulsar.Timeout if answer == "none" else pulsar.InvalidTxnStatusError
        assert [type(one.exception(timeout=0)) for one in sent] == [expected] * 2
        assert all(one.result(timeout=0) for one in plain)
        assert sorted(values(reader)) == [b"plain 1", b"plain 2"]
        transaction.abort()
