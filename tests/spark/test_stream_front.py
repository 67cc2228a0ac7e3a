"""Where a stream begins, how far it may go, and what it notices that others do to its topics and its subscription."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from admin import path_of
from ports import free_ports
from subjects import Broker
from traffic import Traffic, until

import pulsar_actors
from pulsar_actors.exceptions import PulsarException, TopicNotFound
from pulsar_actors.spark import stream_front
from pulsar_actors.spark.admission import IS_TOLD
from pulsar_actors.spark.backlog import Backlog
from pulsar_actors.spark.offsets import Offsets
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.pool import Pool
from pulsar_actors.spark.position import EARLIEST, Position
from pulsar_actors.spark.reading import entries_in
from pulsar_actors.spark.stream_front import StreamFront
from pulsar_actors.wire.topic_name import TopicName

Make = Callable[..., StreamFront]


@pytest.fixture
def make(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make the front of a stream of the topic, which looks for partitions whenever it is asked."""
    monkeypatch.setattr(stream_front, "SURVEY", 0.0)
    monkeypatch.setattr("pulsar_actors.spark.reading.POOL", Pool(idle=0))
    made: list[StreamFront] = []

    def make(**options: Any) -> StreamFront:
        which = {} if {"topics", "topicsPattern"} & set(options) else {"topic": topic}
        given = {"service.url": broker.service_url, "subscriptionPrefix": "mine", **which, **options}
        texts = {name.replace("__", ".").lower(): str(value) for name, value in given.items()}
        made.append(StreamFront(ReadOptions.of(texts, streams=True)))
        return made[-1]

    yield make
    for front in made:
        front.close()


def read(broker: Broker, spans: list[Any], **options: str) -> list[bytes]:
    """Read what the tasks of a batch would."""
    given = {"service.url": broker.service_url, "topic": "any", **options}
    texts = {name.lower(): value for name, value in given.items()}
    some = [one for span in spans for one in entries_in(span, ReadOptions.of(texts, streams=False))]
    return [bytes(payload) for contents in some for payload in contents.payloads]


def behind(ids: list[Any]) -> Position:
    return Position(ids[-1].ledger_id(), ids[-1].entry_id() + 1)


def backlog(broker: Broker, topic: str, subscription: str = "mine") -> int:
    return int(broker.admin.stats(topic)["subscriptions"][subscription]["msgBacklog"])


# Where it begins.


def test_a_stream_begins_with_what_comes_and_the_rest_is_not_kept_for_it(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    ids = traffic.send(topic, ["a", "b"])
    assert make().begin() == Offsets("mine", {TopicName.parse(topic): behind(ids)})
    assert backlog(broker, topic) == 0


def test_a_stream_that_begins_with_the_first_message_has_all_kept_for_it(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    traffic.send(topic, ["a", "b"])
    assert make(startingOffsets="earliest").begin().positions == {TopicName.parse(topic): EARLIEST}
    assert backlog(broker, topic) == 2


def test_a_subscription_of_somebody_elses_says_where_a_stream_begins_unless_the_user_does(
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


def test_what_is_said_of_some_topics_leaves_the_others_where_the_subscription_is(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    ids = {}
    for number in (1, 2):
        with traffic.subscribed(f"{topic}-{number}") as consumer:
            ids[number] = traffic.send(f"{topic}-{number}", ["a", "b"])
            consumer.acknowledge(consumer.receive(20_000))
            until(lambda number=number: backlog(broker, f"{topic}-{number}", "traffic") == 1)
    said = json.dumps({f"{topic}-2": "earliest"})
    front = make(topicsPattern=f"{topic}-.*", predefinedSubscription="traffic", startingOffsets=said)
    positions = {TopicName.parse(f"{topic}-1"): behind(ids[1][:1]), TopicName.parse(f"{topic}-2"): EARLIEST}
    assert front.begin().positions == positions


def test_a_subscription_that_was_to_be_there_and_is_not_is_made_and_begins_with_the_first_message(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    traffic.send(topic, ["a"])
    front = make(predefinedSubscription="absent")
    start = front.begin()
    assert read(broker, front.spans(start, front.latest(start, is_limited=False))) == [b"a"]
    assert backlog(broker, topic, "absent") == 1


# How far it may go.


def test_a_stream_that_ends_goes_no_further_than_its_topics_went_when_it_was_told(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    first = traffic.send(f"{topic}-1", ["a"])
    front = make(topicsPattern=f"{topic}-.*", startingOffsets="earliest")
    front.aim()
    start = front.begin()
    traffic.send(f"{topic}-1", ["b"])
    traffic.send(f"{topic}-2", ["c"])
    assert front.latest(start, is_limited=False).positions == {TopicName.parse(f"{topic}-1"): behind(first)}


def test_how_far_it_could_go_is_told_in_entries_if_the_statistics_can_be_had(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    traffic.send(topic, ["a", "b", "c"])
    for options, told in (({}, None), ({"admin__url": broker.admin.web_url}, 3)):
        front = make(startingOffsets="earliest", **options)
        start = front.begin()
        front.latest(start, is_limited=False)
        assert front.outlook(start).get("entriesBehind") == told


def test_a_stream_goes_on_where_statistics_cannot_be_had_for_its_progress(
    broker: Broker, traffic: Traffic, topic: str, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    ids = traffic.send(topic, ["a"])
    front = make(startingOffsets="earliest", admin__url=f"http://127.0.0.1:{free_ports(1)[0]}")
    start = front.begin()
    front.latest(start, is_limited=False)
    assert front.outlook(start) == Offsets("mine", {TopicName.parse(topic): behind(ids)}).write()
    assert "how far the query is behind cannot be told: the internalStats of" in caplog.text


@pytest.mark.skipif(not IS_TOLD, reason="PySpark 4.1 tells a stream of no limits")
@pytest.mark.parametrize(("limit", "entries"), [({"maxOffsetsPerTrigger": 6}, 6), ({"maxBytesPerTrigger": 1}, 3)])
def test_a_limit_is_divided_by_how_much_the_partitions_have(  # noqa: PLR0913 - fixtures
    broker: Broker, traffic: Traffic, topic: str, make: Make, limit: dict[str, int], entries: int
) -> None:
    broker.admin.create_partitioned(topic, 3)
    for partition, count in ((0, 4), (1, 8), (2, 12)):
        traffic.send(f"{topic}-partition-{partition}", [f"{number}" for number in range(count)])
    front = make(startingOffsets="earliest", admin__url=broker.admin.web_url, **limit)
    start = front.begin()
    found = [read(broker, [span]) for span in front.spans(start, front.latest(start, is_limited=True))]
    assert sum(map(len, found)) == entries
    assert [len(one) for one in found] == ([1, 2, 3] if entries == 6 else [1, 1, 1])


# What it notices.


def test_a_topic_that_turns_up_is_read_from_its_first_message_on(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    traffic.send(f"{topic}-1", ["a"])
    front = make(topicsPattern=f"{topic}-.*")
    start = front.begin()
    traffic.send(f"{topic}-2", ["b", "c"])
    assert read(broker, front.spans(start, front.latest(start, is_limited=False))) == [b"b", b"c"]


def test_a_topic_that_was_waited_for_is_read_from_its_first_message_on(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    with pytest.raises(TopicNotFound, match=f"there is no topic {topic}: make it first"):
        make().begin()
    front = make(waitingForNonExistedTopic="true")
    start = front.begin()
    assert start.positions == front.latest(start, is_limited=False).positions == {}
    traffic.send(topic, ["a", "b"])
    assert read(broker, front.spans(start, front.latest(start, is_limited=False))) == [b"a", b"b"]


def is_there(broker: Broker, topic: str) -> bool:
    return topic in broker.admin.json("GET", "persistent/public/default")


@pytest.mark.parametrize("by_pattern", [False, True], ids=["named", "by pattern"])
def test_a_topic_that_has_gone_ends_the_query_or_is_logged(  # noqa: PLR0913 - fixtures
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
    assert lenient.outlook(left)["entriesBehind"] == 0
    assert read(broker, lenient.spans(start, end)) == [b"a"]
    assert f"{topic}-1 is gone" in caplog.text
    traffic.send(f"{topic}-1", ["b"])
    assert read(broker, lenient.spans(left, lenient.latest(left, is_limited=False))) == [b"b"]


def test_a_topic_that_has_gone_since_topics_were_listed_is_gone_as_well(
    broker: Broker, traffic: Traffic, topic: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        traffic.send(f"{topic}-{number}", ["a"])
    monkeypatch.setattr(stream_front, "SURVEY", 600.0)
    front = make(topics=f"{topic}-1,{topic}-2", startingOffsets="earliest", failOnDataLoss="false")
    start = front.begin()
    assert front._backlog is not None
    consumer = front._backlog._consumers[TopicName.parse(f"{topic}-1")]
    broker.admin.delete(f"{topic}-1")
    until(lambda: not consumer.is_open)
    assert list(front.latest(start, is_limited=False).positions) == [TopicName.parse(f"{topic}-2")]


def test_a_topic_that_was_deleted_is_not_made_again(broker: Broker, traffic: Traffic, topic: str) -> None:
    traffic.send(topic, ["a"])
    with closing(pulsar_actors.Client(broker.service_url)) as client:
        backlog = Backlog(client, "mine")
        backlog.watch([TopicName.parse(topic)])
        (consumer,) = backlog._consumers.values()
        broker.admin.delete(topic)
        until(lambda: not consumer.is_open)
        assert not is_there(broker, topic)


def test_a_topic_that_was_made_anew_ends_the_query_or_is_read_from_its_first_message_on(
    broker: Broker, traffic: Traffic, topic: str, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    later = traffic.send(topic, ["a", "b", "c"])
    start = Offsets("mine", {TopicName.parse(topic): behind(later)._replace(ledger_id=1 << 40)})
    with pytest.raises(PulsarException, match="it was truncated, or made anew"):
        make().latest(start, is_limited=False)
    front = make(failOnDataLoss="false")
    assert read(broker, front.spans(start, front.latest(start, is_limited=False))) == [b"a", b"b", b"c"]
    assert "it was truncated, or made anew" in caplog.text


def test_a_stream_that_has_read_all_of_a_ledger_goes_on_in_the_next(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    first = traffic.send(topic, ["a", "b"])
    front = make(startingOffsets="earliest")
    start = front.begin()
    middle = front.latest(start, is_limited=False)
    front.release(middle)
    broker.admin.unload(topic)  # which begins a ledger, and moves the subscription there
    second = traffic.send(topic, ["c"])
    assert second[0].ledger_id() > first[0].ledger_id()
    for later in (front, make()):
        end = later.latest(middle, is_limited=False)
        assert read(broker, later.spans(middle, end)) == [b"c"]


def moved(broker: Broker, traffic: Traffic, topic: str, make: Make) -> list[Any]:
    """Send two messages, of which the stream has the first, and one in a ledger behind; move the subscription there."""
    ids = traffic.send(topic, ["a", "b"])
    make(startingOffsets="earliest").begin()
    broker.admin.unload(topic)  # which begins a ledger
    traffic.send(topic, ["c"])
    broker.admin.call("POST", f"{path_of(topic)}/subscription/mine/skip_all")
    front = make()
    start = Offsets("mine", {TopicName.parse(topic): behind(ids[:1])})
    return list(front.spans(start, front.latest(start, is_limited=False)))


def first_ledger(broker: Broker, topic: str) -> int:
    """The oldest that is there: a broker lets go of one as a whole."""
    return int(broker.admin.json("GET", f"{path_of(topic)}/internalStats")["ledgers"][0]["ledgerId"])


@pytest.mark.parametrize("broker", ["apache"], indirect=True)
def test_a_subscription_that_was_moved_ends_the_query_or_is_logged_if_messages_are_gone(
    broker: Broker, traffic: Traffic, topic: str, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    spans = moved(broker, traffic, topic, make)
    until(lambda: first_ledger(broker, topic) > spans[0].start.ledger_id)
    message = f"{topic} has lost messages, it seems: the subscription mine was moved to"
    with pytest.raises(PulsarException, match=message):
        read(broker, spans)
    assert read(broker, spans, failOnDataLoss="false") == [b"c"]
    assert message in caplog.text


@pytest.mark.parametrize("broker", ["apache"], indirect=True)
def test_messages_that_were_seen_and_are_gone_end_the_query(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    ids = traffic.send(topic, ["a", "b"])
    front = make(startingOffsets="earliest")
    front.begin()
    start = Offsets("mine", {TopicName.parse(topic): behind(ids[:1])})
    front.latest(start, is_limited=False)
    broker.admin.call("POST", f"{path_of(topic)}/subscription/mine/skip_all")
    broker.admin.unload(topic)  # which moves it on, to the next ledger
    front.latest(start, is_limited=False)
    broker.admin.call("POST", f"{path_of(topic)}/trim")
    until(lambda: first_ledger(broker, topic) > ids[0].ledger_id())
    traffic.send(topic, ["c"])
    with pytest.raises(PulsarException, match="has lost messages, it seems: the subscription mine was moved to"):
        read(broker, front.spans(start, front.latest(start, is_limited=False)))


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_a_subscription_that_was_moved_does_no_harm_if_nothing_is_gone(
    broker: Broker, traffic: Traffic, topic: str, make: Make
) -> None:
    spans = moved(broker, traffic, topic, make)
    assert "the subscription mine was moved to" in spans[0].moved
    assert read(broker, spans) == [b"b", b"c"]


@pytest.mark.parametrize("option", ["subscriptionPrefix", "predefinedSubscription"])
def test_a_subscription_that_is_not_the_checkpoints_is_refused(
    broker: Broker, traffic: Traffic, topic: str, make: Make, option: str
) -> None:
    traffic.send(topic, ["a"])
    start = make(subscriptionPrefix="mine", startingOffsets="earliest").begin()
    front = make(**{option: "another"})
    with pytest.raises(PulsarException, match=r"the subscription of this checkpoint is mine, .* name another"):
        front.latest(start, is_limited=False)
    assert "another" not in broker.admin.stats(topic)["subscriptions"]


def test_a_subscription_of_another_type_is_named(broker: Broker, topic: str, make: Make) -> None:
    with pulsar_actors.Client(broker.service_url) as client:
        theirs = client.subscribe(topic, "theirs", consumer_type=pulsar_actors.ConsumerType.Shared)
        with closing(theirs), pytest.raises(PulsarException, match=f"no subscription theirs on {topic}: "):
            make(predefinedSubscription="theirs").begin()


def test_a_stream_does_not_begin_with_a_time_ahead(broker: Broker, traffic: Traffic, topic: str, make: Make) -> None:
    traffic.send(topic, ["a"])
    with pytest.raises(PulsarException, match=f"startingTime of {topic} is .* ms ahead"):
        make(startingTime=int(time.time() * 1000) + 60_000).begin()
