"""How one task reads its part, whatever is stored there."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from admin import path_of
from raw_producer import RawProducer
from subjects import Broker
from traffic import Traffic

from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.spark.beginnings import LOOKS
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.pool import Pool
from pulsar_actors.spark.position import EARLIEST, Position
from pulsar_actors.spark.reading import entries_in
from pulsar_actors.spark.span import Span
from pulsar_actors.wire.PulsarApi_pb2 import CommandMessage


class Part:
    """A topic whose entries are sent as no client does, and its parts."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.raw = RawProducer(broker.service_url, topic)
        self._broker = broker
        self._topic = topic

    @property
    def behind(self) -> Position:
        """The position behind all that was sent."""
        statistics = self._broker.admin.json("GET", f"{path_of(self._topic)}/internalStats")
        ledger, _, entry = statistics["lastConfirmedEntry"].partition(":")
        return Position(int(ledger), int(entry) + 1)

    def read(self, start: Position, end: Position, **options: str) -> list[bytes]:
        texts = {"service.url": self._broker.service_url, "topic": self._topic, **options}
        some = entries_in(Span(self._topic, start, end), ReadOptions.of(texts, streams=False))
        return [bytes(payload) for contents in some for payload in contents.payloads]


@pytest.fixture
def part(broker: Broker, traffic: Traffic, topic: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Part]:
    monkeypatch.setattr("pulsar_actors.spark.reading.POOL", Pool(idle=0))
    traffic.send(topic, [])  # so that the broker has it
    part = Part(broker, topic)
    with part.raw:
        yield part


def at(position: Position, entries: int) -> Position:
    return position._replace(entry_id=position.entry_id + entries)


def test_a_message_in_chunks_belongs_to_where_its_last_one_is(part: Part) -> None:
    part.raw.send(b"a")
    part.raw.first("b")
    middle = part.behind
    for single in (b"c", b"d", b"e"):
        part.raw.send(single)
    part.raw.second("b")
    part.raw.send(b"f")
    end = part.behind
    assert part.read(EARLIEST, end) == [b"a", b"c", b"d", b"e", b"bB", b"f"]
    assert part.read(EARLIEST, middle) == [b"a"]
    assert part.read(middle, end) == [b"c", b"d", b"e", b"bB", b"f"]
    assert part.read(middle, at(middle, 3)) == [b"c", b"d", b"e"]
    assert part.read(at(middle, 3), at(middle, 4)) == [b"bB"]
    assert part.read(at(middle, 4), end) == [b"f"]


def test_of_messages_whose_chunks_alternate_each_is_read_once(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"m{number}" for number in range(15)]
    for name in names:
        part.raw.first(name)
    middle = part.behind
    for name in names:
        part.raw.second(name)
    end = part.behind
    whole = [f"{name}{name.upper()}".encode() for name in names]
    with monkeypatch.context() as nobody_looks_back:
        nobody_looks_back.delattr("pulsar_actors.spark.reading.put_together")
        assert part.read(EARLIEST, end) == whole
    assert part.read(EARLIEST, middle) == []
    assert part.read(middle, end) == whole
    assert part.read(EARLIEST, at(middle, 4)) + part.read(at(middle, 4), end) == whole


def test_a_message_that_is_never_finished_is_not_waited_for(part: Part) -> None:
    part.raw.send(b"a")
    part.raw.first("b")
    assert part.read(EARLIEST, part.behind) == [b"a"]
    assert part.read(at(part.behind, -1), part.behind) == []


def test_a_last_chunk_that_was_sent_twice_brings_its_message_once(part: Part) -> None:
    part.raw.first("a")
    start = part.behind
    part.raw.second("a")
    part.raw.second("a")
    part.raw.send(b"b")
    assert part.read(start, part.behind) == [b"aA", b"b"]
    assert part.read(at(start, 1), part.behind) == [b"b"]


def test_a_message_that_was_published_long_before_is_looked_for_further_back(
    part: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_actors.spark.beginnings.LOOKS", (-60_000, 60_000, 60_000))  # first, in the future
    part.raw.first("a")
    start = part.behind
    part.raw.second("a")
    part.raw.send(b"b")
    assert part.read(start, part.behind) == [b"aA", b"b"]


def test_a_beginning_that_is_not_there_is_looked_for_a_few_times(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[Any] = []
    seek = "pulsar_actors.client.consuming.reader.Reader.seek"
    real = __import__("pulsar_actors").Reader.seek
    monkeypatch.setattr(seek, lambda self, where: (sought.append(where), real(self, where)))
    part.raw.second("a")
    part.raw.send(b"b")
    assert part.read(EARLIEST, part.behind) == [b"b"]
    assert len(sought) == len(LOOKS)


def test_what_cannot_be_read_fails_the_task_or_is_logged(part: Part, caplog: pytest.LogCaptureFixture) -> None:
    part.raw.send(b"a")
    part.raw.send(b"short", num_messages_in_batch=1)
    part.raw.send(b"c")
    part.raw.send(b"no batch", num_messages_in_batch=1)
    message = r"has lost messages, it seems: what is stored at \d+:1 cannot be read: BatchDeSerializeError"
    with pytest.raises(PulsarException, match=message):
        part.read(EARLIEST, part.behind)
    with caplog.at_level(logging.WARNING):
        assert part.read(EARLIEST, part.behind, failOnDataLoss="false") == [b"a", b"c"]
    assert "cannot be read" in caplog.text


def test_what_cannot_be_read_beyond_a_part_is_not_its_business(part: Part) -> None:
    part.raw.send(b"short", num_messages_in_batch=1)
    start = part.behind
    part.raw.send(b"b")
    end = part.behind
    part.raw.send(b"no batch", num_messages_in_batch=1)
    assert part.read(start, end) == [b"b"]


def test_what_was_to_be_read_and_is_not_there_fails_the_task_or_is_logged(
    part: Part, caplog: pytest.LogCaptureFixture
) -> None:
    part.raw.send(b"a")
    end = part.behind
    message = f"messages up to {at(end, 2).text(-1)} were to be read, and there is nothing from {end.text(-1)} on"
    with pytest.raises(PulsarException, match=message):
        part.read(EARLIEST, at(end, 2))
    assert part.read(EARLIEST, at(end, 2), failOnDataLoss="false") == [b"a"]
    assert message in caplog.text


def test_nothing_need_be_there_before_the_beginning_of_a_ledger(part: Part) -> None:
    part.raw.send(b"a")
    assert part.read(EARLIEST, Position(part.behind.ledger_id + 1, 0)) == [b"a"]


def test_a_broker_that_has_messages_and_sends_none_fails_the_task_in_time(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_actors.spark.reading.POOL", Pool(idle=0))
    with EmbeddedBroker() as broker:
        with Traffic(broker.service_url) as traffic:
            traffic.send(topic, ["a"])
        broker.faults.on(CommandMessage, times=None).drop()
        texts = {"service.url": broker.service_url, "topic": topic, "polltimeoutms": "700"}
        message = "has messages from earliest on, and none came within 700 ms, which is pollTimeoutMs"
        with pytest.raises(Timeout, match=message):
            list(entries_in(Span(topic, EARLIEST, Position(1, 1)), ReadOptions.of(texts, streams=False)))
