"""What a call of `send_many` promises: order, one outcome for all, and a name for each message that is not stored."""

import time
from collections import Counter
from concurrent.futures import Future
from itertools import groupby
from typing import Any

import pulsar as official
import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.enqueuer import SendQueueEnqueuer
from pulsar_actors.client.interceptors import ProducerInterceptor
from pulsar_actors.client.message_id import new_message_id
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.client.send_many import SendManyCall, as_list
from pulsar_actors.runtime.send_queue import SentTo
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, CommandSendReceipt, ServerError
from tests.support.life import InThread, until

SOON = 20
MILLISECONDS = 20_000
LARGE = b"x" * 6_000_000
TO = pulsar.MessageToSend


def received(client: pulsar.Client, topic: str, count: int, **options: Any) -> list[pulsar.Message]:
    with client.create_reader(topic, pulsar.MessageId.earliest, **options) as reader:
        return [reader.read_next(MILLISECONDS) for _ in range(count)]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def failure(sent: "Future[Any]") -> pulsar.SendManyFailed:
    error = sent.exception(SOON)
    assert isinstance(error, pulsar.SendManyFailed)
    return error


BATCHED_OR_NOT: list[dict[str, Any]] = [{"batching_enabled": True}, {"batching_enabled": False}]
KINDS: list[dict[str, Any]] = [
    {"batching_enabled": True},
    {"batching_enabled": True, "batching_max_messages": 7},
    {"batching_enabled": True, "compression_type": pulsar.CompressionType.LZ4},
    {"batching_enabled": True, "batching_type": pulsar.BatchingType.KeyBased},
    {"batching_enabled": False},
    {"batching_enabled": False, "compression_type": pulsar.CompressionType.ZLib},
    {"batching_enabled": False, "chunking_enabled": True},
]


@pytest.mark.parametrize("room", [1000, 3], ids=["room", "little room"])
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_all_are_stored_in_order_and_each_id_is_that_of_its_message(
    client: pulsar.Client, topic: str, options: dict[str, Any], room: int
) -> None:
    with client.create_producer(topic, max_pending_messages=room, block_if_queue_full=True, **options) as producer:
        ids = producer.send_many(numbered(20), ids=True).result(SOON)
        assert producer.send_many(iter(numbered(5))).result(SOON) == 5
    messages = received(client, topic, 25)
    assert [message.data() for message in messages] == numbered(20) + numbered(5)
    assert [message.message_id() for message in messages[:20]] == ids
    assert [one.topic_name() for one in ids] == [topic] * 20


@pytest.mark.parametrize("options", BATCHED_OR_NOT, ids=["batched", "alone"])
def test_messages_without_a_key_go_to_the_partitions_in_runs_and_keep_their_order_there(
    client: pulsar.Client, parts: str, options: dict[str, Any]
) -> None:
    with client.create_producer(parts, batching_max_messages=4, **options) as producer:
        ids = producer.send_many(numbered(40), ids=True).result(SOON)
    by_partition = {
        partition: [at for at, one in enumerate(ids) if one.partition() == partition] for partition in (0, 1)
    }
    for partition, sent in by_partition.items():
        messages = received(client, f"{parts}-partition-{partition}", 20)
        assert [int(message.data()) for message in messages] == sent
        assert [message.message_id() for message in messages] == [ids[at] for at in sent]
    runs = [len(list(group)) for _, group in groupby(one.partition() for one in ids)]
    assert set(runs[1:-1]) == ({4} if options["batching_enabled"] else {1})


def test_messages_with_keys_go_where_send_puts_them(client: pulsar.Client, parts: str) -> None:
    keys = [f"key {number % 7}" for number in range(30)]
    with client.create_producer(parts, batching_enabled=True) as producer:
        ids = producer.send_many([TO(b"x", partition_key=key) for key in keys], ids=True).result(SOON)
        assert [one.partition() for one in ids] == [producer.send(b"x", partition_key=key).partition() for key in keys]
    assert {one.partition() for one in ids} == {0, 1}
    assert len(set(ids)) == 30


def test_a_router_of_the_users_is_asked_for_each(client: pulsar.Client, parts: str) -> None:
    with client.create_producer(parts, message_router=lambda message, _: int(message.data()) // 3) as producer:
        ids = producer.send_many(numbered(6), ids=True).result(SOON)
        assert [one.partition() for one in ids] == [0, 0, 0, 1, 1, 1]
        with pytest.raises(pulsar.InvalidArgument, match="message router"):
            producer.send_many([b"0", b"6"])
        assert producer.stats().sent == 6


def test_the_official_client_reads_all_options_of_each_message(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str
) -> None:
    theirs = official.Client(broker.service_url)
    consumer = theirs.subscribe(topic, "s")
    with client.create_producer(topic, batching_enabled=True) as producer:
        ids = producer.send_many(
            [b"plain", TO(b"full", {"a": "b"}, "key", "order", 7, event_timestamp=5), TO(b"late", deliver_at=1), None],
            ids=True,
        ).result(SOON)
    messages = [consumer.receive(MILLISECONDS) for _ in range(4)]
    assert [message.data() for message in messages] == [b"plain", b"full", b"late", b""]
    full = messages[1]
    assert (full.properties(), full.partition_key(), full.ordering_key()) == ({"a": "b"}, "key", "order")
    assert full.event_timestamp() == 5
    numbers = [
        (one.ledger_id(), one.entry_id(), one.batch_index()) for one in map(official.Message.message_id, messages)
    ]
    assert numbers == [(one.ledger_id(), one.entry_id(), one.batch_index()) for one in ids]
    theirs.close()


def test_values_go_through_the_producers_schema_and_a_wrong_one_stops_all(client: pulsar.Client, topic: str) -> None:
    with client.create_producer(topic, schema=pulsar.schema.StringSchema()) as producer:
        with pytest.raises(pulsar.WrongContent):
            producer.send_many(["a", b"no text"])
        assert producer.send_many(["b", TO("c", partition_key="k")]).result(SOON) == 2
        assert producer.stats().sent == 2
    assert [message.data() for message in received(client, topic, 2)] == [b"b", b"c"]


def test_what_is_encrypted_is_read_with_the_key(client: pulsar.Client, topic: str, tmp_path: Any) -> None:
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415 - as above

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public, private = tmp_path / "public", tmp_path / "private"
    public.write_bytes(key.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo))
    private.write_bytes(key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()))
    reader = pulsar.CryptoKeyReader(str(public), str(private))
    options: dict[str, Any] = {"encryption_key": "k", "crypto_key_reader": reader, "batching_enabled": True}
    with client.create_producer(topic, **options) as producer:
        assert producer.send_many(numbered(9)).result(SOON) == 9
    messages = received(client, topic, 9, crypto_key_reader=reader)
    assert [message.data() for message in messages] == numbered(9)
    assert messages[0].encryption_context() is not None


@pytest.mark.parametrize("options", BATCHED_OR_NOT, ids=["batched", "alone"])
def test_messages_that_are_not_stored_are_named_and_the_others_are_stored(
    client: pulsar.Client, topic: str, options: dict[str, Any]
) -> None:
    with client.create_producer(topic, **options) as producer:
        error = failure(producer.send_many([b"0", LARGE, b"2", LARGE, b"4"], ids=True))
        assert list(error.errors) == [1, 3]
        assert {type(one) for one in error.errors.values()} == {pulsar.MessageTooBig}
        assert error.error() is pulsar.Result.MessageTooBig
        assert error.__cause__ is error.errors[1]
        assert str(error).startswith("2 of 5 messages were not stored; the first of them, at position 1: MessageTooBig")
        assert failure(producer.send_many([LARGE])).ids is None
        assert producer.stats().failed == 3
    messages = received(client, topic, 3)
    assert [message.data() for message in messages] == [b"0", b"2", b"4"]
    assert error.ids == [messages[0].message_id(), None, messages[1].message_id(), None, messages[2].message_id()]


@pytest.mark.parametrize("options", BATCHED_OR_NOT, ids=["batched", "alone"])
def test_without_room_those_that_have_none_fail_from_the_first_on(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str, options: dict[str, Any]
) -> None:
    with client.create_producer(topic, **options, max_pending_messages=5) as producer:
        stalled = broker.faults.on(CommandSendReceipt).stall()
        sent = producer.send_many(numbered(8))
        beyond = producer.send_many(numbered(2))
        assert not sent.done()
        assert list(failure(beyond).errors) == [0, 1]
        stalled.release()
        errors = failure(sent).errors
        assert producer.stats().failed == 5
    assert list(errors) == [5, 6, 7]
    assert {type(one) for one in errors.values()} == {pulsar.ProducerQueueIsFull}
    assert [message.data() for message in received(client, topic, 5)] == numbered(5)


def test_behind_a_message_without_room_none_goes_to_its_partition(
    broker: EmbeddedBroker, client: pulsar.Client, parts: str
) -> None:
    options: dict[str, Any] = {"batching_enabled": True, "batching_max_messages": 2, "max_pending_messages": 3}
    with client.create_producer(parts, **options) as producer:
        stalled = broker.faults.on(CommandSendReceipt).stall()
        sent = producer.send_many(numbered(20), ids=True)
        stalled.release()
        error = failure(sent)
    assert error.ids is not None
    for partition in (0, 1):
        stored = [at for at, one in enumerate(error.ids) if one is not None and one.partition() == partition]
        assert len(stored) == 3
        assert max(stored) < 8
    assert len(error.errors) == 14


def test_that_stays_so_if_there_is_room_again_meanwhile(
    broker: EmbeddedBroker, client: pulsar.Client, parts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"batching_enabled": True, "batching_max_messages": 2, "max_pending_messages": 3}
    refuse = SendQueueEnqueuer.refuse
    with client.create_producer(parts, **options) as producer:
        stalled = broker.faults.on(CommandSendReceipt).stall()

        def make_room(self: SendQueueEnqueuer, tags: Any, error: Exception) -> None:
            stalled.release()
            until(lambda: producer.stats().pending == 0)
            refuse(self, tags, error)

        monkeypatch.setattr(SendQueueEnqueuer, "refuse", make_room)
        ids = failure(producer.send_many(numbered(20), ids=True)).ids
    assert ids is not None
    stored = Counter(one.partition() for one in ids if one is not None)
    assert min(stored.values()) == 3  # on the partition that had no room first


@pytest.mark.parametrize("where", ["topic", "parts"])
def test_a_closed_producer_sends_none(client: pulsar.Client, where: str, request: pytest.FixtureRequest) -> None:
    producer = client.create_producer(request.getfixturevalue(where))
    producer.close()
    error = failure(producer.send_many(numbered(3)))
    assert {type(one) for one in error.errors.values()} == {pulsar.AlreadyClosed}
    assert len(error.errors) == 3
    assert error.error() is pulsar.Result.AlreadyClosed


def test_a_close_meanwhile_sends_what_is_in_the_queue_and_fails_the_rest(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, max_pending_messages=5, block_if_queue_full=True)
    stalled = broker.faults.on(CommandSendReceipt).stall()
    calling = InThread(lambda: producer.send_many(numbered(9)))
    until(calling.waits)
    closing = InThread(producer.close)
    stalled.release()
    closing.result()
    errors = failure(calling.result()).errors
    assert list(errors) == [5, 6, 7, 8]
    assert {type(one) for one in errors.values()} == {pulsar.AlreadyClosed}
    assert [message.data() for message in received(client, topic, 5)] == numbered(5)


def test_a_refusal_of_the_broker_is_the_error_of_each(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str
) -> None:
    with client.create_producer(topic, batching_enabled=True) as producer:
        broker.faults.on(CommandSend).refuse(ServerError.NotAllowedError, "no")
        errors = failure(producer.send_many(numbered(4))).errors
        assert len(errors) == 4
        assert producer.send_many(numbered(4)).result(SOON) == 4


def test_a_call_without_messages_is_done(client: pulsar.Client, topic: str) -> None:
    with client.create_producer(topic) as producer:
        assert producer.send_many([]).result(0) == 0
        assert producer.send_many((), ids=True).result(0) == []


def test_the_memory_limit_counts_for_each(broker: EmbeddedBroker, topic: str) -> None:
    with pulsar.Client(broker.service_url, memory_limit_bytes=1000) as client:
        with client.create_producer(topic, batching_enabled=True) as producer:
            stalled = broker.faults.on(CommandSendReceipt).stall()
            sent = producer.send_many([bytes(300)] * 6)
            stalled.release()
            errors = failure(sent).errors
            assert list(errors) == [4, 5]
            assert {type(one) for one in errors.values()} == {pulsar.MemoryBufferIsFull}
        with client.create_producer(topic, batching_enabled=True, block_if_queue_full=True) as producer:
            assert producer.send_many([bytes(300)] * 60).result(SOON) == 60


class Noting(ProducerInterceptor):
    def __init__(self) -> None:
        self.ended: list[tuple[Any, bool]] = []

    def before_send(self, producer: Any, message: pulsar.MessageToSend) -> pulsar.MessageToSend:
        return message._replace(properties={"seen": "yes"})

    def on_send_acknowledgement(self, producer: Any, message: Any, message_id: Any, error: Exception | None) -> None:
        self.ended.append((message.content, error is None))


def test_interceptors_see_each_message_once_on_its_way_and_at_its_end(client: pulsar.Client, any_topic: str) -> None:
    noting = Noting()
    with client.create_producer(any_topic, interceptors=[noting]) as producer:
        ids = producer.send_many([b"0", TO(b"1", partition_key="k")], ids=True).result(SOON)
        error = failure(producer.send_many([b"2", LARGE]))
        with pytest.raises(pulsar.InvalidMessage):
            producer.send_many([b"stopped", object()])
        assert len(set(ids)) == 2
    assert list(error.errors) == [1]
    assert sorted((content, well) for content, well in noting.ended if isinstance(content, bytes)) == [
        *((content, True) for content in (b"0", b"1", b"2")), (b"stopped", False), (LARGE, False),
    ]  # fmt: skip
    messages = received(client, any_topic, 3)
    assert sorted(message.data() for message in messages) == [b"0", b"1", b"2"]
    assert {message.properties()["seen"] for message in messages} == {"yes"}


def test_other_sends_in_the_same_batch_have_their_own_ends(client: pulsar.Client, topic: str) -> None:
    heard: list[pulsar.MessageId] = []
    options: dict[str, Any] = {"batching_enabled": True, "batching_max_publish_delay_ms": 60_000}
    with client.create_producer(topic, **options) as producer:
        producer.send_async(b"0", lambda _, message_id: heard.append(message_id))
        first = producer.send_many([b"1", b"2"], ids=True)
        future = producer.send_async(b"3")
        second = producer.send_many([b"4", b"5"], ids=True)
        producer.send_async(b"6", lambda _, message_id: heard.append(message_id))
        producer.flush()
        assert isinstance(future, Future)
        ids = [heard[0], *first.result(0), future.result(0), *second.result(0), heard[1]]
    assert [one.batch_index() for one in ids] == list(range(7))
    assert [message.message_id() for message in received(client, topic, 7)] == ids


@pytest.mark.parametrize("contents", [b"bytes", "text", bytearray(b"bytes"), {"a": 1}, 7, None])
def test_one_content_in_place_of_many_is_refused(client: pulsar.Client, topic: str, contents: Any) -> None:
    with client.create_producer(topic) as producer, pytest.raises(pulsar.InvalidArgument, match="contents takes many"):
        producer.send_many(contents)


def test_an_iterable_that_raises_is_the_callers_affair() -> None:
    def broken() -> Any:
        yield b"a"
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        as_list(broken())


# Outcomes as the broker may give them: an entry may have any part of a call.

ENTRY = (3, 9)


def complete(tags: list[Any], messages: int = 6) -> "tuple[SendManyCall, SendCallbacks, list[Any]]":
    call = SendManyCall(messages, wants_ids=True)
    callbacks = SendCallbacks("t", -1, time.monotonic)
    call.open_in(callbacks)
    return call, callbacks, [call.tags[one] if isinstance(one, int) else one for one in tags]


@pytest.mark.parametrize(
    "order", [[0, 1, 2, 3, 4, 5], [0, 2, 4, 1, 3, 5], [5, 4, 3, 2, 1, 0], [0, 1, 2, None, 3, 4, 5]]
)
def test_each_message_gets_the_id_of_its_place_in_the_entry(order: list[Any]) -> None:
    call, callbacks, replies = complete(order)
    callbacks([(replies, SentTo((ENTRY,), batched=True, size=7))])
    entry = WireMessageId(*ENTRY, batch_size=len(order))
    assert call.future.result(0) == [
        new_message_id(entry._replace(batch_index=order.index(position))) for position in range(6)
    ]
    assert callbacks.calls == {}


def test_a_message_of_another_that_stands_where_one_is_missing_is_not_taken_for_it() -> None:
    heard: list[int] = []
    call, callbacks, replies = complete([0, 1, lambda _, one: heard.append(one.batch_index()), 3, 4, 5])
    callbacks([(replies, SentTo((ENTRY,), batched=True, size=7))])
    assert heard == [2]
    assert not call.future.done()
    callbacks([([call.tags[2]], pulsar.Timeout("late"))])
    error = failure(call.future)
    assert list(error.errors) == [2]
    assert error.ids is not None
    assert [None if one is None else one.batch_index() for one in error.ids] == [0, 1, None, 3, 4, 5]


def test_a_call_ends_once_though_messages_are_queued_that_count_as_refused() -> None:
    call, callbacks, replies = complete([0, 1, 2])
    callbacks.refuse(call.tags[2:], pulsar.Interrupted("by Ctrl-C"))
    assert not call.future.done()
    callbacks([(replies, SentTo((ENTRY,), batched=True, size=7))])
    assert list(failure(call.future).errors) == [2, 3, 4, 5]
    assert callbacks.calls == {}
