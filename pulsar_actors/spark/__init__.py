"""Pulsar for Spark: `format("pulsar")` for tables and streams, and a sink for `foreachPartition`.

What is here runs in three places: on the driver, where queries are planned; in a process beside it, where a stream
keeps its offsets; and in the workers, which read and write. Readers, writers and sinks are configuration, and travel
between these; clients stay where they were made.
"""

from importlib.util import find_spec

if find_spec("pyspark") is None or find_spec("pyarrow") is None:
    raise ImportError("pulsar_actors.spark needs PySpark and PyArrow: pip install 'pulsar-actors[spark]'")

from pyspark import __version__

if tuple(map(int, __version__.split(".")[:2])) < (4, 1):
    raise ImportError(f"pulsar_actors.spark needs PySpark 4.1 or later, and this is {__version__}")

from pulsar_actors.spark.data_source import PulsarDataSource
from pulsar_actors.spark.sink import sink

__all__ = ["PulsarDataSource", "sink"]
