import gc
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType, InitialPosition
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy, ConsumerDeadLetterPolicy
from pulsar_actors.client.producer import Producer
from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerMetadataError,
    CumulativeAcknowledgementNotAllowedError,
    InvalidArgument,
    InvalidConfiguration,
    OperationNotSupported,
    ProcessForked,
    Timeout,
)
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConsumerStats,
    CommandGetLastMessageId,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName
from tests.support.life import until

PATIENCE = 20.0
SOON = 5_000


def send(producer: Producer, *payloads: bytes) -> list[MessageId]:
    return [producer.send(payload) for payload in payloads]


def receive(consumer: Consumer, count: int) -> list[bytes]:
    return [consumer.receive(SOON).data() for _ in range(count)]


def nothing_comes(consumer: Consumer, milliseconds: int = 100) -> bool:
    try:
        consumer.receive(milliseconds)
    except Timeout:
        return True
    return False


def in_a_callback(producer: Producer, call: Any) -> BaseException | None:
    errors: list[BaseException | None] = []
    event = threading.Event()

    def callback(*_: object) -> None:
        try:
            call()
            errors.append(None)
        except Exception as error:  # noqa: BLE001 - it is what came of it
            errors.append(error)
        event.set()

    producer.send_async(b"", callback)
    assert event.wait(PATIENCE)
    return errors[0]


def test_messages_come_in_order_and_acknowledged_ones_do_not_come_again(
    client: Client, producer: Producer, topic: str
) -> None:
    with client.subscribe(topic, "s") as consumer:
        send(producer, b"a", b"b", b"c")
        assert receive(consumer, 2) == [b"a", b"b"]
        consumer.acknowledge(consumer.receive(SOON))
        consumer.acknowledge_cumulative(MessageId.earliest)
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


def test_a_future_of_a_message_and_a_batch_of_messages(client: Client, producer: Producer, topic: str) -> None:
    policy = ConsumerBatchReceivePolicy(2, -1, 1000)
    with client.subscribe(topic, "s", batch_receive_policy=policy) as consumer:
        future = consumer.receive_async()
        send(producer, b"a", b"b", b"c")
        assert future.result(PATIENCE).data() == b"a"
        assert [message.data() for message in consumer.batch_receive()] == [b"b", b"c"]


def test_a_refused_message_comes_again_after_its_rest(client: Client, producer: Producer, topic: str) -> None:
    with client.subscribe(
        topic, "s", consumer_type=ConsumerType.Shared, negative_ack_redelivery_delay_ms=50
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


def test_a_seek_goes_to_a_message_or_a_time(consumer: Consumer, producer: Producer) -> None:
    ids = send(producer, b"a", b"b", b"c")
    receive(consumer, 3)
    consumer.seek(ids[0])
    assert receive(consumer, 2) == [b"b", b"c"]
    consumer.seek(0)
    assert receive(consumer, 3) == [b"a", b"b", b"c"]
    consumer.seek(MessageId.latest)
    assert nothing_comes(consumer)


@pytest.mark.parametrize("target", ["earliest", 1.5, True, None])
def test_a_seek_to_something_else_is_refused(consumer: Consumer, target: Any) -> None:
    with pytest.raises(InvalidArgument, match="messageid"):
        consumer.seek(target)


def test_a_seek_to_before_1970_is_refused(consumer: Consumer) -> None:
    with pytest.raises(InvalidArgument, match="from 0"):
        consumer.seek(-1)


def test_an_acknowledgement_from_before_a_seek_counts_for_nothing(
    client: Client, producer: Producer, topic: str
) -> None:
    with client.subscribe(topic, "s") as consumer:
        send(producer, b"a")
        message = consumer.receive(SOON)
        consumer.seek(MessageId.earliest)
        consumer.acknowledge(message)
        assert receive(consumer, 1) == [b"a"]
    with client.subscribe(topic, "s") as consumer:
        assert receive(consumer, 1) == [b"a"]


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
    with pytest.raises(AlreadyClosed):
        consumer.receive(0)
    with client.subscribe(topic, "s", initial_position=InitialPosition.Latest) as consumer:
        assert nothing_comes(consumer)


def test_an_unsubscribe_that_is_answered_too_late_ends_the_consumer_all_the_same(
    broker: EmbeddedBroker, topic: str
) -> None:
    with Client(broker.service_url, operation_timeout_seconds=0.3) as client:
        consumer = client.subscribe(topic, "s")
        fault = broker.faults.on(CommandUnsubscribe).stall()
        with pytest.raises(Timeout, match="may have taken effect, or not"):
            consumer.unsubscribe()
        assert consumer.is_connected()
        fault.release()
        until(lambda: not consumer.is_open)


@pytest.mark.parametrize("command", [CommandSeek, CommandUnsubscribe, CommandGetLastMessageId])
def test_a_broker_that_is_about_to_give_the_topic_away_is_not_the_last_to_be_asked(
    client: Client, producer: Producer, topic: str, broker: EmbeddedBroker, command: Any
) -> None:
    consumer = client.subscribe(topic, "s")
    send(producer, b"a")
    receive(consumer, 1)
    fault = broker.faults.on(command).refuse(ServerError.MetadataError, "Consumer not found")
    if command is CommandSeek:
        consumer.seek(MessageId.earliest)
        assert receive(consumer, 1) == [b"a"]
    elif command is CommandUnsubscribe:
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
    fault = broker.faults.on(CommandSubscribe).stall()
    broker.cut_connections()
    fault.wait()
    assert not consumer.is_connected()
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(calls.get(call, lambda: consumer.seek(MessageId.earliest)))
        assert not wait([calling], 0.05).done
        fault.release()
        calling.result(PATIENCE)


def test_others_messages_are_not_acknowledged_along(client: Client, topic: str) -> None:
    with (
        client.subscribe(topic, "s", consumer_type=ConsumerType.Shared) as consumer,
        pytest.raises(CumulativeAcknowledgementNotAllowedError, match="use acknowledge"),
    ):
        consumer.acknowledge_cumulative(MessageId.earliest)


@pytest.mark.parametrize("what", ["an id", None, 5])
def test_only_messages_and_ids_are_acknowledged(consumer: Consumer, what: Any) -> None:
    for call in (consumer.acknowledge, consumer.acknowledge_cumulative, consumer.negative_acknowledge):
        with pytest.raises(TypeError, match="Message or a MessageId"):
            call(what)


def test_after_a_close_everything_is_refused_and_closing_again_does_nothing(client: Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    consumer.close()
    consumer.close()
    for call in (
        lambda: consumer.receive(5),
        consumer.batch_receive,
        lambda: consumer.acknowledge(MessageId.earliest),
        lambda: consumer.negative_acknowledge(MessageId.earliest),
        consumer.redeliver_unacknowledged_messages,
        lambda: consumer.seek(0),
        consumer.get_last_message_id,
        consumer.unsubscribe,
    ):
        with pytest.raises(AlreadyClosed):
            call()
    assert isinstance(consumer.receive_async().exception(PATIENCE), AlreadyClosed)


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
        broker.call(lambda inside: inside.cluster.open_topic(TopicName.parse(topic)).terminate())
        seen: list[bytes] = []
        for message in consumer:
            seen.append(message.data())
            consumer.acknowledge(message)  # a topic is at its end for those who have acknowledged all of it
        assert seen == [b"a"]


# Listeners.


def test_a_listener_gets_the_messages_on_a_thread_of_its_own(client: Client, producer: Producer, topic: str) -> None:
    heard: list[tuple[Consumer, bytes, str]] = []

    def listen(consumer: Consumer, message: Message) -> None:
        heard.append((consumer, message.data(), threading.current_thread().name))
        consumer.acknowledge(message)

    with client.subscribe(topic, "s", message_listener=listen) as consumer:
        send(producer, b"a", b"b")
        until(lambda: len(heard) == 2, "the listener")
        assert [(one, data) for one, data, _ in heard] == [(consumer, b"a"), (consumer, b"b")]
        assert all(name.startswith("pulsar-listener") for _, _, name in heard)
        with pytest.raises(InvalidConfiguration, match="has a listener"):
            consumer.receive(5)


def test_a_listener_can_be_paused_and_resumed(client: Client, producer: Producer, topic: str) -> None:
    heard: list[bytes] = []
    with client.subscribe(topic, "s", message_listener=lambda _, message: heard.append(message.data())) as consumer:
        consumer.pause_message_listener()
        send(producer, b"a")
        until(lambda: consumer.stats().queued == 1, "the message")
        assert heard == []
        consumer.resume_message_listener()
        until(lambda: heard == [b"a"], "the listener")


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
        with pytest.raises(InvalidConfiguration, match="no message_listener"):
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


def test_a_message_that_fails_too_often_goes_to_the_dead_letter_topic(
    client: Client, producer: Producer, topic: str
) -> None:
    policy = ConsumerDeadLetterPolicy(1, initial_subscription_name="dead")
    with client.subscribe(
        topic,
        "s",
        consumer_type=ConsumerType.Shared,
        dead_letter_policy=policy,
        negative_ack_redelivery_delay_ms=20,
    ) as consumer:
        send(producer, b"bad")
        for _ in range(2):
            consumer.negative_acknowledge(consumer.receive(SOON))
        with client.subscribe(f"{topic}-s-DLQ", "dead", initial_position=InitialPosition.Earliest) as dead:
            letter = dead.receive(SOON)
        assert letter.data() == b"bad"
        assert letter.properties()["REAL_TOPIC"] == topic
        assert letter.properties()["REAL_SUBSCRIPTION"] == "s"
        assert nothing_comes(consumer)


# In callbacks, forked, collected.


def test_in_a_callback_nothing_waits(client: Client, producer: Producer, consumer: Consumer) -> None:
    for call in (
        lambda: consumer.seek(0),
        consumer.unsubscribe,
        consumer.get_last_message_id,
        consumer.batch_receive,
    ):
        assert isinstance(in_a_callback(producer, call), OperationNotSupported)
    assert in_a_callback(producer, consumer.close) is None
    assert consumer._state.link.ended.result(PATIENCE) is None


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


def test_a_consumer_that_nobody_holds_is_closed(client: Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    ended = consumer._state.link.ended
    del consumer
    gc.collect()
    assert ended.result(PATIENCE) is None


def test_in_a_forked_child_it_says_so(client: Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    consumer._state.forget(ProcessForked("make a new Client"))
    for call in (
        lambda: consumer.receive(5),
        consumer.close,
        consumer.redeliver_unacknowledged_messages,
        lambda: consumer.acknowledge(MessageId.earliest),
        consumer.get_last_message_id,
    ):
        with pytest.raises(ProcessForked):
            call()
    assert not consumer.is_connected()


@pytest.mark.shows("Command ConsumerStatsResponse", "error_code", "error_message")
def test_a_broker_that_does_not_count_says_why(client: Client, topic: str, broker: EmbeddedBroker) -> None:
    consumer = client.subscribe(topic, "s")
    broker.faults.on(CommandConsumerStats).refuse(ServerError.MetadataError, "not now")
    with pytest.raises(BrokerMetadataError, match="not now"):
        consumer.get_broker_consumer_stats()
    assert consumer.get_broker_consumer_stats().msg_backlog == 0
