"""Brokers that say anything of topics and partitions: no call outlives its time, and no actor dies of it."""

import logging
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message import Message

import pulsar_actors as pulsar
from pulsar_actors.wire.commands import encode_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConnect,
    CommandConnected,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandWatchTopicList,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)
from tests.support.life import SOON, FakeBroker, InThread, client_of, until
from tests.support.pretender import Broker

HERE = "persistent://public/default/"
EVERYTHING = re.compile("public/default/.*")
NONSENSE = ["", "persistent://a", "garbage://x/y/z", "a/b/c/d/e", "persistent://public//x", "\0"]


class Lister(Broker):
    """Lists topics, each with so many partitions, and lets them be watched."""

    def __init__(self, topics: list[str], partitions: int = 0) -> None:
        super().__init__()
        self.topics = topics
        self.partitions = partitions
        self.lists = 0
        self.stir = CommandWatchTopicUpdate(topics_hash="stirred")

    def begin(self, client: Any) -> None:
        threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def _right_answer(self, client: Any, command: Any) -> Message | None:
        number = getattr(command, "request_id", 0)
        match command:
            case CommandConnect():
                accepted = CommandConnected(server_version="fake", protocol_version=21)
                accepted.feature_flags.supports_topic_watchers = True
                return accepted
            case CommandGetTopicsOfNamespace():
                self.lists += 1
                return CommandGetTopicsOfNamespaceResponse(topics=self.topics, request_id=number)
            case CommandPartitionedTopicMetadata():
                done = CommandPartitionedTopicMetadataResponse.Success
                return CommandPartitionedTopicMetadataResponse(
                    partitions=self.partitions, response=done, request_id=number
                )
            case CommandWatchTopicList(watcher_id=watcher):
                client.sendall(
                    encode_command(
                        CommandWatchTopicListSuccess(
                            watcher_id=watcher, topic=self.topics, topics_hash="0", request_id=number
                        )
                    )
                )
                self.stir.watcher_id = watcher
                client.sendall(encode_command(self.stir))
                return None
        return super()._right_answer(client, command)


@pytest.fixture(autouse=True)
def no_bugs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [line.getMessage() for line in caplog.records if line.levelno >= logging.ERROR] == []


def test_what_is_listed_and_is_no_name_is_passed_over() -> None:
    lister = Lister([*NONSENSE, f"{HERE}a"])
    lister.stir.new_topics.extend(["nonsense://x", f"{HERE}b"])
    lister.stir.deleted_topics.append("nonsense://y")
    with FakeBroker(lister.begin) as fake, client_of(fake.service_url, operation_timeout_seconds=SOON) as client:
        consumer = InThread(lambda: client.subscribe(EVERYTHING, "s")).result()
        assert consumer.is_connected()
        lister.topics.append(f"{HERE}b")
        until(lambda: consumer.stats().permits == 2000, "a second member")


@pytest.mark.parametrize("topic", ["t", ["t", "u"], EVERYTHING], ids=["one", "several", "pattern"])
def test_more_partitions_than_there_can_be_are_refused_and_not_made(topic: Any) -> None:
    with FakeBroker(Lister([f"{HERE}t"], 2**32 - 1).begin) as fake, client_of(fake.service_url) as client:
        error = InThread(lambda: client.subscribe(topic, "s")).error()
        assert "4,294,967,295 partitions" in str(error)
        assert isinstance(error, pulsar.LookupError)
        if isinstance(topic, str):
            assert isinstance(InThread(lambda: client.create_producer(topic)).error(), pulsar.LookupError)
            assert isinstance(InThread(lambda: client.get_topic_partitions(topic)).error(), pulsar.LookupError)
