"""Table views: the latest value of each key."""

import gc
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.schema import BytesSchema
from pulsar_actors.tableview import TableView
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetLastMessageId, CommandMessage, CommandSubscribe, ServerError
from tests.support import topics
from tests.support.life import InThread, client_of, until
from tests.support.raw_producer import RawProducer

Update = tuple[str, Any]


def put(producer: pulsar.Producer, key: str, value: Any) -> None:
    producer.send(value, partition_key=key)


@pytest.fixture(autouse=True)
def no_faults(broker: EmbeddedBroker) -> Iterator[None]:
    """Let no fault of one test be in the way of the next."""
    yield
    broker.faults.clear()


@pytest.fixture
def view(client: pulsar.Client, producer: pulsar.Producer, topic: str) -> Iterator[TableView]:
    """A view of a topic with two keys."""
    put(producer, "a", b"1")
    put(producer, "b", b"2")
    with client.create_table_view(topic) as view:
        yield view


# What is in it.


def test_it_is_complete_when_it_is_returned(client: pulsar.Client, any_topic: str) -> None:
    with client.create_producer(any_topic, batching_enabled=True, max_pending_messages=0) as producer:
        for number in range(3000):
            producer.send_async(b"%d" % number, partition_key=f"k{number % 100}")
    with client.create_table_view(any_topic) as view:
        assert dict(view.items()) == {f"k{number % 100}": b"%d" % number for number in range(2900, 3000)}


def test_a_view_of_an_empty_topic_is_empty_and_follows_it(client: pulsar.Client, any_topic: str) -> None:
    with client.create_table_view(any_topic) as view, client.create_producer(any_topic) as producer:
        assert len(view) == 0
        assert not view
        put(producer, "a", b"1")
        assert until(lambda: view.get("a")) == b"1"


def test_it_reads_like_a_dict(view: TableView) -> None:
    assert (view["a"], view.get("a"), view.get("z"), view.get("z", b"none")) == (b"1", b"1", None, b"none")
    assert ("a" in view, "z" in view, 5 in view) == (True, False, False)
    assert (len(view), sorted(view), sorted(view.keys())) == (2, ["a", "b"], ["a", "b"])
    assert (sorted(view.values()), dict(view.items()), dict(view)) == ([b"1", b"2"], *[{"a": b"1", "b": b"2"}] * 2)
    with pytest.raises(KeyError, match=r"^'z'$"):
        view["z"]


def test_what_is_iterated_over_is_of_one_moment(view: TableView, producer: pulsar.Producer) -> None:
    keys, items = iter(view), view.items()
    put(producer, "c", b"3")
    view.refresh()
    assert (sorted(keys), len(items), len(view)) == (["a", "b"], 2, 3)


@pytest.mark.parametrize("nothing", [None, b""], ids=["null", "no bytes"])
def test_a_message_without_a_value_deletes_its_key(view: TableView, producer: pulsar.Producer, nothing: Any) -> None:
    put(producer, "a", nothing)
    view.refresh()
    assert dict(view) == {"b": b"2"}


def test_a_message_without_a_key_is_ignored(view: TableView, producer: pulsar.Producer) -> None:
    producer.send(b"no key")
    view.refresh()
    assert dict(view) == {"a": b"1", "b": b"2"}


def test_it_decodes_by_its_schema(client: pulsar.Client, topic: str) -> None:
    schema = pulsar.schema.StringSchema()
    with client.create_producer(topic, schema=schema) as producer:
        put(producer, "a", "ä")
        put(producer, "b", "to be deleted")
        put(producer, "b", "")
    with client.create_table_view(topic, schema=schema) as view:
        assert dict(view) == {"a": "ä"}


def test_a_schema_that_does_not_fit_is_refused(client: pulsar.Client, topic: str) -> None:
    class Numbers(pulsar.schema.StringSchema):
        def announced(self) -> Any:
            announced = super().announced()
            announced.type = announced.Int32
            return announced

    with (
        client.create_producer(topic, schema=pulsar.schema.StringSchema()),
        pytest.raises(pulsar.IncompatibleSchema, match="schema"),
    ):
        client.create_table_view(topic, schema=Numbers())


def test_a_value_that_cannot_be_decoded_raises_where_it_is_read_until_there_is_another(
    client: pulsar.Client, topic: str, producer: pulsar.Producer, caplog: pytest.LogCaptureFixture
) -> None:
    class Text(pulsar.schema.BytesSchema):
        def decode(self, data: bytes) -> Any:
            return data.decode()

    put(producer, "a", b"\xff-secret")
    put(producer, "b", b"fine")
    with client.create_table_view(topic, schema=Text()) as view:
        for read in (lambda: view.get("a"), lambda: view["a"], view.values, view.items):
            with pytest.raises(UnicodeDecodeError):
                read()
        assert (view["b"], len(view), "a" in view) == ("fine", 2, True)
        seen: list[Update] = []
        view.for_each_and_listen(lambda key, value: seen.append((key, value)))
        assert seen == [("b", "fine")]
        put(producer, "a", b"mended")
        assert until(lambda: len(seen) == 2 and seen[1]) == ("a", "mended")
        assert view["a"] == "mended"
    (record,) = [one for one in caplog.records if "cannot decode" in one.message]
    assert record.levelname == "WARNING"
    assert "secret" not in caplog.text


def test_batches_and_chunks_are_values_too(client: pulsar.Client, topic: str) -> None:
    large = bytes(range(256)) * 1024
    with client.create_producer(topic, chunking_enabled=True, chunk_max_message_size=100_000) as producer:
        put(producer, "large", large)
    with client.create_table_view(topic) as view:
        assert dict(view) == {"large": large}


def test_however_many_chunked_messages_are_on_their_way_all_are_values(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str
) -> None:
    keys = [f"k{number}" for number in range(12)]
    with RawProducer(broker.service_url, topic) as raw:
        for part in range(2):
            for key in keys:
                sizes = {"num_chunks_from_msg": 2, "total_chunk_msg_size": 2}
                raw.send(b"%d" % part, is_chunk=True, uuid=key, chunk_id=part, partition_key=key, **sizes)
    with client.create_table_view(topic) as view:
        assert dict(view) == dict.fromkeys(keys, b"01")


def test_a_chunked_message_that_is_not_complete_keeps_nobody_waiting(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str, producer: pulsar.Producer
) -> None:
    put(producer, "a", b"1")
    with RawProducer(broker.service_url, topic) as raw:
        raw.first("chunk")
        view = InThread(lambda: client.create_table_view(topic)).result()
        assert dict(view) == {"a": b"1"}
        raw.first("another")
        view.refresh(timeout=10)
        broker.faults.on(CommandMessage).delay(0.3)  # it arrives when the refresh waits already
        raw.first("a third")
        view.refresh(timeout=5)
        view.close()


def test_an_entry_that_is_corrupt_keeps_nobody_waiting(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str, producer: pulsar.Producer
) -> None:
    put(producer, "a", b"1")
    with RawProducer(broker.service_url, topic) as raw:
        raw.send(b"no batch", num_messages_in_batch=3)
        view = InThread(lambda: client.create_table_view(topic)).result()
        assert dict(view) == {"a": b"1"}
        view.close()


@pytest.mark.parametrize("on_listener_thread", [False, True], ids=["from a thread", "from a listener"])
def test_messages_that_expire_keep_nobody_waiting(
    broker: EmbeddedBroker, client: pulsar.Client, any_topic: str, *, on_listener_thread: bool
) -> None:
    """They are lost on their way here, and then the broker skips what is left."""
    with client.create_table_view(any_topic) as view, client.create_producer(any_topic) as producer:
        put(producer, "a", b"1")
        view.refresh()
        broker.faults.on(CommandMessage, times=20).drop()
        for number in range(20):
            put(producer, f"k{number}", b"2")
        done = threading.Event()

        def refresh(*_: object) -> None:
            view.refresh()
            done.set()

        if on_listener_thread:
            with client.create_producer("another") as signal, client.create_table_view("another") as listening:
                listening.listen(refresh)
                put(signal, "go", b"1")
                expire(broker, client, any_topic)
                assert done.wait(20)
        else:
            waiting = InThread(refresh)
            expire(broker, client, any_topic)
            waiting.result()
        assert dict(view) == {"a": b"1"}
        put(producer, "new", b"3")
        view.refresh(timeout=20)
        assert dict(view) == {"a": b"1", "new": b"3"}


def expire(broker: EmbeddedBroker, client: pulsar.Client, topic: str) -> None:
    for one in client.get_topic_partitions(topic):
        topics.skip(broker, one)


# Listeners.


def test_for_each_is_called_with_every_entry_and_nothing_later(view: TableView, producer: pulsar.Producer) -> None:
    seen: list[Update] = []
    view.for_each(lambda key, value: seen.append((key, value)))
    put(producer, "c", b"3")
    view.refresh()
    assert sorted(seen) == [("a", b"1"), ("b", b"2")]


def test_for_each_and_listen_is_called_with_every_entry_in_the_call_and_then_with_updates(
    view: TableView, producer: pulsar.Producer
) -> None:
    seen: list[Update] = []
    view.for_each_and_listen(lambda key, value: seen.append((key, value)))
    assert sorted(seen) == [("a", b"1"), ("b", b"2")]
    put(producer, "c", b"3")
    put(producer, "a", None)
    assert until(lambda: len(seen) == 4 and seen[2:]) == [("c", b"3"), ("a", None)]


def test_listen_is_called_with_updates_only(view: TableView, producer: pulsar.Producer) -> None:
    seen: list[Update] = []
    view.listen(lambda key, value: seen.append((key, value)))
    put(producer, "c", b"3")
    assert until(lambda: seen) == [("c", b"3")]


def test_between_the_entries_and_the_updates_nothing_is_lost_or_given_twice(
    client: pulsar.Client, any_topic: str
) -> None:
    """Listeners that join while a producer counts up see each key count up by one, from their start to the end."""
    last = 2000
    with client.create_producer(
        any_topic, batching_enabled=True, batching_max_messages=7, max_pending_messages=0
    ) as producer:
        view = client.create_table_view(any_topic)
        listeners: list[dict[str, list[int]]] = []

        def join() -> None:
            seen: dict[str, list[int]] = {}
            view.for_each_and_listen(lambda key, value: seen.setdefault(key, []).append(int(value)))
            listeners.append(seen)

        for number in range(last + 1):
            for key in ("a", "b"):
                producer.send_async(b"%d" % number, partition_key=key)
            if number % 100 == 0:
                join()
        producer.flush()
    assert view.get("a") is not None
    until(lambda: all(seen.get(key, [0])[-1] == last for seen in listeners for key in ("a", "b")))
    for seen in listeners:
        for numbers in seen.values():
            assert numbers == list(range(numbers[0], last + 1))
    view.close()


def test_updates_that_come_while_the_entries_are_shown_wait_for_their_turn(
    view: TableView, producer: pulsar.Producer
) -> None:
    seen: list[Update] = []

    def slow(key: str, value: Any) -> None:
        if not seen:
            put(producer, "c", b"3")
            view.refresh()
        seen.append((key, value))

    view.for_each_and_listen(slow)
    until(lambda: len(seen) == 3)
    assert seen == [("a", b"1"), ("b", b"2"), ("c", b"3")]


def test_a_listener_that_raises_is_logged_and_called_again_and_others_too(
    view: TableView, producer: pulsar.Producer, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Update] = []

    def bad(key: str, value: Any) -> None:
        seen.append((key, value))
        if value in {b"3", b"4"}:
            raise SystemExit(3) if value == b"3" else ValueError("planted")

    others: list[Update] = []
    view.for_each_and_listen(bad)
    view.listen(lambda key, value: others.append((key, value)))
    for value in (b"3", b"4", b"5"):
        put(producer, "c", value)
    until(lambda: len(others) == 3 and len(seen) == 5)
    assert view["c"] == b"5"
    assert caplog.text.count("a listener of the table view of") == 2


def test_a_function_that_raises_in_the_call_is_not_called_again(view: TableView, producer: pulsar.Producer) -> None:
    calls, seen = count(), list[Update]()

    def bad(key: str, value: Any) -> None:
        next(calls)
        raise ValueError("planted")

    for method in (view.for_each, view.for_each_and_listen):
        with pytest.raises(ValueError, match="planted"):
            method(bad)
    view.listen(lambda key, value: seen.append((key, value)))
    put(producer, "c", b"3")
    until(lambda: seen)
    assert next(calls) == 2


def test_a_listener_may_use_the_view(client: pulsar.Client, view: TableView, producer: pulsar.Producer) -> None:
    heard: list[Any] = []
    done = threading.Event()

    def listener(key: str, value: Any) -> None:
        if key == "c":
            put(producer, "d", b"4")
            view.refresh()
            heard.append((view.get("d"), len(view)))
            view.for_each_and_listen(lambda key, value: heard.append((key, value)))
            with client.create_table_view(view.topic()) as another:
                heard.append(dict(another))
        if key == "d":
            view.close()
            done.set()

    view.listen(listener)
    put(producer, "c", b"3")
    assert done.wait(10)
    everything = {"a": b"1", "b": b"2", "c": b"3", "d": b"4"}
    assert heard == [(b"4", 4), *everything.items(), everything]


def test_a_listener_of_a_consumer_may_refresh_on_the_same_thread(
    client: pulsar.Client, view: TableView, topic: str, producer: pulsar.Producer
) -> None:
    heard: list[Any] = []

    def listener(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        view.refresh()
        heard.append(view.get(message.partition_key()))

    with client.subscribe(topic, "s", message_listener=listener):
        for value in (b"3", b"4"):
            put(producer, "c", value)
            until(lambda value=value: heard and heard[-1] == value)


def test_a_listener_is_called_although_nobody_holds_the_view(client: pulsar.Client, topic: str) -> None:
    seen: list[Update] = []
    client.create_table_view(topic).for_each_and_listen(lambda key, value: seen.append((key, value)))
    gc.collect()
    with client.create_producer(topic) as producer:
        put(producer, "a", b"1")
        assert until(lambda: seen) == [("a", b"1")]


def test_without_a_listener_it_closes_with_the_last_reference(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str
) -> None:
    view = client.create_table_view(topic, "mine")
    assert topics.subscriptions(broker, topic) == ["mine"]
    gone = weakref.ref(view)
    del view
    gc.collect()
    assert gone() is None
    until(lambda: topics.subscriptions(broker, topic) == [])


# Later.


def test_refresh_waits_for_what_was_published_before(client: pulsar.Client, any_topic: str) -> None:
    with client.create_table_view(any_topic) as view, client.create_producer(any_topic) as producer:
        for number in range(50):
            put(producer, f"k{number % 5}", b"%d" % number)
            view.refresh(timeout=10)
            assert view[f"k{number % 5}"] == b"%d" % number


def test_a_refresh_that_takes_too_long_raises_timeout(
    broker: EmbeddedBroker, view: TableView, producer: pulsar.Producer
) -> None:
    broker.faults.on(CommandMessage).drop()
    put(producer, "c", b"3")
    with pytest.raises(pulsar.Timeout, match=r"^refresh\(\) of TableView\(topic=.*\) took longer than 0.1 s$"):
        view.refresh(timeout=0.1)
    put(producer, "d", b"4")
    view.refresh(timeout=10)
    assert "d" in view


def test_a_refresh_waits_no_longer_for_the_broker_than_it_may(broker: EmbeddedBroker, any_topic: str) -> None:
    with client_of(broker.service_url) as client, client.create_table_view(any_topic) as view:
        broker.faults.on(CommandGetLastMessageId, times=None).drop()
        began = time.monotonic()
        with pytest.raises(pulsar.Timeout):
            view.refresh(timeout=0.1)
        assert time.monotonic() - began < 5.0


def test_partitions_that_come_later_are_in_it(broker: EmbeddedBroker, topic: str) -> None:
    topics.create_partitioned(broker, topic, 1)
    seen: list[Update] = []
    with client_of(broker.service_url, partitions_update_interval=0.1) as client:
        view = client.create_table_view(topic)
        view.for_each_and_listen(lambda key, value: seen.append((key, value)))
        topics.grow(broker, topic, 4)
        with client.create_producer(topic) as producer:
            for number in range(40):
                put(producer, f"k{number}", b"%d" % number)
        until(lambda: len(seen) == 40)
        assert dict(view) == dict(seen) == {f"k{number}": b"%d" % number for number in range(40)}


def test_it_survives_lost_connections_without_losing_updates_or_going_back(
    broker: EmbeddedBroker, client: pulsar.Client, any_topic: str
) -> None:
    seen: dict[str, list[int]] = {"a": [], "b": []}
    with client.create_table_view(any_topic) as view, client.create_producer(any_topic) as producer:
        view.for_each_and_listen(lambda key, value: seen[key].append(int(value)))
        for number in range(60):
            for key in seen:
                put(producer, key, b"%d" % number)
            if number % 20 == 10:
                broker.cut_connections()
        view.refresh()
        assert dict(view) == {"a": b"59", "b": b"59"}
        until(lambda: all(numbers[-1] == 59 for numbers in seen.values()))
    for numbers in seen.values():
        assert sorted(set(numbers)) == list(range(60))
        assert numbers == sorted(numbers)


def test_a_connection_that_is_lost_while_it_is_created_loses_nothing(
    broker: EmbeddedBroker, client: pulsar.Client, any_topic: str
) -> None:
    with client.create_producer(
        any_topic, batching_enabled=True, batching_max_messages=10, max_pending_messages=0
    ) as producer:
        for number in range(3000):
            producer.send_async(b"%d" % number, partition_key=f"k{number % 100}")
    fault = broker.faults.on(CommandMessage, nth=30).close_connection()
    view = client.create_table_view(any_topic)
    assert fault.happened
    assert dict(view) == {f"k{number % 100}": b"%d" % number for number in range(2900, 3000)}
    view.close()


def test_several_views_of_a_topic_are_the_same(client: pulsar.Client, view: TableView, topic: str) -> None:
    with client.create_table_view(topic) as another:
        assert dict(another) == dict(view)


def test_any_thread_may_read_it_meanwhile(client: pulsar.Client, topic: str) -> None:
    with (
        client.create_table_view(topic) as view,
        client.create_producer(topic, batching_enabled=True, max_pending_messages=0) as producer,
    ):
        done = threading.Event()

        def read() -> None:
            latest = -1
            while not done.is_set():
                snapshot = dict(view.items())
                assert snapshot.get("a", snapshot.get("b")) in {snapshot.get("b"), *_next(snapshot)}
                latest, before = int(view.get("a", -1)), latest
                assert latest >= before
                len(view), list(view), "a" in view

        readers = [InThread(read) for _ in range(3)]
        for number in range(5000):
            for key in ("a", "b"):
                producer.send_async(b"%d" % number, partition_key=key)
        producer.flush()
        view.refresh()
        done.set()
        for reader in readers:
            reader.result()
        assert dict(view) == {"a": b"4999", "b": b"4999"}


def _next(snapshot: dict[str, bytes]) -> set[bytes]:
    """`a` is published before `b`, so it may be one ahead."""
    return {b"%d" % (int(snapshot["b"]) + 1)} if "b" in snapshot else {b"0"}


# Its end, and wrong arguments.


def test_a_closed_view_keeps_its_values_and_refuses_the_rest(view: TableView, producer: pulsar.Producer) -> None:
    seen: list[Update] = []
    view.listen(lambda key, value: seen.append((key, value)))
    assert (view.is_open, view.is_connected()) == (True, True)
    view.close()
    view.close()
    put(producer, "a", b"9")
    assert (view.is_open, view.is_connected()) == (False, False)
    assert dict(view) == {"a": b"1", "b": b"2"}
    refused: list[Callable[[], object]] = [
        view.refresh, lambda: view.listen(print), lambda: view.for_each_and_listen(print),
    ]  # fmt: skip
    for call in refused:
        with pytest.raises(pulsar.AlreadyClosed):
            call()
    assert seen == []


def test_it_ends_with_its_client(broker: EmbeddedBroker, topic: str) -> None:
    with client_of(broker.service_url) as client:
        view = client.create_table_view(topic)
    assert not view.is_open
    with pytest.raises(pulsar.AlreadyClosed):
        client.create_table_view(topic)


def test_a_view_that_is_closed_while_a_value_is_decoded_keeps_the_value_that_it_had(
    broker: EmbeddedBroker, producer: pulsar.Producer, topic: str
) -> None:
    is_decoding, is_closed = threading.Event(), threading.Event()

    class Slow(BytesSchema):
        def decode(self, data: bytes) -> bytes:
            if data == b"new":
                is_decoding.set()
                assert is_closed.wait(10)
            return data

    put(producer, "a", b"old")
    with client_of(broker.service_url) as client:
        view = client.create_table_view(topic, schema=Slow())
        told: list[Update] = []
        view.listen(lambda key, value: told.append((key, value)))
        put(producer, "a", b"new")
        assert is_decoding.wait(10)
        view.close()
        is_closed.set()
    assert (dict(view), told) == ({"a": b"old"}, [])


def test_a_client_that_closes_ends_the_calls_that_wait(broker: EmbeddedBroker, topic: str) -> None:
    with client_of(broker.service_url) as client:
        with client.create_producer(topic) as producer:
            put(producer, "a", b"1")
        fault = broker.faults.on(CommandMessage).drop()
        creation = InThread(lambda: client.create_table_view(topic))
        until(lambda: fault.happened and creation.waits())
        client.shutdown()
        assert isinstance(creation.error(), pulsar.AlreadyClosed)


def test_a_creation_that_fails_leaves_nothing_behind(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str, producer: pulsar.Producer
) -> None:
    put(producer, "a", b"1")
    broker.faults.on(CommandGetLastMessageId).refuse(ServerError.AuthorizationError, "planted")
    with pytest.raises(pulsar.AuthorizationError, match="planted"):
        client.create_table_view(topic)
    until(lambda: topics.subscriptions(broker, topic) == [])


def test_a_subscription_name_is_the_view_s_own(broker: EmbeddedBroker, client: pulsar.Client, topic: str) -> None:
    with client.create_table_view(topic, "mine") as view:
        assert topics.subscriptions(broker, topic) == ["mine"]
        assert str(view) == repr(view) == f"TableView(topic={topic}, subscription=mine)"
        with pytest.raises(pulsar.ConsumerBusy):
            client.create_table_view(topic, "mine")
    with client.create_table_view(topic) as view:
        assert str(view) == f"TableView(topic={topic})"
        assert topics.subscriptions(broker, topic)[0].startswith("reader-")
    until(lambda: topics.subscriptions(broker, topic) == [])


def test_it_reads_the_compacted_topic(broker: EmbeddedBroker, client: pulsar.Client, topic: str) -> None:
    fault = broker.faults.on(CommandSubscribe, when=lambda command: command.read_compacted).delay(0)
    client.create_table_view(topic).close()
    assert fault.happened


def test_of_a_non_persistent_topic_it_has_what_comes(client: pulsar.Client) -> None:
    topic = "non-persistent://public/default/table-view"
    with client.create_table_view(topic) as view, client.create_producer(topic) as producer:
        put(producer, "a", b"1")
        assert until(lambda: view.get("a")) == b"1"
        view.refresh()


def test_a_topic_that_was_terminated_can_be_viewed(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str, producer: pulsar.Producer
) -> None:
    put(producer, "a", b"1")
    topics.terminate(broker, topic)
    with client.create_table_view(topic) as view:
        assert dict(view) == {"a": b"1"}
        view.refresh()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topic": 5}, "topic"),
        ({"topic": ["a", "b"]}, "topic"),
        ({"subscription_name": 5}, "subscription_name"),
        ({"schema": "bytes"}, "schema"),
    ],
)
def test_wrong_arguments_are_refused(client: pulsar.Client, topic: str, arguments: Any, error: str) -> None:
    with pytest.raises(pulsar.InvalidArgument, match=f"^{error} takes "):
        client.create_table_view(**{"topic": topic} | arguments)


def test_wrong_arguments_of_its_methods_are_refused(view: TableView) -> None:
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: view.get(b"a"), "key takes a str"),  # type: ignore[arg-type]
        (lambda: view.for_each(None), "callback takes"),  # type: ignore[arg-type]
        (lambda: view.for_each_and_listen(5), "callback takes"),  # type: ignore[arg-type]
        (lambda: view.listen(None), "callback takes"),  # type: ignore[arg-type]
        (lambda: view.refresh(-1), "timeout takes"),
    ]
    for call, text in wrong:
        with pytest.raises(pulsar.InvalidArgument, match=f"^{text}"):
            call()


def test_it_is_not_pickled(view: TableView) -> None:
    with pytest.raises(TypeError, match="a TableView holds connections"):
        pickle.dumps(view)


def test_nothing_is_left_of_it(clean: None) -> None:
    with EmbeddedBroker() as broker, client_of(broker.service_url) as client:
        with client.create_producer("t") as producer:
            put(producer, "a", b"1")
        view = client.create_table_view("t")
        view.for_each_and_listen(print)
        view.close()
