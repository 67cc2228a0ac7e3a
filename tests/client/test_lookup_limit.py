"""How many lookups are on their way at once, and what becomes of the others."""

import json
import threading
import time
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.machines import lookup
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
)
from tests.support.life import SOON, InThread, client_of, until
from tests.support.web_server import Asked, Said, web_server

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.shows("Topic lookup")]


def ask_for(client: pulsar.Client, count: int) -> list[InThread]:
    """Ask so many questions at once."""
    return [InThread(lambda number=number: client.get_topic_partitions(f"t{number}")) for number in range(count)]


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_lookups_than_allowed_are_on_their_way_and_each_that_ends_lets_another_begin(limit: int) -> None:
    at_once = [0]

    def count(seen: Any) -> None:
        if isinstance(seen.command, CommandPartitionedTopicMetadata):
            at_once.append(at_once[-1] + 1)
        elif isinstance(seen.command, CommandPartitionedTopicMetadataResponse):
            at_once.append(at_once[-1] - 1)

    with EmbeddedBroker() as broker:
        broker.faults.on(CommandPartitionedTopicMetadata, times=None).delay(0.02)
        broker.faults.control(count)
        with client_of(broker.service_url, concurrent_lookup_requests=limit) as client:
            for asking in ask_for(client, 12):
                asking.result()
    assert len(at_once) == 1 + 2 * 12
    assert max(at_once) == limit


@pytest.mark.parametrize("limit", [1, 3])
def test_over_http_no_more_than_allowed_are_on_their_way_either(limit: int) -> None:
    lock, at_once, most = threading.Lock(), 0, 0

    def answer(_: Asked) -> Said:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.01)  # what is being answered lasts a while
        with lock:
            at_once -= 1
        return Said(200, json.dumps({"partitions": 0}).encode())

    with web_server() as server:
        server.answer = answer
        with client_of(server.url, concurrent_lookup_requests=limit) as client:
            for asking in ask_for(client, 12):
                asking.result()
    assert len(server.asked) == 12
    assert 0 < most <= limit


@pytest.mark.parametrize("over_http", [False, True])
def test_whoever_comes_when_the_line_is_too_long_is_turned_away_at_once(
    monkeypatch: pytest.MonkeyPatch,
    over_http: bool,  # noqa: FBT001 - a case
) -> None:
    monkeypatch.setattr(lookup, "MAX_TURNS", 5)
    go_on = threading.Event()

    def answer(_: Asked) -> Said:
        assert go_on.wait(SOON)
        return Said(200, json.dumps({"partitions": 0}).encode())

    with EmbeddedBroker() as broker, web_server() as server:
        server.answer = answer
        stalled = broker.faults.on(CommandPartitionedTopicMetadata).stall()
        url = server.url if over_http else broker.service_url
        with client_of(url, concurrent_lookup_requests=2) as client:
            five = ask_for(client, 5)
            until(lambda: client.stats().pending_lookups == 5)
            late = InThread(lambda: client.get_topic_partitions("late"))
            assert isinstance(late.error(), pulsar.TooManyLookupRequestException)
            assert late.seconds < 1
            assert all(one.waits() for one in five)
            go_on.set()
            stalled.release()
            assert [len(one.result()) for one in five] == [1] * 5
            assert len(client.get_topic_partitions("later")) == 1
