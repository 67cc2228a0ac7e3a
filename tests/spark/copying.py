"""A driver for tests that kill it: `python copying.py '{"master": …, "rounds": [[{"read": {…}, …}]], …}'`.

It copies topics until their ends, and prints a line after each round. The queries of a round run together, each in a
session of its own: Spark may fail to serialize a task while another query of its session starts. The rounds run one
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
    for number, together in enumerate(given["rounds"], 1):
        for query in [start(spark.newSession(), one) for one in together]:
            query.awaitTermination()
        print(f"round {number} is copied", flush=True)  # noqa: T201 - a test looks for this line
    print("all is copied", flush=True)  # noqa: T201 - the test waits for this line
    spark.stop()


def start(spark: SparkSession, given: dict[str, Any]) -> Any:
    reader = spark.readStream.format("pulsar").options(**given["read"])
    writer = reader.load().selectExpr(given.get("column", "value")).writeStream.format("pulsar")
    return writer.options(**given["write"]).trigger(availableNow=True).start()


if __name__ == "__main__":
    main()
