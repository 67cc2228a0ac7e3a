import threading
from typing import Any

import pytest

from pulsar_actors.exceptions import TopicNotFound
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.schema_versions import SchemaVersions
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetSchema, CommandGetSchemaResponse, Schema

TOPIC = "persistent://public/default/t"


class Broker:
    """Answers requests when it is told to."""

    def __init__(self, limit: int = 10) -> None:
        self.asked: list[CommandGetSchema] = []
        self.answers: list[SlimFuture[Any]] = []
        self.versions = SchemaVersions(self.ask, lambda answer, _: answer.result(5), limit=limit)

    def ask(self, command: Any) -> SlimFuture[Any]:
        self.asked.append(command)
        self.answers.append(SlimFuture())
        return self.answers[-1]

    def answer(self, data: bytes = b"{}") -> None:
        schema = Schema(name="", type=Schema.Avro, schema_data=data)
        version = self.asked[-1].schema_version
        self.answers[-1].set_result(CommandGetSchemaResponse(request_id=0, schema=schema, schema_version=version))


def until_asked(broker: Broker, times: int) -> None:
    limit = threading.Event()
    for _ in range(1000):
        if len(broker.asked) >= times:
            return
        limit.wait(0.005)
    raise AssertionError(broker.asked)


def got(broker: Broker, topic: str = TOPIC, version: bytes = b"1") -> tuple[threading.Thread, list[Any]]:
    outcome: list[Any] = []

    def get() -> None:
        try:
            outcome.append(broker.versions.get(topic, version))
        except TopicNotFound as error:
            outcome.append(error)

    thread = threading.Thread(target=get)
    thread.start()
    return thread, outcome


def test_a_version_is_asked_for_once_also_by_callers_at_the_same_time_and_of_all_partitions() -> None:
    broker = Broker()
    first, one = got(broker)
    until_asked(broker, 1)
    second, other = got(broker, f"{TOPIC}-partition-3")
    broker.answer()
    first.join()
    second.join()
    assert one == other
    assert broker.versions.get(TOPIC, b"1") is broker.versions.get(TOPIC, b"1")
    assert [(each.topic, each.schema_version) for each in broker.asked][:1] == [(TOPIC, b"1")]


def test_a_failure_reaches_those_who_wait_and_is_not_kept() -> None:
    broker = Broker()
    thread, outcome = got(broker)
    until_asked(broker, 1)
    broker.answers[-1].set_exception(TopicNotFound("TopicNotFound", "no"))
    thread.join()
    assert isinstance(outcome[0], TopicNotFound)
    thread, outcome = got(broker)
    until_asked(broker, 2)
    broker.answer(b"later")
    thread.join()
    assert outcome[0].data == b"later"


@pytest.mark.parametrize("version", [b"2", b"3"])
def test_the_oldest_are_dropped_beyond_the_limit(version: bytes) -> None:
    broker = Broker(limit=1)
    for number, each in enumerate([b"1", version, b"1"], 1):
        thread, _ = got(broker, version=each)
        until_asked(broker, number)
        broker.answer()
        thread.join()
    assert len(broker.asked) == 3
