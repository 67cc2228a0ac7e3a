"""Measure how Spark's writes and reads grow with the workers of a cluster, and what its driver does for a batch.

    python tests/benchmarks/cluster.py [--workers 1 2 4] [--megabytes 500] [--rounds 5]

It starts an Apache Pulsar, and a Spark of a master and workers, each a process with one processor. On one machine the
workers share its processors with each other and with the broker. So besides the rate it prints how many processors were
busy, and the processor time of a gigabyte without the broker's: if that stays the same, more machines add their rate.

The second table is about the driver: the time that it spends on a micro-batch of a stream, by the number of partitions,
and by the number of messages if `maxOffsetsPerTrigger` makes it count them. It needs Java 17, Maven and PySpark.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = str(ROOT)
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

from tests.benchmarks.comparison import broker, machine, new_topic  # noqa: E402
from tests.benchmarks.contests import BEST, BEST_CONSUMER  # noqa: E402
from tests.spark.spark_cluster import spark_cluster  # noqa: E402
from tests.support.standalone import Standalone  # noqa: E402

PARTITIONS: Final = 4
WARM_UP: Final = 1
SIZES: Final = (100, 1000)
BATCHES: Final = 6
PARTS: Final = ("latestOffset", "queryPlanning", "addBatch", "triggerExecution")
TICKS: Final = os.sysconf("SC_CLK_TCK")
WRITING: Final = {f"pulsar.producer.{name}": str(value) for name, value in BEST.items()}
READING: Final = {f"pulsar.reader.{name}": str(value) for name, value in BEST_CONSUMER.items()}


class Turn(NamedTuple):
    """What one write or read took: seconds, seconds of all processors, and those of the broker."""

    wall: float
    busy: float
    broker: float


def busy_seconds() -> float:
    """Return the time that the processors of the machine have worked."""
    fields = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:7])) / TICKS


def process_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def timed(standalone: Standalone, take: Callable[[], object]) -> Turn:
    """Run something, and return what it took."""
    before = time.perf_counter(), busy_seconds(), process_seconds(standalone.pid)
    take()
    after = time.perf_counter(), busy_seconds(), process_seconds(standalone.pid)
    return Turn(*(end - begin for begin, end in zip(before, after, strict=True)))


@contextlib.contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """Start a driver."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "900m",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def growth(standalone: Standalone, count: int, megabytes: int, rounds: int) -> None:
    """Print the rates of a cluster of so many workers."""
    hosts = [f"127.0.0.{2 + number}" for number in range(count)]
    with (
        tempfile.TemporaryDirectory() as folder,
        spark_cluster(Path(folder), hosts) as master,
        session(master) as spark,
    ):
        for size in SIZES:
            rows = spark.range(0, megabytes * 1_000_000 // size, 1, PARTITIONS).selectExpr(
                f"repeat('x', {size}) as value"
            )
            pairs = [write_and_read(standalone, spark, rows) for _ in range(WARM_UP + rounds)][WARM_UP:]
            for name, turns in zip(("writes", "reads"), zip(*pairs, strict=True), strict=True):
                rates = [megabytes / one.wall for one in turns]
                own = statistics.median((one.busy - one.broker) / megabytes * 1000 for one in turns)
                busy = statistics.median(one.busy / one.wall for one in turns)
                rate = f"{statistics.median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})"
                print(f"| {count} | {name} | {size} | {rate} | {busy:.1f} | {own:.1f} |", flush=True)


def write_and_read(standalone: Standalone, spark: SparkSession, rows: DataFrame) -> tuple[Turn, Turn]:
    """Write rows to a new topic, read them, and return what each took."""
    topic = new_topic()
    standalone.admin.create_partitioned(topic, PARTITIONS)
    options = {"service.url": standalone.service_url, "topic": topic}
    write = rows.write.format("pulsar").mode("append").options(**options, **WRITING)
    read = spark.read.format("pulsar").schema("value binary").options(**options, **READING)
    return (
        timed(standalone, write.save),
        timed(standalone, read.load().write.format("noop").mode("overwrite").save),
    )


def driver(standalone: Standalone) -> None:
    """Print what a driver spends on a batch."""
    with session("local[2]") as spark:
        for partitions in (1, 10, 100, 1000):
            print(f"| {partitions} | | {milliseconds(standalone, spark, partitions, None)} |", flush=True)
        for messages in (1_000, 100_000, 1_000_000):
            print(f"| 1 | {messages:,} | {milliseconds(standalone, spark, 1, messages)} |", flush=True)


def milliseconds(standalone: Standalone, spark: SparkSession, partitions: int, limit: int | None) -> str:
    """Return what the batches of a stream took on the driver: to find their end, to plan them, and to run them."""
    topic = new_topic()
    standalone.admin.create_partitioned(topic, partitions)
    options = {"service.url": standalone.service_url, "topic": topic}

    def write(messages: int) -> None:
        rows = spark.range(0, messages, 1, 2).selectExpr("repeat('x', 100) as value")
        rows.write.format("pulsar").mode("append").options(**options, **WRITING).save()

    reader = spark.readStream.format("pulsar").schema("value binary").option("startingOffsets", "earliest")
    if limit is not None:
        write(limit * BATCHES)
        reader = reader.option("maxOffsetsPerTrigger", str(limit))
    with tempfile.TemporaryDirectory() as folder:
        writer = reader.options(**options).load().writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.start()
        for _ in range(BATCHES if limit is None else 0):
            write(partitions)
            query.processAllAvailable()
        query.processAllAvailable()
        took = [one.durationMs for one in query.recentProgress if one.numInputRows]
        query.stop()
    return " | ".join(f"{statistics.median(one.get(name, 0) for one in took[1:]):.0f}" for name in PARTS)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    with broker() as standalone:
        print(f"{machine()}\n")
        print(
            "| workers | | bytes of a message | MB/s | processors busy | processor seconds a GB, without the broker |"
        )
        print("|---|---|---|---|---|---|")
        for count in given.workers:
            growth(standalone, count, given.megabytes, given.rounds)
        print("\n| partitions | messages of a batch, counted | finds the end, ms | plans | runs the tasks | all |")
        print("|---|---|---|---|---|---|")
        driver(standalone)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
