"""A driver of its own, for tests that kill it: `python copying.py '{"master": …, "rounds": [[{"read": {…}, …}]], …}'`.

It copies topics, until there is no more, and prints a line when it has: the queries of a round together, and one round
after the other.
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
    for together in given["rounds"]:
        for query in [start(spark, one) for one in together]:
            query.awaitTermination()
    print("all is copied", flush=True)  # noqa: T201 - what the test waits for
    spark.stop()


def start(spark: SparkSession, given: dict[str, Any]) -> Any:
    reader = spark.readStream.format("pulsar").options(**given["read"])
    writer = reader.load().selectExpr(given.get("column", "value")).writeStream.format("pulsar")
    return writer.options(**given["write"]).trigger(availableNow=True).start()


if __name__ == "__main__":
    main()
