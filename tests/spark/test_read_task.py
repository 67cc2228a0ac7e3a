"""How one task reads its span, whatever is stored in the topic."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.runtime.receiver_queue import MAX_SKIPPED
from pulsar_actors.spark.client_pool import ClientPool
from pulsar_actors.spark.offset_bounds import AtTime
from pulsar_actors.spark.offsets import Span
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.planning import resolve
from pulsar_actors.spark.read_task import LOOKBACK_MS, entries_in
from pulsar_actors.wire.PulsarApi_pb2 import CommandMessage, EncryptionKeys
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition
from tests.spark.traffic import Traffic
from tests.support.admin import path_of
from tests.support.raw_producer import RawProducer
from tests.support.subjects import Broker


class Part:
    """A topic whose entries are sent as no client does, and its parts."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.raw = RawProducer(broker.service_url, topic)
        self._broker = broker
        self._topic = topic

    @property
    def behind(self) -> TopicPosition:
        """The position behind all that was sent."""
        statistics = self._broker.admin.json("GET", f"{path_of(self._topic)}/internalStats")
        ledger, _, entry = statistics["lastConfirmedEntry"].partition(":")
        return TopicPosition(int(ledger), int(entry) + 1)

    def read(self, start: TopicPosition, end: TopicPosition, **options: str) -> list[bytes]:
        texts = {"service.url": self._broker.service_url, "topic": self._topic, **options}
        some = entries_in(Span(self._topic, start, end), ReadOptions.parse(texts, is_stream=False))
        return [bytes(payload) for contents in some for payload in contents.payloads]


@pytest.fixture
def part(broker: Broker, traffic: Traffic, topic: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Part]:
    monkeypatch.setattr("pulsar_actors.spark.read_task.POOL", ClientPool(idle=0))
    traffic.send(topic, [])  # so that the broker has it
    part = Part(broker, topic)
    with part.raw:
        yield part


def at(position: TopicPosition, entries: int) -> TopicPosition:
    return position._replace(entry_id=position.entry_id + entries)


def test_a_message_in_chunks_belongs_to_the_span_of_its_last_chunk(part: Part) -> None:
    part.raw.send(b"a")
    part.raw.first("b")
    middle = part.behind
    for single in (b"c", b"d", b"e"):
        part.raw.send(single)
    part.raw.second("b")
    part.raw.send(b"f")
    end = part.behind
    assert part.read(TOPIC_START, end) == [b"a", b"c", b"d", b"e", b"bB", b"f"]
    assert part.read(TOPIC_START, middle) == [b"a"]
    assert part.read(middle, end) == [b"c", b"d", b"e", b"bB", b"f"]
    assert part.read(middle, at(middle, 3)) == [b"c", b"d", b"e"]
    assert part.read(at(middle, 3), at(middle, 4)) == [b"bB"]
    assert part.read(at(middle, 4), end) == [b"f"]


def test_messages_whose_chunks_alternate_are_read_once_each(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"m{number}" for number in range(15)]
    for name in names:
        part.raw.first(name)
    middle = part.behind
    for name in names:
        part.raw.second(name)
    end = part.behind
    whole = [f"{name}{name.upper()}".encode() for name in names]
    with monkeypatch.context() as nobody_looks_back:
        nobody_looks_back.delattr("pulsar_actors.spark.read_task.complete_chunked_messages")
        assert part.read(TOPIC_START, end) == whole
    assert part.read(TOPIC_START, middle) == []
    assert part.read(middle, end) == whole
    assert part.read(TOPIC_START, at(middle, 4)) + part.read(at(middle, 4), end) == whole


def test_a_message_whose_last_chunk_is_missing_is_not_waited_for(part: Part) -> None:
    part.raw.send(b"a")
    part.raw.first("b")
    assert part.read(TOPIC_START, part.behind) == [b"a"]
    assert part.read(at(part.behind, -1), part.behind) == []


def test_a_message_whose_last_chunk_was_sent_twice_is_read_once(part: Part) -> None:
    part.raw.first("a")
    start = part.behind
    part.raw.second("a")
    part.raw.second("a")
    part.raw.send(b"b")
    assert part.read(start, part.behind) == [b"aA", b"b"]
    assert part.read(at(start, 1), part.behind) == [b"b"]


def test_messages_that_share_a_uuid_are_told_apart_by_where_they_end(part: Part) -> None:
    for payloads in ((b"a", b"A"), (b"b", b"B"), (b"c", b"C")):
        for chunk_id, payload in enumerate(payloads):
            sizes = {"num_chunks_from_msg": 2, "total_chunk_msg_size": 2}
            part.raw.send(payload, is_chunk=True, uuid="producer-0", chunk_id=chunk_id, **sizes)
    end = part.behind
    whole = [b"aA", b"bB", b"cC"]
    assert part.read(TOPIC_START, end) == whole
    for cut in (at(end, -left) for left in range(1, 6)):
        assert part.read(TOPIC_START, cut) + part.read(cut, end) == whole


def test_the_chunks_of_a_message_published_long_before_are_found(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_actors.spark.read_task.LOOKBACK_MS", (-60_000, 60_000, 60_000))  # first, in the future
    part.raw.first("a")
    start = part.behind
    part.raw.second("a")
    part.raw.send(b"b")
    assert part.read(start, part.behind) == [b"aA", b"b"]


def test_first_chunks_that_are_gone_are_searched_for_a_few_times(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[Any] = []
    seek = "pulsar_actors.client.reader.Reader.seek"
    real = __import__("pulsar_actors").Reader.seek
    monkeypatch.setattr(seek, lambda self, where: (sought.append(where), real(self, where)))
    part.raw.second("a")
    part.raw.send(b"b")
    assert part.read(TOPIC_START, part.behind) == [b"b"]
    assert len(sought) == len(LOOKBACK_MS)


def test_an_entry_that_cannot_be_read_fails_the_task_or_is_logged(part: Part, caplog: pytest.LogCaptureFixture) -> None:
    part.raw.send(b"a")
    part.raw.send(b"short", num_messages_in_batch=1)
    part.raw.send(b"c")
    part.raw.send(b"no batch", num_messages_in_batch=1)
    message = r"has lost messages, it seems: what is stored at \d+:1 cannot be read: BatchDeSerializeError"
    with pytest.raises(PulsarException, match=message):
        part.read(TOPIC_START, part.behind)
    with caplog.at_level(logging.WARNING):
        assert part.read(TOPIC_START, part.behind, failOnDataLoss="false") == [b"a", b"c"]
    assert "cannot be read" in caplog.text


ENCRYPTED = {"encryption_keys": [EncryptionKeys(key="k", value=b"v")]}


def test_an_encrypted_entry_fails_the_task_or_is_logged(part: Part, caplog: pytest.LogCaptureFixture) -> None:
    for payload, said in ((b"a", {}), (b"?", ENCRYPTED), (b"c", {}), (b"?", ENCRYPTED)):
        part.raw.send(payload, **said)
    for start, number in ((TOPIC_START, 1), (at(part.behind, -1), 3)):  # the other is all that there is
        message = rf"what is stored at \d+:{number} cannot be read: it is encrypted, and Spark has no keys"
        with pytest.raises(PulsarException, match=message):
            part.read(start, part.behind)
    assert part.read(TOPIC_START, part.behind, failOnDataLoss="false") == [b"a", b"c"]
    assert f"what is stored at {at(part.behind, -1).text(-1)} cannot be read: it is encrypted" in caplog.text


def test_more_encrypted_entries_than_the_queue_has_room_for_do_not_hold_up_the_task(part: Part) -> None:
    for _ in range(5):
        part.raw.send(b"?", **ENCRYPTED)
    part.raw.send(b"f")
    options = {"pulsar.reader.receiverQueueSize": "2", "pollTimeoutMs": "2000"}
    with pytest.raises(PulsarException, match="it is encrypted, and Spark has no keys"):
        part.read(TOPIC_START, part.behind, **options)
    assert part.read(TOPIC_START, part.behind, failOnDataLoss="false", **options) == [b"f"]


def test_entries_that_are_skipped_in_time_begin_the_timeout_anew(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_actors.spark.read_task.POOL", ClientPool(idle=0))
    with EmbeddedBroker() as broker:
        with RawProducer(broker.service_url, topic) as raw:
            for number in range(6):
                raw.send(b"%d" % number, **({} if number == 5 else ENCRYPTED))
        broker.faults.on(CommandMessage, times=None).delay(0.5)
        texts = {"service.url": broker.service_url, "topic": topic, "polltimeoutms": "1500", "failondataloss": "false"}
        options = ReadOptions.parse({**texts, "pulsar.reader.receiverQueueSize": "1"}, is_stream=False)
        read = list(entries_in(Span(topic, TOPIC_START, TopicPosition(1, 6)), options))
        assert [bytes(one) for contents in read for one in contents.payloads] == [b"5"]


def test_however_many_entries_cannot_be_read_the_error_names_one_of_them(part: Part) -> None:
    for _ in range(MAX_SKIPPED + 1):
        part.raw.send(b"?", **ENCRYPTED)
    with pytest.raises(PulsarException, match=r"what is stored at \d+:1 cannot be read: it is encrypted"):
        part.read(TOPIC_START, part.behind)


def test_an_entry_outside_the_span_that_cannot_be_read_is_ignored(part: Part) -> None:
    part.raw.send(b"short", num_messages_in_batch=1)
    start = part.behind
    part.raw.send(b"b")
    end = part.behind
    part.raw.send(b"no batch", num_messages_in_batch=1)
    assert part.read(start, end) == [b"b"]


def test_missing_messages_fail_the_task_or_are_logged(part: Part, caplog: pytest.LogCaptureFixture) -> None:
    part.raw.send(b"a")
    end = part.behind
    message = f"messages up to {at(end, 2).text(-1)} were to be read, and there is nothing from {end.text(-1)} on"
    with pytest.raises(PulsarException, match=message):
        part.read(TOPIC_START, at(end, 2))
    assert part.read(TOPIC_START, at(end, 2), failOnDataLoss="false") == [b"a"]
    assert message in caplog.text


@pytest.mark.parametrize("sent_later", [0, 1, 4], ids=["at the end", "and beyond the end", "in the middle"])
def test_messages_that_expire_while_they_are_read_fail_the_task_or_are_logged(
    part: Part, broker: Broker, topic: str, sent_later: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A message TTL moves readers, too; here, an administrator does. The messages are still stored."""
    for number in range(10):
        part.raw.send(b"%d" % number)
    end = at(part.behind, max(0, sent_later - 1))

    def read(**options: str) -> Iterator[bytes]:
        texts = {"service.url": broker.service_url, "topic": topic, "pulsar.reader.receiverQueueSize": "1", **options}
        for contents in entries_in(Span(topic, TOPIC_START, end), ReadOptions.parse(texts, is_stream=False)):
            yield from map(bytes, contents.payloads)

    def interrupted(reading: Iterator[bytes]) -> list[bytes]:
        begun = [next(reading), next(reading)]
        broker.admin.skip_all(topic)
        for _ in range(sent_later):
            part.raw.send(b"later")
        return [*begun, *reading]

    with pytest.raises(PulsarException, match=r"the broker has skipped messages from \d+:\d up to \d+:9 while they"):
        interrupted(read())
    assert len(list(read())) == 10 + max(0, sent_later - 1), "all are read if nothing is skipped"
    assert len(interrupted(read(failOnDataLoss="false"))) < 10
    assert "the broker has skipped messages" in caplog.text


def test_nothing_is_missing_before_the_beginning_of_a_ledger(part: Part) -> None:
    part.raw.send(b"a")
    assert part.read(TOPIC_START, TopicPosition(part.behind.ledger_id + 1, 0)) == [b"a"]


def test_a_broker_that_does_not_send_the_message_of_a_starting_time_fails_the_planning(topic: str) -> None:
    with EmbeddedBroker() as broker, Client(broker.service_url) as client:
        with Traffic(broker.service_url) as traffic:
            traffic.send(topic, ["a"])
        broker.faults.on(CommandMessage, times=None).drop()
        texts = {"service.url": broker.service_url, "topic": topic, "polltimeoutms": "700"}
        options = ReadOptions.parse(texts, is_stream=False)
        message = r"has messages from 0 \(ms since 1970\) on, and none came within 700 ms, which is pollTimeoutMs"
        with pytest.raises(Timeout, match=message):
            resolve(client, TopicName.parse(topic), AtTime(0), options)


def test_a_broker_that_does_not_send_its_messages_fails_the_task(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_actors.spark.read_task.POOL", ClientPool(idle=0))
    with EmbeddedBroker() as broker:
        with Traffic(broker.service_url) as traffic:
            traffic.send(topic, ["a"])
        broker.faults.on(CommandMessage, times=None).drop()
        texts = {"service.url": broker.service_url, "topic": topic, "polltimeoutms": "700"}
        message = "has messages from earliest on, and none came within 700 ms, which is pollTimeoutMs"
        with pytest.raises(Timeout, match=message):
            list(entries_in(Span(topic, TOPIC_START, TopicPosition(1, 1)), ReadOptions.parse(texts, is_stream=False)))
