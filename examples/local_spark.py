"""A Spark session on this machine, for the Spark examples.

They need `pip install 'pulsar-actors[spark]'`, and Java 17.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def local_spark(name: str) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end of the block."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise the workers run the first `python3` on the path
    builder = SparkSession.builder.master("local[2]").appName(name).config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
