"""The pipeline that `demo` shows, and the process that it is.

It writes a table into a topic, has a stream copy that to another topic, and reads that as a table again.
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

ROWS: Final = 20_000


class Pipeline:
    """Whole numbers, which the stream doubles."""

    def __init__(self, spark: SparkSession, service_url: str, topic: str, subscription: str) -> None:
        self._spark = spark
        self._url = service_url
        self._topic = topic
        self._doubled = f"{topic}-doubled"
        self._subscription = subscription

    def run(self) -> int:
        """Say how it goes, and give 0 if all is there in the end, 1 if not."""
        _timed("written", "from a table to a topic", self._write)
        _timed("copied", "by a stream, doubled, to another topic", self._double)
        found = _timed("read", "from there, into a table", self._read)
        missing = set(range(0, 2 * ROWS, 2)) - set(found)
        if missing:
            print(f"missing      {len(missing):,} of {ROWS:,} rows")
            return 1
        if found.total() > ROWS:
            print(f"came twice   {found.total() - ROWS:,} rows")
        print(f"verified     all {ROWS:,}: none is missing")
        return 0

    def _write(self) -> None:
        numbers = self._spark.range(ROWS).selectExpr("cast(id as string) as value")
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
    begun = time.monotonic()
    came = do()
    seconds = time.monotonic() - begun
    print(f"{what:<12} {ROWS:,} rows in {seconds:.2f} s, {how}", flush=True)
    return came


def main(service_url: str, topic: str, subscription: str) -> int:
    """Start a Spark, and run it there."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        return Pipeline(spark, service_url, topic, subscription).run()
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
