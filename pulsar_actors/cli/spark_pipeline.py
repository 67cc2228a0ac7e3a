"""The pipeline on Spark that `demo` runs in a separate process.

It writes a table to a topic, copies that topic to another one by a stream, and reads the copy as a table.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from pyspark.sql import SparkSession

T = TypeVar("T")

ROW_COUNT: Final = 20_000


class Pipeline:
    """A pipeline of whole numbers, which the stream doubles."""

    def __init__(self, spark: SparkSession, service_url: str, topic: str, subscription: str) -> None:
        self._spark = spark
        self._url = service_url
        self._topic = topic
        self._doubled = f"{topic}-doubled"
        self._subscription = subscription

    def run(self) -> int:
        """Run the pipeline and print its figures; the exit status is 1 if rows are missing."""
        _timed("written", "from a table to a topic", self._write)
        _timed("copied", "by a stream, doubled, to another topic", self._double)
        found = _timed("read", "from there, into a table", self._read)
        missing = set(range(0, 2 * ROW_COUNT, 2)) - set(found)
        if missing:
            print(f"missing      {len(missing):,} of {ROW_COUNT:,} rows")
            return 1
        if found.total() > ROW_COUNT:
            print(f"came twice   {found.total() - ROW_COUNT:,} rows")
        print(f"verified     all {ROW_COUNT:,}: none is missing")
        return 0

    def _write(self) -> None:
        numbers = self._spark.range(ROW_COUNT).selectExpr("cast(id as string) as value")
        numbers.write.format("pulsar").mode("append").option("service.url", self._url).save(topic=self._topic)

    def _double(self) -> None:
        with TemporaryDirectory() as checkpoint:
            numbers = self._spark.readStream.format("pulsar").schema("value string").option("service.url", self._url)
            query = (
                numbers.option("subscriptionPrefix", self._subscription)
                .load(topic=self._topic, startingOffsets="earliest")
                .selectExpr("cast(2 * cast(value as long) as string) as value")
                .writeStream.format("pulsar")
                .option("service.url", self._url)
                .option("topic", self._doubled)
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

    def _read(self) -> Counter[int]:
        doubled = self._spark.read.format("pulsar").schema("value string").option("service.url", self._url)
        return Counter(int(row.value) for row in doubled.load(topic=self._doubled).collect())


def _timed(what: str, how: str, do: Callable[[], T]) -> T:
    start = time.monotonic()
    result = do()
    seconds = time.monotonic() - start
    print(f"{what:<12} {ROW_COUNT:,} rows in {seconds:.2f} s, {how}", flush=True)
    return result


def main(service_url: str, topic: str, subscription: str) -> int:
    """Start Spark, and run the pipeline."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        return Pipeline(spark, service_url, topic, subscription).run()
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
