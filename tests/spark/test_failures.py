"""Failures of running jobs: workers that die, jobs that are cancelled, drivers that restart."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.spark import sink
from tests.spark.stream import slow
from tests.spark.traffic import Count, Traffic, until
from tests.support.subjects import Broker

ROWS = 100_000
ENDLESS = 1_000_000_000
MESSAGES = 40_000


def workers_of(spark: Any) -> list[int]:
    """The Python processes that run tasks, each a child of one of Spark's daemons."""
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(stat[1])
                if b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                    daemons.add(int(entry.name))
    ours = {os.getpid()}
    while found := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= found
    return [child for child, parent in parents.items() if child in ours and parent in daemons]


@contextlib.contextmanager
def running(job: Any) -> Iterator[list[BaseException]]:
    """Run something beside the test, and wait for its end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - it is what came of it
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield raised
    finally:
        thread.join(120)
        assert not thread.is_alive(), "the job does not end"


def stored(broker: Broker, topic: str) -> int:
    """How many messages a topic was sent; none, if nobody has made it yet."""
    with contextlib.suppress(Exception):
        return int(broker.admin.stats(topic)["msgInCounter"])
    return 0


def numbers(spark: Any, count: int) -> Any:
    return spark.range(0, count, 1, 2).selectExpr("cast(id as string) as value")


def failed_tasks(spark: Any, group: str) -> int:
    """How many tasks have failed of the jobs of a group."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numFailedTasks for stage in stages if stage)


def activate(spark: Any) -> None:
    """Make the session that of this thread: see docs/spark.md."""
    spark.createDataFrame([], "a int")


def by_format(frame: Any, broker: Broker, topic: str) -> None:
    activate(frame.sparkSession)
    frame.write.format("pulsar").mode("append").option("service.url", broker.service_url).option("topic", topic).save()


def by_sink(frame: Any, broker: Broker, topic: str) -> None:
    frame.foreachPartition(sink(service_url=broker.service_url, topic=topic))


def by_idempotent_format(frame: Any, broker: Broker, topic: str) -> None:
    activate(frame.sparkSession)
    writer = frame.write.format("pulsar").mode("append").option("service.url", broker.service_url)
    safe = writer.option("topic", topic).option("idempotent", "true").option("rowsRepeatInOrder", "true")
    safe.option("admin.url", broker.admin.web_url).save()


@pytest.mark.parametrize("write", [by_format, by_sink, by_idempotent_format])
def test_no_row_is_lost_when_a_worker_dies(  # noqa: PLR0913 - fixtures
    spark: Any, broker: Broker, traffic: Traffic, topic: str, count: Count, write: Any
) -> None:
    broker.admin.create(topic)
    broker.admin.set_deduplication(topic, on=write is by_idempotent_format)
    until(lambda: broker.admin.is_deduplicating(topic) is (write is by_idempotent_format))

    def job() -> None:
        spark.sparkContext.setJobGroup(topic, "")
        write(numbers(spark, ROWS).selectExpr(slow("{n} % 200 = 0")), broker, topic)

    with running(job) as raised:
        until(lambda: stored(broker, topic) > 1000)
        for worker in workers_of(spark):
            os.kill(worker, signal.SIGKILL)
    assert raised == []
    assert failed_tasks(spark, topic) > 0
    again = count(traffic.texts(topic), ROWS)
    assert again < (1 if write is by_idempotent_format else 2 * ROWS)


def test_no_message_of_a_stream_is_lost_when_a_worker_dies(  # noqa: PLR0913 - fixtures
    spark: Any, broker: Broker, traffic: Traffic, topic: str, tmp_path: Path, count: Count
) -> None:
    traffic.send(topic, [f"{number}" for number in range(MESSAGES)], per_batch=100)
    out = f"{topic}-out"
    broker.admin.create(out)
    into = {"service.url": broker.service_url, "topic": out}

    def job() -> None:
        activate(spark)
        copy(spark, topic, tmp_path / "checkpoint", into, slow("{n} % 100 = 0"))

    with running(job) as raised:
        until(lambda: raised or stored(broker, out) > 1000)
        assert stored(broker, out) < MESSAGES
        for worker in workers_of(spark):
            os.kill(worker, signal.SIGKILL)
    assert raised == []
    assert 0 < count(traffic.texts(out), MESSAGES) < MESSAGES, "what was sent before a worker died is sent again"


@pytest.mark.parametrize("write", [by_format, by_sink])
def test_a_job_that_is_cancelled_sends_no_more(spark: Any, broker: Broker, topic: str, write: Any) -> None:
    broker.admin.create(topic)

    def job() -> None:
        spark.sparkContext.setJobGroup(topic, "", interruptOnCancel=True)
        write(numbers(spark, ENDLESS), broker, topic)

    with running(job) as raised:
        until(lambda: stored(broker, topic) > 1000)
        spark.sparkContext.cancelJobGroup(topic)
    assert len(raised) == 1
    until(lambda: not broker.admin.stats(topic)["publishers"])
    sent = stored(broker, topic)
    assert numbers(spark, 1000).count() == 1000
    assert stored(broker, topic) == sent


def test_a_committed_batch_that_is_run_again_is_stored_twice_without_deduplication(  # noqa: PLR0913 - fixtures
    spark: Any, broker: Broker, traffic: Traffic, topic: str, tmp_path: Path, count: Count
) -> None:
    traffic.send(topic, [f"{number}" for number in range(500)], per_batch=7)
    safe, plain = f"{topic}-safe", f"{topic}-plain"
    broker.admin.create(safe)
    broker.admin.set_deduplication(safe, on=True)
    until(lambda: broker.admin.is_deduplicating(safe))
    idempotent = {"idempotent": "true", "rowsRepeatInOrder": "true", "admin.url": broker.admin.web_url}
    for out, options in ((plain, {}), (safe, idempotent)):
        checkpoint = tmp_path / out.rpartition("/")[2]
        for _ in range(2):
            copy(spark, topic, checkpoint, {"service.url": broker.service_url, "topic": out, **options})
            forget_last_commit(checkpoint / "commits")
    assert count(traffic.texts(safe), 500) == 0
    assert count(traffic.texts(plain), 500) == 500


def forget_last_commit(commits: Path) -> None:
    """Have a query that goes on believe that its last batch was not finished."""
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def copy(spark: Any, topic: str, checkpoint: Path, options: dict[str, str], column: str = "value") -> None:
    reader = spark.readStream.format("pulsar").option("service.url", options["service.url"]).option("topic", topic)
    reader = reader.option("startingOffsets", "earliest").option("subscriptionPrefix", checkpoint.name)
    writer = reader.load().selectExpr(column).writeStream.format("pulsar")
    for name, value in {**options, "checkpointLocation": str(checkpoint)}.items():
        writer = writer.option(name, value)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert query.exception() is None
