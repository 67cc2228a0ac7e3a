"""What the official Python client is told to do before the recorder: one function a family of frames."""

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.jars import jars, tool
from tests.vectors.stage import Stage, pulsar

CODECS = ("NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY")
TEXT = b"the quick brown fox jumps over the lazy dog; " * 4
LONG_DELAY_MS = 60_000  # only `flush` ends a batch
SETTLE_SECONDS = 0.4  # longer than the client groups acknowledgements


def batching(**more: Any) -> dict[str, Any]:
    return {"batching_enabled": True, "batching_max_publish_delay_ms": LONG_DELAY_MS, **more}


def receive(consumer: Any, count: int) -> list[Any]:
    return [consumer.receive(10_000) for _ in range(count)]


def codecs(stage: Stage) -> None:
    """Every codec, batched and not, sent and received."""
    client = stage.client()
    for codec in CODECS:
        topic = stage.topic()
        stage.step(f"{codec}: subscribe")
        consumer = client.subscribe(topic, "s")
        kind = pulsar.CompressionType.__members__[codec]
        stage.step(f"{codec}: plain")
        plain = client.create_producer(topic, compression_type=kind)
        stage.send(plain, TEXT)
        stage.step(f"{codec}: batched")
        batched = client.create_producer(topic, **batching(compression_type=kind))
        stage.send_all(batched, [{"payload": b"%d " % i + TEXT, "partition_key": f"k{i}"} for i in range(3)])
        receive(consumer, 4)
        stage.step(f"{codec}: empty")  # not received: the official client takes its own empty ZLIB payload for corrupt
        stage.send_all(plain, [{"payload": b""}])
        stage.send_all(batched, [{"payload": b""}])


def fields(stage: Stage) -> None:
    """Every field of a message that a program can set, batched and not."""
    client = stage.client()
    messages: list[dict[str, Any]] = [
        {"payload": b"key", "partition_key": "key"},
        {"payload": b"ordering", "ordering_key": "order"},
        {"payload": b"both", "partition_key": "k\u00e9y", "ordering_key": "ord\u00e9r"},
        {"payload": b"properties", "properties": {"a": "1", "b": "", "\u00fc": "\u20ac \U0001f600"}},
        {"payload": b"event time", "event_timestamp": 1_600_000_000_123},
        {"payload": b"sequence id", "sequence_id": 1_000},
        {"payload": b"", "properties": {"empty": "yes"}},
        {"payload": None, "partition_key": "deleted"},
        {"payload": b"not replicated", "disable_replication": True},
        {"payload": b"replicated", "replication_clusters": ["standalone"]},
        {"payload": bytes(range(256)), "partition_key": "all", "properties": {"n": "256"}, "sequence_id": 2**40},
    ]
    for name, options in (("plain", {}), ("batched", batching())):
        topic = stage.topic()
        stage.step(f"{name}: subscribe")
        consumer = client.subscribe(topic, "s")
        stage.step(f"{name}: send")
        producer = client.create_producer(topic, producer_name=f"fields-{name}", properties={"p": "q"}, **options)
        stage.send_all(producer, messages)
        receive(consumer, len(messages))
    delayed(stage, client)


def delayed(stage: Stage, client: Any) -> None:
    topic = stage.topic()
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    stage.step("delivery time")
    producer = client.create_producer(topic, **batching())
    at = int(time.time() * 1000) + 1_000
    stage.send_all(producer, [{"payload": b"later", "deliver_at": at}, {"payload": b"now"}])
    receive(consumer, 2)


def key_based(stage: Stage) -> None:
    """Key-based batches: one entry a key, rising by last sequence id."""
    client = stage.client()
    topic = stage.topic()
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.KeyShared)
    stage.step("key-based batches")
    producer = client.create_producer(
        topic, **batching(batching_type=pulsar.BatchingType.KeyBased, compression_type=pulsar.CompressionType.LZ4)
    )
    keys = ["a", "b", "a", "c", "b", "a"]
    stage.send_all(
        producer, [{"payload": TEXT + b"%d" % i, "partition_key": key} for i, key in enumerate(keys)]
        + [{"payload": b"o", "partition_key": "a", "ordering_key": "z"}, {"payload": b"no key"}],
    )  # fmt: skip
    receive(consumer, len(keys) + 2)


def chunks(stage: Stage) -> None:
    """Messages over the broker's limit, in chunks, with and without compression."""
    client = stage.client()
    noise = b"".join((i * 2654435761 % 2**32).to_bytes(4, "big") for i in range(2_200))
    topic = stage.topic()
    consumer = client.subscribe(topic, "s")
    for codec in ("NONE", "ZSTD"):
        stage.step(f"chunks: {codec}")
        kind = pulsar.CompressionType.__members__[codec]
        producer = client.create_producer(topic, chunking_enabled=True, compression_type=kind)
        stage.send(producer, noise, partition_key="large", properties={"x": "y"})
        stage.send(producer, b"fits in one")
        consumer.acknowledge(receive(consumer, 2)[0])


def entry_metadata(stage: Stage) -> None:
    """Messages with the broker's own metadata (time and index) before them."""
    client = stage.client()
    topic = stage.topic()
    consumer = client.subscribe(topic, "s")
    stage.step("broker entry metadata")
    producers = [client.create_producer(topic), client.create_producer(topic, **batching())]
    for producer in producers:
        stage.send_all(producer, [{"payload": TEXT, "partition_key": f"{i}"} for i in range(3)])
    receive(consumer, 6)


def lookup(stage: Stage) -> None:
    """Lookup, partition metadata, topics of a namespace, and their failures; a token in CONNECT."""
    stage.step("a token in CONNECT")
    client = stage.client(authentication=pulsar.AuthenticationToken("an-example-not-a-secret"))
    parts = stage.topic()
    stage.broker.admin.create_partitioned(parts, 3)
    stage.step("partitioned topic")
    consumer = client.subscribe(parts, "s", consumer_name="three", properties={"who": "me"})
    producer = client.create_producer(parts)
    for i in range(3):
        stage.send(producer, b"part", partition_key=f"key{i}")
    receive(consumer, 3)
    stage.step("pattern")
    client.subscribe(re.compile("persistent://public/default/lookup.*"), "pattern").close()
    stage.step("non-persistent")
    fleeting = parts.replace("persistent", "non-persistent")
    consumer = client.subscribe(fleeting, "s")
    client.create_producer(fleeting).send(b"fleeting")
    consumer.receive(10_000)
    stage.step("no such namespace")
    refused(lambda: client.create_producer("persistent://public/nowhere/t"))


def refused(call: Callable[[], Any]) -> None:
    try:
        call()
    except pulsar.PulsarException:
        return
    message = "this was meant to be refused"
    raise AssertionError(message)


def acknowledging(stage: Stage) -> None:
    """Individual, cumulative and batch-index acknowledgements; redelivery."""
    client = stage.client()
    topic = stage.topic()
    options = {"negative_ack_redelivery_delay_ms": 100, "batch_index_ack_enabled": True}
    shared = client.subscribe(topic, "shared", pulsar.ConsumerType.Shared, **options)
    alone = client.subscribe(topic, "alone", batch_index_ack_enabled=True)
    batched = client.create_producer(topic, **batching())
    plain = client.create_producer(topic)
    stage.step("send")
    stage.send_all(batched, [{"payload": b"%d" % i} for i in range(70)])
    for i in range(4):
        stage.send(plain, b"plain %d" % i)
    got = receive(shared, 74)
    stage.step("ack one in a batch, and others")
    for i in (1, 64, 69, 70, 72):
        shared.acknowledge(got[i])
    time.sleep(SETTLE_SECONDS)
    stage.step("negative ack")
    shared.negative_acknowledge(got[71])
    receive(shared, 1)
    stage.step("redeliver all, shared")
    shared.redeliver_unacknowledged_messages()
    receive(shared, 60)
    stage.step("subscribe again: the broker's ack_set")
    shared.close()
    receive(client.subscribe(topic, "shared", pulsar.ConsumerType.Shared), 60)
    stage.step("cumulative in mid-batch, and beyond")
    got = receive(alone, 74)
    alone.acknowledge_cumulative(got[5])
    time.sleep(SETTLE_SECONDS)
    alone.acknowledge_cumulative(got[71])
    time.sleep(SETTLE_SECONDS)
    stage.step("redeliver all, exclusive")
    alone.redeliver_unacknowledged_messages()
    receive(alone, 2)
    stage.step("unsubscribe")
    alone.unsubscribe()


def consuming(stage: Stage) -> None:
    """Subscription types, seek, last message id, readers, a change of the active consumer."""
    client = stage.client()
    topic = stage.topic()
    producer = client.create_producer(topic, **batching())
    ids = stage.send_all(producer, [{"payload": b"%d" % i} for i in range(4)])
    stage.step("seek")
    consumer = client.subscribe(topic, "seek", initial_position=pulsar.InitialPosition.Earliest)
    for target in (ids[2], 1_600_000_000_000, pulsar.MessageId.earliest, pulsar.MessageId.latest):
        consumer.seek(target)
    stage.note_id(pulsar.MessageId.earliest)
    stage.note_id(pulsar.MessageId.latest)
    stage.step("last message id")
    consumer.get_last_message_id()
    stage.step("reader")
    reader = client.create_reader(topic, ids[1])
    reader.has_message_available()
    reader.read_next(10_000)
    stage.step("failover")
    first = client.subscribe(topic, "failover", pulsar.ConsumerType.Failover, consumer_name="a")
    second = client.subscribe(topic, "failover", pulsar.ConsumerType.Failover, consumer_name="b")
    first.close()
    time.sleep(SETTLE_SECONDS)
    second.close()
    stage.step("key-shared, sticky")
    sticky = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 100), (200, 65535)])
    client.subscribe(topic, "sticky", pulsar.ConsumerType.KeyShared, key_shared_policy=sticky).close()
    stage.step("compacted")
    client.subscribe(topic, "compacted", is_read_compacted=True, replicate_subscription_state_enabled=True).close()


def schemas(stage: Stage) -> None:
    """Schemas: declared by a producer and a consumer, asked for, and refused."""
    schema = pulsar.schema
    first = type("Point", (schema.Record,), {"x": schema.Integer()})
    other = type("Point", (schema.Record,), {"x": schema.String(required=True)})
    client = stage.client(operation_timeout_seconds=5)
    topic = stage.topic()
    stage.step("json schema")
    consumer = client.subscribe(topic, "s", schema=schema.JsonSchema(first))
    producer = client.create_producer(topic, schema=schema.JsonSchema(first))
    producer.send(first(x=1))
    consumer.receive(10_000)
    stage.step("string schema")
    client.create_producer(stage.topic(), schema=schema.StringSchema()).send("text")
    stage.step("incompatible")
    refused(lambda: client.create_producer(topic, schema=schema.JsonSchema(other)))


def broker_sent(stage: Stage) -> None:
    """What a broker sends by itself: closes on unload, the end of a topic; and refusals."""
    client = stage.client(operation_timeout_seconds=5)
    topic = stage.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="named")
    stage.step("producer and consumer busy")
    refused(lambda: client.create_producer(topic, producer_name="named"))
    refused(lambda: client.subscribe(topic, "s"))
    stage.step("unload")
    stage.broker.admin.unload(topic)
    time.sleep(1)
    stage.send(producer, b"after the unload")
    consumer.acknowledge(receive(consumer, 1)[0])
    time.sleep(SETTLE_SECONDS)
    stage.step("terminate")
    stage.broker.admin.terminate(topic)
    time.sleep(SETTLE_SECONDS)
    refused(lambda: producer.send(b"too late"))
    exclusive(stage, client)
    deduplicated(stage, client)


def exclusive(stage: Stage, client: Any) -> None:
    topic = stage.topic()
    modes = pulsar.ProducerAccessMode
    stage.step("exclusive producers")
    first = client.create_producer(topic, access_mode=modes.Exclusive)
    refused(lambda: client.create_producer(topic, access_mode=modes.Exclusive))
    stage.step("waiting for exclusive")
    waiting = threading.Thread(target=lambda: client.create_producer(topic, access_mode=modes.WaitForExclusive))
    waiting.start()
    time.sleep(SETTLE_SECONDS)
    first.close()
    waiting.join()
    stage.step("fencing")
    client.create_producer(topic, access_mode=modes.ExclusiveWithFencing)
    time.sleep(SETTLE_SECONDS)


def deduplicated(stage: Stage, client: Any) -> None:
    topic = stage.topic()
    stage.step("a duplicate")
    producer = client.create_producer(topic, producer_name="twice")
    stage.broker.admin.set_deduplication(topic, on=True)
    time.sleep(1)
    for sequence_id in (7, 7, 8):
        stage.send(producer, b"once", sequence_id=sequence_id)


def idle(stage: Stage) -> None:
    """A connection that is left alone longer than either side's keepalive."""
    client = stage.client()
    client.create_producer(stage.topic())
    stage.step("idle")
    time.sleep(32)


def java(stage: Stage) -> None:
    """The official Java client: every codec and field, transactions, schemas, a watched pattern."""
    url = f"pulsar://127.0.0.1:{stage.tap.port}"
    source = Path(__file__).with_name("JavaClient.java")
    command = [tool("java"), "-cp", f"{jars()}/*", str(source), url]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:  # noqa: S603 -- our own words
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            told = json.loads(line)
            if "step" in told:
                stage.step(told["step"])
                process.stdin.write("\n")
                process.stdin.flush()
            else:
                stage.remember(told["ledger"], told["entry"], told["batch_index"], told["message"])
    if process.returncode:
        raise RuntimeError(stage.tap.step)
