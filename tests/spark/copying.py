"""A driver for tests that kill it: `python copying.py '{"master": …, "rounds": [[{"read": {…}, …}]], …}'`.

It copies topics until their ends, and then prints a line. The queries of a round run together, and the rounds one after
the other.
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
    print("all is copied", flush=True)  # noqa: T201 - the test waits for this line
    spark.stop()


def start(spark: SparkSession, given: dict[str, Any]) -> Any:
    reader = spark.readStream.format("pulsar").options(**given["read"])
    writer = reader.load().selectExpr(given.get("column", "value")).writeStream.format("pulsar")
    return writer.options(**given["write"]).trigger(availableNow=True).start()


if __name__ == "__main__":
    main()
