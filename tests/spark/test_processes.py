"""Separate processes: drivers and brokers that are killed and restarted, and workers that race each other."""

import os
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.spark.pyspark_compat import HAS_ADMISSION_CONTROL
from tests.spark.driver import Driver
from tests.spark.spark_cluster import spark_cluster
from tests.spark.stream import slow
from tests.spark.traffic import Count, Traffic, until
from tests.support.standalone import Standalone
from tests.support.subjects import Broker

NUMBERS = [f"{number}" for number in range(3000)]

RESTART_MS = "120000"
"""Longer than an Apache Pulsar takes to start on a busy machine. Spark ends a query whose driver gets no answer."""

on_a_real_broker = pytest.mark.parametrize("broker", ["apache"], indirect=True)


def copy(broker: Broker, topic: str, out: str, checkpoint: Path, **read: str) -> dict[str, Any]:
    """A query of many small batches, where Spark can be told so."""
    limits = (
        {"maxOffsetsPerTrigger": "1000", "admin.url": broker.admin.web_url}
        if HAS_ADMISSION_CONTROL and not read
        else {}
    )
    given = {"service.url": broker.service_url, "startingOffsets": "earliest", "subscriptionPrefix": checkpoint.name}
    write = {"service.url": broker.service_url, "topic": out, "checkpointLocation": str(checkpoint)}
    return {"read": {**given, "topic": topic, **limits, **read}, "write": write}


def safe_copy(broker: Broker, topic: str, out: str, checkpoint: Path, **read: str) -> dict[str, Any]:
    """One that a broker can tell repeats of, which refuses them."""
    broker.admin.set_deduplication(out, on=True)
    until(lambda: broker.admin.is_deduplicating(out))
    given = copy(broker, topic, out, checkpoint, **read)
    given["write"] |= {"idempotent": "true", "rowsRepeatInOrder": "true", "admin.url": broker.admin.web_url}
    return given


def unending(driver: dict[str, Any]) -> dict[str, Any]:
    """The same driver, stuck at its last numbers: it cannot end before it is killed."""
    column = slow("{n} >= 2900", 60_000)
    return {**driver, "queries": [{"column": column, **query} for query in driver["queries"]]}


@pytest.fixture
def outs(broker: Broker, traffic: Traffic, topic: str) -> tuple[str, str]:
    """Two topics for copies of one that has all numbers."""
    traffic.send(topic, NUMBERS, per_batch=100)
    for out in (f"{topic}-plain", f"{topic}-safe"):
        broker.admin.create(out)
    return f"{topic}-plain", f"{topic}-safe"


def stored(broker: Broker, topic: str) -> int:
    return int(broker.admin.stats(topic)["msgInCounter"])


@on_a_real_broker
def test_a_driver_that_is_killed_continues_from_its_checkpoint(  # noqa: PLR0913 - fixtures
    broker: Broker, traffic: Traffic, topic: str, outs: tuple[str, str], tmp_path: Path, count: Count
) -> None:
    plain, safe = outs
    to_plain = {"master": "local[2]", "queries": [copy(broker, topic, plain, tmp_path / "plain")]}
    to_safe = {"master": "local[2]", "queries": [safe_copy(broker, topic, safe, tmp_path / "safe")]}
    with Driver(**unending(to_plain)) as first, Driver(**unending(to_safe)) as second:
        first.until(lambda: stored(broker, plain) > 1100)
        second.until(lambda: stored(broker, safe) > 1100)
        first.kill()
        second.kill()
    with Driver(**to_plain) as first, Driver(**to_safe) as second:
        first.finish()
        second.finish()
    assert count(traffic.texts(plain), len(NUMBERS)) <= len(NUMBERS)
    assert count(traffic.texts(safe), len(NUMBERS)) == 0


def test_no_message_is_lost_when_apache_pulsar_is_restarted(
    tmp_path_factory: pytest.TempPathFactory, topic: str, tmp_path: Path, count: Count
) -> None:
    standalone = Standalone(tmp_path_factory.mktemp("durable"), durable=True)
    standalone.start()
    out = f"{topic}-out"
    try:
        broker = Broker(standalone.service_url, standalone.admin)
        with Traffic(broker.service_url) as traffic:
            traffic.send(topic, NUMBERS, per_batch=100)
        broker.admin.create(out)
        query = copy(broker, topic, out, tmp_path / "plain", **{"pulsar.client.operationTimeoutMs": RESTART_MS})
        query["column"] = slow("{n} >= 2500")  # so that it has not ended when the broker is killed
        with Driver(master="local[2,8]", queries=[query]) as process:
            process.until(lambda: stored(broker, out) > 1100)
            standalone.kill()
            standalone.start()
            process.finish()
        with Traffic(broker.service_url) as traffic:
            assert count(traffic.texts(out), len(NUMBERS)) <= len(NUMBERS)
    finally:
        standalone.kill()


@on_a_real_broker
def test_speculative_tasks_on_a_cluster_write_nothing_twice_if_idempotent(  # noqa: PLR0913 - fixtures
    broker: Broker, traffic: Traffic, topic: str, outs: tuple[str, str], tmp_path: Path, count: Count
) -> None:
    plain, safe = outs
    read = {"minPartitions": "8", "admin.url": broker.admin.web_url}
    column = slow("{n} >= 2600", 20)  # so that Spark has another task try these as well
    one_by_one = [
        {"column": column, **copy(broker, topic, plain, tmp_path / "plain", **read)},
        {"column": column, **safe_copy(broker, topic, safe, tmp_path / "safe", **read)},
    ]
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "10ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "1ms",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10",  # so that rows are sent as they come
        "spark.buffer.size": "512",
    }
    with spark_cluster(tmp_path) as master, Driver(master=master, conf=speculation, queries=one_by_one) as process:
        process.finish()
    assert count(traffic.texts(plain), len(NUMBERS)) > 0, "where nothing is refused, a second task shows"
    assert count(traffic.texts(safe), len(NUMBERS)) == 0
