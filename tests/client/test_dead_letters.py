"""Messages that are put off, come again, and in the end go to the dead letter topic."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors import schema
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.client.dead_letters import DeadLetterSender
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.testing import Simulation
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support import topics
from tests.support.entries_in_hand import batch, single
from tests.support.life import until
from tests.support.witness import Witness

SOON = 10_000
PATIENCE = 10.0
EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared

Subscribe = Callable[..., pulsar.Consumer]


@pytest.fixture
def subscribe(client: pulsar.Client, topic: str) -> Subscribe:
    """Subscribe with retries, to the topic of the test if no other is named."""

    def made(topic: Any = topic, **options: Any) -> pulsar.Consumer:
        options = {"consumer_type": SHARED, "initial_position": EARLIEST, "enable_retry": True, **options}
        return client.subscribe(topic, "s", **options)

    return made


def received(consumer: pulsar.Consumer, producer: pulsar.Producer) -> pulsar.Message:
    producer.send(b"x")
    return consumer.receive(SOON)


def nothing_comes(consumer: pulsar.Consumer) -> bool:
    with pytest.raises(pulsar.Timeout):
        consumer.receive(50)
    return True


# What comes again, and how.


def test_a_message_comes_again_after_its_delay_and_not_before(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    consumer = subscribe()
    sent = producer.send(b"later", {"a": "b"}, "key", "order", event_timestamp=5)
    began = time.monotonic()
    consumer.reconsume_later(consumer.receive(SOON), 300, {"c": "d"})
    again = consumer.receive(SOON)
    assert time.monotonic() - began >= 0.29
    assert (again.data(), again.partition_key(), again.ordering_key(), again.event_timestamp()) == (
        b"later", "key", "order", 5,
    )  # fmt: skip
    assert again.properties() == {
        "a": "b",
        "c": "d",
        "REAL_TOPIC": topic,
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": str(sent),
        "ORIGIN_MESSAGE_IDY_TIME": str(sent),
        "RECONSUMETIMES": "1",
        "DELAY_TIME": "300",
    }
    assert again.topic_name() == f"{topic}-s-RETRY"
    until(lambda: topics.backlog(broker, topic) == 0, "the original is acknowledged")
    consumer.acknowledge(again)
    until(lambda: topics.backlog(broker, f"{topic}-s-RETRY") == 0, "and so is the other")


def test_a_message_put_off_too_often_is_a_dead_letter(
    broker: EmbeddedBroker, client: pulsar.Client, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    consumer = subscribe(dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(2, initial_subscription_name="first"))
    sent = producer.send(b"bad")
    for times in range(3):
        message = consumer.receive(SOON)
        assert message.properties().get("RECONSUMETIMES") == (str(times) if times else None)
        consumer.reconsume_later(message, 10)
    letter = client.subscribe(f"{topic}-s-DLQ", "first").receive(SOON)  # it was there before the letter
    assert letter.data() == b"bad"
    assert letter.properties()["ORIGIN_MESSAGE_ID"] == str(sent)
    assert letter.properties()["RECONSUMETIMES"] == "3"
    until(lambda: topics.backlog(broker, f"{topic}-s-RETRY") == 0)
    assert nothing_comes(consumer)


def test_without_a_policy_the_seventeenth_time_is_too_often(
    client: pulsar.Client, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    consumer = subscribe()
    dead = client.subscribe(f"{topic}-s-DLQ", "d")
    producer.send(b"bad", {"RECONSUMETIMES": "15"})
    consumer.reconsume_later(consumer.receive(SOON), 0)
    assert nothing_comes(dead)
    consumer.reconsume_later(consumer.receive(SOON), 0)
    assert dead.receive(SOON).properties()["RECONSUMETIMES"] == "17"


def test_retries_and_dead_letters_go_where_they_were_told_to(
    client: pulsar.Client, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(1, f"{topic}-dead", retry_letter_topic=f"{topic}-again")
    consumer, dead = subscribe(dead_letter_policy=policy), client.subscribe(f"{topic}-dead", "d")
    consumer.reconsume_later(received(consumer, producer), 0)
    again = consumer.receive(SOON)
    assert again.topic_name() == f"{topic}-again"
    consumer.reconsume_later(again, 0)
    assert dead.receive(SOON).data() == b"x"


def test_the_retry_topic_may_be_the_topic_itself(subscribe: Subscribe, producer: pulsar.Producer, topic: str) -> None:
    consumer = subscribe(dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, retry_letter_topic=topic))
    consumer.reconsume_later(received(consumer, producer), 0)
    again = consumer.receive(SOON)
    assert (again.topic_name(), again.properties()["RECONSUMETIMES"]) == (topic, "1")


def test_a_refused_message_of_the_retry_topic_becomes_a_dead_letter_of_the_same_topic(
    client: pulsar.Client, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    consumer = subscribe(dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1), negative_ack_redelivery_delay_ms=10)
    dead = client.subscribe(f"{topic}-s-DLQ", "d")
    consumer.reconsume_later(received(consumer, producer), 0)
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(SOON))
    assert dead.receive(SOON).properties()["REAL_TOPIC"] == topic


def test_a_null_and_a_batch_and_text_can_be_put_off(
    client: pulsar.Client, broker: EmbeddedBroker, subscribe: Subscribe, topic: str
) -> None:
    consumer = subscribe(schema=pulsar.StringSchema())
    with client.create_producer(topic, schema=pulsar.StringSchema(), batching_enabled=True) as producer:
        for content in ("a", None, "c"):
            producer.send_async(content, partition_key="k")
    messages = [consumer.receive(SOON) for _ in range(3)]
    consumer.reconsume_later(messages[:2], 0)
    consumer.acknowledge(messages[2])
    again = [consumer.receive(SOON) for _ in range(2)]
    assert [message.has_null_value() for message in again] == [False, True]
    assert again[0].value() == "a"
    assert again[0].schema_version() == messages[0].schema_version() != ""
    until(lambda: topics.backlog(broker, topic) == 0, "the batch is acknowledged")
    consumer.redeliver_unacknowledged_messages()
    assert sorted(consumer.receive(SOON).data() for _ in range(2)) == [b"", b"a"]  # nothing of the batch


def test_a_message_in_chunks_is_put_off_in_chunks(topic: str) -> None:
    with (
        EmbeddedBroker(settings=Settings(max_message_size=10_000)) as small,
        pulsar.Client(small.service_url) as client,
    ):
        consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, enable_retry=True)
        large = bytes(range(250)) * 100
        client.create_producer(topic, chunking_enabled=True).send(large)
        consumer.reconsume_later(consumer.receive(SOON), 0)
        again = consumer.receive(SOON)
        assert again.data() == large
        consumer.acknowledge(again)
        for name in (topic, f"{topic}-s-RETRY"):
            until(lambda name=name: topics.backlog(small, name) == 0, f"all chunks of {name} are acknowledged")


# Of several topics.


def test_all_partitions_have_one_retry_topic_which_may_have_partitions(
    client: pulsar.Client, broker: EmbeddedBroker, subscribe: Subscribe, topic: str
) -> None:
    topics.create_partitioned(broker, topic, 2)
    topics.create_partitioned(broker, f"{topic}-s-RETRY", 2)
    consumer = subscribe()
    assert consumer.topic() == topic
    with client.create_producer(topic) as producer:
        sent = {producer.send(b"%d" % number): number for number in range(4)}
    for _ in range(4):
        consumer.reconsume_later(consumer.receive(SOON), 0)
    again = [consumer.receive(SOON) for _ in range(4)]
    assert sorted(message.data() for message in again) == [b"0", b"1", b"2", b"3"]
    assert {message.topic_name() for message in again} == {f"{topic}-s-RETRY-partition-{index}" for index in range(2)}
    origins = {message.properties()["REAL_TOPIC"] for message in again}
    assert origins == {message_id.topic_name() for message_id in sent}
    consumer.acknowledge(again)


def test_several_topics_have_one_retry_topic_named_after_the_first_by_name(
    client: pulsar.Client, subscribe: Subscribe, topic: str
) -> None:
    names = [f"{topic}-b", f"{topic}-a"]
    consumer = subscribe(names)
    for name in names:
        client.create_producer(name).send(name.encode())
    for _ in names:
        consumer.reconsume_later(consumer.receive(SOON), 0)
    again = [consumer.receive(SOON) for _ in names]
    assert {message.topic_name() for message in again} == {f"{topic}-a-s-RETRY"}
    assert {message.properties()["REAL_TOPIC"] for message in again} == set(names)


def test_a_pattern_goes_with_a_retry_topic_that_is_named(
    client: pulsar.Client, broker: EmbeddedBroker, subscribe: Subscribe, topic: str
) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(1, f"{topic}-x", retry_letter_topic=f"{topic}-again")
    consumer = subscribe(re.compile(re.escape(topic) + "-[ab]"), dead_letter_policy=policy)
    dead = client.subscribe(f"{topic}-x", "d")
    assert topics.backlog(broker, f"{topic}-again") == 0  # it is there though nothing matches yet
    client.create_producer(f"{topic}-a").send(b"x")
    consumer.reconsume_later(consumer.receive(SOON), 0)
    again = consumer.receive(SOON)
    assert again.topic_name() == f"{topic}-again"
    client.create_producer(f"{topic}-b").send(b"y")  # a look at the topics leaves the retry topic alone
    assert consumer.receive(SOON).data() == b"y"
    consumer.reconsume_later(again, 0)
    assert dead.receive(SOON).data() == b"x"


# Who is told, and of what.


def test_interceptors_hear_of_the_acknowledgement_on_a_listeners_thread(
    subscribe: Subscribe, producer: pulsar.Producer
) -> None:
    witness = Witness()
    consumer = subscribe(interceptors=[witness], message_listener=None)
    sent = producer.send(b"x")
    consumer.reconsume_later(consumer.receive(SOON), 0)
    assert until(lambda: witness.of("acknowledge")) == [(consumer, sent, None)]
    assert not any("io" in thread for thread in witness.threads)


def test_a_listener_with_interceptors_may_put_off_without_waiting_for_itself(
    subscribe: Subscribe, producer: pulsar.Producer
) -> None:
    witness = Witness()
    done = threading.Event()

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        if message.properties():
            done.set()
        else:
            consumer.reconsume_later(message, 0)

    consumer = subscribe(interceptors=[witness], message_listener=listen)
    producer.send(b"x")
    assert done.wait(PATIENCE)
    consumer.close()


def test_with_receipts_the_future_ends_with_the_brokers_word(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    consumer = subscribe(ack_receipt_enabled=True)
    producer.send(b"x")
    consumer.reconsume_later_async(consumer.receive(SOON), 50).result(PATIENCE)
    assert topics.backlog(broker, topic) == 0


def test_on_a_loop_it_says_what_to_call_instead(subscribe: Subscribe, producer: pulsar.Producer) -> None:
    consumer = subscribe()
    message = received(consumer, producer)
    raised: list[Exception] = []
    done = threading.Event()

    def callback(*_: object) -> None:
        try:
            consumer.reconsume_later(message, 0)
        except pulsar.OperationNotSupported as error:
            raised.append(error)
        consumer.reconsume_later_async(message, 0)
        done.set()

    producer.send_async(b"y", callback)
    assert done.wait(PATIENCE)
    assert "reconsume_later_async()" in str(raised[0])
    assert {consumer.receive(SOON).data(), consumer.receive(SOON).data()} == {b"x", b"y"}


# What goes wrong.


def test_without_the_option_nothing_is_put_off(client: pulsar.Client, producer: pulsar.Producer, topic: str) -> None:
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    message = received(consumer, producer)
    with pytest.raises(pulsar.InvalidConfiguration, match="enable_retry=True"):
        consumer.reconsume_later(message, 10)


def test_what_is_no_message_of_this_consumer_is_refused_before_any_is_sent(
    client: pulsar.Client, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    consumer = subscribe()
    message = received(consumer, producer)
    with pytest.raises(TypeError, match="a Message is put off, not MessageId"):
        consumer.reconsume_later([message, message.message_id()], 0)  # type: ignore[list-item]
    client.create_producer(f"{topic}-other").send(b"y")
    other = client.create_reader(f"{topic}-other", pulsar.MessageId.earliest).read_next(SOON)
    with pytest.raises(pulsar.InvalidArgument, match="none of the consumer"):
        consumer.reconsume_later([message, other], 0)
    assert nothing_comes(consumer)


def test_a_message_that_the_retry_topic_does_not_take_stays_unacknowledged(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    consumer = subscribe()
    message = received(consumer, producer)
    consumer.reconsume_later(message, 0)
    again = consumer.receive(SOON)
    topics.terminate(broker, f"{topic}-s-RETRY")
    with pytest.raises(pulsar.TopicTerminated, match="-s-RETRY did not take the message, which stays unacknowledged"):
        consumer.reconsume_later(again, 0)
    until(lambda: topics.backlog(broker, topic) == 0, "the original is acknowledged")
    consumer.redeliver_unacknowledged_messages()
    assert consumer.receive(SOON).message_id() == again.message_id()


# Its schema is that of the original.


class Json(schema.Record):
    """An object of JSON."""

    a = schema.Integer()
    b = schema.String()


OLD: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}],
}
ADDED = {"name": "added", "type": "int", "default": 7}
NEW = {**OLD, "fields": [OLD["fields"][0], ADDED, OLD["fields"][1]]}
AB: dict[str, Any] = {"a": 1, "b": "x"}
PAIR = schema.KeyValueSchema(schema.StringSchema(), schema.StringSchema(), schema.KeyValueEncodingType.SEPARATED)
WRITTEN = pytest.mark.parametrize(
    ("written", "sent", "read", "value"),
    [
        (schema.AvroSchema(None, OLD), AB, schema.AvroSchema(None, NEW), {**AB, "added": 7}),
        (schema.AvroSchema(None, OLD), AB, schema.AutoConsumeSchema(), AB),
        (schema.JsonSchema(Json), Json(**AB), schema.AutoConsumeSchema(), AB),
        (PAIR, ("k", "v"), schema.AutoConsumeSchema(), ("k", "v")),
        (schema.BytesSchema(), b"x", schema.AutoConsumeSchema(), b"x"),
    ],
    ids=["older Avro", "Avro", "JSON", "a pair", "none"],
)  # fmt: skip


def value_of(message: pulsar.Message) -> Any:
    value = message.value()
    return value.native_object() if isinstance(value, schema.GenericRecord) else value


@WRITTEN
def test_a_message_that_is_put_off_has_the_same_value_again(  # noqa: PLR0913 - fixtures
    client: pulsar.Client, subscribe: Subscribe, topic: str, written: Any, sent: Any, read: Any, value: Any
) -> None:
    client.create_producer(topic, schema=written).send(sent)
    consumer = subscribe(schema=read, dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1))
    consumer.reconsume_later(consumer.receive(SOON), 0)
    again = consumer.receive(SOON)
    assert value_of(again) == value
    consumer.reconsume_later(again, 0)
    dead = client.subscribe(f"{topic}-s-DLQ", "s", schema=read, initial_position=EARLIEST).receive(SOON)
    assert value_of(dead) == value
    consumer.close()
    until(lambda: not [one for one in client.stats().producers if one.topic.startswith(f"{topic}-s-")])


@WRITTEN
def test_a_message_that_was_refused_too_often_has_the_same_value_as_a_dead_letter(  # noqa: PLR0913 - fixtures
    client: pulsar.Client, topic: str, written: Any, sent: Any, read: Any, value: Any
) -> None:
    client.create_producer(topic, schema=written).send(sent)
    policy = pulsar.ConsumerDeadLetterPolicy(1)
    options = {"consumer_type": SHARED, "initial_position": EARLIEST, "negative_ack_redelivery_delay_ms": 10}
    consumer = client.subscribe(topic, "s", schema=read, dead_letter_policy=policy, **options)
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(SOON))
    dead = client.subscribe(f"{topic}-s-DLQ", "s", schema=read, initial_position=EARLIEST).receive(SOON)
    assert value_of(dead) == value


def test_a_message_whose_schema_is_gone_can_be_put_off(
    broker: EmbeddedBroker, client: pulsar.Client, subscribe: Subscribe, topic: str
) -> None:
    client.create_producer(topic, schema=schema.JsonSchema(Json)).send(Json(**AB))
    consumer = subscribe(schema=schema.AutoConsumeSchema())
    message = consumer.receive(SOON)
    broker.faults.on(pb.CommandGetSchema).refuse(pb.ServerError.TopicNotFound, "no schema")
    consumer.reconsume_later(message, 0)
    assert consumer.receive(SOON).data() == message.data()


def test_a_message_whose_schema_no_broker_tells_stays_unacknowledged(
    broker: EmbeddedBroker, client: pulsar.Client, subscribe: Subscribe, topic: str
) -> None:
    client.create_producer(topic, schema=schema.JsonSchema(Json)).send(Json(**AB))
    consumer = subscribe(schema=schema.AutoConsumeSchema())
    message = consumer.receive(SOON)
    broker.faults.on(pb.CommandGetSchema).refuse(pb.ServerError.NotAllowedError, "not now")
    with pytest.raises(pulsar.PulsarException, match=r"-s-RETRY did not take the message, .*: not now"):
        consumer.reconsume_later(message, 0)
    assert topics.backlog(broker, topic) == 1
    consumer.reconsume_later(message, 0)
    assert value_of(consumer.receive(SOON)) == AB


# The producers of the retry topic and of the dead letter topic.


@pytest.mark.parametrize("command", [pb.CommandPartitionedTopicMetadata, pb.CommandProducer])
def test_a_producer_that_is_refused_fails_the_call_and_the_next_one_tries_again(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: pulsar.Producer, command: Any
) -> None:
    consumer = subscribe()
    message = received(consumer, producer)
    broker.faults.on(command).refuse(pb.ServerError.AuthorizationError, "not you")
    with pytest.raises(pulsar.AuthorizationError, match="not you"):
        consumer.reconsume_later(message, 0)
    consumer.reconsume_later(message, 0)
    assert consumer.receive(SOON).data() == b"x"


def test_messages_that_are_put_off_at_once_share_the_producer_that_is_made_for_the_first(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: pulsar.Producer
) -> None:
    consumer = subscribe()
    messages = [received(consumer, producer) for _ in range(3)]
    made = broker.faults.on(pb.CommandProducer, times=None).delay(0.05)
    for put_off in [consumer.reconsume_later_async(each, 0) for each in messages]:
        put_off.result(PATIENCE)
    made.remove()
    assert made.happened == 1


def test_a_producer_that_has_ended_for_good_is_made_anew_with_the_next_message(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: pulsar.Producer
) -> None:
    consumer = subscribe()
    consumer.reconsume_later(received(consumer, producer), 0)
    again = consumer.receive(SOON)
    broker.faults.on(pb.CommandSend).refuse(pb.ServerError.ProducerFenced, "somebody else has it")
    with pytest.raises(pulsar.ProducerFenced):
        consumer.reconsume_later(again, 0)
    consumer.reconsume_later(again, 0)
    assert consumer.receive(SOON).properties()["RECONSUMETIMES"] == "2"


def test_the_retry_topic_may_be_one_partition(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    topics.create_partitioned(broker, f"{topic}-again", 2)
    again = f"{topic}-again-partition-1"
    consumer = subscribe(dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, retry_letter_topic=again))
    consumer.reconsume_later(received(consumer, producer), 0)
    assert consumer.receive(SOON).topic_name() == again


def test_a_producer_that_fails_to_take_a_message_fails_the_call(
    subscribe: Subscribe, producer: pulsar.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    consumer = subscribe()
    message = received(consumer, producer)
    monkeypatch.setattr(pulsar.Producer, "forward", fail)
    with pytest.raises(ZeroDivisionError):
        consumer.reconsume_later(message, 0)


def test_a_producer_that_is_made_after_its_consumer_was_closed_sends_what_is_put_off_and_closes() -> None:
    topic = "persistent://public/default/t"
    with Simulation() as simulation:
        client = simulation.client(operation_timeout_seconds=1)
        consumer = client.subscribe(topic, "s", SHARED, enable_retry=True)
        client.create_producer(topic).send(b"x")
        message = consumer.receive(SOON)
        for answer in ("partitioned_metadata_response", "producer_success"):
            simulation.broker.faults.on(answer).delay(0.7)  # together longer than the close waits
        consumer.reconsume_later_async(message, 0)
        consumer.close()
        simulation.sleep(3)
        assert topics.messages_in(simulation.broker, f"{topic}-s-RETRY") == 1
        assert topics.handles(simulation.broker, f"{topic}-s-RETRY") == 0


def test_a_seek_brings_a_message_that_is_being_sent_to_the_dead_letter_topic() -> None:
    topic = "persistent://public/default/t"
    with Simulation() as simulation:
        client = simulation.client()
        policy = pulsar.ConsumerDeadLetterPolicy(1)
        consumer = client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=50, dead_letter_policy=policy)
        client.create_producer(topic).send(b"x")
        consumer.negative_acknowledge(consumer.receive(SOON))
        slow = simulation.broker.faults.on("send").delay(3)
        consumer.negative_acknowledge(consumer.receive(SOON))
        simulation.until(lambda: slow.happened)
        consumer.seek(pulsar.MessageId.earliest)
        consumer.acknowledge(consumer.receive(1_000))
        simulation.until(lambda: topics.messages_in(simulation.broker, f"{topic}-s-DLQ") == 1)
        assert topics.backlog(simulation.broker, topic) == 0


# The end.


def test_a_close_waits_for_what_is_being_put_off(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    consumer = subscribe()
    put_off = consumer.reconsume_later_async(received(consumer, producer), 0)
    consumer.close()
    assert put_off.done()
    assert put_off.exception() is None
    assert topics.backlog(broker, topic) == 0
    assert subscribe().receive(SOON).properties()["RECONSUMETIMES"] == "1"


def test_a_close_waits_no_longer_than_an_operation_may_take_and_then_the_message_may_come_twice(
    broker: EmbeddedBroker, producer: pulsar.Producer, topic: str
) -> None:
    with pulsar.Client(broker.service_url, operation_timeout_seconds=4) as client:
        consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, enable_retry=True)
        producer.send(b"x")
        message = consumer.receive(SOON)
        consumer.reconsume_later(message, 0)  # so that there is a producer
        stalled = broker.faults.on(pb.CommandSend).stall()
        put_off = consumer.reconsume_later_async(consumer.receive(SOON), 0)
        stalled.wait()
        consumer.close()
        assert not put_off.done()
        stalled.release()
        assert isinstance(put_off.exception(PATIENCE), pulsar.AlreadyClosed)
    # The close has no answer either, so the connection is given up: the producer may be on a new one, and have sent the
    # message again, before it is closed.
    assert topics.backlog(broker, f"{topic}-s-RETRY") in {2, 3}


def test_what_is_being_put_off_keeps_a_consumer_that_nobody_holds(
    broker: EmbeddedBroker, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    consumer = subscribe()
    message = received(consumer, producer)
    stalled = broker.faults.on(pb.CommandProducer).stall()
    consumer.reconsume_later_async(message, 0)
    del consumer
    stalled.wait()
    stalled.release()
    until(lambda: topics.backlog(broker, topic) == 0, "it is acknowledged")
    assert subscribe().receive(SOON).properties()["RECONSUMETIMES"] == "1"


def test_the_end_of_a_consumer_ends_its_producers(
    client: pulsar.Client, subscribe: Subscribe, producer: pulsar.Producer, topic: str
) -> None:
    consumer = subscribe()
    message = received(consumer, producer)
    consumer.reconsume_later(message, 0)

    def producers() -> set[str]:
        return {one.topic for one in client.stats().producers} & {f"{topic}-s-RETRY"}

    assert producers()
    consumer.close()
    until(lambda: not producers())
    with pytest.raises(pulsar.AlreadyClosed):
        consumer.reconsume_later_async(message, 0)


TOPIC = "persistent://public/default/t"


class Bench:
    """The producer of the dead letter topic, played by a test."""

    def __init__(self) -> None:
        self.forwarded: list[tuple[bytes, Mapping[str, str], SlimFuture[pulsar.MessageId]]] = []
        self.reports: list[Exception | None] = []
        self.send = DeadLetterSender(self, TOPIC, "s", 10_000)  # type: ignore[arg-type]

    def forward(self, message: Any, properties: Mapping[str, str]) -> SlimFuture[pulsar.MessageId]:
        self.forwarded.append((message.data(), properties, SlimFuture()))
        return self.forwarded[-1][2]

    def bury(self, delivery: Any) -> None:
        self.send(delivery, Generation(), self.reports.append)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_entry_is_there_when_all_its_messages_are(bench: Bench) -> None:
    bench.bury(batch(1, b"a", b"b", b"c", wanted=0b101))
    assert [payload for payload, _, _ in bench.forwarded] == [b"a", b"c"]
    bench.forwarded[0][2].set_result(pulsar.MessageId())
    assert bench.reports == []
    bench.forwarded[1][2].set_result(pulsar.MessageId())
    assert bench.reports == [None]


def test_one_message_that_is_not_taken_fails_the_entry_once(bench: Bench) -> None:
    bench.bury(batch(1, b"a", b"b"))
    error = pulsar.Timeout("no answer")
    bench.forwarded[0][2].set_exception(error)
    bench.forwarded[1][2].set_result(pulsar.MessageId())
    assert bench.reports == [error]


def test_a_corrupt_entry_is_not_sent(bench: Bench) -> None:
    bench.bury(single(1, broken=True))
    assert len(bench.reports) == 1
    assert bench.forwarded == []


def test_an_entry_of_which_nothing_is_left_is_done_with(bench: Bench) -> None:
    bench.bury(batch(1, b"a", wanted=0))
    assert bench.reports == [None]


@pytest.mark.parametrize(("consumer_type", "warnings"), [("Exclusive", 1), ("Failover", 1), ("Shared", 0)])
def test_a_policy_for_a_subscription_that_counts_no_deliveries_is_warned_of(
    consumer_type: str, warnings: int, client: pulsar.Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(3)
    client.subscribe(topic, "s", pulsar.ConsumerType[consumer_type], dead_letter_policy=policy)
    said = f"the dead_letter_policy of 's' does nothing: for a consumer of type {consumer_type}"
    assert sum(record.getMessage().startswith(said) for record in caplog.records) == warnings


def test_messages_of_a_batch_that_a_transaction_has_acknowledged_one_by_one_do_not_become_dead_letters(
    client: pulsar.Client, topic: str, subscribe: Subscribe
) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(1, f"{topic}-dead", "initial")
    options = {"unacked_messages_timeout_ms": 500, "negative_ack_redelivery_delay_ms": 10}
    consumer = subscribe(dead_letter_policy=policy, enable_retry=False, **options)
    dead = client.subscribe(f"{topic}-dead", "dead", initial_position=EARLIEST)
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=50)

    def on_their_last_try(*contents: bytes) -> list[pulsar.Message]:
        producer.send_many(contents).result(PATIENCE)
        for _ in contents:
            consumer.negative_acknowledge(consumer.receive(SOON))
        return [consumer.receive(SOON) for _ in contents]

    with client.new_transaction() as transaction:
        for message in on_their_last_try(b"1", b"2", b"3"):
            consumer.acknowledge(message, transaction=transaction)
    on_their_last_try(b"never acknowledged")
    assert dead.receive(SOON).data() == b"never acknowledged"
