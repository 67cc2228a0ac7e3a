"""What only separate processes show: drivers and brokers that die and come back, and workers that race each other."""

from pathlib import Path
from typing import Any

import pytest
from driver import Driver
from spark_cluster import spark_cluster
from standalone import Standalone
from stream import slow
from subjects import Broker
from traffic import Count, Traffic, until

from pulsar_actors.spark.admission import IS_TOLD

NUMBERS = [f"{number}" for number in range(3000)]

on_a_real_broker = pytest.mark.parametrize("broker", ["apache"], indirect=True)


def options(broker: Broker, topic: str, checkpoint: str) -> dict[str, Any]:
    """A query of many small batches, where Spark can be told so."""
    limits = {"maxOffsetsPerTrigger": "1000", "admin.url": broker.admin.web_url} if IS_TOLD else {}
    read = {"service.url": broker.service_url, "topic": topic, "startingOffsets": "earliest", **limits}
    write = {"service.url": broker.service_url, "topic": f"{topic}-out", "checkpointLocation": checkpoint}
    return {"read": {**read, "subscriptionPrefix": "copies"}, "write": write}


def to_be_copied(
    broker: Broker, traffic: Traffic, topic: str, checkpoint: str, *, is_idempotent: bool
) -> dict[str, Any]:
    """Send it, and tell a query what to do; if asked to, so that the broker refuses what it has."""
    traffic.send(topic, NUMBERS, per_batch=100)
    copy = f"{topic}-out"
    broker.admin.create(copy)
    given = options(broker, topic, checkpoint)
    if is_idempotent:
        broker.admin.set_deduplication(copy, on=True)
        until(lambda: broker.admin.is_deduplicating(copy))
        given["write"] |= {"idempotent": "true", "rowsRepeatInOrder": "true", "admin.url": broker.admin.web_url}
    return given


def stored(broker: Broker, topic: str) -> int:
    return int(broker.admin.stats(topic)["msgInCounter"])


@on_a_real_broker
@pytest.mark.parametrize("is_idempotent", [False, True], ids=["plain", "idempotent"])
def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(  # noqa: PLR0913 - fixtures
    broker: Broker, traffic: Traffic, topic: str, checkpoint: str, count: Count, *, is_idempotent: bool
) -> None:
    given = to_be_copied(broker, traffic, topic, checkpoint, is_idempotent=is_idempotent)
    with Driver(master="local[2]", **given) as first:
        until(lambda: stored(broker, f"{topic}-out") > 1100)
        first.kill()
    with Driver(master="local[2]", **given) as second:
        second.finish()
    twice = count(traffic.texts(f"{topic}-out"), len(NUMBERS))
    assert twice <= (0 if is_idempotent else len(NUMBERS))


def test_an_apache_pulsar_that_is_restarted_in_the_middle_costs_no_message(
    tmp_path_factory: pytest.TempPathFactory, topic: str, checkpoint: str, count: Count
) -> None:
    standalone = Standalone(tmp_path_factory.mktemp("durable"), durable=True)
    standalone.start()
    try:
        broker = Broker(standalone.service_url, standalone.admin)
        with Traffic(broker.service_url) as traffic:
            traffic.send(topic, NUMBERS, per_batch=100)
        broker.admin.create(f"{topic}-out")
        with Driver(master="local[2,8]", **options(broker, topic, checkpoint)) as process:
            until(lambda: stored(broker, f"{topic}-out") > 1100)
            standalone.kill()
            standalone.start()
            process.finish()
        with Traffic(broker.service_url) as traffic:
            assert count(traffic.texts(f"{topic}-out"), len(NUMBERS)) <= len(NUMBERS)
    finally:
        standalone.kill()


@on_a_real_broker
@pytest.mark.parametrize("is_idempotent", [False, True], ids=["plain", "idempotent"])
def test_tasks_that_race_each_other_on_a_cluster_write_nothing_twice_if_asked_not_to(  # noqa: PLR0913 - fixtures
    broker: Broker, traffic: Traffic, topic: str, tmp_path: Path, count: Count, *, is_idempotent: bool
) -> None:
    given = to_be_copied(broker, traffic, topic, str(tmp_path / "checkpoint"), is_idempotent=is_idempotent)
    given["read"].pop("maxOffsetsPerTrigger", None)
    given["read"] |= {"minPartitions": "8", "admin.url": broker.admin.web_url}
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "10ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "1ms",
        "spark.executor.memory": "512m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10",  # so that rows are sent as they come
        "spark.buffer.size": "512",
    }
    select = [slow("{n} >= 2600", 20)]  # so that Spark has another task try these as well
    with spark_cluster(tmp_path) as master, Driver(master=master, conf=speculation, select=select, **given) as process:
        process.finish()
    again = count(traffic.texts(f"{topic}-out"), len(NUMBERS))
    assert (again == 0) is is_idempotent, "where nothing is refused, a second task shows"
