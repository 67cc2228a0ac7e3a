"""Compare Spark's writes and reads with the client alone, and with the official client in Spark.

    python tests/benchmarks/pipeline.py [--messages 1000000] [--rounds 5]

It starts an Apache Pulsar and a Spark with two workers. All take turns, on topics of two partitions, with the same
settings. The client alone is one process, or two, each with a partition, as Spark's workers have. It prints medians
with the least and the greatest value, and the ratios. It needs Java 17, Maven, PySpark and `pulsar-client`.
"""

import argparse
import collections
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = str(ROOT)
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

from pulsar_actors.spark import sink  # noqa: E402
from tests.benchmarks.client_process import Worker  # noqa: E402
from tests.benchmarks.comparison import broker, machine, new_topic  # noqa: E402
from tests.benchmarks.contests import BEST, BEST_CONSUMER, HUNDRED  # noqa: E402
from tests.support.standalone import Standalone  # noqa: E402

T = TypeVar("T")

PARTITIONS: Final = 2
WARM_UP: Final = 1
SETTINGS: Final = {f"pulsar.producer.{name}": str(value) for name, value in BEST.items()}
READING: Final = {f"pulsar.reader.{name}": str(value) for name, value in BEST_CONSUMER.items()}


class Turns:
    """The turns of all, with so many messages; each returns its messages a second."""

    def __init__(self, standalone: Standalone, spark: SparkSession, workers: list[Worker], messages: int) -> None:
        self._url = standalone.service_url
        self._admin = standalone.admin
        self._spark = spark
        self._workers = workers
        self._messages = messages
        self._frame = spark.range(0, messages, 1, PARTITIONS).selectExpr(f"'{HUNDRED}' as value").cache()
        self._frame.count()
        self._full = self.write_alone_in_two()  # the same number in each partition

    def topic(self) -> str:
        topic = new_topic()
        self._admin.create_partitioned(topic, PARTITIONS)
        return topic

    def write_alone(self) -> None:
        self._ask(self._workers[0], do="produce", topics=[self.topic()], messages=self._messages)

    def write_alone_in_two(self) -> str:
        topic = self.topic()
        self._ask_both(lambda part: {"do": "produce", "topics": [f"{topic}-partition-{part}"]})
        return topic

    def write_format(self) -> None:
        options = {"service.url": self._url, "topic": self.topic(), **SETTINGS}
        self._frame.write.format("pulsar").mode("append").options(**options).save()

    def write_sink(self) -> None:
        self._send(self._frame)

    def write_sink_by_one_task(self) -> None:
        self._send(self._frame.coalesce(1))

    def _send(self, frame: DataFrame) -> None:
        frame.foreachPartition(sink(service_url=self._url, topic=self.topic(), **BEST))

    def count_rows(self) -> None:
        """Take rows, and send nothing: no sink is faster than that."""
        self._frame.foreachPartition(lambda rows: collections.deque(rows, 0))

    def write_official(self) -> None:
        self._frame.foreachPartition(official_sink(self._url, self.topic()))

    def read_alone(self) -> None:
        self._ask(self._workers[0], do="consume", mode="read", topic=self._full, messages=self._messages)

    def look_alone(self) -> None:
        self._ask(self._workers[0], do="consume", mode="look", topic=self._full, messages=self._messages)

    def read_alone_in_two(self) -> None:
        self._ask_both(lambda part: {"do": "consume", "mode": "read", "topic": f"{self._full}-partition-{part}"})

    def read_values(self) -> None:
        self._read("value binary")

    def read_all(self) -> None:
        self._read(None)

    def _read(self, schema: str | None) -> None:
        options = {"service.url": self._url, "topic": self._full, **READING}
        reader = self._spark.read.format("pulsar").options(**options)
        frame = (reader if schema is None else reader.schema(schema)).load()
        frame.write.format("noop").mode("overwrite").save()

    def _ask(self, worker: Worker, **ask: Any) -> None:
        settings = BEST if ask["do"] == "produce" else BEST_CONSUMER
        worker.ask(payload=HUNDRED, options=settings, **ask)

    def _ask_both(self, ask: Callable[[int], dict[str, Any]]) -> None:
        share = self._messages // PARTITIONS
        with ThreadPoolExecutor(PARTITIONS) as both:
            list(both.map(lambda part: self._ask(self._workers[part], messages=share, **ask(part)), range(PARTITIONS)))


def official_sink(url: str, topic: str) -> Callable[[Iterator[Any]], None]:
    """Return a function as a user of the official client writes it: it sends rows, and waits for the receipts."""

    def send(rows: Iterator[Any]) -> None:
        import pulsar  # noqa: PLC0415 - in the worker

        failures: list[Any] = []
        client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
        producer = client.create_producer(topic, **BEST)
        for row in rows:
            producer.send_async(
                row.value.encode(), lambda result, _: None if result == pulsar.Result.Ok else failures.append(result)
            )
        producer.flush()
        client.close()
        if failures:
            raise RuntimeError(f"{len(failures)} were not stored: {failures[0]}")

    return send


@contextlib.contextmanager
def session() -> Iterator[SparkSession]:
    """Start Spark with two workers."""
    builder = SparkSession.builder.master(f"local[{PARTITIONS}]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


WRITING: Final = {
    "the client alone": Turns.write_alone,
    "the client alone, two processes": Turns.write_alone_in_two,
    'format("pulsar")': Turns.write_format,
    "foreachPartition, sink": Turns.write_sink,
    "foreachPartition, sink, one task": Turns.write_sink_by_one_task,
    "foreachPartition, official client": Turns.write_official,
    "foreachPartition, rows only": Turns.count_rows,
}
READING_TURNS: Final = {
    "the client alone": Turns.read_alone,
    "the client alone, two processes": Turns.read_alone_in_two,
    'format("pulsar"), value': Turns.read_values,
    "the client alone, all of a message": Turns.look_alone,
    'format("pulsar"), all columns': Turns.read_all,
}


def measure(turns: T, everybody: Mapping[str, Callable[[T], object]], messages: int, rounds: int) -> None:
    """Let all take turns, and print a table."""
    rates: dict[str, list[float]] = {name: [] for name in everybody}
    for turn in range(WARM_UP + rounds):
        for name, take in everybody.items():
            began = time.perf_counter()
            take(turns)
            if turn >= WARM_UP:
                rates[name].append(messages / (time.perf_counter() - began))
    medians = {name: statistics.median(each) for name, each in rates.items()}
    for name, each in rates.items():
        ratios = "  ".join(f"{medians[name] / medians[other]:.2f}" for other in everybody)
        print(f"{name:36}{medians[name]:>10,.0f}/s  {min(each):>9,.0f} to {max(each):>9,.0f}  {ratios}", flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    with broker() as standalone, contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker("ours")) for _ in range(PARTITIONS)]
        for worker in workers:
            worker.connect(standalone.service_url)
        turns = Turns(standalone, stack.enter_context(session()), workers, given.messages)
        print(f"{machine()}\n{given.messages:,} messages of 100 bytes; ratios are to each of those listed, in order\n")
        for title, everybody in (("writing", WRITING), ("reading", READING_TURNS)):
            print(title)
            measure(turns, everybody, given.messages, given.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
