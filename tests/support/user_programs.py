"""Programs as users write them for the official client. They run with both clients, and what they tell is compared.

A program gets the module that it would import as `pulsar`, a client, and the name of a topic that is its own. Each line
that it tells has a label, by which a difference between the clients can be named.
"""

import copy
import datetime as dt
import functools
import importlib
import itertools
import json
import pickle
import queue
import re
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final

from tests.support.told import Told

__all__ = ["ENUMS", "PROGRAMS"]

SOON: Final = 5000
NOT_YET: Final = 100
ENUMS: Final = (
    *("Result", "CompressionType", "ConsumerType", "InitialPosition", "PartitionsRoutingMode", "BatchingType"),
    *("LoggerLevel", "KeySharedMode", "ProducerAccessMode", "RegexSubscriptionMode", "ConsumerCryptoFailureAction"),
)
PROGRAMS: Final = dict[str, Callable[[Any, Any, str, Told], None]]()


def program(run: Callable[[Any, Any, str, Told], None]) -> Callable[[Any, Any, str, Told], None]:
    PROGRAMS[run.__name__] = run
    return run


def closed_after(create: Callable[..., Any], *args: Any, **options: Any) -> str:
    handle = create(*args, **options)
    handle.close()
    return type(handle).__name__


def data(messages: Iterable[Any]) -> list[bytes]:
    return [message.data() for message in messages]


@program
def quick_start(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    consumer = client.subscribe(topic, "my-sub")
    producer = client.create_producer(topic)
    for number in range(3):
        message_id = producer.send(f"hello-{number}".encode())
        tell(f"sent {number}", type(message_id).__name__, message_id.entry_id(), message_id.partition())
    for number in range(3):
        message = consumer.receive()
        tell(f"received {number}", f"'{message.data()}'", message.value(), message.message_id().batch_index())
        consumer.acknowledge(message)
    tell("names", consumer.topic(), consumer.subscription_name(), producer.topic(), producer.last_sequence_id())
    tell("connected", consumer.is_connected(), producer.is_connected())
    try:
        consumer.receive(timeout_millis=NOT_YET)
    except pulsar.Timeout:
        tell("nothing more")
    for wrong in ("5", 0.5):
        tell.outcome(f"timeout {wrong!r}", consumer.receive, wrong)
    producer.flush()
    producer.close()
    tell.outcome("send after close", producer.send, b"")
    tell.outcome("flush after close", producer.flush)
    tell.outcome("unsubscribe", consumer.unsubscribe)
    tell.outcome("receive after unsubscribe", consumer.receive, 10)
    tell.outcome("close after unsubscribe", consumer.close)
    tell("closed", producer.is_connected(), consumer.is_connected())


@program
def all_of_a_message(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic, producer_name="me", initial_sequence_id=9)
    producer.send(b"0", sequence_id=77)
    tell("given sequence id", producer.last_sequence_id())
    producer.send(b"1", {"a": "1", "b": "2"}, "k", "o", event_timestamp=12345)
    tell("sequence id after a given one", producer.last_sequence_id())
    producer.send(b"2", properties={}, partition_key="", ordering_key="", replication_clusters=["r1"])
    producer.send(None, partition_key="k")
    producer.send(b"4", disable_replication=True)
    producer.send(b"5", deliver_after=dt.timedelta(milliseconds=200))
    for _ in range(6):
        got = consumer.receive(SOON)
        tell(f"content {got.data()!r}", got.value(), got.properties(), got.partition_key(), got.ordering_key())
        tell(f"marks {got.data()!r}", got.event_timestamp(), got.redelivery_count(), got.topic_name())
        tell(f"rest {got.data()!r}", got.schema_version(), got.producer_name(), got.has_null_value())
        tell(f"encryption {got.data()!r}", got.encryption_context())
        now = time.time() * 1000
        tell(f"time {got.data()!r}", now - 60_000 < got.publish_timestamp() < now + 60_000)
    for options in (
        *({"properties": []}, {"partition_key": 1}, {"sequence_id": "1"}, {"sequence_id": -1}),
        *({"event_timestamp": 1.5}, {"deliver_after": 5}, {"deliver_at": "x"}, {"replication_clusters": "r"}),
        *({"disable_replication": 1}, {"ordering_key": b"x"}, {"nonsense": 1}, {"properties": {"a": 1}}),
    ):
        tell.outcome(str(options), producer.send, b"x", **options)
    for content in ("text", 5, [1], bytearray(b"x")):
        tell.outcome(f"send {content!r}", producer.send, content)


@program
def callbacks(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    called = queue.Queue[Any]()
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=5, block_if_queue_full=True
    )

    def callback(result: Any, message_id: Any) -> None:
        called.put((str(result), repr(result), result == pulsar.Result.Ok, int(result), message_id.batch_index()))

    for number in range(5):
        producer.send_async(b"%d" % number, callback, properties={"n": str(number)})
    producer.flush()
    tell("results", [called.get(timeout=5) for _ in range(5)])
    producer.send_async(b"x", functools.partial(lambda tag, result, _id: called.put((tag, result.name)), "tag"))
    producer.send_async(content=b"x", callback=lambda result, msg_id: called.put((result.value, msg_id is None)))
    producer.flush()
    tell("more results", [called.get(timeout=5) for _ in range(2)])
    producer.close()
    tell.outcome("after close", producer.send_async, b"x", lambda result, _id: called.put(str(result)))
    tell("result after close", called.get(timeout=5))
    small = client.create_producer(
        topic, max_pending_messages=1, batching_enabled=True, batching_max_publish_delay_ms=10_000
    )
    for _ in range(2):  # the official client sends a full queue when it refuses one: a third may find room, or not
        small.send_async(b"x", lambda result, _id: called.put(str(result)))
    small.flush()
    tell("queue full", sorted(called.get(timeout=5) for _ in range(2)))


@program
def message_ids(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    producer = client.create_producer(topic)
    first, second = producer.send(b"a"), producer.send(b"b")
    wrapped = pulsar.MessageId.wrap(first)
    tell("order", first < second, first == second, first != second, first >= second, wrapped.entry_id())
    tell("wrapped order", wrapped < pulsar.MessageId.wrap(second), wrapped == pulsar.MessageId.wrap(first))
    stored = first.serialize()
    tell("stored", type(stored).__name__, pulsar.MessageId.deserialize(stored) == first)
    tell("stored with a topic", pulsar.MessageId.deserialize(stored, topic=topic) == first)
    for wrong in (b"", b"\xff\xff", "text", None, 5):
        tell.outcome(f"deserialize {wrong!r}", pulsar.MessageId.deserialize, wrong)
    built = pulsar.MessageId(partition=1, ledger_id=2, entry_id=3, batch_index=4)
    tell("built", built.partition(), built.ledger_id(), built.entry_id(), built.batch_index(), str(built), f"{built}")
    tell("bounds", str(pulsar.MessageId()), str(pulsar.MessageId.earliest), str(pulsar.MessageId.latest))
    tell.outcome("equal to a text", built.__eq__, "x")
    tell.outcome("hash", lambda: hash(built) != 0)
    tell.outcome("copy", lambda: str(copy.deepcopy(built)))
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    consumer.acknowledge(consumer.receive(SOON).message_id())
    consumer.acknowledge(pulsar.MessageId.wrap(consumer.receive(SOON).message_id()))
    last = consumer.get_last_message_id()
    tell("last", last.entry_id(), last == second)
    for wrong, call in itertools.product((None, "x", b"x"), ("acknowledge", "acknowledge_cumulative", "seek")):
        tell.outcome(f"{call} {wrong!r}", getattr(consumer, call), wrong)
    tell.outcome("negative_acknowledge None", consumer.negative_acknowledge, None)


@program
def readers(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    producer = client.create_producer(topic)
    ids = [producer.send(b"%d" % number) for number in range(5)]
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = list[bytes]()
    while reader.has_message_available():
        found.append(reader.read_next().data())
    tell("all", found, reader.topic(), reader.is_connected())
    tell.outcome("at the end", reader.read_next, NOT_YET)
    for place, start in {"an id": ids[2], "earliest": pulsar.MessageId.earliest, "a time": 0}.items():
        reader.seek(start)
        tell(f"seek to {place}", reader.read_next(SOON).data())
    for place, start in {"latest": pulsar.MessageId.latest, "the future": int(time.time() * 1000) + 60_000}.items():
        reader.seek(start)
        tell(f"seek to {place}", reader.has_message_available())
    stored = pulsar.MessageId.deserialize(ids[1].serialize())
    for start_message_id in (ids[1], pulsar.MessageId.wrap(ids[1]), stored):
        other = client.create_reader(topic, start_message_id)
        tell(f"start {len(tell)}", other.read_next(SOON).data())
    inclusive = client.create_reader(
        topic,
        ids[1],
        start_message_id_inclusive=True,
        reader_name="me",
        subscription_role_prefix="pre",
        receiver_queue_size=2,
        is_read_compacted=False,
    )
    tell("inclusive", inclusive.read_next(SOON).data())
    at_latest = client.create_reader(topic, pulsar.MessageId.latest, start_message_id_inclusive=True)
    tell("inclusive at latest", at_latest.has_message_available(), at_latest.read_next(SOON).data())
    heard = queue.Queue[Any]()
    listening = client.create_reader(
        topic, pulsar.MessageId.earliest, reader_listener=lambda source, message: heard.put((source, message))
    )
    events = [heard.get(timeout=5) for _ in range(5)]
    tell("heard", data(message for _, message in events))
    tell("who is heard", {type(source).__name__ for source, _ in events})
    tell.outcome("read with a listener", listening.read_next, NOT_YET)
    for wrong in (None, "earliest", 5):
        tell.outcome(f"start at {wrong!r}", client.create_reader, topic, wrong)
    reader.close()
    tell.outcome("read after close", reader.read_next, 10)
    tell.outcome("available after close", reader.has_message_available)


@program
def consumers(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=pulsar.ConsumerType.Shared,
        schema=pulsar.schema.BytesSchema(),
        message_listener=None,
        receiver_queue_size=10,
        max_total_receiver_queue_size_across_partitions=100,
        consumer_name="mine",
        unacked_messages_timeout_ms=10_000,
        broker_consumer_stats_cache_time_ms=1000,
        negative_ack_redelivery_delay_ms=100,
        is_read_compacted=False,
        properties={"p": "q"},
        pattern_auto_discovery_period=5,
        initial_position=pulsar.InitialPosition.Earliest,
        crypto_key_reader=None,
        replicate_subscription_state_enabled=False,
        max_pending_chunked_message=5,
        auto_ack_oldest_chunked_message_on_queue_full=True,
        start_message_id_inclusive=True,
        batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(2, -1, 100),
        key_shared_policy=None,
        batch_index_ack_enabled=True,
        regex_subscription_mode=pulsar.RegexSubscriptionMode.PersistentOnly,
        dead_letter_policy=None,
        crypto_failure_action=pulsar.ConsumerCryptoFailureAction.FAIL,
    )
    tell("name", consumer.consumer_name())
    for number in range(5):
        producer.send(b"%d" % number)
    batches = [consumer.batch_receive() for _ in range(4)]
    tell("batches", [type(batch).__name__ for batch in batches], [sorted(data(batch)) for batch in batches][-1])
    tell("of batches", sorted(data(itertools.chain(*batches))))
    consumer.redeliver_unacknowledged_messages()
    again = [consumer.receive(SOON) for _ in range(5)]
    tell("again", sorted(data(again)))
    consumer.negative_acknowledge(again[0])
    consumer.negative_acknowledge(again[1].message_id())
    refused = [consumer.receive(SOON) for _ in range(2)]
    tell("refused", {*data(refused)} == {*data(again[:2])}, all(one.redelivery_count() > 0 for one in refused))
    for place, start in {"earliest": pulsar.MessageId.earliest, "a time": 0, "an id": refused[0].message_id()}.items():
        consumer.seek(start)
        tell(f"seek to {place}", type(consumer.receive(SOON)).__name__)
    consumer.seek(int(time.time() * 1000) + 60_000)
    tell.outcome("at the end", consumer.receive, NOT_YET)
    tell.outcome("pause without a listener", consumer.pause_message_listener)
    tell.outcome("resume without a listener", consumer.resume_message_listener)
    consumer.close()
    tell.outcome("close again", consumer.close)
    tell.outcome("acknowledge after close", consumer.acknowledge, again[0])
    tell.outcome("refuse after close", consumer.negative_acknowledge, again[0])
    tell.outcome("redeliver after close", consumer.redeliver_unacknowledged_messages)
    tell.outcome("seek after close", consumer.seek, 0)
    tell.outcome("batch after close", consumer.batch_receive)
    tell.outcome("last id after close", consumer.get_last_message_id)


@program
def cumulative_acknowledgements(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    producer = client.create_producer(topic)
    for number in range(6):
        producer.send(b"%d" % number)
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    messages = [consumer.receive(SOON) for _ in range(3)]
    consumer.acknowledge_cumulative(messages[1])
    consumer.close()
    consumer = client.subscribe(topic, "s")
    tell("next", consumer.receive(SOON).data())
    tell.outcome("by id", consumer.acknowledge_cumulative, messages[2].message_id())
    tell.outcome("by wrapped id", consumer.acknowledge_cumulative, pulsar.MessageId.wrap(messages[2].message_id()))
    for kind in ("Shared", "KeyShared"):
        shared = client.subscribe(
            topic, kind, getattr(pulsar.ConsumerType, kind), initial_position=pulsar.InitialPosition.Earliest
        )
        message = shared.receive(SOON)
        tell.outcome(f"{kind} by message", shared.acknowledge_cumulative, message)
        tell.outcome(f"{kind} by id", shared.acknowledge_cumulative, message.message_id())


@program
def listeners(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    heard = queue.Queue[Any]()

    def listener(consumer: Any, message: Any) -> None:
        heard.put((type(consumer).__name__, type(message).__name__, message.data(), message.properties()))
        consumer.acknowledge(message)

    consumer = client.subscribe(topic, "s", message_listener=listener)
    producer = client.create_producer(topic)
    producer.send(b"1", properties={"a": "b"})
    tell("heard", heard.get(timeout=5))
    consumer.pause_message_listener()
    producer.send(b"2")
    consumer.resume_message_listener()
    tell("heard after a pause", heard.get(timeout=5))
    tell.outcome("receive with a listener", consumer.receive, NOT_YET)
    tell.outcome("batch receive with a listener", consumer.batch_receive)


@program
def several_topics(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    names = [f"{topic}-{number}" for number in range(3)]
    producers = [client.create_producer(name) for name in names]
    consumer = client.subscribe(names, "s")
    for number, producer in enumerate(producers):
        producer.send(b"%d" % number)
    messages = sorted((consumer.receive(SOON) for _ in names), key=lambda message: str(message.data()))
    tell("received", data(messages), [message.topic_name() for message in messages])
    for message in messages:
        consumer.acknowledge(message)
        consumer.acknowledge(message.message_id())
    first = messages[0]
    stored = first.message_id().serialize()
    tell.outcome("stored id", consumer.acknowledge, pulsar.MessageId.deserialize(stored, first.topic_name()))
    tell.outcome("stored id without a topic", consumer.acknowledge, pulsar.MessageId.deserialize(stored))
    tell.outcome("last id", consumer.get_last_message_id)
    tell.outcome("seek to a time", consumer.seek, 0)
    tell.outcome("seek to earliest", consumer.seek, pulsar.MessageId.earliest)
    consumer.close()
    pattern = client.subscribe(
        re.compile(f"{re.escape(topic)}-.*"), "pattern", initial_position=pulsar.InitialPosition.Earliest
    )
    tell("of a pattern", sorted(data(pattern.receive(SOON) for _ in names)))
    tell.outcome("unsubscribe from a pattern", pattern.unsubscribe)
    tell.outcome("tuple of topics", closed_after, client.subscribe, tuple(names), "t")
    tell.outcome("no topics", closed_after, client.subscribe, [], "t")
    tell("partitions", client.get_topic_partitions(topic))


@program
def sequence_ids(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    for round_ in range(2):
        producer = client.create_producer(topic, producer_name="sequence")
        tell(f"at the start of {round_}", producer.last_sequence_id())
        for _ in range(3):
            producer.send(b"x")
        tell(f"at the end of {round_}", producer.last_sequence_id())
        producer.close()
    producer = client.create_producer(topic, producer_name="sequence", initial_sequence_id=100)
    producer.send(b"")
    tell("after an initial one", producer.last_sequence_id())


@program
def batches_and_codecs(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    consumer = client.subscribe(topic, "s")
    for codec, kind in itertools.product(("NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"), ("Default", "KeyBased")):
        stored = queue.Queue[tuple[bool, int]]()
        producer = client.create_producer(
            topic,
            batching_enabled=True,
            batching_max_messages=4,
            batching_max_publish_delay_ms=50,
            batching_max_allowed_size_in_bytes=64 * 1024,
            compression_type=getattr(pulsar.CompressionType, codec),
            batching_type=getattr(pulsar.BatchingType, kind),
        )

        def callback(result: Any, message_id: Any, stored: queue.Queue[tuple[bool, int]] = stored) -> None:
            stored.put((result == pulsar.Result.Ok, message_id.batch_index()))

        for number in range(8):
            producer.send_async(b"%d" % number, callback, partition_key=str(number % 2))
        producer.flush()
        tell(f"stored {codec} {kind}", sorted(stored.get(timeout=5) for _ in range(8)))
        messages = [consumer.receive(SOON) for _ in range(8)]
        facts = [(one.data(), one.partition_key(), one.message_id().batch_index()) for one in messages]
        tell(f"received {codec} {kind}", facts)
        consumer.acknowledge_cumulative(messages[-1])
    producer = client.create_producer(topic, chunking_enabled=True)
    message_id = producer.send(b"x" * (11 << 20))
    message = consumer.receive(SOON)
    tell("chunks", len(message.data()), message.message_id() == message_id)


@program
def subscription_types(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    kinds = pulsar.ConsumerType
    shared = [client.subscribe(topic, "keys", kinds.KeyShared) for _ in range(2)]
    producer = client.create_producer(topic, message_router=lambda _message, _partitions: 0)
    for number in range(20):
        producer.send(b"%d" % number, partition_key=str(number % 4))
    found, keys = list[int](), list[set[str]]()
    for consumer in shared:
        messages = list[Any]()
        try:
            while True:
                messages.append(consumer.receive(300))
        except pulsar.Timeout:
            keys.append({message.partition_key() for message in messages})
            found += [int(message.data()) for message in messages]
    tell("keys", sorted(found), keys[0] & keys[1])
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 32_767)])
    sticky = client.subscribe(topic, "sticky", kinds.KeyShared, key_shared_policy=policy)
    tell("sticky", sticky.is_connected(), policy.sticky_ranges, policy.key_shared_mode)
    tell.outcome("same range", client.subscribe, topic, "sticky", kinds.KeyShared, key_shared_policy=policy)
    tell.outcome("another type", client.subscribe, topic, "keys", kinds.Shared)
    standby = [client.subscribe(topic, "failover", kinds.Failover) for _ in range(2)]
    exclusive = client.subscribe(topic, "exclusive")
    tell("all are connected", all(consumer.is_connected() for consumer in (*standby, exclusive)))
    tell.outcome("a second one", client.subscribe, topic, "exclusive")


@program
def receiver_queues_of_nothing(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "s", receiver_queue_size=0)
    producer.send(b"x")
    tell("received", consumer.receive().data())
    tell.outcome("receive with a timeout", consumer.receive, NOT_YET)
    tell.outcome("several topics", client.subscribe, [topic, f"{topic}-2"], "t", receiver_queue_size=0)
    tell.outcome("less than nothing", client.subscribe, topic, "t", receiver_queue_size=-1)


@program
def schemas(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    kinds = importlib.import_module(f"{pulsar.__name__}.schema")
    colour = Enum("Colour", {"red": 1, "green": 2})  # type: ignore[misc] - at run time, as the records below
    inner = type("Inner", (kinds.Record,), {"x": kinds.Integer()})
    fields = {
        "a": kinds.String(),
        "b": kinds.Integer(default=5),
        "c": kinds.Array(kinds.String()),
        "d": kinds.Map(kinds.Double()),
        "e": colour,
        "f": inner(),
        "g": kinds.Boolean(default=True, required_default=True),
        "h": kinds.Bytes(),
        "i": kinds.Float(),
        "j": kinds.Long(required=True),
    }
    record = type("Example", (kinds.Record,), fields)
    tell("definition", json.dumps(record.schema()))
    empty, filled = (
        record(a="x", j=1),
        record(a="x", j=1, c=["p"], d={"k": 1.5}, e=colour(2), f=inner(x=3), h=b"q", i=1.5),
    )
    tell("defaults", [getattr(empty, name) for name in "abcdeghij"], empty.f.x)
    tell.outcome("text of a record", str, record(a="x", j=1, f=None))
    tell.outcome("wrong type", record, a=5)
    tell.outcome("unknown field", setattr, filled, "zz", 1)
    for schema in (kinds.JsonSchema(record), kinds.AvroSchema(record)):
        name = type(schema).__name__
        consumer = client.subscribe(f"{topic}-{name}", "s", schema=schema)
        producer = client.create_producer(f"{topic}-{name}", schema=schema)
        producer.send(filled)
        message = consumer.receive(SOON)
        value = message.value()
        tell(f"{name} value", [getattr(value, one) for one in "abcdeghij"], value.f.x, value == filled)
        tell(f"{name} type", type(value).__name__, type(schema.schema_info()).__name__, message.schema_version())
        tell(f"{name} bytes", message.data())
        tell.outcome(f"{name} of a str", producer.send, "x")
        producer.send(None)
        tell.outcome(f"{name} null", consumer.receive(SOON).value)
        tell.outcome(f"{name} other schema", client.create_producer, f"{topic}-{name}", schema=kinds.StringSchema())
    for schema in (kinds.StringSchema(), kinds.BytesSchema()):
        consumer = client.subscribe(f"{topic}-{schema}", "s", schema=schema)
        producer = client.create_producer(f"{topic}-{schema}", schema=schema)
        for content in ("text", b"bytes", 5):
            tell.outcome(f"{schema} of {content!r}", producer.send, content)
        tell(f"{schema} value", consumer.receive(SOON).value())
    tell.outcome("JSON of no record", kinds.JsonSchema, 5)
    tell.outcome("array of no field", kinds.Array, 5)
    tell.outcome("enum of no enum", kinds.CustomEnum, 5)
    tell.outcome("default of another type", kinds.Integer, default="x")


@program
def table_views(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    kinds = importlib.import_module(f"{pulsar.__name__}.schema")
    producer = client.create_producer(topic, schema=kinds.StringSchema())
    for key, value in (("a", "1"), ("b", "2"), ("a", "3")):
        producer.send(value, partition_key=key)
    view = client.create_table_view(topic, schema=kinds.StringSchema())
    tell("entries", len(view), view.get("a"), view.get("b"), view.get("c"), str(view), repr(view))
    heard = queue.Queue[tuple[str, Any]]()
    view.for_each(lambda key, value: heard.put((key, value)))
    tell("for each", sorted(heard.get(timeout=5) for _ in range(2)))
    view.for_each_and_listen(lambda key, value: heard.put((key, value)))
    tell("and listen", sorted(heard.get(timeout=5) for _ in range(2)))
    producer.send("4", partition_key="c")
    tell("heard", heard.get(timeout=5), view.get("c"))
    tell.outcome("number as key", view.get, 5)
    view.close()
    tell.outcome("close again", view.close)
    named = client.create_table_view(topic, "name", kinds.StringSchema())
    tell("named", str(named))
    tell.outcome("number as topic", client.create_table_view, 5)


@program
def functions(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    function = type("Exclaim", (pulsar.Function,), {"process": lambda _self, text, _context: f"{text}!"})
    tell("function", function().process("a", None))
    identity, pickled = pulsar.IdentitySerDe(), pulsar.PickleSerDe()
    for value in ("a", 5, 1.5, b"x", 1j, True, None, [1]):
        tell.outcome(f"serialize {value!r}", identity.serialize, value)
    for payload in (b"a", b"5", b"1.5", b"\xff", b"", b"1j"):
        tell.outcome(f"deserialize {payload!r}", lambda payload=payload: repr(identity.deserialize(payload)))
    tell("pickled", pickled.deserialize(pickled.serialize({"a": 1})))
    tell.outcome("context", pulsar.Context)


@program
def errors(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    consumer = client.subscribe(topic, "s")
    tell.outcome("timeout", consumer.receive, 10)
    tell.outcome("busy", client.subscribe, topic, "s")
    same = client.create_producer(topic, producer_name="same")
    tell.outcome("same name", client.create_producer, topic, producer_name="same")
    access = pulsar.ProducerAccessMode
    tell.outcome("exclusive beside another", client.create_producer, topic, access_mode=access.Exclusive)
    same.close()
    only = client.create_producer(topic, access_mode=access.Exclusive)
    tell.outcome("another beside exclusive", client.create_producer, topic)
    fencing = client.create_producer(topic, access_mode=access.ExclusiveWithFencing)
    tell.outcome("fenced", only.send, b"x")
    tell.outcome("too big", fencing.send, b"x" * (6 << 20))
    tell.outcome("no such tenant", client.create_producer, "persistent://nobody/x/y")
    for name in ("", "a/b", "foo://a/b/c"):
        tell.outcome(f"topic {name!r}", client.create_producer, name)
    for name in ("my topic", "tópico"):
        tell.outcome(f"topic {name!r}", closed_after, client.create_producer, name)


@program
def dead_letters(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(1, f"{topic}-dlq", "first")
    tell("policy", policy.max_redeliver_count, policy.dead_letter_topic, policy.initial_subscription_name)
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100, dead_letter_policy=policy
    )
    client.create_producer(topic).send(b"x", properties={"a": "b"}, partition_key="k")
    for number in range(2):
        message = consumer.receive(SOON)
        tell(f"delivery {number}", message.data(), message.redelivery_count())
        consumer.negative_acknowledge(message)
    letter = client.subscribe(f"{topic}-dlq", "first").receive(SOON)
    tell("letter", letter.data(), letter.partition_key(), letter.properties()["a"])
    tell("properties of a letter", sorted(letter.properties()))


@program
def wrong_options(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    for name, value in {
        "topic": 5,
        "subscription_name": None,
        "consumer_type": "Shared",
        "schema": "x",
        "nonsense": 1,
        "receiver_queue_size": "5",
        "consumer_name": 5,
        "negative_ack_redelivery_delay_ms": "x",
        "is_read_compacted": 1,
        "properties": [],
        "pattern_auto_discovery_period": "x",
        "initial_position": "x",
        "batch_receive_policy": "x",
        "key_shared_policy": "x",
        "regex_subscription_mode": 1,
        "dead_letter_policy": "x",
        "message_listener": 5,
        "unacked_messages_timeout_ms": 5,
    }.items():
        options = {"topic": topic, "subscription_name": "s", name: value}
        tell.outcome(f"subscribe {name}", closed_after, client.subscribe, **options)
    tell.outcome("empty subscription name", client.subscribe, topic, "")
    for name, value in {
        "topic": None,
        "producer_name": 5,
        "schema": None,
        "initial_sequence_id": "1",
        "send_timeout_millis": "x",
        "compression_type": 3,
        "max_pending_messages": "x",
        "block_if_queue_full": 1,
        "batching_enabled": "x",
        "batching_max_messages": None,
        "properties": "x",
        "batching_type": 0,
        "message_routing_mode": "x",
        "access_mode": 0,
        "message_router": 5,
        "chunking_enabled": None,
    }.items():
        tell.outcome(f"producer {name}", closed_after, client.create_producer, **{"topic": topic, name: value})
    both = {"chunking_enabled": True, "batching_enabled": True}
    tell.outcome("chunks and batches", client.create_producer, topic, **both)
    for name, value in {
        "service_url": 5,
        "authentication": "x",
        "operation_timeout_seconds": "5",
        "io_threads": None,
        "message_listener_threads": "x",
        "concurrent_lookup_requests": None,
        "log_conf_file_path": 5,
        "stats_interval_in_seconds": "x",
        "use_tls": 1,
        "tls_trust_certs_file_path": 5,
        "nonsense": 5,
        "tls_allow_insecure_connection": 1,
        "tls_validate_hostname": "x",
        "logger": "x",
        "listener_name": 5,
        "connection_timeout_ms": "x",
        "tls_private_key_file_path": 5,
        "tls_certificate_file_path": 5,
    }.items():
        options = {"service_url": "pulsar://localhost:1", name: value}
        tell.outcome(f"client {name}", closed_after, pulsar.Client, **options)
    for url in ("", "localhost:6650", "pulsar://", "foo://a", "pulsar://a:1,b:2", "pulsar://a:0", "pulsar://a:99999"):
        tell.outcome(f"URL {url}", closed_after, pulsar.Client, url)
    for count in (0, None):
        tell.outcome(f"dead letters after {count}", pulsar.ConsumerDeadLetterPolicy, count)
    tell.outcome("no ranges", pulsar.ConsumerKeySharedPolicy, key_shared_mode=pulsar.KeySharedMode.Sticky)
    tell.outcome("no limits", pulsar.ConsumerBatchReceivePolicy, -1, -1, -1)
    tell.outcome("logger's level", pulsar.ConsoleLogger, "x")
    tell.outcome("partitions of a number", client.get_topic_partitions, 5)


@program
def authentication(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    oauth2 = '{"issuer_url": "http://localhost", "client_id": "a", "client_secret": "b"}'
    basic = '{"username": "u", "password": "p"}'
    for label, name, arguments, options in (
        ("token", "AuthenticationToken", ("x",), {}),
        ("token by a callable", "AuthenticationToken", (), {"token": lambda: "x"}),
        ("number as token", "AuthenticationToken", (5,), {}),
        ("no token", "AuthenticationToken", (), {}),
        ("TLS", "AuthenticationTLS", ("/a", "/b"), {}),
        ("TLS by name", "AuthenticationTLS", (), {"certificate_path": "/a", "private_key_path": "/b"}),
        ("number as path", "AuthenticationTLS", (5, "/b"), {}),
        ("basic", "AuthenticationBasic", ("u", "p"), {}),
        ("basic by name", "AuthenticationBasic", (), {"username": "u", "password": "p", "method": "m"}),
        ("basic of JSON", "AuthenticationBasic", (), {"auth_params_string": basic}),
        ("basic of no JSON", "AuthenticationBasic", (), {"auth_params_string": "{"}),
        ("no password", "AuthenticationBasic", ("u",), {}),
        ("OAuth2", "AuthenticationOauth2", (oauth2,), {}),
        ("OAuth2 by name", "AuthenticationOauth2", (), {"auth_params_string": oauth2}),
        ("OAuth2 of no JSON", "AuthenticationOauth2", ("x",), {}),
        ("any", "Authentication", ("token", "token:x"), {}),
        ("any by name", "Authentication", (), {"dynamicLibPath": "token", "authParamsString": "token:x"}),
        ("number as method", "Authentication", (5, "x"), {}),
    ):
        tell.outcome(label, getattr(pulsar, name), *arguments, **options)


@program
def clusters(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    here, there = pulsar.ServiceInfo("pulsar://a:1"), pulsar.ServiceInfo("pulsar+ssl://b:1", None, "/certificates")
    tell("clusters", repr(here), repr(there), there.use_tls, there.service_url, there.tls_trust_certs_file_path)
    tell.outcome("failover", lambda: repr(pulsar.AutoClusterFailover(here, [there])))
    tell.outcome("no secondary", pulsar.AutoClusterFailover, here, [])
    tell.outcome("no interval", pulsar.AutoClusterFailover, here, [there], check_interval_ms=0)
    info = client.get_service_info()
    tell("service info", info.use_tls, info.service_url.startswith("pulsar://"))
    tell("trusted certificates", info.tls_trust_certs_file_path is None)


@program
def enums(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    for name in ENUMS:
        enum = getattr(pulsar, name)
        for member in enum.__members__.values():
            facts = (str(member), repr(member), int(member), member.name, member.value, hash(member), bool(member))
            tell(f"{member}", facts, f"{member}", enum(int(member)) == member, {member: 1}[member], member == "x")
            tell(f"{member} pickled", pickle.loads(pickle.dumps(member)) == member)  # noqa: S301 - our own
        tell(f"{name} and numbers", next(iter(enum.__members__.values())) == 0)
        tell.outcome(f"{name} 99", enum, 99)


@program
def closing(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    producer, consumer = client.create_producer(topic), client.subscribe(topic, "s")
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    client.close()
    tell.outcome("send", producer.send, b"")
    tell.outcome("receive", consumer.receive, 10)
    tell.outcome("read", reader.read_next, 10)
    tell.outcome("create", client.create_producer, topic)
    tell.outcome("subscribe", client.subscribe, topic, "s")
    tell.outcome("create a reader", client.create_reader, topic, pulsar.MessageId.earliest)
    tell.outcome("partitions", client.get_topic_partitions, topic)
    tell.outcome("close again", client.close)
    tell.outcome("shut down", client.shutdown)
    tell.outcome("close the producer", producer.close)
    tell.outcome("close the consumer", consumer.close)


@program
def internals(pulsar: Any, client: Any, topic: str, tell: Told) -> None:
    producer, consumer = client.create_producer(topic), client.subscribe(topic, "s")
    producer.send(b"x")
    message = consumer.receive(SOON)
    for owner, name in ((producer, "_producer"), (consumer, "_consumer"), (message, "_message"), (client, "_client")):
        tell.outcome(name, lambda owner=owner, name=name: getattr(owner, name) is None)
    tell.outcome("module of C++", lambda: pulsar._pulsar is None)
    tell.outcome("Producer()", pulsar.Producer)
    tell.outcome("Consumer()", pulsar.Consumer)
    tell.outcome("Message()", pulsar.Message)
