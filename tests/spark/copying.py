"""A driver for tests that kill it: `python copying.py '{"master": …, "queries": [{"read": {…}, …}], …}'`.

It copies topics until their ends, one query after the other: while a query starts, Spark may fail to serialize a task
of another one in the same process.
"""

import json
import os
import sys
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from pyspark.sql import SparkSession


def main() -> None:
    given = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(given["master"]).config("spark.ui.enabled", "false")
    for name, value in given.get("conf", {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for number, query in enumerate(given["queries"], 1):
        start(spark, query).awaitTermination()
        print(f"query {number} is copied", flush=True)  # noqa: T201 - a test looks for this line
    print("all is copied", flush=True)  # noqa: T201 - the test waits for this line
    spark.stop()


def start(spark: SparkSession, given: dict[str, Any]) -> Any:
    reader = spark.readStream.format("pulsar").options(**given["read"])
    writer = reader.load().selectExpr(given.get("column", "value")).writeStream.format("pulsar")
    return writer.options(**given["write"]).trigger(availableNow=True).start()


if __name__ == "__main__":
    main()
