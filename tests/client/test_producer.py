import threading
from datetime import timedelta
from typing import Any

import lz4.block
import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.handle import state_of
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.testing import Simulation
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, ServerError
from tests.support.life import until

PATIENCE = 20.0


def receive(client: pulsar.Client, topic: str, count: int) -> list[Any]:
    with client.subscribe(topic, "reads", initial_position=pulsar.InitialPosition.Earliest) as consumer:
        return [consumer.receive(5_000) for _ in range(count)]


def test_messages_that_nobody_hears_of_are_stored_and_those_that_fail_are_counted(
    client: pulsar.Client, topic: str
) -> None:
    with client.create_producer(topic, batching_enabled=True) as producer:
        leave = state_of(producer).enqueuer.enqueue
        for payload in (b"a", b"b", b"x" * 6_000_000):
            leave(payload, None)
        producer.flush()
        number = state_of(producer).failed()
    assert [message.data() for message in receive(client, topic, 2)] == [b"a", b"b"]
    assert number == 1


def test_all_that_is_said_of_a_message_arrives(client: pulsar.Client, topic: str) -> None:
    with client.create_producer(topic) as producer:
        producer.send(b"1", {"a": "b"}, "key", "order", 7, event_timestamp=5)
        producer.send(None, partition_key="deleted")
    first, second = receive(client, topic, 2)
    assert (first.properties(), first.partition_key(), first.ordering_key()) == ({"a": "b"}, "key", "order")
    assert first.event_timestamp() == 5
    assert second.has_null_value()


def test_messages_sent_without_waiting_arrive_in_order_and_each_is_told(client: pulsar.Client, topic: str) -> None:
    told: list[tuple[pulsar.Result, pulsar.MessageId]] = []
    with client.create_producer(topic, batching_enabled=True, batching_max_messages=7) as producer:
        for number in range(50):
            producer.send_async(b"%d" % number, lambda result, message_id: told.append((result, message_id)))
        producer.flush()
        assert len(told) == 50
    assert {result for result, _ in told} == {pulsar.Result.Ok}
    assert [message.message_id() for message in receive(client, topic, 50)] == [message_id for _, message_id in told]


def test_the_first_message_with_a_key_may_come_behind_others_in_a_batch(client: pulsar.Client, topic: str) -> None:
    results: list[pulsar.Result] = []
    with client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=60_000) as producer:
        for key in (None, None, "key"):
            producer.send_async(b"x", lambda result, _: results.append(result), partition_key=key)
        producer.flush()
        assert results == [pulsar.Result.Ok] * 3
    assert [message.partition_key() for message in receive(client, topic, 3)] == ["", "", "key"]


def test_a_blocking_send_takes_along_what_was_batched_and_does_not_wait_for_the_delay(
    client: pulsar.Client, topic: str
) -> None:
    with client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=3_600_000, send_timeout_millis=0
    ) as producer:
        before = producer.send_async(b"batched")
        producer.send(b"now")
        assert before.done()


@pytest.mark.parametrize(
    ("limit", "payload"),
    [({"batching_max_messages": 10}, b"x"), ({"batching_max_allowed_size_in_bytes": 1000}, b"x" * 100)],
)
def test_a_full_batch_does_not_wait_for_the_delay(
    client: pulsar.Client, topic: str, limit: dict[str, int], payload: bytes
) -> None:
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=60_000, **limit)
    for _ in range(2):
        ids = [sent.result(10) for sent in [producer.send_async(payload) for _ in range(10)] if sent]
        assert [one.batch_index() for one in ids] == list(range(10))


def test_a_flush_of_nothing_is_over_at_once(client: pulsar.Client, topic: str) -> None:
    with client.create_producer(topic) as producer:
        producer.flush()


def test_names_and_numbers(client: pulsar.Client, topic: str) -> None:
    short = topic.removeprefix("persistent://public/default/")
    with client.create_producer(short, producer_name=f"named-{short}", initial_sequence_id=9) as producer:
        assert producer.topic() == topic
        assert producer.producer_name() == f"named-{short}"
        assert repr(producer) == f"<Producer 'named-{short}' on {topic}>"
        assert producer.last_sequence_id() == 9
        producer.send(b"1")
        assert producer.last_sequence_id() == 10
        assert producer.is_connected()
    assert not producer.is_connected()
    with client.create_producer(topic) as other:
        assert other.producer_name()
        assert other.last_sequence_id() == -1


def test_a_close_sends_what_was_batched(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=3_600_000)
    future = producer.send_async(b"batched")
    producer.close()
    assert isinstance(future.result(PATIENCE), pulsar.MessageId)


@pytest.fixture
def stalled(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> Any:
    """A producer whose messages are not answered, with two places."""
    producer = client.create_producer(topic, max_pending_messages=2, send_timeout_millis=0)
    fault = broker.faults.on(CommandSend).stall()
    yield producer, fault
    broker.faults.clear()
    fault.release()
    producer.close()


def test_a_full_queue_refuses_and_says_what_to_do(stalled: Any) -> None:
    producer, _ = stalled
    producer.send_async(b"1")
    producer.send_async(b"2")
    with pytest.raises(pulsar.ProducerQueueIsFull, match="block_if_queue_full"):
        producer.send(b"3")
    future = producer.send_async(b"3")
    assert isinstance(future.exception(0), pulsar.ProducerQueueIsFull)
    told: list[pulsar.Result] = []
    producer.send_async(b"3", lambda result, _: told.append(result))
    assert told == [pulsar.Result.ProducerQueueIsFull]
    assert producer.stats().failed == 3


def test_a_full_queue_is_waited_for_if_that_is_wanted(
    client: pulsar.Client, topic: str, broker: EmbeddedBroker
) -> None:
    with client.create_producer(
        topic, max_pending_messages=1, block_if_queue_full=True, send_timeout_millis=0
    ) as producer:
        fault = broker.faults.on(CommandSend).stall()
        first = producer.send_async(b"1")
        second: list[Any] = []
        thread = threading.Thread(target=lambda: second.append(producer.send(b"2")), daemon=True)
        thread.start()
        fault.wait(1, PATIENCE)
        assert not first.done()
        assert second == []
        broker.faults.clear()
        fault.release()
        thread.join(PATIENCE)
        assert isinstance(second[0], pulsar.MessageId)
    assert len(receive(client, topic, 2)) == 2


def test_when_time_is_up_all_that_is_pending_fails_in_order_and_what_comes_late_changes_nothing() -> None:
    outcomes: list[tuple[int, pulsar.Result]] = []
    with Simulation() as simulation:
        producer = simulation.client().create_producer("t", send_timeout_millis=100)
        held = simulation.broker.faults.on("receipt", times=None).delay(0.3)
        for number in range(4):
            producer.send_async(b"x", lambda result, _, number=number: outcomes.append((number, result)))
        simulation.sleep(0.2)
        assert outcomes == [(number, pulsar.Result.Timeout) for number in range(4)]
        held.remove()
        simulation.sleep(0.2)  # the receipts have come
        producer.send(b"x")
        assert len(outcomes) == 4
        assert (producer.stats().pending, producer.stats().failed) == (0, 4)


@pytest.mark.shows("Command SendError", "TopicTerminatedError")
def test_when_the_topic_ends_all_that_is_pending_fails_in_order_and_so_does_what_comes_after(
    client: pulsar.Client, topic: str, broker: EmbeddedBroker
) -> None:
    outcomes: list[tuple[int, pulsar.Result]] = []
    with client.create_producer(topic) as producer:
        broker.faults.on(CommandSend, nth=2).refuse(ServerError.TopicTerminatedError, "the end")
        for number in range(4):
            producer.send_async(b"x", lambda result, _, number=number: outcomes.append((number, result)))
        until(lambda: len(outcomes) == 4)
        with pytest.raises(pulsar.TopicTerminated):
            producer.send(b"x")
    assert outcomes == [(0, pulsar.Result.Ok), *((number, pulsar.Result.TopicTerminated) for number in (1, 2, 3))]


def test_chunks_arrive_as_one_message(client: pulsar.Client, topic: str) -> None:
    payload = bytes(range(256)) * 24 * 1024
    with client.create_producer(topic, chunking_enabled=True) as producer:
        message_id = producer.send(payload)
    ((message),) = receive(client, topic, 1)
    assert message.data() == payload
    assert message.message_id() == message_id


def test_delayed_and_squeezed_messages_go(client: pulsar.Client, topic: str) -> None:
    with client.create_producer(topic, compression_type=pulsar.CompressionType.LZ4, batching_enabled=True) as producer:
        producer.send(b"1" * 1000, deliver_after=timedelta(0))
        producer.send(b"2" * 1000, deliver_at=1)
    assert [message.data()[:1] for message in receive(client, topic, 2)] == [b"1", b"2"]


SMALL, LARGE = b"small " * 10, b"large " * 200


@pytest.fixture
def compressing(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Note the thread in which LZ4 is called each time, and the size of what it compresses."""
    calls: list[tuple[str, int]] = []
    compress = lz4.block.compress

    def noting(payload: bytes, **options: Any) -> bytes:
        calls.append((threading.current_thread().name, len(payload)))
        compressed: bytes = compress(payload, **options)
        return compressed

    monkeypatch.setattr(lz4.block, "compress", noting)
    return calls


@pytest.mark.parametrize(
    ("options", "said", "on_the_loop"),
    [
        ({}, {}, []),  # nothing is batched
        ({"chunking_enabled": True, "chunk_max_message_size": 50}, {}, []),
        ({"batching_enabled": True}, {"deliver_at": 1}, []),  # no message can be batched
        ({"batching_enabled": True, "batching_max_allowed_size_in_bytes": 300}, {}, [SMALL]),
        ({"batching_enabled": True, "batching_max_allowed_size_in_bytes": 300}, {"partition_key": "k"}, [SMALL]),
        ({"batching_enabled": True, "batching_max_messages": 1}, {}, [SMALL, LARGE]),  # both might share a batch
    ],
    ids=["unbatched", "chunks", "delayed", "batched", "keyed", "batches of one"],
)
def test_the_caller_compresses_what_shares_its_entry_with_no_other_message(  # noqa: PLR0913 - a table of cases
    client: pulsar.Client,
    any_topic: str,
    compressing: list[tuple[str, int]],
    options: dict[str, Any],
    said: dict[str, Any],
    on_the_loop: list[bytes],
) -> None:
    with client.create_producer(any_topic, compression_type=pulsar.CompressionType.LZ4, **options) as producer:
        for payload in (LARGE, SMALL):
            producer.send(payload, **said)
            producer.send_async(payload, None, **said)
            producer.flush()
            producer.send_many([pulsar.MessageToSend(payload, **said)]).result(10)
    mine = threading.current_thread().name
    elsewhere = [(thread, size) for thread, size in compressing if thread != mine]
    assert len(compressing) == 6
    asked = (2 * len(on_the_loop), 3 * len(on_the_loop))  # a caller of send() attends the loop, if that sleeps
    assert asked[0] <= len(elsewhere) <= asked[1]
    assert all(thread.startswith("pulsar-io") for thread, _ in elsewhere)
    assert [message.data() for message in receive(client, any_topic, 6)].count(LARGE) == 3


def test_stats_say_how_things_stand(client: pulsar.Client, topic: str, broker: EmbeddedBroker) -> None:
    with client.create_producer(topic) as producer:
        producer.send(b"12345")
        stats = producer.stats()
        assert (stats.topic, stats.sent, stats.sent_bytes, stats.failed) == (topic, 1, 5, 0)
        assert (stats.connected, stats.pending, stats.reconnects, stats.last_error) == (True, 0, 0, None)
        broker.cut_connections()
        producer.send(b"again")
        stats = producer.stats()
        assert stats.reconnects >= 1
        assert stats.last_error


def test_a_message_can_be_sent_on_with_other_properties(client: pulsar.Client, topic: str) -> None:
    def forward(message: pulsar.Message, properties: dict[str, str]) -> SlimFuture[pulsar.MessageId]:
        done: SlimFuture[pulsar.MessageId] = SlimFuture()
        producer.forward(message, properties, None, done)
        return done

    with client.create_producer(topic) as producer:
        producer.send(b"1", {"a": "b"}, "key", "order", event_timestamp=5)
        producer.send(None, partition_key="key")
        original, deleted = receive(client, topic, 2)
        for sent in (forward(original, {"c": "d"}), forward(deleted, {})):
            assert sent.result(PATIENCE).ledger_id() >= 0
    *_, copy, copy_of_deleted = receive(client, topic, 4)
    assert (copy.data(), copy.properties(), copy.partition_key(), copy.ordering_key(), copy.event_timestamp()) == (
        b"1", {"c": "d"}, "key", "order", 5,
    )  # fmt: skip
    assert copy_of_deleted.has_null_value()
    with pytest.raises(pulsar.AlreadyClosed):
        forward(original, {}).result(PATIENCE)


def test_a_creation_that_is_refused_says_why(client: pulsar.Client, topic: str) -> None:
    with client.create_producer(topic, producer_name="one"), pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic, producer_name="one")
