"""A driver of its own, for tests that kill it: `python copying.py '{"master": …, "read": {…}, "write": {…}, …}'`.

It copies a topic, until there is no more, and prints a line when it has.
"""

import json
import os
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from pyspark.sql import SparkSession


def main() -> None:
    given = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(given["master"]).config("spark.ui.enabled", "false")
    for name, value in given.get("conf", {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    reader = spark.readStream.format("pulsar")
    for name, value in given["read"].items():
        reader = reader.option(name, value)
    writer = reader.load().selectExpr(*given.get("select", ["value"])).writeStream.format("pulsar")
    for name, value in given["write"].items():
        writer = writer.option(name, value)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    print("all is copied", flush=True)  # noqa: T201 - what the test waits for
    spark.stop()


if __name__ == "__main__":
    main()
