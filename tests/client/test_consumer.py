import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors import Client, Consumer, Producer
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.simulation.connection import NetworkConditions
from pulsar_actors.testing import Simulation
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.topic_name import TopicName
from tests.support import topics
from tests.support.life import until
from tests.support.raw_producer import RawProducer

PATIENCE = 20.0
SOON = 5_000


def send(producer: Producer, *payloads: bytes) -> list[pulsar.MessageId]:
    return [producer.send(payload) for payload in payloads]


def receive(consumer: Consumer, count: int) -> list[bytes]:
    return [consumer.receive(SOON).data() for _ in range(count)]


def nothing_comes(consumer: Consumer, milliseconds: int = 100) -> bool:
    try:
        consumer.receive(milliseconds)
    except pulsar.Timeout:
        return True
    return False


def test_messages_come_in_order_and_acknowledged_ones_do_not_come_again(
    client: Client, producer: Producer, topic: str
) -> None:
    with client.subscribe(topic, "s") as consumer:
        send(producer, b"a", b"b", b"c")
        assert receive(consumer, 2) == [b"a", b"b"]
        consumer.acknowledge(consumer.receive(SOON))
        consumer.acknowledge_cumulative(pulsar.MessageId.earliest)
    with client.subscribe(topic, "s") as consumer:
        assert receive(consumer, 2) == [b"a", b"b"]
        assert nothing_comes(consumer)


def test_a_cumulative_acknowledgement_covers_all_before_by_message_or_id(
    client: Client, producer: Producer, topic: str
) -> None:
    with client.subscribe(topic, "s") as consumer:
        ids = send(producer, b"a", b"b", b"c", b"d")
        messages = [consumer.receive(SOON) for _ in range(4)]
        consumer.acknowledge_cumulative(messages[1])
        consumer.acknowledge(ids[2])
    with client.subscribe(topic, "s") as consumer:
        assert receive(consumer, 1) == [b"d"]


def test_names(client: Client, topic: str) -> None:
    with client.subscribe(topic, "the subscription", consumer_name="mine") as consumer:
        assert (consumer.topic(), consumer.subscription_name(), consumer.consumer_name()) == (
            topic, "the subscription", "mine",
        )  # fmt: skip
        assert repr(consumer) == f"<the consumer of 'the subscription' on {topic}>"
        assert consumer.is_connected()
    assert not consumer.is_connected()
    with client.subscribe(topic, "other") as consumer:
        assert consumer.consumer_name() == ""


def test_a_refused_message_comes_again_after_its_rest(client: Client, producer: Producer, topic: str) -> None:
    with client.subscribe(
        topic, "s", consumer_type=pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=50
    ) as consumer:
        send(producer, b"a")
        message = consumer.receive(SOON)
        consumer.negative_acknowledge(message)
        again = consumer.receive(SOON)
        assert (again.data(), again.redelivery_count()) == (b"a", 1)
        consumer.negative_acknowledge(again.message_id())
        assert consumer.receive(SOON).redelivery_count() == 2
        assert consumer.stats().refused == 2


def test_everything_unacknowledged_comes_again_when_it_is_asked_for(consumer: Consumer, producer: Producer) -> None:
    send(producer, b"a", b"b")
    assert receive(consumer, 2) == [b"a", b"b"]
    consumer.redeliver_unacknowledged_messages()
    assert receive(consumer, 2) == [b"a", b"b"]


@pytest.mark.parametrize("way", ["negative_acknowledge", "redeliver_unacknowledged_messages"])
def test_what_is_acknowledged_does_not_come_again_with_what_is_not(way: str) -> None:
    with Simulation(network=NetworkConditions(latency=2.0, yields=0.0, fragments=0.0)) as simulation:
        client = simulation.client()
        consumer = client.subscribe("t", "s", negative_ack_redelivery_delay_ms=100, ack_grouping_time_ms=200)
        producer = client.create_producer("t", batching_enabled=False)
        for number in range(20):
            producer.send(b"%d" % number)
        first, *others = [consumer.receive(60_000) for _ in range(20)]
        if way == "negative_acknowledge":
            consumer.negative_acknowledge(first)
        simulation.sleep(0.05)
        for message in others:
            consumer.acknowledge(message)
        if way == "redeliver_unacknowledged_messages":
            consumer.redeliver_unacknowledged_messages()
        assert consumer.receive(60_000).data() == b"0"
        with pytest.raises(pulsar.Timeout):
            consumer.receive(60_000)


@pytest.mark.parametrize("way", ["negative_acknowledge", "acknowledge too late", "redeliver_unacknowledged_messages"])
def test_what_waits_in_the_queue_of_a_topic_that_is_not_stored_is_received_whatever_is_refused(way: str) -> None:
    with Simulation() as simulation:
        client = simulation.client()
        options = {"negative_ack_redelivery_delay_ms": 100, "unacked_messages_timeout_ms": 10_000}
        consumer = client.subscribe("non-persistent://public/default/t", "s", **options)
        producer = client.create_producer("non-persistent://public/default/t")
        send(producer, *(b"%d" % number for number in range(10)))
        simulation.until(lambda: consumer.stats().queued == 10)
        first = consumer.receive(SOON)
        if way == "negative_acknowledge":
            consumer.negative_acknowledge(first)
        elif way == "redeliver_unacknowledged_messages":
            consumer.redeliver_unacknowledged_messages()
        simulation.sleep(30)
        assert receive(consumer, 9) == [b"%d" % number for number in range(1, 10)]


def test_a_seek_goes_to_a_message_or_a_time(consumer: Consumer, producer: Producer) -> None:
    ids = send(producer, b"a", b"b", b"c")
    receive(consumer, 3)
    consumer.seek(ids[0])
    assert receive(consumer, 2) == [b"b", b"c"]
    consumer.seek(0)
    assert receive(consumer, 3) == [b"a", b"b", b"c"]
    consumer.seek(pulsar.MessageId.latest)
    assert nothing_comes(consumer)


def test_an_acknowledgement_from_before_a_seek_counts_for_nothing(
    client: Client, producer: Producer, topic: str
) -> None:
    with client.subscribe(topic, "s") as consumer:
        send(producer, b"a")
        message = consumer.receive(SOON)
        consumer.seek(pulsar.MessageId.earliest)
        consumer.acknowledge(message)
        assert receive(consumer, 1) == [b"a"]
    with client.subscribe(topic, "s") as consumer:
        assert receive(consumer, 1) == [b"a"]


@pytest.mark.parametrize("acknowledges", ["during the seek", "after it"])
@pytest.mark.parametrize("answer", ["lost with its connection", "late"])
def test_an_acknowledgement_from_before_a_seek_of_unknown_outcome_removes_nothing_that_the_seek_has_brought_back(
    answer: str, acknowledges: str
) -> None:
    payloads = [b"a", b"b", b"c"]
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=5)
        consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
        send(producer, *payloads)
        messages = [consumer.receive(SOON) for _ in payloads]
        fault = simulation.broker.faults.on(pb.CommandSuccess).stall()
        seeking = simulation.start(lambda: consumer.seek(pulsar.MessageId.earliest))
        simulation.until(lambda: fault.happened)
        if acknowledges == "during the seek":
            consumer.acknowledge_async(messages[0])
        if answer != "late":
            simulation.broker.cut_connections()
        simulation.until(lambda: seeking.ended)
        with pytest.raises((pulsar.ConnectionLost, pulsar.Timeout)):
            seeking.result()
        if acknowledges == "after it":
            consumer.acknowledge_async(messages[1])
            consumer.acknowledge_cumulative_async(messages[2])
        fault.release()
        assert receive(consumer, 3) == payloads
        consumer.close()
        assert receive(client.subscribe("t", "s"), 3) == payloads


def test_the_last_message_of_the_topic(consumer: Consumer, producer: Producer) -> None:
    empty = consumer.get_last_message_id()
    assert (empty.ledger_id(), empty.entry_id()) == (-1, -1) or empty.entry_id() == -1
    (message_id,) = send(producer, b"a")
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id(), last.topic_name()) == (
        message_id.ledger_id(), message_id.entry_id(), consumer.topic(),
    )  # fmt: skip


def test_an_unsubscribe_deletes_the_subscription_and_ends_the_consumer(
    client: Client, producer: Producer, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    send(producer, b"a")
    consumer.unsubscribe()
    with pytest.raises(pulsar.AlreadyClosed):
        consumer.receive(0)
    with client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Latest) as consumer:
        assert nothing_comes(consumer)


def test_an_unsubscribe_that_is_answered_too_late_ends_the_consumer_all_the_same(
    broker: EmbeddedBroker, topic: str
) -> None:
    with Client(broker.service_url, operation_timeout_seconds=2) as client:
        consumer = client.subscribe(topic, "s")
        fault = broker.faults.on(pb.CommandUnsubscribe).stall()
        with pytest.raises(pulsar.Timeout, match="may have taken effect, or not"):
            consumer.unsubscribe()
        assert consumer.is_connected()
        fault.release()
        until(lambda: not consumer.is_open)


def test_a_query_while_an_unsubscribe_may_still_be_answered_does_not_create_the_subscription_again() -> None:
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=5)
        consumer = client.subscribe("t", "s")
        simulation.broker.faults.on("success").delay(20.0)
        with pytest.raises(pulsar.Timeout):
            consumer.unsubscribe()
        with pytest.raises(pulsar.Timeout):
            consumer.get_last_message_id()
        simulation.until(lambda: not consumer.is_open)
        assert simulation.broker.call(lambda inside: topics.open_topic(inside, "t").subscriptions) == {}


@pytest.mark.parametrize("lost", ["unsubscribe", "success"])
def test_an_unsubscribe_without_an_answer_can_be_repeated(lost: str) -> None:
    with Simulation() as simulation:
        client = simulation.client()
        consumer = client.subscribe("t", "s")
        simulation.broker.faults.on(lost).drop()
        with pytest.raises(pulsar.Timeout):
            consumer.unsubscribe()
        consumer.unsubscribe()
        assert simulation.broker.call(lambda inside: topics.open_topic(inside, "t").subscriptions) == {}
        assert not consumer.is_open


@pytest.mark.parametrize("lost", ["unsubscribe", "success"])
def test_a_consumer_can_seek_after_an_unsubscribe_without_an_answer(lost: str) -> None:
    with Simulation() as simulation:
        client = simulation.client()
        consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
        simulation.broker.faults.on(lost).drop()
        with pytest.raises(pulsar.Timeout):
            consumer.unsubscribe()
        producer.send(b"x")
        consumer.seek(pulsar.MessageId.earliest)
        assert receive(consumer, 1) == [b"x"]


def test_a_consumer_whose_subscription_cannot_be_deleted_goes_on_although_the_broker_closes_it() -> None:
    with Simulation() as simulation:
        client = simulation.client()
        consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
        simulation.broker.call(lambda inside: topics.fail_deletion(topics.open_topic(inside, "t")))
        with pytest.raises(pulsar.BrokerPersistenceError):
            consumer.unsubscribe()
        producer.send(b"x")
        assert receive(consumer, 1) == [b"x"]


@pytest.mark.parametrize("command", [pb.CommandSeek, pb.CommandUnsubscribe, pb.CommandGetLastMessageId])
def test_a_broker_that_is_about_to_give_the_topic_away_is_not_the_last_to_be_asked(
    client: Client, producer: Producer, topic: str, broker: EmbeddedBroker, command: Any
) -> None:
    consumer = client.subscribe(topic, "s")
    send(producer, b"a")
    receive(consumer, 1)
    fault = broker.faults.on(command).refuse(pb.ServerError.MetadataError, "Consumer not found")
    if command is pb.CommandSeek:
        consumer.seek(pulsar.MessageId.earliest)
        assert receive(consumer, 1) == [b"a"]
    elif command is pb.CommandUnsubscribe:
        consumer.unsubscribe()
        assert not consumer.is_open
    else:
        with ThreadPoolExecutor(1) as pool:
            calling = pool.submit(consumer.get_last_message_id)
            until(lambda: fault.happened)
            broker.call(lambda inside: inside.cluster.unload(TopicName.parse(topic)))
            assert calling.result(PATIENCE).entry_id() == 0
    assert fault.happened


@pytest.mark.parametrize("call", ["unsubscribe", "get_last_message_id", "seek"])
def test_a_call_while_the_consumer_reconnects_waits_for_that_and_is_done(
    client: Client, topic: str, broker: EmbeddedBroker, call: str
) -> None:
    consumer = client.subscribe(topic, "s")
    calls = {"unsubscribe": consumer.unsubscribe, "get_last_message_id": consumer.get_last_message_id}
    fault = broker.faults.on(pb.CommandSubscribe).stall()
    broker.cut_connections()
    fault.wait()
    assert not consumer.is_connected()
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(calls.get(call, lambda: consumer.seek(pulsar.MessageId.earliest)))
        assert not wait([calling], 0.05).done
        fault.release()
        calling.result(PATIENCE)


# After a lost connection.


def publish(client: Client, topic: str, count: int, **options: Any) -> None:
    with client.create_producer(topic, **options) as producer:
        producer.send_many([b"%03d" % number for number in range(count)]).result(PATIENCE)


def receive_rest(consumer: Consumer, count: int) -> list[bytes]:
    """Receive and acknowledge so many messages, after which there must be none."""
    got = []
    for _ in range(count):
        message = consumer.receive(SOON)
        consumer.acknowledge(message)
        got.append(message.data())
    assert nothing_comes(consumer)
    return got


def receive_batches(consumer: Consumer, count: int) -> list[bytes]:
    got: list[bytes] = []
    while len(got) < count:
        messages = consumer.batch_receive()
        consumer.acknowledge(messages)
        got += [message.data() for message in messages]
    assert nothing_comes(consumer)
    return got


def reconnect(broker: EmbeddedBroker, consumer: Consumer) -> None:
    broker.cut_connections()
    until(lambda: consumer.stats().reconnects >= 1 and consumer.is_connected(), "the reconnect")


BATCHED = {"batching_enabled": True, "batching_max_messages": 100}


@pytest.mark.parametrize("rest", [receive_rest, receive_batches])
@pytest.mark.parametrize("published", [{}, BATCHED], ids=["one by one", "batched"])
@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared], ids=str)
def test_what_is_queued_comes_once_and_in_order_after_a_lost_connection(  # noqa: PLR0913 - a table
    client: Client, topic: str, broker: EmbeddedBroker, rest: Any, published: dict[str, Any], kind: pulsar.ConsumerType
) -> None:
    with client.subscribe(
        topic, "s", consumer_type=kind, batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(20, 0, 200)
    ) as consumer:
        publish(client, topic, 50, **published)
        for _ in range(3):
            consumer.acknowledge(consumer.receive(SOON))
        reconnect(broker, consumer)
        assert rest(consumer, 47) == [b"%03d" % number for number in range(3, 50)]


@pytest.mark.parametrize("published", [{}, BATCHED], ids=["one by one", "batched"])
def test_what_is_queued_of_several_partitions_comes_once_after_a_lost_connection(
    client: Client, topic: str, broker: EmbeddedBroker, published: dict[str, Any]
) -> None:
    broker.create_topic(topic, 3)
    with client.subscribe(topic, "s") as consumer:
        publish(client, topic, 60, **published)
        seen = [consumer.receive(SOON) for _ in range(2)]
        consumer.acknowledge(seen)
        broker.cut_connections()
        until(lambda: consumer.stats().reconnects == 3 and consumer.is_connected(), "the reconnects")
        got = receive_rest(consumer, 58)
        assert sorted([*got, *(message.data() for message in seen)]) == [b"%03d" % number for number in range(60)]


def test_without_a_queue_the_rest_of_a_batch_comes_once_after_a_lost_connection(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    with client.subscribe(topic, "s", receiver_queue_size=0) as consumer:
        publish(client, topic, 10, **BATCHED)
        consumer.acknowledge(consumer.receive(SOON))
        reconnect(broker, consumer)
        assert receive_rest(consumer, 9) == [b"%03d" % number for number in range(1, 10)]


@pytest.mark.parametrize("published", [{}, BATCHED], ids=["one by one", "batched"])
def test_a_listener_gets_what_is_queued_once_and_in_order_after_a_lost_connection(
    client: Client, topic: str, broker: EmbeddedBroker, published: dict[str, Any]
) -> None:
    got: list[bytes] = []
    goes_on = threading.Event()

    def listen(consumer: Consumer, message: pulsar.Message) -> None:
        consumer.acknowledge(message)
        got.append(message.data())
        goes_on.wait(PATIENCE)

    with client.subscribe(topic, "s", message_listener=listen) as consumer:
        publish(client, topic, 20, **published)
        until(lambda: bool(got), "the first message")
        reconnect(broker, consumer)
        publish(client, topic, 1)
        goes_on.set()
        until(lambda: len(got) >= 21, "all messages")
        assert got == [*(b"%03d" % number for number in range(20)), b"000"]


@pytest.mark.parametrize("published", [{}, BATCHED], ids=["one by one", "batched"])
@pytest.mark.parametrize("opened", [0, 1])
@pytest.mark.parametrize("queue_size", [10, 1000])
def test_the_queue_of_a_topic_that_is_not_persistent_outlives_a_lost_connection_and_goes_on(  # noqa: PLR0913 - a table
    client: Client, topic: str, broker: EmbeddedBroker, published: dict[str, Any], opened: int, queue_size: int
) -> None:
    not_persistent = f"non-{topic}"
    payloads = [b"%03d" % number for number in range(10)]
    with client.subscribe(not_persistent, "s", receiver_queue_size=queue_size) as consumer:
        publish(client, not_persistent, 10, **published)
        until(lambda: consumer.stats().queued == 10, "the messages")
        first = [consumer.receive(SOON).data() for _ in range(opened)]
        reconnect(broker, consumer)
        assert first + receive_rest(consumer, 10 - opened) == payloads
        for _ in range(3):
            publish(client, not_persistent, 5, **published)
            assert receive_rest(consumer, 5) == payloads[:5]


def test_a_loop_over_a_consumer_ends_when_it_is_closed(consumer: Consumer, producer: Producer) -> None:
    send(producer, b"a", b"b")
    seen = []
    for message in consumer:
        seen.append(message.data())
        if len(seen) == 2:
            consumer.close()
    assert seen == [b"a", b"b"]


def test_a_loop_over_a_consumer_ends_at_the_end_of_the_topic(
    client: Client, producer: Producer, topic: str, broker: EmbeddedBroker
) -> None:
    with client.subscribe(topic, "s") as consumer:
        send(producer, b"a")
        topics.terminate(broker, topic)
        seen: list[bytes] = []
        for message in consumer:
            seen.append(message.data())
            consumer.acknowledge(message)  # a topic is at its end for those who have acknowledged all of it
        assert seen == [b"a"]


# Listeners.


def test_a_listener_gets_the_messages_on_a_thread_of_its_own(client: Client, producer: Producer, topic: str) -> None:
    heard: list[tuple[Consumer, bytes, str]] = []

    def listen(consumer: Consumer, message: pulsar.Message) -> None:
        heard.append((consumer, message.data(), threading.current_thread().name))
        consumer.acknowledge(message)

    with client.subscribe(topic, "s", message_listener=listen) as consumer:
        send(producer, b"a", b"b")
        until(lambda: len(heard) == 2, "the listener")
        assert [(one, data) for one, data, _ in heard] == [(consumer, b"a"), (consumer, b"b")]
        assert all(name.startswith("pulsar-listener") for _, _, name in heard)
        with pytest.raises(pulsar.InvalidConfiguration, match="has a listener"):
            consumer.receive(5)


def test_a_listener_may_begin_paused_and_be_paused_and_resumed(client: Client, any_topic: str) -> None:
    heard: list[bytes] = []
    options: dict[str, Any] = {
        "message_listener": lambda _, message: heard.append(message.data()),
        "start_paused": True,
    }
    with client.subscribe(any_topic, "s", **options) as consumer:
        producer = client.create_producer(any_topic)
        for number, payload in enumerate((b"a", b"b")):
            producer.send(payload)
            until(lambda: consumer.stats().queued == 1, "the message")
            assert len(heard) == number
            consumer.resume_message_listener()
            until(lambda number=number: heard == [b"a", b"b"][: number + 1], "the listener")
            consumer.pause_message_listener()


def test_without_a_queue_a_listener_gets_one_message_after_the_other(
    client: Client, producer: Producer, topic: str
) -> None:
    heard: list[bytes] = []
    with client.subscribe(
        topic, "s", receiver_queue_size=0, message_listener=lambda _, message: heard.append(message.data())
    ):
        send(producer, b"a", b"b", b"c")
        until(lambda: heard == [b"a", b"b", b"c"], "the listener")


def test_without_a_listener_there_is_nothing_to_pause(consumer: Consumer) -> None:
    for call in (consumer.pause_message_listener, consumer.resume_message_listener):
        with pytest.raises(pulsar.InvalidConfiguration, match="no message_listener"):
            call()


def test_without_a_queue_a_message_is_asked_for_when_somebody_wants_it(
    client: Client, producer: Producer, topic: str
) -> None:
    with client.subscribe(topic, "s", receiver_queue_size=0) as consumer:
        send(producer, b"a", b"b", b"c")
        assert consumer.stats().queued == 0
        assert receive(consumer, 2) == [b"a", b"b"]
        assert consumer.receive_async().result(PATIENCE).data() == b"c"
        assert nothing_comes(consumer, 10)


# Dead letters.


class Flow:
    """The permits that a client grants to its broker."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.granted = 0
        broker.faults.control(self._hear)

    def _hear(self, seen: Any) -> None:
        if isinstance(seen.command, pb.CommandFlow):
            self.granted += seen.command.messagePermits


@pytest.fixture
def flow(broker: EmbeddedBroker) -> Iterator[Flow]:
    yield Flow(broker)
    broker.faults.clear()


def test_a_cumulative_acknowledgement_leaves_the_chunks_of_what_has_not_come(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    with RawProducer(broker.service_url, topic) as raw:
        with client.subscribe(topic, "s") as consumer:
            raw.first("one")
            raw.first("two")
            raw.second("one")
            first = consumer.receive(SOON)
            assert first.data() == b"oneONE"
            consumer.acknowledge_cumulative(first)
        raw.second("two")
        with client.subscribe(topic, "s") as consumer:
            second = consumer.receive(SOON)
            assert second.data() == b"twoTWO"
            consumer.acknowledge_cumulative(second)
            until(lambda: topics.backlog(broker, topic) == 0, "the acknowledgement of all chunks")


def test_the_receipt_of_a_cumulative_acknowledgement_waits_for_the_chunks_that_it_covers(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    with (
        RawProducer(broker.service_url, topic) as raw,
        client.subscribe(topic, "s", ack_receipt_enabled=True) as consumer,
    ):
        raw.first("one")
        raw.send(b"between")
        receipt = consumer.acknowledge_cumulative_async(consumer.receive(SOON))
        raw.second("one")
        one = consumer.receive(SOON)
        assert not receipt.done()
        consumer.acknowledge(one)
        receipt.result(PATIENCE)
        assert topics.backlog(broker, topic) == 0


def test_in_a_transaction_a_cumulative_acknowledgement_waits_for_the_chunks_that_it_covers(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    with RawProducer(broker.service_url, topic) as raw, client.subscribe(topic, "s") as consumer:
        raw.first("one")
        raw.send(b"between")
        with client.new_transaction() as transaction:
            between = consumer.acknowledge_cumulative_async(consumer.receive(SOON), transaction=transaction)
            raw.second("one")
            one = consumer.receive(SOON)
            assert not between.done()
            consumer.acknowledge_cumulative(one, transaction=transaction)
            between.result(PATIENCE)
        assert topics.backlog(broker, topic) == 0


def test_in_a_transaction_no_message_is_lost_of_which_only_the_first_chunk_has_come(
    topic: str, broker: EmbeddedBroker
) -> None:
    with (
        RawProducer(broker.service_url, topic) as raw,
        Client(broker.service_url, operation_timeout_seconds=1) as client,
    ):
        with client.subscribe(topic, "s") as consumer:
            raw.first("one")
            raw.send(b"between")
            transaction = client.new_transaction()
            with pytest.raises(pulsar.Timeout, match="not sent: it would cover chunks of a message"):
                consumer.acknowledge_cumulative(consumer.receive(SOON), transaction=transaction)
            with pytest.raises(pulsar.TransactionHasOperationFailed):
                transaction.commit()
        raw.second("one")
        with client.subscribe(topic, "s") as consumer:
            assert [consumer.receive(SOON).data() for _ in range(2)] == [b"between", b"oneONE"]


def test_the_end_of_a_message_that_began_before_the_subscription_is_acknowledged(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    with RawProducer(broker.service_url, topic) as raw:
        raw.first("one")
        with client.subscribe(topic, "s") as consumer:
            raw.second("one")
            raw.send(b"a")
            message = consumer.receive(SOON)
            assert message.data() == b"a"
            consumer.acknowledge(message)
            until(lambda: topics.backlog(broker, topic) == 0, "the acknowledgement of the chunk")


@pytest.mark.parametrize(("inclusive", "next_one"), [(False, 2), (True, 1)])
def test_a_seek_to_a_chunked_message_goes_on_after_it_or_with_it(
    client: Client, topic: str, *, inclusive: bool, next_one: int
) -> None:
    payloads = [b"message %d, in several chunks" % number for number in range(3)]
    with (
        client.create_producer(topic, batching_enabled=False, chunking_enabled=True, chunk_max_message_size=10) as cut,
        client.subscribe(topic, "s", start_message_id_inclusive=inclusive) as consumer,
        client.create_reader(topic, pulsar.MessageId.earliest, start_message_id_inclusive=inclusive) as reader,
    ):
        send(cut, *payloads)
        ids = [consumer.receive(SOON).message_id() for _ in payloads]
        consumer.seek(ids[1])
        assert consumer.receive(SOON).data() == payloads[next_one]
        reader.seek(ids[1])
        assert reader.read_next(SOON).data() == payloads[next_one]


def test_a_start_after_a_chunked_message_loses_none_that_began_between_its_chunks(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    with RawProducer(broker.service_url, topic) as raw, client.subscribe(topic, "s") as consumer:
        for name in ("one", "two"):
            raw.first(name)
        raw.send(b"between")
        for name in ("one", "two"):
            raw.second(name)
        messages = [consumer.receive(SOON) for _ in range(3)]
        assert [message.data() for message in messages] == [b"between", b"oneONE", b"twoTWO"]
        consumer.seek(messages[1].message_id())
        assert receive(consumer, 1) == [b"twoTWO"]
        assert nothing_comes(consumer)
        with client.create_reader(topic, messages[1].message_id()) as reader:
            assert reader.has_message_available()
            assert reader.read_next(SOON).data() == b"twoTWO"
            assert not reader.has_message_available()


@pytest.mark.parametrize("together", [1, 49, 77])
def test_less_than_half_a_queue_is_taken_and_not_granted_anew(
    client: Client, topic: str, flow: Flow, together: int
) -> None:
    with (
        client.subscribe(topic, "s", receiver_queue_size=100) as consumer,
        client.create_producer(
            topic, batching_max_messages=together, batching_max_publish_delay_ms=60_000, block_if_queue_full=True
        ) as producer,
    ):
        for _ in range(300):
            producer.send_async(b"x")
        producer.flush()
        for taken in range(1, 301):
            consumer.receive(SOON)
            until(lambda taken=taken: 100 + taken - flow.granted < 50)


def test_the_room_of_what_is_dropped_on_arrival_counts_too(client: Client, topic: str, flow: Flow) -> None:
    with (
        client.subscribe(topic, "s", receiver_queue_size=100) as consumer,
        client.create_producer(topic, batching_enabled=False, chunking_enabled=True, chunk_max_message_size=1) as cut,
    ):
        cut.send(b"x" * 29)  # 29 permits, of which one is the message's
        send(cut, *[b"x"] * 30)
        until(lambda: consumer.stats().queued == 31)
        for taken in range(1, 32):
            consumer.receive(SOON)
            until(lambda taken=taken: 100 + 28 + taken - flow.granted < 50)


def test_the_room_of_what_was_taken_before_the_queue_was_empty_counts_too(
    client: Client, topic: str, flow: Flow
) -> None:
    with client.subscribe(topic, "s", receiver_queue_size=100) as consumer, client.create_producer(topic) as producer:
        send(producer, *[b"x"] * 30)
        receive(consumer, 30)
        assert nothing_comes(consumer, 1)
        send(producer, *[b"x"] * 30)
        until(lambda: consumer.stats().queued == 30)
        for taken in range(31, 61):
            consumer.receive(SOON)
            until(lambda taken=taken: 100 + taken - flow.granted < 50)


def test_a_message_that_fails_too_often_goes_to_the_dead_letter_topic_of_its_topic_or_partition(
    client: Client, any_topic: str
) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(1, initial_subscription_name="dead")
    options: dict[str, Any] = {"negative_ack_redelivery_delay_ms": 20, "dead_letter_policy": policy}
    with client.subscribe(any_topic, "s", pulsar.ConsumerType.Shared, **options) as consumer:
        client.create_producer(any_topic).send(b"bad")
        for _ in range(2):
            message = consumer.receive(SOON)
            consumer.negative_acknowledge(message)
        topic = message.topic_name()
        earliest = pulsar.InitialPosition.Earliest
        with client.subscribe(f"{topic}-s-DLQ", "dead", initial_position=earliest) as dead:
            letter = dead.receive(SOON)
        assert letter.data() == b"bad"
        assert letter.properties()["REAL_TOPIC"] == topic
        assert letter.properties()["REAL_SUBSCRIPTION"] == "s"
        assert nothing_comes(consumer)


# In callbacks, forked, collected.


def test_stats_say_how_things_stand(client: Client, producer: Producer, topic: str, broker: EmbeddedBroker) -> None:
    with client.subscribe(topic, "s", receiver_queue_size=10) as consumer:
        send(producer, b"12345", b"678")
        consumer.acknowledge(consumer.receive(SOON))
        until(lambda: consumer.stats().queued == 1, "the second message")
        stats = consumer.stats()
        assert (stats.topic, stats.subscription_name, stats.received) == (topic, "s", 1)
        assert (stats.connected, stats.permits, stats.reconnects, stats.last_error) == (True, 8, 0, None)
        until(lambda: consumer.stats().acknowledged == 1, "the acknowledgement")
        broker.cut_connections()
        until(lambda: consumer.stats().reconnects == 1, "the reconnect")
        assert consumer.stats().last_error
        broker.faults.on(pb.CommandGetLastMessageId).refuse(pb.ServerError.MetadataError, "not now")
        with pytest.raises(pulsar.BrokerMetadataError):
            consumer.get_last_message_id()
        assert "not now" in (consumer.stats().last_error or "")


@pytest.mark.shows("Command ConsumerStatsResponse", "error_code", "error_message")
def test_a_broker_that_does_not_count_says_why(client: Client, topic: str, broker: EmbeddedBroker) -> None:
    consumer = client.subscribe(topic, "s")
    broker.faults.on(pb.CommandConsumerStats).refuse(pb.ServerError.MetadataError, "not now")
    with pytest.raises(pulsar.BrokerMetadataError, match="not now"):
        consumer.get_broker_consumer_stats()
    assert consumer.get_broker_consumer_stats().msg_backlog == 0


def test_the_messages_of_a_batch_are_acknowledged_with_one_place_in_the_queue(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=50)
    for _ in range(50):
        producer.send_async(b"x")
    queue = consumer._ack_queue
    for message in [consumer.receive(5000) for _ in range(50)]:
        consumer.acknowledge(message)
        assert len(queue.queued) <= 1
