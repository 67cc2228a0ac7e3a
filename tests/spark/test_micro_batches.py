"""A stream on the driver: where it begins, where its batches end, and how it notices what others do to its topics."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pulsar_actors
from pulsar_actors.exceptions import PulsarException, TopicNotFound
from pulsar_actors.spark.client_pool import ClientPool
from pulsar_actors.spark.micro_batches import MicroBatchStream, SubscriptionCursor
from pulsar_actors.spark.offsets import Offsets
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.pyspark_compat import HAS_ADMISSION_CONTROL
from pulsar_actors.spark.read_task import entries_in
from pulsar_actors.wire.PulsarApi_pb2 import EncryptionKeys
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition
from tests.spark.traffic import Traffic, until
from tests.support.admin import path_of
from tests.support.ports import free_ports
from tests.support.raw_producer import RawProducer
from tests.support.subjects import Broker

Make = Callable[..., MicroBatchStream]


@pytest.fixture
def make(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Create streams of the topic, which discover partitions for each batch."""
    monkeypatch.setattr("pulsar_actors.spark.read_task.POOL", ClientPool(idle=0))
    made: list[MicroBatchStream] = []

    def make(discovery_seconds: float = 0.0, **options: Any) -> MicroBatchStream:
        which = {} if {"topics", "topicsPattern"} & set(options) else {"topic": topic}
        given = {"service.url": broker.service_url, "subscriptionPrefix": "mine", **which, **options}
        texts = {name.replace("__", ".").lower(): str(value) for name, value in given.items()}
        made.append(MicroBatchStream(ReadOptions.parse(texts, is_stream=True), discovery_seconds))
        return made[-1]

    yield make
    for stream in made:
        stream.close()


def read(broker: Broker, spans: list[Any], **options: str) -> list[bytes]:
    """Read what the tasks of a batch read."""
    given = {"service.url": broker.service_url, "topic": "any", **options}
    texts = {name.lower(): value for name, value in given.items()}
    some = [one for span in spans for one in entries_in(span, ReadOptions.parse(texts, is_stream=False))]
    return [bytes(payload) for contents in some for payload in contents.payloads]


def behind(ids: list[Any]) -> TopicPosition:
    return TopicPosition(ids[-1].ledger_id(), ids[-1].entry_id() + 1)


def backlog(broker: Broker, topic: str, subscription: str = "mine") -> int:
    return int(broker.admin.stats(topic)["subscriptions"][subscription]["msgBacklog"])


# Where a stream begins.


def test_a_stream_begins_at_the_end_and_its_subscription_has_no_backlog(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    ids = traffic.send(topic, ["a", "b"])
    assert make().begin() == Offsets("mine", {TopicName.parse(topic): behind(ids)})
    assert backlog(broker, topic) == 0


def test_a_stream_from_the_first_message_has_all_of_them_in_its_backlog(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    traffic.send(topic, ["a", "b"])
    assert make(startingOffsets="earliest").begin().positions == {TopicName.parse(topic): TOPIC_START}
    assert backlog(broker, topic) == 2


def test_a_stream_begins_where_a_predefined_subscription_is_unless_the_options_say_otherwise(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    with traffic.subscribed(topic) as consumer:
        ids = traffic.send(topic, ["a", "b", "c"])
        for _ in ids[:2]:
            consumer.acknowledge(consumer.receive(20_000))
        until(lambda: backlog(broker, topic, "traffic") == 1)
    begun = make(predefinedSubscription="traffic").begin()
    assert begun == Offsets("traffic", {TopicName.parse(topic): behind(ids[:2])})
    said = make(predefinedSubscription="traffic", startingOffsets="latest").begin()
    assert said.positions == {TopicName.parse(topic): behind(ids)}


def test_topics_that_the_options_do_not_name_begin_where_the_predefined_subscription_is(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    ids = {}
    for number in (1, 2):
        with traffic.subscribed(f"{topic}-{number}") as consumer:
            ids[number] = traffic.send(f"{topic}-{number}", ["a", "b"])
            consumer.acknowledge(consumer.receive(20_000))
            until(lambda number=number: backlog(broker, f"{topic}-{number}", "traffic") == 1)
    said = json.dumps({f"{topic}-2": "earliest"})
    stream = make(topicsPattern=f"{topic}-.*", predefinedSubscription="traffic", startingOffsets=said)
    positions = {TopicName.parse(f"{topic}-1"): behind(ids[1][:1]), TopicName.parse(f"{topic}-2"): TOPIC_START}
    assert stream.begin().positions == positions


def test_a_predefined_subscription_that_does_not_exist_is_created_at_the_first_message(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    traffic.send(topic, ["a"])
    stream = make(predefinedSubscription="absent")
    start = stream.begin()
    assert read(broker, stream.spans(start, stream.latest(start, is_limited=False))) == [b"a"]
    assert backlog(broker, topic, "absent") == 1


# Where its batches end.


def test_a_query_for_available_messages_ends_where_its_topics_ended_when_it_began(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    first = traffic.send(f"{topic}-1", ["a"])
    stream = make(topicsPattern=f"{topic}-.*", startingOffsets="earliest")
    stream.stop_at_current_end()
    start = stream.begin()
    traffic.send(f"{topic}-1", ["b"])
    traffic.send(f"{topic}-2", ["c"])
    assert stream.latest(start, is_limited=False).positions == {TopicName.parse(f"{topic}-1"): behind(first)}


def test_the_progress_has_the_backlog_if_there_are_statistics(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    traffic.send(topic, [f"{number}" for number in range(30)], per_batch=10)
    for options, told in (({}, [None] * 3), ({"admin__url": broker.admin.web_url}, [1, 3, 30])):
        stream = make(startingOffsets="earliest", **options)
        start = stream.begin()
        stream.latest(start, is_limited=False)
        report = stream.progress_report(start)
        assert [report.get(name) for name in ("partitionsBehind", "entriesBehind", "messagesBehind")] == told
    assert report["bytesBehind"] == pytest.approx(broker.admin.stats(topic)["storageSize"], rel=0.5)


def test_a_stream_continues_without_statistics_for_its_progress(
    broker: Broker, traffic: Traffic, topic: str, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    ids = traffic.send(topic, ["a"])
    stream = make(startingOffsets="earliest", admin__url=f"http://127.0.0.1:{free_ports(1)[0]}")
    start = stream.begin()
    stream.latest(start, is_limited=False)
    assert stream.progress_report(start) == Offsets("mine", {TopicName.parse(topic): behind(ids)}).write()
    assert "how far the query is behind cannot be told: the internalStats of" in caplog.text


@pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark 4.1 tells a stream of no limits")
@pytest.mark.parametrize(("limit", "entries"), [({"maxOffsetsPerTrigger": 6}, 6), ({"maxBytesPerTrigger": 1}, 3)])
def test_a_limit_is_divided_in_proportion_to_the_backlog_of_the_partitions(  # noqa: PLR0913 - fixtures
    broker: Broker, traffic: Traffic, topic: str, make: Make, limit: dict[str, int], entries: int
) -> None:
    broker.admin.create_partitioned(topic, 3)
    for partition, count in ((0, 4), (1, 8), (2, 12)):
        traffic.send(f"{topic}-partition-{partition}", [f"{number}" for number in range(count)])
    stream = make(startingOffsets="earliest", admin__url=broker.admin.web_url, **limit)
    start = stream.begin()
    found = [read(broker, [span]) for span in stream.spans(start, stream.latest(start, is_limited=True))]
    assert sum(map(len, found)) == entries
    assert [len(one) for one in found] == ([1, 2, 3] if entries == 6 else [1, 1, 1])


@pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark 4.1 tells a stream of no limits")
@pytest.mark.parametrize("has_statistics", [True, False])
def test_each_batch_has_exactly_as_many_messages_as_its_limit_says(
    broker: Broker, traffic: Traffic, topic: str, make: Make, *, has_statistics: bool
) -> None:
    """Batches of producers are divided, also by a stream that goes on from a checkpoint in the middle of one."""
    broker.admin.create_partitioned(topic, 3)
    numbers = iter(range(1000))
    sent: list[bytes] = []
    for partition, together, count in ((0, 1, 17), (1, 50, 211), (2, 7, 90), (0, 13, 40), (1, 100, 100)):
        texts = [f"{next(numbers)}" for _ in range(count)]
        traffic.send(f"{topic}-partition-{partition}", texts, per_batch=together if together > 1 else 0)
        sent += [text.encode() for text in texts]
    given = {"admin__url": broker.admin.web_url} if has_statistics else {}
    stream = make(startingOffsets="earliest", maxOffsetsPerTrigger=37, **given)
    start = stream.begin()
    batches: list[list[bytes]] = []
    while (end := stream.latest(start, is_limited=True)) != start:
        batches.append(read(broker, stream.spans(start, end)))
        if len(batches) % 4 == 0:
            stream = make(maxOffsetsPerTrigger=37, **given)
        start = Offsets.read(json.loads(json.dumps(end.write())))
    assert [len(batch) for batch in batches] == [37] * (len(sent) // 37) + [len(sent) % 37]
    assert sorted(text for batch in batches for text in batch) == sorted(sent)


@pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark 4.1 tells a stream of no limits")
def test_a_limit_counts_what_tasks_read(broker: Broker, topic: str, make: Make) -> None:
    """Not what is hidden or aborted, and a message in chunks once."""
    with pulsar_actors.Client(broker.service_url) as client:
        producer = client.create_producer(topic, batching_enabled=True)
        in_chunks = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
        aborted, committed = client.new_transaction(), client.new_transaction()
        producer.send_many([b"1", b"2", b"3"]).result()
        producer.send_many([b"aborted"] * 5, transaction=aborted).result()
        in_chunks.send(b"4" * (6 << 20))
        producer.send_many([b"5", b"6"], transaction=committed).result()
        producer.send(None)
        aborted.abort()
        committed.commit()
        producer.send_many([b"8", b"9"]).result()
        open_one = client.new_transaction()
        producer.send(b"hidden", transaction=open_one)
        stream = make(startingOffsets="earliest", maxOffsetsPerTrigger=4)
        start, batches = stream.begin(), []
        while (end := stream.latest(start, is_limited=True)) != start:
            batches.append([text[:1] for text in read(broker, stream.spans(start, end))])
            start = end
        open_one.abort()
    assert batches == [[b"1", b"2", b"3", b"4"], [b"5", b"6", b"", b"8"], [b"9"]]


@pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark 4.1 tells a stream of no limits")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 12)), min_size=1, max_size=12), most=st.integers(1, 15)
)
def test_batches_of_any_sizes_are_divided_into_batches_of_the_limit(
    embedded: Broker, sizes: list[tuple[int, int]], most: int
) -> None:
    topic = f"persistent://public/default/limit-{uuid.uuid4().hex}"
    embedded.admin.create_partitioned(topic, 2)
    sent = 0
    with Traffic(embedded.service_url) as traffic:
        for partition, size in sizes:
            numbers = [f"{number}" for number in range(sent, sent + size)]
            traffic.send(f"{topic}-partition-{partition}", numbers, per_batch=size)
            sent += size
    texts = {
        "service.url": embedded.service_url, "topic": topic, "subscriptionprefix": "mine",
        "startingoffsets": "earliest", "maxoffsetspertrigger": f"{most}",
    }  # fmt: skip
    with closing(MicroBatchStream(ReadOptions.parse(texts, is_stream=True))) as stream:
        start = stream.begin()
        batches: list[list[bytes]] = []
        while (end := stream.latest(start, is_limited=True)) != start:
            batches.append(read(embedded, stream.spans(start, end)))
            start = end
    assert [len(batch) for batch in batches] == [most] * (sent // most) + ([sent % most] if sent % most else [])
    assert sorted(int(text) for batch in batches for text in batch) == list(range(sent))


@pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark 4.1 tells a stream of no limits")
def test_with_fewer_messages_in_a_batch_than_partitions_each_has_its_turn(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    broker.admin.create_partitioned(topic, 3)
    for partition in range(3):
        traffic.send(f"{topic}-partition-{partition}", [f"{partition}"] * 10, per_batch=10)
    stream = make(startingOffsets="earliest", maxOffsetsPerTrigger=1)
    start, first = stream.begin(), []
    for _ in range(3):
        end = stream.latest(start, is_limited=True)
        first += read(broker, stream.spans(start, end))
        start = end
    assert sorted(first) == [b"0", b"1", b"2"]


@pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark 4.1 tells a stream of no limits")
@pytest.mark.parametrize("most", [{}, {"maxOffsetsPerTrigger": 12}])
def test_a_batch_waits_for_the_least_number_of_messages_or_for_its_time(  # noqa: PLR0913 - fixtures
    broker: Broker, traffic: Traffic, topic: str, make: Make, most: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    broker.admin.create(topic)
    stream = make(startingOffsets="earliest", minOffsetsPerTrigger=10, maxTriggerDelay="5m", **most)
    start = stream.begin()

    def batch(seconds: float = 0.0) -> list[bytes]:
        nonlocal now, start
        now += seconds
        monkeypatch.setattr("pulsar_actors.spark.micro_batches.time.monotonic", lambda: now)
        end = stream.latest(start, is_limited=True)
        monkeypatch.undo()
        found = read(broker, stream.spans(start, end))
        start = end
        return found

    traffic.send(topic, ["a"])
    assert batch() == [b"a"], "after a start nobody knows when the last batch was"
    traffic.send(topic, ["b"] * 7, per_batch=7)
    assert batch(1) == []
    traffic.send(topic, ["c"] * 2)
    assert batch(298) == []
    traffic.send(topic, ["d"] * 7, per_batch=7)
    assert len(batch(0)) == (12 if most else 16)
    traffic.send(topic, ["e"])
    assert batch(299) == []
    assert len(batch(2)) == (5 if most else 1)  # not 1: the sum of floats may be a little under five minutes


@pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark 4.1 tells a stream of no limits")
def test_the_last_batch_of_a_query_that_ends_waits_for_nothing(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    traffic.send(topic, ["a"] * 12)
    stream = make(startingOffsets="earliest", minOffsetsPerTrigger=10, maxOffsetsPerTrigger=10)
    start = stream.begin()
    stream.stop_at_current_end()
    middle = stream.latest(start, is_limited=True)
    assert len(read(broker, stream.spans(middle, stream.latest(middle, is_limited=True)))) == 2


# Topics and subscriptions that others change.


def test_a_new_topic_is_read_from_its_first_message(broker: Broker, traffic: Traffic, topic: str, make: Make) -> None:
    traffic.send(f"{topic}-1", ["a"])
    stream = make(topicsPattern=f"{topic}-.*")
    start = stream.begin()
    traffic.send(f"{topic}-2", ["b", "c"])
    assert read(broker, stream.spans(start, stream.latest(start, is_limited=False))) == [b"b", b"c"]


def test_an_awaited_topic_is_read_from_its_first_message(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    with pytest.raises(TopicNotFound, match=f"there is no topic {topic}: make it first"):
        make().begin()
    stream = make(waitingForNonExistedTopic="true")
    start = stream.begin()
    assert start.positions == stream.latest(start, is_limited=False).positions == {}
    traffic.send(topic, ["a", "b"])
    assert read(broker, stream.spans(start, stream.latest(start, is_limited=False))) == [b"a", b"b"]


def is_there(broker: Broker, topic: str) -> bool:
    return topic in broker.admin.json("GET", "persistent/public/default")


@pytest.mark.parametrize("by_pattern", [False, True], ids=["named", "by pattern"])
def test_a_topic_that_is_gone_ends_the_query_or_is_logged(  # noqa: PLR0913 - fixtures
    broker: Broker, traffic: Traffic, topic: str, make: Make, caplog: pytest.LogCaptureFixture, *, by_pattern: bool
) -> None:
    for number in (1, 2):
        traffic.send(f"{topic}-{number}", ["a"])
    which = {"topicsPattern": f"{topic}-.*"} if by_pattern else {"topics": f"{topic}-1,{topic}-2"}
    options = {**which, "startingOffsets": "earliest", "admin__url": broker.admin.web_url}
    lenient, strict = make(**options, failOnDataLoss="false"), make(**options)
    start = lenient.begin()
    end = lenient.latest(start, is_limited=False)
    broker.admin.delete(f"{topic}-1")
    until(lambda: not is_there(broker, f"{topic}-1"))
    gone = f"{topic}-1 is gone. To go on with what there is, set failOnDataLoss"
    with pytest.raises(PulsarException, match=gone):
        strict.latest(start, is_limited=False)
    with pytest.raises(PulsarException, match=gone):
        make(**options).spans(start, end)  # of a batch that a killed driver had begun
    left = lenient.latest(start, is_limited=False)
    assert list(left.positions) == [TopicName.parse(f"{topic}-2")]
    assert lenient.progress_report(left)["entriesBehind"] == 0
    assert read(broker, lenient.spans(start, end)) == [b"a"]
    assert f"{topic}-1 is gone" in caplog.text
    traffic.send(f"{topic}-1", ["b"])
    assert read(broker, lenient.spans(left, lenient.latest(left, is_limited=False))) == [b"b"]


def test_a_topic_that_was_deleted_after_the_discovery_is_gone_as_well(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    ends = {TopicName.parse(name): behind(traffic.send(name, ["a"])) for name in (f"{topic}-1", f"{topic}-2")}
    topics = f"{topic}-1,{topic}-2"
    stream = make(600.0, topics=topics, startingOffsets="earliest", failOnDataLoss="false")
    start = stream.begin()
    assert stream._cursor is not None
    consumer = stream._cursor._consumers[TopicName.parse(f"{topic}-1")]
    broker.admin.delete(f"{topic}-1")
    until(lambda: not consumer.is_open)
    spans = stream.spans(start, Offsets("mine", ends))  # of a batch that a killed driver had begun
    assert read(broker, spans) == [b"a"]
    assert list(stream.latest(start, is_limited=False).positions) == [TopicName.parse(f"{topic}-2")]


def test_a_deleted_topic_is_not_created_by_the_subscription(broker: Broker, traffic: Traffic, topic: str) -> None:
    traffic.send(topic, ["a"])
    with closing(pulsar_actors.Client(broker.service_url)) as client:
        cursor = SubscriptionCursor(client, "mine")
        cursor.subscribe([TopicName.parse(topic)])
        (consumer,) = cursor._consumers.values()
        broker.admin.delete(topic)
        until(lambda: not consumer.is_open)
        assert not is_there(broker, topic)


def test_a_topic_that_was_created_again_ends_the_query_or_is_read_from_its_first_message(
    broker: Broker, traffic: Traffic, topic: str, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    later = traffic.send(topic, ["a", "b", "c"])
    start = Offsets("mine", {TopicName.parse(topic): behind(later)._replace(ledger_id=1 << 40)})
    with pytest.raises(PulsarException, match="it was truncated, or made anew"):
        make().latest(start, is_limited=False)
    stream = make(failOnDataLoss="false")
    assert read(broker, stream.spans(start, stream.latest(start, is_limited=False))) == [b"a", b"b", b"c"]
    assert "it was truncated, or made anew" in caplog.text


def test_a_stream_that_has_read_all_of_a_ledger_continues_in_the_next(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    first = traffic.send(topic, ["a", "b"])
    stream = make(startingOffsets="earliest")
    start = stream.begin()
    middle = stream.latest(start, is_limited=False)
    stream.acknowledge(middle)
    broker.admin.unload(topic)  # which begins a ledger, and moves the subscription there
    second = traffic.send(topic, ["c"])
    assert second[0].ledger_id() > first[0].ledger_id()
    for later in (stream, make()):
        end = later.latest(middle, is_limited=False)
        assert read(broker, later.spans(middle, end)) == [b"c"]


def moved(broker: Broker, traffic: Traffic, topic: str, make: Make) -> list[Any]:
    """Send two messages, of which the stream has read one, and a third in the next ledger, to which it is moved."""
    ids = traffic.send(topic, ["a", "b"])
    make(startingOffsets="earliest").begin()
    broker.admin.unload(topic)  # which begins a ledger
    traffic.send(topic, ["c"])
    broker.admin.call("POST", f"{path_of(topic)}/subscription/mine/skip_all")
    stream = make()
    start = Offsets("mine", {TopicName.parse(topic): behind(ids[:1])})
    return list(stream.spans(start, stream.latest(start, is_limited=False)))


def first_ledger(broker: Broker, topic: str) -> int:
    """Return the oldest ledger of the topic: brokers delete ledgers as a whole."""
    return int(broker.admin.json("GET", f"{path_of(topic)}/internalStats")["ledgers"][0]["ledgerId"])


def is_trimmed(broker: Broker, topic: str, ledger_id: int) -> bool:
    """Ask for old ledgers to be deleted, and return whether this one is.

    Not yet, as long as the subscription has not moved on, which happens some time after it was told to.
    """
    broker.admin.call("POST", f"{path_of(topic)}/trim")
    return first_ledger(broker, topic) > ledger_id


@pytest.mark.parametrize("broker", ["apache"], indirect=True)
def test_a_subscription_that_was_moved_ends_the_query_or_is_logged_if_messages_are_gone(
    broker: Broker, traffic: Traffic, topic: str, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    spans = moved(broker, traffic, topic, make)
    until(lambda: is_trimmed(broker, topic, spans[0].start.ledger_id))
    message = f"{topic} has lost messages, it seems: the subscription mine was moved to"
    with pytest.raises(PulsarException, match=message):
        read(broker, spans)
    assert read(broker, spans, failOnDataLoss="false") == [b"c"]
    assert message in caplog.text


@pytest.mark.parametrize("broker", ["apache"], indirect=True)
def test_unread_messages_that_were_seen_and_are_gone_end_the_query(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    ids = traffic.send(topic, ["a", "b"])
    stream = make(startingOffsets="earliest")
    stream.begin()
    start = Offsets("mine", {TopicName.parse(topic): behind(ids[:1])})
    stream.latest(start, is_limited=False)
    broker.admin.call("POST", f"{path_of(topic)}/subscription/mine/skip_all")
    broker.admin.unload(topic)  # which moves it on, to the next ledger
    stream.latest(start, is_limited=False)
    until(lambda: is_trimmed(broker, topic, ids[0].ledger_id()))
    traffic.send(topic, ["c"])
    with pytest.raises(PulsarException, match="has lost messages, it seems: the subscription mine was moved to"):
        read(broker, stream.spans(start, stream.latest(start, is_limited=False)))


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_a_subscription_that_was_moved_loses_nothing_if_the_messages_exist(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    spans = moved(broker, traffic, topic, make)
    assert "the subscription mine was moved to" in spans[0].moved
    assert read(broker, spans) == [b"b", b"c"]


@pytest.mark.parametrize("option", ["subscriptionPrefix", "predefinedSubscription"])
def test_a_subscription_other_than_that_of_the_checkpoint_is_refused(
    broker: Broker, traffic: Traffic, topic: str, make: Make, option: str
) -> None:
    traffic.send(topic, ["a"])
    start = make(subscriptionPrefix="mine", startingOffsets="earliest").begin()
    stream = make(**{option: "another"})
    with pytest.raises(PulsarException, match=r"the subscription of this checkpoint is mine, .* name another"):
        stream.latest(start, is_limited=False)
    assert "another" not in broker.admin.stats(topic)["subscriptions"]


def test_a_subscription_in_use_with_another_type_is_an_error_that_names_it(
    broker: Broker, topic: str, make: Make
) -> None:
    with pulsar_actors.Client(broker.service_url) as client:
        theirs = client.subscribe(topic, "theirs", consumer_type=pulsar_actors.ConsumerType.Shared)
        with closing(theirs), pytest.raises(PulsarException, match=f"no subscription theirs on {topic}: "):
            make(predefinedSubscription="theirs").begin()


def test_a_starting_time_ahead_is_refused(broker: Broker, traffic: Traffic, topic: str, make: Make) -> None:
    traffic.send(topic, ["a"])
    with pytest.raises(PulsarException, match=f"startingTime of {topic} is .* ms ahead"):
        make(startingTime=int(time.time() * 1000) + 60_000).begin()


@pytest.mark.parametrize("more", [[], [b"c"]], ids=["alone", "before a message"])
@pytest.mark.parametrize(
    "said",
    [{"num_messages_in_batch": 1}, {"encryption_keys": [EncryptionKeys(key="k", value=b"v")]}],
    ids=["corrupt", "encrypted"],
)
def test_an_entry_at_the_starting_time_that_cannot_be_read_is_where_the_stream_begins(  # noqa: PLR0913 - fixtures
    broker: Broker, traffic: Traffic, topic: str, make: Make, said: dict[str, Any], more: list[bytes]
) -> None:
    before = traffic.send(topic, ["a"])
    with RawProducer(broker.service_url, topic) as raw:
        time_between = a_time_between()
        raw.send(b"?", **said)
        for payload in more:
            raw.send(payload)
    begun = make(startingTime=time_between).begin()
    assert begun.positions == {TopicName.parse(topic): behind(before)}


def test_a_stream_begins_at_the_end_if_only_first_chunks_were_sent_since_the_starting_time(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    traffic.send(topic, [])  # a raw producer looks up no topic
    now = int(time.time() * 1000)
    with RawProducer(broker.service_url, topic) as raw:
        raw.send(b"a", publish_time=now - 5000)  # a lost connection may take a reader back by a second
        raw.first("b")
        stream = make(startingTime=now)
        start = stream.begin()
        raw.second("b")
    assert read(broker, stream.spans(start, stream.latest(start, is_limited=False))) == [b"bB"]


def a_time_between() -> int:
    """Return a time after what was published before, and before what is published from now on."""
    time_between = int(time.time() * 1000) + 1
    while time.time() * 1000 <= time_between + 1:
        pass
    return time_between
